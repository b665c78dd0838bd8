//! The virtual NIC's place in the loop: frames read from it go to the peers,
//! frames from the peers are written to it.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::sync::Once;
use std::time::Duration;

use tabane_cluster::{Cluster, VNIC_NAME, mac_of};
use tabane_io::netlink::Interface;
use tabane_io::poll::{Interest, Poller};
use tabane_io::vnic::{Backend, Vnic, VnicError, VnicOptions};
use tabane_proto::op::Policy;
use tabane_proto::{Node, PeerId, Time};

use super::configured::peers_with_nic;
use super::ports::Ports;
use super::read_ahead::{QUEUE_BYTES, ReadAhead};
use super::run::TOKEN_NIC;
use crate::flow_rules::{FlowRules, Frame};
use crate::log;
use crate::vswitch::{DropReason, Refusal, Trains, VSwitch, Verdict, flow_hash, flow_header};

/// Largest packet the kernel hands over uncut (TSO, BIG TCP).
const GSO_BYTES_MAX: u32 = 350_000;
/// Frames a TAP holds while the loop is busy; fewer lose packets.
const TX_QUEUE_LENGTH: u32 = 1000;
/// Frames read in one turn at most, before arrivals and timers have theirs.
const FRAMES_PER_TURN: usize = 32;
/// Frames up to this length may wait for an answer: worth a spin.
const SMALL_BYTES: usize = 2048;

/// Frames that went nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct NicCounters {
    /// From the virtual NIC, by [`DropReason::index`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Sent over it faster than the loop read; dropped by the kernel. As of the last
    /// [look](Nic::look_for_overrun).
    pub overrun: u64,
    /// Frames for a peer whose queue was full while others were being served.
    pub queue_full: u64,
    /// From a peer that may not send them, by [`Refusal::index`].
    pub refused: [u64; Refusal::ALL.len()],
    /// The kernel did not take them (queue full, device down).
    pub write_failed: u64,
}

/// Interval of checking whether frames were dropped in front of the device.
const OVERRUN_LOOK_EVERY: Duration = Duration::from_secs(1);
/// The log reports drops again after a pause of this length.
const OVERRUN_QUIET: Duration = Duration::from_secs(60);

/// Changes that somebody has made to the device since the daemon made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    Sound,
    /// Removed it, or moved it to another network namespace.
    Gone,
    /// Switched it off.
    Off,
    /// Taken its address from it.
    WithoutAddress,
}

impl Condition {
    /// What is wrong, in words; `None` if nothing is.
    pub const fn trouble(self) -> Option<&'static str> {
        match self {
            Condition::Sound => None,
            Condition::Gone => Some("somebody has removed it"),
            Condition::Off => Some("somebody has switched it off"),
            Condition::WithoutAddress => Some("somebody has taken its address from it"),
        }
    }
}

/// The virtual NIC, and the peers behind it.
pub struct Nic {
    vnic: Vnic,
    /// Its current name and MTU: somebody may have changed them.
    name: String,
    mtu_bytes: u32,
    address: IpAddr,
    condition: Condition,
    switch: VSwitch,
    ports: Ports,
    trains: Trains,
    pub counters: NicCounters,
    /// When it was last looked for an overrun, and when one was last found.
    looked_at: Time,
    overrun_at: Option<Time>,
    /// There may be something to read.
    readable: bool,
    /// Reading is suspended because too much waits to be sent.
    paused: bool,
    ahead: ReadAhead,
    watched: bool,
    /// The poller does not take it: it is read unasked.
    is_unwatchable: bool,
    /// It could not be read though there may be something.
    has_stumbled: bool,
    token: u64,
}

fn switch(own: IpAddr, mtu_bytes: u32, peers: &[(PeerId, IpAddr)]) -> VSwitch {
    let peers = peers.iter().enumerate();
    let indexed: Vec<_> = peers.map(|(i, (_, ip))| (i, *ip)).collect();
    let mut switch = VSwitch::new(mac_of(own), own, &indexed);
    switch.set_mtu(mtu_bytes);
    switch
}

