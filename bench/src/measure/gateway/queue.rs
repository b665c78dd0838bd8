//! Who waits behind whom: short transfers of one client beside streams without end of the other one.

use std::thread::sleep;
use std::time::Duration;

use super::device::Watch;
use super::helper::{Bulk, Fetched};
use super::stand::{Client, GATEWAY, LINE_MBIT, SERVER, Stand, Way};
use super::{Measured, samples};
use crate::flow::jain_index;
use crate::{Bound, Cell, Goal, Samples, Table};
use tabane_lab::{LabError, OUTSIDE_DEVICE};

/// Streams to the client, and from it.
pub const CASES: [(usize, usize); 6] = [(0, 0), (2, 0), (10, 0), (100, 0), (5, 5), (50, 50)];
/// Of these, goals are of those that only go to the client.
const OUTWARD: std::ops::Range<usize> = 1..4;

/// After the last stream began, so long passes before anything counts, s.
pub const OMIT_S: f64 = 0.2;
/// Streams last so much longer than they are looked at.
pub const SPARE: Duration = Duration::from_millis(300);

/// At most, bytes: half a millisecond of the line.
const QUEUE_MAX_BYTES: f64 = 62_500.0;

/// What one case came to.
pub struct Load {
    /// Of the transfers, ms.
    median_ms: f64,
    p90_ms: f64,
    failed: usize,
    /// Of the streams to the client; of those from it if there are no others.
    jain: f64,
    down_mbps: f64,
    up_mbps: f64,
    /// What stands in the gateway's device, on average.
    queue_bytes: f64,
    /// And in the device of the server's node by which NAT and HAProxy reach it.
    link_bytes: f64,
}

impl Load {
    /// Nothing is known of it.
    pub fn unknown() -> Load {
        Load {
            median_ms: f64::NAN,
            p90_ms: f64::NAN,
            failed: 0,
            jain: f64::NAN,
            down_mbps: f64::NAN,
            up_mbps: f64::NAN,
            queue_bytes: f64::NAN,
            link_bytes: f64::NAN,
        }
    }

    /// Measure it.
    ///
    /// # Errors
    /// A helper does not start, or fails.
    pub fn measure(
        stand: &Stand,
        (down, up): (usize, usize),
        seconds: f64,
    ) -> Result<Load, LabError> {
        let lasting = Duration::from_secs_f64(seconds);
        let omitted = Duration::from_secs_f64(OMIT_S);
        let mut bulk = None;
        if down + up > 0 {
            let mut begun = begin_bulk(stand, (down, up), omitted + lasting + SPARE)?;
            begun.wait_ready()?;
            sleep(omitted);
            bulk = Some(begun);
        }
        let queue = Watch::begin(stand.lab(), GATEWAY, OUTSIDE_DEVICE)?;
        let link = Watch::begin(stand.lab(), SERVER, "eth0")?;
        let fetched: Fetched = stand.client(1, "fetch", lasting, &[])?.result()?;
        let (queue_bytes, link_bytes) = (queue.end()?, link.end()?);
        let bulk = bulk.map(|bulk| finish_bulk(stand, bulk));
        let bulk = bulk.transpose()?.unwrap_or_default();
        let rates = |flows| bulk.rates_mbps(flows, OMIT_S, seconds);
        let (got, given) = (rates(&bulk.down), rates(&bulk.up));
        let times = Samples(fetched.each_ms);
        Ok(Load {
            median_ms: times.median().unwrap_or(f64::NAN),
            p90_ms: times.quantile(0.9).unwrap_or(f64::NAN),
            failed: fetched.failed,
            jain: jain_index(if down > 0 { &got } else { &given }),
            down_mbps: got.iter().sum(),
            up_mbps: given.iter().sum(),
            queue_bytes,
            link_bytes,
        })
    }
}

/// Streams without end, of the first client.
///
/// # Errors
/// The helper does not start.
pub fn begin_bulk(
    stand: &Stand,
    (down, up): (usize, usize),
    lasting: Duration,
) -> Result<Client, LabError> {
    let more = [format!("--down={down}"), format!("--up={up}")];
    stand.client(0, "bulk", lasting, &more)
}

