//! The guides are followed: each from its first block to its last, on machines of its own.
//!
//! A comment near the top says which: `<!-- machines: … -->` (see [`Kind`]). A comment on the line above a block says where it is done:
//!
//! - none: on machine n0,
//! - `<!-- on: n1 -->`, `<!-- on: each -->`, `<!-- on: c0 -->` (a client of the network outside),
//! - `<!-- on: n1, until the end -->`: it does not end by itself,
//! - `<!-- not run: REASON -->`: a test cannot; the page says so, too.
//!
//! An `sh` block is done, and must not fail. In a `text` block what stands after `$ ` is done until it says what stands below it,
//! where `…` is anything. `<!-- cut: link 1 -->` and `<!-- cut: link 1 at n0 -->` silence a link, or one cable of it, and
//! `<!-- mend: link 1 -->` mends it.

use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use tabane_lab::cluster::{ClusterConfig, PATIENCE, Program, output};
use tabane_lab::{Fault, LabConfig, OutsideSpec};

use crate::blocks::{Block, GUIDES, Part, documents, parts_of};
use crate::common::{lab, text};
use crate::machines::Machines;

const PAUSE: Duration = Duration::from_millis(50);

/// The machines that a guide needs.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Two with two links, where tabane is installed and not set up.
    Installed,
    /// Three, likewise; each pair has a cable of its own, and there is no switch.
    Cables,
    /// Two with two links, where a cluster runs.
    Running,
    /// Three, likewise; the first two lead outside, where clients are.
    Outside,
}

impl Kind {
    fn of(words: &str) -> Option<Kind> {
        match words {
            "two, installed" => Some(Kind::Installed),
            "three cables, installed" => Some(Kind::Cables),
            "two, running" => Some(Kind::Running),
            "outside, running" => Some(Kind::Outside),
            _ => None,
        }
    }

    fn machines(&self) -> Machines {
        let two = || lab(&LabConfig::default());
        match self {
            Kind::Installed => Machines::installed(two()),
            Kind::Cables => Machines::installed(three_cables()),
            Kind::Running => Machines::running_on(two(), ClusterConfig::default()),
            Kind::Outside => {
                let outside = LabConfig {
                    nodes: 3,
                    outside: Some("1gbit".parse::<OutsideSpec>().expect("is a line")),
                    ..LabConfig::default()
                };
                let config = ClusterConfig {
                    gateway: true,
                    ..ClusterConfig::default()
                };
                Machines::running_on(lab(&outside), config)
            }
        }
    }
}

/// Cable 0 from n0 to n1, cable 1 from n1 to n2, cable 2 from n2 to n0: of the lab's three NICs each node has two.
fn three_cables() -> tabane_lab::Lab {
    let lab = lab(&LabConfig {
        nodes: 3,
        links: vec![tabane_lab::LinkSpec::default(); 3],
        ..LabConfig::default()
    });
    for (node, device) in [(0, "eth1"), (1, "eth2"), (2, "eth0")] {
        let off = ["link", "set", "dev", device, "down"];
        lab.ip(node, &off).expect("is switched off");
        let flush = ["address", "flush", "dev", device];
        lab.ip(node, &flush).expect("has no address");
    }
    lab
}

/// Where a block is done.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Node(usize),
    Each,
    Client(usize),
}

/// What the mark of a block says: where, and whether it goes on until the end.
fn place_of(mark: Option<&str>) -> Option<(Place, bool)> {
    let Some(mark) = mark else {
        return Some((Place::Node(0), false));
    };
    let words = mark.strip_prefix("on:")?.trim();
    let (place, stays) = match words.strip_suffix(", until the end") {
        Some(place) => (place, true),
        None => (words, false),
    };
    let number = |prefix| place.strip_prefix(prefix)?.parse::<usize>().ok();
    let place = match place {
        "each" => Place::Each,
        _ => number("n")
            .map(Place::Node)
            .or_else(|| number("c").map(Place::Client))?,
    };
    Some((place, stays))
}

/// A link, and the machine at which only.
fn link_of(words: &str) -> Option<(usize, Option<usize>)> {
    let link = words.trim().strip_prefix("link ")?;
    match link.split_once(" at n") {
        Some((link, node)) => Some((link.parse().ok()?, Some(node.parse().ok()?))),
        None => Some((link.parse().ok()?, None)),
    }
}

