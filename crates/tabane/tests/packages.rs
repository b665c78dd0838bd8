//! What packages are cut from: all that is installed is in one package, of Debian's and of RPM's.
//! `make soak-packages` builds, installs, uses and removes them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use saphyr::LoadableYamlNode;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("is there")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Files below `directory`, as paths that begin with "/".
fn files(directory: &Path, below: &str, all: &mut Vec<String>) {
    for entry in fs::read_dir(directory.join(below)).expect("can be read") {
        let entry = entry.expect("can be read");
        let name = format!("{below}/{}", entry.file_name().to_str().expect("is text"));
        let name = name.trim_start_matches('/');
        if entry.file_type().expect("is known").is_dir() {
            files(directory, name, all);
        } else {
            all.push(format!("/{name}"));
        }
    }
}

/// Whether the shell's `pattern` matches `text` as a whole. `*` does not match "/".
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            matches(rest, text)
                || matches!(text.split_first(), Some((c, more)) if *c != b'/' && matches(pattern, more))
        }
        (Some((b'[', rest)), Some((c, more))) => {
            let end = rest.iter().position(|c| *c == b']').expect("is closed");
            let without = rest.strip_prefix(b"!").expect("only [!…] is used");
            !without[..end - 1].contains(c) && matches(&rest[end + 1..], more)
        }
        (Some((p, rest)), Some((c, more))) => p == c && matches(rest, more),
        _ => false,
    }
}

/// Whether `pattern` names `file` or a directory that it is in.
fn claims(pattern: &str, file: &str) -> bool {
    let pattern = format!("/{}", pattern.trim_start_matches('/'));
    let ends = file.match_indices('/').map(|(at, _)| at).skip(1);
    ends.chain([file.len()])
        .any(|end| matches(pattern.as_bytes(), &file.as_bytes()[..end]))
}

/// What each package takes, and what it leaves of that.
type Cut = BTreeMap<String, (Vec<String>, Vec<String>)>;

/// As `dist/debian/*.install` says.
fn debian() -> Cut {
    let mut cut = Cut::new();
    for entry in fs::read_dir(root().join("dist/debian")).expect("is there") {
        let name = entry.expect("can be read").file_name();
        let name = name.to_str().expect("is text");
        if let Some(package) = name.strip_suffix(".install") {
            let text = read(&format!("dist/debian/{name}"));
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let lines = lines.map(str::to_owned).collect();
            cut.insert(package.to_owned(), (lines, Vec::new()));
        }
    }
    cut
}

/// As the `%files` of the RPM's description say.
fn rpm() -> Cut {
    let mut cut = Cut::new();
    let mut package = None;
    for line in read("dist/rpm/tabane.spec").lines() {
        if let Some(name) = line.strip_prefix("%files") {
            package = Some(name.replace("-n", "").trim().to_owned());
            continue;
        }
        let Some(package) = &package else { continue };
        let (takes, leaves) = cut.entry(package.clone()).or_default();
        let line = line.replace("%{_libdir}", "/usr/lib64");
        let line = line.replace("%{_docdir}", "/usr/share/doc");
        let line = line.replace("%{_unitdir}", "/usr/lib/systemd/system");
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["%exclude", path] => leaves.push(path.to_owned()),
            [path] => takes.push(path.to_owned()),
            // Directories, which are no files.
            _ => (),
        }
    }
    cut
}

/// What is installed, with libraries in `libdir`.
fn installed(libdir: &str) -> Vec<String> {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut install = Command::new(root().join("tools/install.sh"));
    install.args(["install", env!("CARGO_BIN_EXE_tabane")]);
    install.env("DESTDIR", scratch.path());
    install.env("PREFIX", "/usr").env("LIBDIR", libdir);
    let ran = install.output().expect("is there");
    assert!(ran.status.success(), "{ran:?}");
    let mut all = Vec::new();
    files(scratch.path(), "", &mut all);
    assert!(all.contains(&"/usr/bin/tabane".to_owned()), "{all:?}");
    all
}

fn each_file_is_in_one_package(cut: &Cut, installed: &[String]) {
    for file in installed {
        let takes = |(takes, leaves): &(Vec<String>, Vec<String>)| {
            takes.iter().any(|it| claims(it, file)) && !leaves.iter().any(|it| claims(it, file))
        };
        let packages: Vec<_> = cut.iter().filter(|(_, it)| takes(it)).collect();
        assert_eq!(packages.len(), 1, "{file} is in {packages:?}");
    }
}

#[test]
fn each_installed_file_is_in_one_debian_package() {
    let installed = installed("/usr/lib/x86_64-linux-gnu");
    // Debian has another directory for these.
    let zsh = |file: &String| file.replace("site-functions", "vendor-completions");
    each_file_is_in_one_package(&debian(), &installed.iter().map(zsh).collect::<Vec<_>>());
}

#[test]
fn each_installed_file_is_in_one_rpm_package() {
    each_file_is_in_one_package(&rpm(), &installed("/usr/lib64"));
}

#[test]
fn packages_have_the_programs_version() {
    let wanted = format!("tabane ({}-", env!("CARGO_PKG_VERSION"));
    assert!(
        read("dist/debian/changelog").starts_with(&wanted),
        "dist/debian/changelog does not begin with {wanted}"
    );
}

#[test]
fn descriptions_for_many_hosts_are_yaml() {
    let mut all = Vec::new();
    for folder in ["ansible", "cloud-init"] {
        files(&root().join("dist"), folder, &mut all);
    }
    for file in all {
        let text = read(&format!("dist{file}"));
        let loaded = saphyr::Yaml::load_from_str(&text);
        let loaded = loaded.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(loaded.len(), 1, "{file}");
    }
}
