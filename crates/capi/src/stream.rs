//! `tabane_stream`.

use core::ffi::{c_char, c_int, c_void};
use std::ffi::CString;
use std::io::{Read, Write};
use std::sync::OnceLock;

use tabane_library::Descriptor;

use crate::failure::{nothing, number, size};
use crate::given::{bytes, freed, policy, room, timeout, value};
use crate::node::kept;

/// A stream, and what stays as long as it does.
pub struct Stream {
    stream: tabane_library::Stream,
    peer: CString,
    reading: OnceLock<Descriptor>,
    writing: OnceLock<Descriptor>,
}

impl Stream {
    pub fn new(stream: tabane_library::Stream) -> Stream {
        // No name of a node has a zero byte.
        let peer = CString::new(stream.peer()).unwrap_or_default();
        Stream {
            stream,
            peer,
            reading: OnceLock::new(),
            writing: OnceLock::new(),
        }
    }
}

/// `tabane_read`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_read(
    stream: *const Stream,
    buffer: *mut c_void,
    bytes: usize,
) -> isize {
    size(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (stream, into) = unsafe { (value(stream, "stream")?, room(buffer, bytes)?) };
        Ok((&stream.stream).read(into)?)
    })
}

/// `tabane_read_timeout`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_read_timeout(
    stream: *const Stream,
    buffer: *mut c_void,
    bytes: usize,
    timeout_ms: c_int,
) -> isize {
    size(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (stream, into) = unsafe { (value(stream, "stream")?, room(buffer, bytes)?) };
        Ok(stream.stream.read_timeout(into, timeout(timeout_ms))?)
    })
}

/// `tabane_write`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_write(
    stream: *const Stream,
    buffer: *const c_void,
    len: usize,
) -> isize {
    size(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (stream, data) = unsafe { (value(stream, "stream")?, bytes(buffer, len)?) };
        Ok((&stream.stream).write(data)?)
    })
}

/// `tabane_write_timeout`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_write_timeout(
    stream: *const Stream,
    buffer: *const c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    size(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (stream, data) = unsafe { (value(stream, "stream")?, bytes(buffer, len)?) };
        Ok(stream.stream.write_timeout(data, timeout(timeout_ms))?)
    })
}

/// `tabane_write_all`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_write_all(
    stream: *const Stream,
    buffer: *const c_void,
    len: usize,
) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let (stream, mut data) = unsafe { (value(stream, "stream")?, bytes(buffer, len)?) };
        // Rust's `write_all` goes on when a signal handler has run.
        while !data.is_empty() {
            let written = (&stream.stream).write(data)?;
            data = &data[written..];
        }
        Ok(())
    })
}

/// `tabane_finish`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_finish(stream: *const Stream) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        Ok(unsafe { value(stream, "stream") }?.stream.finish()?)
    })
}

/// `tabane_wait_finished`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_wait_finished(stream: *const Stream, timeout_ms: c_int) -> c_int {
    number(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let stream = &unsafe { value(stream, "stream") }?.stream;
        Ok(stream.wait_finished(timeout(timeout_ms))?.into())
    })
}

/// `tabane_set_nonblocking`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_set_nonblocking(stream: *const Stream, nonblocking: c_int) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let stream = &unsafe { value(stream, "stream") }?.stream;
        stream.set_nonblocking(nonblocking != 0);
        Ok(())
    })
}

/// `tabane_set_policy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_set_policy(stream: *const Stream, policy_: c_int) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let stream = &unsafe { value(stream, "stream") }?.stream;
        Ok(stream.set_policy(policy(policy_)?)?)
    })
}

/// `tabane_peer`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_peer(stream: *const Stream) -> *const c_char {
    // SAFETY: the caller sees to it (crate documentation).
    let stream = unsafe { stream.as_ref() };
    stream.map_or(c"".as_ptr(), |stream| stream.peer.as_ptr())
}

/// `tabane_read_descriptor`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_read_descriptor(stream: *const Stream) -> c_int {
    number(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let stream = unsafe { value(stream, "stream") }?;
        kept(&stream.reading, || stream.stream.read_descriptor())
    })
}

/// `tabane_write_descriptor`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_write_descriptor(stream: *const Stream) -> c_int {
    number(|| {
        // SAFETY: the caller sees to it (crate documentation).
        let stream = unsafe { value(stream, "stream") }?;
        kept(&stream.writing, || stream.stream.write_descriptor())
    })
}

/// `tabane_reset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_reset(stream: *const Stream, code: u32) -> c_int {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        Ok(unsafe { value(stream, "stream") }?.stream.reset(code)?)
    })
}

/// `tabane_stream_close`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tabane_stream_close(stream: *mut Stream) {
    nothing(|| {
        // SAFETY: the caller sees to it (crate documentation).
        drop(unsafe { freed(stream) });
        Ok(())
    });
}
