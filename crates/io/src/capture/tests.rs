//! With a real kernel, in a namespace of one's own: connections to hosts that do not exist, and to itself.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{
    Capture, Datagrams, Echoes, Listener, MARK_INWARD, Network, OTHER_MESSAGES_MAX, Outward, PORT,
    Sharing, Speaker, Syn, Told, Unreachable, connect_as, connection_from, furnish,
    make_transparent, read_now,
};
use crate::isolated::isolated;
use crate::namespaces::{Kinds, unshare};
use crate::poll::{Interest, Poller};
use crate::probe::Ping;

pub(super) const OWN: [&str; 2] = ["10.77.0.1", "fd77::1"];
pub(super) const FAR: [&str; 2] = ["10.77.0.2:80", "[fd77::2]:80"];
/// Addresses at which a namespace reaches itself.
const WITHIN: [&str; 5] = ["127.0.0.1", "127.3.2.1", "::1", OWN[0], OWN[1]];

pub(super) fn capture() -> Capture {
    let own = OWN.map(|text| text.parse::<IpAddr>().unwrap());
    furnish(&own.map(|address| (address, 24)), None).unwrap();
    Capture::open(&own).unwrap()
}

pub(super) fn wait_for(descriptor: std::os::fd::BorrowedFd<'_>) {
    let (poller, mut ready) = (Poller::new().unwrap(), Vec::new());
    poller.register(descriptor, 0, Interest::Read).unwrap();
    let patience = Some(Duration::from_secs(20));
    poller.wait(patience, &mut ready).unwrap();
    assert!(!ready.is_empty(), "nothing came");
}

pub(super) fn next_syn(capture: &Capture) -> Syn {
    wait_for(capture.syn_descriptor());
    capture.next_syn().unwrap().unwrap()
}

pub(super) fn connecting(to: &str) -> thread::JoinHandle<std::io::Result<TcpStream>> {
    let to: SocketAddr = to.parse().unwrap();
    thread::spawn(move || TcpStream::connect_timeout(&to, Duration::from_secs(20)))
}

/// What becomes of one to `to` that is answered as a router does: each time it is asked for, since a kernel does not
/// heed such an answer as long as the program is still in its call of connect.
fn refused_as(capture: &Capture, to: &str, why: Unreachable) -> ErrorKind {
    let program = connecting(to);
    while !program.is_finished() {
        if let Some(syn) = capture.next_syn().unwrap() {
            capture.refuse_as(&syn, why).unwrap();
        }
        thread::sleep(Duration::from_millis(1));
    }
    program.join().unwrap().unwrap_err().kind()
}

#[test]
fn a_connection_is_held_until_it_is_admitted() {
    isolated(
        "capture::tests::a_connection_is_held_until_it_is_admitted",
        || {
            let capture = capture();
            for (own, far) in OWN.into_iter().zip(FAR) {
                let program = connecting(far);
                let syn = next_syn(&capture);
                assert_eq!(syn.destination, far.parse().unwrap());
                assert_eq!(syn.source.ip(), own.parse::<IpAddr>().unwrap());
                // Nobody has answered it.
                assert!(!program.is_finished());
                assert!(capture.accept().unwrap().is_none());
                capture.admit(&syn).unwrap();
                wait_for(capture.accept_descriptor());
                let (mut ours, from, to) = capture.accept().unwrap().unwrap();
                assert_eq!((from, to), (syn.source, syn.destination));
                let mut theirs = program.join().unwrap().unwrap();
                assert_eq!(theirs.peer_addr().unwrap(), far.parse().unwrap());
                theirs.write_all(b"hello").unwrap();
                ours.set_nonblocking(false).unwrap();
                let mut heard = [0; 5];
                ours.read_exact(&mut heard).unwrap();
                assert_eq!(&heard, b"hello");
            }
        },
    );
}

