#!/usr/bin/env bash
# `make static`: the program as one file without any library, in target/static,
# and the proof: it runs in a directory where nothing else is.
#
#   STATIC_TARGET=x86_64-unknown-linux-musl   the Rust target, also that of arm64; empty: this
#       machine's own, with glibc linked in
#   PROFILE=release                           Cargo's profile
set -euo pipefail
cd "$(dirname "$0")/.."
target=${STATIC_TARGET-}
profile=${PROFILE:-release}
directory=$(cargo metadata --format-version 1 --no-deps |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
# Where cargo puts it: `dev` is the one profile whose directory has another name.
built=${profile/#dev/debug}/tabane
if [ -n "$target" ]; then
    tools/rust-target.sh "$target" || {
        echo 'static: `make static STATIC_TARGET=` links glibc instead' >&2
        exit 1
    }
    if [ "${target%%-*}" = "$(uname -m)" ]; then tools/setup.sh static; else tools/setup.sh arm64; fi
    cargo build --profile "$profile" --package tabane --target "$target"
    built=$target/$built
else
    # For the program alone: what is run while building cannot be static.
    cargo rustc --profile "$profile" --package tabane --bin tabane -- -C target-feature=+crt-static
fi
program=$directory/static/tabane
install -D -m 755 "$directory/$built" "$program"
tools/licences.py ${target:+"$target"} >"$directory/static/THIRD-PARTY"
# The unit for who puts the program into /usr/local/bin.
sed 's|/usr/bin/tabane|/usr/local/bin/tabane|' dist/systemd/tabane.service >"$directory/static/tabane.service"

if libraries=$(readelf -d "$program" | grep NEEDED); then
    printf 'static: %s still needs libraries:\n%s\n' "$program" "$libraries" >&2
    exit 1
fi
if [ "$(uname -m)" = "$(sed 's/-.*//' <<<"${target:-$(uname -m)}")" ]; then
    empty=$(mktemp -d)
    trap 'rm -rf "$empty"' EXIT
    cp "$program" "$empty/tabane"
    unshare --map-root-user chroot "$empty" /tabane --version
else
    qemu-aarch64 "$program" --version
fi
echo "static: $program"
