//! Making keys: our own handshakes, and answers to the peer's.

use std::net::SocketAddr;

use super::session::{INIT_ID_BYTES, Session, Unconfirmed, Which};
use super::{Bundle, DownReason, PeerState};
use crate::crypto::{HandshakeError, Initiator, Responder};
use crate::node::{Event, Shared};
use crate::wire::{Hello, Kind, VERSION};
use crate::{LinkId, Time};

impl Bundle {
    fn hello(&self, shared: &Shared, session: u32, bundle: u64, peer_bundle: u64) -> Hello {
        Hello {
            version: VERSION,
            wire: shared.config.wire,
            cipher_aes: shared.config.cipher_aes,
            session,
            from: shared.name,
            to: self.name,
            bundle,
            peer_bundle,
            receive_buffer_bytes: shared.config.receive_buffer_bytes,
        }
    }

    /// Whether there are keys, or a handshake is under way, that another one could disturb.
    pub fn has_handshake(&self) -> bool {
        let s = &self.sessions;
        s.current.is_some() || s.unconfirmed.is_some() || s.initiation.is_some()
    }

    /// Begins a handshake; the first message goes out on every path at once, so
    /// that a dead one costs no time.
    pub(super) fn initiate(&mut self, now: Time, shared: &mut Shared) {
        let local = shared.new_session(self.peer);
        let hello = self.hello(
            shared,
            local,
            self.sessions.my_bundle,
            self.sessions.peer_bundle,
        );
        let initiator = Initiator::new(&shared.keys[0], &hello, &mut shared.random);
        let paths = self.path_mask();
        if let Some(replaced) = self.sessions.initiate(now, initiator, local, paths) {
            shared.sessions.remove(&replaced);
        }
    }

    /// Where a first message of ours goes on `id`: what is configured and what
    /// was learned, in turn, since either may be out of date.
    pub(super) fn initiation_address(&self, id: LinkId, turn: u8) -> Option<SocketAddr> {
        let learned = self.paths[id.index()].as_ref()?.remote;
        match self.config.addresses[id.index()] {
            Some(configured) if turn % 2 == 1 => Some(configured),
            _ => Some(learned),
        }
    }

    /// The peer's first message, already authenticated by the cluster key.
    pub fn on_init(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        init: &[u8],
        (hello, responder): (Hello, Responder),
        shared: &mut Shared,
    ) {
        let mut id = [0; INIT_ID_BYTES];
        id.copy_from_slice(&init[..INIT_ID_BYTES]);
        if let Some(u) = &self.sessions.unconfirmed
            && u.init == id
        {
            shared.answer(link, from, u.response.clone());
            return;
        }
        if self.sessions.initiation.is_some() && shared.config.name < self.config.name {
            // Both began: the one of the node whose name sorts first counts. But
            // learn where the peer is, lest ours goes to an address it has left.
            self.learn_address(now, link, from);
            if let Some(initiation) = &mut self.sessions.initiation {
                initiation.unsent |= 1 << link.0;
            }
            return;
        }
        if let Some(given_up) = self.sessions.initiation.take() {
            shared.sessions.remove(&given_up.local);
        }
        let known = self.sessions.current.is_some()
            && hello.bundle == self.sessions.peer_bundle
            && hello.peer_bundle == self.sessions.my_bundle;
        let my_bundle = if known {
            self.sessions.my_bundle
        } else {
            shared.random.u64().max(1)
        };
        let local = shared.new_session(self.peer);
        let answer = self.hello(shared, local, my_bundle, hello.bundle);
        let (response, keys) = responder.respond(&answer);
        let session = Session::new(now, local, &hello, keys, false);
        shared.answer(link, from, response.clone());
        let new = Unconfirmed {
            session,
            fresh: !known,
            my_bundle,
            peer: hello,
            init: id,
            response,
        };
        if let Some(old) = self.sessions.unconfirmed.replace(new) {
            shared.sessions.remove(&old.session.local);
        }
        if self.sessions.current.is_none() {
            self.learn_address(now, link, from);
        }
    }

