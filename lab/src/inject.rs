//! Putting faults in force and undoing them.

use std::time::Duration;

use crate::LabError;
use crate::fault::Fault;
use crate::lab::Lab;
use crate::namespace::Place;
use crate::sys::monotonic_ns;
use crate::tools::{IP, NFT, TC};
use crate::wiring::{
    self, BRIDGE_INDEX, ETHERNET_HEADER_BYTES, FORWARD, Held, Pieces, cable_end, nic, port, shaper,
    shaper_holding,
};
use tabane_io::netlink::DeviceChange;

/// When a fault, or its healing, took effect: somewhere between these two
/// instants of `CLOCK_MONOTONIC` ([`crate::monotonic_ns`]), nanoseconds.
/// `Silent` and `Carrier` take well under a millisecond per port, the others
/// the few milliseconds of starting `nft` or `tc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injection {
    /// Before it was asked of the kernel.
    pub begun_ns: u64,
    /// After the kernel said it was done.
    pub done_ns: u64,
}

impl Injection {
    pub(crate) fn of(act: impl FnOnce() -> Result<(), LabError>) -> Result<Injection, LabError> {
        let begun_ns = monotonic_ns();
        act()?;
        Ok(Injection {
            begun_ns,
            done_ns: monotonic_ns(),
        })
    }
}

impl Lab {
    /// Break a link for every node, or for one (see [`Fault`] for what each
    /// mode means then). Faults add up until [`Lab::heal`].
    ///
    /// # Errors
    /// No such link or node, a fault out of its limits; the kernel or a tool
    /// refused.
    pub fn fail(
        &self,
        link: usize,
        fault: Fault,
        node: Option<usize>,
    ) -> Result<Injection, LabError> {
        self.check_link(link)?;
        self.check_is_no_tree()?;
        fault.check().map_err(LabError::BadInput)?;
        if let Some(node) = node {
            self.check_node(node)?;
        }
        Injection::of(|| match fault {
            Fault::Silent => self.change_ports(link, node, DeviceChange::Master(0)),
            Fault::Carrier => {
                let nodes = self
                    .chosen(node)
                    .map(|node| (self.cable_end(node, link), DeviceChange::Up(false)));
                self.change(link, &nodes.collect::<Vec<_>>())
            }
            Fault::OneWay => {
                let from = port(node.unwrap_or(0));
                self.drop_in_switch(link, &[format!("iifname \"{from}\" drop")])
            }
            Fault::Loss { percent } => self.lose(link, percent, node),
            Fault::Mtu { bytes } => {
                let rate = self.link(link).rate_bits_per_s;
                let one = |port: &str| shaper(rate, self.mtu(), Pieces::Frames(bytes), port);
                self.shape_ports(link, node, one)
            }
            Fault::Rate { bits_per_s } => {
                let one = |port: &str| shaper(Some(bits_per_s), self.mtu(), Pieces::Whole, port);
                self.shape_ports(link, node, one)
            }
            Fault::Buffer { bytes } => {
                let rate = self.link(link).rate_bits_per_s;
                let held = Held::Bytes(bytes.max(ETHERNET_HEADER_BYTES + self.mtu()));
                // Frame by frame, or the buffer would be too small for any offloaded packet.
                let pieces = Pieces::Frames(self.mtu());
                let one = |port: &str| shaper_holding(rate, self.mtu(), pieces, held, port);
                self.shape_ports(link, node, one)
            }
            Fault::Delay { added } => self.delay_more(link, added),
        })
    }

    /// Undo every fault of a link. `Silent` and `Carrier` are over within a
    /// millisecond of `begun_ns`, the others by `done_ns`.
    ///
    /// # Errors
    /// No such link; the kernel or a tool refused.
    pub fn heal(&self, link: usize) -> Result<Injection, LabError> {
        self.check_link(link)?;
        self.check_is_no_tree()?;
        Injection::of(|| {
            // The quick ones first, so that they are over right after `begun_ns`.
            let up = |node| (self.cable_end(node, link), DeviceChange::Up(true));
            let back = |node| (port(node), DeviceChange::Master(BRIDGE_INDEX));
            let changes: Vec<_> = self
                .chosen(None)
                .flat_map(|node| [back(node), up(node)])
                .collect();
            self.change(link, &changes)?;
            if self.has_emulator(link) {
                self.delay_more(link, Duration::ZERO)?;
            }
            drop_nothing_in(self.switch(link))?;
            TC.run(self.switch(link), &self.port_shapers(link))?;
            let pieces = wiring::usual_pieces(self.link(link), self.mtu());
            self.chosen(None)
                .try_for_each(|node| TC.run(self.node(node), &self.nic_shaper(link, pieces)))
        })
    }
}

/// Have a switch drop what matches these rules, beside what it drops already.
pub(crate) fn drop_in(switch: &Place, rules: &[String]) -> Result<(), LabError> {
    let rules = rules.join("; ");
    NFT.run(
        switch,
        &format!("table bridge fault {{ chain c {{ {FORWARD} {rules}; }}\n}}\n"),
    )
}

