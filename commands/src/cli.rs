//! The command line of `ftest`: its syntax only.

use super::ending;
use std::ffi::OsString;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use runner::host::install::{Install, VERSION};
use runner::schedule::arguments::{ExecutorArgs, PaceArgs};
use runner::verdict::exit_code::{self, ExitCode};

use crate::agent::AgentArgs;
use crate::bench::BenchArgs;
use crate::cluster::ClusterArgs;
use crate::docs::DocsArgs;
use crate::doctor::DoctorArgs;
use crate::env::EnvArgs;
use crate::exec::ExecArgs;
use crate::explain::ExplainArgs;
use crate::fmt::FmtArgs;
use crate::init::InitArgs;
use crate::list::ListArgs;
use crate::machines::MachineArgs;
use crate::man::ManArgs;
use crate::new::NewArgs;
use crate::relations::RelationsArgs;
use crate::replay::{MergeArgs, ReplayArgs};
use crate::reports::{ReportArgs, RunsArgs};
use crate::review::{RejectArgs, Waiting};
use crate::runs::ListRunsArgs;
use crate::select_args::SelectArgs;
use crate::show::ShowArgs;
use crate::suites;
use crate::top::TopArgs;
use crate::what_if::WhatIfArgs;

/// Runs distributed GPU programs on simulated clusters and checks their results. No GPU is needed.
///
/// `ftest SUITE...` is short for `ftest run SUITE...`.
#[derive(Debug, Parser)]
#[command(name = "ftest", version = VERSION, after_help = exit_code::help(), max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// When to use colors
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// When to use colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What `ftest` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run suites and check the expected results
    Run(RunArgs),
    /// List the kept runs, latest first
    Runs(ListRunsArgs),
    /// Print a kept run again, and write its reports
    Replay(ReplayArgs),
    /// Merge several runs, such as the shards of one, and write the reports
    Merge(MergeArgs),
    /// Read suites and report every mistake, without running anything
    Check(CheckArgs),
    /// Review pending snapshots one by one: accept, reject or skip each
    Review(Waiting),
    /// Accept all pending snapshots
    Accept(Waiting),
    /// Remove all pending snapshots
    Reject(RejectArgs),
    /// Show cases fully resolved: defaults applied, expressions evaluated, each value with its source line
    Explain(ExplainArgs),
    /// Run a case again with each change that must not change its result, and print what holds
    Relations(RelationsArgs),
    /// Format suite files; values and comments are kept
    Fmt(FmtArgs),
    /// Print the JSON Schema of the suite language
    Schema,
    /// List the built-in GPU profiles
    Profiles,
    /// Show the machines of a cluster file
    Cluster(ClusterArgs),
    /// Run one command on a simulated cluster
    Exec(ExecArgs),
    /// Compute the times of a run with `clock: modeled` again for another cluster, without its program
    WhatIf(WhatIfArgs),
    /// Bring this machine into a run of another one that waits for machines (`ftest run --machines`)
    Agent(AgentArgs),
    /// Show the clusters running on this machine, live
    Top(TopArgs),
    /// Time collectives over a range of sizes and check every element, as nccl-tests does
    Bench(BenchArgs),
    /// Show, make or remove the managed Python environments
    Env(EnvArgs),
    /// Write a first suite, its cluster and a workflow for a repository, and run the suite
    Init(InitArgs),
    /// Write a suite to start from, or copy a case under another id
    New(NewArgs),
    /// List the pages of the documentation, or print one
    Docs(DocsArgs),
    /// Check what works on this machine, what is missing, and what you cannot do without it
    Doctor(DoctorArgs),
    /// Write the manual pages of ftest and its commands
    Man(ManArgs),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Arguments of `ftest run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = exit_code::help())]
pub struct RunArgs {
    /// Which cases
    #[command(flatten)]
    pub select: SelectArgs,
    /// Whether they are only listed
    #[command(flatten)]
    pub list: ListArgs,
    /// How many at once, in which order, how often
    #[command(flatten)]
    pub pace: PaceArgs,
    /// Where they run
    #[command(flatten)]
    pub executor: ExecutorArgs,
    /// Which other machines take part
    #[command(flatten)]
    pub machines: MachineArgs,
    /// Run again whenever a suite, or a script or directory that it names, changes; Ctrl-C ends it
    #[arg(long, conflicts_with_all = ["list", "debug_rank", "shard"], help_heading = "Running")]
    pub watch: bool,
    /// For programs: start each case when its id arrives on standard input, one per line, and print the events of the run's log;
    /// the end of the input ends the run
    #[arg(
        long,
        conflicts_with_all = ["list", "watch", "no_capture", "debug_rank", "repeat", "stress", "shuffle", "fail_fast"],
        help_heading = "Running"
    )]
    pub drive: bool,
    /// Which streams are shown
    #[command(flatten)]
    pub show: ShowArgs,
    /// The reports to write
    #[command(flatten)]
    pub reports: ReportArgs,
    /// Where runs are kept
    #[command(flatten)]
    pub runs: RunsArgs,
    /// How many runs to keep, including this one
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one, help_heading = "Runs")]
    pub keep_runs: usize,
    /// How large the kept runs may be together: older ones are removed, and of one run's files at most a quarter of it is kept [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = runner::record::keep::parse, help_heading = "Runs")]
    pub keep_size: Option<u64>,
    /// Accept new and changed snapshots of cases whose other checks hold
    #[arg(long)]
    pub accept: bool,
    /// Time limit for the whole run (10m): then running cases are ended and the rest are not started; both get the verdict timeout
    #[arg(long, value_name = "TIME", value_parser = runner::suite::quantity::duration)]
    pub global_timeout: Option<std::time::Duration>,
    /// Fail a case whose `requires` are not met instead of skipping it
    #[arg(long)]
    pub deny_skip: bool,
    /// Stop retrying (`retries`) once more than this many cases have failed: that is not flakiness
    #[arg(long, value_name = "N", default_value_t = runner::schedule::RETRY_LIMIT)]
    pub retry_limit: u32,
    /// Keep the files of all cases, including those that passed
    #[arg(long)]
    pub keep: bool,
}

/// This run is kept, too.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| "write a whole number from 1: this run is kept, too".to_owned())
}

/// Arguments of `ftest check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// Exit with 2 if there is a warning
    #[arg(long)]
    pub deny_warnings: bool,
    /// Names of suites, suite files, or directories of them
    #[arg(value_name = "SUITE", required = true)]
    pub suites: Vec<String>,
}

