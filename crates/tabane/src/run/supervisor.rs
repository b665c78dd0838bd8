//! The process that stays in a program's network namespace: it makes the sockets that can only be made
//! there and claims the ports that programs want. It ends when the last process there has ended and the
//! last socket at which others reach it is closed: one may have been handed to a process elsewhere.
//!
//! It outlives the agent. It has the namespace's sockets as well, and hands them to the next agent:
//! connections are gone with the agent that carried them, those that begin meanwhile wait (their SYNs are
//! repeated), and the programs' ports are claimed anew.

use core::time::Duration;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::time::Instant;

use slab::Slab;
use tabane_io::capture::{Capture, Echoes, Speaker, connect_as};
use tabane_io::credentials::own_uid;
use tabane_io::handover::{DESCRIPTORS_MAX, Handover, HandoverListener};
use tabane_io::netlink::closing_connections;
use tabane_io::outside::Tun;
use tabane_io::poll::{Interest, Poller};
use tabane_io::process::{Watched, processes};
use tabane_io::socket_calls::SocketCalls;

use super::claims::Claims;
use super::finder::{Finder, Found};
use super::join::JOINED;
use super::pings::Pings;
use super::{handed_over, ports};
use crate::agent::{ToAgent, ToSupervisor, Transport};

const TOKEN_AGENT: u64 = 0;
const TOKEN_PROGRAM: u64 = 1;
const TOKEN_FINDER: u64 = 2;
const TOKEN_JOINS: u64 = 3;
/// Pings of IPv4 and of IPv6.
const TOKEN_ECHOES: [u64; 2] = [4, 5];
/// And above: the one that joins, by its index.
const TOKEN_JOINING: u64 = 1 << 32;
/// And above: sockets of intercepted calls, by index.
const TOKEN_CALLS: u64 = 2 << 32;
/// And above: the answers to a ping, by its index.
const TOKEN_PINGS: u64 = 4 << 32;
/// Interval of checking whether programs still have their ports and, once the program itself has ended,
/// whether what it started has, too.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same for a program whose ports are the cluster's.
const LOOK_EVERY_OUTSIDE: Duration = Duration::from_millis(80);
/// Interval of looking for the next agent after one is gone, at first and later.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// What is left to a supervisor.
#[derive(Clone, Copy)]
pub struct Left<'a> {
    /// The way to the next agent.
    pub finder: &'a Finder,
    /// The sockets of the namespace.
    pub capture: &'a Capture,
    /// The TUN that leads outside, if there is one.
    pub tun: Option<&'a Tun>,
    /// Its pings, if the kernel does not answer them all.
    pub echoes: Option<&'a Echoes>,
    /// The first message to an agent about them.
    pub begin: &'a ToAgent,
    /// The program.
    pub program: &'a Watched,
    /// Programs that join connect here.
    pub joins: &'a HandoverListener,
}

/// Until the program, all it started and all that has joined it has ended. `calls`: its calls of bind and
/// listen, if they can be had.
///
/// # Errors
/// The system has no descriptors or no memory left.
pub fn supervise(left: &Left<'_>, agent: &Handover, calls: Option<SocketCalls>) -> io::Result<()> {
    let poller = Poller::new()?;
    let agent = agent.as_fd().try_clone_to_owned()?.into();
    let mut supervisor = Supervisor {
        left: *left,
        poller,
        agent: None,
        find_at: None,
        retry: RETRY_MIN,
        joining: Slab::new(),
        calls: Slab::new(),
        claims: Claims::default(),
        pings: Pings::new(left.begin.own_addresses(), TOKEN_PINGS),
        looked_at: Instant::now(),
        ends_at: None,
    };
    calls.map_or(Ok(()), |calls| supervisor.follow_calls(calls))?;
    supervisor.follow(agent)?;
    supervisor.serve()
}

