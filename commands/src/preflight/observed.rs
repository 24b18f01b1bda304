//! Observations of one preflight run: the device reports, and what `watch.py` recorded about PyTorch's allocator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use protocol::device_report::{DeviceReport, Tally, UnknownRead};
use runner::execute::collect::{gaps, reports};
use serde::{Deserialize, Serialize};

use super::doubt::{self, Doubt, Reason};
use super::rules::{Need, Outcome, Verdict};

/// How the names of calls begin that only compute, or ask what a kernel needs that does not run.
const COMPUTES: &[&str] =
    &["cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cuLaunch", "cudaFuncGet", "cuFuncGet", "cudnnBackendExecute"];

/// Where `watch.py` writes within a run's scratch directory.
pub(super) fn directory(scratch: &Path) -> PathBuf {
    scratch.join("preflight")
}

/// A line of the program, and its allocations that were live at the peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    /// The file; empty where no Python was running, as in the threads of a backward pass of PyTorch before 2.10.
    pub(super) file: String,
    /// The line.
    pub(super) line: u32,
    /// The function that contains the line.
    pub(super) function: String,
    /// The line is in the forward pass; the allocation was made while computing its derivative.
    #[serde(default)]
    pub(super) backward: bool,
    /// Bytes, as requested by the program.
    pub(super) bytes: u64,
    /// Allocations.
    pub(super) count: u64,
    /// The largest of them, bytes.
    pub(super) largest: u64,
}

/// The allocation at which PyTorch gave up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refused {
    /// Its size.
    pub(super) bytes: u64,
    /// As [`Line::file`].
    pub(super) file: String,
    /// The line.
    pub(super) line: u32,
    /// The function that contains the line.
    pub(super) function: String,
    /// The line is in the forward pass; the allocation was made while computing its derivative.
    #[serde(default)]
    pub(super) backward: bool,
}

/// What was held at the peak, by purpose, bytes as the program requested them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ByPurpose {
    /// Of modules and of optimizers, which may have copies of their own.
    pub(super) parameters: u64,
    /// Also where Megatron keeps them (`main_grad`).
    pub(super) gradients: u64,
    /// The tensors in an optimizer's `state`.
    pub(super) optimizer_state: u64,
    /// Everything else: activations, buffers of communication, workspaces, and what was not known to be one of the above.
    pub(super) other: u64,
}

/// PyTorch's allocator on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Allocator {
    /// The device's ordinal in the process.
    pub(super) index: u32,
    /// As `torch.cuda.max_memory_allocated()`, but not affected by resets in the program.
    pub(super) allocated_peak: u64,
    /// The same for `torch.cuda.max_memory_reserved()`.
    pub(super) reserved_peak: u64,
    /// How often reserved memory was released because memory was short.
    #[serde(default)]
    pub(super) retries: u64,
    /// Number of "out of memory" errors.
    #[serde(default)]
    pub(super) ooms: u64,
    /// Allocations live at the peak, by line, largest first.
    #[serde(default)]
    pub(super) at_peak: Vec<Line>,
    /// The same by purpose; `None` if no parameters were seen.
    #[serde(default)]
    pub(super) by_purpose: Option<ByPurpose>,
    /// False if there were more events than are kept, so the true peak may differ.
    #[serde(default)]
    pub(super) history_is_whole: bool,
    /// The last allocation at which PyTorch gave up.
    pub(super) refused: Option<Refused>,
}

/// What `watch.py` writes.
#[derive(Clone, Debug, Deserialize)]
struct Watched {
    pid: u32,
    torch: String,
    architectures: Vec<String>,
    trouble: Vec<String>,
    /// Why it did not train, if it was about to.
    #[serde(default)]
    untrained: Option<String>,
    /// After how many steps of its optimizers it was stopped.
    #[serde(default)]
    stopped_after: Option<u32>,
    devices: Vec<Allocator>,
}

/// What one process did with one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Use {
    /// Its global rank, if it has one.
    pub(super) rank: Option<u32>,
    /// Which of the command's executions it was in: ranks that are run one after the other are not on one GPU.
    #[serde(skip)]
    pub(super) execution: usize,
    /// The GPU.
    pub(super) uuid: String,
    /// Its profile.
    pub(super) profile: String,
    /// Its memory.
    pub(super) capacity_bytes: u64,
    /// Peak memory taken from it, without the context.
    pub(super) taken_peak: u64,
    /// CUDA calls that failed for lack of memory.
    pub(super) refused_calls: u64,
    /// PyTorch's allocator, if the process has one.
    pub(super) torch: Option<Allocator>,
}

