//! Two ranks that measure each other: half round trips, rates of small messages, throughput of large ones and of writes.
//!
//! `exchange FILE OWN-NUMBER ADDRESS…`: both are given the same FILE, by which they tell each other their addresses, and the
//! addresses of their own links, in the order of the networks. Number 0 measures and prints.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tabane_rank::*;

/// Messages under way at a time.
const WINDOW: usize = 64;

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

    /// The same of writes to the other one's memory, from the second one's point of view: they are done there.
    fn writes_per_s(&self, len: usize, rounds: usize) -> f64 {
        let mut region = vec![0; len * WINDOW];
        let [piece] = pieces(&mut region);
        let access = Access {
            remote_read: true,
            remote_write: true,
        };
        // SAFETY: `region` outlives the registration.
        unsafe { self.endpoint.lock().register(1, piece, access, 0) }.expect("is registered");
        let mut word = [0; 4];
        self.receive(&mut word);
        self.send(&mut [0; 4]);
        self.wait(2);
        let mut bytes = vec![1; len];
        let begin = Instant::now();
        for _ in 0..rounds {
            if !self.is_first {
                break;
            }
            for n in 0..WINDOW {
                let transfer = Transfer {
                    peer: self.other,
                    remote: Remote {
                        offset: (n * len) as u64,
                        key: 1,
                    },
                    pieces: &pieces(&mut bytes),
                    data: None,
                    inject: false,
                    ticket: Ticket::default(),
                };
                // SAFETY: `bytes` outlive the writes, which are waited for.
                while unsafe { self.endpoint.lock().write(&transfer) } == Err(PostError::Again) {
                    self.endpoint.lock().progress();
                }
            }
            self.wait(WINDOW);
        }
        let per_s = (rounds * WINDOW) as f64 / begin.elapsed().as_secs_f64();
        self.receive(&mut word);
        self.send(&mut [0; 4]);
        self.wait(2);
        self.endpoint.lock().deregister(1);
        per_s
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
        let mb = per_s * len as f64 / 1e6;
        say(format!("messages, {len} bytes: {per_s:.0}/s, {mb:.1} MB/s"));
    }
    for (len, rounds) in [(8, 5000), (65_536, 60), (1 << 20, 6)] {
        let per_s = rank.writes_per_s(len, rounds);
        let mb = per_s * len as f64 / 1e6;
        say(format!("writes, {len} bytes: {per_s:.0}/s, {mb:.1} MB/s"));
    }
    if rank.is_first {
        for link in rank.endpoint.lock().statistics().links {
            println!("link {}: {} bytes sent", link.number, link.sent_bytes);
        }
        let local_bytes = rank.endpoint.lock().statistics().local_sent_bytes;
        println!("shared memory: {local_bytes} bytes sent");
    }
}
