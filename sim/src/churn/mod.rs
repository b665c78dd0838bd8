//! A cluster whose nodes come and go: none is in another's configuration; each knows a few addresses, joins, sends messages
//! to all others, and crashes, leaves, or is cut off.
//!
//! The network is a plain one (two links, some delay, now and then a loss): what links do is the business of the other
//! schedules. Here is checked who is known to whom, and that messages arrive once, in order, and soon while there is a way.

mod check;
mod draw;
mod town;

pub use check::{Broken, Rule};
pub use draw::{Action, Plan};
pub use town::{Outcome, run};

/// How one host's driver is broken, to show that the checkers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// It asks nobody for admission.
    Unseeded,
    /// It forgets nobody.
    NeverForgets,
    /// Each message is handed on twice.
    Twice,
    /// One message of a hundred is not handed on.
    Drops,
    /// Two messages change places now and then.
    Swaps,
    /// It stops for seconds, of which nobody is told.
    Dawdles,
}
