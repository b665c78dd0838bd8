//! On which switches a node is, as a survey has found: a part of records (`docs/protocol.md`, 7.13 and 7.15).

use super::{Reader, WireError, Writer};
use crate::limits::LINKS_MAX;

/// On which switches a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switches {
    /// The survey's id: only numbers of the same survey can be compared.
    pub survey: u64,
    /// The number of its switch on each network, where that is known.
    pub of: [Option<u16>; LINKS_MAX],
}

impl Switches {
    /// Bytes at most.
    pub const BYTES_MAX: usize = 9 + 2 * LINKS_MAX;

    /// Whether two nodes are known to share a switch.
    pub fn meet(&self, other: &Switches) -> bool {
        let mut both = self.of.iter().zip(&other.of);
        self.survey == other.survey && both.any(|(a, b)| a.is_some() && a == b)
    }

    /// How many bytes [`write`](Switches::write) appends.
    pub fn encoded_len(&self) -> usize {
        9 + 2 * self.of.iter().flatten().count()
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.u64(self.survey);
        let known = self.of.iter().enumerate().filter(|(_, s)| s.is_some());
        w.u8(known.fold(0, |mask, (link, _)| mask | 1 << link));
        self.of.iter().flatten().for_each(|switch| w.u16(*switch));
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Switches, WireError> {
        let (survey, mask) = (r.u64()?, r.u8()?);
        let mut of = [None; LINKS_MAX];
        for (link, switch) in of.iter_mut().enumerate() {
            if mask & 1 << link != 0 {
                *switch = Some(r.u16()?);
            }
        }
        Ok(Switches { survey, of })
    }
}