/// The commands of a block, each with what must be seen of it.
fn commands(block: &Block) -> Vec<(String, Vec<String>)> {
    if block.language == "sh" {
        return vec![(block.text.clone(), Vec::new())];
    }
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) => shown.push(line.to_owned()),
            (None, None) => {}
        }
    }
    commands
}

/// Whether these lines are all said, in their order; between them may be others.
fn is_said(shown: &[String], said: &str) -> bool {
    let mut said = said.lines();
    shown
        .iter()
        .filter(|line| !line.trim().is_empty())
        .all(|line| said.any(|candidate| is_line(line, candidate)))
}

/// Whether a line is as shown, where `…` is anything and spaces are one.
fn is_line(shown: &str, said: &str) -> bool {
    let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, said) = (spaced(shown), spaced(said));
    let Some((first, rest)) = shown.split_once('…') else {
        return shown == said;
    };
    let Some(mut said) = said.strip_prefix(first.trim_end()) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split('…').map(str::trim).collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match said.split_once(piece) {
            Some((_, after)) => said = after,
            None => return false,
        }
    }
    said.ends_with(last)
}

/// A guide that is followed.
struct Walk {
    machines: Machines,
    /// What goes on until the end.
    staying: Vec<Program>,
}

impl Walk {
    fn order(&self, order: &str) -> Result<(), String> {
        let not_understood = || format!("not understood: {order}");
        let (word, what) = order.split_once(':').ok_or_else(not_understood)?;
        let (link, node) = link_of(what).ok_or_else(not_understood)?;
        let lab = self.machines.lab();
        let done = match word {
            "cut" => lab.fail(link, Fault::Silent, node),
            _ => lab.heal(link),
        };
        done.map(drop).map_err(|error| error.to_string())
    }

    fn command(&self, place: &Place, node: usize, script: &str) -> Command {
        match place {
            Place::Client(client) => {
                let mut shell = self.machines.lab().client_command(*client, "bash");
                shell.args(["--norc", "-e", "-c", script]);
                shell
            }
            Place::Node(_) | Place::Each => self.machines.command_at_home(node, script),
        }
    }

    fn block(&mut self, block: &Block) -> Result<(), String> {
        let marked = place_of(block.mark.as_deref());
        let (place, stays) = marked.ok_or_else(|| format!("not understood: {:?}", block.mark))?;
        let nodes = match place {
            Place::Node(node) => node..node + 1,
            Place::Each => 0..self.machines.count(),
            Place::Client(_) => 0..1,
        };
        for node in nodes {
            for (script, shown) in commands(block) {
                let again = || self.command(&place, node, &script);
                if stays {
                    let program = Program::start_quiet("bash", again());
                    self.staying.push(program.expect("starts"));
                } else {
                    until_seen(again, &shown).map_err(|said| format!("{script}\n{said}"))?;
                }
            }
        }
        self.machines.up_if_noted();
        Ok(())
    }
}

/// Does it until what is shown is said, or once if nothing is.
fn until_seen(again: impl Fn() -> Command, shown: &[String]) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let ran = output("bash", again(), PATIENCE).map_err(|error| error.to_string())?;
        let said = text(&ran.stdout) + &text(&ran.stderr);
        let is_right = is_said(shown, &said);
        if is_right && ran.status.success() {
            return Ok(());
        }
        if shown.is_empty() || Instant::now() > until {
            let status = ran.status;
            return Err(format!(
                "{status}; it must say\n{}\nand said\n{said}",
                shown.join("\n")
            ));
        }
        std::thread::sleep(PAUSE);
    }
}

/// The page, its kind of machines, and its parts.
fn page(name: &str) -> (String, Kind, Vec<Part>) {
    let path = format!("{GUIDES}/{name}.md");
    let mut documents = documents().into_iter();
    let (_, page) = documents.find(|(name, _)| *name == path).expect("is there");
    let parts = parts_of(&path, &page);
    let kind = parts.iter().find_map(|part| match part {
        Part::Order(_, order) => Kind::of(order.strip_prefix("machines:")?.trim()),
        Part::Block(_) => None,
    });
    (
        page,
        kind.expect("`<!-- machines: … -->` is one of `Kind`"),
        parts,
    )
}

