//! A program in C, in so many words: it has pointers, and calls what their tables say.

use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};

use crate::abi::constants as c;
use crate::abi::domain::{AvAttr, FidAv, FidDomain, FidMr};
use crate::abi::endpoint::FidEp;
use crate::abi::fabric::{DomainAttr, EpAttr, FabricAttr, Fid, FidFabric, Info, RxAttr, TxAttr};
use crate::abi::queues::{
    CntrAttr, CqAttr, CqErrEntry, CqTaggedEntry, EqAttr, FidCntr, FidCq, FidEq,
};
use crate::name;

/// What others do with regions.
const BY_OTHERS: u64 = c::REMOTE_READ | c::REMOTE_WRITE;

/// Negated errors, as functions return them.
pub const fn minus(errno: crate::abi::errors::Errno) -> isize {
    -(errno.0 as isize)
}

/// A structure of zeros, as C programs begin with.
pub fn zeros<T>() -> T {
    // SAFETY: all of these are numbers and pointers.
    unsafe { core::mem::zeroed() }
}

/// Hints that point to their parts.
pub struct Hints {
    pub info: Info,
    pub tx: Box<TxAttr>,
    pub rx: Box<RxAttr>,
    pub ep: Box<EpAttr>,
    pub domain: Box<DomainAttr>,
    pub fabric: Box<FabricAttr>,
}

impl Hints {
    /// Of such capabilities, for an endpoint of the type that there is.
    pub fn new(caps: u64) -> Hints {
        let mut hints = Hints {
            info: zeros(),
            tx: Box::new(zeros()),
            rx: Box::new(zeros()),
            ep: Box::new(zeros()),
            domain: Box::new(zeros()),
            fabric: Box::new(zeros()),
        };
        hints.info.caps = caps;
        hints.ep.kind = c::EP_RDM;
        hints
    }

    /// To all of it, as a program gives it.
    pub fn pointer(&mut self) -> *const Info {
        self.info.tx_attr = &raw mut *self.tx;
        self.info.rx_attr = &raw mut *self.rx;
        self.info.ep_attr = &raw mut *self.ep;
        self.info.domain_attr = &raw mut *self.domain;
        self.info.fabric_attr = &raw mut *self.fabric;
        &raw const self.info
    }
}

/// What `fi_getinfo` gave, to be freed as libfabric does.
pub struct Given(pub *mut Info);

impl Given {
    /// Asks for it.
    pub fn get(version: u32, hints: Option<&mut Hints>) -> Result<Given, c_int> {
        Given::get_with(version, 0, hints)
    }

    pub fn get_with(version: u32, flags: u64, hints: Option<&mut Hints>) -> Result<Given, c_int> {
        let hints = hints.map_or(null(), Hints::pointer);
        let mut info = null_mut();
        // SAFETY: the hints are valid, or null.
        let status = unsafe {
            let provider = &*crate::provider::provider();
            (provider.getinfo)(version, null(), null(), flags, hints, &raw mut info)
        };
        if status == 0 {
            Ok(Given(info))
        } else {
            Err(status)
        }
    }

    pub fn info(&self) -> &Info {
        // SAFETY: it was given, and is not freed yet.
        unsafe { &*self.0 }
    }

    pub fn domain(&self) -> &DomainAttr {
        // SAFETY: as above.
        unsafe { &*self.info().domain_attr }
    }

    pub fn tx(&self) -> &TxAttr {
        // SAFETY: as above.
        unsafe { &*self.info().tx_attr }
    }

    pub fn rx(&self) -> &RxAttr {
        // SAFETY: as above.
        unsafe { &*self.info().rx_attr }
    }

    pub fn ep(&self) -> &EpAttr {
        // SAFETY: as above.
        unsafe { &*self.info().ep_attr }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        while !self.0.is_null() {
            // SAFETY: all of these are the C library's, or null.
            unsafe {
                let info = &*self.0;
                libc::free((*info.domain_attr).name.cast());
                libc::free((*info.fabric_attr).name.cast());
                libc::free((*info.fabric_attr).prov_name.cast());
                let next = info.next;
                for part in [
                    info.tx_attr.cast::<c_void>(),
                    info.rx_attr.cast(),
                    info.ep_attr.cast(),
                    info.domain_attr.cast(),
                    info.fabric_attr.cast(),
                    info.src_addr,
                    info.dest_addr,
                    self.0.cast(),
                ] {
                    libc::free(part);
                }
                self.0 = next;
            }
        }
    }
}

