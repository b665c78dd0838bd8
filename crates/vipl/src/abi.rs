//! The declarations of `vipl.h` in Rust. A test compares the two (`tests/layout.rs`).
#![allow(
    missing_docs,
    reason = "the names are the specification's, which says what they mean"
)]

use core::ffi::{c_char, c_int, c_ulong, c_ushort, c_void};

/// `VIP_RETURN`.
pub type Return = c_int;

/// Why a function failed: a `VIP_RETURN` other than `VIP_SUCCESS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code(pub Return);

/// Result of functions inside of the library.
pub type Outcome<T> = Result<T, Code>;

pub const SUCCESS: Return = 0;
pub const NOT_DONE: Code = Code(1);
pub const INVALID_PARAMETER: Code = Code(2);
pub const ERROR_RESOURCE: Code = Code(3);
pub const TIMEOUT: Code = Code(4);
pub const REJECT: Code = Code(5);
pub const INVALID_RELIABILITY_LEVEL: Code = Code(6);
pub const INVALID_MTU: Code = Code(7);
pub const INVALID_QOS: Code = Code(8);
pub const INVALID_PTAG: Code = Code(9);
pub const INVALID_RDMAREAD: Code = Code(10);
pub const DESCRIPTOR_ERROR: Code = Code(11);
pub const INVALID_STATE: Code = Code(12);
pub const ERROR_NAMESERVICE: Code = Code(13);
pub const NO_MATCH: Code = Code(14);
pub const NOT_REACHABLE: Code = Code(15);
pub const ERROR_NOT_SUPPORTED: Code = Code(16);

/// A timeout that never passes; all bits of the longer type count as one, too.
pub const INFINITE: c_ulong = 0xFFFF_FFFF;

pub const SERVICE_UNRELIABLE: c_ushort = 1;
pub const SERVICE_RELIABLE_DELIVERY: c_ushort = 2;
pub const SERVICE_RELIABLE_RECEPTION: c_ushort = 4;

pub const STATE_IDLE: c_int = 0;
pub const STATE_CONNECTED: c_int = 1;
pub const STATE_CONNECT_PENDING: c_int = 2;
pub const STATE_ERROR: c_int = 3;

pub const DESCRIPTOR_ALIGNMENT: usize = 64;

pub const CONTROL_OP_SENDRECV: u16 = 0;
pub const CONTROL_OP_RDMAWRITE: u16 = 1;
pub const CONTROL_OP_RDMAREAD: u16 = 2;
pub const CONTROL_OP_MASK: u16 = 3;
pub const CONTROL_IMMEDIATE: u16 = 4;
pub const CONTROL_QFENCE: u16 = 8;
pub const CONTROL_RESERVED: u16 = 0xFFF0;

pub const STATUS_DONE: u32 = 0x1;
pub const STATUS_FORMAT_ERROR: u32 = 0x2;
pub const STATUS_PROTECTION_ERROR: u32 = 0x4;
pub const STATUS_LENGTH_ERROR: u32 = 0x8;
pub const STATUS_PARTIAL_ERROR: u32 = 0x10;
pub const STATUS_DESC_FLUSHED_ERROR: u32 = 0x20;
pub const STATUS_TRANSPORT_ERROR: u32 = 0x40;
pub const STATUS_RDMA_PROT_ERROR: u32 = 0x80;
pub const STATUS_REMOTE_DESC_ERROR: u32 = 0x100;
pub const STATUS_ERROR_MASK: u32 = 0x1FE;
pub const STATUS_OP_SEND: u32 = 0;
pub const STATUS_OP_RECEIVE: u32 = 0x10000;
pub const STATUS_OP_RDMA_WRITE: u32 = 0x20000;
pub const STATUS_OP_REMOTE_RDMA_WRITE: u32 = 0x30000;
pub const STATUS_OP_RDMA_READ: u32 = 0x40000;
pub const STATUS_IMMEDIATE: u32 = 0x80000;

