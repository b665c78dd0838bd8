//! Descriptors: read when they are posted, given to the endpoint in turn.
//!
//! Messages of a line stay in order. Memory operations overtake them, and each other. So a message, or a read, waits
//! until the earlier writes are in the peer's memory: the message's receiver finds there what was written before.

use tabane_rank::{
    Core, PIECES_MAX, Piece, PostError, Receive, Remote, Send, Ticket, Transfer, Until,
};

use crate::abi::{
    self, ControlSegment, Descriptor, ERROR_RESOURCE, INVALID_PARAMETER, Outcome, Segment,
};
use crate::memory;
use crate::queue::{Ending, Entry, Progress, Work};
use crate::state::{Operation, Side, State};
use crate::vi::{Attributes, Condition, Line, TRANSFER_BYTES_MAX};
use crate::wire::{Label, Why, tag_content};

/// Descriptors of one queue at most.
pub const DESCRIPTORS_MAX: usize = 1 << 16;
/// The most segments of one descriptor, including the remote address.
pub const SEGMENTS_MAX: u16 = 252;

/// A descriptor as it was read: its control segment and the others.
struct Read {
    control: ControlSegment,
    segments: Vec<Segment>,
}

/// Reads a descriptor that lies in a region of the VI's tag.
///
/// # Safety
/// It is the program's, and nobody writes to it.
unsafe fn read(descriptor: *const Descriptor) -> Read {
    // SAFETY: as above.
    let control = unsafe { (&raw const (*descriptor).control).read() };
    let count = control.segments.min(SEGMENTS_MAX).into();
    // SAFETY: the region covers as many segments (`State::post_descriptor`).
    let segments = unsafe {
        core::slice::from_raw_parts((&raw const (*descriptor).segments).cast::<Segment>(), count)
    };
    Read {
        control,
        segments: segments.to_vec(),
    }
}

/// The operation of a descriptor, if it is valid.
fn work(control: &ControlSegment, side: Side) -> Option<Work> {
    let is_known = control.segments <= SEGMENTS_MAX
        && control.control & abi::CONTROL_RESERVED == 0
        && (side == Side::Send || control.control & abi::CONTROL_OP_MASK == 0);
    let work = match (side, control.control & abi::CONTROL_OP_MASK) {
        (Side::Receive, abi::CONTROL_OP_SENDRECV) => Work::Receive,
        (Side::Send, abi::CONTROL_OP_SENDRECV) => Work::Send,
        (Side::Send, abi::CONTROL_OP_RDMAWRITE) if control.segments > 0 => Work::Write,
        (Side::Send, abi::CONTROL_OP_RDMAREAD) if control.segments > 0 => Work::Read,
        _ => return None,
    };
    is_known.then_some(work)
}

/// The pieces for the first `bytes` of these segments.
fn pieces(segments: &[Segment], mut bytes: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for segment in segments {
        let length = u64::from(segment.bytes).min(bytes);
        bytes -= length;
        if length > 0 {
            pieces.push(Piece {
                base: core::ptr::with_exposed_provenance_mut(segment.address as usize),
                bytes: length as usize,
            });
        }
    }
    pieces
}

impl State {
    /// Posts a descriptor.
    ///
    /// # Errors
    /// There is no such VI, the descriptor is invalid, is not in memory of this handle, or there are too many. Errors in
    /// its content are reported when it is done.
    ///
    /// # Safety
    /// The descriptor is null, or the program's until it is done.
    pub unsafe fn post_descriptor(
        &mut self,
        core: &mut dyn Core,
        id: u32,
        side: Side,
        descriptor: *mut Descriptor,
        handle: u32,
    ) -> Outcome<()> {
        let attributes = self.vi(id)?.attributes;
        let at = descriptor.addr() as u64;
        let is_place = !descriptor.is_null() && at.is_multiple_of(abi::DESCRIPTOR_ALIGNMENT as u64);
        let head = size_of::<ControlSegment>() as u64;
        if !is_place || !self.covers(handle, attributes.ptag, at, head) {
            return Err(INVALID_PARAMETER);
        }
        // SAFETY: it lies in registered memory.
        let segments = unsafe { (&raw const (*descriptor).control.segments).read() };
        let whole = head + u64::from(segments.min(SEGMENTS_MAX)) * size_of::<Segment>() as u64;
        if !self.covers(handle, attributes.ptag, at, whole) {
            return Err(INVALID_PARAMETER);
        }
        if self.vi(id)?.queue(side).len() >= DESCRIPTORS_MAX {
            return Err(ERROR_RESOURCE);
        }
        // SAFETY: all of it lies in registered memory.
        let read = unsafe { read(descriptor) };
        let mut entry = self.entry(&attributes, side, descriptor, &read);
        let is_connected = self.vi(id)?.condition == Condition::Connected;
        let waits = side == Side::Receive && self.vi(id)?.condition != Condition::Error;
        entry.regions.push(handle);
        for handle in &entry.regions {
            if let Some(region) = self.regions.get_mut(handle) {
                region.users += 1;
            }
        }
        // SAFETY: it is in registered memory. It is not done, whatever it was before.
        unsafe { (&raw mut (*descriptor).control.status).write_volatile(0) };
        let queue = self.vi(id)?.queue(side);
        queue.push(entry);
        if !is_connected && !waits {
            queue.flush(abi::STATUS_DESC_FLUSHED_ERROR);
        }
        self.settle(core, id);
        Ok(())
    }

