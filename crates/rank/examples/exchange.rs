//! Two ranks that measure each other: half round trips, rates of small messages, throughput of large ones, of writes and reads,
//! what a region costs, and what becomes of accesses that are nobody's to make.
//!
//! `exchange FILE OWN-NUMBER ADDRESS…`: both are given the same FILE, by which they tell each other their addresses, and the
//! addresses of their own links, in the order of the networks. Number 0 measures and prints.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tabane_rank::*;

/// Messages under way at a time.
const WINDOW: usize = 64;
/// Of a region whose cost is measured.
const REGION_BYTES: usize = 64 << 10;
/// Accesses of each kind that are to be refused.
const TRIES: usize = 10_000;

struct Rank {
    endpoint: Endpoint,
    other: Peer,
    is_first: bool,
}

fn pieces(bytes: &mut [u8]) -> [Piece; 1] {
    [Piece {
        base: bytes.as_mut_ptr(),
        bytes: bytes.len(),
    }]
}

impl Rank {
    fn meet(file: &Path, number: usize, links: &[IpAddr]) -> Rank {
        let settings = Settings {
            links: links
                .iter()
                .enumerate()
                .map(|(n, a)| (n as u8, *a))
                .collect(),
            key: [7; 32],
            encrypted: std::env::var("TABANE_WIRE").as_deref() != Ok("plain"),
            ports: 20_000..=60_000,
            peer_timeout: Duration::from_secs(3),
            eager_bytes: std::env::var("EAGER")
                .ok()
                .and_then(|e| e.parse().ok())
                .unwrap_or(16_384),
            unexpected_bytes: 1 << 20,
            shared_memory: match std::env::var("TABANE_SHM").as_deref() {
                Ok("0") => SharedMemory::Off,
                Ok("copy") => SharedMemory::Copy,
                _ => SharedMemory::Pull,
            },
            bundles_max: None,
        };
        let endpoint = Endpoint::open(&settings).expect("opens");
        let at = |n: usize| file.with_extension(n.to_string());
        std::fs::write(at(number), endpoint.address().as_bytes()).expect("is written");
        let other = loop {
            if let Ok(bytes) = std::fs::read(at(1 - number))
                && let Ok(address) = Address::from_bytes(&bytes)
            {
                break endpoint.lock().peer(&address);
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Rank {
            endpoint,
            other,
            is_first: number == 0,
        }
    }

    fn send(&self, bytes: &mut [u8]) {
        let send = Send {
            to: self.other,
            tag: Some(1),
            data: None,
            pieces: &pieces(bytes),
            inject: false,
            until: Until::Reusable,
            ticket: Ticket::default(),
        };
        // SAFETY: whoever calls waits for the completion before `bytes` go.
        while let Err(error) = unsafe { self.endpoint.lock().send(&send) } {
            assert_eq!(error, PostError::Again);
            self.endpoint.lock().progress();
        }
    }

    fn receive(&self, bytes: &mut [u8]) {
        let receive = Receive {
            from: None,
            tag: Some((1, 0)),
            pieces: &pieces(bytes),
            multi: None,
            ticket: Ticket::default(),
        };
        // SAFETY: whoever calls waits for the completion before `bytes` go.
        unsafe { self.endpoint.lock().receive(&receive) }.expect("is posted");
    }

    fn wait(&self, mut count: usize) {
        while count > 0 {
            let mut core = self.endpoint.lock();
            core.progress();
            while let Some(completion) = core.completion() {
                assert_eq!(completion.failure, None);
                count -= 1;
            }
        }
    }

    /// Half round trip of so many bytes, in microseconds.
    fn half_round_trip_us(&self, len: usize, times: u32) -> f64 {
        let (mut out, mut back) = (vec![1; len], vec![0; len]);
        let mut begin = Instant::now();
        for n in 0..times + times / 10 {
            if n == times / 10 {
                begin = Instant::now();
            }
            self.receive(&mut back);
            if self.is_first {
                self.send(&mut out);
                self.wait(2);
            } else {
                self.wait(1);
                self.send(&mut out);
                self.wait(1);
            }
        }
        begin.elapsed().as_secs_f64() * 1e6 / f64::from(2 * times)
    }

    /// Messages of so many bytes in a second, as the first one sends them.
    fn messages_per_s(&self, len: usize, rounds: usize) -> f64 {
        let mut all: Vec<Vec<u8>> = vec![vec![1; len]; WINDOW];
        let mut word = [0; 4];
        let begin = Instant::now();
        for _ in 0..rounds {
            if self.is_first {
                self.receive(&mut word);
                all.iter_mut().for_each(|bytes| self.send(bytes));
                self.wait(WINDOW + 1);
            } else {
                all.iter_mut().for_each(|bytes| self.receive(bytes));
                self.wait(WINDOW);
                self.send(&mut word);
                self.wait(1);
            }
        }
        (rounds * WINDOW) as f64 / begin.elapsed().as_secs_f64()
    }

    /// Both have come here.
    fn meet_again(&self) {
        let mut word = [0; 4];
        self.receive(&mut word);
        self.send(&mut [0; 4]);
        self.wait(2);
    }

    /// Lets the other one at `region`, under this key.
    fn register(&self, key: u64, region: &mut [u8]) {
        let [piece] = pieces(region);
        let access = Access {
            remote_read: true,
            remote_write: true,
            is_told: false,
        };
        // SAFETY: whoever calls deregisters it before `region` goes.
        unsafe { self.endpoint.lock().register(key, piece, access, 0) }.expect("is registered");
    }

    /// Writes to the other one's region, or reads from it.
    fn transfer(&self, is_write: bool, remote: Remote, bytes: &mut [u8]) {
        let transfer = Transfer {
            peer: self.other,
            remote,
            pieces: &pieces(bytes),
            data: None,
            inject: false,
            ticket: Ticket::default(),
        };
        loop {
            let mut core = self.endpoint.lock();
            let posted = match is_write {
                // SAFETY: whoever calls waits for the completion before `bytes` go.
                true => unsafe { core.write(&transfer) },
                // SAFETY: as above.
                false => unsafe { core.read(&transfer) },
            };
            match posted {
                Err(PostError::Again) => core.progress(),
                posted => return posted.expect("is posted"),
            }
        }
    }

    /// Writes to the other one's memory in a second, which are done there, or reads from it.
    fn transfers_per_s(&self, is_write: bool, len: usize, rounds: usize) -> f64 {
        let mut region = vec![0; len * WINDOW];
        self.register(1, &mut region);
        self.meet_again();
        let mut bytes = vec![1; len * WINDOW];
        let begin = Instant::now();
        for _ in 0..if self.is_first { rounds } else { 0 } {
            for (n, bytes) in bytes.chunks_mut(len).enumerate() {
                let offset = (n * len) as u64;
                self.transfer(is_write, Remote { offset, key: 1 }, bytes);
            }
            self.wait(WINDOW);
        }
        let per_s = (rounds * WINDOW) as f64 / begin.elapsed().as_secs_f64();
        self.meet_again();
        self.endpoint.lock().deregister(1);
        per_s
    }

    /// Half of the time until a write of so many bytes to the other one's memory is answered by one hither.
    fn written_half_us(&self, len: usize, times: u8) -> f64 {
        let mut region = vec![0; len];
        self.register(1, &mut region);
        self.meet_again();
        let begin = Instant::now();
        let mut bytes = vec![0; len];
        for round in 1..=times {
            for is_own in [self.is_first, !self.is_first] {
                if is_own {
                    bytes[len - 1] = round;
                    self.transfer(true, Remote { offset: 0, key: 1 }, &mut bytes);
                } else {
                    // SAFETY: the last byte is there; the endpoint writes to it, which the compiler does not see.
                    while unsafe { region.as_ptr().add(len - 1).read_volatile() } != round {
                        self.endpoint.lock().progress();
                    }
                }
            }
        }
        let took = begin.elapsed();
        // The bytes came back each time; that they arrived is only then asked for.
        self.wait(times.into());
        self.meet_again();
        self.endpoint.lock().deregister(1);
        took.as_secs_f64() * 1e6 / f64::from(2 * u32::from(times))
    }

    /// Registering and deregistering a region, in microseconds, beside so many others.
    fn region_us(&self, others: usize) -> [f64; 2] {
        const TIMES: usize = 1000;
        let mut memory = vec![0; REGION_BYTES];
        let key = |n: usize| 1000 + n as u64;
        (0..others).for_each(|n| self.register(key(n), &mut memory));
        let us = |begin: Instant| begin.elapsed().as_secs_f64() * 1e6 / TIMES as f64;
        let begin = Instant::now();
        (0..TIMES).for_each(|n| self.register(key(others + n), &mut memory));
        let registering = us(begin);
        let begin = Instant::now();
        for n in 0..TIMES {
            assert!(self.endpoint.lock().deregister(key(others + n)));
        }
        let deregistering = us(begin);
        for n in 0..others {
            self.endpoint.lock().deregister(key(n));
        }
        [registering, deregistering]
    }

    /// Tries what is to be refused: keys that are guessed, accesses beyond a region, and to one that is no more. How many were.
    fn refused(&self) -> [usize; 3] {
        let mut region = vec![0; REGION_BYTES];
        self.register(1, &mut region);
        self.register(2, &mut region);
        self.endpoint.lock().deregister(2);
        self.meet_again();
        let mut bytes = [1; 8];
        let end = REGION_BYTES as u64 - 7;
        let refused = [
            (3, 0, Failure::BadKey),
            (1, end, Failure::OutOfBounds),
            (2, 0, Failure::BadKey),
        ]
        .map(|(key, offset, why)| {
            let mut count = 0;
            for n in 0..if self.is_first { TRIES } else { 0 } {
                // Of guessed keys each time another one.
                let key = if key == 3 {
                    key + n as u64 * 0x9e37_79b9_7f4a
                } else {
                    key
                };
                self.transfer(n % 2 == 0, Remote { offset, key }, &mut bytes);
                let failure = loop {
                    let mut core = self.endpoint.lock();
                    core.progress();
                    if let Some(completion) = core.completion() {
                        break completion.failure;
                    }
                };
                count += usize::from(failure == Some(why));
            }
            count
        });
        self.meet_again();
        self.endpoint.lock().deregister(1);
        assert!(region.iter().all(|byte| *byte == 0), "nobody was let in");
        refused
    }
}

/// Of short ones how many, of long ones how many bytes.
fn rate(len: usize, per_s: f64) -> String {
    match len {
        ..1000 => format!("{per_s:.0} 1/s"),
        _ => format!("{:.1} MB/s", per_s * len as f64 / 1e6),
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let file = words.next().expect("FILE");
    let number = words.next().and_then(|n| n.parse().ok()).expect("0 or 1");
    let links: Vec<IpAddr> = words
        .map(|word| word.parse().expect("an address"))
        .collect();
    let rank = Rank::meet(Path::new(&file), number, &links);
    let say = |what: String| {
        if rank.is_first {
            println!("{what}");
        }
    };
    rank.half_round_trip_us(0, 1000);
    for len in [0, 8, 1024, 16_384, 65_536, 1 << 20] {
        let us = rank.half_round_trip_us(len, if len > 100_000 { 200 } else { 5000 });
        say(format!("half round trip, {len} bytes: {us:.1} us"));
    }
    for (len, rounds) in [
        (8, 5000),
        (1024, 2000),
        (65_536, 60),
        (1 << 20, 6),
        (8 << 20, 1),
    ] {
        let per_s = rank.messages_per_s(len, rounds);
        say(format!("messages, {len} bytes: {}", rate(len, per_s)));
    }
    for (what, is_write) in [("writes", true), ("reads", false)] {
        for (len, rounds) in [(8, 5000), (65_536, 60), (1 << 20, 6), (8 << 20, 1)] {
            let per_s = rank.transfers_per_s(is_write, len, rounds);
            say(format!("{what}, {len} bytes: {}", rate(len, per_s)));
        }
    }
    let us = rank.written_half_us(8, 250);
    say(format!("half round trip of writes, 8 bytes: {us:.1} us"));
    for (what, count) in ["guessed", "beyond a region", "late"]
        .into_iter()
        .zip(rank.refused())
    {
        say(format!("{what} accesses refused, of {TRIES}: {count}"));
    }
    if !rank.is_first {
        let counted = rank.endpoint.lock().statistics().refused_accesses;
        println!("accesses refused here: {counted}");
    }
    for others in [0, 1_000_000] {
        let [registering, deregistering] = rank.region_us(others);
        say(format!(
            "to register 64 KB beside {others} regions: {registering:.2} us"
        ));
        say(format!("to deregister it: {deregistering:.2} us"));
    }
    if rank.is_first {
        for link in rank.endpoint.lock().statistics().links {
            println!("link {}: {} bytes sent", link.number, link.sent_bytes);
        }
        let local_bytes = rank.endpoint.lock().statistics().local_sent_bytes;
        println!("shared memory: {local_bytes} bytes sent");
    }
}