struct Supervisor<'a> {
    left: Left<'a>,
    poller: Poller,
    /// None: it is gone, and the next one looked for.
    agent: Option<Handover>,
    /// When to have the next one looked for, if that is not being done.
    find_at: Option<Instant>,
    retry: Duration,
    /// Connections that have not handed over their intercepted calls yet.
    joining: Slab<Handover>,
    /// Intercepted calls of bind and listen: of the program, and of each that has joined it.
    calls: Slab<Rc<SocketCalls>>,
    claims: Claims,
    pings: Pings,
    looked_at: Instant,
    /// When to look whether all has ended, once the program itself has.
    ends_at: Option<Instant>,
}

impl Supervisor<'_> {
    fn serve(&mut self) -> io::Result<()> {
        self.poller
            .register(self.left.program, TOKEN_PROGRAM, Interest::Read)?;
        self.poller
            .register(self.left.finder, TOKEN_FINDER, Interest::Read)?;
        self.poller
            .register(self.left.joins, TOKEN_JOINS, Interest::Read)?;
        for (echoes, token) in self
            .left
            .echoes
            .iter()
            .flat_map(|it| it.descriptors().into_iter().zip(TOKEN_ECHOES))
        {
            self.poller.register(echoes, token, Interest::Read)?;
        }
        let mut ready = Vec::new();
        loop {
            self.poller.wait(self.patience(), &mut ready)?;
            for ready in &ready {
                match ready.token {
                    TOKEN_PROGRAM => {
                        self.poller.deregister(self.left.program)?;
                        self.ends_at = Some(Instant::now());
                    }
                    TOKEN_JOINS => self.welcome()?,
                    token if TOKEN_ECHOES.contains(&token) => self.pinged(token),
                    token @ TOKEN_PINGS.. => self.pings.answered(token, self.left.capture),
                    token @ TOKEN_CALLS.. => self.called(token, ready.failed)?,
                    token @ TOKEN_JOINING.. => self.joined(token)?,
                    TOKEN_FINDER => self.found()?,
                    _ if self.hear().is_err() => self.lose_agent(),
                    _ => {}
                }
            }
            self.find_when_due();
            if self.looked_at.elapsed() >= self.look_every() && self.look().is_err() {
                self.lose_agent();
            }
            if self.ends_at.is_some_and(|at| at <= Instant::now()) {
                if !self.others_are_here()? && !ports::are_in_use()? && !self.speaks_outside() {
                    return Ok(());
                }
                self.ends_at = Some(Instant::now() + self.look_every());
            }
        }
    }

    /// How long there is nothing to do if nothing happens.
    fn patience(&self) -> Option<Duration> {
        let has_taken = self.claims.has_taken();
        let look_at = has_taken.then_some(self.looked_at + self.look_every());
        let due = [self.find_at, self.ends_at, look_at].into_iter().flatten();
        let first = due.min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    /// The ports of the outside address are wanted by other nodes, too.
    const fn look_every(&self) -> Duration {
        match self.left.tun {
            Some(_) => LOOK_EVERY_OUTSIDE,
            None => LOOK_EVERY,
        }
    }

    /// Whether connections that programs have closed still send something outside. (Within, the agent
    /// already has their data.)
    fn speaks_outside(&self) -> bool {
        let ToAgent::Begin { outside, .. } = self.left.begin else {
            return false;
        };
        let speaks = || {
            closing_connections().is_ok_and(|all| all.iter().any(|end| outside.contains(&end.ip())))
        };
        self.left.tun.is_some() && speaks()
    }

    // ---- the agent, and the next one ----

    /// There is an agent, which has the sockets or will get them.
    fn follow(&mut self, agent: Handover) -> io::Result<()> {
        // Messages wait until the agent has room for them; the agent never waits itself.
        self.poller.register(&agent, TOKEN_AGENT, Interest::Read)?;
        self.agent = Some(agent);
        Ok(())
    }

    /// The agent is gone: the program's own affairs go on.
    fn lose_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            let _ = self.poller.deregister(&agent);
            // If it is there after all, it must not take this one for two.
            agent.end();
        }
        self.claims.agent_lost();
        self.find_later();
    }

    fn find_later(&mut self) {
        self.find_at = Some(Instant::now() + self.retry);
        self.retry = (self.retry * 2).min(RETRY_MAX);
    }

    fn find_when_due(&mut self) {
        if self.find_at.is_some_and(|at| at <= Instant::now()) {
            self.find_at = None;
            // Without the finder no agent is found any more; the program's own affairs go on.
            let _ = self.left.finder.ask_again();
        }
    }

    /// The finder has an answer.
    fn found(&mut self) -> io::Result<()> {
        match self.left.finder.found() {
            Ok(Found::Agent(agent)) => {
                // What was sent while nobody listened is out of date.
                self.left.capture.forget_waiting();
                let begin = self.left.begin.encode();
                self.follow(agent)?;
                let descriptors = handed_over(self.left.capture, self.left.tun);
                let agent = self.agent.as_ref();
                let begun = agent.map(|agent| agent.send(&begin, &descriptors));
                if !matches!(begun, Some(Ok(()))) {
                    self.lose_agent();
                }
            }
            Ok(Found::Nobody(_)) => self.find_later(),
            Ok(Found::Outward {
                transport,
                is_v6,
                sockets,
            }) => {
                let agent = self.agent.as_ref();
                let told = agent.map(|agent| hand_outward(agent, transport, is_v6, &sockets));
                if matches!(told, Some(Err(_))) {
                    self.lose_agent();
                }
            }
            Ok(Found::Ping { is_v6, socket }) => {
                self.pings
                    .came(is_v6, socket, self.left.capture, &self.poller);
            }
            Err(_) => self.poller.deregister(self.left.finder)?,
        }
        Ok(())
    }

    /// Whether anything that the program has started still runs.
    ///
    /// # Errors
    /// The system has no descriptors left.
    fn others_are_here(&self) -> io::Result<bool> {
        // The kernel reports when no process is left that could call. It also knows processes whose
        // namespace cannot be inspected (their file may be run, not read), and those that have moved to
        // another.
        if !self.calls.is_empty() {
            return Ok(true);
        }
        others_are_in_namespace()
    }

    // ---- requests of the program and the agent ----

    /// Programs send pings.
    fn pinged(&mut self, token: u64) {
        let is_v6 = token == TOKEN_ECHOES[1];
        if let Some(echoes) = self.left.echoes {
            let wants = || self.left.finder.ask_ping(is_v6);
            self.pings
                .asked(echoes, is_v6, self.left.capture, &self.poller, wants);
        }
    }

    /// Others want to join the program.
    fn welcome(&mut self) -> io::Result<()> {
        while let Ok(Some((joins, who))) = self.left.joins.accept() {
            if who.uid == own_uid() {
                let entry = self.joining.vacant_entry();
                let token = TOKEN_JOINING | entry.key() as u64;
                self.poller.register(&joins, token, Interest::Read)?;
                entry.insert(joins);
            }
        }
        Ok(())
    }

    /// A joining process hands over its intercepted calls, or says that there are none, and gets leave to
    /// go on.
    fn joined(&mut self, token: u64) -> io::Result<()> {
        let index = (token & !TOKEN_JOINING) as usize;
        let Some(joins) = self.joining.try_remove(index) else {
            return Ok(());
        };
        self.poller.deregister(&joins)?;
        if let Ok((_, descriptors)) = joins.receive_now()
            && let Some(calls) = descriptors.into_iter().next()
        {
            self.follow_calls(SocketCalls::from_descriptor(calls))?;
        }
        // If it is gone, it needs no answer.
        let _ = joins.send(JOINED, &[]);
        Ok(())
    }

    fn follow_calls(&mut self, calls: SocketCalls) -> io::Result<()> {
        let entry = self.calls.vacant_entry();
        let token = TOKEN_CALLS | entry.key() as u64;
        self.poller.register(&calls, token, Interest::Read)?;
        entry.insert(Rc::new(calls));
        Ok(())
    }

    /// A program calls bind or listen, or no process is left that could.
    fn called(&mut self, token: u64, is_over: bool) -> io::Result<()> {
        let index = (token & !TOKEN_CALLS) as usize;
        let Some(calls) = self.calls.get(index) else {
            return Ok(());
        };
        if !is_over {
            return self.claims.called(calls, self.agent.as_ref());
        }
        // If the program has ended, nothing that it started is left.
        self.ends_at = self.ends_at.map(|_| Instant::now());
        let calls = self.calls.remove(index);
        self.poller.deregister(&*calls)
    }

    /// Gives back the ports that no program has any more.
    fn look(&mut self) -> io::Result<()> {
        self.looked_at = Instant::now();
        self.claims.look(self.agent.as_ref())
    }

    /// Handles the agent's requests until there are no more.
    ///
    /// # Errors
    /// It is gone, or has no room.
    fn hear(&mut self) -> io::Result<()> {
        loop {
            let agent = self.agent.as_ref().ok_or(ErrorKind::NotConnected)?;
            let message = match agent.receive_now() {
                Ok((message, _)) if message.is_empty() => {
                    return Err(ErrorKind::BrokenPipe.into());
                }
                Ok((message, _)) => message,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            match ToSupervisor::parse(&message) {
                Some(ToSupervisor::Connect {
                    id,
                    question,
                    from,
                    to,
                }) => {
                    let socket = connect_as(from, to);
                    let error = socket.as_ref().err().and_then(io::Error::raw_os_error);
                    let said = ToAgent::Connected {
                        id,
                        question,
                        error,
                    };
                    answer(agent, &said, socket)?;
                }
                Some(ToSupervisor::Spare { count, is_v6 }) => spare(agent, count, is_v6)?,
                Some(ToSupervisor::Outward {
                    count,
                    transport,
                    is_v6,
                }) => {
                    let finder = self.left.finder;
                    if finder.ask_outward(count, transport, is_v6).is_err() {
                        hand_outward(agent, transport, is_v6, &[])?;
                    }
                }
                Some(ToSupervisor::Claimed { id, port, error }) => {
                    self.claims.answered(agent, id, port, error);
                }
                Some(ToSupervisor::Look) => {
                    self.claims.look(Some(agent))?;
                    agent.send(&ToAgent::Looked.encode(), &[])?;
                }
                Some(ToSupervisor::Go) => {
                    self.retry = RETRY_MIN;
                    self.claims.agent_found(agent)?;
                }
                // If it was not its own doing, the next agent, or this one, may serve it.
                Some(ToSupervisor::Full | ToSupervisor::Ended { .. }) => {
                    return Err(ErrorKind::ResourceBusy.into());
                }
                None => {}
            }
        }
    }
}

