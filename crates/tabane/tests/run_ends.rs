//! Whom a server sees that programs under `tabane run` connect to, and that nobody is taken for
//! somebody else.

mod common;

use core::time::Duration;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use common::*;
use serde_json::json;
use tabane_engine::{Engine, EngineConfig, Host, LinkSpec, LoopTurn};
use tabane_io::poll::{Poller, Ready};
use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, output};
use tabane_program::agent::{Opening, SERVICE_TCP};
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::op::{OpEvent, Policy};
use tabane_proto::wire::WireMode;
use tabane_proto::{Event, LinkId, Node, PeerConfig, PeerId, Time};

/// A program in Python that is given its text, and waits for the end of its input at its own end; and
/// the first line that it prints.
fn told(mut python: Command, script: &str) -> (Program, String) {
    python.arg("-c").arg(script);
    python.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = Program::start("python3", python).expect("starts");
    let mut stdout = BufReader::new(program.take_stdout().expect("is piped"));
    let mut said = String::new();
    stdout.read_line(&mut said).expect("can be read");
    (program, said)
}

/// Greets whoever comes with the address that it sees.
const GREETS: &str = "\
import socket, threading
def greet(s, end):
    s.sendall(end[0].encode())
    s.recv(1)
    s.close()
listener = socket.create_server(('', 8080))
print('ready', flush=True)
while True:
    threading.Thread(target=greet, args=listener.accept(), daemon=True).start()
";

/// Is greeted, and ends when its input does. At which address, and what it is bound to first.
fn is_greeted(address: IpAddr, bound: (&str, u16)) -> String {
    format!(
        "\
import errno, socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    s.bind({bound:?})
    s.connect(('{address}', 8080))
    print(s.recv(100).decode(), flush=True)
except OSError as e:
    print(errno.errorcode[e.errno], flush=True)
sys.stdin.read()
"
    )
}

/// Each program has all ports to itself, so several of a node may connect from the same one.
#[test]
fn programs_that_connect_from_the_same_port_are_told_apart() {
    let cluster = cluster();
    let (_server, said) = told(cluster.run(1, "python3"), GREETS);
    assert_eq!(said, "ready\n");
    let script = is_greeted(cluster.address(1), ("", 5555));
    let client = |python| {
        let (client, said) = told(python, &script);
        assert_eq!(said, format!("{}\n", cluster.address(0)));
        client
    };
    // At once, and behind what is left of the first ones.
    for _ in 0..2 {
        for mut client in [0; 3].map(|_| client(cluster.run(0, "python3"))) {
            drop(client.take_stdin());
            assert!(client.wait(PATIENCE).expect("ends").success());
        }
    }
    // The server is there for others as before.
    client(cluster.lab().command(0, "python3"));
}

/// `ip` with these words on a node.
fn ip(cluster: &Cluster, node: usize, words: &str) {
    said(cluster, node, &format!("ip {words}"));
}

/// What a client on node 0 prints that is bound to `bound` before it connects to an address of node 1.
fn seen(cluster: &Cluster, to: IpAddr, bound: (&str, u16)) -> String {
    let script = is_greeted(to, bound);
    let (_, said) = told(cluster.run(0, "python3"), &script);
    said.trim_end().to_owned()
}

/// A program is seen as one of its node, at an address that it chooses among those.
#[test]
fn a_program_is_seen_at_addresses_of_its_node_only() {
    const ELSEWHERE: &str = "192.0.2.7";
    const OTHER: &str = "192.0.2.8";
    let cluster = cluster();
    ip(&cluster, 0, &format!("address add {OTHER}/32 dev eth0"));
    let via = cluster.lab().address(0, 0);
    ip(&cluster, 1, &format!("route add {OTHER} via {via}"));
    let (_server, said) = told(cluster.run(1, "python3"), GREETS);
    assert_eq!(said, "ready\n");
    let [vnic, link] = [cluster.address(0), cluster.lab().address(0, 0)].map(|ip| ip.to_string());
    for to in [cluster.address(1), cluster.lab().address(1, 0)] {
        for own in [&vnic, &link, OTHER] {
            assert_eq!(seen(&cluster, to, (own, 0)), own, "{to}");
        }
        // What it has within is its own; and nobody has other nodes' addresses.
        for wrong in [
            "127.0.0.1",
            "127.8.9.10",
            ELSEWHERE,
            &cluster.address(1).to_string(),
        ] {
            assert_eq!(
                seen(&cluster, to, (wrong, 6000)),
                "ENETUNREACH",
                "{wrong} to {to}"
            );
        }
    }
}

