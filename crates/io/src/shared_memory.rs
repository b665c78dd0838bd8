//! Memory that two processes share, and reading another process's own memory.
//!
//! Memory that another process may write at any time is never lent as a reference: words are atomic, bytes are copied. The
//! caller must distrust the content.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags};

use crate::sys::{check, check_len};

/// Nobody can make the memory shorter any more (a read behind its end would kill the reader), nor longer.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Memory that another process may have mapped, too. It lasts until the last of them has unmapped it, and has no name anywhere.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: all access is through atomic words and copies, which threads may make at once; bytes that are copied while they are
// written may have any value, as the type says.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New zeroed memory of this size, and the descriptor for another process. Untouched pages take no memory.
    ///
    /// # Errors
    /// When the process has no descriptors or the system no memory left.
    pub fn create(bytes: usize) -> io::Result<(SharedMemory, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = match rustix::fs::memfd_create("tabane", flags | MemfdFlags::NOEXEC_SEAL) {
            // Before Linux 6.3.
            Err(rustix::io::Errno::INVAL) => rustix::fs::memfd_create("tabane", flags)?,
            made => made?,
        };
        rustix::fs::ftruncate(&file, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        Ok((SharedMemory::map(&file, bytes)?, file))
    }

    /// Maps memory that another process has made and handed over. The descriptor is not needed afterwards.
    ///
    /// # Errors
    /// `InvalidData`: it has another size, or its size could be changed. There is no room for it.
    pub fn open(file: &OwnedFd, bytes: usize) -> io::Result<SharedMemory> {
        let seals = rustix::fs::fcntl_get_seals(file)?;
        let has = rustix::fs::fstat(file)?.st_size;
        if !seals.contains(SEALS) || u64::try_from(has) != Ok(bytes as u64) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        SharedMemory::map(file, bytes)
    }

    fn map(file: &OwnedFd, bytes: usize) -> io::Result<SharedMemory> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_raw_fd();
        // SAFETY: the kernel chooses a place where nothing is.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMemory { base, bytes })
    }

    /// The address of `bytes` from `offset` on.
    ///
    /// # Panics
    /// It is out of range: a fault of the caller, who must check others' values.
    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "beyond the shared memory"
        );
        self.base.as_ptr().wrapping_add(offset)
    }

    /// A word that both processes read and write.
    ///
    /// # Panics
    /// `offset` is no multiple of 8, or beyond the memory.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "a word is aligned");
        let word = self.at(offset, 8).cast();
        // SAFETY: it lies in the mapping, which lives as long as `self`, and is aligned, as a mapping begins with a page. All
        // access to words is atomic; any value is one.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// They go beyond the memory.
    pub fn write(&self, offset: usize, from: &[u8]) {
        let to = self.at(offset, from.len());
        // SAFETY: `to` is this much of the mapping, which no reference of this process leads to: they do not overlap.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Appends a copy of bytes. If the other process writes to them meanwhile, it is of any bytes.
    ///
    /// # Panics
    /// They go beyond the memory.
    pub fn append(&self, offset: usize, bytes: usize, to: &mut Vec<u8>) {
        let from = self.at(offset, bytes);
        to.reserve(bytes);
        // SAFETY: `from` is this much of the mapping, `to` has room for it behind its end, and they do not overlap. Afterwards
        // that many more bytes of `to` have values.
        unsafe {
            ptr::copy_nonoverlapping(from, to.as_mut_ptr().add(to.len()), bytes);
            to.set_len(to.len() + bytes);
        }
    }

    /// Returns the memory of these bytes, whole pages, to the system: both processes see zeros again. If that is refused,
    /// nothing changes.
    ///
    /// # Panics
    /// They go beyond the memory.
    pub fn forget(&self, offset: usize, bytes: usize) {
        let from = self.at(offset, bytes);
        // SAFETY: this much is of the mapping; no reference leads there except to atomic words, which become zero.
        let _ = check(unsafe { libc::madvise(from.cast(), bytes, libc::MADV_REMOVE) });
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and nobody reaches it through `self` any more.
        let unmapped = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert_eq!(unmapped, 0);
    }
}

/// Memory of a process: its address there, and its length.
pub type Stretch = (u64, u64);

