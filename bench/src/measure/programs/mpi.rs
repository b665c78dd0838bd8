//! Jobs of Open MPI, by whatever can carry their messages, in turn.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::contest::Contest;
use super::finish;
use crate::measure::two_nodes;
use crate::{Build, Entrant, Report, Settings, Stand};
use tabane_lab::cluster::{PATIENCE, Wire};
use tabane_lab::mpi::Jobs;
use tabane_lab::ways::Way;
use tabane_lab::{LabConfig, LabError, LinkSpec};

/// What carries the messages of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// Open MPI's own TCP, on one link.
    Tcp1,
    /// The same on all links, among which it divides messages itself.
    Tcp,
    /// UCX, on all links.
    Ucx,
    /// libfabric's provider for TCP, which uses one link.
    Rxm,
    /// Open MPI's own TCP, by the kernel's MPTCP.
    Mptcp,
    /// Open MPI's own TCP, on the virtual NIC.
    Tab0,
    /// The provider.
    Provider(Wire),
}

/// All of them; the first is what the others are compared with.
pub const CARRIERS: [Carrier; 8] = [
    Carrier::Tcp1,
    Carrier::Tcp,
    Carrier::Ucx,
    Carrier::Rxm,
    Carrier::Mptcp,
    Carrier::Tab0,
    Carrier::Provider(Wire::Encrypted),
    Carrier::Provider(Wire::Plain),
];

const OPEN_MPI_TCP: [(&str, &str); 2] = [("pml", "ob1"), ("btl", "tcp,vader,self")];
const OFI: [(&str, &str); 3] = [("pml", "cm"), ("mtl", "ofi"), ("btl", "^ofi")];
/// Of a lab that is gone when it has been measured.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

impl Carrier {
    pub const fn name(self) -> &'static str {
        match self {
            Carrier::Tcp1 => "Open MPI TCP, one link",
            Carrier::Tcp => "Open MPI TCP, both links",
            Carrier::Ucx => "UCX TCP, both links",
            Carrier::Rxm => "libfabric tcp;ofi_rxm",
            Carrier::Mptcp => "Open MPI TCP, MPTCP",
            Carrier::Tab0 => "Open MPI TCP, tab0",
            Carrier::Provider(Wire::Encrypted) => "tabane, encrypted",
            Carrier::Provider(Wire::Plain) => "tabane, plain",
        }
    }

    /// What has to be there.
    const fn way(self) -> Way {
        match self {
            Carrier::Mptcp => Way::Mptcp,
            Carrier::Tab0 => Way::Tabane(Wire::Encrypted),
            _ => Way::Tcp { link: 0 },
        }
    }

    /// Tells `mpirun` of it.
    fn choose(self, mpirun: &mut Command, provider: &Path) {
        let mut parameters = Vec::new();
        let mut variables: Vec<(&str, &str)> = Vec::new();
        let provider = provider.display().to_string();
        match self {
            Carrier::Tcp1 | Carrier::Mptcp => {
                parameters.extend(OPEN_MPI_TCP);
                parameters.push(("btl_tcp_if_include", "eth0"));
            }
            Carrier::Tcp => {
                parameters.extend(OPEN_MPI_TCP);
                parameters.push(("btl_tcp_if_include", "eth0,eth1"));
            }
            Carrier::Tab0 => {
                parameters.extend(OPEN_MPI_TCP);
                parameters.push(("btl_tcp_if_include", "tab0"));
            }
            Carrier::Ucx => {
                parameters.push(("pml", "ucx"));
                // Else it is not chosen where there is no InfiniBand.
                parameters.extend([("pml_ucx_tls", "any"), ("pml_ucx_devices", "any")]);
                // Without its shared memory, which nodes of a lab have in common.
                variables.extend([("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "eth0,eth1")]);
            }
            Carrier::Rxm => {
                parameters.extend(OFI);
                parameters.push(("mtl_ofi_provider_include", "tcp;ofi_rxm"));
                variables.push(("FI_TCP_IFACE", "eth0"));
            }
            Carrier::Provider(wire) => {
                parameters.extend(OFI);
                parameters.push(("mtl_ofi_provider_include", "tabane"));
                variables.extend([("FI_PROVIDER_PATH", &*provider), ("TABANE_KEY", KEY)]);
                if wire == Wire::Plain {
                    variables.push(("TABANE_WIRE", "plain"));
                }
            }
        }
        // Debian's choice leaves no way for windows over TCP; this one goes by what carries messages, whatever that is.
        parameters.push(("osc", "pt2pt"));
        for (name, value) in parameters {
            mpirun.args(["--mca", name, value]);
        }
        for (name, value) in variables {
            mpirun.args(["-x", &format!("{name}={value}")]);
        }
        if self == Carrier::Mptcp {
            mpirun.args(["-x", "LD_PRELOAD"]);
        }
    }
}

/// One on a lab of its own.
pub struct Contestant {
    /// What carries its messages.
    pub carrier: Carrier,
    /// Where.
    pub stand: Stand,
    jobs: Jobs,
    /// What its jobs run.
    program: PathBuf,
}

/// What a job does.
pub struct Job {
    /// As a table calls it.
    pub name: &'static str,
    /// What its program is told.
    pub arguments: &'static [&'static str],
}

/// What `mpirun` and its daemons on other nodes speak over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// The links.
    Links,
    /// The virtual NIC where the provider carries messages, and else the links.
    Nic,
}

