//! What happens to a GPU in a case (`gpu`): how its health changes, and the part of the machine's file (`FTEST_GPUS`) in which
//! processes note that it happened.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A change of the health of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuEvent {
    /// The GPU as suites name it: `node0/3`.
    pub gpu: String,
    /// Index of its node.
    pub node: u32,
    /// Index within its node.
    pub local: u32,
    /// Its place among the events of the case, below [`board::SLOTS`].
    pub slot: u32,
    /// What changes.
    pub health: GpuHealth,
}

/// What an event changes; what is left out stays as it was. Counters of errors add up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpuHealth {
    /// The GPU fell off the bus.
    pub lost: bool,
    /// The Xid that the driver logs.
    pub xid: Option<u32>,
    /// Errors of the memory.
    pub ecc: Option<EccErrors>,
    /// Rows that were remapped, beside those that follow from `ecc`.
    pub remapped_rows: Option<Repairs>,
    /// Pages that were retired, beside those that follow from `ecc`.
    pub retired_pages: Option<Repairs>,
    /// What slows the clocks down.
    pub throttle: Option<Throttle>,
    /// Generation of PCIe that the link runs at.
    pub pcie_generation: Option<u32>,
    /// Lanes of the link.
    pub pcie_width: Option<u32>,
}

/// Errors of the memory that error correction found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EccErrors {
    /// Corrected, since the driver was loaded.
    pub corrected: u32,
    /// Not correctable, since the driver was loaded.
    pub uncorrected: u32,
    /// Corrected before that, in the GPU's life.
    pub earlier_corrected: u32,
    /// Not correctable, before that.
    pub earlier_uncorrected: u32,
}

/// Memory that was replaced or taken out of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Repairs {
    /// For corrected errors.
    pub corrected: u32,
    /// For errors that were not correctable.
    pub uncorrected: u32,
    /// One more waits for a reset of the GPU.
    pub pending: bool,
    /// One failed: there is no spare memory.
    pub failed: bool,
}

/// Why clocks are low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Throttle {
    /// Nothing slows them any more.
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
    /// Each, with the word of suites.
    pub const ALL: [(&'static str, Self); 5] = [
        ("thermal", Self::Thermal),
        ("sw_thermal", Self::SwThermal),
        ("power_cap", Self::PowerCap),
        ("power_brake", Self::PowerBrake),
        ("none", Self::None),
    ];

    /// The word of suites.
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

/// The Xid of a GPU that has fallen off the bus (NVIDIA, "XID Errors").
pub const LOST: u32 = 79;

impl GpuHealth {
    /// True if work that is on the GPU does not end well.
    pub fn is_fatal(&self) -> bool {
        self.lost || self.ecc.is_some_and(|ecc| ecc.uncorrected > 0)
    }
}

/// "xid 79, lost", "ecc 12 corrected and 1 uncorrected, throttle thermal".
impl fmt::Display for GpuHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.xid.map(|xid| format!("xid {xid}")).into_iter().collect();
        if self.lost {
            parts.push("lost".to_owned());
        }
        if let Some(ecc) = self.ecc {
            let (corrected, uncorrected) =
                (ecc.corrected + ecc.earlier_corrected, ecc.uncorrected + ecc.earlier_uncorrected);
            parts.push(format!("ecc {corrected} corrected and {uncorrected} uncorrected"));
        }
        for (what, repairs) in [("remapped rows", self.remapped_rows), ("retired pages", self.retired_pages)] {
            if let Some(Repairs { corrected, uncorrected, pending, failed }) = repairs {
                let mut part = format!("{what} {corrected} corrected and {uncorrected} uncorrected");
                part.push_str(if pending { ", one pending" } else { "" });
                part.push_str(if failed { ", one failed" } else { "" });
                parts.push(part);
            }
        }
        parts.extend(self.throttle.map(|throttle| format!("throttle {}", throttle.word())));
        parts.extend(self.pcie_generation.map(|generation| format!("pcie_gen {generation}")));
        parts.extend(self.pcie_width.map(|width| format!("pcie_width {width}")));
        f.write_str(&parts.join(", "))
    }
}

/// Where in the machine's file processes note when what happened: words of this machine's byte order, at the start of the file.
pub mod board {
    /// Bytes that are kept for it.
    pub const BYTES: usize = 4096;
    /// Events of a case, at most.
    pub const SLOTS: usize = 256;
    /// Where the 64-bit time is from which the times of events count: the first call of a process, us of the machine's monotonic
    /// clock; 0 before.
    pub const START: usize = 0;
    /// Where the 64-bit times are at which events happened that wait for a collective; 0 before.
    pub const HAPPENED: usize = 16;

    const _: () = assert!(HAPPENED + 8 * SLOTS <= BYTES);

    /// When the processes of a machine first called, and when each event at a collective happened.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Times {
        /// As [`START`].
        pub start: u64,
        /// By slot.
        pub happened: Vec<u64>,
    }

    impl Times {
        /// From the bytes of the file; those that are missing are 0.
        pub fn read(bytes: &[u8]) -> Self {
            let word = |at: usize| {
                let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
                word.map_or(0, u64::from_ne_bytes)
            };
            Self { start: word(START), happened: (0..SLOTS).map(|slot| word(HAPPENED + 8 * slot)).collect() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_like_a_list_of_symptoms() {
        let ecc = EccErrors { corrected: 12, uncorrected: 1, earlier_corrected: 3, ..EccErrors::default() };
        let rows = Repairs { uncorrected: 1, pending: true, ..Repairs::default() };
        let pcie = (Some(3), Some(8));
        for (health, text, is_fatal) in [
            (GpuHealth { lost: true, xid: Some(LOST), ..GpuHealth::default() }, "xid 79, lost", true),
            (GpuHealth { ecc: Some(ecc), ..GpuHealth::default() }, "ecc 15 corrected and 1 uncorrected", true),
            (
                GpuHealth {
                    throttle: Some(Throttle::SwThermal),
                    pcie_generation: pcie.0,
                    pcie_width: pcie.1,
                    ..GpuHealth::default()
                },
                "throttle sw_thermal, pcie_gen 3, pcie_width 8",
                false,
            ),
            (
                GpuHealth { remapped_rows: Some(rows), ..GpuHealth::default() },
                "remapped rows 0 corrected and 1 uncorrected, one pending",
                false,
            ),
        ] {
            assert_eq!((health.to_string().as_str(), health.is_fatal()), (text, is_fatal));
        }
    }

    #[test]
    fn the_file_says_when_what_happened() {
        let mut bytes = vec![0; board::BYTES];
        bytes[board::START..board::START + 8].copy_from_slice(&7u64.to_ne_bytes());
        bytes[board::HAPPENED + 8..board::HAPPENED + 16].copy_from_slice(&9u64.to_ne_bytes());
        let times = board::Times::read(&bytes);
        assert_eq!((times.start, &times.happened[..3]), (7, &[0, 9, 0][..]));
        assert_eq!(board::Times::read(&[]).start, 0, "a file that nobody wrote yet");
    }
}
