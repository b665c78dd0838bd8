use super::*;
use crate::segment::{Content, Fate};
use crate::wire::{Record, Writer};

pub(super) fn ops() -> (Ops, Ops) {
    let limits = OpLimits::default();
    (Ops::new(true, &limits), Ops::new(false, &limits))
}

/// One packet of at most `room` bytes.
fn packet(now: Time, ops: &mut Ops, room: usize) -> Option<(Vec<u8>, Content)> {
    let mut slot = vec![0; room];
    let mut w = Writer::new(&mut slot);
    let content = ops.write_segment(now, &mut w)?;
    let len = w.len();
    slot.truncate(len);
    Some((slot, content))
}

fn deliver(now: Time, ops: &mut Ops, packet: &[u8]) {
    let Record::Unit(seg) = codec::read(packet) else {
        panic!()
    };
    ops.on_unit(now, &seg).unwrap();
}

#[test]
fn a_frame_is_cut_and_rejoined() {
    let (mut a, mut b) = ops();
    let frame: Vec<u8> = (0..60_000u32).map(|i| (i * 7) as u8).collect();
    a.send_frame(Time::ZERO, 3, frame.clone()).unwrap();
    assert_eq!(a.pending(), Pending::Bulk);
    while let Some((p, content)) = packet(Time::ZERO, &mut a, 1400) {
        deliver(Time::ZERO, &mut b, &p);
        a.on_fate(Time::ZERO, content, Fate::Acked);
    }
    assert_eq!(a.pending(), Pending::None);
    assert_eq!(b.receive_frame(), Some(frame));
    assert_eq!(b.receive_frame(), None);
    assert_eq!(a.stats().in_flight_bytes, 0);
    assert_eq!(a.next_timeout(), None);
}
