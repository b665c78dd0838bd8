//! Completion queues.

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::abi::constants as c;
use crate::abi::errors::{self, Errno, Outcome};
use crate::abi::fabric::{Fid, FidOps};
use crate::abi::queues::{CqAttr, CqErrEntry, CqOps, CqTaggedEntry, FidCq};
use crate::domain::Domain;
use crate::object::{self, Face, Held, Object, Users};
use crate::waiting::Waiter;
use crate::{guard, words};

/// The most unread completions: beyond it, completions stay in the endpoints, which accept no more work. The size
/// that a program asks for is only the initial one.
const ENTRIES_MAX: usize = 1 << 20;

/// The object of `fi_cq_open`.
#[repr(C)]
pub struct Queue {
    face: Face<FidCq>,
    users: Users,
    domain: Held<Domain>,
    state: Mutex<State>,
    /// How many completions wait, for a look without the lock.
    waiting: AtomicUsize,
    /// Bytes of a completion as the program wants it.
    entry_bytes: usize,
    waiter: Waiter,
    /// `fi_cq_signal` was called, and no waiter has woken up yet.
    is_signalled: AtomicBool,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    /// Data of the last error: kept until the queue is read again.
    about: Vec<u8>,
}

/// A completion.
pub struct Entry {
    pub context: usize,
    pub flags: u64,
    pub len: usize,
    pub buffer: usize,
    pub data: u64,
    pub tag: u64,
    /// Whom it came from, as the address vector numbers it.
    pub source: u64,
    /// Why it failed.
    pub wrong: Option<Box<Wrong>>,
}

/// Details of a failure.
pub struct Wrong {
    pub errno: Errno,
    pub prov_errno: c_int,
    /// Bytes that found no room.
    pub cut_off: usize,
    pub about: Vec<u8>,
}

