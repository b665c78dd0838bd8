//! What becomes of others while somebody abuses the outside address: clients, or a node.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::helper::{Fetched, Grabbed, OUTSIDE_PORT, Scanned, Served};
use super::stand::{Client, Entrant, GATEWAY, SERVER, Stand, Way};
use super::{cost, samples};
use crate::machine::resident_bytes;
use crate::{Bound, Build, Goal, Report, Samples, Settings, Table};
use tabane_lab::LabError;

/// The node whose programs abuse it.
const ABUSER: usize = 1;
/// The client that does, and the one that only wants to be served.
const HOSTILE: usize = 1;
const QUIET: usize = 0;
/// SYNs, a second.
const FLOOD_PER_S: u32 = 40_000;
/// Datagrams' clients, of each of the two, and how many of them ask in a second.
const ASKERS: usize = 5_000;
const ASKERS_PER_S: u32 = 2_500;
const SLOW_READERS: usize = 1_000;
const CHURNED_PER_S: u32 = 4_096;
/// All ports in seven seconds.
const SCANNED_PER_S: u32 = 10_000;
const LIES_PER_S: u32 = 10_000;
/// Once it may have no more.
const GRABBED_PER_S: u32 = 1_000;
/// Before something counts, what does the abuse has so long to begin.
const BEGINS: Duration = Duration::from_millis(300);
/// Abuse lasts so much longer than it is looked at.
const SPARE: Duration = Duration::from_millis(1_500);
/// Visitors at the same time.
const AT_ONCE: usize = 8;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Abuse {
    Flood,
    Spoof,
    SlowReaders,
    Scan,
    Askers,
    Churn,
    Grab,
    Lies,
}

impl Abuse {
    const ALL: [Abuse; 8] = [
        Abuse::Flood,
        Abuse::Spoof,
        Abuse::SlowReaders,
        Abuse::Scan,
        Abuse::Askers,
        Abuse::Churn,
        Abuse::Grab,
        Abuse::Lies,
    ];

    fn name(self) -> String {
        match self {
            Abuse::Flood => format!("SYNs of strangers, {FLOOD_PER_S}/s"),
            Abuse::Spoof => format!("the same in the name of a node, {FLOOD_PER_S}/s"),
            Abuse::SlowReaders => format!("{SLOW_READERS} slow readers"),
            Abuse::Scan => format!("a scan of ports, {SCANNED_PER_S}/s"),
            Abuse::Askers => format!("{} UDP clients", 2 * ASKERS),
            Abuse::Lies => format!("n{ABUSER} lies about where it is, {LIES_PER_S}/s"),
            Abuse::Churn => format!("n{ABUSER} claims and frees {CHURNED_PER_S} ports/s"),
            Abuse::Grab => format!("n{ABUSER} claims all ports, and goes on at {GRABBED_PER_S}/s"),
        }
    }

    /// Begin it.
    fn begin(self, stand: &Stand, lasting: Duration) -> Result<Vec<Client>, LabError> {
        let client = |word: &str, more: &[String]| {
            let begun = stand.client(HOSTILE, word, lasting, more)?;
            Ok(vec![begun])
        };
        let node = |word: &str, more: &[String]| {
            let begun = stand.on_node(ABUSER, word, lasting, more)?;
            Ok(vec![begun])
        };
        let rate = |per_s: u32| format!("--per-s={per_s}");
        let begun = match self {
            Abuse::Flood => client("flood", &[rate(FLOOD_PER_S)]),
            Abuse::Spoof => {
                let from = stand.lab().address(ABUSER, 0);
                client("flood", &[rate(FLOOD_PER_S), format!("--from={from}")])
            }
            Abuse::SlowReaders => client("sip", &[format!("--count={SLOW_READERS}")]),
            Abuse::Scan => client("scan", &[rate(SCANNED_PER_S)]),
            Abuse::Askers => {
                let more = [format!("--count={ASKERS}"), rate(ASKERS_PER_S)];
                let ask = |client| stand.client(client, "ask", lasting, &more);
                [QUIET, HOSTILE].into_iter().map(ask).collect()
            }
            Abuse::Lies => {
                let to = SocketAddr::new(stand.lab().client_addresses(QUIET)[0], OUTSIDE_PORT);
                let from = stand.lab().address(SERVER, 0);
                let more = [
                    format!("--to={to}"),
                    rate(LIES_PER_S),
                    format!("--from={from}"),
                ];
                node("lie", &more)
            }
            Abuse::Churn => node("churn", &[rate(CHURNED_PER_S)]),
            Abuse::Grab => node("grab", &[rate(GRABBED_PER_S)]),
        };
        let mut begun: Vec<Client> = begun?;
        begun.iter_mut().try_for_each(Client::wait_ready)?;
        sleep(BEGINS);
        Ok(begun)
    }
}

