//! Ports: a user gets no connection that is for another one's program, and speaks from no port that is
//! another one's.

use std::time::{Duration, Instant};

use tabane_lab::cluster::{Cluster, Program};

use crate::common::*;
use crate::users::*;

const REFUSED: &str = "ConnectionRefusedError";

/// A server that says who it is to whoever connects.
fn server(who: &str, port: u16, options: &str) -> String {
    format!(
        "\
listener = socket.socket()
{options}
listener.bind(('', {port}))
listener.listen(100)
print('ready', flush=True)
while True:
    s = listener.accept()[0]
    s.sendall(b'{who}')
    s.close()
"
    )
}

/// What clients under `tabane run` on the first node are answered.
fn asks(cluster: &Cluster, tabane: &ForAll, port: u16, times: usize) -> Vec<String> {
    asks_from(cluster, tabane, 0, port, times)
}

/// The same, on any node.
fn asks_from(
    cluster: &Cluster,
    tabane: &ForAll,
    node: usize,
    port: u16,
    times: usize,
) -> Vec<String> {
    let script = format!(
        "\
for _ in range({times}):
    try:
        print(socket.create_connection(('{}', {port}), 10).recv(100).decode() or 'nothing')
    except OSError as e:
        print(type(e).__name__)
",
        cluster.address(1)
    );
    let said = said_by(under_run(cluster, tabane, node, GOOD, &script));
    said.lines().map(str::to_owned).collect()
}

/// A program under `tabane run` whose namespaces its user may enter.
fn den(cluster: &Cluster, tabane: &ForAll, node: usize) -> Program {
    let script = "print('ready', flush=True); time.sleep(600)";
    serve(under_run(cluster, tabane, node, EVIL, script)).0
}

/// A server of the user in there, which nobody is told of.
fn server_in(cluster: &Cluster, den: &Program, port: u16) -> Program {
    let script = format!("enter({})\n{}", den.id(), server("evil", port, ""));
    serve(plainly(cluster, 1, EVIL, &script)).0
}

#[test]
fn nobody_is_given_what_is_for_another_user() {
    if !has_users() {
        return;
    }
    let (cluster, tabane) = (cluster(), ForAll::new());
    let den = den(&cluster, &tabane, 1);
    let _plain = [22, 8080].map(|port| serve(plainly(&cluster, 1, 0, &server("good", port, ""))));
    let _evil = [22, 80, 8080, 8081, 9000].map(|port| server_in(&cluster, &den, port));
    // A plain program has it, be it root's port or not.
    for port in [22, 8080] {
        assert_eq!(asks(&cluster, &tabane, port, 3), ["good"; 3], "{port}");
    }
    // Nobody has it, and the user may not.
    assert_eq!(asks(&cluster, &tabane, 80, 1), [REFUSED]);
    // Another user's program under `tabane run` has it.
    let _good = serve(under_run(
        &cluster,
        &tabane,
        1,
        GOOD,
        &server("good", 8081, ""),
    ));
    assert_eq!(asks(&cluster, &tabane, 8081, 3), ["good"; 3]);
    // Nobody has it: who listens could have.
    assert_eq!(asks(&cluster, &tabane, 9000, 2), ["evil"; 2]);
    // From the node itself likewise; there only who has a port is found.
    for (port, answer) in [(22, "good"), (8080, "good"), (8081, "good"), (80, REFUSED)] {
        let answers = asks_from(&cluster, &tabane, 1, port, 2);
        assert_eq!(answers, [answer; 2], "{port}");
    }
    let port = 8082;
    let _open = serve(under_run(
        &cluster,
        &tabane,
        1,
        EVIL,
        &server("evil", port, ""),
    ));
    assert_eq!(asks_from(&cluster, &tabane, 1, port, 2), ["evil"; 2]);
}

/// While those who were there come back, nobody else is asked for what was theirs.
#[test]
fn nobody_is_given_what_is_for_another_user_when_a_daemon_begins_anew() {
    if !has_users() {
        return;
    }
    let (mut cluster, tabane) = (cluster(), ForAll::new());
    let den = den(&cluster, &tabane, 1);
    let _evil = server_in(&cluster, &den, 8080);
    let _good = serve(under_run(
        &cluster,
        &tabane,
        1,
        GOOD,
        &server("good", 8080, ""),
    ));
    assert_eq!(asks(&cluster, &tabane, 8080, 1), ["good"]);
    for _ in 0..3 {
        cluster.kill(1).expect("runs");
        cluster.start(1).expect("starts");
        let until = Instant::now() + Duration::from_secs(3);
        let mut answers = Vec::new();
        while Instant::now() < until {
            answers.extend(asks(&cluster, &tabane, 8080, 5));
        }
        assert!(!answers.contains(&"evil".to_owned()), "{answers:?}");
        assert_eq!(answers.last().map(String::as_str), Some("good"));
    }
}

