//! The report of a preflight, as JSON and as Markdown; a terminal shows the Markdown.

use protocol::assume;
use serde::Serialize;

use super::doubt::{Doubt, Reason};
use super::observed::{RankRun, Use};
use super::rules::{Growth, Outcome, Verdict};
use super::size::{gib, signed};

/// Version of the layout.
pub(super) const SCHEMA: &str = "ftest.preflight.v1";

/// What cannot be known without the numbers, the driver or the GPU.
pub(super) const NOT_KNOWN: &[&str] = &[
    "Only small numbers were computed, from what was known. Where the program read others as a size, an index or a condition, the \
     verdict is unsure. Floating-point numbers that were not computed are 0, and tests for NaN and infinity find none.",
    "The CUDA context counts as 512 MiB (a sixteenth of a GPU with less than 8 GiB). On hardware it is 300 to 800 MiB, depending on \
     driver, GPU and the kernels that are loaded; buffers of NCCL and workspaces of cuDNN are not counted.",
    "Memory of other allocators (RAPIDS, CuPy, JAX next to PyTorch) is counted as they request it from the driver; their \
     fragmentation may differ.",
];

/// One run of the command, or of the command as several ranks, one after the other.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    /// The GPUs: a profile, or several separated by commas.
    pub(super) gpu: String,
    /// The value that was probed.
    pub(super) probe: Option<String>,
    /// The command's exit code.
    pub(super) exit_code: i32,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// Bytes that a GPU of this size must have, including the context. A lower bound if it ran out of memory.
    pub(super) needed_bytes: u64,
    /// The ranks, if they were run one after the other; empty if the command started them all.
    pub(super) ranks: Vec<RankRun>,
    /// Use of each GPU by each process, without that of ranks that were not asked for.
    pub(super) uses: Vec<Use>,
    /// Libraries that were called and did nothing.
    pub(super) not_simulated: Vec<String>,
    /// What could not be observed.
    pub(super) trouble: Vec<String>,
    /// Why the run may not show what the program needs.
    pub(super) doubts: Vec<Doubt>,
    /// Floating-point numbers that the program read, though nobody had computed them.
    pub(super) numbers_read: Vec<String>,
}

/// What is known about one GPU model.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// The profile.
    pub(super) id: String,
    /// Its memory.
    pub(super) memory_bytes: u64,
    /// Whether it fits.
    pub(super) verdict: Verdict,
    /// True: it was run there; false: computed from another run.
    pub(super) was_run: bool,
    /// True: the preflight was asked for this one.
    pub(super) is_asked_for: bool,
    /// Free memory that remains; if negative, memory that is missing. Unknown if it ran out of memory.
    pub(super) headroom_bytes: Option<i64>,
    /// The largest value of the probed variable that should fit, by linear extrapolation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) most: Option<u64>,
}

/// How memory grows with the probed variable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Probed {
    /// The variable.
    pub(super) variable: String,
    /// (value, bytes needed including the context).
    pub(super) points: Vec<(f64, u64)>,
    /// The line through the first and the last.
    pub(super) line: Option<Growth>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Preflight {
    /// [`SCHEMA`].
    pub(super) schema: &'static str,
    /// The command.
    pub(super) command: Vec<String>,
    /// PyTorch's version, if there is one.
    pub(super) torch: Option<String>,
    /// Whether it fits on every requested GPU; `None` if that cannot be determined.
    pub(super) fits: Option<bool>,
    /// The run that the figures are from, as an index into `runs`; `None` if none completed.
    pub(super) reference: Option<usize>,
    /// The smallest GPU on which a run completed.
    pub(super) smallest: Option<String>,
    /// The runs, in their order.
    pub(super) runs: Vec<Run>,
    /// Every GPU model, requested ones first.
    pub(super) profiles: Vec<Row>,
    /// How memory grows, if `--probe` asks for that.
    pub(super) growth: Option<Probed>,
    /// What `--assume` says.
    pub(super) assumed: Vec<String>,
    /// [`NOT_KNOWN`].
    pub(super) not_known: &'static [&'static str],
}

impl Preflight {
    /// Whether the program ran wherever it was asked to, but a run proves nothing.
    pub(super) fn is_unsure(&self) -> bool {
        let is_for_lack_of_numbers = |run: &Run| run.doubts.iter().any(|doubt| doubt.reason != Reason::Unwatched);
        self.runs.iter().all(|run| run.outcome != Outcome::Failed) && self.runs.iter().any(is_for_lack_of_numbers)
    }

