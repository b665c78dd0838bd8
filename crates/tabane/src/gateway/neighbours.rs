//! Neighbours on the outside network: the gateway's own ARP (RFC 826) and neighbour discovery (RFC 4861), since its kernel is
//! silent. Pure: packets in, frames out.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use tabane_cluster::{Mac, Network};
use tabane_proto::Time;

use crate::vswitch::VNET_HDR_BYTES;
use crate::vswitch::frame::{Arp, Neighbour, NeighbourKind, Packet, bytes_at};

/// A neighbour's address is valid for this long (RFC 4861 section 10: REACHABLE_TIME); then it stays in use while it is asked for
/// anew.
const REACHABLE: Duration = Duration::from_secs(30);
/// Interval of these questions (RETRANS_TIMER); next, their number (MAX_UNICAST_SOLICIT).
const ASK_EVERY: Duration = Duration::from_secs(1);
const ASKED_MAX: u8 = 3;
/// The most neighbours that are known or asked for; beyond that the least recently used is forgotten.
const KNOWN_MAX: usize = 4096;
/// The most packets that wait for one neighbour: a gateway that begins to serve asks for all, and packets that are lost then are
/// retransmitted late.
const WAITING_MAX: usize = 256;
/// The most bytes that wait for all neighbours.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Options of neighbour discovery with an Ethernet address: source and target.
const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;

#[derive(Debug, Default)]
struct Entry {
    mac: Option<Mac>,
    /// When it was last heard.
    heard_at: Time,
    /// When it was last used.
    used_at: Time,
    /// When it was last asked for.
    asked_at: Option<Time>,
    asked: u8,
    /// It has not answered a full series of questions.
    is_silent: bool,
    waiting: Vec<Vec<u8>>,
}

/// The table of neighbours.
#[derive(Debug)]
pub struct Neighbours {
    own: Vec<(IpAddr, u8)>,
    routers: Vec<IpAddr>,
    mac: Mac,
    known: BTreeMap<IpAddr, Entry>,
    /// When to check neighbours that packets wait for; and the waiting bytes.
    due: Option<Time>,
    waiting_bytes: usize,
}

/// What to do with a packet for the outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hop {
    /// It goes to this one.
    Known(Mac),
    /// Its neighbour is being asked for.
    Asked(IpAddr),
    /// There is no route.
    Nowhere,
}

impl Neighbours {
    /// For a device with this Ethernet address, where the cluster has `own` (with prefix lengths) and `routers` lead to
    /// everything else.
    pub fn new(mac: Mac, own: &[(IpAddr, u8)], routers: &[IpAddr]) -> Neighbours {
        Neighbours {
            own: own.to_vec(),
            routers: routers.to_vec(),
            mac,
            known: BTreeMap::new(),
            due: None,
            waiting_bytes: 0,
        }
    }

    /// Whom a packet goes to on its way there.
    fn hop(&self, to: IpAddr) -> Option<IpAddr> {
        let is_near = |(own, prefix): &(IpAddr, u8)| Network::new(*own, *prefix).contains(to);
        let is_link_local = matches!(to, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if is_link_local || self.own.iter().any(is_near) {
            return Some(to);
        }
        let router = self
            .routers
            .iter()
            .find(|router| router.is_ipv4() == to.is_ipv4());
        router.copied()
    }

    /// Where a packet for `to` goes. Hands necessary questions to `send`.
    pub fn look_up(&mut self, now: Time, to: IpAddr, send: &mut impl FnMut(Vec<u8>)) -> Hop {
        let Some(hop) = self.hop(to) else {
            return Hop::Nowhere;
        };
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&hop) {
            self.forget_one();
        }
        let entry = self.known.entry(hop).or_default();
        entry.used_at = now;
        let is_fresh = entry.mac.is_some() && now.since(entry.heard_at) < REACHABLE;
        let is_due = entry
            .asked_at
            .is_none_or(|asked| now.since(asked) >= ASK_EVERY);
        let known = entry.mac;
        if !is_fresh && is_due {
            if entry.asked >= ASKED_MAX {
                // It does not answer any more.
                (entry.mac, entry.is_silent) = (None, true);
            }
            entry.asked = entry.asked.saturating_add(1);
            entry.asked_at = Some(now);
            if let Some(question) = self.question(hop) {
                send(question);
            }
        }
        match known {
            Some(mac) => Hop::Known(mac),
            None => Hop::Asked(hop),
        }
    }

