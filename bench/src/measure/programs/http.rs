//! HTTP: files from nginx on node 1 to curl on node 0, and short connections to wrk there.

use std::fmt::Write;
use std::path::Path;

use super::contest::{Contest, WAYS};
use super::{Cost, files, finish, last_lines};
use crate::measure::two_nodes;
use crate::tools::{CURL, NGINX, WRK};
use crate::{Report, Settings};
use tabane_lab::cluster::{Program, socket_address};
use tabane_lab::ways::Arena;
use tabane_lab::{LabError, LinkSpec};

const PORT: u16 = 8080;
/// Where nginx closes each connection after one answer.
const SHORT_PORT: u16 = 8081;
const SMALL_BYTES: u64 = 16 * 1024;
const SMALL_COUNT: usize = 4000;
/// Of curl, and of its connections.
const AT_ONCE: usize = 16;
/// Of wrk.
const CONNECTIONS: u32 = 50;

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let files = files::scratch()?;
    let large_bytes = (settings.seconds * 240e6) as u64;
    let few = SMALL_COUNT / 4;
    files::write(&files.path().join("large"), large_bytes)?;
    files::write(&files.path().join("short"), 1024)?;
    files::write_many(&files.path().join("small"), SMALL_COUNT, SMALL_BYTES)?;
    let lists = [(SMALL_COUNT, AT_ONCE), (few, 1)];
    let contest = Contest {
        title: "HTTP download, nginx to curl, 2 × 1 Gb/s".into(),
        note: "Files in memory; connections are kept and used again. Cubic.".into(),
        ways: &WAYS,
        tools: &[NGINX, CURL],
        figures: &["MB/s", "CPU s/GB"],
        batches: vec![
            vec![format!("1 file of {} MB", large_bytes / 1_000_000)],
            vec![format!("{SMALL_COUNT} files of 16 KB, {AT_ONCE} at once")],
            vec![format!("{few} files of 16 KB, one after the other")],
        ],
    };
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let serve = |arena: &Arena| serve(arena, files.path());
    let mut report = contest.run(settings, &config, serve, |contestant, batch| {
        let arena = &contestant.stand;
        let figures = match batch.checked_sub(1) {
            None => large(arena, large_bytes)?,
            Some(list) => small(arena, files.path(), lists[list])?,
        };
        Ok(vec![figures])
    });
    let contest = Contest {
        title: "HTTP, a new connection for each request, nginx to wrk, 2 × 1 Gb/s".into(),
        note: format!("{CONNECTIONS} at once; the server closes each after its answer. Cubic."),
        ways: &WAYS,
        tools: &[NGINX, WRK],
        figures: &["requests/s", "CPU µs each"],
        batches: vec![vec!["1 KB".into()]],
    };
    let short = contest.run(settings, &config, serve, |contestant, _| {
        Ok(vec![short(&contestant.stand, settings.seconds)?])
    });
    report.extend(short);
    Ok(report)
}

fn serve(arena: &Arena, files: &Path) -> Result<(Program, tabane_lab::cluster::Scratch), LabError> {
    let own = files::scratch()?;
    let (directory, root) = (own.path().display(), files.display());
    // Every lab's user is root there; nginx would give its directories to nobody.
    let text = format!(
        "daemon off; master_process off; user root root; pid {directory}/pid; error_log stderr crit;\n\
         events {{ worker_connections 256; }}\n\
         http {{\n access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;\n \
         client_body_temp_path {directory}/t; proxy_temp_path {directory}/t;\n \
         fastcgi_temp_path {directory}/t; uwsgi_temp_path {directory}/t; scgi_temp_path {directory}/t;\n \
         server {{ listen {PORT}; root {root}; }}\n \
         server {{ listen {SHORT_PORT}; root {root}; keepalive_timeout 0; }}\n}}\n"
    );
    let file = own.path().join("nginx.conf");
    files::write_text(&file, &text)?;
    let mut nginx = arena.command(1, NGINX.find()?)?;
    nginx
        .arg("-e")
        .arg("stderr")
        .arg("-p")
        .arg(own.path())
        .arg("-c")
        .arg(&file);
    let mut nginx = Program::start_quiet("nginx", nginx)?;
    arena.listens(1, &mut nginx, PORT)?;
    arena.listens(1, &mut nginx, SHORT_PORT)?;
    Ok((nginx, own))
}

