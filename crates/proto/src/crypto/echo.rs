//! Questions without a session: is a node there, and how long does an answer take? A question may be padded; the answer
//! never is. Neither end keeps anything of it.
//!
//! Surveys ask so. Before, they used probes of the bundles that there were: with the default of 64 bundles a survey of
//! 1,024 nodes saw 23 of each node's peers.

use super::{ClusterKey, HandshakeError};
use crate::wire::{
    HANDSHAKE_HEADER_BYTES, HandshakeHeader, Kind, MAC_BYTES, Reader, VERSION, Writer,
};

/// Length of a [`Kind::EchoReply`], and of a [`Kind::Echo`] without padding: header and MAC.
pub const ECHO_BYTES: usize = HANDSHAKE_HEADER_BYTES + MAC_BYTES;

/// A question with a token of the asker's choice, in a datagram of this size, at least [`ECHO_BYTES`]. The padding is zeros,
/// which the MAC does not cover, since nobody reads them.
pub fn echo(key: &ClusterKey, token: u32, datagram_bytes: usize) -> Vec<u8> {
    let mut datagram = signed(Kind::Echo, key, token);
    datagram.resize(datagram_bytes.max(ECHO_BYTES), 0);
    datagram
}

/// The answer to the question with this token.
pub fn echo_reply(key: &ClusterKey, token: u32) -> Vec<u8> {
    signed(Kind::EchoReply, key, token)
}

fn signed(kind: Kind, key: &ClusterKey, token: u32) -> Vec<u8> {
    let mut datagram = vec![0; ECHO_BYTES];
    let header = HandshakeHeader {
        kind,
        session: token,
        version: VERSION,
    };
    header.write(&mut Writer::new(&mut datagram));
    key.sign(&mut datagram);
    datagram
}

/// The token of a question or of an answer.
///
/// # Errors
/// It is truncated, of another version, or made with another key.
pub fn echo_token(key: &ClusterKey, datagram: &[u8]) -> Result<u32, HandshakeError> {
    let header = HandshakeHeader::read(&mut Reader::new(datagram))?;
    let signed = datagram.get(..ECHO_BYTES);
    if !signed.is_some_and(|signed| key.signed(signed)) {
        return Err(HandshakeError::WrongKey);
    }
    match header.version {
        VERSION => Ok(header.session),
        theirs => Err(HandshakeError::WrongVersion { theirs }),
    }
}
