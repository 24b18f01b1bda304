//! `--executor slurm`: runs each case as a step of the allocation that ftest runs in, or else as its own job. Each step runs
//! `ftest run --drive` with that one case; its events and files become part of this run. Slurm decides which node runs it, and
//! when.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::case::{Case, Launch};
use crate::check::{Failure, FailureKind};
use crate::execute::RunContext;
use crate::execute::run::clock::{Instant, sleep_until, timeout_at};
use crate::execute::srun::last_words;
use crate::host::deadline;
use crate::record::event::{self, Attempt, Event};
use crate::record::{LOCK, LOG};
use crate::verdict::Verdict;

/// Subdirectory of the run's directory for runs of single cases, until their files are moved.
const PARTS: &str = "parts";
/// The variable that is set within an allocation.
const JOB: &str = "SLURM_JOB_ID";
/// Bytes of srun's standard error that are read.
const SAID: u64 = 1 << 20;

/// Starts cases by srun.
#[derive(Debug)]
pub struct Slurm {
    /// `ftest`, at this path on every node.
    ftest: PathBuf,
    /// The run's directory, on a file system that all nodes share.
    directory: PathBuf,
    /// Options of srun, as the user gives them.
    options: Vec<String>,
    /// Options of `ftest run` that apply to each case as to the whole run.
    passed_on: Vec<String>,
    number: AtomicU32,
}

/// A run of one case elsewhere, as far as known.
#[derive(Debug, Default)]
struct Part {
    /// Where its runs are kept; there is only one.
    place: PathBuf,
    /// Its directory.
    directory: Option<PathBuf>,
    events: Vec<Event>,
    verdict: Option<Verdict>,
}

impl Slurm {
    /// Starts `ftest` for each case, and gathers its files in `directory`.
    pub fn new(ftest: PathBuf, directory: PathBuf, options: Vec<String>, passed_on: Vec<String>) -> Slurm {
        Slurm { ftest, directory, options, passed_on, number: AtomicU32::new(0) }
    }

    /// Whether Slurm starts `case`. Not a case whose ranks Slurm starts anyway: a step within a step would wait for its own CPUs.
    pub fn takes(&self, case: &Case) -> bool {
        !matches!(case.launch, Launch::Srun(_))
    }

    /// Runs `case`; returns its verdict and the events from its start to its end. All files are in their places then.
    pub async fn run(&self, case: &Case, context: &RunContext) -> (Verdict, Vec<Event>) {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let place = self.directory.join(PARTS).join(number.to_string());
        let cookie = context.cookie().part(format_args!("slurm-{number}")).to_string();
        let mut part = Part { place, ..Part::default() };
        let started = Instant::now();
        let mut problem = match self.start(case, &part.place, &cookie) {
            Ok(child) => self.follow(case, context, child, &mut part).await,
            Err(error) => Some((Verdict::Broken, format!("srun cannot be started: {error}"))),
        };
        if let Some(directory) = &part.directory
            && let Err(error) = gather(directory, &self.directory)
        {
            let lost = format!("the files of the case stay in {}: {error}", directory.display());
            problem.get_or_insert((Verdict::Broken, lost));
        } else {
            // It is no longer needed.
            let _ = fs::remove_dir_all(&part.place);
            // Until the last case, it is not empty.
            let _ = fs::remove_dir(self.directory.join(PARTS));
        }
        match (problem, part.verdict) {
            (None, Some(verdict)) => (verdict, part.events),
            (problem, _) => {
                let (verdict, got) = problem.unwrap_or((Verdict::Broken, "srun ended without a result".to_owned()));
                (verdict.clone(), not_run(case, verdict, got, started))
            }
        }
    }

