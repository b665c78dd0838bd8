//! Passive endpoints: at a host and a port, they wait for callers.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tabane_rank::door::Door;

use super::DATA_BYTES_MAX;
use super::ears::Ears;
use crate::abi::constants as c;
use crate::abi::endpoint::{EpOps, FidPep};
use crate::abi::errors::{self, Errno, Outcome};
use crate::abi::fabric::{Fid, FidOps, Info};
use crate::environment::{Configuration, Problem};
use crate::event_queue::EventQueue;
use crate::fabric::Fabric;
use crate::info::Offer;
use crate::object::{self, Face, Held, Object, Users};
use crate::station::{Options, Reach, Sinks, Station};
use crate::{domain, endpoint, guard, here, info, log, name};

/// The object of `fi_passive_ep`.
#[repr(C)]
pub struct Passive {
    face: Face<FidPep>,
    users: Users,
    fabric: Held<Fabric>,
    configuration: Configuration,
    /// The offer for callers.
    offer: Offer,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: Option<Held<EventQueue>>,
    /// Its door, if it has an address.
    door: Option<Door>,
    /// There from when it listens.
    station: Option<Arc<Station>>,
    backlog: Option<usize>,
}

// SAFETY: the first field is a Face of a FidPep, which begins with a Fid.
unsafe impl Object for Passive {
    const CLASS: usize = c::CLASS_PEP;

    fn users(&self) -> &Users {
        &self.users
    }

    fn closed(&self) {
        let mut state = core::mem::take(&mut *self.state());
        // First, so that nobody else calls.
        state.door = None;
        if let Some(station) = state.station.take() {
            if let Some(ears) = station.ears() {
                ears.events().waiter().remove(&station);
            }
            // Rejects callers without an answer.
            drop(self.fabric.callers().of(&Arc::downgrade(&station)));
            if let Some(ears) = station.ears() {
                ears.events().forget(self.fid());
            }
        }
    }
}

fn bind_error(at: SocketAddr, error: &std::io::Error) -> Errno {
    log::warn(&format!("nobody can be waited for at UDP {at}: {error}"));
    Errno(error.raw_os_error().unwrap_or(errors::IO.0))
}

impl Passive {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fid(&self) -> usize {
        self.face.get().addr()
    }

    fn bind(&self, events: Arc<EventQueue>) -> Outcome<()> {
        let mut state = self.state();
        if state.station.is_some() {
            return Err(errors::OPBADSTATE);
        }
        if state.events.is_some() {
            return Err(errors::INVAL);
        }
        state.events = Some(Held::new(events));
        Ok(())
    }

    fn door(&self, at: SocketAddr) -> Outcome<Door> {
        let key = &self.configuration.settings.key;
        Door::at(at, key).map_err(|error| bind_error(at, &error))
    }

    /// Is found at this address from now on.
    pub fn set_name(&self, at: SocketAddr) -> Outcome<()> {
        let mut state = self.state();
        if state.station.is_some() {
            return Err(errors::OPBADSTATE);
        }
        // The same port may be wanted again.
        state.door = None;
        state.door = Some(self.door(at)?);
        Ok(())
    }

    /// Its address.
    pub fn name(&self) -> Outcome<SocketAddr> {
        let state = self.state();
        let door = state.door.as_ref().ok_or(errors::OPBADSTATE)?;
        door.address().map_err(|_| errors::IO)
    }

    /// Gives its address to an endpoint that calls from there.
    ///
    /// # Errors
    /// `-FI_EOPBADSTATE`: it listens, or has no such place.
    pub fn hand_over(&self) -> Outcome<Door> {
        let mut state = self.state();
        match state.station {
            Some(_) => Err(errors::OPBADSTATE),
            None => state.door.take().ok_or(errors::OPBADSTATE),
        }
    }

    /// Takes callers from now on.
    pub fn listen(&self) -> Outcome<()> {
        let mut state = self.state();
        if state.station.is_some() {
            return Err(errors::OPBADSTATE);
        }
        let events = state.events.as_ref().ok_or(errors::NOEQ)?;
        let events = Arc::clone(events.shared());
        let mut door = match state.door.take() {
            Some(door) => door,
            None => self.door((Ipv4Addr::UNSPECIFIED, 0).into())?,
        };
        let engine = domain::open_engine(&self.configuration)?;
        let address = *engine.address();
        let make = |own: &Weak<Station>| {
            let (own, fabric) = (Weak::clone(own), Arc::clone(self.fabric.shared()));
            let events = Held::new(Arc::clone(&events));
            let ears = Ears::new(own, self.fid(), fabric, events, self.offered(&door));
            let options = Options {
                stats: self.configuration.stats,
                ..Options::default()
            };
            Station::new(
                engine,
                Reach::Callers(Box::new(ears)),
                Sinks::default(),
                options,
            )
        };
        let station = Arc::new_cyclic(make);
        let ears = station.ears().ok_or(errors::OTHER)?;
        if let Some(backlog) = state.backlog {
            ears.backlog.store(backlog, Ordering::Relaxed);
        }
        station.act(|core| ears.listen(core))?;
        events.waiter().add(&station)?;
        let opened = door.open(address);
        if opened.is_err() {
            events.waiter().remove(&station);
            return Err(errors::NOMEM);
        }
        (state.door, state.station) = (Some(door), Some(station));
        Ok(())
    }

