//! Every threshold of a path, with its reason. Nothing here is on the wire: two ends may differ.
//!
//! A constant that is an expression of others is the same thing seen from another side, and its comment says why.
//! `docs/thresholds.md` lists those that are independent.

use core::time::Duration;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

// ---- the machines at both ends ----

pub use crate::time::GRANULARITY;
use crate::time::{part, times};
/// The pause of one process on a loaded machine.
pub const PAUSE: Duration = ms(10);

// ---- acknowledging ----

/// Packets after which an acknowledgement is due: one GSO burst of 64 KB at MTU 1500. Four times as many gained
/// nothing, and filled a fast link later.
pub const ACK_PACKETS: u32 = 48;
/// Longest wait for an acknowledgement. It is a quarter of the queue target, so that it never starves the sender.
/// It is also the grain of everything that acknowledgements show or cause: no delivery rate is taken over less, no
/// burst takes longer on the link, and a suspect path is probed at this pace.
pub const ACK_DELAY_MAX: Duration = us(500);
/// The same while the peer is one of a crowd of senders. Its packets come one by one then, and an acknowledgement
/// for each would take a fifteenth of the way back.
pub const ACK_DELAY_CROWDED: Duration = times(ACK_DELAY_MAX, 4);
/// Shortest time between acknowledgements that a gap alone calls for. On a lossy path every third packet shows a gap.
pub const ACK_GAP_INTERVAL: Duration = part(ACK_DELAY_MAX, 2);
/// Each packet is reported in this many consecutive acknowledgements. If half of those are lost, the sender misses
/// one packet in 256.
pub const ACK_REPEATS: usize = 8;

// ---- loss ----

/// Least reordering that is tolerated before a gap is a loss. RFC 8985 (section 6.2) uses min RTT / 4, which is too
/// little on a LAN; on a long path everything carried in order would wait in vain for it. Here it is RTT / 16, and a
/// path that reorders more teaches it.
pub const REORDER_MIN: Duration = GRANULARITY;
/// Most reordering that is tolerated. Packets that a paused process held up are late by no more.
pub const REORDER_MAX: Duration = PAUSE;
/// The reordering window only grows when more than one loss in this many was false. A lost acknowledgement causes a
/// few false losses, too.
pub const REORDER_FALSE_ONE_IN: u32 = 32;
/// How long a lost packet is remembered. An acknowledgement that comes until then shows that the loss was false.
pub const LOST_KEPT: Duration = ms(200);
/// Packets over which the loss ratio is averaged.
pub const LOSS_RATIO_PACKETS: f64 = 1024.0;

// ---- tail ----

/// Least first probe timeout: a wake-up on a loaded machine takes one to two times [`GRANULARITY`], and the answer
/// another.
pub const PROBE_TIMEOUT_MIN: Duration = times(GRANULARITY, 3);
/// Most that false probe timeouts widen the next one: a longer pause would hide a failure.
pub const PROBE_TIMEOUT_WIDENED_MAX: Duration = PAUSE;
/// RTT that is assumed before the first sample: a LAN whose queue is as long as is aimed at.
pub const RTT_INITIAL: Duration = QUEUE_TARGET;

// ---- congestion ----

