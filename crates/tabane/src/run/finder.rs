//! The process that stays in the host's network namespace: it finds the agent, at first and after each
//! restart, and hands the connection to it into the program's namespace, from which it could not be found.
//! It also makes the sockets by which programs leave this node and have their ports there: to the kernel
//! they belong to the user and the program's cgroup, as if there were no daemon.
//!
//! It is a separate process because an unprivileged process cannot return from a namespace. Since it can
//! still do what was possible at first, it also restarts the daemon of this user's programs.

use core::time::Duration;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tabane_cluster::plain;
use tabane_io::capture::{Outward, Pinger};
use tabane_io::handover::{DESCRIPTORS_MAX, Handover};
use tabane_io::process::{heed_termination, leave_behind, leave_helper};
use tabane_io::sockets::Audience;

use super::known::Known;
use crate::agent::{self, Transport};
use crate::log::ALREADY;

/// Requests to it: a JSON message each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "asks", rename_all = "lowercase")]
enum Question {
    /// The agent; if there is none, starts one of this user.
    Start,
    /// The same if the last agent was this user's; otherwise the node's daemon, if it is back.
    Again,
    /// No request, only information: the last agent, which was found without this process, was this user's.
    Own,
    /// Sockets by which programs leave this node.
    Outward {
        count: usize,
        transport: Transport,
        is_v6: bool,
    },
    /// A socket by which programs ping.
    Ping { is_v6: bool },
}

/// Its answers: a JSON message each.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "lowercase")]
enum Answer {
    /// With the way to the agent.
    Agent,
    /// There is none.
    Nobody { why: String },
    /// With the sockets; without any: they cannot be had.
    Outward { transport: Transport, is_v6: bool },
    /// With the socket; without: it cannot be had.
    Ping { is_v6: bool },
}

/// What the finder has found or made.
#[derive(Debug)]
pub enum Found {
    /// The agent.
    Agent(Handover),
    /// None, and why, in words.
    Nobody(String),
    /// Sockets of this kind by which programs leave this node, if they could be made.
    Outward {
        transport: Transport,
        is_v6: bool,
        sockets: Vec<OwnedFd>,
    },
    /// A socket of this kind by which programs ping, if it could be made.
    Ping {
        is_v6: bool,
        socket: Option<OwnedFd>,
    },
}

/// How long to wait for a daemon that is just ending, or that somebody else is just starting.
const SETTLED_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The way to it.
#[derive(Debug)]
pub struct Finder(Handover);

impl Finder {
    /// Leaves it behind in the network namespace that this process is still in.
    ///
    /// # Errors
    /// There is no room for a process or a descriptor.
    pub fn leave(known: &Known) -> io::Result<Finder> {
        let (ours, theirs) = Handover::pair()?;
        let search = Search {
            program: std::env::current_exe()?,
            file: known.file.clone(),
            node: known.own().name.clone(),
        };
        // Without it programs would never find another daemon.
        leave_helper("finder", &[theirs.as_fd()], || search.serve(&theirs))?;
        Ok(Finder(ours))
    }

    /// The agent. Blocking.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn start(&self) -> Result<Handover, String> {
        let lost = |error: io::Error| format!("the search for the daemon broke: {}", plain(&error));
        self.ask(Question::Start).map_err(lost)?;
        match self.found().map_err(lost)? {
            Found::Agent(agent) => Ok(agent),
            Found::Nobody(why) => Err(why),
            Found::Outward { .. } | Found::Ping { .. } => Err(lost(ErrorKind::InvalidData.into())),
        }
    }

    /// Tells it that the agent, which was found without it, is one of this user's programs.
    ///
    /// # Errors
    /// The finder is gone.
    pub fn is_own(&self) -> io::Result<()> {
        self.ask(Question::Own)
    }

    /// Asks for the agent again; [`Finder::found`] has the answer when this is readable.
    ///
    /// # Errors
    /// The finder is gone.
    pub fn ask_again(&self) -> io::Result<()> {
        self.ask(Question::Again)
    }

    /// Asks for sockets by which programs leave this node; [`Finder::found`] has the answer when this is
    /// readable.
    ///
    /// # Errors
    /// The finder is gone.
    pub fn ask_outward(&self, count: usize, transport: Transport, is_v6: bool) -> io::Result<()> {
        self.ask(Question::Outward {
            count,
            transport,
            is_v6,
        })
    }

    /// Asks for a socket by which programs ping; [`Finder::found`] has the answer when this is readable.
    ///
    /// # Errors
    /// The finder is gone.
    pub fn ask_ping(&self, is_v6: bool) -> io::Result<()> {
        self.ask(Question::Ping { is_v6 })
    }

    fn ask(&self, question: Question) -> io::Result<()> {
        self.0.send(&serde_json::to_vec(&question)?, &[])
    }

    /// The next answer. Blocking.
    ///
    /// # Errors
    /// The finder is gone.
    pub fn found(&self) -> io::Result<Found> {
        let (answer, descriptors) = self.0.receive()?;
        if answer.is_empty() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        Ok(match serde_json::from_slice(&answer)? {
            Answer::Nobody { why } => Found::Nobody(why),
            Answer::Outward { transport, is_v6 } => Found::Outward {
                transport,
                is_v6,
                sockets: descriptors,
            },
            Answer::Ping { is_v6 } => Found::Ping {
                is_v6,
                socket: descriptors.into_iter().next(),
            },
            Answer::Agent => match descriptors.into_iter().next() {
                Some(agent) => Found::Agent(agent.into()),
                None => Found::Nobody("no descriptors are left".to_owned()),
            },
        })
    }
}

