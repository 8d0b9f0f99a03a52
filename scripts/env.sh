#!/usr/bin/env bash
# Sourced by the other scripts: the root of the project, the tools that setup.sh found, short words.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/build/.venv/bin:$PATH:$HOME/.cargo/bin"
export PYTHONDONTWRITEBYTECODE=1
so=build/lib/libcenote.so.0
archive=build/lib/libcenote.a

say() { printf '%s\n' "$*"; }

# Runs a command with its output in a log; shows the end of the log if it fails.
logged() { # LOG COMMAND…
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    if ! "$@" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        say "failed: $* (whole log: $log)" >&2
        return 1
    fi
}
