//! `tabane doctor`: why the bundle is slower than the sum of its links, or a
//! peer unreachable. `facts` looks, `judge` thinks, `show` tells.

pub mod facts;
pub mod finding;
mod joint;
pub mod judge;
mod show;
pub mod words;

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tabane_cluster::DEFAULT_PATH;

use crate::status::{Colours, PeerState, ask_consult, ask_here};
use crate::{exit_codes, say};
use facts::{Facts, Order};
use finding::{Cause, Diagnosis, Finding, Opinion, SCHEMA, Severity, Unseen};

/// Arguments of `tabane doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Look at the ways to this peer only
    #[arg(value_name = "PEER")]
    pub peer: Option<String>,
    /// How long to watch, 0.5 to 60 seconds
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = seconds)]
    pub seconds: f64,
    /// Fill the bundle with PEER meanwhile, to see what the links can carry
    #[arg(long, requires = "peer")]
    pub measure: bool,
    /// Do not ask the peers' daemons what they find
    #[arg(long)]
    pub alone: bool,
    /// One line of JSON instead of text; docs/doctor.md describes it
    #[arg(long)]
    pub json: bool,
    /// The cluster file [default: /etc/tabane/cluster.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The node this is; found by this machine's addresses if not given
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number".to_owned())?;
    match (0.5..=60.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("must be 0.5 to 60".to_owned()),
    }
}

/// Looks, judges and tells; returns the exit code.
pub fn run(args: &DoctorArgs) -> u8 {
    let file = args.config.as_deref().unwrap_or(Path::new(DEFAULT_PATH));
    let order = Order {
        file_is_named: args.config.is_some(),
        node: args.node.clone(),
        peer: args.peer.clone(),
        measure: args.measure,
        ..Order::of(file, Duration::from_secs_f64(args.seconds))
    };
    let peer = args.peer.clone();
    // Both look at the same time.
    let others = (!args.alone).then(|| std::thread::spawn(move || opinions(peer.as_deref())));
    let facts = match facts::gather(&order) {
        Ok(facts) => facts,
        Err(words) => {
            say::failure(words);
            return exit_codes::CONFIGURATION;
        }
    };
    let others = others.and_then(|thread| thread.join().ok());
    let diagnosis = join(diagnose(&facts), others.unwrap_or_default());
    let text = match args.json {
        true => serde_json::to_string(&diagnosis).unwrap_or_default() + "\n",
        false => show::text(&diagnosis, Colours::wanted(io::stdout().is_terminal())),
    };
    match say::print(&text) {
        exit_codes::OK => exit_code(&diagnosis),
        failed => failed,
    }
}

/// What the connected peers find wrong, or this one; nothing if no daemon can ask them.
fn opinions(peer: Option<&str>) -> Vec<Opinion> {
    let Ok((begun, lines)) = ask_here(|sockets| ask_consult(sockets, peer)) else {
        return Vec::new();
    };
    // The daemon waits for peers, and says so of those that do not answer.
    let _ = lines.get_ref().set_read_timeout(Some(OPINIONS_MAX));
    let mut said: Vec<Opinion> = Vec::new();
    let read = lines.lines().map_while(Result::ok);
    for line in read.take(begun.asked.len()) {
        said.extend(serde_json::from_str::<Opinion>(&line));
    }
    let is_missing = |name: &&String| !said.iter().any(|opinion| opinion.node == **name);
    let missing: Vec<Opinion> = (begun.asked.iter().filter(is_missing))
        .map(|name| Opinion {
            node: name.clone(),
            findings: Vec::new(),
            trouble: Some("this node's daemon did not say what it answered".to_owned()),
        })
        .collect();
    said.extend(missing);
    // As they were asked, whoever was first.
    said.sort_by_key(|opinion| begun.asked.iter().position(|name| *name == opinion.node));
    said
}

/// One verdict of this node's and the others'.
fn join(mut diagnosis: Diagnosis, others: Vec<Opinion>) -> Diagnosis {
    let node = diagnosis.node.clone().unwrap_or_default();
    diagnosis.findings = joint::joined(&node, diagnosis.findings, &others);
    for opinion in others {
        match opinion.trouble {
            Some(why) => diagnosis.unseen.push(Unseen {
                what: format!("what {} finds", opinion.node),
                why,
            }),
            None => diagnosis.asked.push(opinion.node),
        }
    }
    diagnosis
}

/// What the doctor says, as text, of the cluster file at `config` and this machine: for a report.
///
/// # Errors
/// Why nothing can be looked at, in words.
pub fn text_of(config: &Path, watch: Duration) -> Result<String, String> {
    let diagnosis = diagnose(&facts::gather(&Order::of(config, watch))?);
    Ok(show::text(&diagnosis, Colours::Off))
}

/// How long the daemon may take to say what peers answer.
const OPINIONS_MAX: Duration = Duration::from_secs(15);

/// What a look finds, worst first.
///
/// # Errors
/// Why nothing can be looked at, in words.
pub fn findings(order: &Order) -> Result<Vec<Finding>, String> {
    Ok(judge::judge(&facts::gather(order)?))
}

/// The diagnosis from these facts.
pub fn diagnose(facts: &Facts) -> Diagnosis {
    Diagnosis {
        schema: SCHEMA,
        node: facts.node.clone(),
        daemon: facts.daemon.is_some(),
        watched_s: facts.seconds,
        looked_at: looked_at(facts),
        asked: Vec::new(),
        findings: judge::judge(facts),
        checked: judge::CHECKED.to_vec(),
        unseen: facts.unseen.clone(),
    }
}

/// 0 all well, 1 something is wrong, 3 no daemon runs.
fn exit_code(diagnosis: &Diagnosis) -> u8 {
    let is_wrong = |f: &Finding| f.severity != Severity::Note;
    if diagnosis
        .findings
        .iter()
        .any(|f| f.cause == Cause::NoDaemon)
    {
        exit_codes::NO_DAEMON
    } else if diagnosis.findings.iter().any(is_wrong) {
        exit_codes::FAILURE
    } else {
        exit_codes::OK
    }
}

fn looked_at(facts: &Facts) -> String {
    let mut peers: Vec<&str> = facts.paths.iter().map(|p| p.peer.as_str()).collect();
    peers.dedup();
    let up = |name: &&&str| facts.peer(name).is_some_and(|p| p.state == PeerState::Up);
    let connected = peers.iter().filter(up).count();
    let watches = facts
        .paths
        .iter()
        .filter_map(|p| facts.path_status(&p.peer, p.link));
    let mbps: f64 = watches.map(|w| w.sent_mbps()).sum();
    let mut text = format!(
        "watched for {:.1} s; links: {}; peers: {}, connected: {connected}",
        facts.seconds,
        facts.links.len(),
        peers.len()
    );
    if facts.daemon.is_some() {
        text += &match mbps < IDLE_MBPS {
            true => "; idle, so what the links can carry was not seen".to_owned(),
            false => format!("; sending {mbps:.0} Mb/s"),
        };
    }
    text
}

/// Too little traffic to judge speed by.
const IDLE_MBPS: f64 = 5.0;
