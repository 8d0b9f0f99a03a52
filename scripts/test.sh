#!/usr/bin/env bash
# test.sh: everything that needs no GPU. Goes on after a failure; the last line is the count.
. "$(dirname "$0")/env.sh"
logs=build/test
rm -rf "$logs"
mkdir -p "$logs"
failed_stages=()

stage() { # NAME COMMAND…: the log is $logs/NAME.log
    local name=$1 started=$SECONDS
    shift
    if logged "$logs/$name.log" "$@"; then
        say "$name: done in $((SECONDS - started)) s"
    else
        failed_stages+=("$name")
    fi
}

# Every test but the conformance suite, which wants a driver.
cargo_tests() {
    local file name selected=(--lib --bins)
    for file in tests/*.rs tests/*/main.rs; do
        name=${file#tests/}
        name=${name%/main.rs}
        name=${name%.rs}
        [ "$name" = conformance ] || selected+=(--test "$name")
    done
    # The fake driver is an example, and some tests start processes on it.
    cargo build --features cli --example fakecuda &&
        CENOTE_SO=$so CENOTE_A=$archive cargo test --no-fail-fast --features cli \
            "${selected[@]}" -- --show-output &&
        cargo test --features cli --doc
}

# The conformance suite, the real cuda backend included, on a driver that is fake: found by the name
# of the real one, in a folder that only this process looks into. No driver is a failure here.
fake_driver_tests() {
    local path="$PWD/target/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    mkdir -p target/fakecuda &&
        cp target/debug/examples/libfakecuda.so target/fakecuda/libcuda.so.1 &&
        LD_LIBRARY_PATH=$path CENOTE_TEST_CUDA=1 FAKECUDA_DEVICES=2 \
            cargo test --features cli --test conformance -- --show-output
}

binding_tests() {
    CENOTE_LIBRARY=$PWD/$so bindings/run-tests.sh
}

# What a machine without GPUs cannot run.
not_here() {
    if ! [ -e /dev/nvidiactl ]; then
        say "skipped: tests/gpu (no NVIDIA GPU here; make gpu collects what a GPU machine needs)"
        say "skipped: BERT-large under PyTorch (no NVIDIA GPU here)"
    else
        say "skipped: tests/gpu and BERT-large (make gpu, then dist/gpu/tests/gpu/run.sh)"
    fi
    if [ "$(nproc)" -lt 16 ]; then
        say "skipped: figures with 16 threads (this machine has $(nproc) processors)"
    fi
}

python3 scripts/tally.py --self-test
stage library scripts/lib.sh
stage cargo cargo_tests
stage fake-driver fake_driver_tests
stage bindings binding_tests
stage bench-smoke scripts/bench.sh --smoke
not_here >"$logs/not-here.log"

status=0
python3 scripts/tally.py "$logs"/*.log || status=1
if [ ${#failed_stages[@]} -gt 0 ]; then
    say "failed: ${failed_stages[*]}"
    status=1
fi
exit $status
