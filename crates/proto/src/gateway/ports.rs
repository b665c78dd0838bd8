//! Who has which port of the outside address: at the gateway a node, at a node a program.

use std::collections::BTreeMap;

use super::command::Command;

/// The protocols with ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Transport {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
    /// Echo requests and replies of ICMP, with the requester's identifier as the port.
    Echo,
}

/// Of which of the two outside addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A port of the outside address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Port {
    /// Its protocol.
    pub transport: Transport,
    /// Of which address.
    pub family: Family,
    /// Its number.
    pub number: u16,
}

/// Who may share a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The program's user.
    pub user: u32,
    /// Others of that user may have it as well (`SO_REUSEPORT`).
    pub is_shared: bool,
}

/// Why a port was not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Somebody has it: `EADDRINUSE`.
    InUse,
    /// The owner has as many as it may have: `ENOBUFS`.
    TooMany,
}

#[derive(Debug)]
struct Holder<O> {
    owner: O,
    /// How often it was claimed: two sockets of one program may share a port.
    claims: u32,
    /// Connections that it has been given and that are not over.
    connections: u32,
    /// The owner has restarted, and has not confirmed yet that it still has the port.
    is_doubted: bool,
    /// Its program's name, as reported.
    command: Option<Command>,
}

#[derive(Debug)]
struct Held<O> {
    claim: Claim,
    holders: Vec<Holder<O>>,
}

/// The ports that are claimed. Owners are nodes, or programs of a node.
#[derive(Debug)]
pub struct Ports<O> {
    held: BTreeMap<Port, Held<O>>,
    counts: BTreeMap<O, usize>,
    /// So many ports may one owner have.
    per_owner_max: usize,
}

impl<O: Copy + Ord> Ports<O> {
    /// With at most this many ports for each owner.
    pub const fn new(per_owner_max: usize) -> Ports<O> {
        Ports {
            held: BTreeMap::new(),
            counts: BTreeMap::new(),
            per_owner_max,
        }
    }

