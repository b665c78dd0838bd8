//! The records of an opened packet: no bytes make the parser panic, what it
//! accepts is within the documented ranges and is written back as it was, and
//! nothing comes after an error.
use tabane_proto::wire::{
    EXTENSION_HEADER_BYTES, MemberRecord, MemoryRecord, OFFSET_MAX, OPERATION_BYTES_MAX,
    OPERATIONS_MAX, Record, Records, RelayRecord, Writer,
};

fn check(record: &Record<'_>) {
    match record {
        Record::Unit(u) => {
            assert!(!u.data.is_empty());
            assert!(u.offset as usize + u.data.len() <= u.total as usize);
            assert!(u.total as usize <= u.class.total_max());
        }
        Record::Stream(s) => {
            assert!(s.offset + s.data.len() as u64 <= OFFSET_MAX);
            assert_eq!(s.service.is_some(), s.offset == 0);
            assert!(!s.data.is_empty() || s.fin || s.offset == 0);
        }
        Record::Ack(ack) => {
            let (known, rest) = ack.words.split_at(usize::from(ack.word_count));
            assert!(rest.iter().all(|&w| w == 0));
            for (w, word) in known.iter().enumerate() {
                for i in (0..64).filter(|i| word >> i & 1 == 1) {
                    assert!(64 * w as u64 + i < ack.largest);
                }
            }
        }
        Record::StreamWindow { limit, window, .. }
        | Record::BundleWindow { limit, window }
        | Record::MessageWindow { limit, window } => {
            assert!(window <= limit && *limit <= OFFSET_MAX);
        }
        Record::Extension { code, data } if MemoryRecord::is_one(*code) => {
            if let Ok(memory) = MemoryRecord::read(*code, data) {
                check_memory(&memory);
                let mut again = vec![0; memory.encoded_len()];
                let mut w = Writer::new(&mut again);
                memory.write(&mut w);
                assert_eq!(w.room(), 0);
                assert_eq!(again[EXTENSION_HEADER_BYTES..], **data);
            }
        }
        Record::Extension { code, data } if MemberRecord::is_one(*code) => {
            if let Ok(members) = MemberRecord::read(*code, data) {
                let mut again = vec![0; members.encoded_len()];
                let mut w = Writer::new(&mut again);
                members.write(&mut w);
                assert_eq!(w.room(), 0);
                assert_eq!(
                    MemberRecord::read(*code, &again[EXTENSION_HEADER_BYTES..]),
                    Ok(members)
                );
            }
        }
        Record::Extension { code, data } if RelayRecord::is_one(*code) => {
            if let Ok(relays) = RelayRecord::read(*code, data) {
                let mut again = vec![0; relays.encoded_len()];
                let mut w = Writer::new(&mut again);
                relays.write(&mut w);
                assert_eq!(w.room(), 0);
                assert_eq!(again[EXTENSION_HEADER_BYTES..], **data);
            }
        }
        _ => {}
    }
}

fn check_memory(record: &MemoryRecord<'_>) {
    match record {
        MemoryRecord::Put {
            target,
            offset,
            data,
            ..
        } => {
            let total = target.map_or(OPERATION_BYTES_MAX, |target| target.to.total);
            assert!(offset + data.len() as u64 <= total && total <= OPERATION_BYTES_MAX);
            assert!(!data.is_empty() || total == 0);
        }
        MemoryRecord::Get { open, from, .. } => {
            assert!(u32::from(*open) < OPERATIONS_MAX && from.total <= OPERATION_BYTES_MAX);
            assert!(from.base <= OFFSET_MAX);
        }
        MemoryRecord::Answer { offset, .. } => assert!(*offset <= OPERATION_BYTES_MAX),
        MemoryRecord::Done { .. } => {}
    }
}

/// Feeds it `payload`.
pub fn run(payload: &[u8]) {
    let mut records = Records::new(payload);
    let mut rest = payload;
    while let Some(record) = records.next() {
        let Ok(record) = record else {
            assert_eq!(records.next(), None);
            return;
        };
        check(&record);
        let len = record.encoded_len();
        let mut again = vec![0; len];
        let mut w = Writer::new(&mut again);
        record.write(&mut w);
        assert_eq!(w.room(), 0);
        assert_eq!(again, rest[..len]);
        rest = &rest[len..];
        if record == Record::Padding {
            assert!(rest.iter().all(|&b| b == 0));
            rest = &[];
        }
    }
    assert!(rest.is_empty());
}
