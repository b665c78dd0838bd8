//! Reading what daemons log (docs/status.md, `daemon/events.rs` of the program).

/// A line that says something failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    /// Unix time, milliseconds.
    pub at_ms: u64,
    pub what: What,
    /// The line itself.
    pub line: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum What {
    /// A path to a peer.
    Path { peer: usize, link: usize },
    /// An own link, by the kernel's word.
    Link { link: usize },
    /// All paths to a peer, or its session.
    Peer { peer: usize },
}

/// What a line says, if it tells of a failure.
pub(super) fn failure(line: &str) -> Option<Failure> {
    let (time, text) = line.split_once(' ')?;
    let found = |what| {
        Some(Failure {
            at_ms: unix_ms_of(time)?,
            what,
            line: line.to_owned(),
        })
    };
    if let Some(rest) = text.strip_prefix("link ") {
        let (link, rest) = rest.split_once(' ')?;
        let link = link.parse().ok()?;
        if let Some(rest) = rest.strip_prefix("to ") {
            let (peer, rest) = rest.split_once(' ')?;
            let peer = node(peer)?;
            return rest
                .starts_with("failed")
                .then(|| found(What::Path { peer, link }))?;
        }
        return rest
            .contains("is down")
            .then(|| found(What::Link { link }))?;
    }
    let (peer, rest) = text.split_once(": ")?;
    let peer = node(peer)?;
    let lost = rest.starts_with("not connected") || rest.contains("it had restarted");
    lost.then(|| found(What::Peer { peer }))?
}

/// When a line was logged, Unix milliseconds.
pub(super) fn time_ms(line: &str) -> Option<u64> {
    unix_ms_of(line.split_once(' ')?.0)
}

/// `n3`.
fn node(name: &str) -> Option<usize> {
    name.strip_prefix('n')?.parse().ok()
}

/// Of `2026-11-21T10:19:59.999Z`.
fn unix_ms_of(time: &str) -> Option<u64> {
    let field = |range: std::ops::Range<usize>| time.get(range)?.parse::<u64>().ok();
    let days = days(field(0..4)?, field(5..7)?, field(8..10)?);
    let (hour, minute, second) = (field(11..13)?, field(14..16)?, field(17..19)?);
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + field(20..23)?)
}

/// Days since 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", days_from_civil).
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year % 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year / 400 * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_from_other_lines() {
        let what = |text: &str| {
            failure(&format!("2026-11-21T10:19:59.999Z {text}")).map(|failure| failure.what)
        };
        let path = What::Path { peer: 2, link: 1 };
        assert_eq!(what("link 1 to n2 failed: the peer says so"), Some(path));
        let link = What::Link { link: 0 };
        assert_eq!(
            what("link 0 (10.77.0.1) is down: the device is switched off"),
            Some(link)
        );
        let peer = What::Peer { peer: 1 };
        assert_eq!(what("n1: not connected: it was stopped"), Some(peer));
        assert_eq!(what("n1: connected again; it had restarted"), Some(peer));
        for other in [
            "link 1 to n2 works",
            "n1: connected",
            "n0 is ready",
            "link 0 (10.77.0.1) is up on eth0",
        ] {
            assert_eq!(what(other), None, "{other}");
        }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(unix_ms_of("1970-01-01T00:00:00.001Z"), Some(1));
        assert_eq!(
            unix_ms_of("2026-11-21T10:19:59.999Z"),
            Some(1_795_256_399_999)
        );
        assert_eq!(
            unix_ms_of("2000-02-29T00:00:00.007Z"),
            Some(951_782_400_007)
        );
        assert_eq!(unix_ms_of("soon"), None);
    }
}
