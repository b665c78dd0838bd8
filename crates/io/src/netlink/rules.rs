//! The rules that choose a routing table (`ip rule`), and notifications of changes to rules and
//! routes.

use std::fmt;
use std::io;
use std::net::IpAddr;

use super::host_routes::MAIN_TABLE;
use super::message::{Message, Request, attributes, u32_at};
use super::read_ip;
use super::socket::{Refused, Socket};

/// Marks rules and routes that are made here: a number that rtnetlink.h assigns to nobody.
pub(super) const PROTOCOL: u8 = 77;

// linux/fib_rules.h; not in the libc crate.
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FRA_PROTOCOL: u16 = 21;
const TO_TABLE: u8 = 1;
const BLACKHOLE: u8 = 6;
const UNREACHABLE: u8 = 7;
const PROHIBIT: u8 = 8;

/// `struct fib_rule_hdr`.
const HEADER_BYTES: usize = 12;
const HEADER_TO_BITS: usize = 1;
const HEADER_FROM_BITS: usize = 2;
const HEADER_TABLE: usize = 4;
const HEADER_ACTION: usize = 7;
const HEADER_FLAGS: usize = 8;
/// It applies to everything that does not match (`FIB_RULE_INVERT`).
const INVERTED: u32 = 2;

/// The most datagrams of changes that are read at once; the rest waits, and reports changes, too.
const DATAGRAMS_MAX: usize = 1024;

/// A rule: its conditions, and where it leads. Other conditions (marks, users, devices) are not
/// parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The kernel evaluates rules in this order (`pref`); those with the same number in the order of
    /// making.
    pub priority: u32,
    /// It applies to packets from here; `None`: from anywhere.
    pub from: Option<(IpAddr, u8)>,
    /// And to packets to here; `None`: to anywhere.
    pub to: Option<(IpAddr, u8)>,
    /// Its action.
    pub action: RuleAction,
    /// It was made here.
    pub is_ours: bool,
}

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// The table of this number is asked.
    Lookup(u32),
    /// Nothing may go there, in the word that `ip rule` has for it.
    Forbid(&'static str),
    /// Something else.
    Other,
}

impl fmt::Display for Rule {
    /// As `ip rule` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = |(ip, bits): (IpAddr, u8)| match bits {
            32 if ip.is_ipv4() => ip.to_string(),
            128 => ip.to_string(),
            _ => format!("{ip}/{bits}"),
        };
        let from = self.from.map_or_else(|| "all".to_owned(), network);
        write!(f, "{}: from {from}", self.priority)?;
        if let Some(to) = self.to {
            write!(f, " to {}", network(to))?;
        }
        match self.action {
            RuleAction::Lookup(MAIN_TABLE) => f.write_str(" lookup main"),
            RuleAction::Lookup(table) => write!(f, " lookup {table}"),
            RuleAction::Forbid(word) => write!(f, " {word}"),
            RuleAction::Other => Ok(()),
        }
    }
}

/// The rules of the network namespace that it was opened in.
#[derive(Debug)]
pub struct Rules {
    socket: Socket,
}

impl Rules {
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> io::Result<Rules> {
        let socket = Socket::new()?;
        Ok(Rules { socket })
    }

    /// All of a family, in the order of evaluation.
    ///
    /// # Errors
    /// The kernel refuses. Needs no privileges.
    pub fn list(&mut self, is_ipv4: bool) -> io::Result<Vec<Rule>> {
        let mut header = [0; HEADER_BYTES];
        header[0] = family(is_ipv4);
        let make = || Request::new(libc::RTM_GETRULE, libc::NLM_F_DUMP, &header);
        Ok(self.socket.dump(make, read)?)
    }

    /// Adds a rule that consults a table for everything, before the rules of greater priority.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]: there is that rule. Needs CAP_NET_ADMIN.
    pub fn add(&mut self, is_ipv4: bool, priority: u32, table: u32) -> io::Result<()> {
        let how = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.execute(write(libc::RTM_NEWRULE, how, is_ipv4, priority, table))
    }

