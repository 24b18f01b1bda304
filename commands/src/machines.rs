//! `ftest run --machines N --listen ADDR:PORT`: waits until other machines have joined.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use runner::case::Case;
use runner::execute::RunContext;
use runner::execute::machines::{self, Gate, Machines, SHORTEST_TOKEN};
use runner::execute::run::clock::{Instant, sleep_until};
use runner::execute::run::job;
use runner::host::{deadline, machine, variable};
use runner::verdict::exit_code::ExitCode;

use super::signals::{SignalAction, Signals};

/// Which other machines take part.
#[derive(Args, Clone, Debug, Default)]
pub struct MachineArgs {
    /// Run the nodes of each case on different machines: node 0 here, node K on machine K of N others, which join with `ftest agent`
    #[arg(
        long,
        value_name = "N",
        requires = "listen",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["list", "watch", "drive", "debug_rank", "executor"],
        help_heading = "Running"
    )]
    pub machines: Option<u32>,
    /// With --machines: where they join, an address of this machine that they reach
    #[arg(long, value_name = "ADDR:PORT", requires = "machines", help_heading = "Running")]
    pub listen: Option<SocketAddr>,
}

/// Why there are no machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ungathered {
    /// A message said why.
    Failed(ExitCode),
    /// A signal ended the wait.
    BySignal(ExitCode),
}

/// The secret that ftest and its agents share.
///
/// # Errors
/// It is not set, or too short: what to do.
pub(super) fn token() -> Result<String, String> {
    let name = protocol::env::AGENT_TOKEN.name;
    let text = variable::get(name).map(|value| value.to_string_lossy().into_owned());
    match text {
        Some(token) if (SHORTEST_TOKEN..=protocol::frame::MAX_TOKEN).contains(&token.len()) => Ok(token),
        Some(token) => Err(format!(
            "{name} has {} bytes; use {SHORTEST_TOKEN} to {}, such as those of `openssl rand -hex 16`",
            token.len(),
            protocol::frame::MAX_TOKEN
        )),
        None => Err(format!(
            "{name} is not set: the machines of a run share a secret; `export {name}=$(openssl rand -hex 16)` on one, and the same \
             value on all others"
        )),
    }
}

impl MachineArgs {
    /// Whether all of `cases` can run on these machines; complains about those that cannot.
    pub(super) fn check(&self, cases: &[Arc<Case>]) -> Result<(), ExitCode> {
        let Some(machines) = self.machines else { return Ok(()) };
        let misfits: Vec<String> = cases.iter().filter_map(|case| machines::misfit(case, machines)).collect();
        misfits.iter().for_each(|misfit| eprintln!("ftest: {misfit}"));
        if misfits.is_empty() { Ok(()) } else { Err(ExitCode::Usage) }
    }

    /// The machines, once all have joined; `None` if there are to be none.
    ///
    /// # Errors
    /// [`Ungathered`].
    pub(super) async fn gather(
        &self,
        context: &RunContext,
        limit: Option<Duration>,
        signals: &mut Signals,
    ) -> Result<Option<Machines>, Ungathered> {
        let (Some(wanted), Some(listen)) = (self.machines, self.listen) else { return Ok(None) };
        let fail = |code, why: String| {
            eprintln!("ftest: --machines: {why}");
            Ungathered::Failed(code)
        };
        let token = token().map_err(|why| fail(ExitCode::Usage, why))?;
        let mut gate = Gate::open(listen, &token).await.map_err(|why| fail(ExitCode::CouldNotRun, why))?;
        let limit = limit.unwrap_or(deadline::MACHINES_JOIN).min(deadline::MACHINES_JOIN);
        let until = Instant::now() + limit;
        let seconds = limit.as_secs_f64();
        eprintln!(
            "ftest: waiting for {wanted} {} for up to {seconds} s; with the same {} there: ftest agent --join {}",
            if wanted == 1 { "machine" } else { "machines" },
            protocol::env::AGENT_TOKEN.name,
            named(gate.address())
        );
        loop {
            tokio::select! {
                filled = gate.fill(wanted, |sentence| eprintln!("ftest: {sentence}")) => match filled {
                    Ok(()) => return Ok(Some(gate.close())),
                    Err(error) => return Err(fail(ExitCode::CouldNotRun, error.to_string())),
                },
                () = sleep_until(until) => {
                    let joined: Vec<String> = gate.joined().collect();
                    let who = if joined.is_empty() { String::new() } else { format!(" ({})", joined.join(", ")) };
                    let count = joined.len();
                    let why = format!("{count} of {wanted} machines{who} joined within {seconds} s; start `ftest agent` on the others");
                    gate.close().dismiss().await;
                    return Err(fail(ExitCode::CouldNotRun, why));
                }
                action = signals.next() => match action {
                    SignalAction::Pause => job::pause(context),
                    SignalAction::End(code) | SignalAction::EndNow(code) => {
                        gate.close().dismiss().await;
                        return Err(Ungathered::BySignal(code));
                    }
                },
            }
        }
    }
}

/// The address as others write it.
fn named(address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return address.to_string();
    }
    format!("{}:{}", machine::name(), address.port())
}
