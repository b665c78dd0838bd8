//! Every threshold of a path, with its reason. Nothing here is on the wire: two
//! ends may differ.

use core::time::Duration;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

// ---- acknowledging ----

/// Packets after which an acknowledgement is due: one GSO burst of 64 KB at MTU 1500. (Four times as many are worth
/// nothing where they were tried, and a fast link is filled later.)
pub const ACK_PACKETS: u32 = 48;
/// Longest wait for an acknowledgement. A quarter of the queue target at 1 Gb/s, so that it never starves the sender.
pub const ACK_DELAY_MAX: Duration = us(500);
/// The same for one of a crowd of senders: at its share of the port, packets come one by one, and an acknowledgement for
/// each would take a fifteenth of the way back.
pub const ACK_DELAY_CROWDED: Duration = ms(2);
/// Shortest time between acknowledgements that a gap alone calls for: on a lossy path every third packet shows one.
pub const ACK_GAP_INTERVAL: Duration = us(250);
/// Each packet is reported in this many consecutive acknowledgements: at 50% loss of those, one in 256 is missed.
pub const ACK_REPEATS: usize = 8;

/// What came on a path is forgotten, but for the last few packets, when nothing has come for so long: whatever was sent
/// before those is not under way any more.
pub const RECEIVED_KEPT: Duration = ms(2000);

// ---- loss ----

/// Least reordering tolerated before a gap is a loss. Packets of one path are reordered by per-CPU backlogs
/// for up to about 1 ms, however long the path. (RFC 8985 uses min RTT / 4: too little on a LAN, and on a long path what
/// is carried in order would wait in vain. Here it is RTT / 16; a path that reorders more teaches it.)
pub const REORDER_MIN: Duration = ms(1);
/// Most reordering tolerated, however often a loss turned out to be a delay.
pub const REORDER_MAX: Duration = ms(10);
/// The reordering window only learns when more than one loss in this many was false: an acknowledgement that is
/// itself lost makes a few false losses too.
pub const REORDER_FALSE_ONE_IN: u32 = 32;
/// A reordering window widened by a false loss shrinks by half after this long without another.
pub const REORDER_DECAY: Duration = ms(1000);
/// How long a lost packet is remembered so that a late acknowledgement still counts (and shows that the loss was none).
pub const LOST_KEPT: Duration = ms(200);
/// Decided packets over which the loss ratio is averaged.
pub const LOSS_RATIO_PACKETS: f64 = 1024.0;

// ---- tail ----

/// Least first probe timeout: a wake-up on a loaded machine takes 1 to 2 ms. (RFC 9002's 1 ms granularity, times this.)
pub const PROBE_TIMEOUT_MIN: Duration = ms(3);
/// Most a probe timeout is widened for having been false, so that failure is still found in time.
pub const PROBE_TIMEOUT_WIDENED_MAX: Duration = ms(10);
/// Packets whose content is carried again at the first probe timeout; twice as many at each further one.
/// Few, for the cause may be a pause of the peer; a real failure releases all of them soon after.
pub const PROBE_TIMEOUT_PACKETS: usize = 16;
/// RTT assumed before the first sample.
pub const RTT_INITIAL: Duration = ms(2);

// ---- congestion ----

