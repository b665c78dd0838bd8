# shellcheck shell=bash
# Fresh systems of Debian's to try things in: tools/try-*.sh read this file. Only root can make them.
[ "$(id -u)" = 0 ] || { echo "$(basename "$0"): only root can make a fresh system" >&2; exit 1; }

# fresh SUITE ROOT [PACKAGES]: the smallest system with apt and these packages, from the mirror that
# this machine's apt has.
fresh() {
    local mirror
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
        "Codename: $(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" | head -1)
    mmdebstrap --quiet --mode=root --variant=minbase ${3:+--include="$3"} "$1" "$2" "$mirror"
}

# inside ROOT COMMAND…: there, and nothing left behind that runs.
#   NETWORK=shared    with this machine's network; else with none but its own
#   BIND='FROM TO'    and this directory of this machine's, to be read only
# Its root directory is that of its mounts, as an ordinary user's namespaces need it.
inside() {
    local root=$1 network=--net
    shift
    [ "${NETWORK-}" != shared ] || network=''
    # shellcheck disable=SC2016
    unshare ${network:+"$network"} \
        --mount --pid --ipc --uts --fork --kill-child --propagation private \
        bash -euc 'network=$2 bind=$3; cd "$1"; shift 3
            mount --rbind . .; cd "$PWD"
            mount -t proc proc proc; mount -t sysfs sysfs sys
            mount --rbind /dev dev; mount -t tmpfs tmpfs run
            if [ -n "$network" ]; then ip link set lo up; fi
            if [ -n "$bind" ]; then
                mkdir -p ".${bind#* }"; mount --bind "${bind% *}" ".${bind#* }"; mount -o remount,bind,ro ".${bind#* }"
            fi
            pivot_root . .; umount -l .; exec "$@"' bash "$root" "$network" "${BIND-}" \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes "$@"
}
