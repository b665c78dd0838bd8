//! Making keys: our own handshakes, and answers to the peer's.
//!
//! Both ends begin a handshake, on every path at once. If both calls meet, the call of the node whose name sorts first
//! counts. So no node is a server, and a dead path costs no time.

use std::net::SocketAddr;

use super::session::{Begins, Credentials, INIT_ID_BYTES, Session, Sessions, Unconfirmed, Which};
use super::{ANSWERED_INITS, Bundle, CLOSE_KEY_REMOVED, CLOSE_RESTS, DownReason};
use crate::context::{Context, Event, Rejection};
use crate::crypto::{ClusterKey, HandshakeError, Initiator, PublicKey, Responder};
use crate::link::PathState;
use crate::wire::{FEATURE_MEMORY, Hello, Kind, Name};
use crate::{LinkId, PeerId, Time};

/// Who is called: its number, its name, and its public key if the configuration has one.
pub(super) type Called = (PeerId, Name, Option<PublicKey>);

impl Sessions {
    /// Begins a handshake with a peer, on every path at once.
    pub(super) fn call(
        &mut self,
        now: Time,
        (peer, name, public): Called,
        paths: u16,
        context: &mut Context,
    ) {
        let local = context.new_session(peer);
        let hello = context.hello(name, local, self.my_bundle, self.peer_bundle);
        let key = context.keys[0].clone();
        let identity = &context.identity;
        let initiator = Initiator::new(&key, identity, public, &hello, &mut context.random);
        let ours = (initiator, key);
        if let Some(replaced) = self.initiate(now, ours, local, paths, &mut context.random) {
            context.sessions.remove(&replaced);
        }
    }

    /// Writes the first message to `buffer` if it is to be sent on a link that takes datagrams now.
    /// Returns which link that is, the rounds before this one, and the message's length.
    pub(super) fn next_first_message(
        &mut self,
        buffer: &mut [u8],
        context: &Context,
    ) -> Option<(LinkId, u8, usize)> {
        let initiation = self.initiation.as_mut()?;
        let unsent = initiation.unsent & !u16::from(context.blocked);
        if unsent == 0 {
            return None;
        }
        let link = LinkId(unsent.trailing_zeros() as u8);
        initiation.unsent &= !link.bit();
        let datagram = initiation.initiator.datagram();
        buffer[..datagram.len()].copy_from_slice(datagram);
        Some((link, initiation.round, datagram.len()))
    }
}

impl Bundle {
    /// Whether there are keys that an answer to this first message could put out of place. It comes on every path: those
    /// that the first one made are no others.
    pub fn has_keys_besides(&self, init: &[u8]) -> bool {
        let unconfirmed = self.sessions.unconfirmed.as_ref();
        let is_known = unconfirmed.is_some_and(|u| init.starts_with(&u.init));
        !is_known && (self.sessions.current.is_some() || unconfirmed.is_some())
    }

    /// Begins a handshake.
    pub(super) fn initiate(&mut self, now: Time, context: &mut Context) {
        let whom = (self.peer, self.name, self.config.public);
        let paths = self.path_mask() & !self.closed(0);
        self.sessions.call(now, whom, paths, context);
    }

    /// As [`initiate`](Bundle::initiate), if a handshake of ours is under way: it was begun on what
    /// no longer holds.
    pub fn initiate_anew(&mut self, now: Time, context: &mut Context) {
        if self.sessions.initiation.is_some() {
            self.initiate(now, context);
        }
    }

    /// As [`PeerConfig::accepts`](crate::PeerConfig).
    pub fn accepts(&self, shown: Option<PublicKey>) -> bool {
        self.config.accepts(shown)
    }

    /// The peer's public key was replaced in the configuration.
    pub fn set_public(&mut self, now: Time, public: Option<PublicKey>, context: &mut Context) {
        if self.config.public != public {
            self.config.public = public;
            self.on_new_keys(now, context);
            self.initiate_anew(now, context);
        }
    }

    /// Where the peer is on `id`: where it was learned to be, or, if it is asked for and known,
    /// where the configuration says. Either may be out of date, so what has to find the peer tries
    /// them by turns.
    pub(super) fn address(&self, id: LinkId, configured: bool) -> Option<SocketAddr> {
        let learned = self.paths.get(id)?.remote;
        let configured = match self.config.addresses.get(id.index()) {
            Some(address) => address.filter(|_| configured),
            None => None,
        };
        Some(configured.unwrap_or(learned))
    }

