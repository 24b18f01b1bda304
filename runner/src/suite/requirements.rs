//! A repository's requirements: requirements files, lock files in that format, `pylock.toml` and `pyproject.toml`, as one list
//! of lines. Everything is resolved here, so that a changed file leads to a different environment.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

use toml::{Table, Value};

use crate::case::python::{is_left_out, is_replaced};

/// Maximum include depth of files.
const DEEPEST: usize = 16;
/// Options that concern a whole file. With `true` a value follows.
const OPTIONS: &[(&str, bool)] = &[
    ("--index-url", true),
    ("--extra-index-url", true),
    ("--find-links", true),
    ("--no-index", false),
    ("--no-binary", true),
    ("--only-binary", true),
    ("--prefer-binary", false),
    ("--require-hashes", false),
    ("--trusted-host", true),
    ("--pre", false),
];
/// Short forms.
const SHORT: &[(&str, &str)] = &[
    ("-r", "--requirement"),
    ("-c", "--constraint"),
    ("-e", "--editable"),
    ("-i", "--index-url"),
    ("-f", "--find-links"),
];
/// Tool-specific lock files, and the tool's command to export them in a common format.
const EXPORTS: &[(&str, &str)] = &[
    ("uv.lock", "uv export --frozen --no-emit-project -o requirements.lock"),
    ("poetry.lock", "poetry export -o requirements.lock"),
    ("pdm.lock", "pdm export -o requirements.lock"),
    ("Pipfile.lock", "pipenv requirements > requirements.lock"),
];

/// What is wrong with such a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, and the line if known.
    at: String,
    what: String,
    /// What to do next.
    pub help: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.at, self.what)
    }
}

impl Mistake {
    fn new(at: impl Into<String>, what: impl Into<String>, help: impl Into<String>) -> Mistake {
        Mistake { at: at.into(), what: what.into(), help: help.into() }
    }
}

fn read(path: &Path) -> Result<String, Mistake> {
    fs::read_to_string(path).map_err(|error| {
        Mistake::new(
            path.display().to_string(),
            error.to_string(),
            "the path is taken from the directory of the file that names it",
        )
    })
}

/// The lines of a requirements file, or of a lock file.
///
/// # Errors
/// [`Mistake`].
pub fn of_file(path: &Path) -> Result<Vec<String>, Mistake> {
    let mut found = Vec::new();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some((_, export)) = EXPORTS.iter().find(|(lock, _)| *lock == name) {
        let help = format!("write it in a common format: `{export}`, and name that file");
        return Err(Mistake::new(path.display().to_string(), "a lock file of one tool only", help));
    }
    match name.strip_suffix(".toml") {
        Some("pyproject") => {
            let help = "name its directory: `python: {project: DIRECTORY, extras: [NAME]}`";
            return Err(Mistake::new(path.display().to_string(), "not a requirements file", help));
        }
        Some(name) if name == "pylock" || name.starts_with("pylock.") => lock(path, &mut found)?,
        _ => requirements(path, false, DEEPEST, &mut found)?,
    }
    found.retain(|line| match line.strip_prefix("-c ") {
        // A limit asks for nothing.
        Some(limit) => !is_replaced(limit),
        None => !is_left_out(line),
    });
    Ok(found)
}

/// The dependencies of the project in `directory`, with these extras, and the project itself, editable, if it can be
/// built.
///
/// # Errors
/// [`Mistake`].
pub fn of_project(directory: &Path, extras: &[String]) -> Result<Vec<String>, Mistake> {
    let (path, place) = (directory.join("pyproject.toml"), normal(directory).display().to_string());
    let table = table(&path)?;
    let at = path.display().to_string();
    let project = table.get("project").and_then(Value::as_table);
    let name = project.and_then(|project| project.get("name")).and_then(Value::as_str).unwrap_or_default();
    let texts = |value: Option<&Value>| -> Vec<String> {
        let items = value.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut found = texts(project.and_then(|project| project.get("dependencies")));
    let optional = project.and_then(|project| project.get("optional-dependencies")).and_then(Value::as_table);
    for extra in extras {
        let Some(dependencies) = optional.and_then(|optional| optional.get(extra)) else {
            let there: Vec<&str> =
                optional.into_iter().flat_map(|optional| optional.keys()).map(String::as_str).collect();
            let help = if there.is_empty() {
                "it has no `[project.optional-dependencies]`".to_owned()
            } else {
                format!("those that it has: {}", there.join(", "))
            };
            return Err(Mistake::new(at, format!("no extra `{extra}`"), help));
        };
        found.extend(texts(Some(dependencies)));
    }
    // Its own extras, which installing the project brings.
    let own = crate::case::python::package(name);
    found.retain(|line| crate::case::python::package(line) != own && !is_replaced(line));
    if table.contains_key("build-system") {
        let extras = if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) };
        found.push(format!("-e {place}{extras}"));
    } else if found.is_empty() {
        let help = "it needs `dependencies` in `[project]`, or a `[build-system]` to install the project with";
        return Err(Mistake::new(at, "nothing to install", help));
    }
    Ok(found)
}

