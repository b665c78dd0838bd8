//! `tabane trace` and the traces of the simulator: what is told of a failover, in the form that the draft demands.

#[path = "../common/mod.rs"]
mod common;
mod draft;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{Cluster, PATIENCE, Program, output};
use tabane_lab::{Fault, LabConfig, LinkSpec};
use tabane_proto::limits::PATHS_MAX;
use tabane_proto::trace::{Chosen, PathMetrics, TraceEvent, Why};
use tabane_proto::{LinkId, Time};
use tabane_qlog::{Form, Header, Writer};
use tabane_sim::{Options, failover, qlog, run};

const SOME_BYTES: u64 = 1_000_000;

/// The qlog of a simulated failover.
fn simulated() -> String {
    let options = Options {
        qlog: true,
        ..Options::default()
    };
    let outcome = run(&failover::schedule(), &options);
    assert_eq!(outcome.violation, None);
    qlog::header("A failover") + &outcome.qlog.expect("was asked for")
}

/// The events of this name about a path that says so.
fn count(events: &[Value], name: &str, path: usize, is_so: impl Fn(&Value) -> bool) -> usize {
    let tuple = path.to_string();
    let of_path = events
        .iter()
        .filter(|event| event["name"] == name && event["tuple"] == *tuple);
    of_path.filter(|event| is_so(&event["data"])).count()
}

/// Whether a trace tells that path 1 failed under bulk and came back.
fn assert_tells_failover(events: &[Value]) {
    let failed = failover::LINK;
    let any = |_: &Value| true;
    let some = |name: &str, path, is_so: &dyn Fn(&Value) -> bool| {
        assert!(count(events, name, path, is_so) > 0, "{name} of {path}");
    };
    for verdict in ["down", "up"] {
        some("tabane:verdict_updated", failed, &|data| {
            data["verdict"] == verdict
        });
        some("tabane:path_state_updated", failed, &|data| {
            data["new"] == verdict
        });
    }
    some("quic:packet_lost", failed, &any);
    for path in [0, 1] {
        for name in [
            "quic:packet_sent",
            "quic:packet_received",
            "quic:packets_acked",
            "quic:recovery_metrics_updated",
            "quic:congestion_state_updated",
            "quic:mtu_updated",
            "quic:tuple_assigned",
        ] {
            some(name, path, &any);
        }
        some("tabane:path_chosen", path, &|data| data["why"] == "fastest");
    }
    // While the other one is down, this one is not chosen but used.
    some("tabane:path_chosen", 0, &|data| data["why"] == "only");
    let session = |event: &Value| event["name"] == "tabane:session_begun";
    assert!(events.iter().any(session));
}

#[test]
fn a_simulated_failover_is_told_as_the_draft_demands() {
    let events = draft::check(&simulated()).expect("is as the draft demands");
    assert_tells_failover(&events);
}

#[test]
fn each_event_that_can_be_written_is_as_the_draft_demands() {
    let path = LinkId(9);
    let chosen = Chosen {
        path,
        why: Why::Explores,
        queued_bytes: u32::MAX,
        lost_bytes: 0,
        delivery_us: [Chosen::NO_CANDIDATE - 1; PATHS_MAX],
    };
    let metrics = PathMetrics {
        window_bytes: u64::MAX,
        probe_timeouts: u32::MAX,
        latest_rtt_us: u32::MAX,
        rate_bytes_per_s: 1e300,
        ..PathMetrics::default()
    };
    let remote = "[fd00::1]:7577".parse().expect("an address");
    let writer = Writer::new(Form::Draft, Time::ZERO);
    let mut text = qlog::header("All \"others\" \\ \n");
    for event in [
        TraceEvent::Chosen(chosen),
        TraceEvent::Metrics { path, metrics },
        TraceEvent::Address { path, remote },
        TraceEvent::Granted {
            path,
            bytes_per_s: Some(1e8),
        },
        TraceEvent::Granted {
            path,
            bytes_per_s: None,
        },
        TraceEvent::Standby {
            path,
            before: None,
            now: Some(tabane_proto::Standby::Late),
        },
        TraceEvent::LeftOut { events: u64::MAX },
    ] {
        writer.event(Time::NEVER, Some("\t"), &event, &mut text);
    }
    let events = draft::check(&text).expect("is as the draft demands");
    assert_eq!(events[0]["group_id"], "\t");
    assert_eq!(events[1]["data"]["pto_count"], 65_535);
}

