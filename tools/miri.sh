#!/usr/bin/env bash
# `make miri`: the parts of the protocol that Miri can run: bytes and ranges, what is
# carried, the codecs. Not the rest, since ring's assembler is beyond it, and the protocol
# has no `unsafe` of its own; it is its dependencies that are watched (smallvec, and the
# standard library's collections).
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
TESTS='segment:: op:: wire::'
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo 'miri: not here; `rustup toolchain install nightly --component miri,rust-src` has it' >&2
    exit 1
fi
# The random tests draw the same numbers each time, but thousands of times as many
# steps as Miri does in an hour.
# shellcheck disable=SC2086
cargo +nightly miri test -p tabane-proto --lib -- $TESTS --skip random