/// Packets in flight before anything is known.
pub const WINDOW_INITIAL_PACKETS: u64 = 16;
/// Least window in packets.
pub const WINDOW_MIN_PACKETS: u64 = 4;
/// The same in packets per round trip while a link is full of others: where 16 nodes of a switch send to a thousand each, every
/// path has a hundredth of a packet in each round trip.
pub const BACKOFF_LEAST: f64 = 1.0 / 16.0;
/// What a packet that arrives opens a window below the least one by, in packets, while queues are long.
pub const BACKOFF_RISE: f64 = 1.0 / 32.0;
/// Queue aimed at on a 1 Gb/s link. It covers acknowledgement delay and scheduling of both ends.
pub const QUEUE_TARGET: Duration = ms(2);
/// A queue that was cut holds at least this much of what ACK aggregation acknowledges at once: more than all of it, so
/// that a window that is too small grows.
pub const AGGREGATION_GAIN: f64 = 1.25;
/// Longest wait of a process for its processor that the queue makes up for: more of it would stand there when the wait
/// ends.
pub const WAIT_MAX: Duration = ms(30);
/// The rate that [`QUEUE_TARGET`] is for, in bytes per second. Slower paths aim at a longer queue (fourth root): the
/// share of a slow flow grows, so that flows sharing a link converge.
pub const QUEUE_TARGET_RATE: f64 = 125e6;
/// Shortest queue aimed at: processes are kept waiting as long on a fast link, and above 1 Gb/s each wait would leave
/// the link idle (8% of an unshaped stream, measured against 0.8 ms).
pub const QUEUE_TARGET_MIN: Duration = ms(2);
/// Longest queue aimed at.
pub const QUEUE_TARGET_MAX: Duration = ms(20);
/// Most that answers are thought to wait in queues on their way back: the queue of a dumb switch port (128 KB to 4 MB)
/// at 1 Gb/s.
pub const BACK_MAX: Duration = ms(30);
/// What that may rise to from nothing at one sample; above, it at most doubles.
pub const BACK_STEP: Duration = ms(1);
/// Half-life of the maximum filter of the delivery rate: it forgets after one to two of these.
pub const RATE_EPOCH: Duration = ms(50);
/// Shortest interval that a delivery rate is taken over: acknowledgements are aggregated this much.
pub const RATE_INTERVAL_MIN: Duration = us(500);
/// Least time over which the rate of a train on a far path is taken: ten acknowledgement delays.
pub const TRAIN_INTERVAL: Duration = ms(5);
/// A train that came so many times faster than is thought possible shows that more is.
pub const TRAIN_NEWS: f64 = 1.5;
/// A path with this least round trip is far: its round trips say too little of its rate, and its window is mostly
/// distance. (On a nearer one the queue aimed at is the larger part.)
pub const FAR: Duration = ms(5);
/// Shortest round of the rate estimate: it at most doubles per round once it is established,
/// so that a token bucket's burst (128 KB: 1 ms at 1 Gb/s) cannot blow it up.
pub const ROUND_MIN: Duration = ms(2);
/// A round as long as this is not spoilt by the pause of a process.
pub const ROUND_LONG: Duration = ms(10);
/// Time over which the rate of a path with a long queue is taken: ten acknowledgement delays.
pub const PERIOD_MIN: Duration = ms(5);
/// Packets that must arrive in that time.
pub const PERIOD_PACKETS: u32 = 8;
/// Rounds with a full window for which a path that still grows is thought to be as fast as any: from 16 packets
/// doubling, 10 Gb/s over 10 ms take ten.
pub const HOPEFUL_ROUNDS: u32 = 10;
/// An estimate that grows by no more than this factor …
pub const SETTLED_RISE: f64 = 1.25;
/// … and falls by no more than this (loss makes it vary) …
pub const SETTLED_FALL: f64 = 2.0;
/// … over so many rounds in which the window was always full …
pub const SETTLED_ROUNDS_LIMITED: u32 = 3;
/// … or so many in which it was full at some time, is settled. (Beyond its start-up a far path's grows by a quarter in
/// each round.)
pub const SETTLED_ROUNDS_FILLED: u32 = 9;
/// Time that one burst of packets handed over at once may take on the link.
pub const BURST: Duration = us(500);
/// Largest burst in bytes: one GSO send.
pub const BURST_BYTES_MAX: usize = 64 * 1024;
/// Rate assumed for scheduling before the first sample, in bytes per second (1 Gb/s).
pub const RATE_INITIAL: f64 = 125e6;
/// Time between drains of the path's own standing queue, which let the least RTT be seen again (BBR: ProbeRTT).
pub const DRAIN_INTERVAL: Duration = ms(5000);
/// When the receiver tells of a crowd, what passed for a longer way in this time was the crowd's queue.
pub const TAKEN_BACK_MAX: Duration = ms(1000);
/// Half-life of the maximum filter of the shortest way there that a packet leaves possible (its delay less its waits):
/// the rest of a delay is the most that can be queueing. It forgets after one to two of these, in which two clocks that
/// differ by 100 ppm make it wrong by 0.2 ms.
pub const BOUND_EPOCH: Duration = ms(1000);
/// Least RTTs are remembered for one to two of these.
pub const RTT_MIN_EPOCH: Duration = ms(10_000);

/// A rate estimate that fell below this share of the last verified one is verified by a drain: perhaps the way has
/// become longer and not the link slower.
pub const RATE_DOUBTED: f64 = 0.5;
/// Least time between drains.
pub const DRAIN_PAUSE: Duration = ms(200);
/// Loss that is not worth asking after its cause.
pub const LOSS_TOLERATED: f64 = 0.02;
/// A queue that was cut to a quarter does not cause so much loss: chance does.
pub const LOSS_NO_QUEUE: f64 = 0.1;
/// Packets, …
pub const CAUSE_PACKETS: u32 = 128;
/// … and time at least, over which loss is compared to find its cause.
pub const CAUSE_EPOCH: Duration = ms(20);
/// A queue that was cut for overflowing is doubled again after this, …
pub const CAUSE_RAISE: Duration = ms(2000);
/// … and after ever longer, up to this, if it overflows again.
pub const CAUSE_RAISE_MAX: Duration = ms(30_000);
/// Loss thought to be chance is doubted after this, …
pub const CAUSE_RETRY_MIN: Duration = ms(1000);
/// … and after ever longer, up to this, if it was.
pub const CAUSE_RETRY: Duration = ms(10_000);

