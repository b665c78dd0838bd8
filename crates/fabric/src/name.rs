//! Addresses of endpoints as programs exchange them.

use tabane_rank::Address;

/// Length of an address among several, bytes: that of the longest and one more. All are so long, zeros at the end, since
/// programs put one behind the other.
pub const BYTES: usize = 48;

/// What stands for the address of an endpoint on a host of which only the name is known. It is none.
pub const UNKNOWN: [u8; BYTES] = [0; BYTES];

/// What stands before an address that is printed.
const SCHEME: &str = "fi_addr_tabane://";

/// The address with zeros behind it.
pub fn raw(address: &Address) -> [u8; BYTES] {
    let mut raw = [0; BYTES];
    let bytes = address.as_bytes();
    raw[..bytes.len()].copy_from_slice(bytes);
    raw
}

/// An address to be printed.
pub fn shown(address: &Address) -> String {
    format!("{SCHEME}{}", address.to_name())
}

/// An address that was printed.
pub fn parse(text: &str) -> Option<Address> {
    Address::from_name(text.strip_prefix(SCHEME)?).ok()
}
