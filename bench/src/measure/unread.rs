//! Bulk, and requests meanwhile, beside many connections that nobody reads, or that are read at 1 KB/s.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;

use super::two_nodes;
use crate::entrant::Entrant;
use crate::helper::{Pair, target, understand};
use crate::iperf;
use crate::unread::{Beside, UNREAD_PORT};
use crate::{Bound, Goal, Report, Samples, Settings, Stand, Table};
use tabane_lab::cluster::{PATIENCE, Program, Wire, socket_address};
use tabane_lab::ways::Way;
use tabane_lab::{LabError, LinkSpec};

const UNREAD_OF_PROGRAMS: usize = 600;
const UNREAD_OF_LIBRARY: usize = 1000;
const REQUESTS: usize = 500;
/// Of the rate without them, and how many times as long a request may take.
const RATE: f64 = 0.95;
const TIMES: f64 = 2.0;

/// How the many are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Many {
    None,
    Unread,
    Sipped,
}

const CASES: [Many; 3] = [Many::None, Many::Unread, Many::Sipped];

/// What was seen, a sample each round.
#[derive(Default)]
struct Figures {
    gbps: Samples,
    p50_us: Samples,
    p99_us: Samples,
}

/// On 2 links of 1 Gb/s; the many write both ways, all they can.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let wire = Wire::Encrypted;
    let ways = [Way::Run(wire), Way::Library { wire, spins: true }];
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let entrants = settings.entrants(&ways).into_iter();
    let cases = || CASES.map(|_| Figures::default());
    let mut all: Vec<_> = entrants.map(|entrant| (entrant, cases())).collect();
    for _ in 0..settings.rounds {
        for stand in settings.stands(&ways, &config)? {
            let own = all
                .iter_mut()
                .find(|(entrant, _)| *entrant == stand.entrant);
            let Some((entrant, figures)) = own else {
                continue;
            };
            for (many, figures) in CASES.into_iter().zip(figures) {
                // A build that stands still has no figures.
                if let Err(error) = once(settings, &stand, many, figures) {
                    eprintln!("bench: {entrant}, {}: {error}", name(entrant.way, many));
                    [&mut figures.gbps, &mut figures.p50_us, &mut figures.p99_us]
                        .into_iter()
                        .for_each(|samples| samples.0.push(f64::NAN));
                }
            }
        }
    }
    Ok(shown(all))
}

/// The table and the goals.
fn shown(all: Vec<(Entrant, [Figures; 3])>) -> Report {
    let note = format!(
        "One stream (iperf3 under `tabane run`), and {REQUESTS} requests of one byte meanwhile, each on a \
         connection of its own, one after the other. The many \
         are of another program under `tabane run`, and of the same process with the library; they are \
         written to both ways until none takes anything more."
    );
    let columns = [
        "way",
        "beside",
        "rate, Gb/s",
        "request, p50, µs",
        "request, p99, µs",
    ];
    let title = "Beside connections that nobody reads, 2 × 1 Gb/s";
    let mut table = Table::new(title, note, &columns);
    let mut goals = Vec::new();
    for (entrant, cases) in all {
        let way = entrant.way;
        for (many, figures) in CASES.into_iter().zip(&cases).skip(1) {
            let what = |of: &str| format!("{way} beside {}: {of}", name(way, many));
            if entrant.is_own() {
                let rate = figures.gbps.over(&cases[0].gbps).median();
                let times = figures.p50_us.over(&cases[0].p50_us).median();
                let alone = "over that without them";
                goals.push(Goal::new(
                    what(&format!("rate {alone}")),
                    rate,
                    Bound::AtLeast(RATE),
                ));
                let request = what(&format!("request, p50, {alone}"));
                goals.push(Goal::new(request, times, Bound::AtMost(TIMES)));
            }
        }
        for (many, figures) in CASES.into_iter().zip(cases) {
            table.rows.push(vec![
                entrant.to_string().into(),
                name(way, many).into(),
                figures.gbps.into(),
                figures.p50_us.into(),
                figures.p99_us.into(),
            ]);
        }
    }
    Report {
        tables: vec![table],
        goals,
        ..Report::default()
    }
}

