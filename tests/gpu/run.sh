#!/usr/bin/env bash
# Runs cenote's GPU tests on a machine with a CUDA GPU; no Rust is needed there.
#
#   tests/gpu/run.sh [PART…]        all parts, or those named; see README.md for what each proves
#
# Takes the library from CENOTE_LIBRARY, else from dist/gpu (make gpu), in which this script also
# works where it was copied to. A part that fails or runs out of time does not stop the others. Ends
# with a table; the exit code is the number of failed parts. Logs, figures and recordings go to
# $OUT, by default build/gpu/out.
set -u

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SELF=$HERE/$(basename "${BASH_SOURCE[0]}")
ROOT=$(cd "$HERE/../.." && pwd)
DIST=${CENOTE_DIST:-$ROOT/dist/gpu}
[ -d "$DIST" ] || DIST=$ROOT
WORK=${CENOTE_GPU_WORK:-$ROOT/build/gpu}
OUT=${OUT:-$WORK/out}

PARTS="build conformance integrity stream_reuse kernel_rate replay capture perf torch_mempool
torch_global record sanitize probe"

limit_of() {
    case $1 in
    build | torch_mempool | torch_global) echo 170 ;;
    record | sanitize) echo 150 ;;
    conformance | replay | perf) echo 130 ;;
    integrity) echo 110 ;;
    stream_reuse | capture | probe) echo 100 ;;
    *) echo 50 ;;
    esac
}

first_existing() {
    for f in "$@"; do
        if [ -e "$f" ]; then echo "$f" && return; fi
    done
}

LIBRARY=$(first_existing "${CENOTE_LIBRARY:-/nonexistent}" "$DIST/lib/libcenote.so.0" \
    "$DIST/libcenote.so.0" "$ROOT/build/lib/libcenote.so.0")
COMMAND=$(first_existing "$DIST/bin/cenote" "$DIST/cenote" "$ROOT/build/bin/cenote")
INCLUDE=$(dirname "$(first_existing "$DIST/include/cenote.h" "$ROOT/include/cenote.h")")
NVCC=$(first_existing "$(command -v nvcc)" /usr/local/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc \
    /opt/cuda/bin/nvcc)
CUDA=$(dirname "$(dirname "$(readlink -f "${NVCC:-/usr/local/cuda/bin/nvcc}")")")
export CENOTE_LIBRARY=$LIBRARY LD_LIBRARY_PATH=$WORK:$(dirname "$LIBRARY"):${LD_LIBRARY_PATH:-}
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# One figure out of a program's JSON.
figure() {
    python3 - "$1" "$2" <<'PY'
import json, sys
try:
    value = json.load(open(sys.argv[1]))["figures"][sys.argv[2]]["value"]
    print(f"{value:.6g}")
except (OSError, KeyError, ValueError):
    print("?")
PY
}

key() { echo "KEY $*"; }

# Runs a command under its own time limit and counts its failure.
step() {
    local seconds=$1
    shift
    timeout -k 5 "$seconds" "$@"
    local code=$?
    [ $code -eq 124 ] && echo "FAILED time limit of $seconds s: $*"
    [ $code -ne 0 ] && [ $code -ne 124 ] && echo "FAILED exit $code: $*"
    [ $code -eq 0 ]
}

compile() {
    local name=$1
    shift
    if ! "$@" >"$WORK/build-$name.log" 2>&1; then
        echo "FAILED to build $name:"
        tail -n 15 "$WORK/build-$name.log"
        touch "$WORK/build-failed"
    fi
}

part_build() {
    rm -f "$WORK/build-failed"
    if [ -z "$NVCC" ]; then
        echo "FAILED no nvcc: put CUDA's compiler on PATH"
        return 1
    fi
    local sm
    sm=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n1 | tr -d .)
    local nvcc=("$NVCC" "-arch=sm_${sm:-90}" -O2 -std=c++17 "-I$INCLUDE")
    # A link named libcenote.so for the linker; at run time the SONAME is looked for.
    ln -sf "$LIBRARY" "$WORK/libcenote.so"
    ln -sf "$LIBRARY" "$WORK/libcenote.so.0"
    local link=("-L$WORK" -lcenote)
    for p in integrity stream_reuse kernel_rate capture; do
        compile "$p" "${nvcc[@]}" "$HERE/$p.cu" -o "$WORK/$p" "${link[@]}" &
    done
    compile probe "${nvcc[@]}" "$HERE/probe.cu" -o "$WORK/probe" "-L$(driver_to_link)" -lcuda &
    compile perf "${nvcc[@]}" "$HERE/perf.cpp" -o "$WORK/perf" "${link[@]}" &
    compile peer_async "${nvcc[@]}" "$ROOT/benches/peers/peers.cpp" -o "$WORK/peer_async" &
    build_torch "${nvcc[@]}" &
    wait
    key "$("$NVCC" --version | grep -o 'release [0-9.]*'), sm_${sm:-90}," \
        "$(basename "$(readlink -f "$LIBRARY")") $(stat -Lc %s "$LIBRARY") bytes"
    [ ! -e "$WORK/build-failed" ]
}

