#!/usr/bin/env bash
# bench.sh [--smoke] [FILTER]: the benches. --smoke runs each once, unoptimised: they must run.
. "$(dirname "$0")/env.sh"
if [ "${1:-}" = --smoke ]; then
    export CENOTE_BENCH_SMOKE=1
    cargo bench --profile dev --features cli --bench pool -- --test
    say "benches: 1 passed, 0 failed"
else
    cargo bench --bench pool -- "$@"
fi