#[test]
fn a_connection_that_is_refused_is_refused() {
    isolated(
        "capture::tests::a_connection_that_is_refused_is_refused",
        || {
            let capture = capture();
            for far in FAR {
                let program = connecting(far);
                let syn = next_syn(&capture);
                capture.refuse(&syn).unwrap();
                let error = program.join().unwrap().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                for (why, kind) in [
                    (Unreachable::Network, ErrorKind::NetworkUnreachable),
                    (Unreachable::Host, ErrorKind::HostUnreachable),
                ] {
                    assert_eq!(refused_as(&capture, far, why), kind);
                }
            }
        },
    );
}

#[test]
fn many_at_once_are_all_seen() {
    isolated("capture::tests::many_at_once_are_all_seen", || {
        let capture = capture();
        let programs: Vec<_> = (0..300).map(|_| connecting(FAR[0])).collect();
        let mut seen = 0;
        while seen < programs.len() {
            let syn = next_syn(&capture);
            capture.admit(&syn).unwrap();
            seen += 1;
        }
        assert!(
            programs
                .into_iter()
                .all(|program| program.join().unwrap().is_ok())
        );
    });
}

#[test]
fn a_listener_of_the_program_sees_who_connects() {
    isolated(
        "capture::tests::a_listener_of_the_program_sees_who_connects",
        || {
            let _capture = capture();
            for (own, far) in OWN.into_iter().zip(["10.77.0.9:4000", "[fd77::9]:4000"]) {
                let own: IpAddr = own.parse().unwrap();
                let listener = TcpListener::bind((own, 0)).unwrap();
                let far: SocketAddr = far.parse().unwrap();
                let ours = connect_as(far, listener.local_addr().unwrap()).unwrap();
                let (mut theirs, from) = listener.accept().unwrap();
                assert_eq!(from, far);
                ours.set_nonblocking(false).unwrap();
                (&ours).write_all(b"x").unwrap();
                theirs.read_exact(&mut [0]).unwrap();
                // Another program there may have the same port: of that one another is seen.
                let _other = connect_as(far, listener.local_addr().unwrap()).unwrap();
                let (_, from) = listener.accept().unwrap();
                assert!(from.ip() == far.ip() && from.port() != far.port(), "{from}");
            }
        },
    );
}

/// A node has more addresses than those of the cluster.
#[test]
fn a_program_is_reached_at_any_address() {
    isolated(
        "capture::tests::a_program_is_reached_at_any_address",
        || {
            let capture = capture();
            for (any, at, far) in [
                ("0.0.0.0:0", "192.0.2.1", "10.77.0.9:4000"),
                ("[::]:0", "2001:db8::1", "[fd77::9]:4000"),
            ] {
                let (at, far): (IpAddr, SocketAddr) = (at.parse().unwrap(), far.parse().unwrap());
                let listener = TcpListener::bind(any).unwrap();
                let to = SocketAddr::new(at, listener.local_addr().unwrap().port());
                let _ours = connect_as(far, to).unwrap();
                let (theirs, from) = listener.accept().unwrap();
                assert_eq!((from, theirs.local_addr().unwrap()), (far, to));
                let program = UdpSocket::bind(any).unwrap();
                let to = SocketAddr::new(at, program.local_addr().unwrap().port());
                capture.send_datagram(far, to, b"hello").unwrap();
                let mut heard = [0; 8];
                assert_eq!(program.recv_from(&mut heard).unwrap(), (5, far));
            }
            assert!(capture.next_syn().unwrap().is_none());
            assert!(capture.next_datagram(&mut [0; 8]).unwrap().is_none());
        },
    );
}

