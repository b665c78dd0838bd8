//! `tabane_options`.

use core::ffi::{c_char, c_int};
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use tabane_library::{Options, WireMode};

use crate::abi::TABANE_KEY_BYTES;
use crate::failure::{Failure, made, nothing};
use crate::given::{array, freed, text, timeout, value, value_mut};

/// Addresses, one for each network, where they are not null.
///
/// # Safety
/// As [`array`], and each element as of [`text`].
unsafe fn addresses<T: core::str::FromStr>(
    pointer: *const *const c_char,
    count: usize,
    like: &str,
) -> Result<Vec<Option<T>>, Failure> {
    // SAFETY: as above.
    let pointers = unsafe { array(pointer, count, "the list of addresses") }?;
    let address = |pointer: &*const c_char| {
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: as above.
        let text = unsafe { text(*pointer, "an address") }?;
        let wrong = |_| Failure::argument(format!("{text:?} is not an address like {like}"));
        text.parse().map(Some).map_err(wrong)
    };
    pointers.iter().map(address).collect()
}

/// Changes options, which are a builder in Rust.
///
/// # Safety
/// As [`value_mut`].
unsafe fn change(options: *mut Options, change: impl FnOnce(Options) -> Options) -> c_int {
    nothing(|| {
        // SAFETY: as above.
        let options = unsafe { value_mut(options, "options") }?;
        *options = change(options.clone());
        Ok(())
    })
}

/// `tabane_options_new`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_new(
    name: *const c_char,
    key: *const [u8; TABANE_KEY_BYTES],
    links: *const *const c_char,
    links_count: usize,
) -> *mut Options {
    made(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (name, key) = unsafe { (text(name, "name")?, value(key, "key")?) };
        // SAFETY: likewise.
        let links = unsafe { addresses::<IpAddr>(links, links_count, "10.77.0.1 or fd00::1") }?;
        Ok(Options::new(name, *key, []).links(links))
    })
}

/// `tabane_options_from_file`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_from_file(
    cluster_file: *const c_char,
    node: *const c_char,
) -> *mut Options {
    made(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let file = unsafe { text(cluster_file, "cluster_file") }?;
        let node = match node.is_null() {
            true => None,
            // SAFETY: likewise.
            false => Some(unsafe { text(node, "node") }?),
        };
        Ok(Options::from_cluster_file(file, node)?)
    })
}

/// `tabane_options_port`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_port(options: *mut Options, port: u16) -> c_int {
    // SAFETY: the caller sees to it (crate documentation).
    unsafe { change(options, |options| options.port(port)) }
}

/// `tabane_options_peer`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_peer(
    options: *mut Options,
    name: *const c_char,
    addresses_: *const *const c_char,
    addresses_count: usize,
) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (options, name) = unsafe { (value_mut(options, "options")?, text(name, "name")?) };
        let like = "10.77.0.2:7577 or [fd00::2]:7577";
        // SAFETY: likewise.
        let addresses = unsafe { addresses::<SocketAddr>(addresses_, addresses_count, like) }?;
        *options = options.clone().peer(name, addresses);
        Ok(())
    })
}

/// `tabane_options_private_key`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_private_key(
    options: *mut Options,
    private: *const [u8; TABANE_KEY_BYTES],
) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (options, private) = unsafe {
            (
                value_mut(options, "options")?,
                value(private, "private_key")?,
            )
        };
        *options = options.clone().private_key(*private);
        Ok(())
    })
}

/// `tabane_options_peer_public`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_peer_public(
    options: *mut Options,
    name: *const c_char,
    public: *const [u8; TABANE_KEY_BYTES],
) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (options, name) = unsafe { (value_mut(options, "options")?, text(name, "name")?) };
        // SAFETY: likewise.
        let public = unsafe { value(public, "public_key") }?;
        *options = options.clone().peer_public(name, *public);
        Ok(())
    })
}

/// `tabane_public_key`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_public_key(
    private: *const [u8; TABANE_KEY_BYTES],
    public: *mut [u8; TABANE_KEY_BYTES],
) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (private, public) = unsafe {
            (
                value(private, "private_key")?,
                value_mut(public, "public_key")?,
            )
        };
        *public = tabane_library::public_key(private);
        Ok(())
    })
}

/// `tabane_options_plain`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_plain(options: *mut Options) -> c_int {
    // SAFETY: the caller sees to it (crate documentation).
    unsafe { change(options, |options| options.wire(WireMode::Plain)) }
}

/// `tabane_options_spin_us`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_spin_us(options: *mut Options, spin_us: u32) -> c_int {
    let spin = Duration::from_micros(spin_us.into());
    // SAFETY: the caller sees to it (crate documentation).
    unsafe { change(options, |options| options.spin(spin)) }
}

/// `tabane_options_timeout`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_timeout(options: *mut Options, timeout_ms: c_int) -> c_int {
    // SAFETY: the caller sees to it (crate documentation).
    unsafe { change(options, |options| options.timeout(timeout(timeout_ms))) }
}

/// `tabane_options_linger`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_linger(options: *mut Options, linger_ms: c_int) -> c_int {
    // SAFETY: the caller sees to it (crate documentation).
    unsafe { change(options, |options| options.linger(timeout(linger_ms))) }
}

/// `tabane_options_peer_timeout`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_peer_timeout(
    options: *mut Options,
    timeout_ms: c_int,
) -> c_int {
    let timeout = (timeout_ms >= 0).then(|| timeout(timeout_ms));
    // SAFETY: the caller sees to it (crate documentation).
    unsafe { change(options, |options| options.peer_timeout(timeout)) }
}

/// `tabane_options_interruptible`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_interruptible(
    options: *mut Options,
    interruptible: c_int,
) -> c_int {
    // SAFETY: the caller sees to it (crate documentation).
    unsafe { change(options, |options| options.interruptible(interruptible != 0)) }
}

/// `tabane_options_free`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_options_free(options: *mut Options) {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        drop(unsafe { freed(options) });
        Ok(())
    });
}
