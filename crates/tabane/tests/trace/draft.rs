//! What draft-ietf-quic-qlog-main-schema-14 and draft-ietf-quic-qlog-quic-events-13 demand of a `QlogFileSeq`, as far as
//! tabane writes events of theirs: fields, their types and values, as the CDDL there has them, and what the text says of
//! JSON text sequences.
//!
//! A field that the draft does not have may be in the draft's events only if it begins with `tabane_`: that is the
//! extension which the header announces. tabane's own events have the fields that `docs/operation.md` says, no others.

use serde_json::{Map, Value};

/// What a field holds.
enum Kind {
    Text,
    /// `float32`, `float64`.
    Float,
    /// `uint16`, `uint32`, `uint64`: at most this.
    Uint(u64),
    Bool,
    OneOf(&'static [&'static str]),
    Object(&'static [Field]),
    /// Of at least so many.
    Array(usize, &'static Kind),
    /// Any number of fields of this kind.
    MapOf(&'static Kind),
}

struct Field {
    name: &'static str,
    kind: Kind,
    is_required: bool,
}

const fn must(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        is_required: true,
    }
}

const fn may(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        is_required: false,
    }
}

const UINT16: Kind = Kind::Uint(0xffff);
const UINT32: Kind = Kind::Uint(0xffff_ffff);
const UINT64: Kind = Kind::Uint(u64::MAX);

// ---- main-schema-14: QlogFileSeq, TraceSeq, CommonFields, VantagePoint ----

const SEQUENTIAL: &str = "urn:ietf:params:qlog:file:sequential";
const JSON_SEQ: &str = "application/qlog+json-seq";
/// "SHOULD be in the first 256 characters" of the file.
const NAMED_WITHIN: usize = 256;

const REFERENCE_TIME: &[Field] = &[
    must("clock_type", Kind::OneOf(&["system", "monotonic"])),
    must("epoch", Kind::Text),
    may("wall_clock_time", Kind::Text),
];
const COMMON_FIELDS: &[Field] = &[
    may("tuple", Kind::Text),
    may(
        "time_format",
        Kind::OneOf(&["relative_to_epoch", "relative_to_previous_event"]),
    ),
    may("reference_time", Kind::Object(REFERENCE_TIME)),
    may("group_id", Kind::Text),
];
const VANTAGE_POINT: &[Field] = &[
    may("name", Kind::Text),
    must(
        "type",
        Kind::OneOf(&["client", "server", "network", "unknown"]),
    ),
    may("flow", Kind::OneOf(&["client", "server", "unknown"])),
];
const TRACE_SEQ: &[Field] = &[
    may("title", Kind::Text),
    may("description", Kind::Text),
    may("common_fields", Kind::Object(COMMON_FIELDS)),
    may("vantage_point", Kind::Object(VANTAGE_POINT)),
    must("event_schemas", Kind::Array(1, &Kind::Text)),
];
const HEADER: &[Field] = &[
    must("file_schema", Kind::OneOf(&[SEQUENTIAL])),
    must("serialization_format", Kind::OneOf(&[JSON_SEQ])),
    may("title", Kind::Text),
    may("description", Kind::Text),
    must("trace", Kind::Object(TRACE_SEQ)),
];
/// Without `data`, which each event has its own of.
const EVENT: &[Field] = &[
    must("time", Kind::Float),
    must("name", Kind::Text),
    may("tuple", Kind::Text),
    may("group_id", Kind::Text),
];

// ---- quic-events-13 ----

