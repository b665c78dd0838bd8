//! Memory that operations name.

use core::ffi::c_void;
use core::ptr::NonNull;

use libc::iovec;
use tabane_rank::{PIECES_MAX, Piece};

use crate::abi::errors::{self, Outcome};
use crate::abi::transfers::Ioc;
use crate::guard;

/// A few pieces, without an allocation.
pub struct Pieces {
    array: [Piece; PIECES_MAX],
    count: usize,
}

/// A piece. If it is empty, with a non-null pointer, as Rust's slices need it.
///
/// # Errors
/// Bytes at address 0.
pub fn piece(base: *const c_void, bytes: usize) -> Outcome<Piece> {
    if base.is_null() && bytes > 0 {
        return Err(errors::INVAL);
    }
    let base = match base.is_null() {
        true => NonNull::dangling().as_ptr(),
        false => base.cast_mut().cast(),
    };
    Ok(Piece { base, bytes })
}

impl Pieces {
    fn empty() -> Pieces {
        let none = Piece {
            base: NonNull::dangling().as_ptr(),
            bytes: 0,
        };
        Pieces {
            array: [none; PIECES_MAX],
            count: 0,
        }
    }

    fn collect(pieces: impl ExactSizeIterator<Item = Outcome<Piece>>) -> Outcome<Pieces> {
        let mut collected = Pieces::empty();
        if pieces.len() > PIECES_MAX {
            return Err(errors::INVAL);
        }
        for piece in pieces {
            collected.array[collected.count] = piece?;
            collected.count += 1;
        }
        Ok(collected)
    }

    /// The pieces of an array of C's.
    ///
    /// # Errors
    /// There are too many, or one has no address.
    ///
    /// # Safety
    /// It is null or has `count` elements.
    pub unsafe fn of(iov: *const iovec, count: usize) -> Outcome<Pieces> {
        // SAFETY: as above.
        let iov = unsafe { guard::array(iov, count) }?;
        Pieces::collect(iov.iter().map(|iov| piece(iov.iov_base, iov.iov_len)))
    }

    /// The pieces of an array of numbers of `bytes_each` bytes.
    ///
    /// # Errors
    /// As above.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn of_numbers(ioc: *const Ioc, count: usize, bytes_each: usize) -> Outcome<Pieces> {
        // SAFETY: as above.
        let ioc = unsafe { guard::array(ioc, count) }?;
        Pieces::collect(
            ioc.iter()
                .map(|ioc| numbers(ioc.addr, ioc.count, bytes_each)),
        )
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Piece] {
        &self.array[..self.count]
    }
}

/// A piece of this many numbers.
///
/// # Errors
/// It has no address, or is longer than memory.
pub fn numbers(base: *const c_void, count: usize, bytes_each: usize) -> Outcome<Piece> {
    let bytes = count.checked_mul(bytes_each).ok_or(errors::INVAL)?;
    piece(base, bytes)
}

/// How long they are together.
///
/// # Errors
/// Longer than memory.
pub fn total(pieces: &[Piece]) -> Outcome<usize> {
    let add = |sum: usize, piece: &Piece| sum.checked_add(piece.bytes);
    pieces.iter().try_fold(0, add).ok_or(errors::INVAL)
}