/// All carriers, each on a lab of its own, with this program.
pub fn contestants(
    settings: &Settings,
    carriers: &[Carrier],
    config: &LabConfig,
    (source, control): (&str, Control),
    report: &mut Report,
) -> Vec<Contestant> {
    let provider = settings.helper.with_file_name("libtabane_fi.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs")
        .join(source);
    let make = |carrier: Carrier| {
        let over_nic = control == Control::Nic && matches!(carrier, Carrier::Provider(_));
        let entrant = Entrant {
            way: match over_nic {
                true => Way::Tabane(Wire::Encrypted),
                false => carrier.way(),
            },
            build: Build::Own,
        };
        let stand = settings.stand(entrant, config)?;
        let mut jobs = Jobs::new(stand.lab(), &settings.tabane, &provider)?;
        if over_nic {
            jobs = jobs.controlled_over("tab0");
        }
        let program = jobs.build(&source)?;
        Ok(Contestant {
            carrier,
            stand,
            jobs,
            program,
        })
    };
    let mut there = Vec::new();
    for &carrier in carriers {
        match make(carrier) {
            Ok(contestant) => there.push(contestant),
            Err(error) => report.leave_out(carrier.name(), LabError::to_string(&error)),
        }
    }
    there
}

impl Contestant {
    /// `mpirun` of a job, with so many ranks on each of so many nodes.
    pub fn mpirun(&self, job: &Job, ranks: (usize, usize)) -> Result<Command, LabError> {
        self.mpirun_with(job, ranks, &[])
    }

    /// The same, with these variables at all ranks.
    pub fn mpirun_with(
        &self,
        job: &Job,
        ranks: (usize, usize),
        variables: &[(&str, &str)],
    ) -> Result<Command, LabError> {
        let lab = self.stand.lab();
        let command = |mpirun: &Path| self.stand.command(0, mpirun);
        let mut mpirun = self.jobs.mpirun(lab, ranks, command)?;
        self.carrier.choose(&mut mpirun, &self.jobs.provider_path());
        for (name, value) in variables {
            mpirun.args(["-x", &format!("{name}={value}")]);
        }
        // Nodes of a lab share the processors, of which their ranks know nothing.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        if ranks.0 * ranks.1 > processors {
            mpirun.args(["--mca", "mpi_yield_when_idle", "1"]);
        }
        mpirun.arg(&self.program).args(job.arguments);
        Ok(mpirun)
    }

    /// Runs a job; what it found, and the MB that went over each link of node 0 meanwhile.
    fn run(&self, job: &Job, ranks: (usize, usize)) -> Result<Vec<f64>, LabError> {
        let before = self.carried_mb()?;
        let said = finish("mpirun", self.mpirun(job, ranks)?)?;
        let after = self.carried_mb()?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let figure = text
            .split_whitespace()
            .next()
            .and_then(|it| it.parse().ok());
        let figure: f64 = figure.ok_or(LabError::ToolFailed {
            tool: "mpirun",
            place: job.name.into(),
            message: format!("said no number but {text:?}"),
        })?;
        let links = after
            .iter()
            .zip(&before)
            .map(|(after, before)| after - before);
        Ok([figure].into_iter().chain(links).collect())
    }

    /// MB that each link of node 0 has carried, both ways.
    fn carried_mb(&self) -> Result<Vec<f64>, LabError> {
        let lab = self.stand.lab();
        let of_link = |link: usize| {
            let counters = format!("/sys/class/net/eth{link}/statistics");
            let mut cat = lab.command(0, "cat");
            cat.args(["tx_bytes", "rx_bytes"].map(|name| format!("{counters}/{name}")));
            let said = finish("cat", cat)?;
            let text = String::from_utf8_lossy(&said.stdout).into_owned();
            let bytes = text
                .split_whitespace()
                .filter_map(|it| it.parse::<f64>().ok());
            Ok(bytes.sum::<f64>() / 1e6)
        };
        (0..lab.links()).map(of_link).collect()
    }
}

