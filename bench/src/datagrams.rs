//! Datagrams in bursts over all links and nothing around them: no numbers, no copies, no checks,
//! nothing sent again. What that costs is the kernel's share of every bundle in user space, which
//! none can be faster than.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tabane_io::poll::{Interest, Poller};
use tabane_io::udp::{LinkSocket, ReceiveBatch};

use super::timeline::{Noting, Sent, Timeline};

/// Where they arrive; from where they are sent.
pub const PORT: u16 = 7002;
/// All that an Ethernet frame of 1500 bytes has room for behind IPv4 and UDP.
const DATAGRAM_BYTES: usize = 1472;
/// As many as one call can send.
const BURST_BYTES: usize = 44 * DATAGRAM_BYTES;
/// What may be on its way on each link: far less than a receive buffer.
const WINDOW_BYTES: u64 = 16 * BURST_BYTES as u64;
/// The receiver answers each time so much has arrived on a link: with how much that is in all.
const ANSWER_BYTES: u64 = 4 * BURST_BYTES as u64;
/// If there is no answer for so long, what was under way is lost: the receiver was not there.
const PATIENCE: Duration = Duration::from_millis(100);
/// When nothing comes for so long the sender has done.
const END: Duration = Duration::from_millis(400);
/// How long the receiver waits for the first one.
const BEGINNING: Duration = Duration::from_secs(10);

struct Link {
    socket: LinkSocket,
    peer: SocketAddr,
    moved: u64,
    answered: u64,
}

fn open(links: &[SocketAddr], poller: &Poller) -> std::io::Result<Vec<Link>> {
    let (own, peers) = links.split_at(links.len() / 2);
    let pairs = own.iter().zip(peers).enumerate();
    let open = |(index, (own, peer)): (usize, (&SocketAddr, &SocketAddr))| {
        let (socket, _) = LinkSocket::bind(*own, None).map_err(std::io::Error::other)?;
        poller.register(&socket, index as u64, Interest::Read)?;
        Ok(Link {
            socket,
            peer: *peer,
            moved: 0,
            answered: 0,
        })
    };
    pairs.map(open).collect()
}

/// Send for this long. `links` are the own addresses, then the receiver's.
///
/// # Errors
/// An address is not there.
pub fn send(links: &[SocketAddr], lasting: Duration) -> std::io::Result<Sent> {
    let poller = Poller::new()?;
    let mut links = open(links, &poller)?;
    let burst = vec![0; BURST_BYTES];
    let (mut batch, mut ready, mut sent) = (ReceiveBatch::new(), Vec::new(), Sent::default());
    let until = Instant::now() + lasting;
    while Instant::now() < until {
        let mut moved = false;
        for link in &mut links {
            let has_room = link.moved - link.answered < WINDOW_BYTES;
            if has_room && link.socket.send(link.peer, &burst, DATAGRAM_BYTES).is_ok() {
                link.moved += BURST_BYTES as u64;
                sent.bytes += BURST_BYTES as u64;
                moved = true;
            }
        }
        let patience = if moved { Duration::ZERO } else { PATIENCE };
        poller.wait(Some(patience), &mut ready)?;
        if !moved && ready.is_empty() {
            links.iter_mut().for_each(|link| link.answered = link.moved);
        }
        for event in &ready {
            let link = &mut links[event.token as usize];
            // A receiver that is not there yet makes errors, which say nothing else.
            let _ = link.socket.recv(&mut batch);
            for (_, answer) in batch.datagrams() {
                if let Ok(answer) = <[u8; 8]>::try_from(&*answer) {
                    link.answered = link
                        .answered
                        .max(u64::from_le_bytes(answer).min(link.moved));
                }
            }
        }
    }
    Ok(sent)
}

/// Take what comes, until no more does. `links` as of [`send`].
///
/// # Errors
/// An address is not there.
pub fn receive(links: &[SocketAddr]) -> std::io::Result<Timeline> {
    let poller = Poller::new()?;
    let mut links = open(links, &poller)?;
    let (mut batch, mut ready, mut noting) = (ReceiveBatch::new(), Vec::new(), Noting::default());
    loop {
        let patience = if noting.has_begun() { END } else { BEGINNING };
        poller.wait(Some(patience), &mut ready)?;
        if ready.is_empty() {
            return Ok(noting.timeline);
        }
        for event in &ready {
            let link = &mut links[event.token as usize];
            let _ = link.socket.recv(&mut batch);
            let bytes: usize = batch.datagrams().map(|(_, datagram)| datagram.len()).sum();
            link.moved += bytes as u64;
            noting.note(bytes);
            if link.moved - link.answered >= ANSWER_BYTES {
                link.answered = link.moved;
                let answer = link.moved.to_le_bytes();
                let _ = link.socket.send(link.peer, &answer, answer.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_arrives() {
        // Several run at a time: each has its own addresses.
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let at = move |host: u8| SocketAddr::from(([127, high, low, host], PORT));
        let taker = std::thread::spawn(move || receive(&[at(3), at(4), at(1), at(2)]));
        let sent = send(&[at(1), at(2), at(3), at(4)], Duration::from_millis(300));
        let (sent, taken) = (sent.expect("sends"), taker.join().expect("ends"));
        let taken = taken.expect("receives");
        assert!(taken.bytes > 0 && taken.bytes <= sent.bytes);
    }
}
