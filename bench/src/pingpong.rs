//! Half round trips of messages.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::figures::Samples;
use super::transport::{Listener, Stream};

/// Bytes of one message, unless it is told otherwise.
pub const MESSAGE_BYTES: usize = 16;

/// Half round trips.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of them were at most this long, microseconds.
    pub p50_us: f64,
    /// And 99 of 100 this.
    pub p99_us: f64,
    /// How many there were.
    pub count: usize,
}

/// Take one connection and send back every message of so many bytes once all
/// of it is there, until the connection's end.
///
/// # Errors
/// The connection breaks.
pub fn echo(listener: &Listener, bytes: usize) -> std::io::Result<()> {
    let stream = listener.accept()?;
    stream.set_nodelay()?;
    let mut stream = &stream;
    let mut buffer = vec![0; bytes];
    loop {
        match stream.read_exact(&mut buffer) {
            Ok(()) => stream.write_all(&buffer)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Send a message of so many bytes, wait for its echo, and so on for this long.
///
/// # Errors
/// The connection breaks.
pub fn ping(mut stream: &Stream, bytes: usize, lasting: Duration) -> std::io::Result<Latency> {
    stream.set_nodelay()?;
    let mut buffer = vec![7; bytes];
    let mut half_us = Samples::default();
    let begin = Instant::now();
    // The first ones meet cold caches.
    let warm = begin + lasting / 10;
    loop {
        let sent = Instant::now();
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
        let now = Instant::now();
        if now > warm {
            half_us.0.push((now - sent).as_secs_f64() * 1e6 / 2.0);
        }
        if now > begin + lasting && !half_us.0.is_empty() {
            break;
        }
    }
    let at = |share: f64| half_us.quantile(share).unwrap_or(f64::NAN);
    Ok(Latency {
        p50_us: at(0.5),
        p99_us: at(0.99),
        count: half_us.0.len(),
    })
}

/// Half a round trip of a datagram of 8 bytes, in microseconds, of one who looks again and again.
///
/// # Errors
/// The network is not there; nobody answers.
pub fn spin(to: SocketAddr) -> std::io::Result<f64> {
    const TIMES: u32 = 5000;
    let socket = spinning(0)?;
    socket.connect(to)?;
    let mut begin = Instant::now();
    for round in 0..TIMES + TIMES / 10 {
        if round == TIMES / 10 {
            begin = Instant::now();
        }
        socket.send(&[7; 8])?;
        let sent = Instant::now();
        while socket.recv(&mut [0; 8]).is_err() {
            if sent.elapsed() > Duration::from_secs(5) {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(2 * TIMES))
}

/// Sends back what comes to a port, looking again and again.
///
/// # Errors
/// The port is taken.
pub fn spin_back(port: u16) -> std::io::Result<()> {
    let socket = spinning(port)?;
    let mut buffer = [0; 8];
    loop {
        if let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..bytes], from)?;
        }
    }
}

fn spinning(port: u16) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn messages_go_to_and_fro() {
        for bytes in [1, MESSAGE_BYTES, 1 << 20] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
            let address = listener.local_addr().expect("is bound");
            let echo = std::thread::spawn(move || echo(&Listener::Tcp(listener), bytes));
            let stream = Stream::Tcp(TcpStream::connect(address).expect("connects"));
            let latency = ping(&stream, bytes, Duration::from_millis(20)).expect("is answered");
            assert!(latency.count > 0 && latency.p50_us > 0.0);
            assert!(latency.p99_us >= latency.p50_us);
            drop(stream);
            echo.join().expect("ends").expect("ends well");
        }
    }
}
