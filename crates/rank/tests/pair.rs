//! Two endpoints of this process, over the loopback device and through shared memory.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use tabane_rank::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// All ways between two of one node.
const WAYS: [SharedMemory; 3] = [SharedMemory::Off, SharedMemory::Copy, SharedMemory::Pull];

/// Pairs of endpoints, one for each way.
fn pairs() -> impl Iterator<Item = Pair> {
    WAYS.into_iter().map(|shared_memory| {
        Pair::new(&Settings {
            shared_memory,
            ..settings()
        })
    })
}

fn settings() -> Settings {
    Settings {
        links: vec![(0, IpAddr::V4(Ipv4Addr::LOCALHOST))],
        key: [7; 32],
        encrypted: true,
        ports: 20_000..=60_000,
        peer_timeout: Duration::from_secs(1),
        eager_bytes: 16 * 1024,
        unexpected_bytes: 256 * 1024,
        shared_memory: SharedMemory::Pull,
        bundles_max: None,
    }
}

fn pieces(bytes: &mut [u8]) -> [Piece; 1] {
    [Piece {
        base: bytes.as_mut_ptr(),
        bytes: bytes.len(),
    }]
}

fn ticket(context: usize) -> Ticket {
    Ticket { context, flags: 0 }
}

/// Two endpoints, each with the number that the other one has there.
struct Pair {
    ends: [Endpoint; 2],
    other: [Peer; 2],
}

impl Pair {
    fn new(settings: &Settings) -> Pair {
        let ends = [0, 1].map(|_| Endpoint::open(settings).expect("opens"));
        let other = [0, 1].map(|n| ends[n].lock().peer(ends[1 - n].address()));
        Pair { ends, other }
    }

    /// Lets both work until as many operations of each have ended; returns how.
    fn run(&self, counts: [usize; 2]) -> [Vec<Completion>; 2] {
        let mut ended = [Vec::new(), Vec::new()];
        let until = Instant::now() + PATIENCE;
        while ended[0].len() < counts[0] || ended[1].len() < counts[1] {
            assert!(Instant::now() < until, "{ended:?}");
            for (end, ended) in self.ends.iter().zip(&mut ended) {
                let mut core = end.lock();
                core.progress();
                ended.extend(core.completion());
            }
        }
        assert_eq!([ended[0].len(), ended[1].len()], counts);
        ended
    }

    fn send(&self, from: usize, tag: Option<u64>, bytes: &mut [u8], context: usize) {
        let send = Send {
            to: self.other[from],
            tag,
            data: Some(context as u64),
            pieces: &pieces(bytes),
            inject: false,
            until: Until::Reusable,
            ticket: ticket(context),
        };
        let until = Instant::now() + PATIENCE;
        loop {
            // SAFETY: each caller keeps the bytes until the completion.
            match unsafe { self.ends[from].lock().send(&send) } {
                Err(PostError::Again) if Instant::now() < until => {
                    self.ends[from].lock().progress()
                }
                other => return other.expect("is posted"),
            }
        }
    }

    /// Posts a copied message of the first one, which ends so. `bytes` outlives the pair's work.
    fn send_until(&self, bytes: &mut [u8], until: Until) {
        let send = Send {
            to: self.other[0],
            tag: None,
            data: None,
            pieces: &pieces(bytes),
            inject: true,
            until,
            ticket: ticket(9),
        };
        // SAFETY: as above.
        unsafe { self.ends[0].lock().send(&send) }.expect("is posted");
    }

    fn receive(&self, at: usize, tag: Option<(u64, u64)>, bytes: &mut [u8], context: usize) {
        let receive = Receive {
            from: None,
            tag,
            pieces: &pieces(bytes),
            multi: None,
            ticket: ticket(context),
        };
        // SAFETY: each caller keeps the bytes until the completion.
        unsafe { self.ends[at].lock().receive(&receive) }.expect("is posted");
    }

    fn transfer(&self, bytes: &mut [u8], key: u64, offset: u64, data: Option<u64>, is_write: bool) {
        let transfer = Transfer {
            peer: self.other[0],
            remote: Remote { offset, key },
            pieces: &pieces(bytes),
            data,
            inject: false,
            ticket: ticket(5),
        };
        let mut core = self.ends[0].lock();
        let posted = match is_write {
            // SAFETY: each caller keeps the bytes until the completion.
            true => unsafe { core.write(&transfer) },
            // SAFETY: as above.
            false => unsafe { core.read(&transfer) },
        };
        posted.expect("is posted");
    }

