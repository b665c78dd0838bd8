//! `tabane mpi` as a user and a script meet it, with launchers that only say what they were given.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tabane_lab::cluster::Scratch;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A folder with launchers, and one with what stands for the provider.
struct Place(Scratch);

/// What it ended with, and said.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Place {
        let place = Place(Scratch::new().expect("is made"));
        fs::create_dir(place.path("provider")).expect("is made");
        fs::write(place.path("provider/libtabane-fi.so"), "").expect("is written");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A launcher that says that it is such a version, or else does what `script` says.
    fn launcher(&self, name: &str, version: &str, script: &str) -> String {
        let path = self.path(name);
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo \"{version}\"; exit; fi\n{script}\n"
        );
        fs::write(&path, text).expect("is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("is set");
        path.display().to_string()
    }

    /// `tabane mpi` with the provider, and of the variables that matter only these.
    fn mpi(&self, args: &[&str], set: &[(&str, &str)]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tabane"));
        for (name, _) in std::env::vars() {
            let of_ours = ["TABANE_", "FI_", "OMPI_", "I_MPI_", "MPIR_"];
            if of_ours.iter().any(|begin| name.starts_with(begin)) {
                command.env_remove(name);
            }
        }
        command
            .args(["mpi", "--library"])
            .arg(self.path("provider"))
            .args(args)
            .envs(set.iter().copied());
        let output = command.output().expect("runs");
        let text = |bytes| String::from_utf8(bytes).expect("is text");
        Said {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

#[test]
fn the_launcher_gets_its_words_the_variables_and_a_new_key_each_time() {
    let place = Place::new();
    let script =
        "echo \"$@\"; echo $FI_PROVIDER_PATH; echo $TABANE_LINKS; echo $TABANE_KEY; exit 7";
    let mpirun = place.launcher("mpirun", "mpirun (Open MPI) 4.1.4", script);
    let run = || {
        let words = [
            "--links",
            "127.0.0.1",
            "--",
            &mpirun,
            "-np",
            "2",
            "--x",
            "it",
        ];
        let said = place.mpi(&words, &[]);
        assert_eq!((said.code, said.err.as_str()), (Some(7), ""));
        said.out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = run();
    let provider = place.path("provider").display().to_string();
    assert_eq!(lines[..3], ["-np 2 --x it", &*provider, "127.0.0.1"]);
    let is_key = |key: &str| key.len() == 64 && key.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(is_key(&lines[3]), "{lines:?}");
    assert_ne!(run()[3], lines[3]);
}

#[test]
fn a_key_that_was_given_stays() {
    let place = Place::new();
    let script = "echo $TABANE_KEY $TABANE_KEY_FILE";
    let launcher = place.launcher("start", "1", script);
    let words = ["--links", "127.0.0.1", &launcher];
    assert_eq!(
        place.mpi(&words, &[("TABANE_KEY", KEY)]).out,
        format!("{KEY}\n")
    );
    let file = place.path("key");
    fs::write(&file, KEY).expect("is written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("is set");
    let file = file.display().to_string();
    let said = place.mpi(&words, &[("TABANE_KEY_FILE", &file)]);
    assert_eq!(said.out, format!("{file}\n"), "{}", said.err);
}

#[test]
fn what_is_printed_a_shell_can_read_and_nobody_learns_a_key_from_it() {
    let place = Place::new();
    let said = place.mpi(&["--print", "--links", "127.0.0.1"], &[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let script = format!(
        "{}\necho $FI_PROVIDER,$TABANE_LINKS,$TABANE_KEY,$OMPI_MCA_btl",
        said.out
    );
    let shell = Command::new("sh")
        .args(["-e", "-c", &script])
        .output()
        .expect("runs");
    assert_eq!(
        String::from_utf8_lossy(&shell.stdout),
        "tabane,127.0.0.1,,self,ofi\n"
    );
    assert!(
        !place
            .mpi(&["--print"], &[("TABANE_KEY", KEY)])
            .out
            .contains(KEY)
    );
}

#[test]
fn what_would_keep_ranks_from_starting_is_said_before_there_are_any() {
    let place = Place::new();
    let mpirun = place.launcher("mpirun", "mpirun (Open MPI) 4.1.4", "echo started");
    let ucx = "HYDRA build details:\n Version: 4.0.2\n Configure options: '--with-device=ch4:ucx'";
    let mpich = place.launcher("mpiexec.mpich", ucx, "echo started");
    let refused = |words: &[&str], set: &[(&str, &str)], code: i32, expected: &[&str]| {
        let said = place.mpi(words, set);
        assert_eq!(
            (said.code, said.out.as_str()),
            (Some(code), ""),
            "{}",
            said.err
        );
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
        assert!(said.err.starts_with("tabane: "), "{}", said.err);
        for part in expected {
            assert!(said.err.contains(part), "{part}: {}", said.err);
        }
    };
    refused(
        &[&mpirun],
        &[("TABANE_KEY", "abc")],
        2,
        &["TABANE_KEY=(not shown)", "openssl rand"],
    );
    refused(
        &[&mpirun],
        &[("TABANE_WIRE", "Plain")],
        2,
        &["TABANE_WIRE=Plain"],
    );
    refused(
        &[&mpirun],
        &[("TABANE_PORTS", "7")],
        2,
        &["TABANE_PORTS=7", "LOW-HIGH"],
    );
    refused(
        &[&mpirun],
        &[("FI_PROVIDER", "tcp")],
        2,
        &["FI_PROVIDER=tcp", "FI_PROVIDER=tabane"],
    );
    refused(
        &[&mpirun, "--mca", "pml", "ob1"],
        &[],
        2,
        &["OMPI_MCA_pml=ob1"],
    );
    refused(
        &[&mpich],
        &[],
        1,
        &["MPICH 4.0.2", "ch4:ucx", "pip install mpich"],
    );
    let words = ["--links", "127.0.0.1", "/nonexistent/mpirun"];
    refused(&words, &[], 127, &["no such file"]);
    fs::remove_file(place.path("provider/libtabane-fi.so")).expect("was there");
    refused(
        &[&mpirun],
        &[],
        1,
        &["there is no libtabane-fi.so in ", "--library"],
    );
}

#[test]
fn links_that_are_not_here_are_a_warning_for_ranks_may_run_elsewhere() {
    let place = Place::new();
    let mpirun = place.launcher("mpirun", "mpirun (Open MPI) 4.1.4", "echo started");
    let said = place.mpi(&["--links", "eth77", &mpirun], &[]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "started\n"));
    let warned =
        "tabane: warning: no rank can run on this node: TABANE_LINKS=eth77: nothing of it is here";
    assert!(said.err.starts_with(warned), "{}", said.err);
}
