//! Any bytes as a message between endpoints of a job: what is understood is what would be said.

use tabane_rank::foreign;

/// Feeds it `message`.
pub fn run(message: &[u8]) {
    if let Some(again) = foreign::head(message) {
        assert_eq!(foreign::head(&again).as_ref(), Some(&again));
        assert!(again.len() <= message.len());
    }
}
