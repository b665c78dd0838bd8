//! A machine of the simulation: its device outside, its own kernel, and the TUN of its programs. What a gateway does to it
//! happens at once; what comes of that the town does.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use tabane_io::outside::Heard;
use tabane_sim::net::{Ns, transmission_ns};

use super::Mac;
use super::packets::Said;
use crate::gateway::devices::{Devices, Held, Kernel, Line, Way};
use crate::gateway::serving::Site;
use crate::vswitch::VNET_HDR_BYTES;
use crate::vswitch::frame::{Arp, ETHERNET_BYTES, Neighbour, Packet};

/// The device outside sends so fast.
const LINE_BPS: u64 = 200_000_000;
/// So many packets wait in a TUN at most (txqueuelen).
const TUN_PACKETS_MAX: usize = 500;

/// Where a daemon dies: when so many packets of one conversation have come to its hands from outside or left them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fuse {
    /// The far end of the conversation.
    pub far: SocketAddr,
    /// Packets that it lives to see.
    pub left: u32,
    /// The last one of them has its effect; else the daemon dies with it in its hands.
    pub after: bool,
}

/// What there is of a machine beside the daemon.
#[derive(Debug, Default)]
pub struct State {
    pub mac: Mac,
    pub outside: Vec<IpAddr>,
    /// The sockets that hear the device, and what waits in each.
    lines: Vec<(u64, VecDeque<Vec<u8>>)>,
    opened: u64,
    /// Frames that were sent, and when each has left the device.
    pub spoken: Vec<(Ns, Vec<u8>)>,
    free_at: Ns,
    pub now: Ns,
    waits_for_room: bool,
    /// What its kernel was given.
    pub given: Vec<Vec<u8>>,
    /// Nothing that comes for the outside addresses reaches its kernel.
    pub is_silent: bool,
    pub has_addresses: bool,
    ports: BTreeSet<(bool, SocketAddr)>,
    /// What programs have sent, and what they are given.
    pub from_programs: VecDeque<Vec<u8>>,
    pub to_programs: Vec<Vec<u8>>,
    pub fuse: Option<Fuse>,
    /// Packets of the conversation of a fuse that were seen.
    pub touches: u32,
    /// The daemon is dead from here on, and the rest of its turn has no effect.
    pub is_dead: bool,
    /// It dies at the end of its turn.
    pub dies: bool,
    /// Something that no daemon may do.
    pub wrong: Option<String>,
}

/// A handle to it.
#[derive(Clone, Debug, Default)]
pub struct Machine(pub Rc<RefCell<State>>);

impl State {
    /// A packet of the conversation of the fuse is in the daemon's hands. Returns whether it has an effect.
    fn touch(&mut self, packet: &[u8]) -> bool {
        if self.is_dead {
            return false;
        }
        let Some(fuse) = self.fuse else {
            return true;
        };
        let Some((from, to)) = ends(packet) else {
            return true;
        };
        if from != fuse.far && to != fuse.far {
            return true;
        }
        self.touches += 1;
        if self.touches <= fuse.left {
            return true;
        }
        self.fuse = None;
        match fuse.after {
            true => self.dies = true,
            false => self.is_dead = true,
        }
        fuse.after
    }

    /// A frame comes to the device: whoever hears it there.
    pub fn hears(&mut self, frame: &[u8]) {
        let is_for_it = frame[0] & 1 == 1 || frame[..6] == self.mac;
        if !is_for_it || !is_of(frame, &self.outside) {
            return;
        }
        for (_, waiting) in &mut self.lines {
            waiting.push_back(frame.to_vec());
        }
    }

    /// Whether its daemon has something to read from outside.
    pub fn has_heard(&self) -> bool {
        self.lines.iter().any(|(_, waiting)| !waiting.is_empty())
    }

    /// When there is room again, if the daemon waits for that.
    pub fn room_at(&self) -> Option<Ns> {
        self.waits_for_room.then_some(self.free_at)
    }

    /// A program sends something outside.
    pub fn push_from_program(&mut self, packet: Vec<u8>) {
        if self.from_programs.len() < TUN_PACKETS_MAX {
            self.from_programs.push_back(packet);
        }
    }

