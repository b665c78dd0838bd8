//! Domains: the owners of endpoints, queues and regions.

use core::ffi::{CStr, c_int, c_void};
use std::collections::HashMap;
use std::collections::hash_map;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tabane_rank::{Access, OpenError, Piece};

use crate::abi::constants as c;
use crate::abi::domain::{AtomicAttr, AvAttr, DomainOps, FidAv, FidDomain};
use crate::abi::endpoint::FidEp;
use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::{Fid, FidOps, Info};
use crate::abi::queues::{CntrAttr, CqAttr, FidCntr, FidCq, FidPoll, PollAttr};
use crate::counter::{Counter, OfRegions};
use crate::environment::{Configuration, Problem};
use crate::event_queue::EventQueue;
use crate::fabric::Fabric;
use crate::object::{self, Face, Held, Object, Users};
use crate::station::Station;
use crate::{
    address_vector, completions, counter, endpoint, guard, here, log, numbers, poll_set, provider,
    region, words,
};

/// The object of `fi_domain`.
#[repr(C)]
pub struct Domain {
    face: Face<FidDomain>,
    users: Users,
    fabric: Held<Fabric>,
    configuration: Configuration,
    /// The mode of registering memory (`FI_MR_…`).
    mr_mode: c_int,
    av_type: u32,
    shared: Mutex<Shared>,
    /// Those of its regions.
    counters: Arc<OfRegions>,
}

/// State that all endpoints of the domain share.
#[derive(Default)]
struct Shared {
    regions: HashMap<u64, Region>,
    stations: Vec<Arc<Station>>,
}

/// Memory that others may use.
#[derive(Clone, Copy)]
pub struct Region {
    /// Its memory.
    pub piece: Piece,
    /// Others' rights.
    pub access: Access,
    /// Others' address of its first byte.
    pub origin: u64,
}

// SAFETY: a region points to memory of the program, which its threads share anyway; nothing is read or written
// through it here.
unsafe impl Send for Region {}

impl Region {
    /// # Safety
    /// As of [`tabane_rank::Core::register`].
    unsafe fn register(self, station: &Station, key: u64) -> Outcome<()> {
        let access = Access {
            is_told: station.is_told(),
            ..self.access
        };
        // SAFETY: as above.
        station.act(|core| unsafe { core.register(key, self.piece, access, self.origin) })
    }
}

