//! Programs on a lab's nodes that must not outlive whoever started them.

use std::fs;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tabane_io::process::Watched;

use crate::{LabError, sys};

/// Longer than anything a program is waited for takes; it only ends a hang.
pub const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
}

impl Program {
    /// Start a command, which is called `name` in messages. Its input is empty
    /// unless the command says otherwise.
    ///
    /// # Errors
    /// It cannot be started; if it is not there, the Debian package that has
    /// it is named.
    pub fn start(name: &str, mut command: Command) -> Result<Program, LabError> {
        // What it starts is to end with it.
        command.process_group(0);
        match command.spawn() {
            Ok(child) => Ok(Program {
                name: name.to_owned(),
                child,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(name, error)),
            Err(error) => Err(LabError::io(format!("starting {name}"))(error)),
        }
    }

    /// Start a command whose output nobody wants to see.
    ///
    /// # Errors
    /// As [`Program::start`].
    pub fn start_quiet(name: &str, mut command: Command) -> Result<Program, LabError> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Program::start(name, command)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its input, if the command asked for a pipe.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its output, if the command asked for a pipe.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// The system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, LabError> {
        self.child
            .try_wait()
            .map_err(LabError::io(format!("waiting for {}", self.name)))
    }

    /// Ask it to end (SIGTERM).
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn terminate(&self) -> Result<(), LabError> {
        self.signal(libc::SIGTERM)
    }

    /// Have it stand still, until [`Program::go_on`].
    ///
    /// # Errors
    /// As [`Program::signal`].
    pub fn pause(&self) -> Result<(), LabError> {
        self.signal(libc::SIGSTOP)
    }

    /// The end of [`Program::pause`].
    ///
    /// # Errors
    /// As [`Program::signal`].
    pub fn go_on(&self) -> Result<(), LabError> {
        self.signal(libc::SIGCONT)
    }

    /// Limit how many descriptors it may have; what it has already it keeps. Returns the limit there was.
    ///
    /// # Errors
    /// It has ended, or may have no more than fewer.
    pub fn limit_descriptors(&self, count: u64) -> Result<u64, LabError> {
        let limited = sys::limit_descriptors(self.id(), count);
        limited.map_err(LabError::io(format!(
            "limiting descriptors of {}",
            self.name
        )))
    }

    /// Send it a signal.
    ///
    /// # Errors
    /// The kernel refuses. One that has ended already is no error.
    pub fn signal(&self, signal: i32) -> Result<(), LabError> {
        let sent = Watched::new(self.id()).and_then(|process| process.signal(signal));
        match sent {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                Err(LabError::io(format!("signalling {}", self.name))(error))
            }
            _ => Ok(()),
        }
    }

    /// Kill it and what it started, as far as that has not left its process group, and wait
    /// until it is gone.
    pub fn kill(&mut self) {
        // Once it was waited for, its number may be another's.
        if matches!(self.child.try_wait(), Ok(None)) {
            // Nothing can be done about one that will not be killed.
            let _ = sys::kill_group(self.id());
            let _ = self.child.wait();
        }
    }

    /// Wait for its end.
    ///
    /// # Errors
    /// It has not ended within `at_most` and was killed.
    pub fn wait(&mut self, at_most: Duration) -> Result<ExitStatus, LabError> {
        let until = Instant::now() + at_most;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() > until {
                self.kill();
                return Err(hung(&self.name, at_most));
            }
            thread::sleep(POLL);
        }
    }

    /// Wait for its end and return what it wrote to those of its outputs that
    /// are pipes.
    ///
    /// # Errors
    /// As [`Program::wait`].
    pub fn output(mut self, at_most: Duration) -> Result<Output, LabError> {
        fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
            thread::spawn(move || {
                let mut all = Vec::new();
                // What was read before an error is what there is.
                let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut all));
                all
            })
        }
        let stdout = drain(self.child.stdout.take());
        let stderr = drain(self.child.stderr.take());
        let status = self.wait(at_most)?;
        let all = |reader: thread::JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
        Ok(Output {
            status,
            stdout: all(stdout),
            stderr: all(stderr),
        })
    }

    /// Wait until something in its network namespace listens on this TCP port.
    ///
    /// # Errors
    /// It ended first, or does not listen within [`PATIENCE`].
    pub fn listens(&mut self, port: u16) -> Result<(), LabError> {
        let until = Instant::now() + PATIENCE;
        while !is_listening(self.id(), port) {
            if let Some(status) = self.ended()? {
                let why = format!("it ended ({status}) before it listened on port {port}");
                return Err(LabError::io(self.name.clone())(io::Error::other(why)));
            }
            if Instant::now() > until {
                self.kill();
                return Err(hung(&self.name, PATIENCE));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Bytes it has read so far, from files, sockets and all.
    ///
    /// # Errors
    /// The kernel does not count (CONFIG_TASK_IO_ACCOUNTING).
    pub fn read_bytes(&self) -> Result<u64, LabError> {
        let path = format!("/proc/{}/io", self.id());
        let text = fs::read_to_string(&path).map_err(LabError::io(path.clone()))?;
        let count = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        count
            .and_then(|n| n.trim().parse().ok())
            .ok_or(LabError::MissingFeature {
                what: path,
                feature: "CONFIG_TASK_XACCT and CONFIG_TASK_IO_ACCOUNTING",
            })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Run a command to its end and return what it wrote.
///
/// # Errors
/// It cannot be started, or runs longer than `at_most`.
pub fn output(name: &str, mut command: Command, at_most: Duration) -> Result<Output, LabError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Program::start(name, command)?.output(at_most)
}

fn hung(name: &str, at_most: Duration) -> LabError {
    let why = format!("no end after {} s", at_most.as_secs());
    LabError::io(name)(io::Error::new(io::ErrorKind::TimedOut, why))
}

fn missing(name: &str, error: io::Error) -> LabError {
    let package = |tool, package| LabError::MissingTool { tool, package };
    match name {
        "iperf3" => package("iperf3", "iperf3"),
        "ping" => package("ping", "iputils-ping"),
        "ip" => package("ip", "iproute2"),
        "socat" => package("socat", "socat"),
        "curl" => package("curl", "curl"),
        "nginx" => package("nginx", "nginx-light"),
        "redis-server" => package("redis-server", "redis-server"),
        "rsync" => package("rsync", "rsync"),
        "ssh-keygen" => package("ssh-keygen", "openssh-client"),
        "redis-benchmark" => package("redis-benchmark", "redis-tools"),
        _ => LabError::io(format!("starting {name}"))(error),
    }
}

/// From the tables of the process's own network namespace.
fn is_listening(pid: u32, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let wanted = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|table| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        text.lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().unwrap_or_default();
            local.ends_with(&wanted) && words.nth(1) == Some(LISTEN)
        })
    })
}

/// `ADDRESS:PORT`, as programs take it.
pub fn socket_address(address: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}
