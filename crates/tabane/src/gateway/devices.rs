//! What the outside address needs from a node's machine: the line outside, the machine's own kernel, and the programs' ways.
//!
//! Everything that the gateway does to a machine goes through these traits, each as small as its system call. So a simulation
//! can supply a machine in virtual time, and run everything else as it is.

use core::fmt::Debug;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;

use tabane_io::outside::{
    Addresses, Heard, HeldPort, Inlet, Outside, Tun, keep_silent, speak_again,
};
use tabane_io::poll::{Interest, Poller};

use super::serving::Site;
use crate::closing::Lent;

/// A machine on which a gateway may serve.
pub trait Devices: Debug {
    /// Makes the machine's kernel ignore everything for the outside addresses, until it may speak again.
    ///
    /// # Errors
    /// The kernel cannot do that.
    fn keep_silent(&self, site: &Site) -> io::Result<()>;

    /// The kernel may answer again.
    fn speak_again(&self);

    /// Opens the device outside, for packets to the outside addresses.
    ///
    /// # Errors
    /// There is no such device, or the daemon may not.
    fn line(&self, site: &Site) -> io::Result<Box<dyn Line>>;

    /// Opens the way by which the machine's kernel gets its own packets.
    ///
    /// # Errors
    /// The daemon may not make it.
    fn kernel(&self) -> io::Result<Box<dyn Kernel>>;

    /// Gives the device outside its addresses, for as long as the returned value exists.
    ///
    /// # Errors
    /// There is no such device, or the daemon may not.
    fn addresses(&self, site: &Site) -> io::Result<Box<dyn Held>>;

    /// Takes a TCP port, or else a UDP port, for as long as the returned value exists; number 0 means any free one. Also returns
    /// the number.
    ///
    /// # Errors
    /// `AddrInUse`: a program of the machine has it. Or no socket can be made.
    fn port(&self, is_tcp: bool, address: SocketAddr) -> io::Result<(u16, Box<dyn Held>)>;
}

/// The device outside, as [`Outside`] has it.
pub trait Line: Debug {
    /// As [`Outside::read`].
    ///
    /// # Errors
    /// The device was switched off or removed.
    fn read(&self, packet: &mut Vec<u8>) -> io::Result<Option<Heard>>;

    /// As [`Outside::write`].
    ///
    /// # Errors
    /// It was not sent and need not be tried again.
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<bool>;

    /// As [`Outside::queued_bytes`].
    fn queued_bytes(&self) -> usize;

    /// As [`Outside::set_queue_bytes`].
    ///
    /// # Errors
    /// It is as it was.
    fn set_queue_bytes(&mut self, bytes: usize) -> io::Result<()>;

    /// As [`Outside::dropped`].
    fn dropped(&mut self) -> u64;

    /// From now on the loop is woken when something can be read.
    ///
    /// # Errors
    /// It cannot be waited for.
    fn watch(&mut self) -> io::Result<()>;

    /// Whether the loop is woken when there is room to write.
    ///
    /// # Errors
    /// It is as it was.
    fn wait_for_room(&self, waits: bool) -> io::Result<()>;
}

/// The machine's own kernel.
pub trait Kernel: Debug {
    /// As [`Inlet::give`].
    ///
    /// # Errors
    /// It was not delivered.
    fn give(&self, packet: &[u8]) -> io::Result<()>;
}

/// The way outside of the programs of a place, as [`Tun`] has it.
pub trait Way: Debug {
    /// As [`Tun::read`].
    ///
    /// # Errors
    /// The device was switched off or removed.
    fn read(&self, packet: &mut Vec<u8>) -> io::Result<bool>;

    /// As [`Tun::write`].
    ///
    /// # Errors
    /// It was not delivered.
    fn write(&self, packet: &[u8]) -> io::Result<()>;

    /// Whether the loop is woken when something can be read.
    ///
    /// # Errors
    /// It is as it was.
    fn watch(&self, is_watched: bool) -> io::Result<()>;
}

/// Something that a gateway has of a machine for as long as this exists.
pub trait Held: Debug {}

impl Held for Addresses {}
impl Held for HeldPort {}

/// The machine that this process runs on.
#[derive(Debug)]
pub struct Real {
    poller: Arc<Poller>,
    token: u64,
}

