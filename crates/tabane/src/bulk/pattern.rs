//! What is sent: 64-bit little-endian numbers that count up. A byte lost,
//! doubled or in the wrong place shows.

/// Bytes of a number.
pub const WORD_BYTES: u64 = 8;

/// Fills `block` with the stream's content from `offset` on, a multiple of 8.
pub fn fill(block: &mut [u8], offset: u64) {
    let words = block.chunks_exact_mut(WORD_BYTES as usize);
    for (word, number) in words.zip(offset / WORD_BYTES..) {
        word.copy_from_slice(&number.to_le_bytes());
    }
}

/// Where `piece`, which begins at `offset` of the stream, is wrong first.
pub fn first_wrong(piece: &[u8], offset: u64) -> Option<u64> {
    let skew = offset % WORD_BYTES;
    let until_word = ((WORD_BYTES - skew) % WORD_BYTES) as usize;
    let (head, rest) = piece.split_at(until_word.min(piece.len()));
    let mut at = offset;
    for part in [head].into_iter().chain(rest.chunks(WORD_BYTES as usize)) {
        let word = (at / WORD_BYTES).to_le_bytes();
        let wanted = &word[(at % WORD_BYTES) as usize..];
        if part != &wanted[..part.len().min(wanted.len())] {
            let differs = part.iter().zip(wanted).position(|(is, want)| is != want);
            return Some(at + differs.unwrap_or(0) as u64);
        }
        at += part.len() as u64;
    }
    None
}