    fn register(&self, bytes: &mut [u8], key: u64, access: Access) {
        let [piece] = pieces(bytes);
        // SAFETY: each caller keeps the bytes until it deregisters them, or the endpoint ends.
        unsafe { self.ends[1].lock().register(key, piece, access, 0) }.expect("is registered");
    }
}

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|n| (n / 251 + n) as u8 ^ seed).collect()
}

#[test]
fn messages_of_all_lengths_come_whole_and_say_whom_they_are_of() {
    for pair in pairs() {
        for (n, len) in [0, 1, 8, 1400, 16_384, 16_385, 100_000, 5_000_000]
            .into_iter()
            .enumerate()
        {
            for (from, tag) in [(0, None), (1, Some(n as u64))] {
                let mut there = vec![0; len];
                let mut bytes = pattern(n as u8, len);
                pair.receive(1 - from, tag.map(|tag| (tag, 0)), &mut there, 100 + n);
                pair.send(from, tag, &mut bytes, n);
                let mut ended = pair.run([1, 1]);
                let received = ended[1 - from].remove(0);
                assert_eq!(received.failure, None);
                assert_eq!((received.bytes, received.tag), (len as u64, tag));
                assert_eq!(received.ticket, ticket(100 + n));
                assert_eq!(received.data, Some(n as u64));
                assert_eq!(received.source, Source::Peer(pair.other[1 - from]));
                let sent = &ended[from][0];
                assert_eq!(
                    (sent.ended, sent.ticket, sent.failure),
                    (Ended::Send, ticket(n), None)
                );
                assert!(there == bytes, "{len} bytes");
            }
        }
    }
}

#[test]
fn what_is_said_goes_the_way_that_was_asked_for() {
    for (pair, way) in pairs().zip(WAYS) {
        for len in [100, 100_000] {
            let (mut bytes, mut there) = (pattern(1, len), vec![0; len]);
            pair.receive(1, None, &mut there, 1);
            pair.send(0, None, &mut bytes, 2);
            pair.run([1, 1]);
        }
        let [sent, received] = [0, 1].map(|n| pair.ends[n].lock().statistics());
        let far = sent.links[0].sent_bytes;
        let near = sent.local_sent_bytes;
        match way {
            SharedMemory::Off => assert!(far > 100_100 && near == 0),
            SharedMemory::Copy => assert!(far == 0 && near > 100_100),
            SharedMemory::Pull => assert!(far == 0 && near > 100 && near < 1000),
        }
        assert_eq!((sent.peers, received.peers), (1, 1));
        assert_eq!(received.local_received_bytes, near);
    }
}

#[test]
fn who_shares_no_memory_is_reached_all_the_same() {
    let off = Settings {
        shared_memory: SharedMemory::Off,
        ..settings()
    };
    let both = [&off, &settings()].map(|settings| Endpoint::open(settings).expect("opens"));
    let other = [0, 1].map(|n| both[n].lock().peer(both[1 - n].address()));
    let pair = Pair { ends: both, other };
    for (from, len) in [(0, 10), (1, 10), (0, 50_000), (1, 50_000)] {
        let (mut bytes, mut there) = (pattern(1, len), vec![0; len]);
        pair.receive(1 - from, None, &mut there, 1);
        pair.send(from, None, &mut bytes, 2);
        pair.run([1, 1]);
        assert!(there == bytes);
        assert_eq!(pair.ends[from].lock().statistics().local_sent_bytes, 0);
    }
}

#[test]
fn unexpected_messages_wait_in_order_however_many_and_long_they_are() {
    for pair in pairs() {
        let mut all: Vec<_> = (0..300)
            .map(|n| pattern(n as u8, [10, 3000, 60_000][n % 3]))
            .collect();
        for (n, bytes) in all.iter_mut().enumerate() {
            pair.send(0, Some(n as u64 % 7), bytes, n);
        }
        // Of the last tag first.
        let mut seen = 0;
        for tag in (0..7).rev() {
            for n in (0..300).filter(|n| n % 7 == tag) {
                let mut there = vec![0; 60_000];
                pair.receive(1, Some((tag as u64, 0)), &mut there, n);
                let until = Instant::now() + PATIENCE;
                let received = loop {
                    assert!(Instant::now() < until, "message {n}");
                    for end in &pair.ends {
                        end.lock().progress();
                    }
                    if let Some(completion) = pair.ends[1].lock().completion() {
                        break completion;
                    }
                };
                assert_eq!(received.data, Some(n as u64));
                assert!(there[..received.bytes as usize] == all[n][..]);
                seen += 1;
            }
        }
        assert_eq!(seen, 300);
    }
}

