//! Data transfer: messages, tags, remote memory, atomics (`rdma/fi_endpoint.h`, `fi_tagged.h`, `fi_rma.h`,
//! `fi_atomic.h`).

use core::ffi::{c_int, c_void};

use libc::iovec;

use super::endpoint::FidEp;

/// A message.
#[repr(C)]
pub struct Msg {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub context: *mut c_void,
    pub data: u64,
}

/// A message with a tag.
#[repr(C)]
pub struct MsgTagged {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

/// A piece of a peer's memory.
#[repr(C)]
pub struct RmaIov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

/// A read or write of a peer's memory.
#[repr(C)]
pub struct MsgRma {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub rma_iov: *const RmaIov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

/// Numbers here.
#[repr(C)]
pub struct Ioc {
    pub addr: *mut c_void,
    pub count: usize,
}

/// Numbers in a peer's memory.
#[repr(C)]
pub struct RmaIoc {
    pub addr: u64,
    pub count: usize,
    pub key: u64,
}

/// An atomic operation.
#[repr(C)]
pub struct MsgAtomic {
    pub msg_iov: *const Ioc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub rma_iov: *const RmaIoc,
    pub rma_iov_count: usize,
    pub datatype: u32,
    pub op: u32,
    pub context: *mut c_void,
    pub data: u64,
}

type Ep = *mut FidEp;
type Buffer = *mut c_void;
type Bytes = *const c_void;
type Desc = *mut c_void;
type Descs = *mut *mut c_void;
type Context = *mut c_void;

/// Messages.
#[repr(C)]
pub struct MsgOps {
    pub size: usize,
    pub recv: unsafe extern "C" fn(Ep, Buffer, usize, Desc, u64, Context) -> isize,
    pub recvv: unsafe extern "C" fn(Ep, *const iovec, Descs, usize, u64, Context) -> isize,
    pub recvmsg: unsafe extern "C" fn(Ep, *const Msg, u64) -> isize,
    pub send: unsafe extern "C" fn(Ep, Bytes, usize, Desc, u64, Context) -> isize,
    pub sendv: unsafe extern "C" fn(Ep, *const iovec, Descs, usize, u64, Context) -> isize,
    pub sendmsg: unsafe extern "C" fn(Ep, *const Msg, u64) -> isize,
    pub inject: unsafe extern "C" fn(Ep, Bytes, usize, u64) -> isize,
    pub senddata: unsafe extern "C" fn(Ep, Bytes, usize, Desc, u64, u64, Context) -> isize,
    pub injectdata: unsafe extern "C" fn(Ep, Bytes, usize, u64, u64) -> isize,
}

/// Messages with tags.
#[repr(C)]
pub struct TaggedOps {
    pub size: usize,
    pub recv: unsafe extern "C" fn(Ep, Buffer, usize, Desc, u64, u64, u64, Context) -> isize,
    pub recvv:
        unsafe extern "C" fn(Ep, *const iovec, Descs, usize, u64, u64, u64, Context) -> isize,
    pub recvmsg: unsafe extern "C" fn(Ep, *const MsgTagged, u64) -> isize,
    pub send: unsafe extern "C" fn(Ep, Bytes, usize, Desc, u64, u64, Context) -> isize,
    pub sendv: unsafe extern "C" fn(Ep, *const iovec, Descs, usize, u64, u64, Context) -> isize,
    pub sendmsg: unsafe extern "C" fn(Ep, *const MsgTagged, u64) -> isize,
    pub inject: unsafe extern "C" fn(Ep, Bytes, usize, u64, u64) -> isize,
    pub senddata: unsafe extern "C" fn(Ep, Bytes, usize, Desc, u64, u64, u64, Context) -> isize,
    pub injectdata: unsafe extern "C" fn(Ep, Bytes, usize, u64, u64, u64) -> isize,
}

/// Remote memory.
#[repr(C)]
pub struct RmaOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(Ep, Buffer, usize, Desc, u64, u64, u64, Context) -> isize,
    pub readv:
        unsafe extern "C" fn(Ep, *const iovec, Descs, usize, u64, u64, u64, Context) -> isize,
    pub readmsg: unsafe extern "C" fn(Ep, *const MsgRma, u64) -> isize,
    pub write: unsafe extern "C" fn(Ep, Bytes, usize, Desc, u64, u64, u64, Context) -> isize,
    pub writev:
        unsafe extern "C" fn(Ep, *const iovec, Descs, usize, u64, u64, u64, Context) -> isize,
    pub writemsg: unsafe extern "C" fn(Ep, *const MsgRma, u64) -> isize,
    pub inject: unsafe extern "C" fn(Ep, Bytes, usize, u64, u64, u64) -> isize,
    pub writedata:
        unsafe extern "C" fn(Ep, Bytes, usize, Desc, u64, u64, u64, u64, Context) -> isize,
    pub injectdata: unsafe extern "C" fn(Ep, Bytes, usize, u64, u64, u64, u64) -> isize,
}

type Valid = unsafe extern "C" fn(Ep, u32, u32, *mut usize) -> c_int;

/// Atomic operations.
#[repr(C)]
pub struct AtomicOps {
    pub size: usize,
    pub write:
        unsafe extern "C" fn(Ep, Bytes, usize, Desc, u64, u64, u64, u32, u32, Context) -> isize,
    pub writev: unsafe extern "C" fn(
        Ep,
        *const Ioc,
        Descs,
        usize,
        u64,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub writemsg: unsafe extern "C" fn(Ep, *const MsgAtomic, u64) -> isize,
    pub inject: unsafe extern "C" fn(Ep, Bytes, usize, u64, u64, u64, u32, u32) -> isize,
    pub readwrite: unsafe extern "C" fn(
        Ep,
        Bytes,
        usize,
        Desc,
        Buffer,
        Desc,
        u64,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub readwritev: unsafe extern "C" fn(
        Ep,
        *const Ioc,
        Descs,
        usize,
        *mut Ioc,
        Descs,
        usize,
        u64,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub readwritemsg:
        unsafe extern "C" fn(Ep, *const MsgAtomic, *mut Ioc, Descs, usize, u64) -> isize,
    pub compwrite: unsafe extern "C" fn(
        Ep,
        Bytes,
        usize,
        Desc,
        Bytes,
        Desc,
        Buffer,
        Desc,
        u64,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub compwritev: unsafe extern "C" fn(
        Ep,
        *const Ioc,
        Descs,
        usize,
        *const Ioc,
        Descs,
        usize,
        *mut Ioc,
        Descs,
        usize,
        u64,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub compwritemsg: unsafe extern "C" fn(
        Ep,
        *const MsgAtomic,
        *const Ioc,
        Descs,
        usize,
        *mut Ioc,
        Descs,
        usize,
        u64,
    ) -> isize,
    pub writevalid: Valid,
    pub readwritevalid: Valid,
    pub compwritevalid: Valid,
}
