//! What can go wrong, sorted by who must act.

use std::fmt;
use std::io;

/// Why a lab could not do what was asked, and what to do about it.
#[derive(Debug)]
pub enum LabError {
    /// A program the lab runs is not installed.
    MissingTool {
        /// The program looked for in `PATH` and the `sbin` directories.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The kernel does not let this user make namespaces.
    NotPermitted {
        /// What was attempted.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel lacks something the lab is made of.
    MissingFeature {
        /// What was attempted.
        what: String,
        /// The kernel option or module that provides it.
        feature: &'static str,
    },
    /// A lab of this name is up already.
    NameTaken(String),
    /// No lab of this name is up.
    NoSuchLab {
        /// The name asked for.
        name: String,
        /// The labs that are up.
        known: Vec<String>,
    },
    /// The lab has no such node.
    NoSuchNode {
        /// What was asked for.
        node: String,
        /// How many nodes the lab has.
        nodes: usize,
    },
    /// The lab has no such link.
    NoSuchLink {
        /// What was asked for.
        link: String,
        /// How many links the lab has.
        links: usize,
    },
    /// A value that cannot be, with what would be right.
    BadInput(String),
    /// A tool refused what the lab asked of it.
    ToolFailed {
        /// The program.
        tool: &'static str,
        /// Where it ran: `n0`, `switch 1`.
        place: String,
        /// What it said.
        message: String,
    },
    /// The operating system refused something else.
    Io {
        /// What was attempted.
        what: String,
        /// The answer.
        source: io::Error,
    },
}

impl LabError {
    /// What the operating system refused while `what` was attempted.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let what = what.into();
        move |source| LabError::Io { what, source }
    }

    /// Whether something had not ended when nobody waited for it any longer.
    pub fn is_hung(&self) -> bool {
        matches!(self, LabError::Io { source, .. } if source.kind() == io::ErrorKind::TimedOut)
    }

    /// Whether the caller's words were wrong, rather than the machine.
    pub fn is_bad_input(&self) -> bool {
        use LabError::*;
        matches!(
            self,
            BadInput(_) | NoSuchNode { .. } | NoSuchLink { .. } | NoSuchLab { .. } | NameTaken(_)
        )
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::MissingTool { tool, package } => {
                write!(f, "`{tool}` is not installed: apt install {package}")
            }
            LabError::NotPermitted { what, source } => write!(
                f,
                "{what}: {source}; run as root, or let users make namespaces: \
                 sysctl user.max_user_namespaces > 0, and where they exist \
                 kernel.unprivileged_userns_clone=1, \
                 kernel.apparmor_restrict_unprivileged_userns=0"
            ),
            LabError::MissingFeature { what, feature } => {
                write!(f, "{what}: this kernel lacks {feature}")
            }
            LabError::NameTaken(name) => write!(
                f,
                "lab {name:?} is up already; choose another --name or end it with `lab down --name {name}`"
            ),
            LabError::NoSuchLab { name, known } if known.is_empty() => {
                write!(
                    f,
                    "no lab {name:?}: no lab is up; start one with `lab up --name {name}`"
                )
            }
            LabError::NoSuchLab { name, known } => {
                write!(f, "no lab {name:?}; up are: {}", known.join(", "))
            }
            LabError::NoSuchNode { node, nodes } => {
                write!(
                    f,
                    "no node {node:?}; this lab has n0 to n{}",
                    nodes.saturating_sub(1)
                )
            }
            LabError::NoSuchLink { link, links } => {
                write!(
                    f,
                    "no link {link:?}; this lab has 0 to {}",
                    links.saturating_sub(1)
                )
            }
            LabError::BadInput(message) => f.write_str(message),
            LabError::ToolFailed {
                tool,
                place,
                message,
            } => {
                write!(f, "{tool} in {place}: {}", message.trim())
            }
            LabError::Io { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LabError::Io { source, .. } | LabError::NotPermitted { source, .. } => Some(source),
            _ => None,
        }
    }
}
