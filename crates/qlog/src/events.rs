//! Records: which event of the draft, or of tabane's own, tells what.

use core::time::Duration;
use std::net::SocketAddr;

use tabane_proto::link::{GivenUp, PathState};
use tabane_proto::trace::{Chosen, End, Packet, PathMetrics, TraceEvent, Why};
use tabane_proto::wire::{LinkVerdict, Witness};
use tabane_proto::{LinkId, PeerState, Standby};

use crate::json::{Json, quote};
use crate::{
    ADDED_TO_QUIC, EVENTS_OF_QUIC, EVENTS_OF_TABANE, FILE_SCHEMA, Form, Header, SERIALIZATION,
};

/// Character before each record of a JSON text sequence; next, the one after it (RFC 7464).
const RECORD_BEGINS: char = '\u{1e}';
const RECORD_ENDS: char = '\n';

/// The first record.
pub fn header(header: &Header<'_>, text: &mut String) {
    text.push(RECORD_BEGINS);
    let mut json = Json::object(text);
    json.string("file_schema", FILE_SCHEMA);
    json.string("serialization_format", SERIALIZATION);
    json.string("title", header.title);
    json.inside("trace", |trace| {
        trace.inside("common_fields", |common| {
            common.string_if("group_id", header.group);
            common.string("time_format", "relative_to_epoch");
            common.inside("reference_time", |reference| {
                reference.string("clock_type", "monotonic");
                reference.string("epoch", "unknown");
                let wall_clock = header.wall_clock_unix_ms.map(rfc3339);
                reference.string_if("wall_clock_time", wall_clock.as_deref());
            });
        });
        trace.inside("vantage_point", |point| {
            point.string("name", header.vantage_point);
            // Both ends may begin a session.
            point.string("type", "unknown");
        });
        let schemas = [EVENTS_OF_QUIC, EVENTS_OF_TABANE, ADDED_TO_QUIC];
        trace.array("event_schemas", schemas, quote);
    });
    json.end();
    text.push(RECORD_ENDS);
}

/// The first record of a file for qvis.
pub fn header_for_qvis(header: &Header<'_>, text: &mut String) {
    text.push(RECORD_BEGINS);
    let mut json = Json::object(text);
    json.string("qlog_version", "0.3");
    json.string("qlog_format", "JSON-SEQ");
    json.string("title", header.title);
    json.inside("trace", |trace| {
        trace.string("title", header.title);
        trace.inside("common_fields", |common| {
            common.string("time_format", "relative");
            common.number("reference_time", header.wall_clock_unix_ms.unwrap_or(0));
        });
        trace.inside("vantage_point", |point| {
            point.string("name", header.vantage_point);
            // qvis draws only what a client or a server sends.
            point.string("type", "client");
        });
    });
    json.end();
    text.push(RECORD_ENDS);
}

/// The record of an event at this time since the trace began.
pub fn record(
    form: Form,
    after: Duration,
    group: Option<&str>,
    event: &TraceEvent,
    text: &mut String,
) {
    text.push(RECORD_BEGINS);
    let mut json = Json::object(text);
    json.number(
        "time",
        format_args!("{}.{:06}", after.as_millis(), after.as_nanos() % 1_000_000),
    );
    let (namespace, name) = name(form, event);
    json.string_joined("name", namespace, name);
    let path = path_of(event);
    match (form, path) {
        (Form::Draft, path) => {
            if let Some(path) = path {
                json.number("tuple", format_args!("\"{}\"", path.0));
            }
            json.string_if("group_id", group);
        }
        (Form::Qvis, path) => group_by_path(&mut json, group, path),
    }
    json.inside("data", |data| fill(form, data, event));
    json.end();
    text.push(RECORD_ENDS);
}

