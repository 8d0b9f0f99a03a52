#!/usr/bin/env bash
# gpu.sh: collects under dist/gpu what a GPU machine needs to run the GPU tests without Rust:
# the library, the command, the sources of the GPU tests (compiled there), the Python package.
# The fake driver is never among it: beside a real one it would answer for it.
. "$(dirname "$0")/env.sh"
most_bytes=$((60 * 1000 * 1000))
out=dist/gpu

scripts/lib.sh
scripts/cli.sh
rm -rf "$out"
mkdir -p "$out/lib" "$out/bin" "$out/include" "$out/tests"
cp "$so" "$out/lib/"
ln -s "$(basename "$so")" "$out/lib/libcenote.so"
"${STRIP:-strip}" -o "$out/bin/cenote" build/bin/cenote
cp -r include/. "$out/include/"
cp -r bindings/cpp/include/. "$out/include/"
cp -r tests/gpu "$out/tests/"
cp -r tests/data "$out/tests/" 2>/dev/null || say "gpu: no recorded traces yet"
for part in bindings/python/src bindings/torch scripts/record benches/peers; do
    [ -d "$part" ] && mkdir -p "$out/$(dirname "$part")" && cp -r "$part" "$out/$part"
done
# The conformance suite, to be run on the real driver.
conformance=$(cargo test --no-run --test conformance --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*conformance[^"]*\)".*/\1/p' | tail -n 1)
if [ -n "$conformance" ]; then
    mkdir -p "$out/tests/bin"
    "${STRIP:-strip}" -o "$out/tests/bin/conformance" "$conformance"
else
    say "gpu: the conformance suite does not build and stays behind"
fi
find "$out" \( -name __pycache__ -o -name '*.pyc' \) -prune -exec rm -rf {} +
if find "$out" -name 'libcuda*' -o -name '*fakecuda*' | grep -q .; then
    say "gpu: the fake driver must not travel" >&2
    exit 1
fi
bytes=$(du -sb "$out" | cut -f 1)
if [ "$bytes" -ge "$most_bytes" ]; then
    say "gpu: $out has $bytes bytes, not below $most_bytes" >&2
    exit 1
fi
say "gpu: $out is ready, $((bytes / 1000)) kB"
