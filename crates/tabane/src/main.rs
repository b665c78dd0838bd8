//! The program `tabane`.
fn main() {}
