//! `tabane demo`: two nodes, two switches, one unmodified iperf3. The switches
//! die silently in turn and come back; then the same with MPTCP and with TCP
//! on one link, for comparison.

mod busy;
mod graph;
mod recording;
mod screen;
mod script;
mod summary;
mod svg;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::cluster::Wire;
use crate::ways::{Arena, Way};
use crate::{LabConfig, LabError, interrupt};
use recording::Recording;
use screen::{Screen, say};

const EXIT_FAILED: u8 = 1;

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Where the picture goes
    #[arg(long, value_name = "FILE", default_value = "demo.svg")]
    svg: PathBuf,
    /// Leave the packets of tabane unencrypted
    #[arg(long)]
    plain: bool,
}

/// Run it; `tabane` is the program to show.
pub fn run(args: &DemoArgs, tabane: &Path) -> ExitCode {
    match show(args, tabane) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if interrupt::is_one(&error) => {
            eprintln!("demo: interrupted; all it made is removed");
            ExitCode::from(interrupt::EXIT_CODE)
        }
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn show(args: &DemoArgs, tabane: &Path) -> Result<(), LabError> {
    interrupt::note_signals().map_err(LabError::io("taking signals"))?;
    let wire = if args.plain {
        Wire::Plain
    } else {
        Wire::Encrypted
    };
    let busy = busy::note();
    let mut screen = Screen::new();
    let mut recordings = Vec::new();
    for way in [Way::Tabane(wire), Way::Mptcp, Way::Tcp { link: 0 }] {
        match one(way, tabane, &mut screen) {
            Ok(recording) => recordings.push(recording),
            Err(error @ (LabError::MissingTool { .. } | LabError::MissingFeature { .. }))
                if way == Way::Mptcp =>
            {
                eprintln!("demo: MPTCP is left out: {error}");
            }
            // A signal breaks programs before it is seen here.
            Err(_) if interrupt::asked() => return interrupt::check(),
            Err(error) => return Err(error),
        }
    }
    drop(screen);
    conclude(&recordings, busy, &args.svg)
}

fn one(way: Way, tabane: &Path, screen: &mut Screen) -> Result<Recording, LabError> {
    interrupt::check()?;
    let arena = Arena::up(way, &LabConfig::default(), tabane)?;
    screen.begin(&script::title(way));
    let recording = script::play(&arena, screen);
    screen.end();
    recording
}

fn conclude(recordings: &[Recording], busy: Option<String>, svg: &Path) -> Result<(), LabError> {
    let shown = svg.display();
    let written = std::fs::write(svg, svg::picture(recordings));
    written.map_err(LabError::io(format!("writing {shown}")))?;
    let verdict = summary::verdict(recordings).unwrap_or_default();
    let busy = busy.map_or_else(String::new, |note| format!("\n{note}"));
    say(&format!(
        "\n{}\n{verdict}{busy}\nThe picture: {shown}\n",
        summary::table(recordings)
    ));
    Ok(())
}
