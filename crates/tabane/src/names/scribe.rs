//! `tabane scribe`: the process that writes the names.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tabane_cluster::plain;
use tabane_io::privileges::keep_files_only;
use tabane_io::rewrite::rewrite;
use tabane_io::signals::Signals;

use super::text::{Foreign, with_names};
use super::{HOSTS, HOSTS_BYTES_MAX, Names};
use crate::exit_codes;

/// What it says to the daemon, for the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Whether somebody may have to act on it.
    pub is_warning: bool,
    /// The line.
    pub text: String,
}

/// Is the scribe of the daemon at the other end of standard input.
pub fn write() -> u8 {
    // Stopping a service signals all its processes: this one must outlive the daemon.
    match (
        Signals::with_abort(),
        io::stdin().as_fd().try_clone_to_owned(),
    ) {
        (Ok(_signals), Ok(fd)) => {
            // A service manager has seen to it where this is refused.
            let _ = keep_files_only();
            serve(&UnixStream::from(fd), Path::new(HOSTS));
            exit_codes::OK
        }
        _ => exit_codes::FAILURE,
    }
}

/// Writes what it is told, until the daemon is gone; then nothing of it is left in the file.
fn serve(daemon: &UnixStream, path: &Path) {
    let mut reader = BufReader::new(daemon);
    let mut scribe = Scribe::default();
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
        if let Ok(names) = serde_json::from_slice::<Names>(&line) {
            for said in scribe.take(path, names) {
                say(daemon, &said);
            }
        }
        line.clear();
    }
    if let Some(mut names) = scribe.written.clone() {
        names.entries.clear();
        for said in scribe.take(path, names) {
            say(daemon, &said);
        }
    }
}

/// It need not be heard: the daemon may be gone.
fn say(mut daemon: &UnixStream, said: &Said) {
    let mut line = serde_json::to_vec(said).unwrap_or_default();
    line.push(b'\n');
    let _ = daemon.write_all(&line);
}

#[derive(Default)]
struct Scribe {
    /// What is in the file.
    written: Option<Names>,
    /// Each is told once.
    told: HashSet<Foreign>,
    trouble: Option<String>,
}

impl Scribe {
    fn take(&mut self, path: &Path, names: Names) -> Vec<Said> {
        let mut foreign = Vec::new();
        let done = rewrite(path, HOSTS_BYTES_MAX, |old| {
            let (new, found) = with_names(old, &names);
            foreign = found;
            new
        });
        let shown = path.display();
        if let Err(error) = done {
            let text = trouble(path, &error, names.entries.is_empty());
            let is_new = self.trouble.as_ref() != Some(&text);
            self.trouble = Some(text.clone());
            return Vec::from_iter(is_new.then_some(warning(text)));
        }
        self.trouble = None;
        let mut said = Vec::new();
        for it in foreign {
            if self.told.insert(it.clone()) {
                said.push(warning(contradiction(path, &it)));
            }
        }
        let count = |names: &Option<Names>| names.as_ref().map_or(0, |it| it.entries.len());
        let before = count(&self.written);
        self.written = Some(names);
        let text = match (before, count(&self.written)) {
            (a, b) if a == b => return said,
            (_, 0) => format!("the nodes' names are no longer in {shown}"),
            (_, nodes) => format!("names of nodes in {shown}: {nodes}"),
        };
        said.push(Said {
            is_warning: false,
            text,
        });
        said
    }
}

fn warning(text: String) -> Said {
    Said {
        is_warning: true,
        text,
    }
}

fn contradiction(path: &Path, it: &Foreign) -> String {
    format!(
        "{}:{}: {} is {} here, but {} on the bundle; this line is left as it is and holds: change it if the node is meant",
        path.display(),
        it.line,
        it.name,
        it.address,
        it.ours
    )
}

fn trouble(path: &Path, error: &io::Error, is_removal: bool) -> String {
    let what = match is_removal {
        false => "cannot be written, so the nodes' names do not resolve",
        true => "cannot be written, so the nodes' names stay in it",
    };
    let right = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotFound => {
            "start `tabane up` as root; a service needs the lines of docs/configuration.md, \"Names of nodes\""
        }
        ErrorKind::FileTooLarge => "it has more than 16 MiB",
        ErrorKind::ResourceBusy => "another daemon holds its lock; `tabane reload` tries again",
        _ => "`tabane reload` tries again",
    };
    format!("{}: {what}: {}; {right}", path.display(), plain(error))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Shutdown;

    use super::super::Entry;
    use super::*;

    fn names(addresses: &[&str]) -> Names {
        let entry = |(index, address): (usize, &&str)| Entry {
            address: address.parse().unwrap(),
            names: vec![format!("n{index}")],
        };
        Names {
            mark: "n0 /c".to_owned(),
            own: "n0".to_owned(),
            entries: addresses.iter().enumerate().map(entry).collect(),
        }
    }

    fn texts(said: Vec<Said>) -> Vec<String> {
        said.into_iter().map(|said| said.text).collect()
    }

    #[test]
    fn what_it_is_told_is_written_until_the_daemon_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        // What another scribe has left that was killed.
        let left = b"# tabane n0 /c begin\n10.99.0.9\tn9\n# tabane n0 /c end\n10.1.1.1 n1\n";
        std::fs::write(&path, left).unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let here = path.clone();
        let scribe = std::thread::spawn(move || serve(&theirs, &here));
        let mut line = serde_json::to_vec(&names(&["10.99.0.1", "10.99.0.2"])).unwrap();
        line.push(b'\n');
        ours.write_all(&line).unwrap();
        let mut said = String::new();
        let mut reader = BufReader::new(ours.try_clone().unwrap());
        reader.read_line(&mut said).unwrap();
        assert!(
            said.contains("hosts:4: n1 is 10.1.1.1 here, but 10.99.0.2"),
            "{said}"
        );
        said.clear();
        reader.read_line(&mut said).unwrap();
        assert!(said.contains("names of nodes in"), "{said}");
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            written,
            "# tabane n0 /c begin\n10.99.0.1\tn0\n# tabane n0 /c end\n10.1.1.1 n1\n"
        );
        ours.shutdown(Shutdown::Write).unwrap();
        scribe.join().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"10.1.1.1 n1\n");
        said.clear();
        reader.read_to_string(&mut said).unwrap();
        assert!(said.contains("no longer in"), "{said}");
    }

    #[test]
    fn trouble_is_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        let mut scribe = Scribe::default();
        let said = texts(scribe.take(&path, names(&["10.99.0.1"])));
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("hosts: cannot be written"), "{said:?}");
        assert!(said[0].contains("as root"), "{said:?}");
        assert!(scribe.take(&path, names(&["10.99.0.1"])).is_empty());
        std::fs::write(&path, "").unwrap();
        let said = texts(scribe.take(&path, names(&["10.99.0.1"])));
        assert!(said[0].starts_with("names of nodes in"), "{said:?}");
        assert!(scribe.take(&path, names(&["10.99.0.3"])).is_empty());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("10.99.0.3\tn0\n"), "{text}");
    }
}
