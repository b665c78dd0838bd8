//! A NIC's state: everything behind its one lock.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use slab::Slab;
use tabane_rank::{Address, Core, Peer};

use crate::abi::{CqCallback, Descriptor, ErrorHandler};
use crate::address::{Discriminator, Host, Place};
use crate::memory::{Region, Secrets};
use crate::names::Names;
use crate::queue::Notice;
use crate::vi::Vi;
use crate::wire::Manner;

/// Which of a VI's queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The send queue.
    Send,
    /// The receive queue.
    Receive,
}

/// An operation of the endpoint: its ticket is the index in [`State::operations`].
pub enum Operation {
    /// A descriptor's work.
    Descriptor {
        /// Whose.
        vi: u32,
        /// In which queue.
        side: Side,
        /// Its number there.
        number: u64,
    },
    /// The word at the end of a write that has immediate data; the rest of the descriptor is done.
    Note {
        /// Whose.
        vi: u32,
        /// Its number in the queue.
        number: u64,
    },
    /// A buffer for messages that set lines up.
    Listens(Box<[u8]>),
    /// Something that was said.
    Says,
    /// A line's end is waited for.
    Watches {
        /// The line.
        line: u32,
    },
    /// It is looked whether a message waits for a descriptor: on this line, or on any.
    Looks(Option<u32>),
    /// Drops a message for a line that has ended.
    Drops {
        /// The line.
        line: u32,
    },
}

/// A call of the program's that is due.
pub enum Call {
    /// A descriptor is done.
    Vi {
        /// Whom to call.
        notice: Notice,
        /// Whose.
        vi: u32,
        /// Which.
        descriptor: *mut Descriptor,
    },
    /// A completion queue has something.
    Cq {
        /// Comes back.
        context: usize,
        /// The callback.
        handler: CqCallback,
        /// Whose descriptor is done.
        vi: u32,
        /// In which queue.
        side: Side,
    },
    /// Something that no descriptor tells.
    Error {
        /// Comes back.
        context: usize,
        /// The callback.
        handler: ErrorHandler,
        /// Whose error.
        vi: u32,
        /// `VIP_ERROR_…`.
        code: core::ffi::c_int,
    },
}

// SAFETY: the pointer is the program's, and only given back to it.
unsafe impl Send for Call {}

/// A completion queue.
#[derive(Default)]
pub struct Cq {
    /// Queues that tell it.
    pub users: usize,
    /// The number of entries that the program has asked for. It is no limit: nothing is lost.
    pub asked: usize,
    /// Completed descriptors.
    pub done: VecDeque<(u32, Side)>,
    /// The callback for the next.
    pub notice: Option<(usize, CqCallback)>,
}

/// A call of another end's that waits for an answer.
pub struct Caller {
    /// The sender.
    pub peer: Peer,
    /// Its line.
    pub line: u32,
    /// The asker.
    pub from: Place,
    /// With what VI.
    pub manner: Manner,
    /// The discriminator that was asked for.
    pub to: Discriminator,
    /// It does not want to any more.
    pub is_withdrawn: bool,
    /// The program was given its handle.
    pub is_given: bool,
}

/// A discriminator that is waited for.
#[derive(Default)]
pub struct Listening {
    /// Threads that wait now.
    pub waiters: usize,
    /// Once nobody waits any more, listen until then.
    pub until: Option<Instant>,
    /// The callers, by handle.
    pub callers: VecDeque<u32>,
}

/// The state of a NIC.
pub struct State {
    /// It was closed.
    pub is_closed: bool,
    /// The last number that was given to something.
    last_id: u32,
    /// This node.
    pub host: Host,
    /// This endpoint.
    pub own: Address,
    /// Protection tags.
    pub ptags: BTreeMap<u32, Secrets>,
    /// Registered memory, by handle.
    pub regions: BTreeMap<u32, Region>,
    /// VIs.
    pub vis: BTreeMap<u32, Vi>,
    /// Lines that are in use, and their VIs.
    pub lines: BTreeMap<u32, u32>,
    /// Ended lines, and until when messages for them are dropped.
    pub dead_lines: Vec<(u32, Instant)>,
    /// Completion queues.
    pub cqs: BTreeMap<u32, Cq>,
    /// The callers.
    pub callers: BTreeMap<u32, Caller>,
    /// Which discriminators are waited for.
    pub listening: BTreeMap<Discriminator, Listening>,
    /// Operations of the endpoint.
    pub operations: Slab<Operation>,
    /// VIs for which the endpoint had no room.
    pub stalled: Vec<u32>,
    /// Writes whose note found no room: the VI, and the number in its queue.
    pub owed_notes: Vec<(u32, u64)>,
    /// Messages that found no room yet.
    pub unsaid: VecDeque<(Peer, u64, Option<u64>, Vec<u8>)>,
    /// The callback for errors.
    pub error_handler: Option<(usize, ErrorHandler)>,
    /// Calls that are due.
    pub calls: VecDeque<Call>,
    /// Notices that wait, of all queues.
    pub notices: usize,
    /// The name service, if it was begun.
    pub names: Option<Names>,
    /// Addresses that the program was given.
    pub told: Option<crate::names::Told>,
    /// Something is done that somebody may wait for.
    pub is_news: bool,
    /// A thread waits at the endpoint.
    pub has_driver: bool,
    /// Threads that wait for news.
    pub followers: usize,
    /// When time-outs were last checked.
    pub ticked: Instant,
}

