//! Files of attempts, moved from their scratch directories into the run's: `SUITE/CASE/`, with the reports of every
//! attempt, and the whole scratch directory of one that did not pass.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use protocol::env::KEEP_SIZE;
use serde_json::Value;

use super::keep::{self, Room, Shortened};
use super::log::{LOCK, LOG};
use crate::case::Case;
use crate::execute::collect::operations;
use crate::execute::coordinator;
use crate::execute::run::scratch;
use crate::host::secrets::Secrets;
use crate::observation::Observation;
use crate::record::event::{Attempt, Stream};
use crate::verdict::conclusion::Outcome;

/// The device reports as one list.
const DEVICES: &str = "device-reports.json";
/// Longest name of a directory made from a case's id.
const NAME: usize = 120;
/// How many files a note names.
const MOST_NAMED: usize = 3;

/// The place for the files of a run's attempts.
#[derive(Clone, Debug)]
pub struct ArtifactStore {
    directory: PathBuf,
    secrets: Secrets,
    room: Room,
}

impl ArtifactStore {
    /// A shelf in the run's directory, as large as `room`.
    pub fn new(directory: &Path, secrets: Secrets, room: Room) -> ArtifactStore {
        ArtifactStore { directory: directory.to_owned(), secrets, room }
    }

    /// Moves the files of an attempt here and sets their paths in `attempt`. What cannot be kept becomes a note.
    pub fn keep(&self, case: &Case, outcome: &Outcome, attempt: &mut Attempt) {
        let observation = &outcome.observation;
        if !outcome.kept && observation.report_file.is_none() && observation.device_reports.is_empty() {
            return;
        }
        if let Err(error) = self.try_keep(case, outcome, attempt) {
            attempt.notes.push(format!("not all files could be kept in {}: {error}", self.directory.display()));
        }
    }

    fn try_keep(&self, case: &Case, outcome: &Outcome, attempt: &mut Attempt) -> io::Result<()> {
        let observation = &outcome.observation;
        let number = if attempt.number > 1 { format!(".attempt-{}", attempt.number) } else { String::new() };
        let base = format!("{}{number}", case.id.trim_end_matches(']'));
        let relative = self.make(&case.suite, &base)?;
        let target = self.directory.join(&relative);
        if outcome.kept {
            let shortened = move_tree(&observation.scratch, &target, &self.room)?;
            self.rewrite(attempt, &observation.scratch, &relative);
            self.shorten(attempt, &relative, &shortened);
        }
        let report = coordinator::report_path(Path::new(""));
        if let Some(file) = &observation.report_file {
            // The file, and not what was read of it: that may lack what no check asks for.
            self.keep_report(file, &target.join(&report))?;
            attempt.cluster_report = Some(relative.join(&report));
        }
        self.keep_operations(observation, &target, attempt)?;
        if !observation.device_reports.is_empty() {
            self.write(&target.join(DEVICES), &Value::Array(observation.device_reports.clone()))?;
            attempt.device_reports = Some(relative.join(DEVICES));
        }
        Ok(())
    }

    /// Keeps the operations of an attempt, if they are not there with its other files.
    fn keep_operations(&self, observation: &Observation, target: &Path, attempt: &mut Attempt) -> io::Result<()> {
        let directory = target.join(operations::DIRECTORY);
        if observation.operations.is_empty() || directory.exists() {
            return Ok(());
        }
        fs::create_dir(&directory)?;
        let sizes = observation.operations.iter().map(|(name, bytes, _)| (*bytes, PathBuf::from(name)));
        let shortened = self.room.take(&sizes.collect::<Vec<_>>());
        for (name, _, file) in &observation.operations {
            if shortened.gone.iter().all(|(gone, _)| gone != Path::new(name)) {
                self.keep_report(file, &directory.join(name))?;
            }
        }
        let gone = named_largest(&shortened.gone);
        if !gone.is_empty() {
            let (gone, all, variable) = (gone.join(", "), self.room.whole(), KEEP_SIZE.name);
            attempt
                .notes
                .push(format!("not kept: {gone}: the kept runs may have {all} bytes (--keep-size, {variable})"));
        }
        Ok(())
    }

