#!/usr/bin/env bash
# Inside of a fresh system (tools/try-packages.sh): the Debian packages.
set -euo pipefail
cd /try
architecture=$(dpkg --print-architecture)
install() { apt-get -q -y --no-install-recommends install "$@" >/try/apt.log || { cat /try/apt.log >&2; exit 1; }; }
expect() { grep -q -e "$1" || { echo "expected \"$1\" of: $2" >&2; exit 1; }; }

# A package as it was before it was cut: what is now elsewhere is taken over.
mkdir -p old/DEBIAN old/usr/include
touch old/usr/include/tabane.h
printf '%s\n' 'Package: tabane' 'Version: 0.1.0-1' "Architecture: $architecture" \
    'Maintainer: n <n@example.com>' 'Description: the one package' >old/DEBIAN/control
dpkg-deb --root-owner-group --build old old.deb >/dev/null
install ./old.deb
rm old.deb

install ./*_"$architecture".deb ./*_all.deb
# Once more: their scripts may run twice.
install --reinstall ./*_"$architecture".deb ./*_all.deb
dpkg --audit
tabane --version
[ "$(stat -c '%a %U' /etc/tabane)" = '700 root' ]

# The links of the documents that were installed.
cd /usr/share/doc/tabane
find . -name '*.md' | while read -r document; do
    (grep -oP '\]\(\K[^)#: ]+(?=(#[^)]*)?\))' "$document" || true) | while read -r target; do
        [ -e "$(dirname "$document")/$target" ] || { echo "$document: links to $target, which is not there" >&2; exit 1; }
    done
done
cd /try

# Programs in C, as their writers build them.
for example in /usr/share/doc/tabane/examples/c/*.c; do
    # shellcheck disable=SC2046
    cc -Wall -Werror -o program "$example" $(pkg-config --cflags --libs tabane)
    ldd program | expect 'libtabane.so.0.1 => /' "ldd of $example"
    # It says how to call it.
    (./program 2>&1 || true) | expect . "$example"
done
cc -o program /usr/share/doc/tabane/examples/vipl/pingpong.c -ltabane-vipl
ldd program | expect 'libtabane-vipl.so.1 => /' 'ldd of pingpong.c'

# libfabric finds the provider by itself.
TABANE_KEY=$(printf '%02x' {0..31}) TABANE_LINKS=lo fi_info -p tabane | expect 'provider: tabane' fi_info

# The cluster file of `init`, and a cluster of the lab.
tabane init --node n0=10.77.0.1,10.77.1.1 --node n1=10.77.0.2,10.77.1.2 >/dev/null
[ "$(stat -c %a /etc/tabane/cluster.toml)" = 600 ]
tabane lab up --nodes 2 --links 2 >/dev/null
for node in n0 n1; do
    TABANE_RUNTIME=/try/$node tabane lab exec $node -- tabane up --node $node >/try/$node.log 2>&1 &
done
until grep -qs ready n0.log && grep -qs ready n1.log; do sleep 0.1; done
# Pings wait until the peer is there.
tabane lab exec n0 -- ping -q -c 3 -w 20 10.99.0.2 | expect '3 received' ping
kill %1 %2
wait
tabane lab down >/dev/null

# A removal keeps the cluster file, a purge does not.
mapfile -t names < <(dpkg-query --showformat '${Package}\n' --show '*tabane*')
apt-get -q -y remove "${names[@]}" >/dev/null
[ -e /etc/tabane/cluster.toml ]
dpkg --purge "${names[@]}" >/dev/null 2>&1