    /// The peer's answer to our first message: a second message, or a demand for a cookie.
    ///
    /// # Errors
    /// The answer is not what it claims to be; the handshake goes on.
    pub fn on_answer(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        answer: &[u8],
        shared: &mut Shared,
    ) -> Result<(), HandshakeError> {
        let Some(initiation) = &mut self.sessions.initiation else {
            return Ok(());
        };
        if answer.first() == Some(&(Kind::Cookie as u8)) {
            initiation.initiator.on_cookie(answer)?;
            initiation.unsent |= 1 << link.0;
            return Ok(());
        }
        let (hello, keys) = initiation.initiator.on_response(answer)?;
        let local = initiation.local;
        self.sessions.initiation = None;
        let known = self.sessions.current.is_some()
            && hello.bundle == self.sessions.peer_bundle
            && hello.peer_bundle == self.sessions.my_bundle;
        let session = Session::new(now, local, &hello, keys, true);
        let my_bundle = self.sessions.my_bundle;
        self.install(now, session, &hello, my_bundle, !known, shared);
        self.learn_address(now, link, from);
        if let Some(p) = &mut self.paths[link.index()] {
            p.path.on_proven(now, None);
        }
        // Use the new keys at once on every path: that confirms them to the peer.
        for p in self.paths.iter_mut().flatten() {
            p.path.request_probe();
        }
        Ok(())
    }

    /// A packet under keys that we answered for authenticated on `link`: they are good.
    pub(super) fn confirm(&mut self, now: Time, link: LinkId, shared: &mut Shared) {
        let Some(u) = self.sessions.unconfirmed.take() else {
            return;
        };
        self.install(now, u.session, &u.peer, u.my_bundle, u.fresh, shared);
        if let Some(p) = &mut self.paths[link.index()] {
            p.path.on_proven(now, None);
        }
    }

    fn install(
        &mut self,
        now: Time,
        session: Session,
        peer: &Hello,
        my_bundle: u64,
        fresh: bool,
        shared: &mut Shared,
    ) {
        // One handshake has come through; another one under way, either way, would
        // only end what this one began.
        let initiation = self.sessions.initiation.take().map(|i| i.local);
        let unconfirmed = self.sessions.unconfirmed.take().map(|u| u.session.local);
        for given_up in initiation.into_iter().chain(unconfirmed) {
            shared.sessions.remove(&given_up);
        }
        self.sessions.my_bundle = my_bundle;
        self.sessions.peer_bundle = peer.bundle;
        self.peer_buffer_bytes = peer.receive_buffer_bytes;
        for dropped in self
            .sessions
            .install(now, session, fresh)
            .into_iter()
            .flatten()
        {
            shared.sessions.remove(&dropped);
        }
        if fresh {
            self.reset(now, shared);
        }
    }

    /// An authentic packet came from `from`: from now on packets go there.
    pub(super) fn learn_address(&mut self, now: Time, link: LinkId, from: SocketAddr) {
        if let Some(p) = &mut self.paths[link.index()]
            && p.remote != from
        {
            p.remote = from;
            p.path.on_new_address(now);
        }
    }

    /// The peer says goodbye: forget its keys, report it, and try again slowly.
    pub(super) fn on_close(&mut self, now: Time, code: u32, shared: &mut Shared) {
        for which in [Which::Current, Which::Previous, Which::Unconfirmed] {
            if let Some(session) = self.sessions.get(which) {
                shared.sessions.remove(&session.local);
            }
        }
        let initiation = self.sessions.initiation.take();
        if let Some(i) = initiation {
            shared.sessions.remove(&i.local);
        }
        self.sessions = super::session::Sessions::default();
        self.sessions.my_bundle = shared.random.u64().max(1);
        self.reset(now, shared);
        if self.was_up {
            shared.event(Event::PeerDown {
                peer: self.peer,
                reason: DownReason::Closed { code },
            });
        }
        self.state = PeerState::Connecting;
        self.since = now;
    }
}
