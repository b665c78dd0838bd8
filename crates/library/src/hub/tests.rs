//! Who drives when, and what is left of those who do not.

use core::pin::pin;
use core::task::Context;
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::node::add_peer;
use crate::{Event, Node, Options};

fn options() -> Options {
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    Options::new("a", [7; 32], [Ipv4Addr::LOCALHOST.into()]).port(port)
}

fn node() -> Node {
    Node::open(options()).unwrap()
}

/// How often a task was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn waiting_in_vain_again_and_again_leaves_one_waker_behind() {
    let node = node();
    for _ in 0..100 {
        node.next_event(Duration::ZERO).unwrap();
    }
    let count = node.hub.look(|state| state.sockets.event_waiters.count());
    assert_eq!(count, Ok(0));
}

#[test]
fn a_task_that_gives_up_leaves_no_waker_behind() {
    let unreachable = [SocketAddr::from((Ipv4Addr::LOCALHOST, 9))];
    let node = Node::open(options().peer("b", unreachable)).unwrap();
    let listener = node.listen(1).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..10 {
        assert!(
            pin!(node.connect_async("b", 1))
                .poll(&mut context)
                .is_pending()
        );
        assert!(pin!(node.receive_async()).poll(&mut context).is_pending());
        assert!(
            pin!(listener.accept_async())
                .poll(&mut context)
                .is_pending()
        );
        while pin!(node.next_event_async()).poll(&mut context).is_ready() {}
    }
    let left = node.hub.look(|state| {
        let sockets = &state.sockets;
        let acceptors = sockets.listeners[&1].acceptors.count();
        let mail = sockets.mail_waiters.count();
        acceptors + mail + sockets.waiting_for_peers() + sockets.event_waiters.count()
    });
    assert_eq!(left, Ok(0));
}

#[test]
fn a_task_that_waits_in_two_calls_is_woken_though_it_gives_one_up() {
    let node = node();
    let task = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&task));
    let mut context = Context::from_waker(&waker);
    let mut stays = pin!(node.receive_async());
    assert!(stays.as_mut().poll(&mut context).is_pending());
    assert!(pin!(node.receive_async()).poll(&mut context).is_pending());
    node.close();
    assert_eq!(task.0.load(Ordering::Relaxed), 1);
    assert!(stays.poll(&mut context).is_ready());
}

#[test]
fn who_only_looks_takes_in_what_has_arrived() {
    let (mut near, mut far) = (options(), options());
    let at = |options: &Options| [SocketAddr::from((Ipv4Addr::LOCALHOST, options.port))];
    (near, far) = (near.clone().peer("b", at(&far)), far.peer("a", at(&near)));
    far.name = "b".into();
    let (mut engine, _) = Engine::new(near.engine_config().unwrap()).unwrap();
    add_peer(&mut engine, &near.peers[0]).unwrap();
    // Without a helper.
    let hub = Hub::new(engine, Sockets::default()).unwrap();
    let _far = Node::open(far).unwrap();
    let begun = Instant::now();
    loop {
        let look = |state: &mut State, waiter: &mut Waiter| state.sockets.poll_event(waiter);
        let event = hub.wait_for(Some(Instant::now()), look).unwrap();
        if matches!(event, Ok(Event::PeerUp { .. })) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing came");
        thread::yield_now();
    }
}

#[test]
fn what_is_posted_waits_until_it_is_worth_a_system_call() {
    let (engine, _) = Engine::new(options().engine_config().unwrap()).unwrap();
    // Without a helper.
    let hub = Hub::new(engine, Sockets::default()).unwrap();
    let waits = || hub.look(|state| state.posted_bytes).unwrap();
    let post = |bytes| hub.post(|_| ((), bytes)).unwrap();
    (0..10).for_each(|_| post(100));
    assert_eq!(waits(), 1000);
    hub.act(|_| ((), 0)).unwrap();
    assert_eq!(waits(), 0);
    post(POST_BYTES - 1);
    assert_eq!(waits(), POST_BYTES - 1);
    // Nothing is posted without being sent some time.
    post(0);
    assert_eq!(waits(), 0);
}

