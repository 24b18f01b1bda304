//! The gaps of a case: those in its reports, and those that show only in its output.

use std::sync::OnceLock;

use regex::bytes::Regex;
use serde_json::Value;

use super::reports::rank_of;
use crate::observation::{Gap, ProcessObservation, Role};

/// The gaps in the reports, sorted.
pub fn in_reports(cluster: Option<&Value>, devices: &[Value]) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    for (report, rank) in
        devices.iter().map(|report| (report, rank_of(report))).chain(cluster.map(|report| (report, None)))
    {
        for gap in report.get("gaps").and_then(Value::as_array).into_iter().flatten() {
            let text = |name: &str| gap.get(name).and_then(Value::as_str).unwrap_or("unknown").to_owned();
            gaps.push(Gap {
                library: text("library"),
                name: text("name"),
                detail: gap.get("detail").and_then(Value::as_str).unwrap_or_default().to_owned(),
                count: gap.get("count").and_then(Value::as_u64).unwrap_or(1),
                rank,
            });
        }
    }
    gaps.sort();
    gaps
}

/// Gaps that show only in a program's output, not in its calls: the compiler of `torch.compile` writes kernels with
/// Triton, which is not installed.
pub fn in_output(processes: &[ProcessObservation]) -> Vec<Gap> {
    static NEEDED: OnceLock<Option<Regex>> = OnceLock::new();
    // An uncaught exception, with torchrun's prefix. In a log line, as with TORCHDYNAMO_SUPPRESS_ERRORS, it did not end the
    // program.
    let pattern = r"(?m-u)^(?:\[[^\]\n]*\]:? ?)*torch\._inductor\.exc\.TritonMissing: ";
    let Some(regex) = NEEDED.get_or_init(|| Regex::new(pattern).ok()) else { return Vec::new() };
    let matches = |process: &&ProcessObservation| {
        [&process.stderr.head, &process.stderr.tail].iter().any(|text| regex.is_match(text))
    };
    let gap = |process: &ProcessObservation| {
        Gap {
        library: "torch".to_owned(),
        name: "inductor".to_owned(),
        detail:
            "torch.compile writes GPU code with Triton, which is not installed: add `compile: true` to `python` (to a list: \
                 `triton`), or compile without it (`backend=\"aot_eager\"`) or not at all (TORCH_COMPILE_DISABLE=1)"
                .to_owned(),
        count: 1,
        rank: match process.role {
            Role::Rank(rank) => Some(rank),
            Role::Launcher(_) | Role::Srun | Role::Coordinator => None,
        },
    }
    };
    processes.iter().filter(matches).map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Captured, Exit};

    #[test]
    fn a_compiler_without_triton_is_a_gap_by_what_pytorch_says() {
        let line = "torch._inductor.exc.TritonMissing: Cannot find a working triton installation.";
        for (line, count) in [
            (format!("Traceback (most recent call last):\n  File \"train.py\", line 3\n{line}\n"), 1),
            (format!("[rank1]: {line}\n"), 1),
            (format!("W1122 03:13:13.065000 13730 torch/_dynamo/convert_frame.py:900] [0/0] {line}\n"), 0),
            ("RuntimeError: no Triton\n".to_owned(), 0),
        ] {
            let stderr = Captured { head: line.clone().into_bytes(), ..Captured::default() };
            let process =
                ProcessObservation { role: Role::Rank(1), exit: Exit::Code(1), stdout: Captured::default(), stderr };
            let gaps = in_output(&[process]);
            assert_eq!(gaps.len(), count, "{line}");
            for gap in gaps {
                assert_eq!((gap.library.as_str(), gap.name.as_str(), gap.rank), ("torch", "inductor", Some(1)));
                assert!(gap.detail.contains("TORCH_COMPILE_DISABLE=1"), "{}", gap.detail);
            }
        }
    }
}
