//! What the definition of the command line cannot tell: what the columns of the output mean, which files matter, and examples.

use std::fmt::Write;

use tabane_cluster::DEFAULT_PATH;

use super::markdown::escaped;

/// What a page has beyond its options.
pub(super) struct Sections {
    /// The page: `tabane-status`.
    pub(super) name: &'static str,
    /// Words of the output, with what they mean.
    pub(super) output: &'static [(&'static str, &'static str)],
    /// Files that are read or written, with what they are.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// What somebody wants, and the command line that does it.
    pub(super) examples: &'static [(&'static str, &'static str)],
}

const CLUSTER_FILE: (&str, &str) = (
    DEFAULT_PATH,
    "The cluster file, unless --config names another; see tabane-cluster.toml(5).",
);
const NODE_KEY: (&str, &str) = (
    "/etc/tabane/node.key",
    "This machine's private key, beside the cluster file. It must not leave the machine.",
);
const SOCKETS: (&str, &str) = (
    "/run/tabane/net-INODE",
    "The sockets at which the daemon of a network namespace answers.",
);

/// Of all pages, in the order of the commands.
pub(super) const ALL: &[Sections] = &[
    Sections {
        name: "tabane",
        output: &[],
        files: &[CLUSTER_FILE, NODE_KEY, SOCKETS],
        examples: &[
            (
                "Write the cluster file for two machines with two links each, on one of them:",
                "sudo tabane init --node n0=10.77.0.1,10.77.1.1 --node n1=10.77.0.2,10.77.1.2",
            ),
            (
                "Run a node in the foreground, on each of them:",
                "sudo tabane up",
            ),
            ("See how it is:", "tabane status"),
        ],
    },
    Sections {
        name: "tabane-init",
        output: &[],
        files: &[CLUSTER_FILE, NODE_KEY],
        examples: &[
            (
                "Two machines with two links each:",
                "sudo tabane init --node n0=10.77.0.1,10.77.1.1 --node n1=10.77.0.2,10.77.1.2",
            ),
            (
                "Three machines and three cables: a place stays empty where a machine is not on that network:",
                "sudo tabane init --node n0=10.77.0.1,,10.77.2.1 --node n1=10.77.0.2,10.77.1.2 --node n2=,10.77.1.3,10.77.2.3",
            ),
            (
                "A hundred machines, in another network of virtual NICs:",
                "sudo tabane init --vnic 10.98.0.0/24 --node 'n[00-99]=10.77.0.[1-100],10.77.1.[1-100]'",
            ),
            (
                "Find the nodes, while `tabane init --answer` runs on each of the others:",
                "sudo tabane init --scan",
            ),
            (
                "A file with explanations and examples, to be filled in:",
                "tabane init ./cluster.toml",
            ),
        ],
    },
    Sections {
        name: "tabane-key",
        output: &[],
        files: &[CLUSTER_FILE, NODE_KEY],
        examples: &[
            (
                "The line for this machine's place in the cluster file:",
                "sudo tabane key",
            ),
            (
                "The same, where the cluster file is somewhere else:",
                "sudo tabane key --config /srv/tabane/cluster.toml",
            ),
        ],
    },
    Sections {
        name: "tabane-up",
        output: &[],
        files: &[CLUSTER_FILE, NODE_KEY, SOCKETS],
        examples: &[
            (
                "Run this node, as its addresses say which it is:",
                "sudo tabane up",
            ),
            (
                "Run the node n1 by another file, on a machine with addresses of several nodes:",
                "sudo tabane up --config ./cluster.toml --node n1",
            ),
        ],
    },
    Sections {
        name: "tabane-run",
        output: &[],
        files: &[CLUSTER_FILE, SOCKETS],
        examples: &[
            (
                "A server, and on another node its client; the server has the name of its node:",
                "tabane run -- redis-server --bind 0.0.0.0\ntabane run -- redis-cli -h n0",
            ),
            (
                "A shell, from which all programs are carried:",
                "tabane run -- bash",
            ),
            (
                "A program in the place of a service that runs so already:",
                "sudo tabane run --join redis.service -- redis-cli",
            ),
            (
                "TCP in the clear, by the kernel's Multipath TCP:",
                "tabane run --via mptcp -- rsync -a /srv/ n1:/srv/",
            ),
        ],
    },
    Sections {
        name: "tabane-mpi",
        output: &[],
        files: &[],
        examples: &[
            (
                "Two ranks on two machines:",
                "tabane mpi -- mpirun -n 2 --host a,b ./program",
            ),
            (
                "Over two networks only:",
                "tabane mpi --links 10.77.0.0/24,10.77.1.0/24 -- mpiexec -n 2 -hosts a,b ./program",
            ),
            ("See which variables it would set:", "tabane mpi --print"),
        ],
    },
    Sections {
        name: "tabane-place",
        output: &[],
        files: &[],
        examples: &[
            (
                "Measure the switches, then place 32 ranks, two on a node, for Open MPI:",
                "sudo tabane topo --measure --json > switches.json\n\
              tabane place --np 32 --per-node 2 --topology switches.json --format openmpi > ranks",
            ),
            (
                "By what the ranks exchange, for Slurm:",
                "tabane place --np 32 --topology switches.json --matrix traffic.csv --format slurm > ranks",
            ),
        ],
    },
    Sections {
        name: "tabane-topo",
        output: &[],
        files: &[],
        examples: &[
            ("Measure now, and show it:", "sudo tabane topo --measure"),
            (
                "Draw what was measured last:",
                "tabane topo --svg > switches.svg",
            ),
            ("Tell Slurm:", "tabane topo --slurm > topology.conf"),
        ],
    },
    Sections {
        name: "tabane-status",
        output: &[
            (
                "PEER, LINK",
                "A peer's name; below it, for each path, the number of the link and the peer's address on it. `via n2` is a path through other nodes.",
            ),
            (
                "STATE",
                "Of a peer: `connecting` (not connected yet), `up`, `down` (no path has worked for 10 s), `on demand`. Of a path also `suspect`: it may have failed, and is probed.",
            ),
            ("SINCE", "How long the state lasts."),
            (
                "RTT",
                "Smoothed round trip time; of a path that is down, that from before.",
            ),
            (
                "OUT b/s, IN b/s",
                "Bits a second, sent to the peer and received from it, lately, on that path.",
            ),
            (
                "LOSS",
                "Share of packets that were lost lately on that path.",
            ),
            ("RESENT", "Bytes that had to be sent once more."),
        ],
        files: &[SOCKETS],
        examples: &[
            ("This node, its peers and paths:", "tabane status"),
            ("One peer, anew every second:", "tabane status n1 --watch"),
            (
                "For a health check: one line, and an exit code:",
                "tabane status --check",
            ),
            (
                "For programs: which peers have lost redundancy:",
                "tabane status --json | jq '.peers[] | select(.redundancy_lost) | .name'",
            ),
        ],
    },
    Sections {
        name: "tabane-nodes",
        output: &[
            ("NODE", "The node's name."),
            (
                "LINKS UP",
                "The numbers of its links that the node itself calls up; `-`: none, or it is not known.",
            ),
            (
                "REACHED",
                "`direct`: over links; `through` and names: through these nodes; `no`. `joined` means that no file names the node.",
            ),
        ],
        files: &[],
        examples: &[
            ("All other nodes:", "tabane nodes"),
            (
                "Names of those that cannot be reached:",
                "tabane nodes --json | jq -r '.nodes[] | select(.reached == null) | .name'",
            ),
        ],
    },
    Sections {
        name: "tabane-leave",
        output: &[],
        files: &[],
        examples: &[
            (
                "Take this node out, and do not start it at the next boot:",
                "sudo systemctl disable tabane\nsudo tabane leave",
            ),
            ("See on another node that it is gone:", "tabane nodes"),
        ],
    },
    Sections {
        name: "tabane-gateway",
        output: &[],
        files: &[],
        examples: &[
            ("See which gateway serves:", "tabane status"),
            ("Have the next one serve:", "sudo tabane gateway move"),
        ],
    },
    Sections {
        name: "tabane-gateway-move",
        output: &[],
        files: &[],
        examples: &[
            (
                "Have the next one of the file serve, before work on this one:",
                "sudo tabane gateway move",
            ),
            ("Have n1 serve:", "sudo tabane gateway move n1"),
        ],
    },
    Sections {
        name: "tabane-reload",
        output: &[],
        files: &[CLUSTER_FILE],
        examples: &[
            (
                "See what a changed file would change, or what is wrong with it:",
                "sudo tabane reload --check",
            ),
            ("Use it:", "sudo tabane reload"),
        ],
    },
    Sections {
        name: "tabane-top",
        output: &[
            (
                "STATE",
                "`up`, `down`, `connect` (not seen yet); of a path also `suspect` (may have failed, is probed).",
            ),
            ("LINKS", "Paths that work, of the paths that are possible."),
            ("SINCE", "How long the state lasts."),
            (
                "RTT",
                "Smoothed round trip time; of a peer, that of its fastest path.",
            ),
            (
                "OUT, IN",
                "Bits a second since the last look, and a graph of the last 180 looks; graphs one below the other have one scale.",
            ),
            (
                "LOSS",
                "Packets lost lately; of a peer, on its worst path that works.",
            ),
            ("RESENT", "Bytes that had to be sent once more."),
        ],
        files: &[],
        examples: &[
            ("Watch; `q` leaves:", "tabane top"),
            (
                "Look every five seconds, over a slow line:",
                "tabane top --interval 5",
            ),
        ],
    },
    Sections {
        name: "tabane-bench",
        output: &[
            (
                "b/s, TO, FROM",
                "Bits a second of programs' bytes that arrived: to the peer, and from it.",
            ),
            (
                "link N alone",
                "Over this link only; `-`: it was not measured, since others had much to send.",
            ),
            (
                "all links, both at once",
                "Over all of them: each way by itself, and both ways at a time.",
            ),
            (
                "datagrams, datagrams per s, datagrams lost",
                "With --udp: datagrams of 1500 bytes, as UDP goes over tab0.",
            ),
            (
                "round trips, idle",
                "Before anything was sent: the median, what 99% stay within, the least, the greatest, and how many there were.",
            ),
            (
                "round trips, loaded",
                "The same while the links are full: what a small request waits for then.",
            ),
            (
                "packets, sent again",
                "Packets of programs' bytes, and how many of these bytes' packets were lost and replaced.",
            ),
            (
                "processor per GB, of one",
                "Processor time of the daemon's loop for each GB, and what share of one processor that was.",
            ),
            (
                "waited",
                "The share of the time in which the daemon was ready to work, and other programs had the processor.",
            ),
            (
                "limited by",
                "What kept it from being faster, as far as these figures tell; tabane-doctor(1) sees more.",
            ),
        ],
        files: &[],
        examples: &[
            (
                "15 seconds, links one by one and together:",
                "sudo tabane bench n1",
            ),
            ("With datagrams, too:", "sudo tabane bench n1 --udp"),
            (
                "The rate to the peer over all links, for a script:",
                "sudo tabane bench n1 --seconds 8 --json | jq .out.mbps",
            ),
        ],
    },
    Sections {
        name: "tabane-ping",
        output: &[
            (
                "N: link L T",
                "Round N: the round trip by link L took T. `lost`: no answer within a second.",
            ),
            (
                "via NODE",
                "The same through that node, while a path through it is used.",
            ),
            (
                "min, median, max",
                "At the end, for each way: the least, the middle and the greatest round trip.",
            ),
            (
                "of N lost",
                "How many of N probes on that way had no answer.",
            ),
        ],
        files: &[],
        examples: &[
            ("Five rounds, a second apart:", "tabane ping n1"),
            ("Until Ctrl-C:", "tabane ping n1 --count 0"),
            (
                "Ten a second, while a cable is moved:",
                "sudo tabane ping n1 --count 100 --interval 0.1",
            ),
        ],
    },
    Sections {
        name: "tabane-trace",
        output: &[],
        files: &[],
        examples: &[
            (
                "Record two seconds, and draw them:",
                "sudo tabane trace n1 --seconds 2 --output n1.sqlog\ntabane trace --draw n1.sqlog --output n1.svg",
            ),
            (
                "Record for qvis, until Ctrl-C:",
                "sudo tabane trace n1 --qvis --output n1.qlog",
            ),
        ],
    },
    Sections {
        name: "tabane-doctor",
        output: &[],
        files: &[CLUSTER_FILE],
        examples: &[
            ("What is wrong, and what to do:", "sudo tabane doctor"),
            (
                "Only with n1, with full links meanwhile:",
                "sudo tabane doctor n1 --measure",
            ),
            (
                "Watch for ten seconds, and mail what is wrong:",
                "sudo tabane doctor --seconds 10 | mail -E -s doctor root",
            ),
        ],
    },
    Sections {
        name: "tabane-bugreport",
        output: &[],
        files: &[CLUSTER_FILE],
        examples: &[
            (
                "Into a file, to be read before you pass it on:",
                "sudo tabane bugreport report.txt",
            ),
            ("Read it only:", "sudo tabane bugreport | less"),
        ],
    },
    Sections {
        name: "tabane-lab",
        output: &[],
        files: &[],
        examples: &[
            (
                "A cluster of three nodes to play with; it ends with `down`:",
                "tabane lab up --nodes 3 --links 2\ntabane lab exec n0 -- ip address\ntabane lab down",
            ),
            (
                "A switch dies silently, and comes back:",
                "tabane lab fail 1\ntabane lab heal 1",
            ),
        ],
    },
    Sections {
        name: "tabane-lab-up",
        output: &[],
        files: &[],
        examples: &[
            (
                "Two nodes, one fast link and one slow link that loses packets:",
                "tabane lab up --rates 1gbit,100mbit --loss 0,1%",
            ),
            (
                "32 nodes under four switches:",
                "tabane lab up --name tree --tree 8,8,8,8 --links 1 --rate 100mbit",
            ),
            (
                "Three nodes and a network outside:",
                "tabane lab up --nodes 3 --outside 1gbit,2ms",
            ),
        ],
    },
    Sections {
        name: "tabane-lab-exec",
        output: &[],
        files: &[],
        examples: &[
            ("A shell on node n0:", "tabane lab exec n0 -- bash"),
            (
                "A client outside, of another lab:",
                "tabane lab exec --name other c0 -- curl http://203.0.113.1/",
            ),
        ],
    },
    Sections {
        name: "tabane-lab-fail",
        output: &[],
        files: &[],
        examples: &[
            (
                "The switch of link 1 hangs, with its carrier on:",
                "tabane lab fail 1",
            ),
            (
                "Only what n0 sends on link 0 is lost:",
                "tabane lab fail 0 --mode oneway --node n0",
            ),
            (
                "Link 1 loses one packet in twenty:",
                "tabane lab fail 1 --mode loss=5%",
            ),
        ],
    },
    Sections {
        name: "tabane-lab-heal",
        output: &[],
        files: &[],
        examples: &[
            ("Undo every fault of link 1:", "tabane lab heal 1"),
            (
                "Mend the cables that lead outside:",
                "tabane lab heal outside",
            ),
        ],
    },
    Sections {
        name: "tabane-lab-flood",
        output: &[],
        files: &[],
        examples: &[
            (
                "The last node bothers n0 for five seconds:",
                "tabane lab flood",
            ),
            (
                "It bothers n1 on link 1 for a minute:",
                "tabane lab flood --to 1 --link 1 --seconds 60",
            ),
        ],
    },
    Sections {
        name: "tabane-lab-list",
        output: &[],
        files: &[],
        examples: &[
            ("The labs that are up:", "tabane lab list"),
            (
                "One of them, for programs:",
                "tabane lab list --name lab --json",
            ),
        ],
    },
    Sections {
        name: "tabane-lab-down",
        output: &[],
        files: &[],
        examples: &[
            ("End the lab that has no other name:", "tabane lab down"),
            ("End another one:", "tabane lab down --name tree"),
        ],
    },
    Sections {
        name: "tabane-demo",
        output: &[],
        files: &[],
        examples: &[
            ("Watch, and keep the picture in demo.svg:", "tabane demo"),
            (
                "Unencrypted, and the picture elsewhere:",
                "tabane demo --plain --svg /tmp/plain.svg",
            ),
        ],
    },
];

