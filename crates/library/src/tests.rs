//! What no user sees: that nothing waits for somebody who does not come.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;

use crate::node::{poll_message, poll_opened};
use crate::{Node, Options};

const KEY: [u8; 32] = [7; 32];
const LINK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SERVICE: u32 = 1;
const LONG: Duration = Duration::from_secs(20);

/// Nodes of these names, each of which knows the others.
fn nodes<const N: usize>(names: [&str; N]) -> [Node; N] {
    let free = names.map(|_| UdpSocket::bind((LINK, 0)).unwrap());
    let addresses = free.map(|socket| socket.local_addr().unwrap());
    let named: Vec<(&str, SocketAddr)> = names.into_iter().zip(addresses).collect();
    names.map(|name| {
        let mut options = Options::new(name, KEY, [LINK]);
        for (other, address) in &named {
            options = match *other == name {
                true => options.port(address.port()),
                false => options.peer(*other, [*address]),
            };
        }
        Node::open(options).unwrap()
    })
}

#[test]
fn the_own_port_changes_none_that_was_told_of_a_peer() {
    let told = [SocketAddr::from((Ipv4Addr::LOCALHOST, 7))];
    let options = Options::new("a", KEY, [LINK]).peer("b", told).port(8);
    assert_eq!(options.port, 8);
    assert_eq!(options.peers[0].addresses, told.map(Some));
}

/// Whether something waits to be sent that nobody is sending.
fn waits(node: &Node) -> bool {
    let waits = node.hub.look(|state| state.engine.node.may_transmit());
    waits.unwrap()
}

#[test]
fn a_stream_is_asked_for_and_window_given_by_who_waits_for_it() {
    let [a, b] = nodes(["a", "b"]);
    let listener = b.listen(SERVICE).unwrap();
    let mut near = a.connect("b", SERVICE).unwrap();
    let far = listener.accept_timeout(LONG).unwrap();
    let peer = a.peer("b").unwrap();
    let opened = a.hub.wait_for(None, |state, context| {
        poll_opened(state, peer, SERVICE, context)
    });
    assert!(opened.unwrap().unwrap().is_ok());
    assert!(!waits(&a));
    // Several windows, read as they come.
    let all = 8_000_000;
    thread::scope(|scope| {
        scope.spawn(|| (&far).write_all(&vec![1; all]).unwrap());
        let mut buffer = vec![0; 50_000];
        for _ in 0..all / buffer.len() {
            near.read_exact(&mut buffer).unwrap();
            assert!(!waits(&a));
        }
    });
}

#[test]
fn closing_waits_for_an_end_behind_which_nothing_else_is_under_way() {
    let [a, b] = nodes(["a", "b"]);
    let listener = b.listen(SERVICE).unwrap();
    let stream = a.connect("b", SERVICE).unwrap();
    let _far = listener.accept_timeout(LONG).unwrap();
    let arrived = a.hub.look(|state| {
        let slot = &state.sockets.slots[stream.slot];
        let (now, peer, id) = (state.engine.now(), slot.peer, slot.stream);
        state.engine.node.finish_stream(now, peer, id).unwrap();
        assert_eq!(state.engine.node.queued_bytes(peer), 0);
        a.has_arrived(state)
    });
    assert_eq!(arrived, Ok(false));
}

#[test]
fn messages_of_several_peers_are_received_in_turn() {
    let [a, b, c] = nodes(["a", "b", "c"]);
    for n in 0..100u8 {
        a.send("c", 0, &[n]).unwrap();
    }
    b.send("c", 0, b"hello").unwrap();
    // Not received, which would take some out already: looked at.
    let both_are_there = || {
        let senders = c.hub.look(|state| state.sockets.mail.len());
        senders.unwrap() == 2
    };
    while !both_are_there() {
        thread::sleep(Duration::from_millis(1));
    }
    let next = || {
        let context = Context::from_waker(Waker::noop());
        let next = c.hub.look(|state| poll_message(state, &context));
        match next.unwrap() {
            Poll::Ready(message) => message.from,
            Poll::Pending => panic!("a hundred were sent"),
        }
    };
    let first = [next(), next()];
    assert!(first.contains(&"b".to_owned()), "{first:?}");
}
