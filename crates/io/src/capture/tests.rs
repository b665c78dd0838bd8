//! With a real kernel, in a namespace of one's own: connections to hosts that do not exist.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use super::{
    Capture, Datagrams, Sharing, Speaker, Syn, Unreachable, connect_as, connection_from, furnish,
    read_now,
};
use crate::isolated::isolated;
use crate::poll::{Interest, Poller};

const OWN: [&str; 2] = ["10.77.0.1", "fd77::1"];
const FAR: [&str; 2] = ["10.77.0.2:80", "[fd77::2]:80"];

fn capture() -> Capture {
    let own = OWN.map(|text| text.parse::<IpAddr>().unwrap());
    furnish(&own.map(|address| (address, 24))).unwrap();
    Capture::open(&own).unwrap()
}

fn wait_for(descriptor: std::os::fd::BorrowedFd<'_>) {
    let (poller, mut ready) = (Poller::new().unwrap(), Vec::new());
    poller.register(descriptor, 0, Interest::Read).unwrap();
    let patience = Some(Duration::from_secs(20));
    poller.wait(patience, &mut ready).unwrap();
    assert!(!ready.is_empty(), "nothing came");
}

fn next_syn(capture: &Capture) -> Syn {
    wait_for(capture.syn_descriptor());
    capture.next_syn().unwrap().unwrap()
}

fn connecting(to: &str) -> thread::JoinHandle<std::io::Result<TcpStream>> {
    let to: SocketAddr = to.parse().unwrap();
    thread::spawn(move || TcpStream::connect_timeout(&to, Duration::from_secs(20)))
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
                    let program = connecting(far);
                    capture.refuse_as(&next_syn(&capture), why).unwrap();
                    assert_eq!(program.join().unwrap().unwrap_err().kind(), kind);
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
            let _capture = capture();
            for (any, at) in [
                ("0.0.0.0:0", "127.0.0.7"),
                ("[::]:0", "127.0.0.7"),
                ("[::]:0", OWN[1]),
                ("127.0.0.8:0", "127.0.0.8"),
            ] {
                let at: IpAddr = at.parse().unwrap();
                let ours = Datagrams::bind(any.parse().unwrap(), Sharing::default()).unwrap();
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
                wait_for(ours.as_fd());
                assert_eq!(ours.next_refusal(), Some(from));
                assert_eq!(ours.next_refusal(), None);
            }
        },
    );
}

#[test]
fn connections_to_itself_stay_within() {
    isolated("capture::tests::connections_to_itself_stay_within", || {
        let capture = capture();
        for own in ["127.0.0.1", "127.3.2.1", "::1", OWN[0], OWN[1]] {
            let own: IpAddr = own.parse().unwrap();
            let listener = TcpListener::bind((own, 0)).unwrap();
            let program = connecting(&listener.local_addr().unwrap().to_string());
            assert!(listener.accept().is_ok() && program.join().unwrap().is_ok());
        }
        assert!(capture.accept().unwrap().is_none());
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
                capture.refuse_datagram(from, far).unwrap();
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
                    let socket = socket2::SockRef::from(&descriptor);
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
