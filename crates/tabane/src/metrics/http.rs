//! As much of HTTP/1.1 as a scraper needs (RFC 9112): the head of a GET is
//! read, everything else is refused, and every answer ends the connection.

use std::net::{IpAddr, Ipv6Addr};

use super::exposition::CONTENT_TYPE;

/// Longest head of a request, its request line and all header fields.
pub const HEAD_BYTES_MAX: usize = 8192;

/// Path of the metrics.
pub const PATH: &str = "/metrics";

/// The meaning of a request.
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
const ANOTHER_HOST: Asked = refused(
    "421 Misdirected Request",
    "the metrics are asked for by an address of this node, by localhost, or by the node's name in the cluster file",
);
const TOO_LONG: Asked = refused(
    "431 Request Header Fields Too Large",
    "a request has at most 8192 bytes",
);
const VERSION: Asked = refused("505 HTTP Version Not Supported", "HTTP/1.1 is spoken here");

/// The request in the bytes that have arrived, to the node `own_name`; `None` if more must come.
///
/// A browser on this node that was led to a page under a foreign name sends that name if the name
/// resolves to this node later (DNS rebinding). So names that are not the node's own are refused.
pub fn parse(head: &[u8], own_name: &str) -> Option<Asked> {
    let is_complete = contains(head, b"\r\n\r\n") || contains(head, b"\n\n");
    if !is_complete {
        return (head.len() >= HEAD_BYTES_MAX).then_some(TOO_LONG);
    }
    let mut lines = head
        .split(|&b| b == b'\n')
        .map(|line| line.trim_ascii_end());
    let Ok(line) = str::from_utf8(lines.next().unwrap_or_default()) else {
        return Some(BAD);
    };
    let words: Vec<&str> = line.split(' ').collect();
    let &[method, target, version] = &words[..] else {
        return Some(BAD);
    };
    let mut hosts = lines.take_while(|line| !line.is_empty()).filter_map(host);
    Some(match version.strip_prefix("HTTP/") {
        None => BAD,
        Some(number) if !number.starts_with("1.") => VERSION,
        Some(_) if !hosts.all(|host| leads_here(host, own_name)) => ANOTHER_HOST,
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

/// The value of a header field if it is `Host`.
fn host(line: &[u8]) -> Option<&[u8]> {
    let colon = line.iter().position(|&b| b == b':')?;
    let (name, value) = line.split_at(colon);
    let is_host = name.trim_ascii().eq_ignore_ascii_case(b"host");
    is_host.then(|| value[1..].trim_ascii())
}

/// Whether only this node's operator can have meant this host, with or without a port (RFC 9110
/// section 7.2).
fn leads_here(host: &[u8], own_name: &str) -> bool {
    let Ok(host) = str::from_utf8(host) else {
        return false;
    };
    if let Some((v6, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return v6.parse::<Ipv6Addr>().is_ok();
    }
    let name = host.split(':').next().unwrap_or_default();
    [own_name, "localhost"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
        || name.parse::<IpAddr>().is_ok()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// The head of an answer with this many bytes of metrics.
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
    // RFC 9110 section 10.2.1: a 405 lists the allowed methods.
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
            assert_eq!(parse(request.as_bytes(), "n0"), expected, "{request:?}");
        }
        assert_eq!(parse(b"\xff\xfe\n\n", "n0"), Some(BAD));
        assert_eq!(parse(&[b'x'; HEAD_BYTES_MAX], "n0"), Some(TOO_LONG));
        assert!(
            TOO_LONG
                == refused(
                    "431 Request Header Fields Too Large",
                    "a request has at most 8192 bytes"
                )
        );
    }

    #[test]
    fn only_who_asks_for_this_node_is_answered() {
        let ask = |fields: &str| {
            let request = format!("GET /metrics HTTP/1.1\r\nAccept: */*\r\n{fields}\r\n");
            parse(request.as_bytes(), "n0")
        };
        let whole = Some(Asked::Metrics { with_body: true });
        for host in [
            "127.0.0.1",
            "10.77.0.2:9577",
            "[::1]:9577",
            "[fe80::1]",
            "localhost",
            "LocalHost:9577",
            "n0:9577",
        ] {
            assert_eq!(ask(&format!("Host: {host}\r\n")), whole, "{host}");
            assert_eq!(ask(&format!("hOST:{host} \r\n")), whole, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9577",
            "n1",
            "n0.evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[evil.example]:9577",
            "[::1",
            "",
        ] {
            assert_eq!(
                ask(&format!("Host: {host}\r\n")),
                Some(ANOTHER_HOST),
                "{host}"
            );
        }
        let two = "Host: 127.0.0.1\r\nHost: evil.example\r\n";
        assert_eq!(ask(two), Some(ANOTHER_HOST));
        let in_the_body = "Host: n0\r\n\r\nHost: evil.example\r\n";
        assert_eq!(ask(in_the_body), whole);
    }

    #[test]
    fn every_answer_tells_its_length_and_closes() {
        for asked in [BAD, NOT_HERE, METHOD, ANOTHER_HOST, TOO_LONG, VERSION] {
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
