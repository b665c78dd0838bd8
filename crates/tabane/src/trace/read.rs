//! Reads a qlog of `tabane trace` or `sim`, as far as a picture needs it.

use std::collections::BTreeMap;

use serde_json::Value;
use tabane_qlog::FILE_SCHEMA;

/// A record begins with this (RFC 7464).
const RECORD_BEGINS: char = '\u{1e}';

/// Events of a path, in the order of time; times in milliseconds.
#[derive(Debug, Default)]
pub struct PathTrace {
    /// When a packet was sent, and its length in bytes.
    pub sent: Vec<(f64, f64)>,
    /// When its figures were told: congestion window and bytes in flight.
    pub windows: Vec<(f64, [f64; 2])>,
    /// Smoothed round trip, in milliseconds.
    pub rtts: Vec<(f64, f64)>,
    /// Its states.
    pub states: Vec<(f64, String)>,
    /// Verdicts, in words.
    pub verdicts: Vec<(f64, String)>,
    /// When it was chosen, and why.
    pub chosen: Vec<(f64, String)>,
    /// When packets were given up.
    pub lost: Vec<f64>,
}

/// One end's events of one bundle.
#[derive(Debug, Default)]
pub struct Trace {
    /// The title of the trace.
    pub title: String,
    /// Its paths, by their numbers.
    pub paths: BTreeMap<String, PathTrace>,
    /// When the last event was, in milliseconds.
    pub ends_ms: f64,
}

/// Reads a file. If it has several ends, takes the one that sent most packets.
///
/// # Errors
/// Why it cannot be read.
pub fn read(text: &str) -> Result<Trace, String> {
    // An incomplete record at the end, of a writer that was killed, is ignored.
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let mut records = whole
        .split(RECORD_BEGINS)
        .filter(|record| !record.is_empty());
    let header = records.next().ok_or("it is empty")?;
    let header = parse(header, 1)?;
    if header["file_schema"] != FILE_SCHEMA {
        return Err(format!(
            "it is no qlog whose `file_schema` is {FILE_SCHEMA}; record without --qvis what is to be drawn"
        ));
    }
    let common = header["trace"]["common_fields"]["group_id"].as_str();
    let title = header["title"].as_str().unwrap_or_default();
    let mut traces: BTreeMap<String, Trace> = BTreeMap::new();
    for (i, record) in records.enumerate() {
        let event = parse(record, i + 2)?;
        let group = event["group_id"].as_str().or(common).unwrap_or_default();
        if !traces.contains_key(group) {
            traces.insert(group.to_owned(), Trace::default());
        }
        if let Some(trace) = traces.get_mut(group) {
            trace.take(&event);
        }
    }
    let sent = |trace: &Trace| -> usize { trace.paths.values().map(|path| path.sent.len()).sum() };
    let most = traces.into_iter().max_by_key(|(_, trace)| sent(trace));
    let (group, mut trace) = most.ok_or("there is no event in it")?;
    trace.title = match group == title || group.is_empty() {
        true => title.to_owned(),
        false => format!("{title}: {group}"),
    };
    Ok(trace)
}

fn parse(record: &str, number: usize) -> Result<Value, String> {
    serde_json::from_str(record).map_err(|error| format!("record {number} is no JSON: {error}"))
}

impl Trace {
    fn take(&mut self, event: &Value) {
        let Some(at) = event["time"].as_f64() else {
            return;
        };
        self.ends_ms = self.ends_ms.max(at);
        let Some(path) = event["tuple"].as_str() else {
            return;
        };
        let path = self.paths.entry(path.to_owned()).or_default();
        let data = &event["data"];
        let word = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
        match event["name"].as_str().unwrap_or_default() {
            "quic:packet_sent" => {
                let bytes = data["raw"]["length"].as_f64();
                path.sent.push((at, bytes.unwrap_or_default()));
            }
            "quic:packet_lost" => path.lost.push(at),
            "quic:recovery_metrics_updated" => {
                let window = data["congestion_window"].as_f64();
                let in_flight = data["bytes_in_flight"].as_f64();
                if let (Some(window), Some(in_flight)) = (window, in_flight) {
                    path.windows.push((at, [window, in_flight]));
                }
                let rtt = data["smoothed_rtt"].as_f64();
                path.rtts.extend(rtt.map(|rtt| (at, rtt)));
            }
            "tabane:path_state_updated" => path.states.push((at, word("new"))),
            "tabane:verdict_updated" => {
                let text = format!("{}: {}, {}", word("end"), word("verdict"), word("witness"));
                path.verdicts.push((at, text));
            }
            "tabane:path_chosen" => path.chosen.push((at, word("why"))),
            _ => {}
        }
    }
}
