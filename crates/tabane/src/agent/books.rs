//! Accounting: each place's and each user's part of the shared resources.
//!
//! A place is what one `tabane run` began, so its program is what "may stop its own connections and no
//! one else's". Places are free to make, though, and users are not: everything that is counted by place
//! also has a bound for all places of a user.

use std::collections::HashMap;

use tabane_io::credentials::own_uid;

use super::place::Program;
use super::rights::ROOT;
use super::room::PLAIN_DESCRIPTORS;
use super::{Agent, PLACES_MAX, PLACES_OF_USER_MAX, RELAYS_MAX};

/// This many places of one user own their streams separately; further ones share these owners, the least
/// used first. An owner may hold half of what others leave of a peer's window: a user with twenty
/// thousand places would hold all of it.
pub(super) const OWNERS_OF_USER_MAX: usize = 8;
/// A place may have this many times what is still free of a shared resource (the dynamic threshold of
/// Choudhury and Hahne, 1998): alone three of four.
pub(super) const OF_PLACE: usize = 3;
/// All places of one user may have this many times what is still free: alone seven of eight. So a
/// newcomer always finds some free, whether it is of the same user or not.
pub(super) const OF_USER: usize = 7;
const _: () = assert!(OF_PLACE < OF_USER);

/// Whether an owner of `own` may have more, with `free` left: at most `times` what is free.
pub(super) const fn is_within_share(own: usize, free: usize, times: usize) -> bool {
    own < free.saturating_mul(times)
}

/// Record of a place for as long as anything of it is there: its connections may outlive it.
#[derive(Debug)]
pub(super) struct Book {
    pub uid: u32,
    /// Whose its streams are, to the bundles. Not 0.
    pub owner: u32,
    /// The program, once its supervisor has named it.
    pub program: Option<Program>,
    /// Its connections that are carried, by a bundle or by plain TCP.
    pub relays: usize,
    /// How many of them are carried by plain TCP.
    pub plain_relays: usize,
    /// Its supervisor has gone.
    pub has_ended: bool,
}

/// Record of a user for as long as anything of it is there.
#[derive(Debug, Default)]
struct User {
    /// The owners that its places are, and how many places each of them.
    owners: HashMap<u32, usize>,
    /// Descriptors of its connections that are carried.
    descriptors: usize,
}

/// Of all places, by their numbers, and of all users.
#[derive(Debug, Default)]
pub(super) struct Books {
    places: HashMap<u64, Book>,
    users: HashMap<u32, User>,
}

impl Books {
    /// A place begins.
    pub fn open(&mut self, number: u64, uid: u32) {
        let user = self.users.entry(uid).or_default();
        let fewest = user.owners.iter();
        let fewest = fewest.min_by_key(|(owner, places)| (**places, **owner));
        let owner = match fewest {
            Some((owner, _)) if user.owners.len() >= OWNERS_OF_USER_MAX => *owner,
            // Numbers wrap after four billion places; 0 is nobody.
            _ => u32::try_from(number % u64::from(u32::MAX)).unwrap_or_default() + 1,
        };
        *user.owners.entry(owner).or_default() += 1;
        self.places.insert(
            number,
            Book {
                uid,
                owner,
                program: None,
                relays: 0,
                plain_relays: 0,
                has_ended: false,
            },
        );
    }

    /// A place has ended.
    pub fn close(&mut self, number: u64) {
        if let Some(book) = self.places.get_mut(&number) {
            book.has_ended = true;
        }
        self.forget_if_over(number);
    }

    fn forget_if_over(&mut self, number: u64) {
        let is_over = |book: &&Book| book.has_ended && book.relays == 0;
        let Some(&Book { uid, owner, .. }) = self.places.get(&number).filter(is_over) else {
            return;
        };
        self.places.remove(&number);
        let Some(user) = self.users.get_mut(&uid) else {
            return;
        };
        if let Some(places) = user.owners.get_mut(&owner) {
            *places -= 1;
            if *places == 0 {
                user.owners.remove(&owner);
            }
        }
        if user.owners.is_empty() {
            self.users.remove(&uid);
        }
    }

    pub fn get(&self, number: u64) -> Option<&Book> {
        self.places.get(&number)
    }

    /// Sets the program of a place.
    pub fn name(&mut self, number: u64, program: Program) {
        if let Some(book) = self.places.get_mut(&number) {
            book.program = Some(program);
        }
    }

    /// A connection of a place is carried from now on.
    pub fn begin(&mut self, number: u64, is_plain: bool) {
        if let Some(book) = self.places.get_mut(&number) {
            book.relays += 1;
            book.plain_relays += usize::from(is_plain);
            let user = self.users.entry(book.uid).or_default();
            user.descriptors += descriptors(is_plain);
        }
    }

