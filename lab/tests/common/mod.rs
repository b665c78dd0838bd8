//! What the tests share.
#![allow(dead_code, missing_docs, reason = "each test binary uses its part")]

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tabane_lab::{Lab, LabConfig, LinkSpec};

/// Generous: only a hang is longer.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn lab() -> Lab {
    Lab::up(&LabConfig::default()).expect("a lab comes up")
}

pub fn lab_with(nodes: usize, links: Vec<LinkSpec>) -> Lab {
    let config = LabConfig {
        nodes,
        links,
        ..LabConfig::default()
    };
    Lab::up(&config).expect("a lab comes up")
}

pub fn run(mut command: Command) -> Output {
    command
        .stdin(Stdio::null())
        .output()
        .expect("the command starts")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How many of `count` pings of `size` payload bytes are answered.
pub fn pings(lab: &Lab, from: usize, to: usize, link: usize, count: u32, size: u32) -> u32 {
    let mut ping = lab.command(from, "ping");
    ping.args(["-q", "-i", "0.01", "-W", "1", "-M", "do"]);
    ping.args(["-c", &count.to_string(), "-s", &size.to_string()]);
    ping.arg(lab.address(to, link).to_string());
    let said = text(&run(ping).stdout);
    let answered = said
        .lines()
        .find(|line| line.contains("received"))
        .expect("ping reports");
    let field = answered.split(',').nth(1).expect("so many received");
    field
        .trim()
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a number")
}

/// Whether pings get through both ways; waits, as a port that comes up takes its time.
pub fn works(lab: &Lab, link: usize) -> bool {
    eventually(|| pings(lab, 0, 1, link, 3, 56) == 3 && pings(lab, 1, 0, link, 3, 56) == 3)
}

pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// What a lab is made of, to look for after its end.
pub struct Trace {
    pub name: String,
    namespaces: Vec<String>,
}

pub fn trace(lab: &Lab) -> Trace {
    let links =
        fs::read_dir(format!("/proc/{}/fd", lab.summary().holder)).expect("the holder lives");
    let names = links
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    let names = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with("net:["));
    Trace {
        name: lab.name().into(),
        namespaces: names.collect(),
    }
}

impl Trace {
    /// Waits until no process is in, or holds, a namespace of the lab, and the
    /// lab is forgotten. The kernel then removes namespaces and devices itself.
    pub fn is_gone(&self) -> bool {
        assert!(!self.namespaces.is_empty());
        eventually(|| {
            let labs = tabane_lab::list().expect("labs are listed");
            labs.iter().all(|lab| lab.name != self.name) && self.holders().is_empty()
        })
    }

    pub fn holders(&self) -> Vec<String> {
        let processes = fs::read_dir("/proc").expect("proc").flatten();
        let mut holders = Vec::new();
        for process in processes.filter(|p| p.file_name().to_string_lossy().parse::<u32>().is_ok())
        {
            let descriptors = fs::read_dir(process.path().join("fd"))
                .into_iter()
                .flatten()
                .flatten();
            let mut links: Vec<_> = descriptors.map(|entry| entry.path()).collect();
            links.push(process.path().join("ns/net"));
            let is_ours = |name: &str| self.namespaces.iter().any(|wanted| wanted == name);
            if links
                .iter()
                .filter_map(|link| fs::read_link(link).ok())
                .any(|to| is_ours(&to.to_string_lossy()))
            {
                holders.push(process.file_name().to_string_lossy().into_owned());
            }
        }
        holders
    }
}
