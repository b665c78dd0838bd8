//! What can break.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::config::{DELAY_MAX, RATE_BITS_PER_S, parse_delay, parse_loss, parse_rate};

/// A fault of a link, for all its nodes or for one. Several may be in force at
/// once; `heal` undoes all of a link's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Nothing passes the switch, in either direction, though every NIC still
    /// has carrier: a hung switch (paper 000's soft failure). For one node:
    /// nothing from or to it.
    Silent,
    /// The switch's ports go down, the NICs lose carrier: a switch without
    /// power. For one node: its cable pulled.
    Carrier,
    /// What the node sends vanishes, what it is sent arrives. The node is n0 if
    /// none is named.
    OneWay,
    /// Frames vanish at random in the switch, one by one (never in bursts).
    /// For one node: of those from or to it.
    Loss {
        /// Share of frames lost, 0 to 100.
        percent: f64,
    },
    /// Frames longer than this vanish on leaving the switch, and nobody is
    /// told: a black hole for path MTU discovery. For one node: of those to it.
    Mtu {
        /// Longest packet that passes, bytes without the Ethernet header, 68
        /// to 65521.
        bytes: u32,
    },
    /// The switch's ports send no faster than this. For one node: the port to it.
    Rate {
        /// Bits per second, 64 kbit/s to 400 Gbit/s.
        bits_per_s: u64,
    },
    /// The switch holds no more than this for a full port and drops the rest.
    /// For one node: for the port to it.
    Buffer {
        /// Bytes, one full frame at least.
        bytes: u32,
    },
    /// Frames take so much longer. Only on a link that was made with a delay,
    /// and by the process that made the lab.
    Delay {
        /// Added to the link's own delay, at most 10 s.
        added: Duration,
    },
}

/// Below this even IPv4's minimum does not pass.
const MTU_MIN: u32 = 68;
const MTU_MAX: u32 = 65_521;

impl Fault {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Fault::Loss { percent } if !(0.0..=100.0).contains(percent) => {
                Err(format!("loss {percent}%: must be 0% to 100%"))
            }
            Fault::Mtu { bytes } if !(MTU_MIN..=MTU_MAX).contains(bytes) => {
                Err(format!("mtu {bytes}: must be {MTU_MIN} to {MTU_MAX} bytes"))
            }
            Fault::Rate { bits_per_s } if !RATE_BITS_PER_S.contains(bits_per_s) => {
                Err(format!("rate {bits_per_s}: must be 64kbit to 400gbit"))
            }
            Fault::Delay { added } if *added > DELAY_MAX => {
                Err(format!("delay {added:?}: must be at most {DELAY_MAX:?}"))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mode, value) = text
            .split_once('=')
            .map_or((text, None), |(mode, value)| (mode, Some(value)));
        match (mode, value) {
            ("silent", None) => Ok(Fault::Silent),
            ("carrier", None) => Ok(Fault::Carrier),
            ("oneway", None) => Ok(Fault::OneWay),
            ("loss", Some(value)) => Ok(Fault::Loss {
                percent: parse_loss(value)?,
            }),
            ("mtu", Some(value)) => match value.parse().map(|bytes| Fault::Mtu { bytes }) {
                Ok(fault) => fault.check().map(|()| fault),
                _ => Err(format!(
                    "mtu {value:?}: give it in bytes, {MTU_MIN} to {MTU_MAX}, as in mtu=1400"
                )),
            },
            ("rate", Some(value)) => match parse_rate(value)? {
                Some(bits_per_s) => Ok(Fault::Rate { bits_per_s }),
                None => Err("rate none is no fault; give it as in rate=10mbit".into()),
            },
            ("buffer", Some(value)) => match value.parse() {
                Ok(bytes) => Ok(Fault::Buffer { bytes }),
                Err(_) => Err(format!(
                    "buffer {value:?}: give it in bytes, as in buffer=16000"
                )),
            },
            ("delay", Some(value)) => Ok(Fault::Delay {
                added: parse_delay(value)?,
            }),
            _ => Err(format!(
                "mode {text:?}: must be silent, carrier, oneway, loss=5%, mtu=1400, \
                 rate=10mbit, buffer=16000 or delay=5ms"
            )),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Silent => f.write_str("silent"),
            Fault::Carrier => f.write_str("carrier"),
            Fault::OneWay => f.write_str("oneway"),
            Fault::Loss { percent } => write!(f, "loss={percent}%"),
            Fault::Mtu { bytes } => write!(f, "mtu={bytes}"),
            Fault::Rate { bits_per_s } => write!(f, "rate={bits_per_s}bit"),
            Fault::Buffer { bytes } => write!(f, "buffer={bytes}"),
            Fault::Delay { added } => write!(f, "delay={}us", added.as_micros()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_read_and_written_alike() {
        for text in [
            "silent",
            "carrier",
            "oneway",
            "loss=5%",
            "loss=0.5%",
            "mtu=1400",
            "rate=2000000bit",
            "buffer=16000",
            "delay=5000us",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn wrong_modes_are_answered_with_right_ones() {
        for wrong in [
            "",
            "loud",
            "silent=1",
            "loss",
            "loss=200%",
            "mtu=10",
            "mtu=x",
            "rate=none",
            "buffer=x",
            "delay=soon",
        ] {
            let message = wrong.parse::<Fault>().unwrap_err();
            assert!(
                ["mode", "loss", "mtu", "rate", "buffer", "delay"]
                    .iter()
                    .any(|word| message.starts_with(word)),
                "{message}"
            );
        }
    }
}
