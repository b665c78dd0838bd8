#!/usr/bin/env bash
# Inside of a system where `make install` and `tabane init` have been (tools/try-first-contact.sh), as root,
# with a network of its own: `tabane up` on two hosts, which are this network namespace and another.
set -euo pipefail
unshare --net --mount sleep 1000 &
other=$!
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
fail() { echo "first contact: $1" >&2; tail n0.log n1.log ping.log >&2; exit 1; }
on_other() { nsenter --target $other --net --mount "$@"; }
until [ "$(readlink /proc/$other/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ]; do sleep 0.1; done
on_other mount -t tmpfs tmpfs /run
for link in 0 1; do
    ip link add eth$link type veth peer name eth$link netns $other
    ip address add 10.77.$link.1/24 dev eth$link
    on_other ip address add 10.77.$link.2/24 dev eth$link
    ip link set eth$link up
    on_other ip link set eth$link up
done
cd "$(mktemp -d)"
tabane up >n0.log 2>&1 &
nsenter --target $other --net --mount tabane up >n1.log 2>&1 &
for _ in {1..100}; do
    if grep -q ready n0.log && grep -q ready n1.log; then break; fi
    sleep 0.1
done
tabane ping n1 --count 3 >ping.log || fail 'no ping'
# A program over tab0, the one that the demo brought.
iperf3 --server --one-off --bind 10.99.0.1 >server.log &
server=$!
for _ in {1..50}; do
    if on_other iperf3 --client 10.99.0.1 --time 1 >client.log 2>&1; then break; fi
    sleep 0.1
done
wait $server
grep receiver client.log
on_other tabane status
# Whoever ends it finds nothing of it.
kill %2 %3
wait %2 %3
if ip link show tab0 >/dev/null 2>&1; then fail 'tab0 is left'; fi
cat n0.log n1.log