/// Closes an object; what that returns.
pub fn close<T>(object: *mut T) -> isize {
    let fid = object.cast::<Fid>();
    // SAFETY: every object begins so.
    unsafe { ((*(*fid).ops).close)(fid) as isize }
}

/// Binds an object to another; what that returns.
pub fn bind<T, U>(object: *mut T, to: *mut U, flags: u64) -> isize {
    let fid = object.cast::<Fid>();
    // SAFETY: every object begins so.
    unsafe { ((*(*fid).ops).bind)(fid, to.cast(), flags) as isize }
}

/// Commands an object; what that returns.
pub fn control<T>(object: *mut T, command: c_int, argument: *mut c_void) -> isize {
    let fid = object.cast::<Fid>();
    // SAFETY: every object begins so.
    unsafe { ((*(*fid).ops).control)(fid, command, argument) as isize }
}

/// How a rank is made.
pub struct Plan {
    pub version: u32,
    pub hints: Hints,
    pub cq_format: u32,
    pub cq_wait: u32,
    pub av_kind: u32,
    /// Added to the flags that the completion queue is bound with.
    pub cq_flags: u64,
    /// Whether it is enabled.
    pub enable: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        let caps = c::MSG | c::TAGGED | c::RMA | c::ATOMIC | c::MULTI_RECV;
        Plan {
            version: c::version(1, 18),
            hints: Hints::new(caps | c::DIRECTED_RECV | c::SOURCE),
            cq_format: c::CQ_FORMAT_TAGGED,
            cq_wait: c::WAIT_UNSPEC,
            av_kind: c::AV_TABLE,
            cq_flags: 0,
            enable: true,
        }
    }
}

/// All the objects of a program.
pub struct Rank {
    pub fabric: *mut FidFabric,
    pub eq: *mut FidEq,
    pub domain: *mut FidDomain,
    pub av: *mut FidAv,
    pub cq: *mut FidCq,
    pub counter: *mut FidCntr,
    pub ep: *mut FidEp,
    pub given: Given,
}

impl Rank {
    pub fn new(mut plan: Plan) -> Rank {
        let given = Given::get(plan.version, Some(&mut plan.hints)).expect("it is offered");
        let mut rank = Rank {
            fabric: null_mut(),
            eq: null_mut(),
            domain: null_mut(),
            av: null_mut(),
            cq: null_mut(),
            counter: null_mut(),
            ep: null_mut(),
            given,
        };
        rank.open(&plan);
        if plan.enable {
            assert_eq!(control(rank.ep, c::ENABLE, null_mut()), 0);
        }
        rank
    }

    fn open(&mut self, plan: &Plan) {
        let none = null_mut();
        let mut cq_attr: CqAttr = zeros();
        (cq_attr.format, cq_attr.wait_obj) = (plan.cq_format, plan.cq_wait);
        let mut av_attr: AvAttr = zeros();
        av_attr.kind = plan.av_kind;
        let mut eq_attr: EqAttr = zeros();
        (eq_attr.flags, eq_attr.wait_obj) = (c::WRITE, c::WAIT_FD);
        let mut cntr_attr: CntrAttr = zeros();
        // SAFETY: as a program calls them; each place is a pointer's.
        unsafe {
            let provider = &*crate::provider::provider();
            let info = self.given.0;
            let attr = (*info).fabric_attr;
            // As libfabric does it.
            (*attr).api_version = plan.version;
            assert_eq!((provider.fabric)(attr, &raw mut self.fabric, none), 0);
            (*self.fabric).api_version = plan.version;
            let fabric = &*(*self.fabric).ops;
            let eq = &raw mut self.eq;
            assert_eq!((fabric.eq_open)(self.fabric, &raw mut eq_attr, eq, none), 0);
            assert_eq!(
                (fabric.domain)(self.fabric, info, &raw mut self.domain, none),
                0
            );
            let (domain, it) = (&*(*self.domain).ops, self.domain);
            assert_eq!(
                (domain.av_open)(it, &raw mut av_attr, &raw mut self.av, none),
                0
            );
            assert_eq!(
                (domain.cq_open)(it, &raw mut cq_attr, &raw mut self.cq, none),
                0
            );
            let counter = &raw mut self.counter;
            assert_eq!((domain.cntr_open)(it, &raw mut cntr_attr, counter, none), 0);
            assert_eq!((domain.endpoint)(it, info, &raw mut self.ep, none), 0);
        }
        assert_eq!(bind(self.ep, self.av, 0), 0);
        assert_eq!(bind(self.ep, self.eq, 0), 0);
        let both = c::SEND | c::RECV | plan.cq_flags;
        assert_eq!(bind(self.ep, self.cq, both), 0);
        let counted = c::SEND | c::RECV | c::READ | c::WRITE | BY_OTHERS;
        assert_eq!(bind(self.ep, self.counter, counted), 0);
    }

