//! Another gateway takes over while streams and words go on.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::ROUND_TRIP;
use super::helper::{Borne, STEADY_MBIT, TALKERS, WORD_BYTES, WORD_EVERY};
use super::stand::{Entrant, GATEWAY, Stand, finish};
use crate::pulse::Pulses;
use crate::timeline::{Sent, Timeline, judge};
use crate::{Bound, Goal, Samples, Settings, Table};
use tabane_lab::cluster::Cluster;
use tabane_lab::{Fault, LabError, monotonic_ns};

const BEFORE: Duration = Duration::from_millis(700);
const AFTER: Duration = Duration::from_millis(2500);
/// What happens takes its time: the traffic lasts for so much longer.
const SPARE: Duration = Duration::from_millis(1000);
/// The one that takes over.
const NEXT: usize = 1;

/// What happens to the gateway that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It hands over.
    Moved,
    /// Its daemon is killed.
    Killed,
    /// The cable that leads outside is gone.
    Unplugged,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Moved, Kind::Killed, Kind::Unplugged];

    fn name(self) -> &'static str {
        match self {
            Kind::Moved => "gateway moved",
            Kind::Killed => "its daemon killed",
            Kind::Unplugged => "its cable gone",
        }
    }

    fn happen(self, cluster: &mut Cluster) -> Result<(), LabError> {
        match self {
            Kind::Moved => {
                let mut command = cluster.tabane(NEXT);
                command.args(["gateway", "move"]).stdin(Stdio::null());
                finish("tabane gateway move", "n1", command)
            }
            Kind::Killed => cluster.kill(GATEWAY),
            Kind::Unplugged => {
                let failed = cluster.lab().fail_outside(Fault::Carrier, Some(GATEWAY));
                failed.map(drop)
            }
        }
    }
}

/// How it was borne once. Gaps are the longest times without anything, ms.
pub struct Bore {
    down_gap_ms: f64,
    up_gap_ms: f64,
    /// Of the connection that talks whose gap was the longest.
    talk_gap_ms: f64,
    /// Between two new connections that succeed.
    knock_gap_ms: f64,
    broken: usize,
    wrong: usize,
}

impl Bore {
    /// Nobody knows what became of them.
    fn unknown() -> Bore {
        Bore {
            down_gap_ms: f64::NAN,
            up_gap_ms: f64::NAN,
            talk_gap_ms: f64::NAN,
            knock_gap_ms: f64::NAN,
            broken: TALKERS + 2,
            wrong: 0,
        }
    }

    fn judged(borne: &Borne, knocked: &Pulses, from_ns: u64) -> Bore {
        let until_ns = from_ns + AFTER.as_nanos() as u64;
        let stream = |(timeline, sent): &(Timeline, Sent)| {
            let judged = judge(timeline, sent, from_ns, until_ns, 1.0);
            // Cut off without an error is broken, too.
            let is_broken = judged.is_broken || timeline.bytes < sent.bytes;
            (judged.gap_ms, is_broken, timeline.wrong_at.is_some())
        };
        let streams = [stream(&borne.down), stream(&borne.up)];
        let talks = &borne.talks;
        let gaps = talks
            .iter()
            .map(|talk| talk.echoes.gap_ms(from_ns, until_ns));
        let broken_talks = talks.iter().filter(|talk| talk.error.is_some()).count();
        let wrong_talks = talks.iter().filter(|talk| talk.is_wrong).count();
        let count =
            |of: fn(&(f64, bool, bool)) -> bool| streams.iter().filter(|one| of(one)).count();
        Bore {
            down_gap_ms: streams[0].0,
            up_gap_ms: streams[1].0,
            talk_gap_ms: gaps.fold(f64::NAN, f64::max),
            knock_gap_ms: knocked.gap_ms(from_ns, until_ns),
            broken: count(|one| one.1) + broken_talks,
            wrong: count(|one| one.2) + wrong_talks,
        }
    }
}

/// One way through all of it.
pub struct Run {
    /// Whose.
    pub entrant: Entrant,
    bore: [Vec<Bore>; Kind::ALL.len()],
}

impl Run {
    /// Not tried yet.
    pub fn new(entrant: Entrant) -> Run {
        let bore = Kind::ALL.map(|_| Vec::new());
        Run { entrant, bore }
    }

    /// Once more, each on a lab of its own. What goes wrong is told and counts as broken.
    ///
    /// # Errors
    /// The cluster does not come up.
    pub fn again(&mut self, settings: &Settings) -> Result<(), LabError> {
        for (kind, bore) in Kind::ALL.into_iter().zip(&mut self.bore) {
            let mut stand = Stand::up(settings, self.entrant, ROUND_TRIP)?;
            bore.push(once(&mut stand, kind).unwrap_or_else(|error| {
                let (who, what) = (self.entrant, kind.name());
                eprintln!("bench: {who}, {what}: counted as broken: {error}");
                if let Some(cluster) = stand.cluster() {
                    eprintln!("n0: {}\nn1: {}", cluster.log(GATEWAY), cluster.log(NEXT));
                }
                Bore::unknown()
            }));
        }
        Ok(())
    }
}

