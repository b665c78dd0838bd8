#!/usr/bin/env bash
# `make sanitize`: the tests of the rooms that may be `unsafe`, under AddressSanitizer
# (memory errors and leaks). Stable Rust suffices: RUSTC_BOOTSTRAP lets it use the option.
# What a program run by a test does is not watched, only the tests' own process.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"
host=$(rustc -vV | sed -n 's/^host: //p')
# A directory of its own: the flags would otherwise rebuild everything each time.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitize"
cargo test --target "$host" -p tabane-io -p tabane-engine --lib --tests
cargo test --target "$host" -p tabane-lab --lib
