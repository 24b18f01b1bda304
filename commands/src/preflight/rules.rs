//! The arithmetic of a preflight: how much memory a run needed, whether another GPU has that much, and how it grows.

use protocol::profile::context_bytes;
use serde::Serialize;

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// It ended with 0.
    #[default]
    Completed,
    /// It ended with an error, because a GPU ran out of memory.
    OutOfMemory,
    /// It ended with an error of another kind.
    Failed,
}

/// Whether a program fits on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// It ran there, or needs less than there is.
    Fits,
    /// It ran out of memory there, or holds more at once than the GPU has.
    DoesNotFit,
    /// What it holds at once fits, but not together with what PyTorch keeps in reserve. PyTorch then releases its reserves and
    /// retries, and only a run shows whether that is enough.
    Unsure,
    /// The program's PyTorch has no code for the GPU.
    Unsupported,
}

impl Verdict {
    /// The wording in the report.
    pub(super) fn words(self) -> &'static str {
        match self {
            Verdict::Fits => "fits",
            Verdict::DoesNotFit => "does not fit",
            Verdict::Unsure => "unsure",
            Verdict::Unsupported => "not supported by this PyTorch",
        }
    }
}

/// What the processes of a run needed on one GPU, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// Processes with a context on it.
    pub(super) contexts: u64,
    /// The sum of each process's peak reserved memory.
    pub(super) reserved: u64,
    /// The most that a single process held in tensors at once.
    pub(super) live: u64,
}

impl Need {
    /// What a GPU of `capacity` bytes must have.
    pub(super) fn total(&self, capacity: u64) -> u64 {
        self.reserved + self.contexts * context_bytes(capacity)
    }

    /// The verdict for a GPU of `capacity` bytes.
    pub(super) fn on(&self, capacity: u64) -> Verdict {
        if self.total(capacity) <= capacity {
            Verdict::Fits
        } else if self.live + self.contexts * context_bytes(capacity) > capacity {
            Verdict::DoesNotFit
        } else {
            Verdict::Unsure
        }
    }
}

/// Whether a PyTorch with code for `architectures` (`torch.cuda.get_arch_list()`: `sm_80`, `sm_90a`, `compute_120`) runs on a GPU
/// of this compute capability, "8.6". Machine code runs on the same major version with the same or a higher minor version; PTX
/// runs on anything later (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility"). Without a list, any GPU
/// counts as supported.
pub(super) fn is_supported(architectures: &[String], capability: &str) -> bool {
    let parse = |digits: &str| digits.split_at_checked(digits.len().checked_sub(1)?).and_then(numbers);
    let Some(wanted) = capability.split_once('.').and_then(numbers) else { return true };
    architectures.is_empty()
        || architectures.iter().any(|architecture| {
            let Some((kind, version)) = architecture.split_once('_') else { return false };
            let is_exact = version.ends_with('a');
            let Some(code) = parse(version.trim_end_matches(['a', 'f'])) else { return false };
            match kind {
                _ if is_exact => code == wanted,
                "sm" => code.0 == wanted.0 && code.1 <= wanted.1,
                _ => code <= wanted,
            }
        })
}

fn numbers((major, minor): (&str, &str)) -> Option<(u32, u32)> {
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A straight line through the memory needs of two probes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Growth {
    /// Bytes per unit of the variable.
    pub(super) bytes_per_unit: f64,
    /// Bytes at 0.
    pub(super) bytes_at_zero: f64,
}

impl Growth {
    /// The line through the first and the last of `points`, (value, bytes); `None` if both have the same value.
    pub(super) fn fit(points: &[(f64, u64)]) -> Option<Growth> {
        let (first, last) = (points.first()?, points.last()?);
        let width = last.0 - first.0;
        if width == 0.0 {
            return None;
        }
        let bytes_per_unit = (last.1 as f64 - first.1 as f64) / width;
        Some(Growth { bytes_per_unit, bytes_at_zero: first.1 as f64 - bytes_per_unit * first.0 })
    }

    /// The largest whole value that needs at most `room` bytes; `None` if there is no limit or no such value.
    pub(super) fn most(&self, room: u64) -> Option<u64> {
        let value = ((room as f64 - self.bytes_at_zero) / self.bytes_per_unit).floor();
        (self.bytes_per_unit > 0.0 && value >= 0.0).then_some(value as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn verdicts_by_table() {
        // A context takes 512 MiB on a large GPU and a sixteenth of a small one.
        let need = |contexts, reserved, live| Need { contexts, reserved: reserved * GIB / 4, live: live * GIB / 4 };
        for (need, gib, verdict) in [
            (need(1, 94, 80), 24, Verdict::Fits),
            (need(1, 95, 80), 24, Verdict::Unsure),
            (need(1, 95, 95), 24, Verdict::DoesNotFit),
            (need(2, 92, 80), 24, Verdict::Fits),
            (need(2, 93, 80), 24, Verdict::Unsure),
            (need(1, 15, 15), 4, Verdict::Fits),
            (need(1, 16, 16), 4, Verdict::DoesNotFit),
        ] {
            assert_eq!(need.on(gib * GIB), verdict, "{need:?} on {gib} GiB");
        }
        assert_eq!(need(2, 4, 0).total(24 * GIB), 2 * GIB);
    }

    #[test]
    fn compute_capabilities_by_table() {
        let list: Vec<String> = ["sm_75", "sm_80", "sm_90a", "sm_100", "compute_120"].map(str::to_owned).to_vec();
        for (capability, is) in [
            ("5.2", false),
            ("7.0", false),
            ("7.5", true),
            ("8.0", true),
            ("8.9", true),
            ("9.0", true),
            ("10.3", true),
            ("11.0", false),
            ("12.0", true),
            ("12.1", true),
        ] {
            assert_eq!(is_supported(&list, capability), is, "{capability}");
        }
        assert!(is_supported(&[], "5.2"));
    }

    #[test]
    fn two_probes_make_a_line() {
        let growth = Growth::fit(&[(8.0, 10 * GIB), (16.0, 14 * GIB)]).unwrap();
        assert_eq!(growth, Growth { bytes_per_unit: (GIB / 2) as f64, bytes_at_zero: (6 * GIB) as f64 });
        assert_eq!(growth.most(24 * GIB), Some(36));
        assert_eq!(growth.most(24 * GIB - 1), Some(35));
        assert_eq!(growth.most(5 * GIB), None);
        assert_eq!(Growth::fit(&[(8.0, 1), (8.0, 2)]), None);
        assert_eq!(Growth::fit(&[(8.0, 7), (16.0, 7)]).unwrap().most(GIB), None);
    }
}
