//! The health of a GPU, as changed by an event: memory errors, throttled clocks, its link.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gpu_event::throttle::Throttle;

/// What an event changes; anything left out stays as it was. Error counters add up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpuHealth {
    /// The GPU fell off the bus.
    pub lost: bool,
    /// The Xid that the driver logs.
    pub xid: Option<u32>,
    /// Memory errors.
    pub ecc: Option<EccErrors>,
    /// Rows that were remapped, in addition to those that follow from `ecc`.
    pub remapped_rows: Option<Repairs>,
    /// Pages that were retired, in addition to those that follow from `ecc`.
    pub retired_pages: Option<Repairs>,
    /// What slows the clocks down.
    pub throttle: Option<Throttle>,
    /// Generation of PCIe that the link runs at.
    pub pcie_generation: Option<u32>,
    /// Lanes of the link.
    pub pcie_width: Option<u32>,
}

/// Memory errors that error correction found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EccErrors {
    /// Corrected, since the driver was loaded.
    pub corrected: u32,
    /// Not correctable, since the driver was loaded.
    pub uncorrected: u32,
    /// Corrected before that, in the lifetime of the GPU.
    pub earlier_corrected: u32,
    /// Not correctable, before that in the lifetime of the GPU.
    pub earlier_uncorrected: u32,
}

/// Memory that was replaced or taken out of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Repairs {
    /// Corrected errors.
    pub corrected: u32,
    /// Errors that were not correctable.
    pub uncorrected: u32,
    /// One more is pending until the GPU is reset.
    pub pending: bool,
    /// One failed: there is no spare memory.
    pub failed: bool,
}

/// The Xid of a GPU that has fallen off the bus (NVIDIA, "XID Errors").
pub const LOST: u32 = 79;

impl GpuHealth {
    /// Whether work that is on the GPU fails.
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
}
