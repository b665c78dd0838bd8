//! Paths through other nodes, and what is relayed to the peer for others.
//!
//! A path through other nodes is a [`Path`] as any other, with the number 8 or 9, and an address that stands for a way.
//! It has the liveness, rate, size and acknowledgements of any path, so nothing above it knows the difference. Its
//! packets leave as records in packets of the neighbour's bundle, so no driver does either. Nobody routes such an
//! address; cookies, answers, and a peer's move to another address work with it as with any.
//!
//! Ways are ready, paths are not. To find a way takes time after a failure, and ways are known beforehand; to probe one
//! takes a round trip. So a path through others is used only while no path over a link works; else it rests: it answers,
//! asks nothing, and costs nothing. Such paths begin when the last link is in *doubt*, and not when it has failed. Links
//! that fail at one instant have nobody to be compared with for three seconds, but a path that answers beside them
//! settles it: in the simulator links that fail crosswise cost 18 ms.

use crate::link::thresholds::{FLAP, RECHECK, REPEAT_MAX, SILENCE_HEARD, TOLD_EVERY};
use core::time::Duration;
use std::net::SocketAddr;

use super::surveys::Survey;
use super::{Bundle, BundlePath, CLOSE_STOPS, RelayedStatus};
use crate::context::Context;
use crate::limits::{
    DATAGRAM_BYTES_MIN, DATAGRAM_BYTES_RELAYED, LINKS_MAX, RELAYED_MAX, RELAYS_MAX,
};
use crate::link::{Path, PathConfig, PathState};
use crate::mesh::{RelayQueue, Way};
use crate::segment::{Content, News};
use crate::wire::{
    FEATURE_MEMBERS, FEATURE_RELAYS, HEADER_BYTES, INIT_BYTES, Member, MemberRecord, NodeId, Reach,
    RelayRecord, Writer, relayed_header_bytes, write_relayed,
};
use crate::{LinkId, PeerId, Time};

/// A bit for every path through other nodes.
pub(super) const RELAYED: u16 = ((1 << RELAYED_MAX) - 1) << LINKS_MAX;
/// Links that were never heard of have so long to show that they work before others are asked to relay, and so have links
/// in doubt if nothing is to be carried: where processors are overloaded all links are in doubt at once, and probes
/// through others kept 32 daemons on two processors busy for 20 s.
pub(super) const LINKS_FIRST: Duration = Duration::from_millis(500);
/// So many of them are remembered.
const AVOIDED_MAX: usize = 8;
/// What a neighbour's links are thought to carry before that is known, in bytes per second.
const RATE_UNKNOWN: f64 = 12.5e6;
/// Behind the records of a packet: a tag.
const TRAILER_BYTES_MAX: usize = 16;
/// Plain Ethernet, under IPv4.
const DATAGRAM_BYTES_USUAL: usize = 1472;

/// Paths through others, and what goes to the peer for others.
#[derive(Default)]
pub(super) struct Relays {
    /// The paths through others are used.
    in_use: bool,
    /// Since when a path over a link works again.
    direct_since: Option<Time>,
    /// When the way of each path was chosen.
    chosen_at: [Time; RELAYED_MAX],
    avoided: Vec<(PeerId, Time)>,
    /// What the peer is to relay, or gets from others.
    pub queue: RelayQueue,
    /// What the peer is to be told of nodes.
    pub owed: Vec<News>,
    /// What there is of surveys, once there is something.
    pub survey: Option<Box<Survey>>,
    refused_at: Option<Time>,
    /// To be said to the peer: a record.
    refusal: Option<RelayRecord<'static>>,
}

const _: () = {
    let around = HEADER_BYTES + TRAILER_BYTES_MAX + relayed_header_bytes(RELAYS_MAX);
    assert!(DATAGRAM_BYTES_RELAYED + around <= DATAGRAM_BYTES_MIN);
    // A handshake goes by relays, too.
    assert!(INIT_BYTES <= DATAGRAM_BYTES_RELAYED);
    // What is owed and never fits would keep all behind it waiting.
    assert!(Member::BYTES_MAX + HEADER_BYTES + TRAILER_BYTES_MAX <= DATAGRAM_BYTES_MIN);
};

