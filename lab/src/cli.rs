//! The command line: `tabane lab …` and `tabane-lab …`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};

use crate::config::{parse_delay, parse_leaf, parse_loss, parse_rate};
use crate::flood::cli::FloodArgs;
use crate::{
    Fault, Lab, LabConfig, LabError, LinkSpec, OUTSIDE_DEVICE, OutsideSpec, Summary, flood,
};

/// Wrong words on the command line.
const EXIT_BAD_INPUT: u8 = 2;
/// The machine would not.
const EXIT_FAILED: u8 = 1;
/// As shells have it: the program is there but would not start, or is not there.
const EXIT_NOT_STARTED: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// What the cables outside are called, where a link has its number.
const OUTSIDE: &str = "outside";

/// Arguments of `lab`.
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build a virtual cluster and leave it running
    Up(UpArgs),
    /// Run a program on a node, or in a client outside
    Exec(ExecArgs),
    /// Break a link
    Fail(FailArgs),
    /// Undo every fault of a link
    Heal(HealArgs),
    /// Have the last node send another what a stranger might, as fast as it goes
    Flood(FloodArgs),
    /// Show the labs that are up
    List(ListArgs),
    /// End a lab and every program in it
    Down(Name),
}

#[derive(Debug, Args)]
struct Name {
    /// Which lab
    #[arg(long, short, default_value = "lab")]
    name: String,
}

#[derive(Debug, Args)]
struct UpArgs {
    #[command(flatten)]
    name: Name,
    /// How many nodes: n0, n1, … [default: 2, or as many as the tree has]
    #[arg(long)]
    nodes: Option<usize>,
    /// A tree of store-and-forward switches on each link: so many nodes on each of its lower switches, 8,8,8,8
    #[arg(long, value_name = "NODES", value_parser = parse_leaf, value_delimiter = ',')]
    tree: Vec<usize>,
    /// How many links, each with a switch of its own: 0, 1, … [default: 2, or as many as the lists below]
    #[arg(long)]
    links: Option<usize>,
    /// Line rate of every link: 1gbit, 250mbit, none (unshaped)
    #[arg(long, value_parser = rate, default_value = "1gbit", conflicts_with = "rates")]
    rate: Rate,
    /// Line rate of each link: 1gbit,250mbit
    #[arg(long, value_parser = rate, value_delimiter = ',')]
    rates: Vec<Rate>,
    /// MTU of every NIC and switch, bytes
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
    /// Extra one-way delay, of all links or of each: 2ms or 0us,2ms
    #[arg(long, value_parser = parse_delay, value_delimiter = ',')]
    delay: Vec<Duration>,
    /// Frames lost, of all links or of each: 1% or 0,1%
    #[arg(long, value_parser = parse_loss, value_delimiter = ',')]
    loss: Vec<f64>,
    /// A network outside, to which ext0 of the first two nodes leads, with clients c0 and c1: its line rate, and what is added to
    /// a round trip: 1gbit,2ms, or 1gbit
    #[arg(long, value_name = "RATE[,DELAY]", value_parser = str::parse::<OutsideSpec>)]
    outside: Option<OutsideSpec>,
}

#[derive(Debug, Clone, Copy)]
struct Rate(Option<u64>);

fn rate(text: &str) -> Result<Rate, String> {
    parse_rate(text).map(Rate)
}

