//! The daemon's log: lines on standard error. The journal is told how much each line matters, and others the time,
//! which the journal adds by itself.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Said by a daemon that is not started since there is one; `tabane run` recognises it.
pub const ALREADY: &str = "a tabane daemon runs on this machine already";

/// How much a line matters, as syslog(3) and so `journalctl --priority` number it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Priority {
    /// Something does not work, or not as it was wanted: somebody may have to act.
    Warning = 4,
    /// What happens in the life of a healthy node.
    Info = 6,
}

/// A line to be logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// How much it matters.
    pub priority: Priority,
    /// The line.
    pub text: String,
}

impl Line {
    /// A line of no concern.
    pub const fn info(text: String) -> Line {
        let priority = Priority::Info;
        Line { priority, text }
    }

    /// A line that somebody may have to act on.
    pub const fn warning(text: String) -> Line {
        let priority = Priority::Warning;
        Line { priority, text }
    }

    /// Logs it.
    pub fn say(&self) {
        say(self.priority, &self.text);
    }
}

/// Logs a line of no concern.
pub fn line(text: impl std::fmt::Display) {
    say(Priority::Info, text);
}

/// Logs a line that somebody may have to act on.
pub fn warn(text: impl std::fmt::Display) {
    say(Priority::Warning, text);
}

/// Writes one line, with one system call: no two lines run into one another when
/// the disk is full in between. A log that cannot be written (full disk, closed
/// pipe) is not a reason to stop carrying traffic.
fn say(priority: Priority, text: impl std::fmt::Display) {
    let line = match is_journal() {
        // sd-daemon(3): the journal takes the number off.
        true => format!("<{}>{text}\n", priority as u8),
        false => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let since = since.unwrap_or_default();
            let at = utc(since.as_secs(), since.subsec_millis());
            format!("{at} {text}\n")
        }
    };
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Whether standard error is the journal's: it says by `JOURNAL_STREAM` which file that is (systemd.exec(5)), as a child that
/// has inherited the variable may write elsewhere.
pub fn is_journal() -> bool {
    static IS_JOURNAL: LazyLock<bool> = LazyLock::new(|| {
        let Ok(journal) = std::env::var("JOURNAL_STREAM") else {
            return false;
        };
        let ours = std::fs::metadata("/proc/self/fd/2");
        ours.is_ok_and(|ours| journal == format!("{}:{}", ours.dev(), ours.ino()))
    });
    *IS_JOURNAL
}

/// The time of day in UTC, `10:19:59Z`, of milliseconds since 1970-01-01.
pub fn time_of_day(unix_ms: u64) -> String {
    let s = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

/// RFC 3339 in UTC with milliseconds.
pub fn utc(unix_s: u64, ms: u32) -> String {
    let (days, s) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}Z",
        s / 3600,
        s / 60 % 60,
        s % 60
    )
}

/// Year, month and day of a day counted from 1970-01-01 (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", civil_from_days).
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{time_of_day, utc};

    #[test]
    fn known_dates() {
        assert_eq!(utc(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(utc(1_795_256_399, 999), "2026-11-21T10:19:59.999Z");
        assert_eq!(time_of_day(1_795_256_399_999), "10:19:59Z");
    }
}
