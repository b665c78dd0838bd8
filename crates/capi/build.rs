//! Names the shared library for the linker of programs: what they need is this version of its
//! interface, whatever the file is called. Until 1.0 it may change with any minor version.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtabane.so.0.1");
    println!("cargo::rerun-if-changed=build.rs");
}
