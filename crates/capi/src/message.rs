//! Messages and events.

use core::ffi::{c_char, c_int, c_void};

use tabane_library::{Event, ReceiveError, SendError};

use crate::abi::{
    self, TABANE_EVENTS_MISSED, TABANE_LINK_CHANGED, TABANE_LINK_DOWN, TABANE_LINK_UP,
    TABANE_MESSAGES_BROKEN, TABANE_PEER_DOWN, TABANE_PEER_UP, TABANE_REDUNDANCY_LOST,
    TABANE_REDUNDANCY_RESTORED, put,
};
use crate::failure::{nothing, number};
use crate::given::{bytes, place, policy, room, text, timeout, value};
use crate::node::Node;

/// `tabane_send`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_send(
    node: *const Node,
    peer: *const c_char,
    flow: u32,
    tag: *const u64,
    data: *const c_void,
    len: usize,
    policy_: c_int,
) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (node, peer) = unsafe { (value(node, "node")?, text(peer, "peer")?) };
        // SAFETY: likewise.
        let (tag, data) = unsafe { (tag.as_ref().copied(), bytes(data, len)?) };
        let policy = policy(policy_)?;
        Ok(node.node.send_with(peer, flow, tag, data, policy)?)
    })
}

/// `tabane_post`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_post(
    node: *const Node,
    peer: *const c_char,
    flow: u32,
    tag: *const u64,
    data: *const c_void,
    len: usize,
    policy_: c_int,
) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (node, peer) = unsafe { (value(node, "node")?, text(peer, "peer")?) };
        // SAFETY: likewise.
        let (tag, data) = unsafe { (tag.as_ref().copied(), bytes(data, len)?) };
        let policy = policy(policy_)?;
        let unknown = || SendError::UnknownPeer(peer.to_owned());
        let peer = node.node.peer(peer).ok_or_else(unknown)?;
        Ok(node.node.post(&peer, flow, tag, data, policy)?)
    })
}

/// `tabane_flush`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_flush(node: *const Node) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let node = unsafe { value(node, "node") }?;
        Ok(node.node.flush()?)
    })
}

/// `tabane_receive`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_receive(
    node: *const Node,
    timeout_ms: c_int,
    message: *mut abi::Message,
    buffer: *mut c_void,
    len: usize,
) -> c_int {
    number(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (node, place) = unsafe { (value(node, "node")?, place(message, "message")?) };
        // SAFETY: likewise.
        let room = unsafe { room(buffer, len) }?;
        let received = node.node.receive_up_to(room.len(), timeout(timeout_ms));
        if let Err(ReceiveError::TooLong { bytes }) = received {
            place.write(abi::Message {
                bytes,
                from: put(""),
                flow: 0,
                has_tag: 0,
                tag: 0,
            });
        }
        let Some(message) = received? else {
            return Ok(0);
        };
        room[..message.data.len()].copy_from_slice(&message.data);
        place.write(abi::Message {
            from: put(message.from.name()),
            flow: message.flow,
            has_tag: message.tag.is_some().into(),
            tag: message.tag.unwrap_or_default(),
            bytes: message.data.len(),
        });
        Ok(1)
    })
}

/// `tabane_next_event`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_next_event(
    node: *const Node,
    timeout_ms: c_int,
    event: *mut abi::Event,
) -> c_int {
    number(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (node, place) = unsafe { (value(node, "node")?, place(event, "event")?) };
        let happened = node.node.next_event(timeout(timeout_ms))?;
        let Some(happened) = happened else {
            return Ok(0);
        };
        place.write(event_of(&happened));
        Ok(1)
    })
}

fn event_of(event: &Event) -> abi::Event {
    let (kind, peer, link, value) = match event {
        Event::PeerUp { peer, restarted } => (TABANE_PEER_UP, &**peer, 0, (*restarted).into()),
        Event::PeerDown { peer, closed } => (TABANE_PEER_DOWN, &**peer, 0, closed.is_some().into()),
        Event::LinkUp { peer, link } => (TABANE_LINK_UP, &**peer, *link, 0),
        Event::LinkDown { peer, link } => (TABANE_LINK_DOWN, &**peer, *link, 0),
        Event::RedundancyLost { peer } => (TABANE_REDUNDANCY_LOST, &**peer, 0, 0),
        Event::RedundancyRestored { peer } => (TABANE_REDUNDANCY_RESTORED, &**peer, 0, 0),
        Event::MessagesBroken { peer, count } => {
            (TABANE_MESSAGES_BROKEN, &**peer, 0, *count as u64)
        }
        Event::Missed { count } => (TABANE_EVENTS_MISSED, "", 0, *count),
        Event::Link { .. } => (TABANE_LINK_CHANGED, "", 0, 0),
    };
    abi::Event {
        kind: kind as u32,
        link: link.into(),
        value,
        peer: put(peer),
        text: put(&event.to_string()),
    }
}
