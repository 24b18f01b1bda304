//! Which processes of a case write to the terminal, and under which names.

use super::torchrun;
use crate::case::srun::{Program, Srun};
use crate::case::{Case, Launch};
use crate::execute::process_tree::ProcessPlan;
use crate::execute::process_tree::show::{Name, Streams};
use crate::host::secrets::Secrets;
use crate::observation::Role;

/// Lets the processes of `case` write to the terminal, prefixed with their names if there are several, and without
/// `secrets`.
pub(in crate::execute) fn show(case: &Case, planned: &mut [ProcessPlan], secrets: &Secrets) {
    let several = planned.len() > 1 || case.world_size().is_some_and(|size| size > 1);
    for process in planned {
        let name = match (&case.launch, process.role) {
            (Launch::Torchrun { nproc_per_node, args, .. }, Role::Launcher(node)) => {
                tee(case, args.len(), process);
                Name::Workers { node, first: node * nproc_per_node }
            }
            (Launch::Srun(Srun { program: Program::Torchrun { args, .. }, .. }), Role::Srun) => {
                tee(case, args.len(), process);
                Name::Role(Role::Srun)
            }
            (_, role) => Name::Role(role),
        };
        process.streams = Streams::Shown(several.then_some(name), secrets.clone());
    }
}

/// torchrun's workers write to files; with `--tee` also to torchrun's own streams.
pub(in crate::execute) fn tee(case: &Case, arguments: usize, process: &mut ProcessPlan) {
    if case.kill.is_empty() {
        let end = torchrun::end_of_options(&process.argv, arguments);
        process.argv.insert(end, "--tee=3".into());
    }
}
