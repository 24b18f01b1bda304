//! `ftest doctor`: what works on this machine, and what is unavailable because something is missing.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use clap::Args;
use protocol::limit::Limit;
use runner::execute::launch::program;
use runner::execute::network::Network;
use runner::execute::python;
use runner::execute::run::scratch::RunDirectory;
use runner::host::cache_directory::{CACHE_ADVICE, cache_directory};
use runner::host::install::{Install, VERSION};
use runner::host::machine::{self, describe};
use runner::host::{output, plain_path, surroundings};
use runner::verdict::exit_code::ExitCode;

use crate::package;

/// Arguments of `ftest doctor`.
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// Do not check whether the package index can be reached
    #[arg(long)]
    pub offline: bool,
    /// Instead, say for which GPUs this installed Python package has kernels that ftest executes
    #[arg(long, value_name = "NAME", conflicts_with = "offline")]
    pub package: Option<String>,
}

/// The state of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Works,
    /// Some cases or some diagnostics are unavailable.
    Limited,
    /// No case runs.
    Missing,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Works => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }
}

/// A thing, its state, and what was found; also what is lost without it and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Diagnosis {
    thing: &'static str,
    state: State,
    text: String,
}

fn works(thing: &'static str, text: impl Into<String>) -> Diagnosis {
    Diagnosis { thing, state: State::Works, text: text.into() }
}

fn limited(thing: &'static str, text: impl Into<String>) -> Diagnosis {
    Diagnosis { thing, state: State::Limited, text: text.into() }
}

fn missing(thing: &'static str, text: impl Into<String>) -> Diagnosis {
    Diagnosis { thing, state: State::Missing, text: text.into() }
}

/// Runs the command; returns [`ExitCode::CouldNotRun`] if no case could run.
pub fn run(arguments: &DoctorArgs) -> ExitCode {
    if let Some(name) = &arguments.package {
        return package::run(name);
    }
    let mut found = vec![
        parts(&Install::find()),
        cpus(machine::cpus()),
        memory(machine::memory()),
        shared_memory(machine::shm_size(), surroundings::no_shm()),
        temporary(),
        loopback(surroundings::no_loopback()),
        descriptors(machine::limit_of(Limit::Descriptors)),
        limits(),
        networks(),
        cache(),
    ];
    found.extend(pythons(arguments.offline));
    found.extend([
        tool("gdb", "a hang's report has no native stacks, only the threads' states; `--debugger gdb` does not work"),
        tool("cc", "programs that compile code at run time (C extensions, torch.compile for the CPU) fail"),
    ]);
    let width = found.iter().map(|one| one.thing.len()).max().unwrap_or_default();
    let mut out = output::stdout();
    for Diagnosis { thing, state, text } in &found {
        // A closed pipe is the reader's choice.
        if writeln!(out, "{:7}  {thing:width$}  {text}", state.word()).is_err() {
            break;
        }
    }
    if found.iter().any(|one| one.state == State::Missing) { ExitCode::CouldNotRun } else { ExitCode::Passed }
}

fn networks() -> Diagnosis {
    const THING: &str = "networks";
    match Network::possible() {
        Ok(()) => works(THING, "nodes of a case can be apart (`network`)"),
        Err(error) => limited(THING, format!("cases with a `network` are skipped: {error}")),
    }
}

fn parts(install: &Install) -> Diagnosis {
    const THING: &str = "ftest";
    match (install.shim(), install.coordinator()) {
        (Ok(shim), Ok(_)) => match plain_path::for_loader(&shim) {
            Ok(plain) if plain == shim => works(THING, format!("{} with {}", VERSION, shim.display())),
            Ok(plain) => works(
                THING,
                format!("{VERSION} with {}, which the loader reaches as {}", shim.display(), plain.display()),
            ),
            Err(why) => missing(THING, format!("the shim cannot be loaded: {why}")),
        },
        (Err(error), _) | (_, Err(error)) => missing(THING, error.to_string()),
    }
}

fn cpus(count: u32) -> Diagnosis {
    match count {
        1 => limited("CPUs", "1: cases run one after another, and ranks take turns"),
        count => works("CPUs", format!("{count}: as many cases at once, unless -j says otherwise")),
    }
}

/// Memory of a rank that imports PyTorch, bytes.
const RANK: u64 = 400 << 20;

