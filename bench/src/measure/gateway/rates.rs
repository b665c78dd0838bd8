//! What goes through: streams each way by themselves, words and new connections on a line without delay.

use std::time::Duration;

use super::queue::{OMIT_S, SPARE, begin_bulk, finish_bulk};
use super::stand::{Stand, Way};
use super::{Measured, samples};
use crate::flow::Flow;
use crate::machine::Processors;
use crate::pingpong::Latency;
use crate::{Bound, Goal, Samples, Table};
use tabane_lab::LabError;

/// Streams to the client, and from it.
pub const CASES: [(usize, usize); 4] = [(1, 0), (0, 1), (100, 0), (0, 100)];

/// Streams of one case.
#[derive(Clone, Copy)]
pub struct Rate {
    mbps: f64,
    /// Of the whole machine, the helpers and the lab included.
    cpu_s_per_gb: f64,
}

impl Rate {
    /// Nothing is known of it.
    pub fn unknown() -> Rate {
        Rate {
            mbps: f64::NAN,
            cpu_s_per_gb: f64::NAN,
        }
    }

    /// Measure it.
    ///
    /// # Errors
    /// A helper does not start, or fails.
    pub fn measure(stand: &Stand, case: (usize, usize), seconds: f64) -> Result<Rate, LabError> {
        let lasting = Duration::from_secs_f64(OMIT_S + seconds) + SPARE;
        let before = Processors::now()?;
        let mut begun = begin_bulk(stand, case, lasting)?;
        begun.wait_ready()?;
        let bulk = finish_bulk(stand, begun)?;
        let busy_s = Processors::now()?.busy_s_since(before);
        let rates = |flows| bulk.rates_mbps(flows, OMIT_S, seconds);
        let mbps = [rates(&bulk.down), rates(&bulk.up)].concat().iter().sum();
        let flows = bulk.down.iter().chain(&bulk.up);
        let bytes = |flow: &Flow| flow.bytes_within(0, u64::MAX) as f64;
        let gb = flows.map(bytes).sum::<f64>() / 1e9;
        Ok(Rate {
            mbps,
            cpu_s_per_gb: busy_s / gb,
        })
    }
}

/// What is over soon.
#[derive(Clone, Copy)]
pub struct Quick {
    round_trip_us: f64,
    greetings_per_s: f64,
}

impl Quick {
    /// Nothing is known of it.
    pub fn unknown() -> Quick {
        Quick {
            round_trip_us: f64::NAN,
            greetings_per_s: f64::NAN,
        }
    }

    /// Measure it, on a line without delay.
    ///
    /// # Errors
    /// A helper does not start, or fails.
    pub fn measure(stand: &Stand, seconds: f64) -> Result<Quick, LabError> {
        let lasting = Duration::from_secs_f64(seconds);
        let latency: Latency = stand.client(0, "talk", lasting, &[])?.result()?;
        Ok(Quick {
            round_trip_us: latency.p50_us * 2.0,
            greetings_per_s: stand.client(0, "greet", lasting, &[])?.result()?,
        })
    }
}

fn of(measured: &Measured, case: usize, value: impl Fn(&Rate) -> f64) -> Samples {
    samples(&measured.rounds, |round| value(&round.rates[case]))
}

fn over_nat(
    all: &[Measured],
    measured: &Measured,
    value: impl Fn(&Measured) -> Samples,
) -> Samples {
    let is_nat = |measured: &&Measured| measured.entrant.way == Way::Nat;
    let nat = all.iter().find(is_nat).map(&value);
    nat.map_or_else(Samples::default, |nat| value(measured).over(&nat))
}

/// Streams by themselves.
pub fn table(all: &[Measured], seconds: f64) -> Table {
    let note = format!(
        "Streams without end between a server on n2 and client c0 for {seconds} s, nothing beside; the same line. The processor \
         time is the whole machine's, which is the nodes, the clients, the line, and whatever else it does."
    );
    let columns = ["streams out + in", "way", "Mb/s", "× NAT", "CPU s/GB"];
    let title = "The outside address: what goes through";
    let mut table = Table::new(title, note, &columns);
    for (case, (down, up)) in CASES.into_iter().enumerate() {
        for measured in all {
            let rate = |measured: &Measured| of(measured, case, |rate| rate.mbps);
            table.rows.push(vec![
                format!("{down} + {up}").into(),
                measured.entrant.to_string().into(),
                rate(measured).into(),
                over_nat(all, measured, rate).into(),
                of(measured, case, |rate| rate.cpu_s_per_gb).into(),
            ]);
        }
    }
    table
}

/// Words and greetings.
pub fn quick_table(all: &[Measured]) -> Table {
    let note = "The same without the 2 ms. Words: 4 bytes and their echo on one connection, half of them in at most so \
        long. Greetings: connect, have a byte echoed, close, 50 at once.";
    let columns = [
        "way",
        "round trip, µs",
        "× NAT",
        "greetings/s",
        "greetings × NAT",
    ];
    let title = "The outside address: words and new connections";
    let mut table = Table::new(title, note, &columns);
    for measured in all {
        let words =
            |measured: &Measured| samples(&measured.rounds, |round| round.quick.round_trip_us);
        let greetings =
            |measured: &Measured| samples(&measured.rounds, |round| round.quick.greetings_per_s);
        table.rows.push(vec![
            measured.entrant.to_string().into(),
            words(measured).into(),
            over_nat(all, measured, words).into(),
            greetings(measured).into(),
            over_nat(all, measured, greetings).into(),
        ]);
    }
    table
}

/// What this way should come to.
pub fn goals(own: &Measured, all: &[Measured]) -> Vec<Goal> {
    let each = [(0, "out"), (1, "in")].map(|(case, way)| {
        let ratio = over_nat(all, own, |measured| of(measured, case, |rate| rate.mbps));
        let what = format!("outside address, one connection, {way}: × NAT");
        Goal::new(what, ratio.median(), Bound::AtLeast(0.98))
    });
    each.into()
}
