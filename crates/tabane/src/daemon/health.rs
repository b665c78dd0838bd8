//! What the daemon finds wrong with its own node: a thread looks now and then, as `tabane doctor` does, but sends nothing.
//! What two looks in turn have found is logged once, and reported until a look finds it no more. For a peer that asks it
//! looks at once, and sends what `tabane doctor` does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::doctor;
use crate::doctor::facts::Order;
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::log;
use crate::status::FindingStatus;
use tabane_io::clock::unix_ms;

/// How long after the start the first look is taken: links come up, peers connect.
const FIRST_AFTER: Duration = Duration::from_secs(10);
/// How often it looks …
const EVERY: Duration = Duration::from_secs(60);
/// … and while something is wrong: who mends it wants to see that.
const EVERY_WHILE_WRONG: Duration = Duration::from_secs(15);
/// If something is new, it looks again this soon: what is over by then is not told.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// For how long it watches.
const WATCH: Duration = Duration::from_secs(2);
/// What comes again within this time is not logged again.
const LOGGED_KEPT: Duration = Duration::from_secs(600);
/// The most findings that are kept, the worst ones.
const KEPT_MAX: usize = 32;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Health(Arc<Shared>);

/// What the loop and the thread share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wished: Condvar,
}

#[derive(Debug)]
struct State {
    /// Whether there is a thread, which looks.
    looks: bool,
    held: Vec<Held>,
    /// Peers that want a look at the way to them, each once.
    wishes: Vec<String>,
    /// How many looks for peers have begun.
    begun: u64,
    /// The number of the last one that is over, and what it found.
    answer: (u64, Found),
}

/// What a look has found, or why it could not look, in words.
pub(super) type Found = Result<Vec<Finding>, String>;

impl Default for State {
    fn default() -> State {
        State {
            looks: false,
            held: Vec::new(),
            wishes: Vec::new(),
            begun: 0,
            answer: (0, Ok(Vec::new())),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A finding, and since when it is there.
#[derive(Debug, Clone)]
struct Held {
    finding: Finding,
    since: Instant,
    since_unix_ms: u64,
}

/// What two findings have in common that are the same one, though their words may differ: figures change.
type Identity<'a> = (Cause, &'a [String], &'a [u8]);

fn identity(finding: &Finding) -> Identity<'_> {
    (finding.cause, &finding.peers, &finding.links)
}

impl Health {
    /// Begins to look after `node`, whose cluster file is at `config`.
    ///
    /// # Errors
    /// No thread is left.
    pub fn start(config: &Path, node: &str) -> io::Result<Health> {
        let health = Health::default();
        health.0.state().looks = true;
        let watcher = Watcher {
            config: config.to_owned(),
            node: node.to_owned(),
            shared: health.0.clone(),
            memory: Memory::default(),
        };
        let named = thread::Builder::new().name("health".to_owned());
        named.spawn(move || watcher.run())?;
        Ok(health)
    }

    /// A peer wants to know what is wrong here. Returns the number of the look that will say so, or `None`: nobody looks.
    pub fn wish(&self, peer: &str) -> Option<u64> {
        let mut state = self.0.state();
        if !state.looks {
            return None;
        }
        if !state.wishes.iter().any(|name| name == peer) {
            state.wishes.push(peer.to_owned());
        }
        self.0.wished.notify_all();
        Some(state.begun + 1)
    }

    /// What the look of this number has found, or a later one, once it is over.
    pub fn answer(&self, number: u64) -> Option<Found> {
        let state = self.0.state();
        let (done, found) = &state.answer;
        match (*done >= number, state.looks) {
            (true, _) => Some(found.clone()),
            (false, true) => None,
            (false, false) => Some(Err(
                "its daemon no longer looks: its log says why".to_owned()
            )),
        }
    }

    /// What is wrong now, worst first.
    pub fn findings(&self) -> Vec<FindingStatus> {
        let status = |held: &Held| FindingStatus {
            code: held.finding.cause.name(),
            severity: held.finding.severity,
            peers: held.finding.peers.clone(),
            links: held.finding.links.clone(),
            what: held.finding.what.clone(),
            mend: held.finding.mend.first().cloned(),
            since_unix_ms: held.since_unix_ms,
            since_s: held.since.elapsed().as_secs(),
        };
        self.0.state().held.iter().map(status).collect()
    }
}

/// The thread's state. The thread ends with the process.
struct Watcher {
    config: PathBuf,
    node: String,
    shared: Arc<Shared>,
    memory: Memory,
}

/// Were the thread ever to fail, nobody should go on believing what it found.
impl Drop for Watcher {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.looks = false;
        state.held.clear();
        let said = "nothing looks after this node any more: restart its daemon";
        log::Line::warning(said.to_owned()).say();
    }
}

impl Watcher {
    fn run(mut self) {
        let mut next = Instant::now() + FIRST_AFTER;
        loop {
            // A look at a thousand nodes takes 10 MiB for two seconds.
            tabane_io::process::give_back_memory();
            let peers = self.wait_until(next);
            if !peers.is_empty() {
                self.look_for(&peers);
                continue;
            }
            // A daemon that does not answer itself has more to do; it says nothing of that here.
            let quiet = Order {
                is_quiet: true,
                ..self.order()
            };
            let found = doctor::findings(&quiet).unwrap_or_default();
            let lines = self.memory.look(Instant::now(), unix_ms(), found);
            lines.iter().for_each(log::Line::say);
            self.shared.state().held = self.memory.held.clone();
            next = Instant::now() + self.memory.pause();
        }
    }

