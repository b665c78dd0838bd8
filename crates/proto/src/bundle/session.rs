//! The keys of a bundle: which session is current, which is about to become it,
//! and the handshake that is under way.
//!
//! A *session* is one set of keys; a bundle outlives its sessions (rekeying). A
//! bundle's state is named by a random number at each end; a handshake in which
//! both ends still know both numbers continues the state under new keys, any
//! other begins it afresh (a peer that restarted).
//!
//! Both ends may call at once, and both calls may be answered while packets get lost. An end that answers its first call
//! gives the name by which it calls itself ([`name_afresh`](Sessions::name_afresh)). So an end that took such an answer,
//! and is then called by that name, knows that its keys were never used, and goes on with what it has sent under them.
//! When two handshakes had two names, that was lost.

use crate::link::thresholds::{
    ABSENCE_MAX, ABSENCE_PART, PEER_SILENT_MAX, REPEAT_MAX, SILENCE_ALONE,
};
use crate::time::times;
use core::time::Duration;

use crate::crypto::{ClusterKey, Initiator, PublicKey, REKEY_AFTER, REKEY_PACKETS, SessionKeys};
use crate::wire::{Header, Hello};
use crate::{Random, Time};

/// A handshake, or a question of a guest, is repeated after this at first, …
pub const RETRY_FIRST: Duration = REPEAT_MAX;
/// … doubling to this.
///
/// A peer that is away is called again after an eighth of its absence ([`ABSENCE_PART`]), and after [`ABSENCE_MAX`] at
/// the latest: so its return is noticed soon, measured by its absence, and it calls by itself, too. While that is not
/// longer than this, all paths are called at this pace, then one at a time.
pub const RETRY_MAX: Duration = Duration::from_secs(2);
/// One handshake may take this long, at either end. A handshake of ours that was not answered by then went where nobody
/// takes it: to a path that carries one way only, or to a peer that does not accept our first key yet. Keys that the peer
/// answered for and did not use by then are given up, for it has forgotten them. A peer that said goodbye is left alone
/// for as long. When the node's keys are replaced, its bundles begin new handshakes within this time, not all at once.
pub const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(1);
/// A first message is repeated for this long; then a new one is made. The end that did not initiate waits this much
/// longer before it rekeys, so that both do not begin at once.
pub const INITIATION_LIFETIME: Duration = PEER_SILENT_MAX;

/// A session whose keys are no longer accepted ends after this time, if no new handshake succeeds: three of them had
/// their time.
pub const KEY_REMOVED_GRACE: Duration = times(INITIATION_LIFETIME, 3);

/// What the peer showed when it was admitted.
#[derive(Clone)]
pub(crate) struct Credentials {
    /// The cluster key.
    pub key: ClusterKey,
    /// The public key whose holder it is, if it showed that.
    pub public: Option<PublicKey>,
}

impl Credentials {
    /// Whether they count while `keys` are accepted and the peer must hold `public`, if that is given.
    pub fn count(&self, keys: &[ClusterKey], public: Option<PublicKey>) -> bool {
        keys.contains(&self.key) && (public.is_none() || self.public == public)
    }
}

/// One set of keys.
pub(crate) struct Session {
    /// Our number for it: in the header of what we receive.
    pub local: u32,
    /// The peer's number for it: in the header of what we send.
    pub remote: u32,
    pub keys: SessionKeys,
    /// What admitted it.
    pub shown: Credentials,
    /// What both ends can beyond this version, a bit each.
    pub features: u64,
    /// When new keys are wanted because of what the operator said.
    rekey_asked: Option<Time>,
    /// When it ends because what admitted it no longer counts.
    pub ends_at: Option<Time>,
    /// When it became current.
    pub since: Time,
    pub initiated_here: bool,
    /// Whether anything came under these keys.
    pub heard: bool,
    pub packets_sealed: u64,
}

impl Session {
    pub fn new(
        now: Time,
        local: u32,
        peer: &Hello,
        keys: SessionKeys,
        shown: Credentials,
        features: u64,
        initiated_here: bool,
    ) -> Self {
        Session {
            local,
            remote: peer.session,
            keys,
            shown,
            features: features & peer.features,
            rekey_asked: None,
            ends_at: None,
            since: now,
            initiated_here,
            heard: false,
            packets_sealed: 0,
        }
    }