/// One rank of a job that was run without the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct RankRun {
    /// The rank.
    pub(super) rank: u32,
    /// Its pipeline stage, if `--stages` says how many there are.
    pub(super) stage: Option<u32>,
    /// False: it ran only because others get what it sends.
    pub(super) is_asked_for: bool,
    /// The command's exit code.
    pub(super) exit_code: i32,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// Whether it fits.
    pub(super) verdict: Verdict,
    /// Bytes that a GPU of this size must have, including the context. A lower bound if it ran out of memory.
    pub(super) needed_bytes: u64,
    /// Free memory that remains. Unknown if it did not end with 0.
    pub(super) headroom_bytes: Option<i64>,
    /// Why it may not show what the program needs.
    pub(super) doubts: Vec<Doubt>,
    /// After how many steps of its optimizers it was stopped; `None` if it ended by itself.
    pub(super) stopped_after: Option<u32>,
}

/// What a run left.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// The command's exit code.
    pub(super) code: i32,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// The ranks, if they were run one after the other.
    pub(super) ranks: Vec<RankRun>,
    /// Use of each GPU by each process, by rank.
    pub(super) uses: Vec<Use>,
    /// PyTorch's version, if there is one.
    pub(super) torch: Option<String>,
    /// The architectures that PyTorch has code for; empty if unknown.
    pub(super) architectures: Vec<String>,
    /// Distinct functions that the program called and that did nothing; what only computes is left out.
    pub(super) gaps: Vec<String>,
    /// What could not be observed.
    pub(super) trouble: Vec<String>,
    /// Why the run may not show what the program needs.
    pub(super) doubts: Vec<Doubt>,
    /// Floating-point numbers that the program read, though nobody had computed them.
    pub(super) numbers: Vec<String>,
    /// As [`RankRun::stopped_after`].
    pub(super) stopped_after: Option<u32>,
}

/// Reads the files left by a command that ended with `code`.
///
/// # Errors
/// One sentence about a malformed file.
pub(super) fn read(scratch: &Path, code: i32) -> Result<Observed, String> {
    let mut watched = BTreeMap::new();
    for entry in std::fs::read_dir(directory(scratch)).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let one: Watched = serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            watched.insert(one.pid, one);
        }
    }
    let is_marked = |what: &str, pid: u32| directory(scratch).join(format!("{what}-{pid}")).exists();
    let devices = reports::devices(scratch)?;
    let mut observed = Observed { code, trouble: reports::refusals(scratch), ..Observed::default() };
    for gap in gaps::in_reports(None, &devices) {
        let name = format!("{}.{}", gap.library, gap.name);
        let is_compute =
            gap.library.starts_with("libcublas") || COMPUTES.iter().any(|prefix| gap.name.starts_with(prefix));
        if !is_compute && !observed.gaps.contains(&name) {
            observed.gaps.push(name);
        }
    }
    for report in devices {
        let report: DeviceReport = serde_json::from_value(report).map_err(|error| format!("device report: {error}"))?;
        let pid = report.measured.pid;
        let of_torch = watched.remove(&pid);
        let whose = report.measured.rank.map_or_else(|| "the program".to_owned(), |rank| format!("rank {rank}"));
        let doubts = &mut observed.doubts;
        let mut doubt = |reason, sentence| doubts.push(Doubt { reason, sentence });
        for read in &report.unknown_reads {
            let UnknownRead { sentence, count, .. } = read;
            let times = if *count > 1 { format!(", {count} times") } else { String::new() };
            let sentence = format!("in {whose}, {sentence}{times}");
            if read.is_real {
                observed.numbers.push(sentence);
            } else {
                doubt(Reason::UnknownNumbers, sentence);
            }
        }
        let takes_memory = report.devices.iter().any(|device| device.pages_peak > 0);
        if takes_memory && is_marked("loaded", pid) && !is_marked("begun", pid) {
            let sentence =
                format!("nobody could watch PyTorch's allocator in {whose}: its Python did not run ftest's code");
            doubt(Reason::Unwatched, sentence);
        }
        if let Some(why) = of_torch.as_ref().and_then(|watched| watched.untrained.as_ref()) {
            doubt(Reason::Untrained, format!("{whose} did not train: {why}"));
        }
        if let Some(of_torch) = &of_torch {
            observed.torch = Some(of_torch.torch.clone());
            observed.architectures.clone_from(&of_torch.architectures);
            observed.trouble.extend(of_torch.trouble.iter().cloned());
            observed.stopped_after = observed.stopped_after.or(of_torch.stopped_after);
        }
        for device in &report.devices {
            let Tally { calls: refused_calls, .. } = device.refused;
            if device.pages_peak == 0 && refused_calls == 0 {
                continue;
            }
            let allocator =
                of_torch.as_ref().and_then(|watched| watched.devices.iter().find(|at| at.index == device.index));
            observed.uses.push(Use {
                rank: report.measured.rank,
                execution: 0,
                uuid: device.uuid.clone(),
                profile: device.gpu_profile.id.clone(),
                capacity_bytes: device.total_memory,
                taken_peak: device.pages_peak,
                refused_calls,
                torch: allocator.cloned(),
            });
        }
    }
    for (pid, _) in watched.iter().filter(|(_, of_torch)| of_torch.devices.iter().any(|at| at.reserved_peak > 0)) {
        let sentence = format!("process {pid} left no report of what it took from its GPU");
        observed.doubts.push(Doubt { reason: Reason::Unwatched, sentence });
    }
    observed.trouble.sort();
    observed.trouble.dedup();
    observed.doubts.sort();
    observed.doubts.dedup();
    observed.outcome = match code {
        0 => Outcome::Completed,
        _ if observed.is_out_of_memory() => Outcome::OutOfMemory,
        _ => Outcome::Failed,
    };
    Ok(observed)
}

