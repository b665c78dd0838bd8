//! The outside: a network beside the links, on which the cluster's clients are.
//!
//! The first two nodes have a cable to it. Its two switches are bridges of one namespace, with the line between them:
//! ```text
//! n0 ─ ext0 ── p0 ┐                                                 ┌ c0 ── eth0 ─ c0
//!                 ├ switch ─ near ── near-gap ═ far-gap ── far ─ clients ┤
//! n1 ─ ext0 ── p1 ┘                   emulator                      └ c1 ── eth0 ─ c1
//! ```
//! What leaves waits for its turn in the node's own device, as on a machine whose network card is the narrowest place: `ext0` has the rate
//! and the queue. What comes waits at `far`. Neither the line nor anything else there has a rate. A line without a delay is
//! one pair of devices, `near` and `far`. With one, the emulator takes frames over the gap, packets that are to be cut yet as a whole.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tabane_io::netlink::{DeviceChange, Devices};

use crate::config::{DELAY_MAX, RATE_BITS_PER_S, parse_delay, parse_rate};
use crate::emulator::{Cable, Delay};
use crate::inject::{self, Injection};
use crate::lab::change_devices;
use crate::namespace::Place;
use crate::tools::{IP, NFT, SH, TC};
use crate::wiring::{
    self, BRIDGE, BRIDGE_INDEX, Held, Pieces, cable_to, new_bridge, plugged_into, port, quietly_up,
    shaper_holding,
};
use crate::{Fault, Lab, LabError};

/// The device of a node that leads outside.
pub const OUTSIDE_DEVICE: &str = "ext0";
/// What outside is the cluster's: for `addresses` of `[gateway]` in the cluster file. The lab gives them to nobody.
pub const OUTSIDE_ADDRESSES: [&str; 2] = ["203.0.113.1/24", "2001:db8::1/64"];
/// How many nodes have a cable to the outside, if there are as many.
const GATEWAYS_MAX: usize = 2;
/// How many clients there are.
const CLIENTS: usize = 2;
/// The first client has this host number; as hexadecimal digits in IPv6, so that both look alike.
const FIRST_HOST: u8 = 101;
const FIRST_HOST_IPV6: u16 = 0x101;
/// That of Ethernet, whatever the links' is.
const MTU: u32 = 1500;
/// What waits in front of the rate, each way: a thousand full frames, as in a device of a usual length of queue.
const QUEUE: Held = Held::Bytes(1_500_000);

const CLIENTS_BRIDGE: &str = "clients";
/// The line's ends at the switch and at the clients'.
const NEAR: &str = "near";
const FAR: &str = "far";
const NEAR_GAP: &str = "near-gap";
const FAR_GAP: &str = "far-gap";

/// The line between the cluster and its clients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OutsideSpec {
    /// Line rate, each way, bits per second; `None` is unshaped (as fast as the CPU).
    pub rate_bits_per_s: Option<u64>,
    /// Added to a round trip between a node and a client: half of it each way.
    pub round_trip: Duration,
}

impl Default for OutsideSpec {
    fn default() -> Self {
        OutsideSpec {
            rate_bits_per_s: Some(1_000_000_000),
            round_trip: Duration::ZERO,
        }
    }
}

impl OutsideSpec {
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(rate) = self.rate_bits_per_s
            && !RATE_BITS_PER_S.contains(&rate)
        {
            return Err(format!(
                "rate {rate} bit/s: must be 64kbit to 400gbit, or none"
            ));
        }
        if self.round_trip > DELAY_MAX {
            return Err(format!(
                "delay {:?}: must be at most {DELAY_MAX:?}",
                self.round_trip
            ));
        }
        Ok(())
    }

    fn shaper(&self, pieces: Pieces, device: &str) -> String {
        shaper_holding(self.rate_bits_per_s, MTU, pieces, QUEUE, device)
    }
}

/// `1gbit,2ms`: rate and round trip; `1gbit`: no delay.
impl FromStr for OutsideSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rate, delay) = text.split_once(',').unwrap_or((text, "0"));
        let read = || {
            let spec = OutsideSpec {
                rate_bits_per_s: parse_rate(rate)?,
                round_trip: parse_delay(delay)?,
            };
            spec.check().map(|()| spec)
        };
        read().map_err(|why| {
            format!(
                "{why}; the outside has a rate and the delay of a round trip, as in 1gbit,2ms, or a rate alone, as in 1gbit"
            )
        })
    }
}

