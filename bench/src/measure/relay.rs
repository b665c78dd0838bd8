//! Nodes that lose links crosswise: link 0 of node 0 and link 1 of node 1 hang, as a switch's port does, and they share
//! none that works; others reach both.

use std::fs;
use std::net::SocketAddr;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::failover::one_link;
use crate::helper::{Pair, target, understand};
use crate::machine::{Processors, process_s};
use crate::pulse::{PULSE_PORT, Pulses};
use crate::timeline::{Failover, Sent, Timeline, judge};
use crate::{Bound, Entrant, Goal, Report, Samples, Settings, Stand, Table};
use tabane_lab::cluster::{PATIENCE, Program, Wire};
use tabane_lab::peers::HELLO_S;
use tabane_lab::ways::Way;
use tabane_lab::{Fault, LabConfig, LabError, monotonic_ns};

const BEFORE: Duration = Duration::from_millis(1000);
const FAILED: Duration = Duration::from_millis(3000);
const AFTER: Duration = Duration::from_millis(3000);
/// To fail and to heal take their time: the traffic lasts for so much longer.
const SPARE: Duration = Duration::from_millis(1000);

const TABANE: Way = Way::Tabane(Wire::Encrypted);
/// Those that go on through another node.
const RELAYING: [Way; 2] = [TABANE, Way::Babel];

/// So often it is looked what a relay carries …
const LOOK: Duration = Duration::from_millis(10);
/// … and in so many looks on end …
const LOOKS: usize = 5;
/// … one that no longer does carries less than this: 5 Mb/s, far below what is relayed and above what nodes say themselves.
const QUIET_BYTES: u64 = 31_250;

/// What happens to the nodes.
struct Case {
    name: &'static str,
    nodes: usize,
    ways: &'static [Way],
    /// On a lab of its own; it is the how many-th time, and one link carries so much, Gb/s.
    once: fn(&Stand, usize, f64) -> Result<Bore, LabError>,
}

const CASES: [Case; 3] = [
    Case {
        name: "links fail crosswise",
        nodes: 3,
        ways: &[TABANE, Way::Babel, Way::Mptcp, Way::BalanceRr],
        once: |stand, _, one_link_gbps| crosswise(stand, one_link_gbps),
    },
    Case {
        name: "the relay dies",
        nodes: 4,
        ways: &RELAYING,
        once: |stand, _, one_link_gbps| dying_relay(stand, None, one_link_gbps),
    },
    Case {
        name: "a relay dies as the links fail",
        nodes: 4,
        ways: &RELAYING,
        // Which of the two would relay is not known yet.
        once: |stand, round, one_link_gbps| dying_relay(stand, Some(2 + round % 2), one_link_gbps),
    },
];

/// What a failure did to one stream and the datagrams beside it.
struct Bore {
    stream: Failover,
    /// Longest time without an echo while it lasted, ms.
    ping_gap_ms: f64,
    /// From healing until no other node relays, ms.
    direct_ms: Option<f64>,
    /// Processor seconds of what relays for each GB relayed.
    relay_s_per_gb: f64,
    /// Of the whole machine.
    machine_s_per_gb: f64,
    /// What one link carries, measured in the same round, Gb/s.
    one_link_gbps: f64,
}

impl Bore {
    /// Nobody knows what became of the stream.
    fn unknown() -> Bore {
        let stream = Failover {
            gap_ms: f64::NAN,
            during_gbps: f64::NAN,
            is_broken: true,
            ..Failover::default()
        };
        Bore {
            stream,
            ping_gap_ms: f64::NAN,
            direct_ms: None,
            relay_s_per_gb: f64::NAN,
            machine_s_per_gb: f64::NAN,
            one_link_gbps: f64::NAN,
        }
    }

    fn percent(&self) -> f64 {
        100.0 * self.stream.during_gbps / self.one_link_gbps
    }
}

/// What one entrant bore in a case.
struct Run {
    entrant: Entrant,
    /// How often it is tried.
    times: usize,
    bore: Vec<Bore>,
}

/// Every case, `times` times on tabane, once a round on the others.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let run = |entrant: Entrant| Run {
        entrant,
        times: match entrant.way {
            TABANE => settings.times,
            _ => settings.rounds,
        },
        bore: Vec::new(),
    };
    let runs = |case: &Case| {
        let entrants = settings.entrants(case.ways);
        entrants.into_iter().map(run).collect::<Vec<Run>>()
    };
    let mut all = CASES.each_ref().map(runs);
    let rounds = settings.times.max(settings.rounds);
    for round in 0..rounds {
        let one_link_gbps = one_link(settings)?;
        for (case, runs) in CASES.iter().zip(&mut all) {
            for run in runs {
                // Whoever is tried less often is so all the time.
                let turns = |rounds_done: usize| rounds_done * run.times / rounds;
                if turns(round) < turns(round + 1) {
                    once(settings, case, run, round, one_link_gbps)?;
                }
            }
        }
    }
    for runs in &mut all {
        runs.retain(|run| !run.bore.is_empty());
    }
    let goals = CASES
        .iter()
        .zip(&all)
        .flat_map(|(case, runs)| goals(case.name, runs));
    Ok(Report {
        goals: goals.collect(),
        tables: vec![crosswise_table(&all[0]), dying_table(&all[1..])],
        ..Report::default()
    })
}

