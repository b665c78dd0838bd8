//! The library as the system's libfabric finds it.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

// The tests depend on the library, so that cargo builds it beside them.
use tabane_fi as _;
use tempfile::TempDir;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn library() -> PathBuf {
    let test = std::env::current_exe().expect("is known");
    let library = test.with_file_name("libtabane_fi.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// A folder with the library as it is installed.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    symlink(library(), folder.path().join("libtabane-fi.so")).expect("a link");
    folder
}

fn fi_info(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let folder = folder();
    let mut command = Command::new("fi_info");
    for (name, _) in std::env::vars() {
        if name.starts_with("FI_") || name.starts_with("TABANE_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .env("FI_PROVIDER_PATH", folder.path())
        .envs(environment.iter().copied());
    command
        .output()
        .expect("fi_info is installed (tools/setup.sh test)")
}

fn said(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

#[test]
fn libfabric_lists_the_provider() {
    let here = [("TABANE_KEY", KEY), ("TABANE_LINKS", "lo")];
    let listed = fi_info(&["-p", "tabane"], &here);
    let text = said(&listed.stdout);
    assert!(listed.status.success(), "{}", said(&listed.stderr));
    for line in [
        "provider: tabane",
        "fabric: tabane",
        "domain: tabane",
        "type: FI_EP_RDM",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    // Nothing is layered on it.
    assert!(!text.contains("ofi_rx"), "{text}");
    assert_eq!(said(&listed.stderr), "");
    let verbose = fi_info(&["-p", "tabane", "-v"], &here);
    assert!(verbose.status.success());
    assert!(said(&verbose.stdout).contains("FI_TAGGED"));
}

#[test]
fn libfabric_explains_the_variables() {
    let listed = said(&fi_info(&["-g", "tabane"], &[]).stdout);
    for name in [
        "LINKS",
        "KEY_FILE",
        "KEY",
        "WIRE",
        "PORTS",
        "PEER_TIMEOUT",
        "BUNDLES",
        "STATS",
    ] {
        assert!(listed.contains(&format!("FI_TABANE_{name}")), "{listed}");
        assert!(listed.contains(&format!(" TABANE_{name}: ")), "{listed}");
    }
}

#[test]
fn what_is_wrong_is_said_to_who_asks_for_it() {
    let here = [("TABANE_KEY", KEY), ("TABANE_LINKS", "nowhere0")];
    let refused = fi_info(&["-p", "tabane"], &here);
    assert!(!refused.status.success());
    let line = said(&refused.stderr);
    assert!(
        line.contains("TABANE_LINKS=nowhere0: nothing of it is here; here are "),
        "{line}"
    );
}

#[test]
fn where_nobody_asks_for_it_nothing_is_said() {
    let others = fi_info(&[], &[]);
    assert!(
        !said(&others.stderr).contains("tabane"),
        "{}",
        said(&others.stderr)
    );
    let cluster_file = std::path::Path::new("/etc/tabane/cluster.toml");
    if !cluster_file.exists() {
        assert!(!said(&others.stdout).contains("tabane"));
    }
}

#[test]
fn the_library_shows_one_function_and_stays_loaded() {
    let tool = |name: &str, option: &[&str]| {
        let output = Command::new(name).args(option).arg(library()).output();
        said(&output.expect("binutils are there").stdout)
    };
    let defined = tool("nm", &["-D", "--defined-only"]);
    let names: Vec<_> = defined
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    assert_eq!(names, ["fi_prov_ini"]);
    let dynamic = tool("readelf", &["-d", "-W"]);
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    assert!(!dynamic.contains("libfabric"), "{dynamic}");
}
