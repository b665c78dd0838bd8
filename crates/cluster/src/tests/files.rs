//! What depends on the file itself: reading it, its mode, the `key_file`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use super::super::{Cluster, KEY_FILE_BYTES_MAX, NODE_KEY_FILE, NodeKey, PublicKey};
use super::{KEY, fill, said};

/// Loads `path` and shows what is said, with `dir` as `DIR`.
fn load(dir: &TempDir, path: &Path) -> String {
    said(Cluster::load(path)).replace(&*dir.path().to_string_lossy(), "DIR")
}

fn write(path: &Path, content: impl AsRef<[u8]>, mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn files_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c");
    assert_eq!(
        load(&dir, &path),
        "DIR/c: cannot be read: no such file or directory; check the path; `tabane init PATH` makes a new file"
    );
    assert_eq!(
        load(&dir, dir.path()),
        "DIR: cannot be read: not a regular file; name a regular file, not a directory, pipe or device"
    );
    assert_eq!(
        load(&dir, Path::new("/dev/zero")),
        "/dev/zero: cannot be read: not a regular file; name a regular file, not a directory, pipe or device"
    );
    write(&path, b"# \xc3\xbc\nkey = \"\xe9\"\n", 0o600);
    assert_eq!(
        load(&dir, &path),
        "DIR/c:2: is not text in UTF-8; save the file as UTF-8"
    );
}

#[test]
fn a_key_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c");
    write(&path, fill("# mine\n{KEY}{N0}{N1}"), 0o644);
    assert_eq!(
        load(&dir, &path),
        "DIR/c:2: every user of this machine can read or write this file, which holds the key (mode 0644); run `chmod 600` on it, or move the key into a key_file of mode 0600"
    );
    for good in [0o400, 0o600, 0o640, 0o660] {
        fs::set_permissions(&path, Permissions::from_mode(good)).unwrap();
        assert_eq!(load(&dir, &path), "", "{good:o}");
    }
}

#[test]
fn the_key_may_be_in_a_file_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c");
    let key = dir.path().join("k");
    write(&path, fill("key_file = \"k\"\n{N0}{N1}"), 0o644);
    write(&key, format!("{KEY}\n"), 0o600);
    let (cluster, warnings) = Cluster::load(&path).unwrap();
    assert_eq!(cluster.key.to_hex(), KEY);
    assert!(warnings.is_empty());

    fs::set_permissions(&key, Permissions::from_mode(0o604)).unwrap();
    assert_eq!(
        load(&dir, &path),
        "DIR/c:1: every user of this machine can read or write key_file DIR/k (mode 0604); run `chmod 600` on it"
    );
    write(&key, &KEY[1..], 0o600);
    assert_eq!(
        load(&dir, &path),
        "DIR/c:1: the key in key_file DIR/k is too short: 63 of 64 digits; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one"
    );
    write(&key, [0xff; 64], 0o600);
    assert_eq!(
        load(&dir, &path),
        "DIR/c:1: the key in key_file DIR/k has characters that are not hexadecimal digits; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one"
    );
    write(&key, " ".repeat(KEY_FILE_BYTES_MAX as usize + 1), 0o600);
    assert_eq!(
        load(&dir, &path),
        "DIR/c:1: key_file DIR/k cannot be read: longer than 1024 bytes; check that this is the file you mean"
    );
    fs::remove_file(&key).unwrap();
    assert_eq!(
        load(&dir, &path),
        "DIR/c:1: key_file DIR/k cannot be read: no such file or directory; check the path"
    );
}

#[test]
fn a_second_key_may_be_there_in_either_way() {
    let dir = tempfile::tempdir().unwrap();
    let (path, key) = (dir.path().join("c"), dir.path().join("k"));
    write(&path, fill("{KEY}second_key_file = \"k\"\n{N0}{N1}"), 0o600);
    let other = KEY.replace('5', "6");
    write(&key, &other, 0o600);
    let (cluster, _) = Cluster::load(&path).unwrap();
    let keys = cluster.keys();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], *cluster.key.bytes());
    assert_eq!(
        cluster.second_key.map(|key| key.to_hex()),
        Some(other.clone())
    );

    write(&key, KEY, 0o600);
    assert_eq!(
        load(&dir, &path),
        "DIR/c:2: the second key is the same as the key; leave it out, unless the key is being changed: then one of the two is the old one"
    );
    write(&key, &other[1..], 0o604);
    assert_eq!(
        load(&dir, &path),
        "DIR/c:2: every user of this machine can read or write second_key_file DIR/k (mode 0604); run `chmod 600` on it\n\
         DIR/c:2: the key in second_key_file DIR/k is too short: 63 of 64 digits; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one"
    );
    let inline = format!("key_file = \"k\"\nsecond_key = \"{other}\"\n{{N0}}{{N1}}");
    write(&path, fill(&inline), 0o644);
    write(&key, KEY, 0o600);
    assert_eq!(
        load(&dir, &path),
        "DIR/c:2: every user of this machine can read or write this file, which holds the key (mode 0644); run `chmod 600` on it, or move the key into a key_file of mode 0600"
    );
    write(
        &path,
        fill(&format!("second_key = \"{other}\"\n{{N0}}{{N1}}")),
        0o600,
    );
    assert_eq!(
        load(&dir, &path),
        "DIR/c: there is neither `key` nor `key_file`; add one; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one"
    );
}

