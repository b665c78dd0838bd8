//! `tabane_node` and `tabane_listener`.

use core::ffi::{c_char, c_int};
use core::mem::MaybeUninit;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use tabane_library::{Descriptor, Gone, PathInfo};

use crate::abi::{Path, TABANE_LINKS_MAX};
use crate::failure::{Failure, made, nothing, number};
use crate::given::{freed, place, text, timeout, value};
use crate::stream::Stream;

/// A node, and descriptors that stay open as long as it is.
pub struct Node {
    pub node: tabane_library::Node,
    messages: OnceLock<Descriptor>,
    events: OnceLock<Descriptor>,
}

/// A listener, and its descriptor.
pub struct Listener {
    listener: tabane_library::Listener,
    descriptor: OnceLock<Descriptor>,
}

/// A descriptor that stays open with the one it is kept by.
pub fn kept(
    keeper: &OnceLock<Descriptor>,
    descriptor: impl FnOnce() -> io::Result<Descriptor>,
) -> Result<c_int, Failure> {
    // The library returns the same one each time: the first caller stores it.
    let descriptor = descriptor()?;
    Ok(keeper.get_or_init(|| descriptor).as_raw_fd())
}

/// Stores a new object at the caller's place, or null if there is none.
pub fn put<T>(
    place: &mut MaybeUninit<*mut T>,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    place.write(core::ptr::null_mut());
    let made = make()?;
    place.write(Box::into_raw(Box::new(made)));
    Ok(())
}

/// `tabane_open`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_open(options: *mut tabane_library::Options) -> *mut Node {
    made(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let options = unsafe { freed(options) };
        let options = options.ok_or_else(|| Failure::argument("options is NULL"))?;
        Ok(Node {
            node: tabane_library::Node::open(options)?,
            messages: OnceLock::new(),
            events: OnceLock::new(),
        })
    })
}

/// `tabane_shutdown`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_shutdown(node: *const Node) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let node = &unsafe { value(node, "node") }?.node;
        // A fork has nothing to close.
        if node.peers() == Err(Gone::Forked) {
            return Err(Gone::Forked.into());
        }
        node.close();
        Ok(())
    })
}

/// `tabane_close`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_close(node: *mut Node) {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        drop(unsafe { freed(node) });
        Ok(())
    });
}

/// `tabane_connect`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_connect(
    node: *const Node,
    peer: *const c_char,
    service: u32,
    timeout_ms: c_int,
    stream: *mut *mut Stream,
) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let place = unsafe { place(stream, "stream") }?;
        put(place, || {
            // SAFETY: likewise.
            let (node, peer) = unsafe { (value(node, "node")?, text(peer, "peer")?) };
            let timeout = timeout(timeout_ms);
            Ok(Stream::new(
                node.node.connect_timeout(peer, service, timeout)?,
            ))
        })
    })
}

/// `tabane_listen`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_listen(
    node: *const Node,
    service: u32,
    listener: *mut *mut Listener,
) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let place = unsafe { place(listener, "listener") }?;
        put(place, || {
            // SAFETY: likewise.
            let node = unsafe { value(node, "node") }?;
            Ok(Listener {
                listener: node.node.listen(service)?,
                descriptor: OnceLock::new(),
            })
        })
    })
}

/// `tabane_accept`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_accept(
    listener: *const Listener,
    timeout_ms: c_int,
    stream: *mut *mut Stream,
) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let place = unsafe { place(stream, "stream") }?;
        put(place, || {
            // SAFETY: likewise.
            let listener = &unsafe { value(listener, "listener") }?.listener;
            Ok(Stream::new(listener.accept_timeout(timeout(timeout_ms))?))
        })
    })
}

/// `tabane_listener_close`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_listener_close(listener: *mut Listener) {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        drop(unsafe { freed(listener) });
        Ok(())
    });
}

/// `tabane_accept_descriptor`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_accept_descriptor(listener: *const Listener) -> c_int {
    number(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let listener = unsafe { value(listener, "listener") }?;
        kept(&listener.descriptor, || listener.listener.descriptor())
    })
}

/// `tabane_receive_descriptor`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_receive_descriptor(node: *const Node) -> c_int {
    number(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let node = unsafe { value(node, "node") }?;
        kept(&node.messages, || node.node.message_descriptor())
    })
}

/// `tabane_event_descriptor`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_event_descriptor(node: *const Node) -> c_int {
    number(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let node = unsafe { value(node, "node") }?;
        kept(&node.events, || node.node.event_descriptor())
    })
}

/// `tabane_paths`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_paths(
    node: *const Node,
    peer: *const c_char,
    paths: *mut [MaybeUninit<Path>; TABANE_LINKS_MAX],
) -> c_int {
    number(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (node, peer) = unsafe { (value(node, "node")?, text(peer, "peer")?) };
        // SAFETY: likewise; any memory is an array of MaybeUninit.
        let places = unsafe { crate::given::value_mut(paths, "paths") }?;
        let peers = node.node.peers()?;
        let found = peers.into_iter().find(|info| info.name == peer);
        if found.is_none() && node.node.peer(peer).is_none() {
            return Err(tabane_library::ConnectError::UnknownPeer(peer.to_owned()).into());
        }
        // No path leads to the own name.
        let paths = found.map(|info| info.paths).unwrap_or_default();
        let count = paths.len().min(places.len());
        for (place, info) in places.iter_mut().zip(paths) {
            place.write(path(&info));
        }
        Ok(count as c_int)
    })
}

fn path(info: &PathInfo) -> Path {
    Path {
        link: info.link.into(),
        is_up: info.is_up.into(),
        rtt_us: info.rtt.as_secs_f64() * 1e6,
        rate_bytes_per_s: info.rate_bytes_per_s,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        packets_lost: info.packets_lost,
    }
}
