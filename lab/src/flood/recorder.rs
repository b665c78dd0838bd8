//! Somebody on the wire who writes down what passes.

use super::PORT;
use crate::emulator::PacketSocket;
use crate::{Lab, LabError, wiring};

/// Datagrams that are kept at most.
pub const RECORDED_MAX: usize = 4096;
const VNET_BYTES: usize = 10;
const ETHERNET_BYTES: usize = 14;
const UDP_BYTES: usize = 8;
/// A joined burst of 64 KiB and all headers.
const RECEIVE_BYTES: usize = 68 << 10;

/// Records tabane's datagrams between the nodes of one link, from now on.
#[derive(Debug)]
pub struct Recorder {
    sockets: Vec<PacketSocket>,
}

impl Recorder {
    /// Begin. What the nodes say is kept by the kernel until [`Recorder::take`].
    ///
    /// # Errors
    /// There is no such link, or the kernel refuses the sockets.
    pub fn start(lab: &Lab, link: usize) -> Result<Recorder, LabError> {
        lab.check_link(link)?;
        let listen = |node| {
            let port = wiring::cable_end(node, lab.link(link));
            PacketSocket::receiver(lab.switch(link), &port)
                .map_err(LabError::io(format!("listening to n{node}")))
        };
        let sockets = (0..lab.nodes()).map(listen).collect::<Result<_, _>>()?;
        Ok(Recorder { sockets })
    }

    /// Begin at the NIC of one node: what comes to that node alone.
    ///
    /// # Errors
    /// There is no such node or link, or the kernel refuses the socket.
    pub fn at_node(lab: &Lab, node: usize, link: usize) -> Result<Recorder, LabError> {
        lab.check_node(node)?;
        lab.check_link(link)?;
        let socket = PacketSocket::receiver(lab.node(node), &wiring::nic(link))
            .map_err(LabError::io(format!("listening at n{node}")))?;
        let sockets = vec![socket];
        Ok(Recorder { sockets })
    }

    /// What was said so far and not taken yet.
    pub fn take(&self) -> Vec<Vec<u8>> {
        let mut recorded = Vec::new();
        let mut buffer = vec![0; RECEIVE_BYTES];
        for socket in &self.sockets {
            while let Some(bytes) = socket.receive(&mut buffer) {
                if recorded.len() < RECORDED_MAX {
                    recorded.extend(datagrams(&buffer[..bytes.min(RECEIVE_BYTES)]));
                }
            }
        }
        recorded
    }
}

/// The UDP payloads of a frame with its virtio header: several, if the kernel
/// has not yet cut a burst. None that is neither to nor from tabane's port.
fn datagrams(frame: &[u8]) -> Vec<Vec<u8>> {
    payload(frame).map_or(Vec::new(), |(payload, segment_bytes)| {
        let segment_bytes = if segment_bytes == 0 {
            payload.len()
        } else {
            segment_bytes
        };
        let pieces = payload.chunks(segment_bytes.max(1));
        pieces.map(<[u8]>::to_vec).collect()
    })
}

fn payload(frame: &[u8]) -> Option<(&[u8], usize)> {
    let word = |bytes: &[u8], at: usize| Some([*bytes.get(at)?, *bytes.get(at + 1)?]);
    let segment_bytes = usize::from(u16::from_ne_bytes(word(frame, 4)?));
    let ip = frame.get(VNET_BYTES + ETHERNET_BYTES..)?;
    let is_udp = ip.first()? >> 4 == 4 && *ip.get(9)? == 17;
    let udp = ip.get(usize::from(ip[0] & 15) * 4..)?;
    let ports = [word(udp, 0)?, word(udp, 2)?].map(u16::from_be_bytes);
    let is_ours = ports.contains(&PORT);
    (is_udp && is_ours).then_some((udp.get(UDP_BYTES..)?, segment_bytes))
}
