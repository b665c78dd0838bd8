//! `sim`: runs fault schedules, replays one, tries mixtures of links, writes the goodput table.

use cap::Cap;
use std::alloc::System;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;
use tabane_sim::mixed::{Mixed, Share};
use tabane_sim::topology::{Liar, Model, Report, Shape};
use tabane_sim::{
    Options, Schedule, Size, churn, controllers, failover, many, peers, qlog, run, runner, snapshot,
};

const USAGE: &str = "\
sim run --seeds A..B [--threads N] [SIZE]   run the schedules of these seeds
sim replay SEED [--trace] [--qlog FILE] [SIZE]  run one again and show what it does; why, a qlog says
sim failover --qlog FILE             a stream over two links, and a switch that falls silent: its qlog
sim mixed --seeds A..B               bulk over the links that these seeds draw, beside the best of them alone
sim churn --seeds A..B               clusters whose nodes join, crash, leave and are cut off
sim controllers                      our congestion controller beside CUBIC
sim snapshot [--write]               compare (or write) sim/snapshots/goodput.txt
sim topology [--trees N] [--nodes A,B,…] [--seed S] [MODEL]   survey N trees of switches of each size (also paper, flat) from round trips
sim peers [N]                        what N (1,000) peers cost a node that has nothing to do with most of them
sim exchange all|halo BUNDLES MBPS [ROUNDS [NODES]]  how long NODES (128) nodes, 16 on a switch, take, with so many bundles (or `all`), over such trunks
sim many [N]                         what N (256) nodes cost each other that may have 64 bundles over links
MODEL: [--jitter-us X] [--load X] [--nic-us X] [--trunk-mbps N] [--samples N] [--liar anything|low|late|silent]
SIZE: [--hosts N] [--streams N]      N hosts in each schedule; N streams more in each";

/// Counts what is allocated, for `sim peers`.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["run", rest @ ..] => run_many(rest),
        ["replay", seed, options @ ..] => replay(seed, options),
        ["failover", "--qlog", file] => fail_over(file),
        ["mixed", "--seeds", seeds] => try_mixed(seeds),
        ["churn", "--seeds", seeds] => try_churn(seeds),
        ["topology", rest @ ..] => survey_trees(rest),
        ["peers"] => measure_peers("1000"),
        ["peers", count] => measure_peers(count),
        ["exchange", pattern, bundles, mbps] => exchange([pattern, bundles, mbps, "1", "128"]),
        ["exchange", pattern, bundles, mbps, rounds] => {
            exchange([pattern, bundles, mbps, rounds, "128"])
        }
        ["exchange", rest @ ..] if rest.len() == 5 => {
            exchange([rest[0], rest[1], rest[2], rest[3], rest[4]])
        }
        ["many"] => measure_many("256"),
        ["many", count] => measure_many(count),
        ["controllers"] => {
            print!("{}", controllers::table(default_threads()));
            Ok(true)
        }
        ["snapshot"] => compare_snapshot(),
        ["snapshot", "--write"] => write_snapshot(),
        _ => Err(USAGE.to_string()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run_many(args: &[&str]) -> Result<bool, String> {
    let (seeds, threads, size) = match args {
        ["--seeds", seeds, "--threads", n, size @ ..] => (seeds, number(n)?, read_size(size)?),
        ["--seeds", seeds, size @ ..] => (seeds, default_threads(), read_size(size)?),
        _ => return Err(USAGE.to_string()),
    };
    let seeds = range(seeds)?;
    let count = seeds.end - seeds.start;
    let began = Instant::now();
    runner::keep_panics();
    let tally = runner::run_seeds(
        seeds,
        threads,
        size,
        |seed, what| {
            let replay = runner::how_to_replay(seed, size);
            println!("seed {seed} failed: {what}\n    {replay}");
        },
        |ran| {
            let rate = ran as f64 / began.elapsed().as_secs_f64();
            eprintln!("{ran} of {count} schedules, {rate:.0} a second");
        },
    );
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{:.0} schedules a second, {:.1} virtual seconds and {} datagrams each, digest {:016x}",
        count as f64 / seconds,
        tally.virtual_ns as f64 / 1e9 / tally.passed.max(1) as f64,
        tally.datagrams / tally.passed.max(1),
        tally.digest,
    );
    println!("{} passed, {} failed", tally.passed, tally.failed.len());
    Ok(tally.failed.is_empty())
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("not a range of seeds like 0..10000: {text}");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let (from, to) = (
        from.parse().map_err(|_| wrong())?,
        to.parse().map_err(|_| wrong())?,
    );
    if from < to {
        Ok(from..to)
    } else {
        Err(wrong())
    }
}

