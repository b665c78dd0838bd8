//! Elections in a network that delays, loses and parts, with nodes that stop for a while and begin anew.

use std::collections::BinaryHeap;

use super::*;
use crate::Random;

fn id(n: usize) -> NodeId {
    NodeId(n as u64 + 1)
}

fn place(id: NodeId) -> usize {
    id.0 as usize - 1
}

fn electorate(gateways: usize, nodes: usize) -> Electorate {
    Electorate {
        gateways: (0..gateways).map(id).collect(),
        nodes: (0..nodes).map(id).collect(),
        others: Vec::new(),
    }
}

/// What arrives where and when; the earliest is the greatest.
#[derive(PartialEq, Eq)]
struct Arrival(Time, u64, NodeId, NodeId, Word);

impl Ord for Arrival {
    fn cmp(&self, other: &Arrival) -> core::cmp::Ordering {
        (other.0, other.1).cmp(&(self.0, self.1))
    }
}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Arrival) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

struct World {
    now: Time,
    nodes: Vec<Option<Election>>,
    /// What the file of each node says.
    files: Vec<Electorate>,
    /// What each node's clock shows is this much behind.
    origins: Vec<Time>,
    /// Until when a node does nothing.
    stopped: Vec<Time>,
    parts: Vec<u8>,
    arrivals: BinaryHeap<Arrival>,
    count: u64,
    /// For which term each serves, and those that it served for in this life and does no more.
    terms: Vec<Option<u64>>,
    ended: Vec<Vec<u64>>,
    /// Of a hundred words so many are lost, and so many late.
    lost: u64,
    late: u64,
    random: Random,
}

impl World {
    fn new(seed: u8, gateways: usize, nodes: usize) -> World {
        let mut world = World {
            now: Time::from_ms(1000),
            nodes: (0..nodes).map(|_| None).collect(),
            files: vec![electorate(gateways, nodes); nodes],
            origins: vec![Time::ZERO; nodes],
            stopped: vec![Time::ZERO; nodes],
            parts: vec![0; nodes],
            arrivals: BinaryHeap::new(),
            count: 0,
            terms: vec![None; nodes],
            ended: vec![Vec::new(); nodes],
            lost: 0,
            late: 0,
            random: Random::from_seed([seed; 32]),
        };
        for n in 0..nodes {
            world.begin(n);
        }
        world
    }

    fn begin(&mut self, n: usize) {
        self.origins[n] = self.now;
        let life = self.random.u64();
        let mut election = Election::new(Time::ZERO, id(n), life, self.files[n].clone());
        election.set_able(Time::ZERO, true);
        self.nodes[n] = Some(election);
        (self.terms[n], self.ended[n]) = (None, Vec::new());
    }

    /// A node reads its file anew, if it may.
    fn reload(&mut self, n: usize, file: Electorate) -> Result<(), Unchangeable> {
        let now = self.time_of(n);
        if let Some(election) = &mut self.nodes[n] {
            election.may_change(now, &file)?;
            election.change(file.clone());
        }
        self.files[n] = file;
        Ok(())
    }

    fn time_of(&self, n: usize) -> Time {
        Time::ZERO + self.now.since(self.origins[n])
    }

    /// Who serves now: what a process that has stopped would do when it goes on does not count.
    fn serving(&self) -> Vec<usize> {
        let serves = |n: &usize| {
            let election = self.nodes[*n].as_ref();
            election.is_some_and(|e| e.serves(self.time_of(*n)).is_some())
        };
        (0..self.nodes.len()).filter(serves).collect()
    }

    fn say(&mut self, n: usize) {
        while let Some((to, word)) = self.nodes[n].as_mut().and_then(Election::poll_word) {
            if self.parts[n] != self.parts[place(to)] || self.random.below(100) < self.lost {
                continue;
            }
            let delay_us = match self.random.below(100) < self.late {
                true => self.random.below(150_000),
                false => 50 + self.random.below(2_000),
            };
            let at = self.now + Duration::from_micros(delay_us);
            self.count += 1;
            self.arrivals.push(Arrival(at, self.count, id(n), to, word));
        }
    }