/// What goes wrong is told and counts as broken; a way that this machine cannot do is not tried again.
fn once(
    settings: &Settings,
    case: &Case,
    run: &mut Run,
    round: usize,
    one_link_gbps: f64,
) -> Result<(), LabError> {
    let config = LabConfig {
        nodes: case.nodes,
        ..LabConfig::default()
    };
    let Some(stand) = settings.stand_if_possible(run.entrant, &config)? else {
        run.times = 0;
        return Ok(());
    };
    let bore = (case.once)(&stand, round, one_link_gbps).unwrap_or_else(|error| {
        eprintln!(
            "bench: {}, {}: counted as broken: {error}",
            run.entrant, case.name
        );
        Bore::unknown()
    });
    run.bore.push(bore);
    Ok(())
}

/// A stream and the datagrams beside it, from node 0 to node 1.
struct Traffic {
    stream: Pair,
    pulse: Program,
    /// Ends with this.
    _echo: Program,
}

impl Traffic {
    fn start(stand: &Stand, lasting: Duration) -> Result<Traffic, LabError> {
        let ms = lasting.as_millis().to_string();
        let helper = |node: usize, words: &[String]| {
            let mut command = stand.lab().command(node, &stand.helper);
            command.arg("helper").args(words);
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            Program::start("bench helper", command)
        };
        let echo = helper(1, &["pulse-back".into()])?;
        let careless = "--careless".to_owned();
        let client = [target(stand, 1), ms.clone(), careless.clone()];
        let stream = Pair::begin(stand, ("send", &client), ("receive", &[careless]))?;
        let to = SocketAddr::new(stand.address(1), PULSE_PORT).to_string();
        let pulse = helper(0, &["pulse".into(), to, ms])?;
        Ok(Traffic {
            stream,
            pulse,
            _echo: echo,
        })
    }

    /// What became of them between failure and healing, by what one link carries.
    fn end(self, from_ns: u64, until_ns: u64, one_link: f64) -> Result<(Failover, f64), LabError> {
        let (sent, timeline): (Sent, Timeline) = self.stream.results()?;
        let pulses: Pulses = understand(&self.pulse.output(PATIENCE)?.stdout);
        let stream = judge(&timeline, &sent, from_ns, until_ns, one_link);
        Ok((stream, pulses.gap_ms(from_ns, until_ns)))
    }
}

/// Node 0 and node 1 share no link that works from now on; returns since when.
fn cross(stand: &Stand) -> Result<u64, LabError> {
    let first = stand.lab().fail(0, Fault::Silent, Some(0))?;
    stand.lab().fail(1, Fault::Silent, Some(1))?;
    Ok(first.begun_ns)
}

fn heal(stand: &Stand) -> Result<u64, LabError> {
    let first = stand.lab().heal(0)?;
    stand.lab().heal(1)?;
    Ok(first.begun_ns)
}

/// Links fail crosswise and are healed; a third node reaches both.
fn crosswise(stand: &Stand, one_link_gbps: f64) -> Result<Bore, LabError> {
    let relay = stand.daemon(2).map(Program::id);
    let used_s = || relay.map_or(Ok(0.0), process_s);
    let traffic = Traffic::start(stand, BEFORE + FAILED + AFTER + SPARE)?;
    sleep(BEFORE);
    let failed_ns = cross(stand)?;
    sleep(FAILED / 2);
    let (relay_s, machine) = (used_s()?, Processors::now()?);
    sleep(FAILED / 2);
    let relay_s = used_s()? - relay_s;
    let machine_s = Processors::now()?.busy_s_since(machine);
    let healed_ns = heal(stand)?;
    let direct_ms = match relay {
        Some(pid) => quiet_ms(pid, healed_ns)?,
        None => None,
    };
    let (stream, ping_gap_ms) = traffic.end(failed_ns, healed_ns, one_link_gbps)?;
    // Its rate is that of the second half, too.
    let gb = stream.during_gbps / 8.0 * FAILED.as_secs_f64() / 2.0;
    Ok(Bore {
        stream,
        ping_gap_ms,
        direct_ms,
        relay_s_per_gb: relay_s / gb,
        machine_s_per_gb: machine_s / gb,
        one_link_gbps,
    })
}

