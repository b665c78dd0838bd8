//! `tabane init --answer`: says who this machine is to whoever runs `tabane init --scan`, until that has written its file.

use std::time::{Duration, Instant};

use super::network::{self, Network};
use super::words::{ADDRESSES_MAX, Answer, Run, Words};

/// How long it answers.
const ANSWERING: Duration = Duration::from_secs(600);
/// Interval of looking for questions.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The most answers on a network within [`LOOK_EVERY`]; who asks often is answered later.
const ANSWERS_MAX: usize = 4;
/// The most of one look that is read.
const READ_MAX: usize = 64;

/// Answers until a file is written. The machine is to be called `name`, if that is given.
///
/// # Errors
/// It cannot answer, or nobody wrote a file: in words.
pub fn answer(name: Option<&str>) -> Result<(), String> {
    let networks = network::all()?;
    let own = network::new_run()?;
    let name = name.map_or_else(network::own_name, str::to_owned);
    crate::say::print(&format!(
        "Answering as {name} on {}, until the file is written, for {} minutes at most.\n\
         Now run `tabane init --scan` on one machine of the cluster.\n",
        network::shown(&networks),
        ANSWERING.as_secs() / 60
    ));
    let until = Instant::now() + ANSWERING;
    let mut askers: Vec<Run> = Vec::new();
    while Instant::now() < until {
        for network in &networks {
            if turn(network, own, &name, &mut askers) {
                return Ok(());
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(match askers.is_empty() {
        true => format!(
            "nobody asked; does UDP port {} pass the firewalls, and are the cables in the same switches?",
            network::PORT
        ),
        false => "somebody asked, but wrote no file".to_owned(),
    })
}

/// The most runs that are remembered; each is a person's.
const ASKERS_MAX: usize = 16;

/// Answers what was asked on a network. Returns whether an asker has written its file.
fn turn(network: &Network, own: Run, name: &str, askers: &mut Vec<Run>) -> bool {
    let mut answered = 0;
    for _ in 0..READ_MAX {
        match network.hear() {
            None => break,
            Some(Words::Question { asker }) if answered < ANSWERS_MAX => {
                answered += 1;
                if !askers.contains(&asker) && askers.len() < ASKERS_MAX {
                    askers.push(asker);
                }
                let addresses = network.own.addresses.iter().take(ADDRESSES_MAX);
                network.say(&Words::Answer(Answer {
                    asker,
                    answerer: own,
                    name: name.to_owned(),
                    interface: network.own.interface.clone(),
                    addresses: addresses.copied().collect(),
                }));
            }
            Some(Words::Written { asker, answerer }) => {
                if answerer == own && askers.contains(&asker) {
                    return true;
                }
            }
            Some(_) => {}
        }
    }
    false
}
