//! The program as a user and a script meet it: output, and exit codes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn tabane() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tabane"))
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    told(tabane().args(args).output().unwrap())
}

fn told(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A path that no other test and no earlier run uses, with nothing there.
struct Scratch {
    file: PathBuf,
    directory: PathBuf,
}

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("tabane-cli-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        // There is something only if an earlier run with this process id was killed.
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let file = directory.join("cluster.toml");
        Self { file, directory }
    }

    fn path(&self) -> &Path {
        &self.file
    }

    fn text(&self) -> &str {
        self.file.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: what is left in /tmp fails no test.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn help_and_version() {
    let (code, out, err) = run(&["--version"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, format!("tabane {}\n", env!("CARGO_PKG_VERSION")));
    let (code, out, err) = run(&["--help"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    for command in ["init", "key", "up", "status", "top", "lab", "demo"] {
        assert!(
            out.contains(&format!("\n  {command} ")),
            "{command} is missing in {out}"
        );
    }
}

#[test]
fn a_wrong_command_line_is_2() {
    for args in [
        &["frobnicate"][..],
        &["up", "--nodes", "3"],
        &["init", "--nodes", "3"],
        &[],
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}");
        assert!(err.contains("Usage: tabane"), "{err}");
    }
}

#[test]
fn init_writes_once() {
    let file = Scratch::new("init");
    let (code, out, err) = run(&["init", file.text()]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(
        out.contains(&format!("tabane up --config {}", file.text())),
        "{out}"
    );
    let before = std::fs::read(file.path()).unwrap();

    let (code, out, err) = run(&["init", file.text()]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(
        err,
        format!(
            "tabane: {}: is already there and was not touched; name another file or move it away\n",
            file.text()
        )
    );
    assert_eq!(std::fs::read(file.path()).unwrap(), before);
}

#[test]
fn init_with_nodes_writes_a_file_that_is_ready() {
    let file = Scratch::new("init-nodes");
    let wrong = ["init", file.text(), "--node", "n0=10.77.0.1,10.77.1.x"];
    let (code, out, err) = run(&wrong);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("--node n0=10.77.0.1,10.77.1.x: "), "{err}");
    assert!(!file.path().exists());
    let range = "n[1-3]=10.77.0.[2-4],10.77.1.[2-4]";
    let nodes = ["--node", "n0=10.77.0.1,10.77.1.1", "--node", range];
    let (code, out, err) = run(&[&["init", file.text()], &nodes[..]].concat());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(!out.contains("add your nodes"), "{out}");
    let (_, _, err) = run(&["up", "--config", file.text(), "--node", "n9"]);
    assert!(
        err.contains("n9") && !err.contains("there are no nodes yet"),
        "{err}"
    );
}

#[test]
fn key_shows_the_key_that_init_made_and_makes_one_that_is_missing() {
    let file = Scratch::new("key");
    let node_key = file.directory.join("node.key");
    let key = || run(&["key", "--config", file.text()]);
    let (_, out, _) = run(&["init", file.text()]);
    let made = format!(
        "{} written, with this machine's private key",
        node_key.display()
    );
    assert!(out.contains(&made), "{out}");
    let (code, first, err) = key();
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(
        first.starts_with("public = \"") && first.ends_with("=\"\n"),
        "{first}"
    );
    assert_eq!(key(), (Some(0), first.clone(), String::new()));

    std::fs::remove_file(&node_key).unwrap();
    let (code, second, err) = key();
    assert_eq!(code, Some(0));
    let made = format!(
        "{} made, with the private key of this machine",
        node_key.display()
    );
    assert!(err.contains(&made), "{err}");
    assert_ne!(first, second);

    std::fs::write(&node_key, "spoilt").unwrap();
    let (code, out, err) = key();
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let why = format!(
        "tabane: {}: is not the private key of a node; ",
        node_key.display()
    );
    assert!(err.starts_with(&why), "{err}");
}

#[test]
fn a_wrong_cluster_file_is_2() {
    let file = Scratch::new("up");
    run(&["init", file.text()]);
    let (code, out, err) = run(&["up", "--config", file.text()]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert_eq!(
        err,
        format!(
            "{}: there are no nodes yet; add a `[[node]]` with `name` and `links` for each \
             machine; in a file made by `tabane init`, fill in the examples and remove the `#` \
             before them\n",
            file.text()
        )
    );
    let missing = Scratch::new("missing");
    let (code, _, err) = run(&["up", "--config", missing.text()]);
    assert_eq!(code, Some(2));
    assert!(
        err.starts_with(&format!("{}: cannot be read: ", missing.text())),
        "{err}"
    );
}

/// `tabane … | head -0`: the reader is gone before anything is written.
#[test]
fn a_reader_that_went_away_is_no_error() {
    for args in [&["--help"][..], &["lab", "list"], &["init", "FILE"]] {
        let file = Scratch::new("pipe");
        let args = args
            .iter()
            .map(|&a| if a == "FILE" { file.text() } else { a });
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = tabane();
        let child = command.args(args).stdout(writer).stderr(Stdio::piped());
        let (code, _, err) = told(child.output().unwrap());
        assert_eq!((code, err.as_str()), (Some(0), ""), "{command:?}");
    }
}

/// `/dev/full` refuses every byte.
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let file = Scratch::new("full");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = tabane();
    let output = command
        .args(["init", file.text()])
        .stdout(full)
        .output()
        .unwrap();
    let (code, _, err) = told(output);
    assert_eq!(code, Some(1));
    assert_eq!(err, "tabane: standard output: no space left on device\n");
}

#[test]
fn top_needs_a_terminal_and_says_what_does_not() {
    for args in [&["top"][..], &["top", "--once"]] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.contains("`tabane status`"), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    let (code, _, err) = run(&["top", "--interval", "0"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("0.2 to 3600"), "{err}");
}

/// Ctrl-L once ended it: it asked the terminal for the cursor's place, and nobody read the answer.
#[test]
fn top_draws_anew_and_goes_on_until_it_is_left() {
    let mut script = Command::new("script");
    script.args([
        "-qec",
        concat!(env!("CARGO_BIN_EXE_tabane"), " top"),
        "/dev/null",
    ]);
    script.env("TERM", "xterm").stdin(Stdio::piped());
    script.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut script = script.spawn().expect("`script` is there");
    let mut keys = script.stdin.take().unwrap();
    for key in [b"\x0c", b"q"] {
        // It waited 2 s for an answer.
        std::thread::sleep(Duration::from_millis(2_500));
        keys.write_all(key).unwrap();
    }
    let (code, out, err) = told(script.wait_with_output().unwrap());
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!out.contains("\x1b[6n"), "it asks: {out:?}");
}