const PACKET_HEADER: &[Field] = &[
    must(
        "packet_type",
        Kind::OneOf(&[
            "initial",
            "handshake",
            "0RTT",
            "1RTT",
            "retry",
            "version_negotiation",
            "stateless_reset",
            "unknown",
        ]),
    ),
    may("packet_number", UINT64),
];
const RAW_INFO: &[Field] = &[may("length", UINT64), may("payload_length", UINT64)];
/// `$QuicFrame`, "which can be extended to support additional frame types": two of the draft's, and tabane's records.
const FRAME: &[Field] = &[must(
    "frame_type",
    Kind::OneOf(&[
        "ack",
        "padding",
        "in_flight",
        "probe",
        "probe_reply",
        "link_state",
        "link_state_ack",
        "stream_piece",
        "stream_control",
        "window",
        "frame_piece",
        "message_piece",
        "extension_content",
        "extension",
        "grant",
        "waited",
        "close",
    ]),
)];
const FRAMES: Kind = Kind::Array(0, &Kind::Object(FRAME));
const PACKET_SENT: &[Field] = &[
    must("header", Kind::Object(PACKET_HEADER)),
    may("frames", FRAMES),
    may("raw", Kind::Object(RAW_INFO)),
    may("is_mtu_probe_packet", Kind::Bool),
    may(
        "trigger",
        Kind::OneOf(&[
            "retransmit_reordered",
            "retransmit_timeout",
            "pto_probe",
            "retransmit_crypto",
            "cc_bandwidth_probe",
        ]),
    ),
];
const PACKET_RECEIVED: &[Field] = &[
    must("header", Kind::Object(PACKET_HEADER)),
    may("frames", FRAMES),
    may("raw", Kind::Object(RAW_INFO)),
    may("trigger", Kind::OneOf(&["keys_available"])),
];
const PACKETS_ACKED: &[Field] = &[
    may(
        "packet_number_space",
        Kind::OneOf(&["initial", "handshake", "application_data"]),
    ),
    may("packet_numbers", Kind::Array(1, &UINT64)),
];
const PACKET_LOST: &[Field] = &[
    may("header", Kind::Object(PACKET_HEADER)),
    may("frames", FRAMES),
    may("is_mtu_probe_packet", Kind::Bool),
    may(
        "trigger",
        Kind::OneOf(&["reordering_threshold", "time_threshold", "pto_expired"]),
    ),
];
const METRICS: &[Field] = &[
    may("min_rtt", Kind::Float),
    may("smoothed_rtt", Kind::Float),
    may("latest_rtt", Kind::Float),
    may("rtt_variance", Kind::Float),
    may("pto_count", UINT16),
    may("congestion_window", UINT64),
    may("bytes_in_flight", UINT64),
    may("ssthresh", UINT64),
    may("packets_in_flight", UINT64),
    may("pacing_rate", UINT64),
];
const CONGESTION_STATE: &[Field] = &[
    may("old", Kind::Text),
    must("new", Kind::Text),
    may("trigger", Kind::Text),
];
const MTU: &[Field] = &[
    may("old", UINT32),
    must("new", UINT32),
    may("done", Kind::Bool),
];
const ENDPOINT: &[Field] = &[
    may("ip_v4", Kind::Text),
    may("port_v4", UINT16),
    may("ip_v6", Kind::Text),
    may("port_v6", UINT16),
];
const TUPLE_ASSIGNED: &[Field] = &[
    must("tuple_id", Kind::Text),
    may("tuple_remote", Kind::Object(ENDPOINT)),
    may("tuple_local", Kind::Object(ENDPOINT)),
];
/// "implementations are allowed to use other ConnectionState values".
const CONNECTION_STATE: &[Field] = &[may("old", Kind::Text), must("new", Kind::Text)];

// ---- tabane's own ----

const WITNESS: Kind = Kind::OneOf(&[
    "arrival_skew",
    "unacked_age",
    "kernel_link",
    "probe_timeout",
    "peer",
    "probes_answered",
]);
const PATH_STATE_VALUES: Kind = Kind::OneOf(&["untested", "up", "suspect", "down"]);
const STANDBY_VALUES: Kind = Kind::OneOf(&[
    "none",
    "slow",
    "on_trial",
    "unsettled",
    "late",
    "never_chosen",
]);
const PATH_STATE: &[Field] = &[
    may("old", PATH_STATE_VALUES),
    must("new", PATH_STATE_VALUES),
    may("witness", WITNESS),
];
const VERDICT: &[Field] = &[
    must("end", Kind::OneOf(&["own", "peer"])),
    must("verdict", Kind::OneOf(&["up", "down"])),
    must("witness", WITNESS),
];
const STANDBY: &[Field] = &[must("old", STANDBY_VALUES), must("new", STANDBY_VALUES)];
const CHOSEN: &[Field] = &[
    must(
        "why",
        Kind::OneOf(&[
            "only", "fastest", "bulk", "sooner", "resent", "relayed", "mirrored", "explores",
        ]),
    ),
    must("queued_bytes", UINT32),
    must("lost_bytes", UINT32),
    must("delivery_ms", Kind::MapOf(&Kind::Float)),
];
const GRANT: &[Field] = &[must("is_limited", Kind::Bool), may("bits_per_s", UINT64)];
const LEFT_OUT: &[Field] = &[must("events", UINT64)];

/// Each event's `data`.
const EVENTS: &[(&str, &[Field])] = &[
    ("quic:packet_sent", PACKET_SENT),
    ("quic:packet_received", PACKET_RECEIVED),
    ("quic:packets_acked", PACKETS_ACKED),
    ("quic:packet_lost", PACKET_LOST),
    ("quic:recovery_metrics_updated", METRICS),
    ("quic:congestion_state_updated", CONGESTION_STATE),
    ("quic:mtu_updated", MTU),
    ("quic:tuple_assigned", TUPLE_ASSIGNED),
    ("quic:connection_state_updated", CONNECTION_STATE),
    ("tabane:session_begun", &[]),
    ("tabane:path_state_updated", PATH_STATE),
    ("tabane:verdict_updated", VERDICT),
    ("tabane:standby_updated", STANDBY),
    ("tabane:path_chosen", CHOSEN),
    ("tabane:grant_updated", GRANT),
    ("tabane:events_left_out", LEFT_OUT),
];

