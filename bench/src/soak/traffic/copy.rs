//! rsync over ssh: files of many sizes, compared after every copy.
//!
//! Every node has an `sshd` of its own: it runs as an ordinary user of a user
//! namespace, whose only account is in a password file that is mounted over
//! the machine's in the node's view alone. So it needs no privilege, no
//! account and no file of the machine, and works for an ordinary user too.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::random::Random;
use super::{Attempt, Traffic};
use crate::tools::SSHD;
use tabane_lab::LabError;
use tabane_lab::cluster::{Cluster, PATIENCE, Program, output};

const PORT: u16 = 2222;
const FILE_BYTES: [usize; 5] = [0, 1_000, 200_000, 3_000_000, 16_000_000];
const USER: &str = "soak";
/// `$1` the password file, `$2` sshd, `$3` its configuration.
const START: &str = "mount --bind \"$1\" /etc/passwd && \
     exec unshare --user --map-user=1000 --map-group=1000 -- \"$2\" -D -e -f \"$3\"";

/// The nodes' ssh servers, and what is copied.
#[derive(Debug)]
pub(in crate::soak) struct Shells {
    directory: PathBuf,
    remote_shell: String,
    _servers: Vec<Program>,
}

impl Shells {
    /// Make keys and files, and start a server on every node.
    pub fn start(cluster: &Cluster, seed: u64) -> Result<Shells, LabError> {
        let directory = cluster.directory().join("copy");
        fs::create_dir(&directory).map_err(LabError::io("making a directory"))?;
        let shown = directory.display();
        for key in ["host", "user"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(directory.join(key));
            output("ssh-keygen", make, PATIENCE)?;
        }
        let write = |name: &str, text: String| {
            fs::write(directory.join(name), text).map_err(LabError::io("writing a file"))
        };
        write("passwd", format!("{USER}:x:1000:1000::{shown}:/bin/sh\n"))?;
        write(
            "sshd_config",
            format!(
                "Port {PORT}\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/user.pub\n\
                 PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n\
                 LoginGraceTime 0\nUseDNS no\n"
            ),
        )?;
        let mut random = Random::new(seed, 2);
        for (number, bytes) in FILE_BYTES.into_iter().enumerate() {
            let mut content = vec![0; bytes];
            random.fill(&mut content);
            let path = directory.join(format!("file{number}"));
            fs::write(path, content).map_err(LabError::io("writing a file"))?;
        }
        let servers = (0..cluster.lab().nodes()).map(|node| serve(cluster, node, &directory));
        Ok(Shells {
            _servers: servers.collect::<Result<_, _>>()?,
            remote_shell: format!(
                "ssh -F none -i {shown}/user -p {PORT} -o StrictHostKeyChecking=no \
                 -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes"
            ),
            directory,
        })
    }

    pub(super) fn keep_copying(&self, traffic: &Traffic, copier: u64) {
        let mut random = traffic.random(10 + copier);
        while traffic.goes_on() {
            let nodes = traffic.two_nodes(&mut random);
            let number = random.within(0..=FILE_BYTES.len() as u64 - 1) as usize;
            let file = self.directory.join(format!("file{number}"));
            let copy = self.directory.join(format!("copy{copier}"));
            // A copy that is there already would not be sent.
            let _ = fs::remove_file(&copy);
            let [here, there] = nodes;
            let remote = |path: &Path| {
                let address = traffic.cluster.address(there);
                format!("{USER}@{address}:{}", path.display())
            };
            let mut command = traffic.cluster.lab().command(here, "rsync");
            command.args(["--whole-file", "-e", &self.remote_shell]);
            let pull = random.percent(50);
            if pull {
                command.arg(remote(&file)).arg(&copy);
            } else {
                command.arg(&file).arg(remote(&copy));
            }
            let bytes = FILE_BYTES[number];
            let way = if pull { "from" } else { "to" };
            let what = format!("rsync of {bytes} bytes on n{here} {way} n{there}");
            let attempt = Attempt {
                kind: "rsync",
                what: what.clone(),
                nodes,
                command,
            };
            if traffic.attempt(attempt, |_| Some(bytes as u64)) {
                match same(&file, &copy) {
                    Ok(true) => {}
                    Ok(false) => traffic.fail(format!("{what}: THE COPY IS NOT THE FILE")),
                    Err(error) => traffic.fail(format!("{what}: comparing: {error}")),
                }
            }
        }
    }
}

fn serve(cluster: &Cluster, node: usize, directory: &Path) -> Result<Program, LabError> {
    let mut sshd = cluster.lab().command(node, "sh");
    sshd.args(["-c", START, "sh"]).arg(directory.join("passwd"));
    sshd.arg(SSHD.find()?).arg(directory.join("sshd_config"));
    let path = directory.join(format!("sshd{node}.log"));
    let log = File::create(&path).map_err(LabError::io("a log file"))?;
    sshd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut sshd = Program::start("sshd", sshd)?;
    sshd.listens(PORT).map_err(|error| {
        let said = fs::read_to_string(&path).unwrap_or_default();
        LabError::io(format!("sshd on n{node} said {said:?}"))(io::Error::other(error))
    })?;
    Ok(sshd)
}

/// Whether two files have the same bytes: more than equal sums would say.
fn same(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    one.read_to_end(&mut a)?;
    other.read_to_end(&mut b)?;
    Ok(a == b)
}
