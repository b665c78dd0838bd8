//! Endpoints: what they are bound to, how they are enabled; data transfer is in the files beside.

mod atomics;
mod connect;
mod memory;
mod messages;
mod options;
mod pieces;

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use tabane_rank::door::Door;
use tabane_rank::{INJECT_BYTES_MAX, Piece, Ticket};

use crate::abi::constants as c;
use crate::abi::endpoint::{CollectiveOps, EpOps, FidEp};
use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::{Fid, FidOps, Info};
use crate::address_vector::AddressVector;
use crate::completions::Queue;
use crate::connection::Connection;
use crate::connection::caller::Caller;
use crate::counter::Counter;
use crate::domain::{self, Domain};
use crate::event_queue::EventQueue;
use crate::object::{self, Face, Held, Object, Users};
use crate::station::{Options, QUIET, Reach, Sinks, Station};
use crate::{guard, info};

use connect::Beginning;
pub use connect::CM_OPS;

/// A multi-receive buffer is released when fewer bytes than these are free, unless the program says how many.
const MIN_MULTI_RECV_BYTES: usize = 64;

/// Kinds of operations that flags may repeat, without effect.
const KINDS: u64 = c::MSG | c::TAGGED | c::RMA | c::ATOMIC | c::SEND | c::RECV | c::READ | c::WRITE;
/// Hints without effect.
const HINTS: u64 = c::MORE | c::AFFINITY;
/// Flags of sends, writes, reads and atomics.
const TX_FLAGS: u64 = info::TX_OP_FLAGS | c::REMOTE_CQ_DATA | KINDS | HINTS;
/// Flags of receives.
const RX_FLAGS: u64 = info::RX_OP_FLAGS | c::PEEK | c::CLAIM | c::DISCARD | KINDS | HINTS;

/// The object of `fi_endpoint`.
#[repr(C)]
pub struct Endpoint {
    face: Face<FidEp>,
    users: Users,
    domain: Held<Domain>,
    caps: u64,
    /// It is of a kind that has one peer.
    is_connected: bool,
    /// Its address for programs, if that is not its engine's.
    at: Option<SocketAddr>,
    /// Keeps that place from others, if it calls from there.
    door: Option<Door>,
    /// The caller, if it was opened to answer one.
    caller: Mutex<Option<Caller>>,
    /// Flags of operations that name none.
    tx_flags: AtomicU64,
    rx_flags: AtomicU64,
    /// Whether only operations that ask for it get a completion.
    is_tx_selective: AtomicBool,
    is_rx_selective: AtomicBool,
    min_multi_recv: AtomicUsize,
    bound: Mutex<Bound>,
    /// There from when it is enabled.
    station: OnceLock<Arc<Station>>,
}

/// What it is bound to.
#[derive(Default)]
struct Bound {
    vector: Option<Held<AddressVector>>,
    events: Option<Held<EventQueue>>,
    sent: Option<Held<Queue>>,
    received: Option<Held<Queue>>,
    counters: Vec<(u64, Held<Counter>)>,
}

// SAFETY: the first field is a Face of a FidEp, which begins with a Fid.
unsafe impl Object for Endpoint {
    const CLASS: usize = c::CLASS_EP;

    fn users(&self) -> &Users {
        &self.users
    }

    fn closed(&self) {
        if let Some(station) = self.station.get() {
            if let Ok(connection) = station.connection() {
                connection.stop();
                connection.events().forget(self.fid());
            }
            self.disconnect(station);
        }
        *self.bound() = Bound::default();
    }
}

impl Endpoint {
    fn fid(&self) -> usize {
        self.face.get().addr()
    }

    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its engine.
    ///
    /// # Errors
    /// `-FI_EOPBADSTATE`: it is not enabled.
    fn station(&self) -> Outcome<&Station> {
        let station = self.station.get();
        station.map(|station| &**station).ok_or(errors::OPBADSTATE)
    }

    fn default_tx_flags(&self) -> u64 {
        self.tx_flags.load(Ordering::Relaxed)
    }

    fn default_rx_flags(&self) -> u64 {
        self.rx_flags.load(Ordering::Relaxed)
    }

