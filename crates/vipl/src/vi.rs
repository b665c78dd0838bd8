//! A VI: its attributes, its state, its two queues, and the line to the VI that it is connected to.

use std::time::Instant;

use tabane_rank::{Core, Peer};

use crate::abi::{
    self, ERROR_RESOURCE, INVALID_MTU, INVALID_PARAMETER, INVALID_PTAG, INVALID_RDMAREAD,
    INVALID_RELIABILITY_LEVEL, INVALID_STATE, Outcome,
};
use crate::connect::Request;
use crate::queue::Queue;
use crate::state::{Side, State};
use crate::wire::Manner;

/// VIs of a NIC at most.
pub const VIS_MAX: usize = 1 << 16;
/// Bytes of one descriptor at most: a label has room for as many ([`crate::wire::Label`]).
pub const TRANSFER_BYTES_MAX: u64 = 1 << 29;

/// The attributes that a VI was created with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// `VIP_SERVICE_…`.
    pub reliability: u16,
    /// Bytes of one descriptor at most.
    pub transfer_bytes_max: u64,
    /// Unused here.
    pub quality: usize,
    /// The tag of the memory that it may use.
    pub ptag: u32,
    /// The peer may write to such memory.
    pub rdma_write: bool,
    /// The peer may read such memory.
    pub rdma_read: bool,
}

impl Attributes {
    /// Whether errors end the connection.
    pub const fn is_reliable(&self) -> bool {
        self.reliability != abi::SERVICE_UNRELIABLE
    }
}

/// As `VIP_VI_STATE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Not connected.
    Idle,
    /// Connected.
    Connected,
    /// It is being connected.
    Pending,
    /// It was connected, and has to be disconnected to be used again.
    Error,
}

/// The line to another VI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The process at its other end.
    pub peer: Peer,
    /// Its number here.
    pub own: u32,
    /// Its number there.
    pub theirs: u32,
    /// The VI there.
    pub manner: Manner,
}

/// A VI.
pub struct Vi {
    /// Its attributes.
    pub attributes: Attributes,
    /// Its state.
    pub condition: Condition,
    /// While it is connected, and in error until it is disconnected.
    pub line: Option<Line>,
    /// While it is being connected.
    pub request: Option<Request>,
    /// The send queue.
    pub sends: Queue,
    /// The receive queue.
    pub receives: Queue,
    /// The operation that waits for the line's end.
    pub watch: Option<usize>,
    /// Since when a message waits for a descriptor.
    pub unready_since: Option<Instant>,
}

impl Vi {
    /// One of its queues.
    pub fn queue(&mut self, side: Side) -> &mut Queue {
        match side {
            Side::Send => &mut self.sends,
            Side::Receive => &mut self.receives,
        }
    }
}

impl State {
    /// Whether a VI can have such attributes.
    fn check(&self, attributes: &Attributes) -> Outcome<()> {
        let levels = [
            abi::SERVICE_UNRELIABLE,
            abi::SERVICE_RELIABLE_DELIVERY,
            abi::SERVICE_RELIABLE_RECEPTION,
        ];
        if !levels.contains(&attributes.reliability) {
            return Err(INVALID_RELIABILITY_LEVEL);
        }
        if !(1..=TRANSFER_BYTES_MAX).contains(&attributes.transfer_bytes_max) {
            return Err(INVALID_MTU);
        }
        if !self.ptags.contains_key(&attributes.ptag) {
            return Err(INVALID_PTAG);
        }
        match attributes.rdma_read && !attributes.is_reliable() {
            true => Err(INVALID_RDMAREAD),
            false => Ok(()),
        }
    }