impl Observed {
    /// What the executions of one run left, each of one rank if there are several. Ranks that were not asked for say only what failed.
    pub(super) fn from_executions(mut executions: Vec<Observed>) -> Observed {
        if executions.len() == 1 {
            return executions.remove(0);
        }
        let is_asked_for = |seen: &Observed| seen.ranks.iter().any(|rank| rank.is_asked_for);
        let mut whole = Observed::default();
        let ended = |outcome| executions.iter().filter(move |seen| seen.outcome == outcome);
        let failed = ended(Outcome::Failed).chain(ended(Outcome::OutOfMemory).filter(|seen| is_asked_for(seen))).next();
        (whole.code, whole.outcome) = failed.map_or_else(Default::default, |seen| (seen.code, seen.outcome));
        // Where one rank certainly has too little memory, the job does, whatever else is in doubt.
        let certain = ended(Outcome::OutOfMemory).find(|seen| is_asked_for(seen) && seen.is_certain());
        let judged: Vec<bool> = executions
            .iter()
            .map(|seen| is_asked_for(seen) && certain.is_none_or(|certain| std::ptr::eq(certain, seen)))
            .collect();
        for (execution, (seen, judged)) in executions.into_iter().zip(judged).enumerate() {
            let is_asked_for = is_asked_for(&seen);
            whole.ranks.extend(seen.ranks);
            whole.torch = whole.torch.or(seen.torch);
            whole.architectures = if whole.architectures.is_empty() { seen.architectures } else { whole.architectures };
            if judged {
                whole.doubts.extend(seen.doubts);
            }
            if is_asked_for {
                whole.uses.extend(seen.uses.into_iter().map(|device| Use { execution, ..device }));
                whole.gaps.extend(seen.gaps);
                whole.trouble.extend(seen.trouble);
                whole.numbers.extend(seen.numbers);
            }
        }
        for list in [&mut whole.gaps, &mut whole.trouble] {
            list.sort();
            list.dedup();
        }
        whole
    }

    /// Its verdict for the GPU that it used most.
    fn verdict(&self) -> Verdict {
        let verdict = match self.outcome {
            Outcome::Completed => Verdict::Fits,
            Outcome::OutOfMemory => Verdict::DoesNotFit,
            Outcome::Failed => Verdict::Unsure,
        };
        doubt::with(&self.doubts, verdict)
    }

    fn is_certain(&self) -> bool {
        self.verdict() != Verdict::Unsure
    }

    /// What the report says of it as the run of `rank` alone.
    pub(super) fn rank(&self, rank: u32, stage: Option<u32>, is_asked_for: bool) -> RankRun {
        let (outcome, capacity) = (self.outcome, self.largest().map_or(0, |device| device.capacity_bytes));
        let needed_bytes = self.need().total(capacity);
        RankRun {
            rank,
            stage,
            is_asked_for,
            exit_code: self.code,
            outcome,
            verdict: self.verdict(),
            needed_bytes,
            headroom_bytes: (outcome == Outcome::Completed).then_some(capacity as i64 - needed_bytes as i64),
            doubts: self.doubts.clone(),
            stopped_after: self.stopped_after,
        }
    }

