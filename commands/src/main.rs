//! `ftest`: command line -> command -> exit code.

use std::io::Write;
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::CommandFactory;
use commands::cli::{Cli, Color, Command, RunArgs};
use commands::ending;
use commands::{
    self, agent, bench, check, cluster, docs, doctor, env, exec, explain, fmt, init, man, modeled, new, preflight,
    profiles, relations, replay, review, runs, schema, top, what_if,
};
use runner::execute;
use runner::execute::run::guard;
use runner::execute::srun::task;
use runner::host::output;

/// Size of the stack that ftest runs on, regardless of `ulimit -s`, bytes.
const STACK: usize = 16 << 20;

fn main() -> ExitCode {
    match std::thread::Builder::new().stack_size(STACK).spawn(run) {
        // A panic has been reported.
        Ok(thread) => thread.join().unwrap_or(ExitCode::from(101)),
        Err(_) => run(),
    }
}

fn run() -> ExitCode {
    execute::survive_file_limit();
    execute::keep_exit_statuses();
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|first| first == guard::ARGUMENT || first == guard::SUCCESSOR) {
        let rest: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
        return from_number(guard::main(&rest));
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == task::ARGUMENT) {
        return from_number(task::main(&std::env::args_os().skip(2).collect::<Vec<_>>()));
    }
    let cli = Cli::read(std::env::args_os());
    match cli.color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    }
    .write_global();
    let code = match &cli.command {
        Command::Run(arguments) => commands::run::run(arguments) as i32,
        Command::Runs(arguments) => runs::list(arguments) as i32,
        Command::Replay(arguments) => replay::replay(arguments) as i32,
        Command::Merge(arguments) => replay::merge(arguments) as i32,
        Command::Check(arguments) => check::run(arguments) as i32,
        Command::Review(arguments) => review::review(arguments) as i32,
        Command::Accept(arguments) => review::accept(arguments) as i32,
        Command::Reject(arguments) => review::reject(arguments) as i32,
        Command::Explain(arguments) => explain::run(arguments) as i32,
        Command::Relations(arguments) => relations::run(arguments) as i32,
        Command::Fmt(arguments) => fmt::run(arguments) as i32,
        Command::Schema => schema::run() as i32,
        Command::Profiles => profiles::run() as i32,
        Command::Cluster(arguments) => cluster::run(arguments),
        Command::Exec(arguments) if arguments.preflight.preflight => preflight::run(arguments),
        Command::Exec(arguments) => exec::run(arguments),
        Command::WhatIf(arguments) => what_if::run(arguments),
        Command::Agent(arguments) => agent::run(arguments) as i32,
        Command::Top(arguments) => top::run(arguments) as i32,
        Command::Bench(arguments) if arguments.model.modeled => modeled::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Env(arguments) => env::run(arguments),
        Command::Init(arguments) => init::run(arguments, |suite, time| match Cli::run_of(suite).command {
            Command::Run(arguments) => commands::run::run(&RunArgs { global_timeout: time, ..arguments }) as i32,
            _ => 3,
        }),
        Command::New(arguments) => new::run(arguments) as i32,
        Command::Man(arguments) => man::run(arguments, Cli::command()) as i32,
        Command::Docs(arguments) => docs::run(arguments) as i32,
        Command::Doctor(arguments) => doctor::run(arguments) as i32,
        Command::Completions { shell } => {
            // A closed stdout is not an error; anything else is remembered.
            let _ = output::stdout().write_all(&Cli::completions(*shell));
            0
        }
    };
    from_number(ending::code(code))
}

fn from_number(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
