//! Which gateway serves: the one with the votes of most nodes.
//!
//! A node lends its vote for [`LEASE`], to one gateway at a time (C. Gray, D. Cheriton, "Leases", SOSP 1989). The serving gateway
//! asks again long before that is over. A gateway counts from its question and a node from hearing it, so a node is bound for
//! longer than the gateway relies on it, whatever their clocks say, as long as both run at the same speed within [`DRIFT`]. Two
//! gateways would need a node that is bound to both.

use core::time::Duration;
use std::collections::VecDeque;

use crate::Time;
use crate::wire::NodeId;

/// Duration of a vote.
pub const LEASE: Duration = Duration::from_millis(100);
/// So much less of it a gateway relies on: clocks may differ in speed, by a tenth.
pub const DRIFT: Duration = Duration::from_millis(10);
/// The serving gateway asks again after this time.
const RENEW: Duration = Duration::from_millis(20);
/// A gateway that is not elected yet asks again after this time.
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// A gateway waits this long for each one before it in the file.
const STAGGER: Duration = Duration::from_millis(30);
/// Interval of telling nodes without a vote who serves.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// So many nodes vote at most: the first ones.
pub const VOTERS_MAX: usize = 15;

/// Number of changes of the electorate, since a gateway's start, that are kept.
const ELECTORATES_MAX: usize = 8;

/// Weight of a vote.
const WEIGHT: u32 = 2;
/// Weight of the first gateway's vote: of two halves, the one with it wins.
const WEIGHT_OF_FIRST: u32 = 3;

/// Messages between nodes about who serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Lend me your vote.
    Ask {
        /// When that was asked. The answer repeats it.
        stamp: Stamp,
        /// The asker serves, for this term.
        serves: Option<u64>,
    },
    /// It is yours.
    Lent {
        /// The question's stamp.
        stamp: Stamp,
        /// The last term the voter has heard of.
        term: u64,
    },
    /// The sender releases the votes that it asked for.
    Released {
        /// When it released them: a later question that arrives earlier stays valid.
        stamp: Stamp,
        /// Who should get them now.
        to: Option<NodeId>,
    },
    /// The sender serves, for this term.
    Serves {
        /// The number of this time of service; each gateway's next one is larger.
        term: u64,
    },
}

/// A moment of the node that says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// A random number for each start of the gateway. Its clock restarts with each.
    pub life: u64,
    /// Its time, ns.
    pub at_ns: u64,
}

/// Who serves, and since which term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Serving {
    /// The gateway.
    pub gateway: NodeId,
    /// The number of its time of service.
    pub term: u64,
}

/// Who may serve and who votes, the same at all nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Electorate {
    /// The gateways, in the order of the file.
    pub gateways: Vec<NodeId>,
    /// All nodes of the file, the gateways first. The first [`VOTERS_MAX`] vote; if there is only one gateway, only it votes. All
    /// others are told who serves.
    pub nodes: Vec<NodeId>,
    /// Nodes that never vote, because they come and go by themselves. They are told who serves.
    pub others: Vec<NodeId>,
}

impl Electorate {
    fn has_one_gateway(&self) -> bool {
        self.gateways.len() == 1
    }

    fn voter_count(&self) -> usize {
        let most = match self.has_one_gateway() {
            true => 1,
            false => VOTERS_MAX,
        };
        self.nodes.len().min(most)
    }

    fn voters(&self) -> &[NodeId] {
        &self.nodes[..self.voter_count()]
    }

    fn weight(&self, voter: NodeId) -> u32 {
        match self.gateways.first() == Some(&voter) {
            true => WEIGHT_OF_FIRST,
            false => WEIGHT,
        }
    }

    fn is_most(&self, voters: impl Iterator<Item = NodeId>) -> bool {
        let weigh = |sum: u32, voter: NodeId| sum + self.weight(voter);
        let all = self.voters().iter().copied().fold(0, weigh);
        let mine = voters.filter(|voter| self.voters().contains(voter));
        2 * mine.fold(0, weigh) > all
    }
}

