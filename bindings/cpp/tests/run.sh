#!/usr/bin/env bash
# The C and C++ binding: every header alone, both ways of use, an installed package.
# Needs CENOTE_LIBRARY (the shared library) and a folder for what it builds as its argument.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../../.." && pwd)"
work="$1"
CC="${CC:-cc}" CXX="${CXX:-c++}"
strict=(-Wall -Wextra -Werror -pedantic)
include=(-I"$root/include" -I"$here/../include" -I"$here")
mkdir -p "$work/lib"
cp "$CENOTE_LIBRARY" "$work/lib/libcenote.so.0"
ln -sf libcenote.so.0 "$work/lib/libcenote.so"
linked=(-L"$work/lib" -lcenote -Wl,-rpath,"$work/lib")

say() { printf 'cpp: %s\n' "$*"; }

header_alone() { # HEADER COMPILER LANGUAGE STANDARD [FLAG…]
    local header="$1" compiler="$2" language="$3" standard="$4"
    shift 4
    printf '#include "%s"\n#include "%s"\nint used_%s(void);\nint used_%s(void) { return 0; }\n' \
        "$header" "$header" x x |
        "$compiler" -std="$standard" "${strict[@]}" "${include[@]}" "$@" -fsyntax-only \
            -x "$language" - || { say "$header does not stand alone as $standard"; exit 1; }
    alone=$((alone + 1))
}

headers() {
    alone=0
    local header standard
    for header in cenote.h cenote_dl.h; do
        for standard in c99 c11; do header_alone "$header" "$CC" c "$standard"; done
    done
    for header in cenote.h cenote_dl.h cenote.hpp \
        cenote/{base,buffer,memory_resource,pool,runtime,stream}.hpp; do
        for standard in c++17 c++20; do header_alone "$header" "$CXX" c++ "$standard"; done
    done
    header_alone cenote.hpp "$CXX" c++ c++17 -DCENOTE_DL
    header_alone cenote.hpp "$CXX" c++ c++17 -DCENOTE_DL -fno-exceptions -fno-rtti
    # A header that cannot stand alone must be noticed.
    printf 'static missing_type unusable;\n' >"$work/bad.h"
    if (header_alone "$work/bad.h" "$CC" c c99) >/dev/null 2>&1; then
        say "a bad header was accepted"
        exit 1
    fi
    say "headers: $alone passed, 0 failed"
}

behaviour() {
    "$CXX" -std=c++17 -g "${strict[@]}" "${include[@]}" "$here/behaviour.cpp" "${linked[@]}" \
        -pthread -o "$work/behaviour"
    "$work/behaviour"
    "$CXX" -std=c++20 -g "${strict[@]}" "${include[@]}" -DCENOTE_DL -fsanitize=address,undefined \
        -fno-sanitize-recover=all \
        "$here/behaviour.cpp" -ldl -pthread -o "$work/behaviour_asan" 2>"$work/asan.log" || {
        say "skipped: behaviour under AddressSanitizer ($(head -1 "$work/asan.log"))"
        return 0
    }
    ASAN_OPTIONS=detect_leaks=0 "$work/behaviour_asan"
}

other_builds() {
    "$CXX" -std=c++17 "${strict[@]}" "${include[@]}" -fno-exceptions -fno-rtti "$here/quiet.cpp" \
        "${linked[@]}" -o "$work/quiet"
    "$work/quiet"
    "$CXX" -std=c++17 "${strict[@]}" "${include[@]}" "$here"/two_files_{a,b}.cpp "${linked[@]}" \
        -o "$work/two_files"
    "$work/two_files"
}

# C28: objects that outlive main, in whatever order they go: exit code 0 and not a word.
exits() {
    local way said
    "$CXX" -std=c++17 "${strict[@]}" "${include[@]}" "$here/exit.cpp" "${linked[@]}" -pthread \
        -o "$work/exit_linked"
    "$CXX" -std=c++17 "${strict[@]}" "${include[@]}" -DCENOTE_DL "$here/exit.cpp" -ldl -pthread \
        -o "$work/exit_opened"
    for way in linked opened; do
        for _ in $(seq 20); do
            said="$("$work/exit_$way" 2>&1)" || { say "exit: code $? ($way)"; exit 1; }
            [ -z "$said" ] || { say "exit: said '$said' ($way)"; exit 1; }
        done
    done
    say "exit: 2 passed, 0 failed"
}

opened() {
    "$CC" -std=c99 "${strict[@]}" "${include[@]}" "$here/dl.c" -ldl -o "$work/dl"
    "$work/dl" ok
    CENOTE_LIBRARY=/nonexistent/libcenote.so.0 "$work/dl" absent
    printf 'unsigned cenote_abi_version(void) { return 4000000000u; }\n' >"$work/other.c"
    "$CC" -shared -fPIC "$work/other.c" -o "$work/other.so"
    CENOTE_LIBRARY="$work/other.so" "$work/dl" abi
    printf 'unsigned cenote_abi_version(void) { return 1; }\n' >"$work/old.c"
    "$CC" -shared -fPIC "$work/old.c" -o "$work/old.so"
    CENOTE_LIBRARY="$work/old.so" "$work/dl" abi
    "$CXX" -std=c++17 "${strict[@]}" "${include[@]}" -DCENOTE_DL "$here/absent.cpp" -ldl \
        -o "$work/absent"
    CENOTE_LIBRARY=/nonexistent/libcenote.so.0 "$work/absent"
}

package() {
    if ! command -v cmake >/dev/null; then
        say "skipped: the installed package (cmake is not installed)"
        return 0
    fi
    local quiet=(-DCMAKE_BUILD_TYPE=Release --log-level=WARNING)
    cmake "${quiet[@]}" -S "$here/.." -B "$work/install" -DCMAKE_INSTALL_PREFIX="$work/prefix" \
        -DCENOTE_LIBRARY_FILE="$CENOTE_LIBRARY" >/dev/null
    cmake --install "$work/install" >/dev/null
    cmake "${quiet[@]}" -S "$here/package" -B "$work/package" -DCMAKE_PREFIX_PATH="$work/prefix" \
        >/dev/null
    cmake --build "$work/package" >/dev/null
    "$work/package/basic" >/dev/null
    "$work/package/dl" >/dev/null
    say "CMake package: 2 passed, 0 failed"
    pkg_config
}

pkg_config() {
    if ! command -v pkg-config >/dev/null; then
        say "skipped: pkg-config (it is not installed)"
        return 0
    fi
    local path flags
    path="$(dirname "$(find "$work/prefix" -name cenote.pc)")"
    read -ra flags <<<"$(PKG_CONFIG_PATH="$path" pkg-config --cflags --libs cenote)"
    "$CXX" -std=c++17 "$here/../examples/basic.cpp" "${flags[@]}" -o "$work/basic"
    LD_LIBRARY_PATH="$(dirname "$path")" "$work/basic" >/dev/null
    say "pkg-config: 1 passed, 0 failed"
}

headers
behaviour
other_builds
exits
opened
package
