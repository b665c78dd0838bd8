//! A gateway while it serves: its device outside, the line, and what of the machine is the cluster's meanwhile.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::rc::Rc;

use tabane_cluster::Mac;
use tabane_io::capture::Unreachable;
use tabane_proto::Time;
use tabane_proto::gateway::{Family, Port, Refused, Transport};

use super::devices::{Devices, Held, Kernel, Line};
use super::early::{Early, Origin};
use super::front::{For, Front, Host, Owner};
use super::neighbours::{Hop, Neighbours, Told};
use super::pace::Pace;
use super::packet::{does_not_arrive, trim};
use crate::vswitch::VNET_HDR_BYTES;
use crate::vswitch::frame::{ETHERNET_BYTES, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use crate::vswitch::offload::Header;

/// Packets that are read in one turn, before others have theirs.
const PACKETS_PER_TURN: usize = 64;
/// The most ICMP errors at once.
const ERRORS_MAX: usize = 64;
/// Announcements of the addresses come after these times: a switch may be busy, and one that gets lost is a client cut off.
const ANNOUNCED_AFTER: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_secs(1),
];

/// The cluster's outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// The device's name.
    pub device: String,
    /// Its number.
    pub index: u32,
    /// Its address of Ethernet.
    pub mac: Mac,
    /// The cluster's addresses, with the lengths of their networks' prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Ways to the rest of the world.
    pub routers: Vec<IpAddr>,
    /// The most bytes that may stand in the device's queue.
    pub queue_bytes: usize,
    /// The line's rate, if it is not the device's, in bits per second.
    pub rate_bps: Option<u64>,
    /// Connections take turns for the line here. (Otherwise packets wait in the device's own queue.)
    pub is_fair: bool,
    /// Ports and conversations of each node at most.
    pub ports_max: usize,
    /// As well.
    pub conversations_max: usize,
}

impl Site {
    /// The cluster's addresses alone.
    pub fn own(&self) -> Vec<IpAddr> {
        self.addresses.iter().map(|(address, _)| *address).collect()
    }
}

/// The machine's part in ports.
#[derive(Debug)]
pub struct Machine {
    devices: Rc<dyn Devices>,
    addresses: Vec<IpAddr>,
    held: BTreeMap<Port, Box<dyn Held>>,
    /// Owners that are not there now.
    pub away: BTreeSet<Owner>,
}

impl Machine {
    fn address(&self, family: Family) -> Option<IpAddr> {
        let is_of = |address: &&IpAddr| address.is_ipv4() == (family == Family::V4);
        self.addresses.iter().find(is_of).copied()
    }
}

impl Host for Machine {
    fn hold(&mut self, port: Port) -> Result<u16, Refused> {
        let Some(address) = self.address(port.family) else {
            return Err(Refused::InUse);
        };
        let is_tcp = match port.transport {
            Transport::Tcp => true,
            Transport::Udp => false,
            Transport::Echo => return Ok(port.number),
        };
        let taken = self.devices.port(is_tcp, (address, port.number).into());
        let (number, held) = taken.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Refused::InUse,
            _ => Refused::TooMany,
        })?;
        self.held.insert(Port { number, ..port }, held);
        Ok(number)
    }

    fn let_go(&mut self, port: Port) {
        self.held.remove(&port);
    }

    fn is_there(&self, owner: Owner) -> bool {
        !self.away.contains(&owner)
    }
}

/// Packets that went nowhere, or came from nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lost {
    /// They came faster than they were read.
    pub not_read: u64,
    /// The device did not take them.
    pub refused: u64,
    /// Packets without a route to their destination.
    pub no_way: u64,
}

/// Carried bytes of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// To the line outside.
    pub sent_bytes: u64,
    /// From there, for programs of nodes.
    pub received_bytes: u64,
}

impl core::ops::AddAssign for Carried {
    fn add_assign(&mut self, more: Carried) {
        self.sent_bytes += more.sent_bytes;
        self.received_bytes += more.received_bytes;
    }
}

