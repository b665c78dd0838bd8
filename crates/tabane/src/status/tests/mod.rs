//! What users and scripts rely on: the names in the JSON, the table, and a
//! control socket that answers everybody and hangs for nobody.

mod exchange;

use std::collections::BTreeMap;

use tabane_cluster::Wire;

use super::*;

/// One connection that a program here does not read, and one that is not read elsewhere.
fn unread() -> UnreadStatus {
    let here = UnreadConnection {
        reader: Reader::Program,
        pid: Some(4711),
        uid: Some(1000),
        command: Some("redis-server".to_owned()),
        local: "10.99.0.1:6379".parse().unwrap(),
        remote: "10.99.0.2:40000".parse().unwrap(),
        peer: Some("n1".to_owned()),
        bytes: 262_144,
        since_unix_ms: 1_800_011_480_000,
        since_s: 40,
    };
    let there = UnreadConnection {
        reader: Reader::Peer,
        local: "10.99.0.1:40001".parse().unwrap(),
        remote: "10.99.0.2:5001".parse().unwrap(),
        bytes: 0,
        since_unix_ms: 1_800_011_513_000,
        since_s: 7,
        ..here.clone()
    };
    let of_user = |reader, bytes, longest_s| UnreadOfUser {
        uid: Some(1000),
        reader,
        connections: 1,
        bytes,
        longest_s,
    };
    UnreadStatus {
        connections: 1,
        bytes: 262_144,
        longest_s: 40,
        of_users: vec![
            of_user(Reader::Program, 262_144, 40),
            of_user(Reader::Peer, 0, 7),
        ],
        listed: vec![here, there],
    }
}