#[test]
fn a_message_longer_than_its_buffer_is_cut_off_and_told() {
    for pair in pairs() {
        for len in [100, 50_000] {
            let mut there = vec![0; 64];
            let mut bytes = pattern(3, len);
            pair.receive(1, None, &mut there, 1);
            pair.send(0, None, &mut bytes, 2);
            let [_, received] = pair.run([1, 1]);
            let cut = Failure::Truncated(len as u64 - 64);
            assert_eq!((received[0].bytes, received[0].failure), (64, Some(cut)));
            assert!(there == bytes[..64]);
        }
    }
}

#[test]
fn what_is_to_be_delivered_ends_when_it_is() {
    for pair in pairs() {
        let mut bytes = pattern(1, 100);
        pair.send_until(&mut bytes, Until::Delivered);
        let until = Instant::now() + Duration::from_millis(100);
        while Instant::now() < until {
            for end in &pair.ends {
                end.lock().progress();
                assert_eq!(end.lock().completion(), None);
            }
        }
        let mut there = [0; 100];
        pair.receive(1, None, &mut there, 1);
        let [sent, _] = pair.run([1, 1]);
        assert_eq!(sent[0].ticket, ticket(9));
        assert_eq!(there[..], bytes[..]);
    }
}

#[test]
fn what_has_arrived_ends_though_nobody_waits_for_it() {
    for pair in pairs() {
        let mut bytes = pattern(1, 100);
        pair.send_until(&mut bytes, Until::Arrived);
        let [sent, _] = pair.run([1, 0]);
        assert_eq!((sent[0].ticket, sent[0].failure), (ticket(9), None));
        // It is there.
        let mut there = [0; 100];
        pair.receive(1, None, &mut there, 1);
        pair.run([0, 1]);
        assert_eq!(there[..], bytes[..]);
    }
}

#[test]
fn a_peeked_message_stays_is_claimed_or_is_dropped() {
    for pair in pairs() {
        let mut all = [pattern(1, 10), pattern(2, 50_000), pattern(3, 30)];
        for (n, bytes) in all.iter_mut().enumerate() {
            pair.send(0, Some(n as u64), bytes, n);
        }
        let look = |tag, peek| {
            let receive = Receive {
                from: Some(pair.other[1]),
                tag: Some((tag, 0)),
                pieces: &[],
                multi: None,
                ticket: ticket(40),
            };
            let until = Instant::now() + PATIENCE;
            loop {
                pair.ends[0].lock().progress();
                let mut core = pair.ends[1].lock();
                core.peek(&receive, peek).expect("is posted");
                let completion = core.completion().expect("is told at once");
                assert_eq!(completion.ended, Ended::Peek);
                if completion.failure.is_none() || Instant::now() > until || tag > 2 {
                    return (completion.bytes, completion.failure);
                }
            }
        };
        assert_eq!(look(9, Peek::Look), (0, Some(Failure::NoMessage)));
        assert_eq!(look(2, Peek::Look), (30, None));
        assert_eq!(look(2, Peek::Discard), (30, None));
        assert_eq!(look(1, Peek::Claim), (50_000, None));
        assert_eq!(look(0, Peek::Claim), (10, None));
        let mut there = vec![0; 50_000];
        let mut core = pair.ends[1].lock();
        // SAFETY: `there` outlives the pair's work.
        let claimed = unsafe { core.receive_claimed(&pieces(&mut there), ticket(40)) };
        claimed.expect("was claimed");
        drop(core);
        let [_, received] = pair.run([3, 1]);
        // Both were claimed with one context: the older is received first.
        assert_eq!(received[0].bytes, 50_000);
        assert!(there == all[1]);
    }
}

