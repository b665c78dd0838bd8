//! What streams, messages and frames of a bundle share.

use std::collections::VecDeque;

use super::limits::{Holdings, OpLimits, messages_in};
use super::queue::{Source, Turns};
use super::stream::Rest;
use super::window::{ReceiveWindow, SendWindow};
use super::{OpEvent, OpStats};
use crate::segment::{ChunkPool, Content, Pool};
use crate::{StreamId, Time};

/// Something with lost content to be carried again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lost {
    /// A frame, by slot and generation.
    Frame(u32, u32),
    /// A message, by slot and generation.
    Message(u32, u32),
    /// A stream, by its id.
    Stream(u64),
    /// Bytes of a memory operation, by slot and generation.
    Transfer(u32, u32),
}

/// A control record to be sent, with its newest values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Control {
    /// A stream's sending was given up.
    Reset(u64),
    /// A stream's receiving was given up.
    Stop(u64),
    /// A stream's window was raised.
    StreamWindow(u64),
    /// The window of the bundle's streams was raised.
    BundleWindow,
    /// The window of the bundle's messages was raised.
    MessageWindow,
    /// A get of this end was begun.
    Get(u32),
    /// An operation of the peer's is over: this is to arrive.
    OperationDone(Content),
}

/// What streams, messages and frames of a bundle share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The time.
    pub now: Time,
    /// As they are now, since other bundles of the node hold much.
    pub limits: OpLimits,
    /// As they are at most.
    limits_max: OpLimits,
    /// Buffers of frames and messages.
    pub pool: Pool,
    /// Buffers of streams.
    pub chunks: ChunkPool,
    /// Who sends new content next.
    pub turns: Turns,
    /// Sources with lost content, in the order of loss.
    pub lost: VecDeque<Lost>,
    /// Control records to be sent. Each stands here at most once.
    pub control: VecDeque<Control>,
    /// Operations of the peer's that are over, and it is not known to know.
    pub ends_untold: usize,
    /// Of streams, as the peer grants it.
    pub send_window: SendWindow,
    /// Of messages, as the peer grants it.
    pub message_send_window: SendWindow,
    /// Of streams, as this end grants it.
    pub receive_window: ReceiveWindow,
    /// Of messages, as this end grants it.
    pub message_window: ReceiveWindow,
    pub events: VecDeque<OpEvent>,
    /// For each stream that an event reports as broken: its unread data.
    rests: VecDeque<Option<Rest>>,
    /// Memory of `rests`.
    rests_bytes: usize,
    /// The unread data for the last event.
    pub rest: Option<Rest>,
    pub stats: OpStats,
}

impl Shared {
    pub fn new(limits: &OpLimits) -> Shared {
        let mut shared = Shared {
            now: Time::ZERO,
            limits: limits.clone(),
            limits_max: limits.clone(),
            pool: Pool::new(limits.pool_bytes),
            chunks: ChunkPool::new(limits.pool_bytes),
            turns: Turns::default(),
            lost: VecDeque::new(),
            control: VecDeque::new(),
            ends_untold: 0,
            send_window: SendWindow::default(),
            message_send_window: SendWindow::default(),
            receive_window: ReceiveWindow::new(limits.bundle_window_bytes),
            message_window: ReceiveWindow::new(messages_in(limits.bundle_window_bytes)),
            events: VecDeque::new(),
            rests: VecDeque::new(),
            rests_bytes: 0,
            rest: None,
            stats: OpStats::default(),
        };
        shared.announce_window();
        shared
    }

    /// Restarts, keeping buffers, counters, events and the share.
    pub fn reset(&mut self) {
        self.turns.clear();
        self.lost.clear();
        self.control.clear();
        self.ends_untold = 0;
        self.send_window = SendWindow::default();
        self.message_send_window = SendWindow::default();
        self.receive_window = ReceiveWindow::new(self.receive_window.share());
        self.message_window = ReceiveWindow::new(self.message_window.share());
        self.announce_window();
    }

