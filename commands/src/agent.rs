//! `ftest agent`: brings this machine into a run of another one.

use std::sync::Arc;

use clap::Args;
use runner::execute::machines::agent::{self, Ended};
use runner::execute::run::job;
use runner::execute::{self, Cancel, RunContext};
use runner::host::install::Install;
use runner::verdict::exit_code::ExitCode;

use super::machines::token;
use super::signals::{SignalAction, Signals};

/// Arguments of `ftest agent`.
#[derive(Args, Clone, Debug)]
pub struct AgentArgs {
    /// Where `ftest run --listen` waits for machines
    #[arg(long, value_name = "HOST:PORT")]
    pub join: String,
}

/// Runs the command.
pub fn run(arguments: &AgentArgs) -> ExitCode {
    let token = match token() {
        Ok(token) => token,
        Err(why) => {
            eprintln!("ftest agent: {why}");
            return ExitCode::Usage;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    runtime.block_on(serve(&arguments.join, &token))
}

fn fail(why: &str) -> ExitCode {
    eprintln!("ftest agent: {why}");
    ExitCode::CouldNotRun
}

async fn serve(address: &str, token: &str) -> ExitCode {
    let mut signals = Signals::new();
    let cancel = Cancel::new();
    execute::keep_descriptors();
    let context = match RunContext::start(Install::find(), cancel.clone(), Arc::new(|_| {})) {
        Ok(context) => context,
        Err(why) => return fail(&why),
    };
    let agent = tokio::select! {
        joined = agent::join(address, token) => match joined {
            Ok(agent) => agent,
            Err(error) => return fail(&error.to_string()),
        },
        code = ending(&mut signals) => return code,
    };
    eprintln!("ftest agent: this is machine {} of the run at {address}", agent.number);
    let serving = agent.serve(context);
    tokio::pin!(serving);
    let mut ended_by = None;
    loop {
        tokio::select! {
            ended = &mut serving => return match (ended_by, ended) {
                (Some(code), _) => code,
                (None, Ended::Done) => ExitCode::Passed,
                (None, Ended::Lost(why)) => fail(&format!("the run at {address} is lost: {why}")),
            },
            code = ending(&mut signals) => {
                ended_by.get_or_insert(code);
                cancel.raise();
            }
        }
    }
}

/// Waits for a signal that ends the agent.
async fn ending(signals: &mut Signals) -> ExitCode {
    loop {
        match signals.next().await {
            SignalAction::End(code) | SignalAction::EndNow(code) => return code,
            SignalAction::Pause => job::pause_alone(),
        }
    }
}
