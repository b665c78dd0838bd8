//! Connections: how long one takes, how long 300 at once, and 10,000 that are open together.

use super::two_nodes;
use crate::connections::Connected;
use crate::helper::{Pair, target};
use crate::machine::resident_bytes;
use crate::{Bound, Goal, Report, Samples, Settings, Stand, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::ways::{Arena, Way};
use tabane_lab::{LabError, LinkSpec};

const ONE_BY_ONE: usize = 500;
const AT_ONCE: usize = 300;
const OPEN: usize = 10_000;

/// What was seen of one way, a sample each round.
#[derive(Default)]
struct Figures {
    each_p50_us: Samples,
    each_p99_us: Samples,
    at_once_ms: Samples,
    answered: Samples,
    memory_kb: Samples,
}

/// On 2 links of 1 Gb/s, nothing else going on.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let wire = Wire::Encrypted;
    let ways = [
        Way::Tcp { link: 0 },
        Way::Mptcp,
        Way::Tabane(wire),
        Way::Run(wire),
        Way::Library { wire, spins: true },
    ];
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let entrants = settings.entrants(&ways).into_iter();
    let mut all: Vec<_> = entrants
        .map(|entrant| (entrant, Figures::default()))
        .collect();
    for _ in 0..settings.rounds {
        // What daemons keep of connections that are gone must not count for the next round.
        for stand in settings.stands(&ways, &config)? {
            let own = all
                .iter_mut()
                .find(|(entrant, _)| *entrant == stand.entrant);
            if let Some((_, figures)) = own {
                once(&stand, figures)?;
            }
        }
    }
    let note = format!(
        "{ONE_BY_ONE} one after the other, {AT_ONCE} by as many threads at once, then {OPEN} open \
         together, on each of which 1 KB is said and answered three times. Memory is that of both \
         ends' programs and daemons, for each open connection; what the kernel has is not in it."
    );
    let columns = [
        "way",
        "one, p50, µs",
        "one, p99, µs",
        &format!("{AT_ONCE} at once, ms"),
        &format!("answered of {OPEN}"),
        "memory each, KB",
    ];
    let mut table = Table::new("Connections, 2 × 1 Gb/s", note, &columns);
    let mut goals = Vec::new();
    for (entrant, figures) in all {
        if entrant.is_own() {
            goals.extend(goals_of(entrant.way, &figures));
        }
        table.rows.push(vec![
            entrant.to_string().into(),
            figures.each_p50_us.into(),
            figures.each_p99_us.into(),
            figures.at_once_ms.into(),
            figures.answered.into(),
            figures.memory_kb.into(),
        ]);
    }
    Ok(Report {
        tables: vec![table],
        goals,
        ..Report::default()
    })
}

/// What is promised of `tabane run`, and of the library.
fn goals_of(way: Way, figures: &Figures) -> Vec<Goal> {
    let mut goals = Vec::new();
    if let Way::Run(_) = way {
        let (each, at_once) = (figures.each_p50_us.median(), figures.at_once_ms.median());
        let what = format!("{way}: connect, p50, µs");
        goals.push(Goal::new(what, each, Bound::AtMost(200.0)));
        let what = format!("{way}: {AT_ONCE} connects at once, ms");
        goals.push(Goal::new(what, at_once, Bound::AtMost(100.0)));
    }
    if let Way::Run(_) | Way::Library { .. } = way {
        let what = format!("{way}: answered of {OPEN} open streams");
        let least = Bound::AtLeast(OPEN as f64);
        goals.push(Goal::new(what, figures.answered.min(), least));
    }
    goals
}

fn once(stand: &Stand, figures: &mut Figures) -> Result<(), LabError> {
    let load = ["--one-by-one", "--at-once", "--open"].map(str::to_owned);
    let counts = [ONE_BY_ONE, AT_ONCE, OPEN].map(|count| count.to_string());
    let load: Vec<String> = load
        .into_iter()
        .zip(counts)
        .flat_map(|(a, b)| [a, b])
        .collect();
    let client = [vec![target(stand, 1)], load.clone()].concat();
    let before = daemons_bytes(stand)?;
    let pair = Pair::begin(stand, ("connect", &client), ("accept", &load))?;
    // The daemons' memory does not shrink when the connections are closed.
    let (near, far): (Connected, Connected) = pair.results()?;
    let daemons_mb = daemons_bytes(stand)?.saturating_sub(before) as f64 / 1e6;
    let at = |share: f64| near.each_us.quantile(share).unwrap_or(f64::NAN);
    figures.each_p50_us.0.push(at(0.5));
    figures.each_p99_us.0.push(at(0.99));
    figures.at_once_ms.0.push(near.at_once_ms);
    figures
        .answered
        .0
        .push(near.answered.min(far.answered) as f64);
    let memory_mb = near.memory_mb + far.memory_mb + daemons_mb;
    figures.memory_kb.0.push(memory_mb * 1e3 / OPEN as f64);
    Ok(())
}

/// What the daemons of both nodes have in memory; 0 if there are none.
fn daemons_bytes(arena: &Arena) -> Result<u64, LabError> {
    let Some(cluster) = arena.cluster() else {
        return Ok(0);
    };
    let daemons = (0..2).filter_map(|node| cluster.daemon(node));
    daemons.map(|daemon| resident_bytes(daemon.id())).sum()
}
