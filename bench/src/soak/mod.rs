//! The long run: unmodified programs over `tab0` while everything goes wrong
//! that can (or, with `--busy`, while the processors have better things to do).
//!
//! Every fault is drawn from the seed; what daemons log, what programs say and
//! what the kernel counts is held against the record of what really struck.
//! Not among the faults: a clock that steps (namespaces share the machine's).

mod fault;
mod judge;
mod ledger;
mod log;
mod nodes;
mod plan;
mod random;
mod report;
mod strike;
mod traffic;

pub use fault::{Kind, Planned, Strike};
pub use ledger::Struck;
pub use plan::{PlanConfig, plan};
pub use report::{Outcome, Peak};
pub use traffic::{Count, Pings};

use std::hint;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use ledger::Ledger;
use nodes::Nodes;
use strike::{InForce, Striker};
use tabane_lab::cluster::{Cluster, ClusterConfig, all_paths_up};
use tabane_lab::interrupt;
use tabane_lab::{Lab, LabConfig, LabError, LinkSpec};
use traffic::{Phase, Shells, Traffic};

const LOOK: Duration = Duration::from_millis(50);
const SAMPLE: Duration = Duration::from_secs(2);
/// A path that failed often is held back for up to ten seconds, and both ends
/// must agree.
const HEALED_WITHIN: Duration = Duration::from_secs(60);
/// Of the link whose delay changes.
const OWN_DELAY: Duration = Duration::from_micros(300);

/// Arguments of `soak`.
#[derive(Debug, Args)]
pub struct SoakArgs {
    /// How long, minutes
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// What the faults are drawn from [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Nodes, 2 to 8
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=8))]
    nodes: u8,
    /// Links, 2 to 8; of three and more, the last one's delay varies
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=8))]
    links: u8,
    /// Line rate of every link, Mb/s
    #[arg(long, default_value_t = 200)]
    mbit: u64,
    /// Mean time from one fault to the next, seconds
    #[arg(long, default_value_t = 2.5)]
    pause: f64,
    /// No faults, but all processors kept busy by others, twice over
    #[arg(long)]
    busy: bool,
    /// The program to run [default: `tabane` beside this program]
    #[arg(long, value_name = "PATH")]
    tabane: Option<PathBuf>,
    /// Where logs and the timeline go
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program `tabane`.
    pub tabane: PathBuf,
    /// Nodes of the lab.
    pub nodes: usize,
    /// Links of the lab; of three and more, the last one's delay varies.
    pub links: usize,
    /// Line rate of every link, Mb/s.
    pub mbit: u64,
    /// What the faults are drawn from.
    pub seed: u64,
    /// For how long faults strike.
    pub length: Duration,
    /// Mean time from one fault to the next.
    pub pause: Duration,
    /// No faults; the processors are kept busy.
    pub busy: bool,
    /// Whether to tell on standard error what happens.
    pub talk: bool,
}

impl Settings {
    /// The link whose delay varies. A busy machine would vary it by itself.
    fn delayed_link(&self) -> Option<usize> {
        (self.links >= 3 && !self.busy).then_some(self.links - 1)
    }

    /// Whether that may be the emulator's doing.
    fn may_be_late(&self, what: log::What) -> bool {
        match what {
            log::What::Path { link, .. } => self.delayed_link() == Some(link),
            _ => false,
        }
    }
}

/// Run it from the command line.
pub fn run(args: &SoakArgs) -> ExitCode {
    let done = settings(args).and_then(|settings| {
        interrupt::note_signals().map_err(|error| format!("taking signals: {error}"))?;
        let outcome = soak(&settings).map_err(|error| error.to_string())?;
        println!("{outcome}");
        match &args.out {
            Some(directory) => outcome
                .write(directory)
                .map_err(|error| format!("{}: {error}", directory.display()))?,
            None => outcome.explain(),
        }
        Ok(outcome.is_good())
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("soak: {message}");
            ExitCode::FAILURE
        }
    }
}

