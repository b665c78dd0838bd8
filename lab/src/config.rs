//! What a lab looks like, and the words for it on the command line.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{LabError, OutsideSpec};

/// Most links a lab has: path ids on tabane's wire are 0 to 7.
pub const LINKS_MAX: usize = 8;
/// Most nodes a lab has: node `k` is host `k + 1` of a /24.
pub const NODES_MAX: usize = 200;
const NAME_MAX_BYTES: usize = 40;
const MTU_MIN: u32 = 576;
const MTU_MAX: u32 = 65_521;
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(10);
/// Below this a single packet takes longer than the queue of `tc tbf` holds it.
const RATE_MIN_BITS_PER_S: u64 = 64_000;
const RATE_MAX_BITS_PER_S: u64 = 400_000_000_000;
pub(crate) const RATE_BITS_PER_S: std::ops::RangeInclusive<u64> =
    RATE_MIN_BITS_PER_S..=RATE_MAX_BITS_PER_S;

/// A virtual cluster to be built. The default is the line of the project's
/// measurements: two nodes, two links of 1 Gb/s, MTU 1500.
#[derive(Debug, Clone, PartialEq)]
pub struct LabConfig {
    /// Name in `lab list`; `None` takes one no other lab has.
    pub name: Option<String>,
    /// How many nodes, 1 to [`NODES_MAX`].
    pub nodes: usize,
    /// The links, each with a switch of its own; 1 to [`LINKS_MAX`].
    pub links: Vec<LinkSpec>,
    /// MTU of every NIC and switch, bytes, 576 to 65521.
    pub mtu: u32,
    /// Nothing: each link has one switch. Else each has a tree of store-and-forward switches: so many nodes on each
    /// leaf, and, if there are several leaves, a root above them without nodes. Such links have a rate, no delay and
    /// no loss, and do not fail.
    pub tree: Vec<usize>,
    /// A network beside the links, to which the first two nodes lead and on which clients are.
    pub outside: Option<OutsideSpec>,
}

impl Default for LabConfig {
    fn default() -> Self {
        LabConfig {
            name: None,
            nodes: 2,
            links: vec![LinkSpec::default(); 2],
            mtu: 1500,
            tree: Vec::new(),
            outside: None,
        }
    }
}

/// One link: a switch and the cables from it to every node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// Line rate of every cable, each way, bits per second; `None` is unshaped
    /// (as fast as the CPU).
    pub rate_bits_per_s: Option<u64>,
    /// Added to every frame on its way from one node to another, once.
    pub delay: Duration,
    /// Share of frames that vanish in the switch, 0 to 100.
    pub loss_percent: f64,
}

impl Default for LinkSpec {
    fn default() -> Self {
        LinkSpec {
            rate_bits_per_s: Some(1_000_000_000),
            delay: Duration::ZERO,
            loss_percent: 0.0,
        }
    }
}

impl LinkSpec {
    /// A link without a line rate: as fast as the CPU.
    pub fn unshaped() -> Self {
        LinkSpec {
            rate_bits_per_s: None,
            ..LinkSpec::default()
        }
    }

    /// A link of this many megabits per second each way.
    pub fn mbit(mbit_per_s: u64) -> Self {
        LinkSpec {
            rate_bits_per_s: Some(mbit_per_s.saturating_mul(1_000_000)),
            ..LinkSpec::default()
        }
    }
}

impl LabConfig {
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let bad = |message: String| Err(LabError::BadInput(message));
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        if !(1..=NODES_MAX).contains(&self.nodes) {
            return bad(format!("{} nodes: must be 1 to {NODES_MAX}", self.nodes));
        }
        if !(1..=LINKS_MAX).contains(&self.links.len()) {
            return bad(format!(
                "{} links: must be 1 to {LINKS_MAX}",
                self.links.len()
            ));
        }
        if !(MTU_MIN..=MTU_MAX).contains(&self.mtu) {
            return bad(format!(
                "mtu {}: must be {MTU_MIN} to {MTU_MAX} bytes",
                self.mtu
            ));
        }
        if !self.tree.is_empty() && self.tree.iter().sum::<usize>() != self.nodes {
            return bad(format!(
                "a tree of {} nodes: must be of all {}",
                self.tree.iter().sum::<usize>(),
                self.nodes
            ));
        }
        let is_plain = |link: &LinkSpec| {
            link.rate_bits_per_s.is_some() && link.delay.is_zero() && link.loss_percent == 0.0
        };
        if !self.tree.is_empty() && !self.links.iter().all(is_plain) {
            return bad("the links of a tree have a rate, no delay and no loss".into());
        }
        if let Some(outside) = &self.outside {
            let checked = outside.check();
            checked.map_err(|why| LabError::BadInput(format!("outside: {why}")))?;
        }
        for (index, link) in self.links.iter().enumerate() {
            if let Some(rate) = link.rate_bits_per_s
                && !RATE_BITS_PER_S.contains(&rate)
            {
                return bad(format!(
                    "link {index}: rate {rate} bit/s: must be 64kbit to 400gbit, or none"
                ));
            }
            if link.delay > DELAY_MAX {
                return bad(format!(
                    "link {index}: delay {:?}: must be at most {DELAY_MAX:?}",
                    link.delay
                ));
            }
            if !(0.0..=100.0).contains(&link.loss_percent) {
                return bad(format!(
                    "link {index}: loss {}%: must be 0% to 100%",
                    link.loss_percent
                ));
            }
        }
        Ok(())
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), LabError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty()
        || name.len() > NAME_MAX_BYTES
        || name.starts_with('.')
        || !name.chars().all(allowed)
    {
        return Err(LabError::BadInput(format!(
            "lab name {name:?}: must be 1 to {NAME_MAX_BYTES} letters, digits, '-', '_', '.', not beginning with '.'"
        )));
    }
    Ok(())
}

