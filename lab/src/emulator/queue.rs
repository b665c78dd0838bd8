//! Frames on their way through a line: a ring of bytes, first in, first out.

use std::collections::VecDeque;
use std::time::Duration;

/// Longest frame carried: a 64 KiB packet, its Ethernet and virtio headers.
pub(super) const FRAME_BYTES_MAX: usize = 68 << 10;
/// Room for what arrives while the emulator waits for a CPU.
const SLACK_BYTES: u64 = 4 << 20;
/// Taken for the rate of an unshaped line.
const UNSHAPED_BITS_PER_S: u64 = 40_000_000_000;
const RING_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug)]
struct Entry {
    begin: usize,
    bytes: usize,
    due_ns: u64,
}

#[derive(Debug)]
pub(super) struct Queue {
    ring: Box<[u8]>,
    entries: VecDeque<Entry>,
    /// Where the next frame goes.
    end: usize,
}

impl Queue {
    /// Twice what a line of this rate holds in this time. Memory is touched
    /// only as far as it is used: an empty queue begins anew at the front.
    pub fn for_line(rate_bits_per_s: Option<u64>, delay: Duration) -> Self {
        let rate = rate_bits_per_s.unwrap_or(UNSHAPED_BITS_PER_S);
        let held = (rate as f64 / 8.0 * delay.as_secs_f64() * 2.0) as u64;
        Queue::new((held + SLACK_BYTES).min(RING_BYTES_MAX) as usize)
    }

    fn new(bytes: usize) -> Self {
        Queue {
            ring: vec![0; bytes].into_boxed_slice(),
            entries: VecDeque::new(),
            end: 0,
        }
    }

    /// Room for the longest frame, or `None` when full.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        let Some(first) = self.entries.front() else {
            self.end = 0;
            return self.ring.get_mut(..FRAME_BYTES_MAX);
        };
        let wrapped = self.end <= first.begin;
        if !wrapped && self.end + FRAME_BYTES_MAX > self.ring.len() {
            self.end = 0;
        }
        let limit = if self.end <= first.begin {
            first.begin
        } else {
            self.ring.len()
        };
        let end = self.end;
        (end + FRAME_BYTES_MAX <= limit).then(|| &mut self.ring[end..end + FRAME_BYTES_MAX])
    }

    /// The first `bytes` of the room just given are a frame.
    pub fn push(&mut self, bytes: usize, due_ns: u64) {
        self.entries.push_back(Entry {
            begin: self.end,
            bytes,
            due_ns,
        });
        self.end += bytes;
    }

    /// The oldest frame, and when it is due.
    pub fn front(&self) -> Option<(&[u8], u64)> {
        let entry = self.entries.front()?;
        Some((
            &self.ring[entry.begin..entry.begin + entry.bytes],
            entry.due_ns,
        ))
    }

    pub fn pop(&mut self) {
        self.entries.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_and_in_order_over_many_wraps() {
        let mut queue = Queue::new(5 * FRAME_BYTES_MAX + 17);
        let (mut put, mut got) = (0u64, 0u64);
        let size = |n: u64| 1 + (n as usize * 7919) % FRAME_BYTES_MAX;
        for round in 0..2000u64 {
            while put - got < 1 + round % 7
                && let Some(room) = queue.room()
            {
                room[..size(put)].fill(put as u8);
                queue.push(size(put), put);
                put += 1;
            }
            let (frame, due_ns) = queue.front().expect("one was put in");
            assert_eq!((frame.len(), due_ns), (size(got), got));
            assert!(frame.iter().all(|&byte| byte == got as u8));
            queue.pop();
            got += 1;
        }
        assert!(put > 2000);
    }

    #[test]
    fn a_full_queue_says_so_and_recovers() {
        let mut queue = Queue::new(3 * FRAME_BYTES_MAX);
        let mut held = 0;
        while queue.room().is_some() {
            queue.push(FRAME_BYTES_MAX, 0);
            held += 1;
            assert!(held <= 3);
        }
        queue.pop();
        assert!(queue.room().is_some());
    }
}
