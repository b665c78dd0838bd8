//! Operation sequences on a pair of nodes in virtual time: whatever the programs,
//! the operators and the wires between them do, what was sent arrives once, in
//! order and unchanged, or the program is told; memory stays within its bounds;
//! and the driver's loops end.
//!
//! `sim` draws whole schedules with rates, queues and clocks; here the bytes
//! decide about every single call, also those that no driver would make.

mod end;
mod ledger;
mod operation;
mod wires;

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use tabane_proto::Time;
use tabane_proto::wire::WireMode;

use end::End;
use ledger::Ledger;
pub use operation::{Content, Manage, Nonsense, Operation, Side};
use wires::Wires;
pub use wires::{Tamper, Wire};

use crate::nodes::LINKS;

/// More operations are not looked at.
const OPERATIONS_MAX: usize = 300;
/// From one end to the other.
const LATENCY: Duration = Duration::from_micros(100);
/// When all is healed, everything has arrived within this time.
const COMPLETION: Duration = Duration::from_secs(60);

struct Pair {
    now: Time,
    ends: [End; 2],
    wires: Wires,
    ledger: Ledger,
}

/// Feeds it `bytes`: the wire mode, then [`Operation`]s.
pub fn run(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let trace = std::env::var_os("TABANE_FUZZ_TRACE").is_some();
    let plain = bool::arbitrary(&mut input).unwrap_or_default();
    let wire = if plain {
        WireMode::Plain
    } else {
        WireMode::Encrypted
    };
    let mut pair = Pair {
        now: Time::ZERO,
        ends: [End::new(0, wire, trace), End::new(1, wire, trace)],
        wires: Wires::new(plain),
        ledger: Ledger::default(),
    };
    pair.drain();
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        let Ok(operation) = Operation::arbitrary(&mut input) else {
            break;
        };
        if trace {
            eprintln!("{:?}: {operation:?}", pair.now);
        }
        pair.act(operation);
        pair.drain();
    }
    pair.complete();
}

impl Pair {
    fn act(&mut self, operation: Operation) {
        match operation {
            Operation::Pass(steps) => {
                let until = self.now + LATENCY * (u32::from(steps) * u32::from(steps));
                self.pass(until, |_| false);
            }
            Operation::Content(side, content) => {
                let end = &mut self.ends[side.index()];
                end.content(self.now, content, &mut self.ledger);
            }
            Operation::Manage(side, manage) => {
                self.ends[side.index()].manage(self.now, manage, &mut self.ledger);
            }
            Operation::Nonsense(side, nonsense) => {
                self.ends[side.index()].nonsense(self.now, nonsense);
            }
            Operation::Tamper(wire, tamper) => self.wires.tamper(wire, tamper),
        }
    }

    /// Takes out what both nodes have to say.
    fn drain(&mut self) {
        for end in &mut self.ends {
            end.drain(self.now, &mut self.wires, &mut self.ledger);
        }
    }

    /// Time passes, and datagrams with it, until `until` or until `enough`.
    fn pass(&mut self, until: Time, mut enough: impl FnMut(&mut Pair) -> bool) {
        while self.now < until && !enough(self) {
            let moving = self.wires.are_busy().then_some(self.now + LATENCY);
            let due = self.ends.iter_mut().map(End::due);
            let next = due.chain([moving]).flatten().min().unwrap_or(until);
            self.now = next.max(self.now + LATENCY).min(until);
            for sender in 0..2 {
                for (link, source, mut bytes) in self.wires.deliver(sender) {
                    self.ends[1 - sender].datagram(self.now, link, source, &mut bytes);
                }
            }
            self.drain();
            for end in &mut self.ends {
                end.timeouts(self.now, &mut self.wires, &mut self.ledger);
            }
        }
    }

    /// Mends everything; then all that was promised must arrive.
    fn complete(&mut self) {
        self.wires.mend();
        for end in &mut self.ends {
            end.mend(self.now, &mut self.ledger);
        }
        self.drain();
        self.pass(self.now + COMPLETION, |pair| {
            for end in &mut pair.ends {
                end.read_all(pair.now, &mut pair.ledger);
            }
            pair.drain();
            pair.ledger.is_complete()
        });
        self.ledger.check_complete();
    }
}

const _: () = assert!(LINKS == 2, "a wire is one bit of the input");
