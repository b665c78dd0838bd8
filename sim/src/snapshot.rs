//! The goodput table: what bulk gets out of several links, one of which is lossy,
//! slower or further away. Deterministic, so a change of the protocol that changes
//! it shows in review.

use crate::bulk::{DELAY_NS, EFFICIENCY, Traffic};
use crate::net::{Conditions, MS, Ns};
use crate::run::goodput_between;
use crate::runner::share_out;
use crate::schedule::Schedule;
use std::fmt::Write;
use std::path::PathBuf;

/// What the table is made of.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Rate of the best link in bits a second.
    pub best_bps: u64,
    /// The worse link is so many times slower.
    pub ratios: Vec<u64>,
    /// Random loss on the worse link, in percent.
    pub losses: Vec<u32>,
    /// Delay that the worse link has more, one way, in milliseconds.
    pub skews_ms: Vec<Ns>,
    /// Sound links beside the worse one.
    pub sound: usize,
    /// Goodput is measured between these instants.
    pub window: (Ns, Ns),
}

impl Default for Matrix {
    /// That of two links, as measured in the lab as well.
    fn default() -> Matrix {
        Matrix {
            best_bps: 1_000_000_000,
            ratios: vec![1, 4, 10, 100],
            losses: vec![0, 1, 10, 50],
            skews_ms: vec![0, 2, 10, 20],
            sound: 1,
            window: (400 * MS, 800 * MS),
        }
    }
}

impl Matrix {
    /// Four links, one of which is worse.
    fn one_of_four() -> Matrix {
        Matrix {
            ratios: vec![1, 10],
            losses: vec![0, 10, 50],
            skews_ms: vec![0, 20],
            sound: 3,
            ..Matrix::default()
        }
    }
}

/// More links never carry less than this share of what the best one alone does.
const HARM: f64 = 0.98;

/// Where the table lies.
pub fn path() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/snapshots/goodput.txt"
    ))
}

/// One cell of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cell {
    traffic: Traffic,
    ratio: u64,
    loss_percent: u32,
    skew: Ns,
}

/// What was measured in a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Measured {
    bps: f64,
    /// Frames left out.
    left_out: u64,
}

impl Matrix {
    /// The schedule of one cell: no faults, one stream or flow.
    fn schedule(&self, cell: Cell) -> Schedule {
        let wire =
            |rate: u64, delay: Ns| Conditions::clean(rate, delay, (rate / 8 / 20).max(32 * 1024));
        let down = wire(self.best_bps * 10, DELAY_NS / 2);
        let far = DELAY_NS / 2 + cell.skew * MS;
        let links = self.sound + 1;
        let mut s = Schedule::quiet(2, links);
        for host in &mut s.hosts {
            host.wires = vec![(wire(self.best_bps, DELAY_NS / 2), down); links];
            host.wires[self.sound].0 = wire(self.best_bps / cell.ratio, far);
        }
        s.hosts[0].wires[self.sound].0.loss_ppm = cell.loss_percent * 10_000;
        cell.traffic.add_to(&mut s, (0, 1), 0);
        s
    }

    fn measure(&self, cell: Cell) -> Measured {
        let window = self.window;
        let carried = goodput_between(&self.schedule(cell), window, &[(0, 1)]);
        let (bytes, left_out) = match carried {
            Ok(pairs) => pairs[0],
            Err(violation) => panic!("{cell:?}: {violation}"),
        };
        Measured {
            bps: bytes as f64 * 8.0 * 1e9 / (window.1 - window.0) as f64,
            left_out,
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &ratio in &self.ratios {
            for &loss_percent in &self.losses {
                for traffic in [Traffic::Stream, Traffic::Frames] {
                    cells.extend(self.skews_ms.iter().map(|&skew| Cell {
                        traffic,
                        ratio,
                        loss_percent,
                        skew,
                    }));
                }
            }
        }
        cells
    }

    /// Measures every cell.
    pub fn table(&self, threads: usize) -> Table {
        let cells = self.cells();
        let results = share_out(&cells, threads, |cell| self.measure(*cell));
        let best = self.best_bps as f64 * EFFICIENCY;
        let harm = |(_, m): &(&Cell, &Measured)| m.bps < HARM * best;
        let harmed = cells.iter().zip(&results).filter(harm);
        Table {
            text: self.render(&results),
            harmed: harmed.map(|(cell, _)| format!("{cell:?}")).collect(),
        }
    }

    fn render(&self, results: &[Measured]) -> String {
        let mut out = String::new();
        let mut cell = results.iter();
        let (sound, mbps) = (self.sound, self.best_bps / 1_000_000);
        let first = self.best_bps as f64 * EFFICIENCY;
        for ratio in &self.ratios {
            let _ = write!(
                out,
                "\n{sound} × {mbps} Mb/s and one of 1:{ratio}\n{:14}",
                ""
            );
            for skew in &self.skews_ms {
                let _ = write!(out, "{:>16}", format!("+{skew} ms"));
            }
            out.push('\n');
            for loss in &self.losses {
                let worse = first / *ratio as f64 * f64::from(100 - loss) / 100.0;
                let sum = first * self.sound as f64 + worse;
                for traffic in ["stream", "frames"] {
                    let _ = write!(out, "{loss:>4} % {traffic} ");
                    for m in cell.by_ref().take(self.skews_ms.len()) {
                        let _ = write!(out, "{:>16}", m.of(sum, first));
                    }
                    out.push('\n');
                }
            }
        }
        out
    }
}

impl Measured {
    fn of(&self, sum: f64, best: f64) -> String {
        let left_out = match self.left_out {
            0 => String::new(),
            n => format!(" -{n}"),
        };
        let (of_sum, of_best) = (100.0 * self.bps / sum, 100.0 * self.bps / best);
        format!("{of_sum:.0} /{of_best:4.0}{left_out}")
    }
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Table {
    /// In each cell the goodput in percent of what all links can carry, and of what the best
    /// one can.
    pub text: String,
    /// Cells in which more links carry less than the best one alone.
    pub harmed: Vec<String>,
}

/// The snapshot.
pub fn table(threads: usize) -> Table {
    let mut out = Table {
        text: String::from(
            "Goodput over several links: percent of what all of them can carry / percent of what\n\
             the best one alone can. All but one have 1 Gb/s and 0.1 ms; the last one's rate, loss\n\
             and additional delay (one way) vary. Loss is taken off what a link can carry. A\n\
             stream, and frames as TCP sends them over the virtual NIC, under a window of 2.5 MB;\n\
             -N of them were left out. Written by `sim snapshot --write`.\n",
        ),
        harmed: Vec::new(),
    };
    for matrix in [Matrix::default(), Matrix::one_of_four()] {
        let table = matrix.table(threads);
        out.text += &table.text;
        out.harmed.extend(table.harmed);
    }
    out
}