fn table(path: &Path) -> Result<Table, Mistake> {
    let text = read(path)?;
    text.parse::<Table>().map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        Mistake::new(format!("{}:{line}", path.display()), error.message().to_owned(), "correct the file")
    })
}

/// PEP 751: packages with versions. Packages that do not come from an index are not in a form that pip accepts.
fn lock(path: &Path, found: &mut Vec<String>) -> Result<(), Mistake> {
    let table = table(path)?;
    let packages = table.get("packages").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table);
    for package in packages {
        let text = |key: &str| package.get(key).and_then(Value::as_str);
        let name = text("name").unwrap_or_default();
        let Some(version) = text("version").filter(|_| !name.is_empty()) else {
            let what = format!("the package `{name}` has no version: a directory, an archive or a repository");
            return Err(Mistake::new(
                path.display().to_string(),
                what,
                "name it under `packages` or `project`, and lock the others",
            ));
        };
        let marker = text("marker").map(|marker| format!("; {marker}")).unwrap_or_default();
        found.push(format!("{name}=={version}{marker}"));
    }
    Ok(())
}

/// The lines of a requirements file and of those that it includes. `limits`: whether they are constraints.
fn requirements(path: &Path, limits: bool, depth: usize, found: &mut Vec<String>) -> Result<(), Mistake> {
    let text = read(path)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    for (number, line) in logical_lines(&text) {
        let wrong = |what: String, help: &str| Mistake::new(format!("{}:{number}", path.display()), what, help);
        let (word, rest) = split_option(&line);
        let Some(word) = word else {
            let one = requirement(&rest, directory).map_err(|option| {
                wrong(format!("`{option}` is not supported"), "leave it out, or configure it for the installer")
            })?;
            found.push(if limits { format!("-c {one}") } else { one });
            continue;
        };
        match word.as_str() {
            "--requirement" | "--constraint" if depth == 0 => {
                return Err(wrong(format!("more than {DEEPEST} files include each other"), "is there a circle?"));
            }
            "--requirement" => requirements(&directory.join(&rest), limits, depth - 1, found)?,
            "--constraint" => requirements(&directory.join(&rest), true, depth - 1, found)?,
            "--editable" => found.push(format!("-e {}", local(&rest, directory))),
            "--find-links" => found.push(format!("--find-links {}", local(&rest, directory))),
            _ => match OPTIONS.iter().find(|(option, _)| *option == word) {
                Some((_, true)) if rest.is_empty() => {
                    return Err(wrong(format!("`{word}` needs a value"), "write it after the option"));
                }
                Some((_, true)) => found.push(format!("{word} {rest}")),
                Some((_, false)) => found.push(word),
                None => {
                    let help = "leave it out, or configure it for the installer";
                    return Err(wrong(format!("`{word}` is not supported"), help));
                }
            },
        }
    }
    Ok(())
}

/// Numbered lines without comments, with continued lines joined.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continued = false;
    for (index, line) in text.lines().enumerate() {
        let comment =
            line.match_indices('#').find(|(at, _)| line[..*at].chars().next_back().is_none_or(char::is_whitespace));
        let code = line[..comment.map_or(line.len(), |(at, _)| at)].trim();
        let (code, goes_on) = match code.strip_suffix('\\') {
            Some(code) => (code.trim(), true),
            None => (code, false),
        };
        match lines.last_mut() {
            Some((_, last)) if continued => {
                last.push(' ');
                last.push_str(code);
            }
            _ => lines.push((index + 1, code.to_owned())),
        }
        continued = goes_on;
    }
    lines.retain(|(_, line)| !line.trim().is_empty());
    lines
}

/// An option in its long form, and its value; or no option, and the line.
fn split_option(line: &str) -> (Option<String>, String) {
    if !line.starts_with('-') {
        return (None, line.to_owned());
    }
    let end = line.find(|letter: char| letter.is_whitespace() || letter == '=').unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    let rest = rest.trim_start_matches('=').trim().to_owned();
    let long = SHORT.iter().find(|(short, _)| *short == word).map_or(word, |(_, long)| long);
    (Some(long.to_owned()), rest)
}

/// A requirement in the form to install, with absolute paths. The error is an option in it that is not supported.
fn requirement(line: &str, directory: &Path) -> Result<String, String> {
    let (what, options) = line.find(" --").map_or((line, ""), |at| line.split_at(at));
    if let Some(option) = options.split_whitespace().find(|option| !option.starts_with("--hash")) {
        return Err(option.split('=').next().unwrap_or(option).to_owned());
    }
    let is_path = what.starts_with(['.', '/']) || what.ends_with(".whl") && !what.contains("://");
    let what = if is_path { local(what.trim(), directory) } else { what.trim().to_owned() };
    Ok(format!("{what}{}", options.split_whitespace().map(|option| format!(" {option}")).collect::<String>()))
}

/// A path made absolute, including extras; URLs are unchanged.
fn local(path: &str, directory: &Path) -> String {
    if path.contains("://") || path.contains(" @ ") {
        return path.to_owned();
    }
    let (path, extras) = path.find('[').map_or((path, ""), |at| path.split_at(at));
    format!("{}{extras}", normal(&directory.join(path)).display())
}