/// Why the voters cannot be changed now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unchangeable {
    /// The gateways are other ones.
    Gateways,
    /// It was changed as often as may be since this gateway began.
    TooOften,
    /// The gateway, which serves, would not have most of the votes any more: too many nodes come or go at once.
    TooMuch,
}

/// A gateway that wants to serve, or does.
#[derive(Debug)]
struct Candidacy {
    since: Time,
    /// Nodes that have lent their vote, and until when to rely on it.
    votes: Vec<(NodeId, Time)>,
    /// The last term that any of them had heard of.
    term_heard: u64,
    /// Elected, for this term.
    term: Option<u64>,
    ask_at: Time,
    tell_at: Time,
}

impl Candidacy {
    /// A vote may be relied on, as it was asked for at that time.
    fn take_vote(&mut self, voter: NodeId, asked_at: Time) {
        let until = (asked_at + LEASE) - DRIFT;
        match self.votes.iter_mut().find(|(known, _)| *known == voter) {
            Some((_, known)) => *known = until.max(*known),
            None => self.votes.push((voter, until)),
        }
    }
}

/// A node's knowledge of who serves: its own vote and, on a gateway, the votes of others.
#[derive(Debug)]
pub struct Election {
    me: NodeId,
    life: u64,
    /// Who votes: at the start, and after each change since, the newest last ([`Election::change`]).
    electorates: Vec<Electorate>,
    /// Its place among the gateways.
    rank: Option<u32>,
    /// The outside can be reached from here.
    is_able: bool,
    /// The gateway that has this node's vote, and until when. A node that has just started has forgotten which it was.
    bound_to: Option<NodeId>,
    bound_until: Time,
    /// When the one it is lent to asked for it.
    bound_by: Option<Stamp>,
    /// The only gateway that may have the vote until then.
    heir: Option<(NodeId, Time)>,
    candidacy: Option<Candidacy>,
    /// Whose votes it lacked when it asked last, if in vain.
    lacked: Vec<NodeId>,
    not_before: Time,
    believed: Option<Serving>,
    /// The last term that was heard of.
    term: u64,
    words: VecDeque<(NodeId, Word)>,
}

impl Election {
    /// Of the node `me`, which begins now. `life`: a random number.
    pub fn new(now: Time, me: NodeId, life: u64, electorate: Electorate) -> Election {
        let place = electorate.gateways.iter().position(|node| *node == me);
        let mut election = Election {
            me,
            life,
            electorates: vec![electorate],
            rank: place.map(|place| place as u32),
            is_able: false,
            bound_to: None,
            bound_until: now + LEASE,
            bound_by: None,
            heir: None,
            candidacy: None,
            lacked: Vec::new(),
            not_before: now,
            believed: None,
            term: 0,
            words: VecDeque::new(),
        };
        election.wait_from(now + LEASE);
        election
    }

    /// Whether this gateway can serve: it has the device and may use it, and no other host has the addresses.
    pub fn set_able(&mut self, now: Time, is_able: bool) {
        if self.is_able && !is_able {
            self.let_go(now, None);
        }
        self.is_able = is_able;
    }

    /// Whether it can.
    pub const fn is_able(&self) -> bool {
        self.is_able
    }

    /// The term for which this node serves now. Without it, the node does nothing for the outside.
    pub fn serves(&self, now: Time) -> Option<u64> {
        let candidacy = self.candidacy.as_ref()?;
        let term = candidacy.term?;
        self.is_elected(now, candidacy).then_some(term)
    }

    /// Who serves, as far as this node knows.
    pub const fn serving(&self) -> Option<Serving> {
        self.believed
    }

    /// Makes another gateway serve in place of this one. Later questions to this one are not for it.
    pub fn hand_over(&mut self, now: Time, to: NodeId) {
        self.let_go(now, Some(to));
    }

