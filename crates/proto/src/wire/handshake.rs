//! The datagrams of the handshake: their header in the clear, where their parts
//! lie, and the encrypted [`Hello`] of both sides.

use super::{Kind, Name, Reader, Verdict, WireError, Writer};
use crate::limits::NAME_BYTES_MAX;

/// The protocol version of this crate: nodes of different versions do not talk.
pub const VERSION: u16 = 2;

/// Memory operations: one of the [`Hello::features`].
pub const FEATURE_MEMORY: u64 = 1 << 0;
/// Paths through other nodes: one of the [`Hello::features`].
pub const FEATURE_RELAYS: u64 = 1 << 1;
/// Nodes tell each other who belongs to the cluster: one of the [`Hello::features`].
pub const FEATURE_MEMBERS: u64 = 1 << 2;
/// Measuring for others: one of the [`Hello::features`].
pub const FEATURE_SURVEYS: u64 = 1 << 3;

/// Length of [`HandshakeHeader`].
pub const HANDSHAKE_HEADER_BYTES: usize = 8;
/// Length of the authenticator at the end of every handshake datagram, in every version to come.
pub const MAC_BYTES: usize = 32;
/// Length of a cookie.
pub const COOKIE_BYTES: usize = 32;
/// Length of an encoded [`Hello`].
pub const HELLO_BYTES: usize = 36 + 2 * NAME_FIELD_BYTES + 2 + EXTENSION_BYTES_MAX;
/// Room in a [`Hello`] for extensions of later versions.
pub const EXTENSION_BYTES_MAX: usize = 62;
/// Length of a public key (X25519).
pub const PUBLIC_KEY_BYTES: usize = 32;
/// The second Noise message: ephemeral key, encrypted [`Hello`], tag.
pub const RESPONSE_NOISE_BYTES: usize = PUBLIC_KEY_BYTES + HELLO_BYTES + 16;
/// Room for the first Noise message: as the second, with the initiator's public key, encrypted,
/// and a tag more. By [`Proof::ClusterKey`] these are missing, and zeros at the end.
pub const INIT_NOISE_BYTES: usize = RESPONSE_NOISE_BYTES + PUBLIC_KEY_BYTES + 16;

/// Length of a [`Kind::Init`] datagram: header, proof, Noise message, cookie, MAC.
pub const INIT_BYTES: usize =
    HANDSHAKE_HEADER_BYTES + 1 + INIT_NOISE_BYTES + COOKIE_BYTES + MAC_BYTES;
/// Length of a [`Kind::Response`] datagram: header, Noise message, MAC.
pub const RESPONSE_BYTES: usize = HANDSHAKE_HEADER_BYTES + RESPONSE_NOISE_BYTES + MAC_BYTES;
/// Length of the answer to an Init of another version: header and MAC. It only says this node's
/// [`VERSION`], which every version can read.
pub const VERSION_ANSWER_BYTES: usize = HANDSHAKE_HEADER_BYTES + MAC_BYTES;
/// Length of a [`Kind::Cookie`] datagram: header, cookie, MAC.
pub const COOKIE_DATAGRAM_BYTES: usize = HANDSHAKE_HEADER_BYTES + COOKIE_BYTES + MAC_BYTES;

/// The first item that an extension may have: one byte, a [`Verdict`].
const ITEM_VERDICT: u8 = 1;

/// Length byte and the name, filled up with zeros.
const NAME_FIELD_BYTES: usize = 1 + NAME_BYTES_MAX;

// No answer may be longer than what asked for it: a forged source address must
// not turn a node into an amplifier.
const _: () = assert!(RESPONSE_BYTES <= INIT_BYTES && COOKIE_DATAGRAM_BYTES <= INIT_BYTES);