fn settings(args: &SoakArgs) -> Result<Settings, String> {
    let seconds = |seconds: f64, what: &str| {
        Duration::try_from_secs_f64(seconds).map_err(|error| format!("{what}: {error}"))
    };
    Ok(Settings {
        tabane: crate::tabane(args.tabane.as_deref())?,
        nodes: args.nodes.into(),
        links: args.links.into(),
        mbit: args.mbit,
        seed: args.seed.unwrap_or_else(ledger::unix_ms),
        length: seconds(args.minutes * 60.0, "--minutes")?,
        pause: seconds(args.pause.max(0.1), "--pause")?,
        busy: args.busy,
        talk: true,
    })
}

/// Run it. What is wrong with tabane is in the outcome's `failures`.
///
/// # Errors
/// The lab, or a program, does not do its part.
pub fn soak(settings: &Settings) -> Result<Outcome, LabError> {
    let delayed_link = settings.delayed_link();
    let mut links = vec![LinkSpec::mbit(settings.mbit); settings.links];
    if let Some(link) = delayed_link {
        links[link].delay = OWN_DELAY;
    }
    let planned = plan(&PlanConfig {
        seed: settings.seed,
        length: settings.length,
        nodes: settings.nodes,
        links: settings.links,
        delayed_link,
        pause: settings.pause,
    });
    let planned = if settings.busy { Vec::new() } else { planned };
    let lab = Lab::up(&LabConfig {
        nodes: settings.nodes,
        links,
        ..LabConfig::default()
    })?;
    let cluster = Cluster::new(lab, &settings.tabane, ClusterConfig::default())?;
    let (ledger, nodes) = (Ledger::default(), Nodes::new(&cluster));
    let run = Run {
        settings,
        cluster: &cluster,
        nodes: &nodes,
        ledger: &ledger,
        striker: Striker {
            cluster: &cluster,
            nodes: &nodes,
            ledger: &ledger,
        },
        begun: Instant::now(),
        statuses: OnceLock::new(),
        longest_stall_us: AtomicU64::new(0),
    };
    run.say(&format!(
        "seed {}, {} nodes, {} links, {} faults in {} s",
        settings.seed,
        settings.nodes,
        settings.links,
        planned.len(),
        settings.length.as_secs()
    ));
    run.all(&planned)
}

/// A run, after the lab is up.
struct Run<'a> {
    settings: &'a Settings,
    cluster: &'a Cluster,
    nodes: &'a Nodes<'a>,
    ledger: &'a Ledger,
    striker: Striker<'a>,
    begun: Instant,
    /// Of every node, when something had gone wrong.
    statuses: OnceLock<Vec<String>>,
    /// For how long this program was kept waiting for a processor, microseconds.
    longest_stall_us: AtomicU64,
}

