//! Event queues: completions without data, and events that the program writes itself.

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tabane_io::notify::Notify;

use crate::abi::constants as c;
use crate::abi::errors::{self, Errno, Outcome};
use crate::abi::fabric::{Fid, FidOps, Info};
use crate::abi::queues::{EqAttr, EqCmEntry, EqEntry, EqErrEntry, EqOps, FidEq};
use crate::fabric::Fabric;
use crate::object::{self, Face, Held, Object, Users};
use crate::waiting::Waiter;
use crate::{allocate, guard, words};

/// The most unread events.
const EVENTS_MAX: usize = 1 << 16;
/// Bytes of one event that a program writes.
const EVENT_BYTES_MAX: usize = 1 << 12;
/// The object of `fi_eq_open`.
#[repr(C)]
pub struct EventQueue {
    face: Face<FidEq>,
    users: Users,
    fabric: Held<Fabric>,
    state: Mutex<State>,
    /// The waiter for its endpoints.
    waiter: Waiter,
    /// Readable while there is something to read.
    ready: Option<Notify>,
    is_written: bool,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    errors: VecDeque<Failed>,
    /// Data of the last error: kept until the next is read.
    about: Vec<u8>,
}

/// Something that happened.
struct Event {
    number: u32,
    /// To which object; 0: the program has written it.
    fid: usize,
    bytes: Vec<u8>,
    /// The program must have room for this many bytes.
    least: usize,
    /// Information about a caller, until the program has it.
    info: Option<Unread>,
}

/// Memory that the program must free, once it has it.
struct Unread(*mut Info);

// SAFETY: it is the C library's memory, and nobody else's.
unsafe impl Send for Unread {}

impl Drop for Unread {
    fn drop(&mut self) {
        // SAFETY: the program was not given it.
        unsafe { allocate::free(self.0) };
    }
}

/// Something that failed.
#[derive(Clone)]
struct Failed {
    fid: usize,
    context: usize,
    data: u64,
    errno: Errno,
    prov_errno: c_int,
    about: Vec<u8>,
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

    /// Nothing is left: waiters sleep again.
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
        self.put(Event {
            number: c::AV_COMPLETE,
            fid: av,
            bytes: bytes_of(&entry),
            least: size_of::<EqEntry>(),
            info: None,
        });
    }

    /// An address could not be inserted: the one of this number in its array.
    pub fn not_inserted(&self, av: usize, context: usize, index: u64, errno: Errno) {
        self.put_error(Failed {
            fid: av,
            context,
            data: index,
            errno,
            prov_errno: 0,
            about: Vec::new(),
        });
    }

    /// An event of a connection, with the other end's data. The program must free the information.
    pub fn connection(&self, number: u32, fid: usize, info: *mut Info, data: &[u8]) {
        let entry = EqCmEntry {
            fid: fid as *mut Fid,
            info,
        };
        let mut bytes = bytes_of(&entry);
        bytes.extend_from_slice(data);
        self.put(Event {
            number,
            fid,
            bytes,
            // Data for which the program has no room is cut off.
            least: size_of::<EqCmEntry>(),
            info: (!info.is_null()).then(|| Unread(info)),
        });
    }

    /// A connection was not made.
    pub fn not_connected(&self, fid: usize, (errno, prov_errno): (Errno, c_int), about: &[u8]) {
        self.put_error(Failed {
            fid,
            context: 0,
            data: 0,
            errno,
            prov_errno,
            about: about.to_vec(),
        });
    }

    fn put(&self, event: Event) {
        self.state().events.push_back(event);
        self.rang();
    }

    fn put_error(&self, failed: Failed) {
        self.state().errors.push_back(failed);
        self.rang();
    }

    /// An object is closed: nothing more is reported about it.
    pub fn forget(&self, fid: usize) {
        let mut state = self.state();
        state.events.retain(|event| event.fid != fid);
        state.errors.retain(|failed| failed.fid != fid);
        self.settle(&state);
    }

    /// The waiter for its endpoints.
    pub fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    /// Whether there is nothing to read, so that the caller may wait.
    pub fn may_wait(&self) -> bool {
        self.waiter.progress();
        self.waiter.may_sleep(|| !self.state().is_empty())
    }

    fn read(&self, room: &mut [u8], flags: u64) -> Outcome<(u32, usize)> {
        if self.state().is_empty() {
            self.waiter.progress();
        }
        let mut state = self.state();
        if !state.errors.is_empty() {
            return Err(errors::AVAIL);
        }
        let event = state.events.front().ok_or(errors::AGAIN)?;
        let bytes = event.bytes.len().min(room.len());
        if bytes < event.least {
            return Err(errors::TOOSMALL);
        }
        room[..bytes].copy_from_slice(&event.bytes[..bytes]);
        let read = (event.number, bytes);
        if flags & c::PEEK == 0 {
            // Its pointer is the program's now.
            core::mem::forget(state.events.pop_front().and_then(|event| event.info));
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
        if self.ready.is_none() {
            return Err(errors::NOSYS);
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            match self.read(room, flags) {
                Err(errors::AGAIN) => {}
                read => return read,
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(errors::AGAIN);
            }
            if self.may_wait() {
                self.waiter.sleep(left);
            }
        }
    }

    fn read_error(&self, flags: u64) -> Outcome<Failed> {
        let mut state = self.state();
        let failed = match flags & c::PEEK {
            0 => state.errors.pop_front(),
            _ => state.errors.front().cloned(),
        };
        self.settle(&state);
        failed.ok_or(errors::AGAIN)
    }

    /// Writes the error's data into the program's buffer if it has one, else into one of the queue's.
    ///
    /// # Safety
    /// The place is valid; its `err_data` is a buffer of the given size, or the size is 0.
    unsafe fn tell_about(&self, place: *mut EqErrEntry, about: Vec<u8>, has_size: bool) {
        // SAFETY: as above; the size is there since 1.5.
        unsafe {
            let room = match has_size {
                true => (*place).err_data_size,
                false => 0,
            };
            let buffer = (*place).err_data.cast::<u8>();
            let told = if room > 0 && !buffer.is_null() {
                let fit = room.min(about.len());
                buffer.copy_from_nonoverlapping(about.as_ptr(), fit);
                fit
            } else {
                let mut state = self.state();
                state.about = about;
                (*place).err_data = match state.about.is_empty() {
                    true => core::ptr::null_mut(),
                    false => state.about.as_mut_ptr().cast(),
                };
                state.about.len()
            };
            if has_size {
                (*place).err_data_size = told;
            }
        }
    }

    fn write(&self, event: u32, bytes: &[u8]) -> Outcome<usize> {
        if !self.is_written || bytes.len() > EVENT_BYTES_MAX {
            return Err(errors::INVAL);
        }
        let mut state = self.state();
        if state.events.len() >= EVENTS_MAX {
            return Err(errors::AGAIN);
        }
        state.events.push_back(Event {
            number: event,
            fid: 0,
            bytes: bytes.to_vec(),
            least: bytes.len(),
            info: None,
        });
        drop(state);
        self.rang();
        Ok(bytes.len())
    }
}

