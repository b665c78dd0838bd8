//! Flow windows of the bundle: one for all streams together and one for all messages, counted since
//! it began. Neither can use up the other's.

use std::collections::VecDeque;

use super::Violation;
use super::limits::{BUNDLE_WINDOW_BYTES_INITIAL, REPORT_BYTES};
use super::queue::Source;

/// A window that the peer grants.
#[derive(Debug)]
pub(super) struct SendWindow {
    limit: u64,
    used: u64,
    /// How far the limit was ahead of the peer's consumption when the peer announced it.
    window: u64,
    /// Sources that wait for it, in the order of asking.
    pub waiting: VecDeque<Source>,
}

impl Default for SendWindow {
    fn default() -> SendWindow {
        SendWindow {
            limit: BUNDLE_WINDOW_BYTES_INITIAL,
            used: 0,
            window: BUNDLE_WINDOW_BYTES_INITIAL,
            waiting: VecDeque::new(),
        }
    }
}

impl SendWindow {
    /// Bytes that may be used now.
    pub const fn available(&self) -> u64 {
        self.limit - self.used
    }

    /// What new content may use: nothing while others wait.
    pub fn open(&self) -> u64 {
        if self.waiting.is_empty() {
            self.available()
        } else {
            0
        }
    }

    /// Its size: what is available if the peer has consumed everything.
    pub const fn bytes(&self) -> u64 {
        self.window
    }

    /// Uses some of what is available.
    pub fn spend(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.available());
        self.used += bytes;
    }

    /// The peer grants up to `limit`, which is `window` ahead of its consumption. Returns whether
    /// that is more than before.
    pub fn on_limit(&mut self, limit: u64, window: u64) -> bool {
        let more = limit > self.limit;
        if more {
            self.limit = limit;
            self.window = window;
        }
        debug_assert!(self.used <= self.limit, "{self:?}");
        more
    }
}

/// A window that this end grants.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    /// The limit last announced to the peer.
    limit: u64,
    /// What the peer has used, as far as seen.
    used: u64,
    /// The part of `used` that was read or is not wanted.
    consumed: u64,
    /// How far `limit` may be ahead of `consumed`.
    share: u64,
    /// Whether the newest limit waits to be sent.
    pub queued: bool,
}

impl ReceiveWindow {
    /// A window of at least [`BUNDLE_WINDOW_BYTES_INITIAL`].
    pub fn new(share: u64) -> ReceiveWindow {
        ReceiveWindow {
            limit: BUNDLE_WINDOW_BYTES_INITIAL,
            used: 0,
            consumed: 0,
            share: share.max(BUNDLE_WINDOW_BYTES_INITIAL),
            queued: false,
        }
    }

    /// How far the limit may be ahead of what was consumed, in bytes.
    pub const fn share(&self) -> u64 {
        self.share
    }

    /// Changes the share. Earlier grants stay valid.
    pub fn set_share(&mut self, bytes: u64) {
        self.share = bytes.max(BUNDLE_WINDOW_BYTES_INITIAL);
    }

    /// The peer uses `bytes` more.
    ///
    /// # Errors
    /// It exceeds the grant; nothing changed.
    pub fn charge(&mut self, bytes: u64) -> Result<(), Violation> {
        if bytes > self.unused() {
            return Err(Violation::BeyondBundleWindow);
        }
        self.used += bytes;
        debug_assert!(self.used <= self.limit, "{self:?}");
        Ok(())
    }

    /// `bytes` of what was used are consumed.
    pub fn credit(&mut self, bytes: u64) {
        self.consumed += bytes;
        debug_assert!(self.consumed <= self.used, "{self:?}");
    }

    /// Granted and not used yet.
    pub const fn unused(&self) -> u64 {
        self.limit - self.used
    }

    /// Used and not consumed yet.
    pub const fn unread(&self) -> u64 {
        self.used - self.consumed
    }

    /// The most that can be under way or unread, in bytes.
    pub const fn open_bytes(&self) -> u64 {
        self.limit - self.consumed
    }

    /// Whether enough has changed for a new limit to be worth a record: a quarter of the share, or
    /// of the little that the peer has left. So, if everything was read, at least four fifths of the
    /// share can be used.
    pub fn is_due(&self) -> bool {
        let more = (self.consumed + self.share).saturating_sub(self.limit);
        !self.queued && more >= (self.share.min(self.unused()) / 4).max(REPORT_BYTES)
    }

    /// Raises the limit to what may be granted now; returns it, and how far it is ahead of
    /// consumption.
    pub fn announce(&mut self) -> (u64, u64) {
        self.limit = self.limit.max(self.consumed + self.share);
        self.queued = false;
        debug_assert!(
            self.consumed <= self.used && self.used <= self.limit,
            "{self:?}"
        );
        (self.limit, self.open_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_granted_and_renewed_as_it_is_consumed() {
        let mut out = SendWindow::default();
        let mut window = ReceiveWindow::new(8 << 20);
        assert!(window.is_due(), "more than the initial window");
        let (limit, bytes) = window.announce();
        assert!(out.on_limit(limit, bytes));
        assert_eq!((out.available(), out.bytes()), (8 << 20, 8 << 20));
        out.spend(4 << 20);
        window.charge(4 << 20).unwrap();
        window.credit(1 << 19);
        assert!(!window.is_due());
        window.credit(1 << 19);
        assert!(window.is_due(), "a quarter of what is left");
        assert_eq!(window.announce(), (9 << 20, 8 << 20));
        assert!(!out.on_limit(limit, 1 << 30), "an older one");
        assert_eq!(out.bytes(), 8 << 20);
        window.charge(5 << 20).unwrap();
        assert_eq!(window.charge(1), Err(Violation::BeyondBundleWindow));
        window.credit(REPORT_BYTES);
        assert!(window.is_due(), "nothing was left");
    }

    #[test]
    fn a_smaller_share_takes_nothing_back() {
        let mut window = ReceiveWindow::new(8 << 20);
        let (granted, _) = window.announce();
        window.set_share(0);
        window.charge(granted).unwrap();
        window.credit(granted);
        assert!(window.is_due());
        let least = BUNDLE_WINDOW_BYTES_INITIAL;
        assert_eq!(window.announce(), (granted + least, least));
    }
}
