//! `ftest exec --preflight`: runs a command on several GPU models without computing anything, and reports on which its
//! memory fits.

mod doubt;
pub(super) mod dry;
mod observed;
pub(super) mod options;
mod probe;
mod ranks;
mod report;
mod rules;
mod size;
mod table;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use protocol::clock;
use protocol::plan::ClusterPlan;
use protocol::profile::{self, GpuProfile, ProfileStatus};
use protocol::skip;

use super::alone::Alone;
use super::exec::{self, ExecArgs, ExecPlan, Trouble};
use dry::Dry;
use observed::Observed;
use probe::Probe;
use ranks::Ranks;
use report::{Preflight, Probed, Row, Run};
use rules::{Growth, Outcome, Verdict};
use runner::execute::run::scratch::{self, RunDirectory};
use runner::host::{output, whole_file};
use runner::verdict::exit_code::ExitCode;

/// Where ranks record what they send, in a directory of their runs.
const SENT: &str = "sent";

/// Maximum number of runs to find the smallest GPU.
const SMALLEST_RUNS: usize = 4;

/// The exit code of a preflight that is unsure: the program ran, but the report says why that does not show what it needs.
const UNSURE: i32 = 4;

/// Runs the preflight; returns 0 if everything asked for fits, 1 if something does not, 2 for wrong usage, 3 if it cannot tell,
/// [`UNSURE`] if what it saw proves nothing.
pub fn run(arguments: &ExecArgs) -> i32 {
    exec::exit_code(exec::PROGRAM, plan(arguments))
}

fn plan(arguments: &ExecArgs) -> Result<i32, Trouble> {
    let options = &arguments.preflight;
    let base = exec::plan(arguments.cluster.as_deref(), &arguments.devices)?;
    let probes = Probe::all(&options.probe).map_err(Trouble::usage)?;
    let file =
        options.preflight_report.as_deref().map(|path| exec::checked_report("--preflight-report", path)).transpose()?;
    if file.as_ref().is_some_and(|path| path.extension().is_some_and(|extension| extension == "md")) {
        return Err(Trouble::usage("--preflight-report: name the JSON file; the Markdown is written next to it"));
    }
    let mut targets = Vec::new();
    for id in &options.profiles {
        let known = base.profile(id).ok_or_else(|| Trouble::usage(format!("--profiles: {}", profile::unknown(id))))?;
        if !targets.contains(known) {
            targets.push(known.clone());
        }
    }
    let ranks = Ranks::from_arguments(&arguments.alone, options, &base).map_err(Trouble::usage)?;
    let operations = exec::operations(arguments)?;
    let mut session = Session { arguments, base, ranks, probes, operations, runs: Vec::new() };
    if let Some(code) = session.ask(&targets)? {
        return Ok(code);
    }
    let preflight = session.conclude(&targets)?;
    let text = preflight.markdown();
    if let Some(path) = &file {
        let mut json = serde_json::to_vec_pretty(&preflight).map_err(Trouble::infra)?;
        json.push(b'\n');
        for (path, bytes) in [(path.clone(), json.as_slice()), (path.with_extension("md"), text.as_bytes())] {
            whole_file::replace(&path, &[bytes])
                .map_err(|error| Trouble::infra(format!("{}: {error}", path.display())))?;
        }
    }
    // A closed stdout is remembered where that matters.
    let _ = output::stdout().write_all(text.as_bytes());
    Ok(match preflight.fits {
        Some(true) => ExitCode::Passed as i32,
        Some(false) => ExitCode::Failed as i32,
        None if preflight.is_unsure() => UNSURE,
        None => ExitCode::CouldNotRun as i32,
    })
}

/// The runs of a preflight.
struct Session<'a> {
    arguments: &'a ExecArgs,
    base: ClusterPlan,
    /// The ranks that are run one after the other; if `None`, the command starts them all.
    ranks: Option<Ranks>,
    /// Where the operations of the first run are kept.
    operations: Option<PathBuf>,
    probes: Vec<Probe>,
    runs: Vec<(Run, Observed)>,
}