/// Has a listener share its port by SO_REUSEPORT.
const SHARED: &str = "listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)";
/// The same for a socket of UDP, which stays.
const DATAGRAMS: &str = "\
s = socket.socket(type=socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(('', 5353))
print('ready', flush=True)
time.sleep(600)
";

#[test]
fn a_port_is_shared_among_one_user_only() {
    if !has_users() {
        return;
    }
    let (cluster, tabane) = (cluster(), ForAll::new());
    // The daemon is root's, as one of the two is.
    for (port, first, second) in [(8443, 0, EVIL), (8444, EVIL, 0)] {
        let script = |who| server(who, port, SHARED);
        let _first = match first {
            EVIL => serve(under_run(&cluster, &tabane, 1, EVIL, &script("first"))),
            _ => serve(plainly(&cluster, 1, 0, &script("first"))),
        };
        let refused = |command| {
            let said = said_by(command);
            assert!(said.contains("Address already in use"), "{said}");
        };
        refused(plainly(&cluster, 1, second, &script("second")));
        refused(under_run(&cluster, &tabane, 1, second, &script("second")));
        assert_eq!(asks(&cluster, &tabane, port, 8), ["first"; 8]);
    }
    let _first = serve(plainly(&cluster, 1, 0, DATAGRAMS));
    let said = said_by(under_run(&cluster, &tabane, 1, EVIL, DATAGRAMS));
    assert!(said.contains("Address already in use"), "{said}");
}

/// As the kernel does without `tabane run`: a user's programs share a port by SO_REUSEPORT, whether they are
/// under `tabane run` or not.
#[test]
fn a_port_is_shared_with_plain_programs_of_its_user() {
    if !has_users() {
        return;
    }
    let (cluster, tabane) = (cluster(), ForAll::new());
    for (port, is_first_plain) in [(8443, false), (8444, true)] {
        let plain = |uid| plainly(&cluster, 1, uid, &server("plain", port, SHARED));
        let under = || under_run(&cluster, &tabane, 1, EVIL, &server("under", port, SHARED));
        let _servers = match is_first_plain {
            true => [plain(EVIL), under()].map(serve),
            false => [under(), plain(EVIL)].map(serve),
        };
        for other in [GOOD, 0] {
            let said = said_by(plain(other));
            assert!(said.contains("Address already in use"), "{other}: {said}");
        }
        let script = format!(
            "\
heard = {{socket.create_connection(('{}', {port}), 10).recv(100).decode() for _ in range(60)}}
print(sorted(heard))
",
            cluster.address(1)
        );
        let heard = said_by(plainly(&cluster, 0, GOOD, &script));
        assert_eq!(heard, "['plain', 'under']\n");
    }
    let _first = serve(under_run(&cluster, &tabane, 1, EVIL, DATAGRAMS));
    let _second = serve(plainly(&cluster, 1, EVIL, DATAGRAMS));
    for other in [GOOD, 0] {
        let said = said_by(plainly(&cluster, 1, other, DATAGRAMS));
        assert!(said.contains("Address already in use"), "{other}: {said}");
    }
}

/// Two may have bound a port of TCP, by SO_REUSEADDR: it is whose program listens.
#[test]
fn a_port_that_is_only_bound_keeps_nobody_from_another() {
    if !has_users() {
        return;
    }
    let (cluster, tabane) = (cluster(), ForAll::new());
    let binds = "\
s = socket.socket()
s.bind(('', 8080))
print('ready', flush=True)
time.sleep(600)
";
    let _evil = serve(under_run(&cluster, &tabane, 1, EVIL, binds));
    let shared = "listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)";
    let _good = serve(plainly(&cluster, 1, GOOD, &server("good", 8080, shared)));
    assert_eq!(asks(&cluster, &tabane, 8080, 3), ["good"; 3]);
}

#[test]
fn ports_of_root_are_not_lent_to_speak_from() {
    if !has_users() {
        return;
    }
    let (cluster, tabane) = (cluster(), ForAll::new());
    let shows = "\
listener = socket.create_server(('', 8080))
print('ready', flush=True)
while True:
    s, peer = listener.accept()
    s.sendall(str(peer[1]).encode())
    s.close()
";
    let _server = serve(under_run(&cluster, &tabane, 1, GOOD, shows));
    let den = den(&cluster, &tabane, 0);
    let connects = |source: u16| {
        format!(
            "print(socket.create_connection(('{}', 8080), 10, ('', {source})).recv(100).decode())",
            cluster.address(1)
        )
    };
    let script = format!("enter({})\n{}", den.id(), connects(700));
    let said = said_by(plainly(&cluster, 0, EVIL, &script));
    let shown: u16 = said.trim().parse().unwrap_or_else(|_| panic!("{said}"));
    assert!(shown >= 1024, "{shown}");
    // Who may have it speaks from it, and so does anybody from any other.
    let script = |source| connects(source);
    let root = said_by(under_run(&cluster, &tabane, 0, 0, &script(700)));
    assert_eq!(root, "700\n");
    let good = said_by(under_run(&cluster, &tabane, 0, GOOD, &script(7000)));
    assert_eq!(good, "7000\n");
}
