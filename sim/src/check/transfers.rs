//! Memory operations: each byte is placed once, where it belongs and nowhere else, and each operation ends once, when all
//! its bytes are there.

use std::sync::{Arc, Mutex, PoisonError};

use tabane_proto::op::Memory;
use tabane_proto::wire::MemoryStatus;

use super::{Checked, Rule, Violation};
use crate::mutant::Mutant;
use crate::net::Ns;
use crate::workload::{TransferPlan, content, transfer_key};

/// A mutant acts on the piece with this number that a host's memory is given.
const TURN: u64 = 7;

/// One planned transfer.
#[derive(Clone, Debug)]
struct Transfer {
    /// Counts from 0; another one begins when the one before was broken.
    attempt: u16,
    /// Of this attempt: the owner of the region has registered it.
    is_registered: bool,
    /// It was begun, and has not ended.
    is_under_way: bool,
    /// A restart excuses it if it fails.
    is_excused: bool,
    /// How often each byte was placed.
    placed: Vec<u8>,
    /// The owner was told of a put.
    is_told: bool,
    is_done: bool,
}

/// The truth about all transfers, shared by who begins them and the memory of all hosts.
#[derive(Clone, Debug)]
pub struct TransferLedger(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    plans: Vec<TransferPlan>,
    transfers: Vec<Transfer>,
    /// What a memory saw that must not be.
    wrong: Option<(Rule, String)>,
}

/// What a transfer's memory is called: by the plan's index and the attempt.
pub const fn handle(index: usize, attempt: u16) -> u64 {
    (index as u64) << 16 | attempt as u64
}

/// The plan's index and the attempt.
const fn named(handle: u64) -> (usize, u16) {
    ((handle >> 16) as usize, handle as u16)
}

impl TransferLedger {
    /// Nothing was begun.
    pub fn new(plans: Vec<TransferPlan>) -> TransferLedger {
        let transfers = plans.iter().map(|plan| Transfer {
            attempt: 0,
            is_registered: false,
            is_under_way: false,
            is_excused: false,
            placed: vec![0; plan.bytes as usize],
            is_told: false,
            is_done: false,
        });
        TransferLedger(Arc::new(Mutex::new(Inner {
            transfers: transfers.collect(),
            plans,
            wrong: None,
        })))
    }

