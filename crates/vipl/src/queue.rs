//! A queue of descriptors, for a VI's sends or receives. They are reported as done in the order of posting.

use std::collections::VecDeque;

use tabane_rank::Piece;

use crate::abi::{self, Descriptor};

/// The operation of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// A message is sent.
    Send,
    /// The peer's memory is written.
    Write,
    /// The peer's memory is read.
    Read,
    /// A message is received.
    Receive,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nothing is done yet.
    Waiting,
    /// The endpoint has it, as this operation.
    UnderWay(usize),
    /// It is over.
    Done,
}

/// The result that is written into the descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ending {
    /// `VIP_STATUS_…`, without `VIP_STATUS_DONE`.
    pub status: u32,
    /// Bytes that came.
    pub bytes: Option<u32>,
    /// Immediate data that came.
    pub immediate: Option<u32>,
}

impl Ending {
    /// With this status, and no data.
    pub const fn of(status: u32) -> Ending {
        Ending {
            status,
            bytes: None,
            immediate: None,
        }
    }
}

/// A posted descriptor. Its content was read when it was posted.
pub struct Entry {
    /// Its address.
    pub descriptor: *mut Descriptor,
    /// Its operation.
    pub work: Work,
    /// Not before all that was posted earlier is done.
    pub is_fenced: bool,
    /// Goes with it.
    pub immediate: Option<u32>,
    /// The memory here.
    pub pieces: Vec<Piece>,
    /// A copy between memory and endpoint, if that takes fewer pieces.
    pub between: Option<Box<[u8]>>,
    /// The memory of the peer's: address and handle.
    pub remote: (u64, u32),
    /// Bytes sent, or received at most.
    pub bytes: u32,
    /// Regions that it uses, by handle.
    pub regions: Vec<u32>,
    /// Its error (`VIP_STATUS_…`): it fails in its turn.
    pub wrong: u32,
    /// How far it is.
    pub progress: Progress,
    /// How it ended.
    pub ending: Ending,
}

// SAFETY: the pointers are the program's memory, which it has lent to the library until the descriptor is done.
unsafe impl Send for Entry {}

impl Entry {
    /// The kind of operation, as its status has it.
    pub const fn kind(&self) -> u32 {
        match self.work {
            Work::Send => abi::STATUS_OP_SEND,
            Work::Write => abi::STATUS_OP_RDMA_WRITE,
            Work::Read => abi::STATUS_OP_RDMA_READ,
            Work::Receive => abi::STATUS_OP_RECEIVE,
        }
    }

    /// Reports to the program, through the descriptor. The status is written last: whoever waits for it sees the rest.
    fn write(&self) {
        let Ending {
            status,
            bytes,
            immediate,
        } = self.ending;
        // SAFETY: the descriptor is in memory that the program has registered (checked when it was posted) and that stays
        // registered while it is posted; nobody else writes to it until it is done.
        unsafe {
            let control = &raw mut (*self.descriptor).control;
            if let Some(bytes) = bytes {
                (&raw mut (*control).bytes).write_volatile(bytes);
            }
            if let Some(immediate) = immediate {
                (&raw mut (*control).immediate).write_volatile(immediate);
            }
            std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
            (&raw mut (*control).status).write_volatile(status | abi::STATUS_DONE);
        }
    }
}

/// A callback for the next descriptor.
#[derive(Clone, Copy)]
pub struct Notice {
    /// Comes back.
    pub context: usize,
    /// The callback.
    pub handler: abi::ViCallback,
}

/// The queue: reported descriptors, ended or active ones, and waiting ones.
#[derive(Default)]
pub struct Queue {
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    /// So many of the first were told of and not fetched.
    told: usize,
    /// So many do not wait.
    begun: usize,
    /// Writes to memory that are under way.
    writes: usize,
    /// Number of other active operations.
    others: usize,
    /// The completion queue that also gets its reports.
    pub cq: Option<u32>,
    /// The callback for the next.
    pub notice: Option<Notice>,
}

impl Queue {
    /// One that tells this completion queue.
    pub fn new(cq: Option<u32>) -> Queue {
        Queue {
            cq,
            ..Queue::default()
        }
    }

