//! Reads `profiles/*.yaml`, refuses a bad one by name, and writes them as one JSON array for `profile.rs`.

use std::{env, fs, path::Path};

use serde::{Deserialize, Serialize};

include!("src/profile_types.rs");

fn main() {
    let directory = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../profiles");
    println!("cargo::rerun-if-changed={}", directory.display());
    let mut profiles: Vec<GpuProfile> = Vec::new();
    let entries = fs::read_dir(&directory).expect("profiles/ is part of the source");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable directory").path()).collect();
    // In another order, Cargo would take what is printed for a change.
    paths.sort();
    for path in paths {
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).expect("a readable profile");
        match serde_yaml::from_str::<GpuProfile>(&text) {
            Ok(profile) if path.file_stem().is_some_and(|stem| stem == profile.id.as_str()) => profiles.push(profile),
            Ok(profile) => panic!("{}: the id `{}` must be the file's name", path.display(), profile.id),
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
    profiles.sort_by(|left, right| left.id.cmp(&right.id));
    let json = serde_json::to_string(&profiles).expect("profiles serialize");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("profiles.json");
    fs::write(out, json).expect("OUT_DIR is writable");
}
