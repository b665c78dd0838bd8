//! One end of a connection: TCP as a kernel has it, as far as a gateway can meet it (RFC 9293, 5681, 6298), and the program at it.
//!
//! Bytes are counted from 0, which is SYN; what is sent is a function of the stream and the place in it, so each byte that comes is checked.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use tabane_sim::mix;
use tabane_sim::net::{MS, Ns};

use super::packets::{ACK, FIN, Header, RST, SYN, Said};

/// What is repeated first (Linux: TCP_RTO_MIN) and last.
const RTO_MIN: Ns = 200 * MS;
const RTO_MAX: Ns = 10_000 * MS;
const WINDOW_BYTES: u64 = 128 * 1024;
const SHIFT: u8 = 7;
/// What is sent at once at the beginning, and most.
const BEGINS_SEGMENTS: u64 = 10;
const UNDER_WAY_MAX: u64 = 64 * 1024;
/// What a kernel hands to a TUN at once, in segments.
const OFFLOADED_SEGMENTS: u64 = 8;

/// What a program does, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Writes so many bytes.
    Send(u64),
    /// Reads until it has got so many in all.
    Await(u64),
    /// Does nothing for so long.
    Rest(Ns),
    /// Reads until the far end has closed.
    AwaitEnd,
    /// Has nothing more to say.
    Close,
}

/// One end.
#[derive(Debug)]
pub struct End {
    pub own: SocketAddr,
    pub far: SocketAddr,
    steps: VecDeque<Step>,
    rests_until: Option<Ns>,
    /// What names the stream that it sends; the far end's is the next one.
    stream: u64,
    segment_bytes: u64,
    is_offloaded: bool,
    first: u32,
    /// Acknowledged, sent next, and the most that was ever sent.
    pub acknowledged: u64,
    next: u64,
    sent: u64,
    /// Bytes that the program has written, and whether it has closed.
    written: u64,
    has_closed: bool,
    far_first: Option<u32>,
    far_window: u64,
    far_shift: u8,
    /// What came in order, up to here; and what came beyond.
    pub got: u64,
    beyond: BTreeMap<u64, u64>,
    far_end: Option<u64>,
    rto: Ns,
    due: Option<Ns>,
    /// What may be under way.
    flight_bytes: u64,
    same_answers: u32,
    /// Since when something that was sent, and not acknowledged, waits; and how long it did when it was over.
    waits_since: Option<Ns>,
    pub waits: Vec<(Ns, Ns)>,
    /// What went wrong, once.
    pub broken: Option<String>,
    pub is_reset: bool,
    out: Vec<Said>,
}

fn byte(stream: u64, at: u64) -> u8 {
    (mix(stream ^ (at >> 3)) >> (8 * (at & 7))) as u8
}

impl End {
    /// That begins a connection, with this first sequence number, which is unlike all others.
    pub fn opens(
        now: Ns,
        ends: (SocketAddr, SocketAddr),
        first: u32,
        stream: u64,
        steps: &[Step],
    ) -> End {
        let mut end = End::new(ends, first, stream, steps);
        end.transmit(now);
        end
    }

    fn new((own, far): (SocketAddr, SocketAddr), first: u32, stream: u64, steps: &[Step]) -> End {
        End {
            own,
            far,
            steps: steps.iter().copied().collect(),
            rests_until: None,
            stream,
            segment_bytes: if own.is_ipv4() { 1460 } else { 1440 },
            is_offloaded: false,
            first,
            acknowledged: 0,
            next: 0,
            sent: 0,
            written: 0,
            has_closed: false,
            far_first: None,
            far_window: 1,
            far_shift: 0,
            got: 0,
            beyond: BTreeMap::new(),
            far_end: None,
            rto: RTO_MIN,
            due: None,
            flight_bytes: 0,
            same_answers: 0,
            waits_since: None,
            waits: Vec::new(),
            broken: None,
            is_reset: false,
            out: Vec::new(),
        }
    }

    /// That is asked for one.
    pub fn accepts(now: Ns, asked: &Said, first: u32, stream: u64, steps: &[Step]) -> End {
        let mut end = End::new((asked.to, asked.from), first, stream, steps);
        end.hears(now, asked);
        end
    }

    /// Its kernel has long packets cut by others.
    pub const fn offloaded(mut self) -> End {
        self.is_offloaded = true;
        self
    }

    pub const fn segment_bytes(&self) -> usize {
        self.segment_bytes as usize
    }

    /// All was said and heard, and both know it.
    pub fn is_done(&self) -> bool {
        self.steps.is_empty() && self.far_end == Some(self.got) && self.acknowledged == self.last()
    }

    /// Behind all that it will ever send, as far as it is known.
    const fn last(&self) -> u64 {
        1 + self.written + self.has_closed as u64
    }

    /// When it has something to do.
    pub fn next_timeout(&self) -> Option<Ns> {
        let resting = self
            .rests_until
            .filter(|_| matches!(self.steps.front(), Some(Step::Rest(_))));
        self.due.into_iter().chain(resting).min()
    }

