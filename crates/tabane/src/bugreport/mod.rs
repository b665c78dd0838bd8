//! `tabane bugreport`: everything that whoever is to help would ask for, in one text, and no key.
//!
//! Keys are kept out twice: nothing is read that holds one (the cluster file is shown without its keys, of the environment only
//! the names), and the finished text goes through [`scrub`], which takes out whatever may be a key.

mod scrub;

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tabane_cluster::{Cluster, DEFAULT_PATH, KEY_FILE_BYTES_MAX, plain};

use tabane_io::clock::unix_ms;

use crate::log;
use crate::status::{ask_here, ask_status};
use crate::{doctor, say};

/// How long the doctor watches.
const WATCH: Duration = Duration::from_secs(3);
/// How long another program may take.
const PROGRAM_MAX: Duration = Duration::from_secs(10);
/// The most that is taken of one program's output, or of one file.
const SECTION_BYTES_MAX: u64 = 256 * 1024;
/// Lines of the daemon's log.
const LOG_LINES: &str = "300";

/// Settings of the kernel that matter.
const SETTINGS: &[&str] = &[
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/rmem_default",
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget",
    "net/core/default_qdisc",
    "net/ipv4/ip_forward",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ip_local_reserved_ports",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/conf/default/rp_filter",
    "net/ipv4/conf/all/arp_ignore",
    "net/ipv4/conf/all/arp_filter",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv6/conf/all/disable_ipv6",
    "net/mptcp/enabled",
    "user/max_user_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
];

/// Programs that show the network, and what is shown where they are missing.
const PROGRAMS: &[(&str, &[&str], &str)] = &[
    ("ip", &["-details", "-statistics", "link"], "/proc/net/dev"),
    ("ip", &["address"], "/proc/net/fib_trie"),
    ("ip", &["route", "show", "table", "all"], "/proc/net/route"),
    (
        "ip",
        &["-6", "route", "show", "table", "all"],
        "/proc/net/ipv6_route",
    ),
    ("ip", &["rule"], "/proc/net/fib_triestat"),
    ("ip", &["neighbour"], "/proc/net/arp"),
    (
        "ss",
        &["--udp", "--all", "--numeric", "--memory"],
        "/proc/net/udp",
    ),
    (
        "ss",
        &["--tcp", "--listening", "--numeric"],
        "/proc/net/tcp",
    ),
    ("ss", &["--summary"], "/proc/net/sockstat"),
];

/// Files that are shown as they are.
const FILES: &[&str] = &[
    "/proc/version",
    "/etc/os-release",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/net/snmp",
    "/proc/net/softnet_stat",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
];

/// Arguments of `tabane bugreport`.
#[derive(Debug, Args)]
pub struct BugreportArgs {
    /// The file to write, mode 0600; if not given, standard output. One that is there is not overwritten
    pub file: Option<PathBuf>,
    /// The cluster file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub config: PathBuf,
}

/// Writes the report; returns the exit code.
pub fn run(args: &BugreportArgs) -> u8 {
    let text = report(&args.config);
    let Some(path) = &args.file else {
        return say::print(&text);
    };
    let shown = path.display();
    let mut options = fs::File::options();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    match file.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => say::print(&format!(
            "{shown} written. Names and addresses of your network are in it, keys are not: read it before you pass it on\n"
        )),
        Err(error) => say::failure(format!("{shown}: {}", plain(&error))),
    }
}

/// The whole report.
fn report(config: &Path) -> String {
    let mut out = String::new();
    section(&mut out, "tabane", &about());
    section(&mut out, "environment, names only", &environment());
    section(&mut out, "tabane status --json", &status());
    section(&mut out, "tabane doctor", &diagnosis(config));
    let shown = config.display();
    section(
        &mut out,
        &format!("{shown}, without keys and comments"),
        &cluster_file(config),
    );
    section(&mut out, "the last lines of the log", &daemon_log());
    section(&mut out, "settings of the kernel", &settings());
    for (program, words, instead) in PROGRAMS {
        let text = said(program, words).unwrap_or_else(|why| {
            format!("{why}; {instead} instead:\n{}", content(Path::new(instead)))
        });
        section(&mut out, &format!("{program} {}", words.join(" ")), &text);
    }
    for file in FILES {
        section(&mut out, file, &content(Path::new(file)));
    }
    scrub::scrub(&out, &secrets(config))
}

