//! Where the sockets of a daemon are: in directories that only those can have made who may serve the programs
//! that look there.
//!
//! A name that anybody can take (one in the abstract namespace of Unix sockets) leads programs to whoever was
//! first. A path below `/run` was made by root, or by whom root let.

use std::env;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::credentials::own_uid;

/// Where the directories of daemons that root started are; the systemd unit's `RuntimeDirectory`.
const OF_THE_HOST: &str = "/run/tabane";
/// Locked by the daemon that has a directory, as long as it lives.
const LOCK: &str = "lock";
/// A daemon that starts or ends elsewhere has a lock, or takes a directory away, for a moment: so long it is
/// tried again.
const PASSING_MAX: Duration = Duration::from_millis(500);
const TRY_EVERY: Duration = Duration::from_millis(5);
/// The longest path of a socket (`sun_path` of unix(7)), bytes.
const PATH_BYTES_MAX: usize = 107;
/// What comes behind a base: the longest names of a directory and of a socket.
const NAMES_BYTES: usize = "/net-18446744073709551615-own/12345678".len();

/// Whom a daemon is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// All programs of this network namespace: `tabane up`.
    Everybody,
    /// Those of this user: started by `tabane run` where there is no other.
    User,
}

/// Where the sockets of a daemon of this network namespace may be.
#[derive(Clone, Debug)]
pub struct Sockets(Vec<PathBuf>);

impl Sockets {
    /// In `/run/tabane/net-INODE`, if the daemon is for everybody, and else, or if nobody may make that, in
    /// a directory of this user: `$XDG_RUNTIME_DIR/tabane`, or `/tmp/tabane-UID` where there is none. INODE
    /// is the number of the network namespace: daemons in different ones never meet.
    pub fn of(audience: Audience) -> Sockets {
        let Some(namespace) = own_namespace() else {
            return Sockets(Vec::new());
        };
        let own = own_base();
        Sockets(match audience {
            Audience::Everybody => {
                let bases = [Some(PathBuf::from(OF_THE_HOST)), own];
                let directories = bases.into_iter().flatten();
                directories
                    .map(|base| base.join(format!("net-{namespace}")))
                    .collect()
            }
            Audience::User => own
                .map(|base| base.join(format!("net-{namespace}-own")))
                .into_iter()
                .collect(),
        })
    }

    /// In this directory.
    pub fn at(directory: PathBuf) -> Sockets {
        Sockets(vec![directory])
    }

    /// Connects to the socket of this name, where there is one that somebody listens at.
    ///
    /// # Errors
    /// `NotFound`: there is none. Those of `connect`.
    pub fn connect<T>(
        &self,
        name: &str,
        connect: impl Fn(&Path) -> io::Result<T>,
    ) -> io::Result<T> {
        for directory in &self.0 {
            if !is_trusted(directory) {
                continue;
            }
            match connect(&directory.join(name)) {
                Err(error) if is_nobody(&error) => {}
                connected => return connected,
            }
        }
        Err(ErrorKind::NotFound.into())
    }

    /// Takes the first of these places that can be had, for as long as the [`Lease`] lives.
    ///
    /// # Errors
    /// `AddrInUse`: another daemon has it. Else, why none of them can be had.
    pub fn take(&self) -> io::Result<Lease> {
        let mut why = io::Error::from(ErrorKind::NotFound);
        for directory in &self.0 {
            match Lease::take(directory) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(error),
                Err(error) => why = error,
                Ok(lease) => return Ok(lease),
            }
        }
        Err(why)
    }

    /// Listens at a socket of this name that belongs to no daemon (whoever has the name is to give it up when
    /// somebody connects), in the first directory that a daemon has made.
    ///
    /// # Errors
    /// `AddrInUse`: somebody listens there. `NotFound`: no daemon has made a directory.
    pub fn listen(&self, name: &str) -> io::Result<Listening> {
        let mut there = self.0.iter().filter(|path| path.is_dir());
        let directory = there.next().ok_or(ErrorKind::NotFound)?;
        let path = directory.join(name);
        let listener = match UnixListener::bind(&path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_left(&path) => {
                remove(&path)?;
                UnixListener::bind(&path)?
            }
            bound => bound?,
        };
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Listening { listener, path })
    }
}

/// A socket that is gone when this is.
#[derive(Debug)]
pub struct Listening {
    /// Not blocking.
    pub listener: UnixListener,
    path: PathBuf,
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Before it is closed: who finds that nobody listens takes the path.
        let _ = remove(&self.path);
        if let Some(directory) = self.path.parent() {
            remove_empty(directory);
        }
    }
}

/// A directory that is this process's, until it ends, however it ends.
#[derive(Debug)]
pub struct Lease {
    directory: PathBuf,
    /// Closed on exec, so that no other process keeps it locked.
    _lock: File,
    sockets: Vec<PathBuf>,
}

