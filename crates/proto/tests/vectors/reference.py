#!/usr/bin/env python3
"""Writes handshake.hex, identity.hex, packets.hex and relayed.hex anew, from docs/protocol.md alone.

A second implementation of the handshake and of sealing, in another language and
with other libraries (`pip install cryptography`), so that the vectors do not only
say that the Rust code agrees with itself. Only the ephemeral keys are derived as
the Rust code does, to be reproducible from its seeds.
"""

import hashlib
import hmac
import pathlib

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

HERE = pathlib.Path(__file__).parent


def mac(key, data, digest="sha256"):
    return hmac.new(key, data, digest).digest()


def hkdf_expand(prk, info, length):
    out, block = b"", b""
    for i in range(1, 9):
        block = mac(prk, block + info + bytes([i]))
        out += block
    return out[:length]


def be(value, length):
    return value.to_bytes(length, "big")


# ---- section 3: keys of the cluster ----

CLUSTER_KEY = bytes(range(32))
PRK = mac(b"tabane", CLUSTER_KEY)
PSK = hkdf_expand(PRK, b"tabane psk", 32)
MAC_KEY = hkdf_expand(PRK, b"tabane mac", 32)


def named_key(name):
    return hkdf_expand(PRK, b"tabane node " + name, 32)


# ---- Noise_…_25519_ChaChaPoly_BLAKE2s ----


class Symmetric:
    def __init__(self, name, prologue):
        self.h = hashlib.blake2s(name).digest() if len(name) > 32 else name.ljust(32, b"\0")
        self.ck = self.h
        self.mix_hash(prologue)

    def mix_hash(self, data):
        self.h = hashlib.blake2s(self.h + data).digest()

    def hkdf(self, data, count):
        temp, out = mac(self.ck, data, "blake2s"), [b""]
        for i in range(1, count + 1):
            out.append(mac(temp, out[-1] + bytes([i]), "blake2s"))
        return out[1:]

    def set_key(self, key):
        self.key, self.n = key, 0

    def mix_key(self, data):
        self.ck, key = self.hkdf(data, 2)
        self.set_key(key)

    def mix_key_and_hash(self, data):
        self.ck, temp_h, key = self.hkdf(data, 3)
        self.mix_hash(temp_h)
        self.set_key(key)

    def seal(self, data):
        nonce = bytes(4) + self.n.to_bytes(8, "little")
        sealed = ChaCha20Poly1305(self.key).encrypt(nonce, data, self.h)
        self.n += 1
        self.mix_hash(sealed)
        return sealed


def keystream(seed, length):
    return Cipher(algorithms.ChaCha20(seed, bytes(16)), None).encryptor().update(bytes(length))


def ephemeral(seed):
    """What the Rust code draws from `Random::from_seed(seed)`: two forks, then the key."""
    for _ in range(3):
        seed = keystream(seed, 32)
    return seed


def public(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def dh(secret, other):
    return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(other))


# ---- section 4: the handshake ----


def hello(wire, aes, session, bundle, peer_bundle, buffer, sender, receiver):
    names = b"".join(bytes([len(n)]) + n.ljust(63, b"\0") for n in (sender, receiver))
    fields = be(2, 2) + bytes([wire, aes]) + be(session, 4) + be(bundle, 8) + be(peer_bundle, 8)
    return fields + be(buffer, 4) + be(FEATURES, 8) + names + be(0, 2) + bytes(62)


def header(kind, session):
    return bytes([kind, 0]) + be(session, 4) + be(2, 2)


def signed(body):
    return body + mac(MAC_KEY, body)


INITIATOR_SEED, RESPONDER_SEED = bytes([1] * 32), bytes([2] * 32)
SESSION_A, SESSION_B = 0xA1A2A3A4, 0xB1B2B3B4
COOKIE = bytes(range(0xC0, 0xE0))
FEATURES = 0x8000000000000005
PRIVATE_A, PRIVATE_B = bytes([0x41] * 32), bytes([0x42] * 32)


