//! Why the kernel does not take a way that was made. Pure: the kernel's answer is an argument.

use std::io::ErrorKind;
use std::net::IpAddr;

use tabane_io::netlink::{Rule, RuleAction};

/// An obstacle to steering.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Obstacle {
    /// In words for people.
    pub why: String,
    /// The remedy.
    pub mend: String,
}

impl Obstacle {
    /// Another route to the same address, whose owner knows better.
    pub fn foreign_route() -> Obstacle {
        Obstacle {
            why: "a route of somebody else's leads to the peer's address alone".to_owned(),
            mend: "if it is not meant, remove it: `ip route` lists it".to_owned(),
        }
    }

    /// A route could not be made.
    pub fn refused(to: IpAddr, why: String) -> Obstacle {
        Obstacle {
            why,
            mend: format!("`ip route get {to}` tells which way the kernel takes"),
        }
    }

    /// A foreign rule that no rule can precede.
    fn rule(rule: &Rule) -> Obstacle {
        Obstacle {
            why: format!("the rule `{rule}` comes before any that tabane can make"),
            mend: "make it anew with a greater preference (`ip rule`)".to_owned(),
        }
    }

    fn forbidding_rule(rule: &Rule) -> Obstacle {
        let priority = rule.priority;
        Obstacle {
            why: format!("the rule `{rule}` forbids it"),
            mend: format!("if it is not meant, `ip rule delete pref {priority}`"),
        }
    }

    fn forbidding_route() -> Obstacle {
        Obstacle {
            why: "a route forbids it".to_owned(),
            mend: "if it is not meant, remove it: `ip route show table all type prohibit`"
                .to_owned(),
        }
    }

    fn unknown(table: u32) -> Obstacle {
        Obstacle {
            why: format!("the kernel takes a route of table {table}, by a rule that is not known"),
            mend: "`ip rule` lists all".to_owned(),
        }
    }
}

/// What to do about a way that was made and is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its route has gone meanwhile.
    Missing,
    /// This rule leads past it: there could be one before.
    Behind(Rule),
    /// Nothing can be done here.
    Blocked(Obstacle),
}

/// Judges the kernel's answer: the table of the route that it takes from an address of this node to
/// one of a peer. `ours` is the table of the routes made here.
pub fn judge(
    rules: &[Rule],
    ours: u32,
    own: IpAddr,
    to: IpAddr,
    answer: Result<u32, ErrorKind>,
) -> Verdict {
    let mut held = rules.iter().filter(|rule| holds(rule, own, to));
    let leads_to = |table| move |rule: &&Rule| rule.action == RuleAction::Lookup(table);
    let table = match answer {
        Ok(table) if table == ours => return Verdict::Missing,
        Ok(table) => table,
        Err(error) => {
            let forbids = |rule: &&Rule| matches!(rule.action, RuleAction::Forbid(_));
            return match (held.find(forbids), error) {
                (Some(rule), _) => Verdict::Blocked(Obstacle::forbidding_rule(rule)),
                (None, ErrorKind::PermissionDenied) => {
                    Verdict::Blocked(Obstacle::forbidding_route())
                }
                // There is no way at all, as where a device has just gone.
                (None, _) => Verdict::Missing,
            };
        }
    };
    let mut before = held.clone().take_while(|rule| !leads_to(table)(rule));
    let is_asked_before = before.any(|rule| leads_to(ours)(&rule));
    match held.find(leads_to(table)) {
        Some(_) if is_asked_before => Verdict::Missing,
        Some(rule) if rule.priority == 0 => Verdict::Blocked(Obstacle::rule(rule)),
        Some(rule) => Verdict::Behind(rule.clone()),
        None => Verdict::Blocked(Obstacle::unknown(table)),
    }
}

/// Whether a rule may apply to packets from here to there.
fn holds(rule: &Rule, own: IpAddr, to: IpAddr) -> bool {
    let has = |network: Option<(IpAddr, u8)>, ip| network.is_none_or(|n| contains(n, ip));
    has(rule.from, own) && has(rule.to, to)
}