    /// A millisecond passes. At each moment one serves at most.
    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        while self.arrivals.peek().is_some_and(|next| next.0 <= self.now) {
            let Some(Arrival(_, _, from, to, word)) = self.arrivals.pop() else {
                break;
            };
            let n = place(to);
            if self.stopped[n] > self.now {
                let later = self.stopped[n];
                self.count += 1;
                self.arrivals
                    .push(Arrival(later, self.count, from, to, word));
                continue;
            }
            let now = self.time_of(n);
            if let Some(election) = &mut self.nodes[n] {
                election.hear(now, from, word);
            }
            self.say(n);
        }
        for n in 0..self.nodes.len() {
            let now = self.time_of(n);
            if self.stopped[n] > self.now {
                continue;
            }
            if let Some(election) = &mut self.nodes[n]
                && election.next_timeout().is_some_and(|at| at <= now)
            {
                election.handle_timeout(now);
            }
            self.say(n);
        }
        let serving = self.serving();
        assert!(serving.len() <= 1, "{serving:?} serve at {:?}", self.now);
        self.look_at_terms();
    }

    /// Whoever has ended to serve for a term begins with another one: nodes tell a gateway once for each what they have.
    fn look_at_terms(&mut self) {
        for n in 0..self.nodes.len() {
            let now = self.time_of(n);
            let term = self.nodes[n].as_ref().and_then(|it| it.serves(now));
            if term == self.terms[n] {
                continue;
            }
            self.ended[n].extend(self.terms[n]);
            self.terms[n] = term;
            let is_again = term.is_some_and(|term| self.ended[n].contains(&term));
            assert!(!is_again, "{n} serves again for {term:?} at {:?}", self.now);
        }
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.step();
        }
    }

    /// How many ms until this one serves.
    fn until_serves(&mut self, n: usize) -> u64 {
        let begun = self.now;
        while self.serving() != [n] {
            self.step();
            assert!(self.now.since(begun) < Duration::from_secs(2), "nobody");
        }
        self.now.since(begun).as_millis() as u64
    }
}

#[test]
fn the_first_of_the_file_serves_and_the_second_when_it_is_gone() {
    let mut world = World::new(1, 2, 5);
    assert!(world.until_serves(0) <= 110);
    world.run(1000);
    assert_eq!(world.serving(), [0]);
    world.nodes[0] = None;
    assert!(world.until_serves(1) <= 150);
    // The first one is back, and stands by.
    world.begin(0);
    world.run(1000);
    assert_eq!(world.serving(), [1]);
    for n in 0..5 {
        let believed = world.nodes[n].as_ref().and_then(Election::serving);
        let expected = Serving {
            gateway: id(1),
            term: 2,
        };
        assert_eq!(believed, Some(expected), "node {n}");
    }
}

#[test]
fn one_that_cannot_serve_lets_another_at_once() {
    let mut world = World::new(2, 3, 5);
    world.until_serves(0);
    let now = world.time_of(0);
    world.nodes[0].as_mut().unwrap().set_able(now, false);
    assert!(world.until_serves(1) <= 60);
    let now = world.time_of(1);
    world.nodes[1].as_mut().unwrap().hand_over(now, id(2));
    assert!(world.until_serves(2) <= 20);
    world.run(500);
    assert_eq!(world.serving(), [2]);
}

#[test]
fn one_that_is_handed_the_service_and_is_not_there_does_not_get_it() {
    let mut world = World::new(3, 2, 5);
    world.until_serves(0);
    world.nodes[1] = None;
    let now = world.time_of(0);
    world.nodes[0].as_mut().unwrap().hand_over(now, id(1));
    world.step();
    assert_eq!(world.serving(), [0; 0]);
    assert!(world.until_serves(0) <= 250);
}

#[test]
fn of_two_nodes_the_first_serves_alone_and_the_second_does_not() {
    let mut world = World::new(4, 2, 2);
    world.until_serves(0);
    world.parts = vec![0, 1];
    world.run(1000);
    assert_eq!(world.serving(), [0]);
    world.parts = vec![0, 0];
    let now = world.time_of(0);
    world.nodes[0].as_mut().unwrap().hand_over(now, id(1));
    world.until_serves(1);
    world.parts = vec![0, 1];
    world.until_serves(0);
}

#[test]
fn who_reaches_less_than_most_lets_go_before_another_takes_over() {
    let mut world = World::new(5, 2, 5);
    world.until_serves(0);
    world.parts = vec![0, 1, 1, 1, 0];
    world.until_serves(1);
    world.parts = vec![0; 5];
    world.run(500);
    assert_eq!(world.serving(), [1]);
}

