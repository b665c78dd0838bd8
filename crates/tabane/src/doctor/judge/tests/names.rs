//! Names that are not in `/etc/hosts` as they should be.

use super::*;
use crate::names::{Foreign, Lack};

#[test]
fn missing_names_and_lines_of_others_are_told() {
    let address = "10.99.0.2".parse().expect("an address");
    let foreign = Foreign {
        line: 7,
        name: "n1".to_owned(),
        address: "10.1.1.1".parse().expect("an address"),
        ours: address,
    };
    let lack = Lack {
        missing: vec![("n1.tabane".to_owned(), address)],
        foreign: vec![foreign],
    };
    let found = with(|facts| facts.names = Some(lack.clone()));
    let [finding] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(finding.cause, Cause::NamesMissing);
    assert_eq!(
        finding.evidence,
        [
            "no line of /etc/hosts says that n1.tabane is 10.99.0.2",
            "/etc/hosts:7 says that n1 is 10.1.1.1; on the bundle it is 10.99.0.2",
        ]
    );
    assert!(with(|facts| facts.names = Some(Lack::default())).is_empty());
}