    /// Reads a descriptor's content.
    fn entry(
        &self,
        attributes: &Attributes,
        side: Side,
        descriptor: *mut Descriptor,
        read: &Read,
    ) -> Entry {
        let control = &read.control;
        let mut entry = Entry {
            descriptor,
            work: match side {
                Side::Send => Work::Send,
                Side::Receive => Work::Receive,
            },
            is_fenced: control.control & abi::CONTROL_QFENCE != 0,
            immediate: (control.control & abi::CONTROL_IMMEDIATE != 0).then_some(control.immediate),
            pieces: Vec::new(),
            between: None,
            remote: (0, 0),
            bytes: 0,
            regions: Vec::new(),
            wrong: 0,
            progress: Progress::Waiting,
            ending: Ending::default(),
        };
        let Some(work) = work(control, side) else {
            entry.wrong = abi::STATUS_FORMAT_ERROR;
            return entry;
        };
        entry.work = work;
        let mut segments = &read.segments[..];
        if matches!(work, Work::Write | Work::Read)
            && let Some((remote, rest)) = segments.split_first()
        {
            entry.remote = (remote.address, remote.handle);
            segments = rest;
        }
        let room: u64 = segments.iter().map(|s| u64::from(s.bytes)).sum();
        let bytes = match work {
            // A receive reports how much came; before that, its length is meaningless.
            Work::Receive => room.min(TRANSFER_ROOM_MAX),
            _ => control.bytes.into(),
        };
        if work != Work::Receive && (bytes > room || bytes > attributes.transfer_bytes_max) {
            entry.wrong = abi::STATUS_LENGTH_ERROR;
            return entry;
        }
        let named = segments.iter().filter(|s| s.bytes > 0);
        let is_covered =
            |s: &&Segment| self.covers(s.handle, attributes.ptag, s.address, s.bytes.into());
        if !named.clone().all(|s| is_covered(&s)) {
            entry.wrong = abi::STATUS_PROTECTION_ERROR;
            return entry;
        }
        entry.regions = named.map(|s| s.handle).collect();
        entry.bytes = bytes as u32;
        entry.pieces = pieces(segments, bytes);
        entry
    }

    /// Gives the endpoint everything that may begin now.
    pub fn pump(&mut self, core: &mut dyn Core, id: u32) {
        for side in [Side::Receive, Side::Send] {
            while self.begin(core, id, side) {}
        }
    }

    /// Begins with the next descriptor of a queue; whether there was one.
    fn begin(&mut self, core: &mut dyn Core, id: u32, side: Side) -> bool {
        let Some(vi) = self.vis.get_mut(&id) else {
            return false;
        };
        let (Condition::Connected, Some(line)) = (vi.condition, vi.line) else {
            return false;
        };
        let attributes = vi.attributes;
        let Some((number, entry)) = vi.queue(side).next() else {
            return false;
        };
        let remote = match entry.work {
            Work::Write => line.manner.writes,
            Work::Read => line.manner.reads,
            Work::Send | Work::Receive => Some(0),
        };
        if remote.is_none() {
            entry.wrong = abi::STATUS_RDMA_PROT_ERROR;
        }
        if entry.wrong != 0 {
            let error = entry.wrong;
            self.fail(core, (id, side, number), error, Some(Why::BadDescriptor));
            return true;
        }
        let operation = Operation::Descriptor {
            vi: id,
            side,
            number,
        };
        let key = remote.map_or(0, |secret| memory::key(secret, entry.remote.1));
        let slot = self.operations.vacant_entry();
        let ticket = Ticket {
            context: slot.key(),
            flags: 0,
        };
        // SAFETY: the pieces lie in memory that the program has registered for as long as the descriptor is not done, or
        // between it and the endpoint, as long.
        match unsafe { post(core, entry, &attributes, &line, key, ticket) } {
            Ok(()) => {
                let operation_key = ticket.context;
                slot.insert(operation);
                vi.queue(side).begin(operation_key);
                true
            }
            Err(PostError::Again) => {
                self.stalled.push(id);
                false
            }
            Err(_) => {
                let error = abi::STATUS_TRANSPORT_ERROR;
                self.fail(core, (id, side, number), error, Some(Why::BadDescriptor));
                true
            }
        }
    }

