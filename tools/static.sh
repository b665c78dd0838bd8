#!/usr/bin/env bash
# `make static`: the program as one file without any library, and the proof: it
# runs in a directory where nothing else is.
#
#   STATIC_TARGET=x86_64-unknown-linux-musl   the Rust target; empty: this
#       machine's own, with glibc linked in
set -euo pipefail
cd "$(dirname "$0")/.."
target=${STATIC_TARGET-}
build=(cargo build --release -p tabane)
flags='-C target-feature=+crt-static'
if [ -n "$target" ]; then
    library=$(rustc --print sysroot)/lib/rustlib/$target/lib
    if [ ! -d "$library" ]; then
        if ! command -v rustup >/dev/null || ! rustup target add "$target"; then
            echo "static: Rust's library for $target is not there and cannot be fetched;" \
                "\`make static STATIC_TARGET=\` links glibc instead" >&2
            exit 1
        fi
    fi
    tools/setup.sh static
else
    # With a target named, flags do not reach build scripts, which cannot be static.
    target=$(rustc --version --verbose | sed -n 's/^host: //p')
fi
RUSTFLAGS=${RUSTFLAGS:+$RUSTFLAGS }$flags "${build[@]}" --target "$target"

directory=$(cargo metadata --format-version 1 --no-deps |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
program=$directory/$target/release/tabane
if ldd "$program" 2>/dev/null | grep -q '=>'; then
    echo "static: $program still needs libraries:" >&2
    ldd "$program" >&2
    exit 1
fi
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
cp "$program" "$empty/tabane"
unshare --map-root-user chroot "$empty" /tabane --version
echo "static: $program"