/// Makes each path a group of its own, and one for events of all paths.
fn group_by_path(json: &mut Json<'_>, group: Option<&str>, path: Option<LinkId>) {
    let group = group.map_or(String::new(), |group| format!("{group}, "));
    let group = match path {
        Some(path) => format!("{group}path {}", path.0),
        None => format!("{group}all paths"),
    };
    json.string("group_id", &group);
}

fn path_of(event: &TraceEvent) -> Option<LinkId> {
    match *event {
        TraceEvent::PeerState { .. } | TraceEvent::Session | TraceEvent::LeftOut { .. } => None,
        TraceEvent::Chosen(Chosen { path, .. })
        | TraceEvent::Sent(Packet { path, .. })
        | TraceEvent::Received(Packet { path, .. })
        | TraceEvent::Address { path, .. }
        | TraceEvent::PathState { path, .. }
        | TraceEvent::Verdict { path, .. }
        | TraceEvent::Standby { path, .. }
        | TraceEvent::Acked { path, .. }
        | TraceEvent::Lost { path, .. }
        | TraceEvent::Metrics { path, .. }
        | TraceEvent::Congestion { path, .. }
        | TraceEvent::Mtu { path, .. }
        | TraceEvent::Granted { path, .. } => Some(path),
    }
}

/// The namespace and the name of an event. The older draft had several namespaces for those of QUIC.
fn name(form: Form, event: &TraceEvent) -> (&'static str, &'static str) {
    let (older, name) = match event {
        TraceEvent::Sent(_) => ("transport", "packet_sent"),
        TraceEvent::Received(_) => ("transport", "packet_received"),
        TraceEvent::Acked { .. } => match form {
            Form::Draft => ("transport", "packets_acked"),
            Form::Qvis => ("transport", "packet_received"),
        },
        TraceEvent::Lost { .. } => ("recovery", "packet_lost"),
        TraceEvent::Metrics { .. } => match form {
            Form::Draft => ("recovery", "recovery_metrics_updated"),
            Form::Qvis => ("recovery", "metrics_updated"),
        },
        TraceEvent::Congestion { .. } => ("recovery", "congestion_state_updated"),
        TraceEvent::Mtu { .. } => ("connectivity", "mtu_updated"),
        TraceEvent::Address { .. } => ("connectivity", "tuple_assigned"),
        TraceEvent::PeerState { .. } => ("connectivity", "connection_state_updated"),
        TraceEvent::Session => return ("tabane", "session_begun"),
        TraceEvent::PathState { .. } => return ("tabane", "path_state_updated"),
        TraceEvent::Verdict { .. } => return ("tabane", "verdict_updated"),
        TraceEvent::Standby { .. } => return ("tabane", "standby_updated"),
        TraceEvent::Chosen(_) => return ("tabane", "path_chosen"),
        TraceEvent::Granted { .. } => return ("tabane", "grant_updated"),
        TraceEvent::LeftOut { .. } => return ("tabane", "events_left_out"),
    };
    match form {
        Form::Draft => ("quic", name),
        Form::Qvis => (older, name),
    }
}