impl Nic {
    /// Makes the device, with this MTU in bytes. `peers` are the nodes with a virtual NIC.
    ///
    /// # Errors
    /// [`VnicError`].
    pub fn open(
        address: (IpAddr, u8),
        mtu_bytes: u32,
        peers: &[(PeerId, IpAddr)],
        backend: Backend,
        token: u64,
    ) -> Result<Nic, VnicError> {
        let mac = mac_of(address.0);
        let vnic = Vnic::open(&VnicOptions {
            name: VNIC_NAME,
            mac,
            mtu: mtu_bytes,
            addresses: &[address],
            gso_bytes_max: GSO_BYTES_MAX,
            tx_queue_length: TX_QUEUE_LENGTH,
            backend,
        })?;
        let mut ports = Ports::default();
        ports.set(peers.iter().map(|(peer, _)| *peer));
        Ok(Nic {
            vnic,
            name: VNIC_NAME.to_owned(),
            mtu_bytes,
            address: address.0,
            condition: Condition::Sound,
            switch: switch(address.0, mtu_bytes, peers),
            ports,
            trains: Trains::default(),
            counters: NicCounters::default(),
            looked_at: Time::ZERO,
            overrun_at: None,
            readable: true,
            paused: false,
            ahead: ReadAhead::new(),
            watched: false,
            is_unwatchable: false,
            has_stumbled: false,
            token,
        })
    }

    /// Other nodes have virtual NICs now.
    pub fn set_peers(&mut self, own: IpAddr, peers: &[(PeerId, IpAddr)]) {
        self.switch = switch(own, self.mtu_bytes, peers);
        self.ports.set(peers.iter().map(|(peer, _)| *peer));
    }

    /// The device.
    pub fn vnic(&self) -> &Vnic {
        &self.vnic
    }

    /// The device's current name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The MTU that the device has now, bytes.
    pub const fn mtu_bytes(&self) -> u32 {
        self.mtu_bytes
    }

    /// Gives the device another MTU.
    ///
    /// # Errors
    /// As [`Vnic::set_mtu`].
    pub fn set_mtu(&mut self, bytes: u32) -> io::Result<()> {
        self.vnic.set_mtu(bytes)?;
        self.note_mtu(bytes);
        Ok(())
    }

    fn note_mtu(&mut self, bytes: u32) {
        self.mtu_bytes = bytes;
        self.switch.set_mtu(bytes);
    }

    /// Changes that somebody has made to the device.
    pub const fn condition(&self) -> Condition {
        self.condition
    }

    /// Compares the device with the host's current devices. Returns whether its condition has
    /// changed.
    pub fn look(&mut self, devices: &[Interface]) -> bool {
        let device = devices.iter().find(|d| d.index == self.vnic.index());
        let has = |device: &Interface| device.addresses.iter().any(|a| a.ip == self.address);
        let now = match device {
            None => Condition::Gone,
            Some(device) if !device.up => Condition::Off,
            Some(device) if !has(device) => Condition::WithoutAddress,
            Some(_) => Condition::Sound,
        };
        if let Some(device) = device {
            self.name.clone_from(&device.name);
            self.note_mtu(device.mtu);
        }
        core::mem::replace(&mut self.condition, now) != now
    }

    /// Checks now and then whether the kernel dropped frames because the daemon read too slowly.
    /// Returns a line for the log.
    pub fn look_for_overrun(&mut self, now: Time) -> Option<String> {
        if now.since(self.looked_at) < OVERRUN_LOOK_EVERY {
            return None;
        }
        self.looked_at = now;
        let drops = self.vnic.counters().ok()?.kernel_drops;
        let new = drops.saturating_sub(self.counters.overrun);
        if new == 0 {
            return None;
        }
        self.counters.overrun = drops;
        let before = self.overrun_at.replace(now);
        let is_new = before.is_none_or(|before| now.since(before) > OVERRUN_QUIET);
        is_new.then(|| {
            format!(
                "{VNIC_NAME}: {new} packets were dropped: some program sends faster than can be carried \
                 (UDP that nothing bounds?)"
            )
        })
    }