    /// As Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("# Preflight\n\n`{}`\n\n", self.command.join(" "));
        for row in self.profiles.iter().filter(|row| row.is_asked_for) {
            let verdict = row.verdict.words();
            text += &format!("**{}** ({}): {verdict}{}\n\n", row.id, gib(row.memory_bytes), self.why(row));
        }
        for run in &self.runs {
            for doubt in &run.doubts {
                let line = format!("- {}\n", doubt.sentence);
                if !text.contains(&line) {
                    text += &line;
                }
            }
        }
        if self.runs.iter().any(|run| !run.doubts.is_empty()) {
            text.push('\n');
        }
        if let Some(id) = &self.smallest {
            text += &format!("The smallest GPU on which it ran: **{id}**\n\n");
        }
        for (at, run) in self.runs.iter().enumerate() {
            let is_reference = self.reference == Some(at);
            if is_reference || !run.ranks.is_empty() {
                text += &format!("## Memory on {}{}\n\n", run.gpu, run.probed());
                text += &run.table(is_reference);
            }
        }
        for run in self.runs.iter().filter(|run| run.outcome == Outcome::OutOfMemory) {
            text += &run.refusals();
        }
        if let Some(growth) = &self.growth {
            text += &growth.markdown(&self.profiles);
        }
        text += "## GPUs\n\n| profile | memory | | left |\n|---|---|---|---|\n";
        let shown: Vec<&Row> =
            self.profiles.iter().filter(|row| row.verdict != Verdict::Unsupported || row.is_asked_for).collect();
        let kind = |row: &Row| (row.memory_bytes, row.verdict, row.was_run, row.is_asked_for, row.headroom_bytes);
        for rows in shown.chunk_by(|one, other| kind(one) == kind(other)) {
            let row = rows[0];
            let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
            let left = row.headroom_bytes.map(signed).unwrap_or_default();
            let how = if row.was_run { ", run" } else { "" };
            text += &format!(
                "| {} | {} | {}{how} | {left} |\n",
                ids.join(", "),
                gib(row.memory_bytes),
                row.verdict.words()
            );
        }
        let left_out =
            self.profiles.iter().filter(|row| row.verdict == Verdict::Unsupported && !row.is_asked_for).count();
        if left_out > 0 {
            text += &format!("\nModels left out because this PyTorch has no code for them: {left_out}.\n");
        }
        text += "\nRows that are not marked `run` are computed from the run above. A GPU with another compute capability may use other \
                 kernels (attention, for one) that need more or less memory; `--profiles` runs there.\n\n## What this does not \
                 know\n\n";
        for assumed in &self.assumed {
            text += match assumed.as_str() {
                assume::BALANCED => {
                    "- Choices among numbers that were not computed (the experts of a token, sampling) were taken to be balanced, as \
                     `--assume` says. Real ones are not, and may need more.\n"
                }
                _ => {
                    "- Floating-point numbers by which the program decides were taken to be 0 where they were not computed, as `--assume` \
                     says. Where it goes another way with real ones, it may need more.\n"
                }
            };
        }
        for sentence in self.not_known {
            text += &format!("- {sentence}\n");
        }
        for run in &self.runs {
            for sentence in &run.numbers_read {
                let line =
                    format!("- Floating-point numbers were read that nobody computed: {sentence}. They were 0.\n");
                if !text.contains(&line) {
                    text += &line;
                }
            }
            for name in &run.not_simulated {
                let line = format!("- `{name}` is not simulated: what it would allocate is not counted.\n");
                if !text.contains(&line) {
                    text += &line;
                }
            }
            for sentence in &run.trouble {
                let line = format!("- Could not be observed: {sentence}\n");
                if !text.contains(&line) {
                    text += &line;
                }
            }
        }
        text
    }

    fn why(&self, row: &Row) -> String {
        let run = self.runs.iter().find(|run| run.gpu == row.id);
        match (row.verdict, run) {
            (Verdict::Fits, Some(run)) => {
                let retries: u64 =
                    run.uses.iter().filter_map(|device| Some(device.torch.as_ref()?.retries)).max().unwrap_or_default();
                let pressed = match retries {
                    0 => String::new(),
                    1 => ", after PyTorch released its cached memory once".to_owned(),
                    times => format!(", after PyTorch released its cached memory {times} times"),
                };
                format!(
                    ": it needs {}, {} are left{pressed}",
                    gib(run.needed_bytes),
                    row.headroom_bytes.map(signed).unwrap_or_default()
                )
            }
            (Verdict::DoesNotFit, Some(run)) if run.outcome == Outcome::OutOfMemory => {
                ": it ran out of memory".to_owned()
            }
            (_, Some(run)) if run.outcome == Outcome::Failed => {
                let failed = run.ranks.iter().find(|rank| rank.outcome == Outcome::Failed);
                let whose = failed.map(|rank| format!(", as rank {},", rank.rank)).unwrap_or_default();
                format!(
                    ": the command{whose} ended with {} for a reason other than memory, so there is no verdict",
                    run.exit_code
                )
            }
            (Verdict::Unsure, Some(run)) if run.doubts.iter().any(|doubt| doubt.reason == Reason::Unwatched) => {
                ": there is no verdict, because PyTorch's allocator was not watched".to_owned()
            }
            (Verdict::Unsure, Some(run)) if run.outcome == Outcome::Completed => {
                format!(": this run needed {}, but it does not show what the program needs", gib(run.needed_bytes))
            }
            (Verdict::Unsure, Some(run)) if run.outcome == Outcome::OutOfMemory => {
                ": it ran out of memory, but what it asked for may depend on numbers that nobody computed".to_owned()
            }
            _ => String::new(),
        }
    }
}

