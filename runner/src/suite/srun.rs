//! `launch: {srun: ...}`: what Slurm is asked for, checked as far as possible without Slurm.

use std::path::Path;

use model::node::Node;
use protocol::plan::ClusterPlan;

use crate::case::srun::{Program, Srun};
use crate::suite::Shared;
use crate::suite::language::MAX_RANKS;
use crate::suite::language::launch as language;
use crate::suite::reader::Reader;
use crate::suite::room;

/// Options of srun that ftest sets itself, and what to write in a suite instead.
const OURS: &[(&str, &str, &str)] = &[
    ("--ntasks", "-n", "write the key `ntasks`"),
    ("--nodes", "-N", "write the key `nodes`"),
    ("--ntasks-per-node", "", "write the key `ntasks_per_node`"),
    ("--chdir", "-D", "write the key `cwd` in the case"),
    ("--output", "-o", "ftest captures what tasks write"),
    ("--error", "-e", "ftest captures what tasks write"),
    ("--input", "-i", "ranks have no input"),
    ("--label", "-l", "ftest captures what each task writes by itself"),
    ("--pty", "", "ranks have no terminal"),
    ("--export", "", "set variables by `env`"),
    ("--multi-prog", "", "every task runs the same program"),
    ("--kill-on-bad-exit", "-K", "`timeout: {survivors: 0s}` ends the others at once"),
];

pub(super) fn read(shared: &Shared<'_>, node: &Node, cwd: &Path, cluster: Option<&ClusterPlan>) -> Option<Srun> {
    let reader = shared.reader;
    let srun = reader.section(&language::SRUN, node)?;
    let number = |key| srun.get(key).map(|node| reader.integer(key, node, 1, MAX_RANKS));
    let (nodes, ntasks, per_node) = (number("nodes"), number("ntasks"), number("ntasks_per_node"));
    let options = srun.get("options").map_or(Some(Vec::new()), |node| read_options(reader, node));
    let argv = srun.get("argv");
    let torchrun = srun.get("torchrun");
    let program = match (argv, torchrun) {
        (Some(argv), None) => {
            let words = reader.words("argv", argv)?;
            room::check_program(reader, argv, &words, cwd);
            if words.is_empty() {
                reader.mistake(&argv.span, "`argv` is empty", "write `argv: [program, argument, ...]`");
                return None;
            }
            Some(Program::Rank { argv: words })
        }
        (None, Some(torchrun)) => read_torchrun(shared.reader, torchrun, cwd),
        (Some(_), Some(_)) => {
            reader.mistake(&node.span, "`srun` has both `argv` and `torchrun`", "keep one of the two");
            None
        }
        (None, None) => {
            reader.mistake(&node.span, "`srun` does not say what to start", "add `argv: [...]` or `torchrun: {...}`");
            None
        }
    };
    if torchrun.is_some() {
        for key in ["ntasks", "ntasks_per_node"] {
            if let Some(entry) = srun.entry(key) {
                let message = format!("`{key}` with `torchrun`, which is one task per node");
                reader.mistake(&entry.key_span, message, "write `nodes`, and `nproc_per_node` below `torchrun`");
            }
        }
    }
    srun.finish();
    // A number that is present but wrong has already been reported.
    let (nodes, ntasks, per_node) = match (nodes, ntasks, per_node) {
        (Some(None), ..) | (_, Some(None), _) | (.., Some(None)) => return None,
        (nodes, ntasks, per_node) => (nodes.flatten(), ntasks.flatten(), per_node.flatten()),
    };
    let (program, options) = (program?, options?);
    let (nodes, ntasks, per_node) = match &program {
        Program::Torchrun { .. } => (nodes.unwrap_or(1), nodes.unwrap_or(1), Some(1)),
        Program::Rank { .. } => tasks(reader, node, nodes, ntasks, per_node)?,
    };
    let srun = Srun { nodes, ntasks, ntasks_per_node: per_node, options, program };
    if let Some(cluster) = cluster {
        let on_each = match &srun.program {
            Program::Torchrun { nproc_per_node, .. } => Some(*nproc_per_node),
            Program::Rank { .. } => per_node,
        };
        room::fits(reader, node, cluster, (srun.world_size(), nodes), on_each, "ntasks_per_node");
    }
    Some(srun)
}

/// Nodes, tasks, and tasks on each node.
fn tasks(
    reader: &Reader<'_>,
    node: &Node,
    nodes: Option<u32>,
    ntasks: Option<u32>,
    per_node: Option<u32>,
) -> Option<(u32, u32, Option<u32>)> {
    match (nodes, ntasks, per_node) {
        (_, None, None) => {
            let message = "`srun` does not say how many tasks it starts";
            reader.mistake(&node.span, message, "add `ntasks: 4`, or `nodes` and `ntasks_per_node`");
            None
        }
        (nodes, None, Some(per_node)) => {
            let nodes = nodes.unwrap_or(1);
            Some((nodes, nodes.saturating_mul(per_node), Some(per_node)))
        }
        (nodes, Some(ntasks), None) => {
            let nodes = nodes.unwrap_or(1);
            if nodes > ntasks {
                let message = format!("{ntasks} tasks on {nodes} nodes");
                reader.mistake(&node.span, message, "Slurm gives no node without a task; lower `nodes`");
                return None;
            }
            // Uneven placement is up to Slurm, and the cluster must agree with it.
            Some((nodes, ntasks, (ntasks % nodes == 0).then_some(ntasks / nodes)))
        }
        (nodes, Some(ntasks), Some(per_node)) => {
            let least = ntasks.div_ceil(per_node);
            let nodes = nodes.unwrap_or(least);
            if nodes < least || nodes > ntasks {
                let message = format!("{ntasks} tasks, {per_node} on each node, do not make {nodes} nodes");
                reader.mistake(&node.span, message, "leave out one of `nodes`, `ntasks` and `ntasks_per_node`");
                return None;
            }
            Some((nodes, ntasks, Some(per_node)))
        }
    }
}

