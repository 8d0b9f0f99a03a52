#!/usr/bin/env bash
# One library in one process from Python, C++ and Go.
# Needs CENOTE_LIBRARY, PYTHON (an interpreter with pytest) and a folder for what it builds.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
work="$1"
mkdir -p "$work"
rm -f "$work"/liboneprocess_*.so

"${CXX:-c++}" -std=c++17 -shared -fPIC -Wall -Wextra -Werror -I"$root/include" \
    -I"$root/bindings/cpp/include" "$here/cpp.cpp" -ldl -o "$work/liboneprocess_cpp.so"

if command -v go >/dev/null; then
    (cd "$here/golib" && go build -buildmode=c-shared -o "$work/liboneprocess_go.so" .)
    rm -f "$work/liboneprocess_go.h"
else
    echo "oneprocess: skipped: the Go part (go is not installed)"
fi

ONEPROCESS_LIBS="$work" PYTHONPATH="$root/bindings/python/src" \
    "${PYTHON:-python3}" -m pytest -q -rs -p no:cacheprovider "$here/test_oneprocess.py"
