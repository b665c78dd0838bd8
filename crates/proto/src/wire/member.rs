//! The record by which nodes tell each other the nodes of the cluster (`docs/protocol.md`, 7.14), and the answer
//! to a node that asks to join.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::codec::EXTENSION_HEADER_BYTES;
use super::{Name, PUBLIC_KEY_BYTES, Reader, WireError, Writer};
use crate::crypto::PublicKey;
use crate::limits::{LINKS_MAX, NAME_BYTES_MAX};

/// The first byte of each.
mod code {
    /// A node's identity.
    pub const MEMBER: u8 = 0x52;
    /// Whom the sender knows, in short.
    pub const DIGEST: u8 = 0x53;
}

/// Bytes of a [`MembersDigest`] behind its type and length.
const DIGEST_BYTES: usize = 4 + 8;
/// Flags of a [`Member`].
const LEAVES: u8 = 1 << 0;
const HAS_INSIDE: u8 = 1 << 1;
const HAS_PUBLIC: u8 = 1 << 2;
/// An address: IPv6, or IPv4 mapped into it (RFC 4291, 2.5.5.2), and a port.
const ADDRESS_BYTES: usize = 16 + 2;

/// A node of the cluster, as it says itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name.
    pub name: Name,
    /// Counts the node's statements about itself: of two records the one with the larger number is valid. A node
    /// begins with the milliseconds since 1970, so that it supersedes its records from before a restart.
    pub incarnation: u64,
    /// Seconds since the teller, or its source, knew that it was there.
    pub age_s: u32,
    /// It leaves the cluster, and must be forgotten.
    pub leaves: bool,
    /// Its address on each network.
    pub addresses: [Option<SocketAddr>; LINKS_MAX],
    /// The address of its virtual NIC, and the length of the network's prefix.
    pub inside: Option<(IpAddr, u8)>,
    /// Its public key: nobody else is accepted under its name.
    pub public: Option<PublicKey>,
}

/// Whom a node knows: two that know the same have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MembersDigest {
    /// How many, itself included.
    pub count: u32,
    /// A sum over their names and incarnations.
    pub sum: u64,
}

impl MembersDigest {
    fn write(&self, w: &mut Writer<'_>) {
        w.u8(code::DIGEST);
        w.u16(DIGEST_BYTES as u16);
        w.u32(self.count);
        w.u64(self.sum);
    }
}

/// One record about members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberRecord {
    /// A node's identity.
    Member(Box<Member>),
    /// Whom the sender knows.
    Digest(MembersDigest),
}

impl MemberRecord {
    /// The record about a node.
    pub fn of(member: Member) -> MemberRecord {
        MemberRecord::Member(Box::new(member))
    }

    /// How many bytes [`write`](MemberRecord::write) appends.
    pub fn encoded_len(&self) -> usize {
        match self {
            MemberRecord::Member(member) => member.encoded_len(),
            MemberRecord::Digest(_) => EXTENSION_HEADER_BYTES + DIGEST_BYTES,
        }
    }

    /// Appends the record. The caller has checked the room.
    pub fn write(&self, w: &mut Writer<'_>) {
        match self {
            MemberRecord::Member(member) => member.write(w),
            MemberRecord::Digest(digest) => digest.write(w),
        }
    }

    /// Whether the extension `code` is one of these.
    pub const fn is_one(code: u8) -> bool {
        matches!(code, code::MEMBER | code::DIGEST)
    }

    /// The record of an extension.
    ///
    /// # Errors
    /// Cut short, too long, or a field out of its range.
    pub fn read(code: u8, data: &[u8]) -> Result<MemberRecord, WireError> {
        match code {
            code::MEMBER => Ok(MemberRecord::of(Member::read(data)?)),
            code::DIGEST => {
                let mut r = Reader::new(data);
                let (count, sum) = (r.u32()?, r.u64()?);
                match r.remaining() {
                    0 => Ok(MemberRecord::Digest(MembersDigest { count, sum })),
                    _ => Err(WireError::BadValue),
                }
            }
            _ => Err(WireError::BadRecord),
        }
    }
}

