//! The model behind the sensors: the values that a GPU with a given profile shows at a given load. Pure functions, so that the
//! same load gives the same numbers everywhere; docs/monitors.md has the formulas. They are plausible, not measured.

use protocol::gpu_event::Throttle;
pub(crate) use protocol::market::{Market, ecc, remaps_rows, retires_pages};
use protocol::profile::{Architecture, GpuProfile};

use crate::device::state::energy::Spent;

/// The load of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Percentage of the last second during which kernels ran.
    pub(crate) busy: u32,
    /// Whether some process has a context.
    pub(crate) is_used: bool,
    /// What throttles the clocks.
    pub(crate) throttle: Throttle,
}

impl Default for Load {
    fn default() -> Self {
        Self { busy: 0, is_used: false, throttle: Throttle::None }
    }
}

/// `nvmlClocksEventReason*`: the reason, and for hardware reasons also the hardware slowdown bit.
pub(crate) fn clock_reasons(load: Load) -> u64 {
    let idle = u64::from(!load.is_used);
    idle | match load.throttle {
        Throttle::None => 0,
        Throttle::PowerCap => 0x4,
        Throttle::SwThermal => 0x20,
        Throttle::Thermal => 0x40 | 0x8,
        Throttle::PowerBrake => 0x80 | 0x8,
    }
}

/// Whether the memory is HBM: no other memory has such a wide interface.
pub(crate) fn has_hbm(profile: &GpuProfile) -> bool {
    profile.memory.bus_width_bits >= 1024 && !profile.memory.unified
}

/// Whether temperatures are also given as a distance from the limit (T.Limit): Ada and later.
pub(crate) fn has_margin(profile: &GpuProfile) -> bool {
    matches!(profile.architecture, Architecture::Ada | Architecture::Hopper | Architecture::Blackwell)
}

/// Whether the GPU has its own firmware (GSP): Turing and later.
pub(crate) fn has_gsp(profile: &GpuProfile) -> bool {
    !matches!(profile.architecture, Architecture::Maxwell | Architecture::Pascal | Architecture::Volta)
}

/// Milliwatts: a tenth of the limit, a twentieth more with a context, three quarters more when constantly busy, reduced in
/// proportion to slower clocks. The limit itself if the power limit is reached.
pub(crate) fn power_mw(profile: &GpuProfile, load: Load) -> Option<u32> {
    let limit = profile.power.limit_mw;
    let busy = 75 * load.busy / 100 * load.throttle.clock_percent() / 100;
    let drawn = limit / 100 * (10 + 5 * u32::from(load.is_used) + busy);
    (limit > 0).then_some(if load.throttle == Throttle::PowerCap { limit } else { drawn })
}

/// Energy used, millijoules: [`power_mw`] over time, as far as the load is known. `None` before Volta ("for Volta or newer fully
/// supported devices", NVML).
pub(crate) fn energy_mj(profile: &GpuProfile, spent: Spent) -> Option<u64> {
    let is_old = matches!(profile.architecture, Architecture::Maxwell | Architecture::Pascal);
    let limit = u128::from(profile.power.limit_mw);
    // Percent of the limit times microseconds.
    let share = 10 * u128::from(spent.all) + 5 * u128::from(spent.used) + 75 * u128::from(spent.busy);
    (limit > 0 && !is_old).then(|| (limit * share / 100 / 1_000_000) as u64)
}

/// The lowest power limit that can be set, milliwatts.
pub(crate) fn least_limit_mw(profile: &GpuProfile) -> u32 {
    profile.power.limit_mw / 4
}

/// Degrees Celsius: 30, 3 more with a context, 40 more when constantly busy. If heat throttles the GPU, two above the
/// threshold that it exceeds.
pub(crate) fn temperature(load: Load) -> u32 {
    let usual = 30 + 3 * u32::from(load.is_used) + 40 * load.busy / 100;
    match load.throttle {
        Throttle::Thermal => SLOWDOWN + 2,
        Throttle::SwThermal => OPERATING + 2,
        Throttle::None | Throttle::PowerCap | Throttle::PowerBrake => usual,
    }
}

/// Degrees Celsius of the memory, which only HBM reports: 5 more.
pub(crate) fn memory_temperature(profile: &GpuProfile, load: Load) -> Option<u32> {
    has_hbm(profile).then(|| temperature(load) + 5)
}

/// The temperatures at which the GPU shuts down, slows down, and should stay below, degrees Celsius.
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
/// Distance between supported clocks.
const STEP: u32 = 15;

/// The performance state, 0 (highest) or 8 (idle). HBM keeps its clock.
pub(crate) fn performance_state(profile: &GpuProfile, load: Load) -> u32 {
    if load.is_used || has_hbm(profile) { 0 } else { 8 }
}

