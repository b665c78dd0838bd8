//! The goodput table: what a striped bulk stream gets out of two links, one of
//! which is lossy, slower or further away. Deterministic, so a change of the
//! protocol that changes it shows in review.

use crate::net::{Conditions, MS, Ns, US};
use crate::run::stream_bytes_between;
use crate::schedule::Schedule;
use crate::workload::{Ending, Pace, Reader, StreamPlan};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tabane_proto::op::Policy;

/// Random loss on the second link, in percent.
const LOSSES: [u32; 5] = [0, 1, 5, 30, 50];
/// Delay that the second link has more, one way, in milliseconds.
const SKEWS_MS: [Ns; 5] = [0, 2, 5, 10, 20];
/// The first link is so many times as fast as the second.
const RATIOS: [u64; 4] = [1, 4, 10, 100];

/// Rate of the first link.
const RATE_BPS: u64 = 200_000_000;
/// One way delay of the first link, wire to switch and switch to wire together.
const DELAY_NS: Ns = 100 * US;
/// Bytes of stream in a full packet of 1472, for each 1538 on the wire: what a
/// perfect protocol would get.
const EFFICIENCY: f64 = 1430.0 / 1538.0;
/// Goodput is measured between these instants.
const WINDOW: (Ns, Ns) = (500 * MS, 900 * MS);

/// Where the table lies.
pub fn path() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/snapshots/goodput.txt"
    ))
}

/// The schedule of one cell: no faults, one stream.
fn schedule(loss_percent: u32, skew: Ns, ratio: u64) -> Schedule {
    let wire =
        |rate: u64, delay: Ns| Conditions::clean(rate, delay, (rate / 8 / 20).max(32 * 1024));
    let down = wire(RATE_BPS * 10, DELAY_NS / 2);
    let far = DELAY_NS / 2 + skew * MS;
    let mut s = Schedule::quiet(2, 2);
    for host in &mut s.hosts {
        host.wires = vec![
            (wire(RATE_BPS, DELAY_NS / 2), down),
            (wire(RATE_BPS / ratio, far), down),
        ];
    }
    s.hosts[0].wires[1].0.loss_ppm = loss_percent * 10_000;
    s.plan.streams.push(StreamPlan {
        from: 0,
        to: 1,
        policy: Policy::Stripe,
        forward_bytes: 1 << 40,
        back_bytes: 0,
        start: 0,
        pace: Pace::Bulk,
        reader: Reader::Eager,
        ending: Ending::Finish,
    });
    s
}

/// Goodput of one cell in bits a second.
fn goodput(loss: u32, skew: Ns, ratio: u64) -> f64 {
    let bytes = match stream_bytes_between(&schedule(loss, skew, ratio), WINDOW) {
        Ok(bytes) => bytes,
        Err(violation) => panic!("loss {loss} %, +{skew} ms, 1:{ratio}: {violation}"),
    };
    bytes as f64 * 8.0 * 1e9 / (WINDOW.1 - WINDOW.0) as f64
}

/// The table as text: in each cell the goodput in percent of what both links can
/// carry, and of what the better one can.
pub fn table(threads: usize) -> String {
    let cells: Vec<(u64, u32, Ns)> = RATIOS
        .iter()
        .flat_map(|r| LOSSES.iter().map(move |l| (*r, *l)))
        .flat_map(|(r, l)| SKEWS_MS.iter().map(move |s| (r, l, *s)))
        .collect();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![0.0; cells.len()]);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((ratio, loss, skew)) =
                    cells.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let i = cells.iter().position(|c| c == &(*ratio, *loss, *skew));
                    let bps = goodput(*loss, *skew, *ratio);
                    if let Some(i) = i {
                        results.lock().expect("no panic while locked")[i] = bps;
                    }
                }
            });
        }
    });
    let results = results.into_inner().expect("no panic while locked");
    render(&results)
}

fn render(results: &[f64]) -> String {
    let mut out = String::from(
        "Goodput of a striped bulk stream over two links: percent of what both can carry /\n\
         percent of what the better one alone can. The first has 200 Mb/s and 0.1 ms; the\n\
         second's rate, loss and additional delay (one way) vary. Loss is taken off what a\n\
         link can carry. Written by `sim snapshot --write`.\n",
    );
    let mut cell = results.iter();
    for ratio in RATIOS {
        let _ = write!(out, "\nrates 1:{ratio}\n  loss  ");
        for skew in SKEWS_MS {
            let _ = write!(out, "{:>12}", format!("+{skew} ms"));
        }
        out.push('\n');
        for loss in LOSSES {
            let _ = write!(out, "  {:>4} %", loss);
            let first = RATE_BPS as f64 * EFFICIENCY;
            let second = first / ratio as f64 * f64::from(100 - loss) / 100.0;
            for _ in SKEWS_MS {
                let bps = cell.next().copied().unwrap_or_default();
                let of_sum = 100.0 * bps / (first + second);
                let of_best = 100.0 * bps / first.max(second);
                let _ = write!(out, "{:>12}", format!("{of_sum:.0} /{of_best:4.0}"));
            }
            out.push('\n');
        }
    }
    out
}
