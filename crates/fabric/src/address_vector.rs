//! Address vectors: addresses of other endpoints under numbers.

use core::ffi::{c_char, c_int, c_void};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tabane_rank::Address;

use crate::abi::constants as c;
use crate::abi::domain::{AvAttr, AvOps, FidAv};
use crate::abi::errors::{self, Errno, Outcome};
use crate::abi::fabric::{Fid, FidOps};
use crate::domain::Domain;
use crate::event_queue::EventQueue;
use crate::object::{self, Face, Held, Object, Users};
use crate::station::{self, Station};
use crate::{guard, log, name};

/// Addresses in one vector, at most.
const ADDRESSES_MAX: usize = 1 << 24;

/// The object of `fi_av_open`.
#[repr(C)]
pub struct AddressVector {
    face: Face<FidAv>,
    users: Users,
    domain: Held<Domain>,
    /// Numbers are places, from 0, and used again as they are.
    is_table: bool,
    /// Insertions are reported by an event.
    is_told: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    free: BTreeSet<usize>,
    stations: Vec<Arc<Station>>,
    events: Option<Held<EventQueue>>,
}

/// A place in the vector.
#[derive(Default)]
struct Slot {
    address: Option<Address>,
    /// How often an address was removed from here.
    times: u32,
}

// SAFETY: the first field is a Face of a FidAv, which begins with a Fid.
unsafe impl Object for AddressVector {
    const CLASS: usize = c::CLASS_AV;

    fn users(&self) -> &Users {
        &self.users
    }

    fn closed(&self) {
        self.state().events = None;
    }
}

impl AddressVector {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it belongs to this domain.
    pub fn is_of(&self, domain: &Held<Domain>) -> bool {
        self.domain.is(domain.shared())
    }

    fn fi_addr(&self, place: usize, slot: &Slot) -> u64 {
        station::fi_addr(place, if self.is_table { 0 } else { slot.times })
    }

    /// An endpoint that is to know all addresses.
    pub fn add(&self, station: &Arc<Station>) {
        let mut state = self.state();
        for (place, slot) in state.slots.iter().enumerate() {
            if let Some(address) = &slot.address {
                station.name(self.fi_addr(place, slot), address);
            }
        }
        state.stations.push(Arc::clone(station));
    }

    /// It is closed.
    pub fn remove(&self, station: &Arc<Station>) {
        self.state()
            .stations
            .retain(|have| !Arc::ptr_eq(have, station));
    }

    fn insert(&self, state: &mut State, raw: &[u8]) -> Outcome<u64> {
        if raw == name::UNKNOWN {
            log::warn(
                "a host's name is no address of an endpoint: ranks tell each other what fi_getname gives",
            );
        }
        let address = Address::from_bytes(raw).map_err(|_| errors::INVAL)?;
        // The lowest free place: programs count on that.
        let place = match state.free.pop_first() {
            Some(place) => place,
            None if state.slots.len() < ADDRESSES_MAX => {
                state.slots.push(Slot::default());
                state.slots.len() - 1
            }
            None => return Err(errors::NOMEM),
        };
        state.slots[place].address = Some(address);
        let fi_addr = self.fi_addr(place, &state.slots[place]);
        for station in &state.stations {
            station.name(fi_addr, &address);
        }
        Ok(fi_addr)
    }

    fn take_out(&self, state: &mut State, fi_addr: u64) -> Outcome<()> {
        let place = station::place(fi_addr);
        let slot = state.slots.get(place).filter(|slot| slot.address.is_some());
        if slot.is_none_or(|slot| self.fi_addr(place, slot) != fi_addr) {
            return Err(errors::INVAL);
        }
        state.slots[place].address = None;
        state.slots[place].times += 1;
        state.free.insert(place);
        for station in &state.stations {
            station.forget(fi_addr);
        }
        Ok(())
    }

    fn lookup(&self, fi_addr: u64) -> Outcome<Address> {
        let state = self.state();
        let place = station::place(fi_addr);
        let slot = state.slots.get(place).ok_or(errors::INVAL)?;
        if self.fi_addr(place, slot) != fi_addr {
            return Err(errors::INVAL);
        }
        slot.address.ok_or(errors::INVAL)
    }
}

/// An insertion of several addresses.
struct Insertion<'a> {
    raws: &'a [[u8; name::BYTES]],
    numbers: *mut u64,
    flags: u64,
    context: *mut c_void,
}

impl Insertion<'_> {
    /// Returns how many were inserted, and the failed ones.
    ///
    /// # Safety
    /// The numbers and, if `FI_SYNC_ERR` is set, the context are arrays of this length, or null.
    unsafe fn run(&self, vector: &AddressVector) -> (usize, Vec<(usize, Errno)>) {
        let mut state = vector.state();
        let mut failed = Vec::new();
        for (index, raw) in self.raws.iter().enumerate() {
            let inserted = vector.insert(&mut state, raw);
            // SAFETY: as above: the index is below their length.
            unsafe {
                if !self.numbers.is_null() {
                    let number = inserted.unwrap_or(c::NOT_AVAILABLE);
                    self.numbers.add(index).write_unaligned(number);
                }
                if self.flags & c::SYNC_ERR != 0 && !self.context.is_null() {
                    let error = inserted.err().map_or(0, |errno| errno.0);
                    self.context.cast::<c_int>().add(index).write(error);
                }
            }
            if let Err(errno) = inserted {
                failed.push((index, errno));
            }
        }
        (self.raws.len() - failed.len(), failed)
    }
}

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: object::close::<AddressVector>,
    bind,
    control: guard::no_control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