/// Packets that a path may be given while nothing is known of it, at the start and at the first probe timeout.
/// (RFC 6928 has 10.)
pub const WINDOW_INITIAL_PACKETS: u64 = 16;
/// Least window in packets (BBR: MinPipeCwnd; BBR is draft-ietf-ccwg-bbr, whose parameters are cited by name).
pub const WINDOW_MIN_PACKETS: u64 = 4;
/// Least window in packets while a link is full of other senders. Where 16 nodes of a switch send to a thousand
/// each, a path has a hundredth of a packet in each round trip. Each packet that arrives meanwhile opens the window
/// by half of this.
pub const BACKOFF_LEAST: f64 = 1.0 / 16.0;
/// Queue that is aimed at on a link of 1 Gb/s and more. It covers the acknowledgement delay and the scheduling of
/// both ends. A faster link needs no shorter one, for processes are kept waiting as long there.
pub const QUEUE_TARGET: Duration = ms(2);
/// The usual link: 1 Gb/s, in bytes per second. Slower links aim at a longer queue (by the fourth root), so that the
/// share of a slow flow grows and flows that share a link converge. Before the first sample a path is thought to
/// be this fast.
pub const RATE_INITIAL: f64 = 125e6;
/// A quarter more: a path whose rate grows by less has its full rate (BBR: Startup, section 5.3.1.2), and what is
/// given beyond the estimate lets it be outgrown (BBR: ProbeBW_UP).
pub const GAIN: f64 = 1.25;
/// A train of packets that came this many times faster than the estimate shows that the path can do more. (A quarter more
/// is noise where half is lost.)
pub const TRAIN_NEWS: f64 = 1.5;
/// The rate is full after so many rounds without such growth (BBR: section 5.3.1.2).
pub const FULL_RATE_ROUNDS: u32 = 3;
/// Rounds that count as much if the window was full only at some time in each. (Beyond its start-up the rate of a far
/// path grows by a quarter in each round.)
pub const FILLED_ROUNDS: u32 = FULL_RATE_ROUNDS * FULL_RATE_ROUNDS;
/// Rounds with a full window for which a path that still grows is thought to be as fast as any: from 16 packets doubling,
/// 10 Gb/s over 10 ms take ten.
pub const HOPEFUL_ROUNDS: u32 = 10;
/// An estimate that fell below this share of an earlier one is in doubt.
pub const RATE_DOUBTED: f64 = 0.5;
/// Longest time that something waits for a reason which is not distance: the queue of a dumb switch port (128 KB to
/// 4 MB at 1 Gb/s), or a process without a processor.
pub const WAIT_MAX: Duration = ms(30);
/// Window of the maximum filter of the delivery rate: it forgets after one to two of these.
pub const RATE_EPOCH: Duration = ms(50);
/// Time over which the rate of a busy path is taken. One acknowledgement delay is a tenth of it.
pub const RATE_PERIOD: Duration = times(ACK_DELAY_MAX, 10);
/// Packets that show a rate.
pub const RATE_PACKETS: u32 = 8;
/// A path with at least this RTT is far. Its rate is taken several times in a round trip, so that a round trip shows
/// what was in flight and not what the link can do.
pub const FAR: Duration = RATE_PERIOD;
/// Shortest round of the rate estimate. Once the rate is full it at most doubles in each round, so that a token
/// bucket's burst (128 KB: 1 ms at 1 Gb/s) cannot blow it up.
pub const ROUND_MIN: Duration = QUEUE_TARGET;
/// Largest burst in bytes: one GSO send.
pub const BURST_BYTES_MAX: usize = 64 * 1024;
/// Time between two probes of the least RTT (BBR: ProbeRTTInterval, 5 s).
pub const DRAIN_INTERVAL: Duration = ms(5000);
/// How long such a probe waits for an answer, and the least time between two (BBR: ProbeRTTDuration, 200 ms).
pub const DRAIN_PAUSE: Duration = ms(200);
/// Window of the minimum filter of the least RTT (BBR: MinRTTFilterLen, 10 s): it forgets after one
/// to two of these.
pub const RTT_MIN_EPOCH: Duration = ms(10_000);
/// How long a bound on delays is believed: the shortest way there, reordering that was learned, a way that seems to
/// have become longer. In twice this time two clocks that differ by 100 ppm make it wrong by 0.2 ms.
pub const DELAY_EPOCH: Duration = ms(1000);

