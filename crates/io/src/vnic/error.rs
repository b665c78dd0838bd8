//! Why there is no virtual NIC.

use std::{error, fmt, io};

/// Why the virtual NIC could not be made.
#[derive(Debug)]
pub enum VnicError {
    /// The process lacks a capability.
    NotPermitted {
        /// The failed step.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// There is no `/dev/net/tun`, or it must not be opened.
    NoTun(io::Error),
    /// A device of this name exists and is not one of ours.
    NameTaken {
        /// The name.
        name: String,
    },
    /// No device can be called so.
    InvalidName {
        /// The name.
        name: String,
    },
    /// The kernel refused something else.
    Failed {
        /// The failed step.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl VnicError {
    /// For `map_err`: the step that failed.
    pub(super) fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> VnicError {
        move |source| {
            let source = source.into();
            match source.kind() {
                io::ErrorKind::PermissionDenied => VnicError::NotPermitted { step, source },
                _ => VnicError::Failed { step, source },
            }
        }
    }
}

impl fmt::Display for VnicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VnicError::NotPermitted { step, source } => write!(
                f,
                "could not {step}: {source}; a virtual NIC needs the capability CAP_NET_ADMIN (and \
                 without a TAP also CAP_NET_RAW): start as root, or give the program the \
                 capability (`setcap cap_net_admin+ep FILE`, or \
                 AmbientCapabilities=CAP_NET_ADMIN in a systemd unit), or do without the \
                 virtual NIC"
            ),
            VnicError::NoTun(source) => {
                write!(f, "could not open /dev/net/tun: {source}; ")?;
                f.write_str(match source.kind() {
                    io::ErrorKind::NotFound => {
                        "load the kernel module (`modprobe tun`), or give the container the \
                         device (`--device /dev/net/tun`)"
                    }
                    _ => "start as root, or permit this user to open it",
                })
            }
            VnicError::NameTaken { name } => write!(
                f,
                "there already is a network device `{name}` that tabane did not make: \
                 remove it (`ip link delete {name}`) or rename it (`ip link set {name} name OTHER`)"
            ),
            VnicError::InvalidName { name } => write!(
                f,
                "`{name}` cannot name a network device: 1 to 15 bytes without space, `/` and `:`"
            ),
            VnicError::Failed { step, source } => write!(f, "could not {step}: {source}"),
        }
    }
}

impl error::Error for VnicError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            VnicError::NotPermitted { source, .. }
            | VnicError::NoTun(source)
            | VnicError::Failed { source, .. } => Some(source),
            VnicError::NameTaken { .. } | VnicError::InvalidName { .. } => None,
        }
    }
}
