//! What streams that are checked consist of: 64-bit little-endian numbers that count up. A byte
//! lost, doubled or in the wrong place shows.

/// Bytes of a number.
pub const WORD_BYTES: u64 = 8;

/// Fills `block` with the stream's content from `offset` on, a multiple of [`WORD_BYTES`].
pub fn fill(block: &mut [u8], offset: u64) {
    let words = block.chunks_exact_mut(WORD_BYTES as usize);
    for (word, number) in words.zip(offset / WORD_BYTES..) {
        word.copy_from_slice(&number.to_le_bytes());
    }
}

/// Where the stream is wrong first, if `piece` of it begins at `offset`.
pub fn first_wrong(piece: &[u8], offset: u64) -> Option<u64> {
    let word = |offset: u64| (offset / WORD_BYTES).to_le_bytes();
    let until_word = (offset.next_multiple_of(WORD_BYTES) - offset) as usize;
    let (head, rest) = piece.split_at(until_word.min(piece.len()));
    let wrong_byte = |part: &[u8], from: u64| {
        let mut offsets = part.iter().zip(from..);
        offsets.find_map(|(&byte, at)| (word(at)[(at % WORD_BYTES) as usize] != byte).then_some(at))
    };
    if let Some(at) = wrong_byte(head, offset) {
        return Some(at);
    }
    let mut at = offset + head.len() as u64;
    let words = rest.chunks_exact(WORD_BYTES as usize);
    let tail = words.remainder();
    for chunk in words {
        if chunk != word(at) {
            return wrong_byte(chunk, at);
        }
        at += WORD_BYTES;
    }
    wrong_byte(tail, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_byte_is_found_wherever_the_piece_begins() {
        let mut block = vec![0; 8000];
        fill(&mut block, 0);
        for from in 0..20 {
            for to in [from, from + 3, 4000, 7999, 8000] {
                assert_eq!(first_wrong(&block[from..to], from as u64), None);
            }
        }
        block[4321] ^= 1;
        assert_eq!(first_wrong(&block[3..], 3), Some(4321));
        assert_eq!(first_wrong(&block[4322..], 4322), None);
        assert_eq!(first_wrong(&block[8..16], 16), Some(16));
    }

    #[test]
    fn content_goes_on_where_it_stopped() {
        let mut block = vec![0; 64];
        fill(&mut block, 1024);
        assert_eq!(first_wrong(&block, 1024), None);
        assert_eq!(first_wrong(&block, 1032), Some(1032));
    }
}