fn read_torchrun(reader: &Reader<'_>, node: &Node, cwd: &Path) -> Option<Program> {
    let torchrun = reader.section(&language::SRUN_TORCHRUN, node)?;
    let nproc_per_node = torchrun
        .required("nproc_per_node", "nproc_per_node: 2")
        .and_then(|node| reader.integer("nproc_per_node", node, 1, MAX_RANKS));
    let script = torchrun.required("script", "script: train.py").and_then(|node| room::read_script(reader, node, cwd));
    let args = torchrun.get("args").map_or(Some(Vec::new()), |node| reader.words("args", node));
    let max_restarts =
        torchrun.get("max_restarts").map_or(Some(0), |node| reader.integer("max_restarts", node, 0, 100));
    torchrun.finish();
    Some(Program::Torchrun {
        nproc_per_node: nproc_per_node?,
        script: script?,
        args: args?,
        max_restarts: max_restarts?,
    })
}

fn read_options(reader: &Reader<'_>, node: &Node) -> Option<Vec<String>> {
    let options = reader.words("options", node)?;
    let before = reader.count();
    for (option, item) in options.iter().zip(reader.list("options", node)?) {
        if let Some((name, help)) = reserved(option) {
            reader.mistake(&item.span, format!("`{name}` is set by ftest"), help);
        }
    }
    (reader.count() == before).then_some(options)
}

/// The option reserved for ftest that this word sets, and what to write instead.
fn reserved(word: &str) -> Option<(&'static str, &'static str)> {
    OURS.iter().find_map(|(long, short, help)| {
        let is_long = word.strip_prefix(long).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
        // `-N2` is `-N 2`.
        let is_short = !short.is_empty() && !word.starts_with("--") && word.starts_with(short);
        (is_long || is_short).then_some((*long, *help))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::case::Launch;
    use crate::suite::{SuiteError, parse};

    use super::*;

    fn launch(srun: &str) -> Result<Srun, String> {
        let text = format!("ftest: 1\nsuite: s\ncases:\n- {{id: c, launch: {{srun: {srun}}}}}\n");
        match parse(Path::new("s.yaml"), &text, Path::new("/")) {
            Ok(mut suite) => match suite.cases.remove(0).launch.clone() {
                Launch::Srun(srun) => Ok(srun),
                other => panic!("{other:?}"),
            },
            Err(SuiteError::Mistakes(mistakes)) => Err(mistakes.to_string()),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn what_is_left_out_follows_from_what_is_there() {
        for (keys, expected) in [
            ("ntasks: 4", (1, 4, Some(4))),
            ("ntasks: 4, nodes: 2", (2, 4, Some(2))),
            ("ntasks: 5, nodes: 2", (2, 5, None)),
            ("ntasks_per_node: 2", (1, 2, Some(2))),
            ("ntasks_per_node: 2, nodes: 3", (3, 6, Some(2))),
            ("ntasks: 4, ntasks_per_node: 2", (2, 4, Some(2))),
            ("ntasks: 3, ntasks_per_node: 2", (2, 3, Some(2))),
        ] {
            let srun = launch(&format!("{{{keys}, argv: [x]}}")).unwrap_or_else(|error| panic!("{keys}: {error}"));
            assert_eq!((srun.nodes, srun.ntasks, srun.ntasks_per_node), expected, "{keys}");
        }
    }

    #[test]
    fn mistakes_have_a_place_and_a_way_out() {
        for (srun, message, help) in [
            ("{argv: [x]}", "does not say how many tasks", "add `ntasks: 4`"),
            ("{ntasks: 2}", "does not say what to start", "add `argv"),
            ("{ntasks: 2, nodes: 3, argv: [x]}", "2 tasks on 3 nodes", "lower `nodes`"),
            ("{ntasks: 9, nodes: 2, ntasks_per_node: 2, argv: [x]}", "do not make 2 nodes", "leave out one"),
            ("{ntasks: 2, argv: [x], options: [-N2]}", "`--nodes` is set by ftest", "write the key `nodes`"),
            ("{ntasks: 2, argv: [x], options: ['--output=a']}", "`--output` is set by ftest", "captures"),
            (
                "{nodes: 2, ntasks: 2, torchrun: {nproc_per_node: 1, script: etc/hostname}}",
                "one task per node",
                "nproc",
            ),
            ("{ntasks: 2, argv: [x], task: 3}", "unknown key `task`", "ntasks"),
        ] {
            let said = launch(srun).expect_err(srun);
            assert!(said.contains(message) && said.contains(help) && said.contains("s.yaml:4:"), "{srun}: {said}");
        }
        assert!(launch("{ntasks: 2, argv: [x], options: ['--nodelist=n[0-1]', -p, all]}").is_ok());
    }
}
