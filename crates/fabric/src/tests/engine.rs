//! An engine within the process: what is posted has ended when the call returns.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tabane_rank::{
    Access, Address, Atomic, Completion, Core, Ended, Failure, Lost, Number, Operation, Peek, Peer,
    Piece, PostError, Receive, Remote, Send, Settings, Source, Statistics, Ticket, Transfer,
};

/// A port that every endpoint has: they differ in their instances.
const PORT: u16 = 40_000;
/// Posted buffers that an endpoint takes, so that there is a limit to be met.
pub const POSTED_MAX: usize = 64;

static NEXT: AtomicU64 = AtomicU64::new(1);
static NODES: Mutex<Option<HashMap<u64, Node>>> = Mutex::new(None);

#[derive(Default)]
struct Node {
    peers: Vec<(Address, bool)>,
    completions: VecDeque<Completion>,
    posted: Vec<Posted>,
    unexpected: Vec<Message>,
    regions: HashMap<u64, (Piece, Access, u64)>,
    lost: VecDeque<Lost>,
}

// SAFETY: it points to memory of tests, which their threads share.
unsafe impl core::marker::Send for Node {}

struct Posted {
    from: Option<Peer>,
    tag: Option<(u64, u64)>,
    pieces: Vec<Piece>,
    multi: Option<usize>,
    used: usize,
    ticket: Ticket,
}

struct Message {
    from: Peer,
    tag: Option<u64>,
    data: Option<u64>,
    bytes: Vec<u8>,
    claimed: Option<usize>,
}

/// One endpoint's engine.
struct Engine(Address);

/// An engine with an address of its own.
pub fn make(settings: &Settings) -> (Address, Box<dyn Core + core::marker::Send>) {
    let instance = NEXT.fetch_add(1, Ordering::Relaxed);
    let address = Address::new(&settings.links, PORT, instance).expect("the links are right");
    nodes(|nodes| nodes.insert(instance, Node::default()));
    (address, Box::new(Engine(address)))
}

fn nodes<R>(act: impl FnOnce(&mut HashMap<u64, Node>) -> R) -> R {
    let mut nodes: MutexGuard<'_, _> = NODES.lock().unwrap_or_else(PoisonError::into_inner);
    act(nodes.get_or_insert_default())
}

fn completion(ticket: Ticket, ended: Ended) -> Completion {
    Completion {
        ticket,
        ended,
        bytes: 0,
        tag: None,
        data: None,
        source: Source::Own,
        failure: None,
    }
}

fn gather(pieces: &[Piece]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        // SAFETY: tests give memory that is there.
        bytes.extend(unsafe { core::slice::from_raw_parts(piece.base, piece.bytes) });
    }
    bytes
}

/// Bytes into pieces, as many as find room; how many did not.
fn scatter(pieces: &[Piece], mut bytes: &[u8]) -> u64 {
    for piece in pieces {
        let fit = bytes.len().min(piece.bytes);
        // SAFETY: tests give memory that is there.
        unsafe { piece.base.copy_from_nonoverlapping(bytes.as_ptr(), fit) };
        bytes = &bytes[fit..];
    }
    bytes.len() as u64
}

impl Node {
    fn number(&mut self, address: &Address, is_named: bool) -> Peer {
        let place = self.peers.iter().position(|(have, _)| have == address);
        let place = place.unwrap_or_else(|| {
            self.peers.push((*address, false));
            self.peers.len() - 1
        });
        self.peers[place].1 |= is_named;
        Peer(place as u32)
    }

    fn source(&self, peer: Peer) -> Source {
        match self.peers[peer.0 as usize].1 {
            true => Source::Peer(peer),
            false => Source::Stranger(peer),
        }
    }

    fn takes(from: Option<Peer>, tag: Option<(u64, u64)>, message: &Message) -> bool {
        let is_tag = match (tag, message.tag) {
            (None, None) => true,
            (Some((tag, ignore)), Some(have)) => tag & !ignore == have & !ignore,
            _ => false,
        };
        is_tag && from.is_none_or(|from| from == message.from)
    }

    /// Matches a message with a buffer, or keeps it.
    fn arrive(&mut self, message: Message) {
        let place = self
            .posted
            .iter()
            .position(|posted| Node::takes(posted.from, posted.tag, &message));
        match place {
            Some(place) => self.fill(place, message),
            None => self.unexpected.push(message),
        }
    }

