//! What follows from a model's market and generation and is on no data sheet: whether its memory corrects errors, and how it
//! copes with those that it cannot correct.

use crate::profile::{Architecture, GpuProfile};

/// For whom a model is made; much of what a board reports depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Market {
    /// Boards for servers.
    DataCenter,
    /// Boards for workstations.
    Workstation,
    /// Boards for consumers.
    Consumer,
    /// Part of the CPU's package.
    Integrated,
}

impl Market {
    /// By the name that the driver gives the model.
    pub fn of(profile: &GpuProfile) -> Self {
        let is_named = |words: &[&str]| words.iter().any(|word| profile.name.contains(word));
        if profile.memory.unified {
            Self::Integrated
        } else if is_named(&["GeForce", "TITAN"]) {
            Self::Consumer
        } else if is_named(&["Quadro", "RTX"]) {
            Self::Workstation
        } else {
            Self::DataCenter
        }
    }
}

/// Whether the memory has error correction, and whether it is on; boards of data centers come with it, those of workstations can
/// have it.
pub fn ecc(profile: &GpuProfile) -> Option<bool> {
    match Market::of(profile) {
        Market::DataCenter => Some(true),
        Market::Workstation => Some(false),
        Market::Consumer | Market::Integrated => None,
    }
}

/// Faulty rows are remapped (Ampere and later), not pages retired.
pub fn remaps_rows(profile: &GpuProfile) -> bool {
    ecc(profile).is_some() && is_at_least_ampere(profile)
}

/// Whether faulty pages are retired.
pub fn retires_pages(profile: &GpuProfile) -> bool {
    ecc(profile).is_some() && !is_at_least_ampere(profile)
}

fn is_at_least_ampere(profile: &GpuProfile) -> bool {
    use Architecture::{Maxwell, Pascal, Turing, Volta};
    !matches!(profile.architecture, Maxwell | Pascal | Volta | Turing)
}
