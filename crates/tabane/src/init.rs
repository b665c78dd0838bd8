//! `tabane init` and `tabane key`: a new cluster file with a fresh key, and the key pair of a node.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tabane_cluster::{
    Cluster, ClusterKey, InterfaceAddress, NodeKey, Problem, PublicKey, is_for_others, plain,
};
use tabane_proto::crypto::public_key;

use nodes::{GivenNode, VnicNetwork};

pub mod nodes;
pub mod scan;

/// Why no cluster file was written. To be acted on by the operator.
#[derive(Debug)]
pub enum InitError {
    /// There is something at the path; it was not touched.
    Exists(PathBuf),
    /// The directory the file should be in does not exist.
    NoDirectory(PathBuf),
    /// The system gave no random bytes for the key.
    Entropy(io::Error),
    /// The file could not be written; nothing is left of it.
    Write(PathBuf, io::Error),
    /// There is a private key, which cannot be used.
    NodeKey(Problem),
    /// The nodes of the command line are not right: why, in lines.
    Nodes(String),
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists(path) => write!(
                f,
                "{}: is already there and was not touched; name another file or move it away",
                path.display()
            ),
            Self::NoDirectory(directory) => write!(
                f,
                "{0}: there is no such directory; make it with `mkdir -p {0}`",
                directory.display()
            ),
            Self::Entropy(error) => {
                write!(f, "no random bytes for the key: {}", plain(error))
            }
            Self::NodeKey(problem) => problem.fmt(f),
            Self::Nodes(why) => f.write_str(why),
            Self::Write(path, error) => {
                write!(f, "{}: cannot be written: {}", path.display(), plain(error))
            }
        }
    }
}

impl std::error::Error for InitError {}

/// Writes a commented cluster file with a fresh key to `path`, mode 0600, and syncs it to the disk.
/// Never overwrites. `own` are this machine's addresses, for the file's comments; may be empty.
/// Without `nodes` the file has examples to fill in.
///
/// # Errors
/// As [`InitError`] says; then no file is left.
pub fn init(
    path: &Path,
    own: &[InterfaceAddress],
    nodes: &[GivenNode],
    vnic: VnicNetwork,
) -> Result<(), InitError> {
    let key = ClusterKey::new(random()?);
    let blocks = match nodes {
        [] => EXAMPLES.to_owned(),
        _ => nodes::blocks(nodes, vnic).map_err(InitError::Nodes)?,
    };
    let text = content(&key, own, &blocks);
    if !nodes.is_empty() {
        nodes::check(path, &text, nodes).map_err(InitError::Nodes)?;
    }
    write_secret(path, &text)
}

/// The private key of this machine.
pub struct OwnKey {
    /// Its file.
    pub file: PathBuf,
    /// Whether it was made just now.
    pub made: bool,
}

/// This machine's public key as a node of the cluster file `config`, which need not exist. Makes a
/// key pair first if there is none.
///
/// # Errors
/// As [`InitError`] says.
pub fn node_key(config: &Path) -> Result<(PublicKey, OwnKey), InitError> {
    let file = Cluster::node_key_file_of(config);
    let found = NodeKey::load(&file).map_err(InitError::NodeKey)?;
    let made = found.is_none();
    let key = found.map_or_else(|| make_node_key(&file), Ok)?;
    let public = PublicKey(public_key(key.bytes()));
    Ok((public, OwnKey { file, made }))
}

fn make_node_key(file: &Path) -> Result<NodeKey, InitError> {
    let key = NodeKey::new(random()?);
    write_secret(file, &key.to_text())?;
    Ok(key)
}

fn random() -> Result<[u8; 32], InitError> {
    tabane_io::entropy::seed().map_err(InitError::Entropy)
}

/// Writes a new file of mode 0600; it is on the disk on return.
fn write_secret(path: &Path, text: &str) -> Result<(), InitError> {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if !directory.is_dir() {
        return Err(InitError::NoDirectory(directory.to_owned()));
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => InitError::Exists(path.to_owned()),
            _ => InitError::Write(path.to_owned(), error),
        })?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| File::open(directory)?.sync_all());
    written.map_err(|error| {
        // Half a file would only be in the way; reporting the first error matters more than whether
        // this succeeds.
        let _ = std::fs::remove_file(path);
        InitError::Write(path.to_owned(), error)
    })
}