// ---- what a crowded receiver grants ----

/// A grant that was not repeated for this long is none.
pub const GRANT_LIFETIME: Duration = ms(100);
/// Time that what is granted is saved up for before it goes as one burst …
pub const PACE_BURST: Duration = us(200);
/// … of at most so many packets: the bursts of many may meet at the receiver's port.
pub const PACE_BURST_PACKETS: f64 = 16.0;
/// What is granted may be on its way for so much longer than the least RTT.
pub const PACE_FLIGHT: Duration = ms(6);
/// What a far path may send, as a multiple of what it carries: a rate once underestimated must not stay so.
pub const FAR_RATE_GAIN: f64 = 1.25;
/// A process that wakes up late may catch up on this much.
pub const PACE_LATE: Duration = ms(1);
/// The receiver is told this often how long packets wait in queues.
pub const WAITED_EVERY: Duration = ms(5);

// ---- liveness ----

/// Silence that fails a path under load: the pause of one process on a loaded machine is 10 ms and more,
/// and 25 ms is all the time there is. Longer on a path with a long RTT.
pub const SILENCE_BUSY: Duration = ms(20);
/// Silence that fails a path that was idle before: its queue may meanwhile have been filled by others (50 ms).
pub const SILENCE_IDLE: Duration = ms(60);
/// Silence that fails a path on which packets arrive, even if some that the peer sent before are still on their way:
/// longer than any queue they may stand in.
pub const SILENCE_HEARD: Duration = ms(300);
/// A path that progressed this shortly before is under load.
pub const BUSY: Duration = ms(15);
/// Silence counts at most this much between two signs of life of other paths: when all are silent together,
/// the peer or this process was stopped, and no path is to blame.
pub const EVIDENCE_STEP: Duration = ms(5);
/// Silence of all paths together that fails a path after all: the only path died, or the peer.
pub const SILENCE_ALONE: Duration = ms(3000);
/// Silence after probes that fails a path whatever else arrives on it, and on others: longer than the longest queue of a
/// dumb switch port (4 MB) at 2 Mb/s.
pub const SILENCE_VAIN: Duration = ms(20_000);
/// Probability of a false failure by mere loss that is accepted per silence.
pub const FALSE_FAILURE: f64 = 1e-5;
/// Loss assumed at least when counting how many unanswered packets prove a failure (gives 25): it may just have begun.
pub const LOSS_ASSUMED: f64 = 0.5;
/// Packets known to be sent, none of which arrived, that fail a path (paper 000, section 5.1: fewer than 2 of 100;
/// here at 50% loss one in a million).
pub const SKEW_PACKETS: u64 = 20;
/// Loss of the other direction assumed when counting probes that brought nothing back.
pub const LOSS_ASSUMED_BACK: f64 = 0.5;
/// Loss of this direction assumed then at least, if the path was under load and its loss is known.
pub const LOSS_ASSUMED_BUSY: f64 = 0.25;
/// Pace of probes on a suspect path: thirty within [`SILENCE_BUSY`].
pub const PROBE_SUSPECT: Duration = us(500);
/// Probes at that pace before it slows down, unless other paths show that the peer answers. (Where all are silent the peer's
/// process waits for its processor: of 64 processes with two processors, each of which asked 56 others 128 times by two
/// paths, none came to answer.)
pub const PROBE_SUSPECT_COUNT: u32 = 16;
/// Probes at each slower pace, which is half of the one before.
pub const PROBE_SUSPECT_SLOWER: u32 = 2;
/// Slowest pace on a suspect path (all paths silent: the peer is stopped).
pub const PROBE_SUSPECT_MAX: Duration = ms(100);
/// Pace of probes on a path never answered yet: from here, doubling, …
pub const PROBE_UNTESTED: Duration = ms(10);
/// … to here.
pub const PROBE_UNTESTED_MAX: Duration = ms(500);
/// Pace of probes on a failed path at first, …
pub const PROBE_DOWN: Duration = ms(50);
/// … for this long, …
pub const PROBE_DOWN_EAGER: Duration = ms(5000);
/// … and then for ever.
pub const PROBE_DOWN_SLOW: Duration = ms(150);
/// While no path of the peer's works it is probed again after this part of the time since the path failed …
pub const PROBE_AWAY_PART: u32 = 8;
/// … but after this at the latest: it may be gone for good, and a thousand others with it.
pub const PROBE_AWAY_MAX: Duration = ms(60_000);
/// Pace of probes on a failed path that answers again.
pub const PROBE_RETURNING: Duration = ms(25);
/// Silence before the first keepalive probe, …
pub const KEEPALIVE: Duration = ms(250);
/// … doubling to this while nothing is carried.
pub const KEEPALIVE_MAX: Duration = ms(5000);
/// The same on a path that is watched ([`Node::watch`](crate::Node::watch)): packets of others, which go unseen here, are
/// on it. Each wakes the asking end's process twice and the other's once; all of it is added to the time in which a
/// failure is found.
pub const KEEPALIVE_WATCHED: Duration = ms(12);
/// The end that is asked asks itself when the other has not for this long.
pub const KEEPALIVE_UNASKED: Duration = ms(18);
/// A path that is asked as rarely as this is idle: it gives the memory back that it needs to carry something.
pub const KEEPALIVE_IDLE: Duration = ms(2000);
/// Of the last eight probes this many must be answered before a path returns.
pub const RETURN_PROBES: u32 = 3;
/// Least time over which they are answered.
pub const RETURN_HOLD: Duration = ms(60);
/// Most time, on a path that fails again and again.
pub const RETURN_HOLD_MAX: Duration = ms(10_000);
/// A path that fails again sooner than this after its return is flapping: the hold doubles.
pub const FLAP: Duration = ms(1000);
/// Every return within this time adds [`FLAP_STEP`] to the hold even if the path lived longer.
pub const FLAP_MEMORY: Duration = ms(60_000);
/// See [`FLAP_MEMORY`].
pub const FLAP_STEP: Duration = ms(20);
/// A verdict is repeated to the peer after this, doubling, …
pub const VERDICT_REPEAT: Duration = ms(5);
/// … to this, until confirmed.
pub const VERDICT_REPEAT_MAX: Duration = ms(100);