/// A structure that C is given as bytes.
fn bytes_of<T: Copy>(entry: &T) -> Vec<u8> {
    // SAFETY: the structures here are of pointers and 64-bit numbers, without gaps.
    unsafe { core::slice::from_raw_parts((&raw const *entry).cast::<u8>(), size_of::<T>()) }
        .to_vec()
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
    let waiter = Waiter::new(wait_object)?;
    let ready = match waiter.can_sleep() {
        true => Some(Notify::new().map_err(|_| errors::NOMEM)?),
        false => None,
    };
    if let Some(ready) = &ready {
        waiter.watch(ready)?;
    }
    let queue = EventQueue {
        face: Face::new(FidEq {
            fid: object::fid::<EventQueue>(context, &FID_OPS),
            ops: &raw const OPS,
        }),
        users: Users::default(),
        fabric,
        state: Mutex::default(),
        waiter,
        ready,
        is_written: attr.is_some_and(|attr| attr.flags & c::WRITE != 0),
    };
    // SAFETY: as above.
    unsafe { object::give(place, Arc::new(queue)) }
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a queue of ours, and a place of the type that the command has.
        unsafe {
            let queue = object::object::<EventQueue>(fid.cast())?;
            match command {
                c::GETWAIT => guard::put(argument.cast(), queue.waiter.descriptor()?),
                c::GETWAITOBJ => guard::put(argument.cast(), queue.waiter.wait_object()),
                _ => Err(errors::NOSYS),
            }
        }
    })
}

/// C's room for an event.
///
/// # Safety
/// It is null, or has `len` bytes that are nobody else's for `'a`.
unsafe fn room<'a>(buffer: *mut c_void, len: usize) -> Outcome<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if buffer.is_null() || len > isize::MAX as usize {
        return Err(errors::INVAL);
    }
    // SAFETY: as above; bytes that C never wrote are only written to.
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
            (*place).prov_errno = failed.prov_errno;
            let has_size = queue.fabric.api_version() >= c::version(1, 5);
            queue.tell_about(place, failed.about, has_size);
            Ok(match has_size {
                true => size_of::<EqErrEntry>(),
                false => offset_of!(EqErrEntry, err_data_size),
            })
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
