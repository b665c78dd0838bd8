//! Whether a path passes packets as large as its interface sends.

use super::quality::share;
use super::words;
use crate::doctor::facts::{Device, Facts, PathFacts, PathWatch};
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::PathState;

/// By then a path knows which packets pass (`Mtu` of the protocol).
const KNOWN_AFTER_S: u64 = 3;
/// By then it has also searched once more, in case only the first search failed.
const SEARCHED_AFTER_S: u64 = 15;
/// Headers in front of a datagram: IP and UDP.
const HEADERS_IPV4: u32 = 28;
const HEADERS_IPV6: u32 = 48;
/// The MTU that every network passes.
const ETHERNET_MTU: u32 = 1500;
/// So many large pings without an answer are no chance.
const PINGS_MIN: u32 = 3;

/// Which packets pass, as far as known.
struct Passing<'a> {
    path: &'a PathFacts,
    nic: &'a str,
    mtu_bytes: u32,
    headers: u32,
    /// The largest packet that the daemon found to pass.
    passes: u32,
    /// The daemon found that less passes than the interface sends.
    short: bool,
    /// Small pings are answered, large ones are not.
    pings_say: bool,
}

pub fn judge(facts: &Facts, path: &PathFacts, watch: PathWatch<'_>) -> Option<Finding> {
    let device = facts.device(path.link)?;
    let headers = if path.remote.is_ipv4() {
        HEADERS_IPV4
    } else {
        HEADERS_IPV6
    };
    let hoped = device
        .mtu_bytes
        .saturating_sub(headers)
        .min(u32::from(u16::MAX));
    let (first, last) = (watch.first, watch.last);
    let known = first.state == PathState::Up && last.since_s >= KNOWN_AFTER_S;
    let small_pass = path.small.is_some_and(|p| p.answered * 2 > p.sent);
    let large_fail = path
        .large
        .is_some_and(|p| p.sent >= PINGS_MIN && p.answered == 0);
    let short = known && last.mtu_bytes < hoped && first.mtu_bytes < hoped;
    let large_pass = path.large.is_some_and(|p| p.answered > 0);
    let settled = last.since_s >= SEARCHED_AFTER_S && first.mtu_bytes == last.mtu_bytes;
    let passing = Passing {
        path,
        nic: &device.name,
        mtu_bytes: device.mtu_bytes,
        headers,
        passes: last.mtu_bytes + headers,
        short,
        pings_say: small_pass && large_fail,
    };
    if large_pass {
        // At first the daemon is about to find it out.
        return (short && settled).then(|| passing.note(facts));
    }
    (passing.short || passing.pings_say).then(|| passing.finding(facts))
}

/// A NIC that is set to less than any Ethernet passes, and than another link's.
pub fn small_nic(facts: &Facts, link: u8, device: &Device) -> Option<Finding> {
    let own = device.mtu_bytes;
    let others = facts.links.iter().filter(|l| l.number != link);
    let sizes = others.filter_map(|l| Some((l.number, l.device.as_ref()?.mtu_bytes)));
    let (other, best) = sizes.max_by_key(|(_, mtu)| *mtu)?;
    if own >= ETHERNET_MTU || own >= best {
        return None;
    }
    let nic = &device.name;
    let less = 1.0 - f64::from(own) / f64::from(best);
    Some(
        Finding::new(
            Cause::Mtu,
            Severity::Note,
            format!("Link {link}: {nic} is set to {own} bytes, the NIC of link {other} to {best}"),
        )
        .link(link)
        .seen(format!("`ip link show {nic}` says mtu {own}"))
        .costs(
            less.min(0.1) * share(facts),
            "packets are smaller than they could be; larger ones that peers send may be dropped here",
        )
        .mend(format!(
            "`ip link set {nic} mtu {}`, if that is what the network passes",
            best.min(ETHERNET_MTU)
        ))
        .mend("if the network passes no more, all is well where every node's NIC is set so"),
    )
}

