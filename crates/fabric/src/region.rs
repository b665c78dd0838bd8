//! Regions of memory that others may read and write.
#![allow(
    clippy::too_many_arguments,
    reason = "libfabric's functions have so many"
)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use tabane_rank::{Access, Piece};

use crate::abi::constants as c;
use crate::abi::domain::{FidMr, MrAttr, MrOps};
use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::{Fid, FidOps};
use crate::counter::Counter;
use crate::domain::{self, Domain, Region};
use crate::object::{self, Face, Held, Object, Users};
use crate::{guard, random};

/// How often a random key may turn out to be another region's.
const KEYS_TRIED: usize = 8;
/// Flags that change nothing here: location of device memory, hints, and the announcement of a counter, which any region may
/// have.
const FLAGS: u64 = c::RMA_EVENT | c::MORE | 1 << 41 | 1 << 45 | 1 << 46;

/// The object of `fi_mr_reg` and its variants.
#[repr(C)]
pub struct Registered {
    face: Face<FidMr>,
    users: Users,
    domain: Held<Domain>,
    key: u64,
    /// The program has enabled it, so it cannot be bound any more.
    is_enabled: AtomicBool,
}

// SAFETY: the first field is a Face of a FidMr, which begins with a Fid.
unsafe impl Object for Registered {
    const CLASS: usize = c::CLASS_MR;

    fn users(&self) -> &Users {
        &self.users
    }

    fn closed(&self) {
        self.domain.deregister(self.key);
    }
}

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: object::close::<Registered>,
    bind,
    control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

/// How a domain registers memory.
pub static OPS: MrOps = MrOps {
    size: size_of::<MrOps>(),
    reg,
    regv,
    regattr,
};

/// The program's registration, from any of the three functions.
struct Wanted {
    piece: Piece,
    access: u64,
    key: u64,
    flags: u64,
    context: *mut c_void,
}

/// # Safety
/// The domain is one of ours, the place null or valid, the memory the program's until the region is closed.
unsafe fn register(domain: *mut Fid, wanted: &Wanted, place: *mut *mut FidMr) -> Outcome<()> {
    if wanted.flags & !FLAGS != 0 {
        return Err(errors::BADFLAGS);
    }
    if place.is_null() || (wanted.piece.base.is_null() && wanted.piece.bytes > 0) {
        return Err(errors::INVAL);
    }
    // SAFETY: as above.
    let domain = unsafe { domain::held(domain.cast()) }?;
    let region = Region {
        piece: wanted.piece,
        access: Access {
            remote_read: wanted.access & c::REMOTE_READ != 0,
            remote_write: wanted.access & c::REMOTE_WRITE != 0,
            // As each endpoint wants it.
            is_told: false,
        },
        origin: match domain.has_virtual_addresses() {
            true => wanted.piece.base as u64,
            false => 0,
        },
    };
    // SAFETY: as above.
    let key = unsafe { choose_key(&domain, wanted.key, region) }?;
    let registered = Registered {
        face: Face::new(FidMr {
            fid: object::fid::<Registered>(wanted.context, &FID_OPS),
            // No operation needs it.
            mem_desc: core::ptr::null_mut(),
            key,
        }),
        users: Users::default(),
        domain,
        key,
        is_enabled: AtomicBool::new(false),
    };
    // SAFETY: as above.
    unsafe { object::give(place, Arc::new(registered)) }
}

/// Registers under the program's key, or a random one if keys are chosen here.
///
/// # Safety
/// As of [`Domain::register`].
unsafe fn choose_key(domain: &Domain, wanted: u64, region: Region) -> Outcome<u64> {
    if !domain.has_own_keys() {
        if wanted == c::NOT_AVAILABLE {
            return Err(errors::KEYREJECTED);
        }
        // SAFETY: as above.
        unsafe { domain.register(wanted, region) }?;
        return Ok(wanted);
    }
    for _ in 0..KEYS_TRIED {
        let key = random::word()?;
        if key == c::NOT_AVAILABLE {
            continue;
        }
        // SAFETY: as above.
        match unsafe { domain.register(key, region) } {
            Err(errors::NOKEY) => {}
            registered => return registered.map(|()| key),
        }
    }
    Err(errors::NOKEY)
}

