#!/usr/bin/env bash
# Makes sure that Rust has its library for TARGET, through rustup if it is missing.
#
#   tools/rust-target.sh TARGET
set -euo pipefail
target=$1
[ ! -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] || exit 0
if ! command -v rustup >/dev/null || ! rustup target add "$target"; then
    echo "Rust's library for $target is not here and cannot be fetched" >&2
    exit 1
fi