    /// Whether it ended because a GPU ran out of memory; an error that the program survived does not count.
    fn is_out_of_memory(&self) -> bool {
        let gave_up = |device: &Use| match &device.torch {
            Some(allocator) => allocator.ooms > 0,
            None => device.refused_calls > 0,
        };
        self.code != 0 && self.uses.iter().any(gave_up)
    }

    /// What it needed of the GPU that it used most.
    pub(super) fn need(&self) -> Need {
        let mut needs: BTreeMap<(usize, &str), Need> = BTreeMap::new();
        for device in &self.uses {
            let need = needs.entry((device.execution, &device.uuid)).or_default();
            need.contexts += 1;
            need.reserved += device.taken_peak;
            need.live = need.live.max(device.torch.as_ref().map_or(device.taken_peak, |torch| torch.allocated_peak));
        }
        needs.into_values().max_by_key(|need| need.total(u64::MAX)).unwrap_or_default()
    }

    /// The process and GPU with the highest peak.
    pub(super) fn largest(&self) -> Option<&Use> {
        self.uses.iter().max_by_key(|device| device.taken_peak)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn device(index: u32, uuid: &str, pages: u64, refused: u64) -> serde_json::Value {
        let mut device = serde_json::to_value(protocol::device_report::DeviceEntry::default()).unwrap();
        for (name, value) in [("index", json!(index)), ("uuid", json!(uuid)), ("pages_peak", json!(pages))] {
            device[name] = value;
        }
        device["refused"]["calls"] = json!(refused);
        device
    }

    fn report(scratch: &Path, pid: u32, devices: Vec<serde_json::Value>) {
        let mut report = serde_json::to_value(DeviceReport::default()).unwrap();
        report["measured"]["pid"] = json!(pid);
        report["devices"] = json!(devices);
        std::fs::write(scratch.join(format!("device-{pid}.json")), report.to_string()).unwrap();
    }

    #[test]
    fn an_allocator_that_nobody_watched_and_a_training_that_did_not_begin_are_doubts() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = directory(scratch.path());
        std::fs::create_dir(&directory).unwrap();
        report(scratch.path(), 7, vec![device(0, "GPU-a", 300, 0)]);
        let reasons = || {
            let doubts = read(scratch.path(), 0).unwrap().doubts;
            doubts.into_iter().map(|doubt| (doubt.reason, doubt.sentence)).collect::<Vec<_>>()
        };
        assert_eq!(reasons(), [], "a program without PyTorch has no such allocator");
        std::fs::write(directory.join("loaded-7"), "").unwrap();
        assert!(matches!(&reasons()[..], [(Reason::Unwatched, sentence)] if sentence.contains("nobody could watch")));
        std::fs::write(directory.join("begun-7"), "").unwrap();
        assert_eq!(reasons(), []);
        let watched = json!({
            "pid": 7, "torch": "2.15.0", "architectures": [], "trouble": [], "devices": [], "untrained": "no step ran",
        });
        std::fs::write(directory.join("torch-7.json"), watched.to_string()).unwrap();
        assert_eq!(reasons(), [(Reason::Untrained, "the program did not train: no step ran".to_owned())]);
        let watched = json!({
            "pid": 8, "torch": "2.15.0", "architectures": [], "trouble": [],
            "devices": [{"index": 0, "allocated_peak": 5, "reserved_peak": 5, "refused": null}],
        });
        std::fs::write(directory.join("torch-8.json"), watched.to_string()).unwrap();
        assert!(reasons().iter().any(|(_, sentence)| sentence.contains("process 8 left no report")));
    }

    #[test]
    fn a_size_that_nobody_computed_is_a_doubt_and_a_loss_is_listed() {
        let scratch = tempfile::tempdir().unwrap();
        let read_of = |sentence: &str, is_real: bool| json!({"sentence": sentence, "is_real": is_real, "count": 2});
        let mut written = serde_json::to_value(DeviceReport::default()).unwrap();
        written["measured"]["rank"] = json!(16);
        written["unknown_reads"] =
            json!([read_of("the host reads a size", false), read_of("the host reads a loss", true)]);
        std::fs::write(scratch.path().join("device-7.json"), written.to_string()).unwrap();
        let observed = read(scratch.path(), 0).unwrap();
        let sentence = "in rank 16, the host reads a size, 2 times".to_owned();
        assert_eq!(observed.doubts, [Doubt { reason: Reason::UnknownNumbers, sentence }]);
        assert_eq!(observed.numbers, ["in rank 16, the host reads a loss, 2 times"]);
    }