/// The beginning of every handshake datagram, in all versions.
///
/// ```text
///  0      1      2             6             8
///  ┌──────┬──────┬─────────────┬─────────────┐
///  │ kind │ zero │ session u32 │ version u16 │
///  └──────┴──────┴─────────────┴─────────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandshakeHeader {
    /// Any kind but [`Kind::Data`].
    pub kind: Kind,
    /// The initiator's number for the session: the sender's in an Init, the receiver's in a
    /// Response or Cookie. In a [`Kind::Echo`] and its answer it is the asker's token.
    pub session: u32,
    /// The sender's [`VERSION`].
    pub version: u16,
}

impl HandshakeHeader {
    /// Writes the 8 bytes.
    pub fn write(&self, w: &mut Writer<'_>) {
        w.u8(self.kind as u8);
        w.u8(0);
        w.u32(self.session);
        w.u16(self.version);
    }

    /// Reads the 8 bytes. The version may be any.
    ///
    /// # Errors
    /// Too short, no handshake kind, or a second byte that is not zero.
    pub fn read(r: &mut Reader<'_>) -> Result<HandshakeHeader, WireError> {
        let kind = Kind::from_byte(r.u8()?).ok_or(WireError::BadKind)?;
        if kind == Kind::Data {
            return Err(WireError::BadKind);
        }
        if r.u8()? != 0 {
            return Err(WireError::BadValue);
        }
        Ok(HandshakeHeader {
            kind,
            session: r.u32()?,
            version: r.u16()?,
        })
    }
}

/// How the two ends of a handshake prove their identity. The initiator chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Proof {
    /// With the cluster key alone. Not allowed with an end that has a public key in the other
    /// one's configuration.
    ClusterKey = 0,
    /// By key pairs; the responder's is its own.
    OwnKey = 1,
    /// With key pairs; the responder's is derived from the cluster key and its name, because the
    /// initiator knows no other.
    NamedKey = 2,
}

impl Proof {
    fn from_byte(byte: u8) -> Result<Proof, WireError> {
        match byte {
            0 => Ok(Proof::ClusterKey),
            1 => Ok(Proof::OwnKey),
            2 => Ok(Proof::NamedKey),
            _ => Err(WireError::BadValue),
        }
    }

    /// Length of the first Noise message; zeros fill it up to [`INIT_NOISE_BYTES`].
    pub const fn init_noise_bytes(self) -> usize {
        match self {
            Proof::ClusterKey => RESPONSE_NOISE_BYTES,
            Proof::OwnKey | Proof::NamedKey => INIT_NOISE_BYTES,
        }
    }
}

/// A [`Kind::Init`] datagram, taken apart. Its MAC stands behind these parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitParts<'a> {
    /// The first eight bytes.
    pub header: HandshakeHeader,
    /// Which of the two handshakes this is.
    pub proof: Proof,
    /// The first Noise message, and zeros.
    pub noise: &'a [u8; INIT_NOISE_BYTES],
    /// The cookie that the responder gave, or zeros.
    pub cookie: [u8; COOKIE_BYTES],
}

impl<'a> InitParts<'a> {
    /// The part before the cookie, which the cookie authenticates.
    pub const COOKIE_OFFSET: usize = HANDSHAKE_HEADER_BYTES + 1 + INIT_NOISE_BYTES;

    /// Takes apart a whole datagram. Does not check the MAC.
    ///
    /// # Errors
    /// Another kind or length, an unknown proof, or a Noise message not filled up with zeros.
    pub fn read(datagram: &'a [u8]) -> Result<InitParts<'a>, WireError> {
        let mut r = expect(datagram, Kind::Init, INIT_BYTES)?;
        let header = HandshakeHeader::read(&mut r)?;
        let proof = Proof::from_byte(r.u8()?)?;
        let noise: &[u8; INIT_NOISE_BYTES] = r.array_ref()?;
        if noise[proof.init_noise_bytes()..].iter().any(|&b| b != 0) {
            return Err(WireError::BadValue);
        }
        Ok(InitParts {
            header,
            proof,
            noise,
            cookie: r.array()?,
        })
    }

    /// Writes the parts; the caller appends the MAC.
    pub fn write(&self, w: &mut Writer<'_>) {
        self.header.write(w);
        w.u8(self.proof as u8);
        w.put(self.noise);
        w.put(&self.cookie);
    }
}

/// A [`Kind::Response`] datagram, taken apart. Its MAC stands behind these parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseParts<'a> {
    /// The first eight bytes.
    pub header: HandshakeHeader,
    /// The second Noise message.
    pub noise: &'a [u8; RESPONSE_NOISE_BYTES],
}

