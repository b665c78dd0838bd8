//! Both sides of the handshake, as datagrams.

use super::noise::{Noise, Side};
use super::{ClusterKey, Identity, PublicKey, SessionKeys};
use crate::Random;
use crate::limits::DATAGRAM_BYTES_WIDE;
use crate::wire::{
    COOKIE_BYTES, CookieParts, HANDSHAKE_HEADER_BYTES, HandshakeHeader, Hello, INIT_BYTES,
    INIT_NOISE_BYTES, InitParts, Kind, MAC_BYTES, Name, Proof, RESPONSE_BYTES,
    RESPONSE_NOISE_BYTES, Reader, ResponseParts, VERSION, VERSION_ANSWER_BYTES, WireError,
    WireMode, Writer,
};
use core::fmt;

/// Why a handshake datagram was refused. The peer is told nothing; the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandshakeError {
    /// It has not the form of a handshake datagram.
    Malformed(WireError),
    /// It was not made with this cluster's key, or was altered on the way.
    WrongKey,
    /// The peer speaks another version of the protocol.
    WrongVersion {
        /// The peer's version.
        theirs: u16,
    },
    /// One end is configured for an encrypted wire, the other for a plain one.
    WrongWire {
        /// The peer's mode.
        theirs: WireMode,
    },
    /// The peer meant to reach a node of another name at this address.
    WrongDestination {
        /// The name it wants.
        wanted: Name,
    },
    /// A node of another name answered at the peer's address.
    WrongPeer {
        /// The name of the one that answered.
        answered: Name,
    },
    /// The peer meant to reach the holder of another key than this node's.
    NotThisKey,
    /// It belongs to another handshake: late, or meant for someone else.
    NotThisHandshake,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Malformed(why) => write!(f, "malformed handshake: {why}"),
            HandshakeError::WrongKey => f.write_str(
                "handshake not made with this cluster's key; `key` must be the same on every node",
            ),
            HandshakeError::WrongVersion { theirs } => write!(
                f,
                "the peer speaks protocol version {theirs}, this node {VERSION}; \
                 run the same version on both"
            ),
            HandshakeError::WrongWire { theirs } => {
                let (theirs, ours) = match theirs {
                    WireMode::Plain => ("plain", "encrypted"),
                    WireMode::Encrypted => ("encrypted", "plain"),
                };
                write!(
                    f,
                    "the peer has wire = \"{theirs}\", this node \"{ours}\"; \
                     `wire` must be the same on every node"
                )
            }
            HandshakeError::WrongDestination { wanted } => write!(
                f,
                "the peer looks for node {wanted} at this node's address; \
                 the cluster file must be the same on every node"
            ),
            HandshakeError::WrongPeer { answered } => write!(
                f,
                "node {answered} answered at the peer's address; \
                 the cluster file must be the same on every node"
            ),
            HandshakeError::NotThisKey => f.write_str(
                "the peer's cluster file has another `public` key for this node than its own; \
                 `tabane key` on this node shows the right one",
            ),
            HandshakeError::NotThisHandshake => f.write_str("answer to another handshake"),
        }
    }
}

impl core::error::Error for HandshakeError {}

impl From<WireError> for HandshakeError {
    fn from(why: WireError) -> HandshakeError {
        HandshakeError::Malformed(why)
    }
}

impl Hello {
    /// Whether a node named `me`, whose packets travel as `wire`, may go on with
    /// the sender of this Hello.
    ///
    /// # Errors
    /// [`WrongDestination`](HandshakeError::WrongDestination), [`WrongWire`](HandshakeError::WrongWire).
    pub fn check(&self, me: &Name, wire: WireMode) -> Result<(), HandshakeError> {
        if self.to != *me {
            return Err(HandshakeError::WrongDestination { wanted: self.to });
        }
        if self.wire != wire {
            return Err(HandshakeError::WrongWire { theirs: self.wire });
        }
        Ok(())
    }
}

/// Whether the cluster key signed an Init, now or in an old recording. It costs one HMAC: check this
/// before doing anything else for a stranger.
pub fn init_is_from_key_holder(key: &ClusterKey, datagram: &[u8]) -> bool {
    datagram.first() == Some(&(Kind::Init as u8))
        && datagram.len() >= HANDSHAKE_HEADER_BYTES + MAC_BYTES
        && datagram.len() <= DATAGRAM_BYTES_WIDE
        && key.signed(datagram)
}

