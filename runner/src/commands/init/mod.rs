//! `ftest init`: looks at a repository, asks at most three questions, writes a first suite, its cluster and a
//! workflow, and runs the suite.

mod files;
mod survey;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use self::files::{CLUSTER, Choice, SUITE, WORKFLOW};
use self::survey::Survey;
use crate::verdict::exit_code::ExitCode;

/// A word quoted as YAML needs it.
pub(super) use self::files::quoted;
/// The value of `python` in a suite of the repository at `root`.
pub(super) use self::survey::python as python_of;

/// Arguments of `ftest init`.
#[derive(Args, Clone, Debug)]
pub struct InitArgs {
    /// Ask nothing: take what was found, and run the suite
    #[arg(long)]
    pub yes: bool,
    /// The repository [default: the working directory]
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}

/// Runs the command. `run` runs a suite.
pub fn run(arguments: &InitArgs, run: impl FnOnce(&Path) -> i32) -> i32 {
    let root = arguments.directory.clone().unwrap_or_default();
    let answers = match (arguments.yes, io::stdin().is_terminal()) {
        (true, _) => Answers::Yes,
        (false, true) => Answers::Asked,
        (false, false) => Answers::None,
    };
    match write(&root, answers) {
        Ok(Some(suite)) => run(&suite),
        Ok(None) => ExitCode::Passed as i32,
        Err(why) => {
            eprintln!("ftest init: {why}");
            ExitCode::Usage as i32
        }
    }
}

/// Who answers the questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    Asked,
    /// Every question gets its default.
    Yes,
    /// Nobody can answer: every question gets its default, except that nothing is run.
    None,
}

/// Writes the files; returns the suite if it is to be run now.
fn write(root: &Path, answers: Answers) -> Result<Option<PathBuf>, String> {
    let looked_at = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let survey = Survey::of(looked_at)?;
    let [suite, cluster, workflow] = [SUITE, CLUSTER, WORKFLOW].map(|file| root.join(file));
    if suite.exists() {
        return Err(format!(
            "{} already exists; nothing was written. `ftest {}` runs it",
            suite.display(),
            suite.display()
        ));
    }
    if cluster.exists() {
        return Err(format!("{} already exists; nothing was written", cluster.display()));
    }
    let mut choice =
        Choice { script: survey.scripts.first().cloned(), nodes: 1, gpus_per_node: 2, python: survey.python.clone() };
    for file in &survey.suites {
        println!("found {file}: `ftest {file}` runs its tests with @pytest.mark.cluster");
    }
    for file in &survey.tests {
        println!("found {file}: a test in it with @pytest.mark.cluster runs on every rank (docs/pytest.md)");
    }
    if answers == Answers::Asked {
        ask(&mut choice, &survey)?;
    }
    let Some(script) = choice.script.clone() else {
        return Err(format!(
            "no program found in {} that torchrun could start: none of its Python files uses torch.distributed. \
             Name one: docs/suites.md has a suite to copy",
            looked_at.display()
        ));
    };
    if !root.join(&script).is_file() {
        return Err(format!("there is no {script} in {}", looked_at.display()));
    }
    put(&cluster, &choice.cluster())?;
    println!("wrote {}: {}", cluster.display(), choice.place());
    put(&suite, &choice.suite())?;
    println!("wrote {}: {script} on {}", suite.display(), choice.place());
    if workflow.exists() {
        println!("{} already exists; left as it is", workflow.display());
    } else {
        put(&workflow, &choice.workflow())?;
        println!("wrote {}: the suite on every push", workflow.display());
    }
    let again = format!("ftest {}", suite.display());
    let is_wanted = match answers {
        Answers::Asked => is_yes(&question(&format!("Run it now (`{again}`)? [Y/n]"))?),
        Answers::Yes => true,
        Answers::None => false,
    };
    if !is_wanted {
        println!("next: {again}");
    }
    Ok(is_wanted.then_some(suite))
}

fn ask(choice: &mut Choice, survey: &Survey) -> Result<(), String> {
    for other in survey.scripts.iter().skip(1).take(4) {
        println!("also found: {other}");
    }
    let default = choice.script.clone().unwrap_or_default();
    let script = question(&format!("Which program does torchrun start? [{default}]"))?;
    choice.script = Some(if script.is_empty() { default } else { script }).filter(|script| !script.is_empty());
    loop {
        let place = question("On how many nodes, with how many GPUs each? [1x2]")?;
        match files::place(if place.is_empty() { "1x2" } else { &place }) {
            Ok((nodes, gpus)) => {
                (choice.nodes, choice.gpus_per_node) = (nodes, gpus);
                return Ok(());
            }
            Err(why) => println!("{why}"),
        }
    }
}

fn question(text: &str) -> Result<String, String> {
    print!("{text} ");
    let _ = io::stdout().flush();
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(0) => Err("no answer; stopping here".to_owned()),
        Ok(_) => Ok(line.trim().to_owned()),
        Err(error) => Err(format!("no answer: {error}")),
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.to_ascii_lowercase().as_str(), "" | "y" | "yes")
}

fn put(file: &Path, text: &str) -> Result<(), String> {
    let wrong = |error: io::Error| format!("{}: {error}", file.display());
    fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).map_err(wrong)?;
    // Never overwrites a file that appeared in the meantime.
    let mut new = fs::File::create_new(file).map_err(wrong)?;
    new.write_all(text.as_bytes()).map_err(wrong)
}
