//! The `[[flow]]` of the cluster file at work: which of them speaks of a packet or connection, over which links that goes, and
//! how much of it.
//!
//! What is more than a rate allows waits: a program's connection is not read, and packets of `tab0` wait here, as few as their
//! rate sends in [`WAIT_MAX`]. (They would hold up others in the node's queues, which are for what the links carry.)

use core::time::Duration;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use tabane_cluster::{Carry, FlowHeader, FlowSpec};
use tabane_proto::op::Policy;
use tabane_proto::{LinkId, PeerId, Time};

use crate::gateway::Pace;
use crate::status::FlowStatus;

/// Packets of `tab0` wait this long for their rate; then the newest is dropped, as by any full queue. It is what TCP has under
/// way over a far path: less would leave its rate unused.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Packets may wait in any case that are together no longer than this: two of the longest.
const WAITING_BYTES_MIN: usize = 128 * 1024;
/// And no more than this, however high the rate.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A connection under a rate sends this much in one go: others of the same rule have their turns between.
const ALLOWED_BYTES: usize = 64 * 1024;

/// The rules that hold now, for all parts of the loop.
pub type SharedFlowRules = Rc<RefCell<FlowRules>>;

/// The name of a rule as long as it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleId(u64);

/// All rules, in the order of the file.
#[derive(Debug, Default)]
pub struct FlowRules {
    rules: Vec<Rule>,
    /// How many there ever were.
    count: u64,
}

#[derive(Debug)]
struct Rule {
    id: RuleId,
    spec: FlowSpec,
    pace: Option<Pace>,
    waiting: VecDeque<Frame>,
    waiting_bytes: usize,
    /// Of the spec's traffic since the rule holds.
    bytes: u64,
    packets_dropped: u64,
    connections: u64,
}

/// A frame of `tab0` for a peer.
#[derive(Debug)]
pub struct Frame {
    /// Whom it is for.
    pub peer: PeerId,
    /// The number of its flow.
    pub flow: u8,
    /// With its `virtio_net_hdr`.
    pub bytes: Vec<u8>,
}

impl Rule {
    fn waiting_bytes_max(&self) -> usize {
        let rate_bps = self.spec.rate_bps.unwrap_or_default();
        let bytes = rate_bps / 8 * WAIT_MAX.as_millis() as u64 / 1000;
        (bytes as usize).clamp(WAITING_BYTES_MIN, WAITING_BYTES_MAX)
    }

    fn policy(&self) -> Policy {
        match self.spec.carry {
            Carry::Usual => Policy::Auto,
            Carry::Stripe => Policy::Stripe,
            Carry::Mirror => Policy::Mirror,
            Carry::Link(link) => Policy::Link(LinkId(link)),
        }
    }

    fn waits_until(&self, now: Time) -> Option<Time> {
        self.pace.and_then(|pace| pace.waits_until(now))
    }

    fn sent(&mut self, now: Time, bytes: usize) {
        self.bytes += bytes as u64;
        if let Some(pace) = &mut self.pace {
            pace.sent(now, bytes, 0);
        }
    }
}

impl FlowRules {
    /// Those of a cluster file.
    pub fn new(specs: &[FlowSpec]) -> FlowRules {
        let mut rules = FlowRules::default();
        rules.set(specs);
        rules
    }

    /// The same for all parts of the loop.
    pub fn shared(specs: &[FlowSpec]) -> SharedFlowRules {
        Rc::new(RefCell::new(FlowRules::new(specs)))
    }