// ---- path MTU (RFC 8899) ----

/// Probes of one size before it has failed (RFC 8899 MAX_PROBES); more on a lossy path.
pub const MTU_PROBES: u32 = 3;
/// Most probes of one size.
pub const MTU_PROBES_MAX: u32 = 16;
/// Least wait for the answer to an MTU probe.
pub const MTU_PROBE_TIMEOUT: Duration = ms(30);
/// A failed size is tried again after this (it may have been bad luck), …
pub const MTU_RETRY: Duration = ms(5000);
/// … and from then on after this (RFC 8899 PMTU_RAISE_TIMER).
pub const MTU_RAISE: Duration = ms(600_000);
/// Large packets lost in a row, with smaller ones answered meanwhile, that show a black hole; more on a lossy path.
pub const BLACK_HOLE_PACKETS: u32 = 10;

const _: () = {
    assert!(ACK_DELAY_MAX.as_nanos() < QUEUE_TARGET_MIN.as_nanos());
    assert!(ACK_DELAY_CROWDED.as_nanos() < PACE_FLIGHT.as_nanos());
    assert!(PROBE_SUSPECT.as_nanos() * 15 < SILENCE_BUSY.as_nanos());
    assert!(EVIDENCE_STEP.as_nanos() * 3 < SILENCE_BUSY.as_nanos());
    assert!(KEEPALIVE_WATCHED.as_nanos() < KEEPALIVE_UNASKED.as_nanos());
    assert!(KEEPALIVE_UNASKED.as_nanos() < SILENCE_BUSY.as_nanos());
    assert!(REORDER_MIN.as_nanos() < REORDER_MAX.as_nanos());
};

/// How many packets, each with an answer of its own, must go unanswered in a row before mere loss of `loss_ratio` both
/// ways is ruled out. A probe is answered twice: by its reply on the path and an acknowledgement on any.
pub fn unanswered_packets(loss_ratio: f64) -> u32 {
    let p = loss_ratio.clamp(LOSS_ASSUMED, 0.6);
    let unanswered = 1.0 - (1.0 - p) * (1.0 - p / 2.0);
    (FALSE_FAILURE.ln() / unanswered.ln()).ceil() as u32
}

/// How many probes must bring nothing back before mere loss both ways is ruled out.
pub fn unanswered_probes(loss_ratio: f64, busy: bool) -> u32 {
    let least = if busy {
        LOSS_ASSUMED_BUSY
    } else {
        LOSS_ASSUMED
    };
    let unanswered = 1.0 - (1.0 - loss_ratio.clamp(least, 0.6)) * (1.0 - LOSS_ASSUMED_BACK);
    (FALSE_FAILURE.ln() / unanswered.ln()).ceil() as u32
}
