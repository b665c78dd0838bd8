//! As much of HTTP/1.1 as a scraper needs (RFC 9112): the head of a GET is
//! read, everything else is refused, and every answer ends the connection.

use super::exposition::CONTENT_TYPE;

/// Longest head of a request, its request line and all header fields.
pub const HEAD_BYTES_MAX: usize = 8192;

/// Where the metrics are.
pub const PATH: &str = "/metrics";

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The metrics.
    Metrics {
        /// Or only the head of the answer.
        with_body: bool,
    },
    /// Something that is refused.
    Refused(Refusal),
}

/// An answer without metrics: status line and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    status: &'static str,
    text: &'static str,
}

const fn refused(status: &'static str, text: &'static str) -> Asked {
    Asked::Refused(Refusal { status, text })
}

const BAD: Asked = refused("400 Bad Request", "this is not HTTP/1.1");
const NOT_HERE: Asked = refused("404 Not Found", "the metrics are at /metrics");
const METHOD: Asked = refused(
    "405 Method Not Allowed",
    "the metrics can only be read (GET)",
);
const TOO_LONG: Asked = refused(
    "431 Request Header Fields Too Large",
    "a request has at most 8192 bytes",
);
const VERSION: Asked = refused("505 HTTP Version Not Supported", "HTTP/1.1 is spoken here");

/// What is asked by the bytes that have arrived; `None` if more must come.
pub fn parse(head: &[u8]) -> Option<Asked> {
    let is_complete = contains(head, b"\r\n\r\n") || contains(head, b"\n\n");
    if !is_complete {
        return (head.len() >= HEAD_BYTES_MAX).then_some(TOO_LONG);
    }
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    let Ok(line) = str::from_utf8(line) else {
        return Some(BAD);
    };
    let words: Vec<&str> = line.trim_end_matches('\r').split(' ').collect();
    let &[method, target, version] = &words[..] else {
        return Some(BAD);
    };
    Some(match version.strip_prefix("HTTP/") {
        None => BAD,
        Some(number) if !number.starts_with("1.") => VERSION,
        Some(_) => {
            let path = target.split('?').next();
            match method {
                "GET" | "HEAD" if path != Some(PATH) => NOT_HERE,
                "GET" => Asked::Metrics { with_body: true },
                "HEAD" => Asked::Metrics { with_body: false },
                _ => METHOD,
            }
        }
    })
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// The head of an answer with metrics of so many bytes.
pub fn ok_head(bytes: usize) -> Vec<u8> {
    answer_head("200 OK", CONTENT_TYPE, bytes)
}

/// A whole answer without metrics, because the daemon cannot be asked now.
pub fn unavailable(why: &str) -> Vec<u8> {
    text_answer("503 Service Unavailable", why)
}

impl Refusal {
    /// The whole answer.
    pub fn answer(self) -> Vec<u8> {
        text_answer(self.status, self.text)
    }
}

fn text_answer(status: &str, text: &str) -> Vec<u8> {
    let mut answer = answer_head(status, "text/plain; charset=utf-8", text.len() + 1);
    answer.extend_from_slice(text.as_bytes());
    answer.push(b'\n');
    answer
}

fn answer_head(status: &str, content_type: &str, bytes: usize) -> Vec<u8> {
    // RFC 9110 section 10.2.1: a 405 says what would be right.
    let allow = if status.starts_with("405") {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {bytes}\r\n\
         {allow}Connection: close\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let whole = Asked::Metrics { with_body: true };
        let table: [(&str, Option<Asked>); 16] = [
            (
                "GET /metrics HTTP/1.1\r\nHost: n0\r\nAccept: */*\r\n\r\n",
                Some(whole),
            ),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Some(whole)),
            ("GET /metrics HTTP/1.1\n\n", Some(whole)),
            (
                "HEAD /metrics HTTP/1.1\r\n\r\n",
                Some(Asked::Metrics { with_body: false }),
            ),
            ("GET /metrics HTTP/1.1\r\nHost: n0\r\n", None),
            ("", None),
            ("GET / HTTP/1.1\r\n\r\n", Some(NOT_HERE)),
            (
                "GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n",
                Some(NOT_HERE),
            ),
            (
                "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
                Some(METHOD),
            ),
            ("get /metrics HTTP/1.1\r\n\r\n", Some(METHOD)),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(VERSION)),
            ("GET /metrics\r\n\r\n", Some(BAD)),
            ("GET  /metrics HTTP/1.1\r\n\r\n", Some(BAD)),
            ("GET /metrics SMTP\r\n\r\n", Some(BAD)),
            ("\r\n\r\n", Some(BAD)),
            ("\u{16}\u{3}\u{1}\0\0\n\n", Some(BAD)),
        ];
        for (request, expected) in table {
            assert_eq!(parse(request.as_bytes()), expected, "{request:?}");
        }
        assert_eq!(parse(b"\xff\xfe\n\n"), Some(BAD));
        assert_eq!(parse(&[b'x'; HEAD_BYTES_MAX]), Some(TOO_LONG));
        assert!(
            TOO_LONG
                == refused(
                    "431 Request Header Fields Too Large",
                    "a request has at most 8192 bytes"
                )
        );
    }

    #[test]
    fn every_answer_tells_its_length_and_closes() {
        for asked in [BAD, NOT_HERE, METHOD, TOO_LONG, VERSION] {
            let Asked::Refused(refusal) = asked else {
                panic!("no refusal: {asked:?}")
            };
            let answer = String::from_utf8(refusal.answer()).unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {}\r\n", refusal.status)));
            assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())));
            assert!(head.ends_with("\r\nConnection: close"), "{head}");
            assert_eq!(head.contains("Allow: GET, HEAD"), asked == METHOD);
        }
    }
}