#[test]
fn writes_and_reads_reach_regions_and_nothing_else() {
    for pair in pairs() {
        let mut region = vec![0; 200_000];
        let both = Access {
            remote_read: true,
            remote_write: true,
            is_told: false,
        };
        pair.register(&mut region, 77, both);
        for len in [0, 8, 5000, 150_000] {
            let mut bytes = pattern(5, len);
            pair.transfer(&mut bytes, 77, 1000, Some(3), true);
            let [written, told] = pair.run([1, 1]);
            assert_eq!((written[0].ended, written[0].failure), (Ended::Write, None));
            let ended = Ended::Written { key: 77 };
            assert_eq!((told[0].ended, told[0].data), (ended, Some(3)));
            assert_eq!(told[0].bytes, len as u64);
            let mut back = vec![0; len];
            pair.transfer(&mut back, 77, 1000, None, false);
            let [read, _] = pair.run([1, 0]);
            assert_eq!((read[0].ended, read[0].failure), (Ended::Read, None));
            assert!(back == bytes);
        }
        let mut bytes = vec![1; 100];
        for (key, offset, failure) in [
            (78, 0, Failure::BadKey),
            (77, 199_901, Failure::OutOfBounds),
            (77, u64::MAX >> 2, Failure::OutOfBounds),
        ] {
            for is_write in [true, false] {
                pair.transfer(&mut bytes, key, offset, None, is_write);
                let [ended, _] = pair.run([1, 0]);
                assert_eq!(ended[0].failure, Some(failure));
            }
        }
        assert!(pair.ends[1].lock().deregister(77));
        assert!(!pair.ends[1].lock().deregister(77));
        pair.transfer(&mut bytes, 77, 0, None, true);
        let [ended, _] = pair.run([1, 0]);
        assert_eq!(ended[0].failure, Some(Failure::BadKey));
        pair.register(&mut region, 77, Access::default());
        pair.transfer(&mut bytes, 77, 0, None, true);
        let [ended, _] = pair.run([1, 0]);
        assert_eq!(ended[0].failure, Some(Failure::NoAccess));
        assert_eq!(pair.ends[1].lock().statistics().refused_accesses, 8);
    }
}

#[test]
fn a_region_may_be_told_of_all_that_is_done_with_it() {
    for pair in pairs() {
        let mut region = vec![0; 200_000];
        let told = Access {
            remote_read: true,
            remote_write: true,
            is_told: true,
        };
        pair.register(&mut region, 77, told);
        for len in [0, 8, 5000, 150_000] {
            let mut bytes = pattern(5, len);
            pair.transfer(&mut bytes, 77, 1000, None, true);
            let [_, told] = pair.run([1, 1]);
            let ended = Ended::Written { key: 77 };
            assert_eq!((told[0].ended, told[0].data), (ended, None));
            let mut back = vec![0; len];
            pair.transfer(&mut back, 77, 1000, None, false);
            let [read, by_other] = pair.run([1, 1]);
            assert_eq!((read[0].ended, read[0].failure), (Ended::Read, None));
            let (key, written) = (77, false);
            assert_eq!(by_other[0].ended, Ended::WasRead { key, written });
            assert_eq!((told[0].bytes, by_other[0].bytes), (len as u64, len as u64));
            assert!(back == bytes);
        }
    }
}

#[test]
fn atomic_operations_are_done_at_the_owner() {
    for pair in pairs() {
        let mut region = 40u64.to_ne_bytes();
        let both = Access {
            remote_read: true,
            remote_write: true,
            is_told: true,
        };
        pair.register(&mut region, 1, both);
        let (mut operand, mut compare, mut result) =
            (2u64.to_ne_bytes(), 42u64.to_ne_bytes(), [0; 8]);
        let mut run = |operation, compares: bool| {
            let (compare, result_pieces) = (pieces(&mut compare), pieces(&mut result));
            let atomic = Atomic {
                peer: pair.other[0],
                remote: Remote { offset: 0, key: 1 },
                operation,
                number: Number::U64,
                operand: &pieces(&mut operand),
                compare: compares.then_some(&compare[..]),
                result: Some(&result_pieces),
                ticket: ticket(1),
            };
            // SAFETY: all of it outlives the pair's work.
            unsafe { pair.ends[0].lock().atomic(&atomic) }.expect("is posted");
            let [ended, by_other] = pair.run([1, 1]);
            assert_eq!(ended[0].failure, None);
            let (key, written) = (1, operation != Operation::Read);
            assert_eq!(by_other[0].ended, Ended::WasRead { key, written });
            u64::from_ne_bytes(result)
        };
        assert_eq!(run(Operation::Sum, false), 40);
        assert_eq!(run(Operation::Read, false), 42);
        assert_eq!(run(Operation::Swap, true), 42);
        assert_eq!(run(Operation::Read, false), 2);
    }
}

