//! Calls, messages and sums, each by connections that stay open.

use std::process::Stdio;

use tabane_lab::cluster::socket_address;

use super::*;

/// Calls and streams of calls in one connection (HTTP/2): one that nobody reads holds up no other, and loses nothing.
#[test]
fn grpc_with_a_slow_reader() {
    let site = Site::from(cluster_on(&slow_links()));
    let server = python(&site, 1, "grpc_calls.py", &["serve", "50051"]);
    let _server = serve_by(&site, 1, "the gRPC server", server, 50051);
    let address = socket_address(site.address(1), 50051);
    let client = python(&site, 0, "grpc_calls.py", &["call", &address]);
    let said = across_failures(&site, "the gRPC client", client);
    assert_eq!(said, "all of it\n");
}

/// Messages of all sizes both ways, in many connections, each of which stays open.
#[test]
fn websockets() {
    let site = Site::from(cluster_on(&slow_links()));
    let server = python(&site, 1, "websocket.py", &["serve", "8765"]);
    let _server = serve_by(&site, 1, "the WebSocket server", server, 8765);
    let address = format!("ws://{}", socket_address(site.address(1), 8765));
    let client = python(&site, 0, "websocket.py", &["talk", &address]);
    let said = across_failures(&site, "the WebSocket client", client);
    assert_eq!(said, "all of it\n");
}

/// Each of three has the sums of what all have.
#[test]
fn torch_gloo() {
    let site = three();
    let address = site.address(0).to_string();
    let member = |rank: usize| python(&site, rank, "reduce.py", &[&rank.to_string(), &address]);
    let others = [1, 2].map(|rank| {
        let mut member = member(rank);
        member.stdout(Stdio::piped()).stderr(Stdio::piped());
        Program::start("torch", member).expect("starts")
    });
    assert_eq!(across_failures(&site, "torch", member(0)), "all of it\n");
    for other in others {
        let said = well("torch", &other.output(PATIENCE).expect("ends"));
        assert_eq!(said, "all of it\n");
    }
}
