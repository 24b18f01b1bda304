//! The keys of `srun`, Slurm's launcher.

use super::{MAX_RANKS, Rule, Section, Shape, optional, or, required};

const WORDS: Shape = Shape::List(0, &Shape::Word);

pub(crate) static SRUN: Section = Section {
    name: "srun",
    what: "`srun`",
    about: "How [Slurm's launcher](slurm.md) is called.",
    keys: &[&[
        optional("argv", WORDS, "program and arguments of every task; each task is a rank"),
        optional("torchrun", Shape::Section(&SRUN_TORCHRUN), "PyTorch's launcher as the one task of each node"),
        or(
            "ntasks",
            Shape::Integer(1, MAX_RANKS),
            "`nodes` times `ntasks_per_node`",
            "with `argv`: tasks in all, as `--ntasks`",
        ),
        or(
            "nodes",
            Shape::Integer(1, MAX_RANKS),
            "as many as `ntasks` and `ntasks_per_node` need, else 1",
            "Slurm nodes, as `--nodes`; each acts as the node of the cluster with the same number, a single one as all of them",
        ),
        or(
            "ntasks_per_node",
            Shape::Integer(1, MAX_RANKS),
            "`ntasks` divided by `nodes`, if that is a whole number",
            "with `argv`: tasks on each node, as `--ntasks-per-node`",
        ),
        optional("options", WORDS, "further options of srun: `[--partition=debug, --time=5]`"),
    ]],
    rules: &[Rule::OneOf(&["argv", "torchrun"]), Rule::With("ntasks", "argv"), Rule::With("ntasks_per_node", "argv")],
};

pub(crate) static SRUN_TORCHRUN: Section = Section {
    name: "srun_torchrun",
    what: "`torchrun`",
    about: "How PyTorch's launcher is called on each node of `srun`.",
    keys: &[&[
        required("nproc_per_node", Shape::Integer(1, MAX_RANKS), "ranks per node"),
        required("script", Shape::Text, "the Python script, from [`cwd`](#cwd)"),
        optional("args", WORDS, "its arguments"),
        or("max_restarts", Shape::Integer(0, 100), "0", "how often the workers are restarted"),
    ]],
    rules: &[],
};
