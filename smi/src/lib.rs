//! nvidia-smi as NVIDIA documents it (nvidia-smi(1)): a client of libnvidia-ml, which it opens as any monitor does. It knows
//! nothing of simulated machines.

mod arguments;
mod clock;
mod csv;
mod field;
mod gpu;
mod monitor;
mod nvml;
mod part;
mod report;
mod summary;
mod topology;
mod tree;

use std::io::{self, Write};
use std::time::Duration;

use arguments::{Arguments, Command};
use gpu::Machine;
use nvml::Nvml;

/// What the program ends with: text for its output, and nvidia-smi's return value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) code: u8,
}

/// "A supplied argument or flag is invalid."
const INVALID_ARGUMENT: u8 = 2;
/// "A query to find an object was unsuccessful."
const NOT_FOUND: u8 = 6;

impl Failure {
    fn argument(message: String) -> Self {
        Self { message, code: INVALID_ARGUMENT }
    }

    fn no_devices() -> Self {
        Self { message: "No devices were found".to_owned(), code: NOT_FOUND }
    }
}

/// Runs nvidia-smi with the arguments behind its name; the exit status.
pub fn run(arguments: &[String]) -> u8 {
    let code = match perform(arguments) {
        Ok(code) => code,
        Err(failure) => {
            say(&format!("{}\n", failure.message));
            failure.code
        }
    };
    let _ = io::stdout().flush();
    code
}

/// Prints; false once nobody reads any more.
fn say(text: &str) -> bool {
    io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()).is_ok()
}

fn perform(arguments: &[String]) -> Result<u8, Failure> {
    let arguments = Arguments::parse(arguments)?;
    if let Command::Help(text) = &arguments.command {
        say(text);
        return Ok(0);
    }
    let nvml = Nvml::open()?;
    let machine = Machine::find(&nvml, arguments.gpus.as_deref())?;
    let mut file = match &arguments.file {
        Some(path) => Some(std::fs::File::create(path).map_err(|error| Failure::argument(format!("{path}: {error}")))?),
        None => None,
    };
    let mut round = 0u64;
    loop {
        let text = match &arguments.command {
            Command::Summary => summary::table(&machine),
            Command::List => summary::list(&machine),
            Command::Query { xml: false, sections } => tree::text(&machine, sections),
            Command::Query { xml: true, .. } => tree::xml(&machine),
            Command::Fields { of, fields, format } => csv::table(&machine, *of, fields, *format, round == 0),
            Command::Monitor(monitor) => monitor.table(&machine, round == 0),
            Command::Matrix => topology::matrix(&machine),
            Command::Peers(capability) => topology::peers(&machine, *capability),
            Command::Links => topology::links(&machine)?,
            Command::Versions => summary::versions(&machine),
            Command::Help(text) => text.clone(),
        };
        let written = match &mut file {
            Some(file) => file.write_all(text.as_bytes()).is_ok(),
            None => say(&text),
        };
        round += 1;
        let Some(every) = arguments.every.filter(|_| written && arguments.rounds.is_none_or(|most| round < most))
        else {
            return Ok(0);
        };
        // The time between two samples is what the user asked for.
        std::thread::sleep(Duration::from_millis(every));
    }
}
