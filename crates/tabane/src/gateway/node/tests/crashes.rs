//! A gateway fails at each moment of a connection's life: before and after each packet that it has in its hands.

use tabane_sim::net::{MS, Ns, SECOND};

use super::machine::Fuse;
use super::mutant::Mutant;
use super::talk::Kind;
use super::town::{Conversation, Crash, Town};

/// Of the hosts of a town so many are gateways.
const SIZE: (usize, usize) = (2, 4);
/// After a crash all that was begun goes on within this, and the middle one within that.
const GAP_MAX: Ns = 500 * MS;
const GAP_MEDIAN_MAX: Ns = 250 * MS;
/// All that was said is heard by then.
const DONE_WITHIN: Ns = 8 * SECOND;
/// Of a conversation of each kind so many packets are tried at most: longer ones go on as they have begun.
const PACKETS_MAX: u32 = 200;

/// A town of this seed whose programs have their ports.
pub fn settled(seed: u64, size: (usize, usize), mutant: Option<(usize, Mutant)>) -> Town {
    let mut town = Town::new(seed, size, mutant);
    let ports = 2 * size.1;
    town.run_while(10 * SECOND, |town| {
        town.serving().is_none() || town.given.len() < ports
    });
    town
}

/// When, in whose life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    pub kind: Kind,
    /// It begins outside, and is of IPv4.
    pub ways: (bool, bool),
    pub packets: u32,
    pub after: bool,
    pub crash: Crash,
}

/// What came of crashes.
#[derive(Debug, Default)]
pub struct Figures {
    pub crashes: u32,
    /// How long conversations waited that were under way.
    pub gaps: Vec<Ns>,
}

impl Figures {
    /// The gap that so many of a hundred are no longer than.
    pub fn percentile(&self, percent: usize) -> Ns {
        let mut gaps = self.gaps.clone();
        gaps.sort_unstable();
        let at = (gaps.len() * percent / 100).min(gaps.len().saturating_sub(1));
        gaps.get(at).copied().unwrap_or_default()
    }
}

impl Town {
    /// Somebody serves, and somebody stands by who could.
    pub fn is_ready(&self) -> bool {
        let all_there = |town: &Town| {
            town.hosts.iter().all(|host| {
                let has =
                    |holders: &std::collections::BTreeSet<usize>| holders.contains(&host.index);
                host.gateway.is_some() && town.given.values().filter(|it| has(it)).count() == 2
            })
        };
        let gateways = &self.hosts[..self.hosts[0].size.0];
        self.serving().is_some()
            && gateways.iter().all(super::host::Host::is_able)
            && all_there(self)
    }

    /// Programs and clients speak, and the gateway fails at that moment. Returns whether it did: else the conversation had ended before.
    pub fn fails_at(&mut self, moment: Moment, figures: &mut Figures) -> bool {
        for host in 0..self.hosts.len() {
            if !self.hosts[host].is_plugged {
                self.plug(host, true);
            }
        }
        if !self.run_while(20 * SECOND, |town| !town.is_ready()) {
            self.fail("nobody stands by again");
            return false;
        }
        let Some(serving) = self.serving() else {
            return false;
        };
        let others: Vec<usize> = (0..self.hosts.len())
            .filter(|host| *host != serving)
            .collect();
        let from = self.conversations.len();
        for _ in 0..2 {
            let (kind, host) = (self.random.pick(&Kind::ALL), self.random.pick(&others));
            let ways = (self.random.percent(50), self.random.percent(50));
            self.converse(kind, host, 0, ways);
            let until = self.now + self.random.below(20 * MS);
            self.run_until(until);
        }
        let host = self.random.pick(&others);
        let number = self.converse(moment.kind, host, 1, moment.ways);
        let fuse = Fuse {
            far: self.far_of(number),
            left: moment.packets,
            after: moment.after,
        };
        {
            let mut state = self.hosts[serving].machine.0.borrow_mut();
            (state.fuse, state.touches) = (Some(fuse), 0);
        }
        self.crash = moment.crash;
        let crashes = self.crashes;
        self.run_while(DONE_WITHIN, |town| {
            town.crashes == crashes && !town.conversations[number].is_done()
        });
        let has_failed = self.crashes > crashes;
        self.hosts[serving].machine.0.borrow_mut().fuse = None;
        self.finish(from);
        if has_failed {
            self.measure(from, figures);
            figures.crashes += 1;
        }
        has_failed && self.broken.is_none()
    }