/// Where the cluster file forbids plain TCP between nodes, nothing is carried in the clear, for lack of
/// anything else either.
#[test]
fn nothing_goes_in_the_clear_where_the_file_forbids_it() {
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("a file");
    let mut file = fs::read_to_string(cluster.file()).expect("can be read");
    file += "[run]\nplain_tcp = false\n";
    fs::write(cluster.file(), file).expect("can be written");
    let link = cluster.lab().address(1, 0);
    let (plain, said) = told(cluster.lab().command(1, "python3"), GREETS);
    assert_eq!(said, "ready\n");

    // No tabane runs there: it is waited for, as for a host that does not answer.
    cluster.start(0).expect("starts");
    let gives_up = format!(
        "import socket\ntry: socket.create_connection(('{link}', 8080), 5)\nexcept OSError as e: print(e, flush=True)"
    );
    let (_, said) = told(cluster.run(0, "python3"), &gives_up);
    assert_eq!(said, "timed out\n");
    // Until then what it asked for waits, and would be refused, too.
    eventually("the program is gone", || {
        cluster
            .status(0)
            .is_ok_and(|status| status["node"]["run"]["programs"] == json!([]))
    });

    // Nobody there is under `tabane run`.
    cluster.start(1).expect("starts");
    eventually("the nodes are connected", || {
        cluster
            .status(0)
            .is_ok_and(|status| status["peers"][0]["state"] == "up")
    });
    assert_eq!(seen(&cluster, link, ("", 0)), "ECONNREFUSED");
    let run = cluster.status(0).expect("status")["node"]["run"].take();
    assert_eq!(
        (&run["kept_from_plain"], &run["plain"]),
        (&1.into(), &0.into()),
        "{run}"
    );
    let why = format!("connection to {link}:8080 was refused");
    assert_eq!(cluster.log(0).matches(&why).count(), 1);

    drop(plain);
    let (_server, said) = told(cluster.run(1, "python3"), GREETS);
    assert_eq!(said, "ready\n");
    let own = cluster.lab().address(0, 0).to_string();
    assert_eq!(seen(&cluster, link, ("", 0)), own);
}

/// What this node's firewall or routes forbid is told at once.
#[test]
fn what_this_node_forbids_is_told() {
    let cluster = cluster();
    ip(&cluster, 0, "route add prohibit 198.51.100.0/24");
    let to = "198.51.100.1".parse().expect("an address");
    assert_eq!(seen(&cluster, to, ("", 0)), "EHOSTUNREACH");
}

/// As over plain TCP: also while the other end reads nothing, and everything on the way is full.
#[test]
fn a_reset_is_told_to_who_does_not_read() {
    let cluster = cluster();
    let waits = "\
import errno, select, socket
listener = socket.create_server(('', 8080))
print('ready', flush=True)
s, _ = listener.accept()
errors = select.poll()
errors.register(s, 0)
errors.poll()
print(errno.errorcode[s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)], flush=True)
";
    let fills = format!(
        "\
import select, socket, struct
s = socket.create_connection(('{}', 8080))
s.setblocking(False)
while select.select([], [s], [], 1)[1]:
    s.send(bytes(1 << 16))
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
print('reset', flush=True)
",
        cluster.address(1)
    );
    let mut server = cluster.run(1, "python3");
    server.args(["-c", waits]);
    server.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = Program::start("server", server).expect("starts");
    let mut lines = BufReader::new(server.take_stdout().expect("is piped")).lines();
    let mut next = || lines.next().expect("a line").expect("can be read");
    assert_eq!(next(), "ready");
    let (_client, said) = told(cluster.run(0, "python3"), &fills);
    assert_eq!(said, "reset\n");
    assert!(server.wait(PATIENCE).expect("is told").success());
    assert_eq!(next(), "ECONNRESET");
}

/// Set in the process that is a node that lies, to the cluster file.
const LIES: &str = "TABANE_TEST_LIES";

