//! The command line, as a person or a script uses it.

mod common;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use common::*;
use tabane_lab::Lab;

struct Cli {
    name: String,
}

impl Cli {
    /// A name for a lab of this test.
    fn new(test: &str) -> Self {
        Cli {
            name: format!("{test}-{}", std::process::id()),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tabane-lab"));
        command
            .arg(words[0])
            .args(["--name", &self.name])
            .args(&words[1..]);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        run(self.command(words))
    }

    fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(
            output.status.success(),
            "{words:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    fn wrong(&self, words: &[&str], says: &str) {
        let output = self.run(words);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
        assert!(message.contains(says), "{words:?}: {message}");
    }
}

impl Drop for Cli {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
    }
}

#[test]
fn a_session() {
    let cli = Cli::new("session");
    let said = cli.ok(&[
        "up",
        "--rates",
        "1gbit,250mbit",
        "--delay",
        "0us,2ms",
        "--loss",
        "0,1%",
    ]);
    assert!(
        said.contains("link 1: 10.77.1.0/24, 250 Mb/s, delay 2ms, loss 1%"),
        "{said}"
    );
    let trace = trace(&Lab::open(&cli.name).expect("stays up"));
    assert_eq!(cli.ok(&["list"]), said);
    assert!(cli.ok(&["list", "--json"]).contains("\"holder\""));
    let ping = [
        "exec",
        "n0",
        "--",
        "ping",
        "-qc3",
        "-i0.01",
        "-W1",
        "10.77.0.2",
    ];
    cli.ok(&ping);
    for mode in ["silent", "carrier", "oneway", "loss=100%", "mtu=70"] {
        cli.ok(&["fail", "0", "--mode", mode]);
        assert_eq!(cli.run(&ping).status.code(), Some(1), "{mode}");
        cli.ok(&["heal", "0"]);
        assert!(eventually(|| cli.run(&ping).status.success()), "{mode}");
    }
    cli.ok(&["fail", "0", "--node", "n1"]);
    assert!(!cli.run(&ping).status.success());
    cli.ok(&["down"]);
    assert!(trace.is_gone(), "{:?}", trace.holders());
    cli.ok(&["down"]);
    assert_eq!(cli.ok(&["list"]), "");
}

#[test]
fn a_session_with_an_outside() {
    let cli = Cli::new("outside");
    let said = cli.ok(&["up", "--nodes", "3", "--outside", "100mbit,2ms"]);
    let told = "outside: clients c0 and c1, ext0 of n0 and n1, 100 Mb/s, round trip 2ms";
    assert!(said.contains(told), "{said}");
    let trace = trace(&Lab::open(&cli.name).expect("stays up"));
    assert_eq!(cli.ok(&["list"]), said);
    let give = "ip address add 203.0.113.1/24 dev ext0";
    cli.ok(&["exec", "n0", "--", "sh", "-c", give]);
    let ping = "ping -qc3 -i0.01 -W1 203.0.113.1";
    let ping = ["exec", "c0", "--", "sh", "-c", ping];
    cli.ok(&ping);
    cli.ok(&["fail", "outside", "--node", "n0"]);
    assert_eq!(cli.run(&ping).status.code(), Some(1));
    cli.ok(&["heal", "outside"]);
    assert!(eventually(|| cli.run(&ping).status.success()));
    cli.wrong(&["exec", "c2", "--", "true"], "c0 to c1");
    cli.wrong(&["fail", "outside", "--node", "n2"], "n0 and n1");
    cli.wrong(&["fail", "outside", "--mode", "mtu=1400"], "oneway");
    cli.ok(&["down"]);
    assert!(trace.is_gone(), "{:?}", trace.holders());
}