static OPS: AvOps = AvOps {
    size: size_of::<AvOps>(),
    insert,
    insertsvc: guard::absent,
    insertsym: guard::absent,
    remove,
    lookup,
    straddr,
    av_set: guard::absent,
    insert_auth_key: guard::absent,
    lookup_auth_key: guard::absent,
    set_user_id: guard::absent,
    lookup2: guard::absent,
};

/// `fi_av_open`.
///
/// # Safety
/// The attributes and the place are null or valid.
pub unsafe fn open(
    domain: Held<Domain>,
    attr: *mut AvAttr,
    place: *mut *mut FidAv,
    context: *mut c_void,
) -> Outcome<()> {
    // SAFETY: as above.
    let attr = unsafe { attr.as_mut() }.ok_or(errors::INVAL)?;
    // A vector with a name is shared by processes.
    if !attr.name.is_null() {
        return Err(errors::NOSYS);
    }
    if attr.flags & !(c::EVENT | c::MORE) != 0 {
        return Err(errors::BADFLAGS);
    }
    let kind = match (attr.kind, domain.av_type()) {
        (c::AV_UNSPEC, c::AV_MAP) => c::AV_MAP,
        (c::AV_UNSPEC, _) => c::AV_TABLE,
        (kind @ (c::AV_MAP | c::AV_TABLE), _) => kind,
        _ => return Err(errors::INVAL),
    };
    let vector = AddressVector {
        face: Face::new(FidAv {
            fid: object::fid::<AddressVector>(context, &FID_OPS),
            ops: &raw const OPS,
        }),
        users: Users::default(),
        domain,
        is_table: kind == c::AV_TABLE,
        is_told: attr.flags & c::EVENT != 0,
        state: Mutex::default(),
    };
    // SAFETY: as above.
    unsafe { object::give(place, Arc::new(vector)) }?;
    attr.kind = kind;
    Ok(())
}

unsafe extern "C" fn bind(vector: *mut Fid, to: *mut Fid, flags: u64) -> c_int {
    guard::status(|| {
        // SAFETY: C gives objects of ours.
        let (vector, events) = unsafe {
            let vector = object::object::<AddressVector>(vector.cast())?;
            (vector, object::shared::<EventQueue>(to.cast())?)
        };
        if flags != 0 {
            return Err(errors::BADFLAGS);
        }
        vector.state().events = Some(Held::new(events));
        Ok(())
    })
}

unsafe extern "C" fn insert(
    face: *mut FidAv,
    addresses: *const c_void,
    count: usize,
    numbers: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    guard::number(|| {
        // SAFETY: C gives a vector of ours and arrays of so many elements.
        unsafe {
            let vector = object::object::<AddressVector>(face.cast())?;
            if flags & !(c::MORE | c::SYNC_ERR) != 0 {
                return Err(errors::BADFLAGS);
            }
            if vector.is_told && vector.state().events.is_none() {
                return Err(errors::NOEQ);
            }
            let insertion = Insertion {
                raws: guard::array(addresses.cast(), count)?,
                numbers,
                flags,
                context,
            };
            let (inserted, failed) = insertion.run(vector);
            if !vector.is_told {
                return Ok(inserted);
            }
            let state = vector.state();
            let events = state.events.as_deref().ok_or(errors::NOEQ)?;
            for (index, errno) in failed {
                events.not_inserted(face as usize, context as usize, index as u64, errno);
            }
            events.inserted(face as usize, context as usize, inserted as u64);
            Ok(0)
        }
    })
}

unsafe extern "C" fn remove(
    face: *mut FidAv,
    numbers: *mut u64,
    count: usize,
    _flags: u64,
) -> c_int {
    guard::status(|| {
        // SAFETY: as above.
        let (vector, numbers) = unsafe {
            let vector = object::object::<AddressVector>(face.cast())?;
            (vector, guard::array(numbers.cast_const(), count)?)
        };
        let mut state = vector.state();
        for number in numbers {
            vector.take_out(&mut state, *number)?;
        }
        Ok(())
    })
}

unsafe extern "C" fn lookup(
    face: *mut FidAv,
    number: u64,
    buffer: *mut c_void,
    len: *mut usize,
) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a vector of ours, and a buffer as long as it says.
        unsafe {
            let address = object::object::<AddressVector>(face.cast())?.lookup(number)?;
            // If there is too little room it is cut off; the length says so.
            guard::bytes_out(buffer, len, &name::raw(&address)).map(|_| ())
        }
    })
}

unsafe extern "C" fn straddr(
    _face: *mut FidAv,
    raw: *const c_void,
    buffer: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    guard::value(core::ptr::null(), || {
        // SAFETY: C gives an address of this format, and a buffer as long as it says.
        unsafe {
            let raw: &[u8; name::BYTES] = guard::given(raw.cast())?;
            let shown = match Address::from_bytes(raw) {
                Ok(address) => name::shown(&address),
                Err(bad) => bad.to_string(),
            };
            if len.is_null() {
                return Err(errors::INVAL);
            }
            guard::text(buffer, *len, &shown);
            *len = shown.len() + 1;
            Ok(buffer.cast_const())
        }
    })
}
