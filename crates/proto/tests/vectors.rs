//! The bytes of `docs/protocol.md`: every vector is parsed and written.
//!
//! `vectors/records` is written by hand, `vectors/handshake.hex`, `vectors/identity.hex`,
//! `vectors/packets.hex`, `vectors/relayed.hex` by a second implementation (`vectors/reference.py`).
//! `vectors/version1.hex` is what version 1 of it wrote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tabane_proto::crypto::{
    ClusterKey, ECHO_BYTES, HandshakeError, Identity, Initiator, PublicKey, Responder, SessionKeys,
    echo, echo_reply, echo_token, public_key,
};
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::op::OpLimits;
use tabane_proto::wire::{
    ACK_WORDS_MAX, Ack, CookieParts, HEADER_BYTES, HandshakeHeader, Header, Hello, InitParts, Kind,
    LinkVerdict, Measure, Measured, Member, MemberRecord, MembersDigest, Name, NodeId, Reach,
    Reader, Record, Records, RefusedWhy, RelayRecord, ResponseParts, Steps, StreamSegment,
    SurveyRecord, Switches, UnitClass, UnitSegment, VERSION, WireMode, Witness, Writer, advance,
    relayed_data, write_relayed,
};
use tabane_proto::{
    Event, LinkConfig, LinkId, Node, NodeConfig, Random, Refusal, RelayConfig, Time,
};

/// The named byte strings of one file.
struct Vectors {
    path: PathBuf,
    sections: BTreeMap<String, Vec<u8>>,
}

impl Vectors {
    fn load(name: &str) -> Vectors {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/vectors")
            .join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let mut sections: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut current = String::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(name) = line.strip_suffix(':') {
                current = name.to_owned();
                sections.insert(current.clone(), Vec::new());
            } else if !line.is_empty() {
                let section = sections.get_mut(&current).expect("bytes before any name");
                section.extend(hex(line));
            }
        }
        Vectors { path, sections }
    }

    fn get(&self, name: &str) -> &[u8] {
        self.sections
            .get(name)
            .unwrap_or_else(|| panic!("{:?} has no {name:?}", self.path))
    }

    fn array<const N: usize>(&self, name: &str) -> [u8; N] {
        self.get(name).try_into().expect(name)
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| {
            c.to_digit(16)
                .unwrap_or_else(|| panic!("{c:?} in {text:?}")) as u8
        })
        .collect();
    assert_eq!(digits.len() % 2, 0, "{text:?}");
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

fn ack(path: u8, largest: u64, delay_us: u16, arrived_us: u32, known: &[u64]) -> Record<'static> {
    let mut words = [0; ACK_WORDS_MAX];
    words[..known.len()].copy_from_slice(known);
    Record::Ack(Ack {
        path,
        largest,
        delay_us,
        arrived_us,
        word_count: known.len() as u8,
        words,
    })
}

fn link_state(generation: u32, verdict: LinkVerdict, witness: Witness) -> Record<'static> {
    Record::LinkState {
        path: 1,
        generation,
        verdict,
        witness,
    }
}

fn stream(id: u64, service: Option<u32>, offset: u64, fin: bool, data: &[u8]) -> Record<'_> {
    Record::Stream(StreamSegment {
        id,
        offset,
        fin,
        held: false,
        service,
        data,
    })
}