    /// The ticket of an operation of this end: of such a kind, with such flags.
    fn tx_ticket(&self, context: *mut c_void, kind: u64, flags: u64) -> Ticket {
        let is_quiet = self.is_tx_selective.load(Ordering::Relaxed) && flags & c::COMPLETION == 0;
        Ticket {
            context: context as usize,
            flags: kind | if is_quiet { QUIET } else { 0 },
        }
    }

    /// The ticket of a receive.
    fn rx_ticket(&self, context: *mut c_void, kind: u64, flags: u64) -> Ticket {
        let is_quiet = self.is_rx_selective.load(Ordering::Relaxed) && flags & c::COMPLETION == 0;
        Ticket {
            context: context as usize,
            flags: kind | if is_quiet { QUIET } else { 0 },
        }
    }

    fn bind_queue(&self, queue: Arc<Queue>, flags: u64) -> Outcome<()> {
        if flags & !(c::SEND | c::RECV | c::SELECTIVE_COMPLETION) != 0 {
            return Err(errors::BADFLAGS);
        }
        if !queue.is_of(&self.domain) {
            return Err(errors::DOMAIN);
        }
        let mut bound = self.bound();
        let is_twice = (flags & c::SEND != 0 && bound.sent.is_some())
            || (flags & c::RECV != 0 && bound.received.is_some());
        if is_twice || flags & (c::SEND | c::RECV) == 0 {
            return Err(errors::INVAL);
        }
        let is_selective = flags & c::SELECTIVE_COMPLETION != 0;
        if flags & c::SEND != 0 {
            bound.sent = Some(Held::new(Arc::clone(&queue)));
            self.is_tx_selective.store(is_selective, Ordering::Relaxed);
        }
        if flags & c::RECV != 0 {
            bound.received = Some(Held::new(queue));
            self.is_rx_selective.store(is_selective, Ordering::Relaxed);
        }
        Ok(())
    }

    fn bind_counter(&self, counter: Arc<Counter>, flags: u64) -> Outcome<()> {
        let here = c::SEND | c::RECV | c::READ | c::WRITE;
        if flags & !(here | c::REMOTE_READ | c::REMOTE_WRITE) != 0 {
            return Err(errors::BADFLAGS);
        }
        if !counter.is_of(&self.domain) {
            return Err(errors::DOMAIN);
        }
        self.bound().counters.push((flags, Held::new(counter)));
        Ok(())
    }

    fn bind_vector(&self, vector: Arc<AddressVector>) -> Outcome<()> {
        if !vector.is_of(&self.domain) {
            return Err(errors::DOMAIN);
        }
        let mut bound = self.bound();
        if self.is_connected || bound.vector.is_some() {
            return Err(errors::INVAL);
        }
        bound.vector = Some(Held::new(vector));
        Ok(())
    }

    /// # Safety
    /// The object is one of ours.
    unsafe fn bind(&self, to: *mut Fid, flags: u64) -> Outcome<()> {
        if self.station.get().is_some() {
            return Err(errors::OPBADSTATE);
        }
        // SAFETY: as above; each class is of its type.
        unsafe {
            match guard::given(to.cast_const())?.class {
                c::CLASS_CQ => self.bind_queue(object::shared(to.cast())?, flags),
                c::CLASS_CNTR => self.bind_counter(object::shared(to.cast())?, flags),
                c::CLASS_AV => self.bind_vector(object::shared(to.cast())?),
                c::CLASS_EQ => {
                    self.bound().events = Some(Held::new(object::shared(to.cast())?));
                    Ok(())
                }
                _ => Err(errors::INVAL),
            }
        }
    }