    /// The daemon is gone: what it had open is closed by the kernel, and all else stays as it is.
    pub fn daemon_ends(&mut self) {
        self.lines.clear();
        self.ports.clear();
        (self.is_dead, self.dies, self.waits_for_room) = (false, false, false);
        self.fuse = None;
        self.to_programs.clear();
    }

    /// All is gone.
    pub fn power_ends(&mut self) {
        self.daemon_ends();
        (self.is_silent, self.has_addresses) = (false, false);
        self.from_programs.clear();
        self.spoken.clear();
        self.given.clear();
    }

    fn queued_bytes(&self, queue_rate_bps: u64) -> usize {
        let waits = self.free_at.saturating_sub(self.now);
        (u128::from(waits) * u128::from(queue_rate_bps) / 8_000_000_000) as usize
    }
}

/// Whether a frame is of the outside addresses, as the filter of [`tabane_io::outside::Outside`] has it.
fn is_of(frame: &[u8], own: &[IpAddr]) -> bool {
    let behind = &frame[ETHERNET_BYTES..];
    if frame[12..14] == [8, 6] {
        return Arp::parse(behind).is_some_and(|arp| {
            own.contains(&arp.sender.into()) || own.contains(&arp.target.into())
        });
    }
    let Some(packet) = Packet::of_ip(behind) else {
        return false;
    };
    let about = Neighbour::of(&packet).map(|neighbour| IpAddr::from(neighbour.target));
    own.contains(&packet.destination) || about.is_some_and(|target| own.contains(&target))
}

/// Between whom a packet of IP is.
fn ends(packet: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let seen = Packet::of_ip(packet)?;
    let word = |at: usize| {
        Some(u16::from_be_bytes([
            *seen.content.get(at)?,
            *seen.content.get(at + 1)?,
        ]))
    };
    Some((
        (seen.source, word(0)?).into(),
        (seen.destination, word(2)?).into(),
    ))
}

impl Devices for Machine {
    fn keep_silent(&self, _: &Site) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        if !state.is_dead {
            state.is_silent = true;
        }
        Ok(())
    }

    fn speak_again(&self) {
        let mut state = self.0.borrow_mut();
        if state.is_dead {
            return;
        }
        if state.has_addresses {
            state.wrong = Some("its kernel may speak while it has the addresses".to_owned());
        }
        state.is_silent = false;
    }

    fn line(&self, site: &Site) -> io::Result<Box<dyn Line>> {
        let mut state = self.0.borrow_mut();
        state.opened += 1;
        let number = state.opened;
        state.lines.push((number, VecDeque::new()));
        Ok(Box::new(SimLine {
            machine: self.clone(),
            number,
            queue_bytes: site.queue_bytes,
        }))
    }

    fn kernel(&self) -> io::Result<Box<dyn Kernel>> {
        Ok(Box::new(self.clone()))
    }

    fn addresses(&self, _: &Site) -> io::Result<Box<dyn Held>> {
        let mut state = self.0.borrow_mut();
        if !state.is_silent {
            state.wrong = Some("it has the addresses while its kernel may speak".to_owned());
        }
        state.has_addresses = true;
        Ok(Box::new(SimAddresses(self.clone())))
    }

    fn port(&self, is_tcp: bool, address: SocketAddr) -> io::Result<(u16, Box<dyn Held>)> {
        let mut state = self.0.borrow_mut();
        let mut number = address.port();
        if number == 0 {
            let is_free = |number: &u16| {
                let address = SocketAddr::new(address.ip(), *number);
                !state.ports.contains(&(is_tcp, address))
            };
            number = (40_000..60_000)
                .find(is_free)
                .ok_or(io::ErrorKind::AddrInUse)?;
        }
        let address = SocketAddr::new(address.ip(), number);
        if !state.ports.insert((is_tcp, address)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let machine = self.clone();
        Ok((
            number,
            Box::new(SimPort {
                machine,
                is_tcp,
                address,
            }),
        ))
    }
}

#[derive(Debug)]
struct SimLine {
    machine: Machine,
    number: u64,
    queue_bytes: usize,
}

