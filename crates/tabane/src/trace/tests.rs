//! A trace of a few events is read and drawn.

use tabane_proto::trace::{PathMetrics, TraceEvent};
use tabane_proto::{LinkId, Time};
use tabane_qlog::{Form, Header, Writer};

use super::{draw, read};

fn written(form: Form) -> String {
    let writer = Writer::new(form, Time::from_ms(5));
    let mut text = String::new();
    let header = Header {
        title: "n0 to <n1>",
        vantage_point: "n0",
        group: Some("n0 to <n1>"),
        wall_clock_unix_ms: Some(0),
    };
    writer.header(&header, &mut text);
    let path = LinkId(1);
    let metrics = PathMetrics {
        window_bytes: 30_000,
        in_flight_bytes: 10_000,
        smoothed_rtt_us: 1500,
        latest_rtt_us: 1500,
        ..PathMetrics::default()
    };
    let event = TraceEvent::Metrics { path, metrics };
    writer.event(Time::from_ms(15), None, &event, &mut text);
    text
}

#[test]
fn a_trace_is_read_and_drawn() {
    let trace = read::read(&written(Form::Draft)).expect("is read");
    assert_eq!(trace.title, "n0 to <n1>");
    assert_eq!(trace.ends_ms, 10.0);
    let path = &trace.paths["1"];
    assert_eq!(path.windows, [(10.0, [30_000.0, 10_000.0])]);
    assert_eq!(path.rtts, [(10.0, 1.5)]);
    let picture = draw(&trace);
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("path 1") && picture.contains("&lt;n1&gt;"));
}

#[test]
fn what_is_no_trace_is_refused_with_a_reason() {
    for (text, says) in [
        (String::new(), "empty"),
        ("\u{1e}{\n".to_owned(), "record 1 is no JSON"),
        ("\u{1e}{}\n".to_owned(), "file_schema"),
        (written(Form::Qvis), "without --qvis"),
    ] {
        let refusal = read::read(&text).expect_err("is none");
        assert!(refusal.contains(says), "{refusal}");
    }
}
