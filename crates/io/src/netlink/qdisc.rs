//! The queueing discipline of a device (tc(8)).

use std::collections::BTreeSet;
use std::io;

use super::message::{Message, Request, attributes, text, u32_at};
use super::socket::Socket;

// linux/pkt_sched.h
const TC_H_ROOT: u32 = u32::MAX;
// linux/rtnetlink.h
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
// linux/gen_stats.h
const TCA_STATS_QUEUE: u16 = 3;
/// Length of `struct tcmsg`, in front of the attributes.
const HEADER_BYTES: usize = 20;
/// Offset of the waiting bytes in `struct gnet_stats_queue`.
const BACKLOG_AT: usize = 4;
/// One for each queue of the device: the packets wait in those below it.
const MULTIPLE: &str = "mq";

/// The queueing discipline of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Its kind, as tc(8) calls it (`fq_codel`); for one with several queues also theirs (`mq fq_codel`). `noqueue`: there is
    /// none.
    pub kind: String,
    /// Bytes that wait there, of all senders.
    pub queued_bytes: u64,
}

/// That of the device with this number; `None` if there is no such device, or it is off and has none.
///
/// # Errors
/// Where the kernel refuses. Needs no privileges.
pub fn qdisc(device: u32) -> io::Result<Option<Qdisc>> {
    let mut socket = Socket::new()?;
    let root = Request::new(
        libc::RTM_GETQDISC,
        // Older kernels answer whom they echo to.
        libc::NLM_F_ACK | libc::NLM_F_ECHO,
        &header(device, TC_H_ROOT),
    );
    let is_root = |found: &Found| found.device == device && found.parent == TC_H_ROOT;
    let found = match socket.ask(root, |message| Found::read(message).filter(is_root)) {
        Ok(found) => found,
        Err(refused) => match refused.source.raw_os_error() {
            Some(libc::ENODEV | libc::ENOENT) => None,
            _ => return Err(refused.into()),
        },
    };
    let Some(mut found) = found else {
        return Ok(None);
    };
    if found.kind == MULTIPLE {
        // Of all devices: the kernel does not choose.
        let list = || Request::new(libc::RTM_GETQDISC, libc::NLM_F_DUMP, &header(device, 0));
        let all = socket.dump(list, Found::read)?;
        let below = all
            .into_iter()
            .filter(|it| it.device == device && it.parent != TC_H_ROOT);
        let kinds: BTreeSet<String> = below.map(|it| it.kind).collect();
        for kind in kinds {
            found.kind += " ";
            found.kind += &kind;
        }
    }
    Ok(Some(Qdisc {
        kind: found.kind,
        queued_bytes: found.queued_bytes,
    }))
}

/// `struct tcmsg`.
fn header(device: u32, parent: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[4..8].copy_from_slice(&device.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    header
}

struct Found {
    device: u32,
    parent: u32,
    kind: String,
    queued_bytes: u64,
}

impl Found {
    fn read(message: Message<'_>) -> Option<Found> {
        if message.kind != libc::RTM_NEWQDISC {
            return None;
        }
        let body = message.body;
        let mut found = Found {
            device: u32_at(body, 4)?,
            parent: u32_at(body, 12)?,
            kind: String::new(),
            queued_bytes: 0,
        };
        for (kind, value) in attributes(body.get(HEADER_BYTES..)?) {
            match kind {
                TCA_KIND => found.kind = text(value),
                TCA_STATS2 => {
                    let mut stats = attributes(value);
                    let queue = stats.find(|(kind, _)| *kind == TCA_STATS_QUEUE);
                    let backlog = queue.and_then(|(_, queue)| u32_at(queue, BACKLOG_AT));
                    found.queued_bytes = backlog.map_or(0, u64::from);
                }
                _ => {}
            }
        }
        (!found.kind.is_empty()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolated::isolated;

    #[test]
    fn every_device_has_one_and_what_is_no_device_has_none() {
        isolated(
            "netlink::qdisc::tests::every_device_has_one_and_what_is_no_device_has_none",
            || {
                let mut socket = Socket::new().unwrap();
                socket.add_veth("a", "b", None).unwrap();
                let a = socket.link("a").unwrap().unwrap();
                assert_eq!(qdisc(a.index).unwrap(), None, "it is off");
                let up = super::super::route::LinkSettings {
                    up: true,
                    ..Default::default()
                };
                socket.set_link(a.index, up).unwrap();
                let found = qdisc(a.index).unwrap().unwrap();
                assert_eq!((&*found.kind, found.queued_bytes), ("noqueue", 0));
                assert_eq!(qdisc(a.index + 1000).unwrap(), None);
            },
        );
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        let message = |kind, body| Message {
            kind,
            flags: 0,
            sequence: 0,
            body,
        };
        let header = header(7, TC_H_ROOT);
        let none = Found::read(message(libc::RTM_NEWQDISC, &header[..11]));
        assert!(none.is_none());
        assert!(Found::read(message(libc::RTM_NEWQDISC, &header)).is_none());
        let mut request = Request::new(libc::RTM_NEWQDISC, 0, &header);
        request.text(TCA_KIND, "fq").nested(TCA_STATS2, |stats| {
            let queue = [[0; 4], 1500_u32.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat();
            stats.attribute(TCA_STATS_QUEUE, &queue);
        });
        let bytes = request.finish(1);
        let found = Found::read(message(libc::RTM_NEWQDISC, &bytes[16..])).unwrap();
        assert_eq!((found.device, found.parent), (7, TC_H_ROOT));
        assert_eq!((&*found.kind, found.queued_bytes), ("fq", 1500));
        assert!(Found::read(message(libc::RTM_DELQDISC, &bytes[16..])).is_none());
    }
}