#[test]
fn exec_passes_codes_signals_and_input() {
    let cli = Cli::new("exec");
    cli.ok(&["up"]);
    assert_eq!(
        cli.run(&["exec", "n1", "--", "sh", "-c", "exit 7"])
            .status
            .code(),
        Some(7)
    );
    assert_eq!(
        cli.run(&["exec", "n1", "sh", "-c", "exit 8"]).status.code(),
        Some(8)
    );
    assert_eq!(
        cli.run(&["exec", "n1", "--", "/no/such/program"])
            .status
            .code(),
        Some(127)
    );

    let mut cat = cli.command(&["exec", "n0", "--", "cat"]);
    let mut cat = cat
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    cat.stdin
        .take()
        .expect("piped")
        .write_all(b"through")
        .expect("writes");
    assert_eq!(cat.wait_with_output().expect("ends").stdout, b"through");

    let mut sleep = cli
        .command(&["exec", "n0", "--", "sleep", "1000"])
        .spawn()
        .expect("starts");
    let comm = format!("/proc/{}/comm", sleep.id());
    assert!(eventually(
        || std::fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n")
    ));
    sleep.kill().expect("is killed");
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(sleep.wait().expect("ends").signal(), Some(9));
}

#[test]
fn wrong_words_are_answered_with_right_ones() {
    let cli = Cli::new("wrong");
    cli.wrong(&["up", "--rate", "fast"], "1gbit");
    cli.wrong(&["up", "--rates", "1gbit,fast"], "250mbit");
    cli.wrong(&["up", "--rates", "1gbit,1gbit", "--links", "3"], "3 links");
    cli.wrong(
        &["up", "--delay", "0us,2ms,3ms", "--rates", "1gbit,1gbit"],
        "give one for each",
    );
    cli.wrong(&["up", "--delay", "2"], "2ms");
    cli.wrong(&["up", "--loss", "200%"], "100%");
    cli.wrong(&["up", "--outside", "0,2ms"], "1gbit,2ms");
    cli.wrong(&["up", "--outside", "fast"], "1gbit,2ms");
    cli.wrong(&["up", "--nodes", "0"], "1 to 200");
    cli.wrong(&["up", "--links", "9"], "1 to 8");
    cli.wrong(&["up", "--mtu", "5"], "576");
    cli.wrong(&["exec", "n0", "--", "true"], "no lab");
    cli.wrong(&["heal", "0"], "no lab");
    cli.ok(&["up"]);
    cli.wrong(&["up"], "is up already");
    cli.wrong(&["exec", "n2", "--", "true"], "n0 to n1");
    cli.wrong(&["exec", "1", "--", "true"], "n0 to n1");
    cli.wrong(&["fail", "2"], "0 to 1");
    cli.wrong(&["fail", "0", "--mode", "loud"], "carrier");
    cli.wrong(&["fail", "0", "--node", "n7"], "n0 to n1");
    cli.wrong(&["fail", "outside"], "--outside 1gbit,2ms");
    cli.wrong(&["heal", "outside"], "--outside 1gbit,2ms");
    cli.wrong(&["exec", "c0", "--", "true"], "--outside 1gbit,2ms");
    let nameless = Cli { name: "a/b".into() };
    nameless.wrong(&["up"], "letters");
    nameless.wrong(&["down"], "letters");
}

#[test]
fn a_missing_tool_is_named_with_its_package() {
    let cli = Cli::new("tools");
    let mut up = cli.command(&["up"]);
    // Where nothing is, not even in the system's directories, is nowhere on a
    // machine that can run this test; so ask the error itself.
    up.env("PATH", "/nonexistent");
    assert!(
        run(up).status.success(),
        "the system's directories are searched, too"
    );
    let missing = tabane_lab::LabError::MissingTool {
        tool: "nft",
        package: "nftables",
    };
    assert!(missing.to_string().contains("apt install nftables"));
}

#[test]
fn a_lab_in_the_background_with_a_delay_ends_when_its_holder_is_killed() {
    let cli = Cli::new("background");
    cli.ok(&["up", "--delay", "1ms"]);
    let lab = Lab::open(&cli.name).expect("is up");
    let (trace, emulator) = (
        trace(&lab),
        lab.summary().emulator.expect("delays need one"),
    );
    assert!(works(&lab, 0) && works(&lab, 1));
    let holder = lab.summary().holder.to_string();
    assert!(
        run({
            let mut kill = Command::new("kill");
            kill.args(["-9", &holder]);
            kill
        })
        .status
        .success()
    );
    assert!(trace.is_gone(), "{:?}", trace.holders());
    let state = || std::fs::read_to_string(format!("/proc/{emulator}/status")).unwrap_or_default();
    assert!(eventually(
        || !state().contains("tabane-lab") || state().contains("zombie")
    ));
}