impl Passing<'_> {
    /// Either large packets of UDP are dropped and pings are not, or they pass again by now.
    fn note(&self, facts: &Facts) -> Finding {
        let (peer, link, nic) = (&self.path.peer, self.path.link, self.nic);
        let (mtu, passes) = (self.mtu_bytes, self.passes);
        let less = 1.0 - f64::from(passes.min(mtu)) / f64::from(mtu.max(1));
        let large = self.path.large.unwrap_or_default();
        Finding::new(
            Cause::Mtu,
            Severity::Note,
            format!(
                "Link {link} to {peer} passes pings of {mtu} bytes, but packets of UDP above {passes} \
                 bytes were lost"
            ),
        )
        .peer(peer)
        .link(link)
        .seen(format!(
            "{} of {} pings of {mtu} bytes were answered; packets of {passes} bytes are the largest \
             that the daemon found to pass, the MTU of {nic} is {mtu}",
            large.answered, large.sent
        ))
        .costs(
            less.min(0.1) * share(facts),
            format!(
                "packets are {} smaller than they could be: more of them, more processor time",
                words::percent(less)
            ),
        )
        .mend(format!(
            "a firewall here, on {peer} or on the way that drops large or fragmented packets of UDP: \
             `nft list ruleset`"
        ))
        .mend(
            "if the MTU on the way was mended lately, all is well: the daemon tries large packets again \
             every ten minutes, and when it starts",
        )
    }

    fn finding(&self, facts: &Facts) -> Finding {
        let (peer, link, nic, mtu) = (&self.path.peer, self.path.link, self.nic, self.mtu_bytes);
        let less = 1.0 - f64::from(self.passes.min(mtu)) / f64::from(mtu.max(1));
        let what = match mtu > ETHERNET_MTU {
            true => format!(
                "Link {link} to {peer}: {nic} is set to {mtu} bytes, but such packets do not pass"
            ),
            false => format!("Link {link} to {peer} does not pass packets of {mtu} bytes"),
        };
        let cost = match self.short {
            true => format!(
                "packets are {} smaller than they could be: more of them for the same bytes, \
                 more processor time",
                words::percent(less)
            ),
            false => "large packets will be lost until the daemon notices".to_owned(),
        };
        let found_out = self.short.then(|| {
            format!(
                "packets of {} bytes pass, the MTU of {nic} is {mtu}",
                self.passes
            )
        });
        let mut finding = Finding::new(Cause::Mtu, Severity::Slow, what)
            .peer(peer)
            .link(link)
            .maybe_seen(found_out)
            .maybe_seen(self.pings())
            .costs(less.min(0.1) * share(facts), cost);
        finding.mend = self.mend();
        finding
    }

    fn pings(&self) -> Option<String> {
        let (small, large) = (self.path.small?, self.path.large?);
        self.pings_say.then(|| {
            format!(
                "0 of {} pings of {} bytes were answered, {} of {} small ones",
                large.sent, self.mtu_bytes, small.answered, small.sent
            )
        })
    }

    fn mend(&self) -> Vec<String> {
        let (peer, nic, mtu) = (&self.path.peer, self.nic, self.mtu_bytes);
        if mtu > ETHERNET_MTU {
            return vec![
                format!(
                    "jumbo frames need the same MTU everywhere: `ip link set NIC mtu {mtu}` on \
                     {peer}, and at the switch"
                ),
                format!(
                    "or do without, here: `ip link set {nic} mtu {}`",
                    self.passes.clamp(ETHERNET_MTU, mtu)
                ),
            ];
        }
        vec![
            format!(
                "`ip link` on {peer}: is the MTU of its NIC {mtu}? A tunnel, VLAN or switch on \
                 the way that takes less?"
            ),
            match self.short {
                true => format!(
                    "if that is how the network is: `ip link set {nic} mtu {}`",
                    self.passes
                ),
                false => format!(
                    "`ping -M do -s SIZE {}` finds what passes (SIZE and {} bytes of headers)",
                    self.path.remote.ip(),
                    self.headers
                ),
            },
        ]
    }
}