/// The version of an Init with a right MAC, if it is another one than this node's.
pub fn init_of_other_version(datagram: &[u8]) -> Option<u16> {
    let header = HandshakeHeader::read(&mut Reader::new(datagram)).ok()?;
    (header.version != VERSION).then_some(header.version)
}

/// The answer to an Init of another version, for `session`: it looks like a Response as far as every
/// version reads one, and so says which version this node speaks.
pub fn say_version(key: &ClusterKey, session: u32) -> Vec<u8> {
    let mut datagram = vec![0; VERSION_ANSWER_BYTES];
    let header = HandshakeHeader {
        kind: Kind::Response,
        session,
        version: VERSION,
    };
    header.write(&mut Writer::new(&mut datagram));
    key.sign(&mut datagram);
    datagram
}

/// Checks form, key and version, each as soon as it can be checked.
fn check_outside(key: &ClusterKey, datagram: &[u8]) -> Result<HandshakeHeader, HandshakeError> {
    let header = HandshakeHeader::read(&mut Reader::new(datagram))?;
    if !key.signed(datagram) {
        return Err(HandshakeError::WrongKey);
    }
    if header.version != VERSION {
        let theirs = header.version;
        return Err(HandshakeError::WrongVersion { theirs });
    }
    Ok(header)
}

/// The end that asks.
pub struct Initiator {
    key: ClusterKey,
    hello: Hello,
    noise: Noise,
    proof: Proof,
    message: [u8; INIT_NOISE_BYTES],
    datagram: [u8; INIT_BYTES],
}

impl Initiator {
    /// Begins a handshake saying `hello`. The same object serves all repetitions
    /// of the Init, on all paths; each new attempt wants a new session number.
    ///
    /// With `peer`, only the holder of that public key can answer.
    pub fn new(
        key: &ClusterKey,
        identity: &Identity,
        peer: Option<PublicKey>,
        hello: &Hello,
        random: &mut Random,
    ) -> Initiator {
        let (proof, keys) = match peer {
            None if !identity.is_public() => (Proof::ClusterKey, None),
            None => (Proof::NamedKey, Some(key.public_of(&hello.to))),
            Some(public) => (Proof::OwnKey, Some(public)),
        };
        let private = identity
            .own_key()
            .unwrap_or_else(|| identity.named_key(key));
        let keys = keys.as_ref().map(|public| (&private, public));
        let mut noise = Noise::new(key, proof, &Side::Initiator { keys }, random);
        let mut message = [0; INIT_NOISE_BYTES];
        noise.write(hello, &mut message);
        let mut initiator = Initiator {
            key: key.clone(),
            hello: *hello,
            noise,
            proof,
            message,
            datagram: [0; INIT_BYTES],
        };
        initiator.build([0; COOKIE_BYTES]);
        initiator
    }

    fn build(&mut self, cookie: [u8; COOKIE_BYTES]) {
        let header = HandshakeHeader {
            kind: Kind::Init,
            session: self.hello.session,
            version: VERSION,
        };
        let noise = &self.message;
        InitParts {
            header,
            proof: self.proof,
            noise,
            cookie,
        }
        .write(&mut Writer::new(&mut self.datagram));
        self.key.sign(&mut self.datagram);
    }

    /// The public key of the responder, once its Response was accepted; `None` if both prove the cluster
    /// key alone.
    pub fn peer(&self) -> Option<PublicKey> {
        self.noise.peer()
    }

    /// The Init to send, and to repeat until it is answered.
    pub fn datagram(&self) -> &[u8] {
        &self.datagram
    }

    /// The responder wants its cookie first: [`datagram`](Initiator::datagram) contains it from now on.
    ///
    /// # Errors
    /// It is not a Cookie for this handshake; nothing has changed.
    pub fn on_cookie(&mut self, datagram: &[u8]) -> Result<(), HandshakeError> {
        let header = check_outside(&self.key, datagram)?;
        let parts = CookieParts::read(datagram)?;
        if header.session != self.hello.session {
            return Err(HandshakeError::NotThisHandshake);
        }
        self.build(parts.cookie);
        Ok(())
    }

