//! What happens in every run.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::recording::{Outage, Recording, Sampler};
use super::screen::{LinkView, Screen};
use crate::cluster::{Cluster, PATIENCE, Program, path};
use crate::ways::{Arena, Way};
use crate::{Fault, LabError, interrupt, monotonic_ns};

/// Links, and switches.
pub const LINKS: usize = 2;
const PHASE_S: f64 = 3.0;
/// The switch that is silent in each phase.
const PHASES: [Option<usize>; 5] = [None, Some(1), None, Some(0), None];
/// How long a run is, seconds.
pub const END_S: f64 = PHASE_S * PHASES.len() as f64;
const FRAME: Duration = Duration::from_millis(100);
/// iperf3 runs a second longer than it is watched, then has this long to end.
const SPARE: Duration = Duration::from_secs(3);

/// Run the script on one way, shown as it goes.
///
/// # Errors
/// A program does not start or is missing; Ctrl-C.
pub fn play(arena: &Arena, screen: &mut Screen) -> Result<Recording, LabError> {
    let server = Arc::new(arena.serve_iperf3()?);
    let sampler = Sampler::start(server.clone())?;
    let mut client = arena.command(0, "iperf3")?;
    client.args(["--json", "-c", &arena.address(1).to_string()]);
    client.args(["-t", &format!("{}", END_S as u64 + 1)]);
    client
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null());
    let mut client = Program::start("iperf3", client)?;
    let begin_ns = wait_begin(&mut client, &sampler)?;
    let mut run = Run {
        arena,
        screen,
        sampler,
        begin_ns,
        recording: Recording {
            way: arena.way(),
            samples: Vec::new(),
            outages: Vec::new(),
            retransmits: None,
            survived: false,
        },
        links: Default::default(),
    };
    for (phase, silent) in PHASES.iter().enumerate() {
        run.phase(phase, *silent)?;
    }
    let mut recording = run.recording;
    recording.samples.retain(|&(at_s, _)| at_s <= END_S);
    // A connection that hangs is killed; that is a result, not an error.
    if let Ok(said) = client.output(SPARE) {
        let report: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        recording.survived = said.status.success() && report.get("error").is_none();
        recording.retransmits = report["end"]["sum_sent"]["retransmits"].as_u64();
    }
    interrupt::check()?;
    Ok(recording)
}

fn wait_begin(client: &mut Program, sampler: &Sampler) -> Result<u64, LabError> {
    let until = Instant::now() + PATIENCE;
    loop {
        interrupt::check()?;
        if let Some(begin_ns) = sampler.begun_ns() {
            return Ok(begin_ns);
        }
        let ended = client.ended()?;
        if ended.is_some() || Instant::now() > until {
            let how = ended.map_or("no bytes arrive".into(), |status| status.to_string());
            return Err(LabError::io("iperf3")(std::io::Error::other(how)));
        }
        sleep(Duration::from_millis(5));
    }
}

struct Run<'a> {
    arena: &'a Arena,
    screen: &'a mut Screen,
    sampler: Sampler,
    begin_ns: u64,
    recording: Recording,
    links: [LinkView; LINKS],
}

impl Run<'_> {
    fn now_s(&self) -> f64 {
        monotonic_ns().saturating_sub(self.begin_ns) as f64 / 1e9
    }

    fn phase(&mut self, phase: usize, silent: Option<usize>) -> Result<(), LabError> {
        let end_s = (phase + 1) as f64 * PHASE_S;
        if let Some(switch) = silent {
            self.arena.lab().fail(switch, Fault::Silent, None)?;
            let begin_s = self.now_s();
            self.screen
                .event(begin_s, &format!("switch {switch} fails silently"));
            self.recording.outages.push(Outage {
                switch,
                begin_s,
                end_s,
            });
        }
        while self.now_s() < end_s {
            interrupt::check()?;
            self.show();
            sleep(FRAME);
        }
        self.show();
        if let Some(switch) = silent {
            let end_s = self.now_s();
            self.arena.lab().heal(switch)?;
            self.screen
                .event(end_s, &format!("switch {switch} is back"));
            if let Some(outage) = self.recording.outages.last_mut() {
                outage.end_s = end_s;
            }
        }
        Ok(())
    }

    fn show(&mut self) {
        if let Some(cluster) = self.arena.cluster() {
            // A status that fails leaves what was known.
            if let Some(links) = links(cluster) {
                self.links = links;
            }
        }
        self.recording.samples = self.sampler.samples(self.begin_ns);
        self.screen.show(&self.recording, &self.links);
    }
}

/// The paths from node 0 to node 1, by `tabane status --json`.
fn links(cluster: &Cluster) -> Option<[LinkView; LINKS]> {
    let status = cluster.status(0).ok()?;
    let mut views: [LinkView; LINKS] = Default::default();
    for (link, view) in views.iter_mut().enumerate() {
        let path = path(&status, "n1", link)?;
        let text = |name: &str| path[name].as_str().unwrap_or_default().to_owned();
        *view = LinkView {
            state: text("state"),
            why: text("why"),
            mbps: path["tx_rate_mbps"].as_f64(),
            rtt_us: path["rtt_us"].as_f64(),
        };
    }
    Some(views)
}

/// What the run is called.
pub fn title(way: Way) -> String {
    let over = match way {
        Way::Tabane(_) => "over tab0",
        Way::Run(_) => "under tabane run",
        Way::Library { .. } => "(which only uses TCP)",
        Way::Steered => "under tabane run --via mptcp",
        Way::Mptcp => "over MPTCP (mptcpize)",
        Way::BalanceRr => "over packets in turn",
        Way::Babel => "over routes of Babel",
        Way::Tcp { .. } => "over one link (switch 0), plain TCP",
    };
    format!("iperf3 {over}: two nodes, two switches of 1 Gb/s")
}
