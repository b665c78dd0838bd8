//! Pings to one peer over one link, and a knock at its port.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use tabane_io::probe::{Knock, KnockAnswer, Ping};

use super::Pings;

/// Bytes of a small ping's IP packet, as `ping` sends it.
const SMALL_BYTES: usize = 84;
/// Pings as large as the MTU allows; numbers from here on are theirs.
const LARGE: std::ops::Range<u16> = 60_000..60_005;
/// How long answers are waited for when all is sent.
const GRACE: Duration = Duration::from_millis(300);
/// How long an answer from the port is waited for before the next knock.
const KNOCK_PATIENCE: Duration = Duration::from_millis(250);

/// A path to ping.
pub struct Way<'a> {
    pub local: IpAddr,
    pub device: Option<&'a str>,
    pub remote: SocketAddr,
    pub mtu_bytes: u32,
    /// Whether to knock at the port as well.
    pub knock: bool,
    pub interval: Duration,
    pub until: Instant,
}

/// The results.
#[derive(Default)]
pub struct Answers {
    /// Small pings; `None`: there could be none.
    pub small: Option<Pings>,
    /// At how many times small ones were lost: those in a row are one.
    pub lost_times: u32,
    /// Large ones.
    pub large: Option<Pings>,
    /// The answer from the port.
    pub knock: Option<KnockAnswer>,
    /// Pinging is not permitted.
    pub forbidden: bool,
}

/// Pings and knocks until it is time to stop.
pub fn run(way: &Way<'_>) -> Answers {
    let mut answers = Answers::default();
    std::thread::scope(|scope| {
        let knocking = way.knock.then(|| scope.spawn(|| knock(way)));
        match Ping::open(way.local, way.device, way.remote.ip()) {
            Ok(ping) => ping_on(way, ping, &mut answers),
            Err(error) => answers.forbidden = error.kind() == ErrorKind::PermissionDenied,
        }
        answers.knock = knocking.and_then(|k| k.join().ok()).flatten();
    });
    answers
}

/// ICMP errors are rate-limited, and the daemon's own packets use them up, too:
/// so it is tried as long as there is only silence.
fn knock(way: &Way<'_>) -> Option<KnockAnswer> {
    let knock = Knock::open(way.local, way.device, way.remote).ok()?;
    loop {
        let said = knock.knock(KNOCK_PATIENCE).ok();
        let is_final = said.is_none_or(|s| s != KnockAnswer::Silence);
        if is_final || Instant::now() >= way.until {
            return said;
        }
    }
}

fn ping_on(way: &Way<'_>, mut ping: Ping, answers: &mut Answers) {
    let (mut small, mut large) = (Pings::default(), Pings::default());
    let mut seen = vec![false; usize::from(LARGE.end)];
    let mut receive = |ping: &mut Ping, until: Instant, small: &mut Pings, large: &mut Pings| loop {
        let left = until.saturating_duration_since(Instant::now());
        match ping.receive(left) {
            Ok(Some(number)) => {
                let is_new = seen
                    .get_mut(usize::from(number))
                    .is_some_and(|s| !std::mem::replace(s, true));
                let of = if LARGE.contains(&number) {
                    &mut *large
                } else {
                    &mut *small
                };
                of.answered += u32::from(is_new);
            }
            Ok(None) | Err(_) => return,
        }
        if left.is_zero() {
            return;
        }
    };
    let mut next = Instant::now();
    let mut number = 0;
    while next < way.until && number < LARGE.start {
        small.sent += u32::from(ping.send(number, SMALL_BYTES).is_ok());
        // Large ones between small ones, one in ten.
        let nth = LARGE.start + number / 10;
        if number % 10 == 5 && LARGE.contains(&nth) {
            large.sent += u32::from(ping.send(nth, way.mtu_bytes as usize).is_ok());
        }
        number += 1;
        next += way.interval;
        receive(&mut ping, next, &mut small, &mut large);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    receive(&mut ping, Instant::now() + GRACE, &mut small, &mut large);
    let answered = &seen[..usize::from(number)];
    let begins = |nth: &usize| !answered[*nth] && (*nth == 0 || answered[*nth - 1]);
    answers.lost_times = (0..answered.len()).filter(begins).count() as u32;
    answers.small = (small.sent > 0).then_some(small);
    answers.large = (large.sent > 0).then_some(large);
}