/// What stands for a program's socket answers from where it was asked.
#[test]
fn datagrams_are_answered_from_where_they_were_sent_to() {
    isolated(
        "capture::tests::datagrams_are_answered_from_where_they_were_sent_to",
        || {
            let capture = capture();
            for (any, at) in [
                ("0.0.0.0:0", "127.0.0.7"),
                ("[::]:0", "127.0.0.7"),
                ("[::]:0", OWN[1]),
                ("127.0.0.8:0", "127.0.0.8"),
            ] {
                let at: IpAddr = at.parse().unwrap();
                let any: SocketAddr = any.parse().unwrap();
                let outward = Outward::new(false, any.is_ipv6()).unwrap();
                outward.bind_for_datagrams(any, Sharing::default()).unwrap();
                let ours = Datagrams::from(outward);
                let to = SocketAddr::new(at, ours.local_address().unwrap().port());
                let from = if at.is_ipv4() { "127.0.0.1" } else { OWN[1] };
                let other = UdpSocket::bind((from, 0)).unwrap();
                other.connect(to).unwrap();
                other.send(b"hello").unwrap();
                wait_for(ours.as_fd());
                let mut heard = [0; 8];
                let (from, asked, bytes) = ours.receive(&mut heard).unwrap().unwrap();
                assert_eq!((from, asked, bytes), (other.local_addr().unwrap(), at, 5));
                ours.send(Some(asked), from, b"hi").unwrap();
                // It is connected: from elsewhere it would hear nothing.
                assert_eq!(other.recv(&mut heard).unwrap(), 2);
                drop(other);
                ours.send(Some(asked), from, b"hi").unwrap();
                wait_for(capture.datagram_descriptor());
                let (asked, nobody, _) = capture.next_datagram(&mut heard).unwrap().unwrap();
                capture
                    .refuse_datagram(asked, nobody, Unreachable::Port)
                    .unwrap();
                wait_for(ours.as_fd());
                assert_eq!(ours.next_told(), Some(Told::Nobody(from)));
                assert_eq!(ours.next_told(), None);
            }
        },
    );
}

#[test]
fn a_ping_is_answered_by_whom_it_is_for_or_not_at_all() {
    isolated(
        "capture::tests::a_ping_is_answered_by_whom_it_is_for_or_not_at_all",
        || {
            let capture = capture();
            let echoes = Echoes::open().unwrap();
            for (own, far) in OWN.iter().zip(FAR) {
                let own = own.parse().unwrap();
                let far = far.parse::<SocketAddr>().unwrap().ip();
                for (to, bytes) in [(far, 84), (far, 20_000), (own, 84)] {
                    let mut ping = Ping::open(own, None, to).unwrap();
                    ping.send(7, bytes).unwrap();
                    assert_eq!(ping.receive(Duration::from_millis(20)).unwrap(), None);
                    let mut heard = [0; 32_768];
                    let is_v6 = own.is_ipv6();
                    let (echo, message) = echoes.next(is_v6, &mut heard).unwrap().unwrap();
                    assert_eq!((echo.from, echo.to), (own, to));
                    let ip_bytes = if is_v6 { 40 } else { 20 };
                    assert_eq!(message.len(), bytes - ip_bytes);
                    capture.answer_echo(echo, message).unwrap();
                    assert_eq!(ping.receive(Duration::from_secs(20)).unwrap(), Some(7));
                    assert_eq!(echoes.next(is_v6, &mut heard).unwrap(), None);
                }
            }
        },
    );
}

#[test]
fn a_socket_of_another_network_namespace_is_none_of_this_nodes() {
    isolated(
        "capture::tests::a_socket_of_another_network_namespace_is_none_of_this_nodes",
        || {
            let here = Network::own().unwrap();
            assert!(here.is_some(), "Linux 5.14");
            let made = |is_tcp| {
                let made = Outward::new(is_tcp, false).unwrap();
                made.as_fd().try_clone_to_owned().unwrap()
            };
            assert!(Outward::from_descriptor(made(true), true, false, here).is_ok());
            assert!(Outward::from_descriptor(made(false), false, false, here).is_ok());
            for (is_tcp, as_tcp, as_v6) in [(true, false, false), (true, true, true)] {
                let other = Outward::from_descriptor(made(is_tcp), as_tcp, as_v6, here);
                assert!(other.is_err());
            }
            let elsewhere = thread::spawn(move || {
                unshare(Kinds::NET).unwrap();
                made(true)
            });
            let elsewhere = elsewhere.join().unwrap();
            let elsewhere = Outward::from_descriptor(elsewhere, true, false, here).unwrap_err();
            assert!(Outward::from_descriptor(elsewhere, true, false, None).is_ok());
        },
    );
}

