//! Any bytes as what the kernel logs in a program's network namespace, or as a packet there: what is taken
//! for a SYN is whole, and what answers it fits.

use tabane_io::capture::Syn;
use tabane_io::netlink::logged_packet;

/// Feeds it `bytes`.
pub fn run(bytes: &[u8]) {
    read(bytes);
    if let Some(packet) = logged_packet(bytes) {
        assert!(packet.len() < bytes.len());
        read(packet);
    }
}

fn read(packet: &[u8]) {
    let Some(syn) = Syn::read(packet) else {
        return;
    };
    assert!(syn.packet().len() <= packet.len());
    // Its checksum is right now, and nothing else has changed.
    assert_eq!(Syn::read(syn.packet()).as_ref(), Some(&syn));
    assert_eq!(syn.source.is_ipv4(), syn.destination.is_ipv4());
    let refusal = syn.refusal();
    assert_eq!(refusal.len(), if syn.source.is_ipv4() { 40 } else { 60 });
    assert_eq!(Syn::read(&refusal), None);
}