    fn with<R>(&self, act: impl FnOnce(&mut Inner) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many are planned.
    pub fn count(&self) -> usize {
        self.with(|all| all.plans.len())
    }

    /// A plan, and which attempt of it is due or under way; none if it is done.
    pub fn due(&self, index: usize) -> Option<(TransferPlan, u16)> {
        self.with(|all| {
            let transfer = &all.transfers[index];
            (!transfer.is_done).then_some((all.plans[index], transfer.attempt))
        })
    }

    /// The first that is not done.
    pub fn first_open(&self) -> Option<usize> {
        self.with(|all| all.transfers.iter().position(|t| !t.is_done))
    }

    /// The owner has registered the region of an attempt.
    pub fn registered(&self, index: usize) {
        self.with(|all| all.transfers[index].is_registered = true);
    }

    /// Whether it has.
    pub fn is_registered(&self, index: usize) -> bool {
        self.with(|all| all.transfers[index].is_registered)
    }

    /// Whether an attempt can be begun.
    pub fn may_begin(&self, index: usize) -> bool {
        self.with(|all| {
            let transfer = &all.transfers[index];
            transfer.is_registered && !transfer.is_under_way && !transfer.is_done
        })
    }

    /// An attempt was begun.
    pub fn begun(&self, index: usize) {
        self.with(|all| all.transfers[index].is_under_way = true);
    }

    /// What is under way between these hosts may be broken. What the first of them has begun it has forgotten: that begins
    /// anew. So have regions been that it has registered.
    pub fn forgotten(&self, host: usize, other: usize) {
        self.excuse(host, other);
        self.with(|all| {
            for (plan, transfer) in all.plans.iter().zip(&mut all.transfers) {
                match (plan.from, plan.to) {
                    ends if ends == (host, other) && !transfer.is_done => transfer.renew(),
                    ends if ends == (other, host) => transfer.is_registered = false,
                    _ => {}
                }
            }
        });
    }

    /// What is under way between these hosts may be broken.
    pub fn excuse(&self, a: usize, b: usize) {
        self.with(|all| {
            for (plan, transfer) in all.plans.iter().zip(&mut all.transfers) {
                let is_theirs = (plan.from, plan.to) == (a, b) || (plan.from, plan.to) == (b, a);
                transfer.is_excused |= is_theirs;
            }
        });
    }

    /// An operation has ended at who began it.
    ///
    /// # Errors
    /// It ended before, or without reason.
    pub fn ended(&self, now: Ns, token: u64, status: MemoryStatus) -> Checked {
        let (index, attempt) = named(token);
        let wrong = |what: &str| {
            let what = format!("transfer {index}, attempt {attempt}: {what}");
            Err(Violation::new(Rule::TransferEnds, now, what))
        };
        self.with(|all| {
            let Some(transfer) = all.transfers.get_mut(index) else {
                return wrong("it was never planned");
            };
            if attempt != transfer.attempt || !transfer.is_under_way {
                // What was forgotten and begun anew may still be told to be broken.
                return match status {
                    MemoryStatus::Broken => Ok(()),
                    _ => wrong("it ends once more"),
                };
            }
            transfer.is_under_way = false;
            match status {
                MemoryStatus::Done if transfer.placed.contains(&0) => {
                    wrong("it ends before all its bytes are there")
                }
                MemoryStatus::Done => {
                    transfer.is_done = true;
                    Ok(())
                }
                MemoryStatus::Broken => {
                    transfer.renew();
                    Ok(())
                }
                _ if transfer.is_excused => {
                    transfer.renew();
                    Ok(())
                }
                other => wrong(&format!("it ends with {other:?}")),
            }
        })
    }

    /// The owner of a region is told of a put, and with it what the other end has it told.
    ///
    /// # Errors
    /// It was told before, or too early, or something else.
    pub fn told(&self, now: Ns, key: u64, is_right: bool, bytes: u64) -> Checked {
        self.tell(now, key, bytes, |plan| is_right && plan.is_put)
    }

    /// The owner of a region is told of a get.
    ///
    /// # Errors
    /// As above.
    pub fn told_of_get(&self, now: Ns, key: u64, bytes: u64) -> Checked {
        self.tell(now, key, bytes, |plan| !plan.is_put)
    }

    fn tell(
        &self,
        now: Ns,
        key: u64,
        bytes: u64,
        is_right: impl Fn(&TransferPlan) -> bool,
    ) -> Checked {
        self.with(|all| {
            let found = all.plans.iter().zip(&mut all.transfers).enumerate();
            let of_key = |index, t: &Transfer| transfer_key(index, t.attempt) == key;
            let Some((index, (plan, transfer))) =
                found.into_iter().find(|(index, (_, t))| of_key(*index, t))
            else {
                // Of an attempt that was forgotten.
                return Ok(());
            };
            let is_right = is_right(plan) && bytes == plan.bytes;
            let is_early = transfer.placed.contains(&0);
            if transfer.is_told || !is_right || is_early {
                let what = format!("the owner is told wrongly of transfer {index}");
                return Err(Violation::new(Rule::TransferEnds, now, what));
            }
            transfer.is_told = true;
            Ok(())
        })
    }

    /// What a memory saw that must not be.
    ///
    /// # Errors
    /// That.
    pub fn look(&self, now: Ns) -> Checked {
        match self.with(|all| all.wrong.take()) {
            Some((rule, what)) => Err(Violation::new(rule, now, what)),
            None => Ok(()),
        }
    }

    /// The memory of a host.
    pub fn memory(&self, host: usize, mutant: Option<Mutant>) -> Box<dyn Memory> {
        Box::new(HostMemory {
            host,
            ledger: self.clone(),
            mutant,
            pieces: 0,
        })
    }
}

impl Transfer {
    fn renew(&mut self) {
        *self = Transfer {
            attempt: self.attempt + 1,
            is_registered: false,
            is_under_way: false,
            is_excused: false,
            placed: vec![0; self.placed.len()],
            is_told: false,
            is_done: false,
        };
    }
}

impl Inner {
    /// Bytes come to a host's memory.
    fn place(&mut self, host: usize, handle: u64, offset: u64, data: &[u8]) -> Result<(), Rule> {
        let (index, attempt) = named(handle);
        let (Some(plan), Some(transfer)) = (self.plans.get(index), self.transfers.get_mut(index))
        else {
            return Err(Rule::TransferBytes);
        };
        let receiver = if plan.is_put { plan.to } else { plan.from };
        let end = offset as usize + data.len();
        let is_content = || {
            let key = transfer_key(index, attempt);
            content::first_difference(key, offset, data).is_none()
        };
        if host != receiver || end > transfer.placed.len() || !is_content() {
            return Err(Rule::TransferBytes);
        }
        if attempt != transfer.attempt {
            // The owner may not know yet that it was broken.
            return Ok(());
        }
        if transfer.is_done {
            return Err(Rule::TransferOnce);
        }
        for count in &mut transfer.placed[offset as usize..end] {
            *count += 1;
            if *count > 1 {
                return Err(Rule::TransferOnce);
            }
        }
        Ok(())
    }
}

/// The memory of one host's program: what is read is content that needs no storage, what is written is checked.
struct HostMemory {
    host: usize,
    ledger: TransferLedger,
    mutant: Option<Mutant>,
    pieces: u64,
}

impl Memory for HostMemory {
    fn read(&self, handle: u64, offset: u64, into: &mut [u8]) {
        let (index, attempt) = named(handle);
        content::fill(transfer_key(index, attempt), offset, into);
    }

    fn write(&mut self, handle: u64, offset: u64, from: &[u8]) {
        self.pieces += 1;
        let (mut at, mut times) = (offset, 1);
        match self.mutant.filter(|_| self.pieces == TURN) {
            Some(Mutant::MisplaceBytes) => at += 1,
            Some(Mutant::PlaceTwice) => times = 2,
            _ => {}
        }
        for _ in 0..times {
            self.ledger.with(|all| {
                if let Err(rule) = all.place(self.host, handle, at, from) {
                    let (index, attempt) = named(handle);
                    let (host, end) = (self.host, at + from.len() as u64);
                    let what = format!(
                        "transfer {index}, attempt {attempt}: bytes {at}..{end} at host {host}"
                    );
                    all.wrong.get_or_insert((rule, what));
                }
            });
        }
    }
}
