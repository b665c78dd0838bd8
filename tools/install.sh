#!/usr/bin/env bash
# `make install` and `make uninstall`: the program, the libraries for C beside
# it, and what belongs to them, below $DESTDIR$PREFIX.
#
#   tools/install.sh install|uninstall PROGRAM
#
# Packages are cut out of what it installs, and set two more variables:
#   LIBDIR=/usr/lib/…   where the distribution has libraries; else $PREFIX/lib
#   RUNNER=COMMAND      runs PROGRAM, where this machine cannot
#
# Starts and enables nothing. What is in /etc/tabane stays.
set -euo pipefail
action=$1 program=$2
cd "$(dirname "$0")/.."
PREFIX=${PREFIX:-/usr/local}
LIBDIR=${LIBDIR:-$PREFIX/lib}
root=${DESTDIR-}$PREFIX libraries=${DESTDIR-}$LIBDIR

# Outside of the build directory, where root's files would be in the way later.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

place() { install -D -m "$1" "$2" "$root/$3"; }
place_library() { install -D -m 644 "$1" "$libraries/$2"; }

# It is there after `make build`; who only built the program goes without.
install_library() {
    local library version
    library=$(dirname "$program")/libtabane.so
    [ -e "$library" ] || return 0
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
    place_library "$library" libtabane.so.0.1
    ln -sf libtabane.so.0.1 "$libraries/libtabane.so"
    place 644 crates/capi/include/tabane.h include/tabane.h
    sed "s|@PREFIX@|$PREFIX|; s|@LIBDIR@|${LIBDIR/#"$PREFIX/"/\${prefix\}/}|; s|@VERSION@|$version|" \
        crates/capi/tabane.pc.in >"$scratch/tabane.pc"
    place_library "$scratch/tabane.pc" pkgconfig/tabane.pc
    local example
    for example in crates/capi/examples/*.c; do
        place 644 "$example" "share/doc/tabane/examples/c/$(basename "$example")"
    done
}

# The VI Provider Library, which is built beside it.
install_vipl() {
    local library example
    library=$(dirname "$program")/libtabane_vipl.so
    [ -e "$library" ] || return 0
    place_library "$library" libtabane-vipl.so.1
    ln -sf libtabane-vipl.so.1 "$libraries/libtabane-vipl.so"
    place 644 crates/vipl/include/vipl.h include/vipl.h
    for example in crates/vipl/examples/*.[ch]; do
        place 644 "$example" "share/doc/tabane/examples/vipl/$(basename "$example")"
    done
}

# Below /usr/local/lib the dynamic linker finds only what is in its cache.
refresh_cache() {
    if [ -z "${DESTDIR-}" ] && [ "$(id -u)" = 0 ]; then ldconfig; fi
}

# The provider of libfabric, where `tabane mpi` looks: in a folder of its own, since
# libfabric opens all that is in one.
install_provider() {
    local provider
    provider=$(dirname "$program")/libtabane_fi.so
    [ -e "$provider" ] || return 0
    place 644 "$provider" lib/tabane/libtabane-fi.so
}

install_all() {
    [ -x "$program" ] || {
        echo "install: $program is not there; run \`make build\` first" >&2
        exit 1
    }
    place 755 "$program" bin/tabane
    # shellcheck disable=SC2086
    ${RUNNER-} "$program" generate "$scratch"
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
    while read -r example; do
        place 644 "dist/$example" "share/doc/tabane/examples/$example"
    done < <(cd dist && find ansible cloud-init grafana prometheus -type f)
    local document
    # All that links of documents lead to.
    for document in *.md LICENSE-* docs/*.md docs/guides/*.md docs/plots/*.svg docs/screenshots/*.png figures/bench.md fuzz/README.md sim/README.md; do
        place 644 "$document" "share/doc/tabane/$document"
    done
    install_library
    install_vipl
    install_provider
    refresh_cache
}

uninstall_all() {
    local page
    rm -f "$root"/bin/tabane \
        "$root"/share/bash-completion/completions/tabane \
        "$root"/share/zsh/site-functions/_tabane \
        "$root"/share/fish/vendor_completions.d/tabane.fish \
        "$libraries"/libtabane.so{,.0,.0.1} \
        "$libraries"/libtabane-vipl.so{,.1} \
        "$root"/lib/tabane/libtabane-fi.so \
        "$libraries"/pkgconfig/tabane.pc \
        "$root"/include/tabane.h \
        "$root"/include/vipl.h \
        "$root"/lib/systemd/system/tabane.service \
        "$root"/lib/systemd/network/50-tabane.network
    for page in "$root"/share/man/man1/tabane{,-*}.1 "$root"/share/man/man5/tabane-*.5 \
        "$root"/share/man/man7/fi_tabane.7; do
        rm -f "$page"
    done
    rm -rf "$root/share/doc/tabane"
    [ ! -d "$root/lib/tabane" ] || rmdir --ignore-fail-on-non-empty "$root/lib/tabane"
    [ ! -d "${DESTDIR-}/etc/tabane" ] || rmdir --ignore-fail-on-non-empty "${DESTDIR-}/etc/tabane"
}

case $action in
    install) install_all ;;
    uninstall) uninstall_all ;;
    *) echo "install: unknown word \"$action\"" >&2; exit 2 ;;
esac