/// The text of a new cluster file.
fn content(key: &ClusterKey, own: &[InterfaceAddress], nodes: &str) -> String {
    let found: String = own
        .iter()
        .filter(|o| is_for_others(o.address))
        .map(|o| format!("#   {:15} {}/{}\n", o.interface, o.address, o.prefix))
        .collect();
    let found = if found.is_empty() {
        found
    } else {
        format!("#\n# Addresses found on this machine:\n{found}")
    };
    TEMPLATE
        .replace("{key}", &key.to_hex())
        .replace("{found}", &found)
        .replace("{nodes}", nodes)
}

const TEMPLATE: &str = include_str!("init/cluster.toml");
const EXAMPLES: &str = include_str!("init/examples.toml");

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use tabane_cluster::Cluster;

    fn eth0() -> InterfaceAddress {
        InterfaceAddress {
            interface: "eth0".to_owned(),
            address: "10.77.0.1".parse().unwrap(),
            prefix: 24,
        }
    }

    fn fresh(path: &Path, own: &[InterfaceAddress]) -> Result<(), InitError> {
        init(path, own, &[], "10.99.0.0/24".parse().unwrap())
    }

    #[test]
    fn a_file_with_its_nodes_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.toml");
        let nodes = |texts: [&str; 2]| texts.map(|text| text.parse().unwrap());
        let vnic = "10.99.0.0/24".parse().unwrap();
        let wrong = nodes(["n0=10.77.0.1,10.77.1.1", "n0=10.77.0.2,10.77.1.2"]);
        let error = init(&path, &[eth0()], &wrong, vnic)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("--node n0=10.77.0.2,10.77.1.2: "),
            "{error}"
        );
        assert!(!path.exists());

        let right = nodes(["n0=10.77.0.1,10.77.1.1", "n1=10.77.0.2,10.77.1.2"]);
        init(&path, &[eth0()], &right, vnic).unwrap();
        let (cluster, warnings) = Cluster::load(&path).unwrap();
        assert_eq!((cluster.nodes.len(), warnings), (2, vec![]));
        let vnic = cluster.nodes[1].vnic.unwrap();
        assert_eq!(vnic, ("10.99.0.2".parse().unwrap(), 24));
    }

    #[test]
    fn the_file_asks_for_nodes_and_is_right_once_they_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.toml");
        fresh(&path, &[eth0()]).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        let error = Cluster::load(&path).unwrap_err();
        assert_eq!(error.problems.len(), 1);
        assert!(
            error.to_string().contains("there are no nodes yet"),
            "{error}"
        );

        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("\n#   eth0            10.77.0.1/24\n"),
            "{text}"
        );
        let (before, nodes) = text.split_once("addresses:\n").unwrap();
        let filled_in = format!("{before}\n{}", nodes.replace("# ", ""));
        std::fs::write(&path, filled_in).unwrap();
        let (cluster, warnings) = Cluster::load(&path).unwrap();
        assert_eq!(cluster.nodes.len(), 2);
        assert_eq!(warnings, []);
    }

    #[test]
    fn two_files_have_different_keys() {
        let dir = tempfile::tempdir().unwrap();
        let key_of = |name: &str| {
            let path = dir.path().join(name);
            fresh(&path, &[]).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            text.lines()
                .find(|l| l.starts_with("key = "))
                .unwrap()
                .to_owned()
        };
        assert_ne!(key_of("a"), key_of("b"));
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.toml");
        std::fs::write(&path, "mine").unwrap();
        let error = fresh(&path, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{}: is already there and was not touched; name another file or move it away",
                path.display()
            )
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        // A link to nowhere is something, too.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("nowhere"), &link).unwrap();
        assert!(matches!(fresh(&link, &[]), Err(InitError::Exists(_))));
    }

    #[test]
    fn a_machine_has_one_key_pair_beside_its_cluster_file() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("cluster.toml");
        let (public, own) = node_key(&config).unwrap();
        assert_eq!((own.file, own.made), (dir.path().join("node.key"), true));
        let mode = std::fs::metadata(dir.path().join("node.key")).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
        let (again, own) = node_key(&config).unwrap();
        assert_eq!((again, own.made), (public, false));
        std::fs::remove_file(dir.path().join("node.key")).unwrap();
        assert_ne!(node_key(&config).unwrap().0, public);
        std::fs::write(dir.path().join("node.key"), "mine").unwrap();
        assert!(matches!(node_key(&config), Err(InitError::NodeKey(_))));
        assert_eq!(std::fs::read(dir.path().join("node.key")).unwrap(), b"mine");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("no/such");
        let error = fresh(&missing.join("cluster.toml"), &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{0}: there is no such directory; make it with `mkdir -p {0}`",
                missing.display()
            )
        );
    }
}
