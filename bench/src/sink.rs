//! Many TCP streams at once: a sender for several receivers, a receiver for
//! several senders.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::flow::Flow;
use super::timeline::{self, Content};
use super::transport::Stream;
use tabane_lab::monotonic_ns;

const BUFFER_BYTES: usize = 128 * 1024;

/// Send to all of them as fast as they take it, for this long.
///
/// # Errors
/// One of them does not listen. What a connection suffers later shows at its
/// receiver.
pub fn flood(to: &[SocketAddr], lasting: Duration) -> std::io::Result<()> {
    let streams = to.iter().map(TcpStream::connect);
    let streams: Vec<_> = streams.collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        for stream in streams {
            scope.spawn(move || timeline::send(&Stream::Tcp(stream), lasting, Content::Counted));
        }
    });
    Ok(())
}

/// Take so many connections and note what comes, until the end of all.
///
/// # Errors
/// A connection cannot be taken.
pub fn take(listener: &TcpListener, count: usize) -> std::io::Result<Vec<Flow>> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        streams.push(listener.accept()?.0);
    }
    Ok(thread::scope(|scope| {
        let takers: Vec<_> = streams
            .into_iter()
            .map(|stream| scope.spawn(move || read_all(stream)))
            .collect();
        let flows = takers.into_iter().map(|taker| taker.join());
        flows.map(Result::unwrap_or_default).collect()
    }))
}

/// What came before an error is what there is.
fn read_all(mut stream: TcpStream) -> Flow {
    let mut flow = Flow::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        flow.note(monotonic_ns(), bytes as u64);
    }
    flow
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_streams_are_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("is bound");
        let taker = thread::spawn(move || take(&listener, 3));
        flood(&[address; 3], Duration::from_millis(20)).expect("connects");
        let flows = taker.join().expect("ends").expect("takes them");
        assert_eq!(flows.len(), 3);
        for flow in flows {
            assert!(flow.bytes_within(0, u64::MAX) > 0);
        }
    }
}
