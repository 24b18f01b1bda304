//! A fingerprint of what compiled kernels depend on, by which code on disk is found again: the sources of this crate, the compiler
//! that lays out its structures, and the versions of its dependencies.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher as _;
use std::path::Path;
use std::process::Command;

fn main() {
    let mut hasher = DefaultHasher::new();
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=Cargo.toml");
    add(&mut hasher, Path::new("src"));
    // Not there where the crate is built out of its workspace.
    let lock = Path::new("../Cargo.lock");
    if lock.exists() {
        println!("cargo::rerun-if-changed={}", lock.display());
        add(&mut hasher, lock);
    }
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("-vV").output().map(|output| output.stdout).unwrap_or_default();
    hasher.write(&version);
    for name in ["CARGO_PKG_VERSION", "TARGET", "PROFILE", "OPT_LEVEL", "DEBUG"] {
        hasher.write(std::env::var(name).unwrap_or_default().as_bytes());
    }
    println!("cargo::rustc-env=PTX_BUILD={:016x}", hasher.finish());
}

/// Adds a file, or all files below a directory in the order of their names.
fn add(hasher: &mut DefaultHasher, path: &Path) {
    if path.is_dir() {
        let mut entries: Vec<_> =
            std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| add(hasher, entry));
        return;
    }
    hasher.write(path.to_string_lossy().as_bytes());
    hasher.write(&std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
}