/// A checker that takes anything says nothing.
#[test]
fn a_broken_record_is_found() {
    let header = qlog::header("Good");
    let good = "\u{1e}{\"time\":1.5,\"name\":\"quic:packet_lost\",\"tuple\":\"0\",\"data\":\
        {\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":7},\"trigger\":\"pto_expired\",\"tabane_bytes\":9}}\n";
    let whole = |record: &str| format!("{header}{good}{record}");
    assert_eq!(draft::check(&whole(good)).map(|events| events.len()), Ok(2));
    for (is, broken) in [
        ("\u{1e}", ""),
        ("\n", ""),
        ("{\"time\"", "\"time\""),
        ("\"time\":1.5,", ""),
        ("1.5", "\"1.5\""),
        ("1.5", "1.25"),
        ("1.5", "-1"),
        ("\"0\"", "0"),
        ("quic:packet_lost", "quic:packet_mislaid"),
        ("quic:packet_lost", "packet_lost"),
        ("\"data\"", "\"date\""),
        ("1RTT", "2RTT"),
        ("\"packet_type\":\"1RTT\",", ""),
        ("\"packet_number\":7", "\"packet_number\":-7"),
        ("\"packet_number\":7", "\"packet_number\":\"7\""),
        ("pto_expired", "path_failed"),
        ("tabane_bytes", "bytes"),
        ("tabane_bytes", "tabane_Bytes"),
    ] {
        let record = good.replacen(is, broken, 1);
        assert_ne!(record, good, "{is}");
        draft::check(&whole(&record)).expect_err(&record);
    }
    for (is, broken) in [
        ("file:sequential", "file:contained"),
        ("qlog+json-seq", "qlog+json"),
        ("events:quic-13", "events:quic"),
        ("monotonic", "sundial"),
        (
            "\"epoch\":\"unknown\"",
            "\"epoch\":\"1970-01-01T00:00:00Z\"",
        ),
        ("relative_to_epoch", "relative"),
        ("\"type\":\"unknown\"", "\"type\":\"peer\""),
        (
            "\"title\":\"Good\"",
            &format!("\"a\":\"{}\"", "b".repeat(300)),
        ),
    ] {
        let broken = header.replacen(is, broken, 1) + good;
        draft::check(&broken).expect_err(is);
    }
}

/// What qvis demands of a file: its version and format at the top, and every event in a group.
#[test]
fn the_older_form_has_what_qvis_looks_for() {
    let writer = Writer::new(Form::Qvis, Time::ZERO);
    let mut text = String::new();
    let header = Header {
        title: "n0 to n1",
        vantage_point: "n0",
        group: None,
        wall_clock_unix_ms: Some(1),
    };
    writer.header(&header, &mut text);
    let path = LinkId(1);
    for event in [
        TraceEvent::Session,
        TraceEvent::Acked {
            path,
            first: 3,
            count: 2,
        },
        TraceEvent::Metrics {
            path,
            metrics: PathMetrics::default(),
        },
    ] {
        writer.event(Time::from_ms(1), None, &event, &mut text);
    }
    let records = text.split('\u{1e}').skip(1);
    let records: Vec<Value> = records
        .map(|record| serde_json::from_str(record).expect("is JSON"))
        .collect();
    assert_eq!(records[0]["qlog_version"], "0.3");
    assert_eq!(records[0]["qlog_format"], "JSON-SEQ");
    assert_eq!(
        records[0]["trace"]["common_fields"]["time_format"],
        "relative"
    );
    assert_eq!(records[1]["group_id"], "all paths");
    assert_eq!(records[2]["group_id"], "path 1");
    assert_eq!(records[2]["name"], "transport:packet_received");
    let acked = &records[2]["data"]["frames"][0]["acked_ranges"];
    assert_eq!(acked, &serde_json::json!([[3, 4]]));
    assert_eq!(records[3]["name"], "recovery:metrics_updated");
}

/// `tabane trace` with these words on node 0.
fn trace(cluster: &Cluster, words: &[&str]) -> Command {
    let mut command = cluster.lab().command(0, tabane());
    command.arg("trace").args(words);
    command
}

fn ended(command: Command) -> Output {
    output("tabane trace", command, PATIENCE).expect("ends")
}

/// What it complains of.
fn text_of(ended: &Output) -> String {
    text(&ended.stderr)
}

/// What it prints.
fn text_of_output(ended: &Output) -> String {
    text(&ended.stdout)
}

/// Where a test writes.
fn file(cluster: &Cluster, name: &str) -> PathBuf {
    cluster.directory().join(name)
}

fn waits_for_log(cluster: &Cluster, what: &str, times: usize) {
    eventually(what, || cluster.log(0).matches(what).count() >= times);
}

