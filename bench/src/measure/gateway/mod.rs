//! The cluster's outside address, beside what else gives a cluster one: who waits behind whom, what goes through, and what
//! is noticed when another gateway takes over.

mod abuse;
mod cost;
mod device;
mod helper;
mod queue;
mod rates;
mod stand;
mod takeover;

pub use abuse::measure as measure_abuse;
pub use helper::Outside;

use std::time::Duration;

use crate::{Report, Samples, Settings};
use queue::Load;
use rates::{Quick, Rate};
use stand::{Entrant, Stand};
use tabane_lab::LabError;
use takeover::Run;

/// Of the line outside, unless it is to be without delay.
const ROUND_TRIP: Duration = Duration::from_millis(2);

/// One round of one entrant.
struct Round {
    loads: [Load; queue::CASES.len()],
    rates: [Rate; rates::CASES.len()],
    quick: Quick,
}

/// All rounds of one entrant.
struct Measured {
    entrant: Entrant,
    rounds: Vec<Round>,
    /// Why it cannot be measured here.
    left_out: Option<LabError>,
}

fn samples<T>(rounds: &[T], of: impl Fn(&T) -> f64) -> Samples {
    Samples(rounds.iter().map(of).collect())
}

/// All of it: the ways in turn, round by round; then what happens to a gateway.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let measured = |entrant| Measured {
        entrant,
        rounds: Vec::new(),
        left_out: None,
    };
    let entrants = Entrant::all(settings);
    let mut all: Vec<_> = entrants.iter().copied().map(measured).collect();
    for _ in 0..settings.rounds {
        for one in all.iter_mut().filter(|one| one.left_out.is_none()) {
            match Round::measure(settings, one.entrant) {
                Ok(round) => one.rounds.push(round),
                Err(error) if one.entrant.way.is_tabane() => return Err(error),
                Err(error) => one.left_out = Some(error),
            }
        }
    }
    // The queue has no part in it.
    let taking_over = entrants.iter().filter(|entrant| entrant.can_be_moved());
    let mut runs: Vec<_> = taking_over.copied().map(Run::new).collect();
    for _ in 0..settings.times {
        runs.iter_mut().try_for_each(|run| run.again(settings))?;
    }
    let mut report = Report::default();
    for one in all.iter_mut() {
        if let Some(why) = one.left_out.take() {
            report.leave_out(format!("outside address: {}", one.entrant), why);
        }
    }
    all.retain(|one| !one.rounds.is_empty());
    for entrant in entrants.iter().filter(|entrant| !entrant.way.is_tabane()) {
        let why = "has nothing of its own by which another gateway takes over";
        report.leave_out(format!("outside address, another gateway: {entrant}"), why);
    }
    report.tables = vec![
        queue::table(&all, settings.seconds),
        rates::table(&all, settings.seconds),
        rates::quick_table(&all),
        takeover::table(&runs, settings.times),
    ];
    if let Some(own) = all.iter().find(|one| one.entrant.is_own()) {
        report.goals.extend(queue::goals(own, &all));
        report.goals.extend(rates::goals(own, &all));
    }
    let own = runs.iter().filter(|run| run.entrant.is_own());
    report.goals.extend(own.flat_map(takeover::goals));
    Ok(report)
}

impl Round {
    /// On two labs of its own: with the usual line, and with one without delay.
    ///
    /// # Errors
    /// These do not come up. What fails on them is told, and unknown.
    fn measure(settings: &Settings, entrant: Entrant) -> Result<Round, LabError> {
        let seconds = settings.seconds;
        let stand = Stand::up(settings, entrant, ROUND_TRIP)?;
        let load = |case| told(entrant, Load::measure(&stand, case, seconds), Load::unknown);
        let loads = queue::CASES.map(load);
        let rate = |case| told(entrant, Rate::measure(&stand, case, seconds), Rate::unknown);
        let rates = rates::CASES.map(rate);
        drop(stand);
        let stand = Stand::up(settings, entrant, Duration::ZERO)?;
        let quick = told(entrant, Quick::measure(&stand, seconds), Quick::unknown);
        Ok(Round {
            loads,
            rates,
            quick,
        })
    }
}

/// What failed is told, and unknown.
fn told<T>(entrant: Entrant, result: Result<T, LabError>, unknown: fn() -> T) -> T {
    result.unwrap_or_else(|error| {
        eprintln!("bench: outside address, {entrant}: counted as failed: {error}");
        unknown()
    })
}