#[test]
fn nodes_that_do_not_vote_are_told() {
    let mut world = World::new(6, 2, 20);
    world.until_serves(0);
    world.run(200);
    let believed = world.nodes[19].as_ref().and_then(Election::serving);
    assert_eq!(believed.map(|serving| serving.gateway), Some(id(0)));
}

#[test]
fn a_gateway_without_a_standby_serves_by_itself_and_all_others_hear_of_it() {
    let mut world = World::new(6, 1, 4);
    world.until_serves(0);
    world.run(50);
    for n in 1..4 {
        let believed = world.nodes[n].as_ref().and_then(Election::serving);
        assert_eq!(believed.map(|serving| serving.gateway), Some(id(0)));
    }
    // One that comes later does not wait for the next second.
    world.begin(3);
    let now = world.time_of(0);
    world.nodes[0].as_mut().unwrap().tell_again(now);
    world.run(50);
    let listener = world.nodes[3].as_mut().unwrap();
    assert!(listener.serving().is_some());
    // One that begins anew serves when it says so, whatever its term was before.
    listener.hear(Time::ZERO, id(0), Word::Serves { term: 7 });
    listener.begins_anew(id(0));
    assert_eq!(listener.serving(), None);
    listener.hear(Time::ZERO, id(0), Word::Serves { term: 1 });
    assert_eq!(listener.serving().map(|serving| serving.term), Some(1));
}

#[test]
fn whoever_asks_in_vain_stands_by_when_another_one_serves() {
    let (now, everybody) = (Time::from_ms(1000), electorate(2, 3));
    let mut standby = Election::new(Time::ZERO, id(1), 7, everybody);
    standby.set_able(Time::ZERO, true);
    standby.handle_timeout(now);
    assert_eq!(standby.next_timeout(), Some(now + ASK_AGAIN), "it asks");
    while standby.poll_word().is_some() {}
    let stamp = Stamp { life: 1, at_ns: 5 };
    let serves = Some(1);
    standby.hear(now, id(0), Word::Ask { stamp, serves });
    let said: Vec<_> = core::iter::from_fn(|| standby.poll_word()).collect();
    let lent = Word::Lent { stamp, term: 1 };
    assert!(said.contains(&(id(0), lent)), "{said:?}");
    assert_eq!(standby.next_timeout(), Some(now + LEASE + STAGGER));
}

/// The first gateways, and others of these numbers.
fn file(gateways: usize, others: &[usize]) -> Electorate {
    let nodes = (0..gateways).chain(others.iter().copied()).map(id);
    Electorate {
        nodes: nodes.collect(),
        ..electorate(gateways, 0)
    }
}