# A folder with the driver under the name that the linker wants, for toolkits without its stub.
driver_to_link() {
    local driver
    driver=$(PATH=$PATH:/sbin ldconfig -p | sed -n 's/.*libcuda\.so\.1 (.*64.*) => //p' | head -n1)
    mkdir -p "$WORK/driver"
    [ -z "$driver" ] || ln -sf "$driver" "$WORK/driver/libcuda.so"
    echo "$WORK/driver"
}

build_torch() {
    local t
    t=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))' 2>/dev/null)
    if [ -z "$t" ]; then
        echo "skipped: no PyTorch here, so neither its shim nor its peer is built"
        return
    fi
    local flags=(-O2 "-I$t/include" "-I$t/include/torch/csrc/api/include" "-I$CUDA/include")
    compile shim sh -c "g++ -std=c++17 $(printf '%q ' "${flags[@]}") -shared -fPIC \
        $(printf '%q' "$ROOT/bindings/torch/shim.cpp") -o $WORK/libcenote_torch.so \
        -L$t/lib -lc10 -Wl,-rpath,$t/lib -ldl || \
        g++ -std=c++20 $(printf '%q ' "${flags[@]}") -shared -fPIC \
        $(printf '%q' "$ROOT/bindings/torch/shim.cpp") -o $WORK/libcenote_torch.so \
        -L$t/lib -lc10 -Wl,-rpath,$t/lib -ldl"
    # A peer for comparison: cenote's tests do not need it.
    local rt
    rt=$(dirname "$(first_existing "$CUDA"/lib64/libcudart.so "$CUDA"/lib/libcudart.so*)")
    g++ -std=c++20 "${flags[@]}" -DPEER_TORCH "$ROOT/benches/peers/peers.cpp" \
        -o "$WORK/peer_torch" "-L$t/lib" -lc10 -lc10_cuda "-L$rt" -lcudart -lpthread \
        "-Wl,-rpath,$t/lib" "-Wl,-rpath,$rt" >"$WORK/build-peer_torch.log" 2>&1 ||
        echo "skipped: the PyTorch peer does not build (build-peer_torch.log)"
}