/// Namespaces of the outside.
pub(crate) const PLACES: usize = 1 + CLIENTS;

/// What messages call one of them.
pub(crate) fn place_name(place: usize) -> String {
    match place.checked_sub(1) {
        None => "the outside".into(),
        Some(client) => format!("c{client}"),
    }
}

/// The outside of a lab that is up.
#[derive(Debug)]
pub(crate) struct Outside {
    spec: OutsideSpec,
    switch: Place,
    clients: Vec<Place>,
    devices: Mutex<Option<Devices>>,
}

impl Outside {
    /// `places` are its switch's and the clients'.
    pub fn new(spec: OutsideSpec, places: Vec<Place>) -> Option<Outside> {
        let mut places = places.into_iter();
        Some(Outside {
            spec,
            switch: places.next()?,
            clients: places.collect(),
            devices: Mutex::default(),
        })
    }

    pub fn places(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.switch).chain(&self.clients)
    }

    /// What the emulator has to carry: the gap of the line, once for each direction.
    pub fn cables(&self) -> Result<Vec<Cable>, LabError> {
        if self.spec.round_trip.is_zero() {
            return Ok(Vec::new());
        }
        let delay = Delay::new(self.spec.round_trip / 2);
        let one =
            |(from, to)| Cable::new(&self.switch, from, to, &delay, self.spec.rate_bits_per_s);
        let both = [(NEAR_GAP, FAR_GAP), (FAR_GAP, NEAR_GAP)];
        let cables: std::io::Result<_> = both.into_iter().map(one).collect();
        cables.map_err(LabError::io("emulating the delay of the outside"))
    }

    fn change(&self, changes: &[(String, DeviceChange)]) -> Result<(), LabError> {
        change_devices(&self.switch, &self.devices, changes)
    }

    /// `ip` orders for its namespace.
    fn orders(&self, gateways: &[Place]) -> String {
        let mut orders = vec![
            "link set lo up".to_owned(),
            new_bridge(BRIDGE, &format!(" index {BRIDGE_INDEX}"), MTU),
            new_bridge(CLIENTS_BRIDGE, "", MTU),
        ];
        let mut lay = |end: &str, bridge: &str, device: &str, address: [u8; 6], to: &Place| {
            let path = to.net.to_string_lossy();
            orders.push(cable_to(end, device, address, MTU, &path));
            orders.push(plugged_into(end, bridge));
        };
        for (node, place) in gateways.iter().enumerate() {
            let address = hardware_address(0, node);
            lay(&port(node), BRIDGE, OUTSIDE_DEVICE, address, place);
        }
        for (client, place) in self.clients.iter().enumerate() {
            let address = hardware_address(1, client);
            lay(&place.name, CLIENTS_BRIDGE, &wiring::nic(0), address, place);
        }
        let pair = |one: &str, other: &str| {
            format!("link add name {one} mtu {MTU} type veth peer name {other} mtu {MTU}")
        };
        if self.spec.round_trip.is_zero() {
            orders.push(pair(NEAR, FAR));
        } else {
            orders.extend([pair(NEAR, NEAR_GAP), pair(FAR, FAR_GAP)]);
            orders.extend([quietly_up(NEAR_GAP), quietly_up(FAR_GAP)]);
        }
        orders.push(plugged_into(NEAR, BRIDGE));
        orders.push(plugged_into(FAR, CLIENTS_BRIDGE));
        orders.join("\n") + "\n"
    }

    /// `nft` orders: what comes to the gap is the emulator's, which has its copy by then.
    fn rules(&self) -> String {
        if self.spec.round_trip.is_zero() {
            return String::new();
        }
        let chain = |device: &str| {
            format!(
                "chain {device} {{ type filter hook ingress device \"{device}\" priority 0; drop; }}"
            )
        };
        let (near, far) = (chain(NEAR_GAP), chain(FAR_GAP));
        format!("table netdev line {{\n  {near}\n  {far}\n}}\n")
    }
}

