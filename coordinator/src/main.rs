//! The `fakegpu-coordinator` program: arguments, signals, readiness, exit code.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::future::Future;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use coordinator::settings::{Arguments, Settings};
use coordinator::{End, console};
use protocol::announcement::Announcement;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

/// More descriptors than any cluster has processes.
const MOST_DESCRIPTORS: u64 = 1 << 20;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(help) => return explain(&help),
    };
    let settings = match Settings::resolve(arguments, &|name| std::env::var(name).ok()) {
        Ok(settings) => settings,
        Err(error) => return fail(2, &error.to_string()),
    };
    raise_limit();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &format!("cannot start: {error}")),
    };
    runtime.block_on(simulate(settings))
}

/// Prints help, the version, or what is wrong with the command line.
fn explain(help: &clap::Error) -> ExitCode {
    // A reader who has left is not an error.
    match help.print() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(1, &format!("cannot write to stdout: {error}")),
        _ => ExitCode::from(help.exit_code() as u8),
    }
}

/// Each rank's connection needs a descriptor, so this allows as many as the process may have.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(MOST_DESCRIPTORS, |maximum| maximum.min(MOST_DESCRIPTORS));
    if limit.current.is_some_and(|current| current < most) {
        // Where this is refused, the process just gets fewer descriptors.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
}

async fn simulate(settings: Settings) -> ExitCode {
    // A report beyond the limit on file sizes is an error like a full disk, and not this process's end.
    let _too_large = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()));
    let stop = match stop_requests(settings.lifeline_fd) {
        Ok(stop) => stop,
        Err((code, text)) => return fail(code, &text),
    };
    let successor = settings.successor.clone();
    let stop = async move {
        let end = stop.await;
        if end == End::RunLost {
            start_successor(&successor);
        }
        end
    };
    let ready_fd = settings.ready_fd;
    let announced = |address: &str| {
        console::announce(&Announcement::Listening(address.to_owned()));
        if let Some(fd) = ready_fd
            && let Err(error) = announce(fd, address)
        {
            console::complain(&format!("--ready-fd {fd}: {error}"));
        }
    };
    match coordinator::run(settings, announced, stop).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.exit_code(), &error.to_string()),
    }
}

/// Completes at SIGTERM, SIGINT or the end of the lifeline. The handlers are installed when this returns.
fn stop_requests(lifeline_fd: Option<u32>) -> Result<impl Future<Output = End>, (u8, String)> {
    let handler = |kind| signal(kind).map_err(|error| (1, format!("cannot handle signals: {error}")));
    let mut terminate = handler(SignalKind::terminate())?;
    let mut interrupt = handler(SignalKind::interrupt())?;
    let lifeline = lifeline_fd
        .map(|fd| {
            pipe::OpenOptions::new()
                .open_receiver(format!("/proc/self/fd/{fd}"))
                .map_err(|error| (2, format!("--lifeline-fd {fd} is not a pipe that can be read: {error}")))
        })
        .transpose()?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => End::Asked,
            _ = interrupt.recv() => End::Asked,
            () = ended(lifeline) => End::RunLost,
        }
    })
}

/// Waits for the end of a pipe, or forever without one.
async fn ended(lifeline: Option<pipe::Receiver>) {
    let Some(mut lifeline) = lifeline else { return std::future::pending().await };
    let mut ignored = [0; 64];
    while lifeline.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
}

/// Starts the program that cleans up after a lost run. It does not carry the mark by which it finds the other
/// processes.
fn start_successor(argv: &[OsString]) {
    let Some((program, arguments)) = argv.split_first() else { return };
    let mut command = Command::new(program);
    command.args(arguments).env_remove(protocol::env::COOKIE.name);
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn();
    if let Err(error) = started {
        console::complain(&format!("cannot start {}: {error}", program.display()));
    }
}

/// The inherited descriptor is opened by name, because taking it over by number alone cannot be proven sound. Readers
/// take the line; the descriptor itself closes with this process.
fn announce(fd: u32, address: &str) -> io::Result<()> {
    let mut pipe = OpenOptions::new().append(true).open(format!("/proc/self/fd/{fd}"))?;
    pipe.write_all(format!("{address}\n").as_bytes())
}

fn fail(code: u8, text: &str) -> ExitCode {
    let separator = if text.starts_with("error") { "\n" } else { " " };
    let _ = writeln!(io::stderr(), "fakegpu-coordinator:{separator}{text}");
    ExitCode::from(code)
}
