//! `ftest run`: runs the selected cases, once or repeatedly.

use runner::host::install::Install;
use runner::host::machine;
use runner::verdict::exit_code::ExitCode;

use super::one_run;
use crate::cli::RunArgs;
use crate::select::Selection;
use crate::signals::Signals;
use crate::{list, select, watch};

/// Runs the command.
pub fn run(arguments: &RunArgs) -> ExitCode {
    let install = Install::find();
    if let Err(code) = arguments.reports.check() {
        return code;
    }
    if arguments.watch {
        return watch::run(arguments, &install);
    }
    let Selection { mut cases, whole } = match select::select(&arguments.select, &arguments.runs.runs(), &install) {
        Ok(selection) => selection,
        Err(code) => return code,
    };
    if arguments.list.list {
        return list::list(&arguments.list, arguments.select.shard, &cases);
    }
    let debug_rank = match arguments.show.debug(&mut cases) {
        Ok(debug_rank) => debug_rank,
        Err(code) => return code,
    };
    // An empty shard is a part of a run as every other, so that a merge knows that nothing of it is missing.
    if cases.is_empty() && whole.is_none() {
        return ExitCode::Passed;
    }
    if let Some(why) = machine::too_small() {
        eprintln!("ftest: {why}");
        return ExitCode::CouldNotRun;
    }
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            let mut signals = Signals::new();
            one_run::execute(arguments, install, &cases, whole, debug_rank, &mut signals).await.code()
        }),
        Err(error) => {
            eprintln!("ftest: cannot start: {error}");
            ExitCode::CouldNotRun
        }
    }
}