/// Who has its socket as well may do that.
#[test]
fn a_port_that_was_given_up_is_not_had() {
    isolated(
        "capture::tests::a_port_that_was_given_up_is_not_had",
        || {
            let _capture = capture();
            let bound = || {
                let outward = Outward::new(true, false).unwrap();
                let any = "127.0.0.1:0".parse().unwrap();
                outward.bind_to_listen(any, Sharing::default()).unwrap();
                let also = outward.as_fd().try_clone_to_owned().unwrap();
                (Listener::from(outward), also)
            };
            let (listener, also) = bound();
            let address = listener.local_address().unwrap();
            assert!(listener.has(address, false) && !listener.listens());
            listener.listen().unwrap();
            assert!(listener.has(address, false) && listener.listens());
            SockRef::from(&also).bind_device(Some(b"lo")).unwrap();
            assert!(!listener.has(address, false) && listener.listens());
            let (listener, also) = bound();
            listener.listen().unwrap();
            SockRef::from(&also).shutdown(Shutdown::Read).unwrap();
            assert!(!listener.listens());
            assert!(listener.accept().unwrap().is_none());
        },
    );
}

/// Nothing was held, and nothing came to us.
fn assert_idle(capture: &Capture) {
    assert!(capture.next_syn().unwrap().is_none());
    assert!(capture.accept().unwrap().is_none());
    assert!(capture.next_datagram(&mut [0; 8]).unwrap().is_none());
}

/// Sends bytes both ways.
fn assert_joined(mut ours: TcpStream, mut theirs: TcpStream) {
    ours.set_nonblocking(false).unwrap();
    let mut heard = [0; 5];
    theirs.write_all(b"hello").unwrap();
    ours.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
    ours.write_all(b"there").unwrap();
    theirs.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"there");
}

/// A socket of a program's.
fn stream_socket(address: SocketAddr) -> Socket {
    let domain = Domain::for_address(address);
    Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).unwrap()
}

#[test]
fn what_a_socket_of_the_namespace_takes_stays_within() {
    isolated(
        "capture::tests::what_a_socket_of_the_namespace_takes_stays_within",
        || {
            let capture = capture();
            for within in WITHIN {
                let within: IpAddr = within.parse().unwrap();
                let any = if within.is_ipv4() { "0.0.0.0" } else { "::" };
                for at in [within, any.parse().unwrap(), "::".parse().unwrap()] {
                    let listener = TcpListener::bind((at, 0)).unwrap();
                    let to = SocketAddr::new(within, listener.local_addr().unwrap().port());
                    let program = connecting(&to.to_string());
                    let (ours, from) = listener.accept().unwrap();
                    let theirs = program.join().unwrap().unwrap();
                    let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                    assert_eq!(theirs.local_addr().unwrap(), from);
                    assert_joined(ours, theirs);

                    let server = UdpSocket::bind((at, 0)).unwrap();
                    let to = SocketAddr::new(within, server.local_addr().unwrap().port());
                    let program = UdpSocket::bind((within, 0)).unwrap();
                    program.send_to(b"hello", to).unwrap();
                    let mut heard = [0; 8];
                    let (_, from) = server.recv_from(&mut heard).unwrap();
                    server.send_to(b"hi", from).unwrap();
                    // Not from everywhere does it come from where it was asked: no host's would.
                    assert_eq!(program.recv(&mut heard).unwrap(), 2);
                }
            }
            assert_idle(&capture);
        },
    );
}

