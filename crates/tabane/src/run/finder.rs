//! What stays in the host's network namespace: finds the agent, at first and whenever it was
//! restarted, and hands the way to it on into the program's namespace, from which it could not be
//! found.
//!
//! A process of its own, since nobody comes back out of a namespace who is not privileged in the
//! one outside; and since it can do what was done at first, it also starts the daemon of this user's
//! programs anew.

use core::time::Duration;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Instant;

use tabane_cluster::plain;
use tabane_io::handover::Handover;
use tabane_io::process::{heed_termination, ignore_termination, leave_behind, show_as};
use tabane_io::sockets::Audience;

use super::known::Known;
use crate::agent;
use crate::daemon::ALREADY;

/// To be asked for: the agent, and if there is none, one of this user is started.
const START: &[u8] = b"start";
/// The same if the last one was such a one; else the daemon of the node, if it is back.
const AGAIN: &[u8] = b"again";
/// To be told, without an answer: the last one, which was found without this process, was such a one.
const OWN: &[u8] = b"own";
/// The answer with an agent; any other says why there is none.
const FOUND: &[u8] = b"found";

/// A daemon that is just ending, or just being started by somebody else, is waited for this long.
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
        let name = format!("tabane: finder of {}", std::process::id());
        leave_behind(&[theirs.as_fd()], || {
            show_as(&name);
            search.serve(&theirs);
        })?;
        Ok(Finder(ours))
    }

    /// The agent. Blocking.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn start(&self) -> Result<Handover, String> {
        let lost = |error: io::Error| format!("the search for the daemon broke: {}", plain(&error));
        self.0.send(START, &[]).map_err(lost)?;
        self.found().map_err(lost)?
    }

    /// Tells it that the agent, which was found without it, is one of this user's programs.
    ///
    /// # Errors
    /// The finder is gone.
    pub fn is_own(&self) -> io::Result<()> {
        self.0.send(OWN, &[])
    }

    /// Has the agent be looked for; [`Finder::found`] tells when this is readable.
    ///
    /// # Errors
    /// The finder is gone.
    pub fn ask_again(&self) -> io::Result<()> {
        self.0.send(AGAIN, &[])
    }

    /// What was found, or why there is nothing, in words.
    ///
    /// # Errors
    /// The finder is gone.
    pub fn found(&self) -> io::Result<Result<Handover, String>> {
        let (answer, descriptors) = self.0.receive()?;
        match descriptors.into_iter().next() {
            Some(agent) => Ok(Ok(agent.into())),
            None if answer.is_empty() => Err(ErrorKind::BrokenPipe.into()),
            None => Ok(Err(String::from_utf8_lossy(&answer).into_owned())),
        }
    }
}

impl AsFd for Finder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What is looked for, and how it is started.
struct Search {
    program: PathBuf,
    file: PathBuf,
    node: String,
}

impl Search {
    /// Until whoever asks is gone.
    fn serve(&self, asker: &Handover) {
        // Without it programs would never find another daemon.
        ignore_termination();
        let mut may_start = false;
        while let Ok((question, _)) = asker.receive()
            && !question.is_empty()
        {
            if question == OWN {
                may_start = true;
                continue;
            }
            let told = match self.find(may_start || question == START) {
                Ok((agent, is_own)) => {
                    may_start = is_own;
                    asker.send(FOUND, &[agent.as_fd()])
                }
                Err(why) => asker.send(why.as_bytes(), &[]),
            };
            if told.is_err() {
                return;
            }
        }
    }

    /// The daemon of this node, or that of this user's programs (and whether it is that one), which
    /// is started if need be.
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
                // If it fails, the pipe is closed and nothing was said.
                let _ = daemon.stdout(out).stderr(err).exec();
            }
        })
        .map_err(trouble)?;
        drop(told);
        // Until it is ready: then it closes nothing, but says so.
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