    /// A descriptor has ended with an error. On a reliable line that ends the line, and the other end is told why.
    pub fn fail(
        &mut self,
        core: &mut dyn Core,
        (id, side, number): (u32, Side, u64),
        error: u32,
        why: Option<Why>,
    ) {
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        let is_reliable = vi.attributes.is_reliable();
        if let Some(kind) = vi.queue(side).get_mut(number).map(|entry| entry.kind()) {
            vi.queue(side).end(number, Ending::of(kind | error));
        }
        if is_reliable {
            self.break_line(core, id, why);
        }
        self.tell(id, side);
    }

    /// Tells the peer of a write that has immediate data, now that its bytes are there.
    pub fn note(&mut self, core: &mut dyn Core, id: u32, number: u64) {
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        let Some(line) = vi.line else {
            return;
        };
        let Some(entry) = vi.sends.get_mut(number) else {
            return;
        };
        let label = Label {
            immediate: entry.immediate,
            written: Some(entry.bytes),
        };
        let until = until(&vi.attributes);
        let posted = self.post(Operation::Note { vi: id, number }, |context| {
            let send = Send {
                to: line.peer,
                tag: Some(tag_content(line.theirs)),
                data: Some(label.to_data()),
                pieces: &[],
                inject: false,
                until,
                ticket: Ticket { context, flags: 0 },
            };
            // SAFETY: there are no pieces.
            unsafe { core.send(&send) }
        });
        match posted {
            Ok(_) => {}
            Err(PostError::Again) => self.owed_notes.push((id, number)),
            Err(_) => {
                let error = abi::STATUS_TRANSPORT_ERROR;
                self.fail(core, (id, Side::Send, number), error, None);
            }
        }
    }
}

/// When a message counts as sent: where reception is reliable, when it is in its descriptor's memory.
const fn until(attributes: &Attributes) -> Until {
    match attributes.reliability {
        abi::SERVICE_RELIABLE_RECEPTION => Until::Delivered,
        _ => Until::Reusable,
    }
}

/// Gives a descriptor to the endpoint.
///
/// # Safety
/// As of the operations of [`Core`].
unsafe fn post(
    core: &mut dyn Core,
    entry: &mut Entry,
    attributes: &Attributes,
    line: &Line,
    key: u64,
    ticket: Ticket,
) -> Result<(), PostError> {
    let mut between = Piece {
        base: core::ptr::null_mut(),
        bytes: 0,
    };
    if entry.pieces.len() > PIECES_MAX {
        let bytes = u64::from(entry.bytes).min(TRANSFER_BYTES_MAX) as usize;
        let buffer = entry.between.get_or_insert_with(|| vec![0; bytes].into());
        if matches!(entry.work, Work::Send | Work::Write) {
            // SAFETY: the pieces are readable, as the caller promises.
            unsafe { gather(&entry.pieces, buffer) };
        }
        between = Piece {
            base: buffer.as_mut_ptr(),
            bytes: buffer.len(),
        };
    }
    let pieces = match entry.between {
        Some(_) => core::slice::from_ref(&between),
        None => &entry.pieces[..],
    };
    let transfer = Transfer {
        peer: line.peer,
        remote: Remote {
            offset: entry.remote.0,
            key,
        },
        pieces,
        data: None,
        inject: false,
        ticket,
    };
    // SAFETY: as the caller promises.
    unsafe {
        match entry.work {
            Work::Write => core.write(&transfer),
            Work::Read => core.read(&transfer),
            Work::Send => {
                let label = Label {
                    immediate: entry.immediate,
                    written: None,
                };
                core.send(&Send {
                    to: line.peer,
                    tag: Some(tag_content(line.theirs)),
                    data: Some(label.to_data()),
                    pieces,
                    inject: false,
                    until: until(attributes),
                    ticket,
                })
            }
            Work::Receive => core.receive(&Receive {
                from: Some(line.peer),
                tag: Some((tag_content(line.own), 0)),
                pieces,
                multi: None,
                ticket,
            }),
        }
    }
}

/// Copies the content of the pieces.
///
/// # Safety
/// They are readable.
unsafe fn gather(pieces: &[Piece], mut into: &mut [u8]) {
    for piece in pieces {
        let (part, rest) = into.split_at_mut(piece.bytes.min(into.len()));
        // SAFETY: as the caller promises; a buffer of the library's and the program's memory do not overlap.
        unsafe {
            part.as_mut_ptr()
                .copy_from_nonoverlapping(piece.base, part.len())
        };
        into = rest;
    }
}

/// Copies to the pieces, as much as finds room.
///
/// # Safety
/// They are writable.
pub unsafe fn scatter(pieces: &[Piece], mut from: &[u8]) {
    for piece in pieces {
        let (part, rest) = from.split_at(piece.bytes.min(from.len()));
        // SAFETY: as above.
        unsafe { (piece.base).copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        from = rest;
    }
}

/// A receive's bytes at most: as many as a descriptor can say that there came.
const TRANSFER_ROOM_MAX: u64 = u32::MAX as u64;
