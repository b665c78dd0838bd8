//! The speed of a network: it gives a switch's share of a probe's round trip, and how often probes may be sent.

use core::time::Duration;
use std::net::IpAddr;

use tabane_proto::LinkId;
use tabane_proto::topology::Config;
use tabane_proto::wire::{Measure, PAUSE_US, TRAIN_MAX};

/// Probes that the least round trip of a pair is taken of.
const PROBES: u8 = 8;
/// Around a datagram: headers of IPv4 and UDP, Ethernet's header, checksum, preamble and gap.
const AROUND_BYTES: u64 = 66;
/// A train's duration on a link that it fills, in microseconds; next, its least number of packets.
const TRAIN_US: u64 = 8_000;
const TRAIN_MIN: u8 = 16;
/// A survey takes one part in this many of a link.
const SHARE: u64 = 100;
/// Taken for the rate of a device that does not know its own.
const MBPS_UNKNOWN: u32 = 1000;
/// If the second of two packets sent back to back comes this much later, the network is slower than any device in a cluster
/// claims to be: then it is virtual, or a device lies, and the measured speed counts. (A shorter interval only shows how fast
/// hosts are.)
const SLOW: Duration = Duration::from_micros(40);
/// The measurement may be wrong by one part in this many.
const PRECISION: u64 = 8;

/// A rate, and whether it was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    mbps: u32,
    is_measured: bool,
}

/// A probe's bits on the wire.
pub fn bits_on_wire(datagram_bytes: u16) -> u64 {
    (u64::from(datagram_bytes) + AROUND_BYTES) * 8
}

impl Pace {
    /// As the device with this address says.
    pub fn of_device(address: IpAddr) -> Pace {
        let own = crate::here::own_addresses().unwrap_or_default();
        let device = own.into_iter().find(|a| a.address == address);
        let speed = device.and_then(|device| {
            let file = format!("/sys/class/net/{}/speed", device.interface);
            std::fs::read_to_string(file).ok()
        });
        let mbps = speed.and_then(|text| text.trim().parse().ok());
        Pace {
            mbps: mbps.filter(|mbps| *mbps > 0).unwrap_or(MBPS_UNKNOWN),
            is_measured: false,
        }
    }

    /// The corrected speed, if the second of two probes of this size that were sent at once came `behind` the first.
    pub fn corrected(self, datagram_bytes: u16, behind: Option<Duration>) -> Pace {
        let Some(behind) = behind.filter(|behind| *behind >= SLOW) else {
            return self;
        };
        let bits = bits_on_wire(datagram_bytes);
        let mbps = bits * 1_000 / (behind.as_nanos() as u64).max(1);
        Pace {
            mbps: (mbps.max(1) as u32).min(self.mbps),
            is_measured: true,
        }
    }

    /// How a path is measured without disturbing the link and its trunks.
    pub fn measure(self, link: LinkId, datagram_bytes: u16) -> Measure {
        let bits = bits_on_wire(datagram_bytes);
        let pause_us = bits * SHARE / u64::from(self.mbps);
        Measure {
            link,
            probes: PROBES,
            datagram_bytes,
            pause_us: (pause_us as u32).clamp(*PAUSE_US.start(), *PAUSE_US.end()),
        }
    }

    /// How a train is sent: long enough that two that begin at about the same time overlap.
    pub fn train(self, link: LinkId, datagram_bytes: u16) -> Measure {
        let bits = bits_on_wire(datagram_bytes);
        let probes = u64::from(self.mbps) * TRAIN_US / bits;
        Measure {
            link,
            probes: probes.clamp(TRAIN_MIN.into(), TRAIN_MAX.into()) as u8,
            datagram_bytes,
            pause_us: 0,
        }
    }

    /// The settings of the inference.
    pub fn config(self, datagram_bytes: u16) -> Config {
        let config = Config::for_rate(self.mbps);
        // It takes probes of plain Ethernet's size.
        let scaled = |ns: u64| ns * (u64::from(datagram_bytes) + 160) / (1_472 + 160);
        let (least, most) = (scaled(config.hop_ns.0), scaled(config.hop_ns.1));
        let wrong_ns = if self.is_measured {
            least / PRECISION
        } else {
            0
        };
        Config {
            samples: u32::from(PROBES),
            hop_ns: (least - wrong_ns, most + wrong_ns),
            ..config
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u16 = 1472;

    fn device(mbps: u32) -> Pace {
        Pace {
            mbps,
            is_measured: false,
        }
    }

    #[test]
    fn what_a_device_says_counts_unless_the_network_is_clearly_slow() {
        let us = Duration::from_micros;
        for behind in [None, Some(Duration::ZERO), Some(us(12)), Some(us(39))] {
            assert_eq!(device(10_000).corrected(BYTES, behind), device(10_000));
        }
        let found = device(10_000).corrected(BYTES, Some(us(123)));
        assert_eq!((found.mbps, found.is_measured), (100, true));
        // A pause of a process makes nothing faster than its device.
        assert_eq!(device(10).corrected(BYTES, Some(us(123))).mbps, 10);
    }

    #[test]
    fn a_survey_takes_a_hundredth_of_a_link_and_no_step_of_a_usual_one_could_be_two() {
        for mbps in [10, 100, 1_000, 2_500, 10_000, 100_000] {
            let how = device(mbps).measure(LinkId(0), BYTES);
            let bits_per_s = 1_538 * 8 * 1_000_000 / u64::from(how.pause_us);
            assert!(how.is_sound(), "{how:?}");
            assert!(bits_per_s <= u64::from(mbps) * 1_000_000 / 98, "{how:?}");
            // The measured speed is slow.
            for is_measured in [false, mbps <= 100] {
                let pace = Pace { mbps, is_measured };
                let (least, most) = pace.config(BYTES).hop_ns;
                assert!(0 < least && least < most, "{pace:?}");
                // A faster switch's own delay exceeds that of the wire.
                assert_eq!(most < 2 * least, mbps <= 1_000, "{pace:?}");
            }
        }
    }
}
