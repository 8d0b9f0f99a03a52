#!/usr/bin/env bash
# staticlib.sh IN.a OUT.a: the static library that is shipped, with no global name but cenote's.
#
# rustc's archive carries the Rust standard library with dozens of global names, among them
# rust_eh_personality: beside a second Rust static library they clash or are silently shared. So the
# members that cenote needs become one object, in which every other name is local.
# Linked without section garbage collection: GNU ld drops weak references there, and std probes
# newer libc functions by weak references.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: $0 IN.a OUT.a" >&2; exit 2; }
in=$1 out=$2
table=$(dirname "$0")/../include/cenote.abi.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mapfile -t roots < <(sed -n 's/.*"name": "\(cenote_[a-z0-9_]*\)", "noun".*/-u\1/p' "$table")
[ ${#roots[@]} -gt 0 ] || { echo "$0: no symbols in $table" >&2; exit 1; }
# Groups are dissolved, or the linker would keep a group of another library in which a name that is
# local here is still expected.
"${LD:-ld}" -r --force-group-allocation "${roots[@]}" "$in" -o "$work/all.o"
# Compiler bitcode is of no use here, and makes some archivers fail.
"${OBJCOPY:-objcopy}" --strip-debug -R .llvmbc -R .llvmcmd --wildcard \
    --keep-global-symbol='cenote_*' "$work/all.o" "$work/cenote.o"
rm -f "$out"
"${AR:-ar}" crs "$out" "$work/cenote.o"
