//! A resolver, asked by UDP and TCP.

use std::fmt::Write;
use std::fs;
use std::net::IpAddr;
use std::process::Command;

use tabane_lab::cluster::{PATIENCE, output};

use crate::common::eventually;
use crate::common::outside::{CLIENTS, OUTSIDE};
use crate::outward;
use crate::scene::{FAMILIES, Failure, Scene, names_clients};
use crate::site::AS_NO_ROOT;

through_each_failure!(dnsmasq_and_dig, dnsmasq_outside_and_dig);

const PORT: u16 = 5300;
const NAMES: usize = 1000;

/// What dig is to ask, and what it is to say.
fn names(scene: &Scene) -> (String, String) {
    let (mut hosts, mut names, mut expected) = (String::new(), String::new(), String::new());
    for n in 0..NAMES {
        let address = format!("198.51.{}.{}", 100 + n / 200, n % 200);
        let _ = writeln!(hosts, "{address} h{n}.example");
        let _ = writeln!(names, "h{n}.example A");
        let _ = writeln!(expected, "{address}");
    }
    fs::write(scene.path("hosts"), hosts).expect("can be written");
    fs::write(scene.path("names"), names).expect("can be written");
    (scene.path("names"), expected)
}

/// dnsmasq as no root, who would become another user. It is told to know nothing but these names, and to say who asks.
fn of_dnsmasq(scene: &Scene) -> Vec<String> {
    let mut all: Vec<String> = AS_NO_ROOT.map(str::to_owned).into();
    let words = "dnsmasq -k -h -R -C /dev/null --pid-file= --log-queries=extra --log-facility=-";
    all.extend(words.split(' ').map(str::to_owned));
    all.push(format!("--port={PORT}"));
    all.push(format!("--addn-hosts={}", scene.path("hosts")));
    all
}

/// Many names are asked for by datagrams, and each over a connection of its own. A datagram may be lost: dig says so, and asks again.
fn ask(
    scene: &mut Scene,
    dig: impl Fn(&Scene, usize, &[&str]) -> Command,
    names: &str,
    expected: &str,
) {
    let port = PORT.to_string();
    let of = |family, arguments: &[&str]| {
        dig(
            scene,
            family,
            &[&["-p", &port, "+short", "-f", names], arguments].concat(),
        )
    };
    let mut clients = Vec::new();
    for family in FAMILIES {
        clients.push(("dig", of(family, &["+notcp", "+tries=20", "+timeout=1"])));
        clients.push(("dig +tcp", of(family, &["+tcp"])));
    }
    eventually("dnsmasq answers", || {
        let one = dig(scene, 0, &["-p", &port, "+short", "h0.example"]);
        output("dig", one, PATIENCE).expect("ends").stdout == b"198.51.100.0\n"
    });
    for said in scene.through_from(100 << 10, clients) {
        let is_answer = |line: &&str| !(line.starts_with(";;") && line.ends_with("timed out"));
        let answers = said.lines().filter(is_answer);
        let answers: String = answers.flat_map(|line| [line, "\n"]).collect();
        assert!(answers == expected, "{said}");
    }
}

fn at(address: &str) -> String {
    let address: IpAddr = address.parse().expect("an address");
    format!("@{address}")
}

fn dnsmasq_and_dig(failure: Failure) {
    let mut scene = Scene::new(failure);
    let (names, expected) = names(&scene);
    let mut server = scene.inside("unshare", &[]);
    server.args(of_dnsmasq(&scene));
    let _server = scene.serve("dnsmasq", server, PORT);
    let dig = |scene: &Scene, family: usize, arguments: &[&str]| {
        let mut dig = scene.client(family, "dig", &[&at(OUTSIDE[family])]);
        dig.args(arguments);
        dig
    };
    ask(&mut scene, dig, &names, &expected);
    names_clients(&scene.log(PORT));
}

/// The resolver is outside, and those who ask it are inside.
fn dnsmasq_outside_and_dig(failure: Failure) {
    let mut scene = Scene::new(failure);
    let (names, expected) = names(&scene);
    let arguments = of_dnsmasq(&scene);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let _server = outward::serve(&scene, "unshare", PORT, &arguments);
    let dig = |scene: &Scene, family: usize, arguments: &[&str]| {
        let server = at(CLIENTS[outward::SERVER][family]);
        scene.inside("dig", &[&[&server[..]], arguments].concat())
    };
    ask(&mut scene, dig, &names, &expected);
    outward::names_cluster(&scene);
}
