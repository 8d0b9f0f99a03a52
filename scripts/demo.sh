#!/usr/bin/env bash
# demo.sh: recorded training traces through the allocator, from the command line, C++, Python, Go.
# Ends with a summary table and the path of the report.
. "$(dirname "$0")/env.sh"
out=build/demo
report=$out/report.html
mkdir -p "$out"
export CENOTE_BACKEND=${CENOTE_BACKEND:-host} CENOTE_LIBRARY=$PWD/$so
started=$SECONDS

shopt -s nullglob
traces=(tests/data/traces/*.cenotetrace)
[ ${#traces[@]} -gt 0 ] || { say "demo: no trace under tests/data/traces" >&2; exit 1; }

say "demo: building the library and the command (the first time takes minutes)"
scripts/lib.sh
scripts/cli.sh

say "demo: replaying ${#traces[@]} recorded traces"
build/bin/cenote replay "${traces[@]}" --passes 2 --json --report "$report" >"$out/cli.json"

# The same operations from every language: one trace as plain lines that a beginner can read.
first=${traces[0]}
ops=$out/$(basename "$first" .cenotetrace).ops
build/bin/cenote trace convert "$first" "$ops" --to ops >"$out/convert.txt"

say "demo: $(basename "$first") from C++, Python and Go"
if ! [ "$out/replay" -nt bindings/cpp/examples/replay.cpp ]; then
    "${CXX:-c++}" -std=c++17 -O2 -Iinclude -Ibindings/cpp/include -DCENOTE_DL \
        bindings/cpp/examples/replay.cpp -ldl -o "$out/replay"
fi
"$out/replay" "$ops" | tee "$out/cpp.txt"
PYTHONPATH=bindings/python/src python3 bindings/python/examples/replay.py "$ops" |
    tee "$out/python.txt"
(cd bindings/go && go build -o "../../$out/replay-go" ./examples/replay)
"$out/replay-go" "$ops" | tee "$out/go.txt"

python3 scripts/demo_table.py "$out/cli.json"
say "demo: $((SECONDS - started)) s; open $PWD/$report"