    /// Removes those of a family that were made here, as far as possible.
    pub fn remove_ours(&mut self, is_ipv4: bool) {
        // A kernel without IPv6 has none of its.
        let rules = self.list(is_ipv4).unwrap_or_default();
        for rule in rules.iter().filter(|rule| rule.is_ours) {
            if let RuleAction::Lookup(table) = rule.action {
                let (kind, how) = (libc::RTM_DELRULE, libc::NLM_F_ACK);
                let _ = self.execute(write(kind, how, is_ipv4, rule.priority, table));
            }
        }
    }

    fn execute(&mut self, request: Request) -> io::Result<()> {
        self.socket
            .execute(request)
            .map_err(|refused: Refused| refused.into())
    }
}

fn family(is_ipv4: bool) -> u8 {
    match is_ipv4 {
        true => libc::AF_INET as u8,
        false => libc::AF_INET6 as u8,
    }
}

fn write(kind: u16, how: i32, is_ipv4: bool, priority: u32, table: u32) -> Request {
    let mut header = [0; HEADER_BYTES];
    header[0] = family(is_ipv4);
    header[HEADER_ACTION] = TO_TABLE;
    let mut request = Request::new(kind, how, &header);
    request
        .attribute(FRA_PROTOCOL, &[PROTOCOL])
        .number(FRA_PRIORITY, priority)
        .number(FRA_TABLE, table);
    request
}

fn read(message: Message<'_>) -> Option<Rule> {
    let body = message.body;
    let mut table = u32::from(*body.get(HEADER_TABLE)?);
    let (to_bits, from_bits) = (*body.get(HEADER_TO_BITS)?, *body.get(HEADER_FROM_BITS)?);
    let (mut priority, mut from, mut to, mut is_ours) = (0, None, None, false);
    for (kind, value) in attributes(body.get(HEADER_BYTES..)?) {
        match kind {
            FRA_PRIORITY => priority = u32_at(value, 0)?,
            FRA_TABLE => table = u32_at(value, 0)?,
            FRA_SRC => from = read_ip(value).map(|ip| (ip, from_bits)),
            FRA_DST => to = read_ip(value).map(|ip| (ip, to_bits)),
            FRA_PROTOCOL => is_ours = value == [PROTOCOL],
            _ => {}
        }
    }
    let action = match *body.get(HEADER_ACTION)? {
        TO_TABLE => RuleAction::Lookup(table),
        BLACKHOLE => RuleAction::Forbid("blackhole"),
        UNREACHABLE => RuleAction::Forbid("unreachable"),
        PROHIBIT => RuleAction::Forbid("prohibit"),
        _ => RuleAction::Other,
    };
    if u32_at(body, HEADER_FLAGS)? & INVERTED != 0 {
        // A negated condition is not returned.
        (from, to) = (None, None);
    }
    Some(Rule {
        priority,
        from,
        to,
        action,
        is_ours,
    })
}

/// A subscription to changes of rules, routes and devices of one network namespace: after one, ask
/// the kernel anew.
#[derive(Debug)]
pub struct RoutingMonitor {
    socket: Socket,
}

impl RoutingMonitor {
    /// # Errors
    /// Where the kernel refuses the socket. Needs no privileges.
    pub fn new() -> io::Result<RoutingMonitor> {
        let groups = [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_ROUTE,
            libc::RTNLGRP_IPV4_RULE,
            libc::RTNLGRP_IPV6_ROUTE,
            libc::RTNLGRP_IPV6_RULE,
        ];
        let socket = Socket::subscribed(&groups)?;
        Ok(RoutingMonitor { socket })
    }

    /// Whether anything has changed since the last call.
    pub fn has_changed(&mut self) -> bool {
        for nth in 0..DATAGRAMS_MAX {
            match self.socket.receive() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return nth > 0,
                // A lost message was a change.
                Err(_) => return true,
            }
        }
        true
    }
}