#[test]
fn listeners_that_share_a_port_stay_within() {
    isolated(
        "capture::tests::listeners_that_share_a_port_stay_within",
        || {
            let capture = capture();
            for within in WITHIN {
                let mut at = SocketAddr::new(within.parse().unwrap(), 0);
                let listeners = [(); 2].map(|()| {
                    let socket = stream_socket(at);
                    socket.set_reuse_port(true).unwrap();
                    socket.bind(&at.into()).unwrap();
                    socket.listen(16).unwrap();
                    at = socket.local_addr().unwrap().as_socket().unwrap();
                    socket
                });
                let programs = [(); 16].map(|()| connecting(&at.to_string()));
                assert!(
                    programs
                        .map(|p| p.join().unwrap())
                        .iter()
                        .all(Result::is_ok)
                );
                drop(listeners);
            }
            assert_idle(&capture);
        },
    );
}

/// The namespace has a socket for what is left of the one before (TIME_WAIT).
#[test]
fn a_connection_from_the_same_port_again_stays_within() {
    isolated(
        "capture::tests::a_connection_from_the_same_port_again_stays_within",
        || {
            let capture = capture();
            for within in WITHIN {
                let within: IpAddr = within.parse().unwrap();
                let listener = TcpListener::bind((within, 0)).unwrap();
                let to = listener.local_addr().unwrap();
                let mut from = SocketAddr::new(within, 0);
                for _ in 0..3 {
                    let program = stream_socket(from);
                    program.bind(&from.into()).unwrap();
                    program.connect(&to.into()).unwrap();
                    from = program.local_addr().unwrap().as_socket().unwrap();
                    let (ours, seen) = listener.accept().unwrap();
                    assert_eq!(seen, from);
                    // Whoever closes first keeps what is left.
                    drop(ours);
                    let mut theirs = TcpStream::from(program);
                    assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
                }
            }
            assert_idle(&capture);
        },
    );
}

#[test]
fn a_connection_to_itself_that_nobody_takes_is_held() {
    isolated(
        "capture::tests::a_connection_to_itself_that_nobody_takes_is_held",
        || {
            let capture = capture();
            for within in WITHIN {
                let within: IpAddr = within.parse().unwrap();
                // It is nobody's port, neither with a socket that does not listen.
                let bound = stream_socket((within, 0).into());
                bound.bind(&SocketAddr::new(within, 0).into()).unwrap();
                let unheard = bound.local_addr().unwrap().as_socket().unwrap();
                for to in [SocketAddr::new(within, 5432), unheard] {
                    let program = connecting(&to.to_string());
                    let syn = next_syn(&capture);
                    assert_eq!(syn.destination, to);
                    assert_eq!(syn.source.ip().is_loopback(), within.is_loopback());
                    assert!(!program.is_finished());
                    assert!(capture.accept().unwrap().is_none());
                    capture.admit(&syn).unwrap();
                    wait_for(capture.accept_descriptor());
                    let (ours, from, asked) = capture.accept().unwrap().unwrap();
                    assert_eq!((from, asked), (syn.source, to));
                    let theirs = program.join().unwrap().unwrap();
                    assert_eq!(theirs.peer_addr().unwrap(), to);
                    assert_joined(ours, theirs);

                    let program = connecting(&to.to_string());
                    capture.refuse(&next_syn(&capture)).unwrap();
                    let error = program.join().unwrap().unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                    let kind = refused_as(&capture, &to.to_string(), Unreachable::Host);
                    assert_eq!(kind, ErrorKind::HostUnreachable);
                }
            }
            assert_idle(&capture);
        },
    );
}

