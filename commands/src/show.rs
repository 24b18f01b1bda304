//! `--no-capture` and `--debug-rank`: the programs of a run on the user's terminal.

use std::sync::Arc;

use clap::Args;
use runner::case::{Case, Launch};
use runner::execute::launch::debug::DebugRank;
use runner::verdict::exit_code::ExitCode;

/// Which streams are shown.
#[derive(Args, Clone, Debug, Default)]
pub struct ShowArgs {
    /// Show what programs write as they write it, one case at a time (-j1); it is captured and checked all the same
    #[arg(long, conflicts_with = "jobs", help_heading = "Running")]
    pub no_capture: bool,
    /// Stop this rank of the one selected case before its program starts, print how to attach a debugger, and hand it
    /// standard input; no deadline counts
    #[arg(long, value_name = "RANK", conflicts_with_all = ["jobs", "repeat", "stress"], help_heading = "Running")]
    pub debug_rank: Option<u32>,
    /// Start that rank under this command on the terminal instead: `gdb --args`, or `pdb` for Python
    #[arg(long, value_name = "COMMAND", requires = "debug_rank", help_heading = "Running")]
    pub debugger: Option<String>,
}

impl ShowArgs {
    /// Whether programs and ftest write at the same time.
    pub fn shares_the_terminal(&self) -> bool {
        self.no_capture || self.debug_rank.is_some()
    }

    /// The rank to debug; prepares `cases` for it.
    ///
    /// # Errors
    /// The exit code, after printing the reason to stderr.
    pub(super) fn debug(&self, cases: &mut [Arc<Case>]) -> Result<Option<DebugRank>, ExitCode> {
        let Some(rank) = self.debug_rank else { return Ok(None) };
        let [case] = cases else {
            eprintln!(
                "ftest: --debug-rank takes exactly one case, and {} are selected; choose one with -E 'id(=SUITE/CASE)'",
                cases.len()
            );
            return Err(ExitCode::Usage);
        };
        if matches!(case.launch, Launch::Srun(_)) {
            eprintln!(
                "ftest: --debug-rank: {} is started by srun, whose tasks have no terminal; use `argv` with `ranks`, or `torchrun`",
                case.full_id()
            );
            return Err(ExitCode::Usage);
        }
        let size = case.world_size().unwrap_or(1);
        if rank >= size {
            eprintln!("ftest: --debug-rank {rank}: the ranks of {} are 0 to {}", case.full_id(), size - 1);
            return Err(ExitCode::Usage);
        }
        DebugRank::prepare(Arc::make_mut(case));
        let Some(debugger) = shlex::split(self.debugger.as_deref().unwrap_or_default()) else {
            eprintln!("ftest: --debugger {}: a quote is not closed", self.debugger.as_deref().unwrap_or_default());
            return Err(ExitCode::Usage);
        };
        Ok(Some(DebugRank { rank, debugger }))
    }
}
