//! One way between two processes: records in a ring of bytes, of one writer and one reader.
//!
//! ```text
//!  0          4096                          4096 + 64 Ki
//!  ┌──────────┬──────────────────────────────┐      a record:  ┌─────────┬────────┬──────┬─────────┐
//!  │ words    │ the ring                     │                 │ its     │ kind   │ body │ up to a │
//!  └──────────┴──────────────────────────────┘                 │ length  │        │      │ word    │
//!                                                              └─────────┴────────┴──────┴─────────┘
//! ```
//! The writer makes the memory, and hands it over. Each end counts its bytes itself and checks the other's count: an end that
//! writes nonsense there, or dies amid a record, harms only this ring.

use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::io;
use std::os::fd::OwnedFd;

use tabane_io::shared_memory::SharedMemory;

/// Bytes of the ring.
const RING_BYTES: usize = 64 * 1024;
/// Offset of the ring: behind a page of words.
const RING_AT: usize = 4096;
/// Bytes of all of it.
const WHOLE_BYTES: usize = RING_AT + RING_BYTES;
/// Length and kind, before each record's body.
const RECORD_HEAD_BYTES: usize = 8;
/// Bytes of a record's body at most: a quarter of the ring, so that one is written while others are read.
pub const BODY_BYTES_MAX: usize = RING_BYTES / 4 + 256;
/// The reader reports its progress after this many bytes, and when the ring is empty.
const TELL_EVERY_BYTES: u64 = RING_BYTES as u64 / 8;

/// Words, each in lines of its own (128 bytes: processors fetch them in pairs), by who writes them.
mod word {
    /// The writer: bytes written so far.
    pub const WRITTEN: usize = 0;
    /// The writer: it has closed.
    pub const WRITER_CLOSED: usize = 8;
    /// The writer: a count that goes on while it lives.
    pub const WRITER_BEAT: usize = 16;
    /// The reader: bytes read so far.
    pub const READ: usize = 128;
    /// The reader sets it before it sleeps; the writer clears it, and wakes it.
    pub const READER_SLEEPS: usize = 256;
    /// The other way around, when the ring is full.
    pub const WRITER_SLEEPS: usize = 384;
    /// The reader: how it uses the memory ([`Taken`](super::Taken)).
    pub const TAKEN: usize = 512;
    /// The reader: it has closed.
    pub const READER_CLOSED: usize = 520;
    /// The reader: a count that goes on while it lives.
    pub const READER_BEAT: usize = 528;
}

/// A reader's report on a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Nothing yet.
    No,
    /// It reads.
    Yes,
    /// And it can read the writer's own memory.
    Pulls,
}

/// The other end has written what cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// The writer's end.
#[derive(Debug)]
pub struct Writer {
    memory: SharedMemory,
    written: u64,
    /// The reader's reported progress.
    read: u64,
    /// Something did not find room since it was last looked.
    is_starved: bool,
    /// The ring's pages are in use.
    is_warm: bool,
}

/// The reader's end.
#[derive(Debug)]
pub struct Reader {
    memory: SharedMemory,
    read: u64,
    told: u64,
}

/// Sets a word before its owner sleeps; the end that clears it wakes the owner.
fn sleep(word: &AtomicU64) {
    word.store(1, Ordering::Relaxed);
}

/// Whether to wake the owner of a word. No wake-up is lost: either this sees the word set, or the owner, who checks again
/// after setting it, sees what was written before.
fn wakes(word: &AtomicU64) -> bool {
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0
}

/// Bytes that a record with such a body takes.
const fn record_bytes(body: usize) -> usize {
    RECORD_HEAD_BYTES + body.next_multiple_of(8)
}

impl Writer {
    /// A new ring, and the descriptor for the reader.
    ///
    /// # Errors
    /// No memory or descriptor is left.
    pub fn create() -> io::Result<(Writer, OwnedFd)> {
        let (memory, file) = SharedMemory::create(WHOLE_BYTES)?;
        let writer = Writer {
            memory,
            written: 0,
            read: 0,
            is_starved: false,
            is_warm: false,
        };
        Ok((writer, file))
    }