    /// The ways to all else are these from now on.
    pub fn set_routers(&mut self, routers: &[IpAddr]) {
        self.routers = routers.to_vec();
    }

    /// Asks for routers that were not heard of lately, so that their state is known before anybody needs them.
    pub fn ask_routers(&mut self, now: Time, send: &mut impl FnMut(Vec<u8>)) {
        for router in self.routers.clone() {
            self.look_up(now, router, send);
        }
    }

    /// The routers, and whether each answers, if that is known.
    pub fn routers(&self) -> impl Iterator<Item = (IpAddr, Option<bool>)> {
        self.routers.iter().map(|router| {
            let answers = self.known.get(router).and_then(|entry| match entry.mac {
                Some(_) => Some(true),
                None => entry.is_silent.then_some(false),
            });
            (*router, answers)
        })
    }

    fn forget_one(&mut self) {
        let oldest = self.known.iter().min_by_key(|(_, entry)| entry.used_at);
        if let Some(gone) = oldest
            .map(|(ip, _)| *ip)
            .and_then(|ip| self.known.remove(&ip))
        {
            self.waiting_bytes -= gone.waiting.iter().map(Vec::len).sum::<usize>();
        }
    }

    /// Keeps a frame until its neighbour answers, whose address is then put into it; if there are too many, the oldest goes.
    pub fn keep(&mut self, hop: IpAddr, frame: Vec<u8>) {
        if let Some(entry) = self.known.get_mut(&hop) {
            if self.waiting_bytes + frame.len() > WAITING_BYTES_MAX {
                return;
            }
            if entry.waiting.len() == WAITING_MAX {
                self.waiting_bytes -= entry.waiting.remove(0).len();
            }
            self.waiting_bytes += frame.len();
            entry.waiting.push(frame);
            if let Some(asked_at) = entry.asked_at {
                let due = asked_at + ASK_EVERY;
                self.due = Some(self.due.map_or(due, |other| other.min(due)));
            }
        }
    }

