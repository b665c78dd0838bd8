//! Which changes of `[gateway]` are possible while the daemon runs.

use std::fmt::Display;

use tabane_cluster::{Cluster, GatewaySpec, LineQueue};

/// A list in words.
fn list<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|it| it.to_string()).collect();
    all.join(", ")
}

fn names(cluster: &Cluster, spec: &GatewaySpec) -> String {
    list(spec.nodes.iter().map(|node| &cluster.nodes[*node].name))
}

fn addresses(spec: &GatewaySpec) -> String {
    list(
        spec.addresses
            .iter()
            .map(|(ip, prefix)| format!("{ip}/{prefix}")),
    )
}

/// The impossible ones: voters must agree on who may serve, and programs have the addresses.
pub(in crate::daemon) fn gateway_differences(old: &Cluster, new: &Cluster) -> Vec<String> {
    let (before, after) = match (&old.gateway, &new.gateway) {
        (Some(before), Some(after)) => (before, after),
        (None, None) => return Vec::new(),
        (None, Some(_)) => {
            return vec!["there is a `[gateway]`, but the node runs without".to_owned()];
        }
        (Some(_), None) => {
            return vec!["there is no `[gateway]`, but the node runs with one".to_owned()];
        }
    };
    let runs = |key: &str, before: String, after: String| {
        let what = format!("`{key}` of `[gateway]` is {after}, but the node runs with {before}");
        (before != after).then_some(what)
    };
    let words = [
        // By name: their numbers may have changed.
        runs("nodes", names(old, before), names(new, after)),
        runs("addresses", addresses(before), addresses(after)),
        runs(
            "interface",
            list(&before.interfaces),
            list(&after.interfaces),
        ),
    ];
    words.into_iter().flatten().collect()
}

/// The changes among the possible ones, in words.
pub(in crate::daemon) fn gateway_words(old: &Cluster, new: &Cluster) -> Vec<String> {
    let (Some(before), Some(after)) = (&old.gateway, &new.gateway) else {
        return Vec::new();
    };
    let mut words = Vec::new();
    if before.routers != after.routers {
        words.push(match after.routers.is_empty() {
            true => "the gateway has no router any more".to_owned(),
            false => format!("the gateway's routers are {}", list(&after.routers)),
        });
    }
    if before.rate_bps != after.rate_bps {
        words.push(match after.rate_bps {
            Some(bps) => format!("the gateway sends at most {} kb/s outside", bps / 1000),
            None => "the gateway sends as fast as its device".to_owned(),
        });
    }
    if before.queue != after.queue {
        words.push(match after.queue {
            LineQueue::Fair => "what is to go outside waits in the gateway, by turns".to_owned(),
            LineQueue::Kernel => "what is to go outside waits in the kernel".to_owned(),
        });
    }
    if before.ports_per_node != after.ports_per_node {
        words.push(format!(
            "a node may have {} ports outside",
            after.ports_per_node
        ));
    }
    if before.connections_per_node != after.connections_per_node {
        let most = after.connections_per_node;
        words.push(format!("a node may have {most} connections outside"));
    }
    words
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn cluster(gateway: &str) -> Cluster {
        let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        let node = |n| {
            format!(
                "[[node]]\nname = \"n{n}\"\nlinks = [\"10.77.0.{}\"]\n",
                n + 1
            )
        };
        let text = format!(
            "key = \"{key}\"\n{gateway}{}{}{}",
            node(0),
            node(1),
            node(2)
        );
        Cluster::parse(Path::new("c"), &text, 0o600).unwrap().0
    }

    const TABLE: &str = "[gateway]\nnodes = [\"n0\", \"n1\"]\naddresses = [\"203.0.113.1/24\"]\ninterface = \"ext0\"\n";

    #[test]
    fn what_can_change_is_told_and_nothing_is_refused_for_it() {
        let old = cluster(TABLE);
        for (more, words) in [
            ("", ""),
            (
                "rate = \"50mbit\"\n",
                "the gateway sends at most 50000 kb/s outside",
            ),
            (
                "queue = \"kernel\"\n",
                "what is to go outside waits in the kernel",
            ),
            (
                "routers = [\"203.0.113.254\"]\n",
                "the gateway's routers are 203.0.113.254",
            ),
            ("ports_per_node = 7\n", "a node may have 7 ports outside"),
            (
                "connections_per_node = 9\n",
                "a node may have 9 connections outside",
            ),
        ] {
            let new = cluster(&format!("{TABLE}{more}"));
            assert_eq!(gateway_words(&old, &new).join("; "), words);
            assert_eq!(gateway_differences(&old, &new), [""; 0]);
        }
    }

    #[test]
    fn what_cannot_is_named() {
        let (old, none) = (cluster(TABLE), cluster(""));
        for (word, other, what) in [
            (
                "\"n1\"",
                "\"n2\"",
                "`nodes` of `[gateway]` is n0, n2, but the node runs with n0, n1",
            ),
            (
                "113.1/",
                "113.2/",
                "`addresses` of `[gateway]` is 203.0.113.2/24, but the node runs with 203.0.113.1/24",
            ),
            (
                "ext0",
                "ext1",
                "`interface` of `[gateway]` is ext1, ext1, but the node runs with ext0, ext0",
            ),
        ] {
            let new = cluster(&TABLE.replace(word, other));
            assert_eq!(gateway_differences(&old, &new), [what]);
        }
        let all = [
            gateway_differences(&old, &none),
            gateway_differences(&none, &old),
        ];
        let right = [
            "there is no `[gateway]`, but the node runs with one",
            "there is a `[gateway]`, but the node runs without",
        ];
        assert_eq!(all.concat(), right);
    }
}