    fn fill(&mut self, place: usize, message: Message) {
        let posted = &mut self.posted[place];
        let mut pieces = posted.pieces.clone();
        if posted.multi.is_some() {
            // SAFETY: no more than the whole buffer was used.
            pieces[0].base = unsafe { pieces[0].base.add(posted.used) };
            pieces[0].bytes -= posted.used;
        }
        let cut_off = scatter(&pieces, &message.bytes);
        let bytes = message.bytes.len() as u64 - cut_off;
        posted.used += bytes as usize;
        let room: usize = posted.pieces.iter().map(|piece| piece.bytes).sum();
        let free = room - posted.used;
        let released = posted.multi.is_none_or(|min| free < min);
        let at = pieces
            .first()
            .map_or(core::ptr::null_mut(), |piece| piece.base);
        let ended = Ended::Receive { at, released };
        let told = Completion {
            bytes,
            tag: message.tag,
            data: message.data,
            failure: (cut_off > 0).then_some(Failure::Truncated(cut_off)),
            ..completion(posted.ticket, ended)
        };
        if released {
            self.posted.remove(place);
        }
        let source = self.source(message.from);
        self.completions.push_back(Completion { source, ..told });
    }

    /// Another one is gone: what waits for it has failed.
    fn lose(&mut self, address: &Address) {
        let Some(place) = self.peers.iter().position(|(have, _)| have == address) else {
            return;
        };
        let why = Failure::PeerGone;
        self.lost.push_back(Lost {
            address: *address,
            why,
            misfit: None,
        });
        self.give_up(why, |posted| posted.from == Some(Peer(place as u32)));
    }

    fn give_up(&mut self, why: Failure, is_given_up: impl Fn(&Posted) -> bool) {
        let (at, released) = (core::ptr::null_mut(), true);
        for posted in self.posted.extract_if(.., |posted| is_given_up(posted)) {
            self.completions.push_back(Completion {
                failure: Some(why),
                ..completion(posted.ticket, Ended::Receive { at, released })
            });
        }
    }

    /// Where in a region an access goes.
    fn reach(&self, remote: Remote, bytes: usize, is_write: bool) -> Result<Piece, Failure> {
        let (piece, access, origin) = *self.regions.get(&remote.key).ok_or(Failure::BadKey)?;
        let allowed = if is_write {
            access.remote_write
        } else {
            access.remote_read
        };
        if !allowed {
            return Err(Failure::NoAccess);
        }
        let offset = remote
            .offset
            .checked_sub(origin)
            .ok_or(Failure::OutOfBounds)? as usize;
        if offset > piece.bytes || bytes > piece.bytes - offset {
            return Err(Failure::OutOfBounds);
        }
        Ok(Piece {
            // SAFETY: it is within the region.
            base: unsafe { piece.base.add(offset) },
            bytes,
        })
    }
}

impl Engine {
    fn own<R>(&self, act: impl FnOnce(&mut Node) -> R) -> R {
        let instance = self.0.instance();
        nodes(|nodes| act(nodes.get_mut(&instance).expect("it is there")))
    }

    fn end(&self, told: Completion) {
        self.own(|node| node.completions.push_back(told));
    }

    fn there(&self, peer: Peer) -> Result<u64, PostError> {
        self.own(|node| match node.peers.get(peer.0 as usize) {
            Some((address, true)) => Ok(address.instance()),
            _ => Err(PostError::NoPeer),
        })
    }

    /// An access to a peer's region, its completion here, and what the owner may be told.
    fn access(
        &self,
        transfer: (Peer, Remote, usize, bool),
        [told, owner]: [Completion; 2],
        act: impl FnOnce(Piece) -> Result<(), Failure>,
    ) -> Result<(), PostError> {
        let (peer, remote, bytes, is_write) = transfer;
        let (instance, own) = (self.there(peer)?, self.0);
        let done = nodes(|nodes| match nodes.get_mut(&instance) {
            None => Err(Failure::Unreachable),
            Some(node) => {
                let done = node.reach(remote, bytes, is_write).and_then(act);
                if done.is_ok() && (owner.data.is_some() || node.regions[&remote.key].1.is_told) {
                    let from = node.number(&own, false);
                    let source = node.source(from);
                    let bytes = bytes as u64;
                    node.completions.push_back(Completion {
                        bytes,
                        source,
                        ..owner
                    });
                }
                done
            }
        });
        self.end(Completion {
            failure: done.err(),
            ..told
        });
        Ok(())
    }
}

