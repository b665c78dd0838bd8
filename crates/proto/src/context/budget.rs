//! What all bundles of a node hold together, and what each may hold: a part of what the others leave free, as the streams
//! of a bundle do (dynamic thresholds; Choudhury and Hahne, 1998). That is no equal share: one bundle alone may have half
//! of the pool, and a thousand have a thousandth each. No bundle has to look at all of them, and something is always left
//! for the next one.

use std::collections::VecDeque;

use crate::PeerId;
use crate::op::{Holdings, OpLimits};

/// A bundle is short of room when its part is less than one in so many bytes of the whole…
const SHORT_PART: u64 = 32;
/// … and is told of room again when more than one in so many bytes is free.
const ENOUGH_PART: u64 = 8;
/// Bundles that are told at a time.
const TOLD_MAX: usize = 2;

/// Bytes held, and how many there may be.
#[derive(Debug)]
struct Sum {
    bytes: u64,
    bytes_max: u64,
}

impl Sum {
    /// What one who holds `own` of it may hold: half of what the others leave.
    fn share(&self, own: u64) -> u64 {
        self.bytes_max.saturating_sub(self.bytes - own) / 2
    }

    fn has_enough(&self) -> bool {
        self.bytes_max.saturating_sub(self.bytes) >= self.bytes_max / ENOUGH_PART
    }
}

/// What all bundles hold. Every one says what it holds when that may have changed.
#[derive(Debug)]
pub(crate) struct Budget {
    sums: [Sum; Holdings::COUNT],
    /// Bundles that were short of room, in the order of that. Some are no more.
    short: VecDeque<PeerId>,
}

/// What a bundle has said that it holds.
#[derive(Debug, Default)]
pub(crate) struct Account {
    held: Holdings,
    is_short: bool,
}

impl Budget {
    pub fn new(limits: &OpLimits) -> Budget {
        let most = limits.of_node();
        Budget {
            sums: most.0.map(|bytes_max| Sum {
                bytes: 0,
                bytes_max,
            }),
            short: VecDeque::new(),
        }
    }

    /// `peer` holds so much now. Returns what it may hold, and whether it has come to be short of
    /// that.
    pub fn settle(
        &mut self,
        peer: PeerId,
        account: &mut Account,
        held: Holdings,
        wanted: &Holdings,
    ) -> (Holdings, bool) {
        let mut share = Holdings::default();
        let mut is_short = false;
        for (i, sum) in self.sums.iter_mut().enumerate() {
            debug_assert!(sum.bytes >= account.held.0[i]);
            sum.bytes = sum.bytes - account.held.0[i] + held.0[i];
            share.0[i] = sum.share(held.0[i]).min(wanted.0[i]);
            is_short |= share.0[i] < wanted.0[i].min(sum.bytes_max / SHORT_PART);
        }
        account.held = held;
        let newly = is_short && !account.is_short;
        if newly {
            account.is_short = true;
            self.short.push_back(peer);
        }
        (share, newly)
    }

    /// A bundle is no more.
    pub fn leave(&mut self, account: &Account) {
        for (sum, held) in self.sums.iter_mut().zip(account.held.0) {
            sum.bytes -= held;
        }
    }

    /// What all hold.
    #[cfg(test)]
    pub fn sums(&self) -> [u64; Holdings::COUNT] {
        self.sums.each_ref().map(|sum| sum.bytes)
    }

    /// Bundles that were short of room, while there is enough for some: each is to settle anew.
    pub fn take_short(&mut self) -> Vec<PeerId> {
        if self.short.is_empty() || !self.sums.iter().all(Sum::has_enough) {
            return Vec::new();
        }
        let count = self.short.len().min(TOLD_MAX);
        self.short.drain(..count).collect()
    }
}

impl Account {
    /// It was told that there is room again.
    pub fn on_told(&mut self) {
        self.is_short = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn each_may_hold_half_of_what_others_leave_and_who_was_short_is_told() {
        let limits = OpLimits {
            node_unread_bytes: 64 * MB,
            ..OpLimits::default()
        };
        let mut budget = Budget::new(&limits);
        let mut accounts: Vec<Account> = (0..9).map(|_| Account::default()).collect();
        let unread = |bytes| Holdings([bytes, 0, 0, 0]);
        let wanted = limits.of_peer();
        let mut settle = |budget: &mut Budget, i: usize, bytes| {
            let peer = PeerId(i as u32);
            let (share, short) = budget.settle(peer, &mut accounts[i], unread(bytes), &wanted);
            (share.0[0], short)
        };
        assert_eq!(settle(&mut budget, 0, 0), (32 * MB, false));
        // Whoever holds all it may leaves half to the others.
        let mut free = 64 * MB;
        for i in 0..5 {
            free /= 2;
            assert_eq!(settle(&mut budget, i, free), (free, false), "{i}");
        }
        assert_eq!(settle(&mut budget, 5, 0), (MB, true));
        assert_eq!(settle(&mut budget, 6, 0), (MB, true));
        assert_eq!(settle(&mut budget, 6, 0), (MB, false), "once");
        assert_eq!(budget.take_short(), []);
        settle(&mut budget, 0, 0);
        assert_eq!(budget.take_short(), [PeerId(5), PeerId(6)]);
        assert_eq!(settle(&mut budget, 5, 0), (17 * MB, false));
        for account in &accounts {
            budget.leave(account);
        }
        assert_eq!(budget.sums[0].bytes, 0);
    }
}
