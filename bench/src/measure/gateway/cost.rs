//! What the outside address costs: processor seconds for a gigabyte, beside those of what it is made of.

use std::time::Duration;

use super::queue::{OMIT_S, SPARE};
use super::samples;
use super::stand::{Client, Entrant, Stand, Way};
use crate::flow::Flow;
use crate::machine::tree_s;
use crate::{Bound, Build, Goal, Samples, Settings, Table};
use tabane_lab::LabError;

use super::helper::Bulk;

/// A stream to the client, and one from it.
const CASES: [(usize, usize); 2] = [(1, 0), (0, 1)];

/// Processor seconds for a gigabyte, of each case, of one round.
pub struct Cost {
    fair: [f64; CASES.len()],
    kernel_queue: [f64; CASES.len()],
    /// Of a stream between two nodes, under `tabane run`.
    inside: [f64; CASES.len()],
    /// Of a stream between a client and the kernel that has the address.
    bare: [f64; CASES.len()],
}

impl Cost {
    /// Measure it, on lines without delay.
    ///
    /// # Errors
    /// A lab or a helper does not come up, or fails.
    pub fn measure(settings: &Settings) -> Result<Cost, LabError> {
        let seconds = settings.seconds;
        let up = |way| {
            let build = Build::Own;
            Stand::up(settings, Entrant { way, build }, Duration::ZERO)
        };
        let of_client = |way| {
            let stand = up(way)?;
            each(
                |word, lasting, more| stand.client(0, word, lasting, more),
                seconds,
            )
        };
        let stand = up(Way::Tabane)?;
        let inside = each(
            |word, lasting, more| stand.inside(word, lasting, more),
            seconds,
        )?;
        drop(stand);
        Ok(Cost {
            fair: of_client(Way::Tabane)?,
            kernel_queue: of_client(Way::KernelQueue)?,
            inside,
            bare: of_client(Way::Bare)?,
        })
    }

    /// What the outside address is made of.
    fn parts(&self, case: usize) -> f64 {
        self.inside[case] + self.bare[case]
    }
}

/// All cases of one way, whose helpers are started so.
fn each(
    start: impl Fn(&str, Duration, &[String]) -> Result<Client, LabError>,
    seconds: f64,
) -> Result<[f64; CASES.len()], LabError> {
    let lasting = Duration::from_secs_f64(OMIT_S + seconds) + SPARE;
    let mut costs = [f64::NAN; CASES.len()];
    for ((down, up), cost) in CASES.into_iter().zip(&mut costs) {
        let before_s = tree_s()?;
        let more = [format!("--down={down}"), format!("--up={up}")];
        let mut begun = start("bulk", lasting, &more)?;
        begun.wait_ready()?;
        let bulk: Bulk = begun.result()?;
        let flows = bulk.down.iter().chain(&bulk.up);
        let bytes = |flow: &Flow| flow.bytes_within(0, u64::MAX) as f64;
        let gb = flows.map(bytes).sum::<f64>() / 1e9;
        *cost = (tree_s()? - before_s) / gb;
    }
    Ok(costs)
}

fn of(costs: &[Cost], value: impl Fn(&Cost) -> f64) -> Samples {
    samples(costs, value)
}

/// All cases.
pub fn table(costs: &[Cost]) -> Table {
    let note = "Processor seconds for a gigabyte of one stream of a program on n2, on a line without delay: of the processes of this measurement, \
        which are the helpers, the nodes and the lab (what the kernel does for them on threads of its own is not in it). Inside: from n0, under \
        `tabane run`. A kernel by itself: the program is on n0, whose kernel has the address.";
    let columns = [
        "streams out + in",
        "outside address, CPU s/GB",
        "kernel's queue",
        "× kernel's queue",
        "inside",
        "a kernel by itself",
        "× (inside + kernel)",
    ];
    let mut table = Table::new("The outside address: what a gigabyte costs", note, &columns);
    for (case, (down, up)) in CASES.into_iter().enumerate() {
        let fair = of(costs, |cost| cost.fair[case]);
        let kernel_queue = of(costs, |cost| cost.kernel_queue[case]);
        let parts = of(costs, |cost| cost.parts(case));
        table.rows.push(vec![
            format!("{down} + {up}").into(),
            fair.clone().into(),
            kernel_queue.clone().into(),
            fair.over(&kernel_queue).into(),
            of(costs, |cost| cost.inside[case]).into(),
            of(costs, |cost| cost.bare[case]).into(),
            fair.over(&parts).into(),
        ]);
    }
    table
}

/// What it should come to.
pub fn goals(costs: &[Cost]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for (case, way) in [(0, "out"), (1, "in")] {
        let fair = of(costs, |cost| cost.fair[case]);
        let mut goal = |what: &str, base: Samples, most: f64| {
            let ratio = fair.over(&base).median();
            let what = format!("outside address, processor time of a GB {way}: × {what}");
            goals.push(Goal::new(what, ratio, Bound::AtMost(most)));
        };
        let parts = of(costs, |cost| cost.parts(case));
        goal("that inside and a kernel's", parts, 1.0);
        let kernel_queue = of(costs, |cost| cost.kernel_queue[case]);
        goal("with the kernel's queue", kernel_queue, 1.3);
    }
    goals
}
