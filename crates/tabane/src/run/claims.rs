//! Ports that programs of this namespace ask for: their calls of bind and listen wait until the agent
//! has answered.

use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use tabane_io::handover::Handover;
use tabane_io::socket_calls::{self, SocketCall, SocketCalls};

use super::ports;
use crate::agent::{Claim, ToAgent, Transport};

/// How often another port is tried if one that is free outside is not free here.
const TRIES_MAX: u32 = 8;
/// A program that was given a port uses it at once, or its call has failed.
const USED_WITHIN: Duration = Duration::from_secs(10);
/// What a call fails with if the system does not say.
const EACCES: i32 = 13;

/// A call that waits.
#[derive(Debug)]
struct Waiting {
    call: SocketCall,
    asked: socket_calls::Claim,
    claim: Claim,
    tries: u32,
}

/// A port that the agent has taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    since: Instant,
    /// A program had it when it was looked last.
    is_used: bool,
}

/// All claims of this namespace.
#[derive(Debug)]
pub struct Claims<'a> {
    calls: &'a SocketCalls,
    agent: &'a Handover,
    waiting: HashMap<u64, Waiting>,
    asked: u64,
    taken: HashMap<(Transport, u16), Taken>,
}

impl<'a> Claims<'a> {
    /// None yet.
    pub fn new(calls: &'a SocketCalls, agent: &'a Handover) -> Claims<'a> {
        Claims {
            calls,
            agent,
            waiting: HashMap::new(),
            asked: 0,
            taken: HashMap::new(),
        }
    }

    /// A program calls bind or listen.
    ///
    /// # Errors
    /// Not expected.
    pub fn called(&mut self) -> io::Result<()> {
        let Some(call) = self.calls.next()? else {
            return Ok(());
        };
        let asked = self.calls.claim(call);
        let Some(asked) = asked.filter(is_for_others) else {
            self.calls.go_on(call);
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
        };
        self.ask(Waiting {
            call,
            asked,
            claim,
            tries: TRIES_MAX,
        });
        Ok(())
    }

    fn ask(&mut self, waiting: Waiting) {
        self.asked += 1;
        let (id, claim) = (self.asked, waiting.claim);
        match self.agent.send(&ToAgent::Claim { id, claim }.encode(), &[]) {
            Ok(()) => drop(self.waiting.insert(id, waiting)),
            // The agent is busy, or gone: the program's own affairs go on.
            Err(_) => self.calls.go_on(waiting.call),
        }
    }

    /// The agent has answered.
    pub fn answered(&mut self, id: u64, port: u16, error: Option<i32>) {
        let Some(waiting) = self.waiting.remove(&id) else {
            return;
        };
        let (call, claim) = (waiting.call, waiting.claim);
        if let Some(error) = error {
            return self.calls.fail(call, error);
        }
        if port == 0 {
            return self.calls.go_on(call);
        }
        if claim.address.port() != 0 {
            self.takes(claim.transport, port, false);
            return self.calls.go_on(call);
        }
        // The socket is the program's own: nobody else can have bound it meanwhile.
        let bound = waiting.asked.bind(port);
        self.takes(claim.transport, port, true);
        match bound {
            Ok(()) => self.calls.succeed(call),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && waiting.tries > 0 => {
                let tries = waiting.tries - 1;
                self.ask(Waiting { tries, ..waiting });
            }
            Err(error) => self
                .calls
                .fail(call, error.raw_os_error().unwrap_or(EACCES)),
        }
    }

    fn takes(&mut self, transport: Transport, port: u16, is_used: bool) {
        let taken = Taken {
            since: Instant::now(),
            is_used,
        };
        self.taken.insert((transport, port), taken);
    }

    /// Whether there are ports that may have to be given back.
    pub fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// Gives back the ports that no program has any more.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn look(&mut self) -> io::Result<()> {
        for transport in [Transport::Tcp, Transport::Udp] {
            if !self.taken.keys().any(|(taken, _)| *taken == transport) {
                continue;
            }
            let in_use = ports::in_use(transport)?;
            let mut released = Vec::new();
            self.taken.retain(|(of, port), taken| {
                if *of != transport {
                    return true;
                }
                let is_used = in_use.contains(port);
                // One that was given just now may be taken the moment after.
                let keeps = is_used || !taken.is_used && taken.since.elapsed() < USED_WITHIN;
                taken.is_used |= is_used;
                if !keeps {
                    released.push(*port);
                }
                keeps
            });
            for port in released {
                let said = ToAgent::Released { transport, port };
                self.agent.send(&said.encode(), &[])?;
            }
        }
        Ok(())
    }
}

/// Whether others are to reach the program there. What is sent to many stays within.
fn is_for_others(asked: &socket_calls::Claim) -> bool {
    let address = asked.address();
    let is_to_many = address.ip().is_multicast() || address.ip() == IpAddr::V4(Ipv4Addr::BROADCAST);
    let has_port = asked.is_datagram || address.port() != 0;
    has_port && !address.ip().is_loopback() && !is_to_many
}
