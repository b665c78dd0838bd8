//! What stays in a program's network namespace: makes the sockets that only can be made there, and
//! ends when the last process there has.

use core::time::Duration;
use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tabane_io::capture::connect_as;
use tabane_io::handover::Handover;
use tabane_io::poll::{Interest, Poller};
use tabane_io::process::Watched;

use crate::agent::{ToAgent, ToSupervisor};

const TOKEN_AGENT: u64 = 0;
const TOKEN_PROGRAM: u64 = 1;
/// How often it is looked, once the program itself has ended, whether what it started has, too.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Until the program (and all it started) has ended, or the agent.
pub fn supervise(agent: &Handover, program: &Watched) {
    // Nobody is there to be told: if anything fails, the agent sees that this process is gone.
    let _ = serve(agent, program);
}

fn serve(agent: &Handover, program: &Watched) -> io::Result<()> {
    let poller = Poller::new()?;
    agent.set_nonblocking(true)?;
    poller.register(agent, TOKEN_AGENT, Interest::Read)?;
    poller.register(program, TOKEN_PROGRAM, Interest::Read)?;
    let mut ready = Vec::new();
    let mut has_ended = false;
    loop {
        poller.wait(has_ended.then_some(LOOK_EVERY), &mut ready)?;
        if ready.iter().any(|ready| ready.token == TOKEN_PROGRAM) {
            poller.deregister(program)?;
            has_ended = true;
        }
        if has_ended && !others_are_here()? {
            return Ok(());
        }
        loop {
            let message = match agent.receive() {
                Ok((message, _)) if message.is_empty() => return Ok(()),
                Ok((message, _)) => message,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            if let Some(ToSupervisor::Connect { id, from, to }) = ToSupervisor::parse(&message) {
                answer(agent, id, connect_as(from, to))?;
            }
        }
    }
}

fn answer(agent: &Handover, id: usize, socket: io::Result<TcpStream>) -> io::Result<()> {
    let said = ToAgent::Connected { id }.encode();
    match socket {
        Ok(socket) => agent.send(&said, &[socket.as_fd()]),
        Err(_) => agent.send(&said, &[]),
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