impl Engine {
    /// It is there no more, and those who know it are told.
    fn leave(&self) -> Option<Node> {
        nodes(|nodes| {
            let gone = nodes.remove(&self.0.instance())?;
            for node in nodes.values_mut() {
                node.lose(&self.0);
            }
            Some(gone)
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Core for Engine {
    fn peer(&mut self, address: &Address) -> Peer {
        self.own(|node| node.number(address, true))
    }

    fn address_of(&self, peer: Peer) -> Option<Address> {
        self.own(|node| node.peers.get(peer.0 as usize).map(|(address, _)| *address))
    }

    fn forget(&mut self, peer: Peer) {
        self.own(|node| node.peers[peer.0 as usize].1 = false);
    }

    fn lost(&mut self) -> Option<Lost> {
        self.own(|node| node.lost.pop_front())
    }

    fn watch(&mut self, _: Peer) {}

    fn close(&mut self) {
        let mut left = self.leave().expect("it is there");
        left.give_up(Failure::Cancelled, |_| true);
        left.lost.clear();
        // It finds nobody, and is found by nobody.
        let instance = self.0.instance();
        left.peers
            .iter_mut()
            .for_each(|(_, is_named)| *is_named = false);
        nodes(|nodes| nodes.insert(instance, left));
    }

    unsafe fn send(&mut self, send: &Send<'_>) -> Result<(), PostError> {
        let instance = self.there(send.to)?;
        let (bytes, own) = (gather(send.pieces), self.0);
        let arrived: Result<(), Failure> = nodes(|nodes| {
            let node = nodes.get_mut(&instance).ok_or(Failure::Unreachable)?;
            let from = node.number(&own, false);
            node.arrive(Message {
                from,
                tag: send.tag,
                data: send.data,
                bytes,
                claimed: None,
            });
            Ok(())
        });
        self.end(Completion {
            failure: arrived.err(),
            ..completion(send.ticket, Ended::Send)
        });
        Ok(())
    }

    unsafe fn receive(&mut self, receive: &Receive<'_>) -> Result<(), PostError> {
        self.own(|node| {
            if node.posted.len() >= POSTED_MAX {
                return Err(PostError::Again);
            }
            node.posted.push(Posted {
                from: receive.from,
                tag: receive.tag,
                pieces: receive.pieces.to_vec(),
                multi: receive.multi,
                used: 0,
                ticket: receive.ticket,
            });
            loop {
                let place = node.posted.len().checked_sub(1);
                let early = node.unexpected.iter().position(|message| {
                    message.claimed.is_none() && Node::takes(receive.from, receive.tag, message)
                });
                let (Some(place), Some(early)) = (place, early) else {
                    return Ok(());
                };
                let before = node.posted.len();
                let message = node.unexpected.remove(early);
                node.fill(place, message);
                if node.posted.len() < before {
                    return Ok(());
                }
            }
        })
    }

    fn peek(&mut self, receive: &Receive<'_>, peek: Peek) -> Result<(), PostError> {
        self.own(|node| {
            let place = node.unexpected.iter().position(|message| {
                message.claimed.is_none() && Node::takes(receive.from, receive.tag, message)
            });
            let mut told = completion(receive.ticket, Ended::Peek);
            match place {
                None => told.failure = Some(Failure::NoMessage),
                Some(place) => {
                    let message = &mut node.unexpected[place];
                    told.bytes = message.bytes.len() as u64;
                    (told.tag, told.data) = (message.tag, message.data);
                    let from = message.from;
                    match peek {
                        Peek::Look => {}
                        Peek::Claim => message.claimed = Some(receive.ticket.context),
                        Peek::Discard => {
                            node.unexpected.remove(place);
                        }
                    }
                    told.source = node.source(from);
                }
            }
            node.completions.push_back(told);
            Ok(())
        })
    }

    unsafe fn receive_claimed(
        &mut self,
        pieces: &[Piece],
        ticket: Ticket,
    ) -> Result<(), PostError> {
        self.own(|node| {
            let claimed = |message: &Message| message.claimed == Some(ticket.context);
            let place = node.unexpected.iter().position(claimed);
            let message = node.unexpected.remove(place.ok_or(PostError::Invalid)?);
            node.posted.push(Posted {
                from: None,
                tag: None,
                pieces: pieces.to_vec(),
                multi: None,
                used: 0,
                ticket,
            });
            let message = match pieces.is_empty() {
                true => Message {
                    bytes: Vec::new(),
                    ..message
                },
                false => message,
            };
            node.fill(node.posted.len() - 1, message);
            Ok(())
        })
    }

    fn cancel(&mut self, context: usize) -> bool {
        self.own(|node| {
            let is_it = |posted: &Posted| posted.ticket.context == context;
            let Some(place) = node.posted.iter().position(is_it) else {
                return false;
            };
            let posted = node.posted.remove(place);
            let (at, released) = (core::ptr::null_mut(), true);
            let told = completion(posted.ticket, Ended::Receive { at, released });
            node.completions.push_back(Completion {
                failure: Some(Failure::Cancelled),
                ..told
            });
            true
        })
    }

    unsafe fn register(
        &mut self,
        key: u64,
        piece: Piece,
        access: Access,
        origin: u64,
    ) -> Result<(), PostError> {
        self.own(
            |node| match node.regions.insert(key, (piece, access, origin)) {
                None => Ok(()),
                Some(_) => Err(PostError::Invalid),
            },
        )
    }

    fn deregister(&mut self, key: u64) -> bool {
        self.own(|node| node.regions.remove(&key).is_some())
    }

    unsafe fn write(&mut self, transfer: &Transfer<'_>) -> Result<(), PostError> {
        let bytes = gather(transfer.pieces);
        let what = (transfer.peer, transfer.remote, bytes.len(), true);
        let key = transfer.remote.key;
        let owner = Completion {
            data: transfer.data,
            ..completion(Ticket::default(), Ended::Written { key })
        };
        let told = [completion(transfer.ticket, Ended::Write), owner];
        self.access(what, told, |there| {
            scatter(&[there], &bytes);
            Ok(())
        })
    }

    unsafe fn read(&mut self, transfer: &Transfer<'_>) -> Result<(), PostError> {
        let bytes = transfer.pieces.iter().map(|piece| piece.bytes).sum();
        let what = (transfer.peer, transfer.remote, bytes, false);
        let (key, written) = (transfer.remote.key, false);
        let owner = completion(Ticket::default(), Ended::WasRead { key, written });
        let told = [completion(transfer.ticket, Ended::Read), owner];
        self.access(what, told, |there| {
            scatter(transfer.pieces, &gather(&[there]));
            Ok(())
        })
    }

    unsafe fn atomic(&mut self, atomic: &Atomic<'_>) -> Result<(), PostError> {
        let operands = gather(atomic.operand);
        let bytes = match atomic.result {
            Some(result) => result.iter().map(|piece| piece.bytes).sum(),
            None => operands.len(),
        };
        let compare = atomic.compare.map(gather).unwrap_or_default();
        let what = (atomic.peer, atomic.remote, bytes, true);
        let (key, written) = (atomic.remote.key, atomic.operation != Operation::Read);
        let ended = match atomic.result {
            Some(_) => Ended::WasRead { key, written },
            None => Ended::Written { key },
        };
        let owner = completion(Ticket::default(), ended);
        let told = [completion(atomic.ticket, Ended::Atomic), owner];
        self.access(what, told, |there| {
            if atomic.number != Number::U64 {
                return Err(Failure::Unsupported);
            }
            let words = |bytes: &[u8]| -> Vec<u64> {
                let words = bytes
                    .chunks_exact(8)
                    .map(|word| word.try_into().expect("8"));
                words.map(u64::from_ne_bytes).collect()
            };
            let before = gather(&[there]);
            let (operands, compare) = (words(&operands), words(&compare));
            let mut after = Vec::new();
            for (n, old) in words(&before).into_iter().enumerate() {
                let new = match atomic.operation {
                    Operation::Sum => old.wrapping_add(operands[n]),
                    Operation::Read => old,
                    Operation::Write => operands[n],
                    Operation::Swap if old == compare[n] => operands[n],
                    Operation::Swap => old,
                    _ => return Err(Failure::Unsupported),
                };
                after.extend(new.to_ne_bytes());
            }
            scatter(&[there], &after);
            if let Some(result) = atomic.result {
                scatter(result, &before);
            }
            Ok(())
        })
    }

    fn progress(&mut self) {}

    fn completion(&mut self) -> Option<Completion> {
        self.own(|node| node.completions.pop_front())
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}