    fn is_elected(&self, now: Time, candidacy: &Candidacy) -> bool {
        let valid = candidacy.votes.iter().filter(|(_, until)| *until > now);
        let valid: Vec<NodeId> = valid.map(|(voter, _)| *voter).collect();
        let is_most = |electorate: &Electorate| electorate.is_most(valid.iter().copied());
        self.electorates.iter().all(is_most)
    }

    fn newest(&self) -> &Electorate {
        // There is one from the start.
        &self.electorates[self.electorates.len() - 1]
    }

    /// All voters, of the old and the new electorates.
    pub fn voters(&self) -> Vec<NodeId> {
        let mut voters: Vec<NodeId> = Vec::new();
        for voter in self.electorates.iter().flat_map(Electorate::voters) {
            if !voters.contains(voter) {
                voters.push(*voter);
            }
        }
        voters
    }

    /// Voters that have not lent their vote to this gateway, although it serves or has asked for them.
    pub fn missing(&self, now: Time) -> Vec<NodeId> {
        match &self.candidacy {
            Some(candidacy) if candidacy.term.is_some() => self.missing_of(now, candidacy),
            _ => self.lacked.clone(),
        }
    }

    fn missing_of(&self, now: Time, candidacy: &Candidacy) -> Vec<NodeId> {
        let votes = &candidacy.votes;
        let has_lent = |voter: &NodeId| votes.iter().any(|(v, until)| v == voter && *until > now);
        let mut voters = self.voters();
        voters.retain(|voter| !has_lent(voter));
        voters
    }

    /// Whether [`Election::change`] may be done now.
    ///
    /// # Errors
    /// Why not.
    pub fn may_change(&self, now: Time, to: &Electorate) -> Result<(), Unchangeable> {
        if self.newest().gateways != to.gateways {
            return Err(Unchangeable::Gateways);
        }
        if self.newest().voters() == to.voters() {
            return Ok(());
        }
        let is_known = |it: &Electorate| it.voters() == to.voters();
        let is_full = self.electorates.len() >= ELECTORATES_MAX;
        if self.rank.is_some() && is_full && !self.electorates.iter().any(is_known) {
            return Err(Unchangeable::TooOften);
        }
        let Some(candidacy) = self.candidacy.as_ref().filter(|it| it.term.is_some()) else {
            return Ok(());
        };
        // Nodes that are there no more vote no more.
        let valid = |(voter, until): &&(NodeId, Time)| *until > now && to.nodes.contains(voter);
        let stay: Vec<_> = candidacy
            .votes
            .iter()
            .filter(valid)
            .map(|(v, _)| *v)
            .collect();
        let mut all = self.electorates.iter().chain([to]);
        match all.all(|electorate| electorate.is_most(stay.iter().copied())) {
            true => Ok(()),
            false => Err(Unchangeable::TooMuch),
        }
    }

    /// Changes the cluster's nodes; [`Election::may_change`] must have allowed it.
    ///
    /// Another gateway may hear of it later, or earlier. So a gateway that has served by the votes of the old nodes does not
    /// switch to the new ones: until it ends, it needs most of both. Two gateways that began with the same nodes, and have
    /// changed them in whatever order since, both need most of *those*; two majorities have a node in common, which votes for one
    /// of them only. A gateway that begins later, with the new nodes, has a node in common with each gateway that needs most of
    /// the new ones. These are all gateways, if every running one was told of the change before another one began with it.
    pub fn change(&mut self, to: Electorate) {
        // A node that only votes decides nothing by it.
        let is_of_gateway = self.rank.is_some();
        let stays = |before: &Electorate| is_of_gateway && before.voters() != to.voters();
        self.electorates.retain(stays);
        self.electorates.push(to);
    }

    fn stamp(&self, now: Time) -> Stamp {
        Stamp {
            life: self.life,
            at_ns: now.as_ns(),
        }
    }

    /// It does not ask before the gateways that stand before it in the file have had their chance.
    fn wait_from(&mut self, from: Time) {
        self.not_before = from + STAGGER * self.rank.unwrap_or_default();
    }

