//! Sockets that a user hands over for ports, and goes on having: they are believed no more than they are, and
//! hold nobody up.

use tabane_lab::cluster::Cluster;

use crate::common::*;
use crate::stall::goes_on;
use crate::users::*;

/// Where a server listens that hostile programs connect to.
const SERVER: u16 = 7000;

/// What hostile programs share that ask for ports. `tcp` is made where the node is; what is made behind this is of a
/// network namespace of the user's own.
const ASKS: &str = "\
import json
tcp = [socket.socket() for _ in range(4)]
udp = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(4)]
mptcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
def claim(port, transport='tcp'):
    said = {'transport': transport, 'address': f'0.0.0.0:{port}', 'only_v6': False, 'reuse_address': False,
            'reuse_port': False}
    tell(place, json.dumps({'says': 'claim', 'id': port, 'claim': said}))
def hand(sockets, transport='tcp'):
    tell(place, json.dumps({'says': 'outward', 'transport': transport, 'is_v6': False}), sockets)
def answer(port):
    place.settimeout(30)
    while True:
        said = json.loads(place.recv(1000))
        if said['says'] == 'claimed' and said['id'] == port:
            return said['error']
";

/// What such a program says, on the second node.
fn said_of(cluster: &Cluster, before: &str, script: &str) -> String {
    let script = format!("{ASKS}{before}{BEGUN}{script}");
    said_by(plainly(cluster, 1, EVIL, &script))
}

#[test]
fn a_port_is_had_by_a_socket_of_the_node_alone() {
    if !has_users() {
        return;
    }
    let (cluster, tabane) = (cluster(), ForAll::new());
    let script = format!(
        "\
ENOBUFS, EINVAL = 105, 22
foreign = socket.socket()
for port, sockets in (8080, [foreign]), (8081, [mptcp]), (8082, [udp[0]]), (8083, []):
    claim(port)
    hand(sockets)
    assert answer(port) == ENOBUFS, port
tcp[0].connect(('127.0.0.1', {SERVER}))
claim(8084)
hand([tcp[0]])
assert answer(8084) == EINVAL
claim(8085)
hand([tcp[1]])
assert answer(8085) is None
# They have those ports, as it seems, where nobody else is.
foreign.bind(('', 8080))
foreign.listen()
print('ready', flush=True)
time.sleep(600)
"
    );
    let server = format!(
        "s = socket.create_server(('', {SERVER})); print('ready', flush=True); time.sleep(600)"
    );
    let _server = serve(plainly(&cluster, 1, 0, &server));
    let script = format!("{ASKS}{BEGUN}{script}");
    let (_evil, _) = serve(plainly(&cluster, 1, EVIL, &script));
    let asks = |port: u16| {
        let script = format!(
            "\
try:
    print(socket.create_connection(('{}', {port}), 10).getpeername()[1])
except OSError as e:
    print(type(e).__name__)
",
            cluster.address(1)
        );
        (
            plainly(&cluster, 0, GOOD, &script),
            under_run(&cluster, &tabane, 0, GOOD, &script),
        )
    };
    for port in 8080..8085 {
        let (plain, _) = asks(port);
        assert_eq!(said_by(plain), "ConnectionRefusedError\n", "{port}");
    }
    let (_, under_run) = asks(8080);
    assert_eq!(said_by(under_run), "ConnectionRefusedError\n");
    let (plain, _) = asks(8085);
    assert_eq!(said_by(plain), "8085\n");
    goes_on(&cluster);
}

/// Who has a socket at one device alone has not the port.
#[test]
fn a_port_that_was_given_up_is_anybodys() {
    if !has_users() {
        return;
    }
    let (cluster, tabane) = (cluster(), ForAll::new());
    let script = "\
claim(8080)
hand([tcp[0]])
assert answer(8080) is None
tcp[0].setsockopt(socket.SOL_SOCKET, 25, b'lo')
print('ready', flush=True)
time.sleep(600)
";
    let script = format!("{ASKS}{BEGUN}{script}");
    let (_evil, _) = serve(plainly(&cluster, 1, EVIL, &script));
    let server = "\
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, 25, b'tab0')
listener.bind(('', 8080))
listener.listen()
print('ready', flush=True)
while True:
    s = listener.accept()[0]
    s.sendall(b'good')
    s.close()
";
    let _good = serve(plainly(&cluster, 1, GOOD, server));
    let client = format!(
        "print(socket.create_connection(('{}', 8080), 10).recv(100).decode())",
        cluster.address(1)
    );
    let heard = said_by(under_run(&cluster, &tabane, 0, GOOD, &client));
    assert_eq!(heard, "good\n");
}

#[test]
fn a_port_whose_socket_is_set_to_wait_is_not_waited_for() {
    if !has_users() {
        return;
    }
    let cluster = cluster();
    // A child stays where the node is, and connects; its user takes what the poller has just told the daemon of.
    let connects = "\
parent = os.getpid()
child = os.fork()
if child == 0:
    while os.getppid() == parent:
        try:
            socket.create_connection(('127.0.0.1', 8080)).close()
        except OSError:
            time.sleep(0.01)
    os._exit(0)
";
    let script = "\
import signal
claim(8080)
hand([tcp[0]])
assert answer(8080) is None
tcp[0].setblocking(True)
def takes():
    while True:
        tcp[0].accept()[0].close()
for _ in range(2):
    threading.Thread(target=takes, daemon=True).start()
print(ended(), flush=True)
os.kill(child, signal.SIGKILL)
os._exit(0)
";
    let said = said_of(&cluster, connects, script);
    assert!(said.contains("has been set to wait"), "{said}");
    goes_on(&cluster);
}

#[test]
fn a_port_whose_socket_is_shut_down_is_not_looked_at_for_ever() {
    if !has_users() {
        return;
    }
    let cluster = cluster();
    for transport in ["tcp", "udp"] {
        let script = format!(
            "\
s = {transport}[0]
claim(8080, '{transport}')
hand([s], '{transport}')
assert answer(8080) is None
try:
    s.shutdown(socket.SHUT_RD)
except OSError:
    # One of UDP is not connected, and shut down all the same.
    pass
print(ended())
"
        );
        let said = said_of(&cluster, "", &script);
        assert!(said.contains("is in error"), "{transport}: {said}");
    }
    goes_on(&cluster);
    let status = cluster.status(1).expect("status");
    assert_eq!(status["node"]["limits_hit"]["run_ended"], 2, "{status:#}");
}