/// What became of them.
///
/// # Errors
/// The helper failed.
pub fn finish_bulk(stand: &Stand, client: Client) -> Result<Bulk, LabError> {
    let bulk: Bulk = client.result()?;
    if !bulk.is_whole {
        let (who, down, up) = (stand.entrant, bulk.down.len(), bulk.up.len());
        eprintln!(
            "bench: outside address, {who}: of {down} + {up} streams some had not begun after 10 s"
        );
    }
    Ok(bulk)
}

fn of(measured: &Measured, case: usize, value: impl Fn(&Load) -> f64) -> Samples {
    samples(&measured.rounds, |round| value(&round.loads[case]))
}

/// How many times as long as with nothing beside.
fn over_idle(measured: &Measured, case: usize, value: impl Fn(&Load) -> f64) -> Samples {
    let idle = of(measured, 0, |load| load.median_ms);
    of(measured, case, value).over(&idle)
}

/// All cases.
pub fn table(all: &[Measured], seconds: f64) -> Table {
    let note = format!(
        "Streams without end between a server on n2 and client c0; client c1 fetches 100 KB from it again and again, each \
         by a new connection, for {seconds} s. The line outside: {LINE_MBIT} Mb/s, a round trip of 2 ms, a queue of \
         1.5 MB each way. Ratios are to the median with no streams, of the same round. Rates are of the streams alone, from {} \
         ms after the last of them began. The queues are those of the gateway's device outside and of \
         n2's on link 0, which is as fast as the line: there NAT's packets wait. Cubic.",
        OMIT_S * 1e3
    );
    let columns = [
        "streams out + in",
        "way",
        "100 KB median, ms",
        "× idle",
        "p90, ms",
        "p90 × idle",
        "failed",
        "Jain's index",
        "out, Mb/s",
        "in, Mb/s",
        "mean queue outside, KB",
        "of link 0, KB",
    ];
    let title = "The outside address: transfers beside streams";
    let mut table = Table::new(title, note, &columns);
    for (case, (down, up)) in CASES.into_iter().enumerate() {
        for measured in all {
            let if_some = |streams: usize, of: fn(&Load) -> f64| match streams {
                0 => Cell::from("–"),
                _ => self::of(measured, case, of).into(),
            };
            let failed = measured.rounds.iter().map(|round| round.loads[case].failed);
            table.rows.push(vec![
                format!("{down} + {up}").into(),
                measured.entrant.to_string().into(),
                of(measured, case, |load| load.median_ms).into(),
                over_idle(measured, case, |load| load.median_ms).into(),
                of(measured, case, |load| load.p90_ms).into(),
                over_idle(measured, case, |load| load.p90_ms).into(),
                failed.sum::<usize>().to_string().into(),
                if_some(down + up, |load| load.jain),
                if_some(down, |load| load.down_mbps),
                if_some(up, |load| load.up_mbps),
                of(measured, case, |load| load.queue_bytes / 1e3).into(),
                of(measured, case, |load| load.link_bytes / 1e3).into(),
            ]);
        }
    }
    table
}

/// What this way should come to.
pub fn goals(own: &Measured, all: &[Measured]) -> Vec<Goal> {
    let is_nat = |measured: &&Measured| measured.entrant.way == Way::Nat;
    let nat = all.iter().find(is_nat);
    let each = OUTWARD.flat_map(|case| {
        let (streams, _) = CASES[case];
        let what = |what: &str| format!("outside address, {streams} streams: {what}");
        let of_nat = nat.map(|nat| {
            let base = of(nat, case, |load| load.down_mbps);
            of(own, case, |load| load.down_mbps).over(&base)
        });
        [
            Goal::new(
                what("100 KB, median × idle"),
                over_idle(own, case, |load| load.median_ms).median(),
                Bound::AtMost(1.10),
            ),
            Goal::new(
                what("100 KB, p90 × the median when idle"),
                over_idle(own, case, |load| load.p90_ms).median(),
                Bound::AtMost(1.5),
            ),
            Goal::new(
                what("Jain's index"),
                of(own, case, |load| load.jain).median(),
                Bound::AtLeast(0.99),
            ),
            Goal::new(
                what("together × NAT"),
                of_nat.and_then(|ratio| ratio.median()),
                Bound::AtLeast(0.97),
            ),
            Goal::new(
                what("mean queue, KB"),
                of(own, case, |load| load.queue_bytes / 1e3).median(),
                Bound::AtMost(QUEUE_MAX_BYTES / 1e3),
            ),
        ]
    });
    each.collect()
}
