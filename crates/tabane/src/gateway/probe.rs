//! Asks, before a gateway takes the outside addresses, whether another host has them (RFC 5227 section 2.1, RFC 4862 section 5.4).

use core::time::Duration;
use std::io::IoSlice;
use std::net::IpAddr;

use tabane_proto::Time;

use super::devices::{Devices, Line};
use super::neighbours::Neighbours;
use super::serving::Site;
use crate::vswitch::frame::{ETHERTYPE_ARP, ETHERTYPE_IPV6};

/// Number of probes.
const TIMES: u8 = 3;
/// Interval of the probes. (RFC 5227 has seconds. A host on the same network answers within a millisecond, and a waiting client
/// should not wait for them.)
const APART: Duration = Duration::from_millis(60);
/// Packets that are looked at in one turn.
const PACKETS_PER_TURN: usize = 64;

/// The result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Not known yet.
    Open,
    /// Nobody has answered.
    Free,
    /// Another host has this one.
    Taken(IpAddr),
}

/// A question that is under way.
#[derive(Debug)]
pub struct Probe {
    line: Box<dyn Line>,
    neighbours: Neighbours,
    asked: u8,
    /// When to ask again, or to take silence for an answer.
    due: Time,
    packet: Vec<u8>,
}

impl Probe {
    /// Begins.
    ///
    /// # Errors
    /// What is missing, in words.
    pub fn begin(now: Time, devices: &dyn Devices, site: &Site) -> Result<Probe, String> {
        let line = devices
            .line(site)
            .map_err(|error| format!("cannot read and write the device outside: {error}"))?;
        Ok(Probe {
            line,
            neighbours: Neighbours::new(site.mac, &site.addresses, &[]),
            asked: 0,
            due: now,
            packet: Vec::new(),
        })
    }

    /// Asks again when it is time, and hears answers.
    pub fn turn(&mut self, now: Time) -> Outcome {
        for _ in 0..PACKETS_PER_TURN {
            let Ok(Some(heard)) = self.line.read(&mut self.packet) else {
                break;
            };
            let told = match heard.protocol {
                ETHERTYPE_ARP => Some(self.neighbours.hear_arp(now, &self.packet)),
                ETHERTYPE_IPV6 => self.neighbours.hear_neighbour(now, &self.packet),
                _ => None,
            };
            if let Some((address, _)) = told.and_then(|told| told.taken_by) {
                return Outcome::Taken(address);
            }
        }
        if now < self.due {
            return Outcome::Open;
        }
        if self.asked == TIMES {
            return Outcome::Free;
        }
        self.asked += 1;
        self.due = now + APART;
        for frame in self.neighbours.probes() {
            // One that is lost is one of several.
            let _ = self.line.write(&[IoSlice::new(&frame)]);
        }
        Outcome::Open
    }

    /// When it is to have its turn.
    pub const fn due(&self) -> Time {
        self.due
    }
}