impl AsFd for Finder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The kind of daemon to find, and how to start it.
struct Search {
    program: PathBuf,
    file: PathBuf,
    node: String,
}

impl Search {
    /// Serves until the asker is gone.
    fn serve(&self, asker: &Handover) {
        let mut may_start = false;
        while let Ok((question, _)) = asker.receive()
            && let Ok(question) = serde_json::from_slice::<Question>(&question)
        {
            let told = match question {
                Question::Own => {
                    may_start = true;
                    Ok(())
                }
                Question::Outward {
                    count,
                    transport,
                    is_v6,
                } => make_outward(asker, count, transport, is_v6),
                Question::Ping { is_v6 } => {
                    let pinger = Pinger::new(is_v6).ok();
                    let descriptors: Vec<_> = pinger.iter().map(AsFd::as_fd).collect();
                    tell(asker, &Answer::Ping { is_v6 }, &descriptors)
                }
                Question::Start | Question::Again => {
                    match self.find(may_start || question == Question::Start) {
                        Ok((agent, is_own)) => {
                            may_start = is_own;
                            tell(asker, &Answer::Agent, &[agent.as_fd()])
                        }
                        Err(why) => tell(asker, &Answer::Nobody { why }, &[]),
                    }
                }
            };
            if told.is_err() {
                return;
            }
        }
    }

    /// The daemon of this node, or that of this user's programs (and whether it is that one), which is
    /// started if necessary.
    fn find(&self, may_start: bool) -> Result<(Handover, bool), String> {
        let until = Instant::now() + SETTLED_MAX;
        loop {
            for audience in [Audience::Everybody, Audience::User] {
                let trouble = |error| format!("the daemon cannot be asked: {}", plain(&error));
                match agent::find_daemon(audience) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(trouble(error)),
                    Ok(agent) => return Ok((agent, audience == Audience::User)),
                }
            }
            if !may_start {
                return Err("no daemon runs here".to_owned());
            }
            if !self.start()? {
                // Another one has its name: it is about to be found, or to be gone.
                if Instant::now() > until {
                    return Err("a daemon of this user is there, and does not answer".to_owned());
                }
                thread::sleep(LOOK_EVERY);
            }
        }
    }

    /// Starts a daemon for this user's programs, and waits until it is ready; `false`: there is
    /// one already.
    fn start(&self) -> Result<bool, String> {
        let trouble = |error: io::Error| format!("no daemon can be started: {}", plain(&error));
        let (says, told) = io::pipe().map_err(trouble)?;
        let mut daemon = Command::new(&self.program);
        daemon.arg("agent").arg("--config").arg(&self.file);
        daemon.args(["--node", &self.node]);
        leave_behind(&[told.as_fd()], || {
            heed_termination();
            if let (Ok(out), Ok(err)) = (told.try_clone(), told.try_clone()) {
                // If it fails, the pipe is closed without a message.
                let _ = daemon.stdout(out).stderr(err).exec();
            }
        })
        .map_err(trouble)?;
        drop(told);
        // When it is ready it sends a message and does not close the pipe.
        let mut said = String::new();
        for line in BufReader::new(says).lines().map_while(Result::ok) {
            match line.as_str() {
                "ready" => return Ok(true),
                _ if line.contains(ALREADY) => return Ok(false),
                line => said += &format!("{line}\n"),
            }
        }
        Err(format!(
            "no daemon runs here, and none can be started:\n{}",
            said.trim_end()
        ))
    }
}

fn tell(asker: &Handover, answer: &Answer, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    asker.send(&serde_json::to_vec(answer)?, descriptors)
}

/// Makes as many of the sockets that are asked for as can be had.
fn make_outward(
    asker: &Handover,
    count: usize,
    transport: Transport,
    is_v6: bool,
) -> io::Result<()> {
    let make = |_| Outward::new(transport == Transport::Tcp, is_v6).ok();
    let sockets = (0..count.min(DESCRIPTORS_MAX)).map_while(make);
    let sockets: Vec<_> = sockets.collect();
    let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    tell(asker, &Answer::Outward { transport, is_v6 }, &descriptors)
}
