//! What no user sees: that nothing waits for somebody who does not come.

use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::task::Wake;
use std::thread;
use std::time::Instant;

use tokio::io::{AsyncRead, ReadBuf};

use crate::node::{poll_message, poll_opened};
use crate::waiting::Waiter;
use crate::{Node, Options, Policy, SendError, StreamError};

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
    let peer = a.peer("b").unwrap().id;
    let opened = a.hub.wait_for(None, |state, waiter| {
        poll_opened(state, peer, SERVICE, waiter)
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
        let mut waiter = Waiter::new(Waker::noop().clone());
        let next = c.hub.look(|state| poll_message(state, &mut waiter));
        match next.unwrap() {
            Poll::Ready(message) => message.from.name().to_owned(),
            Poll::Pending => panic!("a hundred were sent"),
        }
    };
    let first = [next(), next()];
    assert!(first.contains(&"b".to_owned()), "{first:?}");
}

/// How often a task was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A call of a task, and how often that was woken.
struct Task<F> {
    call: Pin<Box<F>>,
    woken: Arc<Woken>,
}

impl<F: Future> Task<F> {
    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.call.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// So many tasks whose calls all wait.
fn tasks<F: Future>(count: usize, call: impl Fn() -> F) -> Vec<Task<F>> {
    let task = |_| {
        let (call, woken) = (Box::pin(call()), Arc::default());
        let mut task = Task { call, woken };
        assert!(task.poll().is_pending());
        task
    };
    (0..count).map(task).collect()
}

/// Waits until so many of them were woken; which.
fn woken<F>(tasks: &[Task<F>], count: usize) -> Vec<usize> {
    let begun = Instant::now();
    loop {
        let woken = tasks.iter().enumerate();
        let woken = woken.filter(|(_, task)| task.woken.times() > 0);
        let woken: Vec<_> = woken.map(|(number, _)| number).collect();
        assert!(woken.len() <= count, "{woken:?}");
        if woken.len() == count {
            return woken;
        }
        assert!(begun.elapsed() < LONG, "{woken:?} of {count}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_message_wakes_one_of_those_who_wait_and_another_if_that_one_gives_up() {
    let [a, b] = nodes(["a", "b"]);
    let mut waiting = tasks(5, || b.receive_async());
    a.send("b", 0, b"one").unwrap();
    // Who came first.
    assert_eq!(woken(&waiting, 1), [0]);
    drop(waiting.remove(0));
    assert_eq!(woken(&waiting, 1), [0]);
    let Poll::Ready(message) = waiting.remove(0).poll() else {
        panic!("it was woken for nothing");
    };
    assert_eq!(message.unwrap().data, b"one");
    // None is left: the others sleep.
    assert_eq!(woken(&waiting, 0), [0; 0]);
    // One word for all that came.
    a.send("b", 0, b"two").unwrap();
    a.send("b", 0, b"three").unwrap();
    a.send("b", 0, b"four").unwrap();
    let begun = Instant::now();
    for wanted in [&b"two"[..], b"three", b"four"] {
        woken(&waiting, 1);
        let mut task = waiting.remove(0);
        let message = loop {
            if let Poll::Ready(message) = task.poll() {
                break message;
            }
            // It may have to come yet.
            assert!(begun.elapsed() < LONG);
        };
        assert_eq!(message.unwrap().data, wanted);
    }
}

#[test]
fn a_stream_wakes_one_of_those_who_accept_and_another_if_that_one_gives_up() {
    let [a, b] = nodes(["a", "b"]);
    let listener = b.listen(SERVICE).unwrap();
    let mut waiting = tasks(3, || listener.accept_async());
    let _near = a.connect("b", SERVICE).unwrap();
    assert_eq!(woken(&waiting, 1), [0]);
    drop(waiting.remove(0));
    assert_eq!(woken(&waiting, 1), [0]);
    assert!(waiting.remove(0).poll().is_ready());
    assert_eq!(woken(&waiting, 0), [0; 0]);
}

#[test]
fn a_peer_that_comes_wakes_who_waits_for_it_and_nobody_else() {
    let free = [(); 2].map(|()| UdpSocket::bind((LINK, 0)).unwrap());
    let [at_a, at_b] = free.map(|socket| socket.local_addr().unwrap());
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let a = Options::new("a", KEY, [LINK]).port(at_a.port());
    let a = Node::open(a.peer("b", [at_b]).peer("c", [nobody])).unwrap();
    let for_b = tasks(50, || a.send_async("b", 0, b"hello"));
    let for_c = tasks(50, || a.send_async("c", 0, b"hello"));
    let b = Options::new("b", KEY, [LINK]).port(at_b.port());
    let _b = Node::open(b.peer("a", [at_a])).unwrap();
    assert_eq!(woken(&for_b, 50).len(), 50);
    assert_eq!(woken(&for_c, 0), [0; 0]);
    // Those who give up are gone at once.
    drop((for_b, for_c));
    let left = a.hub.look(|state| state.sockets.waiting_for_peers());
    assert_eq!(left, Ok(0));
}

#[test]
fn reads_that_tasks_give_up_leave_one_waker_behind() {
    let [a, b] = nodes(["a", "b"]);
    let listener = b.listen(SERVICE).unwrap();
    let mut near = a.connect("b", SERVICE).unwrap();
    let _far = listener.accept_timeout(LONG).unwrap();
    let tasks: Vec<_> = (0..10).map(|_| Arc::new(Woken::default())).collect();
    for task in &tasks {
        let waker = Waker::from(Arc::clone(task));
        let mut context = Context::from_waker(&waker);
        let mut buffer = [0; 8];
        let read = Pin::new(&mut near).poll_read(&mut context, &mut ReadBuf::new(&mut buffer));
        assert!(read.is_pending());
    }
    let held: usize = tasks.iter().map(|task| Arc::strong_count(task) - 1).sum();
    assert_eq!(held, 1);
    drop(near);
    assert!(tasks.iter().all(|task| Arc::strong_count(task) == 1));
}

#[test]
fn what_is_posted_is_sent_though_nobody_says_so() {
    let [a, b] = nodes(["a", "b"]);
    let to_b = a.peer("b").unwrap();
    a.send("b", 0, b"hello").unwrap();
    assert_eq!(b.receive().unwrap().from, b.peer("a").unwrap());
    let post = || {
        a.post(&to_b, 0, None, b"posted", Policy::default())
            .unwrap()
    };
    let arrives = || {
        let message = b.receive_timeout(LONG).unwrap().unwrap();
        assert_eq!(message.data, b"posted");
    };
    // Nobody waits for anything of the node.
    post();
    arrives();
    // A thread does, for long already: it may sleep until a timer, and the helper until it is woken.
    thread::scope(|scope| {
        let drives = scope.spawn(|| a.receive());
        while !a.hub.look(|state| state.helper_sleeps()).unwrap() {
            thread::sleep(Duration::from_millis(1));
        }
        post();
        arrives();
        b.send("a", 0, b"go").unwrap();
        drives.join().unwrap().unwrap();
    });
    // Tasks do: the helper drives.
    let _waiting = tasks(1, || a.receive_async());
    for _ in 0..10 {
        post();
        arrives();
    }
}

#[test]
fn what_is_posted_is_received_in_order_and_many_at_a_time() {
    const COUNT: u32 = 5_000;
    let [a, b] = nodes(["a", "b"]);
    let to_b = a.peer("b").unwrap();
    a.send("b", 7, b"first").unwrap();
    b.receive().unwrap();
    for n in 0..COUNT {
        let data = n.to_be_bytes();
        // Short of room it is flushed by itself.
        while a.post(&to_b, 7, Some(1), &data, Policy::default()).is_err() {
            a.flush().unwrap();
        }
    }
    a.flush().unwrap();
    let mut messages = Vec::new();
    while messages.len() < COUNT as usize {
        let before = messages.len();
        let count = b.receive_many(&mut messages, 100, LONG).unwrap();
        assert!((1..=100).contains(&count) && messages.len() == before + count);
    }
    for (n, message) in (0..).zip(&messages) {
        assert_eq!(message.data, u32::to_be_bytes(n));
        assert_eq!((message.from.name(), message.tag), ("a", Some(1)));
    }
    assert_eq!(b.receive_many(&mut messages, 0, LONG), Ok(0));
    assert_eq!(b.receive_many(&mut messages, 100, Duration::ZERO), Ok(0));
}

#[test]
fn a_peer_of_another_node_is_none_of_this_one() {
    let [a, b] = nodes(["a", "b"]);
    let b_own = b.peer("a").unwrap();
    let unknown = Err(SendError::UnknownPeer("a".to_owned()));
    let policy = Policy::default();
    assert_eq!(a.post(&b_own, 0, None, b"", policy), unknown);
    assert!(a.peer("d").is_none());
}

#[test]
fn streams_to_a_peer_that_falls_silent_break_behind_what_has_arrived() {
    let addresses = ["a", "b"].map(|_| {
        let free = UdpSocket::bind((LINK, 0)).unwrap();
        free.local_addr().unwrap()
    });
    let [at_a, at_b] = addresses;
    let options = Options::new("a", KEY, [LINK]).port(at_a.port());
    let soon = Duration::from_millis(300);
    let a = Node::open(options.peer("b", [at_b]).peer_timeout(soon)).unwrap();
    let options = Options::new("b", KEY, [LINK]).port(at_b.port());
    let b = Node::open(options.peer("a", [at_a])).unwrap();
    let listener = b.listen(SERVICE).unwrap();
    let (mut near, waits) = (a.connect("b", SERVICE), a.connect("b", SERVICE));
    let (near, waits) = (near.as_mut().unwrap(), waits.unwrap());
    let mut far = listener.accept_timeout(LONG).unwrap();
    far.write_all(b"hello").unwrap();
    near.finish().unwrap();
    assert!(near.wait_finished(LONG).unwrap());
    a.hub
        .wait_for(None, |state, _| {
            let slot = &state.sockets.slots[near.slot];
            match state.engine.node.is_readable(slot.peer, slot.stream) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .unwrap()
        .unwrap();
    // As if its process had been killed.
    b.hub.look(|state| state.engine.shut()).unwrap();
    let error = waits.read_timeout(&mut [0; 8], LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable);
    assert_eq!(waits.finish(), Err(StreamError::Unreachable));
    let mut got = Vec::new();
    let error = near.read_to_end(&mut got).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable);
    assert_eq!(got, b"hello");
    // What had arrived before is no failure.
    assert_eq!(near.wait_finished(LONG), Ok(true));
}