const PAIRS: [Job; 8] = [
    Job {
        name: "0 B, half a round trip, µs",
        arguments: &["half", "0"],
    },
    Job {
        name: "64 KB, half a round trip, µs",
        arguments: &["half", "65536"],
    },
    Job {
        name: "8 B messages, 1/s",
        arguments: &["rate", "8"],
    },
    Job {
        name: "64 KB messages, MB/s",
        arguments: &["stream", "65536"],
    },
    Job {
        name: "1 MB messages, MB/s",
        arguments: &["stream", "1048576"],
    },
    Job {
        name: "8 MB messages, MB/s",
        arguments: &["stream", "8388608"],
    },
    Job {
        name: "64 KB both ways, MB/s in sum",
        arguments: &["both", "65536"],
    },
    Job {
        name: "1 MB both ways, MB/s in sum",
        arguments: &["both", "1048576"],
    },
];

/// The kernels; fewer seconds are better.
const KERNELS: [Job; 6] = [
    Job {
        name: "integer sort",
        arguments: &["is"],
    },
    Job {
        name: "CG",
        arguments: &["cg"],
    },
    Job {
        name: "MG",
        arguments: &["mg"],
    },
    Job {
        name: "FT",
        arguments: &["ft"],
    },
    Job {
        name: "3-D halo",
        arguments: &["halo"],
    },
    Job {
        name: "one-sided",
        arguments: &["onesided"],
    },
];

/// Nodes of the kernels.
const NODES: usize = 4;

/// Exchanges of two ranks, on 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let contest = Contest {
        title: "Two ranks of Open MPI, 2 × 1 Gb/s".into(),
        note: format!("{BESIDE} Of half round trips less is better."),
        ..contest()
    };
    Ok(compete(settings, contest, ("pairs.c", &PAIRS), 2, &[1]))
}

/// The kernels, on 2 links of 1 Gb/s.
pub fn kernels(settings: &Settings) -> Result<Report, LabError> {
    let contest = Contest {
        title: format!("Kernels on {NODES} nodes, 2 × 1 Gb/s, seconds"),
        note: format!("{BESIDE} Less is better."),
        ..contest()
    };
    let ranks = &[1, 2];
    Ok(compete(
        settings,
        contest,
        ("kernels.c", &KERNELS),
        NODES,
        ranks,
    ))
}

const BESIDE: &str = "Each figure is of a job of its own. Beside it is what the links of node 0 carried meanwhile, both ways, with the job's start.";

fn contest() -> Contest {
    Contest {
        title: String::new(),
        note: String::new(),
        ways: &[],
        tools: &[],
        figures: &["", "MB on link 0", "MB on link 1"],
        batches: Vec::new(),
    }
}

/// Runs each of these jobs with each number of ranks on a node, by each carrier.
fn compete(
    settings: &Settings,
    contest: Contest,
    (source, jobs): (&str, &[Job]),
    nodes: usize,
    ranks: &[usize],
) -> Report {
    let mut report = Report::default();
    let config = LabConfig {
        nodes,
        ..two_nodes(vec![LinkSpec::default(); 2])
    };
    let contestants = contestants(
        settings,
        &CARRIERS,
        &config,
        (source, Control::Links),
        &mut report,
    );
    let names: Vec<_> = contestants
        .iter()
        .map(|it| it.carrier.name().into())
        .collect();
    let each = ranks
        .iter()
        .flat_map(|ranks| jobs.iter().map(move |job| (job, *ranks)));
    let each: Vec<_> = each.collect();
    let label = |(job, of_node): &(&Job, usize)| match ranks {
        [_] => job.name.to_string(),
        _ => format!("{}, {of_node} a node", job.name),
    };
    let contest = Contest {
        batches: each.iter().map(|one| vec![label(one)]).collect(),
        ..contest
    };
    // Who does not end with so many ranks on a node would cost a minute with each job and in each round.
    let hung = RefCell::new(Vec::new());
    contest.play(settings, &names, &mut report, |index, batch| {
        let (job, ranks) = each[batch];
        if hung.borrow().contains(&(index, ranks)) {
            return Err(did_not_end());
        }
        let ran = contestants[index].run(job, (nodes, ranks));
        let figures = ran.map_err(|error| match error.is_hung() {
            true => {
                hung.borrow_mut().push((index, ranks));
                did_not_end()
            }
            false => error,
        });
        Ok(vec![figures?])
    });
    report
}

fn did_not_end() -> LabError {
    LabError::ToolFailed {
        tool: "mpirun",
        place: "n0".into(),
        message: format!(
            "a job did not end within {} s; with as many ranks it was not tried again",
            PATIENCE.as_secs()
        ),
    }
}
