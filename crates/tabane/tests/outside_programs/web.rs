//! Servers of the web.

use std::fs;
use std::path::Path;
use std::process::Command;

use tabane_lab::cluster::Program;

use crate::scene::{FAMILIES, Failure, Scene, address_of_client, end, names_clients};
use crate::site::{nginx_that, same};

through_each_failure!(nginx_and_curl);

const PORT: u16 = 8080;

/// nginx, whose workers have listeners of their own for either family, and a line of its log for each request.
fn nginx(scene: &Scene) -> Program {
    let log = format!("access_log {};", scene.path("access.log"));
    let listen = format!("listen {PORT} reuseport; listen [::]:{PORT} reuseport;");
    let command = nginx_that(&scene.site, scene.node, PORT, &log, &listen);
    scene.serve("nginx", command, PORT)
}

/// Every line of nginx's log is of a client's own address.
fn nginx_names_clients(scene: &Scene) {
    let log = fs::read_to_string(scene.path("access.log")).expect("can be read");
    names_clients(&log);
    let clients = FAMILIES.map(address_of_client);
    for line in log.lines() {
        let who = line.split(' ').next().expect("a word");
        assert!(clients.contains(&who), "{line}");
    }
}

fn url(family: usize, port: u16, path: &str) -> String {
    format!("http://{}/{path}", end(family, port))
}

fn curl(scene: &Scene, family: usize, arguments: &[&str]) -> (&'static str, Command) {
    let mut client = scene.client(family, "curl", &["-sS", "--fail"]);
    client.args(arguments);
    ("curl", client)
}

/// A download of a file, and where it goes.
fn download(scene: &Scene, family: usize, port: u16) -> (&'static str, Command) {
    let copy = scene.path(&format!("copy-{family}"));
    curl(scene, family, &["-o", &copy, &url(family, port, "file")])
}

fn are_copies(scene: &Scene, file: &Path) {
    for family in FAMILIES {
        same(file, Path::new(&scene.path(&format!("copy-{family}"))));
    }
}

/// Downloads, and many small requests over connections that are kept.
fn nginx_and_curl(failure: Failure) {
    let mut scene = Scene::new(failure);
    let file = scene.file();
    fs::write(scene.path("small"), [b's'; 4000]).expect("can be written");
    let _server = nginx(&scene);
    let small = |family| {
        let range = url(family, PORT, "small?[1-2000]");
        let many = ["--parallel", "--parallel-max", "50", "-g"];
        let mut small = curl(&scene, family, &many[..3]);
        small.1.args([
            "-o",
            "/dev/null",
            "-w",
            "%{http_code} %{size_download}\n",
            &range,
        ]);
        small
    };
    let mut clients: Vec<_> = FAMILIES.map(|family| download(&scene, family, PORT)).into();
    clients.extend(FAMILIES.map(small));
    let said = scene.through(clients);
    are_copies(&scene, &file);
    for small in &said[2..] {
        let whole = small.lines().filter(|line| *line == "200 4000").count();
        assert_eq!(whole, 2000, "{small}");
    }
    nginx_names_clients(&scene);
}
