//! Which faults strike when: drawn from the seed before the run begins.

use std::time::Duration;

use super::fault::{Kind, Planned, Strike};
use super::random::Random;
use tabane_lab::Fault;

/// What the faults are drawn for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanConfig {
    /// Everything follows from it.
    pub seed: u64,
    /// How long faults strike.
    pub length: Duration,
    /// Nodes of the lab.
    pub nodes: usize,
    /// Links of the lab.
    pub links: usize,
    /// The link whose delay can be changed (and whose NICs cannot be drawn).
    pub delayed_link: Option<usize>,
    /// Mean time from one fault to the next.
    pub pause: Duration,
}

/// Faults of one link are apart by this, because healing a link heals it of all.
const APART: Duration = Duration::from_secs(1);
/// A link that came back counts as usable after this.
const RETURN: Duration = Duration::from_secs(3);
/// How often all links fail at once, …
const CUT_EVERY: Duration = Duration::from_secs(120);
/// … and for how long at most: no connection is given up for that.
const CUT_MAX_MS: u64 = 15_000;
/// Tries to find a place for a fault before another is drawn.
const TRIES: usize = 20;
/// Its daemon is never started anew: one process to watch over the whole run.
pub(super) const LASTING_NODE: usize = 0;

/// Faults in the order in which they begin.
///
/// Two nodes keep at least one link that nothing cuts, except while a daemon
/// is away or stopped, or a fault is a [`Kind::Cut`].
pub fn plan(config: &PlanConfig) -> Vec<Planned> {
    let mut random = Random::new(config.seed, 1);
    // First, because they need a time for themselves.
    let mut planned = cuts(&mut random, config);
    let mut at = Duration::from_secs(2);
    while at < config.length {
        let fitting = (0..TRIES)
            .map(|_| draw(&mut random, config, at))
            .find(|one| one.end <= config.length && fits(one, &planned, config));
        planned.extend(fitting);
        let pause_ms = config.pause.as_millis() as u64;
        at += Duration::from_millis(random.within(pause_ms / 4..=pause_ms * 7 / 4));
    }
    planned.sort_by_key(|one| one.begin);
    planned
}

/// All links at once, now and then.
fn cuts(random: &mut Random, config: &PlanConfig) -> Vec<Planned> {
    let times = config.length.as_secs() / CUT_EVERY.as_secs();
    let one = |number| {
        let spread = CUT_EVERY.as_millis() as u64 - CUT_MAX_MS - 5_000;
        let offset = Duration::from_millis(2_000 + random.within(0..=spread));
        let begin = CUT_EVERY * number as u32 + offset;
        let any_node = random.within(0..=config.nodes as u64 - 1) as usize;
        let strike = Strike {
            kind: Kind::Cut,
            link: None,
            node: random.percent(60).then_some(any_node),
        };
        let length_ms = random.within(500..=CUT_MAX_MS);
        Planned {
            strike,
            begin,
            end: begin + Duration::from_millis(length_ms),
        }
    };
    (0..times).map(one).collect()
}

fn draw(random: &mut Random, config: &PlanConfig, begin: Duration) -> Planned {
    let (kind, length_ms) = draw_kind(random, config);
    let any_node = random.within(0..=config.nodes as u64 - 1) as usize;
    let maybe_node = random.percent(60).then_some(any_node);
    let link = random.within(0..=config.links as u64 - 1) as usize;
    let mortal = random.within(LASTING_NODE as u64 + 1..=config.nodes as u64 - 1) as usize;
    let (link, node) = match kind {
        Kind::Link(Fault::Delay { .. }) => (config.delayed_link, None),
        // One way for all nodes is silence.
        Kind::Link(Fault::OneWay) => (Some(link), Some(any_node)),
        Kind::Link(_) => (Some(link), maybe_node),
        Kind::Unplug | Kind::Address => (Some(link), Some(any_node)),
        Kind::Kill | Kind::Restart => (None, Some(mortal)),
        Kind::Pause | Kind::DiskFull | Kind::Descriptors => (None, Some(any_node)),
        // Planned before.
        Kind::Cut => (None, None),
    };
    Planned {
        strike: Strike { kind, link, node },
        begin,
        end: begin + Duration::from_millis(length_ms),
    }
}

