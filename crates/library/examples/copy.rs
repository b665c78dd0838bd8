//! Copies a file over all links at once: `copy FILE receive TARGET` on one node,
//! `copy FILE NODE SOURCE` on another. FILE is the cluster file; no daemon may have its port.

use std::error::Error;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use tabane_library::{Node, Options};

const COPY: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [file, "receive", target] => receive(&open(file)?, target),
        [file, peer, source] => send(&open(file)?, peer, source),
        _ => Err("usage: copy FILE receive TARGET | copy FILE NODE SOURCE".into()),
    }
}

fn open(file: &str) -> Result<Node, Box<dyn Error>> {
    Ok(Node::open(Options::from_cluster_file(file, None)?)?)
}

fn receive(node: &Node, target: &str) -> Result<(), Box<dyn Error>> {
    let listener = node.listen(COPY)?;
    println!("listening");
    let mut stream = listener.accept()?;
    let bytes = io::copy(&mut stream, &mut File::create(target)?)?;
    // The sender learns that all of it is here by the end of this direction.
    stream.finish()?;
    stream.wait_finished(PATIENCE)?;
    println!("received {bytes} bytes from {}", stream.peer());
    Ok(())
}

fn send(node: &Node, peer: &str, source: &str) -> Result<(), Box<dyn Error>> {
    let mut source = File::open(source)?;
    let mut stream = node.connect(peer, COPY)?;
    let began = Instant::now();
    let bytes = io::copy(&mut source, &mut stream)?;
    stream.finish()?;
    io::copy(&mut stream, &mut io::sink())?;
    let mbps = bytes as f64 * 8e-6 / began.elapsed().as_secs_f64();
    println!("sent {bytes} bytes, {mbps:.0} Mb/s");
    Ok(())
}