impl Lease {
    fn take(directory: &Path) -> io::Result<Lease> {
        let base = directory.parent().ok_or(ErrorKind::InvalidInput)?;
        let mode = if base == Path::new(OF_THE_HOST) {
            0o755
        } else {
            0o700
        };
        let until = Instant::now() + PASSING_MAX;
        let lock = loop {
            match Lease::lock(base, directory, mode) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::NotFound)
                        && Instant::now() < until =>
                {
                    thread::sleep(TRY_EVERY);
                }
                locked => break locked?,
            }
        };
        remove_left(base, directory);
        Ok(Lease {
            directory: directory.to_owned(),
            _lock: lock,
            sockets: Vec::new(),
        })
    }

    /// Makes a directory, if it is not there, and locks it.
    ///
    /// # Errors
    /// `AddrInUse`: somebody has it. `NotFound`: somebody who had it, or another one in its base, has taken it
    /// away just now.
    fn lock(base: &Path, directory: &Path, mode: u32) -> io::Result<File> {
        make(base, mode)?;
        // It may be gone again.
        let there = fs::symlink_metadata(base)?;
        if base != Path::new(OF_THE_HOST) && !is_of_own(&there) {
            let message = format!("{} is not this user's alone", base.display());
            return Err(io::Error::new(ErrorKind::PermissionDenied, message));
        }
        let path = directory.join(LOCK);
        make(directory, 0o755)?;
        let lock = open_lock(&path)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(ErrorKind::AddrInUse.into()),
            locked => locked?,
        }
        match is_at(&lock, &path) {
            true => Ok(lock),
            false => Err(ErrorKind::NotFound.into()),
        }
    }

    /// Where to listen under this name: `bind` makes a socket at the path that it is given, at which nothing is.
    /// Every user may connect to it who gets so far.
    ///
    /// # Errors
    /// Those of `bind`, and of the file system.
    pub fn bind<T>(
        &mut self,
        name: &str,
        bind: impl FnOnce(&Path) -> io::Result<T>,
    ) -> io::Result<T> {
        let path = self.directory.join(name);
        remove(&path)?;
        let bound = bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        self.sockets.push(path);
        Ok(bound)
    }

    /// From now on the directory is that of another user, whom this process is about to become.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn give_to(&self, uid: u32) -> io::Result<()> {
        chown(&self.directory, Some(uid), None)?;
        let base = self.directory.parent().ok_or(ErrorKind::InvalidInput)?;
        chown(base, Some(uid), None)
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        for socket in &self.sockets {
            let _ = remove(socket);
        }
        // Last: whoever has the lock has the directory.
        let _ = remove(&self.directory.join(LOCK));
        remove_empty(&self.directory);
    }
}

/// Takes away what daemons have left in a network namespace: those of a lab that is taken down, say.
pub fn remove_all_of(namespace: u64) {
    let bases = [Some(PathBuf::from(OF_THE_HOST)), own_base()];
    for base in bases.into_iter().flatten() {
        for directory in [format!("net-{namespace}"), format!("net-{namespace}-own")] {
            let _ = fs::remove_dir_all(base.join(directory));
        }
        let _ = fs::remove_dir(base);
    }
}

/// Takes away a directory and its base, as far as nothing is in them.
fn remove_empty(directory: &Path) {
    let _ = fs::remove_dir(directory);
    let _ = directory.parent().map(fs::remove_dir);
}

/// Takes away the directories of daemons that were killed, but for `own`: their network namespaces are gone,
/// mostly, and nobody comes back to them.
fn remove_left(base: &Path, own: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    let directories = entries.flatten().map(|entry| entry.path());
    let is_others = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        path != own && name.is_some_and(|name| name.starts_with("net-"))
    };
    for directory in directories.filter(is_others) {
        let path = directory.join(LOCK);
        let lock = OpenOptions::new().read(true).open(&path);
        let is_unlocked = |lock: &File| {
            let locked = flock(lock, FlockOperation::NonBlockingLockExclusive);
            locked.is_ok() && is_at(lock, &path)
        };
        // One that outlives its daemon for a while may listen there yet.
        let sockets = || fs::read_dir(&directory).into_iter().flatten().flatten();
        if lock.as_ref().is_ok_and(is_unlocked)
            && sockets().all(|entry| entry.file_name() == LOCK || is_left(&entry.path()))
        {
            let _ = fs::remove_dir_all(&directory);
        }
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW);
    options.open(path)
}

/// Whether an open file is the one at a path still.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Makes a directory, whatever the umask is, if it is not there.
fn make(directory: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(directory) {
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(mode)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Whether nobody listens at a path where there was a socket.
fn is_left(path: &Path) -> bool {
    let connected = UnixStream::connect(path);
    connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied
    )
}

/// Whether nobody but root, and whom root let, and this user can have made what is in a directory. What
/// is above a base of this user's is the system's affair; what is in it is nobody else's.
fn is_trusted(directory: &Path) -> bool {
    let base = directory.parent().unwrap_or(directory);
    base == Path::new(OF_THE_HOST) || is_own(base)
}

/// Whether a directory (not a link to one) is this user's, and nobody else may write there.
fn is_own(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|it| is_of_own(&it))
}

