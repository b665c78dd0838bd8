#!/usr/bin/env bash
# The service under a real systemd (tools/try-packages.sh): two systems of ROOT are booted, with two cables
# between them. ROOT itself stays as it is; it has the packages and dist in /try.
#
#   tools/try-packages/systemd.sh ROOT SCRATCH
set -euo pipefail
root=$1 scratch=$2
cd "$(dirname "$0")/../.."

fail() {
    echo "systemd: $*" >&2
    for node in n0 n1; do
        echo "-- $node: $(cat "$scratch/$node/log"), and the end of its journal:" >&2
        on "$node" journalctl --no-pager --lines 40 --output cat >&2 || true
    done
    exit 1
}
on() {
    local layer=$scratch/$1
    shift
    nsenter --target "$(cat "$layer/init")" --all --wd "$@"
}
# soon WHAT COMMAND…: within 20 s.
soon() {
    local what=$1
    shift
    for _ in {1..200}; do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    fail "$what"
}
has() { grep -q -e "$1" <<<"$2" || fail "expected \"$1\" of: $2"; }
shown() { on "$1" systemctl show --property "$2" --value tabane; }
is_active() { [ "$(shown "$1" ActiveState)" = active ]; }
# is_another NODE PID: active, and not as this process.
is_another() { is_active "$1" && [ "$(shown "$1" MainPID)" != "$2" ]; }
pings() { on "$1" ping -q -c 2 -i 0.2 -w 5 "$2"; }
# nothing NODE: what a daemon makes is gone.
nothing() {
    if on "$1" ip link show tab0 2>/dev/null || [ -n "$(on "$1" nft list ruleset)" ] || on "$1" test -e /run/tabane; then
        fail "$1: something is left after $2"
    fi
}
# said NODE SINCE OPTION…: the lines of the service's journal since then, as they are.
said() { on "$1" journalctl --quiet --no-pager --output cat --since "@$2" --unit tabane "${@:3}"; }
now() { on n0 date +%s.%N; }

boot() {
    rm -f "$scratch/$1/init"
    mkdir -p "$scratch/$1/upper/etc/cloud"
    echo "$1" >"$scratch/$1/upper/etc/hostname"
    touch "$scratch/$1/upper/etc/cloud/cloud-init.disabled"
    tools/boot.sh "$root" "$scratch/$1" "$1" &
    booted+=($!)
    soon "$1 boots" [ -s "$scratch/$1/init" ]
    soon "$1 has booted" on "$1" systemctl is-system-running
}
rm -rf "$scratch"/n[01]
booted=()
trap 'kill "${booted[@]}" 2>/dev/null; wait' EXIT
boot n0
boot n1
for link in 0 1; do
    ip link add eth$link netns "$(cat "$scratch/n0/init")" type veth peer name eth$link netns "$(cat "$scratch/n1/init")"
    for node in 0 1; do
        on n$node ip address add 10.77.$link.$((node + 1))/24 dev eth$link
        on n$node ip link set eth$link up
    done
done

# Installed and not yet set up: enabled, not started, and no failure.
for node in n0 n1; do
    on $node bash -c 'apt-get -q -y --no-install-recommends install /try/tabane_*.deb >/dev/null'
    [ "$(on $node systemctl is-enabled tabane)" = enabled ] || fail 'not enabled'
    [ "$(shown $node ActiveState)" = inactive ] || fail "without a file it is $(shown $node ActiveState)"
done
[ -z "$(on n0 systemctl --failed --quiet)" ] || fail "something failed: $(on n0 systemctl --failed)"
on n0 systemd-analyze verify --man=no tabane.service
score=$(on n0 systemd-analyze security tabane.service --no-pager | tail -1)
has ' 2\.[0-9] OK' "$score"

# Started: active only when tab0 is there.
began=$(now)
on n0 tabane init --node n0=10.77.0.1,10.77.1.1 --node n1=10.77.0.2,10.77.1.2 >/dev/null
on n0 cat /etc/tabane/cluster.toml | on n1 bash -c 'umask 077; cat >/etc/tabane/cluster.toml'
for node in n0 n1; do
    on $node systemctl enable --now tabane
    # Not with `soon`: it is active only when tab0 has its address.
    has 'inet 10\.99\.0\.' "$(on $node ip address show tab0)"
done
soon 'a ping over tab0' pings n0 10.99.0.2
has 'n1: connected' "$(said n0 "$began")"
has 'redundant\|ready' "$(on n0 systemctl status --no-pager tabane)"
# A healthy start has nothing that somebody has to act on.
[ -z "$(said n0 "$began" --priority warning)" ] || fail "warnings of a healthy start: $(said n0 "$began" --priority warning)"

