//! The records of an opened packet: no bytes make the parser panic, what it
//! accepts is within the documented ranges and is written back as it was, and
//! nothing comes after an error.
use tabane_proto::wire::{OFFSET_MAX, Record, Records, Writer};

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
        _ => {}
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
