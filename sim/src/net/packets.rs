//! Packets under way, in storage that is used again.

use std::net::SocketAddr;

/// A packet under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PacketId(u32);

/// A datagram and its addresses.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The network it is on.
    pub link: usize,
    /// The host that sent it; `None`: the attacker.
    pub from_host: Option<usize>,
    /// The host it goes to.
    pub to_host: usize,
    /// Its source address.
    pub source: SocketAddr,
    /// Its destination address.
    pub destination: SocketAddr,
    /// The UDP payload.
    pub bytes: Vec<u8>,
}

/// All packets under way.
#[derive(Debug, Default)]
pub struct Packets {
    slots: Vec<Option<Packet>>,
    free: Vec<u32>,
    spare: Vec<Vec<u8>>,
}

impl Packets {
    /// Keeps a packet with a copy of `bytes`.
    pub fn put(&mut self, mut packet: Packet, bytes: &[u8]) -> PacketId {
        packet.bytes = self.spare.pop().unwrap_or_default();
        packet.bytes.clear();
        packet.bytes.extend_from_slice(bytes);
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(packet);
                PacketId(slot)
            }
            None => {
                self.slots.push(Some(packet));
                PacketId(self.slots.len() as u32 - 1)
            }
        }
    }

    /// The packet, which must not have been taken.
    pub fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        self.slots[id.0 as usize]
            .as_mut()
            .expect("a packet is taken once")
    }

    /// Takes the packet out. Give its bytes back with [`Packets::recycle`].
    pub fn take(&mut self, id: PacketId) -> Packet {
        self.free.push(id.0);
        self.slots[id.0 as usize]
            .take()
            .expect("a packet is taken once")
    }

    /// Keeps the storage of a packet that is done with.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < 4096 {
            self.spare.push(bytes);
        }
    }
}
