#!/usr/bin/env bash
# `make sanitize`: the tests of the rooms that may be `unsafe`, under AddressSanitizer.
# Stable Rust suffices: RUSTC_BOOTSTRAP lets it use the option. Leaks are not looked for:
# some tests forget things on purpose, as a process that crashes does.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"
host=$(rustc -vV | sed -n 's/^host: //p')
# A directory of its own: the flags would otherwise rebuild everything each time.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitize"
cargo test --target "$host" -p tabane-io --lib --tests
cargo test --target "$host" -p tabane-fabric --lib
cargo test --target "$host" -p tabane-lab --lib