/// What the page of this name has.
pub(super) fn of(name: &str) -> Option<&'static Sections> {
    ALL.iter().find(|sections| sections.name == name)
}

impl Sections {
    /// What it shows, in roff.
    pub(super) fn output(&self) -> String {
        let mut out = String::new();
        terms(&mut out, "OUTPUT", self.output);
        out
    }

    /// Files and examples, in roff.
    pub(super) fn files_and_examples(&self) -> String {
        let mut out = String::new();
        terms(&mut out, "FILES", self.files);
        if !self.examples.is_empty() {
            out += ".SH EXAMPLES\n";
        }
        for (what, command) in self.examples {
            let command = escaped(command);
            let _ = write!(
                out,
                ".PP\n{}\n.PP\n.RS 4\n.nf\n{command}\n.fi\n.RE\n",
                text(what)
            );
        }
        out
    }
}

fn terms(out: &mut String, title: &str, terms: &[(&str, &str)]) {
    if !terms.is_empty() {
        let _ = writeln!(out, ".SH {title}");
    }
    for (term, meaning) in terms {
        let _ = write!(out, ".TP\n.B \"{}\"\n{}\n", escaped(term), text(meaning));
    }
}

/// What stands between backquotes is bold.
fn text(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        let part = escaped(part);
        let _ = match index % 2 {
            0 => write!(out, "{part}"),
            _ => write!(out, "\\fB{part}\\fR"),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    fn pages() -> Vec<(String, Vec<u8>)> {
        crate::manual::pages(Cli::command().disable_help_subcommand(true))
    }

    /// As a shell splits it, as far as the examples need it: spaces and single quotes.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for c in line.chars() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(String::new()),
                _ => words.last_mut().expect("is never empty").push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// What the program `tabane` gets of a line, if it is started there.
    fn tabane(line: &str) -> Option<Vec<String>> {
        let words = words(line).into_iter();
        let words = words.skip_while(|word| word == "sudo");
        let own = words.take_while(|word| word != "|" && word != ">");
        let own: Vec<String> = own.collect();
        (own.first()? == "tabane").then_some(own)
    }

    #[test]
    fn examples_are_command_lines_that_the_program_takes() {
        for sections in ALL {
            let mut own = 0;
            for line in sections
                .examples
                .iter()
                .flat_map(|(_, lines)| lines.lines())
            {
                let Some(words) = tabane(line) else {
                    continue;
                };
                let page = sections.name.replace('-', " ");
                own += usize::from(words.join(" ").starts_with(&page));
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{}: {line}: {error}", sections.name);
                }
            }
            assert!(own > 0, "no example of {} is one of it", sections.name);
        }
        assert!(Cli::try_parse_from(["tabane", "ping", "n1", "--rounds", "3"]).is_err());
    }

    /// Words that are two spaces or more apart.
    fn columns(header: &str) -> Vec<&str> {
        let cells = header.split("  ").map(str::trim);
        cells.filter(|cell| !cell.is_empty()).collect()
    }

    #[test]
    fn every_column_that_is_shown_is_explained() {
        let table = include_str!("../status/tests/status.txt");
        let header = table.lines().find(|line| line.starts_with("PEER, LINK"));
        let nodes = include_str!("../status/members.rs");
        assert!(nodes.contains("\"NODE\", \"LINKS UP\"") && nodes.contains("REACHED\\n"));
        let top = include_str!("../top/rows.rs");
        let bench = include_str!("../bench/show.rs");
        let ping = include_str!("../ping/mod.rs");
        for (name, shown, source) in [
            (
                "tabane-status",
                columns(header.expect("has columns")),
                table,
            ),
            ("tabane-nodes", vec!["NODE", "LINKS UP", "REACHED"], nodes),
            (
                "tabane-top",
                vec![
                    "STATE", "LINKS", "SINCE", "RTT", "OUT", "IN", "LOSS", "RESENT",
                ],
                top,
            ),
            (
                "tabane-bench",
                vec![
                    "b/s",
                    "TO",
                    "FROM",
                    "alone",
                    "all links",
                    "both at once",
                    "datagrams",
                    "datagrams per s",
                    "datagrams lost",
                    "round trips, idle",
                    "round trips, loaded",
                    "packets",
                    "sent again",
                    "processor per GB",
                    "waited",
                    "limited by",
                ],
                bench,
            ),
            ("tabane-ping", vec!["min", "median", "max", "lost"], ping),
        ] {
            let explained = of(name).expect("has sections").output;
            for column in shown {
                assert!(source.contains(column), "{name} shows no {column}");
                let is_term = |(term, _): &(&str, &str)| term.contains(column);
                assert!(
                    explained.iter().any(is_term),
                    "{name} does not explain {column}"
                );
            }
        }
    }

    #[test]
    fn every_command_has_two_to_five_examples() {
        for (file, page) in pages() {
            let Some(name) = file.strip_suffix(".1") else {
                continue;
            };
            let sections = of(name).unwrap_or_else(|| panic!("{name} has no examples"));
            assert!((2..=5).contains(&sections.examples.len()), "{name}");
            let page = String::from_utf8(page).expect("is text");
            assert!(page.contains(".SH EXAMPLES\n"), "{name}");
        }
        let names: Vec<String> = pages().into_iter().map(|(file, _)| file).collect();
        for sections in ALL {
            assert!(
                names.contains(&format!("{}.1", sections.name)),
                "{}",
                sections.name
            );
        }
    }
}
