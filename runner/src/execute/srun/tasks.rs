//! The tasks of a step as the case sees them: their streams as they are written, and their ends as each task records its
//! own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use super::follow::Directory;
use super::{Ended, apart, directory, ended, started};
use crate::case::Case;
use crate::case::srun::Srun;
use crate::execute::launch::ranks;
use crate::execute::process_tree::Event;
use crate::execute::process_tree::capture::{Capture, Lines};
use crate::execute::process_tree::show::{Name, Shown};
use crate::execute::run::clock::Instant;
use crate::host::secrets::Secrets;
use crate::observation::{Exit, ProcessObservation, Role};

/// The tasks of a case.
#[derive(Debug)]
pub(in crate::execute) struct Tasks {
    directory: PathBuf,
    tasks: Vec<(Role, [Capture; 2])>,
    ends: Ends,
    /// Passes on changes in the directory.
    noticing: JoinHandle<()>,
}

type Ends = Arc<Mutex<BTreeMap<u32, Ended>>>;

impl Tasks {
    /// Prepares the `scratch` directory for the tasks of `case`, before srun starts them. Their ends, and their lines if a kill
    /// waits for one, go to `events`; if `secrets` is given, their output is shown without these.
    ///
    /// # Errors
    /// One sentence: a directory or file cannot be created, or the kernel cannot notify us of changes.
    pub(in crate::execute) fn prepare(
        case: &Case,
        srun: &Srun,
        scratch: &Path,
        events: &UnboundedSender<Event>,
        secrets: Option<&Secrets>,
    ) -> Result<Tasks, String> {
        let place = directory(scratch);
        let failed = |error: io::Error| format!("cannot follow the tasks of srun in {}: {error}", place.display());
        std::fs::create_dir(&place).map_err(failed)?;
        let mut watched = Directory::watch(&place).map_err(failed)?;
        let texts = ranks::texts(case);
        let mut tasks = Vec::new();
        for task in 0..srun.ntasks {
            let role = srun.role(task);
            let mut capture = |end: &str, texts, lines, is_error| {
                let stream = watched.follow(&place.join(format!("{task}.{end}"))).map_err(failed)?;
                let name = (case.world_size() > Some(1)).then(|| match (role, case.torchruns()) {
                    (Role::Launcher(node), Some((per_node, _))) => Name::Workers { node, first: node * per_node },
                    _ => Name::Role(role),
                });
                let shown = secrets.map(|secrets| Shown::watched(name, is_error, secrets.clone()));
                let file = scratch.join(format!("{}.{end}", role.file_stem()));
                Ok::<_, String>(Capture::start(stream, file, texts, lines, shown))
            };
            let lines: Option<Lines> = (!case.kill.is_empty()).then(|| {
                let events = events.clone();
                let pass = move |line| _ = events.send(Event::Line(role, line));
                Box::new(pass) as Lines
            });
            let stdout = capture("stdout", &texts.stdout, lines, false)?;
            let stderr = capture("stderr", &texts.stderr, None, true)?;
            tasks.push((role, [stdout, stderr]));
        }
        let ends = Ends::default();
        let roles = tasks.iter().map(|(role, _)| *role).collect();
        let noticing = tokio::spawn(notice(watched, place.clone(), roles, Arc::clone(&ends), events.clone()));
        Ok(Tasks { directory: place, tasks, ends, noticing })
    }

    /// The process of a task that has ended.
    pub(in crate::execute) fn pid_of(&self, role: Role) -> Option<i32> {
        let task = self.tasks.iter().position(|(own, _)| *own == role)?;
        self.ends.lock().get(&(task as u32)).map(|ended| ended.pid)
    }

    /// Those that run.
    pub(in crate::execute) fn unfinished(&self) -> Vec<Role> {
        let numbered = (0..).zip(&self.tasks);
        let runs = |task: u32| self.has_started(task) && self.end_of(task).is_none();
        numbered.filter(|(task, _)| runs(*task)).map(|(_, (role, _))| *role).collect()
    }

    /// Waits until all that they wrote to stdout is among the events. Call only after srun has ended.
    pub(in crate::execute) async fn drain_output(&mut self, deadline: Instant) {
        self.noticing.abort();
        for (_, [stdout, _]) in &mut self.tasks {
            stdout.ended(deadline).await;
        }
    }

    /// Closes the streams, at the latest at `deadline`, and returns the observation of each task that did anything.
    pub(in crate::execute) async fn observe(self, deadline: Instant) -> Vec<ProcessObservation> {
        // Without its directory, every stream ends.
        self.noticing.abort();
        let mut seen = Vec::new();
        for task in 0..self.tasks.len() as u32 {
            let end = self.end_of(task);
            seen.push((end.is_some() || self.has_started(task)).then(|| end.map_or(Exit::Unknown, |ended| ended.exit)));
        }
        let mut processes = Vec::new();
        for (exit, (role, [stdout, stderr])) in seen.into_iter().zip(self.tasks) {
            let ((stdout, _), (stderr, _)) = (stdout.finish(deadline).await, stderr.finish(deadline).await);
            // Slurm's own message about a task that never ran.
            if let Some(exit) = exit.or_else(|| (stderr.bytes > 0).then_some(Exit::Unknown)) {
                processes.push(ProcessObservation { role, exit, stdout, stderr });
            }
        }
        if let Err(error) = apart::gather(&self.directory) {
            eprintln!("ftest: warning: what other machines noted in {} is lost: {error}", self.directory.display());
        }
        // All its contents have been captured.
        let _ = std::fs::remove_dir_all(&self.directory);
        processes
    }

    fn has_started(&self, task: u32) -> bool {
        self.directory.join(started(task)).exists()
    }

    /// The end as notified, or else as written: changes made by another machine give no notification.
    fn end_of(&self, task: u32) -> Option<Ended> {
        let noticed = self.ends.lock().get(&task).cloned();
        noticed.or_else(|| read(&self.directory, task))
    }

    /// Whether Slurm has started any of them, and the first of those that left no trace.
    pub(in crate::execute) fn started(&self) -> (bool, Option<Role>) {
        let mut missing =
            (0..).zip(&self.tasks).filter(|(task, _)| !self.has_started(*task) && self.end_of(*task).is_none());
        let (count, first) = (missing.clone().count(), missing.next());
        (count < self.tasks.len(), first.map(|(_, (role, _))| *role))
    }
}

/// Passes on changes in the directory until nobody listens any more.
async fn notice(watched: Directory, place: PathBuf, roles: Vec<Role>, ends: Ends, events: UnboundedSender<Event>) {
    while let Ok(names) = watched.changed().await {
        for task in names.iter().filter_map(|name| number(name)) {
            let (Some(role), Some(ended)) = (roles.get(task as usize), read(&place, task)) else { continue };
            let exit = ended.exit.clone();
            if ends.lock().insert(task, ended).is_none() {
                let _ = events.send(Event::Ended(*role, exit));
            }
        }
    }
}

/// The task whose end is in the file of this name.
fn number(name: &OsStr) -> Option<u32> {
    let task = name.to_str()?.split_once('.')?.0.parse().ok()?;
    (name == OsString::from(ended(task))).then_some(task)
}

fn read(place: &Path, task: u32) -> Option<Ended> {
    serde_json::from_slice(&std::fs::read(place.join(ended(task))).ok()?).ok()
}