/// Loss that changes nothing (BBR: LossThresh, 2%).
pub const LOSS_TOLERATED: f64 = 0.02;
/// Packets over which loss is compared to find its cause.
pub const CAUSE_PACKETS: u32 = 128;
/// Least time for that: ten queues' worth, so that the queue before the cut plays no part.
pub const CAUSE_EPOCH: Duration = times(QUEUE_TARGET, 10);
/// Loss in spite of a queue that was cut is chance if it is as much as this.
pub const LOSS_NO_QUEUE: f64 = 0.1;
/// A queue that was cut for overflowing is doubled again after this, …
pub const CAUSE_RAISE: Duration = ms(2000);
/// … and after ever longer, up to this, if it overflows again.
pub const CAUSE_RAISE_MAX: Duration = ms(30_000);
/// Loss that is thought to be chance is doubted after this, …
pub const CAUSE_DOUBT: Duration = ms(1000);
/// … and after ever longer, up to this, if it was chance.
pub const CAUSE_DOUBT_MAX: Duration = ms(10_000);
/// Most loss that is thought to be chance. If a cut of the queue leaves less than this share
/// of the loss, the rest was the queue's.
pub const CHANCE_MAX: f64 = 0.6;

// ---- what a crowded receiver grants ----

/// The peer is told this often how much was sent on each path (the arrival-skew witness, paper 000 section 4).
pub const SENT_EVERY: Duration = ms(3);
/// The peer is told this often what is granted and how long packets wait.
pub const TOLD_EVERY: Duration = ms(5);
/// A grant that was not repeated for this long has ended: twenty in a row were lost.
pub const GRANT_LIFETIME: Duration = times(TOLD_EVERY, 20);
/// Time that a grant is saved up for before it goes as one burst. (The bursts of many senders may meet at the
/// receiver's port: no burst has more than [`WINDOW_INITIAL_PACKETS`].)
pub const PACE_BURST: Duration = us(200);
/// A grant allows this much more in flight than the least RTT takes: the peer acknowledges three times meanwhile.
pub const PACE_FLIGHT: Duration = times(ACK_DELAY_CROWDED, 3);

// ---- liveness ----

/// Silence that fails a path under load: a pause of each end's process. 25 ms is all the time there is. It is longer
/// on a path with a long RTT.
pub const SILENCE_BUSY: Duration = times(PAUSE, 2);
/// Silence that fails a path that was idle before: others may have filled its queues meanwhile, there and back.
pub const SILENCE_IDLE: Duration = times(WAIT_MAX, 2);
/// Silence that fails a path on which packets arrive, even if some that the peer sent before are still in flight:
/// longer than any queue that they may stand in.
pub const SILENCE_HEARD: Duration = ms(300);
/// Silence of all paths together that fails a path after all: the only path died, or the peer.
pub const SILENCE_ALONE: Duration = ms(3000);
/// A peer that no path has reached for this long is reported down; and a path on which probes were never answered for
/// this long has failed, whatever else arrives.
pub const PEER_SILENT_MAX: Duration = ms(10_000);
/// Silence counts at most this much between two signs of life of other paths. When all paths are silent together,
/// the peer or this process was stopped, and no path is to blame.
pub const EVIDENCE_STEP: Duration = part(SILENCE_BUSY, 4);
/// Probability of a false failure by mere loss that is accepted per silence.
pub const FALSE_FAILURE: f64 = 1e-5;
/// Least loss of each direction that is assumed when unanswered packets are counted: it may just have begun.
pub const LOSS_ASSUMED: f64 = 0.5;
/// Pace of probes on a suspect path: forty within [`SILENCE_BUSY`].
pub const PROBE_SUSPECT: Duration = ACK_DELAY_MAX;
/// Probes at that pace before each further one waits twice as long, unless other paths show that the peer answers.
/// Where all paths are silent the peer's process waits for its processor. (Of 64 processes with two processors, each
/// of which asked 56 others 128 times by two paths, none came to answer.)
pub const PROBE_SUSPECT_COUNT: u32 = 16;
/// A probe, a verdict or a question that must be repeated is repeated after this at first …
pub const REPEAT: Duration = part(PAUSE, 2);
/// … doubling to this. A failed path is probed at this pace.
pub const REPEAT_MAX: Duration = ms(100);
/// Slowest pace of probes on a path that was never answered: half that of a path that works.
pub const PROBE_UNTESTED_MAX: Duration = times(KEEPALIVE, 2);
/// A peer that is away is asked again after this part of its absence …
pub const ABSENCE_PART: u32 = 8;
/// … but after this at the latest: it may be gone for good, and a thousand others with it.
pub const ABSENCE_MAX: Duration = ms(60_000);
/// Silence before the first keepalive probe, doubling to [`RECHECK`] while nothing is carried.
pub const KEEPALIVE: Duration = ms(250);
/// A path that is asked as rarely as this is idle: it gives back the memory that it needs to carry something.
pub const KEEPALIVE_IDLE: Duration = times(KEEPALIVE, 8);
/// What was found to be bad or needless, but may have changed, is tried again after this.
pub const RECHECK: Duration = ms(5000);
/// The same on a path that is watched ([`Node::watch`](crate::Node::watch)): it carries packets of others, which go
/// unseen here. Each probe wakes the asking end's process twice and the other's once, and all of this time is added
/// to the time in which a failure is found.
pub const KEEPALIVE_WATCHED: Duration = ms(12);
/// The end that is asked asks itself when the other end has not asked for this long.
pub const KEEPALIVE_UNASKED: Duration = part(times(KEEPALIVE_WATCHED, 3), 2);
/// Of the last eight probes this many must be answered before a path returns.
pub const RETURN_PROBES: u32 = 3;
/// Least time over which they are answered: as long as the silence that would fail the path again.
pub const RETURN_HOLD: Duration = SILENCE_IDLE;
/// Pace of probes on a failed path that answers again.
pub const PROBE_RETURNING: Duration = part(RETURN_HOLD, RETURN_PROBES);
/// A path that fails again sooner than this after its return is flapping: the hold doubles.
pub const FLAP: Duration = ms(1000);
/// It doubles at most this often (to 8 s).
pub const FLAPS_MAX: u32 = 7;

