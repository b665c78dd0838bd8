//! The fabric: the parent of domains and event queues.

use core::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use crate::abi::constants as c;
use crate::abi::domain::FidDomain;
use crate::abi::endpoint::FidPep;
use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::{FabricAttr, FabricOps, Fid, FidFabric, FidOps, Info};
use crate::abi::queues::{EqAttr, FidEq};
use crate::completions::Queue;
use crate::connection::caller::Callers;
use crate::connection::passive::{self, Passives};
use crate::counter::Counter;
use crate::event_queue::EventQueue;
use crate::object::{self, Face, Held, Object, Users};
use crate::{domain, event_queue, guard, provider};

/// The object of `fi_fabric`.
#[repr(C)]
pub struct Fabric {
    face: Face<FidFabric>,
    users: Users,
    callers: Callers,
    passives: Passives,
}

// SAFETY: the first field is a Face of a FidFabric, which begins with a Fid.
unsafe impl Object for Fabric {
    const CLASS: usize = c::CLASS_FABRIC;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Fabric {
    /// Callers without an answer.
    pub fn callers(&self) -> &Callers {
        &self.callers
    }

    /// Passive endpoints.
    pub fn passives(&self) -> &Passives {
        &self.passives
    }

    /// The version that the program was compiled for: which fields its structures have.
    pub fn api_version(&self) -> u32 {
        // SAFETY: libfabric wrote it before the program had the fabric, and nobody does later.
        unsafe { (*self.face.get()).api_version }
    }
}

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: object::close::<Fabric>,
    bind: guard::no_bind,
    control: guard::no_control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

static OPS: FabricOps = FabricOps {
    size: size_of::<FabricOps>(),
    domain: open_domain,
    passive_ep: open_passive,
    eq_open: open_event_queue,
    wait_open: guard::absent,
    trywait,
    domain2: open_domain_with_flags,
};

/// `fi_fabric`.
///
/// # Safety
/// The attributes and the place are null or valid.
pub unsafe fn open(
    attr: *const FabricAttr,
    place: *mut *mut FidFabric,
    context: *mut c_void,
) -> Outcome<()> {
    // SAFETY: as above.
    let attr = unsafe { guard::given(attr) }?;
    if attr.name.is_null() {
        return Err(errors::INVAL);
    }
    // SAFETY: it is text that ends in a zero byte.
    if unsafe { CStr::from_ptr(attr.name) } != provider::NAME {
        return Err(errors::NODATA);
    }
    let fabric = Fabric {
        face: Face::new(FidFabric {
            fid: object::fid::<Fabric>(context, &FID_OPS),
            ops: &raw const OPS,
            // libfabric writes it again.
            api_version: attr.api_version,
        }),
        users: Users::default(),
        callers: Callers::default(),
        passives: Passives::default(),
    };
    // SAFETY: as above.
    unsafe { object::give(place, Arc::new(fabric)) }
}

unsafe extern "C" fn open_domain(
    fabric: *mut FidFabric,
    info: *mut Info,
    place: *mut *mut FidDomain,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a fabric of ours, and valid pointers or null.
        unsafe {
            let fabric = object::shared::<Fabric>(fabric.cast())?;
            domain::open(Held::new(fabric), info, place, context)
        }
    })
}

unsafe extern "C" fn open_domain_with_flags(
    fabric: *mut FidFabric,
    info: *mut Info,
    place: *mut *mut FidDomain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // The only flags are of peers that share queues.
    if flags != 0 {
        return -errors::BADFLAGS.0;
    }
    // SAFETY: as above.
    unsafe { open_domain(fabric, info, place, context) }
}

unsafe extern "C" fn open_passive(
    fabric: *mut FidFabric,
    info: *mut Info,
    place: *mut *mut FidPep,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a fabric of ours, and valid pointers or null.
        unsafe {
            let fabric = object::shared::<Fabric>(fabric.cast())?;
            passive::open(Held::new(fabric), info, place, context)
        }
    })
}

unsafe extern "C" fn open_event_queue(
    fabric: *mut FidFabric,
    attr: *mut EqAttr,
    place: *mut *mut FidEq,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a fabric of ours, and valid pointers or null.
        unsafe {
            let fabric = object::shared::<Fabric>(fabric.cast())?;
            event_queue::open(Held::new(fabric), attr, place, context)
        }
    })
}

/// `fi_trywait`: whether it is right to wait for the descriptors of all of these.
unsafe extern "C" fn trywait(_fabric: *mut FidFabric, fids: *mut *mut Fid, count: c_int) -> c_int {
    guard::status(|| {
        let count = usize::try_from(count).map_err(|_| errors::INVAL)?;
        // SAFETY: C gives this many objects.
        let fids = unsafe { guard::array(fids.cast_const(), count) }?;
        for &fid in fids {
            // SAFETY: each is an object of ours.
            let may_wait = unsafe {
                if let Ok(queue) = object::object::<Queue>(fid.cast()) {
                    queue.may_wait()
                } else if let Ok(counter) = object::object::<Counter>(fid.cast()) {
                    counter.may_wait()
                } else {
                    object::object::<EventQueue>(fid.cast())?.may_wait()
                }
            };
            if !may_wait {
                return Err(errors::AGAIN);
            }
        }
        Ok(())
    })
}