/// The same, and of two nodes that reach both one dies: this one at once, or else the one that relays, later.
fn dying_relay(stand: &Stand, first: Option<usize>, one_link_gbps: f64) -> Result<Bore, LabError> {
    let traffic = Traffic::start(stand, BEFORE + FAILED + FAILED + SPARE)?;
    sleep(BEFORE);
    let failed_ns = cross(stand)?;
    let from_ns = match first {
        Some(relay) => {
            die(stand, relay)?;
            failed_ns
        }
        None => {
            sleep(FAILED / 2);
            let relay = busier(stand, [2, 3])?;
            let died_ns = monotonic_ns();
            die(stand, relay)?;
            died_ns
        }
    };
    sleep(FAILED);
    let healed_ns = heal(stand)?;
    let (stream, ping_gap_ms) = traffic.end(from_ns, healed_ns, one_link_gbps)?;
    Ok(Bore {
        stream,
        ping_gap_ms,
        one_link_gbps,
        ..Bore::unknown()
    })
}

/// A node relays no longer.
fn die(stand: &Stand, node: usize) -> Result<(), LabError> {
    match (stand.way(), stand.daemon(node)) {
        (Way::Tabane(_), Some(daemon)) => daemon.signal(SIGKILL),
        // The kernel would go on to relay without its daemon: the whole node dies.
        _ => (0..stand.lab().links()).try_for_each(|link| {
            let failed = stand.lab().fail(link, Fault::Silent, Some(node));
            failed.map(|_| ())
        }),
    }
}

const SIGKILL: i32 = 9;

/// From healing until what the node of this process gets is next to nothing, ms; `None`: it never is.
fn quiet_ms(pid: u32, healed_ns: u64) -> Result<Option<f64>, LabError> {
    let end = Instant::now() + AFTER;
    let mut looks = Vec::new();
    while Instant::now() < end {
        looks.push((monotonic_ns(), received_bytes(pid)?));
        sleep(LOOK);
    }
    Ok(quiet_from(&looks).map(|at_ns| at_ns.saturating_sub(healed_ns) as f64 / 1e6))
}

/// When the first of these looks was after which next to nothing came.
fn quiet_from(looks: &[(u64, u64)]) -> Option<u64> {
    let mut windows = looks.windows(LOOKS + 1);
    let quiet = windows.find(|seen| seen[LOOKS].1 - seen[0].1 <= QUIET_BYTES);
    quiet.map(|seen| seen[0].0)
}

/// The node that carries more now.
fn busier(stand: &Stand, nodes: [usize; 2]) -> Result<usize, LabError> {
    let received = |node: usize| stand.daemon(node).map_or(Ok(0), |d| received_bytes(d.id()));
    let before = [received(nodes[0])?, received(nodes[1])?];
    sleep(LOOKS as u32 * LOOK);
    let after = [received(nodes[0])?, received(nodes[1])?];
    let is_first = after[0] - before[0] >= after[1] - before[1];
    Ok(nodes[usize::from(!is_first)])
}

/// What has come over all links to the node where this process runs, bytes.
fn received_bytes(pid: u32) -> Result<u64, LabError> {
    let path = format!("/proc/{pid}/net/dev");
    let text = fs::read_to_string(&path).map_err(LabError::io(path))?;
    let links = text.lines().filter_map(|line| {
        let (device, counts) = line.trim().split_once(':')?;
        let first = counts.split_whitespace().next()?;
        device
            .starts_with("eth")
            .then(|| first.parse::<u64>().ok())?
    });
    Ok(links.sum())
}

fn samples(bore: &[Bore], of: impl Fn(&Bore) -> f64) -> Samples {
    Samples(bore.iter().map(of).collect())
}

fn broken(bore: &[Bore]) -> String {
    let broken = bore.iter().filter(|bore| bore.stream.is_broken).count();
    format!("{broken} of {}", bore.len())
}

