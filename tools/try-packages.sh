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
SUITES=${SUITES:-bookworm trixie}
WITH=ansible-core,cloud-init,gcc,iproute2,iputils-ping,libc6-dev,libfabric-bin,nftables,pkgconf
[ "$(id -u)" = 0 ] || { echo 'try-packages: only root can make a fresh system' >&2; exit 1; }
# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" | head -1)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# inside ROOT COMMAND…: there, with no network but its own, and nothing left behind that runs.
inside() {
    local root=$1
    shift
    # shellcheck disable=SC2016
    unshare --net --mount --pid --ipc --uts --fork --kill-child --propagation private \
        bash -euc 'mount -t proc proc "$1/proc"; mount -t sysfs sysfs "$1/sys"
            mount --rbind /dev "$1/dev"; mount -t tmpfs tmpfs "$1/run"; ip link set lo up
            exec chroot "$@"' bash "$root" \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes "$@"
}

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
    mmdebstrap --quiet --mode=root --variant=minbase --include="$WITH" "$suite" "$root" "$mirror"
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
    rm -rf "$root"
done
echo 'try-packages: ok'
