//! Two NICs without their threads: what comes is taken in when a test says so.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use tabane_rank::{Endpoint, Settings, SharedMemory};

use crate::abi::{self, Descriptor};
use crate::address::{Host, Place};
use crate::connect::LISTENS;
use crate::queue::{Ending, Entry, Progress, Work};
use crate::state::{Operation, State};
use crate::vi::{Attributes, Condition};
use crate::wire::{Said, TAG_SAID};

const LINK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const WHO: &[u8] = b"who";

struct End {
    state: State,
    endpoint: Endpoint,
}

/// Memory of a test's own, for descriptors that nobody reads.
fn descriptor() -> Descriptor {
    // SAFETY: numbers; all zero is a value.
    unsafe { core::mem::zeroed() }
}

impl End {
    fn new() -> End {
        let settings = Settings {
            links: vec![(0, LINK)],
            key: [6; 32],
            encrypted: true,
            ports: 20_000..=60_000,
            peer_timeout: Duration::from_secs(3),
            eager_bytes: 16 * 1024,
            unexpected_bytes: 256 * 1024,
            shared_memory: SharedMemory::Pull,
            bundles_max: None,
        };
        let endpoint = Endpoint::open(&settings).expect("opens");
        let mut state = State::new(*endpoint.address(), Host::of([LINK]).expect("is one"));
        let secrets = State::new_secrets().expect("are made");
        state.ptags.insert(0, secrets);
        state.listen(&mut *endpoint.lock()).expect("listens");
        End { state, endpoint }
    }

    fn vi(&mut self) -> u32 {
        let attributes = Attributes {
            reliability: abi::SERVICE_RELIABLE_DELIVERY,
            transfer_bytes_max: 1024,
            quality: 0,
            ptag: 0,
            rdma_write: false,
            rdma_read: false,
        };
        let made = self.state.create_vi(attributes, None, None);
        made.expect("is made")
    }

    fn place(&self, who: &[u8]) -> Place {
        Place {
            host: self.state.host,
            discriminator: who.to_vec(),
        }
    }

    fn condition(&mut self, vi: u32) -> Condition {
        self.state.vi(vi).expect("is there").condition
    }

    fn drain(&mut self) {
        let mut core = self.endpoint.lock();
        core.progress();
        self.state.drain(&mut *core);
    }

    /// A VI of this end asks the other end.
    fn request(&mut self, vi: u32, other: &End) {
        let places = (self.place(b"me"), other.place(WHO));
        self.state.request(vi, places, None, false).expect("asks");
        self.find(vi, other);
    }

    fn find(&mut self, vi: u32, other: &End) {
        let line = self.state.vi(vi).expect("is there").request.as_ref();
        let line = line.expect("asks").line;
        let mut core = self.endpoint.lock();
        (self.state).found(&mut *core, line, other.endpoint.address());
    }

    /// The next that calls.
    fn caller(&mut self) -> u32 {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < until, "nobody calls");
            self.drain();
            if let Some((caller, ..)) = self.state.next_caller(WHO) {
                return caller;
            }
        }
    }

    fn accept(&mut self, caller: u32, vi: u32) {
        let mut core = self.endpoint.lock();
        let accepted = self.state.accept(&mut *core, caller, vi);
        accepted.expect("is accepted");
    }

    /// All that was said to it waits at its endpoint.
    fn let_come(&mut self) {
        for _ in 0..50 {
            self.endpoint.lock().progress();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn watches(&self) -> usize {
        let operations = self.state.operations.iter();
        operations
            .filter(|(_, operation)| matches!(operation, Operation::Watches { .. }))
            .count()
    }
}

/// Two ends whose VIs are connected.
fn connected() -> (End, u32, End, u32) {
    let (mut a, mut b) = (End::new(), End::new());
    let (one, other) = (a.vi(), b.vi());
    b.state.open_ears(WHO);
    a.request(one, &b);
    let caller = b.caller();
    b.accept(caller, other);
    a.let_come();
    a.drain();
    assert_eq!(a.condition(one), Condition::Connected);
    (a, one, b, other)
}

#[test]
fn a_line_that_ends_at_once_has_ended_though_word_of_that_comes_first() {
    let (mut a, mut b) = (End::new(), End::new());
    let (one, other) = (a.vi(), b.vi());
    b.state.open_ears(WHO);
    a.request(one, &b);
    let caller = b.caller();
    let peer = b.state.callers[&caller].peer;
    // So many take all buffers that the acceptance could find; the word of the end has one of its own.
    for _ in 0..LISTENS {
        let said = Said::Withdraw { line: 0 }.write();
        (b.state).say(&mut *b.endpoint.lock(), peer, TAG_SAID, None, said);
    }
    b.accept(caller, other);
    let mut core = b.endpoint.lock();
    b.state.disconnect(&mut *core, other).expect("is there");
    drop(core);
    a.let_come();
    a.drain();
    assert_eq!(a.condition(one), Condition::Error);
    let request = a.state.vi(one).expect("is there").request.as_ref();
    let outcome = request.and_then(|request| request.outcome);
    assert!(outcome.is_some_and(|outcome| outcome.is_ok()));
}

#[test]
fn who_asks_again_watches_once() {
    let (mut a, b) = (End::new(), End::new());
    let one = a.vi();
    a.request(one, &b);
    for _ in 0..3 {
        a.state.ask_again(&mut *a.endpoint.lock(), one);
        a.find(one, &b);
        a.drain();
        let watch = a.state.vi(one).expect("is there").watch;
        assert_eq!((watch.is_some(), a.watches()), (true, 1));
    }
    let mut core = a.endpoint.lock();
    a.state.disconnect(&mut *core, one).expect("is there");
    drop(core);
    a.drain();
    assert_eq!(a.watches(), 0);
}

#[test]
fn what_is_flushed_takes_nothing_of_others_with_it() {
    let (mut a, one, _b, _) = connected();
    let watch = a.state.vi(one).expect("is there").watch;
    let (mut place, other) = (descriptor(), a.vi());
    let entry = Entry {
        descriptor: &raw mut place,
        work: Work::Write,
        is_fenced: false,
        immediate: Some(1),
        pieces: Vec::new(),
        between: None,
        remote: (0, 0),
        bytes: 0,
        regions: Vec::new(),
        wrong: 0,
        progress: Progress::Waiting,
        ending: Ending::default(),
    };
    // The write is over, its word is not, and its number is another operation's by now.
    let sends = &mut a.state.vi(other).expect("is there").sends;
    sends.push(entry);
    sends.begin(watch.expect("is watched"));
    a.state.flush(&mut *a.endpoint.lock(), other);
    a.drain();
    assert_eq!(a.state.vi(one).expect("is there").watch, watch);
    assert_eq!(a.watches(), 1);
}
