//! Echo over a bundle: `echo FILE serve` on one node, `echo FILE NODE TEXT` on another.
//! FILE is the cluster file; no daemon may have its port.

use std::error::Error;
use std::io::{Read, Write};

use tabane_library::{Node, Options, Stream};

/// The service, as one would choose a port.
const ECHO: u32 = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [file, "serve"] => serve(&open(file)?),
        [file, peer, text] => ask(&open(file)?, peer, text),
        _ => Err("usage: echo FILE serve | echo FILE NODE TEXT".into()),
    }
}

fn open(file: &str) -> Result<Node, Box<dyn Error>> {
    Ok(Node::open(Options::from_cluster_file(file, None)?)?)
}

fn serve(node: &Node) -> Result<(), Box<dyn Error>> {
    let listener = node.listen(ECHO)?;
    println!("listening");
    std::thread::scope(|scope| {
        loop {
            let stream = listener.accept()?;
            scope.spawn(move || {
                let peer = stream.peer().to_owned();
                if let Err(error) = answer(stream) {
                    eprintln!("{peer}: {error}");
                }
            });
        }
    })
}

fn answer(mut stream: Stream) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(stream.finish()?),
            bytes => stream.write_all(&buffer[..bytes])?,
        }
    }
}

fn ask(node: &Node, peer: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let mut stream = node.connect(peer, ECHO)?;
    stream.write_all(text.as_bytes())?;
    stream.finish()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    println!("{answer}");
    Ok(())
}
