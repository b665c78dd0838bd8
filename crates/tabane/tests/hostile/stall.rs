//! The daemon's loop: no user holds it up, and none takes what others need to begin.

use std::io::BufRead;

use serde_json::Value;
use tabane_lab::cluster::Cluster;

use crate::common::*;
use crate::users::*;

/// All of tab0 goes on, and the daemon answers.
pub fn goes_on(cluster: &Cluster) -> Value {
    eventually("pings are answered", || pings(cluster, 1, 0, 5, 56) == 5);
    cluster.status(0).expect("status")
}

/// What a hostile program says last, on the first node, where its user is welcome at first.
fn said_of(cluster: &Cluster, script: &str) -> String {
    said_by(plainly(cluster, 0, EVIL, &format!("{BEGUN}{script}")))
}

#[test]
fn what_lingers_when_it_is_closed_holds_nobody_up() {
    if !has_users() {
        return;
    }
    let cluster = cluster();
    // Each has more to send than the other end takes, and would wait for an hour when it is closed last.
    let script = "\
kept = []
def lingers():
    listener = socket.create_server(('127.0.0.1', 0))
    s = socket.create_connection(listener.getsockname())
    kept.append((listener, listener.accept()[0]))
    s.setblocking(False)
    try:
        while True:
            s.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 3600))
    return s
def hand(to, words):
    sockets = [lingers() for _ in range(4)]
    try:
        tell(to, words, sockets)
    except OSError:
        pass
    # Who closes last waits, which may be this one.
    for s in sockets:
        threading.Thread(target=s.close, daemon=True).start()
# As spare ones, with words that want none, and with such as nobody hears any more.
for words in '{\"says\":\"spares\",\"is_v6\":false}', '{\"says\":\"looked\"}', 'nonsense', 'x' * 20000:
    hand(place, words)
# Beside a question.
for words in '{\"command\":\"status\"}\\n', '{':
    hand(control, words)
control.close()
place.close()
for s in sockets:
    s.close()
print('ready', flush=True)
time.sleep(600)
";
    let script = format!("{BEGUN}{script}");
    let (_evil, _) = serve(plainly(&cluster, 0, EVIL, &script));
    goes_on(&cluster);
}

#[test]
fn a_listener_that_is_set_to_wait_is_not_waited_for() {
    if !has_users() {
        return;
    }
    let cluster = cluster();
    // Its user takes what the poller has just told the daemon of.
    let script = "\
listener = sockets[5]
listener.setblocking(True)
def takes():
    while True:
        listener.accept()[0].close()
def connects():
    while True:
        try:
            socket.create_connection(('::1', listener.getsockname()[1])).close()
        except OSError:
            time.sleep(0.01)
for of in takes, takes, connects:
    threading.Thread(target=of, daemon=True).start()
print(ended(), flush=True)
os._exit(0)
";
    let said = said_of(&cluster, script);
    assert!(said.contains("has been set to wait"), "{said}");
    goes_on(&cluster);
}

#[test]
fn who_does_what_no_supervisor_does_has_ended() {
    if !has_users() {
        return;
    }
    let cluster = cluster();
    let cases = [
        ("begin(place, capture())\nprint(ended())", "begun already"),
        (
            "\
claim = '{\"says\":\"claim\",\"id\":1,\"claim\":{\"transport\":\"tcp\",\"address\":\"0.0.0.0:80\",' \
'\"only_v6\":false,\"reuse_address\":false,\"reuse_port\":false}}'
try:
    for _ in range(100_000):
        tell(place, claim)
    print('it goes on')
except OSError as e:
    print(ended())
",
            "",
        ),
        (
            "\
IP_RECVERR, IPV6_RECVERR = 11, 25
sockets[6].setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
sockets[6].sendto(b'x', ('::1', 9))
print(ended())
",
            "is in error",
        ),
    ];
    for (script, why) in cases {
        let said = said_of(&cluster, script);
        assert!(!said.contains("goes on"), "{said}");
        assert!(said.contains(why), "{said}");
    }
    let status = goes_on(&cluster);
    let node = &status["node"];
    assert_eq!(node["limits_hit"]["run_ended"], 3, "{status:#}");
    assert_eq!(node["run"]["programs"].as_array().map(Vec::len), Some(0));
}

/// Who it is, the kernel says.
#[test]
fn nobody_passes_for_another_process() {
    if !has_users() {
        return;
    }
    let cluster = cluster();
    let script = format!("{BEGUN}print('ready', flush=True); time.sleep(600)");
    let (evil, _) = serve(plainly(&cluster, 0, EVIL, &script));
    let status = cluster.status(0).expect("status");
    let program = &status["node"]["run"]["programs"][0];
    assert_eq!(program["uid"], EVIL, "{status:#}");
    assert_eq!(program["pid"], evil.id(), "{status:#}");
}

#[test]
fn who_only_connects_keeps_nobody_out() {
    if !has_users() {
        return;
    }
    let (cluster, tabane) = (cluster(), ForAll::new());
    let script = "\
places = [agent() for _ in range(64)]
more = agent()
print(more.recv(1000).decode(), flush=True)
more.close()
# They have not begun, and are closed.
for place in places:
    while place.recv(1000):
        pass
print('closed', flush=True)
";
    let (_evil, said, mut rest) = start(plainly(&cluster, 0, EVIL, script));
    assert_eq!(said, "{\"says\":\"full\"}\n");
    let begins = "print('begun')";
    let good = said_by(under_run(&cluster, &tabane, 0, GOOD, begins));
    assert_eq!(good, "begun\n");
    let mut closed = String::new();
    rest.read_line(&mut closed).expect("can be read");
    assert_eq!(closed, "closed\n");
    let evil = said_by(under_run(&cluster, &tabane, 0, EVIL, begins));
    assert_eq!(evil, "begun\n");
    let status = goes_on(&cluster);
    let hits = &status["node"]["limits_hit"];
    assert_eq!(hits["run_ended"], 64, "{hits}");
    assert_eq!(hits["run_share_full"], 1, "{hits}");
}
