//! The model behind the sensors: what a GPU of a profile shows at a load. Pure functions, so that the same load gives the same
//! numbers everywhere; docs/device.md has the formulas. They are plausible, not measured.

use protocol::profile::{Architecture, GpuProfile};

/// What is done with a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Percentage of the last second during which kernels ran.
    pub(crate) busy: u32,
    /// Some process has a context.
    pub(crate) is_used: bool,
}

/// For whom a model is made; much of what a board reports depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Market {
    DataCenter,
    Workstation,
    Consumer,
    /// Part of the CPU's package.
    Integrated,
}

impl Market {
    /// By the name that the driver gives the model.
    pub(crate) fn of(profile: &GpuProfile) -> Self {
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

/// Whether the memory is HBM: no other has so wide an interface.
pub(crate) fn has_hbm(profile: &GpuProfile) -> bool {
    profile.memory.bus_width_bits >= 1024 && !profile.memory.unified
}

/// Whether the memory has error correction, and whether it is on; boards of data centers come with it, those of workstations can
/// have it.
pub(crate) fn ecc(profile: &GpuProfile) -> Option<bool> {
    match Market::of(profile) {
        Market::DataCenter => Some(true),
        Market::Workstation => Some(false),
        Market::Consumer | Market::Integrated => None,
    }
}

/// Faulty rows are remapped (Ampere and later), not pages retired.
pub(crate) fn remaps_rows(profile: &GpuProfile) -> bool {
    ecc(profile).is_some() && is_at_least_ampere(profile)
}

/// Whether faulty pages are retired.
pub(crate) fn retires_pages(profile: &GpuProfile) -> bool {
    ecc(profile).is_some() && !is_at_least_ampere(profile)
}

fn is_at_least_ampere(profile: &GpuProfile) -> bool {
    use Architecture::{Maxwell, Pascal, Turing, Volta};
    !matches!(profile.architecture, Maxwell | Pascal | Volta | Turing)
}

/// Whether temperatures are also given as a distance from the limit (T.Limit): Ada and later.
pub(crate) fn has_margin(profile: &GpuProfile) -> bool {
    matches!(profile.architecture, Architecture::Ada | Architecture::Hopper | Architecture::Blackwell)
}

/// Whether there is a firmware of the GPU's own (GSP): Turing and later.
pub(crate) fn has_gsp(profile: &GpuProfile) -> bool {
    !matches!(profile.architecture, Architecture::Maxwell | Architecture::Pascal | Architecture::Volta)
}

/// Milliwatts: a tenth of the limit, a twentieth more with a context, three quarters more when busy all the time.
pub(crate) fn power_mw(profile: &GpuProfile, load: Load) -> Option<u32> {
    let limit = profile.power.limit_mw;
    (limit > 0).then(|| limit / 100 * (10 + 5 * u32::from(load.is_used) + 75 * load.busy / 100))
}

/// The lowest power limit that can be set, milliwatts.
pub(crate) fn least_limit_mw(profile: &GpuProfile) -> u32 {
    profile.power.limit_mw / 4
}

/// Degrees Celsius: 30, 3 more with a context, 40 more when busy all the time.
pub(crate) fn temperature(load: Load) -> u32 {
    30 + 3 * u32::from(load.is_used) + 40 * load.busy / 100
}

/// Degrees Celsius of the memory, which only HBM reports: 5 more.
pub(crate) fn memory_temperature(profile: &GpuProfile, load: Load) -> Option<u32> {
    has_hbm(profile).then(|| temperature(load) + 5)
}

/// Where the GPU switches itself off, slows down, and should stay below, degrees Celsius.
pub(crate) const SHUTDOWN: u32 = 95;
/// As above.
pub(crate) const SLOWDOWN: u32 = 90;
/// As above.
pub(crate) const OPERATING: u32 = 85;
/// The same for HBM.
pub(crate) const MEMORY_OPERATING: u32 = 95;

/// Clock of an idle GPU, MHz, and of its GDDR memory.
const IDLE_SM: u32 = 210;
const IDLE_MEMORY: u32 = 405;
/// Distance of one supported clock to the next.
const STEP: u32 = 15;

/// The performance state, 0 (highest) or 8 (idle). HBM keeps its clock.
pub(crate) fn performance_state(profile: &GpuProfile, load: Load) -> u32 {
    if load.is_used || has_hbm(profile) { 0 } else { 8 }
}

/// MHz: the highest with a context.
pub(crate) fn sm_clock(profile: &GpuProfile, load: Load) -> u32 {
    if load.is_used { profile.clocks.sm_mhz } else { profile.clocks.sm_mhz.min(IDLE_SM) }
}

/// MHz.
pub(crate) fn memory_clock(profile: &GpuProfile, load: Load) -> u32 {
    let highest = profile.clocks.memory_mhz;
    if performance_state(profile, load) == 0 { highest } else { highest.min(IDLE_MEMORY) }
}

/// Supported clocks of the memory, the highest first.
pub(crate) fn memory_clocks(profile: &GpuProfile) -> Vec<u32> {
    let idle = memory_clock(profile, Load::default());
    let mut clocks = vec![profile.clocks.memory_mhz, idle];
    clocks.dedup();
    clocks
}

/// Supported clocks of the SMs, the highest first.
pub(crate) fn sm_clocks(profile: &GpuProfile) -> Vec<u32> {
    let highest = profile.clocks.sm_mhz;
    (0..).map_while(|step| highest.checked_sub(step * STEP).filter(|clock| *clock >= highest.min(IDLE_SM))).collect()
}

/// Percentage of the last second during which memory was read or written: half of the time that kernels ran.
pub(crate) fn memory_busy(load: Load) -> u32 {
    load.busy / 2
}

/// Percent of the fan's highest speed, where the board has one: 30, and 40 more when busy all the time.
pub(crate) fn fan(profile: &GpuProfile, load: Load) -> Option<u32> {
    matches!(Market::of(profile), Market::Consumer | Market::Workstation).then(|| 30 + 40 * load.busy / 100)
}

/// Size of BAR1: all of the memory for data centers (the next power of two), else 256 MiB.
pub(crate) fn bar1_bytes(profile: &GpuProfile) -> u64 {
    match Market::of(profile) {
        Market::DataCenter => profile.memory.bytes.next_power_of_two().max(profile.memory.bytes),
        _ => 256 << 20,
    }
}

/// MB/s of one NVLink in each direction as the driver reports it, with what the encoding takes from Volta on.
pub(crate) fn link_mbps(profile: &GpuProfile) -> Option<u32> {
    let nvlink = profile.nvlink.as_ref()?;
    Some(match nvlink.generation {
        2 => 25_781,
        4 => 26_562,
        5 => 53_125,
        _ => (nvlink.gigabytes_per_second_per_link * 1000.0) as u32,
    })
}

/// "96.00.00.00.01": the first number is that of the architecture.
pub(crate) fn vbios(profile: &GpuProfile) -> String {
    let first = match profile.architecture {
        Architecture::Maxwell => "84",
        Architecture::Pascal => "86",
        Architecture::Volta => "88",
        Architecture::Turing => "90",
        Architecture::Ampere => "92",
        Architecture::Ada => "95",
        Architecture::Hopper => "96",
        Architecture::Blackwell => "97",
    };
    format!("{first}.00.00.00.01")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(id: &str) -> &'static GpuProfile {
        protocol::profile::builtin(id).unwrap()
    }

    const IDLE: Load = Load { busy: 0, is_used: false };
    const HELD: Load = Load { busy: 0, is_used: true };
    const BUSY: Load = Load { busy: 100, is_used: true };

    #[test]
    fn an_h100_by_the_formulas_of_the_documentation() {
        let h100 = profile("h100");
        assert_eq!([IDLE, HELD, BUSY].map(|load| power_mw(h100, load)), [Some(70_000), Some(105_000), Some(630_000)]);
        assert_eq!([IDLE, HELD, BUSY].map(temperature), [30, 33, 73]);
        assert_eq!([IDLE, HELD, BUSY].map(|load| sm_clock(h100, load)), [210, 1980, 1980]);
        assert_eq!([IDLE, HELD, BUSY].map(|load| memory_clock(h100, load)), [2619; 3]);
        assert_eq!([IDLE, HELD, BUSY].map(|load| performance_state(h100, load)), [0; 3]);
        assert_eq!((fan(h100, BUSY), memory_temperature(h100, IDLE)), (None, Some(35)));
        assert_eq!((bar1_bytes(h100), link_mbps(h100)), (128 << 30, Some(26_562)));
    }

    #[test]
    fn a_geforce_has_a_fan_and_no_error_correction() {
        let geforce = profile("rtx4090");
        assert_eq!((ecc(geforce), remaps_rows(geforce), retires_pages(geforce)), (None, false, false));
        assert_eq!([IDLE, HELD, BUSY].map(|load| fan(geforce, load)), [Some(30), Some(30), Some(70)]);
        assert_eq!([IDLE, HELD].map(|load| performance_state(geforce, load)), [8, 0]);
        assert_eq!([IDLE, HELD].map(|load| memory_clock(geforce, load)), [405, geforce.clocks.memory_mhz]);
    }

    #[test]
    fn supported_clocks_reach_from_the_highest_to_idle() {
        let clocks = sm_clocks(profile("a100"));
        assert_eq!((clocks[0], clocks[1], *clocks.last().unwrap(), clocks.len()), (1410, 1395, 210, 81));
        assert_eq!(memory_clocks(profile("a100")).len(), 1);
        assert_eq!(memory_clocks(profile("t4")), [5001, 405]);
    }

    #[test]
    fn no_profile_exceeds_its_limits() {
        for profile in protocol::profile::all() {
            for busy in 0..=100 {
                let load = Load { busy, is_used: true };
                assert!(power_mw(profile, load).unwrap_or(0) <= profile.power.limit_mw, "{}", profile.id);
                assert!(temperature(load) < OPERATING, "{}", profile.id);
            }
        }
    }
}
