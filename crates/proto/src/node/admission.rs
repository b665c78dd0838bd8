//! Handshake datagrams: who may come in, and at what price.
//!
//! Cheap checks come first: a keyed checksum turns strangers away in silence,
//! then a rate limit demands a cookie before any public-key work is done or any
//! state is kept (WireGuard's scheme, Donenfeld, NDSS 2017, section 5.3). No
//! answer is larger than what asked for it.

use core::time::Duration;
use std::net::SocketAddr;

use super::{Event, Node, Refusal};
use crate::crypto::{ClusterKey, Responder, init_is_from_key_holder};
use crate::wire::{HandshakeHeader, Reader};
use crate::{LinkId, Time};

/// Handshakes answered without a cookie: this many at once …
const FREE_BURST: u32 = 64;
/// … and one more for every such interval that passes.
const FREE_INTERVAL: Duration = Duration::from_millis(10);
/// Handshakes answered with a valid cookie come out of a second allowance of
/// the same size: an attacker who can receive at many addresses costs bounded work.
const COOKIE_BURST: u32 = 64;

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    tokens: u32,
    burst: u32,
    refilled: Time,
}

impl Allowance {
    pub const fn new(burst: u32) -> Allowance {
        Allowance {
            tokens: burst,
            burst,
            refilled: Time::ZERO,
        }
    }

    fn take(&mut self, now: Time) -> bool {
        let earned = now.since(self.refilled).as_nanos() / FREE_INTERVAL.as_nanos();
        if earned > 0 {
            self.tokens = self
                .tokens
                .saturating_add(earned.min(1 << 20) as u32)
                .min(self.burst);
            self.refilled = now;
        }
        let paid = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        paid
    }
}

/// What admission remembers: nothing per caller.
pub(super) struct Admission {
    free: Allowance,
    with_cookie: Allowance,
    refusals: Allowance,
}

impl Admission {
    pub const fn new() -> Admission {
        Admission {
            free: Allowance::new(FREE_BURST),
            with_cookie: Allowance::new(COOKIE_BURST),
            refusals: Allowance::new(FREE_BURST),
        }
    }
}

impl Node {
    pub(super) fn on_init(&mut self, now: Time, link: LinkId, from: SocketAddr, init: &[u8]) {
        let Some(key) = self
            .shared
            .keys
            .iter()
            .find(|k| init_is_from_key_holder(k, init))
            .cloned()
        else {
            self.shared.stats.stranger += 1;
            return;
        };
        let has_cookie = self.cookies.valid(now, from, init);
        if !self.admission.free.take(now) {
            if !has_cookie {
                return self.demand_cookie(now, link, from, init, &key);
            }
            if !self.admission.with_cookie.take(now) {
                return;
            }
        }
        let (hello, responder) = match Responder::read(&key, init, &mut self.shared.random) {
            Ok(read) => read,
            Err(error) => return self.refuse(now, link, from, Refusal::Handshake(error)),
        };
        if hello.from == self.shared.name {
            return self.refuse(now, link, from, Refusal::OwnName);
        }
        if let Err(error) = hello.check(&self.shared.name, self.shared.config.wire) {
            return self.refuse(now, link, from, Refusal::Handshake(error));
        }
        let Some(peer) = self.names.get(hello.from.as_str()).copied() else {
            return self.refuse(
                now,
                link,
                from,
                Refusal::UnknownNode(hello.from.as_str().into()),
            );
        };
        if let Some(bundle) = self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut) {
            // A recorded first message must not disturb what there is: its sender
            // has to show that it is there now.
            if bundle.has_handshake() && !has_cookie {
                return self.demand_cookie(now, link, from, init, &key);
            }
            bundle.on_init(now, link, from, init, (hello, responder), &mut self.shared);
            self.touch(peer);
        }
    }

    /// Asks the caller to repeat its first message with a cookie; keeps no state.
    fn demand_cookie(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        init: &[u8],
        key: &ClusterKey,
    ) {
        if let Some(cookie) = self.cookies.make(now, from, init, key) {
            self.shared.stats.cookies_sent += 1;
            self.shared.answer(link, from, cookie);
        }
    }

    fn refuse(&mut self, now: Time, link: LinkId, from: SocketAddr, why: Refusal) {
        self.shared.stats.refused += 1;
        if self.admission.refusals.take(now) {
            self.shared
                .event(Event::HandshakeRefused { link, from, why });
        }
    }

    /// An answer or a cookie: for one of the handshakes we began.
    pub(super) fn on_handshake_answer(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        answer: &[u8],
    ) {
        let Ok(header) = HandshakeHeader::read(&mut Reader::new(answer)) else {
            self.shared.stats.malformed += 1;
            return;
        };
        let Some(&peer) = self.shared.sessions.get(&header.session) else {
            self.shared.stats.unknown_session += 1;
            return;
        };
        let Some(bundle) = self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        if let Err(error) = bundle.on_answer(now, link, from, answer, &mut self.shared) {
            self.refuse(now, link, from, Refusal::Handshake(error));
        }
        self.touch(peer);
    }
}