    fn let_go(&mut self, now: Time, to: Option<NodeId>) {
        if self.candidacy.take().is_none() {
            return;
        }
        self.free(now, to);
        self.wait_from(now + LEASE);
        let stamp = self.stamp(now);
        for voter in self.voters() {
            if voter != self.me {
                self.words.push_back((voter, Word::Released { stamp, to }));
            }
        }
    }

    /// Lets go if it has been elected and is no more, or has asked in vain for long enough. Returns whether it did.
    fn let_go_if_lost(&mut self, now: Time) -> bool {
        let Some(candidacy) = &self.candidacy else {
            return false;
        };
        let has_lost = match candidacy.term {
            Some(_) => !self.is_elected(now, candidacy),
            None => now.since(candidacy.since) >= LEASE,
        };
        if has_lost {
            self.lacked = self.missing_of(now, candidacy);
            self.let_go(now, None);
        }
        has_lost
    }

    /// Another gateway serves: one that is not elected yet stands by at once, instead of asking in vain for long.
    fn give_way(&mut self, now: Time) {
        let is_open = |candidacy: &Candidacy| candidacy.term.is_none();
        if self.candidacy.as_ref().is_some_and(is_open) {
            self.let_go(now, None);
        }
    }

    /// Its own vote is free, for one only or for all.
    fn free(&mut self, now: Time, to: Option<NodeId>) {
        self.bound_to = None;
        self.bound_until = now;
        self.heir = to.map(|heir| (heir, now + LEASE));
    }

    /// Another gateway has no use for the vote of this node.
    fn take_back(&mut self, now: Time, from: NodeId, stamp: Stamp, to: Option<NodeId>) {
        let is_later = |by: Stamp| by.life == stamp.life && by.at_ns > stamp.at_ns;
        if self.bound_to != Some(from) || self.bound_by.is_some_and(is_later) {
            return;
        }
        self.free(now, to);
        match to {
            Some(heir) if heir == self.me => self.not_before = now,
            Some(_) => self.wait_from(now + LEASE),
            None => self.wait_from(now),
        }
    }

    /// Lends its own vote, if it is free.
    fn lend(&mut self, now: Time, to: NodeId, stamp: Stamp) -> bool {
        let is_bound = now < self.bound_until && self.bound_to != Some(to);
        let is_promised = self
            .heir
            .is_some_and(|(heir, until)| heir != to && now < until);
        if is_bound || is_promised {
            return false;
        }
        self.bound_to = Some(to);
        self.bound_until = now + LEASE;
        self.bound_by = Some(stamp);
        if to != self.me {
            self.wait_from(self.bound_until);
        }
        true
    }

    fn believe(&mut self, gateway: NodeId, term: u64) {
        // Votes make terms known: a gateway that asks nobody may begin with 1 again.
        if term >= self.term || self.newest().has_one_gateway() {
            self.term = term;
            self.believed = Some(Serving { gateway, term });
            self.lacked.clear();
        }
    }

    /// Another node says something.
    pub fn hear(&mut self, now: Time, from: NodeId, word: Word) {
        let is_gateway = self.newest().gateways.contains(&from);
        match word {
            Word::Ask { stamp, serves } if is_gateway => {
                if let Some(term) = serves {
                    self.believe(from, term);
                    self.give_way(now);
                }
                if self.lend(now, from, stamp) {
                    let term = self.term;
                    self.words.push_back((from, Word::Lent { stamp, term }));
                }
            }
            Word::Lent { stamp, term } => self.count(now, from, stamp, term),
            Word::Released { stamp, to } if is_gateway => self.take_back(now, from, stamp, to),
            Word::Serves { term } if is_gateway => self.believe(from, term),
            _ => {}
        }
    }

    fn count(&mut self, now: Time, from: NodeId, stamp: Stamp, term: u64) {
        // Nodes say what they have once for each term: a gateway that has lost one does not go on with it.
        if self.let_go_if_lost(now) {
            return;
        }
        let is_voter = self.voters().contains(&from);
        let Some(candidacy) = self.candidacy.as_mut().filter(|_| is_voter) else {
            return;
        };
        // Ignore votes that it did not ask for, or asked for before it released them.
        let asked_at = Time::from_ns(stamp.at_ns);
        if stamp.life != self.life || asked_at < candidacy.since {
            return;
        }
        candidacy.take_vote(from, asked_at);
        candidacy.term_heard = candidacy.term_heard.max(term);
        self.look(now);
    }

