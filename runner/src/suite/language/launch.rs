//! The keys of what a case starts: its launch, with torchrun or Slurm, and the Python of cases and fixtures.

use super::{MAX_RANKS, Needs, Rule, Section, Shape, optional, or, required};

const WORDS: Shape = Shape::List(0, &Shape::Word);
const TEXTS: Shape = Shape::List(0, &Shape::Text);

pub(crate) static LAUNCH: Section = Section {
    name: "launch",
    what: "`launch`",
    about: "What a case starts.",
    keys: &[&[
        optional("argv", WORDS, "program and arguments; no shell").everywhere(),
        optional(
            "ranks",
            Shape::Integer(1, MAX_RANKS),
            "with `argv`: that many ranks, placed on the cluster's nodes in rank order; one plain process without it",
        ).everywhere(),
        optional("torchrun", Shape::Section(&TORCHRUN), "PyTorch's launcher, one per node").everywhere(),
        optional("srun", Shape::Section(&SRUN), "Slurm's launcher: [what is needed](slurm.md)").everywhere(),
        optional("args", WORDS, "arguments of the script of `torchrun`").everywhere(),
        or(
            "warm",
            Shape::Either(&[Shape::Bool, TEXTS]),
            "`true` where it saves time",
            "whether Python processes are forked from one that has imported PyTorch ([warm starts](python.md#warm-starts)); modules to import there as well: `[transformers]`",
        ).needs(Needs::Else("Python under a cluster, except below `srun`; else `true` and modules are noted: the processes start cold", "refused: `warm` with `srun`")),
    ]],
    rules: &[Rule::OneOf(&["argv", "torchrun", "srun"]), Rule::With("ranks", "argv"), Rule::With("args", "torchrun")],
};

pub(crate) static TORCHRUN: Section = Section {
    name: "torchrun",
    what: "`torchrun`",
    about: "How PyTorch's launcher is called.",
    keys: &[&[
        required("nproc_per_node", Shape::Integer(1, MAX_RANKS), "ranks per node"),
        or("nnodes", Shape::Integer(1, MAX_RANKS), "1", "nodes"),
        required("script", Shape::Text, "the Python script, from [`cwd`](#cwd)"),
        optional("args", WORDS, "its arguments; they may also be next to `torchrun`"),
        or("max_restarts", Shape::Integer(0, 100), "0", "how often the workers are restarted"),
    ]],
    rules: &[],
};

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

/// Packages, versions by name, files of a repository, or the Python on PATH.
pub(crate) const PYTHON_SHAPE: Shape =
    Shape::Either(&[TEXTS, Shape::Section(&PYTHON), Shape::Names(&Shape::Word), Shape::Choice(&["system"])]);

pub(crate) static PYTHON: Section = Section {
    name: "python",
    what: "`python`",
    about: "What a repository says it requires, as a [managed environment](python.md#your-repository).",
    keys: &[&[
        optional(
            "requirements",
            Shape::Either(&[Shape::Text, TEXTS]),
            "a requirements file, one with hashes, or a `pylock.toml`; or several, from the suite's directory",
        ),
        optional(
            "project",
            Shape::Text,
            "the directory of a `pyproject.toml`: its dependencies, and the project itself, editable, if it has a `[build-system]`",
        ),
        optional("extras", TEXTS, "extras of the project"),
        optional("packages", TEXTS, "further packages, as in a list"),
        optional(
            "compile",
            Shape::Bool,
            "also Triton, in the version that PyTorch asks for: `torch.compile` [runs](compile.md). It can also be \
             one of the versions by name",
        ),
    ]],
    rules: &[Rule::AnyOf(&["requirements", "project", "compile"]), Rule::With("extras", "project")],
};