fn read_size(args: &[&str]) -> Result<Size, String> {
    let mut size = Size::default();
    for option in args.chunks(2) {
        match option {
            ["--hosts", n] => size.hosts = Some(number(n)?),
            ["--streams", n] => size.streams = number(n)?,
            _ => return Err(USAGE.to_string()),
        }
    }
    Ok(size)
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

fn replay(seed: &str, options: &[&str]) -> Result<bool, String> {
    let number = seed.parse().map_err(|_| format!("not a seed: {seed}"))?;
    let (mut options, mut trace) = (options.to_vec(), false);
    options.retain(|option| {
        trace |= *option == "--trace";
        *option != "--trace"
    });
    let mut file = None;
    if let Some(at) = options.iter().position(|option| *option == "--qlog") {
        let value = options.get(at + 1).ok_or_else(|| USAGE.to_string())?;
        file = Some(*value);
        options.drain(at..at + 2);
    }
    let schedule = Schedule::draw_sized(number, read_size(&options)?);
    if trace {
        println!("{schedule:#?}");
    }
    let options = Options {
        trace,
        qlog: file.is_some(),
        mutant: None,
    };
    let outcome = run(&schedule, &options);
    write_qlog(file, &format!("seed {seed}"), outcome.qlog.as_deref())?;
    println!(
        "seed {seed}: {:.6} virtual ms, {} events, digest {:016x}, {:?}",
        outcome.ended_at as f64 / 1e6,
        outcome.steps,
        outcome.digest,
        outcome.network,
    );
    match outcome.violation {
        Some(violation) => println!("0 passed, 1 failed: {violation}"),
        None => println!("1 passed, 0 failed"),
    }
    Ok(run(&schedule, &Options::default()).violation.is_none())
}

/// Writes what nodes told into `file`, if there is to be one.
fn write_qlog(file: Option<&str>, title: &str, events: Option<&str>) -> Result<(), String> {
    let Some((file, events)) = file.zip(events) else {
        return Ok(());
    };
    let text = qlog::header(title) + events;
    std::fs::write(file, text).map_err(|error| format!("{file}: {error}"))
}

fn fail_over(file: &str) -> Result<bool, String> {
    let options = Options {
        qlog: true,
        ..Options::default()
    };
    let outcome = run(&failover::schedule(), &options);
    write_qlog(Some(file), "A switch falls silent", outcome.qlog.as_deref())?;
    if let Some(violation) = &outcome.violation {
        println!("{violation}");
    }
    Ok(outcome.violation.is_none())
}

fn try_mixed(seeds: &str) -> Result<bool, String> {
    let seeds: Vec<u64> = range(seeds)?.collect();
    let harmed = runner::share_out(&seeds, default_threads(), |&seed| {
        let mixed = Mixed::draw(seed);
        let share = mixed.share();
        let Share { of_best, of_sum } = share;
        println!("{of_best:.3} of the best, {of_sum:.3} of the sum: seed {seed}, {mixed}");
        share.is_harm()
    });
    let failed = harmed.iter().filter(|harm| **harm).count();
    println!("{} passed, {failed} failed", seeds.len() - failed);
    Ok(failed == 0)
}

fn try_churn(seeds: &str) -> Result<bool, String> {
    let seeds: Vec<u64> = range(seeds)?.collect();
    let began = Instant::now();
    let outcomes = runner::share_out(&seeds, default_threads(), |&seed| {
        let outcome = churn::run(&churn::Plan::draw(seed), None);
        if let Some(broken) = &outcome.broken {
            println!("seed {seed}: {broken}");
        }
        outcome
    });
    let failed = outcomes
        .iter()
        .filter(|outcome| outcome.broken.is_some())
        .count();
    let arrived: u64 = outcomes.iter().map(|outcome| outcome.arrived).sum();
    let longest = outcomes
        .iter()
        .map(|outcome| outcome.longest_wait)
        .max()
        .unwrap_or(0);
    println!(
        "{:.0} a second, {arrived} messages, the longest wait where there was a way {:.1} ms",
        seeds.len() as f64 / began.elapsed().as_secs_f64(),
        longest as f64 / 1e6
    );
    println!("{} passed, {failed} failed", seeds.len() - failed);
    Ok(failed == 0)
}

fn exchange([pattern, bundles, mbps, rounds, nodes]: [&str; 5]) -> Result<bool, String> {
    let number = |text: &str| {
        let number = text.parse::<u16>().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("{text}: not a number from 1 to 65535"))
    };
    let pattern = match pattern {
        "all" => many::Pattern::All,
        "halo" => many::Pattern::Halo,
        _ => return Err(format!("{pattern}: all or halo")),
    };
    let bundles_max = match bundles {
        "all" => None,
        _ => Some(number(bundles)?),
    };
    let nodes_each = 16;
    let layout = many::Layout {
        switches: usize::from(number(nodes)?).div_ceil(nodes_each),
        nodes_each,
        trunk_mbps: number(mbps)?.into(),
    };
    let size = (64 * 1024, number(rounds)?.into());
    let exchanged = many::exchange(layout, bundles_max, pattern, size);
    exchanged.iter().for_each(|round| println!("{round}"));
    Ok(exchanged.iter().all(|round| round.time.is_some()))
}

