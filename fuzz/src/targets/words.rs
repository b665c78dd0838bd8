//! Any bytes as what the supervisor of a namespace and the agent say to each other: whoever has the
//! namespace can say anything.

use tabane_program::agent::{ToAgent, ToSupervisor};

/// Feeds it `message`.
pub fn run(message: &[u8]) {
    if let Some(words) = ToAgent::parse(message) {
        assert_eq!(ToAgent::parse(&words.encode()), Some(words));
    }
    if let Some(words) = ToSupervisor::parse(message) {
        assert_eq!(ToSupervisor::parse(&words.encode()), Some(words));
    }
}