    /// An operation of the peer's is over: this tells it.
    pub fn tell_end(&mut self, told: Content) {
        self.ends_untold += 1;
        self.control.push_back(Control::OperationDone(told));
    }

    /// A stream is gone. If a peer restarts faster than events are fetched, no more is kept than for one
    /// restart.
    pub fn broken(&mut self, id: StreamId, rest: Option<Rest>) {
        let room = (self.limits.bundle_window_bytes as usize).saturating_sub(self.rests_bytes);
        let rest = rest.filter(|rest| rest.memory_bytes() <= room);
        self.rests_bytes += rest.as_ref().map_or(0, Rest::memory_bytes);
        self.rests.push_back(rest);
        self.events.push_back(OpEvent::Broken(id));
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<OpEvent> {
        let event = self.events.pop_front()?;
        self.rest = None;
        if matches!(event, OpEvent::Broken(_)) {
            self.rest = self.rests.pop_front().flatten();
            self.rests_bytes -= self.rest.as_ref().map_or(0, Rest::memory_bytes);
        }
        Some(event)
    }

    /// The peer's window that `source` needs.
    pub fn window_of(&mut self, source: Source) -> &mut SendWindow {
        match source {
            Source::Messages(_) => &mut self.message_send_window,
            Source::Stream(_) | Source::Frames(_) | Source::Transfer(..) => &mut self.send_window,
        }
    }

    /// Received bytes of streams are done with.
    pub fn credit(&mut self, bytes: u64) {
        self.receive_window.credit(bytes);
        self.announce_window();
    }

    /// Received messages are consumed, of this total cost.
    pub fn credit_messages(&mut self, bytes: u64) {
        self.message_window.credit(bytes);
        self.announce_window();
    }

    /// See [`Ops::set_share`](super::Ops::set_share).
    pub fn set_share(&mut self, share: &Holdings) {
        let Holdings([unread, kept, rejoined, spare]) = *share;
        let most = &self.limits_max;
        let within = |most: usize, share: u64| most.min(usize::try_from(share).unwrap_or(most));
        self.limits.streams_send_bytes = within(most.streams_send_bytes, kept);
        self.limits.message_queue_bytes = within(most.message_queue_bytes, kept);
        self.limits.frame_held_bytes = within(most.frame_held_bytes, kept);
        self.limits.frame_queue_bytes = within(most.frame_queue_bytes, kept);
        self.limits.frame_reassembly_bytes = within(most.frame_reassembly_bytes, rejoined);
        self.pool
            .set_held_bytes_max(within(most.pool_bytes, spare / 2));
        self.chunks
            .set_held_bytes_max(within(most.pool_bytes, spare / 2));
        let unread = unread.min(most.bundle_window_bytes);
        self.receive_window.set_share(unread);
        self.message_window.set_share(messages_in(unread));
        self.announce_window();
    }

    /// Queues the bundle's windows that have risen enough.
    pub fn announce_window(&mut self) {
        for (window, control) in [
            (&mut self.receive_window, Control::BundleWindow),
            (&mut self.message_window, Control::MessageWindow),
        ] {
            if window.is_due() {
                window.queued = true;
                self.control.push_back(control);
            }
        }
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.turns.trim();
        self.lost.shrink_to(2 * self.lost.len());
        self.control.shrink_to(2 * self.control.len());
        self.events.shrink_to(2 * self.events.len());
        self.rests.shrink_to(2 * self.rests.len());
        for window in [&mut self.send_window, &mut self.message_send_window] {
            window.waiting.shrink_to(2 * window.waiting.len());
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.pool.memory_bytes()
            + self.chunks.memory_bytes()
            + self.turns.memory_bytes()
            + (self.send_window.waiting.capacity() + self.message_send_window.waiting.capacity())
                * size_of::<Source>()
            + self.lost.capacity() * size_of::<Lost>()
            + self.control.capacity() * size_of::<Control>()
            + self.events.capacity() * size_of::<OpEvent>()
            + self.rests.capacity() * size_of::<Option<Rest>>()
            + self.rests_bytes
    }
}
