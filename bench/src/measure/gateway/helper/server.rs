//! The server.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tabane_io::process::raise_descriptor_limit;

use super::OUTSIDE_PORT;
use super::asked::{Asked, STILL_MAX};
use super::streams::{note, send_endless, send_steady};
use crate::flow::Flow;
use crate::timeline::{Content, Sent, Timeline, take};
use crate::transport::Stream;

/// What a server knows of its clients' streams.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// Of those that were read.
    pub taken: Vec<Flow>,
    /// Of those whose bytes were looked at, once they have ended.
    pub checked: Vec<Timeline>,
    /// Of those of a steady rate that it sent, once they have ended.
    pub sent: Vec<Sent>,
}

impl Told {
    /// Ask a server.
    ///
    /// # Errors
    /// It does not answer.
    pub fn by(to: SocketAddr) -> io::Result<Told> {
        let mut said = Vec::new();
        Asked::Tell.of(to)?.read_to_end(&mut said)?;
        serde_json::from_slice(&said).map_err(io::Error::other)
    }
}

#[derive(Default)]
struct Notes {
    taken: Vec<Arc<Mutex<Flow>>>,
    told: Told,
}

impl Notes {
    fn tell(&mut self) -> Told {
        let flow = |flow: Arc<Mutex<Flow>>| {
            let flow = flow.lock().unwrap_or_else(PoisonError::into_inner);
            flow.clone()
        };
        let mut told = std::mem::take(&mut self.told);
        told.taken = self.taken.drain(..).map(flow).collect();
        told
    }
}

/// Serve, until killed.
///
/// # Errors
/// The port is taken.
pub fn serve() -> io::Result<()> {
    raise_descriptor_limit()?;
    let datagrams = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, OUTSIDE_PORT))?;
    thread::spawn(move || echo_datagrams(&datagrams));
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, OUTSIDE_PORT))?;
    serve_at(&listener)
}

fn serve_at(listener: &TcpListener) -> io::Result<()> {
    let notes = Arc::new(Mutex::new(Notes::default()));
    loop {
        let (stream, _) = listener.accept()?;
        let notes = notes.clone();
        // What goes wrong with a connection is its client's to tell.
        thread::spawn(move || answer(stream, &notes));
    }
}

fn answer(stream: TcpStream, notes: &Mutex<Notes>) -> io::Result<()> {
    let locked = || notes.lock().unwrap_or_else(PoisonError::into_inner);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STILL_MAX))?;
    stream.set_write_timeout(Some(STILL_MAX))?;
    match Asked::read(&stream)? {
        Asked::Bytes(count) => {
            (&stream).write_all(&vec![7; count as usize])?;
            // Whoever closes first keeps the port for a while: it is the client, as of most servers.
            (&stream).read(&mut [0]).map(drop)?;
        }
        Asked::Endless => send_endless(&stream, || {}),
        Asked::Steady { ms, mbit } => {
            let sent = send_steady(&stream, Duration::from_millis(ms.into()), mbit);
            locked().told.sent.push(sent);
        }
        Asked::Take => {
            let flow = Arc::<Mutex<Flow>>::default();
            locked().taken.push(flow.clone());
            note(&stream, &flow);
        }
        Asked::Check => {
            let stream = Stream::Tcp(stream);
            let timeline = take(&stream, Content::Counted);
            locked().told.checked.push(timeline);
        }
        Asked::Echo(bytes) => echo(&stream, bytes)?,
        Asked::Tell => {
            let told = locked().tell();
            (&stream).write_all(&serde_json::to_vec(&told)?)?;
        }
    }
    Ok(())
}

/// Sends back every datagram, until killed.
pub fn echo_datagrams(socket: &UdpSocket) {
    let mut datagram = [0; 2048];
    loop {
        // What cannot be sent is lost, as anywhere.
        if let Ok((bytes, from)) = socket.recv_from(&mut datagram) {
            let _ = socket.send_to(&datagram[..bytes], from);
        }
    }
}

fn echo(mut stream: &TcpStream, bytes: u32) -> io::Result<()> {
    let mut message = vec![0; bytes as usize];
    loop {
        stream.read_exact(&mut message)?;
        stream.write_all(&message)?;
    }
}

/// A server of its own for a test, which ends with the test's process.
#[cfg(test)]
pub fn serve_in_test() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("is bound");
    thread::spawn(move || serve_at(&listener));
    address
}