    /// The device can be read.
    pub fn ready(&mut self) {
        self.readable = true;
    }

    /// Reads frames and hands them to the node until there are no more or enough wait to be sent.
    /// Returns whether these were small traffic.
    pub fn produce(&mut self, now: Time, node: &mut Node, rules: &mut FlowRules) -> bool {
        while let Some((frame, policy)) = rules.next_due(now) {
            self.hand_over(now, node, frame, policy);
        }
        self.readable |= self.is_unwatchable;
        let mut small = false;
        for count in 0..FRAMES_PER_TURN {
            self.paused = self.enough_queued(node);
            if self.paused || !self.readable {
                if self.readable {
                    self.ahead.on_pause(now);
                }
                return small;
            }
            let mut frame = node.frame_buffer();
            match self.vnic.read_frame(&mut frame) {
                Ok(true) => {}
                none => {
                    node.recycle_frame(frame);
                    self.has_stumbled |= none.is_err();
                    self.readable = false;
                    self.ahead.on_empty(self.ports.waiting(node).bytes);
                    return small;
                }
            }
            small = count == 0 && frame.len() <= SMALL_BYTES;
            self.switch(now, node, rules, frame);
        }
        false
    }

    /// Whether reading should pause. (Bytes queued by streams do not count: the device would wait
    /// for all of them.) One slow peer must not hold up the others: every peer in use has its
    /// share, and beyond it its frames are dropped only while others are being served. A peer
    /// with a standing queue does not count: the node bounds that queue by dropping.
    fn enough_queued(&mut self, node: &Node) -> bool {
        let waiting = self.ports.waiting(node);
        waiting.flowing_bytes >= self.ahead.bytes() * waiting.flowing.max(1)
    }

    fn switch(&mut self, now: Time, node: &mut Node, rules: &mut FlowRules, frame: Vec<u8>) {
        match self.switch.classify(&frame) {
            Verdict::Unicast(place) => self.send(now, node, rules, (place, frame)),
            Verdict::Flood => {
                for place in 0..self.ports.len() {
                    let mut copy = node.frame_buffer();
                    copy.clear();
                    copy.extend_from_slice(&frame);
                    self.send(now, node, rules, (place, copy));
                }
                node.recycle_frame(frame);
            }
            Verdict::Reply(reply) => {
                node.recycle_frame(frame);
                self.write(&reply);
            }
            Verdict::Drop(reason) => {
                self.counters.dropped[reason.index()] += 1;
                node.recycle_frame(frame);
            }
        }
    }

    /// Sends a frame to the peer at a place, or has it wait for the rate of its rule.
    fn send(
        &mut self,
        now: Time,
        node: &mut Node,
        rules: &mut FlowRules,
        (place, bytes): (usize, Vec<u8>),
    ) {
        let frame = Frame {
            peer: self.ports.peer(place),
            flow: self.ports.flows(place).number(now, flow_hash(&bytes)),
            bytes,
        };
        let rule = match rules.is_empty() {
            true => None,
            false => flow_header(&frame.bytes).and_then(|header| rules.find(&header)),
        };
        match rules.pass(now, rule, frame) {
            Ok(Some((frame, policy))) => self.hand_over(now, node, frame, policy),
            Ok(None) => {}
            Err(dropped) => node.recycle_frame(dropped),
        }
    }

    fn hand_over(&mut self, now: Time, node: &mut Node, frame: Frame, policy: Policy) {
        let Frame { peer, flow, bytes } = frame;
        // One that is no peer any more takes nothing.
        let Some(place) = self.ports.place(peer) else {
            return node.recycle_frame(bytes);
        };
        let queued = node.queued_frame_bytes(peer);
        let most = self.ahead.bytes().max(2 * QUEUE_BYTES);
        let is_full = queued >= most && !node.frames_stand(peer);
        let unsent = if is_full {
            self.counters.queue_full += 1;
            Some(bytes)
        } else {
            self.ports.use_place(place);
            node.send_frame(now, peer, (flow, policy), bytes).err()
        };
        if let Some(frame) = unsent {
            node.recycle_frame(frame);
        }
    }

