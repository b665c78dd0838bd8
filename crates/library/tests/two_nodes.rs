//! The library in a program of threads.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use common::{KEY, LINKS, LONG, SERVICE, free_port, open, two_nodes};
use tabane_library::{
    ConnectError, Event, ListenError, Node, OpenError, Options, Policy, SendError, StreamError,
    public_key,
};

#[test]
fn a_stream_is_accepted_echoed_and_ended() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    let echo = thread::spawn(move || {
        let mut stream = listener.accept_timeout(LONG).unwrap();
        assert_eq!(stream.peer(), "a");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
        stream.finish().unwrap();
        assert!(stream.wait_finished(LONG).unwrap());
        b
    });
    let mut stream = a.connect("b", SERVICE).unwrap();
    let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
    stream.write_all(&sent).unwrap();
    stream.finish().unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got == sent);
    drop(echo.join().unwrap());
}

#[test]
fn a_node_that_ends_at_once_takes_nothing_with_it() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    let sender = thread::spawn(move || {
        let mut stream = a.connect("b", SERVICE).unwrap();
        stream.write_all(&[7; 1_000_000]).unwrap();
        stream.finish().unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    });
    let mut stream = listener.accept_timeout(LONG).unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), 1_000_000);
    stream.finish().unwrap();
    // Whether the other end has seen it is known, though that end is gone.
    assert!(stream.wait_finished(LONG).unwrap());
    sender.join().unwrap();
}

#[test]
fn what_a_node_sent_before_it_was_closed_can_be_read_afterwards() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    // No more than a stream takes that nobody reads.
    let data: Vec<u8> = (0..60_000u32).map(|n| n as u8).collect();
    // Nobody reads meanwhile, so the second stream is not whole when its node goes.
    let mut whole = a.connect("b", SERVICE).unwrap();
    let mut cut = a.connect("b", SERVICE).unwrap();
    for stream in [&mut whole, &mut cut] {
        stream.write_all(&data).unwrap();
    }
    whole.finish().unwrap();
    assert!(whole.wait_finished(LONG).unwrap());
    a.close();

    while !matches!(b.next_event(LONG).unwrap().unwrap(), Event::PeerDown { .. }) {}
    let mut whole = listener.accept_timeout(LONG).unwrap();
    let mut got = Vec::new();
    whole.read_to_end(&mut got).unwrap();
    assert!(got == data, "{} bytes", got.len());
    let mut cut = listener.accept_timeout(LONG).unwrap();
    let mut got = Vec::new();
    let end = cut.read_to_end(&mut got).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    assert!(got == data, "{} bytes", got.len());
}

#[test]
fn many_small_messages_go_back_and_forth() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    let echo = thread::spawn(move || {
        let mut stream = listener.accept_timeout(LONG).unwrap();
        let mut buffer = [0; 64];
        loop {
            let len = stream.read(&mut buffer).unwrap();
            if len == 0 {
                break;
            }
            stream.write_all(&buffer[..len]).unwrap();
        }
        b
    });
    let mut stream = a.connect("b", SERVICE).unwrap();
    for n in 0..5000u32 {
        stream.write_all(&n.to_le_bytes()).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(u32::from_le_bytes(answer), n);
    }
    stream.finish().unwrap();
    drop(echo.join().unwrap());
}

#[test]
fn connecting_after_a_pause_waits_for_no_timer() {
    let (a, b) = two_nodes();
    let _listener = b.listen(SERVICE).unwrap();
    drop(a.connect("b", SERVICE).unwrap());
    // The nodes hardly speak any more: the next timer is seconds away. Of several calls one or the
    // other may be late for lack of a processor.
    let soon = Duration::from_millis(500);
    let in_time = (0..5).any(|_| {
        thread::sleep(Duration::from_secs(3));
        a.connect_timeout("b", SERVICE, soon).is_ok()
    });
    assert!(in_time);
}

#[test]
fn connecting_fails_as_the_far_end_says() {
    let (a, b) = two_nodes();
    assert_eq!(
        a.connect("c", SERVICE).err(),
        Some(ConnectError::UnknownPeer("c".into()))
    );
    assert_eq!(a.connect("b", SERVICE).err(), Some(ConnectError::Refused));
    let listener = b.listen(SERVICE).unwrap();
    assert_eq!(b.listen(SERVICE).err(), Some(ListenError::InUse(SERVICE)));
    assert!(a.connect("b", SERVICE).is_ok());
    drop(listener);
    assert_eq!(a.connect("b", SERVICE).err(), Some(ConnectError::Refused));
    drop(b);
    let soon = Duration::from_millis(50);
    let late = a.connect_timeout("b", SERVICE, soon).err();
    assert_eq!(late, Some(ConnectError::TimedOut));
}

