//! The library in an asynchronous program.

mod common;

use common::{LONG, SERVICE, two_nodes};
use tabane_library::{ConnectError, Event, SendError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_for_each_stream() {
    let (a, b) = two_nodes();
    let listener = b.listen(SERVICE).unwrap();
    let echo = tokio::spawn(async move {
        let mut echoes = Vec::new();
        for _ in 0..8 {
            let mut stream = listener.accept_async().await.unwrap();
            echoes.push(tokio::spawn(async move {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await.unwrap();
                stream.write_all(&all).await.unwrap();
                stream.shutdown().await.unwrap();
            }));
        }
        for echo in echoes {
            echo.await.unwrap();
        }
        b
    });
    for n in 0..8u8 {
        let mut stream = timeout(LONG, a.connect_async("b", SERVICE))
            .await
            .unwrap()
            .unwrap();
        // More than both ends hold: writing waits for the reader.
        let sent = vec![n; 3_000_000];
        stream.write_all(&sent).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut got = Vec::new();
        timeout(LONG, stream.read_to_end(&mut got))
            .await
            .unwrap()
            .unwrap();
        assert!(got == sent);
    }
    timeout(LONG, echo).await.unwrap().unwrap();
}

#[tokio::test]
async fn messages_events_and_errors_reach_tasks() {
    let (a, b) = two_nodes();
    let up = timeout(LONG, async {
        loop {
            if let Event::PeerUp { peer, .. } = a.next_event_async().await.unwrap() {
                break peer;
            }
        }
    });
    assert_eq!(up.await.unwrap(), "b");
    let refused = timeout(LONG, a.connect_async("b", SERVICE)).await.unwrap();
    assert_eq!(refused.err(), Some(ConnectError::Refused));
    a.send("b", 1, b"hello").unwrap();
    let message = timeout(LONG, b.receive_async()).await.unwrap().unwrap();
    assert_eq!(
        (message.from.name(), &message.data[..]),
        ("a", &b"hello"[..])
    );
}

#[tokio::test]
async fn a_task_that_sends_more_than_there_is_room_for_waits() {
    const MESSAGES: usize = 400;
    const BYTES: usize = 500_000;
    let (a, b) = two_nodes();
    let unknown = a.send_async("c", 1, b"hello").await;
    assert_eq!(unknown, Err(SendError::UnknownPeer("c".to_owned())));
    // Nobody receives: more than either end keeps. Others have their turn meanwhile, in the same thread.
    let sending = async {
        for n in 0..MESSAGES {
            a.send_async("b", 1, &vec![n as u8; BYTES]).await.unwrap();
        }
    };
    let receiving = async {
        for n in 0..MESSAGES {
            let message = b.receive_async().await.unwrap();
            assert!(message.data == vec![n as u8; BYTES], "message {n}");
        }
    };
    let both = async { tokio::join!(sending, receiving) };
    timeout(LONG, both).await.unwrap();
}