/// How many connections the kernel of this namespace has ended so.
fn resets_sent() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/net/snmp").unwrap();
    let mut of_tcp = counters.lines().filter(|line| line.starts_with("Tcp:"));
    let [names, values] = [(); 2].map(|()| of_tcp.next().unwrap().split(' '));
    let found = names.zip(values).find(|(name, _)| *name == "OutRsts");
    found.unwrap().1.parse().unwrap()
}

/// What is left of a connection of ours does not take the next one. (If it did, the program's kernel would
/// send a reset and try again.)
#[test]
fn a_connection_from_the_same_port_again_is_held_again() {
    isolated(
        "capture::tests::a_connection_from_the_same_port_again_is_held_again",
        || {
            let capture = capture();
            let to = WITHIN.map(|within| SocketAddr::new(within.parse().unwrap(), 5432));
            for to in to.into_iter().chain(FAR.map(|far| far.parse().unwrap())) {
                let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let mut from: SocketAddr = any.parse().unwrap();
                for _ in 0..3 {
                    let program = stream_socket(from);
                    program.bind(&from.into()).unwrap();
                    program.set_nonblocking(true).unwrap();
                    program.connect(&to.into()).unwrap_err();
                    from.set_port(program.local_addr().unwrap().as_socket().unwrap().port());
                    let syn = next_syn(&capture);
                    assert_eq!((syn.source.port(), syn.destination), (from.port(), to));
                    capture.admit(&syn).unwrap();
                    wait_for(capture.accept_descriptor());
                    drop(capture.accept().unwrap().unwrap());
                    let mut theirs = TcpStream::from(program);
                    theirs.set_nonblocking(false).unwrap();
                    assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
                }
            }
            assert_eq!(resets_sent(), 0);
        },
    );
}

#[test]
fn a_listener_at_another_address_does_not_take_it() {
    isolated(
        "capture::tests::a_listener_at_another_address_does_not_take_it",
        || {
            let capture = capture();
            for (at, to) in [
                ("127.0.0.1", OWN[0]),
                ("127.0.0.1", "127.0.0.2"),
                (OWN[0], "127.0.0.1"),
                ("::1", OWN[1]),
                (OWN[1], "::1"),
                // One at any address is not at another host's.
                ("0.0.0.0", "10.77.0.2"),
                ("::", "fd77::2"),
            ] {
                let (at, to): (IpAddr, IpAddr) = (at.parse().unwrap(), to.parse().unwrap());
                let listener = TcpListener::bind((at, 0)).unwrap();
                let to = SocketAddr::new(to, listener.local_addr().unwrap().port());
                let program = connecting(&to.to_string());
                let syn = next_syn(&capture);
                assert_eq!(syn.destination, to);
                capture.admit(&syn).unwrap();
                wait_for(capture.accept_descriptor());
                let (ours, ..) = capture.accept().unwrap().unwrap();
                assert_joined(ours, program.join().unwrap().unwrap());
            }
            assert_idle(&capture);
        },
    );
}

#[test]
fn a_datagram_to_itself_that_nobody_takes_is_held() {
    isolated(
        "capture::tests::a_datagram_to_itself_that_nobody_takes_is_held",
        || {
            let capture = capture();
            for (within, port) in WITHIN.into_iter().flat_map(|at| [(at, 53), (at, PORT)]) {
                let to = SocketAddr::new(within.parse().unwrap(), port);
                let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let program = UdpSocket::bind(any).unwrap();
                program.connect(to).unwrap();
                program.send(b"hello").unwrap();
                wait_for(capture.datagram_descriptor());
                let mut heard = [0; 8];
                let (from, asked, bytes) = capture.next_datagram(&mut heard).unwrap().unwrap();
                assert_eq!((from, asked), (program.local_addr().unwrap(), to));
                assert_eq!(&heard[..bytes], b"hello");
                capture.send_datagram(to, from, b"hi").unwrap();
                // It is connected: from elsewhere it would hear nothing.
                assert_eq!(program.recv(&mut heard).unwrap(), 2);
                capture
                    .refuse_datagram(from, to, Unreachable::Port)
                    .unwrap();
                let error = program.recv(&mut heard).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                if to.is_ipv4() {
                    let why = Unreachable::NetworkUnknown;
                    capture.refuse_datagram(from, to, why).unwrap();
                    let error = program.recv(&mut heard).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
                }
            }
            assert_idle(&capture);
        },
    );
}

