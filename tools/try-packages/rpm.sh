#!/usr/bin/env bash
# The RPM packages in a fresh system of Debian's (tools/try-packages.sh), since there is no other: what
# they need of other packages is looked at, not fetched.
#
#   tools/try-packages/rpm.sh ROOT SCRATCH
set -euo pipefail
root=$1 scratch=$2
run() { rpm --force-debian --root "$root" --dbpath /var/lib/rpm "$@"; }
packages=("$root"/try/*."$(uname -m)".rpm "$root"/try/*.noarch.rpm)

# All that they need is of the system's, or of one of them.
rpm -qp --provides "${packages[@]}" | sed 's/ .*//' | sort -u >"$scratch/provided"
rpm -qp --requires "${packages[@]}" | sort -u | while read -r needed rest; do
    case $needed in
        lib[cm].so.6* | libgcc_s.so.1* | ld-linux* | rtld* | rpmlib* | /bin/sh | /usr/bin/pkg-config) ;;
        iproute | nftables | util-linux) ;;
        *) grep -qxF "$needed" "$scratch/provided" || { echo "rpm: nobody has $needed $rest" >&2; exit 1; } ;;
    esac
done
run --nodeps --install "${packages[@]/#"$root"/"$root"}"
run --nodeps --verify -a
chroot "$root" /usr/bin/tabane --version
chroot "$root" bash -c 'cc -o /try/program /usr/share/doc/tabane/examples/c/echo.c -I/usr/include -L/usr/lib64 -ltabane &&
    LD_LIBRARY_PATH=/usr/lib64 ldd /try/program | grep -q "libtabane.so.0.1 => /usr/lib64"'
mapfile -t names < <(run -qa)
run --nodeps --erase "${names[@]}"