#[test]
fn a_reset_reaches_the_other_end() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    let mut stream = a.connect("b", SERVICE).unwrap();
    let accepted = listener.accept_timeout(LONG).unwrap();
    accepted.reset(99).unwrap();
    let error = stream.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let inner = error.get_ref().unwrap().downcast_ref::<StreamError>();
    assert_eq!(inner, Some(&StreamError::Reset(99)));
    let error = stream.write(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_stream_that_the_peer_ended_at_once_takes_a_policy_and_tells_its_end_when_read() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    let mut stream = a.connect("b", SERVICE).unwrap();
    drop(listener.accept_timeout(LONG).unwrap());
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    while stream.write(b"x").is_ok() {}
    // Both halves are over; when the peer has acknowledged that, the node knows no such stream any more.
    for _ in 0..100 {
        assert_eq!(stream.set_policy(Policy::Mirror), Ok(()));
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn waiting_for_the_end_to_arrive_ends_when_it_cannot() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    // More than the far end takes without reading: the end does not arrive.
    let open = || {
        let stream = a.connect("b", SERVICE).unwrap();
        let far = listener.accept_timeout(LONG).unwrap();
        stream.set_nonblocking(true);
        while (&stream).write(&[0; 100_000]).is_ok() {}
        stream.finish().unwrap();
        assert_eq!(stream.wait_finished(Duration::ZERO), Ok(false));
        (stream, far)
    };
    let (stream, far) = open();
    drop(far);
    let unwanted = stream.wait_finished(Duration::MAX);
    assert!(matches!(unwanted, Err(StreamError::Stopped(_))));
    let (stream, _far) = open();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| stream.wait_finished(Duration::MAX));
        // Whether it waits already nobody can see; either order must end it.
        stream.reset(1).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(StreamError::Finished));
    });
}

#[test]
fn a_message_to_a_node_that_is_not_there_says_so() {
    let missing = SocketAddr::new(LINKS[0], free_port());
    let options = Options::new("a", KEY, [LINKS[0]])
        .port(free_port())
        .peer("b", [missing])
        .timeout(Duration::from_millis(20));
    let a = Node::open(options).unwrap();
    let sent = a.send("b", 0, b"hello");
    assert_eq!(sent, Err(SendError::NotConnected));
}

#[test]
fn a_peer_that_ends_breaks_no_reader_but_one_that_starts_afresh_does() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    let stream = a.connect("b", SERVICE).unwrap();
    let accepted = listener.accept_timeout(LONG).unwrap();
    let soon = Duration::from_millis(20);
    let nothing = stream.read_timeout(&mut [0; 8], soon).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::TimedOut);
    stream.set_nonblocking(true);
    let nothing = (&stream).read(&mut [0; 8]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    drop(accepted);
    stream.set_nonblocking(false);
    assert_eq!((&stream).read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn a_node_is_opened_again_where_one_was_closed_that_is_still_held() {
    let ports = [free_port(), free_port()];
    let b = open("b", ports[1], "a", ports[0]);
    let _listener = b.listen(SERVICE).unwrap();
    let mut left = Vec::new();
    for _ in 0..5 {
        let a = open("a", ports[0], "b", ports[1]);
        let stream = a.connect("b", SERVICE).unwrap();
        a.close();
        left.push((a, stream));
    }
}

#[test]
fn a_stream_to_a_peer_that_started_afresh_does_nothing_to_a_new_one() {
    let ports = [free_port(), free_port()];
    let a = open("a", ports[0], "b", ports[1]);
    let open_b = || open("b", ports[1], "a", ports[0]);
    let b = open_b();
    let listener = b.listen(SERVICE).unwrap();
    let mut old = [(); 2].map(|()| a.connect("b", SERVICE).unwrap());
    // One is over, of the other only what it reads.
    drop(listener.accept_timeout(LONG).unwrap());
    let half = listener.accept_timeout(LONG).unwrap();
    half.finish().unwrap();
    for old in &mut old {
        assert_eq!(old.read(&mut [0; 8]).unwrap(), 0);
    }
    while old[0].write(b"x").is_ok() {}
    b.close();
    let b = open_b();
    let listener = b.listen(SERVICE).unwrap();
    while old[1].write(b"x").is_ok() {}
    let new = [(); 2].map(|()| {
        let near = a.connect("b", SERVICE).unwrap();
        (near, listener.accept_timeout(LONG).unwrap())
    });
    for old in old {
        old.set_policy(Policy::Mirror).unwrap();
        old.reset(1).unwrap();
    }
    for (mut near, mut far) in new {
        let mut got = [0; 5];
        near.write_all(b"hello").unwrap();
        far.read_exact(&mut got).unwrap();
        far.write_all(b"hello").unwrap();
        near.read_exact(&mut got).unwrap();
    }
}

#[test]
fn events_tell_of_peers_and_links() {
    let (a, b) = two_nodes();
    let mut events = Vec::new();
    let peer = || "b".to_owned();
    let expected = [
        Event::PeerUp {
            peer: peer(),
            restarted: false,
        },
        Event::LinkUp {
            peer: peer(),
            link: 0,
        },
        Event::LinkUp {
            peer: peer(),
            link: 1,
        },
    ];
    while !expected.iter().all(|event| events.contains(event)) {
        let event = a.next_event(LONG).unwrap();
        events.push(event.expect("all of them"));
    }
    drop(b);
    loop {
        if let Some(Event::PeerDown { peer, closed }) = a.next_event(LONG).unwrap() {
            assert_eq!((peer.as_str(), closed), ("b", Some(0)));
            break;
        }
    }
}

#[test]
fn messages_keep_their_boundaries_and_order() {
    let (a, b) = two_nodes();
    let receiver = thread::spawn(move || {
        for n in 0..2000u32 {
            let message = b.receive_timeout(LONG).unwrap().unwrap();
            assert_eq!((message.from.name(), message.flow), ("a", 3));
            assert_eq!(message.data, vec![n as u8; n as usize]);
        }
        b
    });
    for n in 0..2000u32 {
        a.send("b", 3, &vec![n as u8; n as usize]).unwrap();
    }
    drop(receiver.join().unwrap());
}

#[test]
fn several_threads_use_one_node() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..8 {
                let mut stream = listener.accept_timeout(LONG).unwrap();
                scope.spawn(move || {
                    let mut all = Vec::new();
                    stream.read_to_end(&mut all).unwrap();
                    stream.write_all(&all).unwrap();
                });
            }
        });
        for n in 0..8u8 {
            let a = &a;
            scope.spawn(move || {
                let mut stream = a.connect("b", SERVICE).unwrap();
                let sent = vec![n; 200_000];
                stream.write_all(&sent).unwrap();
                stream.finish().unwrap();
                let mut got = Vec::new();
                stream.read_to_end(&mut got).unwrap();
                assert!(got == sent);
            });
        }
    });
}

