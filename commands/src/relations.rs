//! `ftest relations`: tries what must not change the result of a case, and prints what holds, as YAML.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use regex::bytes::RegexBuilder;
use runner::case::Case;
use runner::case::relation::Relations;
use runner::check::Failure;
use runner::check::compared::Compared;
use runner::check::tensors::ROLES;
use runner::execute::{self, Cancel, RunContext};
use runner::host::install::Install;
use runner::host::output;
use runner::schedule::Settings;
use runner::schedule::relations::try_relations;
use runner::schedule::run_resources::RunResources;
use runner::source::SourceLocation;
use runner::suite;
use runner::verdict::conclusion::Conclusion;
use runner::verdict::exit_code::ExitCode;
use runner::verdict::judge::relations::{self, Outcome};

use crate::explain::{means, split};
use crate::signals::{SignalAction, Signals};
use crate::suites;

/// Finds the numbers of a case that names none.
const ANY_NUMBER: &str = r"(?P<number>[-+]?\b\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\bnan\b|\binf\b)";

/// Arguments of `ftest relations`.
#[derive(Args, Clone, Debug)]
pub struct RelationsArgs {
    /// `SUITE/CASE`, with its matrix values or without; a suite is a name or a file
    #[arg(value_name = "CASE")]
    pub case: String,
    /// The numbers to compare, as in `compared` [default: those of the case, else every number that it prints]
    #[arg(long, value_name = "REGEX")]
    pub numbers: Option<String>,
    /// CPU slots: so many runs of the case go side by side, each with its `resources.cpus` [default: the number of cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
}

/// Runs the command.
pub fn run(arguments: &RelationsArgs) -> ExitCode {
    let install = Install::find();
    let case = match find(&arguments.case, &install).and_then(|case| prepared(&case, arguments.numbers.as_deref())) {
        Ok(case) => Arc::new(case),
        Err(code) => return code,
    };
    let slots =
        arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32));
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(try_all(&case, install, slots)),
        Err(error) => {
            eprintln!("ftest: cannot start: {error}");
            ExitCode::CouldNotRun
        }
    }
}

/// The one case that a word means.
fn find(word: &str, install: &Install) -> Result<Case, ExitCode> {
    let (suite, id) = split(word, install);
    let loaded = suites::load(&[suite.to_owned()], install)?;
    let all = loaded.iter().flat_map(|suite| &suite.cases);
    let found: Vec<&Arc<Case>> = all.filter(|case| id.is_none_or(|id| means(id, case))).collect();
    match found.as_slice() {
        [case] => Ok((***case).clone()),
        [] => {
            eprintln!("ftest: there is no case `{word}`; `ftest run --list {suite}` shows them");
            Err(ExitCode::NothingSelected)
        }
        several => {
            let ids: Vec<String> = several.iter().map(|case| format!("`{}`", case.id)).collect();
            eprintln!("ftest: `{word}` means {} cases; name one of them: {}", several.len(), ids.join(", "));
            Err(ExitCode::Usage)
        }
    }
}

/// The case with every relation that is possible, and without what would change its numbers or repeat it.
fn prepared(case: &Case, numbers: Option<&str>) -> Result<Case, ExitCode> {
    for (key, is_there) in [("kill", !case.kill.is_empty()), ("faults` or `gpu", !case.faults.is_empty())] {
        if is_there {
            eprintln!("ftest: {} has `{key}`, which does something else to the numbers of each run", case.full_id());
            return Err(ExitCode::Usage);
        }
    }
    let (compared, tensors, steps) = match (numbers, &case.holds_under) {
        (None, Some(own)) => (own.compared.clone(), own.tensors.clone(), own.steps.clone()),
        (numbers, _) => {
            let text = numbers.unwrap_or(ANY_NUMBER);
            let numbers = RegexBuilder::new(text).multi_line(true).build().map_err(|error| {
                eprintln!("ftest: --numbers: {error}");
                ExitCode::Usage
            })?;
            if numbers.capture_names().flatten().all(|name| name == runner::check::compared::STEP) {
                eprintln!(r"ftest: --numbers: give the number a name: 'loss (?P<loss>\S+)'");
                return Err(ExitCode::Usage);
            }
            let place = SourceLocation::default();
            let rank = case.world_size().map(|_| 0);
            (Some(Compared { numbers: Some(numbers), files: None, rank, tolerance: None, place }), None, None)
        }
    };
    let relations = suite::possible_relations(case);
    Ok(Case {
        holds_under: Some(Relations { relations, compared, tensors, steps }),
        deterministic: None,
        retries: None,
        xfail: None,
        ..case.clone()
    })
}