/// The paths through others.
fn slots() -> impl Iterator<Item = LinkId> {
    (LINKS_MAX..LINKS_MAX + RELAYED_MAX).map(|id| LinkId(id as u8))
}

/// What the path of a way is told at its beginning.
pub(super) fn config(way: SocketAddr, receive_buffer_bytes: u32, context: &Context) -> PathConfig {
    let relays = Way::of(way).map(|way| way.relays).unwrap_or_default();
    let near = relays
        .first()
        .and_then(|first| context.mesh.near_bytes(*first));
    let outer = near.unwrap_or(0).max(DATAGRAM_BYTES_USUAL);
    let around = HEADER_BYTES + TRAILER_BYTES_MAX + relayed_header_bytes(relays.len());
    PathConfig {
        receive_buffer_bytes: u64::from(receive_buffer_bytes),
        datagram_bytes_min: DATAGRAM_BYTES_RELAYED,
        datagram_bytes_max: outer - around,
        congestion: context.config.congestion,
    }
}

/// What became of a record.
enum Written {
    Whole,
    /// There is none: what was to be told is no more.
    Nothing,
    NoRoom,
}

/// Writes what is known of a node.
fn write_news(now: Time, news: News, context: &Context, w: &mut Writer<'_>) -> Written {
    let member = match news {
        News::OwnReach => return write_reach(context.mesh.own(), w),
        News::Reach(peer) => return write_reach(context.mesh.reach(peer), w),
        News::Sought(peer) => {
            let name = context.mesh.name_asked_for(peer);
            let record = name.map(|name| RelayRecord::Sought { name });
            return write_record(
                record.as_ref(),
                RelayRecord::encoded_len,
                RelayRecord::write,
                w,
            );
        }
        News::OwnMember => context.own_member().map(MemberRecord::of),
        News::Member(peer) => context.members.to_tell(now, peer).map(MemberRecord::of),
        News::Left(number) => context
            .members
            .former(number)
            .cloned()
            .map(MemberRecord::of),
        News::Digest => context.members_digest().map(MemberRecord::Digest),
    };
    let member = member.as_ref();
    write_record(member, MemberRecord::encoded_len, MemberRecord::write, w)
}

fn write_reach(reach: Option<&Reach>, w: &mut Writer<'_>) -> Written {
    write_record(reach, Reach::encoded_len, Reach::write, w)
}

