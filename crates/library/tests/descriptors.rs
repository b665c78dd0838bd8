//! The library in a program that waits by poll or epoll.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;

use common::{LONG, SERVICE, two_nodes};
use tabane_io::poll::{Interest, Poller};
use tabane_library::{Descriptor, ReceiveError};

/// Whether it is readable within so long.
fn is_readable(descriptor: &Descriptor, within: Duration) -> bool {
    let poller = Poller::new().unwrap();
    poller.register(descriptor, 0, Interest::Read).unwrap();
    let mut ready = Vec::new();
    poller.wait(Some(within), &mut ready).unwrap();
    !ready.is_empty()
}

#[test]
fn descriptors_are_readable_while_something_is_there() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    let waits = listener.descriptor().unwrap();
    assert!(!is_readable(&waits, Duration::ZERO));
    let near = a.connect("b", SERVICE).unwrap();
    assert!(is_readable(&waits, LONG));
    let far = listener.accept_timeout(Duration::ZERO).unwrap();
    assert!(!is_readable(&waits, Duration::ZERO));
    far.set_nonblocking(true);
    let bytes = far.read_descriptor().unwrap();
    assert!(!is_readable(&bytes, Duration::ZERO));
    (&near).write_all(b"hello").unwrap();
    assert!(is_readable(&bytes, LONG));
    assert_eq!((&far).read(&mut [0; 5]).unwrap(), 5);
    assert!(!is_readable(&bytes, Duration::ZERO));
    let nothing = (&far).read(&mut [0; 5]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    drop(near);
    assert!(is_readable(&bytes, LONG));
    assert_eq!((&far).read(&mut [0; 5]).unwrap(), 0);
    b.close();
    assert!(is_readable(&waits, Duration::ZERO));
}

#[test]
fn a_message_that_is_too_long_for_one_is_for_the_next() {
    let (a, b) = two_nodes();
    a.send("b", 1, b"hello").unwrap();
    let too_long = b.receive_up_to(4, LONG);
    assert_eq!(too_long, Err(ReceiveError::TooLong { bytes: 5 }));
    assert_eq!(b.receive_timeout(LONG).unwrap().unwrap().data, b"hello");
    assert_eq!(b.receive_up_to(4, Duration::ZERO), Ok(None));
}

#[test]
fn a_reset_here_ends_who_reads_here() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    let stream = a.connect("b", SERVICE).unwrap();
    let _accepted = listener.accept_timeout(LONG).unwrap();
    let reads = stream.read_descriptor().unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| (&stream).read(&mut [0; 8]));
        // Whether it waits already nobody can see; either order must end it.
        stream.reset(1).unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), 0);
    });
    assert!(is_readable(&reads, Duration::ZERO));
}