#[test]
fn options_that_cannot_be_are_refused() {
    let (link, key) = (LINKS[0], KEY);
    let opened = |options| Node::open(options).err().map(|error| error.to_string());
    let twice = opened(Options::new("a", key, [link, link]));
    assert_eq!(twice.unwrap(), "link 127.0.0.1 is given twice");
    let elsewhere = Options::new("a", key, ["192.0.2.1".parse().unwrap()]);
    assert!(matches!(Node::open(elsewhere), Err(OpenError::NoLink(_))));
    let (a, _b) = two_nodes();
    drop(a);
}

/// Node a knows the public key of b. One that calls itself b comes first, at b's own address.
#[test]
fn only_the_holder_of_a_key_is_taken_for_its_peer() {
    let (private, ports) = ([0x42; 32], [free_port(), free_port()]);
    let at = |port: u16| LINKS.map(|link| SocketAddr::new(link, port));
    let a = Options::new("a", KEY, LINKS).port(ports[0]);
    let a = a
        .peer("b", at(ports[1]))
        .peer_public("b", public_key(&private));
    let a = Node::open(a).unwrap();
    let b = Options::new("b", KEY, LINKS)
        .port(ports[1])
        .peer("a", at(ports[0]));
    for (private, connects) in [
        (None, false),
        (Some([0x43; 32]), false),
        (Some(private), true),
    ] {
        let mut options = b.clone().timeout(Duration::from_secs(1));
        if let Some(private) = private {
            options = options.private_key(private);
        }
        if connects {
            options = options.timeout(LONG);
        }
        let b = Node::open(options).unwrap();
        let sent = b.send("a", 0, b"hello");
        assert_eq!(sent.is_ok(), connects, "{private:?}: {sent:?}");
    }
    drop(a);

    let options = Options::new("a", KEY, LINKS).peer_public("b", [1; 32]);
    let Err(OpenError::Options(why)) = Node::open(options) else {
        panic!("a key of nobody was taken");
    };
    assert!(why.contains("\"b\", which is no peer"), "{why}");
}

#[test]
fn the_own_name_is_a_peer_like_others() {
    let (a, _b) = two_nodes();
    assert_eq!(a.connect("a", SERVICE).err(), Some(ConnectError::Refused));
    let listener = a.listen(SERVICE).unwrap();
    // More than is kept for who does not read.
    let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = listener.accept_timeout(LONG).unwrap();
            assert_eq!(stream.peer(), "a");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
        });
        let stream = a.connect("a", SERVICE).unwrap();
        assert_eq!(stream.peer(), "a");
        (&stream).write_all(&sent).unwrap();
        stream.finish().unwrap();
        assert!(stream.wait_finished(LONG).unwrap());
        let mut got = Vec::new();
        (&stream).read_to_end(&mut got).unwrap();
        assert!(got == sent);
    });
    let near = a.connect("a", SERVICE).unwrap();
    let far = listener.accept_timeout(LONG).unwrap();
    far.reset(7).unwrap();
    let error = near.read_timeout(&mut [0; 8], LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let error = (&near).write(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    near.reset(0).unwrap();

    // More than is kept for who does not receive.
    thread::scope(|scope| {
        scope.spawn(|| (0..100).for_each(|n| a.send("a", 3, &vec![n; 500_000]).unwrap()));
        for n in 0..100 {
            let message = a.receive_timeout(LONG).unwrap().unwrap();
            assert_eq!((message.from.name(), message.flow), ("a", 3));
            assert!(message.data == vec![n; 500_000]);
        }
    });
    assert!(a.peers().unwrap().iter().all(|peer| peer.name == "b"));
}