    /// The offer for callers, at the address that they called.
    fn offered(&self, door: &Door) -> Offer {
        let source = match door.address() {
            Ok(at) => name::socket(&at),
            Err(_) => self.offer.source.clone(),
        };
        Offer {
            source,
            ..self.offer.clone()
        }
    }

    /// Rejects a caller.
    pub fn reject(&self, handle: *mut Fid, data: &[u8]) -> Outcome<()> {
        if data.len() > DATA_BYTES_MAX {
            return Err(errors::INVAL);
        }
        let caller = self.fabric.callers().take(handle).ok_or(errors::INVAL)?;
        caller.reject(data);
        Ok(())
    }
}

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: object::close::<Passive>,
    bind,
    control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

static OPS: EpOps = EpOps {
    size: size_of::<EpOps>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: guard::absent,
    rx_ctx: guard::absent,
    rx_size_left: guard::absent,
    tx_size_left: guard::absent,
    export_xpu: guard::absent,
};

/// `fi_passive_ep`.
///
/// # Safety
/// The information and the place are null or valid.
pub unsafe fn open(
    fabric: Held<Fabric>,
    info: *const Info,
    place: *mut *mut FidPep,
    context: *mut c_void,
) -> Outcome<()> {
    // SAFETY: as above.
    let (info, offer) = unsafe {
        let info = guard::given(info)?;
        (info, info::of_passive(info, fabric.api_version())?)
    };
    if offer.ep.kind != c::EP_MSG {
        return Err(errors::INVAL);
    }
    let configuration = here::configuration().map_err(|Problem(line)| {
        log::fatal(&line);
        errors::NODATA
    })?;
    let source = (!info.src_addr.is_null()).then(|| name::parse_socket(&offer.source));
    let passive = Passive {
        face: Face::new(FidPep {
            fid: object::fid::<Passive>(context, &FID_OPS),
            ops: &raw const OPS,
            cm: &raw const endpoint::CM_OPS,
        }),
        users: Users::default(),
        fabric,
        configuration,
        offer,
        state: Mutex::default(),
    };
    if let Some(at) = source {
        passive.set_name(at.ok_or(errors::INVAL)?)?;
    }
    let passive = Arc::new(passive);
    passive.fabric.passives().insert(&passive);
    // SAFETY: as above.
    unsafe { object::give(place, passive) }
}

/// All passive endpoints of a fabric. A program's handle is only compared with these.
#[derive(Default)]
pub struct Passives(Mutex<Vec<Weak<Passive>>>);

impl Passives {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<Passive>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, passive: &Arc<Passive>) {
        let mut all = self.all();
        all.retain(|have| have.strong_count() > 0);
        all.push(Arc::downgrade(passive));
    }

    /// The one that the program knows by this handle.
    pub fn find(&self, handle: *mut Fid) -> Option<Arc<Passive>> {
        let all = self.all();
        let mut there = all.iter().filter_map(Weak::upgrade);
        there.find(|passive| passive.fid() == handle.addr())
    }
}

unsafe extern "C" fn bind(fid: *mut Fid, to: *mut Fid, _flags: u64) -> c_int {
    // SAFETY: C gives objects of ours.
    guard::status(|| unsafe {
        let passive = object::object::<Passive>(fid.cast())?;
        passive.bind(object::shared(to.cast())?)
    })
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    guard::status(|| {
        // SAFETY: C gives an object of ours, and a place of the type that the command has.
        let (passive, count) = unsafe {
            let passive = object::object::<Passive>(fid.cast())?;
            if command != c::BACKLOG {
                return Err(errors::NOSYS);
            }
            (passive, *guard::given(argument.cast::<c_int>())?)
        };
        let count = usize::try_from(count).map_err(|_| errors::INVAL)?;
        let mut state = passive.state();
        state.backlog = Some(count);
        if let Some(ears) = state.station.as_ref().and_then(|station| station.ears()) {
            ears.backlog.store(count, Ordering::Relaxed);
        }
        Ok(())
    })
}

unsafe extern "C" fn cancel(_fid: *mut Fid, _context: *mut c_void) -> isize {
    -(errors::NOSYS.0 as isize)
}

unsafe extern "C" fn getopt(
    _fid: *mut Fid,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    guard::status(|| {
        if (level, option) != (c::OPT_ENDPOINT, c::OPT_CM_DATA_SIZE) {
            return Err(errors::NOPROTOOPT);
        }
        // SAFETY: C gives a place of so many bytes.
        match unsafe { guard::bytes_out(value, len, &DATA_BYTES_MAX.to_ne_bytes()) }? {
            true => Ok(()),
            false => Err(errors::TOOSMALL),
        }
    })
}

unsafe extern "C" fn setopt(
    _fid: *mut Fid,
    _level: c_int,
    _option: c_int,
    _value: *const c_void,
    _len: usize,
) -> c_int {
    -errors::NOPROTOOPT.0
}