/// Answer to a node that asks to join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Verdict {
    /// It may.
    Welcome = 1,
    /// The asked node takes its nodes from its file alone.
    FileOnly = 2,
    /// Another node has this name.
    NameTaken = 3,
    /// Another node has this address.
    AddressTaken = 4,
    /// Nodes of this cluster have key pairs of their own.
    NeedsKey = 5,
    /// As many have joined as may.
    Full = 6,
}

impl Verdict {
    pub(super) fn from_byte(byte: u8) -> Option<Verdict> {
        Some(match byte {
            1 => Verdict::Welcome,
            2 => Verdict::FileOnly,
            3 => Verdict::NameTaken,
            4 => Verdict::AddressTaken,
            5 => Verdict::NeedsKey,
            6 => Verdict::Full,
            _ => return None,
        })
    }
}

impl Member {
    /// The most that its record takes.
    pub const BYTES_MAX: usize = EXTENSION_HEADER_BYTES
        + 1
        + NAME_BYTES_MAX
        + 8
        + 4
        + 2
        + LINKS_MAX * ADDRESS_BYTES
        + ADDRESS_BYTES
        + PUBLIC_KEY_BYTES;

    fn encoded_len(&self) -> usize {
        let addresses = self.addresses.iter().flatten().count();
        EXTENSION_HEADER_BYTES
            + 1
            + self.name.as_str().len()
            + 8
            + 4
            + 2
            + addresses * ADDRESS_BYTES
            + self.inside.map_or(0, |_| ADDRESS_BYTES - 1)
            + self.public.map_or(0, |_| PUBLIC_KEY_BYTES)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u8(code::MEMBER);
        w.u16((self.encoded_len() - EXTENSION_HEADER_BYTES) as u16);
        let name = self.name.as_str().as_bytes();
        w.u8(name.len() as u8);
        w.put(name);
        w.u64(self.incarnation);
        w.u32(self.age_s);
        let has = |there: bool, bit: u8| if there { bit } else { 0 };
        let there = self.addresses.iter().enumerate();
        let links = there.fold(0, |links, (i, a)| links | has(a.is_some(), 1 << i));
        let marks = has(self.leaves, LEAVES)
            | has(self.inside.is_some(), HAS_INSIDE)
            | has(self.public.is_some(), HAS_PUBLIC);
        w.put(&[marks, links]);
        for address in self.addresses.iter().flatten() {
            write_ip(address.ip(), w);
            w.u16(address.port());
        }
        if let Some((address, prefix)) = self.inside {
            write_ip(address, w);
            w.u8(prefix);
        }
        if let Some(public) = &self.public {
            w.put(public);
        }
    }

    /// Reads what follows the record's type and length.
    ///
    /// # Errors
    /// Cut short, too long, or a field out of its range.
    fn read(data: &[u8]) -> Result<Member, WireError> {
        let mut r = Reader::new(data);
        let len = usize::from(r.u8()?);
        let name = core::str::from_utf8(r.take(len)?).map_err(|_| WireError::BadValue)?;
        let name = Name::new(name).map_err(|_| WireError::BadValue)?;
        let (incarnation, age_s) = (r.u64()?, r.u32()?);
        let (marks, links) = (r.u8()?, r.u8()?);
        if marks & !(LEAVES | HAS_INSIDE | HAS_PUBLIC) != 0 {
            return Err(WireError::BadValue);
        }
        let mut addresses = [None; LINKS_MAX];
        for (i, address) in addresses.iter_mut().enumerate() {
            if links & 1 << i != 0 {
                let (ip, port) = (read_ip(&mut r)?, r.u16()?);
                if port == 0 || ip.is_unspecified() || ip.is_multicast() {
                    return Err(WireError::BadValue);
                }
                *address = Some(SocketAddr::new(ip, port));
            }
        }
        let inside = match marks & HAS_INSIDE != 0 {
            true => Some(read_inside(&mut r)?),
            false => None,
        };
        let public = match marks & HAS_PUBLIC != 0 {
            true => Some(r.array()?),
            false => None,
        };
        if r.remaining() > 0 {
            return Err(WireError::BadValue);
        }
        Ok(Member {
            name,
            incarnation,
            age_s,
            leaves: marks & LEAVES != 0,
            addresses,
            inside,
            public,
        })
    }
}