    /// A frame from `peer` for this host. It may wait for others until [`Nic::delivered`].
    pub fn deliver(&mut self, peer: PeerId, frame: &[u8]) {
        // One without a virtual NIC has no MAC.
        let place = self.ports.place(peer).ok_or(Refusal::Frame);
        if let Err(refusal) = place.and_then(|place| self.switch.accept(frame, place)) {
            self.counters.refused[refusal.index()] += 1;
            return;
        }
        if !self.vnic.cuts_datagrams() {
            return self.write(frame);
        }
        let (vnic, failed) = (&mut self.vnic, &mut self.counters.write_failed);
        self.trains
            .add(frame, |frame| *failed += write(vnic, frame));
    }

    /// No more frames are at hand.
    pub fn delivered(&mut self) {
        let (vnic, failed) = (&mut self.vnic, &mut self.counters.write_failed);
        self.trains.leave(|frame| *failed += write(vnic, frame));
    }

    fn write(&mut self, frame: &[u8]) {
        self.counters.write_failed += write(&mut self.vnic, frame);
    }

    /// Arms the device's readability exactly when reading is not paused and the device is not
    /// known to have frames. Returns whether it is known to have some that may be read: then the
    /// loop must not sleep.
    ///
    /// # Errors
    /// The poller refuses the device now: until it accepts it, the device is polled each turn.
    pub fn before_wait(&mut self, node: &Node, poller: &Poller) -> io::Result<bool> {
        // Much may have been sent since reading was paused.
        self.paused = self.enough_queued(node);
        if core::mem::take(&mut self.has_stumbled) {
            poller.stumble();
        }
        let want = !self.paused && !self.readable;
        if want != self.watched {
            let set = match want {
                true => poller.register(&self.vnic, self.token, Interest::Read),
                false => poller.deregister(&self.vnic),
            };
            self.is_unwatchable = want && set.is_err();
            set?;
            self.watched = want;
        }
        Ok(self.readable && !self.paused)
    }
}

/// Hands a frame to the host. Returns how many the kernel did not take.
fn write(vnic: &mut Vnic, frame: &[u8]) -> u64 {
    u64::from(vnic.write(&[IoSlice::new(frame)]).is_err())
}

/// Makes the device of this node with its address, and says so in the log.
///
/// # Errors
/// In words for people.
pub fn open_nic(
    cluster: &Cluster,
    address: (IpAddr, u8),
    peers: &[(PeerId, usize)],
) -> Result<Nic, String> {
    let others = peers_with_nic(cluster, peers);
    let mtu_bytes = cluster.vnic.mtu_bytes;
    let nic =
        Nic::open(address, mtu_bytes, &others, backend()?, TOKEN_NIC).map_err(|e| e.to_string())?;
    log::line(format!(
        "{} is up with {}/{}, MTU {}",
        VNIC_NAME,
        address.0,
        address.1,
        nic.mtu_bytes()
    ));
    // Once: the next device is no different.
    static TOLD: Once = Once::new();
    if !nic.vnic().believes().is_empty() {
        let settings = nic.vnic().believes().join(", ");
        TOLD.call_once(|| {
            // Of no concern: under its unit, which lets it write no setting, it is always so.
            log::line(format!(
                "{VNIC_NAME}: {settings} could not be set to 0 (can /proc/sys only be read?); what peers say of \
                 routers is dropped all the same"
            ));
        });
    }
    Ok(nic)
}

/// Which kind of device to make: for measurements the environment may say.
fn backend() -> Result<Backend, String> {
    match std::env::var("TABANE_VNIC_BACKEND").as_deref() {
        Err(_) | Ok("auto") => Ok(Backend::Auto),
        Ok("tap") => Ok(Backend::Tap),
        Ok("packet") => Ok(Backend::Packet),
        Ok(other) => Err(format!(
            "TABANE_VNIC_BACKEND={other}: must be auto, tap or packet"
        )),
    }
}
