//! What stays in a program's network namespace: makes the sockets that only can be made there, asks
//! for the ports that programs want, and ends when the last process there has.

use core::time::Duration;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use tabane_io::capture::connect_as;
use tabane_io::handover::Handover;
use tabane_io::poll::{Interest, Poller};
use tabane_io::process::Watched;
use tabane_io::socket_calls::SocketCalls;

use super::claims::Claims;
use crate::agent::{ToAgent, ToSupervisor};

const TOKEN_AGENT: u64 = 0;
const TOKEN_PROGRAM: u64 = 1;
const TOKEN_CALLS: u64 = 2;
/// How often it is looked whether programs still have the ports they had; and, once the program
/// itself has ended, whether what it started has, too.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Until the program (and all it started) has ended, or the agent.
pub fn supervise(agent: &Handover, program: &Watched, calls: Option<&SocketCalls>) {
    let mut supervisor = Supervisor {
        agent,
        calls,
        claims: calls.map(|calls| Claims::new(calls, agent)),
        looked_at: Instant::now(),
    };
    // Nobody is there to be told: if anything fails, the agent sees that this process is gone.
    let _ = supervisor.serve(program);
}

struct Supervisor<'a> {
    agent: &'a Handover,
    calls: Option<&'a SocketCalls>,
    claims: Option<Claims<'a>>,
    looked_at: Instant,
}

impl Supervisor<'_> {
    fn serve(&mut self, program: &Watched) -> io::Result<()> {
        let poller = Poller::new()?;
        // What is said waits until the agent has room for it, which never waits itself.
        poller.register(self.agent, TOKEN_AGENT, Interest::Read)?;
        poller.register(program, TOKEN_PROGRAM, Interest::Read)?;
        if let Some(calls) = self.calls {
            poller.register(calls, TOKEN_CALLS, Interest::Read)?;
        }
        let mut ready = Vec::new();
        let mut has_ended = false;
        loop {
            let looks = has_ended || self.claims.as_ref().is_some_and(Claims::has_taken);
            poller.wait(looks.then_some(LOOK_EVERY), &mut ready)?;
            for ready in &ready {
                match ready.token {
                    TOKEN_PROGRAM => {
                        poller.deregister(program)?;
                        has_ended = true;
                    }
                    TOKEN_CALLS => self.claims.as_mut().map_or(Ok(()), Claims::called)?,
                    _ if !self.hear()? => return Ok(()),
                    _ => {}
                }
            }
            if self.looked_at.elapsed() >= LOOK_EVERY {
                self.look()?;
            }
            if has_ended && !others_are_here()? {
                return Ok(());
            }
        }
    }

    fn look(&mut self) -> io::Result<()> {
        self.looked_at = Instant::now();
        self.claims.as_mut().map_or(Ok(()), Claims::look)
    }

    /// Does what the agent wants; `false`: it is gone.
    fn hear(&mut self) -> io::Result<bool> {
        loop {
            let message = match self.agent.receive_now() {
                Ok((message, _)) if message.is_empty() => return Ok(false),
                Ok((message, _)) => message,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            };
            match ToSupervisor::parse(&message) {
                Some(ToSupervisor::Connect {
                    id,
                    question,
                    from,
                    to,
                }) => {
                    let said = ToAgent::Connected { id, question };
                    self.answer(&said, connect_as(from, to))?;
                }
                Some(ToSupervisor::Claimed { id, port, error }) => {
                    if let Some(claims) = &mut self.claims {
                        claims.answered(id, port, error);
                    }
                }
                Some(ToSupervisor::Look) => {
                    self.look()?;
                    self.agent.send(&ToAgent::Looked.encode(), &[])?;
                }
                Some(ToSupervisor::Go) | None => {}
            }
        }
    }

    fn answer(&self, said: &ToAgent, socket: io::Result<TcpStream>) -> io::Result<()> {
        let said = said.encode();
        match socket {
            Ok(socket) => self.agent.send(&said, &[socket.as_fd()]),
            Err(_) => self.agent.send(&said, &[]),
        }
    }
}

/// Whether another process is in this network namespace.
fn others_are_here() -> io::Result<bool> {
    let here = fs::metadata("/proc/self/ns/net")?;
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        let is_process = name
            .to_str()
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && name != own);
        // One that ended meanwhile, or is another user's, is not here.
        if is_process
            && let Ok(there) = fs::metadata(entry.path().join("ns/net"))
            && (there.dev(), there.ino()) == (here.dev(), here.ino())
        {
            return Ok(true);
        }
    }
    Ok(false)
}
