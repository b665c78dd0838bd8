//! Flags and enumerations of `rdma/fabric.h` and its neighbours. Their names are libfabric's without `FI_`.

/// Version of the interface, as `FI_VERSION` packs it.
pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

// Capabilities, flags of operations and of completions share one space of bits.
pub const MSG: u64 = 1 << 1;
pub const RMA: u64 = 1 << 2;
pub const TAGGED: u64 = 1 << 3;
pub const ATOMIC: u64 = 1 << 4;
pub const READ: u64 = 1 << 8;
pub const WRITE: u64 = 1 << 9;
pub const RECV: u64 = 1 << 10;
pub const SEND: u64 = 1 << 11;
pub const REMOTE_READ: u64 = 1 << 12;
pub const REMOTE_WRITE: u64 = 1 << 13;
pub const MULTI_RECV: u64 = 1 << 16;
pub const REMOTE_CQ_DATA: u64 = 1 << 17;
pub const MORE: u64 = 1 << 18;
pub const PEEK: u64 = 1 << 19;
pub const COMPLETION: u64 = 1 << 24;
/// The same bit, for opening an address vector or region: report by an event.
pub const EVENT: u64 = COMPLETION;
pub const INJECT: u64 = 1 << 25;
pub const INJECT_COMPLETE: u64 = 1 << 26;
pub const TRANSMIT_COMPLETE: u64 = 1 << 27;
pub const DELIVERY_COMPLETE: u64 = 1 << 28;
pub const AFFINITY: u64 = 1 << 29;
pub const MATCH_COMPLETE: u64 = 1 << 31;
/// Since 2.0; before, these bits were other things.
pub const TAGGED_DIRECTED_RECV: u64 = 1 << 45;
/// Since 2.0.
pub const EXACT_DIRECTED_RECV: u64 = 1 << 48;
pub const SOURCE_ERR: u64 = 1 << 50;
pub const LOCAL_COMM: u64 = 1 << 51;
pub const REMOTE_COMM: u64 = 1 << 52;
pub const RMA_EVENT: u64 = 1 << 56;
pub const SOURCE: u64 = 1 << 57;
pub const DIRECTED_RECV: u64 = 1 << 59;
pub const CLAIM: u64 = 1 << 59;
pub const DISCARD: u64 = 1 << 58;

/// A flag that a completion queue is bound with.
pub const SELECTIVE_COMPLETION: u64 = 1 << 59;
/// A flag of insertion into an address vector: `context` is where an error for each address goes.
pub const SYNC_ERR: u64 = 1 << 58;
pub const FETCH_ATOMIC: u64 = 1 << 58;
pub const COMPARE_ATOMIC: u64 = 1 << 59;
/// A flag of `getinfo`, libfabric's own, by which it asks for providers that utility providers can be
/// layered on.
pub const CORE_PROV_ONLY: u64 = 1 << 59;

/// No address, as `FI_ADDR_UNSPEC` and `FI_ADDR_NOTAVAIL`; no key.
pub const NOT_AVAILABLE: u64 = u64::MAX;

// Formats of addresses.
pub const FORMAT_UNSPEC: u32 = 0;
pub const SOCKADDR_IN: u32 = 2;
pub const SOCKADDR_IN6: u32 = 3;

pub const AV_UNSPEC: u32 = 0;
pub const AV_MAP: u32 = 1;
pub const AV_TABLE: u32 = 2;

// How memory is registered: bits, but for the first two, which stand for old sets of them.
pub const MR_BASIC: i32 = 1 << 0;
pub const MR_SCALABLE: i32 = 1 << 1;
pub const MR_VIRT_ADDR: i32 = 1 << 4;
pub const MR_PROV_KEY: i32 = 1 << 6;

pub const PROGRESS_UNSPEC: u32 = 0;
pub const PROGRESS_AUTO: u32 = 1;
pub const PROGRESS_MANUAL: u32 = 2;
/// The last kind of progress that is known here (`FI_PROGRESS_CONTROL_UNIFIED`).
pub const PROGRESS_LAST: u32 = 3;

