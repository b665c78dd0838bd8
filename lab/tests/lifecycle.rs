//! Labs do not meet, and whatever happens they leave nothing behind.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use common::*;
use tabane_lab::{Fault, Lab, LabConfig, LabError};

fn named(name: &str) -> LabConfig {
    // The tests of one machine run in parallel, also as several users.
    LabConfig {
        name: Some(format!("{name}-{}", std::process::id())),
        ..LabConfig::default()
    }
}

fn kill_9(pid: u32) {
    assert!(run_status(
        Command::new("kill").args(["-9", &pid.to_string()])
    ));
}

fn run_status(command: &mut Command) -> bool {
    command.status().expect("starts").success()
}

#[test]
fn down_leaves_nothing() {
    let lab = lab();
    let trace = trace(&lab);
    let mut left = lab.command(0, "sleep").arg("1000").spawn().expect("starts");
    lab.down().expect("goes down");
    assert!(trace.is_gone(), "{:?}", trace.holders());
    assert!(!left.wait().expect("was ended").success());
}

#[test]
fn a_lab_ends_when_dropped() {
    let lab = lab();
    let trace = trace(&lab);
    drop(lab);
    assert!(trace.is_gone());
}

#[test]
fn two_labs_do_not_meet() {
    let (a, b) = (lab(), lab());
    assert_ne!(a.name(), b.name());
    a.fail(0, Fault::Silent, None).expect("fails");
    assert_eq!(pings(&a, 0, 1, 0, 3, 56), 0);
    assert!(works(&b, 0));
    a.down().expect("goes down");
    assert!(works(&b, 0));
}

#[test]
fn a_name_is_had_once() {
    let config = named("once");
    let lab = Lab::up(&config).expect("up");
    assert!(
        matches!(Lab::up(&config), Err(LabError::NameTaken(name)) if Some(&name) == config.name.as_ref())
    );
    assert!(works(&lab, 0), "the first is unharmed");
    lab.down().expect("goes down");
    drop(Lab::up(&config).expect("the name is free again"));
}

#[test]
fn a_lab_can_be_opened_by_name_and_ended_by_either() {
    let config = named("shared");
    let lab = Lab::up(&config).expect("up");
    let other = Lab::open(lab.name()).expect("is found");
    other.fail(1, Fault::Silent, None).expect("fails");
    assert_eq!(pings(&lab, 0, 1, 1, 3, 56), 0);
    drop(other);
    lab.heal(1).expect("heals");
    assert!(works(&lab, 1), "dropping an opened lab does not end it");

    let (trace, name) = (trace(&lab), lab.name().to_string());
    Lab::open(&name)
        .expect("is found")
        .down()
        .expect("goes down");
    assert!(trace.is_gone());
    assert!(matches!(Lab::open(&name), Err(LabError::NoSuchLab { .. })));
    lab.down().expect("down twice is no error");
}

#[test]
fn after_a_crash_of_the_holder_nothing_remains() {
    let config = named("crashed");
    let lab = Lab::up(&config).expect("up");
    let trace = trace(&lab);
    let mut inside = lab.command(1, "sleep").arg("1000").spawn().expect("starts");
    kill_9(lab.summary().holder);
    // Listing finds the traces, and ends what still runs inside.
    assert!(trace.is_gone(), "{:?}", trace.holders());
    assert!(!inside.wait().expect("was ended").success());
    assert!(
        lab.command(0, "true").spawn().is_err(),
        "no command runs in a lab that is gone"
    );
    assert!(lab.fail(0, Fault::OneWay, None).is_err());
    let again = Lab::up(&config).expect("the name is free at once");
    assert!(works(&again, 0));
    lab.down().expect("down after the crash is no error");
    assert!(
        works(&again, 0),
        "and does not touch the new lab of that name"
    );
}

/// The test is its own victim: started again with this set, it makes a lab and
/// waits to be killed.
const VICTIM: &str = "TABANE_LAB_TEST_VICTIM";