    /// Moves a directory of no attempt here; `name` is `suite/...`. Gives its new place.
    ///
    /// # Errors
    /// It cannot be moved.
    pub fn take(&self, directory: &Path, name: &str) -> io::Result<PathBuf> {
        let (suite, rest) = name.split_once('/').unwrap_or(("", name));
        let target = self.directory.join(self.make(suite, rest)?);
        let shortened = move_tree(directory, &target, &self.room)?;
        // What its steps wrote, and what it gave.
        for entry in fs::read_dir(&target)?.flatten().filter(|_| !self.secrets.is_empty()) {
            let path = entry.path();
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if ["stdout", "stderr"].contains(&ending) || path.ends_with("output") {
                // A file without room for what it would be is gone.
                let _ = self.mask_file(&path);
            }
        }
        for (path, _, kept) in &shortened.ends {
            keep::cut(&target.join(path), *kept)?;
        }
        Ok(target)
    }

    /// Cuts output that is too long, after it has been masked: half of a secret would not be found. A note says what is not
    /// there.
    fn shorten(&self, attempt: &mut Attempt, relative: &Path, shortened: &Shortened) {
        let mut cut: Vec<String> = Vec::new();
        for (path, bytes, kept) in &shortened.ends {
            let path_here = relative.join(path);
            if keep::cut(&self.directory.join(&path_here), *kept).is_err() {
                continue;
            }
            cut.push(named(path, *bytes));
            let processes = attempt.processes.iter_mut();
            let mut streams = processes.flat_map(|process| [&mut process.stdout, &mut process.stderr]);
            if let Some(stream) = streams.find(|stream| stream.file.as_ref() == Some(&path_here)) {
                stream.kept = Some(*kept);
            }
        }
        let gone = named_largest(&shortened.gone);
        for (what, names) in [("only both ends are kept of", cut), ("not kept:", gone)] {
            if !names.is_empty() {
                let (names, all) = (names.join(", "), self.room.whole());
                attempt.notes.push(format!(
                    "{what} {names}: the kept runs may have {all} bytes (--keep-size, {})",
                    KEEP_SIZE.name
                ));
            }
        }
    }