# A reload applies what is right, and refuses what is wrong as a whole, with the reason in the journal.
pid=$(shown n0 MainPID)
on n0 cp /etc/tabane/cluster.toml /try/good.toml
on n0 sed -i 's/"10.77.1.2"\]/""]/' /etc/tabane/cluster.toml
began=$(now)
on n0 systemctl reload tabane
has 'link 1 removed' "$(said n0 "$began")"
[ "$(said n0 "$began" | grep -c 'link 1 removed')" = 1 ] || fail 'a change is told more than once'
on n0 bash -c 'echo nonsense >>/etc/tabane/cluster.toml'
began=$(now)
if on n0 systemctl reload tabane 2>/dev/null; then fail 'a broken file is taken'; fi
has 'cluster.toml:[0-9]*: ' "$(said n0 "$began" --priority warning)"
has 'refused; everything stays as it was' "$(said n0 "$began" --priority warning)"
is_active n0 || fail 'not active after a broken file'
on n0 cp /try/good.toml /etc/tabane/cluster.toml
on n0 systemctl reload tabane
[ "$(shown n0 MainPID)" = "$pid" ] || fail 'a reload is another process'
pings n0 10.99.0.2 >/dev/null || fail 'no ping after the reloads'

# A crash: systemd starts it again.
on n0 kill -KILL "$pid"
soon 'it is started again' is_another n0 "$pid"
[ "$(shown n0 NRestarts)" = 1 ] || fail 'not restarted once'
soon 'a ping after the crash' pings n0 10.99.0.2
# A loop that hangs: the watchdog ends it, and systemd starts it again.
on n0 bash -c 'mkdir -p /run/systemd/system/tabane.service.d && printf "[Service]\nWatchdogSec=2s\n" >/run/systemd/system/tabane.service.d/try.conf'
on n0 systemctl daemon-reload
on n0 systemctl restart tabane
pid=$(shown n0 MainPID)
sleep 3
[ "$(shown n0 MainPID)" = "$pid" ] || fail 'the watchdog is not fed'
began=$(now)
on n0 kill -STOP "$pid"
soon 'the watchdog strikes' is_another n0 "$pid"
has 'Watchdog timeout' "$(said n0 "$began")"
soon 'a ping after the watchdog' pings n0 10.99.0.2

# Nothing is left after a stop; no file and no address is told as what it is.
on n0 systemctl stop tabane
nothing n0 stop
on n0 ip address flush dev eth0
on n0 ip address flush dev eth1
began=$(now)
if on n0 systemctl start tabane 2>/dev/null; then fail 'it starts without an address'; fi
has 'none of the nodes has an address of this machine' "$(said n0 "$began" --priority warning)"
for link in 0 1; do on n0 ip address add 10.77.$link.1/24 dev eth$link; done
soon 'the address is found' is_active n0
soon 'a ping after the address' pings n1 10.99.0.1

# An upgrade restarts it, a removal stops it.
pid=$(shown n0 MainPID)
on n0 bash -c 'cd /try && dpkg-deb -R /try/tabane_*.deb new && sed -i "s/^Version: .*/&+new/" new/DEBIAN/control &&
    dpkg-deb --root-owner-group -b new new.deb >/dev/null && apt-get -q -y install ./new.deb >/dev/null'
is_active n0 || fail 'not active after an upgrade'
[ "$(shown n0 MainPID)" != "$pid" ] || fail 'the old program runs after an upgrade'
soon 'a ping after the upgrade' pings n0 10.99.0.2
on n0 apt-get -q -y remove tabane >/dev/null
nothing n0 removal
on n0 test -e /etc/tabane/cluster.toml || fail 'the cluster file is gone'
on n0 bash -c 'dpkg --purge tabane >/dev/null 2>&1; systemctl daemon-reload'
if on n0 systemctl cat tabane >/dev/null 2>&1; then fail 'the unit is left'; fi

# A boot starts it, and it is there as soon as the node has an address.
on n1 systemctl poweroff 2>/dev/null || true
wait "${booted[1]}" || true
boot n1
on n1 ip address add 10.77.0.2/24 dev lo
soon 'it is there after a boot' is_active n1
on n1 dpkg --purge tabane >/dev/null 2>&1
on n1 bash /try/try-packages/hosts.sh >"$scratch/hosts.log" 2>&1 || { tail -30 "$scratch/hosts.log" >&2; fail 'Ansible'; }
echo "systemd: ok; ${score#*for }"
