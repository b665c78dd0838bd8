//! What happened between two looks at both ends' counters. Pure.

use super::report::{DatagramsResult, Processor, WayResult};
use super::words::{DATAGRAM_BYTES, Figures, LinkFigures};

/// Both ends' counters at one time.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// This end's.
    pub here: Figures,
    /// The peer's.
    pub there: Figures,
}

/// Two looks.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// The first.
    pub from: Look,
    /// The last.
    pub to: Look,
}

/// One end's counters, twice.
#[derive(Clone, Copy)]
struct End<'a> {
    from: &'a Figures,
    to: &'a Figures,
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the peer.
    Out,
    /// From the peer.
    Back,
}

/// What one link did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OfLink {
    /// Bytes of UDP that arrived, in Mb/s.
    pub wire_mbps: f64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Those that were lost.
    pub lost_packets: u64,
    /// Packets dropped for want of room in the receiver's socket.
    pub dropped_packets: u64,
}

impl OfLink {
    /// Share of the packets that were lost.
    pub fn loss_percent(&self) -> Option<f64> {
        let sent = self.sent_packets as f64;
        (self.sent_packets > 0).then(|| self.lost_packets as f64 / sent * 100.0)
    }
}

impl End<'_> {
    fn seconds(self) -> f64 {
        // Never zero: nothing is divided by it.
        self.grown(|of| of.now_us).max(1) as f64 / 1e6
    }

    fn grown(self, of: impl Fn(&Figures) -> u64) -> u64 {
        of(self.to).saturating_sub(of(self.from))
    }

    fn grown_of_link(self, link: u8, of: impl Fn(&LinkFigures) -> u64) -> u64 {
        let both = [self.to, self.from].map(|figures| figures.of_link(link).map(&of));
        match both {
            [Some(to), Some(from)] => to.saturating_sub(from),
            _ => 0,
        }
    }

    fn processor(self, node: &str, bytes: u64) -> Processor {
        let spent_s = |of: fn(&Figures) -> Option<u64>| {
            let spent = of(self.to)?.checked_sub(of(self.from)?)?;
            Some(spent as f64 / 1e6)
        };
        let percent = |spent_s: f64| spent_s / self.seconds() * 100.0;
        let cpu_s = spent_s(|of| of.cpu_us);
        let gb = bytes as f64 / 1e9;
        Processor {
            node: node.to_owned(),
            cpu_s_per_gb: cpu_s.filter(|_| bytes > 0).map(|cpu_s| cpu_s / gb),
            busy_percent: cpu_s.map(percent),
            waited_percent: spent_s(|of| of.waited_us).map(percent),
        }
    }
}

impl Sample {
    /// The end that sends, and the one that receives.
    fn ends(&self, way: Way) -> [End<'_>; 2] {
        let here = End {
            from: &self.from.here,
            to: &self.to.here,
        };
        let there = End {
            from: &self.from.there,
            to: &self.to.there,
        };
        match way {
            Way::Out => [here, there],
            Way::Back => [there, here],
        }
    }

    /// Whether others' traffic kept the sending end from using one link alone.
    pub fn was_in_the_way(&self, way: Way) -> bool {
        self.ends(way)[0].grown(|of| of.in_the_way) > 0
    }

    /// What the receiver read of streams, in Mb/s.
    pub fn mbps(&self, way: Way) -> f64 {
        let [_, receiver] = self.ends(way);
        receiver.grown(|of| of.taken_bytes) as f64 * 8e-6 / receiver.seconds()
    }

    /// What one link did.
    pub fn of_link(&self, way: Way, link: u8) -> OfLink {
        let [sender, receiver] = self.ends(way);
        let rx_bytes = receiver.grown_of_link(link, |of| of.rx_bytes);
        OfLink {
            wire_mbps: rx_bytes as f64 * 8e-6 / receiver.seconds(),
            sent_packets: sender.grown_of_link(link, |of| of.tx_packets),
            lost_packets: sender.grown_of_link(link, |of| of.tx_lost_packets),
            dropped_packets: receiver.grown_of_link(link, |of| of.rx_dropped),
        }
    }

