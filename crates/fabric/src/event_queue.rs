//! Event queues: what ended that carries no data, and what the program writes there itself.

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tabane_io::notify::Notify;

use crate::abi::constants as c;
use crate::abi::errors::{self, Errno, Outcome};
use crate::abi::fabric::{Fid, FidOps};
use crate::abi::queues::{EqAttr, EqEntry, EqErrEntry, EqOps, FidEq};
use crate::fabric::Fabric;
use crate::object::{self, Face, Held, Object, Users};
use crate::{guard, words};

/// Events that nobody has read, at most.
const EVENTS_MAX: usize = 1 << 16;
/// Bytes of one event that a program writes.
const EVENT_BYTES_MAX: usize = 1 << 12;
/// The longest that is slept without looking again.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// What `fi_eq_open` gives.
#[repr(C)]
pub struct EventQueue {
    face: Face<FidEq>,
    users: Users,
    fabric: Held<Fabric>,
    state: Mutex<State>,
    /// Readable while there is something to read.
    ready: Option<Notify>,
    is_written: bool,
    wait_object: u32,
}

#[derive(Default)]
struct State {
    events: VecDeque<(u32, Vec<u8>)>,
    errors: VecDeque<Failed>,
}

/// Something that failed.
struct Failed {
    fid: usize,
    context: usize,
    data: u64,
    errno: Errno,
}

// SAFETY: the first field is a Face of a FidEq, which begins with a Fid.
unsafe impl Object for EventQueue {
    const CLASS: usize = c::CLASS_EQ;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl EventQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rang(&self) {
        if let Some(ready) = &self.ready {
            ready.notify();
        }
    }

    /// Nothing is left: who waits sleeps again.
    fn settle(&self, state: &State) {
        if let (Some(ready), true) = (&self.ready, state.is_empty()) {
            ready.clear();
        }
    }

    /// So many addresses have been inserted.
    pub fn inserted(&self, av: usize, context: usize, count: u64) {
        let entry = EqEntry {
            fid: av as *mut Fid,
            context: context as *mut c_void,
            data: count,
        };
        // SAFETY: an EqEntry is 24 bytes without gaps.
        let bytes = unsafe {
            core::slice::from_raw_parts((&raw const entry).cast::<u8>(), size_of::<EqEntry>())
        };
        self.state()
            .events
            .push_back((c::AV_COMPLETE, bytes.to_vec()));
        self.rang();
    }

    /// An address could not be inserted: the one of this number in its array.
    pub fn not_inserted(&self, av: usize, context: usize, index: u64, errno: Errno) {
        self.state().errors.push_back(Failed {
            fid: av,
            context,
            data: index,
            errno,
        });
        self.rang();
    }

    /// Whether there is nothing to read, so that waiting is right.
    pub fn may_wait(&self) -> bool {
        self.state().is_empty()
    }

    fn read(&self, room: &mut [u8], flags: u64) -> Outcome<(u32, usize)> {
        let mut state = self.state();
        if !state.errors.is_empty() {
            return Err(errors::AVAIL);
        }
        let (event, bytes) = state.events.front().ok_or(errors::AGAIN)?;
        let place = room.get_mut(..bytes.len()).ok_or(errors::TOOSMALL)?;
        place.copy_from_slice(bytes);
        let read = (*event, bytes.len());
        if flags & c::PEEK == 0 {
            state.events.pop_front();
        }
        self.settle(&state);
        Ok(read)
    }

    fn sread(
        &self,
        room: &mut [u8],
        timeout: Option<Duration>,
        flags: u64,
    ) -> Outcome<(u32, usize)> {
        let ready = self.ready.as_ref().ok_or(errors::NOSYS)?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            match self.read(room, flags) {
                Err(errors::AGAIN) => {}
                read => return read,
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => SLEEP_MAX,
            };
            if left.is_zero() {
                return Err(errors::AGAIN);
            }
            tabane_io::poll::sleep(left.min(SLEEP_MAX), &[ready.as_fd()])
                .map_err(|_| errors::IO)?;
        }
    }

    fn read_error(&self, flags: u64) -> Outcome<Failed> {
        let mut state = self.state();
        let failed = match flags & c::PEEK {
            0 => state.errors.pop_front(),
            _ => state.errors.front().map(|failed| Failed { ..*failed }),
        };
        self.settle(&state);
        failed.ok_or(errors::AGAIN)
    }

    fn write(&self, event: u32, bytes: &[u8]) -> Outcome<usize> {
        if !self.is_written || bytes.len() > EVENT_BYTES_MAX {
            return Err(errors::INVAL);
        }
        let mut state = self.state();
        if state.events.len() >= EVENTS_MAX {
            return Err(errors::AGAIN);
        }
        state.events.push_back((event, bytes.to_vec()));
        drop(state);
        self.rang();
        Ok(bytes.len())
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.errors.is_empty()
    }
}

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: object::close::<EventQueue>,
    bind: guard::no_bind,
    control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

