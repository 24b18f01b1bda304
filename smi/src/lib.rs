//! nvidia-smi as NVIDIA documents it (nvidia-smi(1)): a client of libnvidia-ml, which it opens like any monitoring tool. It
//! knows nothing about simulated machines.

mod answers;
mod arguments;
mod clock;
mod counters;
mod csv;
mod field;
mod gpu;
mod monitor;
mod nvlink;
mod nvml;
mod part;
mod report;
mod setter;
mod subcommand;
mod subcommands;
mod summary;
mod topology;
mod tree;

use std::io::{self, Write};
use std::time::Duration;

use arguments::{Arguments, Command};
use counters::Counters;
use gpu::Machine;
use nvml::Nvml;

/// How the program ends: text for its output, and nvidia-smi's return value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) code: u8,
}

/// "A supplied argument or flag is invalid."
const INVALID_ARGUMENT: u8 = 2;
/// "A query to find an object was unsuccessful."
const NOT_FOUND: u8 = 6;
/// "The requested operation is not available on target device."
const NOT_SUPPORTED: u8 = 3;
/// "Other error or internal driver error occurred": also for an unknown option and for output that cannot be written.
const UNKNOWN: u8 = 255;

impl Failure {
    fn argument(message: String) -> Self {
        Self { message, code: INVALID_ARGUMENT }
    }

    fn no_devices() -> Self {
        Self { message: "No devices were found".to_owned(), code: NOT_FOUND }
    }
}

/// Runs nvidia-smi with the arguments after its name; returns the exit status.
pub fn run(arguments: &[String]) -> u8 {
    match perform(arguments) {
        Ok(()) => 0,
        Err(Ended::Failed(failure)) => match say(&mut io::stdout(), &format!("{}\n", failure.message)) {
            Err(Ended::Unwritten(error)) => unwritten(&error),
            _ => failure.code,
        },
        Err(Ended::Unread) => 0,
        Err(Ended::Unwritten(error)) => unwritten(&error),
    }
}

/// Why the program ends early.
enum Ended {
    Failed(Failure),
    /// The reader of the output has left, which is its choice.
    Unread,
    /// The output cannot be written.
    Unwritten(io::Error),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Ended::Failed(failure)
    }
}

fn say(to: &mut dyn Write, text: &str) -> Result<(), Ended> {
    to.write_all(text.as_bytes()).and_then(|()| to.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ended::Unread,
        _ => Ended::Unwritten(error),
    })
}

fn unwritten(error: &io::Error) -> u8 {
    let _ = writeln!(io::stderr(), "nvidia-smi: cannot write its output: {error}");
    UNKNOWN
}

fn perform(arguments: &[String]) -> Result<(), Ended> {
    let arguments = Arguments::parse(arguments)?;
    if let Command::Help(text) = &arguments.command {
        return say(&mut io::stdout(), text);
    }
    let nvml = Nvml::open()?;
    let machine = Machine::find(&nvml, arguments.gpus.as_deref())?;
    let mut output: Box<dyn Write> = match &arguments.file {
        Some(path) => {
            let failed = |_| Failure { message: format!("Failed to create the log file {path}\n"), code: UNKNOWN };
            Box::new(std::fs::File::create(path).map_err(failed)?)
        }
        None => Box::new(io::stdout()),
    };
    let mut counters = Counters::new(
        &machine,
        match &arguments.command {
            Command::Monitor(monitor) => monitor.counted(),
            _ => &[],
        },
    );
    let mut round = 0u64;
    loop {
        let text = match &arguments.command {
            Command::Summary => summary::table(&machine),
            Command::List => summary::list(&machine),
            Command::Query { xml: false, sections } => tree::text(&machine, sections),
            Command::Query { xml: true, .. } => tree::xml(&machine),
            Command::Fields { of, fields, format } => csv::table(&machine, *of, fields, *format, round == 0),
            Command::Monitor(monitor) => monitor.table(&machine, &mut counters, round == 0),
            Command::Subcommand(call) => call.answer(&machine)?,
            Command::Set { setter, value, is_strict } => setter.apply(&machine, value, *is_strict)?,
            Command::Excluded => "No excluded devices found.\n".to_owned(),
            Command::Units { xml: false } => tree::units(&machine),
            Command::Units { xml: true } => tree::units_xml(&machine),
            Command::Versions => summary::versions(&machine),
            Command::Help(text) => text.clone(),
        };
        say(&mut *output, &text)?;
        round += 1;
        let Some(every) = arguments.every.filter(|_| arguments.rounds.is_none_or(|most| round < most)) else {
            return Ok(());
        };
        // The time between two samples is set by the user.
        std::thread::sleep(Duration::from_millis(every));
    }
}