#[test]
fn who_goes_is_gone_and_whoever_waits_for_it_is_told() {
    for pair in pairs() {
        let mut bytes = pattern(1, 10);
        pair.send(0, None, &mut bytes, 1);
        let mut there = [0; 10];
        pair.receive(1, None, &mut there, 2);
        pair.run([1, 1]);
        let receive = Receive {
            from: Some(pair.other[0]),
            tag: None,
            pieces: &[],
            multi: None,
            ticket: ticket(3),
        };
        // SAFETY: there are no pieces.
        unsafe { pair.ends[0].lock().receive(&receive) }.expect("is posted");
        let Pair { ends, other } = pair;
        let [left, right] = ends;
        drop(right);
        let told = |end: &Endpoint| {
            let until = Instant::now() + PATIENCE;
            loop {
                assert!(Instant::now() < until);
                let mut core = end.lock();
                core.progress();
                if let Some(completion) = core.completion() {
                    return completion.failure;
                }
            }
        };
        assert_eq!(told(&left), Some(Failure::PeerGone));
        let send = Send {
            to: other[0],
            tag: None,
            data: None,
            pieces: &pieces(&mut bytes),
            inject: false,
            until: Until::Reusable,
            ticket: ticket(4),
        };
        // SAFETY: `bytes` outlives the endpoint.
        unsafe { left.lock().send(&send) }.expect("is posted");
        assert_eq!(told(&left), Some(Failure::PeerGone));
    }
}

#[test]
fn nobody_at_an_address_and_another_key_are_told_in_time() {
    let other_key = Settings {
        key: [8; 32],
        ..settings()
    };
    let left = Endpoint::open(&settings()).expect("opens");
    let stranger = Endpoint::open(&other_key).expect("opens");
    let nobody = Address::new(&settings().links, 9, 1).expect("is one");
    let begun = Instant::now();
    for (n, address) in [*stranger.address(), nobody].iter().enumerate() {
        let to = left.lock().peer(address);
        let receive = Receive {
            from: Some(to),
            tag: None,
            pieces: &[],
            multi: None,
            ticket: ticket(n),
        };
        // SAFETY: there are no pieces.
        unsafe { left.lock().receive(&receive) }.expect("is posted");
    }
    let mut failures = Vec::new();
    while failures.len() < 2 {
        assert!(begun.elapsed() < PATIENCE);
        stranger.lock().progress();
        let mut core = left.lock();
        core.progress();
        failures.extend(core.completion().and_then(|c| c.failure));
    }
    assert_eq!(failures, [Failure::Unreachable; 2]);
}

