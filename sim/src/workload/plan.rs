//! What the applications on the hosts are to do, drawn before the run.

use super::content;
use crate::net::Ns;
use crate::random::mix;
use tabane_proto::op::Policy;

/// How fast an application writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// As fast as it is allowed to.
    Bulk,
    /// So many bytes at a time, at intervals.
    Paced {
        /// Bytes at a time.
        bytes: u64,
        /// The interval.
        every_ns: Ns,
    },
}

/// How fast an application reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// Everything at once.
    Eager,
    /// So many bytes at a time, at intervals.
    Slow {
        /// Bytes at a time.
        bytes: u64,
        /// The interval.
        every_ns: Ns,
    },
    /// Nothing until then, and then everything at once.
    Late {
        /// When it begins.
        since: Ns,
    },
}

/// How a stream ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Each end says all it has and finishes its direction by itself (half close).
    Finish,
    /// The opener gives its direction up after so many bytes.
    Reset {
        /// Bytes written before.
        after_bytes: u64,
    },
    /// The accepting end wants no more after so many bytes.
    Stop {
        /// Bytes read before.
        after_bytes: u64,
    },
}

/// The reason given with every reset and stop.
pub const GIVE_UP_CODE: u32 = 77;

/// A stream to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPlan {
    /// Who opens it.
    pub from: usize,
    /// To whom.
    pub to: usize,
    /// Over which paths.
    pub policy: Policy,
    /// Bytes from the opener.
    pub forward_bytes: u64,
    /// Bytes to the opener.
    pub back_bytes: u64,
    /// When.
    pub start: Ns,
    /// Both ends write so.
    pub pace: Pace,
    /// Both ends read so.
    pub reader: Reader,
    /// How it ends.
    pub ending: Ending,
}

/// What a flow consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitKind {
    /// Frames of the virtual NIC.
    Frame,
    /// Messages.
    Message,
}

/// A flow of messages or frames. A flow belongs to one plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowPlan {
    /// Frames or messages.
    pub kind: UnitKind,
    /// Who sends.
    pub from: usize,
    /// To whom.
    pub to: usize,
    /// The flow's number (frames: below 256).
    pub flow: u32,
    /// Messages carry a tag.
    pub tagged: bool,
    /// Messages: over which paths.
    pub policy: Policy,
    /// How many.
    pub count: u32,
    /// Smallest one in bytes, at least [`UNIT_HEADER_BYTES`].
    pub bytes_min: u32,
    /// Largest one in bytes.
    pub bytes_max: u32,
    /// When the first goes.
    pub start: Ns,
    /// Time between two.
    pub every_ns: Ns,
    /// So many bytes at most are under way, as under TCP's window: more wait for the receiver's word.
    pub window_bytes: u64,
}

/// Bytes at the start of each unit that tell which one it is.
pub const UNIT_HEADER_BYTES: usize = 16;

impl FlowPlan {
    /// Length of the unit with this number.
    pub fn bytes(&self, index: usize, sequence: u32) -> usize {
        let span = u64::from(self.bytes_max - self.bytes_min) + 1;
        self.bytes_min as usize + (unit_key(index, sequence) % span) as usize
    }

    /// Tag of the message with this number.
    pub fn tag(&self, index: usize, sequence: u32) -> Option<u64> {
        self.tagged.then(|| mix(unit_key(index, sequence)))
    }

    /// Writes the unit with this number of the plan at `index` to the end of `out`.
    pub fn write(&self, index: usize, sequence: u32, out: &mut Vec<u8>) {
        let begin = out.len();
        out.resize(begin + self.bytes(index, sequence), 0);
        let (header, body) = out[begin..].split_at_mut(UNIT_HEADER_BYTES);
        let key = unit_key(index, sequence);
        header[..4].copy_from_slice(&(index as u32).to_le_bytes());
        header[4..8].copy_from_slice(&sequence.to_le_bytes());
        header[8..].copy_from_slice(&mix(!key).to_le_bytes());
        content::fill(key, 0, body);
    }
}

/// Which unit this says it is: the plan's index and the unit's number; `None` if
/// nobody wrote such a header.
pub fn unit_name(data: &[u8]) -> Option<(usize, u32)> {
    let header = data.get(..UNIT_HEADER_BYTES)?;
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i]));
    let (index, sequence) = (word(0) as usize, word(4));
    let check = mix(!unit_key(index, sequence)).to_le_bytes();
    (header[8..] == check).then_some((index, sequence))
}

/// The key of a unit's content.
pub fn unit_key(index: usize, sequence: u32) -> u64 {
    mix(((index as u64) << 32) | u64::from(sequence))
}

/// The key of a stream's content in one direction.
pub fn stream_key(service: u32, back: bool) -> u64 {
    mix(0x5eed_0000_0000 | u64::from(service)) ^ u64::from(back)
}

/// Bytes to be put into, or got from, another host's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferPlan {
    /// Who begins it.
    pub from: usize,
    /// Whose region it is.
    pub to: usize,
    /// Bytes go there; else they come from there.
    pub is_put: bool,
    /// How many.
    pub bytes: u64,
    /// When.
    pub start: Ns,
}

/// The key of the region, and of the content, of an attempt at the plan at `index`.
pub fn transfer_key(index: usize, attempt: u16) -> u64 {
    mix(0x7a45_0000_0000 | (index as u64) << 16 | u64::from(attempt))
}

/// Everything the applications of a run do.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The streams.
    pub streams: Vec<StreamPlan>,
    /// The flows.
    pub flows: Vec<FlowPlan>,
    /// The transfers.
    pub transfers: Vec<TransferPlan>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_tells_its_name_and_any_change_of_the_name_shows() {
        let plan = FlowPlan {
            kind: UnitKind::Message,
            from: 0,
            to: 1,
            flow: 3,
            tagged: true,
            policy: Policy::Stripe,
            count: 10,
            bytes_min: 16,
            bytes_max: 100,
            start: 0,
            every_ns: 0,
            window_bytes: u64::MAX,
        };
        for sequence in 0..50 {
            let mut unit = Vec::new();
            plan.write(5, sequence, &mut unit);
            assert!((16..=100).contains(&unit.len()));
            assert_eq!(unit_name(&unit), Some((5, sequence)));
            unit[4] ^= 1;
            assert_eq!(unit_name(&unit), None);
        }
        assert_eq!(unit_name(&[0; 15]), None);
    }
}