impl Run<'_> {
    fn note_stall(&self, stall: Duration) {
        let us = stall.as_micros() as u64;
        self.longest_stall_us.fetch_max(us, Ordering::Relaxed);
    }

    /// Of every node: when something had gone wrong first, or now.
    fn statuses(&self) -> Vec<String> {
        let status = |node| match self.cluster.status(node) {
            Ok(status) => format!("{status:#}"),
            Err(error) => format!("n{node}: {error}"),
        };
        let all = || (0..self.settings.nodes).map(status).collect();
        self.statuses.get_or_init(all).clone()
    }

    fn say(&self, text: &str) {
        if self.settings.talk {
            eprintln!("{:8.1} {text}", self.begun.elapsed().as_secs_f64());
        }
    }

    fn all(&self, planned: &[Planned]) -> Result<Outcome, LabError> {
        for node in 0..self.settings.nodes {
            self.nodes.start(node)?;
        }
        for node in 0..self.settings.nodes {
            self.cluster
                .wait_status(node, "all paths are up", all_paths_up)?;
        }
        let shells = Shells::start(self.cluster, self.settings.seed)?;
        let traffic = Traffic::new(self.cluster, self.ledger, self.settings);
        let healed = thread::scope(|scope| {
            // However this ends, also by a panic, the threads come to an end.
            let _end = EndOf(&traffic);
            if self.settings.busy {
                let spinners = 2 * thread::available_parallelism().map_or(1, usize::from);
                (0..spinners).for_each(|_| drop(scope.spawn(|| spin(&traffic))));
            }
            traffic.start(scope, &shells);
            self.strike_all(planned, &traffic)?;
            let healed = self.wait_healed(&traffic);
            traffic.set_phase(Phase::Finishing);
            Ok(healed)
        });
        self.nodes.look()?;
        interrupt::check()?;
        let healed = match healed {
            Ok(healed) => healed,
            Err(error) => {
                traffic.fail(LabError::to_string(&error));
                None
            }
        };
        if healed.is_none() {
            traffic.fail(format!(
                "not all paths are up within {} s of the last fault",
                HEALED_WITHIN.as_secs()
            ));
        }
        Ok(report::judge(self, &traffic, healed))
    }

    /// Let each fault strike at its time, and undo it at its time.
    fn strike_all(&self, planned: &[Planned], traffic: &Traffic) -> Result<(), LabError> {
        let begin = Instant::now();
        let mut waiting = planned.iter().peekable();
        let mut in_force: Vec<(Duration, InForce)> = Vec::new();
        let mut sampled = Duration::ZERO;
        loop {
            let at = begin.elapsed();
            self.nodes.look()?;
            if at >= sampled {
                self.nodes.sample();
                sampled = at + SAMPLE;
            }
            // Ends first: a fault was planned to begin after those ended.
            while let Some(due) = in_force.iter().position(|(end, _)| *end <= at) {
                let (_, fault) = in_force.remove(due);
                self.striker.end(&fault)?;
                self.say(&format!("- {}", fault.strike()));
            }
            let ended = at >= self.settings.length && in_force.is_empty();
            if !traffic.failures().is_empty() {
                self.statuses();
                break;
            }
            if ended || !traffic.goes_on() {
                break;
            }
            if let Some(next) = waiting.next_if(|next| next.begin <= at) {
                self.say(&format!("+ {}", next.strike));
                in_force.push((next.end, self.striker.begin(next.strike)?));
                continue;
            }
            let before = Instant::now();
            thread::sleep(LOOK);
            self.note_stall(before.elapsed().saturating_sub(LOOK));
        }
        // Cut short: the earliest end first all the same.
        in_force.sort_by_key(|(end, _)| *end);
        in_force
            .iter()
            .try_for_each(|(_, fault)| self.striker.end(fault))
    }

    /// How long it takes until every path of every node is up.
    fn wait_healed(&self, traffic: &Traffic) -> Option<Duration> {
        let begin = Instant::now();
        let is_up = |node| {
            let status = self.cluster.status(node);
            status.is_ok_and(|status| all_paths_up(&status))
        };
        while !traffic.is_aborted() && begin.elapsed() < HEALED_WITHIN {
            if (0..self.settings.nodes).all(is_up) {
                self.say("all paths are up");
                return Some(begin.elapsed());
            }
            thread::sleep(LOOK);
        }
        None
    }
}

/// Ends the traffic at once, unless it is finishing already.
struct EndOf<'a, 'b>(&'a Traffic<'b>);

impl Drop for EndOf<'_, '_> {
    fn drop(&mut self) {
        if self.0.goes_on() {
            self.0.set_phase(Phase::Aborted);
        }
    }
}

/// A program that computes, of ordinary priority.
fn spin(traffic: &Traffic) {
    static UNUSED: AtomicBool = AtomicBool::new(false);
    while traffic.goes_on() {
        for _ in 0..1_000_000 {
            UNUSED.store(hint::black_box(true), Ordering::Relaxed);
        }
    }
}