    /// What is looked at.
    fn order(&self) -> Order {
        Order {
            node: Some(self.node.clone()),
            ..Order::of(&self.config, WATCH)
        }
    }

    /// Waits until then, or until peers want a look: these.
    fn wait_until(&self, until: Instant) -> Vec<String> {
        let mut state = self.shared.state();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !state.wishes.is_empty() {
                state.begun += 1;
                return std::mem::take(&mut state.wishes);
            }
            if left.is_zero() {
                return Vec::new();
            }
            let waited = self.shared.wished.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Looks for these peers: at the way to one, or at all if there are several.
    fn look_for(&self, peers: &[String]) {
        let only = match peers {
            [peer] => Some(peer.clone()),
            _ => None,
        };
        let order = Order {
            peer: only,
            ..self.order()
        };
        let mut found = doctor::findings(&order);
        if let Ok(found) = &mut found {
            found.retain(is_worth_telling);
        }
        let mut state = self.shared.state();
        state.answer = (state.begun, found);
    }
}

/// What was found, and what was said of it. Pure.
#[derive(Debug, Default)]
struct Memory {
    held: Vec<Held>,
    /// Found by the last look for the first time.
    doubted: Vec<Finding>,
    /// What was logged, and when that was true last.
    logged: Vec<(Finding, Instant)>,
}

impl Memory {
    /// Until the next look.
    fn pause(&self) -> Duration {
        match (self.doubted.is_empty(), self.held.is_empty()) {
            (false, _) => AGAIN_AFTER,
            (true, false) => EVERY_WHILE_WRONG,
            (true, true) => EVERY,
        }
    }

    /// Takes what a look has found; returns what is to be logged.
    fn look(&mut self, now: Instant, unix_ms: u64, mut found: Vec<Finding>) -> Vec<log::Line> {
        found.retain(is_worth_telling);
        found.truncate(KEPT_MAX);
        let before = std::mem::take(&mut self.held);
        let doubted = std::mem::take(&mut self.doubted);
        let mut lines = Vec::new();
        for finding in found {
            let same = |other: &Finding| identity(other) == identity(&finding);
            if let Some(held) = before.iter().find(|held| same(&held.finding)) {
                self.held.push(Held { finding, ..*held });
            } else if doubted.iter().any(same) {
                lines.extend(self.to_log(&finding));
                self.held.push(Held {
                    finding,
                    since: now,
                    since_unix_ms: unix_ms,
                });
            } else {
                self.doubted.push(finding);
            }
        }
        for gone in before {
            let is_same = |held: &Held| identity(&held.finding) == identity(&gone.finding);
            if !self.held.iter().any(is_same) {
                lines.push(log::Line::info(format!(
                    "no longer: {}",
                    words(&gone.finding)
                )));
            }
        }
        self.note_logged(now);
        lines
    }

    /// What to log of something that is there now, if that was not logged lately.
    fn to_log(&self, finding: &Finding) -> Option<log::Line> {
        let mut logged = self.logged.iter();
        if logged.any(|(logged, _)| identity(logged) == identity(finding)) {
            return None;
        }
        let mend = finding.mend.first();
        let mend = mend.map_or_else(String::new, |mend| format!("; {mend}"));
        Some(log::Line::warning(format!(
            "found: {}{mend}",
            words(finding)
        )))
    }

