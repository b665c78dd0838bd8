//! Pings of a namespace's programs: each leaves by a socket that the finder has made, so that it belongs to
//! their user, and the real target answers, or nobody.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use slab::Slab;
use tabane_io::capture::{Capture, Echo, Echoes, Pinger, Unreachable};
use tabane_io::poll::{Interest, Poller};

/// The most pairs of a program and its target; beyond it the least recently used one is forgotten.
const FLOWS_MAX: usize = 256;
/// A flow that was idle for this long is forgotten: a later answer is dropped.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// First requests that wait for a socket; further ones are lost.
const WAITING_MAX: usize = 64;
/// Requests or answers taken in before others have their turn.
const TURN: usize = 64;
/// Longest message.
const MESSAGE_BYTES_MAX: usize = 1 << 16;

struct Flow {
    echo: Echo,
    pinger: Pinger,
    used: Instant,
}

/// All of a namespace.
pub struct Pings {
    /// The node's own addresses: it answers itself.
    own: Vec<IpAddr>,
    flows: Slab<Flow>,
    by_echo: HashMap<Echo, usize>,
    /// First requests, for IPv4 and for IPv6, in the order in which sockets were asked for.
    waiting: [VecDeque<(Echo, Vec<u8>)>; 2],
    buffer: Vec<u8>,
    /// Added to a flow's number, makes the token of the poller.
    token: u64,
}

impl Pings {
    /// In a namespace with these addresses.
    pub fn new(own: Vec<IpAddr>, token: u64) -> Pings {
        Pings {
            own,
            flows: Slab::new(),
            by_echo: HashMap::new(),
            waiting: [VecDeque::new(), VecDeque::new()],
            buffer: vec![0; MESSAGE_BYTES_MAX],
            token,
        }
    }

    /// Programs have sent pings. `wants` is called for each socket that is needed.
    pub fn asked(
        &mut self,
        echoes: &Echoes,
        is_v6: bool,
        capture: &Capture,
        poller: &Poller,
        mut wants: impl FnMut() -> io::Result<()>,
    ) {
        for _ in 0..TURN {
            let Ok(Some((echo, message))) = echoes.next(is_v6, &mut self.buffer) else {
                return;
            };
            if self.own.contains(&echo.to) || echo.to.is_loopback() {
                // An answer that cannot be delivered might have been lost anywhere.
                let _ = capture.answer_echo(echo, message);
            } else if let Some(&index) = self.by_echo.get(&echo) {
                let flow = &mut self.flows[index];
                flow.used = Instant::now();
                if let Err(error) = flow.pinger.send(message) {
                    refuse(capture, echo, message, &error);
                }
            } else if !echo.to.is_multicast() {
                let message = message.to_vec();
                let waiting = &mut self.waiting[usize::from(is_v6)];
                if waiting.len() < WAITING_MAX && wants().is_ok() {
                    waiting.push_back((echo, message));
                }
            }
        }
        self.forget_old(poller);
    }

    /// A socket has come, or cannot be had.
    pub fn came(
        &mut self,
        is_v6: bool,
        socket: Option<OwnedFd>,
        capture: &Capture,
        poller: &Poller,
    ) {
        let Some((echo, mut message)) = self.waiting[usize::from(is_v6)].pop_front() else {
            return;
        };
        let pinger = socket.and_then(|socket| Pinger::from_descriptor(socket, is_v6).ok());
        let Some(pinger) = pinger else {
            return;
        };
        let begun = pinger.connect(echo.to);
        if let Err(error) = begun.and_then(|()| pinger.send(&mut message)) {
            return refuse(capture, echo, &message, &error);
        }
        // It may have asked again meanwhile, by another socket.
        if let Some(earlier) = self.by_echo.get(&echo).copied() {
            self.forget(earlier, poller);
        }
        if self.flows.len() >= FLOWS_MAX {
            let oldest = self.flows.iter().min_by_key(|(_, flow)| flow.used);
            if let Some(oldest) = oldest.map(|(index, _)| index) {
                self.forget(oldest, poller);
            }
        }
        let entry = self.flows.vacant_entry();
        let index = entry.key();
        let token = self.token | index as u64;
        if poller.register(&pinger, token, Interest::Read).is_ok() {
            let used = Instant::now();
            entry.insert(Flow { echo, pinger, used });
            self.by_echo.insert(echo, index);
        }
    }

    /// Somebody has answered, or a router in their stead.
    pub fn answered(&mut self, token: u64, capture: &Capture) {
        let Some(flow) = self.flows.get((token & !self.token) as usize) else {
            return;
        };
        for _ in 0..TURN {
            match flow.pinger.receive(flow.echo.identifier, &mut self.buffer) {
                Ok(Some(message)) => drop(capture.answer_echo(flow.echo, message)),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    // The request that failed is unknown: the program's socket is found by the identifier.
                    let identifier = flow.echo.identifier.to_be_bytes();
                    let request = if flow.echo.to.is_ipv4() { 8 } else { 128 };
                    let head = [&[request, 0, 0, 0][..], &identifier, &[0, 0]].concat();
                    refuse(capture, flow.echo, &head, &error);
                }
            }
        }
        flow.pinger.forget_errors();
    }

    fn forget_old(&mut self, poller: &Poller) {
        let is_old =
            |(index, flow): (usize, &Flow)| (flow.used.elapsed() >= IDLE_MAX).then_some(index);
        let old: Vec<_> = self.flows.iter().filter_map(is_old).collect();
        old.into_iter().for_each(|index| self.forget(index, poller));
    }

    fn forget(&mut self, index: usize, poller: &Poller) {
        let flow = self.flows.remove(index);
        self.by_echo.remove(&flow.echo);
        // The finder has given it away.
        let _ = poller.deregister(&flow.pinger);
    }
}

/// Tells a program that its ping was not sent, if a plain ping would get that error.
fn refuse(capture: &Capture, echo: Echo, message: &[u8], error: &io::Error) {
    let why = match error.kind() {
        ErrorKind::HostUnreachable => Unreachable::Host,
        ErrorKind::NetworkUnreachable => Unreachable::Network,
        _ => return,
    };
    let _ = capture.refuse_echo(echo, message, why);
}
