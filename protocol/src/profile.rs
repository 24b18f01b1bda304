//! What one GPU model claims about itself. The files of `profiles/` are checked and built in by `build.rs`.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

// The types have a file of their own because build.rs reads the YAML with the same ones.
include!("profile_types.rs");

/// Memory that a context takes up before the program's first allocation.
const CONTEXT_BYTES: u64 = 512 << 20;

/// Bytes that a context takes on a GPU with `capacity` bytes: 512 MiB, or a sixteenth of a small GPU.
pub fn context_bytes(capacity: u64) -> u64 {
    CONTEXT_BYTES.min(capacity / 16)
}

/// The built-in profiles, sorted by id.
pub fn all() -> &'static [GpuProfile] {
    static PROFILES: OnceLock<Vec<GpuProfile>> = OnceLock::new();
    PROFILES.get_or_init(|| {
        serde_json::from_str(include_str!(concat!(env!("OUT_DIR"), "/profiles.json")))
            .expect("build.rs wrote the profiles with the same types")
    })
}

/// A built-in profile by id; case does not matter and a trailing `.yaml` is ignored, as in FakeGPU.
pub fn builtin(id: &str) -> Option<&'static GpuProfile> {
    let id = id.strip_suffix(".yaml").unwrap_or(id);
    all().iter().find(|profile| profile.id.eq_ignore_ascii_case(id))
}

/// One sentence about an unknown id, with the nearest known one.
pub fn unknown(id: &str) -> String {
    let ids = all().iter().map(|profile| profile.id.as_str());
    match crate::suggest::nearest(id, ids) {
        Some(near) => format!("unknown GPU profile `{id}`; did you mean `{near}`?"),
        None => format!("unknown GPU profile `{id}`; `ftest profiles` lists the {} known ones", all().len()),
    }
}
