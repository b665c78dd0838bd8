//! `tabane trace`: records what the daemon does for a peer and why, as a qlog, and draws one.

mod picture;
mod read;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use tabane_cluster::plain;

use crate::status::{ask_here, ask_trace};
use crate::{exit_codes, say};

pub use picture::draw;

/// Arguments of `tabane trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// The peer, by its name in the cluster file
    #[arg(required_unless_present = "draw")]
    pub peer: Option<String>,
    /// End after this many seconds; if not given, with Ctrl-C
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub seconds: Option<u64>,
    /// The file to write, such as n1.sqlog; if not given, standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// In the older form (main-schema-02) that qvis opens
    #[arg(long)]
    pub qvis: bool,
    /// Ask no daemon, but draw this file, recorded without --qvis: a picture (SVG)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["peer", "seconds", "qvis"])]
    pub draw: Option<PathBuf>,
}

/// Records a trace, or draws one; returns the exit code.
pub fn run(args: &TraceArgs) -> u8 {
    if let Some(file) = &args.draw {
        return run_draw(file, args.output.as_deref());
    }
    let peer = args.peer.as_deref().unwrap_or_default();
    let until = args.seconds.map(Duration::from_secs);
    let until = until.map(|seconds| Instant::now() + seconds);
    let records = match ask_here(|sockets| ask_trace(sockets, peer, args.qvis)) {
        Ok(records) => records,
        Err(error) => {
            say::failure(&error);
            return error.exit_code();
        }
    };
    let (name, mut output) = match open(args.output.as_deref()) {
        Ok(opened) => opened,
        Err(what) => return say::failure(what),
    };
    match record(records, until, &mut *output) {
        Ok(End::TimeIsUp) => exit_codes::OK,
        Ok(End::Daemon) => say::failure(format!(
            "the daemon has ended the trace: it stops, or {peer} was taken out of its cluster file"
        )),
        // A reader that went away (`tabane trace n1 | head`) is no error.
        Err(Trouble::Output(error)) if error.kind() == ErrorKind::BrokenPipe => exit_codes::OK,
        Err(Trouble::Output(error)) => say::failure(format!("{name}: {}", plain(&error))),
        Err(Trouble::Daemon(error)) => say::failure(format!(
            "the connection to the daemon failed: {}",
            plain(&error)
        )),
    }
}

/// Opens the output; returns its name as well.
fn open(output: Option<&Path>) -> Result<(String, Box<dyn Write>), String> {
    let Some(path) = output else {
        return Ok(("standard output".to_owned(), Box::new(io::stdout())));
    };
    let name = path.display().to_string();
    match File::create(path) {
        Ok(file) => Ok((name, Box::new(file))),
        Err(error) => Err(format!("{name}: {}", plain(&error))),
    }
}

/// Why a trace ended in order.
enum End {
    TimeIsUp,
    /// The other end closed.
    Daemon,
}

/// Why it could not go on.
enum Trouble {
    Output(io::Error),
    Daemon(io::Error),
}

/// Writes whole records only: whenever this process is killed, the file is valid up to its
/// end.
fn record(
    mut records: BufReader<UnixStream>,
    until: Option<Instant>,
    output: &mut dyn Write,
) -> Result<End, Trouble> {
    let mut begun = Vec::new();
    loop {
        let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
        if rest == Some(Duration::ZERO) {
            return Ok(End::TimeIsUp);
        }
        let waits = records.get_ref().set_read_timeout(rest);
        waits.map_err(Trouble::Daemon)?;
        let came = match records.fill_buf() {
            Ok([]) => return Ok(End::Daemon),
            Ok(came) => came,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(Trouble::Daemon(error)),
        };
        let length = came.len();
        begun.extend_from_slice(came);
        records.consume(length);
        if let Some(last) = begun.iter().rposition(|byte| *byte == b'\n') {
            let write = output.write_all(&begun[..=last]);
            write
                .and_then(|()| output.flush())
                .map_err(Trouble::Output)?;
            begun.drain(..=last);
        }
    }
}

fn run_draw(file: &Path, output: Option<&Path>) -> u8 {
    let shown = file.display();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return say::failure(format!("{shown}: {}", plain(&error))),
    };
    let picture = match read::read(&text) {
        Ok(trace) => draw(&trace),
        Err(what) => return say::failure(format!("{shown}: {what}")),
    };
    let written = open(output).and_then(|(name, mut output)| {
        let wrote = output.write_all(picture.as_bytes());
        let wrote = wrote.and_then(|()| output.flush());
        wrote.map_err(|error| format!("{name}: {}", plain(&error)))
    });
    written.map_or_else(say::failure, |()| exit_codes::OK)
}
