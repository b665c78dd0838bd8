//! What is said between programs and the outside: kinds of connections, and questions and answers of UDP.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use tabane_sim::net::{MS, Ns};

use super::packets::Said;
use super::tcp::{End, Step};

/// A conversation's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A question and an answer.
    Short,
    /// Much, from whoever was asked.
    Down,
    /// Much, from whoever has asked.
    Up,
    /// Whoever has asked says no more, and is answered later.
    HalfClosed,
    /// Little, to and fro.
    Chat,
    /// Nothing for a while, between two exchanges.
    Idle,
    /// Questions and answers of UDP.
    Datagrams,
}

impl Kind {
    pub const ALL: [Kind; 7] = [
        Kind::Short,
        Kind::Down,
        Kind::Up,
        Kind::HalfClosed,
        Kind::Chat,
        Kind::Idle,
        Kind::Datagrams,
    ];

    /// What whoever begins does, and the other one.
    pub fn steps(self) -> [Vec<Step>; 2] {
        use Step::{Await, AwaitEnd, Close, Rest, Send};
        match self {
            Kind::Short | Kind::Datagrams => [
                vec![Send(300), Await(2000), AwaitEnd, Close],
                vec![Await(300), Send(2000), Close, AwaitEnd],
            ],
            Kind::Down => [
                vec![Send(100), Await(60_000), Close, AwaitEnd],
                vec![Await(100), Send(60_000), AwaitEnd, Close],
            ],
            Kind::Up => [
                vec![Send(60_000), Close, AwaitEnd],
                vec![Await(60_000), AwaitEnd, Send(10), Close],
            ],
            Kind::HalfClosed => [
                vec![Send(200), Close, AwaitEnd],
                vec![
                    AwaitEnd,
                    Rest(20 * MS),
                    Send(3000),
                    Rest(20 * MS),
                    Send(3000),
                    Close,
                ],
            ],
            Kind::Chat => {
                let (mut asks, mut answers) = (Vec::new(), Vec::new());
                for round in 1..=8 {
                    asks.extend([Send(50), Await(round * 70), Rest(5 * MS)]);
                    answers.extend([Await(round * 50), Send(70)]);
                }
                asks.extend([Close, AwaitEnd]);
                answers.extend([AwaitEnd, Close]);
                [asks, answers]
            }
            Kind::Idle => [
                vec![
                    Send(10),
                    Await(10),
                    Rest(1200 * MS),
                    Send(10),
                    Await(20),
                    Close,
                    AwaitEnd,
                ],
                vec![Await(10), Send(10), Await(20), Send(10), AwaitEnd, Close],
            ],
        }
    }
}

/// Questions of one conversation of UDP, and how often each is repeated.
const QUESTIONS: u32 = 6;
const REPEATED_AFTER: Ns = 200 * MS;
const QUESTION_BYTES: usize = 300;

/// One end of a conversation of UDP.
#[derive(Debug)]
pub struct Asker {
    pub own: SocketAddr,
    pub far: SocketAddr,
    conversation: u32,
    asks: bool,
    /// The question that is open, and how often it was asked.
    number: u32,
    tries: u32,
    due: Option<Ns>,
    since: Ns,
    /// What came already: no datagram comes twice.
    seen: BTreeSet<(u32, u32)>,
    pub waits: Vec<(Ns, Ns)>,
    pub broken: Option<String>,
    out: Vec<Said>,
}

impl Asker {
    pub fn new(
        now: Ns,
        (own, far): (SocketAddr, SocketAddr),
        conversation: u32,
        asks: bool,
    ) -> Asker {
        let mut asker = Asker {
            own,
            far,
            conversation,
            asks,
            number: 0,
            tries: 0,
            due: None,
            since: now,
            seen: BTreeSet::new(),
            waits: Vec::new(),
            broken: None,
            out: Vec::new(),
        };
        if asks {
            asker.ask(now);
        }
        asker
    }

