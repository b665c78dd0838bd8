//! Changing a part of a file that belongs to others, such as `/etc/hosts`: whole or not at all, and nothing else of it.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, XattrFlags, fgetxattr, flistxattr, flock, fsetxattr};
use rustix::io::Errno;

/// How long another writer is waited for.
const LOCK_MAX: Duration = Duration::from_secs(10);
const LOCK_EVERY: Duration = Duration::from_millis(10);
/// Longest list of attributes, and longest attribute, that are copied (the kernel's own limit, xattr(7)).
const ATTRIBUTE_BYTES_MAX: usize = 64 * 1024;

/// Replaces the content of the regular file at `path` by what `change` makes of it; without a change the file is not touched.
/// Writers that use this function wait for each other, by a lock on the file's directory.
///
/// The new content is written beside the file, synced, and renamed over it, with the file's mode, owner and
/// attributes. Where that is impossible (the file is a mount of its own, the directory is read-only, the owner cannot be
/// given) it is written in place, which a crash may interrupt. A symbolic link is followed.
///
/// # Errors
/// The file cannot be read, has more than `bytes_max` bytes, or can be written in neither way; it has its old content then, unless
/// writing in place broke off.
pub fn rewrite(
    path: &Path,
    bytes_max: u64,
    change: impl FnOnce(&[u8]) -> Vec<u8>,
) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let directory = path.parent().ok_or(ErrorKind::InvalidInput)?;
    let lock = File::open(directory)?;
    wait_for(&lock)?;
    let old = read(&path, bytes_max)?;
    let new = change(&old);
    if new == old {
        return Ok(());
    }
    // Whatever is wrong with the one way is seen, if it matters, in the other.
    if replace(&path, directory, &lock, &new).is_ok() {
        return Ok(());
    }
    overwrite(&path, &new)
}

/// Reads a regular file of at most so many bytes.
///
/// # Errors
/// It is no such file, or cannot be read.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        // Opening a pipe would wait for its writer.
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Locks the directory, which also those may who cannot write to it.
fn wait_for(directory: &File) -> io::Result<()> {
    let until = Instant::now() + LOCK_MAX;
    loop {
        match flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(LOCK_EVERY),
            Err(Errno::WOULDBLOCK) => return Err(ErrorKind::ResourceBusy.into()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Another file in place of this one.
fn replace(path: &Path, directory: &Path, synced: &File, new: &[u8]) -> io::Result<()> {
    let old = File::open(path)?;
    let like = old.metadata()?;
    if like.nlink() > 1 {
        // Its other names would keep the old content.
        return Err(ErrorKind::Unsupported.into());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // One name for all: what a crash has left is replaced, and the lock keeps others off.
    name.push(".tabane-new");
    let beside = Beside(directory.join(name));
    let _ = fs::remove_file(&beside.0);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside.0)?;
    file.write_all(new)?;
    let created = file.metadata()?;
    if (created.uid(), created.gid()) != (like.uid(), like.gid()) {
        fchown(&file, Some(like.uid()), Some(like.gid()))?;
    }
    copy_attributes(&old, &file)?;
    // After the owner: giving a file away takes bits of its mode.
    file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o7777))?;
    file.sync_all()?;
    fs::rename(&beside.0, path)?;
    synced.sync_all()
}

/// A file that is removed with this, if it still has its name.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Access lists, and labels of SELinux, are attributes.
fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let mut names = vec![0_u8; ATTRIBUTE_BYTES_MAX];
    let length = match flistxattr(from, &mut names[..]) {
        Ok(length) => length,
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut value = vec![0_u8; ATTRIBUTE_BYTES_MAX];
    for name in names[..length].split_inclusive(|byte| *byte == 0) {
        let name = CStr::from_bytes_with_nul(name).map_err(io::Error::other)?;
        let length = fgetxattr(from, name, &mut value[..])?;
        // A file is often created with the label that it is to have.
        let mut has = vec![0_u8; ATTRIBUTE_BYTES_MAX];
        if fgetxattr(to, name, &mut has[..]).is_ok_and(|it| has[..it] == value[..length]) {
            continue;
        }
        fsetxattr(to, name, &value[..length], XattrFlags::empty())?;
    }
    Ok(())
}

fn overwrite(path: &Path, new: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(new)?;
    file.set_len(new.len() as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 100;

    fn inode(path: &Path) -> u64 {
        fs::metadata(path).unwrap().ino()
    }

    fn entries(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn another_file_of_the_same_mode_owner_and_attributes_takes_the_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // Only root may give it to somebody, and not every file system has attributes.
        let _ = std::os::unix::fs::chown(&path, Some(1234), Some(2345));
        let has_attributes = {
            let file = File::open(&path).unwrap();
            let flags = XattrFlags::empty();
            fsetxattr(&file, c"user.tabane", b"kept", flags).is_ok()
        };
        fs::write(dir.path().join("hosts.tabane-new"), "left by a crash").unwrap();
        let before = fs::metadata(&path).unwrap();
        rewrite(&path, MAX, |old| [old, b" and new\xff"].concat()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old and new\xff");
        let after = fs::metadata(&path).unwrap();
        let of = |it: &fs::Metadata| (it.mode(), it.uid(), it.gid());
        assert_eq!(of(&after), of(&before));
        assert_ne!(after.ino(), before.ino());
        let mut value = [0; 16];
        let length = fgetxattr(File::open(&path).unwrap(), c"user.tabane", &mut value[..]);
        assert_eq!(
            length.is_ok_and(|it| value[..it] == *b"kept"),
            has_attributes
        );
        assert_eq!(entries(dir.path()), 1);
    }

    #[test]
    fn what_stays_the_same_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        fs::write(&path, "old").unwrap();
        let before = inode(&path);
        rewrite(&path, MAX, <[u8]>::to_vec).unwrap();
        assert_eq!(inode(&path), before);
    }

    #[test]
    fn what_cannot_be_replaced_is_written_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("hosts"), dir.path().join("link"));
        fs::write(&path, "quite long").unwrap();
        fs::hard_link(&path, dir.path().join("other name")).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let before = inode(&path);
        rewrite(&link, MAX, |_| b"short".to_vec()).unwrap();
        assert_eq!(inode(&path), before);
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(entries(dir.path()), 3);
    }

    #[test]
    fn what_is_no_file_of_bounded_size_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        let kind = |path: &Path| {
            let result = rewrite(path, MAX, |_| b"new".to_vec());
            result.unwrap_err().kind()
        };
        assert_eq!(kind(&path), ErrorKind::NotFound);
        fs::write(&path, [b' '; MAX as usize + 1]).unwrap();
        assert_eq!(kind(&path), ErrorKind::FileTooLarge);
        assert_eq!(kind(dir.path()), ErrorKind::InvalidInput);
        assert_eq!(fs::metadata(&path).unwrap().len(), MAX + 1);
    }

    #[test]
    fn writers_wait_for_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        fs::write(&path, "").unwrap();
        let add = |word: u8| rewrite(&path, MAX, |old| [old, &[word]].concat()).unwrap();
        thread::scope(|scope| {
            for word in 0..4 {
                scope.spawn(move || add(word));
            }
        });
        let mut all = fs::read(&path).unwrap();
        all.sort_unstable();
        assert_eq!(all, (0..4).collect::<Vec<u8>>());
    }
}
