//! Turns words on the command line into suite files: each is a path or the name of a suite.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use protocol::suggest;

/// A word that names no suite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no suite `{word}`{}", .hint)]
pub struct UnknownSuite {
    /// The word.
    pub word: String,
    /// What it may have meant, or which suites exist.
    pub hint: String,
}

/// The suites of `directories`, by name; the first directory wins.
pub fn named(directories: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    let mut suites = BTreeMap::new();
    for directory in directories {
        for path in files(directory) {
            let stem =
                if path.ends_with("suite.yaml") { path.parent().and_then(Path::file_name) } else { path.file_stem() };
            if let Some(name) = stem.and_then(|stem| stem.to_str()) {
                suites.entry(name.to_owned()).or_insert(path);
            }
        }
    }
    suites
}

/// The file here or in `directories` whose suite has this name, which is not that of the file.
fn called(name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let here = [PathBuf::new()];
    let all = here
        .iter()
        .chain(directories)
        .flat_map(|directory| files(if directory.as_os_str().is_empty() { Path::new(".") } else { directory }));
    let is_named = |text: String| {
        text.lines().any(|line| {
            let value = line.strip_prefix("suite:").map(|rest| rest.split(" #").next().unwrap_or_default().trim());
            value.is_some_and(|value| value.trim_matches(['"', '\'']) == name)
        })
    };
    let found = all.into_iter().find(|file| fs::read_to_string(file).is_ok_and(is_named))?;
    Some(found.strip_prefix(".").map(Path::to_owned).unwrap_or(found))
}

/// `NAME.yaml`, `NAME.yml` and `NAME/suite.yaml` of a directory, sorted.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|path| {
            if path.is_dir() {
                Some(path.join("suite.yaml")).filter(|suite| suite.is_file())
            } else {
                path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml").then_some(path)
            }
        })
        .collect();
    files.sort();
    files
}

/// The files that `words` refer to, in order, each once. Empty if there are no words.
///
/// # Errors
/// Every word that matches no file.
pub fn resolve(words: &[String], directories: &[PathBuf]) -> Result<Vec<PathBuf>, Vec<UnknownSuite>> {
    let known = named(directories);
    let (mut found, mut unknown): (Vec<PathBuf>, Vec<UnknownSuite>) = Default::default();
    for word in words {
        let path = Path::new(word);
        let here = if let Some(suite) = known.get(word) {
            vec![suite.clone()]
        } else if path.is_file() {
            vec![path.to_owned()]
        } else if path.is_dir() {
            let own = path.join("suite.yaml");
            if own.is_file() { vec![own] } else { files(path) }
        } else {
            called(word, directories).into_iter().collect()
        };
        if here.is_empty() && path.is_dir() && !known.contains_key(word) {
            let hint = ": that directory has no *.yaml file; `ftest init` writes a first suite".to_owned();
            unknown.push(UnknownSuite { word: word.clone(), hint });
            continue;
        }
        if here.is_empty() {
            let hint = match suggest::nearest(word, known.keys().map(String::as_str)) {
                Some(near) => format!("; did you mean `{near}`?"),
                None if word.contains('/') || word.ends_with(".yaml") => ", and no file of that name".to_owned(),
                None if known.is_empty() => format!(
                    "; no directory `suites` was found: {} names the installation, or a checkout, that has one",
                    protocol::env::HOME.name
                ),
                None => format!("; there are: {}", known.keys().cloned().collect::<Vec<_>>().join(", ")),
            };
            unknown.push(UnknownSuite { word: word.clone(), hint });
        }
        for file in here {
            if !found.contains(&file) {
                found.push(file);
            }
        }
    }
    if unknown.is_empty() { Ok(found) } else { Err(unknown) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_paths_and_suggestions() {
        let root = tempfile::tempdir().unwrap();
        let suites = root.path().join("suites");
        fs::create_dir_all(suites.join("faults")).unwrap();
        for file in ["smoke.yaml", "dist.yaml", "faults/suite.yaml", "notes.txt"] {
            fs::write(suites.join(file), "").unwrap();
        }
        let directories = [suites.clone(), root.path().join("nowhere")];
        assert_eq!(named(&directories).into_keys().collect::<Vec<_>>(), ["dist", "faults", "smoke"]);
        let words = ["smoke".to_owned(), suites.join("dist.yaml").display().to_string(), "smoke".to_owned()];
        assert_eq!(resolve(&words, &directories).unwrap(), [suites.join("smoke.yaml"), suites.join("dist.yaml")]);
        fs::write(suites.join("dist.yaml"), "ftest: 1\nsuite: 'distributed'  # of ranks\n").unwrap();
        assert_eq!(resolve(&["distributed".to_owned()], &directories).unwrap(), [suites.join("dist.yaml")]);
        let unknown = resolve(&["smok".to_owned(), "x/y".to_owned()], &directories).unwrap_err();
        assert_eq!(unknown[0].to_string(), "there is no suite `smok`; did you mean `smoke`?");
        assert_eq!(unknown.len(), 2);
    }
}