fn follow(name: &str) {
    let (_, kind, parts) = page(name);
    let mut walk = Walk {
        machines: kind.machines(),
        staying: Vec::new(),
    };
    for part in parts {
        let (place, done) = match part {
            Part::Order(_, order) if order.starts_with("machines:") => continue,
            Part::Order(place, order) => (place, walk.order(&order)),
            Part::Block(block) if block.reason().is_some() || block.script().is_none() => continue,
            Part::Block(block) => (block.place.clone(), walk.block(&block)),
        };
        if let Err(what) = done {
            panic!("{place}: this does not do what the guide says:\n{what}");
        }
    }
}

/// How many blocks with commands a page has, and how many of them are run; what is said about the others is on the page.
fn counted(page: &str, parts: &[Part]) -> (usize, usize) {
    let (mut run, mut all) = (0, 0);
    for part in parts {
        let Part::Block(block) = part else { continue };
        if block.script().is_none() {
            continue;
        }
        all += 1;
        match block.reason() {
            Some(reason) => assert!(
                page.contains(&format!("(not run by the tests: {reason})")),
                "{}: the page does not tell its readers \"(not run by the tests: {reason})\"",
                block.place
            ),
            None => run += 1,
        }
    }
    (run, all)
}

macro_rules! guides {
    ($($function:ident: $name:literal,)*) => {
        $(#[test] fn $function() { follow($name); })*
        const NAMES: &[&str] = &[$($name),*];
    };
}

guides! {
    ai_cluster: "ai-cluster",
    containers: "containers",
    outside_address: "outside-address",
    proxmox_and_ceph: "proxmox-ceph",
    storage: "storage",
    three_hosts_without_a_switch: "three-hosts",
    two_hosts: "two-hosts",
}

#[test]
fn the_index_has_all_guides_and_says_how_much_of_them_is_run() {
    let mut rows = String::new();
    for name in NAMES {
        let (page, _, parts) = page(name);
        let (run, all) = counted(&page, &parts);
        assert!(run > 0, "nothing of {name} is run");
        let _ = writeln!(rows, "({name}.md) | {run} of {all} |");
    }
    let documents = documents();
    let of_guides = documents
        .iter()
        .filter_map(|(name, _)| name.strip_prefix(GUIDES)?.strip_prefix('/'));
    let is_followed = |name: &&str| {
        let name = name.trim_end_matches(".md");
        name == "README" || NAMES.contains(&name)
    };
    let others: Vec<_> = of_guides.filter(|name| !is_followed(name)).collect();
    assert!(others.is_empty(), "no test follows {others:?}");
    let index = format!("{GUIDES}/README.md");
    let (_, index) = documents
        .iter()
        .find(|(name, _)| *name == index)
        .expect("is there");
    for row in rows.lines() {
        assert!(
            index.contains(row),
            "docs/guides/README.md has no row with {row}:\n{index}"
        );
    }
}

#[test]
fn what_is_shown_must_be_said() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let said = "PING 10.99.0.2\n3 packets transmitted, 0 received, 100% packet loss, time 2001ms\n  1 10.77.1.2  down  2s\n";
    let is_right = |text: &str| is_said(&shown(text), said);
    assert!(is_right(
        "3 packets transmitted, 0 received, 100% packet loss, time …"
    ));
    assert!(is_right("PING …\n…\n1 10.77.1.2 down …"));
    assert!(is_right("3 packets … received, 100% … loss, …"));
    assert!(!is_right(
        "3 packets transmitted, 3 received, 0% packet loss, time …"
    ));
    assert!(!is_right(
        "3 packets transmitted, 0 received, 100% packet loss"
    ));
    assert!(!is_right("1 10.77.1.2 down …\nPING …"), "in their order");
    assert!(!is_right("1 10.77.1.2 up …"));
}

#[test]
fn marks_of_guides_are_places() {
    assert_eq!(place_of(None), Some((Place::Node(0), false)));
    assert_eq!(place_of(Some("on: each")), Some((Place::Each, false)));
    assert_eq!(
        place_of(Some("on: n1, until the end")),
        Some((Place::Node(1), true))
    );
    assert_eq!(place_of(Some("on: c1")), Some((Place::Client(1), false)));
    assert_eq!(place_of(Some("on: somewhere")), None);
    assert_eq!(place_of(Some("run: fresh")), None);
    assert_eq!(link_of(" link 1 at n0"), Some((1, Some(0))));
    assert_eq!(link_of(" link 2"), Some((2, None)));
    assert_eq!(link_of(" 2"), None);
}
