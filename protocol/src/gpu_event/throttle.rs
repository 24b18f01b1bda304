//! Why a GPU's clocks are low, and how far they drop.

use serde::{Deserialize, Serialize};

/// Why clocks are low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Throttle {
    /// Nothing slows them anymore.
    None,
    /// Hardware protects itself from heat.
    Thermal,
    /// The driver keeps the GPU below its highest operating temperature.
    SwThermal,
    /// The power limit is reached.
    PowerCap,
    /// The power supply asks for less.
    PowerBrake,
}

impl Throttle {
    /// Each reason, with its word in suites.
    pub const ALL: [(&'static str, Self); 5] = [
        ("thermal", Self::Thermal),
        ("sw_thermal", Self::SwThermal),
        ("power_cap", Self::PowerCap),
        ("power_brake", Self::PowerBrake),
        ("none", Self::None),
    ];

    /// Its word in suites.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, other)| *other == self).map_or("", |(word, _)| word)
    }

    /// Percentage of the clock that is left: "reducing the core clocks by a factor of 2 or more" where hardware slows down (NVML,
    /// "NvmlClocksEventReasons"); three quarters where the driver does.
    pub fn clock_percent(self) -> u32 {
        match self {
            Self::None => 100,
            Self::Thermal | Self::PowerBrake => 50,
            Self::SwThermal | Self::PowerCap => 75,
        }
    }
}