/// The serving gateway.
#[derive(Debug)]
pub struct Serving {
    /// Owners, queue and limits.
    pub front: Front,
    /// The machine's ports.
    pub machine: Machine,
    line: Box<dyn Line>,
    kernel: Box<dyn Kernel>,
    neighbours: Neighbours,
    mac: Mac,
    began: Time,
    announced: usize,
    /// The line accepts nothing now.
    pub is_full: bool,
    pace: Option<Pace>,
    /// Until when the line is busy.
    waits_until: Option<Time>,
    /// Another host has said that it has one of the addresses, and where that is.
    pub taken_by: Option<(IpAddr, Mac)>,
    /// Packets lost here.
    pub lost: Lost,
    /// Carried since this was last taken.
    pub carried: Carried,
    frame: Vec<u8>,
    headers: Vec<u8>,
    /// `None`: it no longer serves, and only passes on what still comes here.
    addresses: Option<Box<dyn Held>>,
    /// Packets that came before their owner was known.
    pub early: Early,
    /// ICMP errors for senders: handled as if they came from outside.
    errors: Vec<Vec<u8>>,
}

impl Serving {
    /// Begins to serve.
    ///
    /// # Errors
    /// What is missing, in words.
    pub fn begin(now: Time, devices: &Rc<dyn Devices>, site: &Site) -> Result<Serving, String> {
        let own = site.own();
        let step = |what: &'static str| move |error: io::Error| format!("cannot {what}: {error}");
        devices.keep_silent(site)
            .map_err(step("have the kernel leave the outside addresses to tabane (it needs nf_tables with its netdev family)"))?;
        let mut line = devices
            .line(site)
            .map_err(step("read and write the device outside"))?;
        let kernel = devices.kernel().map_err(step(
            "make the device by which this machine hears what is its own",
        ))?;
        line.watch().map_err(step("wait for the device outside"))?;
        let addresses = devices
            .addresses(site)
            .map_err(step("give the device outside its addresses"))?;
        Ok(Serving {
            front: Front::new(&own, site.ports_max, site.conversations_max, site.is_fair),
            machine: Machine {
                devices: Rc::clone(devices),
                addresses: own,
                held: BTreeMap::new(),
                away: BTreeSet::new(),
            },
            line,
            kernel,
            neighbours: Neighbours::new(site.mac, &site.addresses, &site.routers),
            mac: site.mac,
            began: now,
            announced: 0,
            is_full: false,
            pace: site.rate_bps.map(Pace::new),
            waits_until: None,
            taken_by: None,
            lost: Lost::default(),
            carried: Carried::default(),
            frame: Vec::new(),
            headers: Vec::new(),
            addresses: Some(addresses),
            early: Early::default(),
            errors: Vec::new(),
        })
    }

    /// The device outside.
    pub fn line(&self) -> &dyn Line {
        &*self.line
    }

    /// Receives from outside. Packets for nodes go to `deliver`: the node, and whether only if the conversation is known
    /// there. `learns`: packets without an owner may still get one, and are kept. Returns whether there may be more.
    pub fn receive(
        &mut self,
        now: Time,
        learns: bool,
        is_of_nodes: impl Fn(IpAddr) -> bool,
        mut deliver: impl FnMut(Owner, &mut Vec<u8>, bool),
    ) -> bool {
        for mut error in core::mem::take(&mut self.errors) {
            self.came(now, &mut error, learns, &is_of_nodes, &mut deliver);
        }
        for _ in 0..PACKETS_PER_TURN {
            let mut frame = core::mem::take(&mut self.frame);
            let heard = self.line.read(&mut frame);
            let Ok(Some(heard)) = heard else {
                self.frame = frame;
                return false;
            };
            match heard.protocol {
                ETHERTYPE_ARP => {
                    let told = self.neighbours.hear_arp(now, &frame);
                    self.told(told);
                }
                ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => {
                    trim(&mut frame);
                    self.came(now, &mut frame, learns, &is_of_nodes, &mut deliver);
                }
                _ => {}
            }
            self.frame = frame;
        }
        true
    }

