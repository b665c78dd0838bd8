#!/usr/bin/env python3
"""Injects faults into virtual clusters, asks `tabane doctor` on one node, and counts which it names at the node where they
lie; then has it look at healthy clusters that are odd, and counts what it finds wrong there. As root.

    tools/try-doctor.py TABANE [ONLY…]

ONLY are words of the names of those to be tried. Exit code 1: fewer than 19 of 20 faults were named, or a healthy cluster
was called ill.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

PORT = 7577
KEY = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
OTHER_KEY = KEY[::-1]
# A processor that is busy with other things is no fault of the cluster's.
NOT_COUNTED = {"cpu"}


class Cluster:
    """Three nodes on two links, each with a daemon and a cluster file of its own."""

    def __init__(self, tabane, directory, nodes=3, lab=(), head="", more="", vnic=True, wire="encrypted"):
        self.tabane, self.directory = tabane, directory
        self.name = f"doctor{os.getpid()}"
        self.nodes = range(nodes)
        self.daemons = {}
        self.loads = []
        self.call("lab", "up", "--name", self.name, "--nodes", str(nodes), *lab)
        self.head, self.more, self.vnic, self.wire = head, more, vnic, wire
        for node in self.nodes:
            self.write(node)

    def call(self, *words, check=True, timeout=60):
        done = subprocess.run([self.tabane, *words], capture_output=True, text=True, timeout=timeout)
        if check and done.returncode:
            raise RuntimeError(f"tabane {' '.join(words)}: {done.stderr}{done.stdout}")
        return done

    def text(self, key=KEY, wire=None, name=str, address=None, port=PORT, but=()):
        address = address or (lambda node, link: f"10.77.{link}.{node + 1}")
        text = f'key = "{key}"\nwire = "{wire or self.wire}"\nport = {port}\n{self.head}\n'
        for node in self.nodes:
            if node in but:
                continue
            links = ", ".join(f'"{address(node, link)}"' for link in range(2))
            vnic = f'vnic = "10.99.0.{node + 1}/24"\n' if self.vnic else ""
            text += f'[[node]]\nname = "{name(f"n{node}")}"\n{vnic}links = [{links}]\n'
        return text + self.more

    def file(self, node):
        return f"{self.directory}/{self.name}-n{node}.toml"

    def write(self, node, text=None):
        with open(self.file(node), "w", encoding="utf-8") as file:
            os.chmod(self.file(node), 0o600)
            file.write(self.text() if text is None else text)

    def enter(self, node, *words):
        return [self.tabane, "lab", "exec", "--name", self.name, f"n{node}", "--", *words]

    def sh(self, node, line, check=True):
        done = subprocess.run(self.enter(node, "sh", "-c", line), capture_output=True, text=True, timeout=60)
        if check and done.returncode:
            raise RuntimeError(f"n{node}: {line}: {done.stderr}{done.stdout}")

    def load(self, node, line):
        self.loads.append(subprocess.Popen(self.enter(node, "sh", "-c", line), stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))

    def unload(self):
        for load in self.loads:
            try:
                os.killpg(load.pid, 9)
            except ProcessLookupError:
                pass
            load.wait()
        self.loads = []

    def start(self, node, name=None):
        log = open(f"{self.directory}/{self.name}-n{node}.log", "a", encoding="utf-8")
        words = self.enter(node, self.tabane, "up", "--config", self.file(node), "--node", name or f"n{node}")
        self.daemons[node] = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def stop(self, node):
        daemon = self.daemons.pop(node)
        daemon.terminate()
        daemon.wait(20)

    def signal(self, node, number):
        self.daemons[node].send_signal(number)

    def restart(self, node, text=None, name=None):
        self.stop(node)
        self.write(node, text)
        self.start(node, name)

    def status(self, node):
        done = subprocess.run(self.enter(node, self.tabane, "status", "--json"), capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def is_well(self):
        for node in self.nodes:
            report = self.status(node)
            if report is None:
                return False
            for peer in report["peers"]:
                if peer["state"] != "up" or peer["paths_up"] < peer["paths_configured"]:
                    return False
        return True

    def wait_well(self, seconds=90):
        until = time.monotonic() + seconds
        while not self.is_well():
            if time.monotonic() > until:
                shown = [subprocess.run(self.enter(node, self.tabane, "status"), capture_output=True, text=True).stdout for node in self.nodes]
                raise RuntimeError("the cluster does not become well again:\n" + "\n".join(shown))
            time.sleep(0.2)

    def doctor(self, node, *words):
        words = self.enter(node, self.tabane, "doctor", "--json", "--config", self.file(node), "--node", f"n{node}",
                           "--seconds", "2", *words)
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        said = json.loads(done.stdout)
        found = [f for f in said["findings"] if f["severity"] != "note" and f["cause"] not in NOT_COUNTED]
        return [(f["node"] or f"n{node}", f["cause"]) for f in found]

    def end(self):
        self.unload()
        for node in list(self.daemons):
            self.stop(node)
        self.call("lab", "down", "--name", self.name, check=False)


def rule(chain, line):
    return ("nft add table inet wall && nft 'add chain inet wall c { type filter hook %s priority 0; }' && "
            "nft add rule inet wall c %s" % (chain, line))


NO_RULE = "nft delete table inet wall"
FLOW = "iperf3 -c 10.99.0.2 -t 30 -b 30M >/dev/null"
SERVER = "iperf3 -s"


# Datagrams of UDP from n1 to n0 with a wrong checksum, as something on the way would make them.
ALTERED = """
import socket, struct, time
own, other = bytes([10, 77, 0, 2]), bytes([10, 77, 0, 1])
udp = struct.pack("!HHHH", 7577, 7577, 16, 0x1234) + bytes(8)
ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0) + own + other
total = sum(struct.unpack("!10H", ip))
while total >> 16:
    total = (total & 0xffff) + (total >> 16)