/// How others are served.
#[derive(Clone, Copy)]
struct Others {
    visits_per_s: f64,
    unserved_percent: f64,
    fetch_ms: f64,
    word_ms: f64,
    lost_percent: f64,
    bind_ms: f64,
}

impl Others {
    /// Look at them: new connections for so long, then transfers, datagrams, and ports for as long.
    fn measure(stand: &Stand, seconds: f64) -> Result<Others, LabError> {
        let lasting = Duration::from_secs_f64(seconds / 2.0);
        let at_once = [format!("--at-once={AT_ONCE}")];
        let visits: Served = stand.client(QUIET, "visit", lasting, &at_once)?.result()?;
        let fetched = stand.client(QUIET, "fetch", lasting, &[])?;
        let words = stand.client(QUIET, "words", lasting, &[])?;
        let ports = stand.entrant.way.is_tabane();
        let ports = ports.then(|| stand.on_node(SERVER, "ports", lasting, &[]));
        let (fetched, words): (Fetched, Served) = (fetched.result()?, words.result()?);
        let ports = match ports.transpose()? {
            Some(client) => client.result()?,
            None => Served::default(),
        };
        let median = |times: Vec<f64>| Samples(times).median().unwrap_or(f64::NAN);
        Ok(Others {
            visits_per_s: visits.per_s(),
            unserved_percent: visits.failed_percent(),
            fetch_ms: median(fetched.each_ms),
            lost_percent: words.failed_percent(),
            word_ms: median(words.each_ms),
            bind_ms: median(ports.each_ms),
        })
    }
}

/// One abuse, once.
struct Once {
    before: Others,
    during: Others,
    /// What the serving daemon has grown by, MB.
    grown_mb: f64,
    /// What the abuser says, in figures that follow from what it is.
    said: Said,
    /// Packets that the gateway says it dropped, why, and how many.
    dropped: Vec<(String, f64)>,
}

/// What whoever abuses it has to say.
#[derive(Default)]
struct Said {
    per_s: f64,
    refused: f64,
    served_ms: f64,
    lost_percent: f64,
}

impl Said {
    fn of(abuse: Abuse, begun: Vec<Client>) -> Result<Said, LabError> {
        let mut said = Said::default();
        for client in begun {
            match abuse {
                Abuse::Flood | Abuse::Spoof | Abuse::Lies | Abuse::SlowReaders => {
                    said.per_s = client.result()?;
                }
                Abuse::Scan => {
                    let scanned: Scanned = client.result()?;
                    (said.per_s, said.refused) = (scanned.per_s, scanned.refused as f64);
                    let all = scanned.open + scanned.refused + scanned.silent;
                    said.lost_percent = scanned.silent as f64 * 100.0 / all as f64;
                }
                Abuse::Askers | Abuse::Churn => {
                    let served: Served = client.result()?;
                    said.per_s += served.per_s();
                    said.refused += served.failed as f64;
                    said.lost_percent = said.lost_percent.max(served.failed_percent());
                    said.served_ms = Samples(served.each_ms).median().unwrap_or(f64::NAN);
                }
                Abuse::Grab => {
                    let grabbed: Grabbed = client.result()?;
                    said.per_s = grabbed.had as f64;
                    said.refused = (grabbed.too_many + grabbed.other) as f64;
                }
            }
        }
        Ok(said)
    }
}

