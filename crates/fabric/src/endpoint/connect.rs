//! Names, and how endpoints are connected.

use core::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::sync::{MutexGuard, PoisonError};

use crate::abi::constants as c;
use crate::abi::endpoint::{CmOps, FidEp, FidPep};
use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::Fid;
use tabane_rank::Address;
use tabane_rank::door::Door;

use crate::connection::DATA_BYTES_MAX;
use crate::connection::caller::Caller;
use crate::connection::ears::place;
use crate::connection::passive::Passive;
use crate::fabric::Fabric;
use crate::{guard, name, object};

use super::{Endpoint, endpoint};

/// The functions of endpoints, and of passive ones.
pub static CM_OPS: CmOps = CmOps {
    size: size_of::<CmOps>(),
    setname,
    getname,
    getpeer,
    connect,
    listen,
    accept,
    reject,
    shutdown,
    join: guard::absent,
};

/// The beginning of a connected endpoint, from the handle that it is opened with.
#[derive(Default)]
pub(super) struct Beginning {
    /// Its address.
    pub at: Option<SocketAddr>,
    /// It calls from there.
    pub door: Option<Door>,
    /// Whom it is to answer.
    pub caller: Option<Caller>,
}

impl Beginning {
    /// # Errors
    /// `-FI_EINVAL`: the handle stands for nobody. Those of [`Passive::hand_over`].
    pub fn of(fabric: &Fabric, handle: *mut Fid) -> Outcome<Beginning> {
        if handle.is_null() {
            return Ok(Beginning::default());
        }
        if let Some(caller) = fabric.callers().take(handle) {
            return Ok(Beginning {
                at: caller.who().at,
                door: None,
                caller: Some(caller),
            });
        }
        let passive = fabric.passives().find(handle).ok_or(errors::INVAL)?;
        let door = passive.hand_over()?;
        Ok(Beginning {
            at: door.address().ok(),
            door: Some(door),
            caller: None,
        })
    }
}

impl Endpoint {
    /// The same, if its type can be connected.
    fn connectable(&self) -> Outcome<&Endpoint> {
        match self.is_connected {
            true => Ok(self),
            false => Err(errors::NOSYS),
        }
    }

    /// Enables it, if it is not yet.
    fn ready(&self) -> Outcome<()> {
        match self.station.get() {
            Some(_) => Ok(()),
            None => self.enable(),
        }
    }

    fn name(&self) -> Outcome<Vec<u8>> {
        let address = self.station()?.address();
        match self.is_connected {
            true => {
                let at = self.at.map_or(place(address), |at| specified(at, address));
                at.map(|at| name::socket(&at)).ok_or(errors::IO)
            }
            false => Ok(name::raw(address).to_vec()),
        }
    }

    fn call(&self, at: SocketAddr, data: &[u8]) -> Outcome<()> {
        if data.len() > DATA_BYTES_MAX || self.caller().is_some() {
            return Err(errors::INVAL);
        }
        self.ready()?;
        let station = self.station.get().ok_or(errors::OPBADSTATE)?;
        let settings = &self.domain.configuration().settings;
        // Else whom it calls sees where its engine is.
        let from = self.at.filter(|_| self.door.is_some());
        let from = from.and_then(|from| specified(from, station.address()));
        (station.connection()?).call(station, (at, settings.key), (from, data))
    }

    fn accept(&self, data: &[u8]) -> Outcome<()> {
        if data.len() > DATA_BYTES_MAX {
            return Err(errors::INVAL);
        }
        if self.caller().is_none() {
            return Err(errors::OPBADSTATE);
        }
        self.ready()?;
        let caller = self.caller().take().ok_or(errors::OPBADSTATE)?;
        self.station()?.accept(&caller.accept(), data)
    }

