//! The network: for each link number one switch, and for each host a wire to it in
//! each direction.
//!
//! ```text
//!   host 0 ── up ──▶ ┌──────────┐ ── down ──▶ host 1
//!          ◀─ down ─ │ switch 0 │ ◀── up ───
//!                    └──────────┘
//! ```

mod channel;
mod clock;
mod events;
mod packets;
mod truth;

pub use channel::{Channel, Conditions, Loss, Passage, WIRE_OVERHEAD_BYTES, transmission_ns};
pub use clock::Clock;
pub use events::{Events, Happening, MS, Ns, SECOND, US};
pub use packets::{Packet, PacketId, Packets};
pub use truth::{During, History, Quality, WORKING_DELAY_MAX_NS};

use crate::random::Random;
use std::net::SocketAddr;

/// A host's place on a link.
#[derive(Clone, Debug)]
pub struct Port {
    /// Towards the switch.
    pub up: Channel,
    /// From the switch.
    pub down: Channel,
    /// The address that the switch delivers to this host; `None`: it has none here.
    pub address: Option<SocketAddr>,
    /// The kernel's word on the link. Down: nothing is sent or received.
    pub carrier: bool,
    /// Until then the path counts as poor, whatever its wires are: its ends are only
    /// learning of a new address.
    pub excused_until: Ns,
}

/// A switch: joins the ports of one link.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    /// It passes nothing, silently.
    pub dead: bool,
    /// Ordered pairs of hosts between which it passes nothing.
    pub cut: Vec<(usize, usize)>,
}

/// Counts over the whole network.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkStats {
    /// Datagrams that hosts sent.
    pub sent: u64,
    /// Datagrams that reached a host.
    pub arrived: u64,
    /// Datagrams that were lost on the way, for whatever reason.
    pub lost: u64,
    /// Datagrams whose bits were flipped.
    pub corrupted: u64,
}

/// All wires, switches and packets under way.
#[derive(Debug)]
pub struct Network {
    ports: Vec<Vec<Port>>,
    switches: Vec<Switch>,
    packets: Packets,
    histories: Vec<History>,
    /// The longest that the delay of each path ever was.
    longest_ns: Vec<Ns>,
    random: Random,
    /// What has happened so far.
    pub stats: NetworkStats,
    /// When queues were full: once for each millisecond.
    overflows: Vec<Ns>,
    /// Print what is lost.
    pub traces: bool,
    /// Hosts' kernels drop what was altered on the way, by the checksum of UDP: the plain wire relies on it. (Otherwise it reaches
    /// the node, as what somebody forges does.)
    pub checks_sums: bool,
}

impl Network {
    /// `ports[host][link]` and a working switch for each link.
    pub fn new(ports: Vec<Vec<Port>>, random: Random) -> Network {
        let links = ports.first().map_or(0, Vec::len);
        let hosts = ports.len();
        let mut network = Network {
            ports,
            switches: vec![Switch::default(); links],
            packets: Packets::default(),
            histories: vec![History::default(); hosts * hosts * links],
            longest_ns: vec![0; hosts * hosts * links],
            random,
            stats: NetworkStats::default(),
            overflows: Vec::new(),
            traces: false,
            checks_sums: false,
        };
        network.refresh(0, false);
        network
    }

    /// How many links there are.
    pub fn links(&self) -> usize {
        self.switches.len()
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.ports.len()
    }

    /// A host's place on a link.
    pub fn port(&self, host: usize, link: usize) -> &Port {
        &self.ports[host][link]
    }

    /// Changes a host's place on a link; the observer notes it.
    pub fn change_port(&mut self, now: Ns, host: usize, link: usize, change: impl Fn(&mut Port)) {
        change(&mut self.ports[host][link]);
        self.refresh(now, false);
        for other in 0..self.hosts() {
            self.touch(now, host, other, link);
        }
    }

    /// Changes a switch; the observer notes it.
    pub fn change_switch(&mut self, now: Ns, link: usize, change: impl Fn(&mut Switch)) {
        change(&mut self.switches[link]);
        self.refresh(now, false);
        for a in 0..self.hosts() {
            for b in 0..a {
                self.touch(now, a, b, link);
            }
        }
    }

    /// What was and is true of the path between two hosts on a link.
    pub fn history(&self, a: usize, b: usize, link: usize) -> &History {
        &self.histories[self.path_index(a, b, link)]
    }

    /// The longest that a packet of late waited in a queue of this path, either way.
    pub fn recent_wait_ns(&self, now: Ns, a: usize, b: usize, link: usize) -> Ns {
        let one_way = |from: usize, to: usize| {
            self.port(from, link).up.recent_wait_ns(now)
                + self.port(to, link).down.recent_wait_ns(now)
        };
        one_way(a, b).max(one_way(b, a))
    }