    /// Its address, as others are told.
    pub fn name(&self) -> [u8; name::BYTES] {
        let mut name = [0; name::BYTES];
        let mut len = name.len();
        // SAFETY: as a program calls it.
        let status = unsafe {
            ((*(*self.ep).cm).getname)(self.ep.cast(), name.as_mut_ptr().cast(), &raw mut len)
        };
        assert_eq!((status, len), (0, name::BYTES));
        name
    }

    /// The number of another one's address.
    pub fn insert(&self, name: &[u8; name::BYTES]) -> u64 {
        let mut number = c::NOT_AVAILABLE;
        // SAFETY: as a program calls it.
        let count = unsafe {
            ((*(*self.av).ops).insert)(
                self.av,
                name.as_ptr().cast(),
                1,
                &raw mut number,
                0,
                null_mut(),
            )
        };
        assert_eq!(count, 1);
        number
    }

    /// A region of memory; the object and its key.
    pub fn register(&self, bytes: &mut [u8], access: u64, key: u64) -> (*mut FidMr, u64) {
        let mut region = null_mut();
        // SAFETY: as a program calls it.
        unsafe {
            let status = ((*(*self.domain).mr).reg)(
                self.domain.cast(),
                bytes.as_mut_ptr().cast_const().cast(),
                bytes.len(),
                access,
                0,
                key,
                0,
                &raw mut region,
                null_mut(),
            );
            assert_eq!(status, 0);
            (region, (*region).key)
        }
    }

    /// The next completion.
    pub fn read(&self) -> Result<CqTaggedEntry, isize> {
        self.read_from().map(|(entry, _)| entry)
    }

    /// The next completion, and whom it is from.
    pub fn read_from(&self) -> Result<(CqTaggedEntry, u64), isize> {
        let (mut entry, mut source) = (zeros::<CqTaggedEntry>(), 0);
        // SAFETY: as a program calls it.
        let read = unsafe {
            let ops = &*(*self.cq).ops;
            (ops.readfrom)(self.cq, (&raw mut entry).cast(), 1, &raw mut source)
        };
        if read == 1 {
            Ok((entry, source))
        } else {
            Err(read)
        }
    }

    /// The next completion, which failed.
    pub fn read_error(&self) -> CqErrEntry {
        assert_eq!(self.read().unwrap_err(), minus(crate::abi::errors::AVAIL));
        let mut entry: CqErrEntry = zeros();
        // SAFETY: as a program calls it.
        let read = unsafe { ((*(*self.cq).ops).readerr)(self.cq, &raw mut entry, 0) };
        assert_eq!(read, 1);
        entry
    }

    /// Nothing has ended.
    pub fn is_quiet(&self) -> bool {
        self.read()
            .is_err_and(|error| error == minus(crate::abi::errors::AGAIN))
    }

    /// What its counter has counted.
    pub fn counted(&self) -> (u64, u64) {
        // SAFETY: as a program calls it.
        unsafe {
            let ops = &*(*self.counter).ops;
            ((ops.read)(self.counter), (ops.readerr)(self.counter))
        }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        assert_eq!(close(self.ep), 0);
        assert_eq!(close(self.av), 0);
        assert_eq!(close(self.counter), 0);
        assert_eq!(close(self.cq), 0);
        if !std::thread::panicking() {
            assert_eq!(close(self.domain), 0, "something is open still");
            assert_eq!(close(self.eq), 0);
            assert_eq!(close(self.fabric), 0);
        }
    }
}

/// Two ranks that know each other: each with the number of the other.
pub fn pair(plan: fn() -> Plan) -> ((Rank, u64), (Rank, u64)) {
    let (a, b) = (Rank::new(plan()), Rank::new(plan()));
    let (to_b, to_a) = (a.insert(&b.name()), b.insert(&a.name()));
    ((a, to_b), (b, to_a))
}

/// The context of an operation.
pub fn context(number: usize) -> *mut c_void {
    number as *mut c_void
}
