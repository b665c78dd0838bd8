#!/usr/bin/env bash
# Installs what this project needs and the machine lacks. Does nothing when all
# is there.
#
#   tools/setup.sh build    what building needs, and nothing else
#   tools/setup.sh demo     also what labs need, and what the demo shows beside tabane
#   tools/setup.sh bench    also what bench measures
#   tools/setup.sh          also what most tests need
#   tools/setup.sh test     also the programs that are run under `tabane run`
#   tools/setup.sh soak     also the clusters that are run so before the long run
#   tools/setup.sh lint     also rustfmt, clippy and cargo-deny
#   tools/setup.sh pack     also what lists the licences of what is passed on
#   tools/setup.sh deb      what building and making Debian packages needs
#   tools/setup.sh rpm      what building and making RPM packages needs
#   tools/setup.sh static   what building needs, and the C compiler for musl
#   tools/setup.sh arm64    what building needs, a C compiler for arm64, and what runs its programs
#   tools/setup.sh release  all of the last four
#   tools/setup.sh packages Debian and RPM packages, and fresh systems to try them in
#
# No service is started or left enabled by it.
set -euo pipefail
export PATH="$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"

# What is looked for (a program, or files if it begins with "/") and the
# Debian/Ubuntu package that has it.
BUILD='
make                     make
cc                       gcc
/usr/include/stdlib.h    libc6-dev
/etc/ssl/certs/ca-certificates.crt ca-certificates
'
DEMO=$BUILD'
ip                       iproute2
tc                       iproute2
nft                      nftables
setpriv                  util-linux
unshare                  util-linux
iperf3                   iperf3
mptcpize                 mptcpize
'
BENCH=$DEMO'
git                      git
ps                       procps
babeld                   babeld
curl                     curl
nginx                    nginx-light
redis-server             redis-server
redis-benchmark          redis-tools
wrk                      wrk
haproxy                  haproxy
mpirun                   openmpi-bin
mpicc                    libopenmpi-dev
'
NEEDED=$BENCH'
python3                  python3
c++                      g++
nm                       binutils
ping                     iputils-ping
ethtool                  ethtool
socat                    socat
zsh                      zsh
fish                     fish
rsync                    rsync
ssh                      openssh-client
ssh-keygen               openssh-client
sshd                     openssh-server
tcpdump                  tcpdump
nbdkit                   nbdkit
nbdcopy                  libnbd-bin
'
# What `setup.sh test` adds: programs that tests run as they are.
TEST='
bwrap                    bubblewrap
memcached                memcached
/usr/lib/postgresql/*/bin/postgres postgresql
pgbench                  postgresql
strace                   strace
go                       golang-go
node                     nodejs
dnsmasq                  dnsmasq-base
dig                      bind9-dnsutils
apt-get                  apt
dpkg-deb                 dpkg
fi_info                  libfabric-bin
slurmctld                slurmctld
scontrol                 slurm-client
'
# What `setup.sh soak` adds: databases, queues and the like that have several members.
SOAK='
etcd                     etcd-server
etcdctl                  etcd-client
nats-server              nats-server
rabbitmq-server          rabbitmq-server
redis-sentinel           redis-sentinel
mariadbd                 mariadb-server
/usr/lib/galera/libgalera_smm.so galera-4
/usr/share/zookeeper/bin/zkServer.sh zookeeper
/usr/lib/python3/dist-packages/grpc/__init__.py python3-grpcio
/usr/lib/python3/dist-packages/websockets/__init__.py python3-websockets
/usr/lib/python3/dist-packages/pika/__init__.py python3-pika
/usr/lib/python3/dist-packages/kazoo/__init__.py python3-kazoo
/usr/lib/python3/dist-packages/torch/__init__.py python3-torch
'
# What is passed on to others also says who made the crates in it (tools/licences.py).
PACK=$BUILD'
python3                  python3
'
DEB=$PACK'
dpkg-buildpackage        dpkg-dev
dh                       debhelper
'
RPM=$PACK'
rpmbuild                 rpm
'
STATIC=$PACK'
musl-gcc                 musl-tools
'
ARM64=$PACK'
aarch64-linux-gnu-gcc    gcc-aarch64-linux-gnu
/usr/aarch64-linux-gnu/include/stdlib.h libc6-dev-arm64-cross
qemu-aarch64             qemu-user
'
# What `setup.sh packages` adds.
TRY='
mmdebstrap               mmdebstrap
'
# Programs whose packages bring a service along, and what it is called.
SERVICES='nginx:nginx redis-server:redis-server iperf3:iperf3 sshd:ssh rsync:rsync
haproxy:haproxy memcached:memcached pgbench:postgresql etcd:etcd nats-server:nats-server
babeld:babeld epmd:epmd.socket epmd:epmd rabbitmq-server:rabbitmq-server redis-sentinel:redis-sentinel mariadbd:mariadb
slurmctld:slurmctld munged:munge'

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }

is_there() {
    case $1 in
        /*) compgen -G "$1" >/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

# missing TABLE: the packages of what is not there, one a line.
missing() {
    local thing package
    while read -r thing package; do
        if [ -n "$thing" ] && ! is_there "$thing"; then echo "$package"; fi
    done <<<"$1" | sort -u
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
        -o APT::Install-Recommends=false "$@"
}

# quietly COMMAND…: what it says is shown only if it fails.
quietly() {
    local said
    said=$("$@" 2>&1) || { echo "$said" >&2; return 1; }
}

# announce PACKAGE…: says how much apt will fetch for them; fails if apt does not know them.
announce() {
    local uris
    uris=$(apt --print-uris install "$@" 2>/dev/null) || return
    awk '/^\x27/ { count++; bytes += $3 }
        END { if (count) printf "setup: that is %d packages with what they need, %.0f MB to fetch\n", count, bytes / 1e6 }' <<<"$uris" >&2
}

# Packages start their services as they are installed, unless policy-rc.d
# forbids it; whatever rule was there comes back afterwards.
POLICY=/usr/sbin/policy-rc.d
OURS='# by tabane tools/setup.sh, while it installs'
forbid_services() {
    trap allow_services EXIT
    if [ -e "$POLICY" ] && ! grep -q "$OURS" "$POLICY"; then
        as_root mv "$POLICY" "$POLICY.before-setup"
    fi
    printf '#!/bin/sh\n%s\nexit 101\n' "$OURS" | as_root tee "$POLICY" >/dev/null
    as_root chmod 755 "$POLICY"
}
allow_services() {
    as_root rm -f "$POLICY"
    if [ -e "$POLICY.before-setup" ]; then
        as_root mv "$POLICY.before-setup" "$POLICY"
    fi
    trap - EXIT
}

# disable SERVICE…: not started at the next boot either.
disable() {
    local service
    for service; do
        if command -v systemctl >/dev/null; then
            as_root systemctl disable "$service" >/dev/null 2>&1 || true
        elif command -v update-rc.d >/dev/null; then
            as_root update-rc.d "$service" disable >/dev/null 2>&1 || true
        fi
    done
}

install_packages() {
    local packages=$1 service fresh=''
    for service in $SERVICES; do
        is_there "${service%:*}" || fresh="$fresh ${service#*:}"
    done
    forbid_services
    # The lists of a fresh machine are empty or old: fetch them only then.
    # shellcheck disable=SC2086
    if ! { announce $packages && apt install $packages >/dev/null 2>&1; }; then
        say "fetching the package lists"
        quietly apt update
        announce $packages
        quietly apt install $packages
    fi
    allow_services
    # shellcheck disable=SC2086
    disable $fresh
}

system_packages() {
    local packages
    packages=$(missing "$NEEDED" | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    if ! command -v apt-get >/dev/null; then
        die "this machine has no apt; install what Debian calls: $packages"
    fi
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        die "as root, run: apt-get install $packages"
    fi
    say "installing $packages"
    install_packages "$packages" ||
        die "could not install; as root, run: apt-get install $packages"
    packages=$(missing "$NEEDED" | tr '\n' ' ')
    [ -z "$packages" ] || die "still missing after the installation: $packages"
}

rust() {
    command -v cargo >/dev/null ||
        die "Rust is missing: install the stable toolchain (rustup), then try again"
    # Cargo that is much older does not get as far as to say so.
    local needed here
    needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
    here=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$needed" "$here" | sort -V | head -1)" = "$needed" ] ||
        die "Rust $here is too old, $needed is needed: install the stable toolchain (rustup), then try again"
}

# component NAME COMMAND…: a part of the Rust toolchain, through rustup.
component() {
    local name=$1
    shift
    "$@" >/dev/null 2>&1 && return
    command -v rustup >/dev/null ||
        die "\`$*\` does not work and there is no rustup; install $name for your Rust"
    say "adding $name"
    rustup component add "$name"
}

lint_tools() {
    component rustfmt cargo fmt --version
    component clippy cargo clippy --version
    cargo_tool cargo-deny
}

cargo_tool() {
    if ! command -v "$1" >/dev/null; then
        say "installing $1; this takes some minutes, once"
        cargo install --locked "$1"
    fi
}

# First: without it the rest is of no use.
rust
case ${1-} in
    '') system_packages ;;
    build)
        NEEDED=$BUILD
        system_packages
        ;;
    demo)
        NEEDED=$DEMO
        system_packages
        ;;
    test)
        NEEDED=$NEEDED$TEST
        system_packages
        ;;
    soak)
        NEEDED=$NEEDED$TEST$SOAK
        system_packages
        ;;
    bench)
        NEEDED=$BENCH
        system_packages
        ;;
    lint)
        system_packages
        lint_tools
        ;;
    pack)
        NEEDED=$PACK
        system_packages
        ;;
    deb)
        NEEDED=$DEB
        system_packages
        ;;
    rpm)
        NEEDED=$RPM
        system_packages
        ;;
    static)
        NEEDED=$STATIC
        system_packages
        ;;
    arm64)
        NEEDED=$ARM64
        system_packages
        ;;
    release)
        NEEDED=$DEB$RPM$STATIC$ARM64
        system_packages
        ;;
    packages)
        NEEDED=$DEB$RPM$TRY
        system_packages
        ;;
    *) die "unknown word \"$1\"; it is: tools/setup.sh [build | demo | test | soak | bench | lint | pack | deb | rpm | static | arm64 | release | packages]" ;;
esac