/// Absolute, without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    #[test]
    fn a_requirements_file_becomes_lines_with_what_it_includes() {
        let text = "# comment\ntorch==2.15.0  # pinned\nnvidia-nccl-cu13==2.30\nnvidia-ml-py\n\
                    numpy>=2 ; python_version > '3.9' \\\n   and sys_platform == 'linux'\n-r more/dev.txt\n\
                    -c limits.txt\n-e .[test]\n--extra-index-url=https://mine/simple\n-f wheels\npack @ https://x/#egg\n";
        let files =
            [("requirements.txt", text), ("more/dev.txt", "../local\npytest\n"), ("limits.txt", "pandas<3\ntriton<4")];
        let root = directory(&files);
        let place = root.path().display();
        let expected = [
            "torch==2.15.0".to_owned(),
            "nvidia-ml-py".to_owned(),
            "numpy>=2 ; python_version > '3.9' and sys_platform == 'linux'".to_owned(),
            format!("{place}/local"),
            "pytest".to_owned(),
            "-c pandas<3".to_owned(),
            "-c triton<4".to_owned(),
            format!("-e {place}[test]"),
            "--extra-index-url https://mine/simple".to_owned(),
            format!("--find-links {place}/wheels"),
            "pack @ https://x/#egg".to_owned(),
        ];
        assert_eq!(of_file(&root.path().join("requirements.txt")).unwrap(), expected);
    }

    #[test]
    fn a_lock_with_hashes_keeps_them() {
        let root =
            directory(&[("lock.txt", "numpy==2.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via x\n")]);
        let lines = of_file(&root.path().join("lock.txt")).unwrap();
        assert_eq!(lines, ["numpy==2.0 --hash=sha256:aa --hash=sha256:bb"]);
    }

    #[test]
    fn pylock_has_versions_and_markers() {
        let text = "lock-version = '1.0'\n[[packages]]\nname = 'torch'\nversion = '2.15.0'\n\
                    [[packages]]\nname = 'nvidia-nccl-cu13'\nversion = '2.30'\n\
                    [[packages]]\nname = 'tomli'\nversion = '2.0'\nmarker = \"python_version < '3.11'\"\n";
        let root = directory(&[("pylock.toml", text)]);
        let lines = of_file(&root.path().join("pylock.toml")).unwrap();
        assert_eq!(lines, ["torch==2.15.0", "tomli==2.0; python_version < '3.11'"]);
    }

    #[test]
    fn a_project_has_its_dependencies_its_extras_and_itself() {
        let text = "[project]\nname = 'Mine'\ndependencies = ['torch>=2.9', 'triton']\n\
                    [project.optional-dependencies]\ntest = ['pytest', 'mine[more]']\nmore = ['rich']\n";
        let root = directory(&[
            ("a/pyproject.toml", &format!("{text}[build-system]\nrequires = []\n")),
            ("b/pyproject.toml", text),
        ]);
        let (built, plain) = (root.path().join("a"), root.path().join("b"));
        let itself = format!("-e {}[test]", built.display());
        assert_eq!(
            of_project(&built, &["test".to_owned()]).unwrap(),
            ["torch>=2.9", "triton", "pytest", itself.as_str()]
        );
        assert_eq!(of_project(&plain, &[]).unwrap(), ["torch>=2.9", "triton"]);
        let mistake = of_project(&plain, &["tests".to_owned()]).unwrap_err();
        assert!(mistake.to_string().ends_with("b/pyproject.toml: no extra `tests`"), "{mistake}");
        assert_eq!(mistake.help, "those that it has: more, test");
    }

    #[test]
    fn mistakes_say_where_and_what_next() {
        let files = [
            ("option.txt", "numpy\n\n--weird 1\n"),
            ("per.txt", "numpy --config-settings=x=y\n"),
            ("circle.txt", "-r circle.txt\n"),
            ("uv.lock", ""),
            ("pyproject.toml", "[project\n"),
            ("pylock.toml", "[[packages]]\nname = 'x'\n"),
        ];
        let root = directory(&files);
        let of = |name: &str| {
            let mistake = of_file(&root.path().join(name)).unwrap_err();
            (mistake.to_string().replace(&format!("{}/", root.path().display()), ""), mistake.help)
        };
        assert_eq!(of("option.txt").0, "option.txt:3: `--weird` is not supported");
        assert_eq!(of("per.txt").0, "per.txt:1: `--config-settings` is not supported");
        assert_eq!(of("circle.txt").1, "is there a circle?");
        assert!(of("uv.lock").1.contains("uv export"));
        assert!(of("pyproject.toml").1.contains("project: DIRECTORY"));
        assert!(of("pylock.toml").0.contains("the package `x` has no version"));
        assert!(of("missing.txt").0.starts_with("missing.txt: "));
        assert!(of_project(root.path(), &[]).unwrap_err().to_string().contains("pyproject.toml:1: "));
    }
}
