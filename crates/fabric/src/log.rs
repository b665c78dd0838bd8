//! Messages to the user, in libfabric's log, which it shows if `FI_LOG_LEVEL` says so.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use std::ffi::CString;
use std::sync::OnceLock;

use tabane_rank::environment::is_new;

use crate::abi::constants::{LOG_CORE, LOG_INFO, LOG_WARN, PARAM_STRING};
use crate::abi::fabric::Provider;

type IsEnabled = unsafe extern "C" fn(*const Provider, c_int, c_int) -> c_int;
type Write =
    unsafe extern "C" fn(*const Provider, c_int, c_int, *const c_char, c_int, *const c_char, ...);
type Define =
    unsafe extern "C" fn(*const Provider, *const c_char, c_int, *const c_char, ...) -> c_int;

/// Functions that libfabric exports for providers. They are not linked, since that would tie the library to one
/// version.
struct Exported {
    is_enabled: Option<IsEnabled>,
    write: Option<Write>,
    define: Option<Define>,
}

static EXPORTED: OnceLock<Exported> = OnceLock::new();

fn exported() -> &'static Exported {
    EXPORTED.get_or_init(|| {
        let [is_enabled, write, define] =
            symbols([c"fi_log_enabled", c"fi_log", c"fi_param_define"]);
        // SAFETY: these are the functions that `rdma/providers/fi_log.h` and `fi_prov.h` declare, unchanged since 1.0.
        // A null pointer is a None.
        unsafe {
            Exported {
                is_enabled: transmute::<*mut c_void, Option<IsEnabled>>(is_enabled),
                write: transmute::<*mut c_void, Option<Write>>(write),
                define: transmute::<*mut c_void, Option<Define>>(define),
            }
        }
    })
}

/// The addresses of these functions, all from one library; null if they are not found. An MPI may have loaded its
/// libfabric with local visibility: then it is searched by name.
fn symbols<const N: usize>(names: [&CStr; N]) -> [*mut c_void; N] {
    // SAFETY: the names end in a zero byte.
    let found = names.map(|name| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    if found.iter().all(|symbol| !symbol.is_null()) {
        return found;
    }
    for library in loaded() {
        let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
        // SAFETY: the path ends in a zero byte; reopening a loaded library runs no code.
        let handle = unsafe { libc::dlopen(library.as_ptr(), flags) };
        if handle.is_null() {
            continue;
        }
        // SAFETY: the handle is open, the names end in a zero byte. It stays open: the functions are called later.
        let found = names.map(|name| unsafe { libc::dlsym(handle, name.as_ptr()) });
        if found.iter().all(|symbol| !symbol.is_null()) {
            return found;
        }
        // SAFETY: it was opened above.
        unsafe { libc::dlclose(handle) };
    }
    [core::ptr::null_mut(); N]
}

/// Paths of the libraries in this process that are called libfabric.
fn loaded() -> Vec<CString> {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader gives a valid structure, and `data` is the vector below, which nobody else uses.
        let (info, found) = unsafe { (&*info, &mut *data.cast::<Vec<CString>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: the loader's names end in a zero byte.
            let name = unsafe { CStr::from_ptr(info.dlpi_name) };
            let file = name.to_bytes().rsplit(|byte| *byte == b'/').next();
            if file.is_some_and(|file| file.starts_with(b"libfabric")) {
                found.push(name.to_owned());
            }
        }
        0
    }
    let mut found = Vec::new();
    // SAFETY: `note` matches the callback's type, and the vector lives until this returns.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

/// Tells libfabric of an environment variable, for `fi_info -g` (and, with `FI_TABANE_` before it, `-e`).
pub fn define(name: &CStr, help: &CStr) {
    if let Some(define) = exported().define {
        // SAFETY: both end in a zero byte; the help has no `%`, so no further argument is read.
        unsafe {
            define(
                crate::provider::provider(),
                name.as_ptr(),
                PARAM_STRING,
                help.as_ptr(),
            )
        };
    }
}

/// Writes one line, if libfabric is set to show its level. Returns whether it was.
fn write(level: c_int, text: &str) -> bool {
    let (Some(is_enabled), Some(write)) = (exported().is_enabled, exported().write) else {
        return false;
    };
    let provider = crate::provider::provider();
    // SAFETY: the provider is the one that libfabric knows.
    if unsafe { is_enabled(provider, level, LOG_CORE) } == 0 {
        return false;
    }
    let Ok(text) = CString::new(text.replace('\0', " ")) else {
        return false;
    };
    // SAFETY: the format takes one text, and all texts end in a zero byte.
    unsafe {
        write(
            provider,
            level,
            LOG_CORE,
            c"tabane".as_ptr(),
            0,
            c"%s\n".as_ptr(),
            text.as_ptr(),
        )
    };
    true
}

/// Something that is wrong, once.
pub fn warn(text: &str) {
    if is_new(text) {
        write(LOG_WARN, text);
    }
}

/// A message that needs no action.
pub fn info(text: &str) {
    write(LOG_INFO, text);
}

/// Something that stops the program: on its standard error if libfabric does not show it there. Once.
pub fn fatal(text: &str) {
    if is_new(text) && !write(LOG_WARN, text) {
        eprintln!("tabane: {text}");
    }
}