#[test]
fn our_own_port_is_nobodys() {
    isolated("capture::tests::our_own_port_is_nobodys", || {
        let capture = capture();
        for within in WITHIN {
            let to = SocketAddr::new(within.parse().unwrap(), PORT);
            let program = connecting(&to.to_string());
            let syn = next_syn(&capture);
            assert_eq!(syn.destination, to);
            capture.admit(&syn).unwrap();
            wait_for(capture.accept_descriptor());
            let (ours, _, asked) = capture.accept().unwrap().unwrap();
            assert_eq!(asked, to);
            assert_joined(ours, program.join().unwrap().unwrap());
            let program = connecting(&to.to_string());
            capture.refuse(&next_syn(&capture)).unwrap();
            let error = program.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);

            // Who is elsewhere.
            let far = FAR[usize::from(to.is_ipv6())].parse().unwrap();
            let error = connect_as(far, to).and_then(|speaker| {
                wait_for(speaker.as_fd());
                speaker.take_error().map(Option::unwrap)
            });
            let error = error.unwrap_or_else(|error| error);
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
            let domain = Domain::for_address(to);
            let speaker = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).unwrap();
            make_transparent(&speaker, to.is_ipv6()).unwrap();
            speaker.set_mark(MARK_INWARD).unwrap();
            speaker.bind(&far.into()).unwrap();
            speaker.connect(&to.into()).unwrap();
            speaker.send(b"hello").unwrap();
            let error = UdpSocket::from(speaker).recv(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
        assert_idle(&capture);
    });
}

#[test]
fn datagrams_to_other_hosts_are_seen_and_answered_in_their_name() {
    isolated(
        "capture::tests::datagrams_to_other_hosts_are_seen_and_answered_in_their_name",
        || {
            let capture = capture();
            for (own, far) in OWN.into_iter().zip(FAR) {
                let far: SocketAddr = far.parse().unwrap();
                let own: IpAddr = own.parse().unwrap();
                let program = UdpSocket::bind((own, 0)).unwrap();
                program.connect(far).unwrap();
                for data in [&b"hello"[..], &[7; 20_000]] {
                    program.send(data).unwrap();
                    wait_for(capture.datagram_descriptor());
                    let mut buffer = vec![0; 65_536];
                    let (from, to, bytes) = capture.next_datagram(&mut buffer).unwrap().unwrap();
                    assert_eq!((from, to), (program.local_addr().unwrap(), far));
                    assert_eq!(&buffer[..bytes], data);
                    capture.send_datagram(to, from, &buffer[..bytes]).unwrap();
                    let bytes = program.recv(&mut buffer).unwrap();
                    assert_eq!(&buffer[..bytes], data);
                }
                assert!(capture.next_datagram(&mut [0; 8]).unwrap().is_none());
                let from = program.local_addr().unwrap();
                capture
                    .refuse_datagram(from, far, Unreachable::Port)
                    .unwrap();
                let error = program.recv(&mut [0; 8]).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
            }
        },
    );
}

