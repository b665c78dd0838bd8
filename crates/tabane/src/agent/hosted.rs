//! Listeners of programs, repeated in this node's own network namespace, so that plain programs
//! elsewhere reach them as if there were no `tabane run`.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use slab::Slab;
use tabane_io::capture::{accept_plainly, listen_plainly};
use tabane_io::poll::{Interest, Poller};

use super::Opening;

/// Listeners of all programs together; further ones are reached by other programs under
/// `tabane run` alone.
pub const HOSTED_MAX: usize = 4096;

#[derive(Debug)]
struct Listener {
    place: usize,
    address: SocketAddr,
    socket: TcpListener,
}

/// All such listeners.
#[derive(Debug, Default)]
pub struct Hosted {
    listeners: Slab<Listener>,
    by_address: HashMap<(usize, SocketAddr), usize>,
}

impl Hosted {
    /// Listens at an address for the program of a place; `token` makes the poller's tokens.
    ///
    /// # Errors
    /// Somebody else listens there: the program is to get the error that it would have got.
    pub fn listen(
        &mut self,
        place: usize,
        address: SocketAddr,
        poller: &Poller,
        token: impl Fn(usize) -> u64,
    ) -> io::Result<()> {
        let is_ours = self.by_address.contains_key(&(place, address));
        if address.ip().is_loopback() || is_ours || self.listeners.len() >= HOSTED_MAX {
            // Others do not reach it, or it is one of several that share the port.
            return Ok(());
        }
        let socket = listen_plainly(address)?;
        let entry = self.listeners.vacant_entry();
        let index = entry.key();
        poller.register(&socket, token(index), Interest::Read)?;
        self.by_address.insert((place, address), index);
        entry.insert(Listener {
            place,
            address,
            socket,
        });
        Ok(())
    }

    /// The next connection to a listener: the place it is for, the socket, and both its ends.
    pub fn accept(&self, index: usize) -> Option<(usize, TcpStream, Opening)> {
        let listener = self.listeners.get(index)?;
        // Without a descriptor it waits, and is asked for again at once.
        let (plain, from, to) = accept_plainly(&listener.socket).ok()??;
        Some((listener.place, plain, Opening { from, to }))
    }

    /// The program of a place listens at this port no more.
    pub fn close(&mut self, place: usize, port: u16) {
        self.retain(|listener| listener.place != place || listener.address.port() != port);
    }

    /// No program listens at this port any more. Returns whether one did.
    pub fn close_port(&mut self, port: u16) -> bool {
        let before = self.listeners.len();
        self.retain(|listener| listener.address.port() != port);
        self.listeners.len() < before
    }

    /// All of a place.
    pub fn forget_place(&mut self, place: usize) {
        self.retain(|listener| listener.place != place);
    }

    /// Closing a socket takes it out of the poller.
    fn retain(&mut self, keeps: impl Fn(&Listener) -> bool) {
        self.listeners.retain(|_, listener| keeps(listener));
        let listeners = &self.listeners;
        self.by_address
            .retain(|_, index| listeners.contains(*index));
    }
}