#[derive(Debug, Args)]
struct ExecArgs {
    /// The node: n0, n1, …; or the client: c0, c1
    node: String,
    #[command(flatten)]
    name: Name,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct FailArgs {
    /// The link: 0, 1, …; or the cables outside: outside
    link: String,
    #[command(flatten)]
    name: Name,
    /// silent, carrier, oneway, loss=5%, mtu=1400, rate=10mbit or buffer=16000; outside one of the first four
    #[arg(long, default_value = "silent", value_parser = Modes, hide_possible_values = true)]
    mode: Fault,
    /// Only for this node [oneway: what this node sends; default n0]
    #[arg(long)]
    node: Option<String>,
}

/// A [`Fault`], with examples of each kind for the shells' completions.
#[derive(Clone)]
struct Modes;

impl TypedValueParser for Modes {
    type Value = Fault;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Fault, clap::Error> {
        str::parse::<Fault>.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let modes = [
            "silent",
            "carrier",
            "oneway",
            "loss=5%",
            "mtu=1400",
            "rate=10mbit",
            "buffer=16000",
        ];
        Some(Box::new(modes.map(PossibleValue::new).into_iter()))
    }
}

#[derive(Debug, Args)]
struct HealArgs {
    /// The link: 0, 1, …; or the cables outside: outside
    link: String,
    #[command(flatten)]
    name: Name,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only this lab
    #[arg(long, short)]
    name: Option<String>,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// Do what the command line says. `exec` does not return: the program takes
/// this process's place, so its exit code, terminal and signals are its own.
pub fn run(args: LabArgs) -> ExitCode {
    let done = match args.action {
        Action::Up(args) => up(args),
        Action::Exec(args) => return exec(args),
        Action::Fail(args) => fail(args),
        Action::Heal(args) => heal(args),
        Action::Flood(args) => flood::cli::run(&args),
        Action::List(args) => list(args),
        Action::Down(name) => down(name),
    };
    done.map_or_else(complain, |()| ExitCode::SUCCESS)
}

fn complain(error: LabError) -> ExitCode {
    eprintln!("lab: {error}");
    ExitCode::from(if error.is_bad_input() {
        EXIT_BAD_INPUT
    } else {
        EXIT_FAILED
    })
}

fn up(args: UpArgs) -> Result<(), LabError> {
    let config = config_of(args)?;
    let lab = Lab::up_in_background(&config)?;
    print!("{}", describe(lab.summary()));
    Ok(())
}

fn config_of(args: UpArgs) -> Result<LabConfig, LabError> {
    let lists = [
        ("--rates", args.rates.len()),
        ("--delay", args.delay.len()),
        ("--loss", args.loss.len()),
    ];
    let longest = lists
        .iter()
        .map(|&(_, length)| length)
        .max()
        .filter(|&length| length > 1);
    let links = args.links.or(longest).unwrap_or(2);
    for (list, length) in lists {
        if length > 1 && length != links || list == "--rates" && length == 1 && links != 1 {
            return Err(LabError::BadInput(format!(
                "{list} has {length} values for {links} links: give one for each"
            )));
        }
    }
    if links > crate::LINKS_MAX {
        return Err(LabError::BadInput(format!(
            "{links} links: must be 1 to {}",
            crate::LINKS_MAX
        )));
    }
    let link = |index: usize| LinkSpec {
        rate_bits_per_s: args.rates.get(index).unwrap_or(&args.rate).0,
        delay: one_or_each(&args.delay, index).unwrap_or_default(),
        loss_percent: one_or_each(&args.loss, index).unwrap_or_default(),
    };
    let links = (0..links).map(link).collect();
    Ok(LabConfig {
        name: Some(args.name.name),
        nodes: args.nodes.unwrap_or(match args.tree.iter().sum() {
            0 => 2,
            nodes => nodes,
        }),
        links,
        mtu: args.mtu,
        tree: args.tree,
        outside: args.outside,
    })
}

fn one_or_each<T: Copy>(list: &[T], index: usize) -> Option<T> {
    if list.len() == 1 {
        list.first().copied()
    } else {
        list.get(index).copied()
    }
}

fn exec(args: ExecArgs) -> ExitCode {
    let Some((program, arguments)) = args.command.split_first() else {
        return ExitCode::from(EXIT_BAD_INPUT);
    };
    let made = Lab::open(&args.name.name).and_then(|lab| command_on(&args.node, &lab, program));
    let mut command = match made {
        Ok(command) => command,
        Err(error) => return complain(error),
    };
    let error = command.args(arguments).exec();
    eprintln!("lab: {}: {error}", program.to_string_lossy());
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound {
        EXIT_NOT_FOUND
    } else {
        EXIT_NOT_STARTED
    })
}

/// A program on the node, or in the client, of this name.
fn command_on(machine: &str, lab: &Lab, program: &OsStr) -> Result<Command, LabError> {
    let client = machine
        .strip_prefix('c')
        .and_then(|digits| digits.parse().ok());
    if let Some(client) = client {
        lab.check_client(client)?;
        return Ok(lab.client_command(client, program));
    }
    Ok(lab.command(node_number(machine, lab)?, program))
}

fn fail(args: FailArgs) -> Result<(), LabError> {
    let lab = Lab::open(&args.name.name)?;
    let node = args.node.map(|node| node_number(&node, &lab)).transpose()?;
    if args.link == OUTSIDE {
        return lab.fail_outside(args.mode, node).map(drop);
    }
    let link = link_number(&args.link, &lab)?;
    lab.fail(link, args.mode, node).map(drop)
}

fn heal(args: HealArgs) -> Result<(), LabError> {
    let lab = Lab::open(&args.name.name)?;
    if args.link == OUTSIDE {
        return lab.heal_outside().map(drop);
    }
    let link = link_number(&args.link, &lab)?;
    lab.heal(link).map(drop)
}

/// Ending a lab that is not up is no error: `down` leaves nothing.
fn down(name: Name) -> Result<(), LabError> {
    match Lab::open(&name.name) {
        Ok(lab) => lab.down(),
        Err(LabError::NoSuchLab { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn list(args: ListArgs) -> Result<(), LabError> {
    let wanted = |lab: &Summary| args.name.as_ref().is_none_or(|name| *name == lab.name);
    let labs: Vec<Summary> = crate::list()?.into_iter().filter(wanted).collect();
    if args.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&labs).unwrap_or_default()
        );
    } else {
        labs.iter().for_each(|lab| print!("{}", describe(lab)));
    }
    Ok(())
}

fn describe(lab: &Summary) -> String {
    let mut text = format!(
        "{}: nodes n0 to n{}, mtu {}\n",
        lab.name,
        lab.nodes - 1,
        lab.mtu
    );
    if !lab.tree.is_empty() {
        let leaves: Vec<String> = lab.tree.iter().map(usize::to_string).collect();
        text += &format!("  switches with {} nodes\n", leaves.join(", "));
    }
    for (link, spec) in lab.links.iter().enumerate() {
        text += &format!(
            "  link {link}: 10.77.{link}.0/24, {}",
            rate_words(spec.rate_bits_per_s)
        );
        if !spec.delay.is_zero() {
            text += &format!(", delay {:?}", spec.delay);
        }
        if spec.loss_percent > 0.0 {
            text += &format!(", loss {}%", spec.loss_percent);
        }
        text.push('\n');
    }
    if let Some(spec) = &lab.outside {
        let gateways = if lab.nodes > 1 { "n0 and n1" } else { "n0" };
        text += &format!(
            "  outside: clients c0 and c1, {OUTSIDE_DEVICE} of {gateways}, {}",
            rate_words(spec.rate_bits_per_s)
        );
        if !spec.round_trip.is_zero() {
            text += &format!(", round trip {:?}", spec.round_trip);
        }
        text.push('\n');
    }
    text
}

fn rate_words(rate_bits_per_s: Option<u64>) -> String {
    match rate_bits_per_s {
        None => "unshaped".into(),
        Some(rate) if rate >= 1_000_000_000 => format!("{} Gb/s", rate as f64 / 1e9),
        Some(rate) => format!("{} Mb/s", rate as f64 / 1e6),
    }
}

fn node_number(text: &str, lab: &Lab) -> Result<usize, LabError> {
    let number = text
        .strip_prefix('n')
        .and_then(|digits| digits.parse().ok());
    let number = number.filter(|&node| node < lab.nodes());
    number.ok_or_else(|| LabError::NoSuchNode {
        node: text.into(),
        nodes: lab.nodes(),
    })
}

fn link_number(text: &str, lab: &Lab) -> Result<usize, LabError> {
    let number = text.parse().ok().filter(|&link| link < lab.links());
    number.ok_or_else(|| LabError::NoSuchLink {
        link: text.into(),
        links: lab.links(),
    })
}