impl Probed {
    fn markdown(&self, rows: &[Row]) -> String {
        let mut text = format!("## Growth with {}\n\n| {} | needed |\n|---|---|\n", self.variable, self.variable);
        for (value, bytes) in &self.points {
            text += &format!("| {value} | {} |\n", gib(*bytes));
        }
        if let Some(line) = self.line {
            let each = line.bytes_per_unit / f64::from(1 << 20);
            text += &format!("\n{each:.1} MiB for each one, by a straight line through the first and the last.\n");
        }
        for row in rows.iter().filter(|row| row.is_asked_for) {
            if let Some(most) = row.most {
                text += &format!(
                    "\nOn {} that leaves room for {} = {most}; probe there before you rely on it.\n",
                    row.id, self.variable
                );
            }
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::observed::{Allocator, ByPurpose, Line, Refused};
    use super::*;

    const GIB: u64 = 1 << 30;

    fn run(gpu: &str, outcome: Outcome, torch: Allocator) -> Run {
        let device = Use {
            rank: Some(3),
            uuid: "GPU-x".into(),
            profile: gpu.into(),
            capacity_bytes: 24 * GIB,
            taken_peak: 12 * GIB,
            refused_calls: 0,
            torch: Some(torch),
            execution: 0,
        };
        Run {
            gpu: gpu.into(),
            probe: None,
            exit_code: i32::from(outcome != Outcome::Completed),
            outcome,
            needed_bytes: 12 * GIB + GIB / 2,
            ranks: Vec::new(),
            uses: vec![device],
            not_simulated: vec!["libcusolver.cusolverDnSgetrf".into()],
            trouble: Vec::new(),
            doubts: Vec::new(),
            numbers_read: Vec::new(),
        }
    }

    #[test]
    fn the_report_says_what_fits_where_it_broke_and_what_it_does_not_know() {
        let allocator = Allocator {
            index: 0,
            allocated_peak: 10 * GIB,
            reserved_peak: 12 * GIB,
            retries: 2,
            ooms: 0,
            at_peak: vec![Line {
                file: "train.py".into(),
                line: 7,
                function: "main".into(),
                backward: true,
                bytes: 9 * GIB,
                count: 3,
                largest: 4 * GIB,
            }],
            by_purpose: Some(ByPurpose {
                parameters: GIB,
                gradients: 2 * GIB,
                optimizer_state: 3 * GIB,
                other: 4 * GIB,
            }),
            history_is_whole: true,
            refused: None,
        };
        let refused =
            Refused { bytes: 4 * GIB, file: String::new(), line: 0, function: String::new(), backward: false };
        let small = Allocator { ooms: 1, refused: Some(refused), ..allocator.clone() };
        let row = |id: &str, gib: u64, verdict, was_run, left: Option<i64>| Row {
            id: id.into(),
            memory_bytes: gib * GIB,
            verdict,
            was_run,
            is_asked_for: was_run,
            headroom_bytes: left.map(|gib| gib * GIB as i64),
            most: was_run.then_some(40),
        };
        let preflight = Preflight {
            schema: SCHEMA,
            command: vec!["python".into(), "train.py".into()],
            torch: Some("2.15.0".into()),
            fits: Some(false),
            reference: Some(0),
            smallest: Some("rtx4090".into()),
            runs: vec![run("rtx4090", Outcome::Completed, allocator), run("t4", Outcome::OutOfMemory, small)],
            profiles: vec![
                row("rtx4090", 24, Verdict::Fits, true, Some(11)),
                row("t4", 16, Verdict::DoesNotFit, true, None),
                row("a10", 8, Verdict::DoesNotFit, false, Some(-4)),
                row("a2", 8, Verdict::DoesNotFit, false, Some(-4)),
                row("gtx980", 4, Verdict::Unsupported, false, None),
            ],
            growth: Some(Probed {
                variable: "BATCH".into(),
                points: vec![(8.0, GIB), (16.0, 2 * GIB)],
                line: Growth::fit(&[(8.0, GIB), (16.0, 2 * GIB)]),
            }),
            assumed: Vec::new(),
            not_known: NOT_KNOWN,
        };
        let text = preflight.markdown();
        for part in [
            "**rtx4090** (24.00 GiB): fits: it needs 12.50 GiB, 11.00 GiB are left, after PyTorch released its cached memory 2 times\n",
            "**t4** (16.00 GiB): does not fit: it ran out of memory\n",
            "| rank | peak | reserved | taken on the GPU | parameters | gradients | optimizer state | other |\n",
            "| 3 | 10.00 GiB | 12.00 GiB | 12.00 GiB | 1.00 GiB | 2.00 GiB | 3.00 GiB | 4.00 GiB |\n",
            "| 9.00 GiB | 3 | 4.00 GiB | backward of `train.py:7` in `main` |\n",
            "On t4 rank 3 ran out of memory when it asked for 4.00 GiB: a backward pass, or another thread without Python\n",
            "128.0 MiB for each one",
            "On rtx4090 that leaves room for BATCH = 40",
            "| a10, a2 | 8.00 GiB | does not fit | -4.00 GiB |\n",
            "Models left out because this PyTorch has no code for them: 1.",
            "- Only small numbers were computed",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("gtx980"), "{text}");
        assert_eq!(text.matches("libcusolver.cusolverDnSgetrf").count(), 1, "{text}");
        let mut of_ranks = preflight.clone();
        let rank = |rank, is_asked_for, outcome, verdict, headroom_bytes| RankRun {
            rank,
            stage: Some(rank / 2),
            is_asked_for,
            exit_code: 0,
            outcome,
            verdict,
            needed_bytes: 5 * GIB,
            headroom_bytes,
            doubts: Vec::new(),
            stopped_after: None,
        };
        of_ranks.runs[0].ranks = vec![
            rank(0, false, Outcome::Completed, Verdict::Fits, Some(19 * GIB as i64)),
            rank(3, true, Outcome::Completed, Verdict::Unsure, Some(11 * GIB as i64)),
            RankRun { stopped_after: Some(0), ..rank(0, false, Outcome::Completed, Verdict::Fits, None) },
            RankRun { stopped_after: Some(2), ..rank(4, true, Outcome::Completed, Verdict::Fits, None) },
        ];
        of_ranks.runs[1].ranks = vec![rank(3, true, Outcome::OutOfMemory, Verdict::DoesNotFit, None)];
        let text_of_ranks = of_ranks.markdown();
        for part in [
            "| rank | stage | peak | reserved | taken on the GPU | parameters | gradients | optimizer state | other | left | verdict |\n",
            "| 3 | 1 | 10.00 GiB | 12.00 GiB | 12.00 GiB | 1.00 GiB | 2.00 GiB | 3.00 GiB | 4.00 GiB | 11.00 GiB | unsure |\n",
            "Rank 0 ran only for what the others get from it; it needs 5.00 GiB: fits.\n",
            "Rank 0 ran only for what the others get from it, and not to its end.\n",
            "Rank 4 was stopped after 2 steps of its optimizers, as `--steps` says: the figures are of these.\n",
            "What was held at the peak by rank 3, by line:\n",
            "## Memory on t4\n",
            "| 4.00 GiB |  | does not fit |\n",
        ] {
            assert!(text_of_ranks.contains(part), "{part}\n{text_of_ranks}");
        }
        let json = serde_json::to_value(&preflight).unwrap();
        assert_eq!(json["profiles"][1]["verdict"], "does_not_fit");
        assert_eq!(json["runs"][1]["outcome"], "out_of_memory");
    }
}