/// Copies memory of another process of the same user (process_vm_readv(2)); `from` and `into` are walked in parallel, and as
/// much is copied as both have. The kernel allows it where it would allow tracing that process.
///
/// # Errors
/// `PermissionDenied` or `Unsupported`: it does not. ESRCH: there is no such process. EFAULT: one of the two has no such memory.
/// Some may have been copied then.
///
/// # Safety
/// `into` is memory of this process that may be written to.
pub unsafe fn read_process(pid: i32, from: &[Stretch], into: &[Stretch]) -> io::Result<()> {
    let (mut from, mut into) = (Walk::along(from), Walk::along(into));
    while let Some(bytes) = from.left().min(into.left()) {
        let (theirs, ours) = (from.vector(bytes), into.vector(bytes));
        // SAFETY: both vectors are of one stretch each; the caller promises that `ours` may be written to.
        let copied = check_len(unsafe {
            libc::process_vm_readv(pid, &raw const ours, 1, &raw const theirs, 1, 0)
        })?;
        if copied == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        from.advance(copied as u64);
        into.advance(copied as u64);
    }
    Ok(())
}

/// A place in stretches of memory.
struct Walk<'a> {
    rest: &'a [Stretch],
    done: u64,
}

impl Walk<'_> {
    fn along(rest: &[Stretch]) -> Walk<'_> {
        let mut walk = Walk { rest, done: 0 };
        walk.advance(0);
        walk
    }

    /// Bytes to the end of the stretch; none: all are done.
    fn left(&self) -> Option<u64> {
        self.rest.first().map(|(_, bytes)| bytes - self.done)
    }

    fn vector(&self, bytes: u64) -> libc::iovec {
        let base = self.rest.first().map_or(0, |(base, _)| *base);
        libc::iovec {
            iov_base: ptr::without_provenance_mut(base.wrapping_add(self.done) as usize),
            iov_len: bytes as usize,
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        while self.rest.first().is_some_and(|(_, all)| self.done >= *all) {
            self.rest = &self.rest[1..];
            self.done = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let (here, file) = SharedMemory::create(8192).unwrap();
        let there = SharedMemory::open(&file, 8192).unwrap();
        drop(file);
        here.write(100, b"bytes");
        here.word(8184).store(7, Ordering::Release);
        assert_eq!(there.word(8184).load(Ordering::Acquire), 7);
        let mut back = b"some ".to_vec();
        there.append(100, 5, &mut back);
        assert_eq!(back, b"some bytes");
        there.forget(0, 4096);
        back.clear();
        here.append(100, 5, &mut back);
        assert_eq!(back, [0; 5]);
        assert_eq!(here.word(8184).load(Ordering::Acquire), 7);
    }

    #[test]
    fn memory_that_could_become_shorter_or_is_shorter_is_refused() {
        let (_here, file) = SharedMemory::create(4096).unwrap();
        assert!(SharedMemory::open(&file, 8192).is_err());
        let loose = rustix::fs::memfd_create("loose", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&loose, 4096).unwrap();
        assert!(SharedMemory::open(&loose, 4096).is_err());
        assert!(rustix::fs::ftruncate(&file, 0).is_err());
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(SharedMemory::open(&OwnedFd::from(reader), 4096).is_err());
    }

    #[test]
    #[should_panic(expected = "beyond the shared memory")]
    fn nothing_is_beyond_its_end() {
        let (here, _file) = SharedMemory::create(4096).unwrap();
        here.write(4090, b"1234567");
    }

    #[test]
    fn memory_of_a_process_is_read_from_pieces_into_pieces() {
        let from: Vec<u8> = (0..100).collect();
        let mut into = [0u8; 90];
        let base = from.as_ptr().expose_provenance() as u64;
        let to = into.as_mut_ptr().expose_provenance() as u64;
        let theirs = [(base, 0), (base, 30), (base + 40, 60)];
        let ours = [(to, 10), (to + 10, 0), (to + 10, 80)];
        let own = std::process::id() as i32;
        // SAFETY: `ours` is `into`.
        unsafe { read_process(own, &theirs, &ours) }.unwrap();
        assert_eq!(into[..30], from[..30]);
        assert_eq!(into[30..], from[40..100]);
        // SAFETY: as above.
        let nowhere = unsafe { read_process(own, &[(8, 8)], &ours) };
        assert_eq!(nowhere.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }
}
