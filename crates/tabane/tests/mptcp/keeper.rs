//! The keeper by itself, told of links as the daemon tells it, and what becomes of it.

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use serde_json::json;
use tabane_lab::Lab;

use super::*;

/// `tabane keeper` on node 0 of a lab without daemons.
struct Keeper {
    lab: Lab,
    stream: UnixStream,
    program: Program,
}

impl Keeper {
    fn start(links: usize) -> Keeper {
        let lab = lab(&on(links));
        let (stream, theirs) = UnixStream::pair().expect("a pair");
        let mut keeper = lab.command(0, tabane());
        keeper.arg("keeper").stdin(OwnedFd::from(theirs));
        keeper.stdout(Stdio::null());
        let program = Program::start("tabane keeper", keeper).expect("starts");
        Keeper {
            lab,
            stream,
            program,
        }
    }

    /// Tell it which links to node 1 work: a letter for each, Works or Failed.
    fn draw(&mut self, lives: &str) {
        let link = |(link, life)| {
            let [own, peer] = [0, 1].map(|node| self.lab.address(node, link));
            json!({"own": own, "peer": peer, "works": life == 'W'})
        };
        let paths: Vec<_> = lives.chars().enumerate().map(link).collect();
        let links: Vec<_> = (0..paths.len()).map(|l| self.lab.address(0, l)).collect();
        let picture = json!({"links": links, "peers": [{"name": "n1", "paths": paths}]});
        writeln!(self.stream, "{picture}").expect("it listens");
    }

    fn ip(&self, words: &str) -> String {
        let mut ip = self.lab.command(0, "ip");
        ip.args(words.split(' '));
        let done = output("ip", ip, PATIENCE).expect("ends");
        assert!(done.status.success(), "{words}: {}", text(&done.stderr));
        text(&done.stdout)
    }

    /// Wait until node 1's addresses are reached so: the link that leads to each.
    fn wait_ways(&self, wanted: &[usize]) {
        let mut seen = String::new();
        let is_so = |line: &str, (to, by): (usize, &usize)| {
            let (to, by) = (self.lab.address(1, to), (self.lab.address(1, *by), by));
            match to == by.0 {
                true => line.starts_with(&format!("{to} dev eth{} ", by.1)),
                false => line.starts_with(&format!("{to} via {} dev eth{} ", by.0, by.1)),
            }
        };
        eventually(&format!("ways by {wanted:?}"), || {
            seen = self.ip("route show proto 77");
            let lines: Vec<_> = seen.lines().collect();
            let mut all = wanted.iter().enumerate();
            lines.len() == wanted.len() && all.all(|way| lines.iter().any(|line| is_so(line, way)))
        });
    }

    fn finish(mut self) {
        self.stream.shutdown(Shutdown::Both).expect("is open");
        assert!(self.program.wait(PATIENCE).expect("it ends").success());
        assert_eq!(self.ip("route show proto 77"), "");
    }
}

/// So a service manager ends all processes of a service that hangs, and the daemon may take long to go.
#[test]
fn on_sigabrt_routes_are_put_back_at_once() {
    const SIGABRT: i32 = 6;
    let mut keeper = Keeper::start(2);
    keeper.draw("WF");
    keeper.wait_ways(&[0, 0]);
    keeper.program.signal(SIGABRT).expect("is there");
    keeper.finish();
}

/// By the kernel, where memory is short, or by somebody.
#[test]
fn there_is_another_one_for_one_that_is_killed() {
    let (mut cluster, before) = steered(&on(2));
    silence(&cluster, 1);
    let killed = keeper_of(&cluster, 0);
    said(&cluster, 0, &format!("kill -9 {killed}"));
    cluster.lab().heal(1).expect("heals");
    wait_path(&cluster, 1, "up");
    wait_detour(&cluster, 1, false);
    assert_ne!(keeper_of(&cluster, 0), killed);
    silence(&cluster, 1);
    heal(&cluster, 1);
    assert!(cluster.stop(0).expect("stops").success());
    eventually("routes are put back", || {
        kernel(&cluster, 0).routes == before[0].routes
    });
}

/// In one picture, so that the detour changes sides.
#[test]
fn one_link_returns_as_the_other_fails() {
    let mut keeper = Keeper::start(2);
    keeper.draw("WW");
    keeper.wait_ways(&[0, 1]);
    for _ in 0..2 {
        keeper.draw("WF");
        keeper.wait_ways(&[0, 0]);
        keeper.draw("FW");
        keeper.wait_ways(&[1, 1]);
    }
    keeper.draw("WW");
    keeper.wait_ways(&[0, 1]);
    keeper.finish();
}

/// What lives by an address goes on by it over another link, until the device has it again.
#[test]
fn the_address_of_a_failed_link_is_kept_while_no_device_has_it() {
    let mut keeper = Keeper::start(2);
    let device = "10.77.1.1/24 dev eth1";
    let kept = |keeper: &Keeper, wanted: &str| {
        eventually(&format!("`{wanted}` is kept"), || {
            keeper.ip("route show table local proto 77").trim() == wanted
        });
    };
    keeper.draw("WF");
    keeper.wait_ways(&[0, 0]);
    kept(&keeper, "");
    keeper.ip(&format!("address del {device}"));
    // No new picture says so.
    kept(&keeper, "local 10.77.1.1 dev lo scope host");
    keeper.wait_ways(&[0, 0]);
    keeper.ip(&format!("address add {device}"));
    kept(&keeper, "");
    keeper.draw("WW");
    keeper.wait_ways(&[0, 1]);
    keeper.ip(&format!("address del {device}"));
    keeper.draw("WF");
    kept(&keeper, "local 10.77.1.1 dev lo scope host");
    keeper.stream.shutdown(Shutdown::Both).expect("is open");
    assert!(keeper.program.wait(PATIENCE).expect("it ends").success());
    kept(&keeper, "");
}

/// As systemd-networkd does with routes that it has not made (`ManageForeignRoutes=`).
#[test]
fn routes_that_others_remove_come_back() {
    let mut keeper = Keeper::start(2);
    keeper.draw("WF");
    keeper.wait_ways(&[0, 0]);
    keeper.ip("route flush proto 77");
    keeper.wait_ways(&[0, 0]);
    keeper.draw("WW");
    keeper.wait_ways(&[0, 1]);
    keeper.ip("route flush proto 77");
    keeper.wait_ways(&[0, 1]);
    keeper.finish();
}

/// The network's own route may come later than the word that the link works.
#[test]
fn what_could_not_be_made_is_tried_again() {
    let mut keeper = Keeper::start(2);
    keeper.ip("link set eth1 down");
    keeper.draw("FW");
    // Neither is there a route to the second address, nor then one by it to the first.
    eventually("endpoints are made", || {
        keeper.ip("mptcp endpoint show").lines().count() == 2
    });
    assert_eq!(keeper.ip("route show proto 77"), "");
    keeper.ip("link set eth1 up");
    keeper.wait_ways(&[1, 1]);
    // With the device go the routes, those that lead by it, too.
    keeper.ip("link set eth0 down");
    keeper.draw("WF");
    keeper.ip("link set eth0 up");
    keeper.wait_ways(&[0, 0]);
    keeper.finish();
}