    /// Which conversation a datagram is of.
    pub fn conversation_of(said: &Said) -> Option<usize> {
        let first = said.data.first_chunk()?;
        Some(u32::from_be_bytes(*first) as usize)
    }

    fn ask(&mut self, now: Ns) {
        self.say(self.number, self.tries);
        self.due = Some(now + REPEATED_AFTER);
    }

    fn say(&mut self, number: u32, tries: u32) {
        let mut data = Vec::new();
        for word in [self.conversation, number, tries, u32::from(self.asks)] {
            data.extend(word.to_be_bytes());
        }
        data.resize(QUESTION_BYTES, number as u8);
        self.out.push(Said {
            from: self.own,
            to: self.far,
            tcp: None,
            data,
        });
    }

    pub fn is_done(&self) -> bool {
        !self.asks || self.number == QUESTIONS
    }

    pub const fn next_timeout(&self) -> Option<Ns> {
        self.due
    }

    pub fn handle_timeout(&mut self, now: Ns) {
        if self.due.is_some_and(|due| due <= now) {
            self.tries += 1;
            self.ask(now);
        }
    }

    pub fn take_said(&mut self) -> Vec<Said> {
        core::mem::take(&mut self.out)
    }

    pub fn hears(&mut self, now: Ns, said: &Said) {
        let word =
            |n: usize| u32::from_be_bytes(*said.data[4 * n..].first_chunk().expect("all are long"));
        let (number, tries) = (word(1), word(2));
        let is_right = said.data.len() == QUESTION_BYTES
            && word(0) == self.conversation
            && word(3) == u32::from(!self.asks)
            && said.data[16..].iter().all(|byte| *byte == number as u8);
        if !is_right {
            self.broken = Some(format!("{} got what {} never sent", self.own, self.far));
        } else if !self.seen.insert((number, tries)) {
            self.broken = Some(format!("a datagram came to {} twice", self.own));
        } else if !self.asks {
            self.say(number, tries);
        } else if number == self.number {
            self.waits.push((self.since, now));
            (self.number, self.tries, self.since, self.due) = (number + 1, 0, now, None);
            if self.number < QUESTIONS {
                self.ask(now);
            }
        }
    }
}

/// An end of either.
#[derive(Debug)]
pub enum Side {
    Tcp(Box<End>),
    Udp(Asker),
}

impl Side {
    pub const fn ends(&self) -> (SocketAddr, SocketAddr) {
        match self {
            Side::Tcp(end) => (end.own, end.far),
            Side::Udp(asker) => (asker.own, asker.far),
        }
    }

    pub fn is_done(&self) -> bool {
        match self {
            Side::Tcp(end) => end.is_done(),
            Side::Udp(asker) => asker.is_done(),
        }
    }

    pub fn next_timeout(&self) -> Option<Ns> {
        match self {
            Side::Tcp(end) => end.next_timeout(),
            Side::Udp(asker) => asker.next_timeout(),
        }
    }

    pub fn handle_timeout(&mut self, now: Ns) {
        match self {
            Side::Tcp(end) => end.handle_timeout(now),
            Side::Udp(asker) => asker.handle_timeout(now),
        }
    }

    pub fn hears(&mut self, now: Ns, said: &Said) {
        match self {
            Side::Tcp(end) => end.hears(now, said),
            Side::Udp(asker) => asker.hears(now, said),
        }
    }

    pub fn take_said(&mut self) -> Vec<Said> {
        match self {
            Side::Tcp(end) => end.take_said(),
            Side::Udp(asker) => asker.take_said(),
        }
    }

    pub fn waits(&self) -> &[(Ns, Ns)] {
        match self {
            Side::Tcp(end) => &end.waits,
            Side::Udp(asker) => &asker.waits,
        }
    }

    pub fn broken(&self) -> Option<&String> {
        match self {
            Side::Tcp(end) => end.broken.as_ref(),
            Side::Udp(asker) => asker.broken.as_ref(),
        }
    }
}