/// Of a gateway's device, side 0, or of a client's, side 1; those of links have a zero in front.
fn hardware_address(side: u8, number: usize) -> [u8; 6] {
    [2, 0x7a, 0x62, 1, side, (number + 1) as u8]
}

/// The addresses of a client, of IPv4 and of IPv6.
fn client_addresses(client: usize) -> [IpAddr; 2] {
    // There are so few of them that none of these saturates.
    let number = u8::try_from(client).unwrap_or(u8::MAX);
    let host = FIRST_HOST.saturating_add(number);
    let host_ipv6 = FIRST_HOST_IPV6.saturating_add(number.into());
    [
        Ipv4Addr::new(203, 0, 113, host).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host_ipv6).into(),
    ]
}

/// Clients, and the nodes that they reach.
impl Lab {
    /// How many nodes have a device that leads outside: the first two, or the only one; none if the lab has no outside.
    pub fn gateways(&self) -> usize {
        self.outside
            .as_ref()
            .map_or(0, |_| self.nodes().min(GATEWAYS_MAX))
    }

    /// How many clients there are: `c0` and `c1`, or none.
    pub fn clients(&self) -> usize {
        self.outside
            .as_ref()
            .map_or(0, |outside| outside.clients.len())
    }

    /// The addresses of a client, of IPv4 and of IPv6.
    pub fn client_addresses(&self, client: usize) -> [IpAddr; 2] {
        client_addresses(client)
    }

    /// As [`Lab::command`], in a client.
    pub fn client_command(&self, client: usize, program: impl AsRef<OsStr>) -> Command {
        let clients = self.outside.as_ref().map(|outside| &outside.clients);
        let place = clients.and_then(|clients| clients.get(client));
        self.command_in(place, &format!("c{client}"), program)
    }

    pub(crate) fn check_client(&self, client: usize) -> Result<(), LabError> {
        self.outside()?;
        if client < self.clients() {
            return Ok(());
        }
        Err(LabError::BadInput(format!(
            "no client \"c{client}\"; this lab has c0 to c{}",
            self.clients() - 1
        )))
    }

    fn outside(&self) -> Result<&Outside, LabError> {
        self.outside.as_ref().ok_or_else(|| {
            let why =
                "this lab has no outside; one that was made with `lab up --outside 1gbit,2ms` has";
            LabError::BadInput(why.into())
        })
    }

    fn gateway_places(&self) -> &[Place] {
        &self.all_nodes()[..self.gateways()]
    }
}

/// Making it.
impl Lab {
    pub(crate) fn wire_outside(&self) -> Result<(), LabError> {
        let Some(outside) = &self.outside else {
            return Ok(());
        };
        SH.run(&outside.switch, wiring::NO_FIREWALL)?;
        IP.run(&outside.switch, &outside.orders(self.gateway_places()))?;
        NFT.run(&outside.switch, &outside.rules())?;
        for node in self.gateway_places() {
            IP.run(node, &(quietly_up(OUTSIDE_DEVICE) + "\n"))?;
        }
        for (client, place) in outside.clients.iter().enumerate() {
            let nic = wiring::nic(0);
            let [ipv4, ipv6] = client_addresses(client);
            let orders = [
                "link set lo up".to_owned(),
                quietly_up(&nic),
                format!("address add {ipv4}/24 dev {nic}"),
                // Nobody else has it, and to find that out takes a second.
                format!("address add {ipv6}/64 dev {nic} nodad"),
            ];
            IP.run(place, &(orders.join("\n") + "\n"))?;
        }
        self.shape_outside(outside, Pieces::Whole)?;
        outside.change(&[])
    }

    /// Gives both directions their rate.
    fn shape_outside(&self, outside: &Outside, pieces: Pieces) -> Result<(), LabError> {
        TC.run(&outside.switch, &outside.spec.shaper(pieces, FAR))?;
        let order = outside.spec.shaper(pieces, OUTSIDE_DEVICE);
        let mut gateways = self.gateway_places().iter();
        gateways.try_for_each(|node| TC.run(node, &order))
    }
}