fn once(stand: &mut Stand, kind: Kind) -> Result<Bore, LabError> {
    let lasting = BEFORE + AFTER + SPARE;
    let mut bear = stand.client(0, "bear", lasting, &[])?;
    bear.wait_ready()?;
    let knock = stand.client(1, "knock", lasting, &[])?;
    sleep(BEFORE);
    let from_ns = monotonic_ns();
    match stand.cluster() {
        Some(cluster) => kind.happen(cluster)?,
        None => return Ok(Bore::unknown()),
    }
    let (borne, knocked): (Borne, Pulses) = (bear.result()?, knock.result()?);
    let bore = Bore::judged(&borne, &knocked, from_ns);
    if bore.broken + bore.wrong > 0 {
        tell(&borne, kind);
    }
    Ok(bore)
}

/// What broke, and how.
fn tell(borne: &Borne, kind: Kind) {
    let stream = |name: &str, (timeline, sent): &(Timeline, Sent)| {
        eprintln!(
            "bench: {}, stream {name}: {} bytes of {} came, wrong from {:?} on; receiver: {:?}; sender: {:?}",
            kind.name(),
            timeline.bytes,
            sent.bytes,
            timeline.wrong_at,
            timeline.error,
            sent.error
        );
    };
    stream("out", &borne.down);
    stream("in", &borne.up);
    let errors = borne.talks.iter().filter_map(|talk| talk.error.as_ref());
    errors.for_each(|error| eprintln!("bench: {}, a connection that talks: {error}", kind.name()));
}

/// All kinds.
pub fn table(runs: &[Run], times: usize) -> Table {
    let note = format!(
        "{times} times each, on a fresh lab every time. One stream of {STEADY_MBIT} Mb/s each way and {TALKERS} connections \
         that have {WORD_BYTES} bytes echoed every {} ms, of client c0; c1 begins a new connection every 10 ms. The longest \
         time without anything within {} s from the order on: a byte of a stream, an echo on the worst of the connections, a \
         new connection that has a byte echoed. Medians (least–greatest). Of {} connections each time.",
        WORD_EVERY.as_millis(),
        AFTER.as_secs_f64(),
        TALKERS + 2,
    );
    let columns = [
        "what happens",
        "entrant",
        "stream out, ms",
        "stream in, ms",
        "words, ms",
        "new connections, ms",
        "broken",
        "with wrong bytes",
    ];
    let mut table = Table::new(
        "The outside address: another gateway takes over",
        note,
        &columns,
    );
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        for run in runs {
            let bore = &run.bore[index];
            let total = |of: fn(&Bore) -> usize| bore.iter().map(of).sum::<usize>().to_string();
            table.rows.push(vec![
                kind.name().into(),
                run.entrant.to_string().into(),
                gaps(bore, |bore| bore.down_gap_ms).into(),
                gaps(bore, |bore| bore.up_gap_ms).into(),
                gaps(bore, |bore| bore.talk_gap_ms).into(),
                gaps(bore, |bore| bore.knock_gap_ms).into(),
                total(|bore| bore.broken).into(),
                total(|bore| bore.wrong).into(),
            ]);
        }
    }
    table
}

fn gaps(bore: &[Bore], of: impl Fn(&Bore) -> f64) -> Samples {
    Samples(bore.iter().map(of).collect())
}

/// Of a gateway that was moved the worst counts, else the median and the worst; of what was there the worst of streams and words.
pub fn goals(run: &Run) -> Vec<Goal> {
    let each = Kind::ALL
        .into_iter()
        .zip(&run.bore)
        .flat_map(|(kind, bore)| {
            let what = |what: &str| format!("outside address, {}: {what}", kind.name());
            let longest = gaps(bore, |bore| {
                bore.down_gap_ms.max(bore.up_gap_ms).max(bore.talk_gap_ms)
            });
            let knocks = gaps(bore, |bore| bore.knock_gap_ms);
            let count = |of: fn(&Bore) -> usize| Some(bore.iter().map(of).sum::<usize>() as f64);
            let bounds = match kind {
                Kind::Moved => vec![("longest gap, the worst, ms", longest.max(), 60.0)],
                _ => vec![
                    ("longest gap, median, ms", longest.median(), 250.0),
                    ("longest gap, the worst, ms", longest.max(), 500.0),
                ],
            };
            let common = [
                ("new connections again, the worst, ms", knocks.max(), 300.0),
                ("connections broken", count(|bore| bore.broken), 0.0),
                (
                    "connections with wrong bytes",
                    count(|bore| bore.wrong),
                    0.0,
                ),
            ];
            let all = bounds.into_iter().chain(common);
            let goal = |(name, value, most)| Goal::new(what(name), value, Bound::AtMost(most));
            all.map(goal).collect::<Vec<_>>()
        });
    each.collect()
}