fn write_ip(address: IpAddr, w: &mut Writer<'_>) {
    let address = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    w.put(&address.octets());
}

fn read_ip(r: &mut Reader<'_>) -> Result<IpAddr, WireError> {
    Ok(Ipv6Addr::from(r.array::<16>()?).to_canonical())
}

fn read_inside(r: &mut Reader<'_>) -> Result<(IpAddr, u8), WireError> {
    let (address, prefix) = (read_ip(r)?, r.u8()?);
    let bits = match address {
        IpAddr::V4(_) => Ipv4Addr::BITS,
        IpAddr::V6(_) => Ipv6Addr::BITS,
    };
    match u32::from(prefix) <= bits && !address.is_unspecified() && !address.is_multicast() {
        true => Ok((address, prefix)),
        false => Err(WireError::BadValue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        let mut addresses = [None; LINKS_MAX];
        addresses[0] = Some("10.77.0.1:7577".parse().unwrap());
        addresses[3] = Some("[fd00::1]:7577".parse().unwrap());
        Member {
            name: Name::new("n-1.rack").unwrap(),
            incarnation: 1_700_000_000_000,
            age_s: 3,
            leaves: false,
            addresses,
            inside: Some(("10.99.0.1".parse().unwrap(), 24)),
            public: Some([7; PUBLIC_KEY_BYTES]),
        }
    }

    fn written(member: &Member) -> Vec<u8> {
        let mut buffer = [0; Member::BYTES_MAX];
        let mut w = Writer::new(&mut buffer);
        member.write(&mut w);
        let len = w.len();
        assert_eq!(len, member.encoded_len());
        buffer[EXTENSION_HEADER_BYTES..len].to_vec()
    }

    #[test]
    fn a_member_is_read_as_it_was_written() {
        let all = member();
        let least = Member {
            leaves: true,
            addresses: [None; LINKS_MAX],
            inside: None,
            public: None,
            ..member()
        };
        let most = Member {
            name: Name::new(&"x".repeat(NAME_BYTES_MAX)).unwrap(),
            addresses: [all.addresses[3]; LINKS_MAX],
            ..member()
        };
        for member in [all, least, most] {
            assert_eq!(Member::read(&written(&member)), Ok(member));
        }
    }

    #[test]
    fn a_digest_is_read_as_it_was_written() {
        let digest = MembersDigest { count: 3, sum: 7 };
        let mut buffer = [0; EXTENSION_HEADER_BYTES + DIGEST_BYTES + 1];
        digest.write(&mut Writer::new(&mut buffer));
        let read = |bytes| MemberRecord::read(buffer[0], bytes);
        let (bytes, end) = (&buffer[EXTENSION_HEADER_BYTES..], DIGEST_BYTES);
        assert_eq!(read(&bytes[..end]), Ok(MemberRecord::Digest(digest)));
        assert!(read(bytes).is_err() && read(&bytes[..end - 1]).is_err());
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let good = written(&member());
        for len in 0..good.len() {
            assert!(Member::read(&good[..len]).is_err(), "{len}");
        }
        let mut longer = good.clone();
        longer.push(0);
        assert_eq!(Member::read(&longer), Err(WireError::BadValue));
        let marks = 1 + member().name.as_str().len() + 8 + 4;
        let port = marks + 2 + 16;
        let prefix = marks + 2 + 2 * ADDRESS_BYTES + 16;
        for (place, byte) in [(0, 0), (1, b' '), (marks, 8), (prefix, 33)] {
            let mut bad = good.clone();
            bad[place] = byte;
            assert!(Member::read(&bad).is_err(), "{place}");
        }
        let mut nowhere = good;
        nowhere[port..port + 2].fill(0);
        assert_eq!(Member::read(&nowhere), Err(WireError::BadValue));
    }
}