    fn came(
        &mut self,
        now: Time,
        frame: &mut Vec<u8>,
        learns: bool,
        is_of_nodes: &impl Fn(IpAddr) -> bool,
        deliver: &mut impl FnMut(Owner, &mut Vec<u8>, bool),
    ) {
        if let Some(told) = self.neighbours.hear_neighbour(now, frame) {
            return self.told(told);
        }
        match self.front.arrives(now, &self.machine, frame, is_of_nodes) {
            For::Owner(owner) => {
                let bytes = frame.len().saturating_sub(VNET_HDR_BYTES);
                self.carried.received_bytes += bytes as u64;
                deliver(owner, frame, false);
            }
            For::Perhaps(owners) => {
                for owner in owners {
                    deliver(owner, &mut frame.clone(), true);
                }
            }
            For::Kernel if self.addresses.is_none() => {}
            For::Kernel if learns => self.early.keep(Origin::Outside, frame),
            // If the kernel has no room the packet is lost, as anywhere.
            For::Kernel => drop(self.kernel.give(frame)),
            For::Nobody => {}
        }
    }

    /// This node has told what it has: its waiting packets go on.
    pub fn has_told(&mut self, now: Time, owner: Owner) {
        for frame in self.early.take(Origin::Inside(owner)) {
            self.leaves(now, owner, frame);
        }
    }

    /// All nodes have told what they have: waiting packets from outside go on, as in [`Serving::receive`].
    pub fn has_learned(
        &mut self,
        now: Time,
        is_of_nodes: impl Fn(IpAddr) -> bool,
        mut deliver: impl FnMut(Owner, &mut Vec<u8>, bool),
    ) {
        for mut frame in self.early.take(Origin::Outside) {
            self.came(now, &mut frame, false, &is_of_nodes, &mut deliver);
        }
    }

    fn told(&mut self, told: Told) {
        if self.addresses.is_none() {
            return;
        }
        if let Some(answer) = told.answer {
            self.send_whole(&answer);
        }
        for waited in told.ready {
            self.send_whole(&waited);
        }
        if told.taken_by.is_some() {
            self.taken_by = told.taken_by;
        }
    }

    /// Sends the few frames that bypass the queue.
    fn send_whole(&mut self, frame: &[u8]) {
        let sent = self.line.write(&[IoSlice::new(frame)]);
        self.lost.refused += u64::from(!matches!(sent, Ok(true)));
    }

    /// Bytes that wait for the line, here and in the device's queue.
    pub fn queued_bytes(&self) -> usize {
        self.front.queued_bytes() + self.line.queued_bytes()
    }

    /// The line, the ways from it and what nodes may have are as this says from now on; all else stays.
    pub fn change(&mut self, site: &Site) {
        self.pace = site.rate_bps.map(Pace::new);
        // Not expected to fail; then it is as it was.
        let _ = self.line.set_queue_bytes(site.queue_bytes);
        self.neighbours.set_routers(&site.routers);
        let limits = (site.ports_max, site.conversations_max);
        self.front.change(site.is_fair, limits);
    }

    /// The ways to the rest of the world, and whether each answers, if that is known.
    pub fn routers(&self) -> impl Iterator<Item = (IpAddr, Option<bool>)> {
        self.neighbours.routers()
    }

    /// Periodic work: probes the routers if their state is unknown, forgets conversations that were silent for too long, and
    /// reads loss counters.
    pub fn look(&mut self, now: Time) {
        let mut questions = Vec::new();
        self.neighbours
            .ask_routers(now, &mut |question| questions.push(question));
        for question in questions {
            self.send_whole(&question);
        }
        self.front.look(now, &mut self.machine);
        self.lost.not_read = self.line.dropped();
    }

    /// A node sends something outside.
    pub fn leaves(&mut self, now: Time, owner: Owner, frame: Vec<u8>) {
        self.front.leaves(now, &mut self.machine, owner, frame);
    }