    /// Bytes that are free; asks the reader's count if the last one does not do.
    fn free(&mut self, wanted: usize) -> Result<usize, Broken> {
        let free = |read| RING_BYTES - (self.written - read) as usize;
        if free(self.read) < wanted {
            let read = self.memory.word(word::READ).load(Ordering::Acquire);
            let is_possible = read >= self.read && read <= self.written;
            self.read = Some(read).filter(|_| is_possible).ok_or(Broken)?;
        }
        Ok(RING_BYTES - (self.written - self.read) as usize)
    }

    /// Whether a record with such a body finds room now.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn has_room(&mut self, body: usize) -> Result<bool, Broken> {
        let wanted = record_bytes(body);
        let has_room = self.free(wanted)? >= wanted;
        self.is_starved |= !has_room;
        Ok(has_room)
    }

    /// Writes a record with these parts as its body. Returns whether there was room; there never is above
    /// [`BODY_BYTES_MAX`].
    ///
    /// # Errors
    /// [`Broken`].
    pub fn write<'a>(
        &mut self,
        kind: u32,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<bool, Broken> {
        let body = parts.clone().map(<[u8]>::len).sum();
        if body > BODY_BYTES_MAX || !self.has_room(body)? {
            return Ok(false);
        }
        let mut head = [0; RECORD_HEAD_BYTES];
        head[..4].copy_from_slice(&(body as u32).to_ne_bytes());
        head[4..].copy_from_slice(&kind.to_ne_bytes());
        let mut at = self.written;
        self.put(&mut at, &head);
        parts.for_each(|part| self.put(&mut at, part));
        self.written += record_bytes(body) as u64;
        self.is_warm = true;
        let written = self.memory.word(word::WRITTEN);
        written.store(self.written, Ordering::Release);
        Ok(true)
    }

    fn put(&self, at: &mut u64, bytes: &[u8]) {
        let place = (*at % RING_BYTES as u64) as usize;
        let (head, tail) = bytes.split_at(bytes.len().min(RING_BYTES - place));
        self.memory.write(RING_AT + place, head);
        self.memory.write(RING_AT, tail);
        *at += bytes.len() as u64;
    }

    /// Whether the reader must be woken for what was written.
    pub fn wakes_reader(&self) -> bool {
        wakes(self.memory.word(word::READER_SLEEPS))
    }

    /// This end is about to sleep: the reader must wake it if something did not find room.
    pub fn sleep(&self) {
        if self.is_starved {
            sleep(self.memory.word(word::WRITER_SLEEPS));
        }
    }

    /// Whether something did not find room, and there is some now.
    pub fn is_relieved(&mut self) -> bool {
        let relieved =
            self.is_starved && self.free(RING_BYTES / 2).is_ok_and(|n| n >= RING_BYTES / 2);
        self.is_starved &= !relieved;
        relieved
    }

    /// Bytes written so far.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Whether something was written that the reader is not known to have read.
    pub fn has_unread(&self) -> bool {
        self.memory.word(word::READ).load(Ordering::Relaxed) != self.written
    }

    /// The reader's report.
    pub fn taken(&self) -> Taken {
        match self.memory.word(word::TAKEN).load(Ordering::Relaxed) {
            0 => Taken::No,
            1 => Taken::Yes,
            _ => Taken::Pulls,
        }
    }

    /// Whether the reader has closed.
    pub fn is_closed(&self) -> bool {
        self.memory
            .word(word::READER_CLOSED)
            .load(Ordering::Acquire)
            != 0
    }

    /// The writer closes. The reader can still read what was written.
    pub fn close(&self) {
        let closed = self.memory.word(word::WRITER_CLOSED);
        closed.store(1, Ordering::Release);
    }

    /// Overwrites anything, as a faulty process might.
    pub fn scribble(&mut self, at: usize, bytes: &[u8]) {
        let at = at % WHOLE_BYTES;
        let bytes = &bytes[..bytes.len().min(WHOLE_BYTES - at)];
        self.memory.write(at, bytes);
    }

    /// This end lives; returns the reader's count.
    pub fn beat(&self, count: u64) -> u64 {
        let own = self.memory.word(word::WRITER_BEAT);
        own.store(count, Ordering::Relaxed);
        self.memory.word(word::READER_BEAT).load(Ordering::Relaxed)
    }

    /// Returns the ring's pages to the system if the ring is empty. Only this end writes there, and there is nothing to
    /// read.
    pub fn cool(&mut self) {
        if self.is_warm && self.free(RING_BYTES) == Ok(RING_BYTES) {
            self.memory.forget(RING_AT, RING_BYTES);
            self.is_warm = false;
        }
    }
}

