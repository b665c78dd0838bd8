//! `tabane lab flood`.

use std::time::Duration;

use clap::Args;

use super::{Flood, FloodConfig, Kind, Recorder, port_counters};
use crate::{Lab, LabError};

/// Arguments of `lab flood`.
#[derive(Debug, Args)]
pub struct FloodArgs {
    /// Which lab
    #[arg(long, short, default_value = "lab")]
    name: String,
    /// What to send
    #[arg(long, value_enum, default_value = "mixed")]
    kind: Kind,
    /// The link: 0, 1, …
    #[arg(long, default_value_t = 0)]
    link: usize,
    /// Number of the node that suffers
    #[arg(long, default_value_t = 0)]
    to: usize,
    /// Number of the node it comes from [default: the last]
    #[arg(long)]
    from: Option<usize>,
    /// How long, seconds
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Listen to the link for so long first, seconds, to have something to copy
    #[arg(long, default_value_t = 1)]
    listen: u32,
}

/// Do it, and say what came of it.
///
/// # Errors
/// As [`Flood::start`]; there is no such lab.
pub fn run(args: &FloodArgs) -> Result<(), LabError> {
    let lab = Lab::open(&args.name)?;
    let from = args.from.unwrap_or(lab.nodes() - 1);
    let mut config = FloodConfig {
        from,
        to: args.to,
        link: args.link,
        kind: args.kind,
        count: u64::MAX,
        recorded: Vec::new(),
    };
    if args.kind.needs_recorded() {
        let recorder = Recorder::start(&lab, args.link)?;
        std::thread::sleep(Duration::from_secs(args.listen.into()));
        config.recorded = recorder.take();
    }
    let read = || -> Result<_, LabError> {
        let own = port_counters(&lab, from, args.link)?;
        Ok((own, port_counters(&lab, args.to, args.link)?))
    };
    let before = read()?;
    let flood = Flood::start(&lab, &config)?;
    std::thread::sleep(Duration::from_secs(args.seconds.into()));
    let sent = flood.stop();
    let after = read()?;
    let (own, victim) = (after.0, after.1);
    println!(
        "sent {} packets, {:.0} a second; {:.0} a second reached n{} (with all else)\n\
         {} bytes left the flood's port, {} came back to it",
        sent.packets,
        sent.rate(),
        (victim.to_packets - before.1.to_packets) as f64 / sent.elapsed.as_secs_f64(),
        args.to,
        own.from_bytes - before.0.from_bytes,
        own.to_bytes - before.0.to_bytes,
    );
    Ok(())
}