    /// When to call [`Neighbours::handle_timeout`].
    pub const fn next_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Asks again (through `send`) for neighbours that packets wait for, or gives up. Returns the packets for those given up.
    pub fn handle_timeout(&mut self, now: Time, send: &mut impl FnMut(Vec<u8>)) -> Vec<Vec<u8>> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        let (mut given_up, mut asked) = (Vec::new(), Vec::new());
        self.due = None;
        for (hop, entry) in self
            .known
            .iter_mut()
            .filter(|(_, entry)| !entry.waiting.is_empty())
        {
            let since = entry.asked_at.unwrap_or(now);
            if now < since + ASK_EVERY {
                self.due = Some(
                    self.due
                        .map_or(since + ASK_EVERY, |due| due.min(since + ASK_EVERY)),
                );
            } else if entry.asked >= ASKED_MAX {
                self.waiting_bytes -= entry.waiting.iter().map(Vec::len).sum::<usize>();
                given_up.append(&mut entry.waiting);
                (entry.asked, entry.is_silent) = (0, true);
            } else {
                entry.asked += 1;
                entry.asked_at = Some(now);
                self.due = Some(
                    self.due
                        .map_or(now + ASK_EVERY, |due| due.min(now + ASK_EVERY)),
                );
                asked.push(*hop);
            }
        }
        asked
            .iter()
            .filter_map(|hop| self.question(*hop))
            .for_each(send);
        given_up
    }

    /// Something was heard of a neighbour. Returns the packets that waited for it.
    fn learn(&mut self, now: Time, ip: IpAddr, mac: Mac, is_wanted: bool) -> Vec<Vec<u8>> {
        if !is_wanted && !self.known.contains_key(&ip) || mac[0] & 1 == 1 {
            return Vec::new();
        }
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&ip) {
            self.forget_one();
        }
        let entry = self.known.entry(ip).or_default();
        entry.mac = Some(mac);
        entry.heard_at = now;
        entry.used_at = now;
        (entry.asked, entry.asked_at, entry.is_silent) = (0, None, false);
        let mut ready = core::mem::take(&mut entry.waiting);
        self.waiting_bytes -= ready.iter().map(Vec::len).sum::<usize>();
        for frame in &mut ready {
            if let Some(to) = frame.get_mut(VNET_HDR_BYTES..VNET_HDR_BYTES + mac.len()) {
                to.copy_from_slice(&mac);
            }
        }
        ready
    }

    /// The question who has an address.
    fn question(&self, hop: IpAddr) -> Option<Vec<u8>> {
        let own = self
            .own
            .iter()
            .find(|(own, _)| own.is_ipv4() == hop.is_ipv4());
        match (own?.0, hop) {
            (IpAddr::V4(own), IpAddr::V4(hop)) => Some(Arp::request_frame((self.mac, own), hop)),
            (IpAddr::V6(own), IpAddr::V6(hop)) => {
                Some(Neighbour::solicitation_frame(self.mac, Some(own), hop))
            }
            _ => None,
        }
    }

    /// Announces to the whole network that the addresses are here.
    pub fn announcements(&self) -> Vec<Vec<u8>> {
        let one = |(own, _): &(IpAddr, u8)| match *own {
            // RFC 5227 section 3: a request for itself.
            IpAddr::V4(own) => Arp::request_frame((self.mac, own), own),
            IpAddr::V6(own) => Neighbour::announcement_frame(own, self.mac),
        };
        self.own.iter().map(one).collect()
    }

    /// Asks whether another host has them (RFC 5227 section 2.1.1, RFC 4862 section 5.4.2).
    pub fn probes(&self) -> Vec<Vec<u8>> {
        let one = |(own, _): &(IpAddr, u8)| match *own {
            IpAddr::V4(own) => Arp::request_frame((self.mac, Ipv4Addr::UNSPECIFIED), own),
            IpAddr::V6(own) => Neighbour::solicitation_frame(self.mac, None, own),
        };
        self.own.iter().map(one).collect()
    }

    fn is_own(&self, ip: IpAddr) -> bool {
        self.own.iter().any(|(own, _)| *own == ip)
    }

    /// A packet of ARP came (behind its `virtio_net_hdr`).
    pub fn hear_arp(&mut self, now: Time, packet: &[u8]) -> Told {
        let Some(arp) = packet.get(VNET_HDR_BYTES..).and_then(Arp::parse) else {
            return Told::default();
        };
        if self.is_own(arp.sender.into()) {
            return self.claimed(arp.sender.into(), arp.sender_mac);
        }
        let is_question = arp.is_request && self.is_own(arp.target.into());
        Told {
            answer: is_question.then(|| arp.reply_frame(self.mac)),
            ready: match arp.sender.is_unspecified() {
                true => Vec::new(),
                false => self.learn(now, arp.sender.into(), arp.sender_mac, is_question),
            },
            taken_by: None,
        }
    }

    /// A packet of IPv6 came (behind its `virtio_net_hdr`); `None` if it is not of neighbour discovery.
    pub fn hear_neighbour(&mut self, now: Time, packet: &[u8]) -> Option<Told> {
        let packet = Packet::of_ip(packet.get(VNET_HDR_BYTES..)?)?;
        let neighbour = Neighbour::of(&packet)?;
        // It was forwarded by a router, so it comes from elsewhere (RFC 4861 section 7.1).
        if packet.hops != 255 {
            return None;
        }
        let options = packet.content.get(24..).unwrap_or_default();
        let target = IpAddr::from(neighbour.target);
        match neighbour.kind {
            NeighbourKind::Advertisement => Some(match option(options, OPTION_TARGET) {
                Some(mac) if self.is_own(target) => self.claimed(target, mac),
                Some(mac) => Told {
                    ready: self.learn(now, target, mac, false),
                    ..Told::default()
                },
                None => Told::default(),
            }),
            NeighbourKind::Solicitation if !self.is_own(target) => Some(Told::default()),
            NeighbourKind::Solicitation => {
                // A host that probes for the address does not have it yet, so this does not say where it is.
                let asker =
                    option(options, OPTION_SOURCE).filter(|_| !neighbour.source.is_unspecified());
                Some(Told {
                    answer: Some(match asker {
                        Some(asker) => neighbour.reply_frame(asker, self.mac),
                        None => Neighbour::announcement_frame(neighbour.target, self.mac),
                    }),
                    ready: asker.map_or_else(Vec::new, |asker| {
                        self.learn(now, neighbour.source.into(), asker, true)
                    }),
                    taken_by: None,
                })
            }
        }
    }

    /// A host claims one of the cluster's addresses at `mac`: perhaps this node itself, hearing its own packet.
    fn claimed(&self, address: IpAddr, mac: Mac) -> Told {
        Told {
            taken_by: (mac != self.mac).then_some((address, mac)),
            ..Told::default()
        }
    }
}