    /// Creates a VI whose queues report to these completion queues.
    ///
    /// # Errors
    /// Its attributes are invalid, there is no such completion queue, or there are too many VIs.
    pub fn create_vi(
        &mut self,
        attributes: Attributes,
        send_cq: Option<u32>,
        receive_cq: Option<u32>,
    ) -> Outcome<u32> {
        self.check(&attributes)?;
        let cqs = || [send_cq, receive_cq].into_iter().flatten();
        if !cqs().all(|cq| self.cqs.contains_key(&cq)) {
            return Err(INVALID_PARAMETER);
        }
        if self.vis.len() >= VIS_MAX {
            return Err(ERROR_RESOURCE);
        }
        for cq in cqs() {
            if let Some(cq) = self.cqs.get_mut(&cq) {
                cq.users += 1;
            }
        }
        self.use_ptag(attributes.ptag, true);
        let id = self.new_id();
        let vi = Vi {
            attributes,
            condition: Condition::Idle,
            line: None,
            request: None,
            sends: Queue::new(send_cq),
            receives: Queue::new(receive_cq),
            watch: None,
            unready_since: None,
        };
        self.vis.insert(id, vi);
        Ok(id)
    }

    /// The VI of this number.
    ///
    /// # Errors
    /// There is none.
    pub fn vi(&mut self, id: u32) -> Outcome<&mut Vi> {
        self.vis.get_mut(&id).ok_or(INVALID_PARAMETER)
    }

    /// Ends a VI.
    ///
    /// # Errors
    /// It is not idle, or has descriptors.
    pub fn destroy_vi(&mut self, id: u32) -> Outcome<()> {
        let vi = self.vi(id)?;
        if vi.condition != Condition::Idle {
            return Err(INVALID_STATE);
        }
        if !vi.sends.is_empty() || !vi.receives.is_empty() {
            return Err(ERROR_RESOURCE);
        }
        let queues = [&mut vi.sends, &mut vi.receives];
        let notices = (queues.iter()).filter(|queue| queue.notice.is_some());
        let (notices, cqs) = (notices.count(), queues.map(|queue| queue.cq));
        let ptag = vi.attributes.ptag;
        self.notices -= notices;
        self.use_ptag(ptag, false);
        for cq in cqs.into_iter().flatten() {
            if let Some(cq) = self.cqs.get_mut(&cq) {
                cq.users -= 1;
                // Nothing that the program can ask for any more.
                cq.done.retain(|(vi, _)| *vi != id);
            }
        }
        self.vis.remove(&id);
        Ok(())
    }

    /// Changes an idle VI.
    ///
    /// # Errors
    /// It is not idle, or cannot be so.
    pub fn set_attributes(&mut self, id: u32, attributes: Attributes) -> Outcome<()> {
        let vi = self.vi(id)?;
        let (condition, before) = (vi.condition, vi.attributes);
        if condition != Condition::Idle {
            return Err(INVALID_STATE);
        }
        self.check(&attributes)?;
        self.use_ptag(before.ptag, false);
        self.use_ptag(attributes.ptag, true);
        self.vi(id)?.attributes = attributes;
        Ok(())
    }

    /// The description of a VI for the other end.
    pub fn manner(&self, attributes: &Attributes) -> Manner {
        let secrets = self.ptags.get(&attributes.ptag);
        Manner {
            reliability: attributes.reliability,
            transfer_bytes_max: attributes.transfer_bytes_max,
            quality: attributes.quality as u64,
            writes: secrets.and_then(|s| attributes.rdma_write.then_some(s.write)),
            reads: secrets.and_then(|s| attributes.rdma_read.then_some(s.read)),
        }
    }

    /// Ends a VI's work: operations that the endpoint has not begun end at once, the others when the endpoint
    /// reports their end.
    pub fn flush(&mut self, core: &mut dyn Core, id: u32) {
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        // Only waiting buffers can be cancelled. Operations under way finish by themselves: their number may
        // be another operation's by now, as for a write whose note is still to be sent.
        vi.sends.flush(abi::STATUS_DESC_FLUSHED_ERROR);
        let mut operations = vi.receives.flush(abi::STATUS_DESC_FLUSHED_ERROR);
        operations.extend(vi.watch.take());
        for operation in operations {
            core.cancel(operation);
        }
        self.tell(id, Side::Send);
        self.tell(id, Side::Receive);
    }
}