    /// The caller, if it was opened to answer one.
    fn caller(&self) -> MutexGuard<'_, Option<Caller>> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same address on this endpoint's first link, if it is the unspecified one.
fn specified(mut at: SocketAddr, own: &Address) -> Option<SocketAddr> {
    if at.ip().is_unspecified() {
        at.set_ip(place(own)?.ip());
    }
    Some(at)
}

/// The address of a socket that C gives.
///
/// # Safety
/// It is null, or as long as its family has it.
unsafe fn socket(at: *const c_void) -> Outcome<SocketAddr> {
    // SAFETY: as above: all begin with the family.
    let bytes = unsafe {
        let family: &[u8; 2] = guard::given(at.cast())?;
        let len = name::socket_bytes(*family).ok_or(errors::INVAL)?;
        guard::array(at.cast(), len)?
    };
    name::parse_socket(bytes).ok_or(errors::INVAL)
}

/// An address into a buffer of C's.
///
/// # Safety
/// The buffer is as long as it says.
unsafe fn tell(buffer: *mut c_void, len: *mut usize, raw: &[u8]) -> Outcome<()> {
    // SAFETY: as above.
    match unsafe { guard::bytes_out(buffer, len, raw) }? {
        true => Ok(()),
        false => Err(errors::TOOSMALL),
    }
}

unsafe extern "C" fn setname(fid: *mut Fid, raw: *const c_void, len: usize) -> c_int {
    guard::status(|| {
        // SAFETY: C gives an object of ours, and an address as long as it says.
        unsafe {
            if guard::given(fid.cast_const())?.class != c::CLASS_PEP {
                // The engine takes a port of its own.
                endpoint(fid.cast())?;
                return Err(errors::NOSYS);
            }
            let at = name::parse_socket(guard::array(raw.cast(), len)?);
            object::object::<Passive>(fid.cast())?.set_name(at.ok_or(errors::INVAL)?)
        }
    })
}

unsafe extern "C" fn getname(fid: *mut Fid, buffer: *mut c_void, len: *mut usize) -> c_int {
    guard::status(|| {
        // SAFETY: C gives an object of ours, and a buffer as long as it says.
        unsafe {
            let raw = match guard::given(fid.cast_const())?.class {
                c::CLASS_PEP => name::socket(&object::object::<Passive>(fid.cast())?.name()?),
                _ => endpoint(fid.cast())?.name()?,
            };
            tell(buffer, len, &raw)
        }
    })
}

unsafe extern "C" fn getpeer(ep: *mut FidEp, buffer: *mut c_void, len: *mut usize) -> c_int {
    guard::status(|| {
        // SAFETY: C gives an endpoint of ours, and a buffer as long as it says.
        unsafe {
            let endpoint = endpoint(ep.cast())?.connectable()?;
            let station = endpoint.station().map_err(|_| errors::NOTCONN)?;
            tell(buffer, len, &name::socket(&station.connection()?.place()?))
        }
    })
}

unsafe extern "C" fn connect(
    ep: *mut FidEp,
    at: *const c_void,
    data: *const c_void,
    len: usize,
) -> c_int {
    guard::status(|| {
        // SAFETY: C gives an endpoint of ours, an address, and so many bytes.
        unsafe {
            let endpoint = endpoint(ep.cast())?.connectable()?;
            endpoint.call(socket(at)?, guard::array(data.cast(), len)?)
        }
    })
}

unsafe extern "C" fn listen(pep: *mut FidPep) -> c_int {
    // SAFETY: C gives an object of ours.
    guard::status(|| unsafe { object::object::<Passive>(pep.cast()) }?.listen())
}

unsafe extern "C" fn accept(ep: *mut FidEp, data: *const c_void, len: usize) -> c_int {
    guard::status(|| {
        // SAFETY: C gives an endpoint of ours, and so many bytes.
        unsafe {
            let endpoint = endpoint(ep.cast())?.connectable()?;
            endpoint.accept(guard::array(data.cast(), len)?)
        }
    })
}

unsafe extern "C" fn reject(
    pep: *mut FidPep,
    handle: *mut Fid,
    data: *const c_void,
    len: usize,
) -> c_int {
    guard::status(|| {
        // SAFETY: C gives an object of ours, and so many bytes.
        unsafe {
            let passive = object::object::<Passive>(pep.cast())?;
            passive.reject(handle, guard::array(data.cast(), len)?)
        }
    })
}

unsafe extern "C" fn shutdown(ep: *mut FidEp, flags: u64) -> c_int {
    guard::status(|| {
        // SAFETY: C gives an endpoint of ours.
        let endpoint = unsafe { endpoint(ep.cast()) }?.connectable()?;
        if flags != 0 {
            return Err(errors::BADFLAGS);
        }
        endpoint.station().map_err(|_| errors::NOTCONN)?.shut()
    })
}
