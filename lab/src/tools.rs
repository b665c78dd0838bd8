//! The programs of iproute2 and nftables that do the wiring.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::LabError;
use crate::namespace::Place;

/// An ordinary user's PATH often leaves these out.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// How the tools say that the kernel lacks something, and what it is.
const FEATURES: [(&str, &str); 3] = [
    (
        "Specified qdisc kind is unknown",
        "CONFIG_NET_SCH_TBF (module sch_tbf)",
    ),
    (
        "Unknown device type",
        "CONFIG_VETH or CONFIG_BRIDGE (modules veth, bridge)",
    ),
    (
        "Error: Could not process rule",
        "CONFIG_NF_TABLES_BRIDGE, CONFIG_NF_TABLES_NETDEV, CONFIG_NFT_NUMGEN or CONFIG_NFT_FWD_NETDEV",
    ),
];

/// A program the lab runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tool {
    name: &'static str,
    package: &'static str,
    /// Arguments with which it reads its orders from its input.
    batch: &'static [&'static str],
}

pub(crate) const IP: Tool = Tool {
    name: "ip",
    package: "iproute2",
    batch: &["-batch", "-"],
};
pub(crate) const TC: Tool = Tool {
    name: "tc",
    package: "iproute2",
    batch: &["-batch", "-"],
};
pub(crate) const NFT: Tool = Tool {
    name: "nft",
    package: "nftables",
    batch: &["-f", "-"],
};

pub(crate) const SH: Tool = Tool {
    name: "/bin/sh",
    package: "dash",
    batch: &["-e"],
};
pub(crate) const MPTCPIZE: Tool = Tool {
    name: "mptcpize",
    package: "mptcpize",
    batch: &[],
};

/// A program that takes its orders as arguments.
const fn program(name: &'static str, package: &'static str) -> Tool {
    Tool {
        name,
        package,
        batch: &[],
    }
}

// What bench measures with, and sets up.
pub(crate) const CC: Tool = program("cc", "gcc");
pub(crate) const COLLAPSE: Tool = program("inferno-collapse-perf", "inferno (by cargo)");
pub(crate) const CURL: Tool = program("curl", "curl");
pub(crate) const FLAMEGRAPH: Tool = program("inferno-flamegraph", "inferno (by cargo)");
pub(crate) const GANESHA: Tool = program("ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs");
pub(crate) const MPICC: Tool = program("mpicc", "libopenmpi-dev");
pub(crate) const MPIRUN: Tool = program("mpirun", "openmpi-bin");
pub(crate) const NGINX: Tool = program("nginx", "nginx-light");
pub(crate) const PERF: Tool = program("perf", "linux-perf");
pub(crate) const REDIS_BENCHMARK: Tool = program("redis-benchmark", "redis-tools");
pub(crate) const REDIS_SERVER: Tool = program("redis-server", "redis-server");
pub(crate) const RPCBIND: Tool = program("rpcbind", "rpcbind");
pub(crate) const RSYNC: Tool = program("rsync", "rsync");
pub(crate) const SSH: Tool = program("ssh", "openssh-client");
pub(crate) const SSHD: Tool = program("sshd", "openssh-server");
pub(crate) const SSH_KEYGEN: Tool = program("ssh-keygen", "openssh-client");

impl Tool {
    pub fn find(&self) -> Result<PathBuf, LabError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from));
        let mut candidates = directories.map(|directory| directory.join(self.name));
        candidates
            .find(|candidate| Path::is_file(candidate))
            .ok_or(LabError::MissingTool {
                tool: self.name,
                package: self.package,
            })
    }

    /// What it says in a namespace when asked with these arguments.
    pub fn ask(&self, place: &Place, arguments: &[&str]) -> Result<Vec<u8>, LabError> {
        let mut command = place.command(self.find()?);
        let asked = command.args(arguments).stdin(Stdio::null()).output();
        let output = asked.map_err(LabError::io(self.name))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(LabError::ToolFailed {
            tool: self.name,
            place: place.name.clone(),
            message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Run a batch of orders in a namespace.
    pub fn run(&self, place: &Place, orders: &str) -> Result<(), LabError> {
        if orders.is_empty() {
            return Ok(());
        }
        let failed = |message: String| LabError::ToolFailed {
            tool: self.name,
            place: place.name.clone(),
            message,
        };
        let mut command = place.command(self.find()?);
        command.args(self.batch);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| gone(error, failed))?;
        let fed = child
            .stdin
            .take()
            .map_or(Ok(()), |mut input| input.write_all(orders.as_bytes()));
        let output = child.wait_with_output().map_err(LabError::io(self.name))?;
        if output.status.success() {
            return fed.map_err(LabError::io(self.name));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        if let Some(&(_, feature)) = FEATURES.iter().find(|(sign, _)| said.contains(sign)) {
            let what = format!("{} in {}: {}", self.name, place.name, said.trim());
            return Err(LabError::MissingFeature { what, feature });
        }
        Err(failed(format!(
            "{}\nits orders were:\n{orders}",
            said.trim()
        )))
    }
}

fn gone(error: io::Error, failed: impl Fn(String) -> LabError) -> LabError {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => {
            failed("the lab's holder has ended; start the lab anew".into())
        }
        _ => failed(format!("could not start: {error}")),
    }
}
