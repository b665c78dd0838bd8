//! OpenSSH, and rsync by a daemon of its own.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use tabane_lab::cluster::Dialogue;

use crate::common::outside::OUTSIDE;
use crate::scene::{FAMILIES, Failure, Scene, end, names_clients};
use crate::site::{AS_NO_ROOT, same, sshd};

through_each_failure!(openssh, rsync);

/// The names by which the client of each family calls the cluster.
const HOSTS: [&str; 2] = ["v4", "v6"];

/// What the ssh programs of clients are to be told.
fn configuration(scene: &Scene) -> String {
    let mut text = format!(
        "IdentityFile {}\nUser user\nPort 2222\nStrictHostKeyChecking no\n\
         UserKnownHostsFile /dev/null\nLogLevel ERROR\nBatchMode yes\n",
        scene.path("user")
    );
    for family in FAMILIES {
        text += &format!("Host {}\n HostName {}\n", HOSTS[family], OUTSIDE[family]);
    }
    let path = scene.path("ssh_config");
    fs::write(&path, text).expect("can be written");
    path
}

/// Copies both ways, streams through commands, and sessions in which somebody types now and then.
fn openssh(failure: Failure) {
    let mut scene = Scene::new(failure);
    let file = scene.file();
    let (_server, _) = sshd(&scene.site, scene.node);
    let config = configuration(&scene);
    let file_name = file.display().to_string();
    let mut sessions = HOSTS.map(|host| {
        let family = usize::from(host == "v6");
        let mut shell = scene.client(family, "ssh", &["-F", &config, host]);
        shell.arg("echo ready; while read word; do echo heard $word; done");
        shell.stderr(Stdio::inherit());
        Dialogue::start("ssh", shell).expect("is ready")
    });
    let mut type_in = |word: &str| {
        for session in &mut sessions {
            session.tell(word).expect("is read");
            let said = session.says(word).expect("is answered");
            assert_eq!(said, format!("heard {word}\n"));
        }
    };
    type_in("before");
    let mut clients = Vec::new();
    let mut copies = Vec::new();
    for (family, host) in HOSTS.into_iter().enumerate() {
        let mut copy = |name: &str| {
            let path = scene.path(&format!("{name}-{host}"));
            copies.push(path.clone());
            path
        };
        let scp =
            |from: &str, to: &str| scene.client(family, "scp", &["-q", "-F", &config, from, to]);
        let down = scp(&format!("{host}:{file_name}"), &copy("down"));
        let up = scp(&file_name, &format!("{host}:{}", copy("up")));
        let mut through = scene.client(family, "sh", &["-c", "ssh -F $0 $1 cat <$2 >$3"]);
        through.args([&config, host, &file_name, &copy("through")]);
        clients.extend([("scp down", down), ("scp up", up), ("ssh cat", through)]);
    }
    for said in scene.through(clients) {
        assert_eq!(said, "");
    }
    type_in("after");
    for copy in copies {
        same(&file, Path::new(&copy));
    }
    drop(sessions);
    names_clients(&scene.log(2222));
}

/// Each way, in a module that may be written.
fn rsync(failure: Failure) {
    const PORT: u16 = 8730;
    let mut scene = Scene::new(failure);
    let file = scene.file();
    let (root, log) = (scene.path("module"), scene.path("rsync.log"));
    fs::create_dir(&root).expect("is new");
    fs::copy(&file, scene.path("module/file")).expect("can be copied");
    let text = format!(
        "port = {PORT}\nreverse lookup = no\nlog file = {log}\nuse chroot = no\n\
         [module]\n path = {root}\n read only = no\n"
    );
    fs::write(scene.path("rsyncd.conf"), text).expect("can be written");
    let mut server = scene.inside("unshare", &AS_NO_ROOT);
    server.args([
        "rsync",
        "--daemon",
        "--no-detach",
        "--config",
        &scene.path("rsyncd.conf"),
    ]);
    let _server = scene.serve("rsync", server, PORT);
    let mut clients = Vec::new();
    for family in FAMILIES {
        let module = format!("rsync://{}/module", end(family, PORT));
        let copy = scene.path(&format!("copy-{family}"));
        let down = ["--whole-file", &format!("{module}/file"), &copy];
        let up = [
            "--whole-file",
            &file.display().to_string(),
            &format!("{module}/up-{family}"),
        ];
        clients.push(("rsync down", scene.client(family, "rsync", &down)));
        clients.push(("rsync up", scene.client(family, "rsync", &up)));
    }
    for said in scene.through(clients) {
        assert_eq!(said, "");
    }
    for family in FAMILIES {
        same(&file, Path::new(&scene.path(&format!("copy-{family}"))));
        same(
            &file,
            Path::new(&scene.path(&format!("module/up-{family}"))),
        );
    }
    names_clients(&fs::read_to_string(log).expect("can be read"));
}
