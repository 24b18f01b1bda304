//! Turns a pytest file into a suite: the plugin collects its tests marked `@pytest.mark.cluster` and writes the suite.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use runner::case::python::PythonNeed;
use runner::execute::launch::builder::EnvironmentBuilder;
use runner::execute::launch::environment::Environment;
use runner::execute::python;
use runner::host::install::Install;
use runner::host::plain_path;

/// Where suites are written, relative to the working directory: next to the kept runs.
const PLACE: &str = ".ftest/pytest";

/// Whether `file` is a pytest file.
pub(super) fn is_python(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "py")
}

/// The suite of the marked tests in `file`. They are collected by the Python in which they run, under the shim, because the
/// file's imports may need a GPU.
///
/// # Errors
/// pytest's error message, or why there is no pytest.
pub(super) fn suite_of(file: &Path, install: &Install) -> Result<PathBuf, String> {
    let python = python::provide(&PythonNeed::System, "", &|_| {}).map_err(|error| error.to_string())?;
    let name: String =
        file.with_extension("").to_string_lossy().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    let suite = Path::new(PLACE).join(name.trim_matches('-')).join("suite.yaml");
    let environment = EnvironmentBuilder::foreground(install, Environment::new(), Some(&python)).gpus(None);
    let mut environment = environment.map_err(|error| error.to_string())?.finish();
    if let Some(plugin) = install.python() {
        environment.append("PYTHONPATH", &plain_path::for_list(&plugin)?);
    }
    let mut command = Command::new(&python.program);
    command.args(["-m", "ftest.pytest.collect"]).args([file, &suite]).stdin(Stdio::null());
    for (name, value) in environment.changes() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let program = python.program.display();
    let output = command.output().map_err(|error| format!("cannot start {program}: {error}"))?;
    if output.status.success() {
        return Ok(suite);
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    let absent = ["ftest", "'ftest'", "pytest", "'pytest'"].map(|name| format!("No module named {name}"));
    let advice = if absent.iter().any(|word| said.lines().any(|line| line.ends_with(word))) {
        "\nthe tests run in that Python, which needs pytest and ftest's wheel; FTEST_PYTHON names another"
    } else {
        ""
    };
    Err(format!("{}: {program} cannot collect its tests:\n{said}{advice}", file.display()))
}
