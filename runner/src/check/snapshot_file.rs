//! Snapshot files in insta's format (`.snap`, and `.snap.new` for one pending review), and their text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_json_path::JsonPath;

use crate::host::whole_file;

/// The parts of a report that go into a snapshot. Order: select, leave out `measured`, redact, round, sort.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The parts; the whole report when there is none.
    pub select: Vec<JsonPath>,
    /// Values replaced by a text.
    pub redact: Vec<(JsonPath, String)>,
    /// Numbers rounded to this many decimals.
    pub round: Vec<(JsonPath, u32)>,
    /// Lists sorted by these fields of their items, or by the items themselves if no fields are given.
    pub sort: Vec<(JsonPath, Vec<String>)>,
}

/// The key under which a report keeps values that differ from run to run.
const MEASURED: &str = "measured";

impl Selection {
    /// The text of a snapshot of `report`.
    ///
    /// # Errors
    /// A message if a path selects nothing: an empty snapshot would compare nothing.
    pub fn text(&self, report: &Value) -> Result<String, String> {
        let mut value = self.selected(report)?;
        drop_measured(&mut value);
        for (path, text) in &self.redact {
            change(&mut value, path, |value| *value = Value::String(text.clone()));
        }
        for (path, decimals) in &self.round {
            change(&mut value, path, |value| {
                if let Some(number) = value.as_f64() {
                    let scale = 10_f64.powi(*decimals as i32);
                    *value = serde_json::json!((number * scale).round() / scale);
                }
            });
        }
        for (path, keys) in &self.sort {
            change(&mut value, path, |value| {
                if let Value::Array(items) = value {
                    items.sort_by_cached_key(|item| sort_key(item, keys));
                }
            });
        }
        let mut text = serde_json::to_string_pretty(&sorted(value)).map_err(|error| error.to_string())?;
        text.push('\n');
        Ok(text)
    }

    /// The selected parts in the shape of the report, so that paths and readers find them where they were.
    fn selected(&self, report: &Value) -> Result<Value, String> {
        if self.select.is_empty() {
            return Ok(report.clone());
        }
        let mut locations = Vec::new();
        for path in &self.select {
            let nodes = path.query_located(report).all();
            if nodes.is_empty() {
                return Err(format!("`select: {path}` selects nothing"));
            }
            locations.extend(nodes.iter().map(|node| node.location().to_string()));
        }
        Ok(keep(report, &locations, "$").unwrap_or(Value::Null))
    }
}

/// `value` without the parts that are neither above nor below one of `locations`.
fn keep(value: &Value, locations: &[String], here: &str) -> Option<Value> {
    if locations.iter().any(|location| location == here) {
        return Some(value.clone());
    }
    if !locations.iter().any(|location| location.starts_with(here) && location[here.len()..].starts_with('[')) {
        return None;
    }
    match value {
        Value::Object(entries) => Some(Value::Object(
            entries
                .iter()
                .filter_map(|(key, value)| {
                    let escaped = key.replace('\\', "\\\\").replace('\'', "\\'");
                    Some((key.clone(), keep(value, locations, &format!("{here}['{escaped}']"))?))
                })
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(
            items
                .iter()
                .enumerate()
                .filter_map(|(index, value)| keep(value, locations, &format!("{here}[{index}]")))
                .collect(),
        )),
        _ => None,
    }
}

fn drop_measured(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.remove(MEASURED);
            entries.values_mut().for_each(drop_measured);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_measured),
        _ => {}
    }
}

fn change(value: &mut Value, path: &JsonPath, mut edit: impl FnMut(&mut Value)) {
    let pointers: Vec<String> =
        path.query_located(value).all().iter().map(|node| node.location().to_json_pointer()).collect();
    for pointer in pointers {
        if let Some(part) = value.pointer_mut(&pointer) {
            edit(part);
        }
    }
}

/// Sorts numbers before texts and by value: they become text with leading zeros.
fn sort_key(item: &Value, keys: &[String]) -> Vec<String> {
    let one = |value: Option<&Value>| match value {
        Some(Value::Number(number)) if number.as_u64().is_some() => {
            format!("0{:020}", number.as_u64().unwrap_or_default())
        }
        Some(value) => format!("1{value}"),
        None => String::new(),
    };
    if keys.is_empty() { vec![one(Some(item))] } else { keys.iter().map(|key| one(item.get(key))).collect() }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let mut entries: Vec<(String, Value)> =
                entries.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// One snapshot on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// The accepted one, `NAME.snap`.
    pub path: PathBuf,
    /// The suite file, for the header.
    pub source: String,
    /// Case and snapshot, for the header.
    pub expression: String,
}

/// Result of comparing a text with the accepted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Same,
    /// There is none yet.
    New,
    /// The accepted text, which differs.
    Changed(String),
}

impl SnapshotFile {
    /// `NAME.snap.new`.
    pub fn pending(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        name.into()
    }

