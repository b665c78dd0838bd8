//! Ports that programs of this namespace ask for: their calls of bind and listen wait until the agent
//! has answered. Without an agent they go on, and the next one is asked for the ports.

use core::time::Duration;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Instant;

use tabane_io::handover::Handover;
use tabane_io::socket_calls::{self, SocketCall, SocketCalls};

use super::ports;
use crate::agent::{Claim, EACCES, ToAgent, Transport};

/// How often another port is tried if one that is free outside is not free here.
const TRIES_MAX: u32 = 8;
/// A program that was given a port uses it at once, or its call has failed. A TCP port from bind may be used to
/// connect: then no listener needs it, and it is given back as well.
const USED_WITHIN: Duration = Duration::from_secs(10);
/// The most claims that a new agent is asked for before it has answered: it does not serve a supervisor that does
/// not read its answers. (It accepts twice as many, so claims that programs make meanwhile have room, too.)
const UNANSWERED_MAX: usize = 32;
/// Addresses of a port that a new agent is asked for.
const CLAIMS_OF_PORT_MAX: usize = 16;

/// A call that waits.
#[derive(Debug)]
struct Waiting {
    calls: Rc<SocketCalls>,
    call: SocketCall,
    asked: socket_calls::Claim,
    claim: Claim,
    tries: u32,
}

/// A port that the agent has taken, or is to take.
#[derive(Clone, Debug)]
struct Taken {
    /// At which addresses, and how.
    claims: Vec<Claim>,
    since: Instant,
    /// A program had it when it was looked last.
    is_used: bool,
}

/// All claims of this namespace.
#[derive(Debug, Default)]
pub struct Claims {
    waiting: HashMap<u64, Waiting>,
    asked: u64,
    taken: HashMap<(Transport, u16), Taken>,
    /// By thread: the port that shows, once it is in use, that the thread's last call has taken effect.
    last: HashMap<u32, (Transport, u16)>,
    /// Claims to be repeated to a new agent, and how many of these it has not answered.
    again: Vec<Claim>,
    unanswered: usize,
}

impl Claims {
    /// A program calls bind or listen.
    ///
    /// # Errors
    /// Not expected.
    pub fn called(&mut self, calls: &Rc<SocketCalls>, agent: Option<&Handover>) -> io::Result<()> {
        let Some(call) = calls.next()? else {
            return Ok(());
        };
        self.has_done(call);
        let asked = calls.claim(call);
        let Some(asked) = asked.filter(is_for_others) else {
            calls.go_on(call);
            return Ok(());
        };
        let (address, sharing) = (asked.address(), asked.sharing);
        let claim = Claim {
            transport: match asked.is_datagram {
                true => Transport::Udp,
                false => Transport::Tcp,
            },
            address,
            only_v6: sharing.only_v6,
            reuse_address: sharing.by_address,
            reuse_port: sharing.by_port,
            is_held: !asked.is_datagram && asked.binds,
        };
        self.ask(
            agent,
            Waiting {
                calls: Rc::clone(calls),
                call,
                asked,
                claim,
                tries: TRIES_MAX,
            },
        );
        Ok(())
    }

    /// A thread that calls again has finished its former call: a port that is not in use by now is given up.
    /// Otherwise a program that listens and closes at once, on one port after the other, would soon have as many
    /// as it may.
    fn has_done(&mut self, call: SocketCall) {
        let before = call.thread().and_then(|thread| self.last.remove(&thread));
        if let Some(taken) = before.and_then(|port| self.taken.get_mut(&port)) {
            taken.is_used = true;
        }
    }

    fn ask(&mut self, agent: Option<&Handover>, waiting: Waiting) {
        match self.tell(agent, waiting.claim) {
            Ok(id) => drop(self.waiting.insert(id, waiting)),
            Err(_) => self.go_on(&waiting),
        }
    }

    /// Asks the agent for a port; the number that it will answer to.
    fn tell(&mut self, agent: Option<&Handover>, claim: Claim) -> io::Result<u64> {
        let agent = agent.ok_or(ErrorKind::NotConnected)?;
        self.asked += 1;
        let id = self.asked;
        agent.send(&ToAgent::Claim { id, claim }.encode(), &[])?;
        Ok(id)
    }

    /// The agent is busy, or gone: the program's own affairs go on.
    fn go_on(&mut self, waiting: &Waiting) {
        let claim = waiting.claim;
        if claim.address.port() != 0 {
            self.takes(claim, false);
        }
        waiting.calls.go_on(waiting.call);
    }

    /// The agent is gone.
    pub fn agent_lost(&mut self) {
        self.again.clear();
        for (_, waiting) in core::mem::take(&mut self.waiting) {
            self.go_on(&waiting);
        }
    }