#[test]
fn a_failover_in_the_lab_is_told_as_the_draft_demands_and_drawn() {
    // So slow that there are not too many packets to look at.
    let cluster = cluster_on(&LabConfig {
        links: vec![LinkSpec::mbit(20); 2],
        ..LabConfig::default()
    });
    let recorded = file(&cluster, "n1.sqlog");
    let name = recorded.display().to_string();
    let recorder = Program::start_quiet("trace", trace(&cluster, &["n1", "--output", &name]));
    let mut recorder = recorder.expect("starts");
    waits_for_log(&cluster, "n1 is traced", 1);
    let stream = Stream::start(&cluster);
    stream.flows(SOME_BYTES);
    let link = failover::LINK;
    cluster
        .lab()
        .fail(link, Fault::Silent, None)
        .expect("fails");
    wait_path(&cluster, link, "down");
    stream.flows(SOME_BYTES);
    cluster.lab().heal(link).expect("heals");
    wait_path(&cluster, link, "up");
    let is_told = || {
        let text = fs::read_to_string(&recorded).expect("is written");
        text.contains("\"old\":\"down\",\"new\":\"up\"")
    };
    stream.flows(SOME_BYTES);
    eventually("the return is told", is_told);
    stream.finish();
    // However the recorder ends, the daemon goes on without it. Its last record may be cut.
    recorder.kill();
    waits_for_log(&cluster, "n1 is no longer traced", 1);
    let text = fs::read_to_string(&recorded).expect("is written");
    let whole = text.rfind('\n').expect("there are records");
    let events = draft::check(&text[..=whole]).expect("is as the draft demands");
    assert_tells_failover(&events);

    let mut draw = Command::new(tabane());
    draw.arg("trace").arg("--draw").arg(&recorded);
    let drawn = ended(draw);
    assert!(drawn.status.success(), "{}", text_of(&drawn));
    let picture = text_of_output(&drawn);
    assert!(
        picture.starts_with("<svg ") && picture.contains(": down, "),
        "{picture}"
    );
}

#[test]
fn a_trace_ends_after_its_time_and_two_may_listen() {
    let cluster = cluster();
    let name = file(&cluster, "long.sqlog").display().to_string();
    let long = Program::start_quiet("trace", trace(&cluster, &["n1", "--output", &name]));
    let mut long = long.expect("starts");
    waits_for_log(&cluster, "n1 is traced", 1);
    let done = ended(trace(&cluster, &["n1", "--seconds", "1"]));
    assert!(done.status.success(), "{}", text_of(&done));
    let events = draft::check(&text_of_output(&done)).expect("is as the draft demands");
    assert!(count(&events, "tabane:path_state_updated", 0, |_| true) > 0);
    let older = ended(trace(&cluster, &["n1", "--seconds", "1", "--qvis"]));
    assert!(text_of_output(&older).contains("\"qlog_version\":\"0.3\""));
    // The long one is still told.
    waits_for_log(&cluster, "n1 is traced", 3);
    assert_eq!(cluster.log(0).matches("no longer traced").count(), 0);
    long.kill();
    waits_for_log(&cluster, "n1 is no longer traced", 1);
}

#[test]
fn what_cannot_be_traced_is_refused_with_a_reason() {
    let mut cluster = cluster();
    for (words, code, says) in [
        (&["n7"][..], 1, "no node `n7`; the peers are n1"),
        (&["n0"], 1, "`n0` is this node itself"),
        (&["n1", "--output", "/nowhere/at/all"], 1, "/nowhere/at/all"),
        (&["n1", "--seconds", "0"], 2, "0 is not in 1.."),
        (&[], 2, "<PEER>"),
        (&["--draw", "/nowhere/at/all"], 1, "/nowhere/at/all"),
        (&["--draw", "/etc/passwd"], 1, "record 1 is no JSON"),
    ] {
        let done = ended(trace(&cluster, words));
        assert_eq!(done.status.code(), Some(code), "{}", text_of(&done));
        assert!(text_of(&done).contains(says), "{}", text_of(&done));
    }
    let running = Program::start_quiet("trace", trace(&cluster, &["n1"]));
    let mut running = running.expect("starts");
    waits_for_log(&cluster, "n1 is traced", 1);
    cluster.stop(0).expect("stops");
    let done = running.wait(PATIENCE).expect("ends");
    assert_eq!(done.code(), Some(1));
    let done = ended(trace(&cluster, &["n1"]));
    assert_eq!(done.status.code(), Some(3), "{}", text_of(&done));
}