class Handshake:
    """Between n0 and node-one. With `proof` 1 or 2 both show keys, the responder its own or that of its name."""

    def __init__(self, wire, aes_a, aes_b, proof=0):
        a, b = ephemeral(INITIATOR_SEED), ephemeral(RESPONDER_SEED)
        self.secrets = a, b
        bundle_a, bundle_b = 0x0A0B0C0D0E0F0102, 0x1A1B1C1D1E1F1112
        self.hello_a = hello(wire, aes_a, SESSION_A, bundle_a, 0, 8 << 20, b"n0", b"node-one")
        self.hello_b = hello(wire, aes_b, SESSION_B, bundle_b, bundle_a, 4 << 20, b"node-one", b"n0")

        prologue = b"tabane\x00\x02" + bytes([proof])
        static_a, static_b = PRIVATE_A, PRIVATE_B if proof == 1 else named_key(b"node-one")
        self.statics = static_a, static_b

        def ephemeral_token(key):
            s.mix_hash(public(key))
            s.mix_key(public(key))
            return public(key)

        if proof == 0:
            s = Symmetric(b"Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s", prologue)
            s.mix_key_and_hash(PSK)
            self.noise_a = ephemeral_token(a) + s.seal(self.hello_a) + bytes(48)
            self.noise_b = ephemeral_token(b)
            s.mix_key(dh(a, public(b)))
            self.noise_b += s.seal(self.hello_b)
        else:
            s = Symmetric(b"Noise_IKpsk1_25519_ChaChaPoly_BLAKE2s", prologue)
            s.mix_hash(public(static_b))
            self.noise_a = ephemeral_token(a)
            s.mix_key(dh(a, public(static_b)))
            self.noise_a += s.seal(public(static_a))
            s.mix_key(dh(static_a, public(static_b)))
            s.mix_key_and_hash(PSK)
            self.noise_a += s.seal(self.hello_a)
            self.noise_b = ephemeral_token(b)
            s.mix_key(dh(b, public(a)))
            s.mix_key(dh(b, public(static_a)))
            self.noise_b += s.seal(self.hello_b)
        self.h = s.h
        self.k1, self.k2 = s.hkdf(b"", 2)

        head = header(1, SESSION_A) + bytes([proof])
        self.init = signed(head + self.noise_a + bytes(32))
        self.cookie = signed(header(3, SESSION_A) + COOKIE)
        self.init_with_cookie = signed(head + self.noise_a + COOKIE)
        self.response = signed(header(2, SESSION_A) + self.noise_b)

        # Section 5.
        self.prk = {"i": mac(self.h, self.k1), "r": mac(self.h, self.k2)}


# ---- section 6: packets ----


def packet(prk, cipher, session, path, number, payload):
    head = bytes([0x10, path]) + be(session, 4) + be(number, 6)
    if cipher == "plain":
        return head + payload + hkdf_expand(prk, b"tabane plain token", 8)
    iv = hkdf_expand(prk, b"tabane iv", 12)
    nonce = bytes(x ^ y for x, y in zip(iv, bytes(5) + bytes([path]) + be(number, 6)))
    if cipher == "aes-128-gcm":
        aead = AESGCM(hkdf_expand(prk, b"tabane aes-128-gcm key", 16))
    else:
        aead = ChaCha20Poly1305(hkdf_expand(prk, b"tabane chacha20-poly1305 key", 32))
    return head + aead.encrypt(nonce, payload, head)


# ---- files ----


def lines(data, comment=""):
    """Hex, 32 bytes a line, the comment on the first."""
    out = []
    for at in range(0, len(data), 32):
        out.append(data[at : at + 32].hex() + (f"   # {comment}" if comment and at == 0 else ""))
    return out


def section(name, *parts):
    out = [f"{name}:"]
    for part in parts:
        data, comment = part if isinstance(part, tuple) else (part, "")
        out += lines(data, comment)
    return "\n".join(out) + "\n\n"


def datagram(data, *lengths_and_names):
    parts, at = [], 0
    for length, name in lengths_and_names:
        parts.append((data[at : at + length], name))
        at += length
    assert at == len(data)
    return parts


def write_handshake():
    x = Handshake(0, 1, 1)
    noise = (32, "ephemeral key"), (228, "Hello, sealed"), (16, "tag")
    init = (8, "header"), (1, "proof"), *noise, (48, "zeros"), (32, "cookie"), (32, "MAC")
    fields = (
        (2, "version"), (1, "wire: encrypted"), (1, "aes: fast here"), (4, "session"), (8, "bundle"),
        (8, "peer bundle"), (4, "receive buffer"), (8, "features"), (1, "length"), (63, "from"), (1, "length"),
        (63, "to"), (2, "length of the extension"), (62, "extension"),
    )
    text = "# A handshake between n0 and node-one, docs/protocol.md sections 3 to 5. Written by reference.py.\n\n"
    text += section("cluster key", CLUSTER_KEY) + section("psk", PSK) + section("mac key", MAC_KEY)
    text += section("initiator seed", INITIATOR_SEED) + section("responder seed", RESPONDER_SEED)
    text += section("initiator ephemeral secret", x.secrets[0])
    text += section("responder ephemeral secret", x.secrets[1])
    text += section("initiator hello", *datagram(x.hello_a, *fields))
    text += section("responder hello", *datagram(x.hello_b, *fields))
    text += section("init", *datagram(x.init, *init))
    text += "# The responder wants its cookie first (any 32 bytes will do for the initiator).\n"
    text += section("cookie", *datagram(x.cookie, (8, "header"), (32, "cookie"), (32, "MAC")))
    text += section("init with cookie", *datagram(x.init_with_cookie, *init))
    text += section("response", *datagram(x.response, (8, "header"), *noise, (32, "MAC")))
    text += "# What a node answers to an Init of another version that asks for the same session.\n"
    text += section("version answer", *datagram(signed(header(2, SESSION_A)), (8, "header"), (32, "MAC")))
    text += "# A question that needs no session, in 64 bytes, and its answer: the token stands where the session does.\n"
    text += section("echo", *datagram(signed(header(4, SESSION_A)) + bytes(24), (8, "header"), (32, "MAC"), (24, "padding")))
    text += section("echo reply", *datagram(signed(header(5, SESSION_A)), (8, "header"), (32, "MAC")))
    text += section("h", x.h) + section("k1", x.k1) + section("k2", x.k2)
    for way, name in (("i", "initiator to responder"), ("r", "responder to initiator")):
        prk = x.prk[way]
        text += section(f"{name}: prk", prk)
        text += section(f"{name}: aes-128-gcm key", hkdf_expand(prk, b"tabane aes-128-gcm key", 16))
        text += section(f"{name}: iv", hkdf_expand(prk, b"tabane iv", 12))
    (HERE / "handshake.hex").write_text(text.rstrip() + "\n")