/// Result of a neighbour's packet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// A frame that answers it.
    pub answer: Option<Vec<u8>>,
    /// Packets that waited for it.
    pub ready: Vec<Vec<u8>>,
    /// Another host says that it has an address of the cluster's.
    pub taken_by: Option<(IpAddr, Mac)>,
}

/// The address of Ethernet that an option of neighbour discovery has.
fn option(mut options: &[u8], wanted: u8) -> Option<Mac> {
    while let [kind, units, ..] = options {
        if *units == 0 {
            return None;
        }
        if *kind == wanted {
            return bytes_at(options, 2);
        }
        options = options.get(usize::from(*units) * 8..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vswitch::frame::{ETHERNET_BYTES, ETHERTYPE_ARP, PROTOCOL_ICMPV6};

    const NOW: Time = Time::from_ms(100_000);
    const OWN: Mac = [2, 0, 0, 0, 0, 1];
    const OTHER: Mac = [2, 0, 0, 0, 0, 7];

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn neighbours(mac: Mac, v4: &str, v6: &str) -> Neighbours {
        let own = [(ip(v4), 24), (ip(v6), 64)];
        Neighbours::new(mac, &own, &[ip("203.0.113.254"), ip("2001:db8::fe")])
    }

    fn gateway() -> Neighbours {
        neighbours(OWN, "203.0.113.1", "2001:db8::1")
    }

    /// As the receiver has it: without Ethernet.
    fn received(frame: &[u8]) -> Vec<u8> {
        let behind = &frame[VNET_HDR_BYTES + ETHERNET_BYTES..];
        [&frame[..VNET_HDR_BYTES], behind].concat()
    }

    fn hear(neighbours: &mut Neighbours, frame: &[u8]) -> Told {
        let packet = received(frame);
        match frame[VNET_HDR_BYTES + 12..VNET_HDR_BYTES + 14] == ETHERTYPE_ARP.to_be_bytes() {
            true => neighbours.hear_arp(NOW, &packet),
            false => neighbours.hear_neighbour(NOW, &packet).unwrap(),
        }
    }

    fn asked(neighbours: &mut Neighbours, now: Time, to: IpAddr) -> (Hop, Vec<Vec<u8>>) {
        let mut questions = Vec::new();
        let hop = neighbours.look_up(now, to, &mut |question| questions.push(question));
        (hop, questions)
    }

    #[test]
    fn two_find_each_other_and_what_waited_goes() {
        for (own, far) in [
            ("203.0.113.1", "203.0.113.7"),
            ("2001:db8::1", "2001:db8::7"),
        ] {
            let mut gateway = gateway();
            let mut client = neighbours(OTHER, "203.0.113.7", "2001:db8::7");
            let far = ip(far);
            let (hop, questions) = asked(&mut gateway, NOW, far);
            assert_eq!((hop, questions.len()), (Hop::Asked(far), 1));
            gateway.keep(far, [&[0; VNET_HDR_BYTES + 6][..], &[1]].concat());
            gateway.keep(far, vec![2]);
            assert_eq!(asked(&mut gateway, NOW, far).1.len(), 0, "asked just now");
            let answer = hear(&mut client, &questions[0])
                .answer
                .expect("it is asked for");
            assert_eq!(answer[VNET_HDR_BYTES..][..6], OWN);
            let told = hear(&mut gateway, &answer);
            let addressed = [&[0; VNET_HDR_BYTES][..], &OTHER, &[1]].concat();
            assert_eq!((told.ready, told.answer), (vec![addressed, vec![2]], None));
            assert_eq!(
                asked(&mut gateway, NOW, far),
                (Hop::Known(OTHER), Vec::new())
            );
            // The asking host is now known, too.
            assert_eq!(
                asked(&mut client, NOW, ip(own)),
                (Hop::Known(OWN), Vec::new())
            );
        }
    }

    #[test]
    fn what_is_elsewhere_goes_by_the_router() {
        let mut gateway = gateway();
        for (to, router) in [
            ("198.51.100.7", "203.0.113.254"),
            ("2001:db8:9::7", "2001:db8::fe"),
        ] {
            assert_eq!(asked(&mut gateway, NOW, ip(to)).0, Hop::Asked(ip(router)));
        }
        let mut alone = Neighbours::new(OWN, &[(ip("203.0.113.1"), 24)], &[]);
        assert_eq!(asked(&mut alone, NOW, ip("198.51.100.7")).0, Hop::Nowhere);
        assert_eq!(asked(&mut alone, NOW, ip("2001:db8::7")).0, Hop::Nowhere);
    }

    #[test]
    fn whether_a_router_answers_is_known_before_it_is_needed() {
        let mut gateway = gateway();
        let told = |gateway: &Neighbours| gateway.routers().map(|(_, it)| it).collect::<Vec<_>>();
        let mut now = NOW;
        let mut questions = Vec::new();
        gateway.ask_routers(now, &mut |question| questions.push(question));
        assert_eq!((questions.len(), told(&gateway)), (2, vec![None, None]));
        let mut router = neighbours(OTHER, "203.0.113.254", "2001:db8::fe");
        let answer = hear(&mut router, &questions[0]).answer.expect("it is it");
        hear(&mut gateway, &answer);
        for _ in 0..=ASKED_MAX {
            now += ASK_EVERY;
            gateway.ask_routers(now, &mut |question| questions.push(question));
        }
        assert_eq!(told(&gateway), [Some(true), Some(false)]);
        // A host that is back is heard of.
        let answer = hear(&mut router, questions.last().expect("it is asked for"));
        hear(&mut gateway, &answer.answer.expect("it is it"));
        assert_eq!(told(&gateway), [Some(true), Some(true)]);
        gateway.set_routers(&[]);
        assert_eq!(told(&gateway), []);
    }

    /// As the file may say it of IPv6: the device outside is the only one that it can be on.
    #[test]
    fn a_router_may_have_an_address_of_the_link() {
        let own = [(ip("2001:db8::1"), 64)];
        let mut gateway = Neighbours::new(OWN, &own, &[ip("fe80::1")]);
        let mut router = neighbours(OTHER, "203.0.113.254", "fe80::1");
        let far = ip("2001:db8:9::7");
        let (hop, questions) = asked(&mut gateway, NOW, far);
        assert_eq!((hop, questions.len()), (Hop::Asked(ip("fe80::1")), 1));
        let answer = hear(&mut router, &questions[0]).answer.expect("it is it");
        hear(&mut gateway, &answer);
        assert_eq!(asked(&mut gateway, NOW, far).0, Hop::Known(OTHER));
    }

    #[test]
    fn what_was_heard_long_ago_is_asked_for_again_and_used_meanwhile() {
        let mut gateway = gateway();
        let mut client = neighbours(OTHER, "203.0.113.7", "2001:db8::7");
        let far = ip("203.0.113.7");
        let (_, questions) = asked(&mut gateway, NOW, far);
        let answer = hear(&mut client, &questions[0]).answer.unwrap();
        hear(&mut gateway, &answer);
        let mut now = NOW + REACHABLE;
        for _ in 0..ASKED_MAX {
            let (hop, questions) = asked(&mut gateway, now, far);
            assert_eq!((hop, questions.len()), (Hop::Known(OTHER), 1));
            now += ASK_EVERY;
        }
        asked(&mut gateway, now, far);
        assert_eq!(
            asked(&mut gateway, now, far).0,
            Hop::Asked(far),
            "it is gone"
        );
    }

    #[test]
    fn another_host_with_the_address_is_noticed() {
        let mut first = gateway();
        let mut second = neighbours(OTHER, "203.0.113.1", "2001:db8::1");
        for probe in first.probes() {
            let answer = hear(&mut second, &probe).answer.expect("it has it");
            let told = hear(&mut first, &answer);
            assert_eq!(told.taken_by.map(|(_, mac)| mac), Some(OTHER));
        }
        for announced in second.announcements() {
            let told = hear(&mut first, &announced);
            assert_eq!(told.taken_by.map(|(_, mac)| mac), Some(OTHER));
            assert_eq!(hear(&mut second, &announced).taken_by, None, "its own");
        }
    }

    #[test]
    fn so_many_are_known_and_so_much_waits() {
        let mut gateway = Neighbours::new(OWN, &[(ip("10.0.0.1"), 8)], &[]);
        let far = |n: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0100 + n));
        let waiting = |gateway: &Neighbours| {
            let all = gateway.known.values().flat_map(|entry| &entry.waiting);
            all.map(Vec::len).sum::<usize>()
        };
        for n in 0..2 * KNOWN_MAX as u32 {
            asked(&mut gateway, NOW + Duration::from_millis(n.into()), far(n));
            for _ in 0..2 * WAITING_MAX {
                gateway.keep(far(n), vec![0; 16]);
            }
            let count = gateway.known[&far(n)].waiting.len();
            assert!(count <= WAITING_MAX && (n > 0 || count == WAITING_MAX));
        }
        assert_eq!(gateway.known.len(), KNOWN_MAX);
        assert!(gateway.waiting_bytes <= WAITING_BYTES_MAX);
        assert_eq!(gateway.waiting_bytes, waiting(&gateway));
        // Packets for a silent host are dropped, and others have room again.
        for seconds in 100..110 {
            gateway.handle_timeout(NOW + Duration::from_secs(seconds), &mut |_| {});
        }
        assert_eq!((gateway.waiting_bytes, waiting(&gateway)), (0, 0));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut random = tabane_proto::Random::from_seed([9; 32]);
        let mut gateway = gateway();
        for _ in 0..100_000 {
            let mut packet = vec![0; random.below(120) as usize];
            random.fill(&mut packet);
            for (at, byte) in [(6, PROTOCOL_ICMPV6), (7, 255), (40, 135)] {
                if let Some(place) = packet.get_mut(VNET_HDR_BYTES + at) {
                    *place = byte;
                }
            }
            gateway.hear_neighbour(NOW, &packet);
            if packet.len() > VNET_HDR_BYTES + 6 {
                packet[VNET_HDR_BYTES..][..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
            }
            gateway.hear_arp(NOW, &packet);
        }
    }
}
