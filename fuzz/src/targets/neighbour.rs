//! Any records from a process of the same node that has the key, to an endpoint that is amid all kinds of operations: nothing is
//! written where it may not write, and the endpoint goes on.

use arbitrary::{Arbitrary, Unstructured};
use tabane_rank::foreign::Neighbour;

#[derive(Arbitrary, Debug)]
struct Said {
    kind: u8,
    /// Words, as most of a record is; small ones are those that mean something.
    words: Vec<Word>,
    bytes: Vec<u8>,
    /// More is said before anybody looks.
    goes_on: bool,
}

#[derive(Arbitrary, Debug)]
enum Word {
    Small(u8),
    Middling(u16),
    Any(u64),
}

/// Feeds it `bytes`.
pub fn run(bytes: &[u8]) {
    let Some(mut neighbour) = Neighbour::new() else {
        return;
    };
    let mut all = Unstructured::new(bytes);
    while let (false, Ok(said)) = (all.is_empty(), Said::arbitrary(&mut all)) {
        let mut body = Vec::new();
        for word in said.words {
            let word = match word {
                Word::Small(word) => word.into(),
                Word::Middling(word) => word.into(),
                Word::Any(word) => word,
            };
            body.extend(word.to_ne_bytes());
        }
        body.extend(said.bytes);
        neighbour.say(u32::from(said.kind) % 8, &body);
        if !said.goes_on {
            neighbour.turn();
        }
    }
    neighbour.turn();
    assert!(neighbour.is_unharmed());
}