/// Its faults.
impl Lab {
    /// Break the cable that leads outside of a node, or those of all: [`Fault::Silent`], [`Fault::Carrier`],
    /// [`Fault::OneWay`] (of n0 if no node is named) or [`Fault::Loss`]. Faults add up until [`Lab::heal_outside`].
    ///
    /// # Errors
    /// There is no outside, the node has no cable to it, or the fault is another one; the kernel or a tool refused.
    pub fn fail_outside(&self, fault: Fault, node: Option<usize>) -> Result<Injection, LabError> {
        let outside = self.outside()?;
        fault.check().map_err(LabError::BadInput)?;
        let chosen = match node {
            None => 0..self.gateways(),
            Some(node) if node < self.gateways() => node..node + 1,
            Some(node) => {
                self.check_node(node)?;
                let why = format!("n{node} has no cable outside; n0 and n1 have");
                return Err(LabError::BadInput(why));
            }
        };
        let on_all = |change| {
            let changes: Vec<_> = chosen.clone().map(|node| (port(node), change)).collect();
            outside.change(&changes)
        };
        Injection::of(|| match fault {
            Fault::Silent => on_all(DeviceChange::Master(0)),
            Fault::Carrier => on_all(DeviceChange::Up(false)),
            Fault::OneWay => {
                let from = port(node.unwrap_or(0));
                inject::drop_in(&outside.switch, &[format!("iifname \"{from}\" drop")])
            }
            Fault::Loss { percent } => {
                // One frame is to be lost at a time, not a packet that is to be cut yet.
                self.shape_outside(outside, Pieces::Frames(MTU))?;
                let lost = wiring::lose(percent);
                let ways = chosen.clone().flat_map(|node| {
                    ["iifname", "oifname"].map(|way| format!("{way} \"{}\" {lost}", port(node)))
                });
                inject::drop_in(&outside.switch, &ways.collect::<Vec<_>>())
            }
            other => Err(LabError::BadInput(format!(
                "mode {other}: the cables that lead outside have silent, carrier, oneway and loss=5%"
            ))),
        })
    }

    /// Undo every fault of the outside.
    ///
    /// # Errors
    /// There is no outside; the kernel or a tool refused.
    pub fn heal_outside(&self) -> Result<Injection, LabError> {
        let outside = self.outside()?;
        Injection::of(|| {
            let back = |node| (port(node), DeviceChange::Master(BRIDGE_INDEX));
            let up = |node| (port(node), DeviceChange::Up(true));
            let changes: Vec<_> = (0..self.gateways())
                .flat_map(|node| [back(node), up(node)])
                .collect();
            outside.change(&changes)?;
            inject::drop_nothing_in(&outside.switch)?;
            self.shape_outside(outside, Pieces::Whole)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_and_a_round_trip_are_read() {
        let spec = "1gbit,2ms".parse::<OutsideSpec>();
        let wanted = OutsideSpec {
            round_trip: Duration::from_millis(2),
            ..OutsideSpec::default()
        };
        assert_eq!(spec, Ok(wanted));
        assert_eq!("1gbit".parse(), Ok(OutsideSpec::default()));
        assert_eq!("1gbit,0".parse(), Ok(OutsideSpec::default()));
        let unshaped = "none,1s".parse::<OutsideSpec>().expect("is right");
        assert_eq!(unshaped.rate_bits_per_s, None);
        for wrong in [
            "",
            "0,2ms",
            "2ms",
            "1gbit,",
            "1gbit,2",
            "1gbit,2ms,3ms",
            "1gbit,1000s",
        ] {
            let message = wrong.parse::<OutsideSpec>().expect_err(wrong);
            assert!(message.contains("1gbit,2ms"), "{message}");
        }
    }

    #[test]
    fn what_leaves_waits_in_a_thousand_frames_of_room() {
        let order = OutsideSpec::default().shaper(Pieces::Whole, OUTSIDE_DEVICE);
        assert_eq!(
            order,
            "qdisc replace dev ext0 root tbf rate 1000000000 burst 131125 limit 1500000\n"
        );
    }

    #[test]
    fn clients_have_addresses_that_look_alike() {
        let [ipv4, ipv6] = client_addresses(1);
        assert_eq!(ipv4.to_string(), "203.0.113.102");
        assert_eq!(ipv6.to_string(), "2001:db8::102");
    }
}
