//! Any bytes as what a process says that hands over memory to another one of its node: with a right proof (the fuzzer cannot
//! make one) what is understood is what would be said, without one nothing is believed.

use tabane_rank::foreign;

/// Feeds it `body`.
pub fn run(body: &[u8]) {
    assert!(!foreign::is_hello(body));
    if let Some(again) = foreign::hello(body) {
        assert_eq!(foreign::hello(&again).as_ref(), Some(&again));
        assert!(again.len() <= body.len());
    }
}