/// One of everything: a peer that is fine, one that is half gone, one that never came.
pub(crate) fn example() -> StatusReport {
    let path = |link: u8, host: u8, state| PathStatus {
        link,
        local: format!("10.77.{link}.1").parse().unwrap(),
        remote: format!("10.77.{link}.{host}:7577").parse().unwrap(),
        state,
        since_unix_ms: 1_800_000_000_000,
        since_s: 11_520,
        why: None,
        rtt_us: Some(120),
        tx_rate_mbps: 941.25,
        rx_rate_mbps: 12.5,
        capacity_mbps: Some(956.0),
        capacity_proven: true,
        granted_mbps: None,
        loss_percent: Some(0.0),
        tx_packets: 1_000_000,
        tx_bytes: 1_440_000_000,
        tx_lost_packets: 857,
        tx_late_packets: 12,
        tx_copies_left_out: 3,
        rx_packets: 500_000,
        rx_bytes: 32_000_000,
        resent_bytes: 1_234_567,
        failures: 0,
        mtu_bytes: 1472,
    };
    let failed = PathStatus {
        since_s: 4,
        since_unix_ms: 1_800_011_516_000,
        why: Some("packets sent on it stay unacknowledged while other links progress".to_owned()),
        rtt_us: None,
        tx_rate_mbps: 0.0,
        rx_rate_mbps: 0.0,
        capacity_mbps: None,
        loss_percent: Some(100.0),
        failures: 2,
        ..path(1, 3, PathState::Down)
    };
    let peer = |name: &str, state, paths: Vec<_>| PeerStatus {
        name: name.to_owned(),
        state,
        since_unix_ms: 1_800_000_000_000,
        since_s: 11_520,
        why: None,
        session_age_s: Some(720),
        public: None,
        memory_bytes: 4_194_304,
        failures: 0,
        paths_up: paths.len(),
        paths_configured: paths.len(),
        redundancy_lost: false,
        queued_bytes: 65_536,
        paths,
        relayed: Vec::new(),
    };
    let relayed = RelayedStatus {
        via: vec!["n1".to_owned(), "n7".to_owned()],
        state: PathState::Up,
        since_unix_ms: 1_800_000_000_000,
        since_s: 3,
        rtt_us: Some(410),
        tx_bytes: 4096,
        rx_bytes: 2048,
    };
    let absent = PeerStatus {
        why: Some("no answer to handshakes yet".to_owned()),
        session_age_s: None,
        ..peer("storage-3.rack2", PeerState::Connecting, vec![])
    };
    let fine = vec![path(0, 2, PathState::Up), path(1, 2, PathState::Suspect)];
    let half = vec![path(0, 3, PathState::Up), failed];
    let link = LinkStatus {
        link: 0,
        address: "10.77.0.1:7577".parse().unwrap(),
        device: Some("eth0".to_owned()),
        up: true,
        receive_buffer_bytes: Some(8_388_608),
        send_buffer_bytes: Some(2_097_152),
        rx_receives: 25_000,
        rx_datagrams: 500_000,
        rx_dropped: 0,
        tx_piecewise: 0,
        tx_refused: 0,
        icmp_errors: 2,
    };
    StatusReport {
        schema: SCHEMA,
        node: NodeStatus {
            name: "n0".to_owned(),
            version: "0.1.0".to_owned(),
            started_unix_ms: 1_799_921_459_000,
            uptime_s: 90_061,
            wire: Wire::Encrypted,
            limits_hit: BTreeMap::from([
                ("vnic_dropped_unknown_destination".to_owned(), 5),
                ("frames_queue_full".to_owned(), 7),
            ]),
            limits_hit_lately: BTreeMap::from([("vnic_dropped_unknown_destination".to_owned(), 3)]),
            dropped: BTreeMap::from([
                ("asked_for_cookie".to_owned(), 2),
                ("stranger".to_owned(), 12),
            ]),
            dropped_lately: BTreeMap::from([("stranger".to_owned(), 11)]),
            vnic: Some(VnicStatus {
                name: "tab0".to_owned(),
                address: "10.99.0.1/24".to_owned(),
                mtu_bytes: 62_000,
                backend: "tap".to_owned(),
                trouble: None,
            }),
            pid: 4242,
            busy_us: 7_250_000_000,
            links: vec![link],
            run: RunStatus {
                programs: vec![ProgramStatus {
                    pid: 4711,
                    uid: 1000,
                    command: "redis-server".to_owned(),
                    connections: 13,
                }],
                connections: 12,
                plain_connections: 1,
                datagram_flows: 2,
                ports: 1,
                carried: 340,
                plain: 21,
                accepted: 330,
                refused: 3,
                cut_off: 5,
                misaddressed: 1,
                kept_from_plain: 2,
                unread: unread(),
            },
            mptcp: Some(MptcpStatus {
                connections: 1,
                subflows: 1,
                steered: 3,
                detours: vec![DetourStatus {
                    to: "10.77.1.2".parse().unwrap(),
                    via: "10.77.0.2".parse().unwrap(),
                    since_unix_ms: 1_790_000_000_000,
                }],
                unsteered: vec![UnsteeredStatus {
                    local: "10.77.0.1".parse().unwrap(),
                    peers: vec!["n1".into()],
                    why: "the rule `100: from 10.77.0.1 prohibit` forbids it".into(),
                    mend: "if it is not meant, `ip rule delete pref 100`".into(),
                }],
                listed: vec![ConnectionStatus {
                    peer: "n1".into(),
                    subflows: vec![SubflowStatus {
                        local: "10.77.0.1:40000".parse().unwrap(),
                        remote: "10.77.0.2:80".parse().unwrap(),
                    }],
                }],
            }),
            mptcp_trouble: None,
            bundles_direct: 2,
            bundles_max: None,
            flows: vec![
                FlowStatus {
                    which: "tcp port 873".to_owned(),
                    how: "link 1, at most 200mbit".to_owned(),
                    link: Some(1),
                    rate_bps: Some(200_000_000),
                    bytes: 1_200_000_000,
                    connections: 3,
                    packets_dropped: 12,
                },
                FlowStatus {
                    which: "udp port 5060 dscp 46".to_owned(),
                    how: "mirror".to_owned(),
                    link: None,
                    rate_bps: None,
                    bytes: 70_000,
                    connections: 0,
                    packets_dropped: 0,
                },
            ],
            findings: vec![FindingStatus {
                code: "vnic_route".to_owned(),
                severity: Severity::Degraded,
                peers: vec!["n1".to_owned()],
                links: Vec::new(),
                what: "Packets to n1 do not go over tab0".to_owned(),
                mend: Some("`ip route get 10.99.0.2` shows the route".to_owned()),
                since_unix_ms: 1_800_000_000_000,
                since_s: 90,
            }],
            gateway: Some(GatewayStatus {
                serving: Some("n0".to_owned()),
                since_s: 3600,
                addresses: vec!["203.0.113.1".parse().unwrap()],
                interface: Some("ext0".to_owned()),
                ready: Some(true),
                trouble: Some("another host, 02:00:00:00:00:07, has 203.0.113.1".to_owned()),
                rate_mbps: Some(1000),
                queue: "fair".to_owned(),
                queue_us: Some(250),
                qdisc: Some("mq fq_codel".to_owned()),
                qdisc_queued_bytes: Some(3028),
                tx_bytes: 2_000_000,
                rx_bytes: 1_000_000,
                connections: 12,
                voters: ["n0", "n9", "n1"].map(str::to_owned).to_vec(),
                voters_missing: vec!["n1".to_owned()],
                routers: vec![RouterStatus {
                    address: "203.0.113.254".parse().unwrap(),
                    answers: Some(false),
                }],
                standby: vec![StandbyStatus {
                    node: "n9".to_owned(),
                    ready: true,
                }],
                ports: vec![PortStatus {
                    transport: "tcp".to_owned(),
                    family: 4,
                    port: 80,
                    node: "n1".to_owned(),
                    command: Some("nginx".to_owned()),
                    connections: 11,
                }],
                ports_refused: 2,
                dropped: BTreeMap::from([("spoofed".to_owned(), 3)]),
            }),
        },
        peers: vec![
            PeerStatus {
                public: Some("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned()),
                ..peer("n1", PeerState::Up, fine)
            },
            PeerStatus {
                paths_up: 1,
                redundancy_lost: true,
                relayed: vec![relayed],
                ..peer("n2", PeerState::Up, half)
            },
            absent,
        ],
        refused: vec![RefusedStatus {
            address: "10.77.0.4:7577".parse().unwrap(),
            link: 0,
            peer: Some("storage-3.rack2".to_owned()),
            reason: RefusedReason::WrongKey,
            text: "handshake not made with this cluster's key".to_owned(),
            count: 12,
            first_unix_ms: 1_800_011_500_000,
            last_unix_ms: 1_800_011_518_000,
            last_s: 2,
        }],
    }
}

#[test]
fn the_table() {
    let table = render(&example(), Detail::Row, Colours::Off);
    assert_eq!(table, include_str!("status.txt"), "\n{table}");
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "wider than 80 columns"
    );
}