    fn start(&self, case: &Case, place: &Path, cookie: &str) -> io::Result<Child> {
        fs::create_dir_all(place)?;
        Command::new("srun")
            .args(["--nodes=1", "--ntasks=1", "--job-name=ftest", "--export=ALL", "--kill-on-bad-exit=0"])
            .arg(format!("--cpus-per-task={}", case.resources.cpus))
            // Otherwise a step within an allocation would get a whole node.
            .args(std::env::var_os(JOB).map(|_| "--exact"))
            .args(memory(case))
            .args(&self.options)
            .arg(&self.ftest)
            .args(["run", "--drive", "--no-fail-fast"])
            .args(&self.passed_on)
            .arg("--runs-dir")
            .arg(place)
            .arg(&case.place.file)
            .env(protocol::env::COOKIE.name, cookie)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    /// Reads events until srun has ended. If something interfered, returns a verdict and the reason.
    async fn follow(
        &self,
        case: &Case,
        context: &RunContext,
        mut child: Child,
        part: &mut Part,
    ) -> Option<(Verdict, String)> {
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Some((Verdict::Broken, "srun has no streams".to_owned()));
        };
        let said = tokio::spawn(async move {
            let mut said = Vec::new();
            // A stream that breaks off keeps what it has delivered.
            let _ = stderr.take(SAID).read_to_end(&mut said).await;
            String::from_utf8_lossy(&said).into_owned()
        });
        let limit = context.limits.for_case(case);
        let read = self.read(case, stdin, BufReader::new(stdout), part);
        let cut_short = tokio::select! {
            biased;
            () = context.cancel.raised(1) => {
                let reason = "the run was interrupted".to_owned();
                Some((Verdict::Skipped { reason: reason.clone() }, reason))
            }
            () = async { match &limit { Some(limit) => sleep_until(limit.at).await, None => std::future::pending().await } } => {
                let whose = limit.as_ref().map_or("", |limit| &limit.whose);
                Some((Verdict::Timeout, format!("the time of {whose} was up before Slurm had run the case")))
            }
            () = read => None,
        };
        if cut_short.is_some() {
            signal(&child, Signal::TERM);
        }
        // The step has ended, or is being canceled.
        let until = Instant::now() + deadline::SRUN_ENDS;
        let exit = match timeout_at(until, child.wait()).await {
            Ok(exit) => exit.map_or_else(|error| error.to_string(), |exit| exit.to_string()),
            Err(_) => {
                signal(&child, Signal::KILL);
                "did not end".to_owned()
            }
        };
        if cut_short.is_some() || part.verdict.is_some() {
            said.abort();
            return cut_short;
        }
        let said = timeout_at(until, said).await.ok().and_then(Result::ok).unwrap_or_default();
        Some((Verdict::Broken, format!("srun ended ({exit}) before the case did; {}", last_words(&said))))
    }

    /// Requests the case, and reads its events until there are no more.
    async fn read(
        &self,
        case: &Case,
        mut stdin: ChildStdin,
        stdout: BufReader<impl tokio::io::AsyncRead + Unpin>,
        part: &mut Part,
    ) {
        let id = case.full_id();
        // If nobody reads it, the end of the output shows why.
        let _ = stdin.write_all(format!("{id}\n").as_bytes()).await;
        let mut stdin = Some(stdin);
        let mut lines = stdout.lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let line = match &part.directory {
                // Messages name files, too.
                Some(theirs) => line.replace(&*theirs.to_string_lossy(), &self.directory.to_string_lossy()),
                None => line,
            };
            match serde_json::from_str::<Event>(&line) {
                Ok(Event::RunStarted(info)) => {
                    part.directory = Some(part.place.join(info.run));
                }
                Ok(event @ Event::TeardownFailed { .. }) => part.events.push(event),
                Ok(event @ Event::AttemptFinished { .. }) => part.events.push(event),
                Ok(Event::CaseFinished { case, verdict, flaky, failures, notes }) if case == id => {
                    part.verdict = Some(verdict.clone());
                    part.events.push(Event::CaseFinished { case, verdict, flaky, failures, notes });
                    // Closing its input ends it.
                    stdin = None;
                }
                // From another ftest, or from srun itself.
                Ok(_) | Err(_) => {}
            }
        }
        drop(stdin);
    }
}

