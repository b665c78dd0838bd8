//! Filling packets: what is written next, and what becomes of it.

use super::limits::{MIRROR_BYTES, MIRROR_IN_FLIGHT_BYTES, URGENT_BYTES};
use super::queue::Source;
use super::{Ops, Pending};
use crate::Time;
use crate::segment::{Content, Fate};
use crate::wire::{UnitClass, Writer};

/// Something with lost content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lost {
    /// A frame, by slot and generation.
    Frame(u32, u32),
}

impl Ops {
    /// Whether there is something to send, and how it wants to be sent.
    pub fn pending(&self) -> Pending {
        if self.turns.is_idle() && self.lost.is_empty() {
            Pending::None
        } else if self.queued_bytes() + self.lost_bytes() <= URGENT_BYTES {
            Pending::Urgent
        } else {
            Pending::Bulk
        }
    }

    /// Bytes accepted and never sent so far, in bytes; lost ones are not among them.
    pub fn queued_bytes(&self) -> usize {
        self.frames_out.queued_bytes()
    }

    /// Bytes sent and neither acknowledged nor given up.
    pub fn in_flight_bytes(&self) -> usize {
        self.frames_out.units.in_flight_bytes()
    }

    /// Bytes lost and not sent again yet.
    pub fn lost_bytes(&self) -> usize {
        self.frames_out.units.lost_bytes()
    }

    /// Writes the best next record that fits into `w`: control, then lost
    /// content, then new content of whose turn it is. `None` if there is
    /// nothing, or no useful room. To be called until then.
    pub fn write_segment(&mut self, now: Time, w: &mut Writer<'_>) -> Option<Content> {
        let content = if self.lost.is_empty() {
            self.write_new(now, w)?
        } else {
            self.write_lost(now, w)?
        };
        self.stats.segments_sent += 1;
        Some(content)
    }

    /// Lost content, or new content if nothing lost is worth it any more.
    fn write_lost(&mut self, now: Time, w: &mut Writer<'_>) -> Option<Content> {
        self.frames_out.expire(now, &mut self.pool, &mut self.stats);
        while let Some(&lost) = self.lost.front() {
            let Lost::Frame(slot, generation) = lost;
            let units = &mut self.frames_out.units;
            if units.has_lost(slot, generation) {
                let content = units.write_lost(slot, w)?;
                self.stats.segments_resent += 1;
                return Some(content);
            }
            self.lost.pop_front();
        }
        self.write_new(now, w)
    }

    /// New content.
    fn write_new(&mut self, now: Time, w: &mut Writer<'_>) -> Option<Content> {
        while let Some(source) = self.turns.front() {
            let Source::Frames(flow) = source else {
                return None;
            };
            if self.frames_out.is_resting(flow) {
                self.turns.retire(self.frames_out.turn(flow));
                continue;
            }
            return self
                .frames_out
                .write_next(now, flow, &mut self.turns, w, &mut self.stats);
        }
        None
    }

    /// Whether `content`, just written, is to go on a second path as well: its
    /// policy says so, or it is small and alone.
    pub fn mirrored(&self, content: &Content) -> bool {
        match *content {
            Content::Unit {
                class: UnitClass::Frame,
                slot,
                generation,
                ..
            } => {
                self.is_quiet()
                    && self
                        .frames_out
                        .units
                        .find(slot, generation)
                        .is_some_and(|u| u.total() as usize <= MIRROR_BYTES)
            }
            _ => false,
        }
    }

    /// Whether nothing is queued and next to nothing in flight.
    fn is_quiet(&self) -> bool {
        self.queued_bytes() == 0 && self.in_flight_bytes() <= MIRROR_IN_FLIGHT_BYTES
    }

    /// Writes `content`, once written by [`write_segment`](Ops::write_segment),
    /// once more, as much as fits of the first stretch that the peer is not
    /// known to have. `None` if it has all, it was given up, or nothing fits.
    pub fn write_again(
        &mut self,
        _now: Time,
        content: &Content,
        w: &mut Writer<'_>,
    ) -> Option<Content> {
        let written = match *content {
            Content::Unit {
                class: UnitClass::Frame,
                slot,
                generation,
                offset,
                len,
            } => self
                .frames_out
                .units
                .write_again(slot, generation, offset, len, w),
            _ => None,
        }?;
        self.stats.segments_sent += 1;
        self.stats.segments_mirrored += 1;
        Some(written)
    }

    /// What became of content written before. Content may be written several
    /// times and have as many fates, in any order.
    pub fn on_fate(&mut self, _now: Time, content: Content, fate: Fate) {
        if let Content::Unit {
            class: UnitClass::Frame,
            slot,
            generation,
            offset,
            len,
        } = content
        {
            match fate {
                Fate::Acked => {
                    self.frames_out
                        .on_acked(slot, generation, offset, len, &mut self.pool);
                }
                Fate::Lost => {
                    if self.frames_out.units.on_lost(slot, generation, offset, len) {
                        self.lost.push_back(Lost::Frame(slot, generation));
                    }
                }
            }
        }
    }
}