impl Once {
    fn measure(stand: &mut Stand, abuse: Abuse, seconds: f64) -> Result<Once, LabError> {
        let before = Others::measure(stand, seconds)?;
        let (dropped, memory_mb) = (dropped(stand)?, memory_mb(stand)?);
        let lasting = BEGINS + Duration::from_secs_f64(seconds) + SPARE;
        let begun = abuse.begin(stand, lasting)?;
        let during = Others::measure(stand, seconds)?;
        let grown_mb = self::memory_mb(stand)? - memory_mb;
        let said = Said::of(abuse, begun)?;
        let after = self::dropped(stand)?.into_iter();
        let more = after.map(|(why, after)| {
            let before = dropped.iter().find(|(other, _)| *other == why);
            (why, after - before.map_or(0.0, |(_, before)| *before))
        });
        Ok(Once {
            before,
            during,
            grown_mb,
            said,
            dropped: more.filter(|(_, count)| *count > 0.0).collect(),
        })
    }
}

/// Packets that each node says it dropped for the sake of the outside address.
fn dropped(stand: &mut Stand) -> Result<Vec<(String, f64)>, LabError> {
    let Some(cluster) = stand.cluster() else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for node in [GATEWAY, ABUSER, SERVER] {
        let status = cluster.status(node)?;
        let dropped = status["node"]["gateway"]["dropped"].as_object();
        let each = dropped.into_iter().flatten();
        let each = each.map(|(why, count)| (format!("n{node} {why}"), number(count)));
        all.extend(each);
    }
    Ok(all)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Memory of the daemon that serves, MB.
fn memory_mb(stand: &mut Stand) -> Result<f64, LabError> {
    let daemon = stand
        .cluster()
        .and_then(|cluster| cluster.daemon(GATEWAY).map(|daemon| daemon.id()));
    let bytes = daemon.map(resident_bytes).transpose()?;
    Ok(bytes.unwrap_or(0) as f64 / 1e6)
}

/// All of it.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let of = |way| Entrant {
        way,
        build: Build::Own,
    };
    let mut all: Vec<Vec<Once>> = Abuse::ALL.iter().map(|_| Vec::new()).collect();
    let mut bare = Vec::new();
    let mut costs = Vec::new();
    for _ in 0..settings.rounds {
        for (abuse, rounds) in Abuse::ALL.into_iter().zip(&mut all) {
            // Each has a cluster of its own: what one leaves behind is not the next one's.
            let mut stand = Stand::up_routed(settings, of(Way::Tabane))?;
            rounds.push(Once::measure(&mut stand, abuse, settings.seconds)?);
            if abuse == Abuse::Flood {
                drop(stand);
                let mut stand = Stand::up_routed(settings, of(Way::Bare))?;
                bare.push(Once::measure(&mut stand, abuse, settings.seconds)?);
            }
        }
        costs.push(cost::Cost::measure(settings)?);
    }
    let mut report = Report {
        tables: vec![others_table(&all, &bare), abusers_table(&all, &bare)],
        goals: goals(&all, &bare),
        ..Report::default()
    };
    report.tables.push(cost::table(&costs));
    report.goals.extend(cost::goals(&costs));
    Ok(report)
}