/// The one piece of memory that a region has.
fn one(pieces: &[libc::iovec]) -> Outcome<Piece> {
    match pieces {
        [piece] => Ok(Piece {
            base: piece.iov_base.cast(),
            bytes: piece.iov_len,
        }),
        _ => Err(errors::INVAL),
    }
}

unsafe extern "C" fn reg(
    domain: *mut Fid,
    buffer: *const c_void,
    len: usize,
    access: u64,
    _offset: u64,
    key: u64,
    flags: u64,
    place: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    let wanted = Wanted {
        piece: Piece {
            base: buffer.cast_mut().cast(),
            bytes: len,
        },
        access,
        key,
        flags,
        context,
    };
    // SAFETY: C gives a domain of ours, and its memory.
    guard::status(|| unsafe { register(domain, &wanted, place) })
}

unsafe extern "C" fn regv(
    domain: *mut Fid,
    pieces: *const libc::iovec,
    count: usize,
    access: u64,
    _offset: u64,
    key: u64,
    flags: u64,
    place: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: C gives so many pieces, a domain of ours, and its memory.
        unsafe {
            let wanted = Wanted {
                piece: one(guard::array(pieces, count)?)?,
                access,
                key,
                flags,
                context,
            };
            register(domain, &wanted, place)
        }
    })
}

unsafe extern "C" fn regattr(
    domain: *mut Fid,
    attr: *const MrAttr,
    flags: u64,
    place: *mut *mut FidMr,
) -> c_int {
    guard::status(|| {
        // SAFETY: as above. No field is read that came after 1.5.
        unsafe {
            let attr = guard::given(attr)?;
            let wanted = Wanted {
                piece: one(guard::array(attr.mr_iov, attr.iov_count)?)?,
                access: attr.access,
                key: attr.requested_key,
                flags,
                context: attr.context,
            };
            register(domain, &wanted, place)
        }
    })
}

impl Registered {
    fn bind_counter(&self, counter: Arc<Counter>, flags: u64) -> Outcome<()> {
        if flags & !(c::REMOTE_READ | c::REMOTE_WRITE) != 0 {
            return Err(errors::BADFLAGS);
        }
        if flags == 0 {
            return Err(errors::INVAL);
        }
        if !counter.is_of(&self.domain) {
            return Err(errors::DOMAIN);
        }
        self.domain.count(self.key, flags, counter)
    }
}

/// A region belongs to all endpoints of its domain, so binding it to one changes nothing. A counter counts others' accesses
/// through endpoints that were opened for that (`FI_RMA_EVENT`).
unsafe extern "C" fn bind(region: *mut Fid, to: *mut Fid, flags: u64) -> c_int {
    guard::status(|| {
        // SAFETY: C gives objects of ours; each class is of its type.
        unsafe {
            let region: &Registered = object::object(region.cast())?;
            if region.is_enabled.load(Ordering::Relaxed) {
                return Err(errors::OPBADSTATE);
            }
            match guard::given(to.cast_const())?.class {
                c::CLASS_EP => Ok(()),
                c::CLASS_CNTR => region.bind_counter(object::shared(to.cast())?, flags),
                _ => Err(errors::NOSYS),
            }
        }
    })
}

/// Others may use a region from the beginning, whatever is bound to it later: no program need enable it (`FI_MR_RMA_EVENT`,
/// `FI_MR_ENDPOINT`). If one does, its bindings are final.
unsafe extern "C" fn control(region: *mut Fid, command: c_int, _argument: *mut c_void) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a region of ours.
        let region: &Registered = unsafe { object::object(region.cast()) }?;
        match command {
            c::ENABLE => {
                region.is_enabled.store(true, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(errors::NOSYS),
        }
    })
}
