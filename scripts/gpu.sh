#!/usr/bin/env bash
# gpu.sh: collects under dist/gpu what a GPU machine needs to run the GPU tests without Rust:
# the library, the command, the tests (programs, and sources compiled there), the Python package.
# The fake driver is never among it: beside a real one it would answer for it.
. "$(dirname "$0")/env.sh"
most_bytes=$((60 * 1000 * 1000))
out=dist/gpu

scripts/lib.sh
scripts/cli.sh
rm -rf "$out"
mkdir -p "$out/lib" "$out/bin" "$out/include" "$out/tests/bin"
cp "$so" "$out/lib/"
ln -s "$(basename "$so")" "$out/lib/libcenote.so"
"${STRIP:-strip}" -o "$out/bin/cenote" build/bin/cenote
cp -r include/. bindings/cpp/include/. "$out/include/"

# The Rust tests that say something on a real device, as programs.
for test in conformance; do
    program=$(cargo test --features cli --test "$test" --no-run --message-format=json 2>/dev/null |
        python3 scripts/executable.py "$test")
    "${STRIP:-strip}" -o "$out/tests/bin/$test" "$program"
done
# What is compiled or interpreted there.
for part in tests/gpu tests/data bindings/python/src bindings/torch scripts/record benches/peers; do
    if [ -d "$part" ]; then
        mkdir -p "$out/$(dirname "$part")"
        cp -r "$part" "$out/$part"
    fi
done
cat >"$out/run.sh" <<'EOS'
#!/usr/bin/env bash
# Runs the GPU tests of this folder; see tests/gpu/run.sh for its parts.
here=$(cd "$(dirname "$0")" && pwd)
export CENOTE_DIST=$here CENOTE_GPU_WORK=${CENOTE_GPU_WORK:-$here/build}
exec "$here/tests/gpu/run.sh" "$@"
EOS
chmod +x "$out/run.sh"
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
