#!/usr/bin/env bash
# cli.sh: the command `cenote`, optimised, as build/bin/cenote.
. "$(dirname "$0")/env.sh"
mkdir -p build/bin
cargo build --quiet --release --features cli --bin cenote
cmp -s target/release/cenote build/bin/cenote || cp target/release/cenote build/bin/cenote