/// Undo every [`drop_in`] of a switch.
pub(crate) fn drop_nothing_in(switch: &Place) -> Result<(), LabError> {
    NFT.run(switch, "table bridge fault\ndelete table bridge fault\n")
}

/// Taking a cable away and laying it anew.
impl Lab {
    /// Remove a node's NIC on a link, with its cable and its switch port: a USB
    /// adapter drawn. Not on a link with a delay.
    ///
    /// # Errors
    /// No such link or node, the link has a delay; the kernel refused.
    pub fn unplug(&self, link: usize, node: usize) -> Result<Injection, LabError> {
        self.check_cable(link, node)?;
        Injection::of(|| IP.run(self.switch(link), &format!("link del {}\n", port(node))))
    }

    /// Make a NIC that was removed anew, as it was.
    ///
    /// # Errors
    /// As [`Lab::unplug`].
    pub fn plug(&self, link: usize, node: usize) -> Result<Injection, LabError> {
        self.check_cable(link, node)?;
        let path = self.node(node).net.to_string_lossy();
        let cable = wiring::cable(self.link(link), self.mtu(), link, node, &path);
        Injection::of(|| {
            IP.run(self.switch(link), &cable)?;
            IP.run(self.node(node), &wiring::node_link(link, node))?;
            TC.run(self.switch(link), &self.port_shapers(link))?;
            let pieces = wiring::usual_pieces(self.link(link), self.mtu());
            TC.run(self.node(node), &self.nic_shaper(link, pieces))
        })
    }

    fn check_is_no_tree(&self) -> Result<(), LabError> {
        match self.is_tree() {
            true => Err(LabError::BadInput(
                "links with a tree of switches do not fail".into(),
            )),
            false => Ok(()),
        }
    }

    fn check_cable(&self, link: usize, node: usize) -> Result<(), LabError> {
        self.check_link(link)?;
        self.check_node(node)?;
        self.check_is_no_tree()?;
        if !self.link(link).delay.is_zero() {
            let why = format!("link {link} has a delay; its cables stay where they are");
            return Err(LabError::BadInput(why));
        }
        Ok(())
    }
}

impl Lab {
    /// Join the switches of two links by a cable, for good: a mistake in the
    /// wiring that makes one network of both.
    ///
    /// # Errors
    /// No such link; the kernel or a tool refused.
    pub fn join(&self, a: usize, b: usize) -> Result<(), LabError> {
        self.check_link(a)?;
        self.check_link(b)?;
        let (here, there) = (format!("j{b}"), format!("j{a}"));
        let place = self.switch(b).net.to_string_lossy();
        let mtu = self.mtu();
        let made = format!(
            "link add name {here} mtu {mtu} type veth peer name {there} mtu {mtu} netns {place}\n"
        );
        IP.run(self.switch(a), &(made + &wiring::plugged(&here)))?;
        IP.run(self.switch(b), &wiring::plugged(&there))
    }
}

/// The steps.
impl Lab {
    fn shape_ports(
        &self,
        link: usize,
        node: Option<usize>,
        one: impl Fn(&str) -> String,
    ) -> Result<(), LabError> {
        let orders: String = self.chosen(node).map(|node| one(&port(node))).collect();
        TC.run(self.switch(link), &orders)
    }

    fn chosen(&self, node: Option<usize>) -> impl Iterator<Item = usize> {
        let all = 0..self.nodes();
        node.map_or(all, |node| node..node + 1)
    }

    fn cable_end(&self, node: usize, link: usize) -> String {
        cable_end(node, self.link(link))
    }

    fn change_ports(
        &self,
        link: usize,
        node: Option<usize>,
        change: DeviceChange,
    ) -> Result<(), LabError> {
        let changes: Vec<_> = self.chosen(node).map(|node| (port(node), change)).collect();
        self.change(link, &changes)
    }

    fn drop_in_switch(&self, link: usize, rules: &[String]) -> Result<(), LabError> {
        drop_in(self.switch(link), rules)
    }

    /// Senders must send frame by frame first, or one loss would take all of
    /// a segmentation-offloaded packet.
    fn lose(&self, link: usize, percent: f64, node: Option<usize>) -> Result<(), LabError> {
        for node in self.chosen(None) {
            TC.run(
                self.node(node),
                &self.nic_shaper(link, Pieces::Frames(self.mtu())),
            )?;
        }
        let lost = wiring::lose(percent);
        match node.map(port) {
            None => self.drop_in_switch(link, &[lost]),
            Some(port) => self.drop_in_switch(
                link,
                &[
                    format!("iifname \"{port}\" {lost}"),
                    format!("oifname \"{port}\" {lost}"),
                ],
            ),
        }
    }

    pub(crate) fn nic_shaper(&self, link: usize, pieces: Pieces) -> String {
        shaper(
            self.link(link).rate_bits_per_s,
            self.mtu(),
            pieces,
            &nic(link),
        )
    }

    pub(crate) fn port_shapers(&self, link: usize) -> String {
        let rate = self.link(link).rate_bits_per_s;
        self.chosen(None)
            .map(|node| shaper(rate, self.mtu(), Pieces::Whole, &port(node)))
            .collect()
    }
}