    /// There is a new one: it is asked for all that programs have.
    ///
    /// # Errors
    /// It is gone.
    pub fn agent_found(&mut self, agent: &Handover) -> io::Result<()> {
        self.forget_unused()?;
        let taken = self.taken.values().flat_map(|taken| &taken.claims);
        self.again = taken.copied().collect();
        self.unanswered = 0;
        self.ask_again(agent)
    }

    /// Repeats claims to a new agent. Nobody waits for its answers: the programs go on even if they cannot be
    /// reached any more.
    fn ask_again(&mut self, agent: &Handover) -> io::Result<()> {
        while self.unanswered < UNANSWERED_MAX
            && let Some(claim) = self.again.pop()
        {
            self.tell(Some(agent), claim)?;
            self.unanswered += 1;
        }
        Ok(())
    }

    /// The agent has answered.
    pub fn answered(&mut self, agent: &Handover, id: u64, port: u16, error: Option<i32>) {
        let Some(waiting) = self.waiting.remove(&id) else {
            self.unanswered = self.unanswered.saturating_sub(1);
            // If it is gone, that is noticed elsewhere.
            let _ = self.ask_again(agent);
            return;
        };
        let calls = Rc::clone(&waiting.calls);
        let (call, mut claim) = (waiting.call, waiting.claim);
        if let Some(error) = error {
            return calls.fail(call, error);
        }
        if port == 0 {
            return calls.go_on(call);
        }
        if claim.address.port() != 0 {
            self.takes(claim, false);
            // A socket of TCP that is bound alone is not seen.
            if let Some(thread) = call.thread().filter(|_| !claim.is_held) {
                let port = (claim.transport, claim.address.port());
                self.last.insert(thread, port);
            }
            return calls.go_on(call);
        }
        // The socket is the program's own: nobody else can have bound it meanwhile.
        let bound = waiting.asked.bind(port);
        claim.address.set_port(port);
        // One of TCP is seen to be used when it listens.
        self.takes(claim, claim.transport == Transport::Udp);
        match bound {
            Ok(()) if waiting.asked.binds => calls.succeed(call),
            Ok(()) => calls.go_on(call),
            Err(error) if error.kind() == ErrorKind::AddrInUse && waiting.tries > 0 => {
                let tries = waiting.tries - 1;
                self.ask(Some(agent), Waiting { tries, ..waiting });
            }
            Err(error) => calls.fail(call, error.raw_os_error().unwrap_or(EACCES)),
        }
    }

    fn takes(&mut self, claim: Claim, is_used: bool) {
        let key = (claim.transport, claim.address.port());
        let taken = self.taken.entry(key).or_insert_with(|| Taken {
            claims: Vec::new(),
            since: Instant::now(),
            is_used,
        });
        (taken.since, taken.is_used) = (Instant::now(), is_used);
        taken.claims.retain(|known| known.address != claim.address);
        if taken.claims.len() < CLAIMS_OF_PORT_MAX {
            taken.claims.push(claim);
        }
    }

    /// Whether there are ports that may have to be given back.
    pub fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Gives back the ports that no program has any more.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn look(&mut self, agent: Option<&Handover>) -> io::Result<()> {
        for (transport, port) in self.forget_unused()? {
            let said = ToAgent::Released { transport, port };
            agent.map_or(Ok(()), |agent| agent.send(&said.encode(), &[]))?;
        }
        Ok(())
    }

    /// Forgets the ports that no program has any more; returns them.
    fn forget_unused(&mut self) -> io::Result<Vec<(Transport, u16)>> {
        let mut released = Vec::new();
        for transport in [Transport::Tcp, Transport::Udp] {
            if !self.taken.keys().any(|(taken, _)| *taken == transport) {
                continue;
            }
            let mut in_use = ports::in_use(transport)?;
            in_use.sort_unstable();
            self.taken.retain(|(of, port), taken| {
                if *of != transport {
                    return true;
                }
                let is_used = in_use.binary_search(port).is_ok();
                // One that was given just now may be taken the moment after.
                let keeps = is_used || !taken.is_used && taken.since.elapsed() < USED_WITHIN;
                taken.is_used |= is_used;
                if !keeps {
                    released.push((transport, *port));
                }
                keeps
            });
        }
        self.last.retain(|_, port| self.taken.contains_key(port));
        Ok(released)
    }
}

/// Whether others should reach the program there, if only other programs of this node (loopback). Multicast stays
/// inside.
fn is_for_others(asked: &socket_calls::Claim) -> bool {
    let address = asked.address();
    let is_to_many = address.ip().is_multicast() || address.ip() == IpAddr::V4(Ipv4Addr::BROADCAST);
    !is_to_many
}
