//! The bytes of rtnetlink messages, both directions (netlink(7), rtnetlink(7)).
//!
//! Written by hand rather than on `netlink-packet-route`: that crate refuses a
//! whole message when one of its hundreds of attributes has an unforeseen
//! length, which a newer kernel may send any day, and a link monitor that
//! misses a link for that is worse than none. Here an attribute nobody asks
//! for is never looked at.

/// The length of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;

/// Messages and attributes start at multiples of this.
const ALIGNMENT: usize = 4;

/// The two top bits of an attribute's type are flags.
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;

fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// A request being written.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of type `kind` (`RTM_…`) with `NLM_F_REQUEST`, `flags` and the
    /// fixed part `body`.
    pub(crate) fn new(kind: u16, flags: i32, body: &[u8]) -> Request {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (flags | libc::NLM_F_REQUEST) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        let mut request = Request { bytes };
        request.append(body);
        request
    }

    /// Asks the kernel to say when it is done.
    pub(crate) fn acknowledged(mut self) -> Request {
        self.bytes[6] |= libc::NLM_F_ACK as u8;
        self
    }

    fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(align(self.bytes.len()), 0);
    }

    /// Adds an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Request {
        self.nested(kind, |inner| inner.append_unaligned(value))
    }

    fn append_unaligned(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds an attribute of 32 bits.
    pub(crate) fn number(&mut self, kind: u16, value: u32) -> &mut Request {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Adds a string, ended by a zero byte.
    pub(crate) fn text(&mut self, kind: u16, value: &str) -> &mut Request {
        self.nested(kind, |inner| {
            inner.append_unaligned(value.as_bytes());
            inner.append_unaligned(&[0]);
        })
    }

    /// Adds an attribute whose value is what `fill` writes: a fixed part
    /// ([`Request::fixed`]), attributes, or both.
    pub(crate) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Request)) -> &mut Request {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; ALIGNMENT]);
        fill(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self.bytes.resize(align(self.bytes.len()), 0);
        self
    }

    /// Adds a fixed structure inside of a nested attribute.
    pub(crate) fn fixed(&mut self, body: &[u8]) -> &mut Request {
        self.append(body);
        self
    }

    /// The finished message.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// `struct ifinfomsg` for the device `index` (0: named by an attribute), with
/// those of `IFF_…` flags in `change` set as in `flags`.
pub(crate) fn link_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

/// `struct ifaddrmsg`.
pub(crate) fn address_header(family: u8, prefix: u8, flags: u8, index: u32) -> [u8; 8] {
    let mut header = [family, prefix, flags, 0, 0, 0, 0, 0];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}

/// `struct ndmsg`.
pub(crate) fn neighbour_header(family: u8, index: u32) -> [u8; 12] {
    let mut header = [0; 12];
    header[0] = family;
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

/// The messages in one datagram; ends early, with `None` for the rest, where
/// the bytes make no sense.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Option<Message<'_>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let length = u32_at(bytes, 0).unwrap_or(0) as usize;
        if length < HEADER_BYTES || length > bytes.len() {
            bytes = &[];
            return Some(None);
        }
        let message = Message {
            kind: u16_at(bytes, 4)?,
            flags: u16_at(bytes, 6)?,
            sequence: u32_at(bytes, 8)?,
            body: &bytes[HEADER_BYTES..length],
        };
        bytes = bytes.get(align(length)..).unwrap_or(&[]);
        Some(Some(message))
    })
}

/// The attributes in `bytes` as (type, value); ends where they make no sense.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & ATTRIBUTE_TYPE_MASK;
        let value = bytes.get(ALIGNMENT..length)?;
        bytes = bytes.get(align(length)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// The 16-bit number at `offset`, in the machine's byte order.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(
        bytes.get(offset..offset + 2)?.try_into().ok()?,
    ))
}

/// The 32-bit number at `offset`, in the machine's byte order.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        bytes.get(offset..offset + 4)?.try_into().ok()?,
    ))
}

/// The 64-bit number at `offset`, in the machine's byte order.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(
        bytes.get(offset..offset + 8)?.try_into().ok()?,
    ))
}

/// The text of a string attribute, without the zero byte that ends it.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut request = Request::new(16, libc::NLM_F_ACK, &link_header(7, 1, 1));
        request.number(4, 1500).text(3, "tab0").nested(18, |info| {
            info.text(1, "veth");
        });
        let bytes = request.finish(99);
        let all: Vec<_> = messages(&bytes).map(Option::unwrap).collect();
        let [message] = all[..] else {
            panic!("{all:?}")
        };
        assert_eq!((message.kind, message.sequence), (16, 99));
        assert_eq!(u32_at(message.body, 4), Some(7));
        let found: Vec<_> = attributes(&message.body[16..]).collect();
        assert_eq!(found[0], (4, &1500u32.to_ne_bytes()[..]));
        assert_eq!((found[1].0, text(found[1].1)), (3, "tab0".into()));
        let inner: Vec<_> = attributes(found[2].1).map(|(k, v)| (k, text(v))).collect();
        assert_eq!(inner, [(1, "veth".into())]);
    }

    #[test]
    fn a_cut_datagram_gives_what_is_whole_and_says_that_it_was_cut() {
        let mut bytes = Request::new(16, 0, &link_header(1, 0, 0)).finish(1);
        let whole = bytes.len();
        bytes.extend(Request::new(17, 0, &link_header(2, 0, 0)).finish(2));
        for length in whole + 1..bytes.len() {
            let kinds: Vec<_> = messages(&bytes[..length])
                .map(|m| m.map(|m| m.kind))
                .collect();
            assert_eq!(kinds, [Some(16), None]);
        }
    }
}