/// Sends the agent sockets to connect; without them it asks for each.
fn spare(agent: &Handover, count: usize, is_v6: bool) -> io::Result<()> {
    let speakers = (0..count.min(DESCRIPTORS_MAX)).map_while(|_| Speaker::new(is_v6).ok());
    let speakers: Vec<_> = speakers.collect();
    let descriptors: Vec<_> = speakers.iter().map(AsFd::as_fd).collect();
    agent.send(&ToAgent::Spares { is_v6 }.encode(), &descriptors)
}

/// Sends the agent sockets by which programs leave this node, if there are any.
fn hand_outward(
    agent: &Handover,
    transport: Transport,
    is_v6: bool,
    sockets: &[OwnedFd],
) -> io::Result<()> {
    let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    agent.send(
        &ToAgent::Outward { transport, is_v6 }.encode(),
        &descriptors,
    )
}

fn answer(agent: &Handover, said: &ToAgent, socket: io::Result<TcpStream>) -> io::Result<()> {
    let said = said.encode();
    match socket {
        Ok(socket) => agent.send(&said, &[socket.as_fd()]),
        Err(_) => agent.send(&said, &[]),
    }
}

/// Whether another process is in this network namespace.
fn others_are_in_namespace() -> io::Result<bool> {
    let here = fs::metadata("/proc/self/ns/net")?;
    let own = std::process::id();
    for process in processes()?.into_iter().filter(|it| *it != own) {
        // One that ended meanwhile, or is another user's, is not here.
        if let Ok(there) = fs::metadata(format!("/proc/{process}/ns/net"))
            && (there.dev(), there.ino()) == (here.dev(), here.ino())
        {
            return Ok(true);
        }
    }
    Ok(false)
}
