//! Keeps the shared library loaded, since its threads run until the process ends; and gives it the name that programs look for.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete,-soname,libtabane-vipl.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