fn fill(form: Form, data: &mut Json<'_>, event: &TraceEvent) {
    match *event {
        TraceEvent::Address { path, remote } => address(data, path, remote),
        TraceEvent::PeerState { before, now } => {
            data.string_if("old", before.map(peer_state));
            data.string("new", peer_state(now));
        }
        TraceEvent::Session => {}
        TraceEvent::PathState {
            before,
            now,
            witness: by,
            ..
        } => {
            data.string_if("old", before.map(path_state));
            data.string("new", path_state(now));
            // A suspect path, or one that never worked, has no witness yet.
            let is_judged = matches!(now, PathState::Up | PathState::Down);
            data.string_if("witness", is_judged.then(|| witness(by)));
        }
        TraceEvent::Verdict {
            end,
            verdict: says,
            witness: by,
            ..
        } => {
            data.string("end", end_name(end));
            data.string("verdict", verdict(says));
            data.string("witness", witness(by));
        }
        TraceEvent::Standby { before, now, .. } => {
            data.string("old", before.map_or("none", standby));
            data.string("new", now.map_or("none", standby));
        }
        TraceEvent::Chosen(chosen) => choice(data, &chosen),
        TraceEvent::Sent(p) | TraceEvent::Received(p) => packet(data, &p, event),
        TraceEvent::Acked { first, count, .. } => acked(form, data, first, count),
        TraceEvent::Lost {
            number,
            bytes,
            cause,
            ..
        } => lost(data, number, bytes, cause),
        TraceEvent::Metrics { metrics: m, .. } => metrics(data, &m),
        TraceEvent::Congestion { before, now, .. } => {
            data.string_if("old", before);
            data.string("new", now);
        }
        TraceEvent::Mtu { before, now, .. } => {
            if let Some(before) = before {
                data.number("old", before);
            }
            data.number("new", now);
        }
        TraceEvent::Granted { bytes_per_s, .. } => {
            data.number("is_limited", bytes_per_s.is_some());
            if let Some(bytes_per_s) = bytes_per_s {
                data.number("bits_per_s", bits(bytes_per_s));
            }
        }
        TraceEvent::LeftOut { events } => {
            data.number("events", events);
        }
    }
}

fn address(data: &mut Json<'_>, path: LinkId, remote: SocketAddr) {
    data.number("tuple_id", format_args!("\"{}\"", path.0));
    data.inside("tuple_remote", |end| {
        let (ip, port) = match remote {
            SocketAddr::V4(_) => ("ip_v4", "port_v4"),
            SocketAddr::V6(_) => ("ip_v6", "port_v6"),
        };
        end.number(ip, format_args!("\"{}\"", remote.ip()));
        end.number(port, remote.port());
    });
}

fn choice(data: &mut Json<'_>, chosen: &Chosen) {
    data.string("why", why(chosen.why));
    data.number("queued_bytes", chosen.queued_bytes);
    data.number("lost_bytes", chosen.lost_bytes);
    data.inside("delivery_ms", |delivery| {
        for (path, us) in chosen.delivery_us.into_iter().enumerate() {
            if us != Chosen::NO_CANDIDATE {
                delivery.number(&path.to_string(), ms(us));
            }
        }
    });
}

/// All of tabane's packets with content are of one kind: QUIC's under the keys of a session.
fn numbered(data: &mut Json<'_>, number: u64) {
    data.inside("header", |header| {
        header.string("packet_type", "1RTT");
        header.number("packet_number", number);
    });
}

fn packet(data: &mut Json<'_>, packet: &Packet, event: &TraceEvent) {
    numbered(data, packet.number);
    let frame = |name: &str, text: &mut String| {
        let mut frame = Json::object(text);
        frame.string("frame_type", name);
        frame.end();
    };
    data.array("frames", packet.records.names(), frame);
    data.inside("raw", |raw| {
        raw.number("length", packet.bytes);
    });
    let is_probe = packet.records.has("probe") && packet.records.has("padding");
    if is_probe && matches!(event, TraceEvent::Sent(_)) {
        data.number("is_mtu_probe_packet", true);
    }
}

fn acked(form: Form, data: &mut Json<'_>, first: u64, count: u32) {
    let last = first + u64::from(count) - 1;
    match form {
        Form::Draft => {
            data.array("packet_numbers", first..=last, |number, text| {
                text.push_str(&number.to_string());
            });
        }
        Form::Qvis => {
            data.inside("header", |header| {
                header.string("packet_type", "1RTT");
            });
            data.array("frames", [()], |(), text| {
                let mut frame = Json::object(text);
                frame.string("frame_type", "ack");
                frame.number("acked_ranges", format_args!("[[{first},{last}]]"));
                frame.end();
            });
        }
    }
}