#[test]
fn nodes_that_come_and_go_vote_and_are_told() {
    let mut world = World::new(7, 2, 6);
    let before = file(2, &[2]);
    world.files.fill(before.clone());
    (0..6).for_each(|n| world.begin(n));
    world.until_serves(0);
    world.run(50);
    assert_eq!(world.nodes[5].as_ref().unwrap().serving(), None);
    // More than half of all are to be there at any time.
    let many = file(2, &[2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(world.reload(0, many), Err(Unchangeable::TooMuch));
    for n in [0, 1] {
        assert_eq!(world.reload(n, file(2, &[2, 3, 5])), Ok(()));
    }
    world.run(2000);
    assert_eq!(world.serving(), [0]);
    let told = world.nodes[5].as_ref().unwrap().serving();
    assert_eq!(told.map(|serving| serving.gateway), Some(id(0)));
    // By those before the other one would have most with node 2, by the new ones it has not.
    world.parts = vec![0, 1, 1, 0, 0, 0];
    world.run(500);
    assert_eq!(world.serving(), [0; 0]);
    world.parts = vec![0, 1, 1, 1, 0, 0];
    world.until_serves(1);
    let gateway = world.nodes[1].as_ref().unwrap();
    let missing = gateway.missing(world.time_of(1));
    assert_eq!(missing, [id(0), id(5)]);
    world.parts.fill(0);
    // Those that are gone: too many at once would end it.
    assert_eq!(world.reload(1, file(2, &[])), Err(Unchangeable::TooMuch));
    assert_eq!(world.reload(1, file(2, &[2, 3])), Ok(()));
    let others = Electorate {
        gateways: vec![id(1), id(0)],
        ..before
    };
    assert_eq!(world.reload(1, others), Err(Unchangeable::Gateways));
    world.run(500);
    assert_eq!(world.serving(), [1]);
}

#[test]
fn who_votes_is_changed_so_often_and_back_again() {
    let mut gateway = Election::new(Time::ZERO, id(0), 7, file(2, &[2]));
    let mut changed = 0;
    for n in 3..20 {
        let to = file(2, &[2, n]);
        if gateway.may_change(Time::ZERO, &to).is_err() {
            break;
        }
        gateway.change(to);
        changed += 1;
    }
    assert_eq!(changed + 1, ELECTORATES_MAX);
    let back = file(2, &[2]);
    assert_eq!(gateway.may_change(Time::ZERO, &back), Ok(()));
    gateway.change(back);
    assert_eq!(gateway.electorates.len(), ELECTORATES_MAX);
}

/// Files change at one node after another, in any order and also back, while nodes are parted and begin anew: with what every gateway has by
/// then, as docs/gateway.md says.
#[test]
fn two_never_serve_at_once_while_the_files_differ() {
    for seed in 0..150 {
        let mut world = World::new(seed, 3, 9);
        let files = [
            file(3, &[3]),
            file(3, &[3, 4, 5, 6]),
            file(3, &[5, 6, 7, 8]),
            file(3, &[]),
        ];
        world.files.fill(files[0].clone());
        (0..9).for_each(|n| world.begin(n));
        (world.late, world.lost) = (5, 5);
        let mut at = [0; 9];
        for _ in 0..60 {
            let n = world.random.below(9) as usize;
            match world.random.below(6) {
                0 => {
                    let parts = 2 + world.random.below(2);
                    for part in 0..9 {
                        world.parts[part] = world.random.below(parts) as u8;
                    }
                }
                1 => world.parts.fill(0),
                2 | 3 => {
                    // The next file goes round when all have the one before.
                    let oldest = at.iter().copied().min().unwrap_or_default();
                    if at[n] == oldest && world.reload(n, files[(oldest + 1) % 4].clone()).is_ok() {
                        at[n] += 1;
                    }
                }
                4 if n >= 3 || at[..3].iter().all(|of| *of == at[n]) => world.begin(n),
                _ => {
                    let now = world.time_of(n);
                    if let Some(election) = &mut world.nodes[n] {
                        election.hand_over(now, id(1));
                    }
                }
            }
            let ms = world.random.below(200);
            world.run(ms);
        }
    }
}

/// Of every kind, 100 schedules: parted in two or three, from one side only as messages are lost, stopped, begun anew, handed over.
#[test]
fn two_never_serve_at_once_and_one_does_when_all_is_well() {
    for seed in 0..100 {
        let mut world = World::new(seed, 3, 3 + seed as usize % 5);
        let nodes = world.nodes.len() as u64;
        world.late = 5;
        for _ in 0..40 {
            let n = world.random.below(nodes) as usize;
            let now = world.time_of(n);
            match world.random.below(7) {
                0 => {
                    let parts = 2 + world.random.below(2);
                    for part in 0..nodes as usize {
                        world.parts[part] = world.random.below(parts) as u8;
                    }
                }
                1 => world.parts.fill(0),
                2 => world.lost = [0, 10, 60][world.random.below(3) as usize],
                3 => {
                    let ms = world.random.below(400);
                    world.stopped[n] = world.now + Duration::from_millis(ms);
                }
                4 => world.begin(n),
                5 => {
                    let is_able = world.random.below(3) > 0;
                    if let Some(election) = &mut world.nodes[n] {
                        election.set_able(now, is_able);
                    }
                }
                _ => {
                    let to = id(world.random.below(3) as usize);
                    if let Some(election) = &mut world.nodes[n] {
                        election.hand_over(now, to);
                    }
                }
            }
            let ms = world.random.below(200);
            world.run(ms);
        }
        world.parts.fill(0);
        world.lost = 0;
        for n in 0..nodes as usize {
            world.stopped[n] = world.now;
            let now = world.time_of(n);
            if let Some(election) = &mut world.nodes[n] {
                election.set_able(now, true);
            }
        }
        world.run(1000);
        assert_eq!(world.serving().len(), 1, "seed {seed}");
    }
}