impl<'a> ResponseParts<'a> {
    /// Takes apart a whole datagram. Does not check the MAC.
    ///
    /// # Errors
    /// Another kind or length.
    pub fn read(datagram: &'a [u8]) -> Result<ResponseParts<'a>, WireError> {
        let mut r = expect(datagram, Kind::Response, RESPONSE_BYTES)?;
        Ok(ResponseParts {
            header: HandshakeHeader::read(&mut r)?,
            noise: r.array_ref()?,
        })
    }

    /// Writes the parts; the caller appends the MAC.
    pub fn write(&self, w: &mut Writer<'_>) {
        self.header.write(w);
        w.put(self.noise);
    }
}

/// A [`Kind::Cookie`] datagram, taken apart. Its MAC stands behind these parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieParts {
    /// The first eight bytes.
    pub header: HandshakeHeader,
    /// The cookie for the next Init.
    pub cookie: [u8; COOKIE_BYTES],
}

impl CookieParts {
    /// Takes apart a whole datagram. Does not check the MAC.
    ///
    /// # Errors
    /// Another kind or length.
    pub fn read(datagram: &[u8]) -> Result<CookieParts, WireError> {
        let mut r = expect(datagram, Kind::Cookie, COOKIE_DATAGRAM_BYTES)?;
        Ok(CookieParts {
            header: HandshakeHeader::read(&mut r)?,
            cookie: r.array()?,
        })
    }

    /// Writes the parts; the caller appends the MAC.
    pub fn write(&self, w: &mut Writer<'_>) {
        self.header.write(w);
        w.put(&self.cookie);
    }
}

fn expect(datagram: &[u8], kind: Kind, bytes: usize) -> Result<Reader<'_>, WireError> {
    if datagram.first() != Some(&(kind as u8)) {
        return Err(WireError::BadKind);
    }
    if datagram.len() < bytes {
        return Err(WireError::Truncated);
    }
    if datagram.len() > bytes {
        return Err(WireError::BadValue);
    }
    Ok(Reader::new(datagram))
}

/// How packets travel. Both ends must be configured alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WireMode {
    /// Encrypted and authenticated: the default.
    Encrypted = 0,
    /// In the clear with a checksum and a secret token: for trusted wires only.
    Plain = 1,
}

/// What both ends tell each other, encrypted, in the handshake.
///
/// ```text
///  0            2      3      4             8            16            24             28
///  ┌────────────┬──────┬──────┬─────────────┬────────────┬─────────────┬──────────────┐
///  │version u16 │ wire │ aes  │ session u32 │ bundle u64 │ peer bundle │ receive      │
///  │            │ u8   │ u8   │             │            │ u64         │ buffer u32   │
///  └────────────┴──────┴──────┴─────────────┴────────────┴─────────────┴──────────────┘
///  28             36                    100                 164       166             228
///  ┌──────────────┬─────────┬───────────┬─────────┬─────────┬─────────┬───────────────┐
///  │ features u64 │ len u8  │ from 63 B │ len u8  │ to 63 B │ len u16 │ extension 62 B│
///  └──────────────┴─────────┴───────────┴─────────┴─────────┴─────────┴───────────────┘
///  names and extension filled up with zeros; the extension is empty, or one item: a [`Verdict`]
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// [`VERSION`] of the sender.
    pub version: u16,
    /// How its packets travel.
    pub wire: WireMode,
    /// Whether its CPU has fast AES: with both, packets use AES-128-GCM, else ChaCha20-Poly1305.
    pub cipher_aes: bool,
    /// The session number under which the sender of this Hello will receive.
    pub session: u32,
    /// The sender's name.
    pub from: Name,
    /// The name of the node it means to talk to.
    pub to: Name,
    /// Random, never 0: names the sender's bundle state. New state, new number.
    pub bundle: u64,
    /// The peer's `bundle` as last known, 0 = none. If both ends' match, the
    /// bundle goes on under new keys; else both restart it.
    pub peer_bundle: u64,
    /// UDP receive buffer of each of the sender's links, in bytes: limits the bytes in flight to
    /// it on a path.
    pub receive_buffer_bytes: u32,
    /// Optional features of the sender beyond this version, one bit each. The receiver ignores
    /// unknown bits; features that both set are in use.
    pub features: u64,
    /// In the answer to a question ([`is_question`](Hello::is_question)): whether the asker may join.
    pub verdict: Option<Verdict>,
}