    /// A new directory for `base`, of `suite`; its path from the run's directory.
    fn make(&self, suite: &str, base: &str) -> io::Result<PathBuf> {
        let (mut suite, base) = (name(suite), name(base));
        // The run's own files are there already.
        if [LOG, LOCK].contains(&suite.as_str()) {
            suite.insert(0, '_');
        }
        let suite = PathBuf::from(suite);
        fs::create_dir_all(self.directory.join(&suite))?;
        let mut path = suite.join(&base);
        let mut another = 0;
        loop {
            match fs::create_dir(self.directory.join(&path)) {
                // Ids that differ only in what a file name may not have.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    another += 1;
                    path = suite.join(format!("{base}~{another}"));
                }
                made => return made.map(|()| path),
            }
        }
    }

    fn write(&self, path: &Path, report: &Value) -> io::Result<()> {
        let bytes = serde_json::to_vec(report)?;
        fs::write(path, self.secrets.mask_bytes(&bytes).unwrap_or(bytes))
    }

    /// Puts the cluster report in `from` at `to`, masked and without spaces between its values.
    fn keep_report(&self, mut from: &File, to: &Path) -> io::Result<()> {
        from.rewind()?;
        let mut reader = BufReader::new(from);
        let directory = to.parent().unwrap_or(Path::new("."));
        let permissions = fs::Permissions::from_mode(0o666);
        let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(directory)?;
        let mut writer = BufWriter::new(file.as_file_mut());
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            writer.write_all(&compact(&self.secrets.mask_bytes(&line).unwrap_or(line)))?;
            line = Vec::new();
        }
        writer.flush()?;
        drop(writer);
        file.persist(to)?;
        Ok(())
    }

    /// Paths in the scratch directory are changed to the new place, and streams there are masked.
    fn rewrite(&self, attempt: &mut Attempt, scratch: &Path, relative: &Path) {
        let moved = |path: &mut Option<PathBuf>| {
            if let Some(rest) = path.as_deref().and_then(|path| path.strip_prefix(scratch).ok()) {
                *path = Some(relative.join(rest));
            }
        };
        let streams = attempt.processes.iter_mut().flat_map(|process| [&mut process.stdout, &mut process.stderr]);
        for Stream { file, .. } in streams {
            moved(file);
            let Some(path) = file.as_deref().filter(|_| !self.secrets.is_empty()).map(|file| self.directory.join(file))
            else {
                continue;
            };
            if let Err(error) = self.mask_file(&path) {
                let path = path.display();
                attempt.notes.push(format!("{path} could not be masked, so it was removed: {error}"));
            }
        }
        if let Some(hang) = &mut attempt.hang {
            moved(&mut hang.flight_record);
        }
        attempt.kept = Some(relative.to_owned());
        let (from, to) = (scratch.display().to_string(), self.directory.join(relative).display().to_string());
        let failures = attempt.failures.iter_mut();
        let texts = failures.flat_map(|failure| [&mut failure.expected, &mut failure.got, &mut failure.next]);
        let details = attempt.hang.iter_mut().flat_map(|hang| &mut hang.details);
        for text in texts.chain(&mut attempt.notes).chain(details) {
            // An error of the system is about the place where the file was: its disk may be full.
            if text.contains(&from) && !text.contains("(os error ") {
                *text = text.replace(&from, &to);
            }
        }
    }

    /// # Errors
    /// It would not fit. The file is removed then.
    fn mask_file(&self, path: &Path) -> io::Result<()> {
        // A stream that cannot be read now is not there: nothing to hide.
        let Some(masked) = fs::read(path).ok().and_then(|bytes| self.secrets.mask_bytes(&bytes)) else {
            return Ok(());
        };
        fs::write(path, masked).or_else(|error| fs::remove_file(path).and(Err(error)))
    }
}

/// Lines of JSON without the spaces between values.
fn compact(text: &[u8]) -> Vec<u8> {
    let (mut quoted, mut escaped) = (false, false);
    let mut keep = |byte: &u8| {
        let space = !quoted && byte.is_ascii_whitespace();
        if *byte == b'"' && !escaped {
            quoted = !quoted;
        }
        escaped = *byte == b'\\' && !escaped;
        !space
    };
    text.iter().copied().filter(|byte| keep(byte)).collect()
}

/// `text` as the name of a directory: `all_reduce[w=2,d=f16]` is `all_reduce.w=2.d=f16`.
fn name(text: &str) -> String {
    let safe = |character: char| match character {
        ',' | '[' => '.',
        character if character.is_ascii_alphanumeric() || "._=+-".contains(character) => character,
        _ => '_',
    };
    let mut name: String = text.trim_end_matches(']').chars().map(safe).take(NAME).collect();
    // `.`, `..` and hidden directories.
    if name.is_empty() || name.starts_with('.') {
        name.insert(0, '_');
    }
    name
}

/// Moves everything below `from` into the empty directory `to`, also to another file system. Sockets and pipes go, and files
/// for which there is no room. Gives those, from `from`, and output that is still too long.
fn move_tree(from: &Path, to: &Path, room: &Room) -> io::Result<Shortened> {
    let mut files = Vec::new();
    list(from, Path::new(""), &mut files);
    files.sort_by(|a, b| a.1.cmp(&b.1));
    let shortened = room.take(&files);
    for (path, _) in &shortened.gone {
        let _ = fs::remove_file(from.join(path));
    }
    if fs::rename(from, to).is_err() {
        copy_tree(from, to)?;
        scratch::remove(from);
    }
    Ok(shortened)
}