#[test]
fn colours_change_nothing_but_colours() {
    let coloured = render(&example(), Detail::Row, Colours::On);
    assert!(coloured.contains("\x1b[31mdown\x1b[0m"));
    let mut plain = coloured;
    for sequence in ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"] {
        plain = plain.replace(sequence, "");
    }
    assert_eq!(plain, render(&example(), Detail::Row, Colours::Off));
    assert_eq!(Colours::wanted(false), Colours::Off);
}

#[test]
fn the_json() {
    let json = serde_json::to_string_pretty(&example()).unwrap() + "\n";
    assert_eq!(json, include_str!("status.json"), "\n{json}");
    let read: StatusReport = serde_json::from_str(&json).unwrap();
    assert_eq!(read, example());
}

/// A newer daemon may tell more.
#[test]
fn unknown_names_are_ignored() {
    let json = serde_json::to_string(&example()).unwrap();
    let more = json
        .replacen('{', "{\"new\":[1],", 1)
        .replace("\"link\":0", "\"new\":1,\"link\":0");
    let read: StatusReport = serde_json::from_str(&more).unwrap();
    assert_eq!(read, example());
}

/// So may one that knows a reason more.
#[test]
fn an_unknown_reason_is_read() {
    let json = serde_json::to_string(&example()).unwrap();
    let read: StatusReport =
        serde_json::from_str(&json.replace("wrong_key", "wrong_moon")).unwrap();
    assert_eq!(read.refused[0].reason, RefusedReason::Other);
}

/// The documentation describes exactly the names there are.
#[test]
fn every_name_is_documented() {
    let documentation = include_str!("../../../../../docs/status.md");
    let mut names = Vec::new();
    collect_names(&serde_json::to_value(example()).unwrap(), &mut names);
    for name in names {
        assert!(
            documentation.contains(&format!("| `{name}`")),
            "{name} is missing in docs/status.md"
        );
    }
}

fn collect_names(value: &serde_json::Value, names: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (name, inner) in object {
                // The names inside are those of limits and reasons.
                if !["limits_hit", "dropped"].contains(&name.as_str()) {
                    collect_names(inner, names);
                }
                names.push(name.clone());
            }
            names.retain(|name| !name.starts_with("vnic_dropped"));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|i| collect_names(i, names)),
        _ => {}
    }
}