static OPS: EqOps = EqOps {
    size: size_of::<EqOps>(),
    read,
    readerr,
    write,
    sread,
    strerror,
};

/// `fi_eq_open`.
///
/// # Safety
/// The attributes and the place are null or valid.
pub unsafe fn open(
    fabric: Held<Fabric>,
    attr: *const EqAttr,
    place: *mut *mut FidEq,
    context: *mut c_void,
) -> Outcome<()> {
    // SAFETY: as above.
    let attr = unsafe { attr.as_ref() };
    let wait_object = attr.map_or(c::WAIT_NONE, |attr| attr.wait_obj);
    let ready = match wait_object {
        c::WAIT_NONE => None,
        c::WAIT_UNSPEC | c::WAIT_FD | c::WAIT_YIELD => {
            Some(Notify::new().map_err(|_| errors::NOMEM)?)
        }
        _ => return Err(errors::NOSYS),
    };
    let queue = EventQueue {
        face: Face::new(FidEq {
            fid: object::fid::<EventQueue>(context, &FID_OPS),
            ops: &raw const OPS,
        }),
        users: Users::default(),
        fabric,
        state: Mutex::default(),
        ready,
        is_written: attr.is_some_and(|attr| attr.flags & c::WRITE != 0),
        wait_object,
    };
    // SAFETY: as above.
    unsafe { object::give(place, Arc::new(queue)) }
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a queue of ours, and a place of the type that the command has.
        unsafe {
            let queue = object::object::<EventQueue>(fid.cast())?;
            match (command, &queue.ready) {
                (c::GETWAIT, Some(ready)) => guard::put(argument.cast(), ready.as_fd().as_raw_fd()),
                (c::GETWAIT, None) => Err(errors::NODATA),
                (c::GETWAITOBJ, _) => guard::put(argument.cast(), queue.wait_object),
                _ => Err(errors::NOSYS),
            }
        }
    })
}

/// The room that C gives for an event.
///
/// # Safety
/// It is null, or so many bytes that are nobody else's for `'a`.
unsafe fn room<'a>(buffer: *mut c_void, len: usize) -> Outcome<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if buffer.is_null() || len > isize::MAX as usize {
        return Err(errors::INVAL);
    }
    // SAFETY: as above; what C never wrote there is only written to.
    Ok(unsafe { core::slice::from_raw_parts_mut(buffer.cast(), len) })
}

unsafe extern "C" fn read(
    queue: *mut FidEq,
    event: *mut u32,
    buffer: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    guard::size(|| {
        // SAFETY: C gives a queue of ours, and its own places.
        unsafe {
            let queue = object::object::<EventQueue>(queue.cast())?;
            let (number, bytes) = queue.read(room(buffer, len)?, flags)?;
            guard::put(event, number)?;
            Ok(bytes)
        }
    })
}

unsafe extern "C" fn sread(
    queue: *mut FidEq,
    event: *mut u32,
    buffer: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    guard::size(|| {
        // SAFETY: as above.
        unsafe {
            let queue = object::object::<EventQueue>(queue.cast())?;
            let timeout = words::timeout(timeout);
            let (number, bytes) = queue.sread(room(buffer, len)?, timeout, flags)?;
            guard::put(event, number)?;
            Ok(bytes)
        }
    })
}

unsafe extern "C" fn readerr(queue: *mut FidEq, place: *mut EqErrEntry, flags: u64) -> isize {
    guard::size(|| {
        // SAFETY: as above. The last field is there since 1.5.
        unsafe {
            let queue = object::object::<EventQueue>(queue.cast())?;
            if place.is_null() {
                return Err(errors::INVAL);
            }
            let failed = queue.read_error(flags)?;
            (*place).fid = failed.fid as *mut Fid;
            (*place).context = failed.context as *mut c_void;
            (*place).data = failed.data;
            (*place).err = failed.errno.0;
            (*place).prov_errno = 0;
            (*place).err_data = core::ptr::null_mut();
            if queue.fabric.api_version() < c::version(1, 5) {
                return Ok(offset_of!(EqErrEntry, err_data_size));
            }
            (*place).err_data_size = 0;
            Ok(size_of::<EqErrEntry>())
        }
    })
}

unsafe extern "C" fn write(
    queue: *mut FidEq,
    event: u32,
    buffer: *const c_void,
    len: usize,
    _flags: u64,
) -> isize {
    guard::size(|| {
        // SAFETY: as above.
        unsafe {
            let queue = object::object::<EventQueue>(queue.cast())?;
            queue.write(event, guard::array(buffer.cast(), len)?)
        }
    })
}

unsafe extern "C" fn strerror(
    _queue: *mut FidEq,
    prov_errno: c_int,
    _data: *const c_void,
    buffer: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: C gives a buffer of its own, or none.
    unsafe { words::explain(prov_errno, buffer, len) }
}
