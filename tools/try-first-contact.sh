#!/usr/bin/env bash
# `make soak-first-contact`: README's "Try it" and "Install it on two hosts" on bare systems, as one types them
# who has just heard of tabane. One line for each says how long that took. As root.
#   SUITES='bookworm trixie'   the Debian releases
#   LOGS=DIRECTORY             where all that was said goes, and the picture
#
# A bare system has Debian's smallest set of packages, make, sudo, and this machine's Rust. It gets the
# sources of HEAD, and fetches packages and crates by itself.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/fresh.sh
SUITES=${SUITES:-bookworm trixie}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
toolchain=$(rustc --print sysroot)

for suite in $SUITES; do
    echo "== $suite ($(git rev-parse --short HEAD), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg))"
    root=$scratch/$suite
    fresh "$suite" "$root" make,sudo
    cp /etc/resolv.conf "$root/etc/"
    echo "127.0.0.1 localhost $(uname -n)" >"$root/etc/hosts"
    # A user with Rust from rustup, and the sources.
    home=$root/home/user
    chroot "$root" useradd --create-home --shell /bin/bash user
    echo 'user ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/user"
    mkdir -p "$home/tabane" "$home/.cargo/bin" "$root/try"
    ln -s /opt/rust/bin/{cargo,rustc,rustdoc} "$home/.cargo/bin/"
    # What lets this machine reach crates.io lets the system.
    if [ -e "${CARGO_HOME:-$HOME/.cargo}/config.toml" ]; then cp "${CARGO_HOME:-$HOME/.cargo}/config.toml" "$home/.cargo/"; fi
    cp "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/try/certificates"
    git archive HEAD | tar -x -C "$home/tabane"
    cp tools/try-first-contact/* "$root/try/"
    chroot "$root" chown -R user: /home/user

    passed=''
    if NETWORK=shared BIND="$toolchain /opt/rust" inside "$root" \
        setpriv --reuid user --regid user --init-groups \
        env HOME=/home/user USER=user CARGO_HTTP_CAINFO=/try/certificates CARGO_INCREMENTAL=0 \
        /try/demo.sh && inside "$root" /try/hosts.sh >"$home/hosts.log"; then passed=1; fi
    if [ -n "${LOGS-}" ]; then
        mkdir -p "$LOGS/$suite"
        cp "$home"/*.log "$home/tabane/demo.svg" "$LOGS/$suite/" || true
    fi
    [ -n "$passed" ] || exit 1
    echo "$suite: $(cat "$home/figures")"
    rm -rf "$root"
done
echo 'first contact: ok'