async fn try_all(case: &Arc<Case>, install: Install, slots: u32) -> ExitCode {
    let mut signals = Signals::new();
    if let Err(error) = execute::warm::check_environment() {
        eprintln!("ftest: {error}");
        return ExitCode::Usage;
    }
    execute::keep_descriptors();
    let cancel = Cancel::new();
    let context = match RunContext::start(install, cancel.clone(), Arc::new(|_| {})) {
        Ok(context) => context,
        Err(error) => {
            eprintln!("ftest: {error}");
            return ExitCode::CouldNotRun;
        }
    };
    let resources = Rc::new(RunResources::bare(context));
    let count = case.holds_under.as_ref().map_or(0, |relations| relations.relations.len());
    eprintln!("ftest: {}: one run as it is, then {count} relations", case.full_id());
    let settings = Settings { slots, ..Settings::default() };
    let run = try_relations(case, &resources, settings);
    tokio::pin!(run);
    let mut ended_by = None;
    let (conclusion, strays) = loop {
        tokio::select! {
            result = &mut run => break result,
            action = signals.next() => match action {
                SignalAction::End(code) => {
                    ended_by.get_or_insert(code);
                    cancel.raise();
                }
                SignalAction::EndNow(code) => {
                    ended_by.get_or_insert(code);
                    cancel.raise();
                    cancel.raise();
                }
                SignalAction::Pause => {}
            },
        }
    };
    if !strays.is_empty() {
        eprintln!("ftest: ended processes that the case left behind: {}", strays.join(", "));
    }
    if let Some(code) = ended_by {
        return code;
    }
    let (text, code) = described(case, &conclusion);
    // A closed pipe is the reader's choice.
    let _ = std::io::Write::write_all(&mut output::stdout(), text.as_bytes());
    code
}

/// What to print: YAML for the case, or why nothing was tried.
fn described(case: &Case, conclusion: &Conclusion) -> (String, ExitCode) {
    let (_, attempt) = conclusion.shown();
    let Some(declared) = &case.holds_under else { return (String::new(), ExitCode::Passed) };
    let is_tried = !attempt.observation.variants.is_empty();
    let tried = relations::tried(case, declared, &attempt.observation);
    let (Ok(tried), true) = (tried, is_tried) else {
        let failures: Vec<String> = attempt.failures.iter().map(in_words).collect();
        let word = attempt.verdict.word();
        let text = format!("# {}: {word}, so no relation was tried\n{}", case.full_id(), failures.concat());
        let code = ExitCode::from_verdict(&attempt.verdict);
        return (text, if code == ExitCode::Passed { ExitCode::CouldNotRun } else { code });
    };
    let mut text = format!("# {}: {}\nholds_under:\n", case.full_id(), seconds(attempt.observation.duration));
    let mut unknown = false;
    for one in &tried {
        let (name, took) = (&one.relation.name, seconds(one.duration));
        match &one.outcome {
            Outcome::Holds => text.push_str(&format!("  - {name} # {took}\n")),
            Outcome::Differs(failures) => {
                let first = failures.first().map_or(String::new(), |failure| one_line(&failure.got));
                text.push_str(&format!("  # - {name} # {took}; {first}\n"));
            }
            Outcome::Unknown(failure) => {
                unknown = true;
                text.push_str(&format!("  # - {name} # nobody knows: {}\n", one_line(&failure.got)));
            }
            Outcome::Interrupted(_) => text.push_str(&format!("  # - {name} # interrupted\n")),
        }
    }
    let differs_twice =
        tried.iter().any(|one| one.relation.name == "twice" && matches!(one.outcome, Outcome::Differs(_)));
    if differs_twice {
        text.push_str(
            "# Some numbers differ from run to run: name those to compare with --numbers 'loss (?P<loss>\\S+)'.\n",
        );
    }
    text.push_str(&format!("compared: {}\n", compared(declared)));
    (text, if unknown { ExitCode::CouldNotRun } else { ExitCode::Passed })
}

/// As a suite writes it.
fn compared(relations: &Relations) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let Relations { compared, tensors, .. } = relations;
    let mut parts = Vec::new();
    if let Some(Compared { numbers, files, rank, .. }) = compared {
        parts.extend(numbers.iter().map(|numbers| format!("numbers: {}", quoted(numbers.as_str()))));
        if let Some(files) = files {
            let fields: Vec<String> = files.fields.iter().map(|field| quoted(field)).collect();
            let (glob, fields, step) = (quoted(&files.glob), fields.join(", "), quoted(&files.step));
            parts.push(format!("files: {glob}, fields: [{fields}], step: {step}"));
        }
        parts.extend(rank.filter(|_| numbers.is_some()).map(|rank| format!("rank: {rank}")));
    }
    if let Some(tensors) = tensors {
        let words: Vec<&str> =
            ROLES.iter().filter(|(_, role)| tensors.roles.contains(role)).map(|(word, _)| *word).collect();
        parts.push(format!("tensors: [{}]", words.join(", ")));
    }
    let tolerance = compared
        .as_ref()
        .map_or_else(|| tensors.as_ref().and_then(|tensors| tensors.tolerance), |compared| compared.tolerance);
    parts.extend(tolerance.map(|tolerance| format!("tolerance: {tolerance:?}")));
    format!("{{ {} }}", parts.join(", "))
}

fn in_words(failure: &Failure) -> String {
    format!("# {}: expected {}; got {}\n", failure.kind, one_line(&failure.expected), one_line(&failure.got))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
