//! The programs of the system that are run: those of iproute2 and nftables do the wiring.

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

/// A program of the system, and the Debian package that has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tool {
    name: &'static str,
    package: &'static str,
    /// Arguments with which it reads its orders from its input.
    batch: &'static [&'static str],
}

/// iproute2.
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
pub(crate) const MPTCPIZE: Tool = Tool::new("mptcpize", "mptcpize");
pub(crate) const BABELD: Tool = Tool::new("babeld", "babeld");

impl Tool {
    /// One that takes its orders as arguments.
    pub const fn new(name: &'static str, package: &'static str) -> Tool {
        Tool {
            name,
            package,
            batch: &[],
        }
    }

    /// Where it is, also where an ordinary user's PATH does not look.
    ///
    /// # Errors
    /// It is not installed.
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
    pub(crate) fn ask(&self, place: &Place, arguments: &[&str]) -> Result<Vec<u8>, LabError> {
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
    pub(crate) fn run(&self, place: &Place, orders: &str) -> Result<(), LabError> {
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