pub(crate) fn address(node: usize, link: usize) -> IpAddr {
    // Callers keep within NODES_MAX and LINKS_MAX; beyond them the address
    // saturates rather than naming another node's.
    let octet = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
    IpAddr::V4(Ipv4Addr::new(
        10,
        77,
        octet(link),
        octet(node.saturating_add(1)),
    ))
}

/// `1gbit`, `250mbit`, `64kbit`, `1000000` or `1000000bit` (bits per second), `none`.
pub(crate) fn parse_rate(text: &str) -> Result<Option<u64>, String> {
    let wrong =
        || format!("rate {text:?}: give it as 1gbit, 250mbit, 64kbit, or none for unshaped");
    if text == "none" {
        return Ok(None);
    }
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let factor = match unit {
        "gbit" => 1e9,
        "mbit" => 1e6,
        "kbit" => 1e3,
        "bit" | "" => 1.0,
        _ => return Err(wrong()),
    };
    Ok(Some((number * factor).round() as u64))
}

/// `8,8,8`: nodes on each leaf of a tree, at least one.
pub(crate) fn parse_leaf(text: &str) -> Result<usize, String> {
    let nodes = text.parse().ok().filter(|nodes| *nodes > 0);
    nodes.ok_or_else(|| {
        format!("tree {text:?}: give how many nodes are on each switch, as in 8,8,8,8")
    })
}

/// `0`, `200us`, `2ms`, `1.5s`.
pub(crate) fn parse_delay(text: &str) -> Result<Duration, String> {
    let wrong = || format!("delay {text:?}: give it as 0, 200us, 2ms or 1s");
    let (number, unit) = split_unit(text).ok_or_else(wrong)?;
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * factor).map_err(|_| wrong())
}

/// `0`, `1%`, `0.5%`; without the sign it is a percentage all the same.
pub(crate) fn parse_loss(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    match split_unit(number) {
        Some((percent, "")) if percent <= 100.0 => Ok(percent),
        _ => Err(format!(
            "loss {text:?}: give it as 0, 1% or 0.5%, at most 100%"
        )),
    }
}

/// A non-negative number and what follows it.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number = text[..end].parse::<f64>().ok()?;
    Some((number, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_rates_delays_and_losses() {
        assert_eq!(parse_rate("1gbit"), Ok(Some(1_000_000_000)));
        assert_eq!(parse_rate("2.5gbit"), Ok(Some(2_500_000_000)));
        assert_eq!(parse_rate("none"), Ok(None));
        assert_eq!(parse_delay("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(parse_delay("0"), Ok(Duration::ZERO));
        assert_eq!(parse_loss("0.5%"), Ok(0.5));
        assert_eq!(parse_loss("0"), Ok(0.0));
        for wrong in ["", "fast", "1tbit", "-1gbit", "1.2.3gbit", "1gbitx"] {
            assert!(parse_rate(wrong).unwrap_err().contains("1gbit"), "{wrong}");
        }
        for wrong in ["5", "2m", "-1ms", "ms"] {
            assert!(parse_delay(wrong).is_err(), "{wrong}");
        }
        for wrong in ["101%", "x", "1%%", "-1"] {
            assert!(parse_loss(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_config_outside_its_limits_is_refused_with_the_limit() {
        let ok = LabConfig::default();
        assert!(ok.check().is_ok());
        let wrong = |change: fn(&mut LabConfig), says: &str| {
            let mut config = ok.clone();
            change(&mut config);
            let message = config.check().unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        };
        wrong(|c| c.nodes = 0, "1 to 200");
        wrong(|c| c.links.clear(), "1 to 8");
        wrong(|c| c.mtu = 60, "576");
        wrong(|c| c.tree = vec![2, 2], "must be of all 2");
        wrong(
            |c| (c.tree, c.links[1].rate_bits_per_s) = (vec![1, 1], None),
            "have a rate",
        );
        wrong(
            |c| {
                c.outside = Some(OutsideSpec {
                    rate_bits_per_s: Some(0),
                    ..OutsideSpec::default()
                })
            },
            "outside: rate 0 bit/s",
        );
        wrong(|c| c.name = Some("a/b".into()), "letters");
        wrong(|c| c.name = Some("..".into()), "letters");
        wrong(|c| c.links[1].loss_percent = f64::NAN, "link 1");
        wrong(|c| c.links[0].rate_bits_per_s = Some(1), "64kbit");
        wrong(|c| c.links[0].delay = Duration::from_secs(11), "at most");
    }

    #[test]
    fn addresses_follow_the_plan() {
        assert_eq!(address(0, 1).to_string(), "10.77.1.1");
        assert_eq!(address(1, 0).to_string(), "10.77.0.2");
    }
}