/// Who can write the file can name another key_file.
#[test]
fn a_file_others_can_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c");
    write(&dir.path().join("k"), KEY, 0o600);
    write(&path, fill("key_file = \"k\"\n{N0}{N1}"), 0o666);
    assert_eq!(
        load(&dir, &path),
        "DIR/c: every user of this machine can write this file (mode 0666); run `chmod 644` on it"
    );
}

/// Each bit turned: enough of a public key for a test.
fn public_of(private: &[u8; 32]) -> [u8; 32] {
    private.map(|byte| !byte)
}

#[test]
fn a_node_needs_the_private_key_of_its_public_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c");
    let public = PublicKey(public_of(&[7; 32]));
    let other = PublicKey([7; 32]);
    let said = |entry: &str, me: usize| {
        write(&path, fill(&format!("{{KEY}}{{N0}}{entry}\n{{N1}}")), 0o600);
        let (mut cluster, _) = Cluster::load(&path).unwrap();
        let read = cluster.read_node_key(me, public_of);
        let words = read.err().map_or_else(String::new, |e| e.to_string());
        let words = words.replace(&*dir.path().to_string_lossy(), "DIR");
        (words, cluster.node_key)
    };
    let own = format!("public = \"{public}\"");
    assert_eq!(said("", 0), (String::new(), None));
    assert_eq!(
        said(&own, 0).0,
        "DIR/c:5: node \"n0\" has a `public` key, but the private one is not on this machine (DIR/node.key); put back its file; or run `tabane key` here, and write the line that it prints instead, in every node's cluster file"
    );
    assert_eq!(said(&own, 1).0, "");

    let key = NodeKey::new([7; 32]);
    write(&dir.path().join(NODE_KEY_FILE), key.to_text(), 0o600);
    assert_eq!(said(&own, 0), (String::new(), Some(key.clone())));
    assert_eq!(said("", 0), (String::new(), Some(key.clone())));
    assert_eq!(
        said(&format!("public = \"{other}\""), 0).0,
        format!(
            "DIR/c:5: the `public` key of node \"n0\" is not that of the private one in DIR/node.key; write public = \"{public}\" in every node's cluster file; or, if this key is another machine's, move it away and run `tabane key`"
        )
    );
    write(&dir.path().join(NODE_KEY_FILE), key.to_text(), 0o644);
    assert!(said("", 0).0.ends_with("run `chmod 600` on it"));
}

#[test]
fn the_private_key_is_where_the_file_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c");
    let of = |text: &str| {
        write(&path, text, 0o600);
        Cluster::node_key_file_of(&path)
    };
    // Also for a file that has no nodes yet, or is not there.
    assert_eq!(of(""), dir.path().join("node.key"));
    assert_eq!(of("node_key_file = \"mine\"\n"), dir.path().join("mine"));
    assert_eq!(of("node_key_file = \"/a/b\"\n["), Path::new("/a/b"));
    fs::remove_file(&path).unwrap();
    assert_eq!(
        Cluster::node_key_file_of(&path),
        dir.path().join("node.key")
    );
    write(
        &path,
        fill("{KEY}node_key_file = \"/a/b\"\n{N0}{N1}"),
        0o600,
    );
    let (cluster, _) = Cluster::load(&path).unwrap();
    assert_eq!(cluster.node_key_file, Path::new("/a/b"));
}

/// Only root can give a file away; for others the rule is tested beside it.
#[test]
fn a_key_of_another_user_is_refused_wherever_it_is() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (cluster, key) = (dir.path().join("c"), dir.path().join("k"));
    let give = |path: &Path, owner| std::os::unix::fs::chown(path, Some(owner), None).unwrap();
    write(&key, KEY, 0o600);
    write(&cluster, fill("{KEY}{N0}{N1}"), 0o600);
    give(&cluster, 12345);
    let said = load(&dir, &cluster);
    assert!(
        said.starts_with("DIR/c:1:") && said.contains("user 12345"),
        "{said}"
    );
    give(&cluster, 0);
    assert_eq!(load(&dir, &cluster), "");
    write(&cluster, fill("key_file = \"k\"\n{N0}{N1}"), 0o644);
    assert_eq!(load(&dir, &cluster), "");
    give(&key, 12345);
    let said = load(&dir, &cluster);
    assert!(
        said.starts_with("DIR/c:1:") && said.contains("user 12345"),
        "{said}"
    );
}
