#!/usr/bin/env bash
# Every test of the bindings; `make test` calls it.
#
#     bindings/run-tests.sh [PART…]      parts: generated cpp python go oneprocess (default: all)
#
# CENOTE_LIBRARY   the shared library (default: build/lib/libcenote.so.0, which `make lib` builds)
# PYTHON           an interpreter with pytest (default: python3)
#
# Prints what it skips and why. Exit code 1 if a part failed.
set -uo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
work="$root/build/bindings"
CENOTE_LIBRARY="$(realpath -m "${CENOTE_LIBRARY:-$root/build/lib/libcenote.so.0}")"
PYTHON="${PYTHON:-python3}"
export CENOTE_LIBRARY PYTHON
failed=() skipped=() passed=()

skip() { # PART REASON
    printf 'bindings: skipped: %s (%s)\n' "$1" "$2"
    skipped+=("$1")
}

have() { command -v "$1" >/dev/null; }

has_pytest() { "$PYTHON" -c 'import pytest' 2>/dev/null; }

run_generated() {
    "$PYTHON" "$root/bindings/generate.py" --check || return 1
    # A table that differs must be noticed.
    sed 's/"number": 1001/"number": 1901/' "$root/include/cenote.abi.json" >"$work/other.abi.json"
    if "$PYTHON" "$root/bindings/generate.py" --check --abi "$work/other.abi.json" >/dev/null; then
        echo "generate.py --check accepted tables of another ABI"
        return 1
    fi
}

run_cpp() { "$root/bindings/cpp/tests/run.sh" "$work/cpp"; }

run_python() {
    (cd "$root/bindings/python" && PYTHONPATH=src "$PYTHON" -m pytest -q -rs -p no:cacheprovider)
}

# Runs go test, shows what failed, and says how many tests passed.
go_test() { # NAME ARGUMENT…
    local name="$1" log="$work/go_$1.log" status=0
    shift
    go test -count=1 -v "$@" >"$log" 2>&1 || status=1
    [ $status -eq 0 ] || grep -v '^=== ' "$log"
    printf 'go %s: %d passed, %d failed\n' "$name" "$(grep -c '^ *--- PASS' "$log")" \
        "$(grep -c '^ *--- FAIL' "$log")"
    sed -n 's/^ *--- SKIP: \([^ ]*\).*/go: skipped: \1/p' "$log"
    return $status
}

run_go() {
    local library_dir="$work/golink"
    mkdir -p "$library_dir"
    cp "$CENOTE_LIBRARY" "$library_dir/libcenote.so.0"
    ln -sf libcenote.so.0 "$library_dir/libcenote.so"
    cd "$root/bindings/go" || return 1
    if [ -n "$(gofmt -l .)" ]; then
        echo "gofmt would change: $(gofmt -l . | tr '\n' ' ')"
        return 1
    fi
    go vet ./... && go build -o "$work/" ./examples/... || return 1
    go_test opened . || return 1
    # Collections and pointer checks as often as they come.
    GOGC=1 GODEBUG=cgocheck=1 go_test collecting . || return 1
    CGO_LDFLAGS="-L$library_dir" LD_LIBRARY_PATH="$library_dir" \
        go_test linked -tags cenote_link .
}

run_oneprocess() { "$root/tests/oneprocess/run.sh" "$work/oneprocess"; }

# Why a part cannot run here; empty if it can.
obstacle() {
    [ "$1" = generated ] || [ -e "$CENOTE_LIBRARY" ] || {
        echo "there is no $CENOTE_LIBRARY: run make lib"
        return
    }
    case "$1" in
    cpp) have "${CXX:-c++}" || echo "no C++ compiler (c++) is installed" ;;
    go) have go || echo "go is not installed" ;;
    python) has_pytest || echo "pytest is not installed for $PYTHON" ;;
    oneprocess)
        has_pytest || { echo "pytest is not installed for $PYTHON"; return; }
        have "${CXX:-c++}" || echo "no C++ compiler (c++) is installed"
        ;;
    generated) have "$PYTHON" || echo "$PYTHON is not installed" ;;
    *) echo "there is no such part" ;;
    esac
}

mkdir -p "$work"
[ $# -gt 0 ] || set -- generated cpp python go oneprocess
for part in "$@"; do
    why="$(obstacle "$part")"
    if [ -n "$why" ]; then
        skip "$part" "$why"
        continue
    fi
    printf -- '---- bindings: %s\n' "$part"
    if ("run_$part"); then passed+=("$part"); else failed+=("$part"); fi
done

printf 'bindings: parts that ran: %d, that failed: %d (%s), that could not run: %d (%s)\n' \
    $((${#passed[@]} + ${#failed[@]})) ${#failed[@]} "${failed[*]:-none}" \
    ${#skipped[@]} "${skipped[*]:-none}"
[ ${#failed[@]} -eq 0 ] && [ ${#passed[@]} -gt 0 ]
