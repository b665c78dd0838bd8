//! The text format of OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).
//!
//! Only gauges and counters are used, so that scrapers for the older Prometheus text
//! format can read it as well.

use std::fmt::Write;

use super::families::{Family, Kind, families};
use crate::status::StatusReport;

/// The media type of [`render`]'s output.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a report.
pub fn render(report: &StatusReport) -> String {
    let mut text = String::new();
    for family in families() {
        head(family, &mut text);
        let mut samples = Samples {
            text: &mut text,
            family,
        };
        (family.samples)(report, &mut samples);
    }
    text.push_str("# EOF\n");
    text
}

fn head(family: &Family, text: &mut String) {
    let name = family.name;
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if let Some(unit) = family.unit.suffix() {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = write!(text, "# HELP {name} ");
    escape(family.help, text);
    text.push('\n');
}

/// Takes the samples of one family.
pub struct Samples<'a> {
    text: &'a mut String,
    family: &'a Family,
}

impl Samples<'_> {
    /// One sample. `labels` are the values of the family's labels, in their order.
    pub fn add(&mut self, labels: &[&str], value: f64) {
        debug_assert_eq!(labels.len(), self.family.labels.len());
        if !value.is_finite() {
            return;
        }
        self.text.push_str(self.family.name);
        if self.family.kind == Kind::Counter {
            self.text.push_str("_total");
        }
        let mut separator = '{';
        for (name, value) in self.family.labels.iter().zip(labels) {
            let _ = write!(self.text, "{separator}{name}=\"");
            escape(value, self.text);
            self.text.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

fn escape(value: &str, text: &mut String) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}
