//! What an example does on two nodes of a lab, in whichever language it is written.

use std::fs;
use std::path::Path;

use tabane_lab::cluster::{Dialogue, LibraryNodes};
use tabane_lab::{Fault, LabConfig};

/// Two nodes, and an example.
struct Place<'a> {
    nodes: LibraryNodes,
    program: &'a Path,
}

impl Place<'_> {
    fn new(program: &Path) -> Place<'_> {
        let nodes = LibraryNodes::up(&LabConfig::default()).expect("the lab comes up");
        Place { nodes, program }
    }

    /// The example, serving.
    fn serve(&self, node: usize, arguments: &[&str]) -> Dialogue {
        let serving = self.nodes.serve(node, self.program, arguments);
        serving.expect("serves")
    }

    fn run(&self, node: usize, arguments: &[&str]) -> String {
        let said = self.nodes.run(node, self.program, arguments);
        said.expect("ends well")
    }
}

/// `echo` gives back what it is sent.
pub fn echoes(program: &Path) {
    let place = Place::new(program);
    let _server = place.serve(1, &["serve"]);
    for text in ["hello", "over two links"] {
        assert_eq!(place.run(0, &["n1", text]).trim_end(), text);
    }
}

/// `copy` copies a file whole.
pub fn copies(program: &Path) {
    let place = Place::new(program);
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

/// `failover` says of each link to n1 that it is up or down, in words of its own, and loses nothing
/// when one fails.
pub fn survives_failures(
    program: &Path,
    is_up: impl Fn(usize) -> String,
    is_down: impl Fn(usize) -> String,
) {
    let place = Place::new(program);
    let mut receiver = place.serve(1, &[]);
    let mut sender = place.serve(0, &["n1"]);
    sender.says(&is_up(1)).expect("is said");
    let lab = place.nodes.lab();
    for link in 0..2 {
        lab.fail(link, Fault::Silent, None).expect("fails");
        sender.says(&is_down(link)).expect("is said");
        lab.heal(link).expect("heals");
        sender.says(&is_up(link)).expect("is said");
    }
    // Their end is the end of their input. The sender's first: it would wait for a receiver that has gone.
    sender.end_input();
    sender.says("sent ").expect("is said");
    receiver.end_input();
    let received = receiver.says("received ").expect("is said");
    assert!(received.contains("messages in order"), "{received}");
    assert!(sender.wait().expect("ends").success());
    assert!(receiver.wait().expect("ends").success());
}