impl Hello {
    /// Whether its sender only asks who is there, and whether it may join: then it names itself as the receiver.
    pub fn is_question(&self) -> bool {
        self.to == self.from
    }

    /// Writes the [`HELLO_BYTES`] bytes.
    pub fn write(&self, w: &mut Writer<'_>) {
        w.u16(self.version);
        w.u8(self.wire as u8);
        w.u8(u8::from(self.cipher_aes));
        w.u32(self.session);
        w.u64(self.bundle);
        w.u64(self.peer_bundle);
        w.u32(self.receive_buffer_bytes);
        w.u64(self.features);
        write_name(&self.from, w);
        write_name(&self.to, w);
        let item = self.verdict.map(|verdict| [ITEM_VERDICT, 1, verdict as u8]);
        let item = item.as_ref().map_or(&[][..], |item| &item[..]);
        w.u16(item.len() as u16);
        w.put(item);
        w.zeros(EXTENSION_BYTES_MAX - item.len());
    }

    /// Reads the [`HELLO_BYTES`] bytes. Unknown extensions are skipped.
    ///
    /// # Errors
    /// Too short, or a field out of its range.
    pub fn read(r: &mut Reader<'_>) -> Result<Hello, WireError> {
        let version = r.u16()?;
        let wire = match r.u8()? {
            0 => WireMode::Encrypted,
            1 => WireMode::Plain,
            _ => return Err(WireError::BadValue),
        };
        let cipher_aes = match r.u8()? {
            0 => false,
            1 => true,
            _ => return Err(WireError::BadValue),
        };
        let session = r.u32()?;
        let bundle = r.u64()?;
        if bundle == 0 {
            return Err(WireError::BadValue);
        }
        let mut hello = Hello {
            version,
            wire,
            cipher_aes,
            session,
            bundle,
            peer_bundle: r.u64()?,
            receive_buffer_bytes: r.u32()?,
            features: r.u64()?,
            from: read_name(r)?,
            to: read_name(r)?,
            verdict: None,
        };
        let len = usize::from(r.u16()?);
        if len > EXTENSION_BYTES_MAX {
            return Err(WireError::BadValue);
        }
        let extension = r.array_ref::<EXTENSION_BYTES_MAX>()?;
        hello.verdict = match extension[..len] {
            [ITEM_VERDICT, 1, verdict, ..] => Verdict::from_byte(verdict),
            _ => None,
        };
        Ok(hello)
    }
}

fn write_name(name: &Name, w: &mut Writer<'_>) {
    let text = name.as_str().as_bytes();
    w.u8(text.len() as u8);
    w.put(text);
    w.zeros(NAME_BYTES_MAX - text.len());
}

fn read_name(r: &mut Reader<'_>) -> Result<Name, WireError> {
    let len = usize::from(r.u8()?);
    let field: [u8; NAME_BYTES_MAX] = r.array()?;
    let (text, rest) = field.split_at_checked(len).ok_or(WireError::BadValue)?;
    if rest.iter().any(|&b| b != 0) {
        return Err(WireError::BadValue);
    }
    core::str::from_utf8(text)
        .ok()
        .and_then(|text| Name::new(text).ok())
        .ok_or(WireError::BadValue)
}