pub const THREAD_UNSPEC: u32 = 0;
pub const THREAD_SAFE: u32 = 1;
/// The last kind of threading (`FI_THREAD_ENDPOINT`).
pub const THREAD_LAST: u32 = 5;

pub const RM_ENABLED: u32 = 2;

pub const ORDER_SAS: u64 = 1 << 8;
pub const ORDER_ATOMIC_RAR: u64 = 1 << 36;
pub const ORDER_ATOMIC_RAW: u64 = 1 << 37;
pub const ORDER_ATOMIC_WAR: u64 = 1 << 38;
pub const ORDER_ATOMIC_WAW: u64 = 1 << 39;

pub const EP_UNSPEC: u32 = 0;
pub const EP_MSG: u32 = 1;
pub const EP_RDM: u32 = 3;

// Classes of objects.
pub const CLASS_FABRIC: usize = 1;
pub const CLASS_DOMAIN: usize = 2;
pub const CLASS_EP: usize = 3;
pub const CLASS_PEP: usize = 9;
pub const CLASS_AV: usize = 11;
pub const CLASS_MR: usize = 12;
pub const CLASS_EQ: usize = 13;
pub const CLASS_CQ: usize = 14;
pub const CLASS_CNTR: usize = 15;
pub const CLASS_POLL: usize = 17;
pub const CLASS_CONNREQ: usize = 18;

// Commands of `fi_control`.
pub const GETOPSFLAG: i32 = 2;
pub const SETOPSFLAG: i32 = 3;
pub const GETWAIT: i32 = 5;
pub const ENABLE: i32 = 6;
pub const BACKLOG: i32 = 7;
pub const GETWAITOBJ: i32 = 16;

// Wait objects of a queue.
pub const WAIT_NONE: u32 = 0;
pub const WAIT_UNSPEC: u32 = 1;
pub const WAIT_FD: u32 = 3;
pub const WAIT_YIELD: u32 = 5;

pub const CQ_FORMAT_UNSPEC: u32 = 0;
pub const CQ_FORMAT_CONTEXT: u32 = 1;
pub const CQ_FORMAT_MSG: u32 = 2;
pub const CQ_FORMAT_DATA: u32 = 3;
pub const CQ_FORMAT_TAGGED: u32 = 4;

pub const CNTR_EVENTS_COMP: u32 = 0;

// Events: a request, a connection established, its end, addresses inserted.
pub const CONNREQ: u32 = 1;
pub const CONNECTED: u32 = 2;
pub const SHUTDOWN: u32 = 3;
pub const AV_COMPLETE: u32 = 5;

// Options of an endpoint, all of level 0.
pub const OPT_ENDPOINT: i32 = 0;
pub const OPT_MIN_MULTI_RECV: i32 = 0;
pub const OPT_CM_DATA_SIZE: i32 = 1;
pub const OPT_FI_HMEM_P2P: i32 = 8;
pub const OPT_CUDA_API_PERMITTED: i32 = 10;
pub const OPT_SHARED_MEMORY_PERMITTED: i32 = 11;
pub const OPT_MAX_MSG_SIZE: i32 = 12;
pub const OPT_MAX_TAGGED_SIZE: i32 = 13;
pub const OPT_MAX_RMA_SIZE: i32 = 14;
pub const OPT_MAX_ATOMIC_SIZE: i32 = 15;
pub const OPT_INJECT_MSG_SIZE: i32 = 16;
pub const OPT_INJECT_TAGGED_SIZE: i32 = 17;
pub const OPT_INJECT_RMA_SIZE: i32 = 18;
pub const OPT_INJECT_ATOMIC_SIZE: i32 = 19;

/// The value of `FI_OPT_FI_HMEM_P2P` for no access to device memory.
pub const HMEM_P2P_DISABLED: i32 = 3;

// Log levels and subsystems.
pub const LOG_WARN: i32 = 0;
pub const LOG_INFO: i32 = 2;
pub const LOG_CORE: i32 = 0;

/// The type of a parameter that is text.
pub const PARAM_STRING: i32 = 0;
