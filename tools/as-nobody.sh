#!/usr/bin/env bash
# Root runs a test program as an ordinary user would: uid of `nobody`, no
# group, no capability, a home, a run-time and a temporary directory of its own.
#
#   tools/as-nobody.sh WORKSPACE PROGRAM DIRECTORY [ARGUMENT…]
#
# In a mount namespace of its own, so nothing of it is seen outside:
# - a workspace below a directory closed to others (such as /root) is made
#   reachable at its own path;
# - /dev/net/tun is open to everybody, as distributions have it and some
#   containers do not.
set -euo pipefail

if [ "${1-}" != --inside ]; then
    home=$(mktemp -d)
    trap 'rm -rf "$home"' EXIT
    mkdir -m 700 "$home/run" "$home/tmp"
    chown -R nobody: "$home"
    unshare --mount --propagation private "$0" --inside "$home" "$@"
    exit
fi

home=$2 workspace=$3 program=$(realpath "$4") directory=$5
shift 5

# The topmost directory above $1 that others cannot pass through, if any.
closed_above() {
    local path=$1 closed=''
    while path=$(dirname "$path") && [ "$path" != / ]; do
        case $(stat -c %A "$path") in
            *[xt]) ;;
            *) closed=$path ;;
        esac
    done
    echo "$closed"
}

# open_path DIRECTORY: reachable by everybody, at its own path.
open_path() {
    local path=$1 closed stash
    closed=$(closed_above "$path")
    [ -n "$closed" ] || return 0
    stash=$home/stash
    mkdir -p "$stash"
    mount --bind "$path" "$stash"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$path"
    mount --move "$stash" "$path"
}

open_path "$workspace"
case $program in
    "$workspace"/*) ;;
    *) open_path "$(dirname "$(dirname "$program")")" ;;
esac

if [ -c /dev/net/tun ]; then
    mount -t tmpfs -o mode=755 tmpfs /dev/net
    mknod /dev/net/tun c 10 200
    chmod 666 /dev/net/tun
fi

cd "$directory"
as_nobody() {
    setpriv --reuid="$(id -u nobody)" --regid="$(id -g nobody)" --clear-groups \
        --inh-caps=-all -- "$@"
}
as_nobody test -x "$program" || {
    echo "nobody may not run $program: is the workspace readable for others (umask 022)?" >&2
    exit 1
}
exec setpriv --reuid="$(id -u nobody)" --regid="$(id -g nobody)" --clear-groups --inh-caps=-all -- \
    env -i PATH="$PATH" HOME="$home" TMPDIR="$home/tmp" XDG_RUNTIME_DIR="$home/run" \
    USER=nobody LOGNAME=nobody LANG=C.UTF-8 ${CI:+CI="$CI"} ${RUST_BACKTRACE:+RUST_BACKTRACE="$RUST_BACKTRACE"} \
    "$program" "$@"