#[test]
fn a_driver_that_panics_leaves_the_node_to_others() {
    let node = node();
    let hub = &node.hub;
    let mut times = 0;
    let drives = || {
        hub.wait_for(None, |_, _| {
            times += 1;
            assert!(times < 2, "on purpose");
            // So that its first turn ends.
            hub.kick.notify();
            Poll::<()>::Pending
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(drives)).is_err());
    let driver = hub.look(|state| state.driver.filter(|driver| !driver.is_helper));
    assert!(driver.unwrap().is_none());
}

#[test]
fn a_helper_that_panics_goes_on_and_wakes_who_waits_until_it_is_too_much() {
    let (engine, _) = Engine::new(options().engine_config().unwrap()).unwrap();
    // Without a helper but the one below.
    let hub = Hub::new(engine, Sockets::default()).unwrap();
    let task = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&task));
    let waits = || {
        let mut waiter = Waiter::new(waker.clone());
        hub.poll(&mut waiter, |state, waiter| {
            state.sockets.poll_event(waiter)
        })
    };
    assert_eq!(waits(), Ok(Poll::Pending));
    let times = Cell::new(0);
    hub.survive(|| {
        times.set(times.get() + 1);
        if times.get() == 1 {
            let mut state = hub.lock_here();
            let number = state.new_driver();
            state.driver = Some(Driver::new(number, true));
            panic!("on purpose");
        }
    });
    assert_eq!((times.get(), task.0.load(Ordering::Relaxed)), (2, 1));
    assert!(hub.look(|state| state.driver.is_none()).unwrap());
    assert_eq!(waits(), Ok(Poll::Pending));
    hub.survive(|| panic!("on purpose, again and again"));
    assert!(task.0.load(Ordering::Relaxed) > 1);
    assert_eq!(waits(), Err(Gone::Broken));
}

#[test]
fn a_driver_without_a_timer_is_woken_before_the_helper_sleeps() {
    let node = node();
    let hub = &node.hub;
    let helper_looks = |state: &mut State| state.helper.is_some() && !state.helper_sleeps;
    while !hub.look(helper_looks).unwrap() {
        thread::yield_now();
    }
    // Nothing is due: nobody else wakes it.
    let woken = hub.wait_for(None, |state, _| match state.driver {
        Some(driver) if driver.is_untimed && driver.is_old(state.now) => Poll::Ready(()),
        _ => Poll::Pending,
    });
    assert!(matches!(woken, Ok(Ok(()))));
}

/// Whether it comes to be so.
fn comes(hub: &Hub, what: impl Fn(&mut State) -> bool) -> bool {
    let begun = Instant::now();
    while !hub.look(&what).unwrap() {
        if begun.elapsed() > Duration::from_secs(20) {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn what_is_posted_is_sent_though_whoever_drives_sleeps_and_has_no_timer() {
    // Some seconds after the links came up.
    let sleeps = |state: &mut State, helper: bool| {
        let driver = state.driver.filter(|driver| driver.is_helper == helper);
        driver.is_some_and(|driver| driver.until == Time::NEVER && driver.is_old(state.now))
    };
    let post = |hub: &Hub| {
        hub.post(|_| ((), 100)).unwrap();
        comes(hub, |state| state.posted_bytes == 0)
    };
    let (threads, tasks) = (node(), node());
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = pin!(tasks.receive_async());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    thread::scope(|scope| {
        // A thread of the program drives, and the helper sleeps, too.
        scope.spawn(|| threads.receive());
        let all_sleep = |state: &mut State| state.helper_sleeps && sleeps(state, false);
        let by_helper = comes(&threads.hub, all_sleep) && post(&threads.hub);
        threads.close();
        assert!(by_helper);
        // The helper drives.
        assert!(comes(&tasks.hub, |state| sleeps(state, true)));
        assert!(post(&tasks.hub));
    });
}
