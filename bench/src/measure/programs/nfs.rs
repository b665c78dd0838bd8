//! NFS in user space at both ends: nfs-ganesha on node 1, a client of our own
//! on libnfs on node 0.

use std::path::Path;
use std::process::Command;

use super::contest::{Better, Contest};
use super::{Cost, files, finish};
use crate::measure::two_nodes;
use crate::tools::{CC, GANESHA, RPCBIND};
use crate::{Report, Settings};
use tabane_lab::cluster::{Program, Scratch};
use tabane_lab::ways::Arena;
use tabane_lab::{LabError, LinkSpec};

const NFS_PORT: u16 = 2049;
const MOUNT_PORT: u16 = 20048;
const CLIENT: &str = include_str!("nfs_client.c");
const TASKS: [&str; 3] = ["write", "read", "rewrite"];

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let megabytes = (settings.seconds * 150.0) as u64;
    let contest = Contest {
        title: "NFS, nfs-ganesha on tmpfs, 2 × 1 Gb/s".into(),
        note: format!(
            "NFSv3; a client in user space (libnfs) with 16 blocks of 256 KB under way at once, \
             which checks what it reads; a file of {megabytes} MiB. Rewriting is bonnie++'s: read \
             a block, change it, write it back; its bytes are counted once. Cubic."
        ),
        tools: &[CC, GANESHA, RPCBIND],
        figures: &["MB/s", "CPU s/GB"],
        better: Better::More,
        batches: TASKS.iter().map(|&task| vec![task.to_owned()]).collect(),
    };
    let built = files::scratch()?;
    let client = built.path().join("nfs_client");
    if let Err(error) = build(built.path(), &client) {
        let mut report = Report::default();
        let why = format!("{error}; apt install libnfs-dev");
        report.leave_out(&contest.title, why);
        return Ok(report);
    }
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    Ok(contest.run(settings, &config, serve, |contestant, batch| {
        let (arena, server) = (&contestant.arena, &contestant.state);
        let mut command = arena.command(0, &client)?;
        let (address, path) = (arena.address(1), server.files.display());
        let url = format!(
            "nfs://{address}{path}/file?version=3&nfsport={NFS_PORT}&mountport={MOUNT_PORT}"
        );
        command.args([TASKS[batch], &url, &megabytes.to_string()]);
        let (_, cost) = Cost::of(|| finish("nfs_client", command))?;
        Ok(vec![cost.figures(megabytes << 20)])
    }))
}

fn build(directory: &Path, to: &Path) -> Result<(), LabError> {
    let source = directory.join("nfs_client.c");
    files::write_text(&source, CLIENT)?;
    let mut cc = Command::new(CC.find()?);
    cc.args(["-O2", "-o"]).arg(to).arg(source).arg("-lnfs");
    finish("cc", cc).map(drop)
}

struct Server {
    /// Dropped before the directory it works in.
    _program: Program,
    files: std::path::PathBuf,
    _own: Scratch,
}

fn serve(arena: &Arena) -> Result<Server, LabError> {
    let own = files::scratch()?;
    let (directory, exported) = (own.path().display(), own.path().join("files"));
    files::make_directory(&exported)?;
    files::make_directory(&own.path().join("state"))?;
    let path = exported.display();
    let text = format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {NFS_PORT}; MNT_Port = {MOUNT_PORT};\n\
           Enable_NLM = false; Enable_RQUOTA = false; }}\n\
         NFSV4 {{ RecoveryBackend = fs; RecoveryRoot = {directory}/state; Graceless = true; }}\n\
         EXPORT {{ Export_Id = 1; Path = {path}; Pseudo = {path}; Access_Type = RW;\n\
           Squash = No_Root_Squash; SecType = sys; Protocols = 3; Transports = TCP;\n\
           PrivilegedPort = false; FSAL {{ Name = VFS; }} }}\n"
    );
    let file = own.path().join("ganesha.conf");
    files::write_text(&file, &text)?;
    // The port mapper and the server keep sockets and credentials in /run, of
    // which every node needs its own; a command of a node has mounts of its own.
    let run = "mount -t tmpfs none /run || exit 1; \"$0\" -f & \
        for try in $(seq 100); do [ -S /run/rpcbind.sock ] && break; sleep 0.05; done; exec \"$1\" -F -f \"$2\" -L \"$3\" -p \"$4\"";
    let mut server = arena.command(1, "sh")?;
    server
        .args(["-c", run])
        .arg(RPCBIND.find()?)
        .arg(GANESHA.find()?);
    server.args([file, own.path().join("log"), own.path().join("pid")]);
    let mut program = Program::start_quiet("ganesha.nfsd", server)?;
    program.listens(NFS_PORT)?;
    program.listens(MOUNT_PORT)?;
    Ok(Server {
        _program: program,
        files: exported,
        _own: own,
    })
}