    fn rekey_at(&self) -> Time {
        let extra = if self.initiated_here {
            Duration::ZERO
        } else {
            INITIATION_LIFETIME
        };
        let asked = self.rekey_asked.unwrap_or(Time::NEVER);
        asked.min(self.since + REKEY_AFTER + extra)
    }

    /// The operator replaced the cluster's keys, or the peer's: the session moves to the first of
    /// them, and has no long life if what admitted it no longer counts.
    pub fn on_new_keys(
        &mut self,
        now: Time,
        keys: &[ClusterKey],
        public: Option<PublicKey>,
        random: &mut Random,
    ) {
        let counts = self.shown.count(keys, public);
        self.ends_at = (!counts).then(|| now + KEY_REMOVED_GRACE);
        self.rekey_asked = (!counts || keys[0] != self.shown.key).then(|| {
            let spread = random.below(HANDSHAKE_PATIENCE.as_nanos() as u64);
            now + Duration::from_nanos(spread)
        });
    }

    /// When it is given up if nothing is heard under it.
    fn unheard_at(&self) -> Option<Time> {
        (self.initiated_here && !self.heard).then(|| self.since + HANDSHAKE_PATIENCE)
    }

    fn rekey_due(&self, now: Time) -> bool {
        let extra = if self.initiated_here {
            0
        } else {
            REKEY_PACKETS / 8
        };
        now >= self.rekey_at() || self.packets_sealed >= REKEY_PACKETS + extra
    }
}

/// A session we answered for and that the initiator has not used yet. Until it does, the first message may have been a
/// replay, which must not reset a session: so nothing is given up for it before.
pub(crate) struct Unconfirmed {
    pub session: Session,
    pub begins: Begins,
    pub my_bundle: u64,
    pub peer: Hello,
    /// The first message (its beginning identifies it) and our answer to it,
    /// repeated if the same message comes again, on another path or after a loss.
    pub init: InitId,
    pub response: Vec<u8>,
}

/// How much of a first message tells it from all others: header, proof and ephemeral key.
pub(crate) const INIT_ID_BYTES: usize = 41;
pub(crate) type InitId = [u8; INIT_ID_BYTES];

/// A handshake of ours under way.
pub(crate) struct Initiation {
    pub initiator: Initiator,
    pub key: ClusterKey,
    pub local: u32,
    started: Time,
    next_send: Time,
    interval: Duration,
    /// Paths (a bit each) on which it is still to be sent in this round.
    pub unsent: u16,
    /// Rounds before this one; wraps.
    pub round: u8,
    /// It is sent once, on one path: the peer has been asked in vain for long.
    lone: bool,
}

/// Which session a received packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    Current,
    Previous,
    Unconfirmed,
}

/// How a session begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begins {
    /// With nothing of what was before.
    Afresh,
    /// With what is carried.
    GoesOn {
        /// The numbers of packets go on, too.
        numbers_go_on: bool,
        /// The names of both ends' state, this one's first.
        names: (u64, u64),
    },
}

impl Begins {
    /// Whether packets are numbered from 0 on.
    pub const fn numbers_anew(self) -> bool {
        !matches!(
            self,
            Begins::GoesOn {
                numbers_go_on: true,
                ..
            }
        )
    }
}

/// So often the other end may have let a bundle rest without this one knowing.
const RESTS_MAX: u64 = 1 << 16;

/// Whether two names are of one state, let rest more or less often.
const fn are_of_one(name: u64, other: u64) -> bool {
    (name.wrapping_sub(other) as i64).unsigned_abs() <= RESTS_MAX
}

/// The later one of two names of one state; the first if they are of two.
const fn later(name: u64, other: u64) -> u64 {
    match are_of_one(name, other) && (other.wrapping_sub(name) as i64) > 0 {
        true => other,
        false => name,
    }
}

/// `pace` and up to a quarter more or less, so that those who were missed together are not asked together.
fn jittered(pace: Duration, random: &mut Random) -> Duration {
    pace * 3 / 4 + Duration::from_nanos(random.below(pace.as_nanos() as u64 / 2))
}

/// What the expanded keys of a session take: AES-128-GCM, both ways.
const KEYS_BYTES: usize = 2 * 600;

