//! What a scraper, a dashboard and an alert rely on.

use std::collections::{BTreeMap, BTreeSet};

use super::families::DROP_REASONS;
use super::*;
use crate::status::example_report;

const DOCUMENTATION: &str = include_str!("../../../../docs/metrics.md");
const DASHBOARD: &str = include_str!("../../../../dist/grafana/tabane.json");
const RULES: &str = include_str!("../../../../dist/prometheus/tabane.rules.yml");

/// A sample: its name, its labels, its value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Reads the text format as the specification has it, and nothing else:
/// <https://prometheus.io/docs/specs/om/open_metrics_spec/#text-format>.
fn parse(text: &str) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    let (mut family, mut kind) = (String::new(), String::new());
    let mut families = BTreeSet::new();
    let body = text.strip_suffix("# EOF\n").expect("ends with # EOF");
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            let &[word, name, rest] = &words[..] else {
                panic!("no comment: {line}")
            };
            match word {
                // The first of each family, of which there is one.
                "TYPE" => {
                    assert!(["counter", "gauge"].contains(&rest), "{line}");
                    assert!(families.insert(name.to_owned()), "twice: {line}");
                    assert!(!name.ends_with("_total"), "{line}");
                    (family, kind) = (name.to_owned(), rest.to_owned());
                }
                "UNIT" => assert!(
                    name == family && name.ends_with(&format!("_{rest}")),
                    "{line}"
                ),
                "HELP" => {
                    assert!(name == family, "{line}");
                    let _ = unescape(rest);
                }
                _ => panic!("no comment: {line}"),
            }
            continue;
        }
        let sample = parse_sample(line);
        let suffix = if kind == "counter" { "_total" } else { "" };
        assert_eq!(sample.0, format!("{family}{suffix}"), "{line}");
        assert!(kind != "counter" || sample.2 >= 0.0, "{line}");
        let is_there = samples
            .iter()
            .any(|(n, l, _)| (n, l) == (&sample.0, &sample.1));
        assert!(!is_there, "twice: {line}");
        samples.push(sample);
    }
    samples
}

fn parse_sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}').expect("a }")),
        None => (series, ""),
    };
    assert!(is_name(name), "{line}");
    let mut parsed = BTreeMap::new();
    let mut rest = labels;
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").expect("a quote");
        assert!(is_name(label), "{line}");
        let mut escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let (value, after) = after.split_at(end.expect("a quote"));
        assert!(
            parsed.insert(label.to_owned(), unescape(value)).is_none(),
            "{line}"
        );
        rest = after[1..].strip_prefix(',').unwrap_or(&after[1..]);
    }
    (name.to_owned(), parsed, value.parse().expect("a number"))
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn unescape(text: &str) -> String {
    let (mut plain, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        assert!(c != '"' && c != '\n', "not escaped: {text}");
        plain.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some(c @ ('\\' | '"')) => c,
                other => panic!("no escape: {other:?}"),
            },
            c => c,
        });
    }
    plain
}

fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let wanted = labels
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect();
    let mut of_name = samples.iter().filter(|(n, _, _)| n == name);
    of_name
        .find(|(_, l, _)| *l == wanted)
        .map(|(_, _, value)| *value)
}