    /// A connection of a place is over.
    pub fn end(&mut self, number: u64, is_plain: bool) {
        if let Some(book) = self.places.get_mut(&number) {
            book.relays -= 1;
            book.plain_relays -= usize::from(is_plain);
            let user = self.users.entry(book.uid).or_default();
            user.descriptors -= descriptors(is_plain);
        }
        self.forget_if_over(number);
    }

    /// Whose streams of a place are, to the bundles.
    pub fn owner(&self, number: u64) -> u32 {
        self.get(number).map_or(0, |book| book.owner)
    }

    /// Descriptors of carried connections: of a place, and of all places of a user.
    fn descriptors_of(&self, number: u64, uid: u32) -> (usize, usize) {
        let of_place = self.get(number).map_or(0, |book| {
            book.relays + book.plain_relays * (PLAIN_DESCRIPTORS - 1)
        });
        let of_user = self.users.get(&uid).map_or(0, |user| user.descriptors);
        (of_place, of_user)
    }
}

const fn descriptors(is_plain: bool) -> usize {
    match is_plain {
        true => PLAIN_DESCRIPTORS,
        false => 1,
    }
}

impl Agent {
    /// Whether a user may have one more place; if not, that is counted.
    pub(super) fn may_have_place(&mut self, uid: u32) -> bool {
        let of_user = self.places.iter().filter(|(_, place)| place.uid == uid);
        let of_user = of_user.count();
        let free = PLACES_MAX.saturating_sub(self.places.len());
        // Root, and the daemon's own user, may end the daemon anyway.
        let is_bounded = uid != ROOT && uid != own_uid();
        let is_within = !is_bounded || of_user < PLACES_OF_USER_MAX;
        let may = is_within && !self.closing.is_behind(uid);
        self.is_share(may && is_within_share(of_user, free, OF_USER))
    }

    /// Whether a place may have one more connection, begun or asked for; if not, that is counted.
    pub(super) fn may_connect(&mut self, index: usize) -> bool {
        let Some(place) = self.places.get(index) else {
            return false;
        };
        let (number, uid) = (place.number, place.uid);
        let pending = place.pending();
        let pending_of_user = self.places.iter().filter(|(_, place)| place.uid == uid);
        let pending_of_user: usize = pending_of_user.map(|(_, place)| place.pending()).sum();
        let (of_place, of_user) = self.books.descriptors_of(number, uid);
        let (of_place, of_user) = (of_place + pending, of_user + pending_of_user);
        let free = self.free_descriptors();
        let free = free.min(RELAYS_MAX.saturating_sub(self.relays.len()));
        let is_within = is_within_share(of_place, free, OF_PLACE) && !self.closing.is_behind(uid);
        self.is_share(is_within && is_within_share(of_user, free, OF_USER))
    }

    pub(super) fn is_share(&mut self, is_within: bool) -> bool {
        self.stats.share_full += u64::from(!is_within);
        is_within
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_place_is_an_owner_and_a_user_is_a_few_at_most() {
        let mut books = Books::default();
        for number in 1..=100 {
            books.open(number, 1000);
        }
        books.open(101, 1001);
        let owners = |uid| {
            let of_user = books.places.values().filter(|book| book.uid == uid);
            of_user.map(|book| book.owner).collect::<HashSet<_>>()
        };
        assert_eq!(owners(1000).len(), OWNERS_OF_USER_MAX);
        assert!(owners(1000).is_disjoint(&owners(1001)));
        assert!(!owners(1000).contains(&0));
        // They are shared evenly: 100 places, 8 owners.
        for owner in owners(1000) {
            let places = books
                .places
                .values()
                .filter(|book| book.owner == owner)
                .count();
            assert!((12..=13).contains(&places), "{places}");
        }
    }

    #[test]
    fn an_owner_is_nobody_elses_while_a_connection_of_it_lasts() {
        let mut books = Books::default();
        books.open(1, 1000);
        books.begin(1, false);
        books.close(1);
        let owner = books.owner(1);
        books.open(2, 1001);
        assert_ne!(books.owner(2), owner);
        books.end(1, false);
        assert!(books.get(1).is_none() && !books.users.contains_key(&1000));
    }

    /// A newcomer finds something free, however many were there and took all they could.
    #[test]
    fn nobody_has_all() {
        const ALL: usize = 1024;
        let mut free = ALL;
        let mut take = |of_user: usize| {
            let mut own = 0;
            while is_within_share(own, free, OF_PLACE)
                && is_within_share(of_user + own, free, OF_USER)
            {
                (own, free) = (own + 1, free - 1);
            }
            own
        };
        let first = take(0);
        assert_eq!(first, ALL / 4 * 3);
        // Another one of the same user, then others.
        let second = take(first);
        assert_eq!(first + second, ALL / 8 * 7);
        assert!(take(0) > 0 && take(0) > 0 && free > 0);
    }
}
