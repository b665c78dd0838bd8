//! Delay on a link, in user space: the kernels we meet need not have netem.
//!
//! A cable with a delay has a gap (see `wiring.rs`). The emulator takes every
//! frame that reaches the gap from the node, holds it for the delay and puts
//! it in on the switch's side. Frames keep their virtio header, so a
//! segmentation-offloaded packet of 64 KiB crosses whole, in two system calls.
//! A queue per cable keeps the order by itself, also when the delay is changed.

mod packet;
mod queue;
mod tree;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tabane_io::process::Watched;

pub(crate) use self::packet::PacketSocket;
use self::queue::{FRAME_BYTES_MAX, Queue};
pub(crate) use self::tree::Tree;
use crate::namespace::Place;
use crate::{LabError, sys};

/// Frames taken from one cable before the others get their turn.
const TURN_FRAMES: usize = 64;

/// How long a link holds each frame; may be changed while the emulator runs.
#[derive(Debug, Clone)]
pub(crate) struct Delay(Arc<AtomicU64>);

impl Delay {
    pub fn new(delay: Duration) -> Self {
        Delay(Arc::new(AtomicU64::new(delay.as_nanos() as u64)))
    }

    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub fn set(&self, delay: Duration) {
        self.0.store(delay.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// One cable's gap, in one direction: on a link from node to switch, outside once each way.
#[derive(Debug)]
pub(crate) struct Cable {
    input: PacketSocket,
    output: PacketSocket,
    delay: Delay,
    queue: Queue,
}

impl Cable {
    /// From one device of a switch to another. `rate_bits_per_s` sizes the queue: what the line can hold in that time.
    pub fn new(
        switch: &Place,
        input: &str,
        output: &str,
        delay: &Delay,
        rate_bits_per_s: Option<u64>,
    ) -> io::Result<Self> {
        Ok(Cable {
            input: PacketSocket::receiver(switch, input)?,
            output: PacketSocket::sender(switch, output)?,
            delay: delay.clone(),
            queue: Queue::for_line(rate_bits_per_s, delay.get()),
        })
    }

    fn take_in(&mut self) {
        for _ in 0..TURN_FRAMES {
            let Some(room) = self.queue.room() else {
                // Full: the line is fed faster than it drains. A real one drops too.
                self.input.discard();
                continue;
            };
            match self.input.receive(room) {
                // The clock is read after the frame came: never too early.
                Some(bytes) if bytes <= FRAME_BYTES_MAX => {
                    self.queue.push(
                        bytes,
                        sys::monotonic_ns() + self.delay.get().as_nanos() as u64,
                    );
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Put in what is due; returns when the next frame is.
    fn put_out(&mut self) -> Option<u64> {
        while let Some((frame, due_ns)) = self.queue.front() {
            if due_ns > sys::monotonic_ns() {
                return Some(due_ns);
            }
            self.output.send(frame);
            self.queue.pop();
        }
        None
    }
}

/// What an emulator does.
#[derive(Debug)]
pub(crate) struct Emulation {
    /// Delays frames on these cables of links,
    pub cables: Vec<Cable>,
    /// and on the line outside.
    pub line: Vec<Cable>,
    /// Is the switches of these links.
    pub trees: Vec<Tree>,
}

impl Emulation {
    pub fn is_nothing(&self) -> bool {
        self.all_cables().next().is_none() && self.trees.is_empty()
    }

    fn all_cables(&self) -> impl Iterator<Item = &Cable> {
        self.cables.iter().chain(&self.line)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let cables = self.all_cables().map(|cable| cable.input.as_fd());
        let trees = self.trees.iter().flat_map(Tree::descriptors);
        cables.chain(trees).collect()
    }

    /// Those that it only sends by.
    fn outputs(&self) -> Vec<BorrowedFd<'_>> {
        self.all_cables()
            .map(|cable| cable.output.as_fd())
            .collect()
    }

    /// Takes in what has come by the descriptors of these places, and puts out what is due; returns when the next is.
    fn turn(&mut self, ready: impl Fn(usize) -> bool) -> Option<u64> {
        let mut next_ns: Option<u64> = None;
        let mut before = 0;
        for cable in self.cables.iter_mut().chain(&mut self.line) {
            if ready(before) {
                cable.take_in();
            }
            before += 1;
            next_ns = next_ns.into_iter().chain(cable.put_out()).min();
        }
        for tree in &mut self.trees {
            let nodes = tree.descriptors().count();
            let came = (0..nodes).filter(|node| ready(before + node));
            came.for_each(|node| tree.take_in(node));
            before += nodes;
            next_ns = next_ns.into_iter().chain(tree.move_on()).min();
        }
        next_ns
    }

    /// Carries frames until the process of the pidfd `ends` has ended.
    pub fn run(mut self, ends: BorrowedFd) {
        sys::wake_precisely();
        // The world outside does not wait for this machine, either.
        if !self.trees.is_empty() || !self.line.is_empty() {
            sys::come_first();
        }
        let watch = |fd: &BorrowedFd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut watched: Vec<libc::pollfd> = self.descriptors().iter().map(watch).collect();
        watched.push(watch(&ends));
        loop {
            let next_ns = self.turn(|place| watched[place].revents != 0);
            if watched.last().is_some_and(|ends| ends.revents != 0) {
                return;
            }
            sys::poll_until(&mut watched, next_ns);
        }
    }
}

/// As [`Emulation::run`], in a process of its own that outlives this one; its process id.
pub(crate) fn run_in_background(work: Emulation, ends: Watched) -> Result<u32, LabError> {
    let starting = || LabError::io("starting the emulator");
    let mut keep = vec![ends.as_fd().as_raw_fd()];
    let used = work.descriptors().into_iter().chain(work.outputs());
    keep.extend(used.map(|fd| fd.as_raw_fd()));
    let pid = sys::fork_alone().map_err(starting())?;
    if pid == 0 {
        sys::leave_caller(&mut keep);
        work.run(ends.as_fd());
        sys::exit_now();
    }
    Ok(pid)
}