    /// Gives a port to `owner`. Returns whether it was free.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn claim(&mut self, owner: O, port: Port, claim: Claim) -> Result<bool, Refused> {
        if self.confirm(owner, port) {
            return Ok(false);
        }
        let was_had = self.pass_doubted_over(owner, port);
        let count = self.counts.get(&owner).copied().unwrap_or_default();
        let held = self.held.get_mut(&port);
        let is_new = held.is_none() && !was_had;
        if let Some(held) = &held
            && !(held.claim == claim && claim.is_shared)
        {
            return Err(Refused::InUse);
        }
        let known = held.and_then(|held| held.holders.iter_mut().find(|h| h.owner == owner));
        if let Some(holder) = known {
            holder.claims += 1;
            return Ok(false);
        }
        if count >= self.per_owner_max {
            return Err(Refused::TooMany);
        }
        *self.counts.entry(owner).or_default() += 1;
        let held = self.held.entry(port).or_insert_with(|| Held {
            claim,
            holders: Vec::new(),
        });
        held.holders.push(Holder {
            owner,
            claims: 1,
            connections: 0,
            is_doubted: false,
            command: None,
        });
        Ok(is_new)
    }

    /// `owner` releases one claim. Returns whether the port is free now.
    pub fn release(&mut self, owner: O, port: Port) -> bool {
        let Some(held) = self.held.get_mut(&port) else {
            return false;
        };
        let Some(place) = held.holders.iter().position(|h| h.owner == owner) else {
            return false;
        };
        held.holders[place].claims -= 1;
        if held.holders[place].claims > 0 {
            return false;
        }
        held.holders.remove(place);
        self.discount(owner);
        let is_free = self
            .held
            .get(&port)
            .is_some_and(|held| held.holders.is_empty());
        if is_free {
            self.held.remove(&port);
        }
        is_free
    }

    fn discount(&mut self, owner: O) {
        if let Some(count) = self.counts.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&owner);
            }
        }
    }

    /// Takes a port from owners who have not confirmed it since their restart, if another one wants it. Returns whether
    /// it did.
    fn pass_doubted_over(&mut self, owner: O, port: Port) -> bool {
        let Some(held) = self.held.get_mut(&port) else {
            return false;
        };
        let is_in_doubt = |holder: &Holder<O>| holder.is_doubted && holder.owner != owner;
        if !held.holders.iter().all(is_in_doubt) {
            return false;
        }
        let before: Vec<O> = held.holders.drain(..).map(|holder| holder.owner).collect();
        self.held.remove(&port);
        for owner in before {
            self.discount(owner);
        }
        true
    }

    /// A restarted owner confirms that it still has a port. Returns whether that was in doubt.
    pub fn confirm(&mut self, owner: O, port: Port) -> bool {
        let Some(holder) = self.holder(owner, port).filter(|it| it.is_doubted) else {
            return false;
        };
        (holder.is_doubted, holder.claims) = (false, 1);
        true
    }

    /// An owner has restarted: it must confirm each of its ports.
    pub fn doubt(&mut self, owner: O) {
        let all = self.held.values_mut().flat_map(|held| &mut held.holders);
        for holder in all.filter(|holder| holder.owner == owner) {
            holder.is_doubted = true;
        }
    }

    /// A restarted owner's time to confirm is over: it loses the unconfirmed ports. Returns those that are free now.
    pub fn forget_doubted(&mut self, owner: O) -> Vec<Port> {
        let is_it = |holder: &Holder<O>| holder.owner == owner && holder.is_doubted;
        let doubted = self
            .held
            .iter()
            .filter(|(_, held)| held.holders.iter().any(is_it));
        let doubted: Vec<Port> = doubted.map(|(port, _)| *port).collect();
        let mut free = Vec::new();
        for port in doubted {
            if let Some(held) = self.held.get_mut(&port) {
                held.holders.retain(|holder| !is_it(holder));
                if held.holders.is_empty() {
                    self.held.remove(&port);
                    free.push(port);
                }
            }
            self.discount(owner);
        }
        free
    }

    /// An owner is gone. Returns the ports that are free now.
    pub fn forget(&mut self, owner: O) -> Vec<Port> {
        if self.counts.remove(&owner).is_none() {
            return Vec::new();
        }
        for held in self.held.values_mut() {
            held.holders.retain(|holder| holder.owner != owner);
        }
        let free = self.held.iter().filter(|(_, held)| held.holders.is_empty());
        let free: Vec<_> = free.map(|(port, _)| *port).collect();
        for port in &free {
            self.held.remove(port);
        }
        free
    }

    /// Whether anybody has it.
    pub fn is_held(&self, port: Port) -> bool {
        self.held.contains_key(&port)
    }

    /// The claim on it.
    pub fn claim_of(&self, port: Port) -> Option<Claim> {
        self.held.get(&port).map(|held| held.claim)
    }

    /// Whether this one has it.
    pub fn is_held_by(&self, owner: O, port: Port) -> bool {
        let held = self.held.get(&port);
        held.is_some_and(|held| held.holders.iter().any(|h| h.owner == owner))
    }

    /// The owner for the next connection to a port: the present one with the fewest connections. Also returns whether
    /// there was a choice.
    pub fn choose(&self, port: Port, is_there: impl Fn(O) -> bool) -> Option<(O, bool)> {
        let holders = &self.held.get(&port)?.holders;
        let there = holders.iter().filter(|holder| is_there(holder.owner));
        let chosen = there.min_by_key(|holder| holder.connections)?;
        Some((chosen.owner, holders.len() > 1))
    }

    fn holder(&mut self, owner: O, port: Port) -> Option<&mut Holder<O>> {
        let held = self.held.get_mut(&port)?;
        held.holders.iter_mut().find(|h| h.owner == owner)
    }

    /// An owner says what its program is called that has a port.
    pub fn name(&mut self, owner: O, port: Port, command: Command) {
        if let Some(holder) = self.holder(owner, port) {
            holder.command = Some(command);
        }
    }

    /// Its program's name, if it was reported.
    pub fn command_of(&self, owner: O, port: Port) -> Option<Command> {
        let holders = &self.held.get(&port)?.holders;
        holders.iter().find(|holder| holder.owner == owner)?.command
    }

    /// Changes the limit for one owner. An owner that has more keeps them.
    pub const fn set_per_owner_max(&mut self, per_owner_max: usize) {
        self.per_owner_max = per_owner_max;
    }

    /// A connection to it begins.
    pub fn begins(&mut self, owner: O, port: Port) {
        if let Some(holder) = self.holder(owner, port) {
            holder.connections += 1;
        }
    }

    /// One is over.
    pub fn ends(&mut self, owner: O, port: Port) {
        if let Some(holder) = self.holder(owner, port) {
            holder.connections = holder.connections.saturating_sub(1);
        }
    }

    /// All held ports, with their owners and numbers of connections.
    pub fn all(&self) -> impl Iterator<Item = (Port, O, u32)> {
        let of_port = |(port, held): (&Port, &'_ Held<O>)| {
            let port = *port;
            let holders = held.holders.iter();
            holders
                .map(move |h| (port, h.owner, h.connections))
                .collect::<Vec<_>>()
        };
        self.held.iter().flat_map(of_port)
    }

    /// All that have a port.
    pub fn holders(&self, port: Port) -> impl Iterator<Item = O> {
        let holders = self.held.get(&port).map(|held| &held.holders);
        holders.into_iter().flatten().map(|holder| holder.owner)
    }

    /// How many one has.
    pub fn count_of(&self, owner: O) -> usize {
        self.counts.get(&owner).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTTP: Port = Port {
        transport: Transport::Tcp,
        family: Family::V4,
        number: 80,
    };
    const ALONE: Claim = Claim {
        user: 7,
        is_shared: false,
    };
    const SHARED: Claim = Claim {
        user: 7,
        is_shared: true,
    };

    #[test]
    fn a_port_is_one_owners_until_given_back() {
        let mut ports = Ports::new(4);
        assert_eq!(ports.claim(1, HTTP, ALONE), Ok(true));
        assert_eq!(ports.claim(2, HTTP, ALONE), Err(Refused::InUse));
        assert_eq!(ports.claim(2, HTTP, SHARED), Err(Refused::InUse));
        assert!(!ports.release(2, HTTP), "it has not got it");
        assert!(ports.release(1, HTTP));
        assert_eq!(ports.claim(2, HTTP, ALONE), Ok(true));
        let of_v6 = Port {
            family: Family::V6,
            ..HTTP
        };
        assert_eq!(ports.claim(1, of_v6, ALONE), Ok(true));
    }

    #[test]
    fn a_user_shares_it_and_who_has_fewest_connections_is_next() {
        let mut ports = Ports::new(4);
        assert_eq!(ports.claim(1, HTTP, SHARED), Ok(true));
        assert_eq!(ports.claim(2, HTTP, SHARED), Ok(false));
        let of_another = Claim { user: 8, ..SHARED };
        assert_eq!(ports.claim(3, HTTP, of_another), Err(Refused::InUse));
        let mut given = [0; 3];
        for _ in 0..10 {
            let (owner, is_choice) = ports.choose(HTTP, |_| true).unwrap();
            assert!(is_choice);
            ports.begins(owner, HTTP);
            given[owner] += 1;
        }
        assert_eq!(given, [0, 5, 5]);
        assert_eq!(ports.choose(HTTP, |owner| owner != 1), Some((2, true)));
        assert_eq!(ports.choose(HTTP, |_| false), None);
        ports.ends(2, HTTP);
        assert_eq!(ports.choose(HTTP, |_| true), Some((2, true)));
        assert!(!ports.release(1, HTTP) && ports.release(2, HTTP));
    }

    #[test]
    fn who_begins_anew_says_what_it_has_still() {
        let mut ports = Ports::new(4);
        let port = |number| Port { number, ..HTTP };
        for number in 1..=3 {
            assert_eq!(ports.claim(1, port(number), ALONE), Ok(true));
        }
        ports.doubt(1);
        assert_eq!(ports.choose(port(1), |_| true), Some((1, false)));
        assert_eq!(ports.claim(1, port(1), ALONE), Ok(false));
        assert_eq!(ports.claim(2, port(1), ALONE), Err(Refused::InUse));
        assert_eq!(
            ports.claim(2, port(2), ALONE),
            Ok(false),
            "another one wants it"
        );
        assert_eq!(ports.forget_doubted(1), [port(3)]);
        assert_eq!((ports.count_of(1), ports.count_of(2)), (1, 1));
        assert_eq!(ports.forget_doubted(1), []);
    }

    #[test]
    fn a_name_is_that_of_who_has_the_port() {
        let mut ports = Ports::new(4);
        let [one, two] = ["one", "two"].map(|name| Command::new(name).unwrap());
        ports.name(1, HTTP, one);
        assert_eq!(ports.command_of(1, HTTP), None, "it has not got it");
        for (owner, name) in [(1, one), (2, two)] {
            ports.claim(owner, HTTP, SHARED).unwrap();
            ports.name(owner, HTTP, name);
            assert_eq!(ports.command_of(owner, HTTP), Some(name));
        }
        ports.release(1, HTTP);
        ports.claim(1, HTTP, SHARED).unwrap();
        assert_eq!(ports.command_of(1, HTTP), None);
        assert_eq!(ports.command_of(2, HTTP), Some(two));
    }

    #[test]
    fn one_has_so_many_and_loses_them_all_when_it_is_gone() {
        let mut ports = Ports::new(3);
        let port = |number| Port { number, ..HTTP };
        for number in 1..=3 {
            assert_eq!(ports.claim(1, port(number), SHARED), Ok(true));
        }
        assert_eq!(ports.claim(1, port(4), SHARED), Err(Refused::TooMany));
        assert_eq!(
            ports.claim(1, port(3), SHARED),
            Ok(false),
            "it has it already"
        );
        assert_eq!(ports.claim(2, port(3), SHARED), Ok(false));
        assert_eq!(ports.forget(1), [port(1), port(2)]);
        assert_eq!((ports.count_of(1), ports.count_of(2)), (0, 1));
        assert!(ports.is_held_by(2, port(3)) && !ports.is_held(port(1)));
        assert_eq!(ports.forget(1), []);
    }
}