    /// Sets the rules. Those that held before go on. Packets that wait for another are dropped.
    pub fn set(&mut self, specs: &[FlowSpec]) {
        let mut before = core::mem::take(&mut self.rules);
        for spec in specs {
            let known = before.iter().position(|rule| rule.spec == *spec);
            self.rules.push(match known {
                Some(known) => before.swap_remove(known),
                None => {
                    self.count += 1;
                    Rule {
                        id: RuleId(self.count),
                        spec: spec.clone(),
                        pace: spec.rate_bps.map(Pace::new),
                        waiting: VecDeque::new(),
                        waiting_bytes: 0,
                        bytes: 0,
                        packets_dropped: 0,
                        connections: 0,
                    }
                }
            });
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule that speaks of this: the first that does.
    pub fn find(&self, header: &FlowHeader) -> Option<RuleId> {
        let rule = self.rules.iter().find(|rule| rule.spec.takes(header));
        rule.map(|rule| rule.id)
    }

    fn known(&self, id: Option<RuleId>) -> Option<&Rule> {
        let id = id?;
        self.rules.iter().find(|rule| rule.id == id)
    }

    fn rule(&mut self, id: Option<RuleId>) -> Option<&mut Rule> {
        let id = id?;
        self.rules.iter_mut().find(|rule| rule.id == id)
    }

    /// How what a rule speaks of is spread over the links; what no rule speaks of is as usual.
    pub fn policy(&self, id: Option<RuleId>) -> Policy {
        self.known(id).map_or(Policy::Auto, |rule| rule.policy())
    }

    /// A connection begins that this rule speaks of.
    pub fn begins(&mut self, id: RuleId) {
        if let Some(rule) = self.rule(Some(id)) {
            rule.connections += 1;
        }
    }

    /// When the rate of a rule lets something go; `None`: now.
    pub fn waits_until(&self, now: Time, id: Option<RuleId>) -> Option<Time> {
        self.known(id)?.waits_until(now)
    }

    /// How much may go in one go of a connection that a rule speaks of, in bytes.
    pub fn allowed_bytes(&self, now: Time, id: Option<RuleId>) -> usize {
        let Some(rule) = self.known(id).filter(|rule| rule.pace.is_some()) else {
            return usize::MAX;
        };
        match rule.waits_until(now) {
            Some(_) => 0,
            None => ALLOWED_BYTES,
        }
    }

    /// So many bytes went that a rule speaks of.
    pub fn sent(&mut self, now: Time, id: Option<RuleId>, bytes: usize) {
        if let Some(rule) = self.rule(id).filter(|_| bytes > 0) {
            rule.sent(now, bytes);
        }
    }

    /// A frame of which a rule speaks. Returns it with its policy if it may go now. If not it waits, or was dropped: then its
    /// buffer comes back.
    ///
    /// # Errors
    /// The buffer of the dropped frame.
    pub fn pass(
        &mut self,
        now: Time,
        id: Option<RuleId>,
        frame: Frame,
    ) -> Result<Option<(Frame, Policy)>, Vec<u8>> {
        let Some(rule) = self.rule(id) else {
            return Ok(Some((frame, Policy::Auto)));
        };
        let bytes = frame.bytes.len();
        if rule.waiting.is_empty() && rule.waits_until(now).is_none() {
            rule.sent(now, bytes);
            return Ok(Some((frame, rule.policy())));
        }
        if rule.waiting_bytes + bytes > rule.waiting_bytes_max() {
            rule.packets_dropped += 1;
            return Err(frame.bytes);
        }
        rule.waiting_bytes += bytes;
        rule.waiting.push_back(frame);
        Ok(None)
    }

    /// The next waiting frame that may go now, and its policy.
    pub fn next_due(&mut self, now: Time) -> Option<(Frame, Policy)> {
        let due = |rule: &&mut Rule| !rule.waiting.is_empty() && rule.waits_until(now).is_none();
        let rule = self.rules.iter_mut().find(due)?;
        let frame = rule.waiting.pop_front()?;
        rule.waiting_bytes -= frame.bytes.len();
        rule.sent(now, frame.bytes.len());
        Some((frame, rule.policy()))
    }

    /// How long the loop may wait, at most `patience`.
    pub fn patience(&self, now: Time, patience: Duration) -> Duration {
        let waiting = self.rules.iter().filter(|rule| !rule.waiting.is_empty());
        let due = waiting.map(|rule| {
            rule.waits_until(now)
                .map_or(Duration::ZERO, |at| at.since(now))
        });
        due.fold(patience, Duration::min)
    }

    /// For `tabane status`.
    pub fn status(&self) -> Vec<FlowStatus> {
        let status = |rule: &Rule| FlowStatus {
            which: rule.spec.which(),
            how: rule.spec.how(),
            link: match rule.spec.carry {
                Carry::Link(link) => Some(link),
                _ => None,
            },
            rate_bps: rule.spec.rate_bps,
            bytes: rule.bytes,
            connections: rule.connections,
            packets_dropped: rule.packets_dropped,
        };
        self.rules.iter().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: u16 = 5001;

    fn spec(port: u16, carry: Carry, rate_bps: Option<u64>) -> FlowSpec {
        FlowSpec {
            ports: vec![port..=port],
            protocol: None,
            dscp: None,
            network: None,
            carry,
            rate_bps,
        }
    }

    fn header(port: u16) -> FlowHeader {
        FlowHeader {
            protocol: 17,
            addresses: ["10.99.0.1", "10.99.0.2"].map(|ip| ip.parse().unwrap()),
            ports: [40_000, port],
            dscp: None,
        }
    }

    fn frame(bytes: usize) -> Frame {
        Frame {
            peer: PeerId(0),
            flow: 0,
            bytes: vec![0; bytes],
        }
    }

    #[test]
    fn the_first_rule_that_speaks_of_a_packet_holds() {
        let specs = [
            spec(PORT, Carry::Mirror, None),
            spec(PORT, Carry::Link(1), None),
        ];
        let rules = FlowRules::new(&specs);
        let found = rules.find(&header(PORT));
        assert_eq!(rules.policy(found), Policy::Mirror);
        let none = rules.find(&header(1));
        assert_eq!((none, rules.policy(none)), (None, Policy::Auto));
    }

    /// Offers packets as fast as it can for a second; what went, in bytes, and how much was dropped.
    fn offer_for_a_second(rules: &mut FlowRules, bytes: usize) -> (usize, u64) {
        let found = rules.find(&header(PORT));
        let (mut now, mut sent) = (Time::from_ms(1000), 0);
        let end = now + Duration::from_secs(1);
        while now < end {
            for _ in 0..1 + 200_000 / bytes {
                if let Ok(Some((frame, _))) = rules.pass(now, found, frame(bytes)) {
                    sent += frame.bytes.len();
                }
            }
            while let Some((frame, _)) = rules.next_due(now) {
                sent += frame.bytes.len();
            }
            let patience = rules.patience(now, Duration::from_millis(1));
            now += patience.max(Duration::from_micros(10));
        }
        (sent, rules.status()[0].packets_dropped)
    }

    #[test]
    fn no_more_goes_than_the_rate_and_no_less() {
        for bytes in [100, 1500, 62_000] {
            let rate_bps = 80_000_000;
            let mut rules = FlowRules::new(&[spec(PORT, Carry::Usual, Some(rate_bps))]);
            let (sent, dropped) = offer_for_a_second(&mut rules, bytes);
            let wanted = rate_bps as usize / 8;
            assert!(
                (wanted * 97 / 100..wanted + 2 * bytes + 5000).contains(&sent),
                "{bytes}: {sent}"
            );
            assert!(dropped > 0);
            // What waits is no more than the rate sends in a tenth of a second.
            assert!(rules.rules[0].waiting_bytes <= wanted / 10);
        }
    }

    #[test]
    fn a_low_rate_still_takes_the_longest_packets() {
        let mut rules = FlowRules::new(&[spec(PORT, Carry::Usual, Some(1_000_000))]);
        let found = rules.find(&header(PORT));
        let now = Time::from_ms(1000);
        assert!(matches!(rules.pass(now, found, frame(62_000)), Ok(Some(_))));
        assert!(matches!(rules.pass(now, found, frame(62_000)), Ok(None)));
        assert!(matches!(rules.pass(now, found, frame(62_000)), Ok(None)));
        assert!(rules.pass(now, found, frame(62_000)).is_err());
    }

    #[test]
    fn a_rule_that_stays_keeps_its_counters_and_its_name() {
        let (kept, gone) = (
            spec(PORT, Carry::Mirror, None),
            spec(1, Carry::Stripe, None),
        );
        let mut rules = FlowRules::new(&[gone, kept.clone()]);
        let (found, lost) = (rules.find(&header(PORT)), rules.find(&header(1)));
        rules.sent(Time::ZERO, found, 7);
        rules.set(&[spec(2, Carry::Stripe, None), kept]);
        assert_eq!(rules.find(&header(PORT)), found);
        assert_eq!(rules.status()[1].bytes, 7);
        assert_eq!(rules.policy(lost), Policy::Auto);
    }
}