ip = ip[:10] + struct.pack("!H", ~total & 0xffff) + ip[12:]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("eth0", 0))
while True:
    wire.send(bytes([255] * 6) + wire.getsockname()[4] + bytes([8, 0]) + ip + udp)
    time.sleep(0.05)
"""


class Fault:
    """One fault: how it is made and undone, where it lies (None: between nodes), what it may be called, who asks."""

    def __init__(self, name, where, causes, make, undo, asks=0, wait=3.0, load=None, restart=()):
        self.name, self.where, self.causes = name, where, set(causes.split())
        self.make, self.undo, self.asks, self.wait = make, undo, asks, wait
        self.load, self.restart = load or [], restart


def sh(node, line):
    return lambda c: c.sh(node, line)


def both(*steps):
    def do(cluster):
        for step in steps:
            step(cluster)
    return do


def fail(link, *words):
    return lambda c: c.call("lab", "fail", str(link), "--name", c.name, *words)


def heal(link):
    return lambda c: c.call("lab", "heal", str(link), "--name", c.name)


def address(node, link, old, new):
    device = f"eth{link}"
    return both(sh(node, f"ip address del {old}/24 dev {device}"), sh(node, f"ip address add {new}/24 dev {device}"))


def on_links():
    """Faults of links, NICs and switches."""
    lossy = "lossy_link link_dead"
    yield Fault("a switch is silent", None, "link_dead", fail(0), heal(0))
    yield Fault("a switch loses its power", None, "no_carrier", fail(1, "--mode", "carrier"), heal(1))
    for node in [0, 1]:
        for link in [0, 1]:
            yield Fault(f"n{node}'s cable of link {link} is pulled", node, "no_carrier",
                        fail(link, "--mode", "carrier", "--node", f"n{node}"), heal(link))
    yield Fault("n1's port of link 0 is silent", None, "link_dead", fail(0, "--node", "n1"), heal(0))
    yield Fault("what n1 sends on link 0 is lost", None, "one_way link_dead", fail(0, "--mode", "oneway", "--node", "n1"), heal(0))
    yield Fault("what n0 sends on link 1 is lost", None, "one_way link_dead", fail(1, "--mode", "oneway", "--node", "n0"), heal(1))
    yield Fault("link 0 loses 6%", None, lossy, fail(0, "--mode", "loss=6%"), heal(0), load=[(1, SERVER), (0, FLOW)])
    yield Fault("n1 loses 10% on link 1", None, lossy, fail(1, "--mode", "loss=10%", "--node", "n1"), heal(1), load=[(1, SERVER), (0, FLOW)])
    yield Fault("an idle link loses 15%", None, lossy, fail(0, "--mode", "loss=15%"), heal(0))
    yield Fault("large packets do not pass link 0", None, "mtu", fail(0, "--mode", "mtu=1400"), heal(0), wait=16)
    yield Fault("n1's NIC has an MTU of 1300", None, "mtu", sh(1, "ip link set eth1 mtu 1300"), sh(1, "ip link set eth1 mtu 1500"), wait=16)
    for node, link in [(0, 1), (1, 0), (1, 1), (2, 0)]:
        yield Fault(f"eth{link} of n{node} is off", node, "link_off", sh(node, f"ip link set eth{link} down"),
                    sh(node, f"ip link set eth{link} up"))
    yield Fault("n1 has lost its address on link 1", 1, "address_missing", sh(1, "ip address del 10.77.1.2/24 dev eth1"),
                sh(1, "ip address add 10.77.1.2/24 dev eth1"))
    yield Fault("n0 has lost its address on link 0", 0, "address_missing", sh(0, "ip address del 10.77.0.1/24 dev eth0"),
                sh(0, "ip address add 10.77.0.1/24 dev eth0"))
    yield Fault("DHCP has given n1 another address", 1, "address_missing", address(1, 0, "10.77.0.2", "10.77.0.77"),
                address(1, 0, "10.77.0.77", "10.77.0.2"))
    yield Fault("n1's addresses are on the wrong NICs", None, "swapped_links address_missing",
                both(address(1, 0, "10.77.0.2", "10.77.1.2"), sh(1, "ip address del 10.77.1.2/24 dev eth1; ip address add 10.77.0.2/24 dev eth1")),
                both(sh(1, "ip address del 10.77.0.2/24 dev eth1"), address(1, 0, "10.77.1.2", "10.77.0.2"), sh(1, "ip address add 10.77.1.2/24 dev eth1")))
    yield Fault("n2 has n1's address on link 0", None, "address_conflict", sh(2, "ip address add 10.77.0.2/24 dev eth0"),
                sh(2, "ip address del 10.77.0.2/24 dev eth0"), wait=5)
    yield Fault("n2 has n0's address on link 1", None, "address_conflict", sh(2, "ip address add 10.77.1.1/24 dev eth1"),
                sh(2, "ip address del 10.77.1.1/24 dev eth1"), wait=5)
    yield Fault("n1 has a wrong neighbour for n0", 1, "wrong_neighbour",
                sh(1, "ip neigh replace 10.77.0.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent"), sh(1, "ip neigh del 10.77.0.1 dev eth0"))
    yield Fault("n0 has a wrong neighbour for n2", 0, "wrong_neighbour",
                sh(0, "ip neigh replace 10.77.1.3 lladdr 02:00:00:00:00:99 dev eth1 nud permanent"), sh(0, "ip neigh del 10.77.1.3 dev eth1"))
    yield Fault("the two switches are joined", None, "shared_network address_conflict",
                sh(2, "ip link add j0 type bridge && ip link set eth0 master j0 && ip link set eth1 master j0 && ip link set j0 up"),
                sh(2, "ip link del j0"), wait=4)
    yield Fault("something alters packets on link 0", None, "altered_packets", lambda c: c.load(1, f"python3 -c '{ALTERED}'"), lambda c: None)


def on_hosts():
    """Firewalls, routes, the virtual NIC."""
    for node, link in [(1, 1), (0, 0), (2, 0)]:
        yield Fault(f"n{node} drops what comes in on link {link}", node, "firewall_here",
                    sh(node, rule("input", f"iifname eth{link} udp dport {PORT} drop")), sh(node, NO_RULE))
    yield Fault("n1 lets nothing out on link 0", 1, "firewall_here", sh(1, rule("output", f"oifname eth0 udp dport {PORT} drop")), sh(1, NO_RULE))
    yield Fault("n1 rejects what comes in on link 0", 1, "firewall_here", sh(1, rule("input", f"iifname eth0 udp dport {PORT} reject")), sh(1, NO_RULE))
    yield Fault("n1 drops what comes in on all links", None, "firewall_there", sh(1, rule("input", f"udp dport {PORT} drop")), sh(1, NO_RULE), wait=13)
    yield Fault("n0 drops what comes in on all links", 0, "firewall_here", sh(0, rule("input", f"udp dport {PORT} drop")), sh(0, NO_RULE), wait=13)
    for node in [1, 0]:
        to = 2
        yield Fault(f"a route of n{node} leads past tab0", node, "vnic_route", sh(node, f"ip route add 10.99.0.{to + 1}/32 via 10.77.0.{to + 1}"),
                    sh(node, f"ip route del 10.99.0.{to + 1}/32"))
        yield Fault(f"a rule of n{node} prohibits what goes to tab0", node, "vnic_route", sh(node, "ip rule add to 10.99.0.0/24 prohibit"),
                    sh(node, "ip rule del to 10.99.0.0/24 prohibit"))
    yield Fault("n0 has a blackhole for n1", 0, "vnic_route", sh(0, "ip route add blackhole 10.99.0.2/32"), sh(0, "ip route del blackhole 10.99.0.2/32"))
    yield Fault("n1's firewall drops what comes by tab0", None, "vnic_firewall", sh(1, rule("input", "iifname tab0 drop")), sh(1, NO_RULE))
    yield Fault("n0's firewall lets nothing out by tab0", None, "vnic_firewall", sh(0, rule("output", "oifname tab0 drop")), sh(0, NO_RULE))
    for node in [1, 0]:
        yield Fault(f"tab0 of n{node} is off", node, "vnic_changed", sh(node, "ip link set tab0 down"), sh(node, "ip link set tab0 up"))
        yield Fault(f"tab0 of n{node} has lost its address", node, "vnic_changed", sh(node, f"ip address del 10.99.0.{node + 1}/24 dev tab0"),
                    sh(node, f"ip address add 10.99.0.{node + 1}/24 dev tab0"))
    yield Fault("tab0 of n1 has another MAC", 1, "vnic_changed", sh(1, "ip link set tab0 address 02:11:22:33:44:55"), None, restart=[1])
    yield Fault("tab0 of n1 has a smaller MTU", 1, "vnic_mtu", sh(1, "ip link set tab0 mtu 1400"), sh(1, "ip link set tab0 mtu 62000"),
                load=[(0, "ping -q -s 8000 -i 0.05 10.99.0.2"), (0, "ping -q -s 8000 -i 0.05 10.99.0.2")])
    yield Fault("a program on n1 does not read", None, "slow_program", lambda c: None, lambda c: None,
                load=[(1, "python3 -c 'import socket, time\nserver = socket.create_server((\"\", 5400))\nclient = server.accept()[0]\ntime.sleep(60)'"),
                      (0, "sleep 0.5; exec socat -u OPEN:/dev/zero TCP:10.99.0.2:5400")])


def of_daemons():
    """Daemons and cluster files."""
    def start(node):
        return lambda c: c.start(node)

    def again(node):
        return lambda c: c.restart(node)

    yield Fault("n1's daemon has ended", None, "no_daemon_there", lambda c: c.stop(1), start(1))
    yield Fault("n1's daemon hangs", None, "firewall_there daemon_silent no_daemon_there link_dead", lambda c: c.signal(1, 19), lambda c: c.signal(1, 18), wait=12)
    yield Fault("n0's daemon has ended", 0, "no_daemon", lambda c: c.stop(0), start(0))
    yield Fault("another program has n1's port", 1, "port_taken", both(lambda c: c.stop(1), lambda c: c.load(1, f"socat -u UDP-RECV:{PORT},bind=10.77.0.2 -"),
                lambda c: time.sleep(0.5)), both(lambda c: c.unload(), start(1)), asks=1)
    yield Fault("n1's file is not TOML", 1, "cluster_file", both(lambda c: c.stop(1), lambda c: c.write(1, "wire = plain\n")),
                both(lambda c: c.write(1), start(1)), asks=1)
    yield Fault("n1 has another key", None, "wrong_key", lambda c: c.restart(1, c.text(key=OTHER_KEY)), again(1))
    yield Fault("n1 has another wire", None, "wrong_wire", lambda c: c.restart(1, c.text(wire="plain")), again(1))
    yield Fault("n1 has another port", None, "no_daemon_there", lambda c: c.restart(1, c.text(port=PORT + 1)), again(1))
    yield Fault("n1's file does not name n0", None, "files_differ", lambda c: c.restart(1, c.text(but=[0])), again(1))
    yield Fault("n1's file calls n0 otherwise", None, "files_differ", lambda c: c.restart(1, c.text(name=lambda n: "head" if n == "n0" else n)), again(1))
    yield Fault("n1's file has its links in the other order", 1, "cluster_file swapped_links",
                lambda c: c.restart(1, c.text(address=lambda node, link: f"10.77.{1 - link if node == 1 else link}.{node + 1}")), again(1), asks=1)
    yield Fault("n2 runs as n1", None, "name_conflict files_differ swapped_links", both(lambda c: c.stop(2), lambda c: c.write(2, c.text(
                address=lambda node, link: f"10.77.{link}.{ {1: 3, 2: 9}.get(node, node + 1)}")), lambda c: c.start(2, "n1")),
                both(lambda c: c.stop(2), lambda c: c.write(2), start(2)), wait=4)


def healthy():
    """Odd, and not ill: a name, what to do on each node, options of the lab, lines at the head of the file, further ones, load."""
    def each(line):
        return [(node, line) for node in range(3)]

    nft = "nft add table inet odd && nft 'add chain inet odd c { type filter hook input priority 0; policy accept; }' && nft add rule inet odd c "
    yield "nothing", [], {}
    yield "all switches and NICs with 9000 bytes", [], {"lab": ("--mtu", "9000")}
    yield "all switches and NICs with 1280 bytes", [], {"lab": ("--mtu", "1280")}
    yield "links of 10 Mb/s", [], {"lab": ("--rate", "10mbit")}
    yield "unequal links, idle", [], {"lab": ("--rates", "1gbit,100mbit")}
    yield "links of 20 ms", [], {"lab": ("--delay", "20ms")}
    yield "one far link", [], {"lab": ("--delay", "0us,10ms")}
    yield "no line rate", [], {"lab": ("--rate", "none")}
    yield "without a virtual NIC", [], {"vnic": False}
    yield "plain", [], {"wire": "plain"}
    yield "a small MTU of tab0", [], {"more": "[vnic]\nmtu = 1400\n"}
    yield "few bundles", [], {"more": "[mesh]\nbundles = 4\n"}
    yield "nobody relays", [], {"more": "[mesh]\nrelay = false\n"}
    yield "metrics", [], {"head": "metrics = 9577\n"}
    yield "Multipath TCP is steered", [], {"head": "mptcp = true\n"}
    yield "further addresses on the NICs", each("ip address add 192.168.7.1/24 dev eth0; ip address add 192.168.8.1/24 dev eth1"), {}
    yield "a VLAN on a link", each("ip link add link eth0 name v7 type vlan id 7 && ip link set v7 up"), {}
    yield "a macvlan on a link", each("ip link add m0 link eth0 type macvlan && ip link set m0 up"), {}
    yield "a bridge for containers", each("ip link add docker0 type bridge && ip address add 172.17.0.1/16 dev docker0 && ip link set docker0 up"), {}
    yield "a default route", each("ip route add default via 10.77.0.250 dev eth0"), {}
    yield "unrelated rules and blackholes", each("ip rule add from 192.168.9.0/24 prohibit; ip route add blackhole 192.168.10.0/24"), {}
    yield "a firewall that counts", each(nft + "counter accept"), {}
    yield "a firewall with connection tracking", each(nft + "ct state established,related accept"), {}
    yield "a firewall that drops all but tabane and tab0", each(
        nft + f"udp dport {PORT} accept; nft add rule inet odd c iifname '{{ tab0, lo }}' accept; "
        "nft add rule inet odd c meta l4proto icmp accept; nft add rule inet odd c drop"), {}
    yield "pings are not answered", each("sysctl -qw net.ipv4.icmp_echo_ignore_all=1"), {}
    yield "strict reverse paths", each("sysctl -qw net.ipv4.conf.all.rp_filter=1"), {}
    yield "ARP as load balancers set it", each("sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2"), {}
    yield "a router", each("sysctl -qw net.ipv4.ip_forward=1"), {}
    yield "no IPv6", each("sysctl -qw net.ipv6.conf.all.disable_ipv6=1"), {}
    yield "fq_codel on the links", each("for link in 0 1; do tc qdisc replace dev eth$link root fq_codel; done"), {"lab": ("--rate", "none")}
    yield "a queueing discipline on tab0", each("tc qdisc replace dev tab0 root fq_codel"), {"after": True}
    yield "a smaller tab0 everywhere", each("ip link set tab0 mtu 1500"), {"after": True}
    yield "further addresses on tab0", each("ip address add 10.98.0.$(ip -br address show tab0 | grep -o '10.99.0.[0-9]*' | cut -d. -f4)/24 dev tab0"), {"after": True}
    yield "a VXLAN over tab0", each("ip link add x0 type vxlan id 7 dev tab0 dstport 4789 && ip link set x0 up"), {"after": True}
    yield "a flow over tab0", [], {"load": [(1, SERVER), (0, FLOW)]}
    yield "a flow on the link itself", [], {"load": [(1, SERVER), (0, "iperf3 -c 10.77.0.2 -t 30 -b 50M")]}
    yield "many pings", [], {"load": [(0, "ping -q -i 0.005 10.99.0.2")]}
    yield "a flow of UDP", [], {"load": [(1, SERVER), (0, "iperf3 -u -c 10.99.0.2 -t 30 -b 20M")]}
    yield "two nodes", [], {"nodes": 2}
    yield "an idle server of each kind", [], {"load": [(0, "socat TCP-LISTEN:5500 -"), (1, "socat UDP-RECV:5500 -")]}


def wanted(name):
    only = sys.argv[2:]
    return not only or any(word in name for word in only)


def try_faults(tabane, directory):
    named = of = 0
    faults = [fault for group in (on_links, on_hosts, of_daemons) for fault in group() if wanted(fault.name)]
    if not faults:
        return 0, 0
    cluster = Cluster(tabane, directory)
    try:
        for node in cluster.nodes:
            cluster.start(node)
        cluster.wait_well()
        for fault in faults:
            for node, line in fault.load:
                cluster.load(node, line)
                time.sleep(0.3)
            fault.make(cluster)
            time.sleep(fault.wait)
            found = cluster.doctor(fault.asks)
            is_named = any(cause in fault.causes and fault.where in (None, int(node[1:])) for node, cause in found)
            of += 1
            named += is_named
            told = ", ".join(f"{cause} at {node}" for node, cause in found) or "nothing"
            print(f"{'named ' if is_named else 'MISSED'}  {fault.name}: {told}", flush=True)
            cluster.unload()
            if fault.undo:
                fault.undo(cluster)
            for node in fault.restart:
                cluster.restart(node)
            cluster.wait_well()
    finally:
        cluster.end()
    return named, of


def try_healthy(tabane, directory):
    false = of = 0
    for name, steps, options in healthy():
        if not wanted(name):
            continue
        cluster = Cluster(tabane, directory, **{key: options[key] for key in ("lab", "head", "more", "vnic", "wire", "nodes") if key in options})
        try:
            after = options.get("after", False)
            if not after:
                for node, line in steps:
                    cluster.sh(node, line)
            for node in cluster.nodes:
                cluster.start(node)
            cluster.wait_well()
            if after:
                for node, line in steps:
                    cluster.sh(node, line)
            for node, line in options.get("load", []):
                cluster.load(node, line)
                time.sleep(0.3)
            time.sleep(3)
            found = cluster.doctor(0)
            of += 1
            false += bool(found)
            told = ", ".join(f"{cause} at {node}" for node, cause in found) or "nothing"
            print(f"{'FALSE ' if found else 'well  '}  {name}: {told}", flush=True)
        except RuntimeError as error:
            if not any(words in str(error) for words in ("Unknown device type", "qdisc kind is unknown")):
                raise
            print(f"not here  {name}: this kernel has no such device, or no such queue", flush=True)
        finally:
            cluster.end()
    return false, of


def main():
    tabane = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="tabane-doctor-") as directory:
        named, faults = try_faults(tabane, directory)
        false, well = try_healthy(tabane, directory)
    print(f"{named} of {faults} faults named where they lie; {false} of {well} healthy clusters called ill")
    return int(named * 20 < faults * 19 or false > 0)


if __name__ == "__main__":
    sys.exit(main())
