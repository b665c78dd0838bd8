//! Records of surveys: extensions (`docs/protocol.md`, 7.15), written and read side by side.

use super::codec::EXTENSION_HEADER_BYTES;
use super::{NodeId, Reader, Switches, WireError, Writer};
use crate::LinkId;
use crate::limits::{DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN, LINKS_MAX};

/// The first byte of each.
mod code {
    /// A node is to measure its path to another one.
    pub const MEASURE: u8 = 0x68;
    /// The result of a measurement.
    pub const MEASURED: u8 = 0x69;
    /// The result of the survey for the receiver.
    pub const SWITCHES: u8 = 0x6a;
}

/// Probes of one measurement at most.
pub const PROBES_MAX: u8 = 32;
/// Probes of a train at most.
pub const TRAIN_MAX: u8 = 192;
/// Range of the average pause between two probes of a measurement, in microseconds: whoever asks, the answering node is
/// never asked for more than 12 Mb/s of plain Ethernet's packets.
pub const PAUSE_US: core::ops::RangeInclusive<u32> = 1_000..=200_000;
/// Bytes of a [`SurveyRecord::Measure`] behind its header.
const MEASURE_BYTES: usize = 20;
/// Bytes of a [`SurveyRecord::Measured`] behind its header.
const MEASURED_BYTES: usize = 9;

/// How a path is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measure {
    /// Over which link.
    pub link: LinkId,
    /// So many probes, 1 to [`PROBES_MAX`]; of a train 2 to [`TRAIN_MAX`].
    pub probes: u8,
    /// Size of each probe (UDP payload); the answer is small.
    pub datagram_bytes: u16,
    /// Average interval in microseconds, in [`PAUSE_US`]. 0: back to back, as a train; then the interval of the answers is
    /// measured.
    pub pause_us: u32,
}

impl Measure {
    /// Whether every field is within its range.
    pub fn is_sound(&self) -> bool {
        let sizes = DATAGRAM_BYTES_MIN..=DATAGRAM_BYTES_MAX;
        let probes_and_pause = match self.is_train() {
            true => (2..=TRAIN_MAX).contains(&self.probes),
            false => (1..=PROBES_MAX).contains(&self.probes) && PAUSE_US.contains(&self.pause_us),
        };
        self.link.index() < LINKS_MAX
            && sizes.contains(&usize::from(self.datagram_bytes))
            && probes_and_pause
    }

    /// Whether probes go right behind each other.
    pub const fn is_train(&self) -> bool {
        self.pause_us == 0
    }
}

/// The result of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measured {
    /// The least round trip of the probes, in nanoseconds; of a train how long one answer came after the other, on average.
    Least {
        /// That.
        ns: u32,
    },
    /// Not now: the node measures already, or its link has something to carry.
    Busy,
    /// There is no such path, it does not carry such datagrams, or nothing was answered.
    Unreached,
}

/// One record of surveys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SurveyRecord {
    /// The receiver is to measure.
    Measure {
        /// Repeated in the answer.
        token: u32,
        /// To whom: a node's number as in records of relays.
        to: NodeId,
        /// How.
        how: Measure,
    },
    /// The answer.
    Measured {
        /// The question's token.
        token: u32,
        /// What came of it.
        outcome: Measured,
    },
    /// The receiver is on these switches.
    Switches(Switches),
}

impl SurveyRecord {
    /// Bytes of the longest one.
    pub const BYTES_MAX: usize = EXTENSION_HEADER_BYTES + Switches::BYTES_MAX;

    /// Whether the extension `code` is one of these.
    pub const fn is_one(code: u8) -> bool {
        matches!(code, code::MEASURE | code::MEASURED | code::SWITCHES)
    }

    /// The record of an extension.
    ///
    /// # Errors
    /// Cut short, too long, or a field out of its range.
    pub fn read(code: u8, data: &[u8]) -> Result<SurveyRecord, WireError> {
        let mut r = Reader::new(data);
        let record = match code {
            code::MEASURE => {
                let token = r.u32()?;
                let to = NodeId(r.u64()?);
                let how = Measure {
                    link: LinkId(r.u8()?),
                    probes: r.u8()?,
                    datagram_bytes: r.u16()?,
                    pause_us: r.u32()?,
                };
                if !how.is_sound() {
                    return Err(WireError::BadValue);
                }
                SurveyRecord::Measure { token, to, how }
            }
            code::MEASURED => {
                let token = r.u32()?;
                let outcome = match (r.u8()?, r.u32()?) {
                    (0, ns) => Measured::Least { ns },
                    (1, 0) => Measured::Busy,
                    (2, 0) => Measured::Unreached,
                    _ => return Err(WireError::BadValue),
                };
                SurveyRecord::Measured { token, outcome }
            }
            code::SWITCHES => SurveyRecord::Switches(Switches::read(&mut r)?),
            _ => return Err(WireError::BadRecord),
        };
        match r.remaining() {
            0 => Ok(record),
            _ => Err(WireError::BadValue),
        }
    }