fn measure_many(count: &str) -> Result<bool, String> {
    let wrong = || format!("not a number of nodes from 2 to 4096: {count}");
    let count: usize = count.parse().map_err(|_| wrong())?;
    if !(2..=4096).contains(&count) {
        return Err(wrong());
    }
    print!("{}", many::measure(count));
    Ok(true)
}

fn measure_peers(count: &str) -> Result<bool, String> {
    let wrong = || format!("not a number of peers from 8 to 60000: {count}");
    let count = count.parse().map_err(|_| wrong())?;
    if !(8..=60_000).contains(&count) {
        return Err(wrong());
    }
    print!("{}", peers::measure(count, Some(|| ALLOCATOR.allocated())));
    Ok(true)
}

fn survey_trees(args: &[&str]) -> Result<bool, String> {
    let (mut trees, mut seed, mut sizes) = (10_u64, 0_u64, "paper,flat,64,256,1024");
    let mut model = Model::default();
    for option in args.chunks(2) {
        let [name, value] = option else {
            return Err(USAGE.to_string());
        };
        match *name {
            "--trees" => trees = read(value)?,
            "--nodes" => sizes = value,
            "--seed" => seed = read(value)?,
            "--jitter-us" => model.jitter_us = read(value)?,
            "--load" => model.load = read(value)?,
            "--nic-us" => model.nic_us = read(value)?,
            "--trunk-mbps" => model.trunk_mbps = read(value)?,
            "--samples" => model.samples = read(value)?,
            "--liar" => model.liar = Some(Liar::named(value).ok_or_else(|| USAGE.to_string())?),
            _ => return Err(USAGE.to_string()),
        }
    }
    let mut good = true;
    for size in sizes.split(',') {
        let shape = match size {
            "paper" => Shape::Paper,
            "flat" => Shape::PaperFlat,
            nodes => Shape::Random(number(nodes)?),
        };
        let report = Report::of(shape, &model, seed..seed + trees, default_threads());
        println!("{size}: {report}");
        for (seed, what) in &report.sure_and_wrong {
            println!("    seed {seed}: {what}");
        }
        good &= report.sure_and_wrong.is_empty() && report.clashes == 0;
    }
    Ok(good)
}

fn read<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

fn compare_snapshot() -> Result<bool, String> {
    let now = snapshot::table(default_threads());
    let same = std::fs::read_to_string(snapshot::path()).is_ok_and(|before| before == now.text);
    print!("{}", now.text);
    Ok(judge(same, &now))
}

fn write_snapshot() -> Result<bool, String> {
    let now = snapshot::table(default_threads());
    let path = snapshot::path();
    std::fs::write(&path, &now.text).map_err(|e| format!("{}: {e}", path.display()))?;
    print!("{}", now.text);
    Ok(judge(true, &now))
}

/// Says whether the table is what it was, and whether every cell keeps the promise.
fn judge(same: bool, table: &snapshot::Table) -> bool {
    if !same {
        println!("the table has changed; after a wanted change: sim snapshot --write");
    }
    for cell in &table.harmed {
        println!("less than the best link alone: {cell}");
    }
    let passed = [same, table.harmed.is_empty()];
    let good = passed.iter().filter(|p| **p).count();
    println!("{good} passed, {} failed", passed.len() - good);
    good == passed.len()
}
