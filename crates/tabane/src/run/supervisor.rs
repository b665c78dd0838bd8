//! What stays in a program's network namespace: makes the sockets that only can be made there, tells
//! of listeners, and ends when the last process there has.

use core::time::Duration;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tabane_io::capture::connect_as;
use tabane_io::handover::Handover;
use tabane_io::listening::{ListenCall, ListenCalls};
use tabane_io::poll::{Interest, Poller};
use tabane_io::process::Watched;

use crate::agent::{ToAgent, ToSupervisor};

const TOKEN_AGENT: u64 = 0;
const TOKEN_PROGRAM: u64 = 1;
const TOKEN_CALLS: u64 = 2;
/// How often it is looked, once the program itself has ended, whether what it started has, too.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Until the program (and all it started) has ended, or the agent.
pub fn supervise(agent: &Handover, program: &Watched, calls: Option<&ListenCalls>) {
    let mut supervisor = Supervisor {
        agent,
        calls,
        waiting: HashMap::new(),
        told: 0,
    };
    // Nobody is there to be told: if anything fails, the agent sees that this process is gone.
    let _ = supervisor.serve(program);
}

struct Supervisor<'a> {
    agent: &'a Handover,
    calls: Option<&'a ListenCalls>,
    /// Calls of listen that the agent was told of.
    waiting: HashMap<u64, ListenCall>,
    told: u64,
}

impl Supervisor<'_> {
    fn serve(&mut self, program: &Watched) -> io::Result<()> {
        let poller = Poller::new()?;
        self.agent.set_nonblocking(true)?;
        poller.register(self.agent, TOKEN_AGENT, Interest::Read)?;
        poller.register(program, TOKEN_PROGRAM, Interest::Read)?;
        if let Some(calls) = self.calls {
            poller.register(calls, TOKEN_CALLS, Interest::Read)?;
        }
        let mut ready = Vec::new();
        let mut has_ended = false;
        loop {
            poller.wait(has_ended.then_some(LOOK_EVERY), &mut ready)?;
            for ready in &ready {
                match ready.token {
                    TOKEN_PROGRAM => {
                        poller.deregister(program)?;
                        has_ended = true;
                    }
                    TOKEN_CALLS => self.tell_of_listener()?,
                    _ if !self.hear()? => return Ok(()),
                    _ => {}
                }
            }
            if has_ended && !others_are_here()? {
                return Ok(());
            }
        }
    }

    /// A program of this namespace calls listen.
    fn tell_of_listener(&mut self) -> io::Result<()> {
        let Some(calls) = self.calls else {
            return Ok(());
        };
        let Some(call) = calls.next()? else {
            return Ok(());
        };
        let address = calls.address_of(call).filter(|address| address.port() != 0);
        let Some(address) = address else {
            calls.go_on(call);
            return Ok(());
        };
        self.told += 1;
        let id = self.told;
        let told = ToAgent::Listen { id, address };
        match self.agent.send(&told.encode(), &[]) {
            Ok(()) => drop(self.waiting.insert(id, call)),
            // The agent is busy, or gone: the program's own affairs go on.
            Err(_) => calls.go_on(call),
        }
        Ok(())
    }

    /// Does what the agent wants; `false`: it is gone.
    fn hear(&mut self) -> io::Result<bool> {
        loop {
            let message = match self.agent.receive() {
                Ok((message, _)) if message.is_empty() => return Ok(false),
                Ok((message, _)) => message,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            };
            match ToSupervisor::parse(&message) {
                Some(ToSupervisor::Connect { id, from, to }) => {
                    self.answer(id, connect_as(from, to))?;
                }
                Some(ToSupervisor::Listening { id, error }) => {
                    if let (Some(call), Some(calls)) = (self.waiting.remove(&id), self.calls) {
                        match error {
                            Some(error) => calls.fail(call, error),
                            None => calls.go_on(call),
                        }
                    }
                }
                Some(ToSupervisor::Go) | None => {}
            }
        }
    }

    fn answer(&self, id: usize, socket: io::Result<TcpStream>) -> io::Result<()> {
        let said = ToAgent::Connected { id }.encode();
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