/// The same, and more waits for the window.
fn held(record: Record<'_>) -> Record<'_> {
    let Record::Stream(segment) = record else {
        panic!("{record:?} is no piece of a stream");
    };
    Record::Stream(StreamSegment {
        held: true,
        ..segment
    })
}

/// What each file of `vectors/records` says.
fn records() -> Vec<(&'static str, Record<'static>)> {
    let token = 0xdead_beef;
    let (code, id) = (42, 6);
    vec![
        ("padding", Record::Padding),
        ("ack", ack(2, 0x12_3456_7890, 250, 1_000_000, &[7, 1 << 63])),
        ("ack-first", ack(7, 2, u16::MAX, u32::MAX, &[2])),
        ("ack-no-words", ack(0, 0, 0, 0, &[])),
        (
            "extension",
            Record::Extension {
                code: 0x7f,
                data: &[1, 2, 3],
            },
        ),
        (
            "extension-content",
            Record::Extension {
                code: 0x40,
                data: &[],
            },
        ),
        (
            "sent",
            Record::Sent {
                path: 1,
                next_number: (1 << 48) - 1,
            },
        ),
        ("probe", Record::Probe { token }),
        (
            "probe-reply",
            Record::ProbeReply {
                token,
                datagram_bytes: 8972,
            },
        ),
        (
            "link-state-down",
            link_state(5, LinkVerdict::Down, Witness::ArrivalSkew),
        ),
        (
            "link-state-up",
            link_state(6, LinkVerdict::Up, Witness::ProbesAnswered),
        ),
        (
            "link-state-ack",
            Record::LinkStateAck {
                path: 1,
                generation: 5,
            },
        ),
        ("stream-open", stream(id, Some(7), 0, false, b"hello")),
        (
            "stream-open-fin",
            stream(1, Some(0x0102_0304), 0, true, b""),
        ),
        ("stream", stream(id, None, 0x01_2345_6789, false, b"abc")),
        ("stream-fin", stream(id, None, 5, true, b"")),
        (
            "stream-open-held",
            held(stream(id, Some(7), 0, false, b"hello")),
        ),
        (
            "stream-held",
            held(stream(id, None, (1 << 16) - 3, false, b"abc")),
        ),
        (
            "stream-reset",
            Record::StreamReset {
                id,
                code,
                final_offset: 70_000,
            },
        ),
        (
            "stream-stop",
            Record::StreamStop {
                id: 1 << 30,
                code: u32::MAX,
            },
        ),
        (
            "stream-window",
            Record::StreamWindow {
                id,
                limit: 2 << 20,
                window: 1 << 20,
            },
        ),
        (
            "bundle-window",
            Record::BundleWindow {
                limit: 1 << 62,
                window: 16_383,
            },
        ),
        (
            "message-window",
            Record::MessageWindow {
                limit: 63,
                window: 63,
            },
        ),
        ("close", Record::Close { code: 1 }),
        (
            "grant",
            Record::Grant {
                path: 1,
                kb_per_s: 62_500,
            },
        ),
        (
            "waited",
            Record::Waited {
                path: 7,
                queue_us: 258,
            },
        ),
        (
            "frame",
            Record::Unit(UnitSegment {
                class: UnitClass::Frame,
                flow: 9,
                sequence: u32::MAX - 1,
                offset: 1400,
                total: 65_562,
                data: &[1, 2, 3, 4],
            }),
        ),
        (
            "message",
            Record::Unit(UnitSegment {
                class: UnitClass::Message,
                flow: 0x8000_0001,
                sequence: 3,
                offset: 0,
                total: 11,
                data: b"hi\x11\x22\x33\x44\x55\x66\x77\x88\x01",
            }),
        ),
    ]
}

fn switches() -> Switches {
    let mut of = [None; LINKS_MAX];
    (of[0], of[2]) = (Some(3), Some(258));
    let survey = 1_764_230_400_000;
    Switches { survey, of }
}

/// The same of the records of relays, which are extensions.
fn relay_records() -> Vec<(&'static str, RelayRecord<'static>)> {
    let nodes = [0x0102_0304_0506_0708, 9, 0xa0 << 56, 11, 12].map(NodeId);
    let steps = |count: usize, at| Steps::new(&nodes[..count], at).unwrap();
    let reach = |unwilling, all_but, switches, nodes: &[u64]| {
        RelayRecord::Reach(Reach {
            node: NodeId(0x0102_0304_0506_0708),
            version: 258,
            links: 0b101,
            unwilling,
            all_but,
            switches,
            nodes: nodes.iter().copied().map(NodeId).collect(),
        })
    };
    let datagram = b"\x10as short as can be!";
    let refused = |count, at, by, why| RelayRecord::Refused {
        steps: steps(count, at),
        by,
        why,
    };
    vec![
        (
            "relayed",
            RelayRecord::Relayed {
                steps: steps(3, 1),
                datagram,
            },
        ),
        (
            "relayed-far",
            RelayRecord::Relayed {
                steps: steps(5, 4),
                datagram,
            },
        ),
        ("reach", reach(false, false, None, &[9, 0xa0 << 56])),
        ("reach-all-but", reach(true, true, None, &[11])),
        (
            "reach-switches",
            reach(false, false, Some(switches()), &[9]),
        ),
        (
            "sought",
            RelayRecord::Sought {
                name: Name::new("n-1.rack").unwrap(),
            },
        ),
        ("refused-unreached", refused(5, 1, 3, RefusedWhy::Unreached)),
        ("refused-unwilling", refused(3, 0, 1, RefusedWhy::Unwilling)),
    ]
}

#[test]
fn every_record_of_relays_is_read_and_written_as_its_vector_says() {
    for (name, record) in relay_records() {
        let read = |code, data: &[u8]| {
            assert!(RelayRecord::is_one(code), "{name}");
            assert_eq!(
                RelayRecord::read(code, data).as_ref(),
                Ok(&record),
                "{name}: read"
            );
        };
        check_extension(name, read, |w| record.write(w));
    }
}

/// The same of the records about members.
fn member_records() -> Vec<(&'static str, MemberRecord)> {
    let mut addresses = [None; LINKS_MAX];
    addresses[0] = Some("10.77.0.1:7577".parse().unwrap());
    addresses[3] = Some("[fd00::1]:7578".parse().unwrap());
    let member = Member {
        name: Name::new("n-1.rack").unwrap(),
        incarnation: 1_700_000_000_000,
        age_s: 3,
        leaves: false,
        addresses,
        inside: Some(("10.99.0.1".parse().unwrap(), 24)),
        public: Some([7; 32]),
    };
    let leaves = Member {
        name: Name::new("n9").unwrap(),
        incarnation: 258,
        age_s: 0,
        leaves: true,
        addresses: [None; LINKS_MAX],
        inside: None,
        public: None,
    };
    let digest = MembersDigest {
        count: 3,
        sum: 0x0102_0304_0506_0708,
    };
    vec![
        ("member", MemberRecord::Member(Box::new(member))),
        ("member-leaves", MemberRecord::Member(Box::new(leaves))),
        ("members-digest", MemberRecord::Digest(digest)),
    ]
}

/// The same of the records of surveys.
fn survey_records() -> Vec<(&'static str, SurveyRecord)> {
    let token = 0x1234_5678;
    let measured = |outcome| SurveyRecord::Measured { token, outcome };
    let how = Measure {
        link: LinkId(1),
        probes: 8,
        datagram_bytes: 1472,
        pause_us: 12_500,
    };
    let to = NodeId(0x0102_0304_0506_0708);
    vec![
        ("measure", SurveyRecord::Measure { token, to, how }),
        ("measured", measured(Measured::Least { ns: 305_419 })),
        ("measured-busy", measured(Measured::Busy)),
        ("measured-unreached", measured(Measured::Unreached)),
        ("switches", SurveyRecord::Switches(switches())),
    ]
}

/// The data of the one extension that a vector is, and what `write` makes of the record are the same.
fn check_extension(name: &str, read: impl FnOnce(u8, &[u8]), write: impl FnOnce(&mut Writer<'_>)) {
    let vectors = Vectors::load(&format!("records/{name}.hex"));
    let bytes = vectors.get("record");
    let records: Vec<_> = Records::new(bytes).collect();
    let [Ok(Record::Extension { code, data })] = records[..] else {
        panic!("{name}: {records:?} is not one extension");
    };
    read(code, data);
    let mut written = vec![0xee; bytes.len()];
    let mut w = Writer::new(&mut written);
    write(&mut w);
    assert_eq!(w.room(), 0, "{name}: length");
    assert_eq!(written, bytes, "{name}: written");
}

#[test]
fn every_record_about_members_is_read_and_written_as_its_vector_says() {
    for (name, record) in member_records() {
        let read = |code, data: &[u8]| {
            assert!(MemberRecord::is_one(code), "{name}");
            assert_eq!(
                MemberRecord::read(code, data).as_ref(),
                Ok(&record),
                "{name}: read"
            );
        };
        check_extension(name, read, |w| record.write(w));
    }
}

#[test]
fn every_record_of_surveys_is_read_and_written_as_its_vector_says() {
    for (name, record) in survey_records() {
        let read = |code, data: &[u8]| {
            assert!(SurveyRecord::is_one(code), "{name}");
            assert_eq!(SurveyRecord::read(code, data), Ok(record), "{name}: read");
        };
        check_extension(name, read, |w| record.write(w));
    }
}

#[test]
fn every_record_is_read_and_written_as_its_vector_says() {
    for (name, record) in records() {
        let vectors = Vectors::load(&format!("records/{name}.hex"));
        let bytes = vectors.get("record");
        let read: Vec<_> = Records::new(bytes).collect();
        assert_eq!(read, [Ok(record)], "{name}: read");

        let mut written = vec![0xee; record.encoded_len()];
        let mut w = Writer::new(&mut written);
        record.write(&mut w);
        assert_eq!(w.room(), 0, "{name}: length");
        // As many zeros may follow the one that Padding is.
        let padded = record == Record::Padding;
        let expected = if padded { &bytes[..1] } else { bytes };
        assert_eq!(written, expected, "{name}: written");
    }
}

#[test]
fn every_vector_is_checked_and_every_type_has_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/records");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let names = records().into_iter().map(|(name, _)| name);
    let names = names.chain(relay_records().into_iter().map(|(name, _)| name));
    let names = names.chain(member_records().into_iter().map(|(name, _)| name));
    let names = names.chain(survey_records().into_iter().map(|(name, _)| name));
    let mut known: Vec<String> = names.map(|name| format!("{name}.hex")).collect();
    known.sort();
    assert_eq!(files, known);

    let mut types: Vec<u8> = files
        .iter()
        .map(|file| Vectors::load(&format!("records/{file}")).get("record")[0])
        .collect();
    types.sort_unstable();
    types.dedup();
    let pieces = [0x10, 0x11, 0x12, 0x13, 0x14, 0x16, 0x20, 0x21];
    // Of extensions, the first that is content, the last that is not, and those of relays, members and surveys.
    let extensions = [
        0x40, 0x50, 0x51, 0x52, 0x53, 0x54, 0x60, 0x68, 0x69, 0x6a, 0x7f,
    ];
    let all: Vec<u8> = (0..=0x0e).chain(pieces).chain(extensions).collect();
    assert_eq!(types, all);
}

/// Both ends as `reference.py` has them.
struct Ends {
    key: ClusterKey,
    initiator: Initiator,
    random: Random,
    hello: Hello,
}

fn ends(handshake: &Vectors, wire: WireMode, responder_aes: bool) -> Ends {
    let hello = |name| Hello::read(&mut Reader::new(handshake.get(name))).unwrap();
    let key = ClusterKey::new(handshake.array("cluster key"));
    let asking = Hello {
        wire,
        ..hello("initiator hello")
    };
    let mut random = Random::from_seed(handshake.array("initiator seed"));
    Ends {
        initiator: Initiator::new(
            &key,
            &Identity::shared(asking.from),
            None,
            &asking,
            &mut random,
        ),
        key,
        random: Random::from_seed(handshake.array("responder seed")),
        hello: Hello {
            wire,
            cipher_aes: responder_aes,
            ..hello("responder hello")
        },
    }
}

impl Ends {
    /// The Response and the keys of initiator and responder.
    fn shake(mut self) -> (Vec<u8>, SessionKeys, SessionKeys) {
        let init = self.initiator.datagram();
        let me = Identity::shared(self.hello.from);
        let (_, responder) = Responder::read(&self.key, &me, init, &mut self.random).unwrap();
        let (response, theirs) = responder.respond(&self.hello);
        let (answered, ours) = self.initiator.on_response(&response).unwrap();
        assert_eq!(answered, self.hello);
        (response, ours, theirs)
    }
}

#[test]
fn hellos_are_written_as_their_vectors_say() {
    let vectors = Vectors::load("handshake.hex");
    for (name, bundle) in [
        ("initiator hello", 0x0a0b_0c0d_0e0f_0102),
        ("responder hello", 0x1a1b_1c1d_1e1f_1112),
    ] {
        let bytes = vectors.get(name);
        let hello = Hello::read(&mut Reader::new(bytes)).unwrap();
        assert_eq!((hello.version, hello.bundle), (VERSION, bundle));
        let mut written = vec![0xee; bytes.len()];
        hello.write(&mut Writer::new(&mut written));
        assert_eq!(written, bytes);
    }
}

#[test]
fn the_handshake_is_byte_for_byte_that_of_its_vector() {
    let vectors = Vectors::load("handshake.hex");
    let mut ends = ends(&vectors, WireMode::Encrypted, true);
    assert_eq!(ends.initiator.datagram(), vectors.get("init"));
    ends.initiator.on_cookie(vectors.get("cookie")).unwrap();
    assert_eq!(ends.initiator.datagram(), vectors.get("init with cookie"));
    let (response, _, _) = ends.shake();
    assert_eq!(response, vectors.get("response"));
}

#[test]
fn handshake_datagrams_are_taken_apart_and_put_together_again() {
    let vectors = Vectors::load("handshake.hex");
    let header = |kind| HandshakeHeader {
        kind,
        session: 0xa1a2_a3a4,
        version: VERSION,
    };
    let mut written = [0xee; 400];
    let mut check = |name: &str, put: &dyn Fn(&mut Writer<'_>)| {
        let mut w = Writer::new(&mut written);
        put(&mut w);
        let len = w.len();
        let bytes = vectors.get(name);
        assert_eq!(written[..len], bytes[..bytes.len() - 32], "{name}");
    };
    let init = InitParts::read(vectors.get("init with cookie")).unwrap();
    assert_eq!(init.header, header(Kind::Init));
    check("init with cookie", &|w| init.write(w));
    let response = ResponseParts::read(vectors.get("response")).unwrap();
    assert_eq!(response.header, header(Kind::Response));
    check("response", &|w| response.write(w));
    let cookie = CookieParts::read(vectors.get("cookie")).unwrap();
    assert_eq!(cookie.header, header(Kind::Cookie));
    assert_eq!(cookie.cookie, init.cookie);
    check("cookie", &|w| cookie.write(w));
}

#[test]
fn a_question_without_a_session_and_its_answer_are_byte_for_byte_those_of_their_vectors() {
    let vectors = Vectors::load("handshake.hex");
    let key = ClusterKey::new(vectors.array("cluster key"));
    let token = 0xa1a2_a3a4;
    assert_eq!(echo(&key, token, 64), vectors.get("echo"));
    assert_eq!(echo_reply(&key, token), vectors.get("echo reply"));
    for name in ["echo", "echo reply"] {
        let datagram = vectors.get(name);
        assert_eq!(echo_token(&key, datagram), Ok(token));
        let other = ClusterKey::new([9; 32]);
        assert_eq!(echo_token(&other, datagram), Err(HandshakeError::WrongKey));
        for cut in 0..ECHO_BYTES {
            assert!(echo_token(&key, &datagram[..cut]).is_err(), "{name}: {cut}");
        }
        for bit in 0..ECHO_BYTES * 8 {
            let mut altered = datagram.to_vec();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert!(echo_token(&key, &altered).is_err(), "{name}: {bit}");
        }
    }
}

#[test]
fn the_handshake_with_key_pairs_is_byte_for_byte_that_of_its_vector() {
    let handshake = Vectors::load("handshake.hex");
    let vectors = Vectors::load("identity.hex");
    let theirs = public_key(&vectors.array("responder private"));
    for (name, knows) in [("own key", Some(theirs)), ("named key", None)] {
        let public = |end: &str| vectors.array::<32>(&format!("{name}: {end} public"));
        let mut ends = ends(&handshake, WireMode::Encrypted, true);
        let hello = |name: &str| Hello::read(&mut Reader::new(handshake.get(name))).unwrap();
        let identity = |end: &str| {
            let private = vectors.array(&format!("{end} private"));
            let name = hello(&format!("{end} hello")).from;
            Identity::new(name, Some(private), Some(public_key(&private))).unwrap()
        };
        let mut random = Random::from_seed(handshake.array("initiator seed"));
        let (a, asking) = (identity("initiator"), hello("initiator hello"));
        let mut initiator = Initiator::new(&ends.key, &a, knows, &asking, &mut random);
        let init = initiator.datagram();
        assert_eq!(init, vectors.get(&format!("{name}: init")));
        let b = identity("responder");
        let read = Responder::read(&ends.key, &b, init, &mut ends.random);
        let (heard, responder) = read.unwrap();
        assert_eq!(
            (heard, responder.peer()),
            (asking, Some(public("initiator")))
        );
        let (response, theirs) = responder.respond(&ends.hello);
        assert_eq!(response, vectors.get(&format!("{name}: response")));
        initiator.on_response(&response).unwrap();
        assert_eq!(initiator.peer(), Some::<PublicKey>(public("responder")));
        let mut packet = vectors.get(&format!("{name}: packet")).to_vec();
        let opened = theirs.open.open(&mut packet).unwrap();
        assert_eq!(opened, [3, 0xde, 0xad, 0xbe, 0xef]);
    }
}

/// A node of this version, named as the responder of the vectors.
fn node(key: [u8; 32]) -> Node {
    let link = LinkConfig {
        id: LinkId(0),
        address: "10.77.0.2:7577".parse().unwrap(),
        datagram_bytes_max: 1472,
    };
    let config = NodeConfig {
        name: "node-one".into(),
        keys: vec![key],
        private: None,
        public: None,
        wire: WireMode::Encrypted,
        cipher_aes: true,
        receive_buffer_bytes: 1 << 20,
        links: vec![link],
        op_limits: OpLimits::default(),
        features: 0,
        relay: RelayConfig::default(),
        guests: None,
        congestion: tabane_proto::CongestionControl::default(),
    };
    Node::new(Time::ZERO, config, [9; 32]).unwrap()
}

/// A node of version 1 meets one of this version: this one says so to its operator, and answers
/// what version 1 reads (its code: kind, a zero, its session, MAC; then it looks at the version
/// and says so to its operator).
#[test]
fn a_first_message_of_version_1_is_answered_with_our_version_in_its_form() {
    let vectors = Vectors::load("version1.hex");
    let handshake = Vectors::load("handshake.hex");
    let mut node = node(vectors.array("cluster key"));
    let from = "10.77.0.1:7577".parse().unwrap();
    for name in ["init", "init with cookie"] {
        let mut init = vectors.get(name).to_vec();
        node.handle_datagram(Time::ZERO, LinkId(0), from, &mut init);
        let theirs = 1;
        let why = Refusal::Handshake(HandshakeError::WrongVersion { theirs });
        let link = LinkId(0);
        assert_eq!(node.poll_event(), Some(Event::Refused { link, from, why }));
        let mut buffer = vec![0; 65_535];
        let answer = node
            .poll_transmit(Time::ZERO, &mut buffer)
            .expect("is answered");
        assert_eq!((answer.to, answer.bytes), (from, 40));
        assert_eq!(buffer[..40], *handshake.get("version answer"));
        assert!(node.poll_transmit(Time::ZERO, &mut buffer).is_none());
    }
}

#[test]
fn packets_are_sealed_and_opened_as_their_vectors_say() {
    let handshake = Vectors::load("handshake.hex");
    let vectors = Vectors::load("packets.hex");
    let payload = vectors.get("payload");
    for (cipher, wire, aes) in [
        ("aes-128-gcm", WireMode::Encrypted, true),
        ("chacha20-poly1305", WireMode::Encrypted, false),
        ("plain", WireMode::Plain, true),
    ] {
        let (response, ours, theirs) = ends(&handshake, wire, aes).shake();
        assert_eq!(response, vectors.get(&format!("{cipher}: response")));
        let ways = [
            ("initiator to responder", 0xb1b2_b3b4, &ours, &theirs),
            ("responder to initiator", 0xa1a2_a3a4, &theirs, &ours),
        ];
        for (way, session, from, to) in ways {
            for (path, number) in [(0, 0), (5, 0x0123_4567_89ab)] {
                let name = format!("{cipher}: {way}, path {path}, number {number}");
                let expected = vectors.get(&name);
                let mut packet = vec![0; HEADER_BYTES + payload.len() + from.trailer_bytes];
                let mut w = Writer::new(&mut packet);
                Header {
                    path,
                    session,
                    number,
                }
                .write(&mut w);
                w.put(payload);
                from.seal.seal(&mut packet);
                assert_eq!(packet, expected, "{name}: sealed");
                assert_eq!(
                    to.open.open(&mut packet).unwrap(),
                    payload,
                    "{name}: opened"
                );
            }
        }
    }
}

#[test]
fn the_payload_of_the_packets_is_three_records() {
    let vectors = Vectors::load("packets.hex");
    let read: Vec<_> = Records::new(vectors.get("payload")).collect();
    let token = 0xdead_beef;
    assert_eq!(
        read,
        [
            Ok(Record::Probe { token }),
            Ok(ack(0, 5, 100, 0x00c0_ffee, &[])),
            Ok(Record::Padding)
        ]
    );
}

/// A datagram of a bundle between n0 and node-one on its way through two other nodes.
#[test]
fn what_is_relayed_is_byte_for_byte_that_of_its_vector() {
    let (handshake, vectors) = (Vectors::load("handshake.hex"), Vectors::load("relayed.hex"));
    let nodes = ["n0", "n2", "n3", "node-one"].map(|name| {
        let id = NodeId::of(&Name::new(name).unwrap());
        assert_eq!(id.0.to_be_bytes(), vectors.get(name), "{name}");
        id
    });
    let (_, ours, theirs) = ends(&handshake, WireMode::Encrypted, true).shake();
    let header = Header {
        path: 8,
        session: 0xb1b2_b3b4,
        number: 0,
    };
    let payload = [3, 0xde, 0xad, 0xbe, 0xef];
    let mut datagram = vec![0; HEADER_BYTES + payload.len() + ours.trailer_bytes];
    let mut w = Writer::new(&mut datagram);
    header.write(&mut w);
    w.put(&payload);
    ours.seal.seal(&mut datagram);
    assert_eq!(datagram, vectors.get("datagram"));

    let mut data = relayed_data(&Steps::new(&nodes, 1).unwrap(), &datagram);
    for (name, at) in [("n0 to n2", 1), ("n2 to n3", 2), ("n3 to node-one", 3)] {
        let expected = vectors.get(name);
        let mut record = vec![0xee; expected.len()];
        write_relayed(&data, &mut Writer::new(&mut record));
        assert_eq!(record, expected, "{name}");
        let relayed = RelayRecord::Relayed {
            steps: Steps::new(&nodes, at).unwrap(),
            datagram: &datagram,
        };
        assert_eq!(RelayRecord::read(record[0], &data), Ok(relayed), "{name}");
        advance(&mut data);
    }
    assert_eq!(theirs.open.open(&mut datagram).unwrap(), payload);
}