fn memory(bytes: Option<u64>) -> Diagnosis {
    const THING: &str = "memory";
    let Some(bytes) = bytes else { return limited(THING, "unknown: /proc/meminfo cannot be read") };
    let text = format!(
        "{}, enough for about {} ranks with PyTorch at once, not counting what they allocate on their GPUs",
        describe(bytes),
        bytes / RANK
    );
    if bytes < 8 * RANK { limited(THING, text) } else { works(THING, text) }
}

fn shared_memory(bytes: Option<u64>, trouble: Option<std::io::Error>) -> Diagnosis {
    const THING: &str = "/dev/shm";
    const ENOUGH: u64 = 1 << 30;
    const COST: &str = "programs that share tensors (workers of PyTorch's DataLoader) are killed by SIGBUS when it is full; \
                        containers: `--shm-size=2g`";
    match bytes {
        None => limited(THING, format!("there is none: {COST}")),
        Some(_) if trouble.is_some() => {
            let why = trouble.map_or(String::new(), |error| error.to_string());
            limited(
                THING,
                format!(
                    "nothing can be written ({why}): programs with Python's multiprocessing fail; mount it writable"
                ),
            )
        }
        Some(bytes) if bytes < ENOUGH => limited(THING, format!("{}: {COST}", describe(bytes))),
        Some(bytes) => works(THING, describe(bytes)),
    }
}

/// Room for the files of a case, bytes.
const FILES: u64 = 64 << 20;

fn temporary() -> Diagnosis {
    const THING: &str = "TMPDIR";
    let directory = match RunDirectory::make() {
        Ok(directory) => directory,
        Err(error) => return missing(THING, error.to_string()),
    };
    let free = rustix::fs::statvfs(directory.path()).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    directory.leave();
    let place = directory.path().parent().unwrap_or(Path::new("/"));
    let text = format!("{}, {} free", place.display(), describe(free));
    if free < FILES {
        return limited(
            THING,
            format!("{text}: output and temporary files of cases may not fit; set TMPDIR to a larger disk"),
        );
    }
    works(THING, text)
}

fn loopback(trouble: Option<String>) -> Diagnosis {
    const THING: &str = "loopback";
    match trouble {
        Some(why) => {
            limited(THING, format!("{why}; cases with torchrun and other processes that meet there are broken"))
        }
        None => works(THING, "127.0.0.1 is reached"),
    }
}

fn descriptors(soft: Option<u64>) -> Diagnosis {
    const THING: &str = "descriptors";
    const ENOUGH: u64 = 1024;
    // ftest raises the soft limit when it starts; this is the hard limit.
    match soft {
        Some(limit) if limit < ENOUGH => limited(
            THING,
            format!("{limit} (`ulimit -Hn`): cases with many ranks are broken; a case takes about three per rank"),
        ),
        Some(limit) => works(THING, limit.to_string()),
        None => works(THING, "no limit"),
    }
}

fn limits() -> Diagnosis {
    const THING: &str = "limits";
    match (machine::too_small(), machine::inherited_limits()) {
        (Some(why), _) => missing(THING, why),
        (None, Some(inherited)) => limited(THING, format!("{inherited}; a case whose program hits one is `broken`")),
        (None, None) => works(THING, "none that programs would hit"),
    }
}

/// Disk space of an environment with PyTorch, including its wheels, bytes.
const ENVIRONMENT: u64 = 3 << 30;

fn cache() -> Diagnosis {
    const THING: &str = "cache";
    let directory = match cache_directory() {
        Ok(directory) => directory,
        Err(why) => return limited(THING, why),
    };
    let cost = "environments and headers cannot be kept";
    if let Err(error) = std::fs::create_dir_all(&directory) {
        return limited(THING, format!("{}: {error}: {cost}; {CACHE_ADVICE}", directory.display()));
    }
    if let Err(error) = tempfile::tempfile_in(&directory) {
        return limited(THING, format!("{}: {error}: {cost}; {CACHE_ADVICE}", directory.display()));
    }
    let free = rustix::fs::statvfs(&directory).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    let text = format!("{}, {} free", directory.display(), describe(free));
    if free < ENVIRONMENT {
        return limited(THING, format!("{text}: an environment with PyTorch takes up to {}", describe(ENVIRONMENT)));
    }
    works(THING, text)
}

