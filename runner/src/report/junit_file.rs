//! The JUnit file during a run: complete at any time, but rewritten rarely enough to cost little.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::host::whole_file;
use crate::record::Run;
use crate::record::event::Event;
use crate::report::junit::{self, Profile};

/// A result is written after at most this time, unless writing the file takes long.
const EVERY: Duration = Duration::from_secs(1);
/// At most one part in this many of the time goes into writing.
const SHARE: u32 = 20;
/// As many links as the kernel follows.
const LINKS: usize = 40;

/// Writes the file as the run goes on.
#[derive(Debug)]
pub struct JunitFile {
    path: PathBuf,
    profile: Profile,
    /// Whether something happened that is not in the file yet.
    stale: bool,
    /// The earliest time of the next write.
    next: Instant,
}

impl JunitFile {
    /// A report that goes to `path`.
    pub fn new(path: PathBuf, profile: Profile) -> JunitFile {
        JunitFile { path, profile, stale: false, next: Instant::now() }
    }

    /// Where it goes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Handles an event that `run` has recorded, and writes the file if it is time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn on(&mut self, run: &Run, event: &Event) -> io::Result<()> {
        match event {
            Event::RunStarted(_) | Event::RunFinished { .. } => self.write(run),
            Event::CaseFinished { .. } | Event::TeardownFailed { .. } => {
                self.stale = true;
                self.refresh(run)
            }
            Event::Preparing { .. } | Event::CaseStarted { .. } | Event::AttemptFinished { .. } => Ok(()),
        }
    }

    /// Writes the file if it lacks something and was not just written.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn refresh(&mut self, run: &Run) -> io::Result<()> {
        if self.stale && Instant::now() >= self.next { self.write(run) } else { Ok(()) }
    }

    /// Writes the file if it lacks something, whenever it was last written.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self, run: &Run) -> io::Result<()> {
        if self.stale { self.write(run) } else { Ok(()) }
    }

    fn write(&mut self, run: &Run) -> io::Result<()> {
        let started = Instant::now();
        write(&self.path, &junit::document(run, self.profile).map_err(io::Error::other)?)?;
        let now = Instant::now();
        self.next = now + EVERY.max((now - started) * SHARE);
        self.stale = false;
        Ok(())
    }
}

/// Writes `text` to `path`, or to the target if it is a link, atomically, and creates the directories above it.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    // A device or pipe (`/dev/stdout`) is written to directly; a rename would replace it with a file.
    if std::fs::metadata(path).is_ok_and(|target| !target.is_file()) {
        return std::fs::write(path, text);
    }
    let path = &target(path);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)?;
    whole_file::replace(path, &[text.as_bytes()])
}

/// The target of the links at `path`, whether or not it exists: a rename would replace the first link.
fn target(path: &Path) -> PathBuf {
    let mut target = path.to_owned();
    for _ in 0..LINKS {
        let Ok(link) = std::fs::read_link(&target) else { break };
        target = target.parent().unwrap_or(Path::new("")).join(link);
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::event::{CaseInfo, RunInfo};
    use crate::verdict::Verdict;

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("deep")).unwrap();
        std::os::unix::fs::symlink("deep/second", at("first")).unwrap();
        std::os::unix::fs::symlink("../file", at("deep/second")).unwrap();
        for text in ["not there yet", "there"] {
            write(&at("first"), text).unwrap();
            assert_eq!(std::fs::read_to_string(at("file")).unwrap(), text);
        }
        assert!(at("first").is_symlink() && at("deep/second").is_symlink() && !at("file").is_symlink());
    }

    #[test]
    fn the_file_is_whole_and_not_written_for_every_case() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/out.xml");
        let (mut file, mut run) = (JunitFile::new(path.clone(), Profile::Rich), Run::default());
        let case = |number: u32| CaseInfo { case: format!("s/{number}"), suite: "s".into(), ..CaseInfo::default() };
        let mut send = |event: Event| {
            run.apply(&event);
            file.on(&run, &event).unwrap();
            std::fs::read_to_string(&path).unwrap()
        };
        let skipped = |text: &str| text.matches("<skipped ").count();
        let started = send(Event::RunStarted(RunInfo { cases: (0..3).map(case).collect(), ..RunInfo::default() }));
        assert_eq!(skipped(&started), 3);
        let ended = |number: u32| Event::CaseFinished {
            case: format!("s/{number}"),
            verdict: Verdict::Passed,
            flaky: false,
            failures: Vec::new(),
            notes: Vec::new(),
        };
        assert_eq!(skipped(&send(ended(0))), 3, "it was written just now");
        file.next = Instant::now();
        file.refresh(&run).unwrap();
        assert_eq!(skipped(&std::fs::read_to_string(&path).unwrap()), 2);
        run.apply(&ended(1));
        file.stale = true;
        file.finish(&run).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(skipped(&text), 1);
        assert!(text.ends_with("</testsuites>\n"));
    }
}