fn each<'a>(all: &'a [Vec<Once>], bare: &'a [Once]) -> Vec<(String, &'a [Once])> {
    let named = |(abuse, rounds): (Abuse, &'a Vec<Once>)| (abuse.name(), &rounds[..]);
    let mut rows: Vec<_> = Abuse::ALL.into_iter().zip(all).map(named).collect();
    rows.insert(1, ("the same, a kernel by itself".into(), bare));
    rows
}

fn both(rounds: &[Once], value: fn(&Others) -> f64) -> [Samples; 3] {
    let before = samples(rounds, |once| value(&once.before));
    let during = samples(rounds, |once| value(&once.during));
    let ratio = during.over(&before);
    [before, during, ratio]
}

fn others_table(all: &[Vec<Once>], bare: &[Once]) -> Table {
    let note = format!(
        "Client c0 is served by a program on n2, by way of n0: new connections, {AT_ONCE} at once, each with one byte and its echo; then \
         transfers of 100 KB one after the other, each by a new connection, datagrams and their echo, and a program on n2 that listens at one port after the other, at \
         the same time. Before, and while c1 or n1 does what is said. Medians. \"A kernel by itself\": the program is on n0 \
         itself, whose kernel has the address."
    );
    let columns = [
        "meanwhile",
        "connections/s before",
        "during",
        "during / before",
        "unserved, %",
        "100 KB before, ms",
        "during / before",
        "datagram before, ms",
        "during / before",
        "lost, %",
        "listening before, ms",
        "during / before",
    ];
    let mut table = Table::new("Abuse of the outside address: others", note, &columns);
    for (name, rounds) in each(all, bare) {
        let [visits_before, visits, visits_ratio] = both(rounds, |others| others.visits_per_s);
        let [fetch, _, fetch_ratio] = both(rounds, |others| others.fetch_ms);
        let [word, _, word_ratio] = both(rounds, |others| others.word_ms);
        let [bind, _, bind_ratio] = both(rounds, |others| others.bind_ms);
        table.rows.push(vec![
            name.into(),
            visits_before.into(),
            visits.into(),
            visits_ratio.into(),
            samples(rounds, |once| once.during.unserved_percent).into(),
            fetch.into(),
            fetch_ratio.into(),
            word.into(),
            word_ratio.into(),
            samples(rounds, |once| once.during.lost_percent).into(),
            bind.into(),
            bind_ratio.into(),
        ]);
    }
    table
}

fn abusers_table(all: &[Vec<Once>], bare: &[Once]) -> Table {
    let note = "What came of it: SYNs a second; slow readers that were still served; ports tried a second; clients served a second; ports had and freed a \
         second; ports had. Refused: ports that answer so, claims that fail. What the gateway's daemon grew by, and what status says was dropped, of the last round.";
    let columns = [
        "what",
        "came to",
        "refused",
        "lost, %",
        "each, ms",
        "grown, MB",
        "dropped",
    ];
    let mut table = Table::new("Abuse of the outside address: abusers", note, &columns);
    for (name, rounds) in each(all, bare) {
        let said = |value: fn(&Said) -> f64| samples(rounds, |once| value(&once.said));
        let dropped = rounds.last().map(|once| &once.dropped[..]);
        let dropped = dropped.unwrap_or_default().iter();
        let dropped: Vec<_> = dropped
            .map(|(why, count)| format!("{why} {count}"))
            .collect();
        table.rows.push(vec![
            name.into(),
            said(|said| said.per_s).into(),
            said(|said| said.refused).into(),
            said(|said| said.lost_percent).into(),
            said(|said| said.served_ms).into(),
            samples(rounds, |once| once.grown_mb).into(),
            dropped.join(", ").into(),
        ]);
    }
    table
}

fn goals(all: &[Vec<Once>], bare: &[Once]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for (abuse, rounds) in Abuse::ALL.into_iter().zip(all) {
        let mut goal = |what: &str, value: Option<f64>, bound| {
            goals.push(Goal::new(format!("{}: {what}", abuse.name()), value, bound));
        };
        if abuse == Abuse::Flood {
            let visits = |rounds: &[Once]| samples(rounds, |once| once.during.visits_per_s);
            let ratio = visits(rounds).over(&visits(bare)).median();
            goal("connections/s / a kernel's", ratio, Bound::AtLeast(0.8));
            let served = samples(rounds, |once| 100.0 - once.during.unserved_percent);
            goal(
                "served of those who ask, %",
                served.min(),
                Bound::AtLeast(80.0),
            );
        } else {
            let [_, _, visits] = both(rounds, |others| others.visits_per_s);
            goal("connections/s kept", visits.median(), Bound::AtLeast(0.9));
            let [_, _, fetch] = both(rounds, |others| others.fetch_ms);
            goal("time of 100 KB", fetch.median(), Bound::AtMost(1.1));
        }
        let lost = samples(rounds, |once| once.during.lost_percent);
        goal("datagrams lost, %", lost.max(), Bound::AtMost(0.5));
        let said = |value: fn(&Said) -> f64| samples(rounds, |once| value(&once.said));
        match abuse {
            Abuse::Askers => {
                let lost = said(|said| said.lost_percent).max();
                goal("not answered, %", lost, Bound::AtMost(0.1));
            }
            Abuse::Churn => {
                let rate = said(|said| said.per_s).median();
                let least = Bound::AtLeast(0.95 * f64::from(CHURNED_PER_S));
                goal("ports/s", rate, least);
                let [_, _, bind] = both(rounds, |others| others.bind_ms);
                goal("listening of others", bind.median(), Bound::AtMost(1.1));
            }
            Abuse::SlowReaders => {
                let served = said(|said| said.per_s).min();
                goal("served", served, Bound::AtLeast(SLOW_READERS as f64));
            }
            _ => {}
        }
    }
    goals
}