    /// What it sends.
    pub fn take_said(&mut self) -> Vec<Said> {
        core::mem::take(&mut self.out)
    }

    fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    fn say(&mut self, from: u64, bytes: u64, flags: u8) {
        let data = (from..from + bytes)
            .map(|at| byte(self.stream, at))
            .collect();
        let begins = flags & SYN != 0;
        let heard = if self.far_first.is_some() { ACK } else { 0 };
        let window = match begins {
            true => WINDOW_BYTES.min(65_535),
            false => WINDOW_BYTES >> SHIFT,
        };
        self.out.push(Said {
            from: self.own,
            to: self.far,
            tcp: Some(Header {
                sequence: self.first.wrapping_add(from as u32),
                acknowledged: self
                    .far_first
                    .map_or(0, |first| first.wrapping_add(self.got as u32)),
                flags: flags | heard,
                window: window as u16,
                shift: begins.then_some(SHIFT),
            }),
            data,
        });
    }

    fn refuse(&mut self, sequence: u32) {
        self.out.push(Said {
            from: self.own,
            to: self.far,
            tcp: Some(Header {
                sequence,
                acknowledged: 0,
                flags: RST,
                window: 0,
                shift: None,
            }),
            data: Vec::new(),
        });
    }

    /// Sends what may be under way now.
    fn transmit(&mut self, now: Ns) {
        if self.is_reset {
            return;
        }
        if self.next == 0 {
            self.say(0, 0, SYN);
            self.next = 1;
        }
        let most = self.flight_bytes.min(self.far_window);
        let limit = match self.acknowledged {
            0 => 0,
            acknowledged => acknowledged + most,
        };
        while self.acknowledged > 0 && self.next < self.last() {
            let data_end = 1 + self.written;
            let at_once = self.segment_bytes
                * if self.is_offloaded {
                    OFFLOADED_SEGMENTS
                } else {
                    1
                };
            let bytes = data_end
                .saturating_sub(self.next)
                .min(at_once)
                .min(limit.saturating_sub(self.next));
            let ends = self.has_closed && self.next + bytes == data_end;
            if bytes == 0 && !ends {
                break;
            }
            self.say(self.next, bytes, if ends { FIN } else { 0 });
            self.next += bytes + u64::from(ends);
        }
        self.sent = self.sent.max(self.next);
        let waits =
            self.acknowledged < self.last().min(self.sent.max(1)) || self.next < self.last();
        if waits {
            self.waits_since.get_or_insert(now);
            let rto = self.rto;
            self.due.get_or_insert(now + rto);
        } else {
            self.due = None;
        }
    }

    fn repeat_first(&mut self) {
        let from = self.acknowledged;
        if from == 0 {
            return self.say(0, 0, SYN);
        }
        let data_end = 1 + self.written;
        let bytes = data_end.saturating_sub(from).min(self.segment_bytes);
        let ends = self.has_closed && from + bytes == data_end;
        self.say(from, bytes, if ends { FIN } else { 0 });
        self.next = self.next.max(from + bytes + u64::from(ends));
        self.sent = self.sent.max(self.next);
    }

    /// Some time has passed.
    pub fn handle_timeout(&mut self, now: Ns) {
        if self.due.is_some_and(|due| due <= now) {
            self.rto = (self.rto * 2).min(RTO_MAX);
            self.due = Some(now + self.rto);
            self.flight_bytes = self.segment_bytes;
            self.same_answers = 0;
            if self.acknowledged < self.last() {
                // What is beyond is sent again as this is acknowledged.
                self.next = self.acknowledged;
                if self.far_window == 0 && self.acknowledged > 0 {
                    self.say(
                        self.acknowledged,
                        1.min(1 + self.written - self.acknowledged),
                        0,
                    );
                    self.next += 1;
                    self.sent = self.sent.max(self.next);
                } else {
                    self.repeat_first();
                    self.next = self.next.max(1);
                }
            }
        }
        self.go_on(now);
    }

    /// The program goes on as far as it can.
    pub fn go_on(&mut self, now: Ns) {
        while let Some(step) = self.steps.front().copied() {
            let data = self.got.saturating_sub(1);
            let is_done = match step {
                Step::Send(bytes) => {
                    self.written += bytes;
                    true
                }
                Step::Await(bytes) => data >= bytes,
                Step::AwaitEnd => self.far_end == Some(self.got),
                Step::Close => {
                    self.has_closed = true;
                    true
                }
                Step::Rest(time) => {
                    let until = *self.rests_until.get_or_insert(now + time);
                    until <= now
                }
            };
            if !is_done {
                break;
            }
            self.rests_until = None;
            self.steps.pop_front();
        }
        self.transmit(now);
    }

