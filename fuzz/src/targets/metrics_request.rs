//! Any bytes as an HTTP request for the metrics: never too early, never changed by what
//! comes later, always answered in full.

use tabane_program::metrics::http::{Asked, HEAD_BYTES_MAX, parse};

/// Feeds it `bytes`, first as they would come.
pub fn run(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let all = parse(bytes, "n0");
    assert!(all.is_some() || bytes.len() < HEAD_BYTES_MAX);
    if let Some(half) = parse(&bytes[..bytes.len() / 2], "n0") {
        assert_eq!(all, Some(half));
    }
    if let Some(Asked::Refused(refusal)) = all {
        let answer = String::from_utf8(refusal.answer()).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let length = format!("Content-Length: {}\r\n", body.len());
        assert!(head.starts_with("HTTP/1.1 ") && head.contains(&length));
    }
}
