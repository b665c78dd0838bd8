//! The examples in C, on two nodes of a lab, as a reader of them would run them.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use common::{C, Workshop, package};
use tabane_lab::cluster::{PATIENCE, Program, output};
use tabane_lab::{Fault, Lab, LabConfig};

/// Two nodes, a cluster file of them, and an example.
struct Place {
    // In the order in which they must end.
    lab: Lab,
    workshop: Workshop,
    example: &'static str,
}

impl Place {
    fn new(example: &'static str) -> Place {
        let lab = Lab::up(&LabConfig::default()).expect("the lab comes up");
        let workshop = Workshop::new();
        let mut text = format!("key = \"{}\"\n", "0123456789abcdef".repeat(4));
        for node in 0..lab.nodes() {
            let links = (0..lab.links()).map(|link| format!("\"{}\"", lab.address(node, link)));
            let links: Vec<_> = links.collect();
            text += &format!(
                "[[node]]\nname = \"n{node}\"\nlinks = [{}]\n",
                links.join(", ")
            );
        }
        let file = workshop.path("cluster.toml");
        fs::write(&file, text).expect("is written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("is ours");
        let source = package("examples").join(example).with_extension("c");
        workshop.program(C, &source, example);
        Place {
            lab,
            workshop,
            example,
        }
    }

    fn command(&self, node: usize, arguments: &[&str]) -> Command {
        let program = self.workshop.path(self.example);
        let mut command = self.lab.command(node, program);
        command
            .arg(self.workshop.path("cluster.toml"))
            .args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// The example, serving: it does when it has said its first line.
    fn serve(&self, node: usize, arguments: &[&str]) -> Serving {
        let command = self.command(node, arguments);
        let mut program = Program::start(self.example, command).expect("starts");
        let stdin = program.take_stdin();
        let mut stdout = BufReader::new(program.take_stdout().expect("is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("says something");
        Serving {
            program,
            stdin,
            stdout,
        }
    }

    fn run(&self, node: usize, arguments: &[&str]) -> String {
        let mut command = self.command(node, arguments);
        command.stdin(Stdio::null());
        let said = output(self.example, command, PATIENCE).expect("ends");
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{}: {error}", self.example);
        String::from_utf8_lossy(&said.stdout).into_owned()
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

    fn ends_well(&mut self) {
        let status = self.program.wait(PATIENCE).expect("ends");
        assert!(status.success());
    }
}

#[test]
fn echo() {
    let place = Place::new("echo");
    let _server = place.serve(1, &["serve"]);
    for text in ["hello", "over two links"] {
        assert_eq!(place.run(0, &["n1", text]).trim_end(), text);
    }
}

#[test]
fn copy() {
    let place = Place::new("copy");
    let (source, target) = (place.workshop.path("source"), place.workshop.path("target"));
    let content: Vec<u8> = (0..20_000_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(&source, &content).expect("is written");
    let mut receiver = place.serve(1, &["receive", &target.to_string_lossy()]);
    let said = place.run(0, &["n1", &source.to_string_lossy()]);
    assert!(said.starts_with("sent 20000000 bytes"), "{said}");
    receiver.says("received 20000000 bytes from n0");
    receiver.ends_well();
    assert!(fs::read(&target).expect("is there") == content);
}

#[test]
fn failover() {
    let place = Place::new("failover");
    let mut receiver = place.serve(1, &[]);
    let mut sender = place.serve(0, &["n1"]);
    sender.says("link 1 to n1 is up");
    for link in 0..2 {
        place.lab.fail(link, Fault::Silent, None).expect("fails");
        sender.says(&format!("link {link} to n1 is down"));
        place.lab.heal(link).expect("heals");
        sender.says(&format!("link {link} to n1 is up"));
    }
    // Their end is the end of their input.
    (sender.stdin, receiver.stdin) = (None, None);
    sender.says("sent ");
    let received = receiver.says("received ");
    assert!(received.contains("messages in order"), "{received}");
    sender.ends_well();
    receiver.ends_well();
}
