//! Records between endpoints of one node: words, then bytes. Numbers are in this machine's byte order.

use tabane_io::shared_memory::Stretch as Memory;
use tabane_proto::wire::{MemoryStatus, PutTarget, Stretch};

/// The record's last word says that another one is to follow no more.
const LAST: u64 = 1;
/// A put has eight bytes for the owner's completion.
const WITH_DATA: u64 = 2;
/// Words of a record at most, without the bytes or pieces behind them.
const WORDS_MAX: usize = 7;
/// Pieces that a record names at most.
pub const PIECES_MAX: usize = crate::PIECES_MAX;

/// A record. Tokens belong to the end that began the operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// As in a message of the bundle (`crate::wire`); all bytes are the message.
    Message,
    /// Bytes of a put for `offset` of the target; and whether they are the last.
    Put {
        token: u64,
        target: PutTarget,
        offset: u64,
        is_last: bool,
    },
    /// A put whose bytes the owner reads from these pieces of the writer's memory.
    Take {
        token: u64,
        target: PutTarget,
        pieces: Vec<Memory>,
    },
    /// A get; whether its bytes are to come in [`Record::Bytes`].
    Get {
        token: u64,
        from: Stretch,
        is_inline: bool,
    },
    /// Bytes of a get.
    Bytes {
        token: u64,
        offset: u64,
        is_last: bool,
    },
    /// The bytes of a get can be read from these pieces of the writer's memory.
    Grant { token: u64, pieces: Vec<Memory> },
    /// An operation is over.
    Done { token: u64, status: MemoryStatus },
}

mod kind {
    pub const MESSAGE: u32 = 0;
    pub const PUT: u32 = 1;
    pub const TAKE: u32 = 2;
    pub const GET: u32 = 3;
    pub const BYTES: u32 = 4;
    pub const GRANT: u32 = 5;
    pub const DONE: u32 = 6;
}

/// A record's words and pieces, as bytes.
pub struct Words {
    bytes: [u8; 8 * (WORDS_MAX + 2 * PIECES_MAX)],
    len: usize,
}

impl Words {
    fn put(&mut self, words: &[u64]) {
        for word in words {
            self.bytes[self.len..self.len + 8].copy_from_slice(&word.to_ne_bytes());
            self.len += 8;
        }
    }

