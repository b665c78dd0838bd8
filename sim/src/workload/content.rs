//! Content that needs no storage: each byte follows from a key and its offset, so
//! a receiver can check any piece by itself.

use crate::random::mix;

fn word(key: u64, index: u64) -> [u8; 8] {
    mix(key ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93)).to_le_bytes()
}

/// Fills `out` with the content of `key` from `offset` on.
pub fn fill(key: u64, offset: u64, out: &mut [u8]) {
    let mut at = offset;
    let mut rest = out;
    while !rest.is_empty() {
        let skip = (at % 8) as usize;
        let take = rest.len().min(8 - skip);
        let (now, later) = rest.split_at_mut(take);
        now.copy_from_slice(&word(key, at / 8)[skip..skip + take]);
        at += take as u64;
        rest = later;
    }
}

/// Where `data`, said to be the content of `key` from `offset` on, first differs
/// from it: an index into `data`.
pub fn first_difference(key: u64, offset: u64, data: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < data.len() {
        let place = offset + at as u64;
        let skip = (place % 8) as usize;
        let take = (data.len() - at).min(8 - skip);
        let expected = word(key, place / 8);
        if data[at..at + take] != expected[skip..skip + take] {
            let same = data[at..at + take]
                .iter()
                .zip(&expected[skip..])
                .take_while(|(a, b)| a == b);
            return Some(at + same.count());
        }
        at += take;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_piece_is_recognised_and_any_change_is_found() {
        let mut whole = vec![0; 1000];
        fill(7, 0, &mut whole);
        for (from, to) in [(0, 1000), (1, 9), (7, 8), (13, 999), (500, 500)] {
            assert_eq!(first_difference(7, from as u64, &whole[from..to]), None);
            let mut piece = vec![0; to - from];
            fill(7, from as u64, &mut piece);
            assert_eq!(piece, whole[from..to]);
        }
        for at in [0, 1, 8, 500, 999] {
            let mut changed = whole.clone();
            changed[at] ^= 4;
            assert_eq!(first_difference(7, 0, &changed), Some(at));
        }
        assert!(first_difference(8, 0, &whole).is_some());
        assert!(first_difference(7, 1, &whole).is_some());
    }
}
