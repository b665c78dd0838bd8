#!/usr/bin/env bash
# `make soak-packages`: installs the packages into fresh systems, uses them and removes them
# again; nothing may be left. As root.
#
#   tools/try-packages.sh PROGRAM DIRECTORY
#
# PROGRAM is the built program, DIRECTORY has the packages.
#   SUITES='bookworm trixie'   the Debian releases, from the mirror that this machine's apt has
#
# A fresh system is fetched from the mirror; from then on it has no network.
set -euo pipefail
program=$(realpath "$1") packages=$(realpath "$2")
cd "$(dirname "$0")/.."
. tools/fresh.sh
SUITES=${SUITES:-bookworm trixie}
WITH=ansible-core,cloud-init,gcc,iproute2,iputils-ping,libc6-dev,libfabric-bin,nftables,pkgconf,systemd-sysv
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# listed ROOT: its files, with modes and owners. Left out is what package managers keep for
# themselves, and caches that are made again.
listed() {
    (cd "$1" && find . -xdev \
        \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./root -o -path ./try \
        -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/lib/rpm -o -path ./var/cache -o -path ./var/log \
        -o -path ./etc/ld.so.cache -o -name __pycache__ \) \
        -prune -o -printf '%p %M %u %g %l\n' | sort)
}

# clean NAME: nothing is other than before.
clean() {
    listed "$root" >"$scratch/after"
    diff "$scratch/before" "$scratch/after" >"$scratch/left" || { head -20 "$scratch/left" >&2; echo "try-packages: $suite: left by $1" >&2; exit 1; }
}

for suite in $SUITES; do
    echo "== $suite"
    root=$scratch/$suite
    fresh "$suite" "$root" "$WITH"
    mkdir "$root/try"
    cp "$packages"/*.deb "$packages"/*.rpm "$root/try"
    cp -r dist tools/try-packages "$root/try"
    listed "$root" >"$scratch/before"
    inside "$root" bash /try/try-packages/debian.sh
    clean 'Debian packages'
    cp "$program" "$root/try/dist/ansible/tabane"
    sed 's|/usr/bin/tabane|/usr/local/bin/tabane|' dist/systemd/tabane.service >"$root/try/dist/ansible/tabane.service"
    inside "$root" bash /try/try-packages/hosts.sh
    clean 'Ansible'
    tools/try-packages/rpm.sh "$root" "$scratch"
    clean 'RPM packages'
    tools/try-packages/systemd.sh "$root" "$scratch"
    rm -rf "$root"
done
echo 'try-packages: ok'