    /// The responder's Hello and the session's keys (there is no session where who is there was only
    /// [asked](Hello::is_question)). Who made this Response has
    /// the cluster key and has seen this very Init: the keys may be used at once.
    ///
    /// # Errors
    /// It is not the Response to this handshake: the right one can still come. Or
    /// it is, but the node does not fit ([`WrongPeer`](HandshakeError::WrongPeer),
    /// [`WrongWire`](HandshakeError::WrongWire), [`WrongDestination`](HandshakeError::WrongDestination)):
    /// this handshake is over.
    pub fn on_response(&mut self, datagram: &[u8]) -> Result<(Hello, SessionKeys), HandshakeError> {
        let header = check_outside(&self.key, datagram)?;
        let parts = ResponseParts::read(datagram)?;
        if header.session != self.hello.session {
            return Err(HandshakeError::NotThisHandshake);
        }
        let hello = self
            .noise
            .read(parts.noise)
            .ok_or(HandshakeError::NotThisHandshake)?;
        hello.check(&self.hello.from, self.hello.wire)?;
        if hello.from != self.hello.to && !self.hello.is_question() {
            let answered = hello.from;
            return Err(HandshakeError::WrongPeer { answered });
        }
        Ok((hello, self.noise.keys(&self.hello, &hello)))
    }
}

/// The end that answers.
pub struct Responder {
    key: ClusterKey,
    hello: Hello,
    noise: Noise,
}

impl Responder {
    /// Reads an Init. Where the cluster key is all that is shown, this is symmetric cryptography
    /// only, a few microseconds, and the public-key work is [`respond`](Responder::respond)'s;
    /// otherwise a third of that work is done here: when many knock, the caller checks the cookie
    /// before. Before answering, it checks the Hello ([`Hello::check`]), who calls
    /// ([`peer`](Responder::peer)) and, when something is at stake, the cookie.
    ///
    /// An Init can be recorded and sent again by anyone: the caller must not give
    /// up a session or bundle for it before the first packet under the new keys
    /// has been opened.
    ///
    /// # Errors
    /// It is no Init, of another key or version, or meant for another node's key.
    pub fn read(
        key: &ClusterKey,
        identity: &Identity,
        datagram: &[u8],
        random: &mut Random,
    ) -> Result<(Hello, Responder), HandshakeError> {
        let header = check_outside(key, datagram)?;
        let parts = InitParts::read(datagram)?;
        let (private, failure) = match parts.proof {
            Proof::ClusterKey => (None, HandshakeError::WrongKey),
            Proof::NamedKey => (Some(identity.named_key(key)), HandshakeError::NotThisKey),
            Proof::OwnKey => {
                let own = identity.own_key().ok_or(HandshakeError::NotThisKey)?;
                (Some(own), HandshakeError::NotThisKey)
            }
        };
        let private = private.as_ref();
        let mut noise = Noise::new(key, parts.proof, &Side::Responder { private }, random);
        let message = &parts.noise[..parts.proof.init_noise_bytes()];
        let hello = noise.read(message).ok_or(failure)?;
        if hello.session != header.session {
            return Err(WireError::BadValue.into());
        }
        let key = key.clone();
        Ok((hello, Responder { key, hello, noise }))
    }

    /// The public key of the Init's maker; `None` if it proves the cluster key alone. The caller
    /// compares it with that of the node whose name is in the Hello.
    pub fn peer(&self) -> Option<PublicKey> {
        self.noise.peer()
    }

    /// The Response saying `hello`, and the session's keys.
    pub fn respond(mut self, hello: &Hello) -> (Vec<u8>, SessionKeys) {
        let mut noise = [0; RESPONSE_NOISE_BYTES];
        self.noise.write(hello, &mut noise);
        let header = HandshakeHeader {
            kind: Kind::Response,
            session: self.hello.session,
            version: VERSION,
        };
        let mut datagram = vec![0; RESPONSE_BYTES];
        ResponseParts {
            header,
            noise: &noise,
        }
        .write(&mut Writer::new(&mut datagram));
        self.key.sign(&mut datagram);
        (datagram, self.noise.keys(hello, &self.hello))
    }
}