    /// How many are in it.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds one that waits.
    pub fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
    }

    /// The next that waits, with its number, if its turn has come.
    pub fn next(&mut self) -> Option<(u64, &mut Entry)> {
        let (writes, others) = (self.writes > 0, self.others > 0);
        let number = self.first + self.begun as u64;
        let entry = self.entries.get_mut(self.begun)?;
        let waits = match entry.work {
            Work::Receive => false,
            // It is reported only when it is the oldest.
            _ if entry.wrong != 0 || entry.is_fenced => writes || others,
            // Their word follows the bytes, and has to be in order.
            Work::Write => entry.immediate.is_some() && writes,
            Work::Send | Work::Read => writes,
        };
        (!waits).then_some((number, entry))
    }

    /// The next that waits is under way, as this operation.
    pub fn begin(&mut self, operation: usize) {
        if let Some(entry) = self.entries.get_mut(self.begun) {
            entry.progress = Progress::UnderWay(operation);
            self.begun += 1;
            match entry.work {
                Work::Write => self.writes += 1,
                _ => self.others += 1,
            }
        }
    }

    /// The one of this number.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Entry> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get_mut(index)
    }

    /// One that was under way is over; it waited if it is the next.
    pub fn end(&mut self, number: u64, ending: Ending) {
        let is_next = number == self.first + self.begun as u64;
        let Some(entry) = self.get_mut(number) else {
            return;
        };
        let (progress, work) = (entry.progress, entry.work);
        entry.progress = Progress::Done;
        entry.ending = ending;
        match (progress, work) {
            (Progress::UnderWay(_), Work::Write) => self.writes -= 1,
            (Progress::UnderWay(_), _) => self.others -= 1,
            (Progress::Waiting, _) if is_next => self.begun += 1,
            _ => {}
        }
    }

    /// All waiting descriptors end with this error; returns those that are active, which have this error unless they get a
    /// better one.
    pub fn flush(&mut self, error: u32) -> Vec<usize> {
        let mut under_way = Vec::new();
        for entry in &mut self.entries {
            match entry.progress {
                Progress::Waiting => {
                    entry.progress = Progress::Done;
                    entry.ending = Ending::of(entry.kind() | error);
                }
                Progress::UnderWay(operation) => {
                    under_way.push(operation);
                    if entry.wrong == 0 {
                        entry.wrong = error;
                    }
                }
                Progress::Done => {}
            }
        }
        self.begun = self.entries.len();
        under_way
    }

    /// The other end did not accept what is active: `first` is the error of the oldest, the others are only flushed.
    pub fn blame(&mut self, first: u32) {
        let mut error = first;
        for entry in &mut self.entries {
            if matches!(entry.progress, Progress::UnderWay(_)) {
                entry.wrong = error;
                error = abi::STATUS_DESC_FLUSHED_ERROR;
            }
        }
    }

    /// Whether some are under way.
    pub fn is_under_way(&self) -> bool {
        self.writes + self.others > 0
    }

    /// Tells the program of the next that is over, if all before it are. The regions that it has used.
    pub fn tell(&mut self) -> Option<Vec<u32>> {
        let entry = self.entries.get_mut(self.told)?;
        if entry.progress != Progress::Done {
            return None;
        }
        entry.write();
        self.told += 1;
        Some(core::mem::take(&mut entry.regions))
    }

    /// Removes the oldest, if it was reported: the descriptor, and whether it succeeded.
    pub fn fetch(&mut self) -> Option<(*mut Descriptor, bool)> {
        self.told = self.told.checked_sub(1)?;
        self.begun -= 1;
        self.first += 1;
        let entry = self.entries.pop_front()?;
        let is_well = entry.ending.status & abi::STATUS_ERROR_MASK == 0;
        Some((entry.descriptor, is_well))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(descriptor: &mut Descriptor, work: Work) -> Entry {
        Entry {
            descriptor,
            work,
            is_fenced: false,
            immediate: None,
            pieces: Vec::new(),
            between: None,
            remote: (0, 0),
            bytes: 0,
            regions: vec![7],
            wrong: 0,
            progress: Progress::Waiting,
            ending: Ending::default(),
        }
    }

    fn descriptor() -> Descriptor {
        let segment = abi::Segment {
            address: 0,
            handle: 0,
            bytes: 0,
        };
        Descriptor {
            control: abi::ControlSegment {
                next: 0,
                next_handle: 0,
                segments: 0,
                control: 0,
                reserved: 0,
                immediate: 3,
                bytes: 9,
                status: 0,
            },
            segments: [segment; 2],
        }
    }

    #[test]
    fn they_are_told_of_in_the_order_they_were_posted() {
        let (mut a, mut b) = (descriptor(), descriptor());
        let mut queue = Queue::default();
        queue.push(entry(&mut a, Work::Receive));
        queue.push(entry(&mut b, Work::Receive));
        queue.begin(1);
        queue.begin(2);
        assert!(queue.next().is_none() && queue.is_under_way());
        let ending = Ending {
            status: abi::STATUS_OP_RECEIVE | abi::STATUS_IMMEDIATE,
            bytes: Some(5),
            immediate: Some(6),
        };
        queue.end(1, ending);
        assert!(queue.tell().is_none() && queue.fetch().is_none());
        queue.end(
            0,
            Ending::of(abi::STATUS_OP_RECEIVE | abi::STATUS_LENGTH_ERROR),
        );
        assert!(!queue.is_under_way());
        assert_eq!(queue.tell(), Some(vec![7]));
        assert_eq!(queue.tell(), Some(vec![7]));
        assert_eq!(queue.tell(), None);
        assert_eq!(queue.fetch(), Some((&raw mut a, false)));
        assert_eq!(queue.fetch(), Some((&raw mut b, true)));
        assert!(queue.fetch().is_none() && queue.is_empty());
        assert_eq!(a.control.status, 0x10009);
        assert_eq!((a.control.bytes, a.control.immediate), (9, 3));
        assert_eq!(b.control.status, 0x90001);
        assert_eq!((b.control.bytes, b.control.immediate), (5, 6));
        assert!(queue.get_mut(0).is_none());
    }

    #[test]
    fn what_follows_a_write_waits_for_it() {
        let mut places: Vec<_> = (0..5).map(|_| descriptor()).collect();
        let mut queue = Queue::default();
        let [w, v, immediate, s, fenced] = &mut places[..] else {
            panic!("there are five");
        };
        queue.push(entry(w, Work::Write));
        queue.push(entry(v, Work::Write));
        queue.push(Entry {
            immediate: Some(1),
            ..entry(immediate, Work::Write)
        });
        queue.push(entry(s, Work::Send));
        queue.push(Entry {
            is_fenced: true,
            ..entry(fenced, Work::Send)
        });
        let mut begun = 0;
        let mut ended = Vec::new();
        for end in [1, 0, 2, 3] {
            while queue.next().is_some() {
                queue.begin(begun);
                begun += 1;
            }
            ended.push(begun);
            queue.end(end, Ending::default());
        }
        assert_eq!(ended, [2, 2, 3, 4]);
        assert!(queue.next().is_some());
        assert!(queue.flush(abi::STATUS_DESC_FLUSHED_ERROR).is_empty());
        assert!(queue.next().is_none());
    }
}
