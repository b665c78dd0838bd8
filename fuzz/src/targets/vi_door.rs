//! Any bytes as a question where a process of VIs is, or as an answer: as it is sealed (the fuzzer cannot seal) what is understood is
//! what would be said, and what is not sealed is not believed.

use tabane_vipl::foreign;

/// Feeds it `bytes`.
pub fn run(bytes: &[u8]) {
    assert!(!foreign::is_sealed(bytes));
    if let Some(again) = foreign::sealed(bytes) {
        assert_eq!(foreign::sealed(&again).as_ref(), Some(&again));
    }
}