// SAFETY: the first field is a Face of a FidCq, which begins with a Fid.
unsafe impl Object for Queue {
    const CLASS: usize = c::CLASS_CQ;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Queue {
    /// The waiter for its endpoints.
    pub fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    /// The program's context for it.
    pub fn context(&self) -> *mut c_void {
        self.face.context()
    }

    /// Whether it belongs to this domain.
    pub fn is_of(&self, domain: &Held<Domain>) -> bool {
        self.domain.is(domain.shared())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more.
    pub fn put(&self, entry: Entry) {
        let mut state = self.state();
        state.entries.push_back(entry);
        self.waiting.store(state.entries.len(), Ordering::Relaxed);
        drop(state);
        self.waiter.ring();
    }

    /// Whether it takes no more now.
    pub fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= ENTRIES_MAX
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Whether there is nothing to read, so that the caller may wait.
    pub fn may_wait(&self) -> bool {
        self.waiter.progress();
        let is_there = || !self.is_empty() || self.is_signalled.load(Ordering::SeqCst);
        self.waiter.may_sleep(is_there)
    }

    /// Copies completions into the program's arrays; returns their number.
    ///
    /// # Safety
    /// There is room for `count` of them at `buffer`, and for as many addresses at `sources` unless that is null;
    /// nobody else uses both now.
    unsafe fn read(&self, buffer: *mut c_void, count: usize, sources: *mut u64) -> Outcome<usize> {
        if count > 0 && buffer.is_null() {
            return Err(errors::INVAL);
        }
        if self.is_empty() {
            self.waiter.progress();
        }
        let mut state = self.state();
        let mut read = 0;
        while read < count {
            let Some(entry) = state.next(false) else {
                break;
            };
            let whole = entry.whole();
            // SAFETY: as above: `read` is below `count`.
            unsafe {
                let place = buffer.cast::<u8>().add(read * self.entry_bytes);
                place.copy_from_nonoverlapping((&raw const whole).cast(), self.entry_bytes);
                if !sources.is_null() {
                    sources.add(read).write_unaligned(entry.source);
                }
            }
            read += 1;
        }
        self.waiting.store(state.entries.len(), Ordering::Relaxed);
        if read > 0 {
            return Ok(read);
        }
        match state.entries.front() {
            None => Err(errors::AGAIN),
            Some(entry) if entry.wrong.is_some() => Err(errors::AVAIL),
            // The program reads none, to see whether there is one.
            Some(_) => Ok(0),
        }
    }

    /// As [`read`](Queue::read), and waits for the first.
    ///
    /// # Safety
    /// As there.
    unsafe fn sread(
        &self,
        buffer: *mut c_void,
        count: usize,
        sources: *mut u64,
        timeout: Option<Duration>,
    ) -> Outcome<usize> {
        if !self.waiter.can_sleep() {
            return Err(errors::NOSYS);
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            // SAFETY: as above.
            match unsafe { self.read(buffer, count, sources) } {
                Err(errors::AGAIN) => {}
                read => return read,
            }
            if self.is_signalled.swap(false, Ordering::SeqCst) {
                return Err(errors::AGAIN);
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

    /// The first completion, if it failed.
    fn read_error(&self) -> Outcome<Entry> {
        if self.is_empty() {
            self.waiter.progress();
        }
        let mut state = self.state();
        let failed = state.next(true);
        self.waiting.store(state.entries.len(), Ordering::Relaxed);
        failed.ok_or(errors::AGAIN)
    }

    /// Writes the error's data into the program's buffer if it has one, else into one of the queue's.
    ///
    /// # Safety
    /// The place is valid; its `err_data` is a buffer of the given size, or the size is 0.
    unsafe fn tell_about(&self, place: *mut CqErrEntry, about: &[u8], api_version: u32) {
        // SAFETY: as above; the size is there since 1.5.
        unsafe {
            if api_version < c::version(1, 5) {
                (*place).err_data = core::ptr::null_mut();
                return;
            }
            let room = (*place).err_data_size;
            let buffer = (*place).err_data.cast::<u8>();
            if room > 0 && !buffer.is_null() {
                let fit = room.min(about.len());
                buffer.copy_from_nonoverlapping(about.as_ptr(), fit);
                (*place).err_data_size = fit;
                return;
            }
            let mut state = self.state();
            state.about = about.to_vec();
            (*place).err_data = match about.is_empty() {
                true => core::ptr::null_mut(),
                false => state.about.as_mut_ptr().cast(),
            };
            (*place).err_data_size = about.len();
        }
    }
}

impl State {
    /// The first completion, if it is of this kind.
    fn next(&mut self, is_failure: bool) -> Option<Entry> {
        let first = self.entries.front()?;
        if first.wrong.is_some() == is_failure {
            self.entries.pop_front()
        } else {
            None
        }
    }
}

impl Entry {
    fn whole(&self) -> CqTaggedEntry {
        CqTaggedEntry {
            op_context: self.context as *mut c_void,
            flags: self.flags,
            len: self.len,
            buf: self.buffer as *mut c_void,
            data: self.data,
            tag: self.tag,
        }
    }
}

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: object::close::<Queue>,
    bind: guard::no_bind,
    control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

static OPS: CqOps = CqOps {
    size: size_of::<CqOps>(),
    read,
    readfrom,
    readerr,
    sread,
    sreadfrom,
    signal,
    strerror,
    export_xpu: guard::absent,
};

/// `fi_cq_open`.
///
/// # Safety
/// The attributes and the place are null or valid.
pub unsafe fn open(
    domain: Held<Domain>,
    attr: *const CqAttr,
    place: *mut *mut FidCq,
    context: *mut c_void,
) -> Outcome<()> {
    // SAFETY: as above. No field is read that came after 1.17.
    let attr = unsafe { attr.as_ref() };
    let entry_bytes = match attr.map_or(c::CQ_FORMAT_UNSPEC, |attr| attr.format) {
        c::CQ_FORMAT_CONTEXT => offset_of!(CqTaggedEntry, flags),
        c::CQ_FORMAT_MSG => offset_of!(CqTaggedEntry, buf),
        c::CQ_FORMAT_DATA => offset_of!(CqTaggedEntry, tag),
        c::CQ_FORMAT_UNSPEC | c::CQ_FORMAT_TAGGED => size_of::<CqTaggedEntry>(),
        _ => return Err(errors::NOSYS),
    };
    let queue = Queue {
        face: Face::new(FidCq {
            fid: object::fid::<Queue>(context, &FID_OPS),
            ops: &raw const OPS,
        }),
        users: Users::default(),
        domain,
        state: Mutex::default(),
        waiting: AtomicUsize::new(0),
        entry_bytes,
        waiter: Waiter::new(attr.map_or(c::WAIT_NONE, |attr| attr.wait_obj))?,
        is_signalled: AtomicBool::new(false),
    };
    // SAFETY: as above.
    unsafe { object::give(place, Arc::new(queue)) }
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a queue of ours, and a place of the type that the command has.
        unsafe {
            let waiter = object::object::<Queue>(fid.cast())?.waiter();
            match command {
                c::GETWAIT => guard::put(argument.cast(), waiter.descriptor()?),
                c::GETWAITOBJ => guard::put(argument.cast(), waiter.wait_object()),
                _ => Err(errors::NOSYS),
            }
        }
    })
}

unsafe extern "C" fn read(queue: *mut FidCq, buffer: *mut c_void, count: usize) -> isize {
    // SAFETY: as of the same without addresses.
    unsafe { readfrom(queue, buffer, count, core::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    queue: *mut FidCq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut u64,
) -> isize {
    guard::size(|| {
        // SAFETY: C gives a queue of ours, and arrays with room for so many.
        unsafe { object::object::<Queue>(queue.cast())?.read(buffer, count, sources) }
    })
}

unsafe extern "C" fn sread(
    queue: *mut FidCq,
    buffer: *mut c_void,
    count: usize,
    condition: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: as of the same without addresses.
    unsafe {
        sreadfrom(
            queue,
            buffer,
            count,
            core::ptr::null_mut(),
            condition,
            timeout,
        )
    }
}

unsafe extern "C" fn sreadfrom(
    queue: *mut FidCq,
    buffer: *mut c_void,
    count: usize,
    sources: *mut u64,
    _condition: *const c_void,
    timeout: c_int,
) -> isize {
    guard::size(|| {
        let timeout = words::timeout(timeout);
        // SAFETY: as above. The condition is a hint: a number of completions that are worth waking up for.
        unsafe { object::object::<Queue>(queue.cast())?.sread(buffer, count, sources, timeout) }
    })
}

unsafe extern "C" fn readerr(queue: *mut FidCq, place: *mut CqErrEntry, _flags: u64) -> isize {
    guard::size(|| {
        // SAFETY: C gives a queue of ours, and a place with the fields that its version has.
        unsafe {
            let queue = object::object::<Queue>(queue.cast())?;
            if place.is_null() {
                return Err(errors::INVAL);
            }
            let entry = queue.read_error()?;
            let wrong = entry.wrong.as_deref().ok_or(errors::AGAIN)?;
            let version = queue.domain.api_version();
            (*place).op_context = entry.context as *mut c_void;
            (*place).flags = entry.flags;
            (*place).len = entry.len;
            (*place).buf = entry.buffer as *mut c_void;
            (*place).data = entry.data;
            (*place).tag = entry.tag;
            (*place).olen = wrong.cut_off;
            (*place).err = wrong.errno.0;
            (*place).prov_errno = wrong.prov_errno;
            queue.tell_about(place, &wrong.about, version);
            if version >= c::version(1, 20) {
                (*place).src_addr = entry.source;
            }
            Ok(1)
        }
    })
}

unsafe extern "C" fn signal(queue: *mut FidCq) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a queue of ours.
        let queue = unsafe { object::object::<Queue>(queue.cast()) }?;
        if !queue.waiter.can_sleep() {
            return Err(errors::NOSYS);
        }
        queue.is_signalled.store(true, Ordering::SeqCst);
        queue.waiter.ring();
        Ok(())
    })
}

unsafe extern "C" fn strerror(
    _queue: *mut FidCq,
    prov_errno: c_int,
    _data: *const c_void,
    buffer: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: C gives a buffer of its own, or none.
    unsafe { words::explain(prov_errno, buffer, len) }
}
