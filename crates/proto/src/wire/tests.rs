//! Every record there and back, and the bytes no parser may accept.

use super::*;
use crate::Random;

/// Encodes a record; its length must be what it said.
fn bytes_of(record: &Record<'_>) -> Vec<u8> {
    let mut slot = [0xee; 4096];
    let mut w = Writer::new(&mut slot);
    record.write(&mut w);
    assert_eq!(w.len(), record.encoded_len(), "{record:?}");
    let len = w.len();
    slot[..len].to_vec()
}

fn random_ack(random: &mut Random) -> Ack {
    let mut ack = Ack {
        path: random.below(8) as u8,
        largest: random.below(1 << 48),
        delay_us: random.u32() as u16,
        arrived_us: random.u32(),
        word_count: random.below(17) as u8,
        words: [0; ACK_WORDS_MAX],
    };
    for word in &mut ack.words[..usize::from(ack.word_count)] {
        *word = random.u64();
    }
    if ack.largest < 1024 {
        ack.word_count = 0;
        ack.words = [0; ACK_WORDS_MAX];
    }
    ack
}

fn random_stream<'a>(random: &mut Random, data: &'a [u8]) -> Record<'a> {
    let (opens, is_last) = (random.below(2) == 0, random.below(2) == 0);
    Record::Stream(StreamSegment {
        id: random_id(random),
        offset: if opens {
            0
        } else {
            1 + random.below(OFFSET_MAX - 1)
        }
        .min(OFFSET_MAX - data.len() as u64),
        fin: data.is_empty() || is_last,
        held: !data.is_empty() && !is_last && random.below(2) == 0,
        service: opens.then(|| random.u32()),
        data,
    })
}

/// A number of any of the lengths that there are.
fn random_id(random: &mut Random) -> u64 {
    random.u64() >> (2 + random.below(62))
}

fn random_unit<'a>(random: &mut Random, data: &'a [u8]) -> Record<'a> {
    let class = [UnitClass::Frame, UnitClass::Message][random.below(2) as usize];
    let total = data.len() as u64 + random.below((class.total_max() - data.len()) as u64 + 1);
    Record::Unit(UnitSegment {
        class,
        flow: match class {
            UnitClass::Frame => random.below(256) as u32,
            UnitClass::Message => random.u32(),
        },
        sequence: random.u32(),
        offset: random.below(total - data.len() as u64 + 1) as u32,
        total: total as u32,
        data,
    })
}

fn random_record<'a>(random: &mut Random, data: &'a [u8]) -> Record<'a> {
    let path = random.u32() as u8;
    let offset = random.below(OFFSET_MAX + 1);
    let id = random.u32();
    match random.below(17) {
        0 => Record::Ack(random_ack(random)),
        1 => Record::Sent {
            path,
            next_number: random.below(1 << 48),
        },
        2 => Record::Probe { token: id },
        3 => Record::ProbeReply {
            token: id,
            datagram_bytes: random.u32() as u16,
        },
        4 => Record::LinkState {
            path,
            generation: id,
            verdict: [LinkVerdict::Up, LinkVerdict::Down][random.below(2) as usize],
            witness: [
                Witness::ArrivalSkew,
                Witness::UnackedAge,
                Witness::KernelLink,
                Witness::ProbeTimeout,
                Witness::Peer,
                Witness::ProbesAnswered,
            ][random.below(6) as usize],
        },
        5 => Record::LinkStateAck {
            path,
            generation: id,
        },
        6 => Record::StreamReset {
            id: random_id(random),
            code: random.u32(),
            final_offset: offset,
        },
        7 => Record::StreamStop {
            id: random_id(random),
            code: random.u32(),
        },
        8 => Record::StreamWindow {
            id: random_id(random),
            limit: offset,
            window: random.below(offset + 1),
        },
        9 => Record::BundleWindow {
            limit: offset,
            window: random.below(offset + 1),
        },
        14 => Record::MessageWindow {
            limit: offset,
            window: random.below(offset + 1),
        },
        10 => Record::Close { code: id },
        11 => Record::Grant { path, kb_per_s: id },
        12 => Record::Waited {
            path,
            queue_us: id as u16,
        },
        13 => Record::Extension {
            code: 0x40 + random.below(0x40) as u8,
            data,
        },
        15 if !data.is_empty() => random_unit(random, data),
        _ => random_stream(random, data),
    }
}