    /// All of a way; `names` are this node's and the peer's. What limits it is judged elsewhere.
    pub fn way(&self, way: Way, names: &[String; 2]) -> WayResult {
        let [sender, receiver] = self.ends(way);
        let [me, peer] = names;
        let (from, to) = match way {
            Way::Out => (me, peer),
            Way::Back => (peer, me),
        };
        let bytes = receiver.grown(|of| of.taken_bytes);
        let links = self.to.here.links.iter();
        let links: Vec<OfLink> = links.map(|of| self.of_link(way, of.link)).collect();
        let sum = |of: fn(&OfLink) -> u64| links.iter().map(of).sum();
        WayResult {
            mbps: self.mbps(way),
            sent_packets: sum(|of| of.sent_packets),
            resent_packets: sum(|of| of.lost_packets),
            buffer_dropped_packets: sum(|of| of.dropped_packets),
            sender: sender.processor(from, bytes),
            receiver: receiver.processor(to, bytes),
            ..WayResult::default()
        }
    }

    /// The rate of datagrams; `all` are the looks before the first was sent and after the last has arrived.
    pub fn datagrams(&self, way: Way, all: &Sample) -> DatagramsResult {
        let [_, receiver] = self.ends(way);
        let per_s = receiver.grown(|of| of.datagrams_taken) as f64 / receiver.seconds();
        let [sender, receiver] = all.ends(way);
        let sent = sender.grown(|of| of.datagrams_sent);
        let lost = sent.saturating_sub(receiver.grown(|of| of.datagrams_taken));
        DatagramsResult {
            mbps: per_s * DATAGRAM_BYTES as f64 * 8e-6,
            per_s,
            sent,
            loss_percent: lost as f64 / sent.max(1) as f64 * 100.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One second at 100 Mb/s to the peer, whose clock is another one.
    fn second() -> Sample {
        let link = LinkFigures {
            link: 1,
            is_up: true,
            ..LinkFigures::default()
        };
        let figures = |now_us| Figures {
            now_us,
            cpu_us: Some(now_us / 2),
            waited_us: Some(0),
            links: vec![link.clone()],
            ..Figures::default()
        };
        let mut sample = Sample {
            from: Look {
                here: figures(1_000_000),
                there: figures(77_000_000),
            },
            to: Look {
                here: figures(2_000_000),
                there: figures(78_000_000),
            },
        };
        sample.to.there.taken_bytes = 12_500_000;
        sample.to.there.links[0].rx_bytes = 13_000_000;
        sample.to.here.links[0].tx_packets = 10_000;
        sample.to.here.links[0].tx_lost_packets = 100;
        sample
    }

    #[test]
    fn each_way_is_of_its_own_ends() {
        let names = ["n0".to_owned(), "n1".to_owned()];
        let sample = second();
        let out = sample.way(Way::Out, &names);
        assert_eq!(
            (out.mbps, out.sent_packets, out.resent_packets),
            (100.0, 10_000, 100)
        );
        assert_eq!(
            (out.sender.node.as_str(), out.sender.busy_percent),
            ("n0", Some(50.0))
        );
        assert_eq!(out.receiver.cpu_s_per_gb, Some(40.0));
        assert_eq!(sample.of_link(Way::Out, 1).wire_mbps, 104.0);
        assert_eq!(sample.of_link(Way::Out, 1).loss_percent(), Some(1.0));
        let back = sample.way(Way::Back, &names);
        assert_eq!((back.mbps, back.sent_packets), (0.0, 0));
        assert_eq!(
            (back.sender.node.as_str(), back.receiver.cpu_s_per_gb),
            ("n1", None)
        );
        assert_eq!(sample.of_link(Way::Back, 1).loss_percent(), None);
    }

    #[test]
    fn a_counter_that_went_back_or_a_link_that_went_counts_as_nothing() {
        let mut sample = second();
        sample.to.there.now_us = 0;
        sample.to.there.cpu_us = Some(0);
        sample.to.there.taken_bytes = 0;
        sample.to.here.links.clear();
        let out = sample.way(Way::Out, &["n0".to_owned(), "n1".to_owned()]);
        assert_eq!((out.mbps, out.sent_packets), (0.0, 0));
        assert_eq!(out.receiver.busy_percent, None);
    }

    #[test]
    fn datagrams_lost_are_those_that_never_came() {
        let mut sample = second();
        sample.to.here.datagrams_sent = 1200;
        sample.to.there.datagrams_taken = 1000;
        let mut all = sample.clone();
        all.to.there.datagrams_taken = 1140;
        let result = sample.datagrams(Way::Out, &all);
        assert_eq!((result.per_s, result.sent), (1000.0, 1200));
        assert!((result.loss_percent - 5.0).abs() < 1e-9);
    }
}