#[test]
fn a_report_as_metrics() {
    let samples = parse(&render(&example_report()));
    let path = |link| [("peer", "n2"), ("link", link)];
    type Labels<'a> = &'a [(&'a str, &'a str)];
    let expected: [(&str, Labels<'_>, Option<f64>); 32] = [
        (
            "tabane_node_info",
            &[("node", "n0"), ("version", "0.1.0"), ("wire", "encrypted")],
            Some(1.0),
        ),
        ("tabane_start_time_seconds", &[], Some(1_799_921_459.0)),
        (
            "tabane_vnic_mtu_bytes",
            &[("device", "tab0")],
            Some(62_000.0),
        ),
        ("tabane_run_programs", &[], Some(1.0)),
        ("tabane_run_connections", &[("by", "bundle")], Some(12.0)),
        (
            "tabane_run_connections_begun_total",
            &[("by", "plain")],
            Some(21.0),
        ),
        ("tabane_run_connections_cut_off_total", &[], Some(5.0)),
        (
            "tabane_run_unread_connections",
            &[("uid", "1000"), ("reader", "peer")],
            Some(1.0),
        ),
        (
            "tabane_run_unread_bytes",
            &[("uid", "1000"), ("reader", "program")],
            Some(262_144.0),
        ),
        (
            "tabane_run_unread_longest_seconds",
            &[("uid", "1000"), ("reader", "program")],
            Some(40.0),
        ),
        (
            "tabane_finding",
            &[("code", "vnic_route"), ("severity", "degraded")],
            Some(1.0),
        ),
        (
            "tabane_flow_bytes_total",
            &[
                ("which", "tcp port 873"),
                ("how", "link 1, at most 200mbit"),
            ],
            Some(1.2e9),
        ),
        (
            "tabane_flow_dropped_packets_total",
            &[
                ("which", "tcp port 873"),
                ("how", "link 1, at most 200mbit"),
            ],
            Some(12.0),
        ),
        (
            "tabane_limit_hits_total",
            &[("limit", "vnic_dropped_unknown_destination")],
            Some(5.0),
        ),
        (
            "tabane_dropped_datagrams_total",
            &[("reason", "stranger")],
            Some(12.0),
        ),
        (
            "tabane_dropped_datagrams_total",
            &[("reason", "refused")],
            Some(0.0),
        ),
        ("tabane_peer_up", &[("peer", "n1")], Some(1.0)),
        ("tabane_peer_up", &[("peer", "storage-3.rack2")], Some(0.0)),
        (
            "tabane_peer_state",
            &[("peer", "storage-3.rack2"), ("state", "connecting")],
            Some(1.0),
        ),
        (
            "tabane_peer_session_age_seconds",
            &[("peer", "storage-3.rack2")],
            None,
        ),
        ("tabane_peer_key_shown", &[("peer", "n1")], Some(1.0)),
        ("tabane_peer_key_shown", &[("peer", "n2")], Some(0.0)),
        (
            "tabane_peer_key_shown",
            &[("peer", "storage-3.rack2")],
            None,
        ),
        ("tabane_peer_redundancy_lost", &[("peer", "n2")], Some(1.0)),
        ("tabane_path_up", &path("0"), Some(1.0)),
        ("tabane_path_up", &path("1"), Some(0.0)),
        ("tabane_path_rtt_seconds", &path("0"), Some(120e-6)),
        ("tabane_path_rtt_seconds", &path("1"), None),
        ("tabane_path_loss_ratio", &path("1"), Some(1.0)),
        (
            "tabane_path_capacity_bytes_per_second",
            &path("0"),
            Some(119.5e6),
        ),
        ("tabane_path_capacity_bytes_per_second", &path("1"), None),
        ("tabane_path_transmit_bytes_total", &path("0"), Some(1.44e9)),
    ];
    for (name, labels, wanted) in expected {
        assert_eq!(value(&samples, name, labels), wanted, "{name} {labels:?}");
    }
}

#[test]
fn what_a_path_could_carry_is_told_once_it_was_full() {
    let mut report = example_report();
    let path = &mut report.peers[0].paths[0];
    (path.capacity_mbps, path.capacity_proven) = (Some(206.0), false);
    let labels = [("peer", "n1"), ("link", "0")];
    let told = parse(&render(&report));
    assert_eq!(
        value(&told, "tabane_path_capacity_bytes_per_second", &labels),
        None
    );
}

#[test]
fn nothing_a_daemon_says_breaks_the_format() {
    let mut report = example_report();
    let odd = "a\\b\"c\nd=\"e\",f} 7 é\u{0}";
    report.peers[0].name = odd.to_owned();
    report.peers[0].paths[0].loss_percent = Some(f64::NAN);
    report.node.limits_hit.insert(odd.to_owned(), u64::MAX);
    let samples = parse(&render(&report));
    assert_eq!(
        value(&samples, "tabane_peer_up", &[("peer", odd)]),
        Some(1.0)
    );
    let limit = value(&samples, "tabane_limit_hits_total", &[("limit", odd)]);
    assert_eq!(limit, Some(u64::MAX as f64));
}

#[test]
fn names_labels_and_units_are_those_of_the_table() {
    let samples = parse(&render(&example_report()));
    for family in families() {
        let name = sample_name(family);
        let mut of_name = samples.iter().filter(|(n, _, _)| *n == name).peekable();
        assert!(of_name.peek().is_some(), "the example has no {name}");
        let wanted: BTreeSet<&str> = family.labels.iter().copied().collect();
        for (_, labels, _) in of_name {
            let labels: BTreeSet<&str> = labels.keys().map(String::as_str).collect();
            assert_eq!(labels, wanted, "{name}");
        }
        if let Some(unit) = family.unit.suffix() {
            assert!(family.name.ends_with(&format!("_{unit}")), "{name}");
        }
    }
}

#[test]
fn beyond_the_bound_paths_are_left_out_and_peers_are_not() {
    let mut report = example_report();
    let mut many = report.peers[0].clone();
    many.paths = vec![many.paths[0].clone(); PATHS_MAX];
    report.peers.insert(0, many);
    let text = render(&report);
    let count = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(count("tabane_path_up{"), PATHS_MAX);
    assert_eq!(count("tabane_peer_up{"), report.peers.len());
}

fn sample_name(family: &Family) -> String {
    let suffix = match family.kind {
        Kind::Counter => "_total",
        Kind::Gauge => "",
    };
    format!("{}{suffix}", family.name)
}

#[test]
fn the_documentation_has_exactly_what_is_exported() {
    let rows = DOCUMENTATION
        .lines()
        .filter(|line| line.starts_with("| `tabane_"));
    let exported = families().map(|family| {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let unit = match family.unit {
            Unit::BytesPerSecond => "bytes/s",
            unit => unit.suffix().unwrap_or_default(),
        };
        let labels: Vec<_> = family
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let (name, labels, help) = (sample_name(family), labels.join(", "), family.help);
        format!("| `{name}` | {kind} | {unit} | {labels} | {help} |")
    });
    let (documented, exported): (Vec<_>, Vec<_>) =
        (rows.map(str::to_owned).collect(), exported.collect());
    assert_eq!(documented, exported);
}

/// A reason that is not known here would appear only with its first datagram.
#[test]
fn the_reasons_are_those_of_the_status() {
    let status = include_str!("../../../../docs/status.md");
    let (_, after) = status.split_once("### Dropped datagrams").unwrap();
    let section = after.split("\n#").next().unwrap();
    let rows = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let reasons: BTreeSet<&str> = rows.collect();
    assert_eq!(reasons, DROP_REASONS.iter().copied().collect());
}

/// All names of metrics in a query.
fn names(query: &str) -> Vec<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("tabane_"))
        .map(str::to_owned)
        .collect()
}

