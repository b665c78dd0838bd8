//! The program's exit codes, for scripts.

/// Success. Also if the reader of the output went away.
pub const OK: u8 = 0;
/// It could not be done; the message says why.
pub const FAILURE: u8 = 1;
/// The command line or the cluster file is wrong; trying again changes nothing.
pub const CONFIGURATION: u8 = 2;
/// No daemon runs in this network namespace (`tabane status`).
pub const NO_DAEMON: u8 = 3;
/// Something is lost, and nothing is cut off (`tabane status --check`, as monitoring plugins say it).
pub const CHECK_WARNING: u8 = 1;
/// Something cannot be reached, or no daemon answers (the same).
pub const CHECK_CRITICAL: u8 = 2;
/// A bug in tabane (`EX_SOFTWARE` of sysexits.h).
pub const INTERNAL: u8 = 70;