/// The daemon believes a peer only what the cluster file says: who speaks from the host's own address
/// is trusted by many servers.
#[test]
fn a_peer_is_not_believed_an_address_that_is_not_its_own() {
    const NAME: &str = "a_peer_is_not_believed_an_address_that_is_not_its_own";
    if let Ok(file) = std::env::var(LIES) {
        return lie(Path::new(&file));
    }
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("a file");
    cluster.start(1).expect("starts");
    let (_server, said) = told(cluster.run(1, "python3"), GREETS);
    assert_eq!(said, "ready\n");
    let this = std::env::current_exe().expect("is known");
    let mut liar = cluster.lab().command(0, this.to_str().expect("is text"));
    liar.args(["--exact", NAME, "--nocapture"]);
    liar.env(LIES, cluster.file()).stdin(Stdio::null());
    let said = output("the liar", liar, PATIENCE).expect("ends");
    let answers = text(&said.stdout);
    let answers = answers
        .lines()
        .filter_map(|line| line.split("answer: ").nth(1));
    let [true_one, lies @ ..] = &answers.collect::<Vec<_>>()[..] else {
        panic!("{}", text(&said.stderr));
    };
    assert_eq!(*true_one, "accepted");
    assert_eq!(lies, ["refused"; LIES_TOLD]);
    let run = cluster.status(1).expect("status")["node"]["run"].take();
    assert_eq!(run["misaddressed"], LIES_TOLD, "{run}");
}

const LIES_TOLD: usize = 4;

/// Node 0 of the cluster: asks node 1 for connections from whom and to whom it likes, one after the
/// other, and prints the answers.
struct Liar {
    openings: Vec<Opening>,
    peer: PeerId,
    is_over: bool,
}

impl Liar {
    fn ask(&mut self, now: Time, node: &mut Node) {
        let Some(opening) = self.openings.pop() else {
            self.is_over = true;
            return;
        };
        let stream = node.open_stream(now, self.peer, SERVICE_TCP, Policy::Stripe);
        let written = node.write_stream(now, self.peer, stream.expect("opens"), &opening.encode());
        written.expect("is taken");
    }
}

impl Host for Liar {
    fn event(&mut self, now: Time, node: &mut Node, event: Event) {
        let answer = match event {
            Event::PeerUp { .. } => return self.ask(now, node),
            Event::Op { event, .. } => match event {
                OpEvent::Readable(_) => "accepted",
                OpEvent::Reset { code: 1, .. } => "refused",
                _ => return,
            },
            _ => return,
        };
        println!("answer: {answer}");
        self.ask(now, node);
    }

    fn frame(&mut self, _: PeerId, _: &mut Vec<u8>) {}

    fn ready(&mut self, _: &mut LoopTurn<'_>, _: Ready) {}

    fn produce(&mut self, _: Time, _: &mut Node) -> bool {
        false
    }

    fn before_wait(&mut self, _: &Node, _: &Poller) -> bool {
        false
    }

    fn link_changed(&mut self, _: &str) {}
}

fn lie(file: &Path) {
    let (cluster, _) = tabane_cluster::Cluster::load(file).expect("is right");
    let [me, peer] = [&cluster.nodes[0], &cluster.nodes[1]];
    let link = |(id, address)| LinkSpec {
        id: LinkId(id as u8),
        address,
    };
    let config = EngineConfig {
        name: me.name.clone(),
        keys: cluster.keys(),
        private: None,
        public: None,
        wire: WireMode::Encrypted,
        port: cluster.port,
        links: me.addresses().map(link).collect(),
        spin: Duration::ZERO,
        features: 0,
        relay: None,
        guests: None,
    };
    let (mut engine, _) = Engine::new(config).expect("begins");
    let mut addresses = [None; LINKS_MAX];
    for (link, address) in peer.addresses() {
        addresses[link] = Some((address, cluster.port).into());
    }
    let config = PeerConfig {
        name: peer.name.clone(),
        addresses,
        public: None,
    };
    let now = engine.now();
    let vnic = |node: usize| cluster.nodes[node].vnic.expect("has one").0;
    let ends = |from: IpAddr, to: IpAddr| Opening {
        from: SocketAddr::new(from, 4000),
        to: SocketAddr::new(to, 8080),
    };
    let own: IpAddr = [127, 0, 0, 1].into();
    let mut liar = Liar {
        openings: vec![
            ends(vnic(0), [192, 0, 2, 1].into()),
            ends(vnic(0), own),
            ends(vnic(1), vnic(1)),
            ends(own, vnic(1)),
            ends(vnic(0), vnic(1)),
        ],
        peer: engine.node.add_peer(now, config).expect("is new"),
        is_over: false,
    };
    while !liar.is_over {
        engine.turn(&mut liar, None).expect("goes on");
    }
}
