//! Any bytes as a packet in a program's network namespace: what is taken for a SYN is whole, and what
//! answers it fits.

use tabane_io::capture::Syn;

/// Feeds it `packet`.
pub fn run(packet: &[u8]) {
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
