//! What holds for every crate: structure, names, sizes, links, and the readers behind those tests.

mod architecture;
mod circles;
mod commands;
mod impls;
mod links;
mod modules;
mod names;
mod sizes;
mod stages;
mod times;

use std::path::{Path, PathBuf};

/// The directory of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The Rust files of the repository, also those that are not committed yet.
fn rust_files() -> Vec<String> {
    let listed = duct::cmd!("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs").dir(root()).read();
    // One that was removed and not committed yet is still listed.
    let files = listed.unwrap();
    let files: Vec<String> = files.lines().filter(|file| root().join(file).exists()).map(str::to_owned).collect();
    assert!(files.len() > 500, "only {} files were listed", files.len());
    files
}
