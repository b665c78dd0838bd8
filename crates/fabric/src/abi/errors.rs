//! Numbers of errors (`rdma/fi_errno.h`). Functions return them negated; completions hold them as they are.

use core::ffi::c_int;

/// A number of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub c_int);

/// Result of most functions here.
pub type Outcome<T> = Result<T, Errno>;

pub const NOENT: Errno = Errno(libc::ENOENT);
pub const IO: Errno = Errno(libc::EIO);
pub const AGAIN: Errno = Errno(libc::EAGAIN);
pub const NOMEM: Errno = Errno(libc::ENOMEM);
pub const ACCES: Errno = Errno(libc::EACCES);
pub const FAULT: Errno = Errno(libc::EFAULT);
pub const BUSY: Errno = Errno(libc::EBUSY);
pub const INVAL: Errno = Errno(libc::EINVAL);
pub const NOSYS: Errno = Errno(libc::ENOSYS);
pub const NOMSG: Errno = Errno(libc::ENOMSG);
pub const NODATA: Errno = Errno(libc::ENODATA);
pub const NODEV: Errno = Errno(libc::ENODEV);
pub const MSGSIZE: Errno = Errno(libc::EMSGSIZE);
pub const NOPROTOOPT: Errno = Errno(libc::ENOPROTOOPT);
pub const OPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);
pub const ADDRINUSE: Errno = Errno(libc::EADDRINUSE);
pub const ADDRNOTAVAIL: Errno = Errno(libc::EADDRNOTAVAIL);
pub const CONNABORTED: Errno = Errno(libc::ECONNABORTED);
pub const CONNRESET: Errno = Errno(libc::ECONNRESET);
pub const HOSTUNREACH: Errno = Errno(libc::EHOSTUNREACH);
pub const NOTCONN: Errno = Errno(libc::ENOTCONN);
pub const SHUTDOWN: Errno = Errno(libc::ESHUTDOWN);
pub const CONNREFUSED: Errno = Errno(libc::ECONNREFUSED);
pub const TIMEDOUT: Errno = Errno(libc::ETIMEDOUT);
pub const CANCELED: Errno = Errno(libc::ECANCELED);
pub const KEYREJECTED: Errno = Errno(libc::EKEYREJECTED);

// libfabric's own.
pub const OTHER: Errno = Errno(256);
pub const TOOSMALL: Errno = Errno(257);
pub const OPBADSTATE: Errno = Errno(258);
pub const AVAIL: Errno = Errno(259);
pub const BADFLAGS: Errno = Errno(260);
pub const NOEQ: Errno = Errno(261);
pub const DOMAIN: Errno = Errno(262);
pub const NOCQ: Errno = Errno(263);
pub const TRUNC: Errno = Errno(265);
pub const NOKEY: Errno = Errno(266);
pub const NOAV: Errno = Errno(267);
