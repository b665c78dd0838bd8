//! Where servers and their clients are, and what happens to them in the middle.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tabane_lab::cluster::{PATIENCE, Program};
use tabane_lab::{Fault, OutsideSpec};

use crate::common::eventually;
use crate::common::outside::{CLIENTS, OUTSIDE, outside, wait_serving, wait_standby};
use crate::site::{Site, content_of, serve_by, server_log, under_run, well};

/// So slow that transfers last while something happens.
const LINE_BITS_PER_S: u64 = 200_000_000;
/// What each transfer moves.
const FILE_BYTES: usize = 16 << 20;
/// Clients are in the middle when so much has passed them.
const MIDDLE_BYTES: u64 = 4 << 20;
/// What is shown of each log if a client fails.
const LOG_LINES: usize = 20;
/// By pidfd, to the daemon alone: what it has started finds itself without it.
const SIGKILL: i32 = 9;

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The switch of the first link goes silent, and stays so.
    Switch,
    /// The daemon of the gateway that serves is killed, and the other gateway takes over.
    Gateway,
}

/// Each of these functions is a test while a switch dies and a test while the gateway crashes.
macro_rules! through_each_failure {
    ($($test:ident),* $(,)?) => {
        mod a_switch_dies {
            $(#[test] fn $test() { super::$test(crate::scene::Failure::Switch); })*
        }
        mod the_gateway_crashes {
            $(#[test] fn $test() { super::$test(crate::scene::Failure::Gateway); })*
        }
    };
}

/// The cluster, the node whose programs are asked, and what is to happen.
pub struct Scene {
    pub site: Site,
    pub node: usize,
    failure: Failure,
}

/// A client that runs, and where it writes.
struct Running {
    name: &'static str,
    program: Program,
    said: [PathBuf; 2],
}

impl Running {
    fn output(&self, status: std::process::ExitStatus) -> Output {
        let [stdout, stderr] = [0, 1].map(|n| fs::read(&self.said[n]).expect("can be read"));
        Output {
            status,
            stdout,
            stderr,
        }
    }
}

impl Scene {
    /// Programs are on a node that is no gateway.
    pub fn new(failure: Failure) -> Scene {
        Scene::of(failure, 2)
    }

    pub fn of(failure: Failure, node: usize) -> Scene {
        let line = OutsideSpec {
            rate_bits_per_s: Some(LINE_BITS_PER_S),
            ..OutsideSpec::default()
        };
        let site = Site::from(outside(line));
        wait_standby(&site, 0);
        Scene {
            site,
            node,
            failure,
        }
    }

    pub fn path(&self, name: &str) -> String {
        self.site.directory().join(name).display().to_string()
    }

    /// A file to be moved.
    pub fn file(&self) -> PathBuf {
        content_of(&self.site, "file", FILE_BYTES)
    }

    /// A program on the node, under `tabane run`.
    pub fn inside(&self, program: &str, arguments: &[&str]) -> Command {
        under_run(&self.site, self.node, program, arguments)
    }

    /// A server on the node that listens.
    pub fn serve(&self, name: &str, command: Command, port: u16) -> Program {
        serve_by(&self.site, self.node, name, command, port)
    }

    /// What that server wrote to its errors.
    pub fn log(&self, port: u16) -> String {
        let path = server_log(&self.site, self.node, port);
        fs::read_to_string(path).expect("can be read")
    }

    /// A plain program of a client.
    pub fn client(&self, client: usize, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.site.lab().client_command(client, program);
        command
            .args(arguments)
            .current_dir(self.site.directory())
            .stdin(Stdio::null());
        command
    }

    /// What all of these say, who run at the same time and end well, though it happens in their middle.
    pub fn through(&mut self, clients: Vec<(&'static str, Command)>) -> Vec<String> {
        self.through_from(MIDDLE_BYTES, clients)
    }

    /// The same, the middle being where so many bytes have passed.
    pub fn through_from(
        &mut self,
        bytes: u64,
        clients: Vec<(&'static str, Command)>,
    ) -> Vec<String> {
        let until = self.passed() + bytes;
        self.through_when(|scene| scene.passed() > until, clients)
    }

    /// The same, the middle being where this is so.
    pub fn through_when(
        &mut self,
        mut is_middle: impl FnMut(&Scene) -> bool,
        clients: Vec<(&'static str, Command)>,
    ) -> Vec<String> {
        let mut running: Vec<Running> = clients.into_iter().map(|one| self.start(one)).collect();
        eventually("clients are in the middle", || {
            let has_ended = |one: &mut Running| one.program.ended().expect("is known").is_some();
            is_middle(self) || running.iter_mut().any(has_ended)
        });
        for one in &mut running {
            if let Some(status) = one.program.ended().expect("is known") {
                let said = well(one.name, &one.output(status));
                panic!("{} has ended before anything happened: {said}", one.name);
            }
        }
        self.happens();
        let ended = |mut one: Running| match one.program.wait(PATIENCE) {
            Ok(status) if status.success() => well(one.name, &one.output(status)),
            ended => {
                let said = one.said.each_ref().map(fs::read_to_string);
                panic!("{}: {ended:?}, {said:?}\n{}", one.name, self.logs())
            }
        };
        let said = running.into_iter().map(ended).collect();
        if self.failure == Failure::Gateway {
            wait_serving(&self.site, 2, "n1");
        }
        said
    }

    /// The last lines of all logs.
    pub fn logs(&self) -> String {
        let files = fs::read_dir(self.site.directory()).expect("is there");
        let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "log"));
        let last = |path: &PathBuf| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(LOG_LINES);
            format!("{}:\n{}\n", path.display(), lines[from..].join("\n"))
        };
        paths.iter().map(last).collect()
    }

    /// To files: what waits in a pipe would hold a program up.
    fn start(&self, (name, mut command): (&'static str, Command)) -> Running {
        let unique = |n: usize| {
            let made = tempfile::Builder::new()
                .prefix(&format!("said-{n}-"))
                .tempfile_in(self.site.directory());
            made.and_then(|file| Ok(file.into_temp_path().keep()?))
                .expect("can be made")
        };
        let said = [1, 2].map(unique);
        let open = |path: &PathBuf| File::create(path).expect("can be written");
        command.stdout(open(&said[0])).stderr(open(&said[1]));
        let program = Program::start(name, command).expect("starts");
        Running {
            name,
            program,
            said,
        }
    }

    fn happens(&mut self) {
        match self.failure {
            Failure::Switch => {
                let lab = self.site.lab();
                lab.fail(0, Fault::Silent, None).expect("fails");
            }
            Failure::Gateway => {
                let mut daemon = self.site.take(0).expect("runs");
                daemon.signal(SIGKILL).expect("is sent");
                daemon.wait(PATIENCE).expect("ends");
            }
        }
    }

    /// How many bytes the clients have received and sent so far.
    fn passed(&self) -> u64 {
        let count = |client| {
            let names = ["rx_bytes", "tx_bytes"]
                .map(|name| format!("/sys/class/net/eth0/statistics/{name}"));
            let cat = self.client(client, "cat", &[&names[0], &names[1]]);
            let said = tabane_lab::cluster::output("cat", cat, PATIENCE).expect("ends");
            let numbers = well("cat", &said);
            let numbers = numbers.lines().map(|n| n.parse::<u64>().expect("a number"));
            numbers.sum::<u64>()
        };
        count(0) + count(1)
    }
}

/// The client of a family, and the address that it has.
pub const FAMILIES: [usize; 2] = [0, 1];

pub fn address_of_client(family: usize) -> &'static str {
    CLIENTS[family][family]
}

/// `ADDRESS:PORT` of the cluster.
pub fn end(family: usize, port: u16) -> String {
    let address = OUTSIDE[family].parse().expect("an address");
    tabane_lab::cluster::socket_address(address, port)
}

/// Both clients' own addresses are in a log, and neither the cluster's is, nor one that the gateways have inside.
pub fn names_clients(log: &str) {
    for family in FAMILIES {
        assert!(log.contains(address_of_client(family)), "{log}");
        assert!(!names(log, OUTSIDE[family]), "{log}");
    }
    for gateway in [
        "10.77.0.1",
        "10.77.1.1",
        "10.77.0.2",
        "10.77.1.2",
        "10.99.0.1",
        "10.99.0.2",
    ] {
        assert!(!names(log, gateway), "{log}");
    }
}

/// Whether an address is there that is not the beginning of a longer one.
pub fn names(log: &str, address: &str) -> bool {
    let mut rests = log.split(address).skip(1);
    rests.any(|rest| !rest.starts_with(|next: char| next.is_ascii_hexdigit()))
}
