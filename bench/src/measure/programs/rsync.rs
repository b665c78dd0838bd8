//! rsync from node 0 to node 1: to its daemon, and over ssh.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::contest::{Better, Contest};
use super::{Cost, files, finish};
use crate::measure::two_nodes;
use crate::tools::{RSYNC, SSH, SSH_KEYGEN, SSHD};
use crate::{Report, Settings};
use tabane_lab::cluster::{PATIENCE, Program, Scratch, output};
use tabane_lab::ways::Arena;
use tabane_lab::{LabError, LinkSpec};

const DAEMON_PORT: u16 = 8730;
const SSH_PORT: u16 = 2222;
const SMALL_COUNT: usize = 2000;
const SMALL_BYTES: u64 = 64 * 1024;

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let files = files::scratch()?;
    let large_bytes = (settings.seconds * 200e6) as u64;
    files::make_directory(&files.path().join("large"))?;
    files::write(&files.path().join("large/0"), large_bytes)?;
    files::write_many(&files.path().join("small"), SMALL_COUNT, SMALL_BYTES)?;
    let large = format!("1 file of {} MB", large_bytes / 1_000_000);
    let small = format!("{SMALL_COUNT} files of 64 KB");
    let batches = [("to its daemon", false), ("over ssh", true)];
    let mut report = Report::default();
    for (by, over_ssh) in batches {
        let contest = Contest {
            title: format!("rsync {by}, 2 × 1 Gb/s"),
            note: "Into an empty directory; files in memory, at both ends. Cubic.".into(),
            tools: if over_ssh {
                &[RSYNC, SSH, SSHD, SSH_KEYGEN]
            } else {
                &[RSYNC]
            },
            figures: &["MB/s", "CPU s/GB"],
            better: Better::More,
            batches: vec![vec![large.clone()], vec![small.clone()]],
        };
        let config = two_nodes(vec![LinkSpec::default(); 2]);
        let serve = |arena: &Arena| Server::start(arena, over_ssh);
        report.extend(contest.run(settings, &config, serve, |contestant, batch| {
            let from = files.path().join(["large", "small"][batch]);
            let figures = contestant.state.copy(&contestant.arena, &from)?;
            Ok(vec![figures])
        }));
    }
    Ok(report)
}

/// What receives.
struct Server {
    over_ssh: bool,
    own: Scratch,
    /// Dropped before the directory it works in.
    _program: Option<Program>,
}

impl Server {
    fn start(arena: &Arena, over_ssh: bool) -> Result<Server, LabError> {
        let own = files::scratch()?;
        files::make_directory(&own.path().join("files"))?;
        let program = if over_ssh {
            sshd(arena, own.path())?
        } else {
            daemon(arena, own.path())?
        };
        let _program = Some(program);
        Ok(Server {
            over_ssh,
            own,
            _program,
        })
    }

    /// Where files arrive.
    fn files(&self) -> PathBuf {
        self.own.path().join("files")
    }

    fn copy(&self, arena: &Arena, from: &Path) -> Result<Vec<f64>, LabError> {
        let empty = |path: &Path| fs::remove_dir_all(path).and_then(|()| fs::create_dir(path));
        empty(&self.files()).map_err(LabError::io("emptying the directory copied to"))?;
        let address = arena.address(1);
        let mut rsync = arena.command(0, RSYNC.find()?)?;
        rsync.args(["--recursive", "--whole-file"]);
        // With the slash it is the directory's content that is copied.
        rsync.arg(format!("{}/", from.display()));
        if self.over_ssh {
            rsync.arg("--rsh").arg(self.ssh()?);
            rsync.arg(format!("{address}:{}/", self.files().display()));
        } else {
            rsync.arg(format!("rsync://{address}:{DAEMON_PORT}/files/"));
        }
        let (_, cost) = Cost::of(|| finish("rsync", rsync))?;
        let (wanted, got) = (files::size_bytes(from), files::size_bytes(&self.files()));
        if wanted != got {
            return Err(LabError::ToolFailed {
                tool: "rsync",
                place: "n1".into(),
                message: format!("{got} bytes arrived of {wanted}"),
            });
        }
        Ok(cost.figures(wanted))
    }

    fn ssh(&self) -> Result<String, LabError> {
        let key = self.own.path().join("key");
        Ok(format!(
            "{} -F none -i {} -p {SSH_PORT} -o IdentitiesOnly=yes -o BatchMode=yes \
             -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
            SSH.find()?.display(),
            key.display()
        ))
    }
}

fn daemon(arena: &Arena, own: &Path) -> Result<Program, LabError> {
    // It would become nobody, who may not write here.
    let text = format!(
        "use chroot = no\nuid = 0\ngid = 0\n[files]\npath = {}/files\nread only = no\n",
        own.display()
    );
    let file = own.join("rsyncd.conf");
    files::write_text(&file, &text)?;
    let mut rsync = arena.command(1, RSYNC.find()?)?;
    rsync.args([
        "--daemon",
        "--no-detach",
        "--port",
        &DAEMON_PORT.to_string(),
    ]);
    rsync.arg(format!("--config={}", file.display()));
    rsync.arg(format!("--log-file={}", own.join("log").display()));
    let mut rsync = Program::start_quiet("rsync", rsync)?;
    rsync.listens(DAEMON_PORT)?;
    Ok(rsync)
}

fn sshd(arena: &Arena, own: &Path) -> Result<Program, LabError> {
    for key in ["key", "host"] {
        let mut keygen = Command::new(SSH_KEYGEN.find()?);
        keygen
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(own.join(key));
        output("ssh-keygen", keygen, PATIENCE)?;
    }
    let directory = own.display();
    let text = format!(
        "Port {SSH_PORT}\nHostKey {directory}/host\nPidFile none\nUsePAM no\nStrictModes no\n\
         AuthorizedKeysFile {directory}/key.pub\nPermitRootLogin prohibit-password\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\n"
    );
    let file = own.join("sshd_config");
    files::write_text(&file, &text)?;
    // sshd wants a directory that only its service makes; a command of a node
    // has mounts of its own.
    let mut sshd = arena.command(1, "sh")?;
    let run = "[ -d /run/sshd ] || { mount -t tmpfs none /run && mkdir -m 755 /run/sshd; }";
    sshd.args(["-c", &format!("{run}; exec \"$0\" -D -f \"$1\"")]);
    sshd.arg(SSHD.find()?).arg(&file);
    let mut sshd = Program::start_quiet("sshd", sshd)?;
    sshd.listens(SSH_PORT)?;
    Ok(sshd)
}
