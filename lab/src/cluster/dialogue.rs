//! A program that is spoken with, line by line.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use super::{PATIENCE, Program};
use crate::LabError;

/// A running program, its input, and the lines that it prints. Dropping it kills it.
#[derive(Debug)]
pub struct Dialogue {
    name: String,
    program: Program,
    input: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Dialogue {
    /// Start a command, and wait until it has said its first line: then it is ready.
    ///
    /// # Errors
    /// It cannot be started, or says nothing.
    pub fn start(name: &str, mut command: Command) -> Result<Dialogue, LabError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Program::start(name, command)?;
        let input = program.take_stdin();
        let Some(output) = program.take_stdout() else {
            return Err(LabError::io(name)(io::Error::other("it has no output")));
        };
        let mut dialogue = Dialogue {
            name: name.to_owned(),
            program,
            input,
            lines: BufReader::new(output),
        };
        dialogue.says("")?;
        Ok(dialogue)
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.program.id()
    }

    /// Wait for its next line that has `part` in it.
    ///
    /// # Errors
    /// It ends without having said so.
    pub fn says(&mut self, part: &str) -> Result<String, LabError> {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let bytes = self.lines.read_line(&mut line);
            said.push_str(&line);
            if bytes.map_err(LabError::io(self.name.clone()))? == 0 {
                let why = format!("never said {part:?}, but: {said:?}");
                return Err(LabError::io(self.name.clone())(io::Error::other(why)));
            }
            if line.contains(part) {
                return Ok(line);
            }
        }
    }

    /// Tell it a line.
    ///
    /// # Errors
    /// It reads no more.
    pub fn tell(&mut self, line: &str) -> Result<(), LabError> {
        let input = self.input.as_mut();
        let told = input.map_or(Ok(()), |input| writeln!(input, "{line}"));
        told.map_err(LabError::io(self.name.clone()))
    }

    /// Tell it that there is no more input.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    /// Wait for its end.
    ///
    /// # Errors
    /// As [`Program::wait`].
    pub fn wait(&mut self) -> Result<ExitStatus, LabError> {
        self.program.wait(PATIENCE)
    }
}
