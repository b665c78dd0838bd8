//! Any bytes as what nodes and gateways say to each other of the outside address: what is understood has one form.

use tabane_proto::gateway::Said;

/// Feeds it `bytes`.
pub fn run(bytes: &[u8]) {
    if let Some(said) = Said::parse(bytes) {
        assert_eq!(said.encode(), bytes);
    }
}
