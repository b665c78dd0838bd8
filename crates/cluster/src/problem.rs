//! Problems of a configuration, in words an operator can act on.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Whether a [`Problem`] stops the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration cannot be used; the program ends with exit code 2.
    Error,
    /// The configuration works, but perhaps not as meant; goes to the log once.
    Warning,
}

/// A problem, its place, and what would be right.
///
/// Displayed as `FILE:LINE: what; right` (`FILE:LINE: warning: what; right`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file it was found in.
    pub file: PathBuf,
    /// Line in that file, counted from 1; `None` where no line is to blame.
    pub line: Option<u32>,
    /// Does it stop the program?
    pub severity: Severity,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub right: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if self.severity == Severity::Warning {
            write!(f, " warning:")?;
        }
        write!(f, " {}; {}", self.what, self.right)
    }
}

/// A configuration that cannot be used. To be acted on by the operator;
/// the program ends with exit code 2.
///
/// Displayed as one line per problem, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Everything found, warnings included; at least one is an error.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}

/// The most problems of one line with the same remedy that are listed singly: a line may stand for thousands of nodes.
const ALIKE_MAX: usize = 3;

/// Collects problems of one file and turns byte offsets into lines.
#[derive(Debug)]
pub(crate) struct Findings {
    file: PathBuf,
    line_starts: Vec<usize>,
    problems: Vec<Problem>,
}

impl Findings {
    /// For `file` with the content `text` (empty if only lines already known are reported).
    pub(crate) fn new(file: &Path, text: &str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(i, _)| i + 1);
        Self {
            file: file.to_owned(),
            line_starts: std::iter::once(0).chain(after_newlines).collect(),
            problems: Vec::new(),
        }
    }

    /// The line (from 1) in which a byte range begins.
    pub(crate) fn line_of(&self, span: &Range<usize>) -> u32 {
        let line = self.line_starts.partition_point(|&s| s <= span.start);
        u32::try_from(line).unwrap_or(u32::MAX)
    }

    pub(crate) fn error(
        &mut self,
        line: impl Into<Option<u32>>,
        what: impl Into<String>,
        right: impl Into<String>,
    ) {
        self.push(Severity::Error, line.into(), what.into(), right.into());
    }

    pub(crate) fn warning(
        &mut self,
        line: impl Into<Option<u32>>,
        what: impl Into<String>,
        right: impl Into<String>,
    ) {
        self.push(Severity::Warning, line.into(), what.into(), right.into());
    }

    fn push(&mut self, severity: Severity, line: Option<u32>, what: String, right: String) {
        self.problems.push(Problem {
            file: self.file.clone(),
            line,
            severity,
            what,
            right,
        });
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.problems.iter().any(|p| p.severity == Severity::Error)
    }

    /// `value` and the warnings, or the error if there was any.
    pub(crate) fn conclude<T>(
        mut self,
        value: Option<T>,
    ) -> Result<(T, Vec<Problem>), ConfigError> {
        self.sort();
        match value {
            Some(value) if !self.has_errors() => Ok((value, self.problems)),
            _ => Err(ConfigError {
                problems: self.problems,
            }),
        }
    }

    /// Everything found, in the order of the file.
    pub(crate) fn into_problems(mut self) -> Vec<Problem> {
        self.sort();
        self.problems
    }

    /// Sorts them in the order of the file, and counts those of a line that say the same.
    fn sort(&mut self) {
        self.problems.sort_by_key(|p| p.line);
        let mut kept: Vec<(Problem, usize)> = Vec::new();
        for problem in self.problems.drain(..) {
            let is_alike = |(p, _): &&mut (Problem, usize)| {
                (p.line, p.severity, &p.right) == (problem.line, problem.severity, &problem.right)
            };
            let mut of_line = kept
                .iter_mut()
                .rev()
                .take_while(|(p, _)| p.line == problem.line);
            let mut alike = of_line.by_ref().filter(is_alike);
            match (alike.next(), alike.nth(ALIKE_MAX - 2)) {
                (Some((_, more)), Some(_)) if problem.line.is_some() => *more += 1,
                _ => kept.push((problem, 0)),
            }
        }
        let told = kept.into_iter().map(|(mut problem, more)| {
            if more > 0 {
                problem
                    .what
                    .push_str(&format!(" (and {more} more like it)"));
            }
            problem
        });
        self.problems = told.collect();
    }
}
