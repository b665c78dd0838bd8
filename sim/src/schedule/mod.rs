//! A schedule: everything that a run consists of, drawn from one seed before it begins.

mod draw;
mod draw_faults;
mod draw_identity;
mod draw_plan;
mod draw_reload;

use crate::host::HostTraits;
use crate::net::{Conditions, Ns, SECOND, US};
use crate::processor::Shortage;
use crate::workload::Plan;
use std::fmt;
use std::net::SocketAddr;
use tabane_proto::CongestionControl;
use tabane_proto::op::OpLimits;

/// One direction of a host's wire, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Towards the switch.
    Up,
    /// From the switch.
    Down,
    /// Both.
    Both,
}

/// What becomes of a wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing passes.
    Dead,
    /// Handshakes pass, and nothing else.
    HandshakesOnly,
    /// Random loss, of a million packets.
    Loss(u32),
    /// Loss in bursts: packets of a million at which one begins and ends.
    Bursts(u32, u32),
    /// Bits flipped, of a million packets.
    Corrupt(u32),
    /// Packets that come twice, of a million.
    Duplicate(u32),
    /// More delay for some.
    Jitter(Ns, bool),
    /// Another delay.
    Delay(Ns),
    /// Another rate.
    Rate(u64),
    /// Another queue.
    Queue(u64),
    /// Another largest datagram.
    DatagramBytesMax(usize),
    /// As it was at the start.
    Restore,
}

/// Something that happens to the network or a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A wire changes.
    Wire(usize, usize, Side, Change),
    /// A switch stops to pass anything, or passes again.
    Switch(usize, bool),
    /// A switch passes nothing from the one host to the other, or passes again.
    Cut(usize, (usize, usize), bool),
    /// A link of a host loses its carrier or has it again; the kernel says so.
    Carrier(usize, usize, bool),
    /// A link of a host is taken away, or comes (again); its node is told.
    Link(usize, usize, bool),
    /// A link of a host gets another address; the other hosts are told, or must find out.
    Address(usize, usize, bool),
    /// A host's process ends at once.
    Crash(usize),
    /// It is started anew.
    Start(usize),
    /// A host's process is stopped.
    Pause(usize),
    /// It goes on.
    Resume(usize),
    /// A host's process gets little of its processor, or all it wants again.
    Short(usize, Option<Shortage>),
    /// A host's clock runs at another rate, in parts per million.
    ClockRate(usize, i64),
    /// A host's operator takes the change of keys to this step.
    Keys(usize, usize),
    /// Somebody runs in a host's place who has all that the cluster shares, and not the host's
    /// private key; another one, if true.
    Impostor(usize, bool),
    /// A host has a key that no other has, or the right ones again.
    WrongKey(usize, bool),
    /// A host's operator puts another host into its cluster file, or takes it out.
    Peer(usize, usize, bool),
    /// A link of a host is taken out of everybody's cluster file, or put back.
    Unlisted(usize, usize, bool),
}

/// A host as the schedule has it.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// What its clock shows at the start.
    pub clock_ns: Ns,
    /// What its clock gains a second, in microseconds.
    pub clock_ppm: i64,
    /// When it is started.
    pub start: Ns,
    /// How it behaves.
    pub traits: HostTraits,
    /// Its wires at the start: for each link, up and down.
    pub wires: Vec<(Conditions, Conditions)>,
    /// The largest datagram its interfaces take.
    pub datagram_bytes_max: Vec<u16>,
}

/// A run before it begins.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Where it comes from.
    pub seed: u64,
    /// How many links there are.
    pub links: usize,
    /// The hosts.
    pub hosts: Vec<HostPlan>,
    /// What decides how much the nodes have in flight.
    pub congestion: CongestionControl,
    /// Bundles over links that a node may have, if not one with each host.
    pub bundles_max: Option<u16>,
    /// Whether packets are encrypted.
    pub encrypted: bool,
    /// Which hosts have public keys in the cluster file.
    pub identities: Vec<bool>,
    /// What nodes may hold.
    pub op_limits: OpLimits,
    /// What happens, and when.
    pub faults: Vec<(Ns, Fault)>,
    /// The attacker strikes on average so often.
    pub attack_every_ns: Option<Ns>,
    /// What the applications do.
    pub plan: Plan,
    /// A host that ends in order when all is done, to be seen by the others.
    pub closes: Option<usize>,
}

/// How large a schedule is drawn.
#[derive(Clone, Copy, Default, Debug)]
pub struct Size {
    /// So many hosts, each of which has a bundle with every other; if not said, a few.
    pub hosts: Option<usize>,
    /// So many streams beside what is drawn anyway.
    pub streams: usize,
}

/// As options of `sim`, each behind a space.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(hosts) = self.hosts {
            write!(f, " --hosts {hosts}")?;
        }
        if self.streams > 0 {
            write!(f, " --streams {}", self.streams)?;
        }
        Ok(())
    }
}

impl Schedule {
    /// The schedule of `seed`.
    pub fn draw(seed: u64) -> Schedule {
        Schedule::draw_sized(seed, Size::default())
    }

    /// The same of another size.
    pub fn draw_sized(seed: u64, size: Size) -> Schedule {
        draw::draw(seed, size)
    }

    /// A small, good LAN on which nothing goes wrong and nothing is to do, to be
    /// changed as wanted.
    pub fn quiet(hosts: usize, links: usize) -> Schedule {
        let wire = Conditions::clean(1_000_000_000, 25 * US, 256 * 1024);
        let host = HostPlan {
            clock_ns: 1_000 * SECOND,
            clock_ppm: 0,
            start: 0,
            traits: HostTraits {
                wake_ns: 5 * US,
                timer_slack_ns: 50 * US,
                socket_bytes: 8 << 20,
                batch: 64,
                blocks_at_bytes: None,
            },
            wires: vec![(wire, wire); links],
            datagram_bytes_max: vec![1472; links],
        };
        Schedule {
            seed: 1,
            links,
            hosts: vec![host; hosts],
            congestion: CongestionControl::default(),
            bundles_max: None,
            encrypted: false,
            identities: vec![false; hosts],
            op_limits: OpLimits::default(),
            faults: Vec::new(),
            attack_every_ns: None,
            plan: Plan::default(),
            closes: None,
        }
    }

    /// When the last fault has happened.
    pub fn faults_end(&self) -> Ns {
        let starts = self.hosts.iter().map(|h| h.start);
        let faults = self.faults.iter().map(|(at, _)| *at);
        starts.chain(faults).max().unwrap_or(0)
    }
}

/// The address of a host on a link, where no other host ever is; with each change of address `epoch` goes
/// up.
pub fn address(host: usize, link: usize, epoch: usize) -> SocketAddr {
    SocketAddr::from(([10, 77 + epoch as u8, link as u8, host as u8 + 1], 7577))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_host_that_moves_takes_nobody_elses_address() {
        let all = (0..64).flat_map(|host| (0..4).map(move |link| (host, link)));
        let all = all.flat_map(|(host, link)| (0..8).map(move |epoch| address(host, link, epoch)));
        assert_eq!(all.clone().collect::<BTreeSet<_>>().len(), all.count());
    }
}
