#!/usr/bin/env bash
# `make install` and `make uninstall`: the program, and what belongs to it,
# below $DESTDIR$PREFIX.
#
#   tools/install.sh install|uninstall PROGRAM
#
# Starts and enables nothing. What is in /etc/tabane stays.
set -euo pipefail
action=$1 program=$2
cd "$(dirname "$0")/.."
PREFIX=${PREFIX:-/usr/local}
root=${DESTDIR-}$PREFIX

# Outside of the build directory, where root's files would be in the way later.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

place() { install -D -m "$1" "$2" "$root/$3"; }

install_all() {
    [ -x "$program" ] || {
        echo "install: $program is not there; run \`make build\` first" >&2
        exit 1
    }
    place 755 "$program" bin/tabane
    "$program" generate "$scratch"
    local page
    for page in "$scratch"/man?/*; do
        place 644 "$page" "share/man/$(basename "$(dirname "$page")")/$(basename "$page")"
    done
    place 644 "$scratch/completions/tabane" share/bash-completion/completions/tabane
    place 644 "$scratch/completions/_tabane" share/zsh/site-functions/_tabane
    place 644 "$scratch/completions/tabane.fish" share/fish/vendor_completions.d/tabane.fish
    # The unit sees nothing but what it binds; the program is among it.
    sed "s|/usr/bin/tabane|$PREFIX/bin/tabane|; s|^BindReadOnlyPaths=/usr |&$PREFIX/bin |" \
        dist/systemd/tabane.service >"$scratch/tabane.service"
    place 644 "$scratch/tabane.service" lib/systemd/system/tabane.service
    place 644 dist/systemd/tabane.network lib/systemd/network/50-tabane.network
    # For the cluster file, which holds the key.
    [ -d "${DESTDIR-}/etc/tabane" ] || install -d -m 700 "${DESTDIR-}/etc/tabane"
    place 644 dist/cluster.example.toml share/doc/tabane/examples/cluster.toml
    local example
    for example in grafana/tabane.json prometheus/tabane.rules.yml; do
        place 644 "dist/$example" "share/doc/tabane/examples/$example"
    done
}

uninstall_all() {
    local page
    rm -f "$root"/bin/tabane \
        "$root"/share/bash-completion/completions/tabane \
        "$root"/share/zsh/site-functions/_tabane \
        "$root"/share/fish/vendor_completions.d/tabane.fish \
        "$root"/lib/systemd/system/tabane.service \
        "$root"/lib/systemd/network/50-tabane.network
    for page in "$root"/share/man/man1/tabane{,-*}.1 "$root"/share/man/man5/tabane-*.5; do
        rm -f "$page"
    done
    rm -rf "$root/share/doc/tabane"
    [ ! -d "${DESTDIR-}/etc/tabane" ] || rmdir --ignore-fail-on-non-empty "${DESTDIR-}/etc/tabane"
}

case $action in
    install) install_all ;;
    uninstall) uninstall_all ;;
    *) echo "install: unknown word \"$action\"" >&2; exit 2 ;;
esac