    /// Compares `text` with the accepted file.
    ///
    /// # Errors
    /// The file exists but cannot be read, or has no header.
    pub fn compare(&self, text: &str) -> io::Result<Comparison> {
        let accepted = match read(&self.path) {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Comparison::New),
            Err(error) => return Err(error),
        };
        // insta rewrites the end of a file on acceptance, so trailing newlines are ignored.
        if accepted.trim_end() == text.trim_end() { Ok(Comparison::Same) } else { Ok(Comparison::Changed(accepted)) }
    }

    /// Makes `text` the accepted one and removes a pending one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn accept(&self, text: &str) -> io::Result<()> {
        self.write(&self.path, text)?;
        self.forget_pending()
    }

    /// Leaves `text` for review.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn leave_pending(&self, text: &str) -> io::Result<()> {
        self.write(&self.pending(), text)
    }

    /// Leaves `text` for review in another directory.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn copy_pending(&self, directory: &Path, text: &str) -> io::Result<()> {
        let pending = self.pending();
        self.write(&directory.join(pending.file_name().unwrap_or_default()), text)
    }

    /// Removes the pending text, if any.
    ///
    /// # Errors
    /// It exists but cannot be removed.
    pub fn forget_pending(&self) -> io::Result<()> {
        match fs::remove_file(self.pending()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let parent = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent)?;
        let header = format!("---\nsource: {}\nexpression: {}\n---\n", quoted(&self.source), quoted(&self.expression));
        whole_file::replace(path, &[header.as_bytes(), text.as_bytes()])
    }
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// The text in a snapshot file, accepted or waiting.
///
/// # Errors
/// It cannot be read, or has no header.
pub fn read(path: &Path) -> io::Result<String> {
    let file = fs::read_to_string(path)?;
    let body = file.strip_prefix("---\n").and_then(|rest| rest.find("\n---\n").map(|end| rest[end + 5..].to_owned()));
    body.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a snapshot: its header does not end"))
}

/// Where the snapshots of a suite are: `snapshots/SUITE` beside its file.
pub fn directory(suite_file: &Path, suite: &str) -> PathBuf {
    suite_file.parent().unwrap_or(Path::new("")).join("snapshots").join(suite)
}

/// The file name of a snapshot: the case's id, reduced to characters that every file system accepts, and the snapshot's name
/// unless that is `report`.
pub fn file_name(case_id: &str, name: &str) -> String {
    let mut stem: String = case_id
        .chars()
        .filter(|character| *character != ']')
        .map(|character| match character {
            '[' => '@',
            '=' => '-',
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' | ',' => character,
            _ => '_',
        })
        .collect();
    if name != "report" {
        stem.push_str("__");
        stem.push_str(name);
    }
    stem.push_str(".snap");
    stem
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> JsonPath {
        JsonPath::parse(text).unwrap()
    }

    #[test]
    fn selects_redacts_rounds_and_sorts() {
        let report = json!({
            "b": [{"op": "y", "t": 1.2345, "measured": {"wall": 3}}, {"op": "x", "t": 2.0, "pid": 7}],
            "a": {"z": 1, "c": 2},
            "left_out": true,
            "measured": {"pid": 4},
        });
        let selection = Selection {
            select: vec![path("$.a"), path("$.b")],
            redact: vec![(path("$..pid"), "[pid]".to_owned())],
            round: vec![(path("$..t"), 2)],
            sort: vec![(path("$.b"), vec!["op".to_owned()])],
        };
        let text = selection.text(&report).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value,
            json!({"a": {"c": 2, "z": 1}, "b": [{"op": "x", "pid": "[pid]", "t": 2.0}, {"op": "y", "t": 1.23}]})
        );
        assert!(text.find("\"c\"").unwrap() < text.find("\"z\"").unwrap(), "keys are sorted");
        let typo = Selection { select: vec![path("$.typo")], ..Selection::default() };
        assert_eq!(typo.text(&report), Err("`select: $.typo` selects nothing".to_owned()));
    }

    #[test]
    fn a_pending_snapshot_is_left_and_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let file = SnapshotFile {
            path: dir.path().join("s/one.snap"),
            source: "suites/s.yaml".to_owned(),
            expression: "s/one report".to_owned(),
        };
        assert_eq!(file.compare("1\n").unwrap(), Comparison::New);
        file.leave_pending("1\n").unwrap();
        assert!(file.pending().ends_with("one.snap.new"));
        file.accept("1\n").unwrap();
        assert!(!file.pending().exists());
        assert_eq!(file.compare("1").unwrap(), Comparison::Same);
        assert_eq!(file.compare("2\n").unwrap(), Comparison::Changed("1\n".to_owned()));
        let written = fs::read_to_string(&file.path).unwrap();
        assert_eq!(written, "---\nsource: \"suites/s.yaml\"\nexpression: \"s/one report\"\n---\n1\n");
    }

    #[test]
    fn file_names_are_plain() {
        assert_eq!(file_name("all_reduce[dtype=bf16,world=4]", "report"), "all_reduce@dtype-bf16,world-4.snap");
        assert_eq!(file_name("a b/c", "links"), "a_b_c__links.snap");
    }
}
