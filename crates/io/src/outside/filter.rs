//! Which frames of the outside are for the cluster, as a program of the kernel's classic BPF (linux/filter.h).

use std::net::IpAddr;

use libc::{BPF_ABS, BPF_B, BPF_H, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};

use crate::sys::step;

/// The protocol behind Ethernet's header (SKF_AD_OFF), and where the network's header is (SKF_NET_OFF).
const PROTOCOL: u32 = -0x1000_i32 as u32;
const NETWORK: u32 = -0x10_0000_i32 as u32;
/// Whether the kernel keeps a VLAN tag beside the frame (SKF_AD_VLAN_TAG_PRESENT): then it is for another device.
const HAS_TAG: u32 = PROTOCOL + 48;
const ALL: u32 = u32::MAX;
const NOTHING: u32 = 0;
/// Where ARP has whose the addresses are that it is about.
const ARP_SENDER_AT: u32 = 14;
const ARP_TARGET_AT: u32 = 24;
const ICMPV6: u32 = libc::IPPROTO_ICMPV6 as u32;
const NEIGHBOUR_SOLICITATION: u32 = 135;
const NEIGHBOUR_ADVERTISEMENT: u32 = 136;
/// Where these, which have no extension headers in front of them (RFC 4861, 7.1), have what they are about.
const TARGET_AT: u32 = 40 + 8;

/// A test: what is loaded, and what it is to be.
type Test = (u32, u32, u32);

/// Of frames for the addresses, of questions who has them, and of answers.
pub(super) fn program(addresses: &[IpAddr]) -> Vec<libc::sock_filter> {
    let mut program = vec![
        load(BPF_B, HAS_TAG),
        is(0, 1, 0),
        step(BPF_RET | BPF_K, 0, 0, NOTHING),
    ];
    for address in addresses {
        match address {
            IpAddr::V4(v4) => {
                let v4 = v4.to_bits();
                let protocol = libc::ETH_P_IP as u32;
                accept(
                    &mut program,
                    &[(BPF_H, PROTOCOL, protocol), (BPF_W, NETWORK + 16, v4)],
                );
                let arp = (BPF_H, PROTOCOL, libc::ETH_P_ARP as u32);
                for at in [ARP_SENDER_AT, ARP_TARGET_AT] {
                    accept(&mut program, &[arp, (BPF_W, NETWORK + at, v4)]);
                }
            }
            IpAddr::V6(v6) => {
                let words = words(v6.to_bits());
                let protocol = (BPF_H, PROTOCOL, libc::ETH_P_IPV6 as u32);
                let mut for_it = vec![protocol];
                for_it.extend(words.map(|(at, word)| (BPF_W, NETWORK + 24 + at, word)));
                accept(&mut program, &for_it);
                for kind in [NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT] {
                    let mut tells = vec![
                        protocol,
                        (BPF_B, NETWORK + 6, ICMPV6),
                        (BPF_B, NETWORK + 40, kind),
                    ];
                    tells.extend(words.map(|(at, word)| (BPF_W, NETWORK + TARGET_AT + at, word)));
                    accept(&mut program, &tells);
                }
            }
        }
    }
    program.push(step(BPF_RET | BPF_K, 0, 0, NOTHING));
    program
}

/// The words of an address, and where in it they are.
fn words(bits: u128) -> [(u32, u32); 4] {
    [0, 1, 2, 3].map(|n| (n * 4, (bits >> (96 - 32 * n)) as u32))
}

/// Takes a frame for which all tests hold; the program goes on with others behind.
fn accept(program: &mut Vec<libc::sock_filter>, tests: &[Test]) {
    for (n, (size, at, value)) in tests.iter().enumerate() {
        // Two steps for each test that follows, and the end.
        let skip = 2 * (tests.len() - n - 1) + 1;
        program.push(load(*size, *at));
        program.push(is(*value, 0, skip as u8));
    }
    program.push(step(BPF_RET | BPF_K, 0, 0, ALL));
}

fn load(size: u32, at: u32) -> libc::sock_filter {
    step(BPF_LD | size | BPF_ABS, 0, 0, at)
}

fn is(k: u32, yes: u8, no: u8) -> libc::sock_filter {
    step(BPF_JMP | BPF_JEQ | BPF_K, yes, no, k)
}