    /// Forgets what was over long ago.
    fn note_logged(&mut self, now: Instant) {
        let held = &self.held;
        let is_held = |logged: &Finding| {
            (held.iter()).any(|held| identity(&held.finding) == identity(logged))
        };
        self.logged
            .retain(|(logged, last)| !is_held(logged) && now < *last + LOGGED_KEPT);
        let now_true = held.iter().map(|held| (held.finding.clone(), now));
        self.logged.extend(now_true);
    }
}

/// Not what has no measured cost; nor that the daemon could not be asked: who finds that is the daemon.
fn is_worth_telling(finding: &Finding) -> bool {
    let is_about_asking = matches!(finding.cause, Cause::NoDaemon | Cause::DaemonSilent);
    finding.severity != Severity::Note && !is_about_asking
}

fn words(finding: &Finding) -> String {
    format!("{} [{}]", finding.what, finding.cause.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(link: u8, what: &str) -> Finding {
        Finding::new(Cause::LinkDead, Severity::Degraded, what)
            .peer("n1")
            .link(link)
            .mend("look at the cable")
    }

    /// What a memory is told, a minute apart, and what it says.
    fn told(memory: &mut Memory, start: Instant, looks: &[&[Finding]]) -> Vec<Vec<String>> {
        let look = |(minute, found): (usize, &&[Finding])| {
            let now = start + EVERY * minute as u32;
            let lines = memory.look(now, minute as u64, found.to_vec());
            lines.into_iter().map(|line| line.text).collect()
        };
        looks.iter().enumerate().map(look).collect()
    }

    #[test]
    fn what_two_looks_find_is_told_once_and_when_it_is_over() {
        let mut memory = Memory::default();
        let one = [dead(1, "Nothing arrives")];
        let other_words = [dead(1, "Still nothing arrives")];
        let said = told(
            &mut memory,
            Instant::now(),
            &[&one, &one, &other_words, &[]],
        );
        let none: Vec<String> = Vec::new();
        assert_eq!(said[0], none);
        assert_eq!(
            said[1],
            ["found: Nothing arrives [link_dead]; look at the cable"]
        );
        assert_eq!(said[2], none);
        assert_eq!(said[3], ["no longer: Still nothing arrives [link_dead]"]);
        assert!(memory.held.is_empty());
    }

    #[test]
    fn what_one_look_finds_is_looked_at_again_and_not_told() {
        let mut memory = Memory::default();
        let now = Instant::now();
        let lines = memory.look(now, 0, vec![dead(1, "Nothing arrives")]);
        assert!(lines.is_empty() && memory.held.is_empty());
        assert_eq!(memory.pause(), AGAIN_AFTER);
        let lines = memory.look(now + AGAIN_AFTER, 5, Vec::new());
        assert!(lines.is_empty() && memory.held.is_empty());
        assert_eq!(memory.pause(), EVERY);
    }

    #[test]
    fn each_link_is_a_finding_of_its_own_and_the_first_time_is_kept() {
        let mut memory = Memory::default();
        let both = [dead(0, "Nothing arrives"), dead(1, "Nothing arrives")];
        told(
            &mut memory,
            Instant::now(),
            &[&both[..1], &both, &both, &both],
        );
        let since: Vec<(u8, u64)> = (memory.held.iter())
            .map(|held| (held.finding.links[0], held.since_unix_ms))
            .collect();
        assert_eq!(since, [(0, 1), (1, 2)]);
    }

    #[test]
    fn what_comes_and_goes_is_not_logged_each_time() {
        let mut memory = Memory::default();
        let one = [dead(1, "Nothing arrives")];
        let mut looks: Vec<&[Finding]> = Vec::new();
        for _ in 0..4 {
            looks.extend([&one[..], &one[..], &[]]);
        }
        let said = told(&mut memory, Instant::now(), &looks);
        let found = said
            .iter()
            .flatten()
            .filter(|text| text.starts_with("found"));
        assert_eq!(found.count(), 1);
        let later = Instant::now() + LOGGED_KEPT + EVERY * 20;
        let said = told(&mut memory, later, &[&one, &one]);
        assert_eq!(said.iter().flatten().count(), 1);
    }

    #[test]
    fn notes_and_a_daemon_that_cannot_be_asked_are_not_told() {
        let mut memory = Memory::default();
        let note = Finding::new(Cause::Clock, Severity::Note, "The clock jumps");
        let asked = Finding::new(Cause::DaemonSilent, Severity::Unreachable, "No answer");
        let found = [note, asked];
        told(&mut memory, Instant::now(), &[&found, &found]);
        assert!(memory.held.is_empty() && memory.doubted.is_empty());
    }
}
