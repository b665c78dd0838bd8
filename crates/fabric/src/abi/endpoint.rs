//! Endpoints (`rdma/fi_endpoint.h`, `rdma/fi_cm.h`).

use core::ffi::{c_int, c_void};

use super::fabric::{Absent, Fid};
use super::transfers::{AtomicOps, MsgOps, RmaOps, TaggedOps};

/// An endpoint.
#[repr(C)]
pub struct FidEp {
    pub fid: Fid,
    pub ops: *const EpOps,
    pub cm: *const CmOps,
    pub msg: *const MsgOps,
    pub rma: *const RmaOps,
    pub tagged: *const TaggedOps,
    pub atomic: *const AtomicOps,
    pub collective: *const CollectiveOps,
}

/// An endpoint that waits for callers.
#[repr(C)]
pub struct FidPep {
    pub fid: Fid,
    pub ops: *const EpOps,
    pub cm: *const CmOps,
}

/// An endpoint's functions besides data transfer.
#[repr(C)]
pub struct EpOps {
    pub size: usize,
    pub cancel: unsafe extern "C" fn(*mut Fid, *mut c_void) -> isize,
    pub getopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
    pub setopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *const c_void, usize) -> c_int,
    pub tx_ctx: Absent,
    pub rx_ctx: Absent,
    pub rx_size_left: Absent,
    pub tx_size_left: Absent,
    pub export_xpu: Absent,
}

/// Names, and connections of endpoints that have them.
#[repr(C)]
pub struct CmOps {
    pub size: usize,
    pub setname: unsafe extern "C" fn(*mut Fid, *const c_void, usize) -> c_int,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
    pub getpeer: unsafe extern "C" fn(*mut FidEp, *mut c_void, *mut usize) -> c_int,
    pub connect: unsafe extern "C" fn(*mut FidEp, *const c_void, *const c_void, usize) -> c_int,
    pub listen: unsafe extern "C" fn(*mut FidPep) -> c_int,
    pub accept: unsafe extern "C" fn(*mut FidEp, *const c_void, usize) -> c_int,
    pub reject: unsafe extern "C" fn(*mut FidPep, *mut Fid, *const c_void, usize) -> c_int,
    pub shutdown: unsafe extern "C" fn(*mut FidEp, u64) -> c_int,
    pub join: Absent,
}

/// Collective operations: barrier, broadcast, alltoall, allreduce, allgather, reduce_scatter, reduce, scatter, gather,
/// msg, barrier2.
#[repr(C)]
pub struct CollectiveOps {
    pub size: usize,
    pub operations: [Absent; 11],
}