fn contains((network, bits): (IpAddr, u8), ip: IpAddr) -> bool {
    let (a, b, width) = match (network, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let other: u128 = a ^ b;
    other.checked_shr(width - u32::from(bits)).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: u32 = 254;
    const OURS: u32 = 7577;

    fn rule(priority: u32, from: Option<&str>, action: RuleAction) -> Rule {
        let network = |text: &str| {
            let (ip, bits) = text.split_once('/').expect("a network");
            (ip.parse().expect("an address"), bits.parse().expect("bits"))
        };
        Rule {
            priority,
            from: from.map(network),
            to: None,
            action,
            is_ours: action == RuleAction::Lookup(OURS),
        }
    }

    /// Those that every host has, and these between.
    fn rules(more: &[Rule]) -> Vec<Rule> {
        let lookup = RuleAction::Lookup;
        let mut all = more.to_vec();
        all.push(rule(0, None, lookup(255)));
        all.extend([(32766, MAIN), (32767, 253)].map(|(p, table)| rule(p, None, lookup(table))));
        all.sort_by_key(|rule| rule.priority);
        all
    }

    fn judged(more: &[Rule], ours: u32, answer: Result<u32, ErrorKind>) -> Verdict {
        let (own, to) = ([10, 77, 1, 1].into(), [10, 77, 1, 2].into());
        judge(&rules(more), ours, own, to, answer)
    }

    #[test]
    fn the_first_rule_that_leads_there_is_in_the_way() {
        let other = rule(50, Some("10.77.0.1/32"), RuleAction::Lookup(101));
        for network in ["10.77.1.1/32", "10.77.1.0/24", "0.0.0.0/0"] {
            let way = rule(100, Some(network), RuleAction::Lookup(101));
            let later = rule(200, None, RuleAction::Lookup(101));
            let all = [other.clone(), way.clone(), later];
            assert_eq!(judged(&all, MAIN, Ok(101)), Verdict::Behind(way));
        }
    }

    #[test]
    fn before_preference_0_there_is_nothing() {
        let way = rule(0, Some("10.77.1.1/32"), RuleAction::Lookup(101));
        let Verdict::Blocked(obstacle) = judged(&[way], OURS, Ok(101)) else {
            panic!("it is in the way");
        };
        let named = "`0: from 10.77.1.1 lookup 101`";
        assert!(obstacle.why.contains(named), "{}", obstacle.why);
    }

    #[test]
    fn a_route_that_is_gone_is_no_rules_fault() {
        assert_eq!(judged(&[], MAIN, Ok(MAIN)), Verdict::Missing);
        let error = Err(ErrorKind::NetworkUnreachable);
        assert_eq!(judged(&[], MAIN, error), Verdict::Missing);
        let own = rule(99, None, RuleAction::Lookup(OURS));
        let way = rule(100, None, RuleAction::Lookup(101));
        let all = [own, way];
        assert_eq!(judged(&all, OURS, Ok(101)), Verdict::Missing);
    }

    #[test]
    fn a_rule_of_ours_that_is_gone_was_before_the_one_that_leads() {
        let Verdict::Behind(way) = judged(&[], OURS, Ok(MAIN)) else {
            panic!("the main table is asked");
        };
        assert_eq!(way.priority, 32766);
    }

    #[test]
    fn what_is_forbidden_is_left() {
        let error = ErrorKind::PermissionDenied;
        let no = rule(100, Some("10.77.1.0/24"), RuleAction::Forbid("prohibit"));
        let Verdict::Blocked(by_rule) = judged(&[no], MAIN, Err(error)) else {
            panic!("it forbids it");
        };
        let named = "`100: from 10.77.1.0/24 prohibit`";
        assert!(by_rule.why.contains(named), "{}", by_rule.why);
        let by_route = Verdict::Blocked(Obstacle::forbidding_route());
        assert_eq!(judged(&[], MAIN, Err(error)), by_route);
    }

    #[test]
    fn a_table_that_no_known_rule_leads_to_is_told() {
        let verdict = judged(&[], MAIN, Ok(9));
        assert_eq!(verdict, Verdict::Blocked(Obstacle::unknown(9)));
    }
}
