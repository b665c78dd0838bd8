//! Telling systemd how the service is (sd_notify(3), the protocol by hand).

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// A notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State<'a> {
    /// Start-up is finished.
    Ready,
    /// The configuration is being read anew; [`State::Ready`] follows. With the
    /// time of the monotonic clock, which tells the manager which reload it is.
    Reloading {
        /// Microseconds of CLOCK_MONOTONIC.
        monotonic_us: u64,
    },
    /// Shutting down has begun.
    Stopping,
    /// Alive; due at least as often as [`watchdog_interval`] says.
    Watchdog,
    /// One line on how things are, for `systemctl status`.
    Status(&'a str),
}

/// The way to the service manager.
#[derive(Debug)]
pub struct Notifier {
    socket: UnixDatagram,
    manager: SocketAddr,
}

impl Notifier {
    /// The channel to the service manager that `NOTIFY_SOCKET` names; `None` if there
    /// is none, that is, outside of systemd.
    ///
    /// # Errors
    /// `InvalidInput` when the variable is not an address of a unix socket.
    pub fn from_environment() -> io::Result<Option<Notifier>> {
        match env::var_os("NOTIFY_SOCKET") {
            None => Ok(None),
            Some(address) => Notifier::to(&address).map(Some),
        }
    }

    /// The way to the socket `address`: a path, or `@` and an abstract name.
    ///
    /// # Errors
    /// `InvalidInput` for anything else.
    pub fn to(address: &OsStr) -> io::Result<Notifier> {
        let manager = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(address)?,
            _ => {
                let message = format!(
                    "NOTIFY_SOCKET is `{}`; it must begin with `/` or `@`",
                    address.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Notifier { socket, manager })
    }

    /// Notifies the service manager.
    ///
    /// # Errors
    /// It does not listen, or its queue is full. The service is well nevertheless, so
    /// the caller at most logs it.
    pub fn notify(&self, state: State<'_>) -> io::Result<()> {
        let message = match state {
            State::Ready => "READY=1".to_owned(),
            State::Reloading { monotonic_us } => {
                format!("RELOADING=1\nMONOTONIC_USEC={monotonic_us}")
            }
            State::Stopping => "STOPPING=1".to_owned(),
            State::Watchdog => "WATCHDOG=1".to_owned(),
            // A line break would begin another assignment.
            State::Status(text) => format!("STATUS={}", text.replace(['\n', '\r', '\0'], " ")),
        };
        self.socket
            .send_to_addr(message.as_bytes(), &self.manager)
            .map(drop)
    }
}

/// The least frequency of [`State::Watchdog`]: half of the interval in `WATCHDOG_USEC`,
/// as sd_watchdog_enabled(3) advises. `None` if nobody watches this process.
#[must_use]
pub fn watchdog_interval() -> Option<Duration> {
    let usec = env::var("WATCHDOG_USEC").ok()?;
    let pid = env::var("WATCHDOG_PID").ok();
    interval(&usec, pid.as_deref(), std::process::id())
}

fn interval(usec: &str, pid: Option<&str>, own_pid: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid != own_pid.to_string()) {
        return None;
    }
    let usec = usec.parse().ok().filter(|&usec: &u64| usec > 0)?;
    Some(Duration::from_micros(usec) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(manager: &UnixDatagram, address: &OsStr) {
        let notifier = Notifier::to(address).unwrap();
        let states = [
            (State::Ready, "READY=1"),
            (State::Status("2 peers\nREADY=1"), "STATUS=2 peers READY=1"),
            (
                State::Reloading { monotonic_us: 17 },
                "RELOADING=1\nMONOTONIC_USEC=17",
            ),
            (State::Watchdog, "WATCHDOG=1"),
            (State::Stopping, "STOPPING=1"),
        ];
        for (state, wanted) in states {
            notifier.notify(state).unwrap();
            let mut buffer = [0; 100];
            let length = manager.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], wanted.as_bytes());
        }
    }

    #[test]
    fn a_manager_at_a_path_or_an_abstract_name_is_told() {
        let name = format!("tabane-io-notify-{}", std::process::id());
        let path = env::temp_dir().join(&name);
        let at_path = UnixDatagram::bind(&path).unwrap();
        told(&at_path, path.as_os_str());
        std::fs::remove_file(&path).unwrap();
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let abstract_manager = UnixDatagram::bind_addr(&abstract_name).unwrap();
        told(&abstract_manager, OsStr::new(&format!("@{name}")));
        drop(abstract_manager);
        let notifier = Notifier::to(OsStr::new(&format!("@{name}"))).unwrap();
        assert!(notifier.notify(State::Ready).is_err());
    }

    #[test]
    fn an_address_of_another_kind_is_named_in_the_error() {
        let error = Notifier::to(OsStr::new("vsock:2:1234")).unwrap_err();
        assert!(error.to_string().contains("`vsock:2:1234`"), "{error}");
    }

    #[test]
    fn the_watchdog_is_fed_twice_as_often_as_it_wants_and_only_by_whom_it_watches() {
        assert_eq!(
            interval("3000000", None, 1),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            interval("3000000", Some("1"), 1),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(interval("3000000", Some("2"), 1), None);
        assert_eq!(interval("0", None, 1), None);
        assert_eq!(interval("soon", None, 1), None);
    }
}
