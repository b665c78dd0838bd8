#!/usr/bin/env bash
# `make deb`: Debian packages out of what is built, as dist/debian cuts them.
#
#   tools/deb.sh PROGRAM DIRECTORY [TARGET]
#
# PROGRAM is the built program, the libraries are beside it; packages go to DIRECTORY. For
# another machine than this one TARGET is its Rust target, and RUNNER the command that runs
# its programs here.
set -euo pipefail
program=$(realpath "$1") output=$2 target=${3-}
cd "$(dirname "$0")/.."
mkdir -p "$output"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

case ${target:-$(uname -m)} in
    x86_64*) architecture=amd64 ;;
    aarch64*) architecture=arm64 ;;
    *) echo "deb: dist/debian/control does not know ${target:-this machine}" >&2; exit 1 ;;
esac
# A directory for it alone: packages are left in the one above.
mkdir "$scratch/tabane"
cp -r dist/debian "$scratch/tabane/debian"
tools/licences.py ${target:+"$target"} >"$scratch/THIRD-PARTY"
if [ "$architecture" != "$(dpkg --print-architecture)" ]; then
    # The C library of the other machine is here as a package of the cross compiler, whose
    # name no machine of that kind knows.
    version=$(dpkg-query --showformat '${Version}' --show "libc6-$architecture-cross")
    for library in 'libc 6' 'libm 6' 'ld-linux-aarch64 1'; do
        echo "$library libc6 (>= ${version%%-*})"
    done >"$scratch/tabane/debian/shlibs.local"
    echo 'libgcc_s 1 libgcc-s1 (>= 4.2)' >>"$scratch/tabane/debian/shlibs.local"
fi
# The epoch of the commit, if there is one; else that of the newest entry of the changelog.
SOURCE=$PWD PROGRAM=$program RUNNER=${RUNNER-} THIRD_PARTY=$scratch/THIRD-PARTY \
    DEB_BUILD_OPTIONS="noautodbgsym nocheck" \
    bash -c 'cd "$1" && dpkg-buildpackage --host-arch "$2" --build=binary --no-check-builddeps \
        --no-sign >"$1.log" 2>&1 || { cat "$1.log" >&2; exit 1; }' deb "$scratch/tabane" "$architecture"
cp --preserve=timestamps "$scratch"/*.deb "$output"
(cd "$scratch" && ls -- *.deb)
