//! Whether something else keeps the processors busy: then the figures are too low, and tabane's most.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// How long it is looked at, before anything is started.
const LOOK: Duration = Duration::from_millis(500);
/// From this share of all processors on it is said.
const BUSY: f64 = 0.4;

/// The share of all processors' time that is used now; 0 if the kernel does not tell.
fn used_now() -> f64 {
    let look = || times(&fs::read_to_string("/proc/stat").unwrap_or_default());
    let before = look();
    sleep(LOOK);
    match (before, look()) {
        (Some(before), Some(after)) => share(before, after),
        _ => 0.0,
    }
}

/// Ticks so far of all processors together: those in use, and all (proc_stat(5)).
fn times(stat: &str) -> Option<(u64, u64)> {
    let words = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Result<Vec<u64>, _> = words.split_whitespace().map(str::parse).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in the first two.
    let ticks = ticks.ok().filter(|ticks| ticks.len() >= 8)?;
    let all = ticks[..8].iter().sum();
    Some((all - ticks[3] - ticks[4], all))
}

fn share((used, all): (u64, u64), (used_after, all_after): (u64, u64)) -> f64 {
    let used = used_after.saturating_sub(used);
    used as f64 / all_after.saturating_sub(all).max(1) as f64
}

/// What to say of the figures, if it is so now.
pub fn note() -> Option<String> {
    words(used_now())
}

fn words(used: f64) -> Option<String> {
    (used >= BUSY).then(|| {
        format!(
            "Other programs used {:.0}% of the processors when it began: without them the figures are higher, tabane's most.",
            used * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_what_is_used() {
        let before = times("cpu  100 0 100 1000 50 0 0 0 0 0\ncpu0 1 2").expect("is read");
        let after = times("cpu  140 10 110 1030 60 0 0 0 7 7\n").expect("is read");
        assert_eq!((before, after), ((200, 1250), (260, 1350)));
        assert!((share(before, after) - 0.6).abs() < 0.001);
        assert_eq!(times("cpu 1 2 x"), None);
        assert_eq!(share(before, before), 0.0);
    }

    #[test]
    fn only_a_busy_machine_is_told_of() {
        assert_eq!(words(0.1), None);
        assert!(words(0.6).expect("is told").contains("used 60% of"));
    }
}