impl State {
    /// The state of a new NIC.
    pub fn new(own: Address, host: Host) -> State {
        State {
            is_closed: false,
            last_id: 0,
            host,
            own,
            ptags: BTreeMap::new(),
            regions: BTreeMap::new(),
            vis: BTreeMap::new(),
            lines: BTreeMap::new(),
            dead_lines: Vec::new(),
            cqs: BTreeMap::new(),
            callers: BTreeMap::new(),
            listening: BTreeMap::new(),
            operations: Slab::new(),
            stalled: Vec::new(),
            owed_notes: Vec::new(),
            unsaid: VecDeque::new(),
            error_handler: None,
            calls: VecDeque::new(),
            notices: 0,
            names: None,
            told: None,
            is_news: false,
            has_driver: false,
            followers: 0,
            ticked: Instant::now(),
        }
    }

    /// An unused number: handles and lines are never reused, so stale ones are recognised.
    pub fn new_id(&mut self) -> u32 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            let id = self.last_id;
            // After 2^32 of them.
            let is_used = self.vis.contains_key(&id)
                || self.ptags.contains_key(&id)
                || self.regions.contains_key(&id)
                || self.cqs.contains_key(&id)
                || self.callers.contains_key(&id)
                || self.lines.contains_key(&id);
            if id != 0 && !is_used {
                return id;
            }
        }
    }

    /// Reports an error that no descriptor reports.
    pub fn error(&mut self, vi: u32, code: core::ffi::c_int) {
        if let Some((context, handler)) = self.error_handler {
            self.calls.push_back(Call::Error {
                context,
                handler,
                vi,
                code,
            });
            self.is_news = true;
        }
    }

    /// Tells of everything in a queue that is over now.
    pub fn tell(&mut self, vi: u32, side: Side) {
        while let Some(entry) = self.vis.get_mut(&vi) {
            let queue = entry.queue(side);
            let Some(regions) = queue.tell() else {
                return;
            };
            let cq = queue.cq;
            for handle in regions {
                if let Some(region) = self.regions.get_mut(&handle) {
                    region.users -= 1;
                }
            }
            self.is_news = true;
            if let Some(cq) = cq.and_then(|cq| self.cqs.get_mut(&cq)) {
                cq.done.push_back((vi, side));
            }
            self.notify(vi, side, cq);
        }
    }

    /// Calls the callbacks of a queue, and of its completion queue, if there is something for
    /// them.
    pub fn notify(&mut self, vi: u32, side: Side, cq: Option<u32>) {
        if let Some(queue) = self.vis.get_mut(&vi).map(|vi| vi.queue(side))
            && queue.notice.is_some()
            && let Some((descriptor, _)) = queue.fetch()
            && let Some(notice) = queue.notice.take()
        {
            self.notices -= 1;
            self.calls.push_back(Call::Vi {
                notice,
                vi,
                descriptor,
            });
            self.is_news = true;
        }
        if let Some(cq) = cq {
            self.notify_cq(cq);
        }
    }

    /// Calls the callback of a completion queue if there is something for it.
    pub fn notify_cq(&mut self, cq: u32) {
        let Some(queue) = self.cqs.get_mut(&cq) else {
            return;
        };
        if queue.notice.is_some()
            && let Some((vi, side)) = queue.done.pop_front()
            && let Some((context, handler)) = queue.notice.take()
        {
            self.notices -= 1;
            self.calls.push_back(Call::Cq {
                context,
                handler,
                vi,
                side,
            });
            self.is_news = true;
        }
    }

    /// Begins an operation: `post` gets its ticket.
    ///
    /// # Errors
    /// The error of `post`.
    pub fn post<E>(
        &mut self,
        operation: Operation,
        post: impl FnOnce(usize) -> Result<(), E>,
    ) -> Result<usize, E> {
        let key = self.operations.insert(operation);
        match post(key) {
            Ok(()) => Ok(key),
            Err(error) => {
                self.operations.remove(key);
                Err(error)
            }
        }
    }

    /// Looks whether something is there for a VI's queue; see [`State::tell`].
    pub fn settle(&mut self, core: &mut dyn Core, vi: u32) {
        self.pump(core, vi);
        self.tell(vi, Side::Send);
        self.tell(vi, Side::Receive);
    }
}