    /// Something came.
    pub fn hears(&mut self, now: Ns, said: &Said) {
        let Some(tcp) = said.tcp else {
            return;
        };
        let begins = self.far_first.is_none() && !tcp.has(RST);
        if begins && !tcp.has(SYN) {
            // It is of a connection that was there before: its end is told (RFC 9293, 3.10.7.3).
            if tcp.has(ACK) && tcp.acknowledged != self.first.wrapping_add(1) {
                self.refuse(tcp.acknowledged);
            }
            return;
        }
        if self.far_first.is_some() && self.acknowledged > 0 && tcp.has(SYN) && !tcp.has(RST) {
            // Whoever begins anew is told where this is (RFC 5961, section 4).
            return self.say(self.next, 0, 0);
        }
        let Some(at) = self.place(&tcp) else {
            return;
        };
        if tcp.has(RST) {
            let counts = match self.far_first {
                None => tcp.has(ACK) && tcp.acknowledged == self.first.wrapping_add(1),
                Some(_) => at >= self.got && at < self.got + WINDOW_BYTES,
            };
            if counts {
                self.is_reset = true;
                self.due = None;
                self.fail(format!("{} was reset by {}", self.own, self.far));
            }
            return;
        }
        let had = (self.acknowledged, self.got);
        if tcp.has(SYN) {
            self.far_shift = tcp.shift.unwrap_or(0);
            if self.far_first.is_none() {
                (self.far_first, self.got) = (Some(tcp.sequence), 1);
            }
        }
        if tcp.has(ACK) {
            self.is_acknowledged(now, &tcp, said.data.is_empty());
        }
        self.takes(at + u64::from(tcp.has(SYN)), &said.data, tcp.has(FIN));
        let counts = !said.data.is_empty() || tcp.has(FIN) || tcp.has(SYN);
        let before = self.out.len();
        if self.next == 0 {
            self.flight_bytes = self.segment_bytes * BEGINS_SEGMENTS;
        }
        if tcp.has(SYN) && self.next > 0 && !tcp.has(ACK) {
            // Its own was lost, or is under way.
            self.say(0, 0, SYN);
        }
        self.go_on(now);
        if counts && self.out.len() == before {
            self.say(self.next, 0, 0);
        }
        if (self.acknowledged, self.got) != had && self.acknowledged < self.last().min(self.sent) {
            self.waits_since = Some(now);
        }
    }

    /// Where in the far end's stream this begins.
    fn place(&self, tcp: &Header) -> Option<u64> {
        let Some(first) = self.far_first else {
            return (tcp.has(SYN) || tcp.has(RST)).then_some(0);
        };
        let expected = first.wrapping_add(self.got as u32);
        let ahead = tcp.sequence.wrapping_sub(expected) as i32;
        self.got.checked_add_signed(ahead.into())
    }

    fn is_acknowledged(&mut self, now: Ns, tcp: &Header, is_empty: bool) {
        let ahead =
            tcp.acknowledged
                .wrapping_sub(self.first.wrapping_add(self.acknowledged as u32)) as i32;
        if ahead < 0 {
            return;
        }
        let up_to = self.acknowledged + ahead as u64;
        if up_to > self.sent {
            return self.fail(format!(
                "{} has acknowledged what {} never sent",
                self.far, self.own
            ));
        }
        let window = match tcp.has(SYN) {
            true => u64::from(tcp.window),
            false => u64::from(tcp.window) << self.far_shift,
        };
        let is_same = window == self.far_window;
        self.far_window = window;
        if ahead > 0 {
            if let Some(since) = self.waits_since.take() {
                self.waits.push((since, now));
            }
            if self.acknowledged == 0 {
                self.flight_bytes = self.segment_bytes * BEGINS_SEGMENTS;
            }
            self.flight_bytes = (self.flight_bytes + ahead as u64).min(UNDER_WAY_MAX);
            self.acknowledged = up_to;
            self.next = self.next.max(up_to);
            (self.rto, self.due) = (RTO_MIN, None);
            if self.same_answers >= 3 && self.acknowledged < self.next {
                // More was lost than the first (RFC 6582).
                self.repeat_first();
            } else {
                self.same_answers = 0;
            }
        } else if is_empty && is_same && self.acknowledged < self.next && !tcp.has(FIN) {
            self.same_answers += 1;
            if self.same_answers == 3 {
                self.repeat_first();
            }
        }
    }

    /// Takes in what is new of some bytes.
    fn takes(&mut self, at: u64, data: &[u8], ends: bool) {
        let end = at + data.len() as u64;
        for (place, came) in (at..end).zip(data) {
            if *came != byte(self.stream ^ 1, place) {
                let what = format!(
                    "{} got another byte {place} than {} sent",
                    self.own, self.far
                );
                return self.fail(what);
            }
        }
        if self.far_first.is_none() || at > self.got + WINDOW_BYTES {
            return;
        }
        if ends {
            if self.far_end.is_some_and(|known| known != end + 1) {
                return self.fail(format!("{} ends twice, at other places", self.far));
            }
            self.far_end = Some(end + 1);
        }
        let end = end + u64::from(ends);
        if end > at {
            let known = self.beyond.entry(at).or_default();
            *known = end.max(*known);
        }
        while let Some((&from, &to)) = self.beyond.first_key_value()
            && from <= self.got
        {
            self.beyond.pop_first();
            self.got = self.got.max(to);
        }
    }
}