/// The same of what is known of one.
fn is_of_own(it: &Metadata) -> bool {
    it.is_dir() && it.uid() == own_uid() && it.permissions().mode() & 0o022 == 0
}

/// The directory for directories of this user.
fn own_base() -> Option<PathBuf> {
    let said = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let usual = PathBuf::from(format!("/run/user/{}", own_uid()));
    let is_usable = |path: &PathBuf| {
        let has_room = path.as_os_str().len() + "/tabane".len() + NAMES_BYTES <= PATH_BYTES_MAX;
        path.is_absolute() && has_room && is_own(path)
    };
    let mut known = said.into_iter().chain([usual]).filter(is_usable);
    let of_session = known.next().map(|path| path.join("tabane"));
    of_session.or_else(|| Some(format!("/tmp/tabane-{}", uid_outside()?).into()))
}

/// What this user is called outside of its user namespace, where others of that name are others.
fn uid_outside() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (inside, outside, count) = (
            numbers.next()?.ok()?,
            numbers.next()?.ok()?,
            numbers.next()?.ok()?,
        );
        let at = own_uid().checked_sub(inside)?;
        (at < count).then(|| outside.wrapping_add(at))
    })
}

/// The number of this network namespace (namespaces(7)).
fn own_namespace() -> Option<u64> {
    Some(fs::metadata("/proc/self/ns/net").ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A base that is gone when this is.
    struct Base(PathBuf);

    impl Base {
        fn new(name: &str) -> Base {
            let path = env::temp_dir().join(format!("tabane-{name}-{}", std::process::id()));
            make(&path, 0o700).unwrap();
            Base(path)
        }

        fn sockets(&self, namespace: u32) -> Sockets {
            Sockets::at(self.0.join(format!("net-{namespace}")))
        }
    }

    impl Drop for Base {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn reach(sockets: &Sockets) -> io::Result<UnixStream> {
        sockets.connect("run", |path| UnixStream::connect(path))
    }

    #[test]
    fn one_daemon_has_a_place_and_is_reached_there_until_it_ends() {
        let base = Base::new("lease");
        let sockets = base.sockets(7);
        assert_eq!(reach(&sockets).unwrap_err().kind(), ErrorKind::NotFound);
        let mut lease = sockets.take().unwrap();
        let listener = lease.bind("run", |path| UnixListener::bind(path)).unwrap();
        assert!(reach(&sockets).is_ok());
        assert_eq!(sockets.take().unwrap_err().kind(), ErrorKind::AddrInUse);
        drop((listener, lease));
        assert!(!base.0.join("net-7").exists());
        assert!(sockets.take().is_ok());
    }

    #[test]
    fn daemons_that_start_and_end_at_once_elsewhere_are_in_nobodys_way() {
        let base = Base::new("at-once");
        thread::scope(|scope| {
            for namespace in 0..4 {
                let sockets = base.sockets(namespace);
                scope.spawn(move || {
                    for _ in 0..500 {
                        drop(sockets.take().unwrap());
                    }
                });
            }
        });
    }

    #[test]
    fn what_a_daemon_left_that_was_killed_is_in_nobodys_way() {
        let base = Base::new("left");
        for namespace in [7, 8] {
            let mut lease = base.sockets(namespace).take().unwrap();
            drop(lease.bind("run", |path| UnixListener::bind(path)).unwrap());
            // As if it was killed: the lock is given back, and nothing is taken away.
            lease._lock = File::open("/dev/null").unwrap();
            std::mem::forget(lease);
        }
        let sockets = base.sockets(7);
        assert_eq!(reach(&sockets).unwrap_err().kind(), ErrorKind::NotFound);
        let mut lease = sockets.take().unwrap();
        let _listener = lease.bind("run", |path| UnixListener::bind(path)).unwrap();
        assert!(reach(&sockets).is_ok());
        assert!(!base.0.join("net-8").exists(), "its namespace is gone");
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_not_trusted() {
        let base = Base::new("others");
        let sockets = base.sockets(7);
        let mut lease = sockets.take().unwrap();
        let _listener = lease.bind("run", |path| UnixListener::bind(path)).unwrap();
        fs::set_permissions(&base.0, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(reach(&sockets).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(
            base.sockets(9).take().unwrap_err().kind(),
            ErrorKind::PermissionDenied
        );
    }

    #[test]
    fn a_name_without_a_daemon_is_given_up_by_who_had_it() {
        let base = Base::new("heir");
        let sockets = base.sockets(7);
        assert_eq!(
            sockets.listen("keeper").unwrap_err().kind(),
            ErrorKind::NotFound
        );
        let lease = sockets.take().unwrap();
        let first = sockets.listen("keeper").unwrap();
        assert_eq!(
            sockets.listen("keeper").unwrap_err().kind(),
            ErrorKind::AddrInUse
        );
        drop(first);
        let second = sockets.listen("keeper").unwrap();
        drop(lease);
        drop(second);
        assert!(!base.0.join("net-7").exists());
    }
}