/// Slots in an allocation: its CPUs on all nodes. `None` outside an allocation.
pub fn slots() -> Option<u32> {
    std::env::var_os(JOB)?;
    cpus(&std::env::var("SLURM_JOB_CPUS_PER_NODE").ok()?)
}

/// `2(x3),1` is 7.
fn cpus(list: &str) -> Option<u32> {
    let of_entry = |entry: &str| {
        let (cpus, nodes) =
            entry.split_once("(x").map_or((entry, "1"), |(cpus, nodes)| (cpus, nodes.trim_end_matches(')')));
        cpus.parse::<u32>().ok()?.checked_mul(nodes.parse().ok()?)
    };
    list.split(',').map(of_entry).try_fold(0u32, |sum, cpus| sum.checked_add(cpus?))
}

fn memory(case: &Case) -> Option<String> {
    (case.resources.memory > 0).then(|| format!("--mem={}M", case.resources.memory.div_ceil(1 << 20)))
}

fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid as i32)) {
        // A process that has ended does not need it.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Moves the files a run kept into another run's directory. Existing files stay.
fn gather(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, target) = (entry.file_name(), to.join(entry.file_name()));
        if name == LOG || name == LOCK {
            continue;
        }
        if !target.exists() {
            fs::rename(entry.path(), &target)?;
        } else if entry.file_type()?.is_dir() {
            gather(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// The events of a case that Slurm did not run to its end.
fn not_run(case: &Case, verdict: Verdict, got: String, started: Instant) -> Vec<Event> {
    let mut events = Vec::new();
    if !matches!(verdict, Verdict::Skipped { .. }) {
        let failure = Failure {
            place: Some(case.place.clone()),
            kind: FailureKind::Slurm,
            expected: "Slurm runs the case".to_owned(),
            got,
            next: "`sinfo` and `squeue` show what there is; --srun passes options on".to_owned(),
        };
        let attempt = Attempt {
            number: 1,
            verdict: verdict.clone(),
            failures: vec![failure],
            duration_us: event::us(started.elapsed()),
            ..Attempt::default()
        };
        events.push(Event::AttemptFinished { case: case.full_id(), attempt });
    }
    let (failures, notes) = Default::default();
    events.push(Event::CaseFinished { case: case.full_id(), verdict, flaky: false, failures, notes });
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_are_the_cpus_of_all_nodes() {
        assert_eq!(cpus("3,1"), Some(4));
        assert_eq!(cpus("2(x2)"), Some(4));
        assert_eq!(cpus("16(x3),8"), Some(56));
        assert_eq!(cpus("x"), None);
    }

    #[test]
    fn files_are_gathered_beside_those_that_are_there() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        for file in ["from/s/b/x", "from/events.jsonl", "to/s/a/x", "to/events.jsonl"] {
            let file = place.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, file.to_string_lossy().as_bytes()).unwrap();
        }
        gather(&from, &to).unwrap();
        assert!(to.join("s/a/x").is_file() && to.join("s/b/x").is_file());
        assert!(fs::read_to_string(to.join("events.jsonl")).unwrap().ends_with("to/events.jsonl"));
    }

    #[test]
    fn a_case_that_slurm_does_not_run_is_broken_in_its_words() {
        let case = Case { suite: "s".into(), id: "a".into(), ..Case::default() };
        let events = not_run(&case, Verdict::Broken, "no partition".into(), Instant::now());
        let [Event::AttemptFinished { attempt, .. }, Event::CaseFinished { case, verdict, .. }] = events.as_slice()
        else {
            panic!("{events:?}")
        };
        assert_eq!(
            (case.as_str(), verdict, attempt.failures[0].got.as_str()),
            ("s/a", &Verdict::Broken, "no partition")
        );
    }
}
