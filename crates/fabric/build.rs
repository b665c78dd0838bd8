//! Keeps the shared library loaded: libfabric closes it when the program ends, while the helper threads of endpoints
//! that the program left open still run in it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
