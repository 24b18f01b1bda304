//! `ftest`: command line -> command -> exit code.

use std::process::ExitCode;

use anstream::ColorChoice;
use runner::cli::{Cli, Color, Command};
use runner::commands;
use runner::commands::{bench, check, env, exec, explain, fmt, profiles, replay, review, runs, schema, top};
use runner::execute::{self, guard};

/// Bytes of the stack that ftest runs on, whatever `ulimit -s` says.
const STACK: usize = 16 << 20;

fn main() -> ExitCode {
    match std::thread::Builder::new().stack_size(STACK).spawn(run) {
        // A panic has been told.
        Ok(thread) => thread.join().unwrap_or(ExitCode::from(101)),
        Err(_) => run(),
    }
}

fn run() -> ExitCode {
    execute::survive_file_limit();
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|first| first == guard::ARGUMENT || first == guard::HEIR) {
        let rest: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
        return from_number(guard::main(&rest));
    }
    let cli = Cli::read(std::env::args_os());
    match cli.color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    }
    .write_global();
    match &cli.command {
        Command::Run(arguments) => commands::run::run(arguments).into(),
        Command::Runs(arguments) => runs::list(arguments).into(),
        Command::Replay(arguments) => replay::replay(arguments).into(),
        Command::Merge(arguments) => replay::merge(arguments).into(),
        Command::Check(arguments) => check::run(arguments).into(),
        Command::Review(arguments) => review::review(arguments).into(),
        Command::Accept(arguments) => review::accept(arguments).into(),
        Command::Reject(arguments) => review::reject(arguments).into(),
        Command::Explain(arguments) => explain::run(arguments).into(),
        Command::Fmt(arguments) => fmt::run(arguments).into(),
        Command::Schema => schema::run().into(),
        Command::Profiles => profiles::run().into(),
        Command::Exec(arguments) => from_number(exec::run(arguments)),
        Command::Top(arguments) => top::run(arguments).into(),
        Command::Bench(arguments) => from_number(bench::run(arguments)),
        Command::Env(arguments) => from_number(env::run(arguments)),
        Command::Completions { shell } => {
            Cli::completions(*shell, &mut std::io::stdout());
            ExitCode::SUCCESS
        }
    }
}

fn from_number(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