    /// The delay of a path without its queues, the longer way of both.
    pub fn delay_ns(&self, a: usize, b: usize, link: usize) -> Ns {
        let one_way = |from: usize, to: usize| {
            let (up, down) = (&self.port(from, link).up, &self.port(to, link).down);
            let of = |c: &Conditions| c.delay_ns + c.jitter_ns;
            of(&up.conditions) + of(&down.conditions)
        };
        one_way(a, b).max(one_way(b, a))
    }

    /// The longest that [`delay_ns`](Network::delay_ns) ever was.
    pub fn longest_ns(&self, a: usize, b: usize, link: usize) -> Ns {
        self.longest_ns[self.path_index(a, b, link)]
    }

    /// The slowest wire of a path, either way.
    pub fn slowest_bps(&self, a: usize, b: usize, link: usize) -> u64 {
        let rates = [a, b].map(|host| {
            let port = self.port(host, link);
            let (up, down) = (port.up.conditions.rate_bps, port.down.conditions.rate_bps);
            up.min(down)
        });
        rates[0].min(rates[1])
    }

    /// How long a packet takes there and back on this link with nothing in its way.
    pub fn least_rtt_ns(&self, a: usize, b: usize, link: usize) -> Ns {
        let ports = [a, b].map(|host| self.port(host, link));
        let ways = ports.map(|port| port.up.conditions.delay_ns + port.down.conditions.delay_ns);
        ways.iter().sum()
    }

    /// Whether a queue was full between two instants.
    pub fn overflowed_between(&self, from: Ns, to: Ns) -> bool {
        let first = self.overflows.partition_point(|at| *at < from);
        self.overflows.get(first).is_some_and(|at| *at <= to)
    }

    /// Looks at every path anew. Cheap; called at every check.
    pub fn refresh(&mut self, now: Ns, touched: bool) {
        for a in 0..self.hosts() {
            for b in 0..a {
                for link in 0..self.links() {
                    let quality = self.quality(now, a, b, link);
                    let index = self.path_index(a, b, link);
                    self.histories[index].note(now, quality, touched);
                    let delay_ns = self.delay_ns(a, b, link);
                    self.longest_ns[index] = self.longest_ns[index].max(delay_ns);
                }
            }
        }
    }

    fn touch(&mut self, now: Ns, a: usize, b: usize, link: usize) {
        if a != b {
            let quality = self.quality(now, a, b, link);
            let index = self.path_index(a, b, link);
            self.histories[index].note(now, quality, true);
        }
    }

    fn path_index(&self, a: usize, b: usize, link: usize) -> usize {
        (a.max(b) * self.hosts() + a.min(b)) * self.links() + link
    }

    fn quality(&self, now: Ns, a: usize, b: usize, link: usize) -> Quality {
        let (pa, pb) = (self.port(a, link), self.port(b, link));
        let switch = &self.switches[link];
        let cut = switch.cut.contains(&(a, b)) || switch.cut.contains(&(b, a));
        let absent = |p: &Port| p.address.is_none() || !p.carrier;
        if switch.dead || cut || absent(pa) || absent(pb) {
            return Quality::Dead;
        }
        let wires =
            truth::quality_one_way(&pa.up, &pb.down).min(truth::quality_one_way(&pb.up, &pa.down));
        if now < pa.excused_until.max(pb.excused_until) {
            return wires.min(Quality::Poor);
        }
        wires
    }

    /// A host sends what `buffer` holds to `to`: one datagram, or several of
    /// `segment_bytes` (the last may be shorter), as the kernel's UDP segmentation
    /// offload would cut them.
    pub fn transmit(
        &mut self,
        now: Ns,
        (host, link): (usize, usize),
        to: SocketAddr,
        buffer: &[u8],
        segment_bytes: usize,
        events: &mut Events,
    ) {
        for datagram in buffer.chunks(segment_bytes.max(1)) {
            self.stats.sent += 1;
            if self.traces && datagram.first() != Some(&0x10) {
                let ms = now as f64 / 1e6;
                let kind = datagram.first().copied().unwrap_or_default();
                println!("{ms:12.6} ms      handshake {kind} of {host} on link {link} to {to}");
            }
            if let Err(why) = self.send(now, (host, link), to, datagram, events) {
                self.note_loss(now, host, link, datagram.len(), why);
            }
        }
    }