/// All sessions of a bundle. Each lies in a box of its own: a peer that was never met has none.
#[derive(Default)]
pub(crate) struct Sessions {
    pub current: Option<Box<Session>>,
    previous: Option<Box<(Session, Time)>>,
    pub unconfirmed: Option<Box<Unconfirmed>>,
    pub initiation: Option<Box<Initiation>>,
    /// No handshake is begun before.
    pub not_before: Time,
    /// Since when the peer has been asked for a handshake in vain.
    asked_since: Option<Time>,
    /// How many calls were lone; wraps.
    lone_calls: u8,
    /// Names our state; 0 before there was any.
    pub my_bundle: u64,
    /// Names the peer's state; 0 before there was any.
    pub peer_bundle: u64,
    /// There are no keys, but the state that both names are of.
    pub rests: bool,
}

impl Sessions {
    /// None any more; what comes is a new state, named by `my_bundle`.
    pub fn after_goodbye(now: Time, my_bundle: u64) -> Sessions {
        Sessions {
            not_before: now + HANDSHAKE_PATIENCE,
            my_bundle,
            ..Sessions::default()
        }
    }

    pub fn find(&self, header: &Header) -> Option<Which> {
        let is = |s: &Session| s.local == header.session;
        if self.current.as_deref().is_some_and(is) {
            Some(Which::Current)
        } else if self.unconfirmed.as_ref().is_some_and(|u| is(&u.session)) {
            Some(Which::Unconfirmed)
        } else if self.previous.as_ref().is_some_and(|p| is(&p.0)) {
            Some(Which::Previous)
        } else {
            None
        }
    }

    pub fn get(&self, which: Which) -> Option<&Session> {
        match which {
            Which::Current => self.current.as_deref(),
            Which::Previous => self.previous.as_ref().map(|p| &p.0),
            Which::Unconfirmed => self.unconfirmed.as_ref().map(|u| &u.session),
        }
    }

    /// Begins (or begins anew) a handshake of ours; returns the session number it replaces.
    pub fn initiate(
        &mut self,
        now: Time,
        (initiator, key): (Initiator, ClusterKey),
        local: u32,
        paths: u16,
        random: &mut Random,
    ) -> Option<u32> {
        let since = *self.asked_since.get_or_insert(now);
        let pace = (now.since(since) / ABSENCE_PART).min(ABSENCE_MAX);
        let lone = pace > RETRY_MAX;
        let (mut unsent, mut round) = (paths, 0);
        if lone {
            self.not_before = now + jittered(pace, random);
            // One path after the other, and each address of it in turn.
            let count = paths.count_ones().max(1) as u8;
            let nth = self.lone_calls % count;
            unsent = (0..nth).fold(paths, |paths, _| paths & (paths - 1));
            unsent &= unsent.wrapping_neg();
            round = self.lone_calls / count;
            self.lone_calls = self.lone_calls.wrapping_add(1);
        }
        let new = Box::new(Initiation {
            initiator,
            key,
            local,
            started: now,
            next_send: now
                + if lone {
                    HANDSHAKE_PATIENCE
                } else {
                    RETRY_FIRST
                },
            interval: RETRY_FIRST,
            unsent,
            round,
            lone,
        });
        self.initiation.replace(new).map(|old| old.local)
    }

    /// How the sender of `hello` goes on with the state both ends have, and what both of its names are then, this end's first.
    /// Each time that an end lets it [rest](Sessions::rest) its names are the next ones; the other end may not know of that, and one that has
    /// answered and never heard that its answer was taken knows no name of this end's.
    pub fn begins(&self, hello: &Hello) -> Begins {
        let has_state = (self.current.is_some() || self.rests) && self.peer_bundle != 0;
        let knows_us = hello.peer_bundle != 0;
        let is_meant = !knows_us || are_of_one(hello.peer_bundle, self.my_bundle);
        if !has_state || !is_meant || !are_of_one(hello.bundle, self.peer_bundle) {
            return Begins::Afresh;
        }
        let is_same = (hello.bundle, hello.peer_bundle) == (self.peer_bundle, self.my_bundle);
        Begins::GoesOn {
            numbers_go_on: is_same && !self.rests,
            names: (
                later(self.my_bundle, hello.peer_bundle),
                later(self.peer_bundle, hello.bundle),
            ),
        }
    }