    /// Sends what waits, as far as the line takes it.
    pub fn send(&mut self, now: Time) {
        self.announce(now);
        self.ask_again(now);
        (self.is_full, self.waits_until) = (false, None);
        while let Some((lane, waiting, most)) = self.front.turn() {
            self.waits_until = self.pace.and_then(|pace| pace.waits_until(now));
            if self.waits_until.is_some() {
                return;
            }
            let mut questions = Vec::new();
            let hop = self
                .neighbours
                .look_up(now, waiting.to, &mut |question| questions.push(question));
            let (content, packets) = waiting.next_piece(most, &mut self.headers);
            let bytes = content.len();
            let ethertype = if waiting.to.is_ipv4() {
                ETHERTYPE_IPV4
            } else {
                ETHERTYPE_IPV6
            };
            let to = match hop {
                Hop::Known(mac) => mac,
                _ => Mac::default(),
            };
            let front_of = in_front(&self.headers, to, self.mac, ethertype);
            let parts = [
                IoSlice::new(&front_of),
                IoSlice::new(&self.headers[VNET_HDR_BYTES..]),
                IoSlice::new(&waiting.frame[content]),
            ];
            match hop {
                Hop::Known(_) => match self.line.write(&parts) {
                    Ok(true) => {
                        let headers = (self.headers.len() - VNET_HDR_BYTES) * packets;
                        self.carried.sent_bytes += (bytes + headers) as u64;
                        if let Some(pace) = &mut self.pace {
                            pace.sent(now, bytes, packets);
                        }
                    }
                    Ok(false) => {
                        self.is_full = true;
                        return;
                    }
                    Err(_) => self.lost.refused += 1,
                },
                Hop::Asked(hop) => {
                    let whole = parts.iter().flat_map(|part| part.iter().copied()).collect();
                    self.neighbours.keep(hop, whole);
                }
                Hop::Nowhere => {
                    self.lost.no_way += 1;
                    let behind = parts[1..].iter().flat_map(|part| part.iter().copied());
                    let packet: Vec<u8> = behind.collect();
                    tell_unreachable(&mut self.errors, Unreachable::NetworkUnknown, &packet);
                }
            }
            self.front.has_left(now, lane, bytes);
            for question in questions {
                self.send_whole(&question);
            }
        }
    }

    /// Asks again for neighbours that packets wait for; those that stay silent are unreachable.
    fn ask_again(&mut self, now: Time) {
        let mut questions = Vec::new();
        let given_up = self
            .neighbours
            .handle_timeout(now, &mut |question| questions.push(question));
        for question in questions {
            self.send_whole(&question);
        }
        for frame in given_up {
            self.lost.no_way += 1;
            if let Some(packet) = frame.get(VNET_HDR_BYTES + ETHERNET_BYTES..) {
                tell_unreachable(&mut self.errors, Unreachable::Host, packet);
            }
        }
    }

    /// Whether [`Serving::receive`] has ICMP errors to deliver.
    pub const fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Tells all outside that the addresses are here, a few times.
    fn announce(&mut self, now: Time) {
        while let Some(after) = ANNOUNCED_AFTER.get(self.announced)
            && now >= self.began + *after
        {
            self.announced += 1;
            for frame in self.neighbours.announcements() {
                self.send_whole(&frame);
            }
        }
    }

    /// When [`Serving::send`] is due, if nothing comes and nothing is sent.
    pub fn next_timeout(&self) -> Option<Time> {
        let after = ANNOUNCED_AFTER.get(self.announced);
        let announces = after.map(|after| self.began + *after);
        let due = [announces, self.neighbours.next_timeout(), self.waits_until];
        due.into_iter().flatten().min()
    }

    /// Stops serving, and sends nothing more outside, because another gateway takes over. What still comes here is for nodes.
    pub fn lay_down(&mut self) {
        self.addresses = None;
    }

    /// It serves no more: the addresses are taken off the device, and the machine may speak again.
    pub fn end(self) {
        // In this order, so that nobody answers in between.
        drop(self.addresses);
        self.machine.devices.speak_again();
    }
}

/// Tells the sender of this IP packet that it does not arrive.
fn tell_unreachable(errors: &mut Vec<Vec<u8>>, why: Unreachable, packet: &[u8]) {
    if errors.len() < ERRORS_MAX {
        errors.extend(does_not_arrive(packet, why));
    }
}

/// The `virtio_net_hdr` of an IP packet, adjusted for an Ethernet header, and that header.
fn in_front(headers: &[u8], to: Mac, from: Mac, ethertype: u16) -> Vec<u8> {
    let mut bytes = match Header::parse(headers) {
        Some(mut header) => {
            if header.needs_sum() {
                header.csum_start += ETHERNET_BYTES;
            }
            if header.hdr_len > 0 {
                header.hdr_len += ETHERNET_BYTES;
            }
            header.encode().to_vec()
        }
        None => vec![0; VNET_HDR_BYTES],
    };
    bytes.extend(to);
    bytes.extend(from);
    bytes.extend(ethertype.to_be_bytes());
    bytes
}