fn draw_kind(random: &mut Random, config: &PlanConfig) -> (Kind, u64) {
    let brief = random.within(300..=3_000);
    let medium = random.within(1_000..=15_000);
    let long = random.within(3_000..=25_000);
    let percent = random.within(1..=40) as f64;
    let bytes = random.within(600..=1_460) as u32;
    let bits_per_s = random.within(2..=20) * 1_000_000;
    let small = random.within(3_000..=32_000) as u32;
    let added = Duration::from_micros(random.within(1_000..=20_000));
    let is_brief = random.percent(40);
    let severed = if is_brief { brief } else { medium };
    let delayed = config.delayed_link.is_some();
    match random.within(0..=99) {
        0..12 => (Kind::Link(Fault::Silent), severed),
        12..22 => (Kind::Link(Fault::Carrier), severed),
        22..30 => (Kind::Link(Fault::OneWay), severed),
        30..40 => (Kind::Link(Fault::Loss { percent }), long),
        40..46 => (Kind::Link(Fault::Mtu { bytes }), long),
        46..52 => (Kind::Link(Fault::Rate { bits_per_s }), long),
        52..57 => (Kind::Link(Fault::Buffer { bytes: small }), long),
        57..61 if delayed => (Kind::Link(Fault::Delay { added }), long),
        57..66 => (Kind::Unplug, severed),
        66..74 => (Kind::Address, severed),
        74..79 => (Kind::Kill, brief),
        79..83 => (Kind::Restart, brief),
        83..88 => (Kind::Pause, if is_brief { brief } else { 5_000 }),
        88..92 => (Kind::DiskFull, long),
        _ => (Kind::Descriptors, long),
    }
}

fn fits(one: &Planned, planned: &[Planned], config: &PlanConfig) -> bool {
    let strike = &one.strike;
    if strike.kind == Kind::Unplug && strike.link == config.delayed_link {
        return false;
    }
    let near = |other: &&Planned| one.overlaps(other, RETURN);
    let mut others = planned.iter().filter(near);
    others.all(|other| {
        let theirs = &other.strike;
        let cut = |strike: &Strike| strike.kind == Kind::Cut;
        // A cut uses, and heals, all links; nothing else may need them.
        if (cut(strike) && (theirs.link.is_some() || cut(theirs)))
            || (cut(theirs) && strike.link.is_some())
        {
            return false;
        }
        let same_node = strike.link.is_none() && theirs.link.is_none();
        if same_node && strike.node == theirs.node {
            return false;
        }
        match (strike.link, theirs.link) {
            (Some(ours), Some(link)) if ours == link => !one.overlaps(other, APART),
            _ => true,
        }
    }) && keeps_a_link(one, planned, config)
}

/// Whether every two nodes still have a link that nothing severs.
fn keeps_a_link(one: &Planned, planned: &[Planned], config: &PlanConfig) -> bool {
    if !one.strike.kind.severs() || one.strike.link.is_none() {
        return true;
    }
    let severed = |nodes: [usize; 2], link: usize| {
        planned
            .iter()
            .chain([one])
            .filter(|other| one.overlaps(other, RETURN))
            .map(|other| &other.strike)
            .filter(|strike| strike.link.is_some() && strike.kind.severs())
            .any(|strike| strike.concerns(nodes, link))
    };
    pairs(config.nodes).all(|nodes| (0..config.links).any(|link| !severed(nodes, link)))
}

/// Every two nodes once.
pub(super) fn pairs(nodes: usize) -> impl Iterator<Item = [usize; 2]> {
    (0..nodes).flat_map(move |a| (a + 1..nodes).map(move |b| [a, b]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::fault::NAMES;

    fn config(seed: u64) -> PlanConfig {
        PlanConfig {
            seed,
            length: Duration::from_secs(1800),
            nodes: 3,
            links: 3,
            delayed_link: Some(2),
            pause: Duration::from_millis(2500),
        }
    }

    #[test]
    fn the_same_seed_plans_the_same() {
        assert_eq!(plan(&config(5)), plan(&config(5)));
        assert_ne!(plan(&config(5)), plan(&config(6)));
    }

    #[test]
    fn every_kind_strikes_in_half_an_hour() {
        let planned = plan(&config(1));
        for name in NAMES {
            let strikes = planned.iter().filter(|one| one.strike.kind.name() == name);
            assert!(strikes.count() > 0, "{name}");
        }
    }

    #[test]
    fn links_never_fail_together_by_chance() {
        for seed in 0..20 {
            for links in 2..=3 {
                let config = PlanConfig {
                    links,
                    delayed_link: (links == 3).then_some(2),
                    ..config(seed)
                };
                let planned = plan(&config);
                let severing =
                    |one: &&Planned| one.strike.link.is_some() && one.strike.kind.severs();
                for one in planned.iter().filter(severing) {
                    // At the instant it begins some link is whole.
                    let now: Vec<_> = planned
                        .iter()
                        .filter(severing)
                        .filter(|o| o.begin <= one.begin && one.begin < o.end)
                        .collect();
                    for nodes in pairs(config.nodes) {
                        let whole = |link| !now.iter().any(|o| o.strike.concerns(nodes, link));
                        assert!((0..links).any(whole), "seed {seed}: {:?} {now:?}", nodes);
                    }
                }
            }
        }
    }
}
