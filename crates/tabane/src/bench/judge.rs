//! What sets the pace of one way, in a sentence. Pure.

use super::report::{Cause, Limit, Processor, WayResult};

/// A loop that is busy for this share of the time has no more.
const BUSY_PERCENT: f64 = 85.0;
/// … and one that waits for a processor for this share is late for its packets.
const WAITED_PERCENT: f64 = 15.0;
/// Links that carry this share of what each carries alone are full.
const FULL: f64 = 0.85;
/// Share of packets lost on a link above which loss is told of.
const LOSS_PERCENT: f64 = 1.0;
/// … and the same of what the receiver's kernel dropped.
const DROPPED_PERCENT: f64 = 0.1;

/// What is known of one link.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkSeen {
    /// Its number.
    pub link: u8,
    /// What it carries alone, in Mb/s.
    pub alone_mbps: Option<f64>,
    /// Share of its packets that were lost.
    pub loss_percent: Option<f64>,
}

/// Judges one way.
pub fn judge(way: &WayResult, links: &[LinkSeen]) -> Limit {
    // Who loses packets is slow alone, too; and links that are full are no processor's fault.
    receive_buffer(way)
        .or_else(|| loss(links))
        .or_else(|| links_full(way, links))
        .or_else(|| processor(way))
        .or_else(|| links_share(way, links))
        .unwrap_or_else(|| Limit {
            text: "nothing that was measured explains the rate; `tabane doctor` on both nodes may"
                .to_owned(),
            ..Limit::default()
        })
}

fn receive_buffer(way: &WayResult) -> Option<Limit> {
    let (dropped, sent) = (way.buffer_dropped_packets, way.sent_packets);
    let percent = dropped as f64 / sent.max(1) as f64 * 100.0;
    let node = &way.receiver.node;
    (percent > DROPPED_PERCENT).then(|| Limit {
        cause: Cause::ReceiveBuffer,
        node: Some(node.clone()),
        link: None,
        text: format!(
            "the receive buffer of {node}: its kernel dropped {dropped} of {sent} packets, because its daemon came too late \
             for them; see net.core.rmem_max and the processors there"
        ),
    })
}

fn processor(way: &WayResult) -> Option<Limit> {
    let used = |of: &Processor| of.busy_percent.unwrap_or(0.0) + of.waited_percent.unwrap_or(0.0);
    let ends = [&way.sender, &way.receiver];
    let most = ends
        .into_iter()
        .max_by(|a, b| used(a).total_cmp(&used(b)))?;
    if used(most) < BUSY_PERCENT {
        return None;
    }
    let (node, busy) = (&most.node, most.busy_percent.unwrap_or(0.0));
    let waited = most.waited_percent.unwrap_or(0.0);
    let (cause, text) = match waited > WAITED_PERCENT {
        true => (
            Cause::ProcessorShared,
            format!(
                "the processors of {node}, which other programs use too: its daemon ran {busy:.0}% of the time and \
                 waited for one {waited:.0}%"
            ),
        ),
        false => (
            Cause::Processor,
            format!("the processor of {node}: its daemon used {busy:.0}% of one"),
        ),
    };
    Some(Limit {
        cause,
        node: Some(node.clone()),
        link: None,
        text,
    })
}

fn loss(links: &[LinkSeen]) -> Option<Limit> {
    let of = |seen: &LinkSeen| seen.loss_percent.unwrap_or(0.0);
    let worst = links.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let (link, percent) = (worst.link, of(worst));
    (percent > LOSS_PERCENT).then(|| Limit {
        cause: Cause::Loss,
        node: None,
        link: Some(link),
        text: format!("loss: link {link} lost {percent:.1}% of its packets, which were sent again"),
    })
}

/// What all links carry, each alone; `None` if that is not known of all, or there is only one.
fn alone_mbps(links: &[LinkSeen]) -> Option<f64> {
    let alone: Option<Vec<f64>> = links.iter().map(|seen| seen.alone_mbps).collect();
    let alone = alone.filter(|alone| alone.len() > 1)?;
    Some(alone.iter().sum())
}

fn links_full(way: &WayResult, links: &[LinkSeen]) -> Option<Limit> {
    let alone_mbps = alone_mbps(links)?;
    (way.mbps >= alone_mbps * FULL).then(|| Limit {
        cause: Cause::LinksFull,
        text: "the links, which are full: together they carry what each carries alone".to_owned(),
        ..Limit::default()
    })
}

fn links_share(way: &WayResult, links: &[LinkSeen]) -> Option<Limit> {
    let alone_mbps = alone_mbps(links)?;
    Some(Limit {
        cause: Cause::LinksShare,
        text: format!(
            "what the links have in common (a switch, a port, a processor), or by their difference: they carry {alone_mbps:.0} \
             Mb/s alone and {:.0} together",
            way.mbps
        ),
        ..Limit::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor(node: &str, busy: f64, waited: f64) -> Processor {
        Processor {
            node: node.to_owned(),
            busy_percent: Some(busy),
            waited_percent: Some(waited),
            ..Processor::default()
        }
    }

    fn way(mbps: f64) -> WayResult {
        WayResult {
            mbps,
            sent_packets: 10_000,
            sender: processor("n0", 40.0, 1.0),
            receiver: processor("n1", 50.0, 1.0),
            ..WayResult::default()
        }
    }

    fn links(alone_mbps: Option<f64>, loss_percent: f64) -> Vec<LinkSeen> {
        let seen = |link| LinkSeen {
            link,
            alone_mbps,
            loss_percent: Some(loss_percent * f64::from(link)),
        };
        vec![seen(0), seen(1)]
    }

    #[test]
    fn links_that_carry_together_what_they_carry_alone_are_full() {
        let limit = judge(&way(1850.0), &links(Some(940.0), 0.0));
        assert_eq!((limit.cause, limit.node), (Cause::LinksFull, None));
        let limit = judge(&way(1000.0), &links(Some(940.0), 0.0));
        assert_eq!(limit.cause, Cause::LinksShare);
        assert!(limit.text.contains("1880 Mb/s alone and 1000 together"));
    }

    #[test]
    fn a_busy_loop_is_named_with_its_node() {
        let mut busy = way(3000.0);
        busy.receiver = processor("n1", 97.0, 1.0);
        let limit = judge(&busy, &links(Some(1900.0), 0.0));
        assert_eq!(limit.cause, Cause::Processor);
        assert_eq!(
            limit.text,
            "the processor of n1: its daemon used 97% of one"
        );
        busy.sender = processor("n0", 60.0, 39.5);
        let limit = judge(&busy, &links(Some(1900.0), 0.0));
        assert_eq!(
            (limit.cause, limit.node.as_deref()),
            (Cause::ProcessorShared, Some("n0"))
        );
    }

    #[test]
    fn loss_and_a_full_buffer_are_told_of_first() {
        let limit = judge(&way(1850.0), &links(Some(940.0), 3.0));
        assert_eq!((limit.cause, limit.link), (Cause::Loss, Some(1)));
        let mut dropped = way(1850.0);
        dropped.buffer_dropped_packets = 200;
        let limit = judge(&dropped, &links(Some(940.0), 3.0));
        assert_eq!(
            (limit.cause, limit.node.as_deref()),
            (Cause::ReceiveBuffer, Some("n1"))
        );
    }

    #[test]
    fn what_is_not_known_is_not_judged() {
        for links in [links(None, 0.0), Vec::new()] {
            assert_eq!(judge(&way(500.0), &links).cause, Cause::Unknown);
        }
    }
}
