//! The messages that make a connection.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use tabane_rank::{
    Completion, Core, Ended, Peer, Piece, PostError, Receive, Send, Source, Ticket, Until,
};

use crate::name;

/// Bytes of the program's that go with a request or an answer.
pub const DATA_BYTES_MAX: usize = 256;

/// A flag of a ticket, beside those of completions and [`QUIET`](crate::station::QUIET): it is not the program's.
pub const TALK: u64 = 1 << 62;

/// A message for which there was no room is retried after this time, even while others sleep.
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// The first byte: the kind of message.
const REQUEST: u8 = 1;
const ACCEPT: u8 = 2;
const REJECT: u8 = 3;
const REQUEST_FROM: u8 = 4;

/// The longest of them, bytes.
const BYTES_MAX: usize = 1 + name::SOCKET_BYTES_MAX + DATA_BYTES_MAX;

/// A message to make a connection; each has data of the program's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said<'a> {
    /// Asks for a connection. The caller's address, if it is not the sender's.
    Request(Option<SocketAddr>, &'a [u8]),
    /// The sender is the caller's peer.
    Accept(&'a [u8]),
    /// Nobody is.
    Reject(&'a [u8]),
}

impl Said<'_> {
    fn write(&self) -> Vec<u8> {
        let (kind, data) = match self {
            Said::Request(None, data) => (REQUEST, data),
            Said::Request(Some(from), data) => {
                return [&[REQUEST_FROM], &name::socket(from)[..], data].concat();
            }
            Said::Accept(data) => (ACCEPT, data),
            Said::Reject(data) => (REJECT, data),
        };
        [&[kind], *data].concat()
    }

    /// When it counts as sent. An accepted caller is connected once the message is on its way: its next messages come
    /// later.
    fn until(&self) -> Until {
        match self {
            Said::Accept(_) => Until::Reusable,
            _ => Until::Delivered,
        }
    }

    pub fn read(bytes: &[u8]) -> Option<Said<'_>> {
        let (kind, data) = bytes.split_first()?;
        match *kind {
            REQUEST => Some(Said::Request(None, data)),
            REQUEST_FROM => {
                let from = name::parse_socket(data)?;
                let data = data.get(name::socket(&from).len()..)?;
                Some(Said::Request(Some(from), data))
            }
            ACCEPT => Some(Said::Accept(data)),
            REJECT => Some(Said::Reject(data)),
            _ => None,
        }
    }
}

/// One end's connection messages, sent and received.
#[derive(Default)]
pub struct Talk {
    last: usize,
    /// Receive buffers, by ticket.
    buffers: BTreeMap<usize, Box<[u8]>>,
    /// Messages for which there was no room.
    unsaid: VecDeque<(Peer, Until, Vec<u8>)>,
}

impl Talk {
    /// Waits for something to be said.
    pub fn listen(&mut self, core: &mut dyn Core) -> Result<(), PostError> {
        let mut buffer = vec![0; BYTES_MAX].into_boxed_slice();
        self.last += 1;
        let receive = Receive {
            from: None,
            tag: None,
            pieces: &[Piece {
                base: buffer.as_mut_ptr(),
                bytes: buffer.len(),
            }],
            multi: None,
            ticket: Ticket {
                context: self.last,
                flags: TALK,
            },
        };
        // SAFETY: the buffer is kept until the completion.
        unsafe { core.receive(&receive) }?;
        self.buffers.insert(self.last, buffer);
        Ok(())
    }

    /// The received message and its sender. `None`: it is no connection message.
    pub fn heard(&mut self, done: &Completion) -> Option<(Peer, Vec<u8>)> {
        if !matches!(done.ended, Ended::Receive { .. }) {
            return None;
        }
        let mut bytes = self.buffers.remove(&done.ticket.context)?.into_vec();
        let (Source::Peer(from) | Source::Stranger(from)) = done.source else {
            return None;
        };
        // A message longer than any of these is invalid.
        let len = if done.failure.is_none() {
            done.bytes
        } else {
            0
        };
        bytes.truncate(usize::try_from(len).unwrap_or(0));
        Some((from, bytes))
    }

    /// Says something, now or when there is room.
    pub fn say(&mut self, core: &mut dyn Core, to: Peer, said: Said<'_>) {
        self.unsaid.push_back((to, said.until(), said.write()));
        self.go_on(core);
    }

    /// Sends messages for which there was no room.
    pub fn go_on(&mut self, core: &mut dyn Core) {
        while let Some((to, until, mut bytes)) = self.unsaid.pop_front() {
            let send = Send {
                to,
                tag: None,
                data: None,
                pieces: &[Piece {
                    base: bytes.as_mut_ptr(),
                    bytes: bytes.len(),
                }],
                inject: true,
                until,
                ticket: Ticket {
                    context: 0,
                    flags: TALK,
                },
            };
            // SAFETY: the bytes are not needed when this returns.
            if unsafe { core.send(&send) } == Err(PostError::Again) {
                core.wake_after(RETRY_AFTER);
                return self.unsaid.push_front((to, until, bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let data = [7; DATA_BYTES_MAX];
        let from = |text: &str| Some(text.parse().expect("is one"));
        for said in [
            Said::Request(None, &data),
            Said::Request(from("10.77.0.1:9228"), b"hello"),
            Said::Request(from("[fd00::1]:9228"), &data),
            Said::Accept(b""),
            Said::Reject(b"no"),
        ] {
            let written = said.write();
            assert!(written.len() <= BYTES_MAX);
            assert_eq!(Said::read(&written), Some(said));
        }
        for other in [&b""[..], b"\0", b"\x04", b"\x04\x02\0", b"hello"] {
            assert_eq!(Said::read(other), None);
        }
    }
}