impl Line for SimLine {
    fn read(&self, packet: &mut Vec<u8>) -> io::Result<Option<Heard>> {
        let mut state = self.machine.0.borrow_mut();
        let number = self.number;
        let line = state.lines.iter_mut().find(|(known, _)| *known == number);
        let Some(frame) = line.and_then(|(_, waiting)| waiting.pop_front()) else {
            return Ok(None);
        };
        if !state.touch(&frame[ETHERNET_BYTES..]) {
            return Ok(None);
        }
        packet.clear();
        packet.extend([0; VNET_HDR_BYTES]);
        packet.extend(&frame[ETHERNET_BYTES..]);
        Ok(Some(Heard {
            protocol: u16::from_be_bytes([frame[12], frame[13]]),
            from: frame[6..12].try_into().expect("an address"),
        }))
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<bool> {
        let mut state = self.machine.0.borrow_mut();
        let frame: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        if state.queued_bytes(LINE_BPS) >= self.queue_bytes {
            return Ok(false);
        }
        if !state.touch(&frame[VNET_HDR_BYTES + ETHERNET_BYTES..]) {
            return Ok(true);
        }
        state.free_at =
            state.free_at.max(state.now) + transmission_ns(frame.len() as u64, LINE_BPS);
        let at = state.free_at;
        state.spoken.push((at, frame));
        Ok(true)
    }

    fn queued_bytes(&self) -> usize {
        self.machine.0.borrow().queued_bytes(LINE_BPS)
    }

    fn set_queue_bytes(&mut self, bytes: usize) -> io::Result<()> {
        self.queue_bytes = bytes;
        Ok(())
    }

    fn dropped(&mut self) -> u64 {
        0
    }

    fn watch(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait_for_room(&self, waits: bool) -> io::Result<()> {
        self.machine.0.borrow_mut().waits_for_room = waits;
        Ok(())
    }
}

impl Drop for SimLine {
    fn drop(&mut self) {
        let mut state = self.machine.0.borrow_mut();
        state.lines.retain(|(number, _)| *number != self.number);
    }
}

impl Kernel for Machine {
    fn give(&self, packet: &[u8]) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        if !state.is_dead {
            state.given.push(packet[VNET_HDR_BYTES..].to_vec());
        }
        Ok(())
    }
}

impl Way for Machine {
    fn read(&self, packet: &mut Vec<u8>) -> io::Result<bool> {
        let mut state = self.0.borrow_mut();
        // What a dead daemon has not read the next one will.
        if state.is_dead {
            return Ok(false);
        }
        let next = state.from_programs.pop_front();
        Ok(next.map(|next| *packet = next).is_some())
    }

    fn write(&self, packet: &[u8]) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        if !state.is_dead {
            state.to_programs.push(packet[VNET_HDR_BYTES..].to_vec());
        }
        Ok(())
    }

    fn watch(&self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct SimAddresses(Machine);

impl Held for SimAddresses {}

impl Drop for SimAddresses {
    fn drop(&mut self) {
        let mut state = self.0.0.borrow_mut();
        if !state.is_dead {
            state.has_addresses = false;
        }
    }
}

#[derive(Debug)]
struct SimPort {
    machine: Machine,
    is_tcp: bool,
    address: SocketAddr,
}

impl Held for SimPort {}

impl Drop for SimPort {
    fn drop(&mut self) {
        let mut state = self.machine.0.borrow_mut();
        state.ports.remove(&(self.is_tcp, self.address));
    }
}

/// What a kernel answers that has nobody for a packet: a reset.
pub fn refusal(packet: &[u8]) -> Option<Said> {
    use super::packets::{ACK, FIN, Header, RST, SYN};
    let said = Said::parse(packet).ok()??;
    let tcp = said.tcp.filter(|tcp| !tcp.has(RST))?;
    let counted = said.data.len() as u32 + u32::from(tcp.has(SYN)) + u32::from(tcp.has(FIN));
    // RFC 9293 section 3.5.2.
    let header = match tcp.has(ACK) {
        true => Header {
            sequence: tcp.acknowledged,
            acknowledged: 0,
            flags: RST,
            window: 0,
            shift: None,
        },
        false => Header {
            sequence: 0,
            acknowledged: tcp.sequence.wrapping_add(counted),
            flags: RST | ACK,
            window: 0,
            shift: None,
        },
    };
    Some(Said {
        from: said.to,
        to: said.from,
        tcp: Some(header),
        data: Vec::new(),
    })
}