impl Cli {
    /// Reads the command line; a first word that is not a command is a suite to run.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Cli {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let known = |word: &str| suites::is_known(word, &Install::find());
        if let Some(said) = misspelled(&arguments, known) {
            eprintln!("ftest: {said}");
            std::process::exit(ExitCode::Usage as i32);
        }
        ending::parse(with_run(arguments))
    }

    /// [`Cli::read`] for callers that only want to know whether it parses.
    ///
    /// # Errors
    /// What is wrong, or a request for help or the version.
    pub fn try_read(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(with_run(arguments.into_iter().collect()))
    }

    /// The command line `ftest run SUITE`.
    pub fn run_of(suite: &std::path::Path) -> Cli {
        ending::parse(vec!["ftest".into(), "run".into(), suite.into()])
    }

    /// The completion script of `shell`.
    pub fn completions(shell: clap_complete::Shell) -> Vec<u8> {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "ftest", &mut script);
        script
    }
}

/// What to say of a first word that is no command and no suite, if it is near to a command: `ftest SUITE` is short for
/// `ftest run SUITE`.
fn misspelled(arguments: &[OsString], is_suite: impl Fn(&str) -> bool) -> Option<String> {
    let word = arguments.get(1)?.to_str().filter(|word| !word.starts_with('-'))?;
    let command = Cli::command();
    let names = || command.get_subcommands().filter(|known| !known.is_hide_set()).map(clap::Command::get_name);
    let near = protocol::suggest::nearest(word, names()).filter(|near| *near != word && !is_suite(word))?;
    Some(format!("there is no command and no suite `{word}`; did you mean `ftest {near}`?"))
}

fn with_run(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let command = Cli::command();
    let is_command = |word: &str| command.get_subcommands().any(|known| known.get_name() == word);
    // Options of the top level before the first word stay before `run`.
    let mut first = 1;
    while let Some(word) = arguments.get(first).and_then(|word| word.to_str()) {
        match word {
            "--color" => first += 2,
            word if word.starts_with("--color=") => first += 1,
            _ => break,
        }
    }
    match arguments.get(first).map(|word| word.to_string_lossy().into_owned()) {
        Some(word) if is_command(&word) || matches!(word.as_str(), "-h" | "--help" | "-V" | "--version") => {}
        Some(_) => arguments.insert(first, "run".into()),
        None => {}
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn run_may_be_left_out() {
        for (typed, meant) in [
            ("ftest smoke dist", "ftest run smoke dist"),
            ("ftest --list smoke", "ftest run --list smoke"),
            ("ftest --color never smoke", "ftest --color never run smoke"),
            ("ftest run smoke", "ftest run smoke"),
            ("ftest check smoke", "ftest check smoke"),
            ("ftest --help", "ftest --help"),
            ("ftest", "ftest"),
        ] {
            assert_eq!(with_run(words(typed)), words(meant));
        }
    }

    #[test]
    fn a_misspelled_command_is_not_a_suite() {
        let said = |text: &str| misspelled(&words(text), |word| word == "check-all");
        let of = "there is no command and no suite `rnu`; did you mean `ftest run`?";
        assert_eq!(said("ftest rnu s.yaml").as_deref(), Some(of));
        for right in ["ftest run rnu", "ftest check-all", "ftest", "ftest smoke", "ftest --list smoke"] {
            assert_eq!(said(right), None, "{right}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