#[test]
fn random_packets_of_records_come_back_as_written() {
    let mut random = Random::from_seed([1; 32]);
    let store: [u8; 1024] = random.array();
    for _ in 0..20_000 {
        let mut slot = [0; 8972];
        let mut w = Writer::new(&mut slot);
        let mut written = Vec::new();
        for _ in 0..random.below(8) {
            let data = &store[..random.below(1024) as usize];
            let record = random_record(&mut random, data);
            record.write(&mut w);
            written.push(record);
        }
        if random.below(4) == 0 {
            Record::Padding.write(&mut w);
            w.zeros(random.below(20) as usize);
            written.push(Record::Padding);
        }
        let len = w.len();
        assert!(written.iter().map(Record::encoded_len).sum::<usize>() <= len);
        let read: Result<Vec<_>, _> = Records::new(&slot[..len]).collect();
        assert_eq!(read.as_deref(), Ok(&written[..]));
    }
}

#[test]
fn a_record_cut_anywhere_is_an_error_and_ends_the_packet() {
    let mut random = Random::from_seed([2; 32]);
    for _ in 0..2_000 {
        let record = random_record(&mut random, b"some bytes of data");
        let bytes = bytes_of(&record);
        for len in 1..bytes.len() {
            let mut records = Records::new(&bytes[..len]);
            assert!(matches!(records.next(), Some(Err(_))), "{record:?} {len}");
            assert_eq!(records.next(), None);
        }
    }
}

/// The parser accepts only what the writer writes: what it reads from any bytes,
/// written again, gives the same bytes.
#[test]
fn reading_random_bytes_never_panics_and_is_canonical() {
    let mut random = Random::from_seed([3; 32]);
    for round in 0..200_000 {
        let mut bytes = [0; 64];
        random.fill(&mut bytes);
        // Mostly known types, or hardly anything would be read.
        bytes[0] = match round % 4 {
            0 => bytes[0],
            1 => 0x10 | bytes[0] & 3,
            2 => 0x20 | bytes[0] & 1,
            _ => bytes[0] & 0x0f,
        };
        if round % 2 == 0 {
            // Small numbers, so that lengths fit.
            bytes.iter_mut().skip(1).for_each(|b| *b &= 0x01);
        }
        let mut rest = &bytes[..random.below(65) as usize];
        for record in Records::new(rest) {
            let Ok(record) = record else { break };
            if record == Record::Padding {
                assert!(rest.iter().all(|&b| b == 0));
                break;
            }
            let again = bytes_of(&record);
            assert_eq!(again, rest[..again.len()], "{record:?}");
            rest = &rest[again.len()..];
        }
    }
}

#[test]
fn random_datagrams_never_panic_any_parser() {
    let mut random = Random::from_seed([4; 32]);
    for _ in 0..100_000 {
        let mut bytes = [0; 420];
        random.fill(&mut bytes);
        bytes[0] = [1, 2, 3, 0x10][random.below(4) as usize];
        bytes[1] &= 0x07;
        let len = match random.below(5) {
            0 => INIT_BYTES,
            1 => RESPONSE_BYTES,
            2 => COOKIE_DATAGRAM_BYTES,
            _ => random.below(421) as usize,
        };
        let datagram = &bytes[..len];
        if let Ok(header) = Header::read(&mut Reader::new(datagram)) {
            let mut again = [0; HEADER_BYTES];
            header.write(&mut Writer::new(&mut again));
            assert_eq!(again, datagram[..HEADER_BYTES]);
        }
        let _ = HandshakeHeader::read(&mut Reader::new(datagram));
        let _ = InitParts::read(datagram);
        let _ = ResponseParts::read(datagram);
        let _ = CookieParts::read(datagram);
        let _ = Hello::read(&mut Reader::new(datagram));
    }
}

fn first(bytes: &[u8]) -> Result<Record<'_>, WireError> {
    Records::new(bytes).next().unwrap()
}

