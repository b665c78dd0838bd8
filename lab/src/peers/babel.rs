//! Routing with Babel (RFC 8966), by babeld: a node's address is on no link, and each node tells the others over
//! which it is reached.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use super::on_every_node;
use crate::cluster::{PATIENCE, Program, output};
use crate::tools::{BABELD, IP, SH};
use crate::{Lab, LabError, wiring};

/// The addresses that are announced.
const NET: &str = "10.98.0.0/24";
/// A neighbour says that it is there this often, seconds: as often as is usual where routes must change fast. (babeld's
/// own default is every 4.)
pub const HELLO_S: f64 = 0.1;
const POLL: Duration = Duration::from_millis(20);

/// A node's address that is reached whichever way there is.
pub fn babel_address(node: usize) -> IpAddr {
    let host = u8::try_from(node.saturating_add(1)).unwrap_or(u8::MAX);
    Ipv4Addr::new(10, 98, 0, host).into()
}

/// Run babeld on every node, and wait until each knows how all others are reached. What it keeps is in `directory`.
///
/// # Errors
/// babeld is not installed, or does not find the others.
pub fn babel(lab: &Lab, directory: &Path) -> Result<Vec<Program>, LabError> {
    let babeld = BABELD.find()?;
    on_every_node(lab, IP, |node| {
        let mut orders = format!(
            "address add {}/32 dev lo\nlink set lo up\n",
            babel_address(node)
        );
        for link in 0..lab.links() {
            let nic = wiring::nic(link);
            // It speaks from link-local addresses, which the lab's NICs have none of.
            orders += &format!("address add fe80::{:x}/64 dev {nic} nodad\n", node + 1);
        }
        orders
    })?;
    let filters = (0..lab.links()).map(wiring::nic).chain(["all".into()]);
    let off = |device: String| {
        let of = format!("/proc/sys/net/ipv4/conf/{device}");
        format!("echo 0 > {of}/rp_filter\necho 0 > {of}/send_redirects\n")
    };
    let orders: String = filters.map(off).collect();
    let orders = format!("echo 1 > /proc/sys/net/ipv4/ip_forward\n{orders}");
    on_every_node(lab, SH, |_| orders.clone())?;
    let start = |node: usize| {
        let path = |name: &str| directory.join(format!("babel-n{node}.{name}"));
        let mut command = lab.command(node, &babeld);
        let statements = [
            format!("default type wired hello-interval {HELLO_S}"),
            format!("redistribute local ip {NET} allow"),
            "redistribute local deny".into(),
            format!("install ip {NET} pref-src {}", babel_address(node)),
        ];
        // A file that is not there: it has no orders but these.
        command
            .arg("-c")
            .arg(path("conf"))
            .arg("-I")
            .arg(path("pid"));
        command
            .arg("-S")
            .arg(path("state"))
            .arg("-L")
            .arg(path("log"));
        statements.iter().for_each(|one| {
            command.args(["-C", one]);
        });
        command.args((0..lab.links()).map(wiring::nic));
        fs::write(path("conf"), "").map_err(LabError::io("a file for babeld"))?;
        Program::start_quiet("babeld", command)
    };
    let daemons: Vec<Program> = (0..lab.nodes()).map(start).collect::<Result<_, _>>()?;
    wait_routes(lab)?;
    Ok(daemons)
}

/// Waits until every node reaches every other one directly.
fn wait_routes(lab: &Lab) -> Result<(), LabError> {
    let until = Instant::now() + PATIENCE;
    for node in 0..lab.nodes() {
        let direct = || {
            let mut ip = lab.command(node, "ip");
            ip.args(["route", "show", "proto", "babel"]);
            ip.stdin(Stdio::null());
            let said = output("ip", ip, PATIENCE)?.stdout;
            let said = String::from_utf8_lossy(&said);
            Ok::<_, LabError>(said.lines().filter(|line| is_direct(line)).count())
        };
        while direct()? < lab.nodes() - 1 {
            if Instant::now() > until {
                return Err(LabError::ToolFailed {
                    tool: "babeld",
                    place: format!("n{node}"),
                    message: "does not reach the others".into(),
                });
            }
            thread::sleep(POLL);
        }
    }
    Ok(())
}

/// Whether a route goes to the node that it is of: its number ends all its addresses.
fn is_direct(route: &str) -> bool {
    let mut words = route.split_whitespace();
    let mut number = |place| words.nth(place)?.rsplit('.').next();
    let to = number(0);
    to.is_some() && to == number(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_through_another_node_is_told_from_a_direct_one() {
        let route = |via| format!("10.98.0.2 via {via} dev eth1 src 10.98.0.1 onlink ");
        assert!(is_direct(&route("10.77.1.2")));
        assert!(!is_direct(&route("10.77.1.3")));
        assert!(!is_direct(""));
    }
}