fn count(way: Way) -> usize {
    match way {
        Way::Library { .. } => UNREAD_OF_LIBRARY,
        _ => UNREAD_OF_PROGRAMS,
    }
}

fn name(way: Way, many: Many) -> String {
    match many {
        Many::None => "nothing".to_owned(),
        Many::Unread => format!("{} unread", count(way)),
        Many::Sipped => format!("{} read at 1 KB/s", count(way)),
    }
}

fn once(
    settings: &Settings,
    stand: &Stand,
    many: Many,
    figures: &mut Figures,
) -> Result<(), LabError> {
    let is_library = matches!(stand.way(), Way::Library { .. });
    let _held = match (many, is_library) {
        (Many::None, _) | (_, true) => None,
        (_, false) => Some(hold(stand, many)?),
    };
    let mut load = vec!["--requests".to_owned(), REQUESTS.to_string()];
    if is_library {
        let bulk_ms = (settings.seconds * 1e3) as u64;
        load.extend(["--bulk-ms".to_owned(), bulk_ms.to_string()]);
        if many != Many::None {
            load.extend(["--unread".to_owned(), count(stand.way()).to_string()]);
        }
        load.extend((many == Many::Sipped).then(|| "--sip".to_owned()));
    }
    let client = [vec!["--to".to_owned(), target(stand, 1)], load.clone()].concat();
    let requests = || {
        let pair = Pair::begin(stand, ("beside", &client), ("beside", &load))?;
        pair.results::<Beside, ()>()
    };
    let near = if is_library {
        requests()?.0
    } else {
        let bulk = iperf::Load {
            seconds: settings.seconds,
            omit_s: 1.0,
            congestion: None,
            both_ways: false,
        };
        thread::scope(|scope| {
            let bulk = scope.spawn(|| iperf::run(stand, bulk));
            let (mut near, ()) = requests()?;
            let bulk = bulk.join().expect("iperf3 is run without a panic")?;
            near.gbps = bulk.gbps;
            Ok::<_, LabError>(near)
        })?
    };
    let at = |share: f64| near.each_us.quantile(share).unwrap_or(f64::NAN);
    figures.gbps.0.push(near.gbps);
    figures.p50_us.0.push(at(0.5));
    figures.p99_us.0.push(at(0.99));
    Ok(())
}

/// Programs on both nodes that hold the many, all of them full.
fn hold(stand: &Stand, many: Many) -> Result<[Program; 2], LabError> {
    let start = |node: usize, to: Option<String>| {
        let mut command = stand.command(node, &stand.helper)?;
        command.args(["helper", "stuff"]);
        command.args(to.iter().flat_map(|to| ["--to", to]));
        command.arg(count(stand.way()).to_string());
        command.args((many == Many::Sipped).then_some("--sip"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Program::start("bench helper", command)
    };
    let mut server = start(1, None)?;
    stand.listens(1, &mut server, UNREAD_PORT)?;
    let to = socket_address(stand.address(1), UNREAD_PORT);
    let mut client = start(0, Some(to))?;
    // Each says so when none of its own takes anything more.
    for program in [&mut client, &mut server] {
        let mut said = String::new();
        let stdout = program.take_stdout();
        let mut lines = stdout.map(BufReader::new);
        let read = lines.as_mut().map(|lines| lines.read_line(&mut said));
        let written: u64 = understand(said.trim().as_bytes());
        if !matches!(read, Some(Ok(_))) || written == 0 {
            return Err(LabError::ToolFailed {
                tool: "bench",
                place: format!("{} ({})", "helper", stand.way()),
                message: format!("the many did not fill within {} s", PATIENCE.as_secs()),
            });
        }
    }
    Ok([client, server])
}