fn assert_exported(query: &str) {
    let exported: BTreeSet<String> = families().map(sample_name).collect();
    let named = names(query);
    assert!(
        !named.is_empty() || query.contains("up{job=\"tabane\"}"),
        "{query}"
    );
    for name in named {
        assert!(exported.contains(&name), "{name} is not exported: {query}");
    }
}

/// Calls `each` with every text that is the value of one of `keys`, however deep.
fn texts_of(value: &serde_json::Value, keys: &[&str], each: &mut impl FnMut(&str)) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, inner) in object {
                match inner.as_str() {
                    Some(text) if keys.contains(&key.as_str()) => each(text),
                    _ => texts_of(inner, keys, each),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|i| texts_of(i, keys, each)),
        _ => {}
    }
}

#[test]
fn the_dashboard_asks_for_what_is_exported() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut count = 0;
    texts_of(&dashboard, &["expr", "definition", "query"], &mut |query| {
        if query != "prometheus" {
            assert_exported(query);
            count += 1;
        }
    });
    assert!(count > 10, "{count} queries");
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(panel["targets"][0]["expr"].is_string(), "{panel}");
    }
}

#[test]
fn the_rules_ask_for_what_is_exported() {
    use saphyr::{LoadableYamlNode, Yaml};
    let documents = Yaml::load_from_str(RULES).unwrap();
    let mut alerts = BTreeSet::new();
    for group in documents[0]["groups"].as_sequence().unwrap() {
        for rule in group["rules"].as_sequence().unwrap() {
            let alert = rule["alert"].as_str().expect("a name");
            assert!(alerts.insert(alert.to_owned()), "twice: {alert}");
            assert_exported(rule["expr"].as_str().expect("an expression"));
            assert!(rule["labels"]["severity"].as_str().is_some(), "{alert}");
            for text in ["summary", "description"] {
                assert!(rule["annotations"][text].as_str().is_some(), "{alert}");
            }
        }
    }
    assert!(alerts.len() >= 7, "{alerts:?}");
}
