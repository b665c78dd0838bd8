//! Any bytes as what the daemons of two nodes say each other of a measurement, or of what is wrong: lines, in pieces of any
//! size.

use tabane_program::bench::words::{Answer, Question, is_datagram};
use tabane_program::doctor::words as looked;
use tabane_program::json_lines::{LINE_BYTES_MAX, Lines};

/// Feeds it `bytes`: the first says how long the pieces are.
pub fn run(bytes: &[u8]) {
    let Some((&piece_bytes, bytes)) = bytes.split_first() else {
        return;
    };
    let _ = is_datagram(bytes);
    let mut lines = Lines::default();
    for piece in bytes.chunks(usize::from(piece_bytes) + 1) {
        let mut rest = piece;
        while !rest.is_empty() {
            let (taken, left) = rest.split_at(rest.len().min(lines.room()));
            lines.add(taken);
            rest = left;
            loop {
                match lines.take() {
                    Ok(Some(line)) => read(&line),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            assert!(lines.rest().len() < LINE_BYTES_MAX, "it waits for nothing");
        }
    }
}

/// What is understood is said again as it was meant.
fn read(line: &[u8]) {
    if let Ok(question) = Question::parse(line) {
        let said = question.to_line();
        assert_eq!(Question::parse(&said), Ok(question));
    }
    if let Ok(answer) = Answer::parse(line) {
        let said = answer.to_line();
        assert_eq!(Answer::parse(&said), Ok(answer));
    }
    if let Ok(question) = looked::Question::parse(line) {
        assert_eq!(looked::Question::parse(&question.to_line()), Ok(question));
    }
    if let Ok(answer) = looked::Answer::parse(line) {
        let said = answer.to_line();
        assert!(said.len() <= LINE_BYTES_MAX, "{answer:?}");
        assert!(looked::Answer::parse(&said).is_ok(), "{answer:?}");
    }
}
