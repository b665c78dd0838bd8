//! Processes of one node: one of them is killed, or stopped; what they leave behind; what they take.
//!
//! The others are this program again: the test [`child`], told by the environment what to do.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tabane_io::poll::{Interest, Poller};
use tabane_rank::*;

const PATIENCE: Duration = Duration::from_secs(30);
const ROLE: &str = "TABANE_TEST_ROLE";
const TO: &str = "TABANE_TEST_TO";

fn settings() -> Settings {
    Settings {
        links: vec![(0, IpAddr::V4(Ipv4Addr::LOCALHOST))],
        key: [9; 32],
        encrypted: true,
        ports: 20_000..=60_000,
        // Longer than anybody waits here: only what the system says of a process is heard earlier.
        peer_timeout: 4 * PATIENCE,
        eager_bytes: 16 * 1024,
        unexpected_bytes: 256 * 1024,
        shared_memory: SharedMemory::Pull,
        bundles_max: None,
    }
}

fn by(shared_memory: SharedMemory) -> Settings {
    Settings {
        shared_memory,
        ..settings()
    }
}

fn ticket(context: usize) -> Ticket {
    Ticket { context, flags: 0 }
}

fn pieces(bytes: &mut [u8]) -> [Piece; 1] {
    [Piece {
        base: bytes.as_mut_ptr(),
        bytes: bytes.len(),
    }]
}

/// The next operation that ends.
fn next(end: &Endpoint) -> Completion {
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "nothing ends");
        end.wait(Some(Duration::from_millis(100)));
        let mut core = end.lock();
        core.progress();
        if let Some(completion) = core.completion() {
            return completion;
        }
    }
}

fn send(end: &Endpoint, to: Peer, bytes: &mut [u8]) {
    let send = Send {
        to,
        tag: None,
        data: None,
        pieces: &pieces(bytes),
        inject: false,
        until: Until::Reusable,
        ticket: ticket(1),
    };
    // SAFETY: whoever calls keeps the bytes until the completion.
    unsafe { end.lock().send(&send) }.expect("is posted");
}

fn receive(end: &Endpoint, from: Option<Peer>, bytes: &mut [u8]) {
    let receive = Receive {
        from,
        tag: None,
        pieces: &pieces(bytes),
        multi: None,
        ticket: ticket(2),
    };
    // SAFETY: whoever calls keeps the bytes until the completion.
    unsafe { end.lock().receive(&receive) }.expect("is posted");
}

/// Another process; it does not outlive the test.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Another process, which does this with an endpoint of its own.
fn start(role: &str, to: &Address) -> Other {
    let program = std::env::current_exe().expect("is known");
    let mut child = Command::new(program);
    child.args(["--exact", "child", "--nocapture"]);
    child.env(ROLE, role).env(TO, to.to_name());
    Other(child.stdout(Stdio::null()).spawn().expect("starts"))
}

#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let to = Address::from_name(&std::env::var(TO).expect("is told")).expect("is one");
    match &*role {
        "lives" | "lives apart" => {
            let way = match &*role {
                "lives" => SharedMemory::Pull,
                _ => SharedMemory::Off,
            };
            let end = Endpoint::open(&by(way)).expect("opens");
            let to = end.lock().peer(&to);
            send(&end, to, &mut [1; 10]);
            let mut long = vec![3; 1 << 20];
            send(&end, to, &mut long);
            // Until it is killed.
            let until = Instant::now() + 3 * PATIENCE;
            while Instant::now() < until {
                end.wait(Some(PATIENCE));
                std::iter::from_fn(|| end.lock().completion()).for_each(drop);
            }
        }
        "counts" => counts(),
        other => panic!("{other}"),
    }
}

/// Many endpoints that have met have as many descriptors as before.
fn counts() {
    let open = || {
        std::fs::read_dir("/proc/self/fd")
            .expect("is there")
            .count()
    };
    let ends: Vec<_> = (0..12)
        .map(|_| Endpoint::open(&settings()).expect("opens"))
        .collect();
    let before = open();
    let mut there = [0; 16];
    for to in &ends {
        for from in &ends {
            if core::ptr::eq(from, to) {
                continue;
            }
            let peer = from.lock().peer(to.address());
            send(from, peer, &mut [1; 16]);
            receive(to, None, &mut there);
            assert_eq!(next(to).failure, None);
            assert_eq!(next(from).failure, None);
        }
    }
    assert_eq!(open(), before);
    let one = before / ends.len();
    assert!(one <= 1 + 8, "{one} descriptors for one link");
}

/// A neighbour that has sent a short message, and a long one that nobody has fetched.
fn met(end: &Endpoint) -> (Other, Peer) {
    let child = start("lives", end.address());
    let mut there = [0; 10];
    receive(end, None, &mut there);
    let first = next(end);
    assert_eq!((first.failure, first.bytes), (None, 10));
    let Source::Stranger(peer) = first.source else {
        panic!("{first:?}");
    };
    assert_eq!(end.lock().statistics().links[0].received_bytes, 0);
    (child, peer)
}