impl Session<'_> {
    /// Runs the command on all GPUs that it must fit on. Returns an exit code if a signal ended it: then nobody waits for
    /// the rest.
    fn ask(&mut self, targets: &[GpuProfile]) -> Result<Option<i32>, Trouble> {
        let mut plans: Vec<ClusterPlan> = targets.iter().map(|target| self.on(target)).collect();
        if plans.is_empty() {
            plans.push(self.base.clone());
        }
        let first = self.probes.first().cloned();
        for plan in plans {
            let at = self.run(&plan, first.as_ref())?;
            let code = self.runs[at].0.exit_code;
            if is_stopped(code) {
                return Ok(Some(code));
            }
        }
        Ok(None)
    }

    /// The cluster with every GPU replaced by this one.
    fn on(&self, profile: &GpuProfile) -> ClusterPlan {
        let mut plan = self.base.clone();
        for node in &mut plan.nodes {
            node.gpus.iter_mut().for_each(|gpu| gpu.clone_from(&profile.id));
        }
        plan
    }

    /// Runs the command once, or each of the ranks once; returns the index among the runs.
    fn run(&mut self, plan: &ClusterPlan, probe: Option<&Probe>) -> Result<usize, Trouble> {
        let mut gpus: Vec<&str> = plan.gpus().into_iter().map(|(_, id)| id).collect();
        gpus.sort_unstable();
        gpus.dedup();
        let gpu = gpus.join(",");
        let executions = match &self.ranks {
            None => vec![self.execute(plan, probe, &gpu, None)?],
            Some(ranks) => {
                let record = RunDirectory::make().map_err(Trouble::infra)?;
                let sent = record.path().join(SENT);
                let executions = self.execute_ranks(plan, probe, &gpu, ranks, &sent);
                scratch::remove(&sent);
                record.leave();
                executions?
            }
        };
        let seen = Observed::from_executions(executions);
        let capacity = seen.largest().map_or(0, |device| device.capacity_bytes);
        let run = Run {
            gpu,
            probe: probe.map(Probe::words),
            exit_code: seen.code,
            outcome: seen.outcome,
            needed_bytes: seen.need().total(capacity),
            ranks: seen.ranks.clone(),
            uses: seen.uses.clone(),
            not_simulated: seen.gaps.clone(),
            trouble: seen.trouble.clone(),
            doubts: seen.doubts.clone(),
            numbers_read: seen.numbers.clone(),
        };
        self.runs.push((run, seen));
        Ok(self.runs.len() - 1)
    }

    /// Runs the command as each of the ranks, which record in `sent` what they send. A rank 0 that nobody asked for runs until it
    /// trains: if that was not enough for the others, all run once more, and it runs on. A signal ends it.
    fn execute_ranks(
        &self,
        plan: &ClusterPlan,
        probe: Option<&Probe>,
        gpu: &str,
        ranks: &Ranks,
        sent: &Path,
    ) -> Result<Vec<Observed>, Trouble> {
        let executions = self.execute_in_order(plan, probe, gpu, ranks, sent, true)?;
        let was_cut_short = sent.join(skip::STOPPED).exists() && !executions.iter().any(|seen| is_stopped(seen.code));
        let has_failed = executions.iter().any(|seen| seen.outcome == Outcome::Failed);
        if !was_cut_short || !(has_failed || sent.join(skip::LACKING).exists()) {
            return Ok(executions);
        }
        scratch::remove(sent);
        eprintln!("ftest exec: once more: rank 0 may have more for the others than what it sent before it trained");
        self.execute_in_order(plan, probe, gpu, ranks, sent, false)
    }

    fn execute_in_order(
        &self,
        plan: &ClusterPlan,
        probe: Option<&Probe>,
        gpu: &str,
        ranks: &Ranks,
        sent: &Path,
        cuts_short: bool,
    ) -> Result<Vec<Observed>, Trouble> {
        let mut executions = Vec::new();
        for (alone, is_asked_for) in ranks.in_order() {
            let is_cut_short = cuts_short && !is_asked_for;
            let rank = OneRank { alone, is_asked_for, is_cut_short, stage: ranks.stage(alone.rank()), sent };
            let seen = self.execute(plan, probe, gpu, Some(&rank))?;
            if is_cut_short && seen.stopped_after.is_some() {
                std::fs::write(sent.join(skip::STOPPED), "").map_err(Trouble::infra)?;
            }
            // The others would lack what it did not come to send.
            let is_last = is_stopped(seen.code) || (!is_asked_for && seen.outcome == Outcome::Failed);
            executions.push(seen);
            if is_last {
                break;
            }
        }
        Ok(executions)
    }

    /// Runs the command once, if `rank` is given as that rank of a job without the others.
    fn execute(
        &self,
        plan: &ClusterPlan,
        probe: Option<&Probe>,
        gpu: &str,
        rank: Option<&OneRank<'_>>,
    ) -> Result<Observed, Trouble> {
        let is_first = self.runs.is_empty();
        let value = probe.map(|probe| format!(", {}", probe.words())).unwrap_or_default();
        let whose = match rank {
            None => String::new(),
            Some(OneRank { alone, is_asked_for: true, .. }) => format!(", rank {}", alone.rank()),
            Some(_) => ", rank 0, for what the others get from it".to_owned(),
        };
        let is_modeled = self.arguments.clock.as_deref() == Some(clock::MODELED);
        let times = match is_first {
            true if is_modeled => ", and times that the program prints are modeled",
            true => ", and times that the program prints mean nothing",
            false => "",
        };
        eprintln!("ftest exec: preflight on {gpu}{value}{whose}; nothing large is computed{times}");
        let command: Vec<OsString> = match probe {
            Some(probe) => self.arguments.command.iter().map(|word| probe.put_into(word)).collect(),
            None => self.arguments.command.clone(),
        };
        let shows_output = is_first && rank.is_none_or(|rank| rank.is_asked_for);
        let options = &self.arguments.preflight;
        let steps = rank.and_then(|rank| if rank.is_cut_short { Some(0) } else { options.steps });
        let dry = Dry::new(probe, &options.assume, shows_output, rank.map(|rank| rank.sent), steps);
        exec::run_plan(&ExecPlan {
            program: exec::PROGRAM,
            plan,
            transport: self.arguments.transport,
            clock: self.arguments.clock.as_deref(),
            operations: self.operations.as_deref().filter(|_| is_first),
            report: None,
            command: &command,
            ranks: None,
            allow: &[],
            faults: &[],
            sanitize: None,
            dry: Some(&dry),
            alone: rank.map(|rank| &rank.alone),
            alone_report: None,
        })?;
        let mut seen = dry.into_seen().map_err(Trouble::infra)?;
        if let Some(rank) = rank {
            seen.ranks.push(seen.rank(rank.alone.rank(), rank.stage, rank.is_asked_for));
        }
        Ok(seen)
    }

    /// A completed run of the first probe: the one with the most memory, and so the least memory pressure.
    fn reference(&self) -> Option<usize> {
        let first = self.probes.first().map(Probe::words);
        let capacity = |at: &usize| self.runs[*at].1.largest().map_or(0, |device| device.capacity_bytes);
        let completed = |at: &usize| self.runs[*at].0.outcome == Outcome::Completed && self.runs[*at].0.probe == first;
        (0..self.runs.len()).filter(completed).max_by_key(|at| (capacity(at), usize::MAX - at))
    }

    /// Draws the conclusions from the requested runs, and makes the additional runs they need.
    fn conclude(&mut self, targets: &[GpuProfile]) -> Result<Preflight, Trouble> {
        let asked = self.runs.len();
        let failed = self.runs.iter().any(|(run, _)| run.outcome == Outcome::Failed);
        let first = self.probes.first().cloned();
        if self.reference().is_none() && !failed {
            // Its actual need shows on a GPU with more memory.
            if let Some(largest) = discrete().max_by_key(|profile| profile.memory.bytes) {
                let plan = self.on(largest);
                self.run(&plan, first.as_ref())?;
            }
        }
        let reference = self.reference();
        if let Some(at) = reference.filter(|_| self.arguments.preflight.smallest) {
            self.look_for_the_smallest(at, first.as_ref())?;
        }
        let growth = match (reference, self.probes.len()) {
            (Some(at), 2..) => Some(self.probe(at)?),
            _ => None,
        };
        let profiles = self.rows(targets, asked, reference, growth.as_ref());
        let smallest = profiles
            .iter()
            .filter(|_| self.arguments.preflight.smallest)
            .filter(|row| row.was_run && row.verdict == Verdict::Fits);
        let smallest = smallest.min_by_key(|row| row.memory_bytes).map(|row| row.id.clone());
        let asked_for = || profiles.iter().filter(|row| row.is_asked_for);
        let is_any = |verdict| asked_for().any(|row| row.verdict == verdict);
        let fits = match failed {
            true => None,
            false if is_any(Verdict::DoesNotFit) || is_any(Verdict::Unsupported) => Some(false),
            false if is_any(Verdict::Unsure) => None,
            false => Some(true),
        };
        Ok(Preflight {
            schema: report::SCHEMA,
            command: self.arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            torch: self.runs.iter().find_map(|(_, seen)| seen.torch.clone()),
            fits,
            reference,
            smallest,
            runs: self.runs.iter().map(|(run, _)| run.clone()).collect(),
            profiles,
            growth,
            assumed: self.arguments.preflight.assume.clone(),
            not_known: report::NOT_KNOWN,
        })
    }

    /// Runs on the smallest GPUs that might suffice, until it fits on one.
    fn look_for_the_smallest(&mut self, reference: usize, probe: Option<&Probe>) -> Result<(), Trouble> {
        let Observed { architectures, .. } = self.runs[reference].1.clone();
        let need = self.runs[reference].1.need();
        let mut candidates: Vec<&GpuProfile> = discrete()
            .filter(|profile| rules::is_supported(&architectures, &profile.compute_capability))
            .filter(|profile| need.on(profile.memory.bytes) != Verdict::DoesNotFit)
            .collect();
        candidates.sort_by_key(|profile| (profile.memory.bytes, profile.id.clone()));
        // One model of each size.
        candidates.dedup_by_key(|profile| profile.memory.bytes);
        for profile in candidates.into_iter().take(SMALLEST_RUNS) {
            let is_known = |(run, seen): &(Run, Observed)| {
                run.outcome == Outcome::Completed
                    && seen.largest().is_some_and(|device| device.capacity_bytes <= profile.memory.bytes)
            };
            if self.runs.iter().any(is_known) {
                break;
            }
            let plan = self.on(profile);
            let at = self.run(&plan, probe)?;
            if self.runs[at].0.outcome != Outcome::OutOfMemory {
                break;
            }
        }
        Ok(())
    }

    /// Runs the other probes on the GPU of the reference run.
    fn probe(&mut self, reference: usize) -> Result<Probed, Trouble> {
        let probes = self.probes.clone();
        let of_reference = self.runs[reference].1.largest().map(|device| device.profile.clone());
        let plan = match of_reference.and_then(|id| self.base.profile(&id).cloned()) {
            Some(profile) => self.on(&profile),
            None => self.base.clone(),
        };
        let mut points = vec![(probes[0].number, self.runs[reference].0.needed_bytes)];
        for probe in &probes[1..] {
            let at = self.run(&plan, Some(probe))?;
            let (run, _) = &self.runs[at];
            // A run that did not complete shows no peak.
            if run.outcome == Outcome::Completed {
                points.push((probe.number, run.needed_bytes));
            }
        }
        Ok(Probed { variable: probes[0].name.clone(), line: Growth::fit(&points), points })
    }

    /// A row for every model: first those asked for, then those that were run or are derived from `reference`.
    fn rows(
        &self,
        targets: &[GpuProfile],
        asked: usize,
        reference: Option<usize>,
        growth: Option<&Probed>,
    ) -> Vec<Row> {
        let architectures = self.runs.iter().map(|(_, seen)| &seen.architectures).find(|list| !list.is_empty());
        let is_supported = |profile: &GpuProfile| {
            architectures.is_none_or(|list| rules::is_supported(list, &profile.compute_capability))
        };
        let need = reference.map(|at| self.runs[at].1.need());
        let first = self.probes.first().map(Probe::words);
        let row = |profile: &GpuProfile, is_asked_for: bool| {
            let capacity = profile.memory.bytes;
            let run = self.runs.iter().find(|(run, _)| run.gpu == profile.id && run.probe == first);
            let computed = || need.map_or(Verdict::Unsure, |need| need.on(capacity));
            let source = run.or_else(|| reference.map(|at| &self.runs[at]));
            let doubts = source.map_or(&[][..], |(run, _)| &run.doubts);
            let verdict = match run.map(|(run, _)| run.outcome) {
                _ if !is_supported(profile) => Verdict::Unsupported,
                Some(Outcome::Completed) => Verdict::Fits,
                Some(Outcome::OutOfMemory) => Verdict::DoesNotFit,
                Some(Outcome::Failed) => Verdict::Unsure,
                None => computed(),
            };
            let verdict = doubt::with(doubts, verdict);
            let needed = match run {
                Some((run, seen)) if run.outcome == Outcome::Completed => Some(seen.need().total(capacity)),
                _ => need.map(|need| need.total(capacity)),
            };
            Row {
                id: profile.id.clone(),
                memory_bytes: capacity,
                verdict,
                was_run: run.is_some(),
                is_asked_for,
                headroom_bytes: needed.map(|needed| capacity as i64 - needed as i64),
                most: growth.and_then(|growth| growth.line?.most(capacity)),
            }
        };
        let mut asked_for: Vec<&GpuProfile> = targets.iter().collect();
        if asked_for.is_empty() {
            let ids = self.runs[..asked].iter().flat_map(|(run, _)| run.gpu.split(','));
            asked_for = ids.filter_map(|id| self.base.profile(id)).collect();
        }
        let mut rows: Vec<Row> = asked_for.iter().map(|profile| row(profile, true)).collect();
        let mut others: Vec<&GpuProfile> =
            profile::all().iter().filter(|profile| profile.status != ProfileStatus::Synthetic).collect();
        others.retain(|profile| asked_for.iter().all(|asked| asked.id != profile.id));
        others.sort_by_key(|profile| (profile.memory.bytes, profile.id.clone()));
        if reference.is_some() {
            rows.extend(others.into_iter().map(|profile| row(profile, false)));
        }
        rows
    }
}

/// A rank that is run by itself.
struct OneRank<'a> {
    alone: Alone,
    is_asked_for: bool,
    /// It is stopped as soon as it trains.
    is_cut_short: bool,
    /// Its pipeline stage, if it is known.
    stage: Option<u32>,
    /// Where the ranks record what they send.
    sent: &'a Path,
}

/// Whether a command that ended with `code` was ended by a person or a service, who does not wait for the rest.
fn is_stopped(code: i32) -> bool {
    let codes = [ExitCode::HungUp, ExitCode::Interrupted, ExitCode::Quit, ExitCode::Terminated];
    codes.map(|code| code as i32).contains(&code)
}

/// The models that can be bought and have their own memory.
fn discrete() -> impl Iterator<Item = &'static GpuProfile> {
    profile::all().iter().filter(|profile| profile.status != ProfileStatus::Synthetic && !profile.memory.unified)
}
