//! Poll sets: queues and counters that are asked together which of them has something. Of old programs only: libfabric 2
//! has given them up.

use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::constants as c;
use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::{Fid, FidOps};
use crate::abi::queues::{FidPoll, PollAttr, PollOps};
use crate::completions::Queue;
use crate::counter::Counter;
use crate::domain::Domain;
use crate::guard;
use crate::object::{self, Face, Held, Object, Users};

/// The object of `fi_poll_open`.
#[repr(C)]
pub struct PollSet {
    face: Face<FidPoll>,
    users: Users,
    _domain: Held<Domain>,
    members: Mutex<Vec<Member>>,
}

/// Something that is asked.
enum Member {
    Queue(Held<Queue>),
    /// A counter, and its two values when it was last polled.
    Counter(Held<Counter>, (u64, u64)),
}

// SAFETY: the first field is a Face of a FidPoll, which begins with a Fid.
unsafe impl Object for PollSet {
    const CLASS: usize = c::CLASS_POLL;

    fn users(&self) -> &Users {
        &self.users
    }

    fn closed(&self) {
        self.members().clear();
    }
}

impl PollSet {
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// # Safety
    /// The object is one of ours.
    unsafe fn of(fid: *mut Fid) -> Outcome<Member> {
        // SAFETY: as above.
        unsafe {
            match guard::given(fid.cast_const())?.class {
                c::CLASS_CQ => Ok(Member::Queue(Held::new(object::shared(fid.cast())?))),
                c::CLASS_CNTR => {
                    let counter: Arc<Counter> = object::shared(fid.cast())?;
                    let counted = counter.counted();
                    Ok(Member::Counter(Held::new(counter), counted))
                }
                _ => Err(errors::INVAL),
            }
        }
    }

    fn is(&self, other: &Member) -> bool {
        match (self, other) {
            (Member::Queue(a), Member::Queue(b)) => a.is(b.shared()),
            (Member::Counter(a, _), Member::Counter(b, _)) => a.is(b.shared()),
            _ => false,
        }
    }

    /// The context of the queue or counter, if it has something that was not told.
    fn news(&mut self) -> Option<*mut c_void> {
        match self {
            Member::Queue(queue) => {
                queue.waiter().progress();
                (!queue.is_empty()).then(|| queue.context())
            }
            Member::Counter(counter, told) => {
                counter.waiter().progress();
                let counted = counter.counted();
                let is_new = core::mem::replace(told, counted) != counted;
                is_new.then(|| counter.context())
            }
        }
    }
}

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: object::close::<PollSet>,
    bind: guard::no_bind,
    control: guard::no_control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

static OPS: PollOps = PollOps {
    size: size_of::<PollOps>(),
    poll,
    poll_add,
    poll_del,
};

/// `fi_poll_open`.
///
/// # Safety
/// The attributes and the place are null or valid.
pub unsafe fn open(
    domain: Held<Domain>,
    attr: *const PollAttr,
    place: *mut *mut FidPoll,
) -> Outcome<()> {
    // SAFETY: as above.
    if unsafe { attr.as_ref() }.is_some_and(|attr| attr.flags != 0) {
        return Err(errors::BADFLAGS);
    }
    let set = PollSet {
        face: Face::new(FidPoll {
            fid: object::fid::<PollSet>(core::ptr::null_mut(), &FID_OPS),
            ops: &raw const OPS,
        }),
        users: Users::default(),
        _domain: domain,
        members: Mutex::default(),
    };
    // SAFETY: as above.
    unsafe { object::give(place, Arc::new(set)) }
}

unsafe extern "C" fn poll(set: *mut FidPoll, contexts: *mut *mut c_void, count: c_int) -> c_int {
    guard::number(|| {
        let count = usize::try_from(count).map_err(|_| errors::INVAL)?;
        // SAFETY: C gives a set of ours.
        let set = unsafe { object::object::<PollSet>(set.cast()) }?;
        let mut members = set.members();
        let mut told = 0;
        for member in members.iter_mut() {
            if told == count {
                break;
            }
            if let Some(context) = member.news() {
                // SAFETY: C gives an array of so many.
                unsafe { guard::put(contexts.wrapping_add(told), context) }?;
                told += 1;
            }
        }
        Ok(told)
    })
}

unsafe extern "C" fn poll_add(set: *mut FidPoll, fid: *mut Fid, flags: u64) -> c_int {
    guard::status(|| {
        if flags != 0 {
            return Err(errors::BADFLAGS);
        }
        // SAFETY: C gives objects of ours.
        let (set, member) = unsafe { (object::object::<PollSet>(set.cast())?, Member::of(fid)?) };
        let mut members = set.members();
        if !members.iter().any(|have| have.is(&member)) {
            members.push(member);
        }
        Ok(())
    })
}

unsafe extern "C" fn poll_del(set: *mut FidPoll, fid: *mut Fid, _flags: u64) -> c_int {
    guard::status(|| {
        // SAFETY: C gives objects of ours.
        let (set, member) = unsafe { (object::object::<PollSet>(set.cast())?, Member::of(fid)?) };
        set.members().retain(|have| !have.is(&member));
        Ok(())
    })
}