pub const ERROR_CONN_LOST: c_int = 1;
pub const ERROR_RECVQ_EMPTY: c_int = 2;
pub const ERROR_RDMAW_PROT: c_int = 4;
pub const ERROR_RDMAR_PROT: c_int = 7;

pub const RESOURCE_VI: c_int = 1;
pub const RESOURCE_DESCRIPTOR: c_int = 3;

pub const SMI_AUTODISCOVERY: c_ulong = 1;

/// `VIP_NET_ADDRESS`, without the bytes that follow.
#[repr(C)]
pub struct NetAddress {
    pub host_bytes: u16,
    pub discriminator_bytes: u16,
    pub host: [u8; 1],
}

/// `VIP_NIC_ATTRIBUTES`.
#[repr(C)]
pub struct NicAttributes {
    pub name: [c_char; 64],
    pub hardware_version: c_ulong,
    pub provider_version: c_ulong,
    pub nic_address_bytes: u16,
    pub local_nic_address: *const u8,
    pub thread_safe: c_int,
    pub discriminator_bytes_max: u16,
    pub register_bytes_max: c_ulong,
    pub register_regions_max: c_ulong,
    pub register_block_bytes_max: c_ulong,
    pub vi_max: c_ulong,
    pub descriptors_per_queue_max: c_ulong,
    pub segments_per_descriptor_max: c_ulong,
    pub cq_max: c_ulong,
    pub cq_entries_max: c_ulong,
    pub transfer_bytes_max: c_ulong,
    pub native_mtu: c_ulong,
    pub ptags_max: c_ulong,
    pub reliability_levels: c_ushort,
    pub rdma_read_levels: c_ushort,
}

/// `VIP_MEM_ATTRIBUTES`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemAttributes {
    pub ptag: *mut c_void,
    pub enable_rdma_write: c_int,
    pub enable_rdma_read: c_int,
}

/// `VIP_VI_ATTRIBUTES`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ViAttributes {
    pub reliability_level: c_ushort,
    pub transfer_bytes_max: c_ulong,
    pub qos: *mut c_void,
    pub ptag: *mut c_void,
    pub enable_rdma_write: c_int,
    pub enable_rdma_read: c_int,
}

/// `VIP_CONTROL_SEGMENT`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ControlSegment {
    pub next: u64,
    pub next_handle: u32,
    pub segments: u16,
    pub control: u16,
    pub reserved: u32,
    pub immediate: u32,
    pub bytes: u32,
    pub status: u32,
}

/// `VIP_DESCRIPTOR_SEGMENT`: `bytes` is reserved in a remote address.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub address: u64,
    pub handle: u32,
    pub bytes: u32,
}

/// `VIP_DESCRIPTOR`; further segments may follow.
#[repr(C)]
pub struct Descriptor {
    pub control: ControlSegment,
    pub segments: [Segment; 2],
}

/// `VIP_ERROR_DESCRIPTOR`.
#[repr(C)]
pub struct ErrorDescriptor {
    pub nic: *mut c_void,
    pub vi: *mut c_void,
    pub cq: *mut c_void,
    pub descriptor: *mut Descriptor,
    pub op_code: c_ulong,
    pub resource_code: c_int,
    pub error_code: c_int,
}

/// `VIP_AUTODISCOVERY_LIST`.
#[repr(C)]
pub struct AutodiscoveryList {
    pub hops: c_ulong,
    pub addresses: *mut *mut NetAddress,
    pub count: c_ulong,
}

/// `VIP_ERROR_HANDLER`.
pub type ErrorHandler = unsafe extern "C" fn(*mut c_void, *mut ErrorDescriptor);
/// `VIP_VI_CALLBACK`.
pub type ViCallback = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *mut Descriptor);
/// `VIP_CQ_CALLBACK`.
pub type CqCallback = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, c_int);