#[test]
fn fields_out_of_range_are_refused() {
    let bad: &[(&str, &[u8], WireError)] = &[
        ("unknown type", &[0x80, 0, 0], WireError::BadRecord),
        ("extension cut off", &[0x7f, 0, 2, 1], WireError::Truncated),
        ("padding that is not zero", &[0, 0, 1], WireError::BadValue),
        (
            "ack: 17 words",
            &[1, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            WireError::BadValue,
        ),
        (
            "ack: packets before number 0",
            &[
                1, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4,
            ],
            WireError::BadValue,
        ),
        (
            "link state: verdict 2",
            &[5, 0, 0, 0, 0, 1, 2, 0],
            WireError::BadValue,
        ),
        (
            "link state: witness 6",
            &[5, 0, 0, 0, 0, 1, 1, 6],
            WireError::BadValue,
        ),
        (
            "stream: later piece at offset 0",
            &[0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9],
            WireError::BadValue,
        ),
        (
            "stream: no data and no end",
            &[0x10, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0],
            WireError::BadValue,
        ),
        (
            "stream: beyond the largest offset",
            &[0x10, 1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9],
            WireError::BadValue,
        ),
        (
            "bundle window beyond the largest offset",
            &[0x0a, 0x40, 0, 0, 0, 0, 0, 0, 1, 0],
            WireError::BadValue,
        ),
        (
            "message window that reaches back before the beginning",
            &[0x0e, 0, 0, 0, 0, 0, 0, 0, 1, 2],
            WireError::BadValue,
        ),
        (
            "stream number in more bytes than it needs",
            &[0x08, 0x40, 1, 0, 0, 0, 0],
            WireError::BadValue,
        ),
        (
            "unit: empty",
            &[0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0],
            WireError::BadValue,
        ),
        (
            "unit: piece behind its end",
            &[0x20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 9],
            WireError::BadValue,
        ),
        (
            "unit: frame too long",
            &[0x20, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 1, 0, 1, 9],
            WireError::BadValue,
        ),
    ];
    for (what, bytes, error) in bad {
        assert_eq!(first(bytes), Err(*error), "{what}");
    }
    // Just inside the ranges.
    assert!(
        first(&[
            1, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3
        ])
        .is_ok()
    );
    assert!(first(&[0x0a, 0x40, 0, 0, 0, 0, 0, 0, 0, 0]).is_ok());
    assert!(first(&[0x08, 0x40, 0x40, 0, 0, 0, 0]).is_ok());
    assert!(first(&[0x20, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 1, 9]).is_ok());
}

#[test]
fn header_constants_are_what_records_need() {
    let unit = |class| {
        Record::Unit(UnitSegment {
            class,
            flow: 0,
            sequence: 0,
            offset: 0,
            total: 1,
            data: &[],
        })
    };
    let stream = |id, service| {
        Record::Stream(StreamSegment {
            id,
            offset: 0,
            fin: true,
            held: false,
            service,
            data: &[],
        })
    };
    let len = |record| bytes_of(&record).len();
    assert_eq!(len(unit(UnitClass::Frame)), UNIT_FRAME_HEADER_BYTES);
    assert_eq!(len(unit(UnitClass::Message)), UNIT_MESSAGE_HEADER_BYTES);
    for id in [
        0,
        63,
        64,
        16_383,
        16_384,
        (1 << 30) - 1,
        1 << 30,
        (1 << 62) - 1,
    ] {
        assert_eq!(len(stream(id, None)), stream_header_bytes(id, false));
        assert_eq!(len(stream(id, Some(1))), stream_header_bytes(id, true));
    }
    assert_eq!(len(Record::Probe { token: 1 }), PROBE_BYTES);
}

#[test]
fn hello_comes_back_as_written_and_refuses_what_is_not_canonical() {
    let hello = Hello {
        version: VERSION,
        wire: WireMode::Plain,
        cipher_aes: true,
        session: 0x0102_0304,
        from: "n0".parse().unwrap(),
        to: "x".repeat(63).parse().unwrap(),
        bundle: 7,
        peer_bundle: u64::MAX,
        receive_buffer_bytes: 8 << 20,
        features: 1 << 63 | 5,
        verdict: None,
    };
    let mut bytes = [0xee; HELLO_BYTES];
    hello.write(&mut Writer::new(&mut bytes));
    assert_eq!(Hello::read(&mut Reader::new(&bytes)), Ok(hello));
    for (at, value) in [
        (2, 2),
        (3, 2),
        (15, 0),
        (36, 0),
        (36, 64),
        (37, b'/'),
        (99, b'n'),
        (165, 63),
    ] {
        let mut altered = bytes;
        altered[at] = value;
        assert_eq!(
            Hello::read(&mut Reader::new(&altered)),
            Err(WireError::BadValue),
            "byte {at}"
        );
    }
}

#[test]
fn an_extension_that_nobody_knows_is_passed_over() {
    let hello = Hello {
        version: VERSION,
        wire: WireMode::Encrypted,
        cipher_aes: false,
        session: 1,
        from: "n0".parse().unwrap(),
        to: "n1".parse().unwrap(),
        bundle: 7,
        peer_bundle: 0,
        receive_buffer_bytes: 1,
        features: u64::MAX,
        verdict: None,
    };
    let mut bytes = [0; HELLO_BYTES];
    hello.write(&mut Writer::new(&mut bytes));
    let extension = HELLO_BYTES - EXTENSION_BYTES_MAX;
    bytes[extension - 1] = EXTENSION_BYTES_MAX as u8;
    bytes[extension..].fill(0x5a);
    assert_eq!(Hello::read(&mut Reader::new(&bytes)), Ok(hello));
    assert!(Hello::read(&mut Reader::new(&bytes[..HELLO_BYTES - 1])).is_err());
}