    /// Whether it is elected now.
    fn look(&mut self, now: Time) {
        let candidacy = self.candidacy.as_ref();
        let is_new = candidacy
            .is_some_and(|candidacy| candidacy.term.is_none() && self.is_elected(now, candidacy));
        let Some(candidacy) = self.candidacy.as_mut().filter(|_| is_new) else {
            return;
        };
        let term = candidacy.term_heard.max(self.term) + 1;
        candidacy.term = Some(term);
        candidacy.tell_at = now;
        self.believe(self.me, term);
        self.ask(now);
    }

    /// A node has restarted. If it is the only gateway, it does not serve until it says so, perhaps for the same term.
    pub fn begins_anew(&mut self, node: NodeId) {
        let is_it = |serving: &Serving| serving.gateway == node;
        if self.newest().has_one_gateway() && self.believed.as_ref().is_some_and(is_it) {
            self.believed = None;
        }
    }

    /// A node has come that may not know who serves: all without a vote are told with the next question.
    pub fn tell_again(&mut self, now: Time) {
        if let Some(candidacy) = &mut self.candidacy {
            candidacy.tell_at = now;
        }
    }

    /// When to call [`Election::handle_timeout`].
    pub fn next_timeout(&self) -> Option<Time> {
        self.rank?;
        match &self.candidacy {
            Some(candidacy) => Some(candidacy.ask_at),
            None => self.is_able.then_some(self.not_before),
        }
    }

    /// Some time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.rank.is_none() {
            return;
        }
        if self.let_go_if_lost(now) {
            return;
        }
        if let Some(candidacy) = &self.candidacy {
            if candidacy.ask_at <= now {
                self.ask(now);
            }
        } else if self.is_able && self.not_before <= now {
            self.stand(now);
        }
    }

    /// Asks for votes, its own first.
    fn stand(&mut self, now: Time) {
        if !self.lend(now, self.me, self.stamp(now)) {
            // Bound, or promised to a gateway that has not asked yet.
            let promised = self.heir.map_or(now, |(_, until)| until);
            self.wait_from(self.bound_until.max(promised).max(now + ASK_AGAIN));
            return;
        }
        self.candidacy = Some(Candidacy {
            since: now,
            votes: Vec::new(),
            term_heard: self.term,
            term: None,
            ask_at: now,
            tell_at: now,
        });
        self.ask(now);
        self.look(now);
    }

    fn ask(&mut self, now: Time) {
        let stamp = self.stamp(now);
        let is_lent = self.lend(now, self.me, stamp);
        let voters = self.voters();
        let Some(candidacy) = &mut self.candidacy else {
            return;
        };
        let serves = candidacy.term;
        candidacy.ask_at = now + if serves.is_some() { RENEW } else { ASK_AGAIN };
        if is_lent {
            candidacy.take_vote(self.me, now);
        }
        for voter in &voters {
            if *voter != self.me {
                self.words.push_back((*voter, Word::Ask { stamp, serves }));
            }
        }
        let tells = candidacy.tell_at <= now;
        if let Some(term) = serves.filter(|_| tells) {
            candidacy.tell_at = now + TELL_EVERY;
            let newest = self.newest();
            let nodes = newest.nodes.iter().chain(&newest.others).copied();
            let listeners = nodes.filter(|node| !voters.contains(node));
            let told: Vec<_> = listeners.collect();
            let says = told.into_iter().map(|node| (node, Word::Serves { term }));
            self.words.extend(says);
        }
    }

    /// The next message, and its destination.
    pub fn poll_word(&mut self) -> Option<(NodeId, Word)> {
        self.words.pop_front()
    }
}

#[cfg(test)]
mod tests;