    /// From here on it has an address, and takes work.
    fn enable(&self) -> Outcome<()> {
        let mut bound = self.bound();
        if self.station.get().is_some() {
            return Err(errors::OPBADSTATE);
        }
        match self.is_connected {
            true if bound.events.is_none() => return Err(errors::NOEQ),
            false if bound.vector.is_none() => return Err(errors::NOAV),
            _ => {}
        }
        let is_told = |queue: &Option<Held<Queue>>, kinds: u64| {
            queue.is_some() || bound.counters.iter().any(|(of, _)| of & kinds != 0)
        };
        let sends = c::SEND | c::READ | c::WRITE;
        let needs_sent = self.caps & sends != 0 && !is_told(&bound.sent, sends);
        if needs_sent || self.caps & c::RECV != 0 && !is_told(&bound.received, c::RECV) {
            return Err(errors::NOCQ);
        }
        let configuration = self.domain.configuration();
        let engine = domain::open_engine(configuration)?;
        let sinks = Sinks {
            sent: bound.sent.take(),
            received: bound.received.take(),
            counters: core::mem::take(&mut bound.counters),
            of_regions: match self.caps & c::RMA_EVENT {
                0 => None,
                _ => Some(Arc::clone(self.domain.counters())),
            },
        };
        let options = Options {
            has_source: self.caps & (c::SOURCE | c::SOURCE_ERR) != 0,
            has_strangers: self.caps & c::SOURCE_ERR != 0,
            stats: configuration.stats,
        };
        let reach = match bound.events.as_ref().filter(|_| self.is_connected) {
            Some(events) => {
                let events = Held::new(Arc::clone(events.shared()));
                Reach::One(Connection::new(
                    self.fid(),
                    events,
                    configuration.settings.peer_timeout,
                ))
            }
            None => Reach::Many(RwLock::default()),
        };
        let station = Arc::new(Station::new(engine, reach, sinks, options));
        if let Err(error) = self.connect(&bound, &station) {
            self.disconnect_from(&bound, &station);
            return Err(error);
        }
        // Nobody else sets it while `bound` is locked.
        let _ = self.station.set(station);
        Ok(())
    }

    /// Tells all objects around it of the endpoint.
    fn connect(&self, bound: &Bound, station: &Arc<Station>) -> Outcome<()> {
        self.domain.add(station)?;
        if let Some(vector) = &bound.vector {
            vector.add(station);
        }
        let sinks = station.sinks();
        for queue in [&sinks.sent, &sinks.received].into_iter().flatten() {
            queue.waiter().add(station)?;
        }
        for (_, counter) in &sinks.counters {
            counter.waiter().add(station)?;
        }
        match station.connection() {
            Ok(connection) => connection.events().waiter().add(station),
            Err(_) => Ok(()),
        }
    }

    fn disconnect(&self, station: &Arc<Station>) {
        let bound = self.bound();
        self.disconnect_from(&bound, station);
    }

    fn disconnect_from(&self, bound: &Bound, station: &Arc<Station>) {
        let sinks = station.sinks();
        for queue in [&sinks.sent, &sinks.received].into_iter().flatten() {
            queue.waiter().remove(station);
        }
        for (_, counter) in &sinks.counters {
            counter.waiter().remove(station);
        }
        if let Some(vector) = &bound.vector {
            vector.remove(station);
        }
        if let Ok(connection) = station.connection() {
            connection.events().waiter().remove(station);
        }
        self.domain.remove(station);
    }

    /// The default flags of operations in one direction.
    fn default_flags(&self, direction: u64) -> Outcome<(&AtomicU64, u64)> {
        match direction & (c::SEND | c::RECV) {
            c::SEND => Ok((&self.tx_flags, info::TX_OP_FLAGS)),
            c::RECV => Ok((&self.rx_flags, info::RX_OP_FLAGS)),
            _ => Err(errors::INVAL),
        }
    }
}

/// Flags that an operation may have.
fn check(flags: u64, possible: u64) -> Outcome<()> {
    if flags & !possible == 0 {
        Ok(())
    } else {
        Err(errors::BADFLAGS)
    }
}

/// Whether data to be injected is short enough.
fn check_inject(flags: u64, pieces: &[Piece]) -> Outcome<bool> {
    let is_injected = flags & c::INJECT != 0;
    if is_injected && pieces::total(pieces)? > INJECT_BYTES_MAX {
        return Err(errors::MSGSIZE);
    }
    Ok(is_injected)
}

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: object::close::<Endpoint>,
    bind,
    control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

static OPS: EpOps = EpOps {
    size: size_of::<EpOps>(),
    cancel,
    getopt: options::getopt,
    setopt: options::setopt,
    tx_ctx: guard::absent,
    rx_ctx: guard::absent,
    rx_size_left: guard::absent,
    tx_size_left: guard::absent,
    export_xpu: guard::absent,
};

static COLLECTIVE_OPS: CollectiveOps = CollectiveOps {
    size: size_of::<CollectiveOps>(),
    operations: [guard::absent; 11],
};