    /// Appends the record. The caller has checked the room.
    pub fn write(&self, w: &mut Writer<'_>) {
        match *self {
            SurveyRecord::Measure { token, to, how } => {
                w.u8(code::MEASURE);
                w.u16(MEASURE_BYTES as u16);
                w.u32(token);
                w.u64(to.0);
                w.put(&[how.link.0, how.probes]);
                w.u16(how.datagram_bytes);
                w.u32(how.pause_us);
            }
            SurveyRecord::Measured { token, outcome } => {
                let (status, ns) = match outcome {
                    Measured::Least { ns } => (0, ns),
                    Measured::Busy => (1, 0),
                    Measured::Unreached => (2, 0),
                };
                w.u8(code::MEASURED);
                w.u16(MEASURED_BYTES as u16);
                w.u32(token);
                w.u8(status);
                w.u32(ns);
            }
            SurveyRecord::Switches(switches) => {
                w.u8(code::SWITCHES);
                w.u16(switches.encoded_len() as u16);
                switches.write(w);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_of(record: SurveyRecord) -> (u8, Vec<u8>) {
        let mut buffer = [0; SurveyRecord::BYTES_MAX];
        let mut w = Writer::new(&mut buffer);
        record.write(&mut w);
        let len = w.len();
        (buffer[0], buffer[EXTENSION_HEADER_BYTES..len].to_vec())
    }

    fn measure_of(probes: u8) -> Measure {
        Measure {
            link: LinkId(7),
            probes,
            datagram_bytes: 1472,
            pause_us: 1_000,
        }
    }

    fn measure(how: Measure) -> SurveyRecord {
        SurveyRecord::Measure {
            token: 9,
            to: NodeId(5),
            how,
        }
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_refused() {
        let how = measure_of(PROBES_MAX);
        let measured = |outcome| SurveyRecord::Measured { token: 9, outcome };
        let sound = [
            measure(how),
            measure(Measure {
                probes: TRAIN_MAX,
                pause_us: 0,
                ..how
            }),
            measured(Measured::Least { ns: u32::MAX }),
            measured(Measured::Busy),
            measured(Measured::Unreached),
            SurveyRecord::Switches(Switches {
                survey: 5,
                of: [None, Some(u16::MAX), None, Some(0), None, None, None, None],
            }),
        ];
        for record in sound {
            let (code, data) = data_of(record);
            assert_eq!(SurveyRecord::read(code, &data), Ok(record));
            for len in 0..data.len() {
                assert!(SurveyRecord::read(code, &data[..len]).is_err(), "{len}");
            }
            let longer = [&data[..], &[0]].concat();
            assert_eq!(
                SurveyRecord::read(code, &longer),
                Err(WireError::BadValue),
                "{record:?}"
            );
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let how = measure_of(PROBES_MAX);
        let link = LinkId(8);
        for wrong in [
            Measure { link, ..how },
            Measure { probes: 0, ..how },
            Measure { probes: 33, ..how },
            Measure {
                probes: 1,
                pause_us: 0,
                ..how
            },
            Measure {
                probes: TRAIN_MAX + 1,
                pause_us: 0,
                ..how
            },
            Measure {
                datagram_bytes: 547,
                ..how
            },
            Measure {
                datagram_bytes: 8973,
                ..how
            },
            Measure {
                pause_us: 999,
                ..how
            },
            Measure {
                pause_us: 200_001,
                ..how
            },
        ] {
            let (code, data) = data_of(measure(wrong));
            assert_eq!(SurveyRecord::read(code, &data), Err(WireError::BadValue));
        }
        for (status, ns) in [(1, 1), (2, 7), (3, 0)] {
            let data = [0, 0, 0, 9, status, 0, 0, 0, ns];
            assert_eq!(SurveyRecord::read(0x69, &data), Err(WireError::BadValue));
        }
        assert_eq!(SurveyRecord::read(0x6b, &[0; 9]), Err(WireError::BadRecord));
    }
}