fn section(out: &mut String, title: &str, text: &str) {
    let _ = writeln!(out, "==== {title}\n{}\n", text.trim_end());
}

fn about() -> String {
    let ms = unix_ms();
    let made = log::utc(ms / 1000, (ms % 1000) as u32);
    format!(
        "version {}\nmade {made}\nWhatever may be a key is removed from this text, public keys too.",
        env!("CARGO_PKG_VERSION")
    )
}

/// Which variables of ours are set. Their values may be keys.
fn environment() -> String {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("TABANE_")).collect();
    names.sort();
    match names.is_empty() {
        true => "no variable TABANE_… is set".to_owned(),
        false => names.join("\n"),
    }
}

fn status() -> String {
    match ask_here(ask_status) {
        Ok(value) => format!("{value:#}"),
        Err(error) => error.to_string(),
    }
}

fn diagnosis(config: &Path) -> String {
    doctor::text_of(config, WATCH).unwrap_or_else(|why| why)
}

fn cluster_file(config: &Path) -> String {
    match tabane_cluster::without_keys(config) {
        Ok(table) => serde_json::to_string_pretty(&table).unwrap_or_else(|error| error.to_string()),
        Err(why) => format!("not shown: {why}"),
    }
}

fn daemon_log() -> String {
    let words = [
        "--unit=tabane",
        "--no-pager",
        "--output=short-iso",
        "--lines",
        LOG_LINES,
    ];
    said("journalctl", &words)
        .unwrap_or_else(|why| format!("{why}: take the lines from where the daemon writes them"))
}

fn settings() -> String {
    let mut out = String::new();
    for name in SETTINGS {
        let value = fs::read_to_string(Path::new("/proc/sys").join(name));
        let value = value.map_or_else(
            |error| plain(&error).to_string(),
            |value| value.trim().to_owned(),
        );
        let _ = writeln!(out, "{} = {value}", name.replace('/', "."));
    }
    out
}

fn content(path: &Path) -> String {
    let read = |file: fs::File| {
        let mut bytes = Vec::new();
        file.take(SECTION_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    fs::File::open(path)
        .and_then(read)
        .unwrap_or_else(|error| plain(&error).to_string())
}

/// What a program prints; else why it does not.
fn said(program: &str, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let started = command.stderr(Stdio::null()).spawn();
    let mut child = started.map_err(|error| format!("{program}: {}", plain(&error)))?;
    let output = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.map(|output| output.take(SECTION_BYTES_MAX).read_to_end(&mut bytes));
        // What was read before an error is better than nothing.
        drop(read);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let until = Instant::now() + PROGRAM_MAX;
    while !reader.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    // It has said enough, or hangs.
    let _ = child.kill();
    let _ = child.wait();
    let text = reader.join().unwrap_or_default();
    match text.trim().is_empty() {
        true => Err(format!("{program} says nothing")),
        false => Ok(text),
    }
}

/// Keys of this machine that can be read: if one is anywhere in the text, it is taken out.
fn secrets(config: &Path) -> Vec<String> {
    let mut secrets = Vec::new();
    if let Ok((cluster, _)) = Cluster::load(config) {
        secrets.extend(
            cluster
                .keys()
                .iter()
                .map(|key| tabane_cluster::ClusterKey::new(*key).to_hex()),
        );
    }
    let own = Cluster::node_key_file_of(config);
    if let Ok(file) = fs::File::open(own) {
        let mut text = String::new();
        if file
            .take(KEY_FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .is_ok()
        {
            secrets.push(text.trim().to_owned());
        }
    }
    let of_environment = std::env::vars_os().filter(|(name, _)| name == "TABANE_KEY");
    secrets.extend(of_environment.filter_map(|(_, value)| value.into_string().ok()));
    let capitals: Vec<String> = secrets.iter().map(|secret| secret.to_uppercase()).collect();
    secrets.extend(capitals);
    secrets
}