impl Reader {
    /// Opens the ring that a writer has handed over.
    ///
    /// # Errors
    /// It is not a ring.
    pub fn open(file: &OwnedFd) -> io::Result<Reader> {
        let memory = SharedMemory::open(file, WHOLE_BYTES)?;
        Ok(Reader {
            memory,
            read: 0,
            told: 0,
        })
    }

    /// Tells the writer that its ring is read.
    pub fn take(&self, taken: Taken) {
        let word = self.memory.word(word::TAKEN);
        word.store(taken as u64, Ordering::Relaxed);
    }

    /// Whether there is a record.
    pub fn has_record(&self) -> bool {
        self.memory.word(word::WRITTEN).load(Ordering::Acquire) != self.read
    }

    /// Reads the next record: returns its kind, and puts its body into `body`. After `None`, see [`Reader::tell`].
    ///
    /// # Errors
    /// [`Broken`].
    pub fn read(&mut self, body: &mut Vec<u8>) -> Result<Option<u32>, Broken> {
        let written = self.memory.word(word::WRITTEN).load(Ordering::Acquire);
        if written == self.read {
            return Ok(None);
        }
        let there = written.wrapping_sub(self.read);
        if there > RING_BYTES as u64
            || there < RECORD_HEAD_BYTES as u64
            || !written.is_multiple_of(8)
        {
            return Err(Broken);
        }
        body.clear();
        self.get(self.read, RECORD_HEAD_BYTES, body);
        let word = |at: usize| body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        let len = word(0).map(u32::from_ne_bytes).ok_or(Broken)? as usize;
        let kind = word(4).map(u32::from_ne_bytes).ok_or(Broken)?;
        if len > BODY_BYTES_MAX || record_bytes(len) as u64 > there {
            return Err(Broken);
        }
        body.clear();
        self.get(self.read + RECORD_HEAD_BYTES as u64, len, body);
        self.read += record_bytes(len) as u64;
        if self.read - self.told >= TELL_EVERY_BYTES {
            self.publish();
        }
        Ok(Some(kind))
    }

    fn get(&self, at: u64, bytes: usize, to: &mut Vec<u8>) {
        let place = (at % RING_BYTES as u64) as usize;
        let head = bytes.min(RING_BYTES - place);
        self.memory.append(RING_AT + place, head, to);
        self.memory.append(RING_AT, bytes - head, to);
    }

    fn publish(&mut self) {
        self.told = self.read;
        let read = self.memory.word(word::READ);
        read.store(self.read, Ordering::Release);
    }

    /// Reports to the writer what was read. Returns whether it must be woken.
    pub fn tell(&mut self) -> bool {
        if self.told != self.read {
            self.publish();
        }
        wakes(self.memory.word(word::WRITER_SLEEPS))
    }

    /// This end is about to sleep: the writer must wake it when it writes.
    pub fn sleep(&self) {
        sleep(self.memory.word(word::READER_SLEEPS));
    }

    /// Whether the writer has closed, and everything was read.
    pub fn is_at_end(&self) -> bool {
        let closed = self
            .memory
            .word(word::WRITER_CLOSED)
            .load(Ordering::Acquire);
        closed != 0 && !self.has_record()
    }

    /// The reader closes.
    pub fn close(&self) {
        let closed = self.memory.word(word::READER_CLOSED);
        closed.store(1, Ordering::Release);
    }

