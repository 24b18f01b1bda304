//! The numbers in the files that a run left in the directory shared by its processes (FTEST_SCRATCH): JSON, JSON lines, CSV, and
//! TensorBoard's event files, by the file's name.

use std::fs;
use std::path::Path;

use super::fields::{Entry, Files};
use super::{events, json, table};
use crate::check::gap::glob;
use crate::check::numbers::Reading;
use crate::observation::Observation;

/// Most names that a message lists.
const SHOWN: usize = 8;

/// Adds the numbers of all the files, in the order of their paths. Where nothing is found, what there is instead.
///
/// # Errors
/// No file, a file that cannot be read, or a field that is in none: one sentence.
pub(super) fn read(wanted: &Files, observation: &Observation, reading: &mut Reading) -> Result<(), String> {
    let found = look(wanted, observation)?;
    if found.files.is_empty() {
        let there = match found.all.as_slice() {
            [] => "it is empty".to_owned(),
            all => format!("it has {}", names(all)),
        };
        return Err(format!("no file in FTEST_SCRATCH matches `{}`; {there}", wanted.glob));
    }
    let has = |field: &String| found.entries.iter().any(|(_, entry)| entry.field == *field);
    if let Some(missing) = wanted.fields.iter().find(|field| !has(field)) {
        let there = match found.fields.as_slice() {
            [] => "no number at all".to_owned(),
            fields => names(fields),
        };
        return Err(format!("no number `{missing}` in {}; there is {there}", names(&found.files)));
    }
    found.add_to(reading);
    Ok(())
}

/// Adds the numbers of a run that was killed, which may have written nothing yet.
///
/// # Errors
/// A file cannot be read: one sentence.
pub(super) fn read_part(wanted: &Files, observation: &Observation, reading: &mut Reading) -> Result<(), String> {
    look(wanted, observation)?.add_to(reading);
    Ok(())
}

/// What is in the directory.
struct Found {
    /// Every file, and those that match.
    all: Vec<String>,
    files: Vec<String>,
    /// The names of all numbers in them.
    fields: Vec<String>,
    /// The wanted numbers, each with its place.
    entries: Vec<(String, Entry)>,
}

impl Found {
    fn add_to(self, reading: &mut Reading) {
        for (place, entry) in self.entries {
            reading.add(&entry.field, entry.step, entry.text, place);
        }
    }
}

fn look(wanted: &Files, observation: &Observation) -> Result<Found, String> {
    let root = observation.shared();
    let all = listed(&root);
    let is_named = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        glob(&wanted.glob, name) || glob(&wanted.glob, path)
    };
    let files: Vec<String> = all.iter().filter(is_named).cloned().collect();
    let (mut entries, mut fields) = (Vec::new(), Vec::new());
    for path in &files {
        let bytes = fs::read(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
        let found = in_file(wanted, path, &bytes, &mut fields).map_err(|why| format!("{path}: {why}"))?;
        entries.extend(found.into_iter().map(|entry| (format!("{path}, {}", entry.place), entry)));
    }
    Ok(Found { all, files, fields, entries })
}

/// The numbers of one file; `there` gets the names of the numbers that it has.
fn in_file(wanted: &Files, path: &str, bytes: &[u8], there: &mut Vec<String>) -> Result<Vec<Entry>, String> {
    if path.rsplit('/').next().is_some_and(|name| name.contains("tfevents")) {
        return events::read(wanted, bytes, there);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    match Path::new(path).extension().and_then(|extension| extension.to_str()) {
        Some("jsonl" | "ndjson") => json::read_lines(wanted, text, there),
        Some("json") => json::read(wanted, text, there),
        Some("csv") => table::read(wanted, text, there),
        _ => Err("its name does not tell what it is: .json, .jsonl, .csv, or `tfevents` for TensorBoard".to_owned()),
    }
}

/// The files below `root`, by path from there. Links are not followed: what they show is there under its own name.
fn listed(root: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(path),
                Ok(kind) if kind.is_file() => {
                    found.push(path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned());
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn names(all: &[String]) -> String {
    let mut text = all.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if all.len() > SHOWN {
        text.push_str(&format!(" and {} more", all.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Number, SHARED};

    fn read(glob: &str, fields: &[&str], files: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let scratch = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = scratch.path().join(SHARED).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        let files = Files { glob: glob.to_owned(), fields, step: "step".to_owned() };
        let observation = Observation { scratch: scratch.path().to_owned(), ..Observation::default() };
        let mut reading = Reading::default();
        super::read(&files, &observation, &mut reading)?;
        let text = |number: &Number| {
            let step = number.key.step.clone().unwrap_or_default();
            format!("{} {step}/{} {} ({})", number.key.name, number.key.earlier, number.text, number.line)
        };
        Ok(reading.finish().iter().map(text).collect())
    }

    #[test]
    fn files_in_the_order_of_their_paths() {
        let files =
            [("b/log.jsonl", "{\"step\": 1, \"loss\": 0.5}\n"), ("a.csv", "step,loss\n1,0.25\n"), ("c.txt", "loss 7")];
        assert_eq!(
            read("*.*s*", &["loss"], &files).unwrap(),
            ["loss 1/0 0.25 (a.csv, line 2)", "loss 1/1 0.5 (b/log.jsonl, line 1)"]
        );
        assert_eq!(read("b/*", &["loss"], &files).unwrap(), ["loss 1/0 0.5 (b/log.jsonl, line 1)"]);
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let files = [("b/log.jsonl", "{\"step\": 1, \"loss\": 0.5}\n"), ("c.txt", "loss 7")];
        assert_eq!(
            read("*.csv", &["loss"], &files).unwrap_err(),
            "no file in FTEST_SCRATCH matches `*.csv`; it has `b/log.jsonl`, `c.txt`"
        );
        assert_eq!(read("*.csv", &["loss"], &[]).unwrap_err(), "no file in FTEST_SCRATCH matches `*.csv`; it is empty");
        assert_eq!(
            read("*.jsonl", &["loss", "norm"], &files).unwrap_err(),
            "no number `norm` in `b/log.jsonl`; there is `step`, `loss`"
        );
        assert!(read("*.txt", &["loss"], &files).unwrap_err().starts_with("c.txt: its name does not tell what it is"));
        assert!(
            read("*", &["loss"], &[("x.jsonl", "{\"loss\": 1}\n{\n")]).unwrap_err().starts_with("x.jsonl: line 2: ")
        );
    }
}
