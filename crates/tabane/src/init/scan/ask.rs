//! `tabane init --scan`: asks who is there, proposes a cluster, and has a person confirm it.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::confirm::{Taken, confirm};
use super::links::{Proposal, propose};
use super::network::{self, Network};
use super::words::{Answer, Run, Words};
use crate::init::nodes::GivenNode;

/// How long it asks; a machine that does not hear one question hears another.
const ASKING: Duration = Duration::from_secs(3);
/// How often it asks meanwhile.
const EVERY: Duration = Duration::from_millis(300);
/// Interval of looking for what was said.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The most answers that are kept of each network.
const HEARD_MAX: usize = 1024;
/// So often it is told that the file is written.
const TOLD: u32 = 3;

/// The nodes that a person has said yes to, and those to be told that the file is written.
pub struct Scan {
    /// What to write into the file.
    pub nodes: Vec<GivenNode>,
    networks: Vec<Network>,
    asker: Run,
    answerers: Vec<Run>,
}

/// Asks on all networks, and the person at the terminal unless that has said `yes` beforehand. The machine is to be called
/// `name`, if that is given.
///
/// # Errors
/// Nobody can be asked, or nobody answers, or the person says no: in words.
pub fn scan(name: Option<&str>, yes: bool) -> Result<Scan, String> {
    let networks = network::all()?;
    let asker = network::new_run()?;
    crate::say::print(&format!(
        "Asking for {} s who answers on {}.\n",
        ASKING.as_secs(),
        network::shown(&networks)
    ));
    let heard = ask(&networks, asker);
    if heard.is_empty() {
        return Err(format!(
            "nobody answered; run `tabane init --answer` on the other machines meanwhile, and let UDP port {} through their \
             firewalls and this one's; or name the nodes yourself: `tabane init --node NAME=ADDRESS,ADDRESS …`",
            network::PORT
        ));
    }
    let name = name.map_or_else(network::own_name, str::to_owned);
    let own: Vec<_> = networks.iter().map(|it| it.own.clone()).collect();
    let proposal = propose(&name, &own, &heard);
    let mut answerers: Vec<Run> = heard.iter().map(|(_, answer)| answer.answerer).collect();
    answerers.sort_unstable();
    answerers.dedup();
    tell_warnings(&proposal);
    if proposal.nodes.len() < 2 {
        return Err("no network has addresses of two machines; see above".to_owned());
    }
    let taken = match yes {
        true => Taken::all(&proposal),
        false => confirm(&proposal, &mut io::stdin().lock(), &mut io::stdout())?,
    };
    let nodes = taken.0.iter().map(|(name, links)| given(name, links));
    Ok(Scan {
        nodes: nodes.collect(),
        networks,
        asker,
        answerers,
    })
}

impl Scan {
    /// Tells all who answered that the file is written.
    pub fn tell_written(&self) {
        for _ in 0..TOLD {
            for network in &self.networks {
                for answerer in &self.answerers {
                    network.say(&Words::Written {
                        asker: self.asker,
                        answerer: *answerer,
                    });
                }
            }
            std::thread::sleep(EVERY / TOLD);
        }
    }
}

fn given(name: &str, links: &[Option<IpAddr>]) -> GivenNode {
    let link = |link: &Option<IpAddr>| link.map_or_else(String::new, |ip| ip.to_string());
    GivenNode::new(name, links.iter().map(link).collect())
}

fn tell_warnings(proposal: &Proposal) {
    for warning in &proposal.warnings {
        crate::say::eprintln_quietly(&format!("tabane: warning: {warning}"));
    }
}

/// Each answer once, with the number of the network where it was heard.
fn ask(networks: &[Network], asker: Run) -> Vec<(usize, Answer)> {
    let mut heard: Vec<(usize, Answer)> = Vec::new();
    let until = Instant::now() + ASKING;
    let mut ask_at = Instant::now();
    while Instant::now() < until {
        if Instant::now() >= ask_at {
            let question = Words::Question { asker };
            networks.iter().for_each(|network| network.say(&question));
            ask_at += EVERY;
        }
        for (number, network) in networks.iter().enumerate() {
            // Whoever talks without end is not listened to without end.
            for _ in 0..HEARD_MAX {
                let Some(words) = network.hear() else { break };
                let count = heard.iter().filter(|(on, _)| *on == number).count();
                if let Words::Answer(answer) = words
                    && answer.asker == asker
                    && count < HEARD_MAX
                    && !heard.iter().any(|it| it.0 == number && it.1 == answer)
                {
                    heard.push((number, answer));
                }
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
    heard
}
