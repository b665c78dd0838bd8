//! Programs inside that ask servers outside: these see the cluster's address.

use std::fs;
use std::path::Path;
use std::process::Command;

use tabane_lab::cluster::{PATIENCE, Program, output, socket_address};

use crate::common::outside::{CLIENTS, OUTSIDE};
use crate::scene::{FAMILIES, Failure, Scene, names};
use crate::site::{self, git_repository, same, well};

through_each_failure!(git, apt);

/// Where the servers are.
pub const SERVER: usize = 1;

fn of_server(family: usize, port: u16) -> String {
    socket_address(CLIENTS[SERVER][family].parse().expect("an address"), port)
}

/// A plain server outside.
pub fn serve(scene: &Scene, name: &str, port: u16, arguments: &[&str]) -> Program {
    let mut server = scene.client(SERVER, name, arguments);
    let log = fs::File::create(scene.path("server.log")).expect("can be written");
    server.stdout(std::process::Stdio::null()).stderr(log);
    let mut server = Program::start(name, server).expect("starts");
    server.listens(port).expect("listens");
    server
}

/// The server was asked by the cluster, and by nobody else.
pub fn names_cluster(scene: &Scene) {
    let log = fs::read_to_string(scene.path("server.log")).expect("can be read");
    for address in OUTSIDE {
        assert!(names(&log, address), "{log}");
    }
}

fn done(name: &str, command: Command) -> String {
    well(name, &output(name, command, PATIENCE).expect("ends"))
}

fn git(failure: Failure) {
    const PORT: u16 = 9418;
    let mut scene = Scene::new(failure);
    let file = scene.file();
    let (base, original) = (scene.path("repositories"), scene.path("repositories/one"));
    git_repository(&original, &file);
    let daemon = ["daemon", "--verbose", "--export-all", "--reuseaddr"];
    let places = [
        format!("--base-path={base}"),
        format!("--port={PORT}"),
        base,
    ];
    let [one, two, three] = places.each_ref().map(String::as_str);
    let _server = serve(
        &scene,
        "git",
        PORT,
        &[&daemon[..], &[one, two, three]].concat(),
    );
    let clone = |family| {
        let from = format!("git://{}/one", of_server(family, PORT));
        let to = scene.path(&format!("clone-{family}"));
        (
            "git clone",
            scene.inside("git", &["clone", "-q", &from, &to]),
        )
    };
    for said in scene.through(FAMILIES.map(clone).into()) {
        assert_eq!(said, "");
    }
    for family in FAMILIES {
        let clone = scene.path(&format!("clone-{family}"));
        site::git(&["-C", &clone, "fsck"]);
        same(&file, &Path::new(&clone).join("file"));
    }
    names_cluster(&scene);
}

/// A repository of one package, as its index has it.
fn repository(scene: &Scene, file: &Path) -> String {
    let (root, tree) = (scene.path("repository"), scene.path("package"));
    for directory in [&root, &format!("{tree}/DEBIAN")] {
        fs::create_dir_all(directory).expect("can be made");
    }
    let control = "Package: payload\nVersion: 1\nArchitecture: all\nMaintainer: n <n@example.com>\nDescription: a file\n";
    fs::write(format!("{tree}/DEBIAN/control"), control).expect("can be written");
    fs::copy(file, format!("{tree}/payload")).expect("can be copied");
    let package = format!("{root}/payload_1_all.deb");
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Znone", "-b", &tree, &package]);
    done("dpkg-deb", build);
    let mut sum = Command::new("sha256sum");
    sum.arg(&package);
    let sum = done("sha256sum", sum);
    let sum = sum.split(' ').next().expect("a word");
    let size = fs::metadata(&package).expect("is there").len();
    let index = format!("{control}Filename: ./payload_1_all.deb\nSize: {size}\nSHA256: {sum}\n");
    fs::write(format!("{root}/Packages"), index).expect("can be written");
    package
}

/// `apt-get` with all that it keeps in a directory of its own.
fn apt_get(scene: &Scene, family: usize, port: u16) -> Command {
    let root = scene.path(&format!("apt-{family}"));
    for directory in ["lists/partial", "cache/archives/partial", "got"] {
        fs::create_dir_all(format!("{root}/{directory}")).expect("can be made");
    }
    let sources = format!("deb [trusted=yes] http://{}/ ./\n", of_server(family, port));
    fs::write(format!("{root}/sources.list"), sources).expect("can be written");
    fs::write(format!("{root}/status"), "").expect("can be written");
    let mut apt = scene.inside("apt-get", &["-q"]);
    for (name, value) in [
        ("Dir::Etc::sourcelist", format!("{root}/sources.list")),
        ("Dir::Etc::sourceparts", "-".to_owned()),
        ("Dir::State::lists", format!("{root}/lists")),
        ("Dir::State::status", format!("{root}/status")),
        ("Dir::Cache", format!("{root}/cache")),
        ("APT::Sandbox::User", String::new()),
        // One that has to ask again has noticed.
        ("Acquire::Retries", "0".to_owned()),
    ] {
        apt.args(["-o", &format!("{name}={value}")]);
    }
    apt.current_dir(format!("{root}/got"));
    apt
}

fn apt(failure: Failure) {
    const PORT: u16 = 8090;
    let mut scene = Scene::new(failure);
    let file = scene.file();
    let package = repository(&scene, &file);
    let root = scene.path("repository");
    let arguments = [
        "-m",
        "http.server",
        "--bind",
        "::",
        "-d",
        &root,
        &PORT.to_string(),
    ];
    let _server = serve(&scene, "python3", PORT, &arguments);
    let apt = |family, word: &str| {
        let mut apt = apt_get(&scene, family, PORT);
        apt.args(word.split(' '));
        apt
    };
    for family in FAMILIES {
        done("apt-get update", apt(family, "update"));
    }
    let downloads = FAMILIES.map(|family| ("apt-get download", apt(family, "download payload")));
    scene.through(downloads.into());
    for family in FAMILIES {
        let got = scene.path(&format!("apt-{family}/got/payload_1_all.deb"));
        same(Path::new(&package), Path::new(&got));
    }
    names_cluster(&scene);
}