fn write_record<R>(
    record: Option<&R>,
    encoded_len: impl FnOnce(&R) -> usize,
    write: impl FnOnce(&R, &mut Writer<'_>),
    w: &mut Writer<'_>,
) -> Written {
    let Some(record) = record else {
        return Written::Nothing;
    };
    if encoded_len(record) > w.room() {
        return Written::NoRoom;
    }
    write(record, w);
    Written::Whole
}

impl Bundle {
    /// Whether the paths through others are used.
    pub(super) fn uses_relays(&self) -> bool {
        self.relays.as_ref().is_some_and(|relays| relays.in_use)
    }

    /// Paths (a bit each) that are not used now: their link takes nothing, or they rest.
    pub(super) fn closed(&self, blocked: u8) -> u16 {
        let in_use = self.uses_relays();
        u16::from(blocked) | if in_use { 0 } else { RELAYED }
    }

    /// Paths (a bit each) through more nodes than another one that works: they are ready, and carry nothing. What goes there
    /// takes more of what all have.
    pub(super) fn longer_ways(&self) -> u16 {
        if !self.uses_relays() {
            return 0;
        }
        let length = |p: &BundlePath| Way::of(p.remote).map_or(0, |way| way.relays.len());
        let up = self
            .paths
            .iter()
            .filter(|(id, p)| id.is_relayed() && p.path.state() == PathState::Up);
        let Some(shortest) = up.clone().map(|(_, p)| length(p)).min() else {
            return 0;
        };
        let longer = up.filter(|(_, p)| length(p) > shortest);
        longer.fold(0, |bits, (id, _)| bits | id.bit())
    }

    pub(super) fn direct(&self) -> impl Iterator<Item = &Path> {
        let all = self.paths.iter().filter(|(id, _)| !id.is_relayed());
        all.map(|(_, p)| &p.path)
    }

    pub(super) fn relays_mut(&mut self) -> &mut Relays {
        self.relays.get_or_insert_default()
    }

    /// Uses or rests the paths through others, as those over links work or not.
    pub(super) fn tend_relays(&mut self, now: Time, context: &mut Context) {
        self.tell_near(now, context);
        if self.is_at_rest() {
            return;
        }
        if self.direct().any(Path::carries) {
            self.lost_links = false;
            (self.ways_at, self.ways_can_wait) = (Time::NEVER, false);
            if context.mesh.ends_doubt(self.peer) && self.uses_relays() {
                // No link had failed.
                return self.rest(now);
            }
            let Some(relays) = self.relays.as_mut().filter(|relays| relays.in_use) else {
                return;
            };
            // A link that came back may fail again.
            let rest_at = *relays.direct_since.get_or_insert(now) + FLAP;
            match now >= rest_at {
                true => self.rest(now),
                false => self.ways_at = rest_at,
            }
            return;
        }
        if let Some(relays) = &mut self.relays {
            relays.direct_since = None;
        }
        if self.has_failed() {
            context.mesh.ends_doubt(self.peer);
        }
        if !core::mem::replace(&mut self.lost_links, true) {
            self.want_ways(now, context);
        }
        if self.is_on_demand() && self.ways_at == Time::NEVER && self.working_ways() == 0 {
            self.ways_at = now;
        }
        if self.ways_due().is_some_and(|at| now >= at) {
            self.ways_can_wait = false;
            let asks = self.look_for_ways(now, context);
            self.ways_at = match (self.is_on_demand(), asks || self.uses_relays()) {
                (false, true) => now + REPEAT_MAX,
                (false, false) => Time::NEVER,
                (true, _) => match self.working_ways() {
                    0 => now + LINKS_FIRST,
                    RELAYED_MAX => Time::NEVER,
                    _ => now + RECHECK,
                },
            };
        }
    }

    /// How many paths through others work.
    fn working_ways(&self) -> usize {
        let in_use = self.uses_relays();
        let works = |id: &LinkId| self.paths.get(*id).is_some_and(|p| p.path.carries());
        slots().filter(|id| in_use && works(id)).count()
    }

    /// Whether all links to the peer have failed.
    fn has_failed(&self) -> bool {
        self.direct().all(|path| path.state() == PathState::Down)
    }

    /// Others are to be asked to relay, if no path over a link works by then.
    fn want_ways(&mut self, now: Time, context: &mut Context) {
        let is_new = |path: &Path| path.state() == PathState::Untested;
        let are_new = self.has_links() && self.direct().all(is_new);
        let are_in_doubt = self.has_links() && !are_new && !self.has_failed();
        let begins_at = match &self.sessions.current {
            Some(session) if are_new => session.since + LINKS_FIRST,
            None if are_new => self.sessions.asked_since().unwrap_or(now) + LINKS_FIRST,
            _ if are_in_doubt && !context.mesh.begins_doubt(self.peer) => now + LINKS_FIRST,
            _ => now,
        };
        self.ways_at = self.ways_at.min(begins_at);
        self.ways_can_wait = are_in_doubt;
    }

    /// When ways are to be looked for, or to rest.
    pub(super) fn ways_due(&self) -> Option<Time> {
        let is_idle = || self.ops.queued_bytes() + self.ops.in_flight_bytes() == 0;
        let at = Some(self.ways_at).filter(|at| *at != Time::NEVER)?;
        match self.ways_can_wait && is_idle() {
            true => Some(at + LINKS_FIRST),
            false => Some(at),
        }
    }

    /// Who reaches whom has changed: there may be a way now. Whether one is wanted.
    pub fn seek_ways(&mut self, now: Time, context: &mut Context) -> bool {
        if self.lost_links {
            if !self.ways_can_wait {
                self.want_ways(now, context);
            }
            self.tend_relays(now, context);
        }
        self.lost_links
    }

    /// Tells the node whether a link to the peer works.
    pub(super) fn tell_near(&mut self, now: Time, context: &mut Context) {
        let relays = self.features() & FEATURE_RELAYS != 0;
        let bytes = |path: &Path| match path.state() {
            PathState::Up => u16::try_from(path.flight().mtu_bytes()).ok(),
            // It may have failed, or not.
            PathState::Suspect => Some(0),
            PathState::Untested | PathState::Down => None,
        };
        let near = self.direct().filter_map(bytes).max().filter(|_| relays);
        if near != self.near {
            self.near = near;
            context.mesh.set_near(now, self.peer, near);
        }
    }

    /// Gives each path through others that does not work a way, if there is one. Whether others were asked for one.
    fn look_for_ways(&mut self, now: Time, context: &mut Context) -> bool {
        let peer = self.peer;
        self.leave_ways_in_vain(now);
        let in_use = self.uses_relays();
        let mut avoid: Vec<PeerId> = self.relays.as_ref().map_or(Vec::new(), |relays| {
            relays.avoided.iter().map(|(peer, _)| *peer).collect()
        });
        let works = |p: &BundlePath| in_use && p.path.carries();
        let working: Vec<SocketAddr> = slots()
            .filter_map(|id| self.paths.get(id).filter(|p| works(p)).map(|p| p.remote))
            .collect();
        if working.len() == RELAYED_MAX {
            return false;
        }
        let mut ways = Vec::new();
        for way in working.iter().filter_map(|address| Way::of(*address)) {
            avoid.extend(&way.relays);
        }
        ways.extend(context.mesh.addresses(now, peer, &avoid));
        if ways.is_empty() && working.is_empty() {
            ways.extend(context.mesh.addresses(now, peer, &[]));
        }
        if ways.is_empty() && working.is_empty() {
            if in_use {
                self.rest(now);
            }
            return context.mesh.seek(peer, &self.name);
        }
        if !in_use {
            self.wake(now);
        }
        let fixed: Vec<LinkId> = slots()
            .filter(|id| {
                let p = self.paths.get(*id);
                p.is_some_and(|p| in_use && p.path.carries() || ways.contains(&p.remote))
            })
            .collect();
        let current = |id: &LinkId| self.paths.get(*id).map(|p| p.remote);
        let taken: Vec<SocketAddr> = fixed.iter().filter_map(current).collect();
        ways.retain(|way| !taken.contains(way));
        for (id, way) in slots().filter(|id| !fixed.contains(id)).zip(ways) {
            self.set_way(now, id, way, context);
        }
        false
    }

    /// Ways on which nothing is answered are avoided from now on.
    fn leave_ways_in_vain(&mut self, now: Time) {
        // Longer than any queue; and the end whose name sorts last takes over what the other one does.
        let patience = match self.yields {
            true => SILENCE_HEARD * 3,
            false => SILENCE_HEARD,
        };
        let Some(relays) = self.relays.as_mut() else {
            return;
        };
        relays.avoided.retain(|(_, until)| now < *until);
        for (id, chosen_at) in slots().zip(relays.chosen_at) {
            let in_vain =
                |p: &BundlePath| matches!(p.path.state(), PathState::Untested | PathState::Down);
            let silent = |p: &&BundlePath| in_vain(p) && now >= chosen_at + patience;
            let Some(p) = self.paths.get(id).filter(|p| relays.in_use && silent(p)) else {
                continue;
            };
            let passed = Way::of(p.remote).map(|way| way.relays);
            for relay in passed.into_iter().flatten() {
                relays.avoided.truncate(AVOIDED_MAX - 1);
                relays.avoided.push((relay, now + RECHECK));
            }
        }
    }

    fn set_way(&mut self, now: Time, id: LinkId, way: SocketAddr, context: &Context) {
        let config = config(way, self.peer_buffer_bytes, context);
        if let Some(p) = self.paths.get_mut(id) {
            p.remote = way;
            p.candidate = None;
            p.path.begin_anew(now, &config, &mut self.fates);
        } else {
            let mut path = Path::new(id, now, &config);
            path.watch(self.watch);
            path.set_yields(self.yields);
            self.paths.put(id, Box::new(BundlePath::new(path, way)));
        }
        self.deliver_fates(now);
        self.relays_mut().chosen_at[id.index() - LINKS_MAX] = now;
    }

    fn wake(&mut self, now: Time) {
        let relays = self.relays_mut();
        relays.in_use = true;
        relays.chosen_at = [now; RELAYED_MAX];
        self.begin_relayed_anew(now);
    }

    pub(super) fn rest(&mut self, now: Time) {
        let relays = self.relays_mut();
        relays.in_use = false;
        relays.direct_since = None;
        self.ways_at = Time::NEVER;
        self.begin_relayed_anew(now);
    }

    fn begin_relayed_anew(&mut self, now: Time) {
        for id in slots() {
            if let Some(p) = self.paths.get_mut(id) {
                p.unsent_answer = None;
                p.path.begin_again(now, &mut self.fates);
            }
        }
        self.deliver_fates(now);
    }

    /// A datagram of the peer's came on path `id` by `way`.
    pub fn meet_relayed(&mut self, now: Time, id: LinkId, way: SocketAddr, context: &mut Context) {
        let in_use = self.uses_relays();
        match self.paths.get_mut(id) {
            None => self.set_way(now, id, way, context),
            // Nothing is sent there but answers.
            Some(p) if !in_use => p.remote = way,
            Some(_) => {}
        }
        // If the peer cannot be answered over a link, there is no need to wait for one.
        if !in_use && !self.direct().any(Path::carries) {
            self.lost_links = true;
            (self.ways_at, self.ways_can_wait) = (now, false);
            self.tend_relays(now, context);
        }
    }

    /// Whether a path follows the peer to another way: the end whose name sorts first chooses.
    pub(super) fn follows(&self, id: LinkId) -> bool {
        !id.is_relayed() || self.yields
    }

    pub(super) fn relayed_status(&self) -> Vec<RelayedStatus> {
        let in_use = self.uses_relays();
        let used = self
            .paths
            .iter()
            .filter(|(id, _)| in_use && id.is_relayed());
        let status = |(id, p): (LinkId, &BundlePath)| RelayedStatus {
            id,
            relays: Way::of(p.remote).map_or(Vec::new(), |way| way.relays.to_vec()),
            state: p.path.state(),
            since: p.path.since(),
            stats: p.path.stats(),
        };
        used.map(status).collect()
    }

    // ---- for others ----

    /// Something is to be relayed to the peer, which `from` sent.
    pub fn relay(&mut self, now: Time, from: NodeId, data: Vec<u8>) {
        let works = self.direct().filter(|path| path.carries());
        let rate = works.map(|path| path.flight().rate()).sum::<f64>();
        let rate = rate.max(RATE_UNKNOWN);
        self.relays_mut().queue.push(now, from, data, rate);
        // Others want to know soon whether the links work.
        self.ways_can_wait = false;
    }

    /// This node stops, and the peer is to be told through others.
    pub fn farewell_relayed(&mut self, now: Time, context: &mut Context) {
        if self.uses_relays() {
            self.say_goodbye_on(RELAYED, now, CLOSE_STOPS, context);
            self.rest(now);
        }
    }

    /// A last word to somebody else goes through the peer. It waits for nothing, and nobody is left to hear of its loss.
    /// It goes on every link, as a goodbye to the peer does: that could overtake it.
    pub fn relay_at_once(&mut self, now: Time, data: &[u8], context: &mut Context) {
        let mut packet = [0; DATAGRAM_BYTES_MIN];
        for id in self.path_ids().filter(|id| !id.is_relayed()) {
            let Some(mut w) = self.begin(id, DATAGRAM_BYTES_MIN, &mut packet) else {
                return;
            };
            write_relayed(data, &mut w);
            let written = w.len();
            self.contents.clear();
            if let Some(t) = self.send_alone(now, id, written, false, &mut packet, context) {
                context.goodbye(t.link, t.to, packet[..t.bytes].to_vec());
            }
        }
    }

    /// The peer is to be told something of a node, if it is one that understands it.
    pub fn owe(&mut self, news: News) {
        let needed = match news {
            News::OwnReach | News::Reach(_) | News::Sought(_) => FEATURE_RELAYS,
            News::OwnMember | News::Member(_) | News::Left(_) | News::Digest => FEATURE_MEMBERS,
        };
        if self.features() & needed == 0 {
            return;
        }
        let owed = &mut self.relays_mut().owed;
        if !owed.contains(&news) {
            owed.push(news);
        }
    }

    /// Something that came from the peer is not relayed: it is told so, unless it was just now.
    pub fn refuse(&mut self, now: Time, refusal: RelayRecord<'static>) {
        let relays = self.relays_mut();
        if relays
            .refused_at
            .is_none_or(|at| now.since(at) >= TOLD_EVERY)
        {
            relays.refused_at = Some(now);
            relays.refusal = Some(refusal);
        }
    }

    /// Whether something waits for the peer that is of others.
    pub(super) fn has_relayed(&self) -> bool {
        let waits = |relays: &Relays| !relays.queue.is_empty() || !relays.owed.is_empty();
        self.relays.as_deref().is_some_and(waits)
    }

    /// Fills a packet with what is relayed. Whether more of it waits.
    pub(super) fn write_relayed(&mut self, now: Time, w: &mut Writer<'_>) -> bool {
        let widest = self.widest_bytes().saturating_sub(self.around_bytes());
        let Some(relays) = &mut self.relays else {
            return false;
        };
        let before = w.len();
        while relays.queue.write_next(now, widest, w) {}
        if w.len() > before {
            self.contents.push(Content::Relayed);
        }
        !relays.queue.is_empty()
    }

    /// The largest datagram that one of the links carries.
    fn widest_bytes(&self) -> usize {
        let carry = self.direct().filter(|path| path.carries());
        let widest = carry.map(|path| path.flight().mtu_bytes()).max();
        widest.unwrap_or(DATAGRAM_BYTES_MIN)
    }

    /// What a packet has around its records.
    fn around_bytes(&self) -> usize {
        let session = self.sessions.current.as_ref();
        HEADER_BYTES + session.map_or(0, |session| session.keys.trailer_bytes)
    }

    /// The least datagram in which the next of what is relayed has room; none if nothing waits, or it fits nowhere.
    pub(super) fn next_relayed_bytes(&mut self) -> Option<usize> {
        let (around, widest) = (self.around_bytes(), self.widest_bytes());
        let least = self.relays.as_mut()?.queue.next_bytes()? + around;
        (least <= widest).then_some(least)
    }

    /// The record that says that something was not relayed, if one is to be sent.
    pub(super) fn take_refusal(&mut self) -> Option<RelayRecord<'static>> {
        self.relays.as_mut()?.refusal.take()
    }

    /// Writes what the peer is to be told of nodes, as far as it fits.
    pub(super) fn write_owed(&mut self, now: Time, context: &Context, w: &mut Writer<'_>) {
        let Some(relays) = &mut self.relays else {
            return;
        };
        // Who a node is comes before whom it reaches: of a node that is not known nobody wants to know that.
        while let Some(place) = (0..relays.owed.len()).max_by_key(|i| (relays.owed[*i].rank(), *i))
        {
            let news = relays.owed[place];
            match write_news(now, news, context, w) {
                Written::Whole => self.contents.push(Content::News(news)),
                Written::Nothing => {}
                Written::NoRoom => return,
            }
            relays.owed.remove(place);
        }
    }

    /// Bytes of memory held for relays.
    pub(super) fn relays_bytes(&self) -> usize {
        self.relays.as_ref().map_or(0, |relays| {
            let owed = relays.owed.capacity() * size_of::<News>();
            let avoided = relays.avoided.capacity() * size_of::<(PeerId, Time)>();
            size_of::<Relays>() + owed + avoided + relays.queue.memory_bytes()
        })
    }
}