#[test]
fn what_anybody_hands_on_is_checked_and_never_waited_for() {
    isolated(
        "capture::tests::what_anybody_hands_on_is_checked_and_never_waited_for",
        || {
            let theirs = capture();
            let copies = || {
                let copy = |one: std::os::fd::BorrowedFd<'_>| one.try_clone_to_owned().unwrap();
                theirs.descriptors().map(copy)
            };
            let have_wait = || {
                for descriptor in copies() {
                    let socket = SockRef::from(&descriptor);
                    socket.set_nonblocking(false).unwrap();
                }
            };
            have_wait();
            let ours = Capture::from_descriptors(copies().into()).unwrap();
            assert!(ours.next_syn().unwrap().is_none());
            assert!(ours.accept().unwrap().is_none());
            assert!(ours.next_datagram(&mut []).unwrap().is_none());
            // They have it otherwise again. (Accepting knows no flag for it.)
            have_wait();
            assert!(ours.next_syn().unwrap().is_none());
            assert!(ours.next_datagram(&mut []).unwrap().is_none());

            let mut others = copies();
            others.reverse();
            let refused = Capture::from_descriptors(others.into()).unwrap_err();
            assert_eq!(refused.len(), copies().len());
            assert!(Capture::from_descriptors(Vec::new()).is_err());
            let more = [copies(), copies()].into_iter().flatten().collect();
            assert!(Capture::from_descriptors(more).is_err());
            let (netlink, route) = (Domain::from(libc::AF_NETLINK), libc::NETLINK_ROUTE);
            let mut routes = copies();
            let route = Socket::new(netlink, Type::RAW, Some(Protocol::from(route))).unwrap();
            routes[0] = route.into();
            assert!(Capture::from_descriptors(routes.into()).is_err());
            let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
            assert!(Speaker::from_descriptor(file()).is_err());
            assert!(connection_from(file()).is_err());

            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let stream = connection_from(stream.into()).unwrap();
            stream.set_nonblocking(false).unwrap();
            let nothing = read_now(&stream, &mut [0]).unwrap_err();
            assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        },
    );
}

#[test]
fn messages_that_tell_of_no_syn_are_passed_over() {
    isolated(
        "capture::tests::messages_that_tell_of_no_syn_are_passed_over",
        || {
            let capture = capture();
            let ours = SockRef::from(&capture.syns).local_addr().unwrap();
            let protocol = Protocol::from(libc::NETLINK_NETFILTER);
            let netlink = Domain::from(libc::AF_NETLINK);
            let anybody = Socket::new(netlink, Type::RAW, Some(protocol)).unwrap();
            let junk = [&[0xff; 3][..], &[0; 40], &[0xff; 40], &[0x10; 6000]];
            for junk in junk.iter().cycle().take(OTHER_MESSAGES_MAX) {
                anybody.send_to(junk, &ours).unwrap();
            }
            let program = connecting(FAR[0]);
            // Of many a few at a time.
            assert!(capture.next_syn().unwrap().is_none());
            let syn = next_syn(&capture);
            assert_eq!(syn.destination, FAR[0].parse().unwrap());
            capture.refuse(&syn).unwrap();
            assert!(program.join().unwrap().is_err());
        },
    );
}

#[test]
fn what_is_sent_once_more_is_not_told_of_again() {
    isolated(
        "capture::tests::what_is_sent_once_more_is_not_told_of_again",
        || {
            let capture = capture();
            let (from, far) = ("10.77.0.1:4000".parse().unwrap(), FAR[0].parse().unwrap());
            let program = stream_socket(from);
            program.bind(&from.into()).unwrap();
            program.set_nonblocking(true).unwrap();
            program.connect(&SocketAddr::into(far)).unwrap_err();
            let syn = next_syn(&capture);
            assert_eq!((syn.source, syn.destination), (from, far));
            drop(program);
            // Now these ends have a connection, and not with our listener.
            let listener = TcpListener::bind(far).unwrap();
            let _theirs = connect_as(from, far).unwrap();
            assert_eq!(listener.accept().unwrap().1, from);
            capture.admit(&syn).unwrap();
            let program = connecting(FAR[1]);
            let next = next_syn(&capture);
            assert_eq!(next.destination, FAR[1].parse().unwrap());
            capture.refuse(&next).unwrap();
            assert!(program.join().unwrap().is_err());
            assert_idle(&capture);
        },
    );
}
