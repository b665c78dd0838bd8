//! The program's memory, as operations name it: all that dereferences its pointers.

use core::ops::Deref;
use core::ptr;

use tabane_proto::op::Memory;

use crate::Piece;

/// Some pieces of memory. One, as most operations have, takes no allocation.
#[derive(Debug)]
pub(crate) enum Pieces {
    One(Piece),
    Others(Vec<Piece>),
}

impl Default for Pieces {
    fn default() -> Pieces {
        Pieces::Others(Vec::new())
    }
}

impl From<&[Piece]> for Pieces {
    fn from(pieces: &[Piece]) -> Pieces {
        match pieces {
            [only] => Pieces::One(*only),
            others => Pieces::Others(others.to_vec()),
        }
    }
}

impl Deref for Pieces {
    type Target = [Piece];

    fn deref(&self) -> &[Piece] {
        match self {
            Pieces::One(only) => core::slice::from_ref(only),
            Pieces::Others(others) => others,
        }
    }
}

/// Pieces of the program's memory that belong together, or a copy of their content. Its address is its *handle*, and stays the
/// same as long as it lives.
#[derive(Debug)]
pub(crate) struct Buffer {
    pieces: Pieces,
    /// The memory of the only piece, if it is a copy.
    _copy: Option<Box<[u8]>>,
}

// SAFETY: the memory is the program's, which has promised that it stays while an operation is under way (`Core`'s functions that
// take pieces), or the buffer's own.
unsafe impl Send for Buffer {}

/// How many bytes pieces have; none if that is more than memory has.
pub(crate) fn length(pieces: &[Piece]) -> Option<u64> {
    (pieces.iter()).try_fold(0u64, |sum, piece| sum.checked_add(piece.bytes as u64))
}

impl Buffer {
    /// The pieces themselves.
    pub fn of(pieces: &[Piece]) -> Box<Buffer> {
        Box::new(Buffer {
            pieces: pieces.into(),
            _copy: None,
        })
    }

    /// A part of the pieces.
    pub fn part(pieces: &[Piece], mut skip: usize, mut take: usize) -> Box<Buffer> {
        let mut part = Vec::new();
        if let [only] = pieces {
            let skip = skip.min(only.bytes);
            let only = Piece {
                base: only.base.wrapping_add(skip),
                bytes: (only.bytes - skip).min(take),
            };
            return Box::new(Buffer {
                pieces: Pieces::One(only),
                _copy: None,
            });
        }
        for piece in pieces {
            let skipped = skip.min(piece.bytes);
            let bytes = (piece.bytes - skipped).min(take);
            if bytes > 0 {
                let base = piece.base.wrapping_add(skipped);
                part.push(Piece { base, bytes });
            }
            skip -= skipped;
            take -= bytes;
        }
        Box::new(Buffer {
            pieces: Pieces::from(&part[..]),
            _copy: None,
        })
    }

    /// Copies the current content of the pieces.
    ///
    /// # Safety
    /// They are readable.
    pub unsafe fn copy(pieces: &[Piece]) -> Box<Buffer> {
        let mut bytes = Vec::new();
        // SAFETY: as the caller promises.
        unsafe { append(pieces, &mut bytes) };
        let mut bytes = bytes.into_boxed_slice();
        let only = Piece {
            base: bytes.as_mut_ptr(),
            bytes: bytes.len(),
        };
        Box::new(Buffer {
            pieces: Pieces::One(only),
            _copy: Some(bytes),
        })
    }

    /// Its handle: good until it is dropped.
    pub fn handle(&self) -> u64 {
        ptr::from_ref(self).expose_provenance() as u64
    }

    /// A part of the buffer of a handle.
    ///
    /// # Safety
    /// The handle is a buffer's that lives.
    pub unsafe fn part_of(handle: u64, skip: usize, take: usize) -> Box<Buffer> {
        // SAFETY: as the caller promises.
        Buffer::part(unsafe { buffer(handle) }.pieces(), skip, take)
    }

