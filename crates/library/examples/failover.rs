//! Tells what happens to links and peers, and what a program notices of it: `failover FILE` on one
//! node, `failover FILE NODE` on another sends a message each millisecond, on two links
//! each. Both end with their standard input.

use std::error::Error;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tabane_library::{Node, Options, Policy};

const FLOW: u32 = 1;
const TICK: Duration = Duration::from_millis(1);
/// A gap that is worth a line.
const GAP: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: failover FILE [NODE]")?;
    let peer = arguments.next();
    let node = Node::open(Options::from_cluster_file(file, None)?)?;
    let is_over = AtomicBool::new(false);
    println!("running");
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut io::stdin().by_ref(), &mut io::sink());
            is_over.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| tell_events(&node, &is_over));
        match &peer {
            Some(peer) => send(&node, peer, &is_over),
            None => receive(&node, &is_over),
        }
    })
}

fn tell_events(node: &Node, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        if let Ok(Some(event)) = node.next_event(PATIENCE) {
            println!("{event:?}");
        }
    }
}

fn send(node: &Node, peer: &str, is_over: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let mut count = 0u64;
    while !is_over.load(Ordering::Relaxed) {
        node.send_with(peer, FLOW, None, &count.to_le_bytes(), Policy::Mirror)?;
        count += 1;
        thread::sleep(TICK);
    }
    println!("sent {count} messages");
    Ok(())
}

fn receive(node: &Node, is_over: &AtomicBool) -> Result<(), Box<dyn Error>> {
    let (mut count, mut last) = (0u64, Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        let Some(message) = node.receive_timeout(PATIENCE)? else {
            continue;
        };
        if message.data != count.to_le_bytes() {
            return Err(format!("message {count} is missing").into());
        }
        if last.elapsed() > GAP && count > 0 {
            println!("nothing for {} ms", last.elapsed().as_millis());
        }
        (count, last) = (count + 1, Instant::now());
    }
    println!("received {count} messages in order");
    Ok(())
}
