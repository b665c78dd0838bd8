//! Ports of the outside address that programs of this node want: each waits until the gateway has said whether it may have it.
//!
//! A claim is made where the agent already holds the caller of bind(2) until it is answered. Then the agent takes the
//! port on its own node, as without a gateway. If no gateway answers within a second the program goes on, and the next
//! gateway is told.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use tabane_proto::Time;
use tabane_proto::gateway::{Claim, Family, Port, Refused, Transport};

use super::programs::{Place, Programs};

/// How long to wait for the gateway. Then this node grants the port provisionally, and tells the next gateway.
const PATIENCE: Duration = Duration::from_secs(1);
/// So many ports are tried for a program that takes any.
const TRIES: u32 = 8;

/// The gateway's ear for claims.
pub trait Ask {
    /// Asks it. `None`: its answer comes later, or it is not there now.
    fn ask(&mut self, id: u32, port: Port, claim: Claim) -> Option<Result<u16, Refused>>;

    /// Tells it that nobody here has the port any more.
    fn tell_free(&mut self, port: Port);

    /// Tells it the name of the port's program.
    fn tell_name(&mut self, place: Place, port: Port);
}

/// A program's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Whose program.
    pub place: Place,
    /// The protocol.
    pub transport: Transport,
    /// Of which addresses, one of each family.
    pub families: [Option<Family>; 2],
    /// Which number; 0: any.
    pub number: u16,
    /// The claimant's conditions.
    pub claim: Claim,
}

impl Wish {
    fn port(&self, place: usize, number: u16) -> Option<Port> {
        let family = self.families.into_iter().flatten().nth(place)?;
        Some(Port {
            transport: self.transport,
            family,
            number,
        })
    }
}

/// A program's grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// The number of the port; 0: whichever this node has free.
    pub number: u16,
    /// It had not all of it before.
    pub is_new: bool,
}

#[derive(Debug)]
struct Waiting {
    wish: Wish,
    /// The number that it is about; 0: not known yet.
    number: u16,
    /// How many of its ports it has.
    granted: usize,
    tries: u32,
    since: Time,
    /// The gateway has been asked.
    is_asked: bool,
    /// This node has recorded the port as the program's, and the gateway has not confirmed it yet.
    is_noted: bool,
    /// Some of it the program had not.
    is_new: bool,
}

/// All that wait.
#[derive(Debug, Default)]
pub struct Claims {
    waiting: BTreeMap<u32, Waiting>,
    last: u32,
    done: VecDeque<(u32, Result<Given, Refused>)>,
}

impl Claims {
    /// A program wants a port. [`Claims::poll_done`] reports the result under the returned number.
    pub fn begin(
        &mut self,
        now: Time,
        programs: &mut Programs,
        gateway: &mut impl Ask,
        wish: Wish,
    ) -> u32 {
        // 0 is for messages that want no answer.
        self.last = self.last.checked_add(1).unwrap_or(1);
        let waiting = Waiting {
            wish,
            number: wish.number,
            granted: 0,
            tries: TRIES,
            since: now,
            is_asked: false,
            is_noted: false,
            is_new: false,
        };
        self.waiting.insert(self.last, waiting);
        self.go_on(programs, gateway, self.last);
        self.last
    }

    /// A result: the grant, or why there is none.
    pub fn poll_done(&mut self) -> Option<(u32, Result<Given, Refused>)> {
        self.done.pop_front()
    }

    /// The gateway has answered.
    pub fn answered(
        &mut self,
        programs: &mut Programs,
        gateway: &mut impl Ask,
        id: u32,
        result: Result<u16, Refused>,
    ) {
        if self
            .waiting
            .get(&id)
            .is_some_and(|waiting| waiting.is_asked)
        {
            self.take(programs, gateway, id, result);
            self.go_on(programs, gateway, id);
        }
    }

    /// There is another gateway, or the one there is can be asked now.
    pub fn ask_again(&mut self, programs: &mut Programs, gateway: &mut impl Ask) {
        for id in self.waiting.keys().copied().collect::<Vec<_>>() {
            if let Some(waiting) = self.waiting.get_mut(&id) {
                waiting.is_asked = false;
            }
            self.go_on(programs, gateway, id);
        }
    }

    /// Whether the gateway has yet to say that the program may have this port, which is noted as its own already.
    pub fn awaits(&self, place: Place, port: Port) -> bool {
        let is_it = |waiting: &Waiting| {
            waiting.is_noted
                && waiting.wish.place == place
                && waiting.wish.port(waiting.granted, waiting.number) == Some(port)
        };
        self.waiting.values().any(is_it)
    }

    /// Whether some wait that the gateway was not asked for.
    pub fn are_unasked(&self) -> bool {
        self.waiting.values().any(|waiting| !waiting.is_asked)
    }