#[test]
fn a_lab_dies_with_the_process_that_made_it() {
    if std::env::var_os(VICTIM).is_some() {
        let lab = lab();
        writeln!(std::io::stderr(), "{}", lab.name()).expect("writes");
        std::thread::sleep(PATIENCE);
        return;
    }
    let (mut victim, trace) = victim("a_lab_dies_with_the_process_that_made_it");
    victim.kill().expect("is killed");
    victim.wait().expect("ends");
    assert!(trace.is_gone(), "{:?}", trace.holders());
}

/// Start a test of this file as a victim, which says the name of the lab it made.
fn victim(test: &str) -> (Child, Trace) {
    let mut victim = Command::new(std::env::current_exe().expect("is a file"));
    victim.args(["--exact", test, "--nocapture"]);
    let mut victim = victim
        .env(VICTIM, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut name = String::new();
    BufReader::new(victim.stderr.take().expect("piped"))
        .read_line(&mut name)
        .expect("a line");
    let trace = trace(&Lab::open(name.trim()).expect("is up"));
    (victim, trace)
}

/// Processes that were started in the lab of this name.
fn started_in(lab: &str) -> Vec<String> {
    let mark = format!("TABANE_LAB={lab}");
    let processes = std::fs::read_dir("/proc").expect("is listed").flatten();
    let is_marked = |entry: &std::fs::DirEntry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|e| e == mark.as_bytes())
    };
    let marked = processes.filter(is_marked);
    marked
        .map(|entry| entry.path().display().to_string())
        .collect()
}

/// In a network namespace of their own, as a program under `tabane run` is.
#[test]
fn programs_that_have_left_the_lab_die_with_it() {
    const SCRIPT: &str = "trap '' TERM; sleep 1000";
    let leave = |lab: &Lab| {
        let mut program = lab.command(0, "unshare");
        program.args(["--net", "sh", "-c", SCRIPT]);
        program.stderr(Stdio::null());
        program.spawn().expect("starts")
    };
    if std::env::var_os(VICTIM).is_some() {
        let lab = lab();
        let mut program = leave(&lab);
        assert!(eventually(|| started_in(lab.name()).len() == 2));
        writeln!(std::io::stderr(), "{}", lab.name()).expect("writes");
        program.wait().expect("is waited for");
        return;
    }
    let lab = lab();
    let (name, mut program) = (lab.name().to_owned(), leave(&lab));
    assert!(eventually(|| started_in(&name).len() == 2));
    lab.down().expect("goes down");
    assert!(!program.wait().expect("was ended").success());
    assert_eq!(started_in(&name), Vec::<String>::new());

    let (mut victim, trace) = victim("programs_that_have_left_the_lab_die_with_it");
    victim.kill().expect("is killed");
    victim.wait().expect("ends");
    assert!(
        eventually(|| started_in(&trace.name).is_empty()),
        "{:?}",
        started_in(&trace.name)
    );
}

#[test]
fn programs_in_a_lab_die_with_the_process_that_made_it() {
    if std::env::var_os(VICTIM).is_some() {
        let lab = lab();
        // One ends when asked, one does not, one cannot: it is stopped.
        let scripts = ["sleep 1000", "trap '' TERM; sleep 1000", "kill -STOP $$"];
        let programs = scripts.map(|script| {
            let mut program = lab.command(0, "sh");
            program.args(["-c", script]).stderr(Stdio::null());
            program.spawn().expect("starts")
        });
        writeln!(std::io::stderr(), "{}", lab.name()).expect("writes");
        for mut program in programs {
            program.wait().expect("is waited for");
        }
        return;
    }
    for signal in ["-TERM", "-KILL"] {
        let (mut victim, trace) = victim("programs_in_a_lab_die_with_the_process_that_made_it");
        assert!(trace.holders().len() > 1, "the programs run");
        assert!(run_status(
            Command::new("kill").args([signal, &victim.id().to_string()])
        ));
        victim.wait().expect("ends");
        // Listing the labs would end them, too: nobody does.
        assert!(
            eventually(|| trace.holders().is_empty()),
            "{:?}",
            trace.holders()
        );
    }
}

#[test]
fn many_labs_come_and_go_at_once() {
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                for _ in 0..3 {
                    let lab = lab();
                    let trace = trace(&lab);
                    assert!(works(&lab, 1));
                    lab.down().expect("goes down");
                    assert!(trace.is_gone(), "{:?}", trace.holders());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread fails");
    }
}