#[test]
fn who_waits_for_a_process_that_is_killed_is_told() {
    let end = Endpoint::open(&settings()).expect("opens");
    let (child, peer) = met(&end);
    let mut long = vec![0; 1 << 20];
    receive(&end, Some(peer), &mut long);
    assert_eq!(next(&end).failure, None);
    assert!(long == [3; 1 << 20]);
    receive(&end, Some(peer), &mut long);
    drop(child);
    assert_eq!(next(&end).failure, Some(Failure::PeerGone));
    send(&end, peer, &mut [1]);
    assert_eq!(next(&end).failure, Some(Failure::PeerGone));
}

/// Sleeps at the descriptor until there is something.
fn sleep(end: &Endpoint, poller: &Poller) {
    let mut ready = Vec::new();
    poller.wait(Some(PATIENCE), &mut ready).expect("waits");
    assert!(!ready.is_empty(), "nobody wakes whoever sleeps");
    end.lock().progress();
}

#[test]
fn who_sleeps_is_woken_by_the_end_of_a_process_that_nothing_is_wanted_of() {
    let end = Endpoint::open(&settings()).expect("opens");
    let (child, peer) = met(&end);
    let mut long = vec![0; 1 << 20];
    receive(&end, Some(peer), &mut long);
    assert_eq!(next(&end).failure, None);
    let poller = Poller::new().expect("is made");
    (poller.register(end.descriptor(), 0, Interest::Read)).expect("is taken");
    end.lock().watch(peer);
    assert!(end.arm());
    drop(child);
    sleep(&end, &poller);
    let lost = end.lock().lost().expect("it is told");
    assert_eq!(lost.why, Failure::PeerGone);
    assert_eq!(end.lock().lost(), None);
}

#[test]
fn who_sleeps_is_woken_when_it_is_time() {
    let end = Endpoint::open(&settings()).expect("opens");
    let poller = Poller::new().expect("is made");
    (poller.register(end.descriptor(), 0, Interest::Read)).expect("is taken");
    // The sooner counts.
    for after in [2 * PATIENCE, Duration::from_millis(20), PATIENCE] {
        end.lock().wake_after(after);
    }
    assert!(end.arm());
    sleep(&end, &poller);
    // Whoever has looked sleeps again.
    assert!(end.arm());
}

#[test]
fn one_of_another_node_that_is_killed_is_gone_after_its_time_however_idle_it_was() {
    // As if it were of another node: nothing is shared, and the kernel's word is not heard.
    let hasty = Settings {
        peer_timeout: Duration::from_secs(1),
        ..by(SharedMemory::Off)
    };
    let end = Endpoint::open(&hasty).expect("opens");
    let child = start("lives apart", end.address());
    let mut there = [0; 10];
    receive(&end, None, &mut there);
    let Source::Stranger(peer) = next(&end).source else {
        panic!("of nobody");
    };
    let mut long = vec![0; 1 << 20];
    receive(&end, Some(peer), &mut long);
    assert_eq!(next(&end).failure, None);
    let mut more = [0; 10];
    receive(&end, Some(peer), &mut more);
    // One that says nothing, and lives.
    end.wait(Some(3 * hasty.peer_timeout));
    assert_eq!(end.lock().completion().map(|told| told.failure), None);
    let killed_at = Instant::now();
    drop(child);
    assert_eq!(next(&end).failure, Some(Failure::PeerGone));
    println!("noticed after {:?}", killed_at.elapsed());
}

fn signal(child: &Other, name: &str) {
    let pid = child.0.id().to_string();
    let sent = Command::new("kill").args([name, &pid]).status();
    assert!(sent.expect("runs").success());
}

#[test]
fn a_process_that_is_stopped_is_gone_after_its_time() {
    let hasty = Settings {
        peer_timeout: Duration::from_millis(300),
        ..settings()
    };
    let end = Endpoint::open(&hasty).expect("opens");
    let (child, peer) = met(&end);
    let mut long = vec![0; 1 << 20];
    signal(&child, "-STOP");
    // Of a process that is stopped memory can be read; nothing else comes from it.
    receive(&end, Some(peer), &mut long);
    let mut more = [0; 10];
    receive(&end, Some(peer), &mut more);
    let failures = [next(&end).failure, next(&end).failure];
    assert!(failures.contains(&Some(Failure::PeerGone)), "{failures:?}");
}

#[test]
fn a_process_that_gets_no_processor_for_a_while_is_not_gone() {
    let peer_timeout = Duration::from_secs(1);
    let settings = Settings {
        peer_timeout,
        ..settings()
    };
    // It is not fetched, and outlives the endpoint.
    let mut unread = vec![4; 1 << 20];
    let end = Endpoint::open(&settings).expect("opens");
    let (child, peer) = met(&end);
    signal(&child, "-STOP");
    send(&end, peer, &mut unread);
    let until = Instant::now() + 3 * peer_timeout;
    while Instant::now() < until {
        end.wait(Some(peer_timeout / 10));
        let mut core = end.lock();
        core.progress();
        assert_eq!(core.completion().map(|told| told.failure), None);
    }
    signal(&child, "-CONT");
    let mut long = vec![0; 1 << 20];
    receive(&end, Some(peer), &mut long);
    assert_eq!(next(&end).failure, None);
    assert!(long == [3; 1 << 20]);
}

#[test]
fn descriptors_do_not_grow_with_neighbours() {
    let nobody = Address::new(&settings().links, 1, 1).expect("is one");
    let mut child = start("counts", &nobody);
    assert!(child.0.wait().expect("ends").success());
}
