#!/usr/bin/env bash
# Every test of the bindings; `make test` calls it.
#
#     bindings/run-tests.sh [PART…]      parts: generated cpp python go oneprocess (default: all)
#
# CENOTE_LIBRARY   the shared library (default: target/release/libcenote.so)
# PYTHON           an interpreter with pytest (default: .venv/bin/python, else python3)
# CENOTE_BUILD     a folder for what is built (default: target/bindings)
#
# Prints what it skips and why. Exit code 1 if a part failed.
set -uo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
work="${CENOTE_BUILD:-$root/target/bindings}"
CENOTE_LIBRARY="$(realpath -m "${CENOTE_LIBRARY:-$root/target/release/libcenote.so}")"
if [ -z "${PYTHON:-}" ]; then
    PYTHON="$root/.venv/bin/python"
    [ -x "$PYTHON" ] || PYTHON=python3
fi
export CENOTE_LIBRARY PYTHON
failed=() skipped=() passed=()

skip() { # PART REASON
    printf 'bindings: skipped %s: %s\n' "$1" "$2"
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
    go vet ./... && go test -count=1 ./... || return 1
    # Collections and pointer checks as often as they come.
    GOGC=1 GODEBUG=cgocheck=1 go test -count=1 . || return 1
    CGO_LDFLAGS="-L$library_dir" LD_LIBRARY_PATH="$library_dir" \
        go test -count=1 -tags cenote_link .
}

run_oneprocess() { "$root/tests/oneprocess/run.sh" "$work/oneprocess"; }

# Why a part cannot run here; empty if it can.
obstacle() {
    [ "$1" = generated ] || [ -e "$CENOTE_LIBRARY" ] || {
        echo "there is no $CENOTE_LIBRARY (cargo rustc --release --lib --crate-type cdylib)"
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

printf 'bindings: %d passed, %d failed, %d skipped\n' \
    "${#passed[@]}" "${#failed[@]}" "${#skipped[@]}"
[ ${#failed[@]} -eq 0 ] || { printf 'bindings: failed: %s\n' "${failed[*]}"; exit 1; }
[ ${#passed[@]} -gt 0 ]
