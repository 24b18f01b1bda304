//! Numbers in JSON: the objects of a file, or of each of its lines, that have one of the fields. Python writes NaN and Infinity,
//! which JSON does not know.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::fields::{Entry, Files, note};

/// The numbers of a file in which each line is a value. A last line that the writer did not finish is none.
pub(super) fn read_lines(files: &Files, text: &str, there: &mut Vec<String>) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("line {}", index + 1);
        let value = match parse(line) {
            Ok(value) => value,
            Err(_) if !text.ends_with('\n') && index + 1 == text.lines().count() => break,
            Err(error) => return Err(format!("{place}: {error}")),
        };
        let mut visit = Visit { files, there, entries: &mut entries };
        visit.value(&value, None, &mut |_| place.clone());
    }
    Ok(entries)
}

/// The numbers of a file that is one value.
pub(super) fn read(files: &Files, text: &str, there: &mut Vec<String>) -> Result<Vec<Entry>, String> {
    let value = parse(text).map_err(|error| error.to_string())?;
    let mut entries = Vec::new();
    let mut visit = Visit { files, there, entries: &mut entries };
    visit.value(&value, None, &mut |record| format!("record {record}"));
    Ok(entries)
}

fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| match quoted(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(quoted) => serde_json::from_str(&quoted),
    })
}

/// `text` with quotes around the numbers that JSON does not know.
fn quoted(text: &str) -> Cow<'_, str> {
    let mut result = String::new();
    let (mut rest, mut in_string) = (text, false);
    while let Some(letter) = rest.chars().next() {
        let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| !in_string && rest.starts_with(word));
        let length = match (word, letter) {
            (Some(word), _) => {
                result.push_str(&format!("\"{word}\""));
                rest = &rest[word.len()..];
                continue;
            }
            (None, '\\') if in_string => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, letter) => letter.len_utf8(),
        };
        in_string ^= letter == '"';
        result.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    if result == text { Cow::Borrowed(text) } else { Cow::Owned(result) }
}

struct Visit<'v> {
    files: &'v Files,
    there: &'v mut Vec<String>,
    entries: &'v mut Vec<Entry>,
}

impl Visit<'_> {
    /// `place` tells where a record is, from its number.
    fn value(&mut self, value: &Value, step: Option<&str>, place: &mut impl FnMut(usize) -> String) {
        let mut records = 0;
        self.walk(value, step, &mut records, place);
    }

    fn walk(
        &mut self,
        value: &Value,
        outer: Option<&str>,
        records: &mut usize,
        place: &mut impl FnMut(usize) -> String,
    ) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.walk(item, outer, records, place)),
            Value::Object(object) => {
                let own = object.get(&self.files.step).and_then(number);
                let step = own.as_deref().or(outer);
                self.record(object, step, records, place);
                object.values().for_each(|inner| self.walk(inner, step, records, place));
            }
            _ => {}
        }
    }

    fn record(
        &mut self,
        object: &Map<String, Value>,
        step: Option<&str>,
        records: &mut usize,
        place: &mut impl FnMut(usize) -> String,
    ) {
        let numbers = object.iter().filter_map(|(key, value)| Some((key, number(value)?)));
        let numbers: Vec<(&String, String)> = numbers.collect();
        numbers.iter().for_each(|(key, _)| note(self.there, key));
        let is_wanted = |key: &str| self.files.fields.iter().any(|field| field == key);
        let wanted: Vec<_> = numbers.into_iter().filter(|(key, _)| is_wanted(key)).collect();
        if !wanted.is_empty() {
            *records += 1;
            for (key, text) in wanted {
                let step = step.map(str::to_owned);
                self.entries.push(Entry { field: key.clone(), step, text, place: place(*records) });
            }
        }
    }
}

/// A number, also one that is written as text.
fn number(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => text.trim().parse::<f64>().ok().map(|_| text.trim().to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(fields: &[&str]) -> Files {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Files { glob: String::new(), fields, step: "step".to_owned() }
    }

    fn texts(entries: Vec<Entry>) -> Vec<String> {
        let step = |entry: &Entry| entry.step.clone().unwrap_or_default();
        entries.iter().map(|entry| format!("{} {} {}, {}", step(entry), entry.field, entry.text, entry.place)).collect()
    }

    #[test]
    fn a_trainers_state_is_a_list_of_records() {
        // As transformers writes it (trainer_state.json), shortened.
        let text = r#"{"best_metric": null, "epoch": 1.0, "global_step": 2, "is_hyper_param_search": false, "log_history": [
            {"epoch": 0.5, "grad_norm": 1.25, "learning_rate": 5e-05, "loss": 0.6931, "step": 1},
            {"epoch": 1.0, "grad_norm": NaN, "learning_rate": 0.0, "loss": 0.5, "step": 2},
            {"epoch": 1.0, "eval_loss": 0.4, "step": 2}], "logging_steps": 1, "trial_name": null}"#;
        let mut there = Vec::new();
        let entries = read(&files(&["loss", "grad_norm", "eval_loss"]), text, &mut there).unwrap();
        assert_eq!(
            texts(entries),
            [
                "1 grad_norm 1.25, record 1",
                "1 loss 0.6931, record 1",
                "2 grad_norm NaN, record 2",
                "2 loss 0.5, record 2",
                "2 eval_loss 0.4, record 3"
            ]
        );
        assert!(there.contains(&"learning_rate".to_owned()));
    }

    #[test]
    fn what_is_around_a_record_has_its_step() {
        let line = r#"{"step": 3, "train": {"loss": "0.5"}, "note": "NaN \" Infinity", "norm": -Infinity}"#;
        let entries = read_lines(&files(&["loss", "norm"]), &format!("\n{line}\n"), &mut Vec::new()).unwrap();
        assert_eq!(texts(entries), ["3 norm -Infinity, line 2", "3 loss 0.5, line 2"]);
        let started = read_lines(&files(&["loss"]), "{\"loss\": 0.5}\n{\"loss\": 0.", &mut Vec::new()).unwrap();
        assert_eq!(texts(started), [" loss 0.5, line 1"]);
        let error = read_lines(&files(&["loss"]), "{\"loss\": 0.5}\n{\"loss\": 0.\n", &mut Vec::new()).unwrap_err();
        assert!(error.starts_with("line 2: "), "{error}");
    }
}
