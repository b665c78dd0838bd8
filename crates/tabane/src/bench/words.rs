//! What two daemons say each other of a measurement: lines of JSON on streams of a service of their own
//! (docs/protocol.md, 9.6.3). Pure.

use serde::{Deserialize, Serialize};
use tabane_proto::limits::LINKS_MAX;

use crate::json_lines::{self, Malformed};
use crate::status::to_line;

/// The service of these streams: "BNCH".
pub const SERVICE: u32 = 0x424e_4348;
/// The version of what is said.
pub const VERSION: u32 = 1;
/// The longest measurement that a node takes part in, in seconds.
pub const SECONDS_MAX: u32 = 300;
/// A stream was not wanted: no measurement goes on, or the line was not understood.
pub const CODE_UNWANTED: u32 = 2;
/// A stream is over since the measurement is.
pub const CODE_OVER: u32 = 3;

/// Bits of a `virtio_net_hdr`'s first byte that mark a datagram of a measurement: with none of the gateway's
/// ways, which are the two others, the third bit means nothing else (docs/protocol.md, 9.6.3).
const MARK: u8 = 0x20;
const MARKS: u8 = 0xe0;
/// A datagram of a measurement: a `virtio_net_hdr`, and an Ethernet frame of usual length.
pub const DATAGRAM_BYTES: usize = 12 + 1514;

/// Said by the node that measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// First on a stream: take part in a measurement.
    Begin {
        /// [`VERSION`].
        version: u32,
        /// How long it lasts.
        seconds: u32,
    },
    /// On that stream: your figures now.
    Look {},
    /// First on a stream: what follows is read, and counted.
    Take {},
    /// First on a stream: send on it as fast as it goes, until it is stopped.
    Give {
        /// Over this link alone, if nobody else's traffic is in the way.
        link: Option<u8>,
    },
    /// First on a stream: send back what follows.
    Echo {},
    /// First on a stream: send datagrams as fast as they go, until it is stopped.
    GiveDatagrams {},
}

/// Said by the node that takes part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Question::Begin`] and [`Question::Look`].
    Figures(Figures),
    /// To [`Question::Begin`]: not now, and why.
    Refused {
        /// In words.
        text: String,
    },
}

/// Counters of one end, since its daemon began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Its clock.
    pub now_us: u64,
    /// Processor time of the daemon's loop; `None` if the kernel does not tell.
    pub cpu_us: Option<u64>,
    /// How long the loop waited for a processor that others had.
    pub waited_us: Option<u64>,
    /// Bytes of the measurement's streams that it read.
    pub taken_bytes: u64,
    /// Datagrams of the measurement that it sent, and that arrived here.
    pub datagrams_sent: u64,
    /// See `datagrams_sent`.
    pub datagrams_taken: u64,
    /// How often others' traffic kept it from sending over one link alone.
    pub in_the_way: u64,
    /// One for each path over a link to the other end.
    pub links: Vec<LinkFigures>,
}

/// Counters of one path, as one end sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkFigures {
    /// The link's number.
    pub link: u8,
    /// Whether the path works.
    pub is_up: bool,
    /// Datagrams sent.
    pub tx_packets: u64,
    /// Those given up as lost; their content was sent again.
    pub tx_lost_packets: u64,
    /// Bytes that arrived.
    pub rx_bytes: u64,
    /// Datagrams that the kernel dropped because this end's receive buffer was full.
    pub rx_dropped: u64,
}

impl Figures {
    /// The counters of one path.
    pub fn of_link(&self, link: u8) -> Option<&LinkFigures> {
        self.links.iter().find(|of| of.link == link)
    }
}

impl Question {
    /// Reads a line without its newline.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(line: &[u8]) -> Result<Question, Malformed> {
        json_lines::parse(line)
    }

    /// The line, with its newline.
    pub fn to_line(&self) -> Vec<u8> {
        to_line(self)
    }
}

impl Answer {
    /// Reads a line without its newline. Figures of more links than there can be are malformed.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(line: &[u8]) -> Result<Answer, Malformed> {
        let answer = json_lines::parse(line)?;
        match &answer {
            Answer::Figures(figures) if figures.links.len() > LINKS_MAX => {
                Err(Malformed(format!("more than {LINKS_MAX} links")))
            }
            _ => Ok(answer),
        }
    }

    /// The line, with its newline.
    pub fn to_line(&self) -> Vec<u8> {
        to_line(self)
    }
}

/// Makes `frame`, which is empty, a datagram of a measurement.
pub fn make_datagram(frame: &mut Vec<u8>) {
    frame.resize(DATAGRAM_BYTES, 0);
    frame[0] = MARK;
}

/// Whether a frame is a datagram of a measurement.
pub fn is_datagram(frame: &[u8]) -> bool {
    frame.first().is_some_and(|first| first & MARKS == MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_lines::LINE_BYTES_MAX;

    #[test]
    fn what_is_said_is_understood() {
        let questions = [
            (
                Question::Begin {
                    version: VERSION,
                    seconds: 15,
                },
                r#"{"begin":{"version":1,"seconds":15}}"#,
            ),
            (Question::Look {}, r#"{"look":{}}"#),
            (Question::Give { link: Some(1) }, r#"{"give":{"link":1}}"#),
            (Question::GiveDatagrams {}, r#"{"give_datagrams":{}}"#),
        ];
        for (question, line) in questions {
            assert_eq!(question.to_line(), format!("{line}\n").into_bytes());
            assert_eq!(Question::parse(line.as_bytes()), Ok(question));
        }
        let answer = Answer::Figures(Figures {
            links: vec![LinkFigures::default(); LINKS_MAX],
            ..Figures::default()
        });
        let line = answer.to_line();
        assert!(line.len() < LINE_BYTES_MAX);
        assert_eq!(Answer::parse(&line), Ok(answer));
    }

    #[test]
    fn what_is_not_said_by_this_version_is_malformed_or_left_out() {
        for line in [
            &b""[..],
            b"{}",
            b"{\"begin\":{}}",
            b"\xff",
            b"{\"dance\":{}}",
        ] {
            assert!(Question::parse(line).is_err());
        }
        let later = br#"{"figures":{"now_us":7,"moon":"full"}}"#;
        let Ok(Answer::Figures(figures)) = Answer::parse(later) else {
            panic!("a later version's figures");
        };
        assert_eq!((figures.now_us, figures.cpu_us), (7, None));
        let links = ["{}"; LINKS_MAX + 1].join(",");
        let line = format!("{{\"figures\":{{\"links\":[{links}]}}}}");
        assert!(Answer::parse(line.as_bytes()).is_err());
    }

    #[test]
    fn datagrams_are_neither_frames_nor_the_gateways_packets() {
        let mut frame = Vec::new();
        make_datagram(&mut frame);
        assert!(is_datagram(&frame) && !crate::gateway::is_packet(&frame));
        for first in [0, 1, 0x80, 0xa0, 0x60] {
            assert!(!is_datagram(&[first]));
        }
        assert!(!is_datagram(&[]));
    }
}
