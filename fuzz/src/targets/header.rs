//! What a node reads of a datagram before it knows any key: whatever is accepted
//! is written back as it was.
use tabane_proto::wire::{
    CookieParts, HANDSHAKE_HEADER_BYTES, HEADER_BYTES, HandshakeHeader, Header, InitParts,
    MAC_BYTES, Reader, ResponseParts, Writer,
};

/// What `put` writes is how `datagram` begins.
fn written(datagram: &[u8], len: usize, put: impl Fn(&mut Writer<'_>)) {
    let mut again = [0; 400];
    let mut w = Writer::new(&mut again);
    put(&mut w);
    assert_eq!(w.len(), len);
    assert_eq!(again[..len], datagram[..len]);
}

/// Feeds it `datagram`.
pub fn run(datagram: &[u8]) {
    if let Ok(header) = Header::read(&mut Reader::new(datagram)) {
        written(datagram, HEADER_BYTES, |w| header.write(w));
    }
    if let Ok(header) = HandshakeHeader::read(&mut Reader::new(datagram)) {
        written(datagram, HANDSHAKE_HEADER_BYTES, |w| header.write(w));
    }
    let body = datagram.len().saturating_sub(MAC_BYTES);
    if let Ok(parts) = InitParts::read(datagram) {
        written(datagram, body, |w| parts.write(w));
    }
    if let Ok(parts) = ResponseParts::read(datagram) {
        written(datagram, body, |w| parts.write(w));
    }
    if let Ok(parts) = CookieParts::read(datagram) {
        written(datagram, body, |w| parts.write(w));
    }
}