    /// Names the state that begins afresh when the peer's call is answered. The first one has the name by which this end calls,
    /// too, or that the peer knows it by: should several calls be answered, they are of one state.
    pub fn name_afresh(&self, hello: &Hello, random: &mut Random) -> u64 {
        match self.peer_bundle == 0 && self.my_bundle != 0 {
            true => later(self.my_bundle, hello.peer_bundle),
            false => random.u64().max(1),
        }
    }

    /// The name of the state that a call of this end began, which was answered.
    pub fn name_answered(&self, hello: &Hello) -> u64 {
        match self.peer_bundle == 0 {
            true => later(self.my_bundle, hello.peer_bundle),
            false => self.my_bundle,
        }
    }

    /// Keys that the peer's call was answered for are kept beside those of this end's own call, which `begins` so: the peer uses
    /// one of both. Returns the number of the session if it is given up instead.
    pub fn keep_answered(&mut self, mut answered: Box<Unconfirmed>, begins: Begins) -> Option<u32> {
        if begins == Begins::Afresh {
            if answered.begins != Begins::Afresh {
                // It would go on with what is no more.
                return Some(answered.session.local);
            }
            // It has begun already. If the peer uses these keys, it has received nothing under the other ones.
            answered.begins = Begins::GoesOn {
                numbers_go_on: false,
                names: (answered.my_bundle, answered.peer.bundle),
            };
        }
        self.unconfirmed = Some(answered);
        None
    }

    /// Something came under the current keys. If that is the first, the peer has not taken an answer that it got before: returns the
    /// number of that session, which is no longer readable.
    pub fn on_heard(&mut self) -> Option<u32> {
        let session = self.current.as_deref_mut()?;
        if core::mem::replace(&mut session.heard, true) {
            return None;
        }
        let since = session.since;
        let given_up = self.unconfirmed.take_if(|u| u.session.since <= since)?;
        Some(given_up.session.local)
    }

    /// Gives up all keys, and keeps the names of the state that goes on with other ones.
    pub fn rest(&mut self, now: Time) {
        let rests = self.current.is_some();
        let names_on = u64::from(rests);
        *self = Sessions {
            not_before: now,
            rests: rests || self.rests,
            my_bundle: self.my_bundle.wrapping_add(names_on),
            peer_bundle: self.peer_bundle.wrapping_add(names_on),
            ..Sessions::default()
        };
    }

    /// Since when the peer has been asked for a handshake in vain.
    pub const fn asked_since(&self) -> Option<Time> {
        self.asked_since
    }

    /// Whether a handshake of ours is under way that the peer may be answering just now, or has answered without knowing
    /// yet that the answer came.
    pub fn awaits_peer(&self, now: Time) -> bool {
        let begun_until = self
            .initiation
            .as_ref()
            .map(|i| i.started + HANDSHAKE_PATIENCE);
        let unheard_at = self.current.as_ref().and_then(|s| s.unheard_at());
        [begun_until, unheard_at]
            .iter()
            .flatten()
            .any(|until| now < *until)
    }

    /// The peer's call is answered. Ours goes on, for the peer's may be an old one that somebody has recorded, but gives way.
    pub fn let_go_first(&mut self, now: Time) {
        if let Some(initiation) = &mut self.initiation {
            initiation.unsent = 0;
            initiation.next_send = now + HANDSHAKE_PATIENCE;
        }
    }

    /// Whether the handshake of ours that is under way, or the last one if none is, has not been answered for so long.
    pub fn is_unanswered(&self, now: Time, time: Duration) -> bool {
        let started = self.initiation.as_ref().map(|i| i.started);
        let started = started.or(self.asked_since);
        started.is_some_and(|started| now >= started + time)
    }