    /// All that was begun since ends.
    pub fn finish(&mut self, from: usize) {
        let is_over = |town: &Town| {
            let mut all = town.conversations[from..].iter();
            all.all(Conversation::is_over)
        };
        if !self.run_while(DONE_WITHIN, |town| !is_over(town)) {
            let left: Vec<_> = self.conversations[from..]
                .iter()
                .filter(|one| !one.is_done())
                .map(|one| (one.kind, one.seats, &one.sides))
                .collect();
            let left = format!("a conversation does not go on: {left:?}");
            self.fail(left);
        }
    }

    fn measure(&self, from: usize, figures: &mut Figures) {
        let Some(failed_at) = self.failed_at else {
            return;
        };
        for one in &self.conversations[from..] {
            let all = one.sides.iter().flatten().flat_map(|side| side.waits());
            let after = all.filter(|(_, until)| *until > failed_at);
            let gaps = after.map(|(since, until)| until - failed_at.max(*since));
            figures
                .gaps
                .extend(gaps.max().filter(|_| one.began <= failed_at));
        }
    }
}

/// Without a standby what stood goes on when the daemon is there again, and what begins then is served soon.
#[test]
fn without_a_standby_the_next_daemon_goes_on() {
    const SERVES_WITHIN: Ns = SECOND;
    let mut longest = 0;
    for seed in 0..super::count("TABANE_SIM_ALONE", 40) as u64 {
        let mut town = settled(seed, (1, 3), None);
        for kind in Kind::ALL {
            let (host, is_v4) = (town.random.between(1, 2) as usize, town.random.percent(50));
            town.converse(kind, host, 0, (seed % 2 == 0, is_v4));
        }
        let until = town.now + town.random.below(60 * MS);
        town.run_until(until);
        town.crash(0, Crash::Daemon);
        town.run_while(SECOND, |town| town.hosts[0].gateway.is_none());
        let began = town.now;
        let number = town.converse(Kind::Short, 1, 1, (true, true));
        town.run_while(5 * SECOND, |town| !town.conversations[number].is_done());
        longest = longest.max(town.now - began);
        town.finish(0);
        assert_eq!(town.broken, None);
    }
    println!(
        "a connection that is begun with the daemon is over after {} ms at most",
        longest / MS
    );
    assert!(longest <= SERVES_WITHIN);
}

#[test]
fn it_works_without_faults() {
    let mut town = settled(1, SIZE, None);
    // Programs beside the gateway that has just begun have their ports as soon as all others.
    assert!(town.now < 500 * MS, "{} ms", town.now / MS);
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        for ways in [(true, true), (true, false), (false, true), (false, false)] {
            town.converse(kind, n % 4, n % 2, ways);
        }
    }
    town.finish(0);
    assert_eq!(town.broken, None);
    assert!(town.conversations.iter().all(|one| one.is_done()));
}

/// All moments of a conversation of this kind, as far as it has any. Towns of other seeds say other things beside.
fn fails_at_each_moment(seed: u64, kind: Kind, ways: (bool, bool), figures: &mut Figures) {
    const CRASHES: [Crash; 4] = [Crash::Daemon, Crash::Daemon, Crash::Cable, Crash::Machine];
    let mut town = settled(seed, SIZE, None);
    for step in 0..2 * PACKETS_MAX {
        let moment = Moment {
            kind,
            ways,
            packets: step / 2,
            after: step % 2 == 1,
            crash: CRASHES[(u64::from(step) + seed) as usize % CRASHES.len()],
        };
        if !town.fails_at(moment, figures) {
            assert_eq!(town.broken, None, "{moment:?}");
            return;
        }
    }
}

#[test]
fn nothing_is_lost_or_doubled_wherever_a_gateway_fails() {
    let mut figures = Figures::default();
    let mut seed = 0;
    for _ in 0..super::count("TABANE_SIM_ROUNDS", 1) {
        for kind in Kind::ALL {
            for ways in [(true, true), (true, false), (false, true), (false, false)] {
                fails_at_each_moment(seed, kind, ways, &mut figures);
                seed += 1;
            }
        }
    }
    let (median, most) = (figures.percentile(50), figures.percentile(100));
    println!(
        "{} crashes, {} conversations under way: they waited {} ms (median), {} ms (longest)",
        figures.crashes,
        figures.gaps.len(),
        median / MS,
        most / MS
    );
    assert!(figures.crashes >= 1000, "{}", figures.crashes);
    assert!(median <= GAP_MEDIAN_MAX && most <= GAP_MAX);
}
