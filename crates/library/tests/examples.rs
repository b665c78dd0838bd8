//! The examples, on two nodes of a lab, as a reader of them would run them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use tabane_lab::cluster::{PATIENCE, Program, output};
use tabane_lab::{Fault, Lab, LabConfig};
use tempfile::TempDir;

/// Two nodes, and a cluster file of them.
struct Place {
    // In the order in which they must end.
    lab: Lab,
    scratch: TempDir,
}

impl Place {
    fn new() -> Place {
        let lab = Lab::up(&LabConfig::default()).expect("the lab comes up");
        let scratch = tempfile::tempdir().expect("a directory");
        let mut text = format!("key = \"{}\"\n", "0123456789abcdef".repeat(4));
        for node in 0..lab.nodes() {
            let links = (0..lab.links()).map(|link| format!("\"{}\"", lab.address(node, link)));
            let links: Vec<_> = links.collect();
            text += &format!(
                "[[node]]\nname = \"n{node}\"\nlinks = [{}]\n",
                links.join(", ")
            );
        }
        let place = Place { lab, scratch };
        let file = place.path("cluster.toml");
        fs::write(&file, text).expect("is written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("is ours");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// An example on a node.
    fn command(&self, node: usize, example: &str, arguments: &[&str]) -> Command {
        let mut command = self.lab.command(node, example_program(example));
        command.arg(self.path("cluster.toml")).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// An example that serves; it does when it has said its first line.
    fn serve(&self, node: usize, example: &str, arguments: &[&str]) -> Serving {
        let command = self.command(node, example, arguments);
        let mut program = Program::start(example, command).expect("starts");
        let stdin = program.take_stdin();
        let mut stdout = BufReader::new(program.take_stdout().expect("is piped"));
        stdout
            .read_line(&mut String::new())
            .expect("says something");
        Serving {
            program,
            stdin,
            stdout,
        }
    }
}

struct Serving {
    program: Program,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Serving {
    /// Its next line that has `part` in it.
    fn says(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            let bytes = self.stdout.read_line(&mut line).expect("can be read");
            assert!(bytes > 0, "never said: {part}");
            if line.contains(part) {
                return line;
            }
        }
    }
}

/// Cargo builds examples beside the directory of the tests.
fn example_program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("is known");
    let target = test.parent().and_then(Path::parent).expect("is there");
    target.join("examples").join(name)
}

fn run(place: &Place, node: usize, example: &str, arguments: &[&str]) -> String {
    let mut command = place.command(node, example, arguments);
    command.stdin(Stdio::null());
    let said = output(example, command, PATIENCE).expect("ends");
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{example}: {error}");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

#[test]
fn echo() {
    let place = Place::new();
    let _server = place.serve(1, "echo", &["serve"]);
    for text in ["hello", "over two links"] {
        assert_eq!(run(&place, 0, "echo", &["n1", text]).trim_end(), text);
    }
}

#[test]
fn copy() {
    let place = Place::new();
    let (source, target) = (place.path("source"), place.path("target"));
    let content: Vec<u8> = (0..20_000_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(&source, &content).expect("is written");
    let mut receiver = place.serve(1, "copy", &["receive", &target.to_string_lossy()]);
    let said = run(&place, 0, "copy", &["n1", &source.to_string_lossy()]);
    assert!(said.starts_with("sent 20000000 bytes"), "{said}");
    receiver.says("received 20000000 bytes from n0");
    receiver.program.wait(PATIENCE).expect("ends");
    assert!(fs::read(&target).expect("is there") == content);
}

#[test]
fn failover() {
    let place = Place::new();
    let mut receiver = place.serve(1, "failover", &[]);
    let mut sender = place.serve(0, "failover", &["n1"]);
    sender.says("LinkUp { peer: \"n1\", link: 1 }");
    for link in 0..2 {
        place.lab.fail(link, Fault::Silent, None).expect("fails");
        sender.says(&format!("LinkDown {{ peer: \"n1\", link: {link} }}"));
        place.lab.heal(link).expect("heals");
        sender.says(&format!("LinkUp {{ peer: \"n1\", link: {link} }}"));
    }
    for serving in [&mut sender, &mut receiver] {
        // Its end is the end of its input.
        serving.stdin.take().into_iter().for_each(|mut stdin| {
            let _ = stdin.flush();
        });
    }
    sender.says("sent ");
    let received = receiver.says("received ");
    assert!(received.contains("messages in order"), "{received}");
}
