#!/usr/bin/env bash
# lib.sh: builds the shared and the static library as they are shipped, into build/lib.
#
# Link-time optimisation over the whole library happens only when no rlib is made in the same call:
# cargo drops it for a crate that is rlib and cdylib at once. A target folder of its own keeps the
# two builds from overwriting each other's libcenote.so, which carries no hash in its name.
. "$(dirname "$0")/env.sh"
mkdir -p build/lib
cargo rustc --quiet --release --lib --crate-type cdylib,staticlib --target-dir target/ship
made=target/ship/release
if ! [ "$so" -nt $made/libcenote.so ]; then
    cp $made/libcenote.so "$so.debug"
    "${STRIP:-strip}" --strip-unneeded -o "$so" "$so.debug"
    ln -sf "$(basename "$so")" build/lib/libcenote.so
fi
if ! [ "$archive" -nt $made/libcenote.a ]; then
    scripts/staticlib.sh $made/libcenote.a "$archive"
fi