    fn pieces(&mut self, pieces: &[Memory]) {
        for (base, bytes) in pieces.iter().take(PIECES_MAX) {
            self.put(&[*base, *bytes]);
        }
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn target_words(token: u64, target: &PutTarget, last: bool) -> [u64; 6] {
    let PutTarget { to, immediate } = target;
    let mark = |is, mark| if is { mark } else { 0 };
    let marks = mark(last, LAST) | mark(immediate.is_some(), WITH_DATA);
    let data = immediate.unwrap_or(0);
    [token, to.key, to.base, to.total, data, marks]
}

impl Record {
    /// Its kind, and what stands before its bytes.
    pub fn write(&self) -> (u32, Words) {
        let mut to = Words {
            bytes: [0; 8 * (WORDS_MAX + 2 * PIECES_MAX)],
            len: 0,
        };
        let kind = match self {
            Record::Message => kind::MESSAGE,
            Record::Put {
                token,
                target,
                offset,
                is_last,
            } => {
                to.put(&target_words(*token, target, *is_last));
                to.put(&[*offset]);
                kind::PUT
            }
            Record::Take {
                token,
                target,
                pieces,
            } => {
                to.put(&target_words(*token, target, true));
                to.pieces(pieces);
                kind::TAKE
            }
            Record::Get {
                token,
                from,
                is_inline,
            } => {
                to.put(&[
                    *token,
                    from.key,
                    from.base,
                    from.total,
                    u64::from(*is_inline),
                ]);
                kind::GET
            }
            Record::Bytes {
                token,
                offset,
                is_last,
            } => {
                to.put(&[*token, *offset, u64::from(*is_last)]);
                kind::BYTES
            }
            Record::Grant { token, pieces } => {
                to.put(&[*token]);
                to.pieces(pieces);
                kind::GRANT
            }
            Record::Done { token, status } => {
                to.put(&[*token, *status as u64]);
                kind::DONE
            }
        };
        (kind, to)
    }

    /// Parses a record; returns it and the offset of its bytes. `None`: malformed.
    pub fn read(kind: u32, body: &[u8]) -> Option<(Record, usize)> {
        let mut r = Rest(body);
        let record = match kind {
            kind::MESSAGE => Record::Message,
            kind::PUT => {
                let (token, target, is_last) = r.target()?;
                Record::Put {
                    token,
                    target,
                    offset: r.word()?,
                    is_last,
                }
            }
            kind::TAKE => {
                let (token, target, _) = r.target()?;
                let pieces = r.pieces()?;
                Record::Take {
                    token,
                    target,
                    pieces,
                }
            }
            kind::GET => {
                let (token, key, base, total) = (r.word()?, r.word()?, r.word()?, r.word()?);
                Record::Get {
                    token,
                    from: Stretch { key, base, total },
                    is_inline: r.flag()?,
                }
            }
            kind::BYTES => Record::Bytes {
                token: r.word()?,
                offset: r.word()?,
                is_last: r.flag()?,
            },
            kind::GRANT => Record::Grant {
                token: r.word()?,
                pieces: r.pieces()?,
            },
            kind::DONE => Record::Done {
                token: r.word()?,
                status: MemoryStatus::from_byte(u8::try_from(r.word()?).ok()?).ok()?,
            },
            _ => return None,
        };
        let has_bytes = matches!(kind, kind::MESSAGE | kind::PUT | kind::BYTES);
        let begin = body.len() - r.0.len();
        (has_bytes || r.0.is_empty()).then_some((record, begin))
    }
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn word(&mut self) -> Option<u64> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(u64::from_ne_bytes(*head))
    }

    fn flag(&mut self) -> Option<bool> {
        match self.word()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn target(&mut self) -> Option<(u64, PutTarget, bool)> {
        let (token, key, base, total) = (self.word()?, self.word()?, self.word()?, self.word()?);
        let (data, marks) = (self.word()?, self.word()?);
        if marks & !(LAST | WITH_DATA) != 0 {
            return None;
        }
        let target = PutTarget {
            to: Stretch { key, base, total },
            immediate: (marks & WITH_DATA != 0).then_some(data),
        };
        Some((token, target, marks & LAST != 0))
    }

    fn pieces(&mut self) -> Option<Vec<Memory>> {
        let mut pieces = Vec::new();
        while !self.0.is_empty() && pieces.len() < PIECES_MAX {
            pieces.push((self.word()?, self.word()?));
        }
        Some(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_written_and_cut_ones_do_not() {
        let to = Stretch {
            key: u64::MAX,
            base: 1 << 50,
            total: 3,
        };
        let target = |immediate| PutTarget { to, immediate };
        let put = |immediate, is_last| Record::Put {
            token: 7,
            target: target(immediate),
            offset: 9,
            is_last,
        };
        let take = |count| Record::Take {
            token: 1,
            target: target(Some(0)),
            pieces: vec![(5, 6); count],
        };
        let grant = |count| Record::Grant {
            token: 1,
            pieces: vec![(5, 6); count],
        };
        let bytes = Record::Bytes {
            token: 3,
            offset: 4,
            is_last: true,
        };
        let get = Record::Get {
            token: 3,
            from: to,
            is_inline: true,
        };
        let done = Record::Done {
            token: 4,
            status: MemoryStatus::NoAccess,
        };
        let all = [
            put(None, false),
            put(Some(5), true),
            take(1),
            take(PIECES_MAX),
            grant(PIECES_MAX),
            bytes,
            get,
            done,
        ];
        for record in all {
            let (kind, words) = record.write();
            let body = words.as_slice();
            assert_eq!(Record::read(kind, body), Some((record.clone(), body.len())));
            for cut in (0..body.len()).filter(|cut| cut % 16 != 8 || kind != kind::GRANT) {
                let read = Record::read(kind, &body[..cut]);
                let is_other = read.is_none_or(|(other, _)| other != record);
                assert!(is_other, "{record:?} {cut}");
            }
        }
        assert_eq!(Record::read(9, &[]), None);
        assert_eq!(Record::read(kind::DONE, &[0xff; 16]), None);
    }
}