    /// Makes `session` current. Returns the numbers of sessions that are no longer readable.
    pub fn install(&mut self, now: Time, session: Session, fresh: bool) -> [Option<u32>; 2] {
        self.asked_since = None;
        self.rests = false;
        // Where nothing works even so, another handshake would come through as this one did, again and again.
        self.not_before = now + HANDSHAKE_PATIENCE;
        let old = self.current.replace(Box::new(session));
        if fresh {
            return [
                old.map(|s| s.local),
                self.previous.take().map(|p| p.0.local),
            ];
        }
        let dropped = self.previous.take().map(|p| p.0.local);
        // A path that was silent for longer has failed: nothing sent under the former keys still arrives.
        self.previous = old.map(|s| Box::new((*s, now + SILENCE_ALONE)));
        [dropped, None]
    }

    /// Whether a (new) handshake should be begun now. `silent` says that nothing works.
    pub fn wants_initiation(&mut self, now: Time, silent: bool) -> bool {
        match (&self.initiation, &self.current) {
            (Some(i), _) => !i.lone && now >= i.started + INITIATION_LIFETIME,
            // We answered: the peer is about to use the keys. Not for ever, though.
            (None, None) => now >= self.confirmation_deadline().unwrap_or(self.not_before),
            (None, Some(_)) if now < self.not_before => false,
            (None, Some(session)) => {
                let unheard = session.unheard_at().is_some_and(|at| now >= at);
                let wants = silent || session.rekey_due(now) || unheard;
                if !wants {
                    self.asked_since = None;
                }
                wants
            }
        }
    }

    /// Something changed, so that the peer may be there now: it is asked from `at` on as if it had just been missed.
    pub fn hasten(&mut self, at: Time) {
        self.asked_since = self.asked_since.map(|_| at);
        self.not_before = self.not_before.min(at);
        if let Some(i) = &mut self.initiation {
            i.lone = false;
            i.interval = RETRY_FIRST;
            i.next_send = i.next_send.min(at);
        }
    }

    /// Until when the peer may take to use keys we answered for.
    fn confirmation_deadline(&self) -> Option<Time> {
        self.unconfirmed
            .as_ref()
            .map(|u| u.session.since + HANDSHAKE_PATIENCE)
    }

    /// Whether the handshake under way is to be repeated, or given up, now.
    pub fn repeats(&self, now: Time) -> bool {
        let initiation = self.initiation.as_ref();
        initiation.is_some_and(|i| now >= i.next_send)
    }

    /// Repeats the handshake under way on these paths if it is [time](Sessions::repeats), and forgets former keys.
    /// Returns the number of a session that is no longer readable.
    pub fn on_timeout(&mut self, now: Time, paths: u16) -> Option<u32> {
        if let Some(i) = self.initiation.take_if(|i| i.lone && now >= i.next_send) {
            return Some(i.local);
        }
        if let Some(i) = &mut self.initiation
            && now >= i.next_send
        {
            i.unsent = paths;
            i.round = i.round.wrapping_add(1);
            i.interval = (i.interval * 2).min(RETRY_MAX);
            i.next_send = now + i.interval;
        }
        if self.previous.as_ref().is_some_and(|p| now >= p.1) {
            return self.previous.take().map(|p| p.0.local);
        }
        None
    }

    /// When something is due; of what begins a handshake only if the peer is `sought`.
    pub fn next_timeout(&self, sought: bool) -> Option<Time> {
        let handshake = match (&self.initiation, &self.current) {
            (Some(initiation), _) => initiation.next_send,
            _ if !sought => Time::NEVER,
            (None, Some(_)) if self.asked_since.is_some() => self.not_before,
            (None, Some(s)) => s.unheard_at().unwrap_or(Time::NEVER).min(s.rekey_at()),
            (None, None) => self.confirmation_deadline().unwrap_or(self.not_before),
        };
        let previous = self.previous.as_ref().map_or(Time::NEVER, |p| p.1);
        let end = self.current.as_ref().and_then(|s| s.ends_at);
        let first = handshake.min(previous).min(end.unwrap_or(Time::NEVER));
        (first < Time::NEVER).then_some(first)
    }