fn lost(data: &mut Json<'_>, number: u64, bytes: u32, cause: GivenUp) {
    numbered(data, number);
    match cause {
        GivenUp::Overtaken => data.string("trigger", "time_threshold"),
        GivenUp::Overdue => data.string("trigger", "pto_expired"),
        // The draft has no word for it.
        GivenUp::Released => data.string("tabane_cause", "path_failed"),
    };
    data.number("tabane_bytes", bytes);
}

fn metrics(data: &mut Json<'_>, metrics: &PathMetrics) {
    data.number("congestion_window", metrics.window_bytes);
    data.number("bytes_in_flight", metrics.in_flight_bytes);
    data.number("packets_in_flight", metrics.in_flight_packets);
    data.number("pto_count", metrics.probe_timeouts.min(u32::from(u16::MAX)));
    if metrics.latest_rtt_us > 0 {
        data.number("smoothed_rtt", ms(metrics.smoothed_rtt_us));
        data.number("min_rtt", ms(metrics.least_rtt_us));
        data.number("latest_rtt", ms(metrics.latest_rtt_us));
        data.number("rtt_variance", ms(metrics.rtt_variation_us));
    }
    data.number("tabane_rate_bits_per_s", bits(metrics.rate_bytes_per_s));
    data.number(
        "tabane_loss_ratio",
        format_args!("{:.5}", metrics.loss_ratio),
    );
}

/// Milliseconds as the draft has them.
fn ms(us: u32) -> f64 {
    f64::from(us) / 1e3
}

fn bits(bytes_per_s: f64) -> u64 {
    (bytes_per_s * 8.0) as u64
}

/// The draft's base states where they mean the same; others it leaves to implementations.
fn peer_state(state: PeerState) -> &'static str {
    match state {
        PeerState::Connecting => "attempted",
        PeerState::Up => "handshake_complete",
        PeerState::Down => "tabane_down",
        PeerState::OnDemand => "tabane_on_demand",
    }
}

fn path_state(state: PathState) -> &'static str {
    match state {
        PathState::Untested => "untested",
        PathState::Up => "up",
        PathState::Suspect => "suspect",
        PathState::Down => "down",
    }
}

fn verdict(verdict: LinkVerdict) -> &'static str {
    match verdict {
        LinkVerdict::Up => "up",
        LinkVerdict::Down => "down",
    }
}

fn witness(witness: Witness) -> &'static str {
    match witness {
        Witness::ArrivalSkew => "arrival_skew",
        Witness::UnackedAge => "unacked_age",
        Witness::KernelLink => "kernel_link",
        Witness::ProbeTimeout => "probe_timeout",
        Witness::Peer => "peer",
        Witness::ProbesAnswered => "probes_answered",
    }
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Own => "own",
        End::Peer => "peer",
    }
}

fn standby(standby: Standby) -> &'static str {
    match standby {
        Standby::Slow => "slow",
        Standby::OnTrial => "on_trial",
        Standby::Unsettled => "unsettled",
        Standby::Late => "late",
        Standby::NeverChosen => "never_chosen",
    }
}

fn why(why: Why) -> &'static str {
    match why {
        Why::Only => "only",
        Why::Fastest => "fastest",
        Why::Bulk => "bulk",
        Why::Sooner => "sooner",
        Why::Meant => "meant",
        Why::Resent => "resent",
        Why::Relayed => "relayed",
        Why::Mirrored => "mirrored",
        Why::Explores => "explores",
    }
}

/// A time of the wall clock, in milliseconds since 1970-01-01 UTC, as RFC 3339 writes it.
fn rfc3339(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    // Days since 0000-03-01, in eras of 400 years: the leap day is then the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year_of_era + later;
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1000 % 60, ms % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn days_have_the_dates_of_the_calendar() {
        for (unix_s, is) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(unix_s * 1000), is);
        }
        assert_eq!(rfc3339(1_234_567_890_123), "2009-02-13T23:31:30.123Z");
    }
}