    /// What a rank left that ended with `code`, took 100 bytes more than its number from a GPU, and was refused more if it is `refused`.
    fn of_rank(rank: u32, code: i32, is_refused: bool, is_doubted: bool, is_asked_for: bool) -> Observed {
        let scratch = tempfile::tempdir().unwrap();
        report(scratch.path(), 7, vec![device(0, "GPU-a", 100 + u64::from(rank), u64::from(is_refused))]);
        let mut observed = read(scratch.path(), code).unwrap();
        if is_doubted {
            observed.doubts.push(Doubt { reason: Reason::UnknownNumbers, sentence: format!("in rank {rank}") });
        }
        observed.ranks.push(observed.rank(rank, None, is_asked_for));
        observed
    }

    #[test]
    fn ranks_that_run_one_after_the_other_make_one_run() {
        let fits = |rank| of_rank(rank, 0, false, false, true);
        let sentences = |seen: &Observed| seen.doubts.iter().map(|doubt| doubt.sentence.clone()).collect::<Vec<_>>();
        let whole = Observed::from_executions(vec![fits(0), fits(16), fits(8)]);
        assert_eq!((whole.code, whole.outcome), (0, Outcome::Completed));
        assert_eq!(whole.need(), Need { contexts: 1, reserved: 116, live: 116 }, "each has a GPU of its own");
        assert_eq!(whole.ranks.iter().map(|run| run.rank).collect::<Vec<_>>(), [0, 16, 8]);

        // A rank that ran only as a donor is not judged, unless it failed.
        let donor = |code, is_refused| of_rank(0, code, is_refused, true, false);
        for (code, is_refused, outcome) in
            [(0, false, Outcome::Completed), (1, true, Outcome::Completed), (1, false, Outcome::Failed)]
        {
            let whole = Observed::from_executions(vec![donor(code, is_refused), fits(16)]);
            assert_eq!((whole.outcome, whole.uses.len()), (outcome, 1));
            assert_eq!(sentences(&whole), [""; 0]);
        }

        let (short, doubted) = (|| of_rank(8, 1, true, false, true), || of_rank(16, 0, false, true, true));
        let whole = Observed::from_executions(vec![fits(0), short(), doubted()]);
        assert_eq!(
            (whole.outcome, sentences(&whole)),
            (Outcome::OutOfMemory, vec![]),
            "one rank certainly does not fit"
        );
        let unsure = Observed::from_executions(vec![fits(0), of_rank(8, 1, true, true, true), doubted()]);
        assert_eq!((unsure.outcome, sentences(&unsure).len()), (Outcome::OutOfMemory, 2));
        let failed = Observed::from_executions(vec![short(), of_rank(16, 3, false, false, true)]);
        assert_eq!((failed.outcome, failed.code), (Outcome::Failed, 3), "nobody knows what it would have needed");
    }

    #[test]
    fn processes_of_one_gpu_add_up_and_an_error_that_was_survived_is_none() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = directory(scratch.path());
        std::fs::create_dir(&directory).unwrap();
        report(
            scratch.path(),
            7,
            vec![device(0, "GPU-a", 300, 2), device(1, "GPU-b", 400, 0), device(2, "GPU-c", 0, 0)],
        );
        report(scratch.path(), 8, vec![device(0, "GPU-a", 200, 0)]);
        let watched = json!({
            "pid": 7, "torch": "2.15.0", "architectures": ["sm_80"], "trouble": [],
            "devices": [{"index": 0, "allocated_peak": 250, "reserved_peak": 300, "retries": 1, "ooms": 1, "refused": null}],
        });
        std::fs::write(directory.join("torch-7.json"), watched.to_string()).unwrap();
        let observed = read(scratch.path(), 0).unwrap();
        assert_eq!(observed.need(), Need { contexts: 2, reserved: 500, live: 250 });
        assert_eq!(observed.uses.len(), 3);
        assert_eq!(observed.architectures, ["sm_80"]);
        assert!(!observed.is_out_of_memory(), "it went on and ended with 0");
        assert!(read(scratch.path(), 1).unwrap().is_out_of_memory());

        // If CUDA refused memory and PyTorch then found it in its reserves, that is not why the program ended.
        std::fs::write(directory.join("torch-7.json"), watched.to_string().replace("\"ooms\":1", "\"ooms\":0"))
            .unwrap();
        assert!(!read(scratch.path(), 1).unwrap().is_out_of_memory());
        // Without PyTorch there are no reserves.
        std::fs::remove_file(directory.join("torch-7.json")).unwrap();
        assert!(read(scratch.path(), 1).unwrap().is_out_of_memory());
        std::fs::write(directory.join("torch-7.json"), "{").unwrap();
        assert!(read(scratch.path(), 1).unwrap_err().contains("torch-7.json"));
    }
}