/// Reads a whole file; returns its events.
///
/// # Errors
/// Which record breaks what.
pub fn check(text: &str) -> Result<Vec<Value>, String> {
    let mut records = Vec::new();
    let sequence = text
        .strip_prefix('\u{1e}')
        .ok_or("does not begin with RS")?;
    for (i, record) in sequence.split('\u{1e}').enumerate() {
        let end = record.strip_suffix('\n');
        let json = end.ok_or(format!("record {i} does not end with a newline"))?;
        let value = serde_json::from_str(json).map_err(|error| format!("record {i}: {error}"))?;
        records.push(value);
    }
    check_header(text, &records[0]).map_err(|what| format!("header: {what}"))?;
    let mut before = 0.0;
    for (i, record) in records.iter().enumerate().skip(1) {
        check_event(record).map_err(|what| format!("record {i}: {what}: {record}"))?;
        let time = record["time"].as_f64().unwrap_or(-1.0);
        if time < before {
            return Err(format!("record {i} is earlier than the one before"));
        }
        before = time;
    }
    records.remove(0);
    Ok(records)
}

fn check_header(text: &str, header: &Value) -> Result<(), String> {
    let beginning: String = text.chars().take(NAMED_WITHIN).collect();
    for named in [SEQUENTIAL, JSON_SEQ] {
        if !beginning.contains(named) {
            return Err(format!("{named} is not in the first {NAMED_WITHIN}"));
        }
    }
    check_object(header, HEADER, "")?;
    let trace = &header["trace"];
    let time = &trace["common_fields"]["reference_time"];
    if time["clock_type"] == "monotonic" && time["epoch"] != "unknown" {
        return Err("the epoch of a monotonic clock is not unknown".to_owned());
    }
    let schemas = trace["event_schemas"].as_array().into_iter().flatten();
    for schema in schemas.filter_map(Value::as_str) {
        // Until there is an RFC, the draft's number is appended; private ones are no URN of the registry.
        let is_of_draft = schema == "urn:ietf:params:qlog:events:quic-13";
        let is_private = schema.starts_with("https://");
        if !is_of_draft && !is_private {
            return Err(format!("{schema} is no schema that may be named"));
        }
    }
    Ok(())
}

fn check_event(event: &Value) -> Result<(), String> {
    for field in EVENT {
        check_field(object(event)?, field)?;
    }
    if event["time"].as_f64().is_none_or(|time| time < 0.0) {
        return Err("`time` is before the beginning".to_owned());
    }
    let name = event["name"].as_str().unwrap_or_default();
    let known = EVENTS.iter().find(|(known, _)| *known == name);
    let (_, fields) = known.ok_or(format!("no event is called {name}"))?;
    let extension = if name.starts_with("quic:") {
        "tabane_"
    } else {
        ""
    };
    let data = event.get("data").ok_or("`data` is missing")?;
    check_object(data, fields, extension)
}

fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or(format!("{value} is no object"))
}

/// `extension`: what other fields begin with; empty: there may be no others.
fn check_object(value: &Value, fields: &[Field], extension: &str) -> Result<(), String> {
    let there = object(value)?;
    for field in fields {
        check_field(there, field)?;
    }
    for name in there.keys() {
        let is_known = fields.iter().any(|field| field.name == name);
        let is_extension = !extension.is_empty() && name.starts_with(extension);
        if !is_known && !is_extension {
            return Err(format!("`{name}` is not in the schema"));
        }
        if name.chars().any(|c| c.is_ascii_uppercase()) {
            return Err(format!("`{name}` is not in lowercase"));
        }
    }
    Ok(())
}

fn check_field(there: &Map<String, Value>, field: &Field) -> Result<(), String> {
    match there.get(field.name) {
        Some(value) if fits(value, &field.kind)? => Ok(()),
        Some(value) => Err(format!("`{}` cannot be {value}", field.name)),
        None if field.is_required => Err(format!("`{}` is missing", field.name)),
        None => Ok(()),
    }
}

fn fits(value: &Value, kind: &Kind) -> Result<bool, String> {
    Ok(match kind {
        Kind::Text => value.is_string(),
        Kind::Float => value.is_number(),
        Kind::Uint(max) => value.as_u64().is_some_and(|number| number <= *max),
        Kind::Bool => value.is_boolean(),
        Kind::OneOf(values) => value.as_str().is_some_and(|text| values.contains(&text)),
        Kind::Object(fields) => return check_object(value, fields, "").map(|()| true),
        Kind::Array(least, kind) => match value.as_array() {
            Some(items) => items.len() >= *least && all_fit(items.iter(), kind)?,
            None => false,
        },
        Kind::MapOf(kind) => match value.as_object() {
            Some(map) => all_fit(map.values(), kind)?,
            None => false,
        },
    })
}

fn all_fit<'a>(mut values: impl Iterator<Item = &'a Value>, kind: &Kind) -> Result<bool, String> {
    values.try_fold(true, |all, value| Ok(all && fits(value, kind)?))
}
