//! nf_tables' own netlink messages (linux/netfilter/nf_tables.h), and the parts of its rules.

use std::net::IpAddr;

use super::message::Request;

// linux/netfilter/nfnetlink.h, nf_tables.h; not in the libc crate.
pub(crate) const SUBSYSTEM: u16 = 10;
pub(crate) const BATCH_BEGIN: u16 = 16;
pub(crate) const BATCH_END: u16 = 17;
pub(crate) const NEW_TABLE: u16 = SUBSYSTEM << 8;
pub(crate) const DELETE_TABLE: u16 = SUBSYSTEM << 8 | 2;
pub(crate) const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
pub(crate) const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
pub(crate) const NEW_SET: u16 = SUBSYSTEM << 8 | 9;
/// All of a verdict's place.
pub(crate) const VERDICT_REGISTER: u32 = 0;
/// The register for loads and comparisons.
pub(crate) const REGISTER: u32 = 1;
pub(crate) const DROP: i32 = 0;
pub(crate) const ACCEPT: i32 = 1;
pub(crate) const EQUAL: u32 = 0;
pub(crate) const NETWORK_HEADER: u32 = 1;
pub(crate) const TRANSPORT_HEADER: u32 = 2;

/// `struct nfgenmsg`.
pub(crate) fn header(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

pub(crate) fn batch(kind: u16) -> Request {
    Request::new(kind, 0, &header(0, SUBSYSTEM))
}

pub(crate) fn meta(list: &mut Request, key: u32, whether: u32, expected: &[u8]) {
    expression(list, "meta", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, key);
    });
    compare(list, whether, expected);
}

pub(crate) fn load_payload(list: &mut Request, base: u32, offset: u32, bytes: u32) {
    expression(list, "payload", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, base);
        big_endian(data, 3, offset);
        big_endian(data, 4, bytes);
    });
}

pub(crate) fn compare(list: &mut Request, whether: u32, expected: &[u8]) {
    expression(list, "cmp", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, whether);
        nest(data, 3, |data| value(data, expected));
    });
}

pub(crate) fn octets_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub(crate) fn verdict(list: &mut Request, code: i32) {
    immediate(list, VERDICT_REGISTER, |data| {
        nest(data, 2, |verdict| big_endian(verdict, 1, code as u32));
    });
}

pub(crate) fn immediate(list: &mut Request, register: u32, fill: impl FnOnce(&mut Request)) {
    expression(list, "immediate", |data| {
        big_endian(data, 1, register);
        nest(data, 2, fill);
    });
}

pub(crate) fn value(data: &mut Request, bytes: &[u8]) {
    data.attribute(1, bytes);
}

pub(crate) fn expression(list: &mut Request, name: &str, fill: impl FnOnce(&mut Request)) {
    nest(list, 1, |element| {
        element.text(1, name);
        nest(element, 2, fill);
    });
}

pub(crate) fn big_endian(request: &mut Request, kind: u16, number: u32) {
    request.attribute(kind, &number.to_be_bytes());
}

/// Adds a nested attribute with the flag that this part of the kernel wants.
pub(crate) fn nest(request: &mut Request, kind: u16, fill: impl FnOnce(&mut Request)) {
    request.nested(libc::NLA_F_NESTED as u16 | kind, fill);
}
