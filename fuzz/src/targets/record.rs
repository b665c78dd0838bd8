//! Any bytes as a record of the memory that two processes of a node share: what is understood is what would be said.

use tabane_rank::foreign;

/// Feeds it `bytes`: the first is the record's kind.
pub fn run(bytes: &[u8]) {
    let Some((&kind, body)) = bytes.split_first() else {
        return;
    };
    if let Some((kind, again)) = foreign::record(kind.into(), body) {
        assert_eq!(foreign::record(kind, &again), Some((kind, again.clone())));
        assert!(again.len() <= body.len());
    }
}
