//! The examples, on two nodes of a lab, as a reader of them would run them.

use std::fs;
use std::path::{Path, PathBuf};

use tabane_lab::cluster::{Dialogue, LibraryNodes};
use tabane_lab::{Fault, LabConfig};

/// Two nodes, and an example.
struct Place {
    nodes: LibraryNodes,
    program: PathBuf,
}

impl Place {
    fn new(example: &str) -> Place {
        let nodes = LibraryNodes::up(&LabConfig::default()).expect("the lab comes up");
        let program = example_program(example);
        Place { nodes, program }
    }

    /// The example, serving.
    fn serve(&self, node: usize, arguments: &[&str]) -> Dialogue {
        let serving = self.nodes.serve(node, &self.program, arguments);
        serving.expect("serves")
    }

    fn run(&self, node: usize, arguments: &[&str]) -> String {
        let said = self.nodes.run(node, &self.program, arguments);
        said.expect("ends well")
    }
}

/// Cargo builds examples beside the directory of the tests.
fn example_program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("is known");
    let target = test.parent().and_then(Path::parent).expect("is there");
    target.join("examples").join(name)
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
    let (source, target) = (place.nodes.path("source"), place.nodes.path("target"));
    let content: Vec<u8> = (0..20_000_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(&source, &content).expect("is written");
    let mut receiver = place.serve(1, &["receive", &target.to_string_lossy()]);
    let said = place.run(0, &["n1", &source.to_string_lossy()]);
    assert!(said.starts_with("sent 20000000 bytes"), "{said}");
    let received = receiver.says("received 20000000 bytes from n0");
    received.expect("is said");
    assert!(receiver.wait().expect("ends").success());
    assert!(fs::read(&target).expect("is there") == content);
}

#[test]
fn failover() {
    let place = Place::new("failover");
    let mut receiver = place.serve(1, &[]);
    let mut sender = place.serve(0, &["n1"]);
    let up = sender.says("LinkUp { peer: \"n1\", link: 1 }");
    up.expect("is said");
    let lab = place.nodes.lab();
    for link in 0..2 {
        lab.fail(link, Fault::Silent, None).expect("fails");
        let down = sender.says(&format!("LinkDown {{ peer: \"n1\", link: {link} }}"));
        down.expect("is said");
        lab.heal(link).expect("heals");
        let up = sender.says(&format!("LinkUp {{ peer: \"n1\", link: {link} }}"));
        up.expect("is said");
    }
    // Their end is the end of their input.
    sender.end_input();
    receiver.end_input();
    sender.says("sent ").expect("is said");
    let received = receiver.says("received ").expect("is said");
    assert!(received.contains("messages in order"), "{received}");
}