/// `fi_endpoint`.
///
/// # Safety
/// The information and the place are null or valid.
pub unsafe fn open(
    domain: Held<Domain>,
    info: *const Info,
    place: *mut *mut FidEp,
    context: *mut c_void,
) -> Outcome<()> {
    // SAFETY: as above. No field is read that came after 1.17.
    let (info, ep, tx, rx) = unsafe {
        let info = guard::given(info)?;
        let halves = (info.tx_attr.as_ref(), info.rx_attr.as_ref());
        (info, info.ep_attr.as_ref(), halves.0, halves.1)
    };
    let is_connected = match ep.map_or(c::EP_UNSPEC, |ep| ep.kind) {
        c::EP_MSG => true,
        c::EP_UNSPEC | c::EP_RDM => false,
        _ => return Err(errors::NOSYS),
    };
    let beginning = match is_connected {
        true => Beginning::of(domain.fabric(), info.handle)?,
        false => Beginning::default(),
    };
    let (tx_flags, rx_flags) = (
        tx.map_or(0, |tx| tx.op_flags),
        rx.map_or(0, |rx| rx.op_flags),
    );
    check(tx_flags, info::TX_OP_FLAGS)?;
    check(rx_flags, info::RX_OP_FLAGS)?;
    let endpoint = Endpoint {
        face: Face::new(FidEp {
            fid: object::fid::<Endpoint>(context, &FID_OPS),
            ops: &raw const OPS,
            cm: &raw const CM_OPS,
            msg: &raw const messages::MSG_OPS,
            rma: &raw const memory::OPS,
            tagged: &raw const messages::TAGGED_OPS,
            atomic: &raw const atomics::OPS,
            collective: &raw const COLLECTIVE_OPS,
        }),
        users: Users::default(),
        domain,
        caps: info.caps,
        is_connected,
        at: beginning.at,
        door: beginning.door,
        caller: Mutex::new(beginning.caller),
        tx_flags: AtomicU64::new(tx_flags),
        rx_flags: AtomicU64::new(rx_flags),
        is_tx_selective: AtomicBool::new(false),
        is_rx_selective: AtomicBool::new(false),
        min_multi_recv: AtomicUsize::new(MIN_MULTI_RECV_BYTES),
        bound: Mutex::default(),
        station: OnceLock::new(),
    };
    // SAFETY: as above.
    unsafe { object::give(place, Arc::new(endpoint)) }
}

/// The endpoint that C speaks of.
///
/// # Safety
/// As of [`object::object`].
unsafe fn endpoint<'a>(face: *const c_void) -> Outcome<&'a Endpoint> {
    // SAFETY: as above.
    unsafe { object::object(face) }
}

unsafe extern "C" fn bind(fid: *mut Fid, to: *mut Fid, flags: u64) -> c_int {
    // SAFETY: C gives objects of ours.
    guard::status(|| unsafe { endpoint(fid.cast())?.bind(to, flags) })
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    guard::status(|| {
        // SAFETY: C gives an endpoint of ours, and a place of the type that the command has.
        unsafe {
            let endpoint = endpoint(fid.cast())?;
            match command {
                c::ENABLE => endpoint.enable(),
                c::GETOPSFLAG => {
                    let direction = *guard::given(argument.cast::<u64>())?;
                    let (flags, _) = endpoint.default_flags(direction)?;
                    guard::put(argument.cast(), flags.load(Ordering::Relaxed))
                }
                c::SETOPSFLAG => {
                    let wanted = *guard::given(argument.cast::<u64>())?;
                    let (flags, possible) = endpoint.default_flags(wanted)?;
                    let wanted = wanted & !(c::SEND | c::RECV);
                    check(wanted, possible)?;
                    flags.store(wanted, Ordering::Relaxed);
                    Ok(())
                }
                _ => Err(errors::NOSYS),
            }
        }
    })
}

unsafe extern "C" fn cancel(fid: *mut Fid, context: *mut c_void) -> isize {
    guard::posted(|| {
        // SAFETY: C gives an endpoint of ours.
        let station = unsafe { endpoint(fid.cast()) }?.station()?;
        match station.cancel(context as usize) {
            true => Ok(()),
            false => Err(errors::NOENT),
        }
    })
}