def write_identity():
    text = (
        "# The handshake of handshake.hex (its keys, seeds and Hellos), but both ends show key pairs,\n"
        "# docs/protocol.md section 4.3. Written by reference.py.\n\n"
    )
    text += section("initiator private", PRIVATE_A) + section("responder private", PRIVATE_B)
    text += section("responder named private", named_key(b"node-one"))
    noise = (32, "ephemeral key"), (228, "Hello, sealed"), (16, "tag")
    init = (32, "ephemeral key"), (48, "public key, sealed"), (228, "Hello, sealed"), (16, "tag")
    init = (8, "header"), (1, "proof"), *init, (32, "cookie"), (32, "MAC")
    for proof, name in (1, "own key"), (2, "named key"):
        x = Handshake(0, 1, 1, proof)
        text += section(f"{name}: initiator public", public(x.statics[0]))
        text += section(f"{name}: responder public", public(x.statics[1]))
        text += section(f"{name}: init", *datagram(x.init, *init))
        text += section(f"{name}: response", *datagram(x.response, (8, "header"), *noise, (32, "MAC")))
        text += section(f"{name}: h", x.h) + section(f"{name}: k1", x.k1) + section(f"{name}: k2", x.k2)
        data = packet(x.prk["i"], "aes-128-gcm", SESSION_B, 0, 0, bytes.fromhex("03deadbeef"))
        text += section(f"{name}: packet", *datagram(data, (12, "header"), (5, "a Probe"), (16, "tag")))
    (HERE / "identity.hex").write_text(text.rstrip() + "\n")


def write_packets():
    text = (
        "# Packets of sessions like that of handshake.hex, but for wire mode and cipher: the Hellos\n"
        "# differ in `wire` and `aes` only. Written by reference.py.\n\n"
    )
    payload = bytes.fromhex("03deadbeef") + bytes.fromhex("010000000000000005006400c0ffee") + bytes(40)
    text += section("payload", (payload[:5], "a Probe"), (payload[5:20], "an Ack"), (payload[20:], "Padding"))
    for cipher, wire, aes_b, trailer in (
        ("aes-128-gcm", 0, 1, ((16, "tag"),)),
        ("chacha20-poly1305", 0, 0, ((16, "tag"),)),
        ("plain", 1, 1, ((8, "token"),)),
    ):
        x = Handshake(wire, 1, aes_b)
        text += section(f"{cipher}: response", x.response)
        for way, session, name in (("i", SESSION_B, "initiator to responder"), ("r", SESSION_A, "responder to initiator")):
            for path, number in ((0, 0), (5, 0x0123456789AB)):
                data = packet(x.prk[way], cipher, session, path, number, payload)
                what = f"{cipher}: {name}, path {path}, number {number}"
                text += section(what, *datagram(data, (12, "header"), (len(payload), "records"), *trailer))
    (HERE / "packets.hex").write_text(text.rstrip() + "\n")


# ---- section 7.13: relays ----


def node_id(name):
    return hashlib.sha256(name).digest()[:8]


def relayed(at, names, data):
    body = bytes([at, len(names)]) + b"".join(node_id(name) for name in names) + data
    return b"\x50" + be(len(body), 2) + body


def write_relayed():
    text = (
        "# A packet of the session of handshake.hex from n0 to node-one, path 8, on its way over n2 and n3: the record\n"
        "# of each step, which lies in a packet of the two neighbours' own session. Written by reference.py.\n\n"
    )
    names = [b"n0", b"n2", b"n3", b"node-one"]
    for name in names:
        text += section(name.decode(), (node_id(name), "SHA-256 of the name, its first 8 bytes"))
    data = packet(Handshake(0, 1, 1).prk["i"], "aes-128-gcm", SESSION_B, 8, 0, bytes.fromhex("03deadbeef"))
    text += section("datagram", *datagram(data, (12, "header"), (5, "a Probe"), (16, "tag")))
    ways = [(8, name.decode()) for name in names]
    for at in 1, 2, 3:
        fields = (1, "type"), (2, "length"), (1, "at"), (1, "count"), *ways, (len(data), "the datagram")
        step = f"{names[at - 1].decode()} to {names[at].decode()}"
        text += section(step, *datagram(relayed(at, names, data), *fields))
    (HERE / "relayed.hex").write_text(text.rstrip() + "\n")


write_handshake()
write_identity()
write_packets()
write_relayed()