    /// Every session number in use, to be freed with the bundle.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let current = self.current.iter().map(|s| s.local);
        let previous = self.previous.iter().map(|p| p.0.local);
        let unconfirmed = self.unconfirmed.iter().map(|u| u.session.local);
        let initiation = self.initiation.iter().map(|i| i.local);
        current.chain(previous).chain(unconfirmed).chain(initiation)
    }

    /// Memory held beside its own, in bytes; the keys' own, of which only their library knows, are guessed.
    pub fn heap_bytes(&self) -> usize {
        let sessions = usize::from(self.current.is_some()) + usize::from(self.previous.is_some());
        let unconfirmed = self.unconfirmed.as_ref();
        let unconfirmed = unconfirmed.map_or(0, |u| {
            size_of::<Unconfirmed>() + u.response.capacity() + KEYS_BYTES
        });
        let initiation = usize::from(self.initiation.is_some()) * size_of::<Initiation>();
        sessions * (size_of::<(Session, Time)>() + KEYS_BYTES) + unconfirmed + initiation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Name, WireMode};

    /// What an end says of its names.
    fn hello(bundle: u64, peer_bundle: u64) -> Hello {
        let name = Name::new("n").unwrap();
        Hello {
            version: 0,
            wire: WireMode::Plain,
            cipher_aes: false,
            session: 0,
            from: name,
            to: name,
            bundle,
            peer_bundle,
            receive_buffer_bytes: 0,
            features: 0,
            verdict: None,
        }
    }

    /// An end that has not met the other yet. Its keys do not matter: what it has of a state, it has as at rest.
    fn end(name: u64) -> Sessions {
        Sessions {
            my_bundle: name,
            ..Sessions::default()
        }
    }

    /// It takes up the state of these names. Whether it goes on with the one it had, if it had one.
    fn take_up(end: &mut Sessions, begins: Begins, names: (u64, u64)) -> bool {
        let had_one = end.rests && end.peer_bundle != 0;
        (end.my_bundle, end.peer_bundle) = match begins {
            Begins::GoesOn { names, .. } => names,
            Begins::Afresh => names,
        };
        end.rests = true;
        !(had_one && begins == Begins::Afresh)
    }

    /// One calls and the other answers; the answer may get lost, or what shows that it was taken. Whether all that both had goes on.
    fn call(
        from: &mut Sessions,
        to: &mut Sessions,
        is_answered: bool,
        is_confirmed: bool,
        random: &mut Random,
    ) -> bool {
        let called = hello(from.my_bundle, from.peer_bundle);
        let begins = to.begins(&called);
        let names = match begins {
            Begins::GoesOn { names, .. } => names,
            Begins::Afresh => (to.name_afresh(&called, random), called.bundle),
        };
        if !is_answered {
            return true;
        }
        let answered = hello(names.0, names.1);
        let (begins_here, name) = (from.begins(&answered), from.name_answered(&answered));
        let goes_on = take_up(from, begins_here, (name, answered.bundle));
        goes_on && (!is_confirmed || take_up(to, begins, names))
    }

    /// As an end does that lets go what it has, whether the other one hears of it or not.
    fn let_rest(end: &mut Sessions) {
        let names_on = u64::from(end.rests && end.peer_bundle != 0);
        end.my_bundle = end.my_bundle.wrapping_add(names_on);
        end.peer_bundle = end.peer_bundle.wrapping_add(names_on);
    }

    #[test]
    fn whatever_gets_lost_what_an_end_has_goes_on() {
        for seed in 0..200 {
            let mut random = Random::from_seed([seed; 32]);
            let mut ends = [end(random.u64().max(1)), end(random.u64().max(1))];
            for step in 0..50 {
                let [a, b] = &mut ends;
                let (from, to) = if random.below(2) == 0 { (a, b) } else { (b, a) };
                match random.below(4) {
                    0 => let_rest(from),
                    // One that the other end hears of.
                    1 => [from, to].into_iter().for_each(let_rest),
                    _ => {
                        let (is_answered, is_confirmed) =
                            (random.below(4) > 0, random.below(2) > 0);
                        let goes_on = call(from, to, is_answered, is_confirmed, &mut random);
                        assert!(goes_on, "seed {seed}, step {step}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_end_that_has_forgotten_begins_afresh() {
        let mut random = Random::from_seed([1; 32]);
        let (mut a, mut b) = (end(100), end(200));
        assert!(call(&mut a, &mut b, true, true, &mut random));
        let mut restarted = end(random.u64());
        assert!(!call(&mut restarted, &mut a, true, true, &mut random));
        let mut again = end(random.u64());
        assert!(!call(&mut b, &mut again, true, true, &mut random));
    }
}