/// Regular files below `root`/`path`, with their sizes; what cannot be kept is removed.
fn list(root: &Path, path: &Path, files: &mut Vec<(u64, PathBuf)>) {
    for entry in fs::read_dir(root.join(path)).into_iter().flatten().flatten() {
        let path = path.join(entry.file_name());
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => list(root, &path, files),
            Ok(metadata) if metadata.is_file() => files.push((metadata.len(), path)),
            Ok(metadata) if metadata.is_symlink() => {}
            _ => drop(fs::remove_file(entry.path())),
        }
    }
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    // A program may have taken its own permissions away.
    fs::set_permissions(from, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&target)?;
            copy_tree(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() {
            let mut source = File::open(entry.path())?;
            io::copy(&mut source, &mut File::create(&target)?)?;
        }
    }
    Ok(())
}

fn named(path: &Path, bytes: u64) -> String {
    format!("{} ({bytes} bytes)", path.display())
}

/// The largest of these files, and how many others there are: a cache of compiled kernels has hundreds.
fn named_largest(files: &[(PathBuf, u64)]) -> Vec<String> {
    let mut files = files.to_vec();
    files.sort_by_key(|(path, bytes)| (Reverse(*bytes), path.clone()));
    let rest = files.split_off(MOST_NAMED.min(files.len()));
    let mut texts: Vec<String> = files.iter().map(|(path, bytes)| named(path, *bytes)).collect();
    if !rest.is_empty() {
        let bytes: u64 = rest.iter().map(|(_, bytes)| bytes).sum();
        texts.push(format!("{} more ({bytes} bytes)", rest.len()));
    }
    texts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::observation::{Captured, Exit, Observation, ProcessObservation, Role};
    use crate::verdict::Verdict;

    #[test]
    fn a_note_names_the_largest_files_and_counts_the_others() {
        let file = |name: &str, bytes| (PathBuf::from(name), bytes);
        let mut files = vec![file("a", 5), file("b", 9)];
        assert_eq!(named_largest(&files), ["b (9 bytes)", "a (5 bytes)"]);
        files.extend([file("c", 1), file("d", 7), file("e", 2)]);
        assert_eq!(named_largest(&files), ["b (9 bytes)", "d (7 bytes)", "a (5 bytes)", "2 more (3 bytes)"]);
    }

    #[test]
    fn names_of_directories() {
        assert_eq!(name("all_reduce[d=bf16,w=4]"), "all_reduce.d=bf16.w=4");
        assert_eq!(name("../x y"), "_.._x_y");
        assert_eq!(name(""), "_");
    }

    #[test]
    fn a_suite_may_be_called_as_the_files_of_a_run_are() {
        let directory = tempfile::tempdir().unwrap();
        let artifacts = ArtifactStore::new(directory.path(), Secrets::default(), Room::of_run(1 << 30));
        for file in [LOG, LOCK] {
            fs::write(directory.path().join(file), "").unwrap();
            assert_eq!(artifacts.make(file, "c").unwrap(), Path::new(&format!("_{file}/c")));
        }
    }

    #[test]
    fn a_tree_moves_to_another_directory() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir_all(from.join("deep")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("deep/a"), "a").unwrap();
        std::os::unix::fs::symlink("a", from.join("deep/link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(from.join("s")).unwrap();
        copy_tree(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("deep/link")).unwrap(), "a");
        assert!(!to.join("s").exists());
        fs::remove_dir_all(&to).unwrap();
        fs::create_dir(&to).unwrap();
        assert_eq!(move_tree(&from, &to, &Room::of_run(1 << 30)).unwrap(), Shortened::default());
        assert!(to.join("deep/a").exists() && !to.join("s").exists() && !from.exists());
    }

    fn case() -> Arc<Case> {
        let text = "ftest: 1\nsuite: s\ncases:\n- {id: 'c', matrix: {axes: {w: [2]}}, launch: {argv: [x]}}\n";
        let suite = crate::suite::parse(Path::new("s.yaml"), text, Path::new("/")).unwrap();
        suite.cases.into_iter().next().unwrap()
    }

    /// The result of a case in `scratch` with reports of a coordinator and a device.
    fn outcome(scratch: &Path, kept: bool) -> Outcome {
        let stdout = Captured { path: scratch.join("launcher-0.stdout"), bytes: 10, ..Captured::default() };
        let observation = Observation {
            processes: vec![ProcessObservation {
                role: Role::Launcher(0),
                exit: Exit::Code(0),
                stdout,
                stderr: Captured::default(),
            }],
            cluster_report: Some(json!({ "cluster": "as far as it was read" })),
            report_file: Some(Arc::new(File::open(scratch.join("cluster-report.json")).unwrap())),
            device_reports: vec![json!({ "device": 0 })],
            scratch: scratch.to_owned(),
            ..Observation::default()
        };
        let failure = crate::check::Failure {
            place: None,
            kind: crate::check::FailureKind::Exit,
            expected: "it ends".into(),
            got: "code 1".into(),
            next: format!("its stdout is {}", scratch.join("launcher-0.stdout").display()),
        };
        let verdict = if kept { Verdict::Failed } else { Verdict::Passed };
        Outcome {
            verdict,
            failures: vec![failure],
            perf: Vec::new(),
            observation,
            duration: std::time::Duration::ZERO,
            relations: Vec::new(),
            slow: false,
            kept,
        }
    }

    #[test]
    fn reports_are_kept_of_every_attempt_and_all_files_of_one_that_did_not_pass() {
        let directory = tempfile::tempdir().unwrap();
        let secrets = Secrets::from_variables([("API_KEY".to_owned(), "hunter2hunter2".to_owned())]);
        let artifacts = ArtifactStore::new(&directory.path().join("run"), secrets, Room::of_run(1 << 30));
        let case = case();
        for (number, kept, relative) in [(1, true, "s/c.w=2"), (2, false, "s/c.w=2.attempt-2"), (1, false, "s/c.w=2~1")]
        {
            let scratch = directory.path().join("scratch");
            fs::create_dir_all(&scratch).unwrap();
            fs::write(scratch.join("launcher-0.stdout"), "I am hunter2hunter2\n").unwrap();
            let report = "{\n  \"cluster\": \"I \\\" am hunter2hunter2 \\\\\",\n  \"ranks\": [ 1, 2 ]\n}\n";
            fs::write(scratch.join("cluster-report.json"), report).unwrap();
            let outcome = outcome(&scratch, kept);
            // As with a case: nothing is left of one that passed.
            if !kept {
                fs::remove_dir_all(&scratch).unwrap();
            }
            let mut attempt = Attempt::new(number, &case, &outcome);
            artifacts.keep(&case, &outcome, &mut attempt);
            assert_eq!(attempt.cluster_report, Some(Path::new(relative).join("cluster-report.json")));
            assert_eq!(attempt.device_reports, Some(Path::new(relative).join(DEVICES)));
            let kept_at = directory.path().join("run").join(relative);
            let text = |name: &str| fs::read_to_string(kept_at.join(name)).ok();
            assert_eq!(text("cluster-report.json").unwrap(), r#"{"cluster":"I \" am *** \\","ranks":[1,2]}"#);
            assert_eq!(text(DEVICES).unwrap(), r#"[{"device":0}]"#);
            assert_eq!(text("launcher-0.stdout"), kept.then(|| "I am ***\n".to_owned()));
            assert_eq!((attempt.kept.is_some(), scratch.exists()), (kept, false));
            assert_eq!(attempt.notes, [""; 0]);
            if kept {
                let file = kept_at.join("launcher-0.stdout");
                assert_eq!(attempt.failures[0].next, format!("its stdout is {}", file.display()));
                assert_eq!(attempt.processes[0].stdout.file, Some(Path::new(relative).join("launcher-0.stdout")));
            }
        }
    }
}