# The Rust test binaries that make gpu collected: the conformance suite, here on the real driver.
part_conformance() {
    local ran=0 failed=0
    for t in "$DIST"/tests/bin/*; do
        [ -f "$t" ] && [ -x "$t" ] || continue
        ran=$((ran + 1))
        echo "== $(basename "$t")"
        CENOTE_TEST_CUDA=1 step 60 "$t" --test-threads=1 || failed=$((failed + 1))
    done
    if [ $ran -eq 0 ]; then
        key "skipped: no test binaries in tests/bin beside the library"
        return 0
    fi
    key "$ran binaries, $failed failed, $(grep -c '^test .* ok$' "$WORK/conformance.log") tests ok"
    return $failed
}

part_integrity() {
    step 100 "$WORK/integrity" --json "$WORK/integrity.json"
    local code=$?
    local j=$WORK/integrity.json
    key "$(figure "$j" operations) operations in $(figure "$j" time) s," \
        "$(figure "$j" 'wrong bytes') wrong bytes, $(figure "$j" 'tight takeovers') takeovers," \
        "$(figure "$j" 'streams destroyed while busy') busy streams destroyed"
    return $code
}

# Each case in a process of its own: one that ends badly leaves the others alone.
cases() {
    local program=$1 failed=0
    shift
    for c in "$@"; do
        step 30 "$WORK/$program" --only "$c" --json "$WORK/$program-$c.json" ||
            failed=$((failed + 1))
    done
    key "$# cases, $failed failed"
    return $failed
}

part_stream_reuse() {
    cd "$WORK" && cases stream_reuse c17 ptds c16 c18 c20 c29
}

part_capture() {
    cases capture global local relaxed told c21 beside
}

part_kernel_rate() {
    step 45 "$WORK/kernel_rate" --json "$WORK/kernel_rate.json"
    local code=$?
    local j=$WORK/kernel_rate.json
    key "$(figure "$j" 'share of the rate alone') of the rate alone," \
        "cudaMalloc $(figure "$j" 'share beside cudaMalloc and cudaFree')"
    return $code
}

part_replay() {
    local data
    data=$(first_existing "${CENOTE_TEST_DATA:-/nonexistent}/traces" "$ROOT/../shared/data/traces" \
        "$DIST/traces" "$DIST/tests/data" "$ROOT/tests/data")
    step 125 python3 "$HERE/replay_check.py" "$COMMAND" "$data" --json "$WORK/replay.json"
}

part_perf() {
    step 100 "$WORK/perf" --json "$WORK/perf.json"
    local code=$?
    echo "== peers, same workloads"
    for p in train frag speed; do
        [ -x "$WORK/peer_async" ] && timeout 10 "$WORK/peer_async" cudaMallocAsync $p
        [ -x "$WORK/peer_torch" ] && timeout 15 "$WORK/peer_torch" "torch native" $p
        [ -x "$WORK/peer_torch" ] && PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
            timeout 15 "$WORK/peer_torch" "torch expandable" $p
    done
    local j=$WORK/perf.json
    key "pair $(figure "$j" 'pair 512B registered named') ns registered," \
        "$(figure "$j" 'pair 512B raw default') raw;" \
        "16 threads $(figure "$j" 'threads pair 16 registered') Mpair/s;" \
        "held/live $(figure "$j" 'fragmentation held/live') $(figure "$j" 'training held/live')"
    return $code
}

torch_part() {
    local name=$1
    step 165 python3 "$HERE/bert_$name.py" --work "$WORK/bert" --shim "$WORK/libcenote_torch.so" \
        --json "$WORK/bert_$name.json"
    local code=$?
    key "$(grep -c . "$WORK/bert_$name.json" 2>/dev/null || echo 0) result file; see its table"
    return $code
}

part_torch_mempool() { torch_part mempool; }
part_torch_global() { torch_part global; }

part_record() {
    rm -rf "$WORK/traces"
    mkdir -p "$WORK/traces"
    step 140 python3 "$ROOT/scripts/record/record.py" --out "$WORK/traces"
    local code=$?
    tar -C "$WORK" -czf "$OUT/traces.tar.gz" traces
    key "$(find "$WORK/traces" -name '*.csv' | wc -l) traces," \
        "$(stat -c %s "$OUT/traces.tar.gz") bytes compressed"
    return $code
}

# Answers of the driver, for people to read: there is nothing that could be missed.
part_probe() {
    step 95 "$WORK/probe"
    local code=$?
    key "$(grep -c '^[a-g] ' "$WORK/probe.log") answers"
    return $code
}

part_sanitize() {
    local tool failed=0
    tool=$(first_existing "$(command -v compute-sanitizer)" "$CUDA/bin/compute-sanitizer" \
        /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer)
    if [ -z "$tool" ]; then
        key "skipped: compute-sanitizer is not installed"
        return 0
    fi
    local memcheck=("$tool" --tool memcheck --report-api-errors no --error-exitcode 86)
    step 100 "${memcheck[@]}" "$WORK/integrity" --short --seconds 80 || failed=$((failed + 1))
    step 40 "${memcheck[@]}" --track-stream-ordered-races all "$WORK/stream_reuse" --only c18 ||
        failed=$((failed + 1))
    key "$(grep -c 'ERROR SUMMARY: 0 errors' "$WORK/sanitize.log") of 2 runs without an error"
    return $failed
}

# What the console shows of a part: all of it where the figures are the result.
show() {
    local part=$1 code=$2 log=$WORK/$1.log
    case $part in
    perf | kernel_rate | torch_* | record | replay) grep -v '^KEY' "$log" | tail -n 90 ;;
    probe) grep -v '^KEY' "$log" ;;
    *)
        grep -v '^KEY' "$log" |
            grep -E 'MISSED|FAILED|skipped|panicked|error|ERROR|first wrong|^c29' | head -n 25
        [ "$code" -ne 0 ] && grep -v '^KEY' "$log" | tail -n 12
        ;;
    esac
    return 0
}

main() {
    mkdir -p "$WORK" "$OUT"
    if [ -z "$LIBRARY" ]; then
        echo "run.sh: no libcenote.so.0; run 'make gpu' or set CENOTE_LIBRARY" >&2
        exit 99
    fi
    local failed=0 table="" rows=()
    [ $# -gt 0 ] || set -- $PARTS
    for part in "$@"; do
        if ! declare -F "part_$part" >/dev/null; then
            echo "run.sh: there is no part '$part'; parts: $(echo $PARTS)" >&2
            exit 98
        fi
    done
    nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv,noheader
    for part in "$@"; do
        local start code status seconds figures
        start=$(date +%s.%N)
        timeout -k 5 "$(limit_of "$part")" bash "$SELF" __part "$part" >"$WORK/$part.log" 2>&1
        code=$?
        seconds=$(python3 -c "import time; print(f'{time.time() - $start:.1f}')")
        status=ok
        [ $code -eq 0 ] || { status=FAILED && failed=$((failed + 1)); }
        [ $code -ne 124 ] || status=TIME
        figures=$(grep '^KEY ' "$WORK/$part.log" | tail -n1 | cut -c5-)
        case $status$figures in okskipped*) status=skipped ;; esac
        echo "=== $part: $status, $seconds s"
        show "$part" $code
        table+=$(printf '%-14s %-7s %7s  %s' "$part" "$status" "$seconds" "$figures")$'\n'
        rows+=("$part|$status|$seconds|$figures")
    done
    printf '%s\n' "${rows[@]}" >"$WORK/summary.rows"
    python3 "$HERE/summary.py" "$WORK" "$OUT/summary.json"
    tar -C "$WORK" -czf "$OUT/logs.tar.gz" $(cd "$WORK" && ls -- *.log *.json 2>/dev/null)
    echo
    printf '%-14s %-7s %7s  %s\n' part status seconds 'key figures'
    printf '%s' "$table" | tee "$OUT/summary.txt"
    exit $failed
}

if [ "${1:-}" = __part ]; then
    "part_$2"
    exit
fi
main "$@"