    /// Where a probe goes on `id`; by turns, if the path does not work.
    pub(super) fn probe_address(&mut self, id: LinkId) -> Option<SocketAddr> {
        let p = self.paths.get_mut(id)?;
        let works = matches!(p.path.state(), PathState::Up | PathState::Suspect);
        p.probes_configured = !works && !p.probes_configured;
        let configured = p.probes_configured;
        self.address(id, configured)
    }

    /// The peer's first message, already authenticated by the cluster key `key`.
    ///
    /// # Errors
    /// It met one of ours that counts, or was answered before.
    pub fn on_init(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        init: &[u8],
        (mut hello, responder, key): (Hello, Responder, ClusterKey),
        context: &mut Context,
    ) -> Result<(), Rejection> {
        let mut id = [0; INIT_ID_BYTES];
        id.copy_from_slice(&init[..INIT_ID_BYTES]);
        if let Some(u) = &self.sessions.unconfirmed
            && u.init == id
        {
            context.answer(link, from, u.response.clone());
            return Ok(());
        }
        // Whoever recorded it would put a handshake out of place that the peer is about to use.
        if self.answered_inits.contains(&id) {
            return Err(Rejection::Replayed);
        }
        if self.sessions.awaits_peer(now) && context.config.name < self.config.name {
            // Both began: the one of the node whose name sorts first counts. But
            // learn where the peer is, lest ours goes to an address it has left.
            self.on_source(now, link, from, init.len());
            if let Some(initiation) = &mut self.sessions.initiation {
                initiation.unsent |= link.bit();
            }
            return Err(Rejection::Crossed);
        }
        self.sessions.let_go_first(now);
        let begins = self.sessions.begins(&hello);
        let my_bundle = match begins {
            Begins::GoesOn { names, .. } => {
                hello.bundle = names.1;
                names.0
            }
            Begins::Afresh => self.sessions.name_afresh(&hello, &mut context.random),
        };
        let local = context.new_session(self.peer);
        let answer = context.hello(self.name, local, my_bundle, hello.bundle);
        let shown = Credentials {
            key,
            public: responder.peer(),
        };
        let (response, keys) = responder.respond(&answer);
        let features = context.config.features;
        let session = Session::new(now, local, &hello, keys, shown, features, false);
        let answer_bytes = response.len();
        context.answer(link, from, response.clone());
        if self.answered_inits.len() == ANSWERED_INITS {
            self.answered_inits.pop_front();
        }
        // Most peers call once.
        self.answered_inits.reserve_exact(1);
        self.answered_inits.push_back(id);
        let new = Box::new(Unconfirmed {
            session,
            begins,
            my_bundle,
            peer: hello,
            init: id,
            response,
        });
        if let Some(old) = self.sessions.unconfirmed.replace(new) {
            context.sessions.remove(&old.session.local);
        }
        if self.sessions.current.is_none() {
            self.on_source(now, link, from, init.len());
            self.was_sent(link, answer_bytes);
        }
        Ok(())
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
        context: &mut Context,
    ) -> Result<(), HandshakeError> {
        let Some(initiation) = &mut self.sessions.initiation else {
            return Err(HandshakeError::NotThisHandshake);
        };
        if answer.first() == Some(&(Kind::Cookie as u8)) {
            initiation.initiator.on_cookie(answer)?;
            initiation.unsent |= link.bit();
            return Ok(());
        }
        let (mut hello, keys) = initiation.initiator.on_response(answer)?;
        let local = initiation.local;
        let shown = Credentials {
            key: initiation.key.clone(),
            public: initiation.initiator.peer(),
        };
        self.sessions.initiation = None;
        let begins = self.sessions.begins(&hello);
        let features = context.config.features;
        let session = Session::new(now, local, &hello, keys, shown, features, true);
        let mut my_bundle = self.sessions.name_answered(&hello);
        if let Begins::GoesOn { names, .. } = begins {
            (my_bundle, hello.bundle) = names;
        }
        // If both have answered, the call of the node whose name sorts first counts, so it drops the other one. This end
        // cannot know whether its answer has come through: what the peer sends shows that.
        let peer_counts = self.config.name < context.config.name;
        let answered = self.sessions.unconfirmed.take_if(|_| peer_counts);
        self.install(
            now,
            (link, from),
            session,
            &hello,
            my_bundle,
            begins,
            context,
        );
        if let Some(given_up) = answered.and_then(|a| self.sessions.keep_answered(a, begins)) {
            context.sessions.remove(&given_up);
        }
        self.on_source(now, link, from, answer.len());
        // Use the new keys at once on every path: that confirms them to the peer. No path is known to work before
        // that is answered: a handshake does not say which link it was sent on, packets do.
        for p in self.paths.values_mut() {
            p.path.request_probe();
        }
        Ok(())
    }