/// The Python of cases that need one, and where its packages come from.
fn pythons(offline: bool) -> Vec<Diagnosis> {
    const THING: &str = "Python";
    let without = "cases with Python are broken";
    match python::chosen() {
        Err(error) => return vec![limited(THING, format!("{error}: {without}"))],
        Ok(Some(chosen)) => return vec![in_use(THING, &chosen)],
        Ok(None) => {}
    }
    let environment = match python::managed::present(&[]) {
        Err(error) => return vec![limited(THING, format!("{error}: {without}"))],
        Ok(environment) => environment,
    };
    let base = match python::managed::base() {
        Some(program) => works(THING, format!("{}, for environments that ftest makes", program.display())),
        None => works(THING, "uv brings one"),
    };
    let version = python::managed::base_version();
    let defaults = format!("{} for Python {version}", python::default_requirements().join(" "));
    let place = match environment {
        Some(python) => {
            let place = python.bin.parent().unwrap_or(&python.bin);
            works("environment", format!("{defaults} in {}", place.display()))
        }
        None => works("environment", format!("{defaults}: made by the first case that needs it, or `ftest env path`")),
    };
    let mut found = vec![base, place];
    if !offline {
        found.push(index());
    }
    found
}

/// An interpreter that the user chose; ftest makes no environment.
fn in_use(thing: &'static str, chosen: &python::Chosen) -> Diagnosis {
    let (place, otherwise) = (format!("{} ({})", chosen.program.display(), chosen.variable), chosen.otherwise());
    let declared = "cases whose `python` names what it does not have are broken";
    match python::Python::describe(&chosen.program, chosen.variable) {
        Ok(python) if python.torch_libraries.is_some() => {
            works(thing, format!("{place}, with PyTorch, for every case: {declared}; {otherwise}"))
        }
        Ok(_) => limited(
            thing,
            format!("{place}, for every case, has no PyTorch: {declared}, and so is torchrun; {otherwise}"),
        ),
        Err(error) => limited(thing, format!("{error}: cases with Python are broken; {otherwise}")),
    }
}

fn index() -> Diagnosis {
    const THING: &str = "package index";
    match python::managed::ask_index() {
        Ok(()) => works(THING, "answers"),
        Err(error) => limited(
            THING,
            format!(
                "{}: environments that do not exist yet cannot be made",
                error.to_string().lines().last().unwrap_or_default().trim()
            ),
        ),
    }
}

fn tool(name: &'static str, cost: &str) -> Diagnosis {
    let path = std::env::var_os("PATH");
    let Ok(program) = program::find(name.as_ref(), path.as_deref(), Path::new("/")) else {
        return limited(name, format!("not on PATH: {cost}"));
    };
    match Command::new(&program).arg("--version").output() {
        Ok(answer) if answer.status.success() => {
            let text = String::from_utf8_lossy(&answer.stdout).into_owned();
            works(name, text.lines().next().unwrap_or_default().to_owned())
        }
        Ok(answer) => limited(name, format!("{} ends with {}: {cost}", program.display(), answer.status)),
        Err(error) => limited(name, format!("{}: {error}: {cost}", program.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_small_is_limited_and_says_what_that_costs() {
        for (found, state, part) in [
            (cpus(1), State::Limited, "one after another"),
            (cpus(8), State::Works, "8: as many cases"),
            (memory(None), State::Limited, "/proc/meminfo"),
            (memory(Some(2 << 30)), State::Limited, "2 GiB, enough for about 5 ranks"),
            (memory(Some(64 << 30)), State::Works, "64 GiB"),
            (shared_memory(None, None), State::Limited, "--shm-size=2g"),
            (shared_memory(Some(64 << 20), None), State::Limited, "64 MiB: programs that share tensors"),
            (shared_memory(Some(4 << 30), None), State::Works, "4 GiB"),
            (
                shared_memory(Some(4 << 30), Some(std::io::ErrorKind::ReadOnlyFilesystem.into())),
                State::Limited,
                "nothing can be written",
            ),
            (loopback(Some("no route".to_owned())), State::Limited, "no route; cases with torchrun"),
            (descriptors(Some(256)), State::Limited, "256 (`ulimit -Hn`)"),
            (descriptors(Some(1 << 20)), State::Works, "1048576"),
            (descriptors(None), State::Works, "no limit"),
            (tool("no-such-program", "x fails"), State::Limited, "not on PATH: x fails"),
            (tool("false", "x fails"), State::Limited, "ends with exit status: 1: x fails"),
        ] {
            assert_eq!(found.state, state, "{found:?}");
            assert!(found.text.contains(part), "{found:?}");
        }
        let nowhere = Install::around(Some("/nowhere".into()), Path::new("/nowhere/ftest"));
        assert_eq!(parts(&nowhere).state, State::Missing);
    }
}