fn crosswise_table(all: &[Run]) -> Table {
    let note = format!(
        "Link 0 of n0 and link 1 of n1 fall silent for {} s under one stream from n0 to n1 and a datagram every 2 ms; n2 \
         reaches both. While silent: the second half of that time. Direct again: from healing until n2 relays nothing; \"never\" within {} s is counted in brackets. \
         Relay's CPU: of what runs on n2 for the way, per GB of the stream. MPTCP carries no datagrams: they go over link 0. \
         Babel: babeld, which says every {} ms that it is there.",
        FAILED.as_secs(),
        AFTER.as_secs(),
        HELLO_S * 1e3
    );
    let columns = [
        "way",
        "longest gap of the datagrams, ms",
        "of the stream, ms",
        "while silent, Gb/s",
        "% of one link",
        "direct again, ms",
        "both links full again, ms",
        "relay's CPU s/GB",
        "machine's CPU s/GB",
        "connections broken",
    ];
    let title = "Links fail crosswise, 3 nodes, 2 × 1 Gb/s";
    let mut table = Table::new(title, note, &columns);
    for Run { entrant, bore, .. } in all {
        let carried = |of: fn(&Bore) -> f64| {
            let is_carried = bore.iter().any(|bore| bore.stream.during_gbps > 0.0);
            match is_carried {
                true => samples(bore, of).into(),
                false => "nothing came".into(),
            }
        };
        let relays = RELAYING.contains(&entrant.way);
        let times = |of: fn(&Bore) -> Option<f64>| {
            let reached = Samples(bore.iter().filter_map(of).collect());
            match bore.len() - reached.0.len() {
                0 => reached.to_string(),
                never => format!("{reached} [never: {never}]"),
            }
        };
        table.rows.push(vec![
            entrant.to_string().into(),
            samples(bore, |bore| bore.ping_gap_ms).into(),
            samples(bore, |bore| bore.stream.gap_ms).into(),
            samples(bore, |bore| bore.stream.during_gbps).into(),
            samples(bore, Bore::percent).into(),
            match relays {
                true => times(|bore| bore.direct_ms).into(),
                false => "nobody relays".into(),
            },
            match entrant.way {
                Way::Babel => "it uses one".into(),
                _ => times(|bore| bore.stream.both_links_ms).into(),
            },
            match entrant.way {
                TABANE => carried(|bore| bore.relay_s_per_gb),
                Way::Babel => "the kernel's".into(),
                _ => "nobody relays".into(),
            },
            carried(|bore| bore.machine_s_per_gb),
            broken(bore).into(),
        ]);
    }
    table
}

fn dying_table(all: &[Vec<Run>]) -> Table {
    let note = format!(
        "Links fail crosswise as above, n2 and n3 reach both, and one of these dies: {} s later, the one that carries more, or \
         at the same time, either in turn. tabane's daemon there is killed; of Babel the links of the node fall silent, for without \
         its daemon it would go on. Gaps: from its death on, for {} s; the rate is that of the second half.",
        FAILED.as_secs_f64() / 2.0,
        FAILED.as_secs()
    );
    let columns = [
        "",
        "way",
        "longest gap of the datagrams, ms",
        "of the stream, ms",
        "then, Gb/s",
        "% of one link",
        "connections broken",
    ];
    let title = "A relay dies, 4 nodes, 2 × 1 Gb/s";
    let mut table = Table::new(title, note, &columns);
    for (case, runs) in CASES[1..].iter().zip(all) {
        for Run { entrant, bore, .. } in runs {
            table.rows.push(vec![
                case.name.into(),
                entrant.to_string().into(),
                samples(bore, |bore| bore.ping_gap_ms).into(),
                samples(bore, |bore| bore.stream.gap_ms).into(),
                samples(bore, |bore| bore.stream.during_gbps).into(),
                samples(bore, Bore::percent).into(),
                broken(bore).into(),
            ]);
        }
    }
    table
}

/// Of gaps the worst of all times counts.
fn goals(when: &str, all: &[Run]) -> Vec<Goal> {
    let is_own = |run: &&Run| run.entrant.is_own() && run.entrant.way == TABANE;
    let Some(Run { bore, .. }) = all.iter().find(is_own) else {
        return Vec::new();
    };
    let goal = |what: &str, value, bound| Goal::new(format!("{when}: {what}"), value, bound);
    let worst = |of: fn(&Bore) -> f64| samples(bore, of).max();
    let is_broken = |bore: &Bore| f64::from(u8::from(bore.stream.is_broken));
    let gap = Bound::AtMost(150.0);
    let mut goals = vec![
        goal(
            "longest gap of the datagrams, ms",
            worst(|bore| bore.ping_gap_ms),
            gap,
        ),
        goal(
            "longest gap of the stream, ms",
            worst(|bore| bore.stream.gap_ms),
            gap,
        ),
        goal(
            "% of one link, the least",
            samples(bore, Bore::percent).min(),
            Bound::AtLeast(90.0),
        ),
        goal("connections broken", worst(is_broken), Bound::AtMost(0.0)),
    ];
    if when == CASES[0].name {
        let all: Option<Vec<f64>> = bore.iter().map(|bore| bore.direct_ms).collect();
        let worst = all.and_then(|all| Samples(all).max());
        goals.push(goal("direct again, ms", worst, Bound::AtMost(1000.0)));
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_quiet_from_the_last_look_that_saw_much() {
        // 1 MB a look, until the seventh.
        let looks = |busy: u64| {
            let seen = |at: u64| (at * 10, at.min(busy) * 1_000_000 + at);
            (0..20).map(seen).collect::<Vec<_>>()
        };
        assert_eq!(quiet_from(&looks(7)), Some(70));
        assert_eq!(quiet_from(&looks(0)), Some(0));
        assert_eq!(quiet_from(&looks(17)), None, "not for long enough");
    }
}
