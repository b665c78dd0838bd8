#!/usr/bin/env bash
# Boots the systemd of a fresh system as the first process of namespaces of its own, with a network of its
# own, and with a layer of its own over ROOT, which stays as it is. Ends when that system does. As root.
#
#   tools/boot.sh ROOT LAYER NAME
#
# LAYER/init has the number of its first process: `nsenter --target "$(cat LAYER/init)" --all --wd` is a way in.
# LAYER/log has what kept it from booting.
set -euo pipefail
root=$(realpath "$1") layer=$(realpath "$2") name=$3

# Mounts are seen by this process only, and so end with it.
if [ "${BOOTS-}" != alone ]; then
    BOOTS=alone exec unshare --mount --propagation private bash "$0" "$root" "$layer" "$name"
fi
# Not a machine, so it loads no modules, sets no clock and makes no devices.
DENIED=-sys_module,-sys_time,-sys_rawio,-mknod

# A group of processes below this one's, in the unified hierarchy, whichever this machine uses.
mkdir -p "$layer"/{upper,work,merged,groups}
mount -t cgroup2 cgroup2 "$layer/groups"
group=$layer/groups$(sed -n 's/^0:://p' /proc/self/cgroup)/$name-$$
mkdir "$group"
trap 'find "$group" -depth -type d -exec rmdir {} + || true' EXIT
trap 'kill -KILL "$(cat "$layer/init")"; wait; exit' TERM INT

# shellcheck disable=SC2016
start='root=$1 layer=$2 name=$3 denied=$4
mount -t overlay -o "lowerdir=$root,upperdir=$layer/upper,workdir=$layer/work" overlay "$layer/merged"
cd "$layer/merged"
# The settings of the kernel are those of the machine, but for those of the network.
mount -t proc proc proc
mount --bind proc/sys proc/sys; mount --bind proc/sys/net proc/sys/net; mount -o remount,bind,ro proc/sys
if [ -e proc/sysrq-trigger ]; then mount --bind /dev/null proc/sysrq-trigger; fi
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do touch "dev/$device"; mount --bind "/dev/$device" "dev/$device"; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
hostname "$name"; ip link set lo up
pivot_root . .; umount -l .
exec setpriv --bounding-set "$denied" env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd'
# shellcheck disable=SC2016
unshare --pid --net --uts --ipc --fork --kill-child \
    bash -euc 'echo 0 >"$1/cgroup.procs"; shift; exec unshare --cgroup --mount --propagation private bash -euc "$@"' \
    bash "$group" "$start" bash "$root" "$layer" "$name" "$DENIED" </dev/null >"$layer/log" 2>&1 &
until [ -s "$layer/init" ]; do
    sed 's/ .*//' "/proc/$!/task/$!/children" >"$layer/init"
done
wait $!
