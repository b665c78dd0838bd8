//! Servers of the web.

use std::fs;
use std::path::Path;
use std::process::Command;

use tabane_lab::cluster::Program;

use crate::scene::{FAMILIES, Failure, Scene, address_of_client, end, names_clients};
use crate::site::{go_transfer, here, nginx_that, same, serve_by};

through_each_failure!(
    nginx_and_curl,
    nginx_on_a_gateway,
    nginx_and_a_thousand_connections,
    haproxy_in_front_of_nginx,
    node_js,
);

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
    nginx_at(failure, 2);
}

/// On the one that takes over.
fn nginx_on_a_gateway(failure: Failure) {
    nginx_at(failure, 1);
}

fn nginx_at(failure: Failure, node: usize) {
    let mut scene = Scene::of(failure, node);
    let file = scene.file();
    fs::write(scene.path("small"), [b's'; 4000]).expect("can be written");
    let _server = nginx(&scene);
    let small = |family| {
        let range = url(family, PORT, "small?[1-2000]");
        let mut small = curl(&scene, family, &["--parallel", "--parallel-max", "50"]);
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

/// A thousand of each family, each of which asks again as soon as it has been answered.
fn nginx_and_a_thousand_connections(failure: Failure) {
    let mut scene = Scene::new(failure);
    fs::write(scene.path("small"), [b's'; 4000]).expect("can be written");
    let _server = nginx(&scene);
    let wrk = |family| {
        let of = url(family, PORT, "small");
        let arguments = ["-c", "1000", "-t", "2", "-d", "4", "--timeout", "30", &of];
        ("wrk", scene.client(family, "wrk", &arguments))
    };
    for said in scene.through(FAMILIES.map(wrk).into()) {
        assert!(said.contains("requests in"), "{said}");
        for error in ["Socket errors", "Non-2xx"] {
            assert!(!said.contains(error), "{said}\n{}", scene.logs());
        }
    }
    nginx_names_clients(&scene);
}

/// Both are inner programs: HAProxy has the outside port, and asks nginx on another node.
fn haproxy_in_front_of_nginx(failure: Failure) {
    const FRONT: u16 = 8081;
    let mut scene = Scene::new(failure);
    let file = scene.file();
    let log = format!(
        "log_format f $http_x_forwarded_for; access_log {} f;",
        scene.path("access.log")
    );
    let listen = format!("listen {PORT};");
    let back = nginx_that(&scene.site, 1, PORT, &log, &listen);
    let _back = serve_by(&scene.site, 1, "nginx", back, PORT);
    let text = format!(
        "global\n log stderr format raw daemon\n\
         defaults\n mode http\n log global\n option httplog\n option forwardfor\n\
         timeout connect 30s\n timeout client 60s\n timeout server 60s\n\
         frontend f\n bind :{FRONT}\n bind :::{FRONT} v6only\n default_backend b\n\
         backend b\n server s n1:{PORT} check\n"
    );
    fs::write(scene.path("haproxy.cfg"), text).expect("can be written");
    let haproxy = scene.inside("haproxy", &["-db", "-f", &scene.path("haproxy.cfg")]);
    let _front = scene.serve("haproxy", haproxy, FRONT);
    scene.through(
        FAMILIES
            .map(|family| download(&scene, family, FRONT))
            .into(),
    );
    are_copies(&scene, &file);
    names_clients(&scene.log(FRONT));
    nginx_names_clients(&scene);
}

/// A server and a client of one program, which says who asked.
fn by_itself(
    mut scene: Scene,
    port: u16,
    server: Command,
    client: impl Fn(&Scene, usize, &str, &str) -> Command,
) {
    let file = scene.file();
    let _server = scene.serve("server", server, port);
    let fetch = |family| {
        let copy = scene.path(&format!("copy-{family}"));
        (
            "client",
            client(&scene, family, &url(family, port, "file"), &copy),
        )
    };
    scene.through(FAMILIES.map(fetch).into());
    are_copies(&scene, &file);
    names_clients(&scene.log(port));
}

/// Through each failure, as most of the work is to build it.
#[test]
fn go() {
    let built = tempfile::tempdir().expect("a directory");
    let program = go_transfer(built.path());
    for failure in [Failure::Switch, Failure::Gateway] {
        let scene = Scene::new(failure);
        let server = scene.inside(&program, &["serve", ":8082", &scene.path("file")]);
        by_itself(scene, 8082, server, |scene, family, from, to| {
            scene.client(family, &program, &["fetch", from, to])
        });
    }
}

fn node_js(failure: Failure) {
    let scene = Scene::new(failure);
    let script = here("transfer.js").display().to_string();
    let server = scene.inside("node", &[&script, "serve", "8084", &scene.path("file")]);
    by_itself(scene, 8084, server, |scene, family, from, to| {
        scene.client(family, "node", &[&script, "fetch", from, to])
    });
}
