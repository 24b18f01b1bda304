//! Properties that follow from a model's market and generation but are not on a data sheet: whether its memory corrects errors,
//! and how it handles those that it cannot correct.

use crate::profile::{Architecture, GpuProfile};

/// The market that a model is made for; much of what a board reports depends on it.
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
    /// The market, judged by the name that the driver gives the model.
    pub fn from_profile(profile: &GpuProfile) -> Self {
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

/// Whether the memory has error correction, and whether it is on. Data center boards come with it on; workstation boards can turn
/// it on.
pub fn ecc(profile: &GpuProfile) -> Option<bool> {
    match Market::from_profile(profile) {
        Market::DataCenter => Some(true),
        Market::Workstation => Some(false),
        Market::Consumer | Market::Integrated => None,
    }
}

/// Whether faulty rows are remapped (Ampere and later) instead of pages being retired.
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