// ---- path MTU (RFC 8899) ----

/// Probes of one size before it has failed (RFC 8899 section 5.1.2, MAX_PROBES); more on a lossy path.
pub const MTU_PROBES: u32 = 3;
/// Least wait for the answer to an MTU probe: the longest queue.
pub const MTU_PROBE_TIMEOUT: Duration = WAIT_MAX;
/// A size that failed twice is tried again after this (RFC 8899 section 5.1.1, PMTU_RAISE_TIMER).
pub const MTU_RAISE: Duration = ms(600_000);
/// Probability that is accepted that loss alone fails a size: it is tried again.
pub const MTU_FALSE: f64 = 0.01;

const _: () = {
    assert!(ACK_DELAY_MAX.as_nanos() < QUEUE_TARGET.as_nanos());
    assert!(PROBE_SUSPECT.as_nanos() * 15 < SILENCE_BUSY.as_nanos());
    assert!(KEEPALIVE_UNASKED.as_nanos() < SILENCE_BUSY.as_nanos());
};

/// How many times in a row something must go wrong that goes wrong with probability `one` before chance is ruled out.
fn in_a_row(one: f64) -> u32 {
    (FALSE_FAILURE.ln() / one.ln()).ceil() as u32
}

/// How many packets, each with an answer of its own, must go unanswered in a row before mere loss of `loss_ratio` both
/// ways is ruled out. A probe is answered twice: by its reply on the path and an acknowledgement on any.
pub fn unanswered_packets(loss_ratio: f64) -> u32 {
    let p = loss_ratio.clamp(LOSS_ASSUMED, CHANCE_MAX);
    in_a_row(1.0 - (1.0 - p) * (1.0 - p / 2.0))
}

/// How many probes must bring nothing back before mere loss both ways is ruled out.
pub fn unanswered_probes(loss_ratio: f64) -> u32 {
    let p = loss_ratio.clamp(LOSS_ASSUMED, CHANCE_MAX);
    in_a_row(1.0 - (1.0 - p) * (1.0 - LOSS_ASSUMED))
}

/// How many packets known to be sent must be missing before mere loss of one direction is ruled out (paper 000
/// section 5.1: fewer than 2 of 100), however much of it chance may take.
pub fn missing_packets() -> u32 {
    in_a_row(CHANCE_MAX)
}
