//! `ftest top`: a running cluster, live.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use protocol::diagnosis::Diagnosis;
use protocol::env;
use runner::execute::coordinator::control::{Control, ControlError};
use runner::execute::coordinator::discover;
use runner::execute::launch::environment::Endpoint;
use runner::host::output;
use runner::report::live;
use runner::verdict::exit_code::ExitCode;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often the screen is redrawn.
const REFRESH: Duration = Duration::from_secs(1);
/// Enters the alternate screen, and leaves it.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Arguments of `ftest top`.
#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    /// The coordinator: a path or HOST:PORT [default: FAKEGPU_COORDINATOR_ADDR, else the clusters that run on this machine]
    #[arg(long, value_name = "ADDRESS")]
    pub addr: Option<String>,
    /// Print once and exit; the default if stdout is not a terminal
    #[arg(long)]
    pub once: bool,
}

/// Runs the command.
pub fn run(arguments: &TopArgs) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    let live = !arguments.once && std::io::stdout().is_terminal();
    match runtime.block_on(if_possible(arguments, live)) {
        Ok(()) => ExitCode::Passed,
        Err(error) => fail(&error),
    }
}

fn fail(error: &str) -> ExitCode {
    eprintln!("ftest top: {error}");
    ExitCode::Failed
}

/// The clusters that can be queried; there are several if cases run side by side.
struct Watched {
    endpoint: Endpoint,
    control: Control,
    moved: BTreeMap<u64, u64>,
    looked: Instant,
}

async fn if_possible(arguments: &TopArgs, live: bool) -> Result<(), String> {
    let (mut watched, mut refusals) = find(arguments).await;
    if watched.is_empty() && !live {
        return Err(nothing(arguments, &refusals));
    }
    if !live {
        print(&picture(&mut watched, false).await);
        return Ok(());
    }
    print(ENTER);
    let mut tick = interval(REFRESH);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => break,
            _ = tick.tick() => {
                if watched.is_empty() {
                    (watched, refusals) = find(arguments).await;
                }
                let text = if watched.is_empty() { nothing(arguments, &refusals) } else { picture(&mut watched, true).await };
                print(&format!("\x1b[H\x1b[2J{text}\n\nCtrl-C to quit"));
            }
        }
    }
    print(LEAVE);
    Ok(())
}

/// Why there is nothing to show: all coordinators refuse the connection, or there are none.
fn nothing(arguments: &TopArgs, refusals: &[ControlError]) -> String {
    if !refusals.is_empty() {
        return refusals.iter().map(ControlError::to_string).collect::<Vec<_>>().join("\n");
    }
    match &arguments.addr {
        Some(address) => format!("no coordinator answers at {address}"),
        None => {
            "no cluster runs on this machine; start one with `ftest run` or `ftest exec`, or give --addr".to_owned()
        }
    }
}

/// The coordinators that answer, and the refusals of the others.
async fn find(arguments: &TopArgs) -> (Vec<Watched>, Vec<ControlError>) {
    let get = |variable: &env::Variable| std::env::var(variable.name).ok().filter(|value| !value.is_empty());
    let endpoints = match arguments.addr.clone().or_else(|| get(&env::COORDINATOR_ADDR)) {
        Some(address) => vec![discover::endpoint_at(address, get(&env::COORDINATOR_TOKEN).unwrap_or_default())],
        None => discover::coordinators(),
    };
    let (mut watched, mut refusals) = (Vec::new(), Vec::new());
    for endpoint in endpoints {
        match Control::connect(&endpoint).await {
            Ok(control) => watched.push(Watched { endpoint, control, moved: BTreeMap::new(), looked: Instant::now() }),
            Err(refused @ ControlError::Refused { .. }) => refusals.push(refused),
            // It may have ended in the meantime.
            Err(_) => {}
        }
    }
    (watched, refusals)
}

/// Asks every coordinator; one that no longer answers is dropped.
async fn picture(watched: &mut Vec<Watched>, again: bool) -> String {
    let mut text = Vec::new();
    let mut alive = Vec::new();
    for mut cluster in watched.drain(..) {
        let (Ok(status), Ok(diagnosis)) = (cluster.control.status().await, cluster.control.diagnose(false).await)
        else {
            continue;
        };
        text.push(cluster.draw(&status, &diagnosis, again));
        alive.push(cluster);
    }
    *watched = alive;
    if text.is_empty() { "the cluster ended".to_owned() } else { text.join("\n") }
}

impl Watched {
    fn draw(&mut self, status: &Value, diagnosis: &Diagnosis, again: bool) -> String {
        let (before, now) = (std::mem::replace(&mut self.moved, live::moved(status)), Instant::now());
        let seconds = (now - std::mem::replace(&mut self.looked, now)).as_secs_f64();
        let rates = (again && !before.is_empty()).then(|| live::rates(&before, &self.moved, seconds));
        live::table(&self.endpoint.address, status, diagnosis, rates.as_ref())
    }
}

/// A closed stdout is the reader's choice.
fn print(text: &str) {
    let mut out = output::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
