//! Gives the cdylib its soname: the soname holders name it in DT_NEEDED, and glibc matches the preloaded file by it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfakegpu.so");
    // Our own references stay ours, and threads of ours may run until the process ends.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