fn url(arena: &Arena, port: u16) -> String {
    format!("http://{}", socket_address(arena.address(1), port))
}

fn large(arena: &Arena, bytes: u64) -> Result<Vec<f64>, LabError> {
    let mut curl = arena.command(0, CURL.find()?)?;
    curl.args(["--silent", "--show-error", "--fail", "-o", "/dev/null"]);
    curl.args(["-w", "%{size_download}"])
        .arg(format!("{}/large", url(arena, PORT)));
    let (said, cost) = Cost::of(|| finish("curl", curl))?;
    complete(&String::from_utf8_lossy(&said.stdout), bytes)?;
    Ok(cost.figures(bytes))
}

fn small(
    arena: &Arena,
    files: &Path,
    (count, at_once): (usize, usize),
) -> Result<Vec<f64>, LabError> {
    let url = url(arena, PORT);
    let mut list = String::new();
    for number in 0..count {
        let _ = writeln!(
            list,
            "url = \"{url}/small/{number}\"\noutput = \"/dev/null\""
        );
    }
    // Addresses differ from way to way.
    let file = files.join(format!("list-{}", arena.lab().name()));
    files::write_text(&file, &list)?;
    let mut curl = arena.command(0, CURL.find()?)?;
    curl.args([
        "--silent",
        "--show-error",
        "--fail",
        "-w",
        "%{size_download}\\n",
    ]);
    if at_once > 1 {
        curl.args([
            "--parallel",
            "--parallel-immediate",
            "--parallel-max",
            &at_once.to_string(),
        ]);
    }
    curl.arg("--config").arg(&file);
    let (said, cost) = Cost::of(|| finish("curl", curl))?;
    let bytes = count as u64 * SMALL_BYTES;
    complete(&String::from_utf8_lossy(&said.stdout), bytes)?;
    Ok(cost.figures(bytes))
}

fn short(arena: &Arena, seconds: f64) -> Result<Vec<f64>, LabError> {
    let mut wrk = arena.command(0, WRK.find()?)?;
    wrk.args(["-t", "1", "-c", &CONNECTIONS.to_string()]);
    wrk.args(["-d", &format!("{seconds:.0}s")]);
    wrk.arg(format!("{}/short", url(arena, SHORT_PORT)));
    let (said, cost) = Cost::of(|| finish("wrk", wrk))?;
    let said = String::from_utf8_lossy(&said.stdout);
    let (requests, per_s) = answered(&said).ok_or_else(|| LabError::ToolFailed {
        tool: "wrk",
        place: "n0".into(),
        message: last_lines(&said),
    })?;
    Ok(vec![per_s, cost.busy_s * 1e6 / requests])
}

/// How many requests wrk says were answered, and how many in a second; nothing if one failed.
fn answered(said: &str) -> Option<(f64, f64)> {
    if said.contains("Non-2xx") || said.contains("Socket errors") {
        return None;
    }
    let mut words = said.split_whitespace();
    let requests = said.lines().find_map(|line| {
        let (count, _) = line.split_once(" requests in ")?;
        count.trim().parse().ok()
    });
    words.find(|word| *word == "Requests/sec:")?;
    Some((requests?, words.next()?.parse().ok()?))
}

/// Whether the sizes that curl says it got are all there should be.
fn complete(said: &str, wanted: u64) -> Result<(), LabError> {
    let got: u64 = said
        .split_whitespace()
        .filter_map(|word| word.parse::<u64>().ok())
        .sum();
    if got == wanted {
        return Ok(());
    }
    Err(LabError::ToolFailed {
        tool: "curl",
        place: "n0".into(),
        message: format!("got {got} bytes of {wanted}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says_is_understood() {
        let said = "Running 2s test @ http://10.0.0.1\n  6421 requests in 2.00s, 7.9MB read\n\
                    Requests/sec:   3209.57\nTransfer/sec: 3.9MB\n";
        assert_eq!(answered(said), Some((6421.0, 3209.57)));
        let failed = said.to_owned() + "  Socket errors: connect 0, read 3, write 0, timeout 0\n";
        assert_eq!(answered(&failed), None);
        assert_eq!(answered("unable to connect"), None);
    }
}
