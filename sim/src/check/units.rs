//! Messages and frames: each at most once, in the order of their flow, unchanged;
//! what is missing must have had a reason.

use super::{Checked, Rule, Violation};
use crate::net::Ns;
use crate::workload::{FlowPlan, UNIT_HEADER_BYTES, UnitKind, content, unit_key, unit_name};

/// Units that were left out: a later one of their flow has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The plan's index.
    pub plan: usize,
    /// The first one missing.
    pub first: u32,
    /// The first one after it that is not missing.
    pub end: u32,
    /// When the first one missing was given to its node.
    pub sent_at: Ns,
    /// When the next one arrived.
    pub noticed_at: Ns,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    /// When each unit was given to its node; its length is the next one's number.
    sent_at: Vec<Ns>,
    arrived: Vec<bool>,
    /// The lowest number that may come next.
    next: u32,
    arrived_count: u32,
    /// Below this number, a restart excuses what is missing.
    excused_below: u32,
    /// The longest that one took to arrive.
    longest_wait: Ns,
}

/// The truth about all flows.
#[derive(Debug)]
pub struct UnitLedger {
    plans: Vec<FlowPlan>,
    flows: Vec<Flow>,
    gaps: Vec<Gap>,
}

impl UnitLedger {
    /// Nothing sent yet.
    pub fn new(plans: Vec<FlowPlan>) -> UnitLedger {
        UnitLedger {
            flows: vec![Flow::default(); plans.len()],
            plans,
            gaps: Vec::new(),
        }
    }

    /// The plans.
    pub fn plans(&self) -> &[FlowPlan] {
        &self.plans
    }

    /// The number of the next unit to be sent; `None` when all were.
    pub fn next_to_send(&self, plan: usize) -> Option<u32> {
        let sent = self.flows[plan].sent_at.len() as u32;
        (sent < self.plans[plan].count).then_some(sent)
    }

    /// A node took the next unit.
    pub fn sent(&mut self, at: Ns, plan: usize) {
        self.flows[plan].sent_at.push(at);
        self.flows[plan].arrived.push(false);
    }

    /// Bytes under way, were all of the greatest length: given to the node, and neither
    /// handed over nor left out.
    pub fn in_flight_bytes(&self, plan: usize) -> u64 {
        let flow = &self.flows[plan];
        let units = flow.sent_at.len() as u64 - u64::from(flow.next);
        units * u64::from(self.plans[plan].bytes_max)
    }

    /// Bytes that `to` got from `from`, were all of the greatest length, and units left out.
    pub fn carried_bytes(&self, from: usize, to: usize) -> (u64, u64) {
        let mut sum = (0, 0);
        for (plan, flow) in self.plans.iter().zip(&self.flows) {
            if (plan.from, plan.to) == (from, to) {
                sum.0 += u64::from(flow.arrived_count) * u64::from(plan.bytes_max);
                sum.1 += u64::from(flow.next - flow.arrived_count);
            }
        }
        sum
    }

    /// The longest that one of those that arrived took.
    pub fn longest_wait(&self) -> Ns {
        let waits = self.flows.iter().map(|flow| flow.longest_wait);
        waits.max().unwrap_or(0)
    }

    /// How many have arrived.
    pub fn arrived_count(&self, plan: usize) -> u32 {
        self.flows[plan].arrived_count
    }

    /// A restart between these hosts excuses everything sent so far that is missing.
    pub fn excuse(&mut self, a: usize, b: usize) {
        for (plan, flow) in self.plans.iter().zip(&mut self.flows) {
            if (plan.from, plan.to) == (a, b) || (plan.from, plan.to) == (b, a) {
                flow.excused_below = flow.sent_at.len() as u32;
            }
        }
    }

    /// Units given to a node that have neither arrived nor been left out nor excused.
    pub fn waiting(&self, now: Ns, plan: usize) -> Option<Gap> {
        let flow = &self.flows[plan];
        let first = flow.next.max(flow.excused_below);
        let end = flow.sent_at.len() as u32;
        (first < end).then(|| Gap {
            plan,
            first,
            end,
            sent_at: flow.sent_at[first as usize],
            noticed_at: now,
        })
    }

    /// Units that were left out; a restart excuses none of them.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Units that arrived at `to` from `from`, and messages that are on their way.
    pub fn carried(&self, from: usize, to: usize) -> (u64, u64) {
        let mut sum = (0, 0);
        for (index, plan) in self.plans.iter().enumerate() {
            if (plan.from, plan.to) == (from, to) {
                sum.0 += u64::from(self.flows[index].arrived_count);
                if let (UnitKind::Message, Some(w)) = (plan.kind, self.waiting(0, index)) {
                    sum.1 += u64::from(w.end - w.first);
                }
            }
        }
        sum
    }

    /// `host` got a unit from `peer`. What was left out before it is noted as a gap.
    pub fn arrived(
        &mut self,
        at: Ns,
        (host, peer): (usize, usize),
        kind: UnitKind,
        data: &[u8],
    ) -> Checked<(usize, u32)> {
        let forged = |what: String| Err(Violation::new(Rule::Forgery, at, what));
        let Some((index, sequence)) = unit_name(data) else {
            let len = data.len();
            return forged(format!("host {host} got {len} bytes that nobody sent"));
        };
        let Some(plan) = self.plans.get(index) else {
            return forged(format!("host {host} got a unit of an unknown plan"));
        };
        let flow = &mut self.flows[index];
        let name = format!("{kind:?} {sequence} of flow {index}");
        if (plan.from, plan.to, plan.kind) != (peer, host, kind)
            || sequence as usize >= flow.sent_at.len()
        {
            return forged(format!("{name} was never sent by {peer} to {host}"));
        }
        let rules = match kind {
            UnitKind::Message => [
                Rule::MessageUnchanged,
                Rule::MessageOnce,
                Rule::MessageOrder,
            ],
            UnitKind::Frame => [Rule::FrameUnchanged, Rule::FrameOnce, Rule::FrameOrder],
        };
        let body = &data[UNIT_HEADER_BYTES..];
        let changed = content::first_difference(unit_key(index, sequence), 0, body);
        if changed.is_some() || data.len() != plan.bytes(index, sequence) {
            let what = format!("{name} is not what was sent");
            return Err(Violation::new(rules[0], at, what));
        }
        if flow.arrived[sequence as usize] {
            let what = format!("{name} arrived twice");
            return Err(Violation::new(rules[1], at, what));
        }
        if sequence < flow.next {
            let what = format!("{name} arrived after {}", flow.next - 1);
            return Err(Violation::new(rules[2], at, what));
        }
        let first = flow.next.max(flow.excused_below);
        if first < sequence {
            self.gaps.push(Gap {
                plan: index,
                first,
                end: sequence,
                sent_at: flow.sent_at[first as usize],
                noticed_at: at,
            });
        }
        let wait = at - flow.sent_at[sequence as usize];
        flow.longest_wait = flow.longest_wait.max(wait);
        flow.arrived[sequence as usize] = true;
        flow.arrived_count += 1;
        flow.next = sequence + 1;
        Ok((index, sequence))
    }
}