#[test]
fn what_comes_while_the_program_computes_is_taken_in() {
    for pair in pairs() {
        let (mut first, mut begin) = (pattern(2, 10), [0; 10]);
        let mut bytes = pattern(1, 3_000_000);
        let mut there = vec![0; bytes.len()];
        pair.receive(1, None, &mut begin, 1);
        pair.receive(1, None, &mut there, 1);
        pair.send(0, None, &mut first, 2);
        pair.send(0, None, &mut bytes, 2);
        // Nobody asks: both helpers work, also while it is not heard that the first has come.
        let until = Instant::now() + PATIENCE;
        // The compiler does not know who writes there.
        while core::hint::black_box(&there) != &bytes {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(pair.ends[1].wait(Some(PATIENCE)));
        let [_, received] = pair.run([2, 2]);
        assert_eq!(received[1].bytes, bytes.len() as u64);
        assert!(!pair.ends[1].wait(Some(Duration::from_millis(20))));
    }
}

#[test]
fn a_message_to_oneself_arrives() {
    let end = Endpoint::open(&settings()).expect("opens");
    let mut core = end.lock();
    let own = core.peer(end.address());
    let mut bytes = pattern(4, 100_000);
    let mut there = vec![0; bytes.len()];
    let send = Send {
        to: own,
        tag: Some(1),
        data: None,
        pieces: &pieces(&mut bytes),
        inject: false,
        until: Until::Delivered,
        ticket: ticket(1),
    };
    let receive = Receive {
        from: Some(own),
        tag: Some((1, 0)),
        pieces: &pieces(&mut there),
        multi: None,
        ticket: ticket(2),
    };
    // SAFETY: both outlive the endpoint's work.
    unsafe {
        core.send(&send).expect("is posted");
        core.receive(&receive).expect("is posted");
    }
    let contexts: Vec<_> = std::iter::from_fn(|| core.completion())
        .map(|c| c.ticket.context)
        .collect();
    assert_eq!(contexts, [1, 2]);
    assert!(there == bytes);
}

#[test]
fn a_port_that_is_taken_is_said_to_be() {
    let taken = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("is bound").port();
    let narrow = Settings {
        ports: port..=port,
        ..settings()
    };
    assert!(matches!(Endpoint::open(&narrow), Err(OpenError::NoPort(_))));
}

#[test]
fn as_many_endpoints_as_ports_have_one_each() {
    const COUNT: u16 = 12;
    let narrow = Settings {
        // Nobody else is there.
        links: vec![(0, Ipv4Addr::new(127, 7, 7, 7).into())],
        ports: 7000..=7000 + COUNT - 1,
        ..settings()
    };
    let opened: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..COUNT)
            .map(|_| scope.spawn(|| Endpoint::open(&narrow)))
            .collect();
        all.into_iter()
            .map(|one| one.join().expect("ends").expect("opens"))
            .collect()
    });
    let mut ports: Vec<_> = (opened.iter())
        .flat_map(|end| end.address().links().into_iter().flatten())
        .map(|there| there.port())
        .collect();
    ports.sort_unstable();
    assert!(ports.into_iter().eq(narrow.ports.clone()));
    assert!(matches!(Endpoint::open(&narrow), Err(OpenError::NoPort(_))));
}

#[test]
fn links_that_are_not_here_are_said_not_to_be() {
    let elsewhere = Settings {
        links: vec![(0, Ipv4Addr::new(192, 0, 2, 1).into())],
        ..settings()
    };
    assert!(matches!(
        Endpoint::open(&elsewhere),
        Err(OpenError::NoLink(_))
    ));
}

/// Memory in so many pieces, of which the last has what is left over.
fn divided(bytes: &mut [u8], count: usize) -> Vec<Piece> {
    let each = bytes.len() / count;
    let (base, len) = (bytes.as_mut_ptr(), bytes.len());
    let piece = |n: usize| Piece {
        base: base.wrapping_add(n * each),
        bytes: if n + 1 == count { len - n * each } else { each },
    };
    (0..count).map(piece).collect()
}

#[test]
fn messages_of_many_pieces_arrive_in_many_pieces() {
    for pair in pairs() {
        for len in [0, 1, 5, 16, 100, 4096, 5000, 16_384, 20_000, 100_000] {
            for (out, into) in [(1, 1), (3, 1), (1, 3), (16, 2), (2, 16), (16, 16)] {
                let mut sent: Vec<u8> = (0..len).map(|n| (n * 7 + n / 251) as u8).collect();
                // There is more room than is needed.
                let mut came = vec![0; 3 * len + 7];
                let (pieces, room) = (divided(&mut sent, out), divided(&mut came, into));
                for is_early in [true, false] {
                    let receive = Receive {
                        from: None,
                        tag: Some((1, 0)),
                        pieces: &room,
                        multi: None,
                        ticket: ticket(2),
                    };
                    let send = Send {
                        to: pair.other[0],
                        tag: Some(1),
                        data: None,
                        pieces: &pieces,
                        inject: false,
                        until: Until::Reusable,
                        ticket: ticket(1),
                    };
                    // SAFETY: both outlive the run below.
                    unsafe {
                        if is_early {
                            pair.ends[1].lock().receive(&receive).expect("is posted");
                        }
                        pair.ends[0].lock().send(&send).expect("is posted");
                        if !is_early {
                            pair.ends[1].lock().receive(&receive).expect("is posted");
                        }
                    }
                    let [_, received] = pair.run([1, 1]);
                    assert_eq!(received[0].bytes, len as u64);
                    assert_eq!(received[0].failure, None);
                }
                assert!(
                    sent == came[..len],
                    "{len} bytes from {out} pieces into {into}"
                );
                assert!(came[len..].iter().all(|byte| *byte == 0));
            }
        }
    }
}
