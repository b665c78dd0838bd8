//! A lab that is up.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, PipeWriter, Write};
use std::net::{IpAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tabane_io::netlink::{DeviceChange, Devices};
use tabane_io::process::Watched;
use tabane_io::sockets;

use crate::config::{LabConfig, LinkSpec, address};
use crate::emulator::{self, Cable, Delay, Emulation, Tree};
use crate::holder::{self, Holder, c_path};
use crate::namespace::Place;
use crate::outside::{self, Outside};
use crate::processes::{self, TOKEN_VARIABLE};
use crate::state::{self, Claim, Summary};
use crate::tools::{IP, NFT, SH, TC};
use crate::{LabError, sys, wiring};

/// How long the holder, once killed, may take to be gone.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A virtual cluster that is up.
///
/// One made by [`Lab::up`] ends when it is dropped, and also when the process
/// that made it dies; one found by [`Lab::open`] stays up.
#[derive(Debug)]
pub struct Lab {
    summary: Summary,
    nodes: Vec<Place>,
    switches: Vec<Place>,
    /// Of each link.
    delays: Vec<Delay>,
    /// Whether the emulator runs in this process, so that delays can be changed.
    emulated: bool,
    /// One per switch, made when first needed.
    devices: Vec<Mutex<Option<Devices>>>,
    pub(crate) outside: Option<Outside>,
    /// The holder; `None` once the lab is down.
    holder: Option<Watched>,
    owned: Option<Owned>,
}

/// What only the maker of a lab has.
#[derive(Debug)]
struct Owned {
    child: Child,
    lifeline: PipeWriter,
    emulator: Option<JoinHandle<()>>,
}

impl Lab {
    /// Build a lab that lives no longer than the returned value, nor than this
    /// process.
    ///
    /// # Errors
    /// The configuration is out of its limits, the name is taken, a tool is
    /// missing, or the kernel refuses; nothing is left behind then.
    pub fn up(config: &LabConfig) -> Result<Lab, LabError> {
        let (mut lab, mut claim) = build(config)?;
        if let Some(work) = lab.emulation()? {
            let ends = Watched::new(lab.summary.holder).map_err(LabError::io("pidfd_open"))?;
            let run = move || work.run(ends.as_fd());
            let thread = std::thread::Builder::new()
                .name("lab-delay".into())
                .spawn(run);
            let thread = thread.map_err(LabError::io("starting the emulator"))?;
            if let Some(owned) = &mut lab.owned {
                owned.emulator = Some(thread);
            }
            lab.emulated = true;
        }
        claim.publish(&lab.summary)?;
        Ok(lab)
    }

    /// Build a lab that stays up until [`Lab::down`], whatever becomes of this
    /// process. With delays, a process is forked for their emulator, so this
    /// is only for a process with a single thread (a command line).
    ///
    /// # Errors
    /// As [`Lab::up`].
    pub fn up_in_background(config: &LabConfig) -> Result<Lab, LabError> {
        let (mut lab, mut claim) = build(config)?;
        if let Some(work) = lab.emulation()? {
            let ends = Watched::new(lab.summary.holder).map_err(LabError::io("pidfd_open"))?;
            lab.summary.emulator = Some(emulator::run_in_background(work, ends)?);
        }
        claim.publish(&lab.summary)?;
        if let Some(mut owned) = lab.owned.take() {
            let released = owned.lifeline.write_all(b"\n");
            released.map_err(LabError::io("releasing the lab's holder"))?;
        }
        Ok(lab)
    }

    /// The lab of this name that is up already.
    ///
    /// # Errors
    /// There is none.
    pub fn open(name: &str) -> Result<Lab, LabError> {
        let Some(summary) = state::find(name)? else {
            let known = state::list()?.into_iter().map(|lab| lab.name).collect();
            return Err(LabError::NoSuchLab {
                name: name.to_string(),
                known,
            });
        };
        Lab::of(summary, None)
    }

    fn of(summary: Summary, owned: Option<Owned>) -> Result<Lab, LabError> {
        let holder = Watched::new(summary.holder).map_err(LabError::io("the lab's holder"))?;
        let user = summary.user.clone().map(c_path).transpose()?;
        let mut places = Vec::with_capacity(summary.namespaces.len());
        for (index, (path, inode)) in summary.namespaces.iter().enumerate() {
            places.push(Place {
                name: place_name(&summary, index),
                net: c_path(path.clone())?,
                inode: *inode,
                user: user.clone(),
            });
        }
        let mut switches = places.split_off(summary.nodes.min(places.len()));
        let outside = switches.split_off(summary.links.len().min(switches.len()));
        let outside = summary.outside.and_then(|spec| Outside::new(spec, outside));
        let devices = switches.iter().map(|_| Mutex::default()).collect();
        let delays = summary.links.iter();
        let delays = delays.map(|link| Delay::new(link.delay)).collect();
        Ok(Lab {
            summary,
            nodes: places,
            switches,
            delays,
            emulated: false,
            devices,
            outside,
            holder: Some(holder),
            owned,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.summary.name
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// How many links it has.
    pub fn links(&self) -> usize {
        self.switches.len()
    }

    /// What `lab list` shows of it.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The address of a node's NIC on a link.
    pub fn address(&self, node: usize, link: usize) -> IpAddr {
        address(node, link)
    }

    /// A command that runs on a node: it sees that node's NICs, `/sys` and host
    /// name, and nothing else of it differs (files, process ids). The process
    /// spawned is the program itself, to be signalled and waited for as any.
    ///
    /// For a node the lab does not have, spawning fails with `ENODEV`.
    pub fn command(&self, node: usize, program: impl AsRef<OsStr>) -> Command {
        self.command_in(self.nodes.get(node), &format!("n{node}"), program)
    }

    pub(crate) fn command_in(
        &self,
        place: Option<&Place>,
        name: &str,
        program: impl AsRef<OsStr>,
    ) -> Command {
        let mut command = match place {
            Some(place) => place.machine_command(program),
            None => crate::namespace::nowhere(program),
        };
        command.env(TOKEN_VARIABLE, &self.summary.token);
        command
            .env("TABANE_LAB", self.name())
            .env("TABANE_LAB_NODE", name);
        command
    }

    /// Has `ip` change something of a node.
    ///
    /// # Errors
    /// There is no such node, or `ip` is missing or refuses; what it said is in the message.
    pub fn ip(&self, node: usize, arguments: &[&str]) -> Result<(), LabError> {
        self.check_node(node)?;
        IP.ask(self.node(node), arguments).map(drop)
    }

    /// A TCP connection that is made on a node and used from here. No call on it waits longer
    /// than `at_most`; `waiting` is asked whenever connecting has waited as long, and ends it
    /// by an error.
    ///
    /// # Errors
    /// There is no such node, nobody listens, or that of `waiting`.
    pub fn connect(
        &self,
        node: usize,
        to: SocketAddrV4,
        at_most: Duration,
        mut waiting: impl FnMut() -> io::Result<()>,
    ) -> io::Result<TcpStream> {
        let place = self.nodes.get(node).ok_or(io::ErrorKind::NotFound)?;
        let sockets = place.sockets(&[(libc::AF_INET, libc::SOCK_STREAM, 0)])?;
        let socket = sockets.into_iter().next().ok_or(io::ErrorKind::NotFound)?;
        sys::set_timeouts(socket.as_fd(), at_most)?;
        while !sys::connect(socket.as_fd(), to)? {
            waiting()?;
        }
        Ok(socket.into())
    }

    /// End the lab and every program in it. A second time does nothing.
    ///
    /// # Errors
    /// The holder would not die, or its traces cannot be removed.
    pub fn down(mut self) -> Result<(), LabError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), LabError> {
        let Some(holder) = self.holder.take() else {
            return Ok(());
        };
        let inodes: Vec<u64> = self
            .nodes
            .iter()
            .chain(&self.switches)
            .chain(self.outside.iter().flat_map(Outside::places))
            .map(|place| place.inode)
            .collect();
        let holder_pid = self.summary.holder;
        // Some have left for namespaces of their own.
        let mut programs = processes::marked(&self.summary.token);
        let inside = processes::inside(&inodes);
        // Without the holder the namespaces' numbers may be those of another lab by now.
        let is_there = !holder.ends_within(Duration::ZERO);
        if is_there {
            programs.extend(inside);
        }
        programs.retain(|&pid| pid != holder_pid);
        processes::end(&programs);
        if is_there {
            // What daemons left that had to be killed.
            inodes.into_iter().for_each(sockets::remove_all_of);
        }
        // Their sockets would keep the namespaces.
        self.devices.clear();
        self.outside = None;
        let emulator = self.summary.emulator.and_then(|pid| Watched::new(pid).ok());
        let _ = holder.signal(libc::SIGKILL);
        if let Some(mut owned) = self.owned.take() {
            drop(owned.lifeline);
            owned
                .child
                .wait()
                .map_err(LabError::io("waiting for the lab's holder"))?;
            let _ = owned.emulator.map(JoinHandle::join);
        }
        let gone = |process: &Watched| process.ends_within(END_TIMEOUT);
        if !gone(&holder) || !emulator.as_ref().is_none_or(gone) {
            return Err(LabError::Io {
                what: format!("ending lab {:?}", self.name()),
                source: std::io::ErrorKind::TimedOut.into(),
            });
        }
        state::forget(self.name())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned.is_some() {
            let _ = self.end();
        }
    }
}

/// For the rest of the crate.
impl Lab {
    pub(crate) fn check_node(&self, node: usize) -> Result<(), LabError> {
        let known = node < self.nodes();
        known.then_some(()).ok_or_else(|| LabError::NoSuchNode {
            node: format!("n{node}"),
            nodes: self.nodes(),
        })
    }

    pub(crate) fn check_link(&self, link: usize) -> Result<(), LabError> {
        let known = link < self.links();
        known.then_some(()).ok_or_else(|| LabError::NoSuchLink {
            link: link.to_string(),
            links: self.links(),
        })
    }

    pub(crate) fn mtu(&self) -> u32 {
        self.summary.mtu
    }

    pub(crate) fn link(&self, link: usize) -> &LinkSpec {
        &self.summary.links[link]
    }

    pub(crate) fn node(&self, node: usize) -> &Place {
        &self.nodes[node]
    }

    pub(crate) fn all_nodes(&self) -> &[Place] {
        &self.nodes
    }

    pub(crate) fn switch(&self, link: usize) -> &Place {
        &self.switches[link]
    }

    pub(crate) fn has_emulator(&self, link: usize) -> bool {
        self.emulated && !self.link(link).delay.is_zero()
    }

    /// Let frames of a link take so much longer than it was made with.
    pub(crate) fn delay_more(&self, link: usize, added: Duration) -> Result<(), LabError> {
        if !self.has_emulator(link) {
            let why = format!(
                "the delay of link {link} cannot be changed: it was made without one, \
                 or by another process"
            );
            return Err(LabError::BadInput(why));
        }
        self.delays[link].set(self.link(link).delay + added);
        Ok(())
    }

    /// Change devices of a switch, in order; all are tried, the first error is returned.
    pub(crate) fn change(
        &self,
        link: usize,
        changes: &[(String, DeviceChange)],
    ) -> Result<(), LabError> {
        change_devices(&self.switches[link], &self.devices[link], changes)
    }

    /// What there is for the emulator to do, if anything.
    fn emulation(&self) -> Result<Option<Emulation>, LabError> {
        let work = Emulation {
            cables: self.cables()?,
            line: self
                .outside
                .as_ref()
                .map_or_else(|| Ok(Vec::new()), Outside::cables)?,
            trees: match self.is_tree() {
                true => self.trees()?,
                false => Vec::new(),
            },
        };
        Ok((!work.is_nothing()).then_some(work))
    }

    /// Whether links have several switches, all of them emulated.
    pub(crate) fn is_tree(&self) -> bool {
        !self.summary.tree.is_empty()
    }

    fn trees(&self) -> Result<Vec<Tree>, LabError> {
        let one = |(link, switch)| {
            // The configuration was checked: there is a rate.
            let bits_per_s = self.link(link).rate_bits_per_s.unwrap_or(u64::MAX);
            Tree::new(switch, link, &self.summary.tree, bits_per_s).map_err(LabError::io(format!(
                "emulating the switches of link {link}"
            )))
        };
        self.switches.iter().enumerate().map(one).collect()
    }

    /// The cables that have a delay.
    fn cables(&self) -> Result<Vec<Cable>, LabError> {
        let mut cables = Vec::new();
        for (link, spec) in self
            .summary
            .links
            .iter()
            .enumerate()
            .filter(|(_, spec)| !spec.delay.is_zero())
        {
            for node in 0..self.nodes() {
                let (switch, delay) = (&self.switches[link], &self.delays[link]);
                let input = wiring::emulator_input(node);
                let output = wiring::emulator_output(node);
                let cable = Cable::new(switch, &input, &output, delay, spec.rate_bits_per_s);
                cables.push(
                    cable.map_err(LabError::io(format!("emulating the delay of link {link}")))?,
                );
            }
        }
        Ok(cables)
    }
}

/// Everything but the emulator; the claim must be dropped before the lab is.
fn build(config: &LabConfig) -> Result<(Lab, Claim), LabError> {
    config.check()?;
    for tool in [IP, TC, NFT] {
        tool.find()?;
    }
    let name = config.name.clone().unwrap_or_else(unique_name);
    let claim = state::claim(&name)?;
    let outside = config.outside.map_or(0, |_| outside::PLACES);
    let count = config.nodes + config.links.len() + outside;
    let token = token();
    let Holder {
        child,
        lifeline,
        namespaces,
        user,
    } = match holder::spawn(&name, &token, count, &claim.file) {
        Ok(holder) => holder,
        Err(error) => {
            claim.give_up();
            return Err(error);
        }
    };
    let text = |path: std::ffi::CString| path.to_string_lossy().into_owned();
    let summary = Summary {
        name,
        nodes: config.nodes,
        links: config.links.clone(),
        mtu: config.mtu,
        tree: config.tree.clone(),
        outside: config.outside,
        holder: child.id(),
        emulator: None,
        token,
        namespaces: namespaces
            .into_iter()
            .map(|(path, inode)| (text(path), inode))
            .collect(),
        user: user.map(text),
    };
    // From here on the drop of `lab` undoes everything.
    let lab = Lab::of(
        summary,
        Some(Owned {
            child,
            lifeline,
            emulator: None,
        }),
    )?;
    match wire(&lab, config) {
        Ok(()) => Ok((lab, claim)),
        Err(error) => {
            drop(claim);
            Err(error)
        }
    }
}

fn wire(lab: &Lab, config: &LabConfig) -> Result<(), LabError> {
    let node_paths: Vec<String> = lab
        .nodes
        .iter()
        .map(|node| node.net.to_string_lossy().into_owned())
        .collect();
    for (link, switch) in lab.switches.iter().enumerate() {
        let spec = &config.links[link];
        SH.run(switch, wiring::NO_FIREWALL)?;
        IP.run(switch, &wiring::switch_links(config, link, &node_paths))?;
        if !lab.is_tree() {
            TC.run(switch, &lab.port_shapers(link))?;
        }
        NFT.run(switch, &wiring::switch_rules(spec, config.nodes))?;
        lab.change(link, &[])?;
    }
    for (node, place) in lab.nodes.iter().enumerate() {
        IP.run(place, &wiring::node_links(config.links.len(), node))?;
        // The emulator's switches know frames only.
        let pieces = |link| match lab.is_tree() {
            true => wiring::Pieces::Frames(config.mtu),
            false => wiring::usual_pieces(lab.link(link), config.mtu),
        };
        let one = |link| lab.nic_shaper(link, pieces(link));
        TC.run(place, &(0..config.links.len()).map(one).collect::<String>())?;
    }
    lab.wire_outside()
}

/// What messages call the namespace with this index of a lab's.
fn place_name(lab: &Summary, index: usize) -> String {
    let before_outside = lab.nodes + lab.links.len();
    match index {
        node if node < lab.nodes => format!("n{node}"),
        switch if switch < before_outside => format!("switch {}", switch - lab.nodes),
        place => outside::place_name(place - before_outside),
    }
}

/// Change devices of a switch, in order; all are tried, the first error is returned. `devices` is made if it is not there.
pub(crate) fn change_devices(
    switch: &Place,
    devices: &Mutex<Option<Devices>>,
    changes: &[(String, DeviceChange)],
) -> Result<(), LabError> {
    let what = || LabError::io(format!("changing {}", switch.name));
    // A panic while it was held leaves a socket that is as good as before.
    let mut devices = devices.lock().unwrap_or_else(|poison| poison.into_inner());
    let devices = match &mut *devices {
        Some(devices) => devices,
        none => none.insert(switch.devices().map_err(what())?),
    };
    let tried = changes
        .iter()
        .map(|(device, change)| devices.change(device, *change));
    // All of them, also after an error.
    tried.fold(Ok(()), io::Result::and).map_err(what())
}

/// Two labs of one process, or of two, never share it.
fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(
        "lab-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Process ids come again, boots do not, nor does the clock.
fn token() -> String {
    let maker = std::process::id();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{maker}-{}-{}", sys::monotonic_ns(), boot.trim())
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// The kernel gives a namespace's number to the next one as soon as it is free.
    #[test]
    fn a_lab_that_is_gone_ends_no_programs_of_the_lab_that_got_its_namespaces_numbers() {
        let lab = Lab::up(&LabConfig::default()).expect("up");
        let mut program = lab.command(0, "cat");
        let mut program = program.stdin(Stdio::piped()).spawn().expect("starts");
        let mut holder = Command::new("true").spawn().expect("starts");
        let ended = Watched::new(holder.id()).expect("is known until it is waited for");
        assert!(ended.ends_within(END_TIMEOUT));

        let gone = Summary {
            name: unique_name(),
            holder: holder.id(),
            token: token(),
            ..lab.summary.clone()
        };
        let gone = Lab::of(gone, None).expect("opens");
        gone.down().expect("is no error");
        holder.wait().expect("has ended");

        // It would have ended by a signal.
        drop(program.stdin.take());
        assert!(program.wait().expect("ends").success());
    }
}