    fn send(
        &mut self,
        now: Ns,
        (host, link): (usize, usize),
        to: SocketAddr,
        datagram: &[u8],
        events: &mut Events,
    ) -> Result<(), Loss> {
        let port = self.ports[host].get_mut(link).ok_or(Loss::Dead)?;
        let source = port.address.filter(|_| port.carrier).ok_or(Loss::Dead)?;
        let (at, again_at, corrupt) = match port.up.send_datagram(now, datagram) {
            Passage::Lost(why) => return Err(why),
            Passage::Passes {
                at,
                again_at,
                corrupt,
            } => (at, again_at, corrupt),
        };
        if corrupt && self.checks_sums {
            self.stats.corrupted += 1;
            return Err(Loss::Altered);
        }
        // Where it goes is settled at the switch; until then it is the sender's.
        let packet = Packet {
            link,
            from_host: Some(host),
            to_host: host,
            source,
            destination: to,
            bytes: Vec::new(),
        };
        for at in [Some(at), again_at].into_iter().flatten() {
            let id = self.packets.put(packet.clone(), datagram);
            if corrupt {
                self.corrupt(id);
            }
            events.plan(at, Happening::AtSwitch(id));
        }
        Ok(())
    }

    fn note_loss(&mut self, now: Ns, host: usize, link: usize, bytes: usize, why: Loss) {
        self.stats.lost += 1;
        let noted = self.overflows.last().is_some_and(|at| now - at < MS);
        if why == Loss::Overflow && !noted {
            self.overflows.push(now);
        }
        if self.traces {
            let ms = now as f64 / 1e6;
            println!("{ms:12.6} ms      {bytes} bytes of {host} on link {link} are lost: {why:?}");
        }
    }

    /// A packet is at its switch and goes on to the host that has its destination.
    pub fn at_switch(&mut self, now: Ns, id: PacketId, events: &mut Events) {
        let packet = self.packets.get_mut(id);
        let (link, from, destination) = (packet.link, packet.from_host, packet.destination);
        let bytes = packet.bytes.len();
        let switch = &self.switches[link];
        let to = (0..self.ports.len()).find(|host| {
            self.ports[*host][link].address == Some(destination)
                && from.is_none_or(|from| !switch.cut.contains(&(from, *host)))
        });
        let passage = match to {
            Some(to) if !switch.dead => self.ports[to][link].down.send_datagram(now, &packet.bytes),
            _ => Passage::Lost(Loss::Dead),
        };
        let (to, at, again_at, corrupt) = match (to, passage) {
            (
                Some(to),
                Passage::Passes {
                    at,
                    again_at,
                    corrupt,
                },
            ) if !corrupt || !self.checks_sums => (to, at, again_at, corrupt),
            (_, passage) => {
                let why = match passage {
                    Passage::Passes { corrupt: true, .. } => {
                        self.stats.corrupted += 1;
                        Loss::Altered
                    }
                    _ => passage.loss().unwrap_or(Loss::Dead),
                };
                self.note_loss(now, from.unwrap_or(usize::MAX), link, bytes, why);
                let packet = self.packets.take(id);
                self.packets.recycle(packet.bytes);
                return;
            }
        };
        self.packets.get_mut(id).to_host = to;
        if corrupt {
            self.corrupt(id);
        }
        if let Some(again_at) = again_at {
            let packet = self.packets.get_mut(id).clone();
            let copy = self.packets.put(packet.clone(), &packet.bytes);
            events.plan(again_at, Happening::AtHost(copy));
        }
        events.plan(at, Happening::AtHost(id));
    }

    /// A packet has arrived: the host takes it if its carrier and address still stand.
    pub fn at_host(&mut self, id: PacketId) -> Option<Packet> {
        let packet = self.packets.take(id);
        let port = &self.ports[packet.to_host][packet.link];
        if port.carrier && port.address == Some(packet.destination) {
            self.stats.arrived += 1;
            return Some(packet);
        }
        self.stats.lost += 1;
        self.packets.recycle(packet.bytes);
        None
    }

    /// Puts a packet of the attacker's in front of a host's socket.
    pub fn inject(&mut self, at: Ns, packet: Packet, events: &mut Events) {
        let bytes = packet.bytes.clone();
        let id = self.packets.put(packet, &bytes);
        events.plan(at, Happening::AtHost(id));
    }

    /// Takes back the storage of a packet that was handled.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.packets.recycle(bytes);
    }

    /// Flips one to three bits, or overwrites a run of bytes.
    fn corrupt(&mut self, id: PacketId) {
        self.stats.corrupted += 1;
        let bytes = &mut self.packets.get_mut(id).bytes;
        let count = bytes.len() as u64;
        if count == 0 {
            return;
        }
        if self.random.percent(75) {
            for _ in 0..self.random.between(1, 3) {
                let at = self.random.below(count) as usize;
                bytes[at] ^= 1 << self.random.below(8);
            }
        } else {
            let from = self.random.below(count) as usize;
            let to = (from + self.random.between(1, 64) as usize).min(bytes.len());
            for byte in &mut bytes[from..to] {
                *byte = self.random.u64() as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests;