/// MHz: the highest clock with a context, or a lower supported clock if throttled.
pub(crate) fn sm_clock(profile: &GpuProfile, load: Load) -> u32 {
    let (highest, least) = (profile.clocks.sm_mhz, profile.clocks.sm_mhz.min(IDLE_SM));
    if !load.is_used {
        return least;
    }
    let lost = highest - highest * load.throttle.clock_percent() / 100;
    highest.saturating_sub(lost.div_ceil(STEP) * STEP).max(least)
}

/// MHz.
pub(crate) fn memory_clock(profile: &GpuProfile, load: Load) -> u32 {
    let highest = profile.clocks.memory_mhz;
    if performance_state(profile, load) == 0 { highest } else { highest.min(IDLE_MEMORY) }
}

/// Supported memory clocks, highest first.
pub(crate) fn memory_clocks(profile: &GpuProfile) -> Vec<u32> {
    let idle = memory_clock(profile, Load::default());
    let mut clocks = vec![profile.clocks.memory_mhz, idle];
    clocks.dedup();
    clocks
}

/// Supported SM clocks, highest first.
pub(crate) fn sm_clocks(profile: &GpuProfile) -> Vec<u32> {
    let highest = profile.clocks.sm_mhz;
    (0..).map_while(|step| highest.checked_sub(step * STEP).filter(|clock| *clock >= highest.min(IDLE_SM))).collect()
}

/// Percentage of the last second during which memory was read or written: half of the time that kernels ran.
pub(crate) fn memory_busy(load: Load) -> u32 {
    load.busy / 2
}

/// Percent of the fan's maximum speed, if the board has a fan: 30, and 40 more when constantly busy.
pub(crate) fn fan(profile: &GpuProfile, load: Load) -> Option<u32> {
    matches!(Market::from_profile(profile), Market::Consumer | Market::Workstation).then(|| 30 + 40 * load.busy / 100)
}

/// Size of BAR1: all of the memory for data centers (the next power of two), else 256 MiB.
pub(crate) fn bar1_bytes(profile: &GpuProfile) -> u64 {
    match Market::from_profile(profile) {
        Market::DataCenter => profile.memory.bytes.next_power_of_two().max(profile.memory.bytes),
        _ => 256 << 20,
    }
}

/// MB/s of one NVLink in each direction as reported by the driver, minus the encoding overhead from Volta on.
pub(crate) fn link_mbps(profile: &GpuProfile) -> Option<u32> {
    let nvlink = profile.nvlink.as_ref()?;
    Some(match nvlink.generation {
        2 => 25_781,
        4 => 26_562,
        5 => 53_125,
        _ => (nvlink.gigabytes_per_second_per_link * 1000.0) as u32,
    })
}

/// "96.00.00.00.01": the first number depends on the architecture.
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

    const IDLE: Load = Load { busy: 0, is_used: false, throttle: Throttle::None };
    const HELD: Load = Load { is_used: true, ..IDLE };
    const BUSY: Load = Load { busy: 100, is_used: true, ..IDLE };

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
    fn an_h100_draws_its_power_over_time() {
        let h100 = profile("h100");
        // 10 s idle at 70 W; 4 of them with a context, 35 W more; 2 of these busy, 525 W more.
        let spent = Spent { all: 10_000_000, used: 4_000_000, busy: 2_000_000 };
        assert_eq!(energy_mj(h100, spent), Some(1_000 * (700 + 140 + 1050)));
        assert_eq!(energy_mj(profile("p100"), spent), None);
    }

    #[test]
    fn a_throttled_h100_is_slower_and_hot_where_heat_is_the_reason() {
        let h100 = profile("h100");
        let busy = |throttle| Load { throttle, ..BUSY };
        for (throttle, clock, degrees, milliwatts, reasons) in [
            (Throttle::None, 1980, 73, 630_000, 0),
            // Half of 1980 MHz, and half of the 525 W that work draws.
            (Throttle::Thermal, 990, 92, 364_000, 0x48),
            (Throttle::PowerBrake, 990, 73, 364_000, 0x88),
            // Three quarters are 1485 MHz; 56 % of the limit for work.
            (Throttle::SwThermal, 1485, 87, 497_000, 0x20),
            (Throttle::PowerCap, 1485, 73, 700_000, 0x4),
        ] {
            let load = busy(throttle);
            let seen = (sm_clock(h100, load), temperature(load), power_mw(h100, load), clock_reasons(load));
            assert_eq!(seen, (clock, degrees, Some(milliwatts), reasons), "{throttle:?}");
            assert!(sm_clocks(h100).contains(&clock), "{throttle:?}");
        }
        assert_eq!(sm_clock(h100, Load { throttle: Throttle::Thermal, ..IDLE }), 210);
        assert_eq!(clock_reasons(Load { throttle: Throttle::Thermal, ..IDLE }), 0x49);
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
                let load = Load { busy, ..HELD };
                assert!(power_mw(profile, load).unwrap_or(0) <= profile.power.limit_mw, "{}", profile.id);
                assert!(temperature(load) < OPERATING, "{}", profile.id);
            }
        }
    }
}