// SAFETY: the first field is a Face of a FidDomain, which begins with a Fid.
unsafe impl Object for Domain {
    const CLASS: usize = c::CLASS_DOMAIN;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Domain {
    /// The version that the program was compiled for.
    pub fn api_version(&self) -> u32 {
        self.fabric.api_version()
    }

    /// Its fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The configuration for its endpoints.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The type of address vectors that do not say theirs.
    pub fn av_type(&self) -> u32 {
        self.av_type
    }

    /// Whether keys of regions are chosen here.
    pub fn has_own_keys(&self) -> bool {
        self.mr_mode & (c::MR_BASIC | c::MR_PROV_KEY) != 0
    }

    /// Whether others name places in regions by their addresses here, and not from the beginning.
    pub fn has_virtual_addresses(&self) -> bool {
        self.mr_mode & (c::MR_BASIC | c::MR_VIRT_ADDR) != 0
    }

    /// The counters of its regions, for endpoints that are notified of others' accesses.
    pub fn counters(&self) -> &Arc<OfRegions> {
        &self.counters
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others at memory, through every endpoint there is and will be.
    ///
    /// # Errors
    /// `-FI_ENOKEY`: the key is another region's.
    ///
    /// # Safety
    /// It is memory of the program until it is [deregistered](Domain::deregister).
    pub unsafe fn register(&self, key: u64, region: Region) -> Outcome<()> {
        let mut shared = self.shared();
        let Shared { regions, stations } = &mut *shared;
        let hash_map::Entry::Vacant(vacant) = regions.entry(key) else {
            return Err(errors::NOKEY);
        };
        for (count, station) in stations.iter().enumerate() {
            // SAFETY: as above.
            let registered = unsafe { region.register(station, key) };
            if let Err(error) = registered {
                deregister_at(&stations[..count], key);
                return Err(if error == errors::AGAIN {
                    errors::NOMEM
                } else {
                    error
                });
            }
        }
        vacant.insert(region);
        Ok(())
    }

    /// Ends all access. Accesses up to now are counted.
    pub fn deregister(&self, key: u64) {
        for counter in self.counters.counters(Some(key)) {
            counter.waiter().progress();
        }
        let mut shared = self.shared();
        if shared.regions.remove(&key).is_some() {
            deregister_at(&shared.stations, key);
        }
        for (_, counter) in self.counters.remove(key) {
            self.release(&shared, counter.shared());
        }
    }

    /// Makes a counter count others' accesses to a region: `FI_REMOTE_READ`, `FI_REMOTE_WRITE`, or both.
    ///
    /// # Errors
    /// `-FI_EINVAL`: the region has a counter of that. `-FI_ENOMEM`.
    pub fn count(&self, key: u64, of: u64, counter: Arc<Counter>) -> Outcome<()> {
        let shared = self.shared();
        if self.counters.counted(key) & of != 0 {
            return Err(errors::INVAL);
        }
        for station in shared.stations.iter().filter(|station| station.is_told()) {
            if let Err(error) = counter.waiter().add(station) {
                self.release(&shared, &counter);
                return Err(error);
            }
        }
        self.counters.add(key, of, counter);
        Ok(())
    }

    /// Waiters for a counter no longer wait for endpoints that it does not count for.
    fn release(&self, shared: &Shared, counter: &Arc<Counter>) {
        if self.counters.has(counter) {
            return;
        }
        for station in &shared.stations {
            if !station.sinks().has(counter) {
                counter.waiter().remove(station);
            }
        }
    }

    /// An endpoint through which others come at the regions.
    pub fn add(&self, station: &Arc<Station>) -> Outcome<()> {
        let mut shared = self.shared();
        for (key, region) in &shared.regions {
            // SAFETY: whoever registered it has promised that the memory stays, and has not deregistered it.
            unsafe { region.register(station, *key) }?;
        }
        if station.is_told() {
            for counter in self.counters.counters(None) {
                counter.waiter().add(station)?;
            }
        }
        shared.stations.push(Arc::clone(station));
        Ok(())
    }

    /// It is closed.
    pub fn remove(&self, station: &Arc<Station>) {
        let mut shared = self.shared();
        shared.stations.retain(|have| !Arc::ptr_eq(have, station));
        for counter in self.counters.counters(None) {
            counter.waiter().remove(station);
        }
    }
}

fn deregister_at(stations: &[Arc<Station>], key: u64) {
    for station in stations {
        // It fails only if there is no such region.
        let _ = station.act(|core| {
            core.deregister(key);
            Ok(())
        });
    }
}

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: object::close::<Domain>,
    bind,
    control: guard::no_control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

static OPS: DomainOps = DomainOps {
    size: size_of::<DomainOps>(),
    av_open,
    cq_open,
    endpoint: open_endpoint,
    scalable_ep: guard::absent,
    cntr_open,
    poll_open,
    stx_ctx: guard::absent,
    srx_ctx: guard::absent,
    query_atomic,
    query_collective: guard::absent,
    endpoint2: open_endpoint_with_flags,
    xpu_ctx: guard::absent,
};

/// `fi_domain`.
///
/// # Safety
/// The information and the place are null or valid.
pub unsafe fn open(
    fabric: Held<Fabric>,
    info: *const Info,
    place: *mut *mut FidDomain,
    context: *mut c_void,
) -> Outcome<()> {
    // SAFETY: as above. No field is read that came after 1.17.
    let attr = unsafe { guard::given(guard::given(info)?.domain_attr) }?;
    // SAFETY: it is text that ends in a zero byte.
    if !attr.name.is_null() && unsafe { CStr::from_ptr(attr.name) } != provider::NAME {
        return Err(errors::INVAL);
    }
    let configuration = here::configuration().map_err(|Problem(line)| {
        log::fatal(&line);
        errors::NODATA
    })?;
    let domain = Domain {
        face: Face::new(FidDomain {
            fid: object::fid::<Domain>(context, &FID_OPS),
            ops: &raw const OPS,
            mr: &raw const region::OPS,
        }),
        users: Users::default(),
        fabric,
        configuration,
        mr_mode: attr.mr_mode,
        av_type: attr.av_type,
        shared: Mutex::default(),
        counters: Arc::default(),
    };
    // SAFETY: as above.
    unsafe { object::give(place, Arc::new(domain)) }
}

/// The domain that C speaks of, for an object that needs it.
///
/// # Safety
/// As of [`object::object`].
pub unsafe fn held(domain: *mut FidDomain) -> Outcome<Held<Domain>> {
    // SAFETY: as above.
    unsafe { object::shared(domain.cast()) }.map(Held::new)
}

/// Events of a domain are about background registration, which does not exist here, so none ever comes.
unsafe extern "C" fn bind(_domain: *mut Fid, to: *mut Fid, _flags: u64) -> c_int {
    // SAFETY: C gives an object of ours.
    guard::status(|| unsafe { object::object::<EventQueue>(to.cast()) }.map(|_| ()))
}

unsafe extern "C" fn av_open(
    domain: *mut FidDomain,
    attr: *mut AvAttr,
    place: *mut *mut FidAv,
    context: *mut c_void,
) -> c_int {
    // SAFETY: C gives a domain of ours, and valid pointers or null.
    guard::status(|| unsafe { address_vector::open(held(domain)?, attr, place, context) })
}

unsafe extern "C" fn cq_open(
    domain: *mut FidDomain,
    attr: *mut CqAttr,
    place: *mut *mut FidCq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    guard::status(|| unsafe { completions::open(held(domain)?, attr, place, context) })
}

unsafe extern "C" fn cntr_open(
    domain: *mut FidDomain,
    attr: *mut CntrAttr,
    place: *mut *mut FidCntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    guard::status(|| unsafe { counter::open(held(domain)?, attr, place, context) })
}

unsafe extern "C" fn poll_open(
    domain: *mut FidDomain,
    attr: *mut PollAttr,
    place: *mut *mut FidPoll,
) -> c_int {
    // SAFETY: as above.
    guard::status(|| unsafe { poll_set::open(held(domain)?, attr, place) })
}

unsafe extern "C" fn open_endpoint(
    domain: *mut FidDomain,
    info: *mut Info,
    place: *mut *mut FidEp,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    guard::status(|| unsafe { endpoint::open(held(domain)?, info, place, context) })
}

unsafe extern "C" fn open_endpoint_with_flags(
    domain: *mut FidDomain,
    info: *mut Info,
    place: *mut *mut FidEp,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -errors::BADFLAGS.0;
    }
    // SAFETY: as above.
    unsafe { open_endpoint(domain, info, place, context) }
}

unsafe extern "C" fn query_atomic(
    _domain: *mut FidDomain,
    datatype: u32,
    op: u32,
    attr: *mut AtomicAttr,
    flags: u64,
) -> c_int {
    guard::status(|| {
        let kind = match flags {
            0 => numbers::Kind::Base,
            c::FETCH_ATOMIC => numbers::Kind::Fetch,
            c::COMPARE_ATOMIC => numbers::Kind::Compare,
            _ => return Err(errors::BADFLAGS),
        };
        let (number, _) = numbers::operation(datatype, op, kind)?;
        let told = AtomicAttr {
            count: numbers::count_max(number),
            size: number.bytes(),
        };
        // SAFETY: C gives a place of its own.
        unsafe { guard::put(attr, told) }
    })
}

/// Opens an endpoint's engine.
///
/// # Errors
/// As an errno; the line that says why is in the log.
pub fn open_engine(configuration: &Configuration) -> Outcome<tabane_rank::Endpoint> {
    here::open(&configuration.settings).map_err(|error| {
        let links = crate::environment::shown(&configuration.settings.links);
        let right = match error {
            OpenError::NoPort(_) => "; TABANE_PORTS has to be a range with more ports, LOW-HIGH",
            OpenError::NoLink(_) => "; TABANE_LINKS has to name links of this node",
            _ => "",
        };
        log::fatal(&format!("no endpoint on links {links}: {error}{right}"));
        words::open_error(&error)
    })
}