    /// This end lives; returns the writer's count.
    pub fn beat(&self, count: u64) -> u64 {
        let own = self.memory.word(word::READER_BEAT);
        own.store(count, Ordering::Relaxed);
        self.memory.word(word::WRITER_BEAT).load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> (Writer, Reader) {
        let (writer, file) = Writer::create().expect("is made");
        (writer, Reader::open(&file).expect("is one"))
    }

    fn write(writer: &mut Writer, kind: u32, parts: &[&[u8]]) -> bool {
        let wrote = writer.write(kind, parts.iter().copied());
        wrote.expect("is not broken")
    }

    #[test]
    fn records_come_whole_in_order_and_only_as_many_as_find_room() {
        let (mut writer, mut reader) = ring();
        let mut body = Vec::new();
        let (mut written, mut read) = (0u32, 0u32);
        let len = |n: u32| n as usize * 977 % (BODY_BYTES_MAX + 1);
        while read < 3000 {
            let bytes = vec![written as u8; len(written)];
            let (head, tail) = bytes.split_at(bytes.len() / 3);
            if write(&mut writer, written, &[head, &[], tail]) {
                written += 1;
                continue;
            }
            assert!(written > read, "an empty ring has room");
            while let Some(kind) = reader.read(&mut body).expect("is not broken") {
                assert_eq!((kind, body.len()), (read, len(read)));
                assert!(body.iter().all(|byte| *byte == read as u8));
                read += 1;
            }
            assert!(!reader.tell());
            assert_eq!(read, written);
        }
        let long = vec![0; BODY_BYTES_MAX + 1];
        assert!(!write(&mut writer, 0, &[&long]));
    }

    #[test]
    fn who_sleeps_is_woken_once() {
        let (mut writer, mut reader) = ring();
        let mut body = Vec::new();
        write(&mut writer, 1, &[]);
        assert!(!writer.wakes_reader());
        reader.sleep();
        assert!(reader.has_record());
        assert!(writer.wakes_reader() && !writer.wakes_reader());
        while write(&mut writer, 1, &[&[0; 16_000]]) {}
        assert!(!writer.is_relieved());
        writer.sleep();
        while reader.read(&mut body) != Ok(None) {}
        assert!(reader.tell() && !reader.tell());
        assert!(writer.is_relieved() && !writer.is_relieved());
        writer.sleep();
        assert!(!reader.tell(), "nothing waits for room");
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        for written in [1, 4, 12, RING_BYTES as u64 + 8, u64::MAX, 1 << 63] {
            let (writer, mut reader) = ring();
            writer
                .memory
                .word(word::WRITTEN)
                .store(written, Ordering::Release);
            assert_eq!(reader.read(&mut Vec::new()), Err(Broken), "{written}");
        }
        for len in [9, BODY_BYTES_MAX as u32 + 1, u32::MAX] {
            let (writer, mut reader) = ring();
            writer.memory.write(RING_AT, &len.to_ne_bytes());
            writer
                .memory
                .word(word::WRITTEN)
                .store(16, Ordering::Release);
            assert_eq!(reader.read(&mut Vec::new()), Err(Broken), "{len}");
        }
        for read in [8, u64::MAX] {
            let (mut writer, reader) = ring();
            reader
                .memory
                .word(word::READ)
                .store(read, Ordering::Release);
            while writer.written < RING_BYTES as u64 / 2
                && writer.write(0, [&[0; 9000][..]].into_iter()).is_ok()
            {}
            reader
                .memory
                .word(word::READ)
                .store(u64::MAX, Ordering::Release);
            let all = [0; 16_000];
            while writer.write(0, [&all[..]].into_iter()) == Ok(true) {}
            assert_eq!(writer.write(0, [&all[..]].into_iter()), Err(Broken));
        }
    }

    #[test]
    fn an_idle_ring_keeps_its_words_only_and_goes_on() {
        use std::os::unix::fs::MetadataExt;
        let (mut writer, file) = Writer::create().expect("is made");
        let mut reader = Reader::open(&file).expect("is one");
        let file = std::fs::File::from(file);
        let used = || file.metadata().expect("is there").blocks() * 512;
        let mut body = Vec::new();
        write(&mut writer, 1, &[b"first"]);
        writer.cool();
        assert_eq!(reader.read(&mut body), Ok(Some(1)));
        assert_eq!(body, b"first");
        reader.tell();
        assert!(used() > 4096);
        writer.cool();
        assert!(used() <= 4096);
        write(&mut writer, 2, &[b"second"]);
        assert_eq!(reader.read(&mut body), Ok(Some(2)));
        assert_eq!(body, b"second");
        writer.close();
        assert!(reader.is_at_end());
    }
}