    /// A packet under keys that we answered for authenticated on `link`: they are good.
    pub(super) fn confirm(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        context: &mut Context,
    ) {
        let Some(u) = self.sessions.unconfirmed.take() else {
            return;
        };
        let u = *u;
        let at = (link, from);
        self.install(now, at, u.session, &u.peer, u.my_bundle, u.begins, context);
        if let Some(p) = self.paths.get_mut(link) {
            p.path.on_validated(now, None);
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what a handshake ends with, from both roles"
    )]
    fn install(
        &mut self,
        now: Time,
        at: (LinkId, SocketAddr),
        session: Session,
        peer: &Hello,
        my_bundle: u64,
        begins: Begins,
        context: &mut Context,
    ) {
        let fresh = begins == Begins::Afresh;
        let numbers_anew = begins.numbers_anew();
        // One handshake has come through; another one under way, either way, would
        // only end what this one began.
        let initiation = self.sessions.initiation.take().map(|i| i.local);
        let unconfirmed = self.sessions.unconfirmed.take().map(|u| u.session.local);
        for given_up in initiation.into_iter().chain(unconfirmed) {
            context.sessions.remove(&given_up);
        }
        if fresh {
            self.notice_twins(now, at, peer.bundle, context);
        }
        self.wrong_keys = 0;
        self.sessions.my_bundle = my_bundle;
        let has_met = core::mem::replace(&mut self.sessions.peer_bundle, peer.bundle) != 0;
        self.peer_buffer_bytes = peer.receive_buffer_bytes;
        for dropped in self
            .sessions
            .install(now, session, numbers_anew)
            .into_iter()
            .flatten()
        {
            context.sessions.remove(&dropped);
        }
        if fresh && has_met {
            self.ops.reset();
        }
        // Otherwise nothing of what programs have begun since was sent.
        if fresh {
            self.fates.clear();
            self.reset(now);
        } else if numbers_anew {
            self.release_paths(now);
        }
        if numbers_anew {
            self.renew_paths(now, context);
        }
        self.demand_is_met(now);
        if self.features() & FEATURE_MEMORY == 0 {
            self.ops.break_memory();
        }
        self.set_away(now, false);
    }

    /// The node's cluster keys were replaced, or the peer's public key. What is carried goes on:
    /// under keys of the new first one, if the peer accepts that.
    pub fn on_new_keys(&mut self, now: Time, context: &mut Context) {
        let public = self.config.public;
        let outdated = |u: &mut Box<Unconfirmed>| !u.session.shown.count(&context.keys, public);
        if let Some(u) = self.sessions.unconfirmed.take_if(outdated) {
            context.sessions.remove(&u.session.local);
        }
        if let Some(session) = &mut self.sessions.current {
            session.on_new_keys(now, &context.keys, public, &mut context.random);
        }
        self.sessions.hasten(now);
        let outdated = |key: &ClusterKey| *key != context.keys[0];
        let initiation = self.sessions.initiation.as_ref();
        if initiation.is_some_and(|i| outdated(&i.key)) {
            self.initiate(now, context);
        }
    }

    /// Ends a session whose keys are no longer accepted, when it has had its time.
    pub(super) fn end_removed_key(&mut self, now: Time, context: &mut Context) {
        let current = self.sessions.current.as_ref();
        if current.is_some_and(|s| s.ends_at.is_some_and(|at| at <= now)) {
            self.say_goodbye(now, CLOSE_KEY_REMOVED, context);
            self.forget(now, DownReason::KeyRemoved, context);
        }
    }

    /// The peer says goodbye: forget its keys, report it, and try again slowly.
    pub(super) fn on_close(&mut self, now: Time, code: u32, context: &mut Context) {
        if code == CLOSE_RESTS {
            self.begin_rest(now, context);
            return;
        }
        self.forget(now, DownReason::Closed { code }, context);
    }

    fn forget(&mut self, now: Time, reason: DownReason, context: &mut Context) {
        for which in [Which::Current, Which::Previous, Which::Unconfirmed] {
            if let Some(session) = self.sessions.get(which) {
                context.sessions.remove(&session.local);
            }
        }
        let initiation = self.sessions.initiation.take();
        if let Some(i) = initiation {
            context.sessions.remove(&i.local);
        }
        self.sessions = Sessions::after_goodbye(now, context.random.u64().max(1));
        // What came before the goodbye is told before it.
        self.tell_events(context);
        self.ops.reset();
        self.fates.clear();
        self.renew_paths(now, context);
        self.reset(now);
        if self.was_up {
            context.event(Event::PeerDown {
                peer: self.peer,
                reason,
            });
        }
        self.state = self.state_unmet();
        self.since = now;
    }
}
