//! The result for people.

use std::fmt::Write;

use super::report::{BenchReport, DatagramsResult, LinkResult, Processor, RoundTrips, WayResult};
use super::sample::Way;
use crate::status::{clean, metric, round_trip_if_known};

/// A line about what is being measured.
pub fn phase(name: &str) -> String {
    format!("measuring: {}", clean(name))
}

/// The result as a table.
pub fn table(report: &BenchReport) -> String {
    let mut out = String::new();
    let (node, peer) = (clean(&report.node), clean(&report.peer));
    let _ = writeln!(out, "{node} to {peer} and back, {} s", report.seconds);
    let _ = writeln!(out);
    row(
        &mut out,
        "b/s",
        [&format!("TO {peer}"), &format!("FROM {peer}")].map(String::as_str),
    );
    for of in &report.links {
        let name = format!("link {} alone", of.link);
        row(
            &mut out,
            &name,
            [&rate(of.alone_out_mbps), &rate(of.alone_back_mbps)].map(|it| it.as_str()),
        );
    }
    for (name, ways) in [
        ("all links", [&report.out, &report.back]),
        ("both at once", [&report.both_out, &report.both_back]),
    ] {
        let rates = ways.map(|way| rate(way.as_ref().map(|way| way.mbps)));
        row(&mut out, name, rates.each_ref().map(String::as_str));
    }
    datagrams(report, &mut out);
    let _ = writeln!(out);
    trips(&mut out, "round trips, idle", &report.idle);
    trips(&mut out, "round trips, loaded", &report.loaded);
    for (way, result) in ways(report) {
        let _ = writeln!(out);
        let name = match way {
            Way::Out => format!("to {peer}"),
            Way::Back => format!("from {peer}"),
        };
        way_lines(&mut out, &name, way, result, &report.links);
    }
    out
}

/// Both ways over all links, one at a time.
fn ways(report: &BenchReport) -> impl Iterator<Item = (Way, &WayResult)> {
    let ways = [(Way::Out, &report.out), (Way::Back, &report.back)];
    ways.into_iter()
        .filter_map(|(way, result)| Some((way, result.as_ref()?)))
}

fn row(out: &mut String, name: &str, [to, from]: [&str; 2]) {
    let line = format!("{name:<20} {to:>12} {from:>12}");
    let _ = writeln!(out, "{}", line.trim_end());
}

fn rate(mbps: Option<f64>) -> String {
    mbps.map_or_else(|| "-".to_owned(), |mbps| metric(mbps * 1e6))
}

fn datagrams(report: &BenchReport, out: &mut String) {
    let ways = [&report.datagrams_out, &report.datagrams_back];
    if ways.iter().all(|way| way.is_none()) {
        return;
    }
    let shown = |show: &dyn Fn(&DatagramsResult) -> String| {
        ways.map(|way| way.as_ref().map_or_else(|| "-".to_owned(), show))
    };
    for (name, cells) in [
        ("datagrams", shown(&|way| rate(Some(way.mbps)))),
        ("datagrams per s", shown(&|way| metric(way.per_s))),
        (
            "datagrams lost",
            shown(&|way| format!("{:.2}%", way.loss_percent)),
        ),
    ] {
        row(out, name, cells.each_ref().map(String::as_str));
    }
}

fn trips(out: &mut String, name: &str, trips: &RoundTrips) {
    let _ = writeln!(
        out,
        "{name:<20} median {}, 99% within {}, min {}, max {}, of {}",
        round_trip_if_known(trips.median_us),
        round_trip_if_known(trips.p99_us),
        round_trip_if_known(trips.min_us),
        round_trip_if_known(trips.max_us),
        trips.count
    );
}

fn way_lines(out: &mut String, name: &str, way: Way, result: &WayResult, links: &[LinkResult]) {
    let _ = write!(
        out,
        "{name}: {} packets, {} sent again",
        result.sent_packets, result.resent_packets
    );
    let losses = links.iter().filter_map(|of| {
        let percent = match way {
            Way::Out => of.loss_out_percent,
            Way::Back => of.loss_back_percent,
        }?;
        Some(format!("link {} lost {percent:.2}%", of.link))
    });
    let losses: Vec<String> = losses.collect();
    if !losses.is_empty() {
        let _ = write!(out, " ({})", losses.join(", "));
    }
    let dropped = result.buffer_dropped_packets;
    if dropped > 0 {
        let _ = write!(out, ", {dropped} dropped at the receiver's socket");
    }
    let _ = writeln!(out);
    for processor in [&result.sender, &result.receiver] {
        let _ = writeln!(out, "  {}", processor_line(processor));
    }
    let _ = writeln!(out, "  limited by {}", clean(&result.limit.text));
}

fn processor_line(of: &Processor) -> String {
    let node = clean(&of.node);
    let (Some(busy), waited) = (of.busy_percent, of.waited_percent.unwrap_or(0.0)) else {
        return format!("{node}: its kernel does not tell processor times");
    };
    let per_gb = of.cpu_s_per_gb;
    let per_gb = per_gb.map_or_else(|| "-".to_owned(), |cpu_s| format!("{cpu_s:.2} s"));
    format!(
        "{node}: {per_gb} of processor per GB, {busy:.0}% of one; waited {waited:.0}% of the time for one"
    )
}

#[cfg(test)]
mod tests {
    use super::super::report::{Cause, Limit};
    use super::*;

    #[test]
    fn the_table_says_each_figure_once() {
        let processor = |node: &str| Processor {
            node: node.to_owned(),
            cpu_s_per_gb: Some(1.5),
            busy_percent: Some(35.0),
            waited_percent: Some(2.0),
        };
        let way = WayResult {
            mbps: 1880.0,
            sent_packets: 1000,
            resent_packets: 3,
            buffer_dropped_packets: 0,
            sender: processor("n0"),
            receiver: processor("n1"),
            limit: Limit {
                cause: Cause::LinksFull,
                text: "the links are full".to_owned(),
                ..Limit::default()
            },
        };
        let report = BenchReport {
            node: "n0".to_owned(),
            peer: "n1".to_owned(),
            seconds: 15,
            links: vec![LinkResult {
                link: 1,
                alone_out_mbps: Some(941.0),
                loss_out_percent: Some(0.3),
                ..LinkResult::default()
            }],
            out: Some(way),
            idle: RoundTrips::of(vec![150]),
            datagrams_out: Some(DatagramsResult {
                mbps: 100.0,
                per_s: 8000.0,
                sent: 10,
                loss_percent: 1.0,
            }),
            ..BenchReport::default()
        };
        assert_eq!(
            table(&report),
            "\
n0 to n1 and back, 15 s

b/s                         TO n1      FROM n1
link 1 alone                 941M            -
all links                   1.88G            -
both at once                    -            -
datagrams                    100M            -
datagrams per s             8.00k            -
datagrams lost              1.00%            -

round trips, idle    median 150us, 99% within 150us, min 150us, max 150us, of 1
round trips, loaded  median -, 99% within -, min -, max -, of 0

to n1: 1000 packets, 3 sent again (link 1 lost 0.30%)
  n0: 1.50 s of processor per GB, 35% of one; waited 2% of the time for one
  n1: 1.50 s of processor per GB, 35% of one; waited 2% of the time for one
  limited by the links are full
"
        );
    }
}