impl Real {
    /// `token`: the poller's for the device outside, when it can be read; the one behind it, when it can be written.
    pub fn new(poller: &Arc<Poller>, token: u64) -> Real {
        let poller = Arc::clone(poller);
        Real { poller, token }
    }
}

impl Devices for Real {
    fn keep_silent(&self, site: &Site) -> io::Result<()> {
        keep_silent(&site.device, &site.own())
    }

    fn speak_again(&self) {
        // If it fails, there was no rule to remove.
        let _ = speak_again();
    }

    fn line(&self, site: &Site) -> io::Result<Box<dyn Line>> {
        let outside = Outside::open(site.index, &site.own(), site.queue_bytes)?;
        Ok(Box::new(RealLine {
            outside,
            poller: Arc::clone(&self.poller),
            token: self.token,
        }))
    }

    fn kernel(&self) -> io::Result<Box<dyn Kernel>> {
        Ok(Box::new(Inlet::open()?))
    }

    fn addresses(&self, site: &Site) -> io::Result<Box<dyn Held>> {
        Ok(Box::new(Addresses::give(site.index, &site.addresses)?))
    }

    fn port(&self, is_tcp: bool, address: SocketAddr) -> io::Result<(u16, Box<dyn Held>)> {
        let held = HeldPort::take(is_tcp, address)?;
        Ok((held.number(), Box::new(held)))
    }
}

#[derive(Debug)]
struct RealLine {
    outside: Outside,
    poller: Arc<Poller>,
    token: u64,
}

impl Line for RealLine {
    fn read(&self, packet: &mut Vec<u8>) -> io::Result<Option<Heard>> {
        self.outside.read(packet)
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<bool> {
        self.outside.write(parts)
    }

    fn queued_bytes(&self) -> usize {
        self.outside.queued_bytes()
    }

    fn set_queue_bytes(&mut self, bytes: usize) -> io::Result<()> {
        self.outside.set_queue_bytes(bytes)
    }

    fn dropped(&mut self) -> u64 {
        self.outside.dropped()
    }

    fn watch(&mut self) -> io::Result<()> {
        let (hears, speaks) = (self.outside.receiver(), self.outside.sender());
        self.poller.register(hears, self.token, Interest::Read)?;
        self.poller
            .register(speaks, self.token + 1, Interest::Nothing)
    }

    fn wait_for_room(&self, waits: bool) -> io::Result<()> {
        let interest = match waits {
            true => Interest::Write,
            false => Interest::Nothing,
        };
        let speaks = self.outside.sender();
        self.poller.modify(speaks, self.token + 1, interest)
    }
}

impl Drop for RealLine {
    fn drop(&mut self) {
        // One that was only asked by was never waited for.
        let _ = self.poller.deregister(self.outside.receiver());
        let _ = self.poller.deregister(self.outside.sender());
    }
}

impl Kernel for Inlet {
    fn give(&self, packet: &[u8]) -> io::Result<()> {
        Inlet::give(self, packet)
    }
}

/// A place's TUN, which its supervisor may have as well.
#[derive(Debug)]
pub struct RealWay {
    tun: Lent<Tun>,
    poller: Arc<Poller>,
    token: u64,
}

impl RealWay {
    /// The loop is woken with this token when something can be read.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn watched(tun: Lent<Tun>, poller: &Arc<Poller>, token: u64) -> io::Result<RealWay> {
        poller.register(&*tun, token, Interest::Read)?;
        Ok(RealWay {
            tun,
            poller: Arc::clone(poller),
            token,
        })
    }
}

impl Way for RealWay {
    fn read(&self, packet: &mut Vec<u8>) -> io::Result<bool> {
        self.tun.read(packet)
    }

    fn write(&self, packet: &[u8]) -> io::Result<()> {
        self.tun.write(packet)
    }

    fn watch(&self, is_watched: bool) -> io::Result<()> {
        let interest = match is_watched {
            true => Interest::Read,
            false => Interest::Nothing,
        };
        self.poller.modify(&*self.tun, self.token, interest)
    }
}

impl Drop for RealWay {
    fn drop(&mut self) {
        // The supervisor may have it still, so that closing it is not enough.
        let _ = self.poller.deregister(&*self.tun);
    }
}