    /// The pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

/// Appends the content of the pieces.
///
/// # Safety
/// They are readable.
pub(crate) unsafe fn append(pieces: &[Piece], to: &mut Vec<u8>) {
    for piece in pieces.iter().filter(|piece| piece.bytes > 0) {
        // SAFETY: as the caller promises.
        to.extend_from_slice(unsafe { core::slice::from_raw_parts(piece.base, piece.bytes) });
    }
}

/// The content of the pieces, one by one.
///
/// # Safety
/// They are readable, and are not written to while what is returned is in use.
pub(crate) unsafe fn slices(pieces: &[Piece]) -> impl Iterator<Item = &[u8]> + Clone {
    let pieces = pieces.iter().filter(|piece| piece.bytes > 0);
    // SAFETY: as the caller promises.
    pieces.map(|piece| unsafe { core::slice::from_raw_parts(piece.base, piece.bytes) })
}

/// Like [`scatter`], at an offset from a peer: beyond the pieces it copies nothing.
///
/// # Safety
/// They are writable.
pub(crate) unsafe fn scatter_at(pieces: &[Piece], offset: u64, from: &[u8]) {
    if let Ok(offset) = usize::try_from(offset) {
        // SAFETY: as the caller promises.
        unsafe { scatter(pieces, offset, from) };
    }
}

/// Copies `from` into the pieces from `offset` on, as far as they reach; returns how many bytes.
///
/// # Safety
/// They are writable.
pub(crate) unsafe fn scatter(pieces: &[Piece], offset: usize, mut from: &[u8]) -> usize {
    let (mut skip, whole) = (offset, from.len());
    for piece in pieces {
        let skipped = skip.min(piece.bytes);
        let bytes = (piece.bytes - skipped).min(from.len());
        skip -= skipped;
        if bytes > 0 {
            // SAFETY: the caller promises that the piece is writable, and `bytes` behind `skipped` lie in it. The program's
            // memory and a packet's do not overlap.
            unsafe {
                ptr::copy_nonoverlapping(from.as_ptr(), piece.base.add(skipped), bytes);
            }
        }
        from = &from[bytes..];
    }
    whole - from.len()
}

/// Copies the content of the pieces from `offset` on, as much as fits.
///
/// # Safety
/// They are readable.
pub(crate) unsafe fn gather(pieces: &[Piece], offset: usize, mut into: &mut [u8]) {
    let mut skip = offset;
    for piece in pieces {
        let skipped = skip.min(piece.bytes);
        let bytes = (piece.bytes - skipped).min(into.len());
        skip -= skipped;
        if bytes > 0 {
            let (part, rest) = into.split_at_mut(bytes);
            // SAFETY: the caller promises that the piece is readable, and `bytes` behind `skipped` lie in it. The program's
            // memory and a packet's do not overlap.
            unsafe {
                ptr::copy_nonoverlapping(piece.base.add(skipped), part.as_mut_ptr(), bytes);
            }
            into = rest;
        }
    }
}

/// The memory for the protocol: buffers, by their handles.
///
/// The core keeps each buffer until the protocol has reported the end of its operation or, for a region, until it is
/// deregistered; the protocol does not use a handle afterwards (`tabane_proto::op::Memory`).
pub(crate) struct Buffers;

/// The buffer of a handle.
///
/// # Safety
/// The handle is a buffer's that lives.
unsafe fn buffer<'a>(handle: u64) -> &'a Buffer {
    // SAFETY: as the caller promises; the address came from `Buffer::handle`.
    unsafe { &*ptr::with_exposed_provenance::<Buffer>(handle as usize) }
}

impl Memory for Buffers {
    fn read(&self, handle: u64, offset: u64, into: &mut [u8]) {
        // SAFETY: the buffer lives (see `Buffers`), and its memory is readable while it does.
        unsafe { gather(buffer(handle).pieces(), offset as usize, into) };
    }

    fn write(&mut self, handle: u64, offset: u64, from: &[u8]) {
        // SAFETY: as above, and writable: the protocol writes only to the memory of a get or a writable region.
        unsafe { scatter(buffer(handle).pieces(), offset as usize, from) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(of: &mut [Vec<u8>]) -> Vec<Piece> {
        let piece = |bytes: &mut Vec<u8>| Piece {
            base: bytes.as_mut_ptr(),
            bytes: bytes.len(),
        };
        of.iter_mut().map(piece).collect()
    }

    #[test]
    fn what_is_scattered_is_gathered_again() {
        let mut parts = [vec![0; 3], Vec::new(), vec![0; 5], vec![0; 1]];
        let list = pieces(&mut parts);
        assert_eq!(length(&list), Some(9));
        // SAFETY: `parts` outlives all of these.
        unsafe {
            assert_eq!(scatter(&list, 2, &[1, 2, 3, 4, 5, 6, 7, 8]), 7);
            let mut back = [9; 4];
            gather(&list, 3, &mut back);
            assert_eq!(back, [2, 3, 4, 5]);
            let mut all = Vec::new();
            append(&list, &mut all);
            assert_eq!(all, [0, 0, 1, 2, 3, 4, 5, 6, 7]);
            let copy = Buffer::copy(&list);
            let mut back = [0; 9];
            Buffers.read(copy.handle(), 0, &mut back);
            assert_eq!(back, all[..]);
        }
        let part = Buffer::part(&list, 4, 3);
        Buffers.write(part.handle(), 1, &[50, 60]);
        drop(part);
        assert_eq!(
            parts,
            [vec![0, 0, 1], vec![], vec![2, 3, 50, 60, 6], vec![7]]
        );
    }
}
