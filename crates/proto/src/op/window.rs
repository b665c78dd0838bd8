//! The bundle's flow window: what all streams and messages together may have
//! used since the bundle began.

use super::Violation;
use super::limits::BUNDLE_WINDOW_BYTES_MIN;

/// The window that the peer grants.
#[derive(Debug)]
pub(super) struct SendWindow {
    limit: u64,
    used: u64,
}

impl Default for SendWindow {
    fn default() -> SendWindow {
        SendWindow {
            limit: BUNDLE_WINDOW_BYTES_MIN,
            used: 0,
        }
    }
}

impl SendWindow {
    /// Bytes that may be used now.
    pub const fn available(&self) -> u64 {
        self.limit - self.used
    }

    /// Uses some of what is available.
    pub fn spend(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.available());
        self.used += bytes;
    }

    /// The peer grants up to `limit`. Returns whether that is more than before.
    pub fn on_limit(&mut self, limit: u64) -> bool {
        let more = limit > self.limit;
        self.limit = self.limit.max(limit);
        more
    }
}

/// The window that this end grants.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    /// What the peer was told.
    limit: u64,
    /// What the peer has used, as far as seen.
    used: u64,
    /// Of that, what was read or is not wanted.
    consumed: u64,
    /// How far `limit` may be ahead of `consumed`.
    share: u64,
    /// Whether the newest limit waits to be sent.
    pub queued: bool,
}

impl ReceiveWindow {
    /// A window of at least [`BUNDLE_WINDOW_BYTES_MIN`].
    pub fn new(share: u64) -> ReceiveWindow {
        ReceiveWindow {
            limit: BUNDLE_WINDOW_BYTES_MIN,
            used: 0,
            consumed: 0,
            share: share.max(BUNDLE_WINDOW_BYTES_MIN),
            queued: false,
        }
    }

    /// How far the limit may be ahead of what was consumed, in bytes.
    pub const fn share(&self) -> u64 {
        self.share
    }

    /// Changes the share. What was granted stays granted.
    pub fn set_share(&mut self, bytes: u64) {
        self.share = bytes.max(BUNDLE_WINDOW_BYTES_MIN);
    }

    /// The peer uses `bytes` more.
    ///
    /// # Errors
    /// That is more than granted; nothing changed.
    pub fn charge(&mut self, bytes: u64) -> Result<(), Violation> {
        if bytes > self.limit - self.used {
            return Err(Violation::BeyondBundleWindow);
        }
        self.used += bytes;
        Ok(())
    }

    /// So much of what was used is done with.
    pub fn credit(&mut self, bytes: u64) {
        self.consumed += bytes;
    }

    /// What can be underway or unread at most, in bytes.
    pub const fn open_bytes(&self) -> u64 {
        self.limit - self.consumed
    }

    /// Whether enough has changed for a new limit to be worth a record.
    pub const fn is_due(&self) -> bool {
        !self.queued && (self.consumed + self.share).saturating_sub(self.limit) >= self.share / 4
    }

    /// Raises the limit to what may be granted now; returns it.
    pub fn announce(&mut self) -> u64 {
        self.limit = self.limit.max(self.consumed + self.share);
        self.queued = false;
        self.limit
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
        assert!(out.on_limit(window.announce()));
        assert_eq!(out.available(), 8 << 20);
        out.spend(8 << 20);
        window.charge(8 << 20).unwrap();
        assert_eq!(window.charge(1), Err(Violation::BeyondBundleWindow));
        window.credit(1 << 20);
        assert!(!window.is_due());
        window.credit(1 << 20);
        assert!(window.is_due());
        assert_eq!(window.announce(), 10 << 20);
    }

    #[test]
    fn a_smaller_share_takes_nothing_back() {
        let mut window = ReceiveWindow::new(8 << 20);
        let granted = window.announce();
        window.set_share(0);
        window.charge(granted).unwrap();
        window.credit(granted);
        assert!(window.is_due());
        assert_eq!(window.announce(), granted + BUNDLE_WINDOW_BYTES_MIN);
    }
}