    /// When [`Claims::look`] has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        let first = self.waiting.values().map(|waiting| waiting.since).min();
        first.map(|since| since + PATIENCE)
    }

    /// Claims that have waited long enough go on without the gateway.
    pub fn look(&mut self, now: Time, programs: &mut Programs) {
        let is_late = |waiting: &Waiting| now.since(waiting.since) >= PATIENCE;
        if !self.waiting.values().any(is_late) {
            return;
        }
        let all = core::mem::take(&mut self.waiting).into_iter();
        let (late, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.partition(|(_, waiting)| is_late(waiting));
        self.waiting = others;
        for (id, waiting) in late {
            let number = waiting.number;
            let mut result = Ok(number);
            for place in waiting.granted..2 {
                if number != 0
                    && let Some(port) = waiting.wish.port(place, number)
                    && !programs.has(waiting.wish.place, port)
                {
                    let claimed = programs.claim(waiting.wish.place, port, waiting.wish.claim);
                    result = result.and(claimed.map(|_| number));
                }
            }
            let is_new = true;
            let result = result.map(|number| Given { number, is_new });
            self.done.push_back((id, result));
        }
    }

    /// A program is over.
    pub fn forget(&mut self, place: Place) {
        self.waiting
            .retain(|_, waiting| waiting.wish.place != place);
    }

    /// Goes on until it is decided, or the gateway has to be waited for.
    fn go_on(&mut self, programs: &mut Programs, gateway: &mut impl Ask, id: u32) {
        while let Some(waiting) = self.waiting.get_mut(&id).filter(|it| !it.is_asked) {
            let wish = waiting.wish;
            let Some(port) = wish.port(waiting.granted, waiting.number) else {
                let (number, is_new) = (waiting.number, waiting.is_new);
                return self.decide(id, Ok(Given { number, is_new }));
            };
            if port.number != 0 && !waiting.is_noted {
                if programs.has(wish.place, port) {
                    waiting.granted += 1;
                    continue;
                }
                waiting.is_new = true;
                match programs.claim(wish.place, port, wish.claim) {
                    // Others of the user have it here already.
                    Ok(false) => {
                        waiting.granted += 1;
                        continue;
                    }
                    Ok(true) => waiting.is_noted = true,
                    Err(refused) => {
                        self.refuse(programs, gateway, id, refused);
                        continue;
                    }
                }
            }
            waiting.is_asked = true;
            let Some(result) = gateway.ask(id, port, wish.claim) else {
                return;
            };
            self.take(programs, gateway, id, result);
        }
    }

    /// The gateway's answer about a port.
    fn take(
        &mut self,
        programs: &mut Programs,
        gateway: &mut impl Ask,
        id: u32,
        result: Result<u16, Refused>,
    ) {
        let Some(waiting) = self.waiting.get_mut(&id) else {
            return;
        };
        (waiting.is_asked, waiting.is_noted) = (false, false);
        let wish = waiting.wish;
        let asked = wish.port(waiting.granted, waiting.number);
        let (Some(asked), refused) = (asked, result.err()) else {
            return;
        };
        if let Some(refused) = refused {
            if asked.number != 0 {
                programs.release(wish.place, asked);
            }
            return self.refuse(programs, gateway, id, refused);
        }
        let number = result.unwrap_or(asked.number);
        if asked.number == 0 {
            let given = Port { number, ..asked };
            if let Err(refused) = programs.claim(wish.place, given, wish.claim) {
                gateway.tell_free(given);
                return self.refuse(programs, gateway, id, refused);
            }
            (waiting.number, waiting.is_new) = (number, true);
        }
        waiting.granted += 1;
        gateway.tell_name(wish.place, Port { number, ..asked });
    }

    /// It cannot have that; one that takes any gets another try.
    fn refuse(
        &mut self,
        programs: &mut Programs,
        gateway: &mut impl Ask,
        id: u32,
        refused: Refused,
    ) {
        let Some(waiting) = self.waiting.get_mut(&id) else {
            return;
        };
        let had = core::mem::take(&mut waiting.granted);
        let number = core::mem::replace(&mut waiting.number, waiting.wish.number);
        let wish = waiting.wish;
        waiting.tries -= 1;
        let is_over = wish.number != 0 || waiting.tries == 0 || refused == Refused::TooMany;
        for port in (0..had).filter_map(|place| wish.port(place, number)) {
            if programs.release(wish.place, port) {
                gateway.tell_free(port);
            }
        }
        if is_over {
            self.decide(id, Err(refused));
        }
    }

    fn decide(&mut self, id: u32, result: Result<Given, Refused>) {
        self.waiting.remove(&id);
        self.done.push_back((id, result));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ALONE: Claim = Claim {
        user: 7,
        is_shared: false,
    };
    const BOTH: [Option<Family>; 2] = [Some(Family::V6), Some(Family::V4)];

    /// A gateway that knows which ports are taken, or is not there.
    #[derive(Default)]
    struct Fake {
        taken: BTreeSet<Port>,
        is_away: bool,
        next: u16,
        named: Vec<(Place, Port)>,
        asked: Vec<(u32, Port)>,
    }

    impl Ask for Fake {
        fn ask(&mut self, id: u32, port: Port, _: Claim) -> Option<Result<u16, Refused>> {
            self.asked.push((id, port));
            if self.is_away {
                return None;
            }
            let mut port = port;
            if port.number == 0 {
                self.next += 1;
                port.number = 40_000 + self.next;
            }
            Some(match self.taken.insert(port) {
                true => Ok(port.number),
                false => Err(Refused::InUse),
            })
        }

        fn tell_free(&mut self, port: Port) {
            self.taken.remove(&port);
        }

        fn tell_name(&mut self, place: Place, port: Port) {
            self.named.push((place, port));
        }
    }

    fn wish(number: u16) -> Wish {
        Wish {
            place: 1,
            transport: Transport::Tcp,
            families: BOTH,
            number,
            claim: ALONE,
        }
    }

    fn port(family: Family, number: u16) -> Port {
        Port {
            transport: Transport::Tcp,
            family,
            number,
        }
    }

    fn new(number: u16) -> Result<Given, Refused> {
        let is_new = true;
        Ok(Given { number, is_new })
    }

    fn programs() -> Programs {
        Programs::new(&[], 100, 100)
    }

    #[test]
    fn it_has_both_or_none() {
        let (mut claims, mut programs, mut gateway) =
            (Claims::default(), programs(), Fake::default());
        let id = claims.begin(Time::ZERO, &mut programs, &mut gateway, wish(80));
        assert_eq!(claims.poll_done(), Some((id, new(80))));
        assert_eq!(gateway.taken.len(), 2);
        let both = [port(Family::V6, 80), port(Family::V4, 80)];
        assert_eq!(gateway.named, both.map(|port| (1, port)));
        gateway.taken.insert(port(Family::V4, 81));
        let id = claims.begin(Time::ZERO, &mut programs, &mut gateway, wish(81));
        assert_eq!(claims.poll_done(), Some((id, Err(Refused::InUse))));
        assert!(!gateway.taken.contains(&port(Family::V6, 81)));
        assert!(!programs.has(1, port(Family::V6, 81)) && !programs.has(1, port(Family::V4, 81)));
        // Listening on a bound port asks nobody.
        let asked = gateway.asked.len();
        let id = claims.begin(Time::ZERO, &mut programs, &mut gateway, wish(80));
        let (number, is_new) = (80, false);
        assert_eq!(claims.poll_done(), Some((id, Ok(Given { number, is_new }))));
        assert_eq!(gateway.asked.len(), asked);
    }

    #[test]
    fn any_port_is_one_that_is_free_of_both_families() {
        let (mut claims, mut programs, mut gateway) =
            (Claims::default(), programs(), Fake::default());
        gateway.taken.insert(port(Family::V4, 40_001));
        let id = claims.begin(Time::ZERO, &mut programs, &mut gateway, wish(0));
        assert_eq!(claims.poll_done(), Some((id, new(40_002))));
        assert!(!gateway.taken.contains(&port(Family::V6, 40_001)));
        // There may be none.
        for number in 1..=100 {
            gateway.taken.insert(port(Family::V4, 40_000 + number));
        }
        let id = claims.begin(Time::ZERO, &mut programs, &mut gateway, wish(0));
        assert_eq!(claims.poll_done(), Some((id, Err(Refused::InUse))));
    }

    #[test]
    fn a_gateway_that_is_away_is_waited_for_and_not_for_ever() {
        let (mut claims, mut programs) = (Claims::default(), programs());
        let mut gateway = Fake {
            is_away: true,
            ..Fake::default()
        };
        let id = claims.begin(Time::ZERO, &mut programs, &mut gateway, wish(80));
        assert_eq!(claims.poll_done(), None);
        gateway.is_away = false;
        assert!(claims.awaits(1, port(Family::V6, 80)));
        claims.ask_again(&mut programs, &mut gateway);
        assert_eq!(claims.poll_done(), Some((id, new(80))));
        let both = [port(Family::V6, 80), port(Family::V4, 80)];
        assert!(both.iter().all(|port| gateway.taken.contains(port)));
        assert!(both.iter().all(|port| !claims.awaits(1, *port)));
        // Its answer comes later.
        gateway.is_away = true;
        let id = claims.begin(Time::ZERO, &mut programs, &mut gateway, wish(81));
        claims.answered(&mut programs, &mut gateway, id + 1, Ok(81));
        claims.answered(&mut programs, &mut gateway, id, Ok(81));
        claims.answered(&mut programs, &mut gateway, id, Ok(81));
        assert_eq!(claims.poll_done(), Some((id, new(81))));
        let id = claims.begin(Time::ZERO, &mut programs, &mut gateway, wish(82));
        let due = claims.next_timeout().unwrap();
        claims.look(due, &mut programs);
        assert_eq!(claims.poll_done(), Some((id, new(82))));
        assert!(programs.has(1, port(Family::V4, 82)) && programs.has(1, port(Family::V6, 82)));
        assert_eq!(claims.next_timeout(), None);
        claims.begin(Time::ZERO, &mut programs, &mut gateway, wish(83));
        claims.forget(1);
        assert_eq!(claims.next_timeout(), None);
    }
}
