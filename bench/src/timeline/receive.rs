//! The receiving end.

use std::io::{ErrorKind, Read};

use super::{BIN_NS, Content, PAUSE_NOTED_NS, Timeline};
use crate::transport::{Listener, Stream};
use tabane_lab::monotonic_ns;
use tabane_lab::pattern::first_wrong;

const BUFFER_BYTES: usize = 256 * 1024;

/// Take one connection and note what comes, until its end.
pub fn receive(listener: &Listener, content: Content) -> Timeline {
    match listener.accept() {
        Ok(stream) => take(&stream, content),
        Err(error) => Timeline {
            error: Some(error.to_string()),
            ..Timeline::default()
        },
    }
}

/// Note what comes on a connection, until its end.
pub fn take(stream: &Stream, content: Content) -> Timeline {
    let mut noting = Noting::default();
    if let Err(error) = read_all(stream, content, &mut noting) {
        noting.timeline.error = Some(error.to_string());
    }
    noting.timeline
}

fn read_all(mut stream: &Stream, content: Content, noting: &mut Noting) -> std::io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let timeline = &mut noting.timeline;
        if content == Content::Counted && timeline.wrong_at.is_none() {
            timeline.wrong_at = first_wrong(&buffer[..length], timeline.bytes);
        }
        noting.note(length);
    }
}

/// A timeline in the making.
#[derive(Default)]
struct Noting {
    timeline: Timeline,
    last_ns: u64,
}

impl Noting {
    /// So many bytes come now.
    fn note(&mut self, length: usize) {
        let (now_ns, timeline) = (monotonic_ns(), &mut self.timeline);
        if self.last_ns == 0 {
            timeline.first_ns = now_ns;
        } else if now_ns - self.last_ns >= PAUSE_NOTED_NS {
            timeline.pauses.push((self.last_ns, now_ns));
        }
        self.last_ns = now_ns;
        timeline.bytes += length as u64;
        let bin = ((now_ns - timeline.first_ns) / BIN_NS) as usize;
        if timeline.bins.len() <= bin {
            timeline.bins.resize(bin + 1, 0);
        }
        timeline.bins[bin] += length as u32;
    }
}
