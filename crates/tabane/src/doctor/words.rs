//! What two daemons say each other when one asks what the other finds wrong: lines of JSON on streams of a service of their
//! own (docs/protocol.md, 9.6.4). Pure.

use serde::{Deserialize, Serialize};

use super::finding::Finding;
use crate::json_lines::{self, LINE_BYTES_MAX, Malformed};
use crate::status::to_line;

/// The service of these streams: "LOOK".
pub const SERVICE: u32 = 0x4c4f_4f4b;
/// The version of what is said.
pub const VERSION: u32 = 1;
/// The most findings in an answer, the worst ones: there is always room for so much on a stream.
pub const FINDINGS_MAX: usize = 8;
/// A question was not understood, or cannot be answered.
pub const CODE_UNWANTED: u32 = 2;

/// Said first on a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Look at yourself and at the way to me, and say what is wrong.
    Look {
        /// [`VERSION`].
        version: u32,
    },
}

/// The answer, a line each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Something is wrong.
    Finding(Box<Finding>),
    /// That was all.
    Over {},
    /// It cannot look, and why.
    Refused {
        /// In words.
        text: String,
    },
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
    /// Reads a line without its newline.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(line: &[u8]) -> Result<Answer, Malformed> {
        json_lines::parse(line)
    }

    /// The line, with its newline. Of a finding that makes it too long the evidence is left out, and at last all but what
    /// it is.
    pub fn to_line(&self) -> Vec<u8> {
        let line = to_line(self);
        let Self::Finding(finding) = self else {
            return line;
        };
        if line.len() <= LINE_BYTES_MAX {
            return line;
        }
        let mut short = finding.clone();
        short.evidence.clear();
        let line = to_line(&Self::Finding(short.clone()));
        if line.len() <= LINE_BYTES_MAX {
            return line;
        }
        let text = |long: &str| long.chars().take(128).collect::<String>();
        *short = Finding::new(short.cause, short.severity, text(&short.what))
            .costs(short.cost_share, text(&short.cost));
        to_line(&Self::Finding(short))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Cause, Severity};

    fn finding() -> Finding {
        Finding::new(Cause::LinkOff, Severity::Degraded, "eth1 is switched off")
            .peer("n1")
            .link(1)
            .seen("`ip link` says so")
            .costs(0.5, "link 1 carries nothing")
            .mend("`ip link set eth1 up`")
    }

    #[test]
    fn what_is_said_is_understood() {
        let question = Question::Look { version: VERSION };
        let line = question.to_line();
        assert_eq!(line, b"{\"look\":{\"version\":1}}\n");
        assert_eq!(Question::parse(&line), Ok(question));
        let refused = Answer::Refused {
            text: "it ends".to_owned(),
        };
        for answer in [
            Answer::Finding(Box::new(finding())),
            Answer::Over {},
            refused,
        ] {
            assert_eq!(Answer::parse(&answer.to_line()), Ok(answer));
        }
    }

    #[test]
    fn a_cause_of_a_later_version_is_another_one() {
        let line = Answer::Finding(Box::new(finding())).to_line();
        let line = String::from_utf8(line).expect("is text");
        let later = line.replace("link_off", "link_on_fire");
        let Ok(Answer::Finding(read)) = Answer::parse(later.as_bytes()) else {
            panic!("{later}");
        };
        assert_eq!(read.cause, Cause::Other);
        assert_eq!(read.what, finding().what);
    }

    #[test]
    fn no_line_is_longer_than_one_may_be() {
        let mut long = finding().seen("x".repeat(LINE_BYTES_MAX));
        let line = Answer::Finding(Box::new(long.clone())).to_line();
        assert!(line.len() <= LINE_BYTES_MAX);
        assert!(Answer::parse(&line).is_ok());
        long = long.mend("é".repeat(LINE_BYTES_MAX));
        long.what = "\u{1}".repeat(LINE_BYTES_MAX);
        let line = Answer::Finding(Box::new(long)).to_line();
        assert!(line.len() <= LINE_BYTES_MAX);
        assert!(Answer::parse(&line).is_ok());
    }
}
