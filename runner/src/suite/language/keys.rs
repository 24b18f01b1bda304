//! The keys of a suite, of its cases, and of what cases start.

use protocol::{clock, sanitizer};

use super::{
    Key, Needs, Rule, Section, Shape, cluster, expect, fixture, gpu, launch, network, optional, or, relation, required,
    when,
};
use crate::check::repeat::EXCEPTIONS;

const TEXTS: Shape = Shape::List(0, &Shape::Text);
const RANK: Shape = Shape::Integer(0, u32::MAX);
/// Most attempts after the first.
pub(crate) const MOST_RETRIES: u32 = 20;

pub(crate) static SUITE: Section = Section {
    name: "suite",
    what: "a suite",
    about: "A suite file.",
    keys: &[&[
        required("ftest", Shape::Literal(&Shape::Exactly(1)), "version of the language"),
        required("suite", Shape::Literal(&Shape::Name), "its name, unique in a run"),
        optional("description", Shape::Literal(&Shape::Text), "free text"),
        optional(
            "clusters",
            Shape::Literal(&Shape::Names(&Shape::Section(&cluster::CLUSTER))),
            "[clusters](clusters.md) that cases use by name: `{file: PATH}`, or the contents of a cluster file",
        ),
        optional(
            "timeout",
            Shape::Literal(&Shape::Duration),
            "time for all its cases together, from the start of the first; after that, cases that run or have not started get the verdict timeout",
        ),
        optional(
            "groups",
            Shape::Literal(&Shape::Names(&Shape::Section(&GROUP))),
            "[groups](#resources) of cases, with a limit on how many of a group run at once",
        ),
        optional(
            "fixtures",
            Shape::Literal(&Shape::Names(&Shape::Section(&fixture::FIXTURE))),
            "[fixtures](#fixtures) that cases use",
        ),
        optional(
            "defaults",
            Shape::Literal(&Shape::Section(&DEFAULTS)),
            "values for every case that does not set its own",
        ),
        required("cases", Shape::Literal(&Shape::List(1, &Shape::Section(&CASE))), "the cases"),
    ]],
    rules: &[],
};

/// The keys of cases and of `defaults`.
static COMMON: &[Key] = &[
    or(
        "cluster",
        Shape::Either(&[Shape::Text, Shape::Null, Shape::Section(&cluster::CLUSTER)]),
        "none: no shim, no coordinator",
        "a name from `clusters`, or a cluster written in place; `~` for none",
    ).everywhere(),
    or("coordinator", Shape::Bool, "`true` with a cluster", "`false`: a cluster without a coordinator (devices only)").needs(Needs::Cluster("it is the cluster's")),
    or(
        "transport",
        Shape::Choice(&["unix", "tcp"]),
        "`unix`",
        "how ranks reach the coordinator. Under `tcp` tensor bytes go over sockets too, and tasks of `srun` may run on \
             [other machines](slurm.md#tasks-on-other-machines)",
    ).needs(Needs::Coordinator("it is how ranks reach the coordinator")),
    optional(
        "network",
        Shape::Section(&network::NETWORK),
        "the nodes are [apart](#network), each in its own network namespace, and connected by links like this: `{}` for perfect \
         ones. Without the privileges for this, the case is skipped",
    ).needs(Needs::Coordinator("it connects nodes")),
    or(
        "cwd",
        Shape::Text,
        "the suite's directory",
        "the [directory](#cwd) in which processes run, from the suite's: `..`, or `${{ repository }}`",
    ).everywhere(),
    optional(
        "env",
        Shape::Names(&Shape::Either(&[Shape::Word, Shape::Null])),
        "variable → value, for every process; `~` removes it",
    ).needs(Needs::Else("every case; see [variables](#what-a-process-sees)", "refused: variables that ftest or the launcher sets")),
    or(
        "env_inherit",
        TEXTS,
        "everything except what an outer launcher set",
        "the only variables to inherit: names, or `LC_*`. ftest always sets its own",
    ).needs(Needs::Else("every case", "refused: variables of outer launchers")),
    or(
        "timeout",
        Shape::Either(&[Shape::Duration, Shape::Section(&TIMEOUT)]),
        "see [timeout](#keys-of-timeout)",
        "deadlines, or one duration for `kill`",
    ).everywhere(),
    optional(
        "requires",
        Shape::List(0, &Shape::Section(&REQUIREMENT)),
        "[conditions](#requires); if one is not met, the case is skipped with the reason",
    ).everywhere(),
    optional(
        "python",
        launch::PYTHON_SHAPE,
        "a [managed environment](python.md): `{torch: \"2.15.0\"}`, `[torch==2.15.0, numpy]` or [what your repository requires](#keys-of-python); `system`: [the one on PATH](python.md#which-python-runs). Without it, torchrun gets a managed one and any other program the one on PATH",
    ).everywhere(),
    optional("uses", TEXTS, "[fixtures](#fixtures) to set up before the case and tear down after it").everywhere(),
    optional("resources", Shape::Section(&RESOURCES), "what the case needs of the machine").everywhere(),
    or(
        "retries",
        Shape::Either(&[Shape::Integer(0, MOST_RETRIES), Shape::Section(&RETRIES)]),
        "0",
        "further [attempts](#retries) after one that did not pass",
    ).needs(Needs::Else("every case; not by `--repeat` and `--stress`", "noted")),
    optional("tags", TEXTS, "words for `--filter 'tag(...)'`").everywhere(),
    optional("allow_gaps", TEXTS, "patterns of [gaps](gaps.md) that do not break the case").everywhere(),
    or(
        "sanitize",
        Shape::List(0, &Shape::Choice(sanitizer::WORDS)),
        "[races, replicas]",
        "what else is [checked](findings.md#sanitizers) while it runs; `[]` for nothing",
    ).needs(Needs::Cluster("it looks into simulated GPUs")),
    or(
        "clock",
        Shape::Choice(clock::WORDS),
        "real",
        "what tells the time: this machine, or the [time model](clock.md) of the simulated GPUs",
    ).needs(Needs::Cluster("it tells the times of simulated GPUs")),
];

pub(crate) static DEFAULTS: Section = Section {
    name: "defaults",
    what: "`defaults`",
    about: "Values for every case that does not set its own. `tags`, `allow_gaps`, `requires`, `uses` and `env` are combined.",
    keys: &[COMMON],
    rules: &[],
};

pub(crate) static CASE: Section = Section {
    name: "case",
    what: "a case",
    about: "One launch and its expected results; with a matrix, several.",
    keys: &[
        &[
            required(
                "id",
                Shape::Literal(&Shape::Name),
                "unique in the suite. A matrix adds `[axis=value,...]`, sorted by name",
            ).everywhere(),
            optional("title", Shape::Text, "free text, shown when the case does not pass").everywhere(),
            required("launch", Shape::Section(&launch::LAUNCH), "what is started").everywhere(),
            or("expect", Shape::Section(&expect::EXPECT), "everything exits with 0", "the expected results").everywhere(),
            optional(
                "xfail",
                Shape::Either(&[Shape::Text, Shape::Section(&XFAIL)]),
                "it is [known to fail](#xfail): a failure counts as `xfailed`, a pass is a failure",
            ).everywhere(),
            optional("schedule", Shape::Section(&relation::SCHEDULE), "[delays on purpose](#schedule), drawn from a seed").needs(Needs::Cluster("the delays happen in simulated GPUs")),
            or(
                "deterministic",
                Shape::Either(&[Shape::Bool, Shape::Section(&DETERMINISTIC)]),
                "`false`",
                "it is [run twice](#deterministic), and what it prints and writes, its reports and its replicas must be the same",
            ).everywhere(),
            optional(
                "holds_under",
                Shape::List(1, &Shape::Either(&[Shape::Choice(relation::WORDS), Shape::Section(&relation::RELATION)])),
                "[changes that must not change the result](#holds_under); the case is run again with each of them",
            ).everywhere(),
            optional("compared", Shape::Section(&relation::COMPARED), "what must not change under them").everywhere(),
            optional("matrix", Shape::Literal(&Shape::Section(&MATRIX)), "several cases from one").everywhere(),
            optional("kill", Shape::List(0, &Shape::Section(&KILL)), "processes to kill while it runs").needs(Needs::Else("every case; one plain process counts as rank 0", "fails the case where it is never triggered")),
            optional("faults", Shape::List(0, &Shape::Section(&FAULT)), "faults to inject into NCCL").needs(Needs::Coordinator("they hit NCCL operations")),
            optional(
                "gpu",
                Shape::Names(&Shape::Either(&[
                    Shape::Section(&gpu::EVENT),
                    Shape::List(1, &Shape::Section(&gpu::EVENT)),
                ])),
                "events that change the health of GPUs; `node0/3` is the fourth of `node0`",
            ).needs(Needs::Coordinator("it is about simulated GPUs")),
        ],
        COMMON,
    ],
    rules: &[Rule::With("holds_under", "compared"), Rule::With("compared", "holds_under")],
};

pub(crate) static TIMEOUT: Section = Section {
    name: "timeout",
    what: "`timeout`",
    about: "Deadlines of a case.",
    keys: &[&[
        or("slow", Shape::Duration, "30s", "after this a passing case is marked slow").everywhere(),
        or("kill", Shape::Duration, "120s", "after this the case is ended; its verdict is timeout").everywhere(),
        or("grace", Shape::Duration, "3s", "between SIGTERM and SIGKILL").everywhere(),
        or(
            "idle",
            Shape::Either(&[Shape::Choice(&["never"]), Shape::Duration]),
            "never",
            "the case has [hung](#hang) if no collective, send or recv ended for this long while a rank waits in one",
        ).needs(Needs::Coordinator("it watches collectives")),
        or(
            "survivors",
            Shape::Either(&[Shape::Choice(&["never"]), Shape::Duration]),
            "10s",
            "how long the others may continue after a rank or launcher ended with an error that `expect.exit` does not allow: then \
             they are [ended](#death), and the verdict is failed",
        ).needs(Needs::Several),
    ]],
    rules: &[],
};

pub(crate) static RESOURCES: Section = Section {
    name: "resources",
    what: "`resources`",
    about: "What a case needs of the machine.",
    keys: &[&[
        or("cpus", Shape::Integer(1, 1024), "1", "slots of `--jobs`"),
        or("memory", Shape::Size, "none", "memory, `4GiB`: the running cases together stay below what the machine has"),
        optional(
            "groups",
            TEXTS,
            "names of `groups` at the top of the suite, which limit how many of their cases run at once",
        ),
    ]],
    rules: &[],
};

pub(crate) static GROUP: Section = Section {
    name: "group",
    what: "a group",
    about: "A limit on how many cases run at once. Suites of a run share groups by name.",
    keys: &[&[required(
        "max",
        Shape::Literal(&Shape::Integer(1, 1024)),
        "how many run at once; with 1, one at a time",
    )]],
    rules: &[],
};

const CLASS: Shape =
    Shape::Either(&[Shape::Choice(&["infra", "timeout", "crash", "check"]), Shape::Section(&RETRY_CLASS)]);

pub(crate) static RETRIES: Section = Section {
    name: "retries",
    what: "`retries`",
    about: "Further attempts after one that did not pass.",
    keys: &[&[
        required("count", Shape::Integer(0, MOST_RETRIES), "maximum number of attempts after the first"),
        or(
            "only_if",
            Shape::Either(&[CLASS, Shape::List(1, &CLASS)]),
            "every failure except a gap is retried",
            "only an attempt of one of these classes is retried",
        ),
        or("delay", Shape::Duration, "none", "between two attempts"),
        or(
            "flaky",
            Shape::Choice(&["pass", "fail"]),
            "`fail` if `CI` is set, else `pass`",
            "what a pass after a failure counts as",
        ),
    ]],
    rules: &[],
};

pub(crate) static RETRY_CLASS: Section = Section {
    name: "only_if",
    what: "a class",
    about: "A class of attempts by what was written; one key.",
    keys: &[&[
        optional("stdout", Shape::Regex, "any rank or launcher wrote this to stdout"),
        optional("stderr", Shape::Regex, "any rank or launcher wrote this to stderr"),
    ]],
    rules: &[Rule::OneOf(&["stdout", "stderr"])],
};

pub(crate) static XFAIL: Section = Section {
    name: "xfail",
    what: "`xfail`",
    about: "The case is known to fail. A text alone is the reason.",
    keys: &[&[
        required("reason", Shape::Text, "why it fails"),
        optional("issue", Shape::Word, "where that is tracked"),
        or("strict", Shape::Bool, "`true`", "a pass is a failure"),
        optional("until", Shape::Word, "the last day on which the mark applies, `2027-03-01` (UTC)"),
        optional(
            "if",
            Shape::Either(&[Shape::Bool, Shape::Expression]),
            "only if this is true, an expression without `${{ }}`: `matrix.world > 4`",
        ),
    ]],
    rules: &[],
};

pub(crate) static DETERMINISTIC: Section = Section {
    name: "deterministic",
    what: "`deterministic`",
    about: "The case is run twice, and the runs must not differ. `true` for no exception.",
    keys: &[&[
        optional(
            "ignore",
            Shape::List(0, &Shape::Regex),
            "what does not count in a line of output, such as times: `'[0-9.]+ ms'`",
        ),
        optional("except", Shape::List(0, &Shape::Choice(EXCEPTIONS)), "what is not compared at all"),
        optional(
            "except_files",
            Shape::List(0, &Shape::Text),
            "globs of files that are not compared, by name or by path from `FTEST_SCRATCH`: `'*.log'`",
        ),
    ]],
    rules: &[],
};

pub(crate) static REQUIREMENT: Section = Section {
    name: "requires",
    what: "`requires`",
    about: "A condition; each item has one key.",
    keys: &[&[
        optional("platform", Shape::Word, "`linux` or `linux-x86_64`"),
        optional("command", Shape::Word, "a program on `PATH`"),
        optional("env", Shape::Word, "`NAME` (set, and not empty) or `NAME=value`"),
        optional("file", Shape::Word, "a file, from the suite's directory"),
        optional(
            "python_module",
            Shape::Either(&[Shape::Word, Shape::Section(&MODULE)]),
            "a module that the case's Python can import, with a version if that matters",
        ),
        optional("cpus", Shape::Integer(1, 1024), "at least this many CPUs that ftest may use"),
        optional("memory", Shape::Size, "at least this much memory, free or not"),
        optional("shm", Shape::Size, "at least this much room in `/dev/shm`"),
        optional("not", Shape::Section(&REQUIREMENT), "this condition is not met"),
        optional("any", Shape::List(1, &CONDITION), "at least one of these"),
        optional("all", Shape::List(1, &CONDITION), "each of these"),
        optional(
            "torch",
            Shape::Word,
            "a version of PyTorch. Never skips: it puts that version, and NumPy, into the case's Python environment",
        ),
    ]],
    rules: &[Rule::OneOf(&[
        "platform",
        "command",
        "env",
        "file",
        "python_module",
        "cpus",
        "memory",
        "shm",
        "not",
        "any",
        "all",
        "torch",
    ])],
};

static CONDITION: Shape = Shape::Section(&REQUIREMENT);

pub(crate) static MODULE: Section = Section {
    name: "python_module",
    what: "`python_module`",
    about: "A module of the case's Python.",
    keys: &[&[
        required("name", Shape::Text, "the name to import"),
        optional("version", Shape::Word, "versions of its package, as pip writes them: `>=2.6,<3`"),
    ]],
    rules: &[],
};

/// What a matrix may hold.
static CELL: Shape = Shape::Literal(&Shape::Word);

pub(crate) static MATRIX: Section = Section {
    name: "matrix",
    what: "`matrix`",
    about: "Several cases from one. No expressions here.",
    keys: &[&[
        optional("axes", Shape::Names(&Shape::Literal(&Shape::List(1, &CELL))), "name → values: every combination"),
        optional(
            "include",
            Shape::Literal(&Shape::List(0, &Shape::Names(&CELL))),
            "more values for the combinations that it matches, or a combination of its own, as on GitHub",
        ),
        optional(
            "exclude",
            Shape::Literal(&Shape::List(0, &Shape::Names(&CELL))),
            "combinations to leave out; an item that matches none is a mistake",
        ),
        or("max", Shape::Literal(&Shape::Integer(1, 10_000)), "256", "maximum number of combinations"),
    ]],
    rules: &[],
};

pub(crate) static KILL: Section = Section {
    name: "kill",
    what: "`kill`",
    about: "A process to kill. A kill that is never triggered fails the case.",
    keys: &[&[
        required(
            "target",
            Shape::Either(&[Shape::Choice(&["coordinator"]), Shape::Section(&TARGET)]),
            "`{rank: 1}`, `{node: 0}` or `coordinator`",
        ),
        or("signal", Shape::Text, "SIGKILL", "the signal's name"),
        required("when", Shape::Section(&when::WHEN), "the trigger"),
    ]],
    rules: &[],
};

pub(crate) static TARGET: Section = Section {
    name: "target",
    what: "`target`",
    about: "What a `kill` hits.",
    keys: &[&[
        optional("rank", RANK, "a global rank"),
        optional("node", RANK, "all processes of a node, by its index"),
    ]],
    rules: &[Rule::OneOf(&["rank", "node"])],
};

pub(crate) static FAULT: Section = Section {
    name: "fault",
    what: "`faults`",
    about: "A failure to inject. A fault that never fires fails the case.",
    keys: &[&[
        optional("at", Shape::Section(&AT), "when; by default a link fails from the start"),
        required(
            "do",
            Shape::Either(&[
                Shape::Choice(&["kill", "stop", "nccl_error", "corrupt", "drop"]),
                Shape::Section(&FAULT_ACTION),
            ]),
            "what: see [faults](#faults)",
        ),
    ]],
    rules: &[],
};

pub(crate) static AT: Section = Section {
    name: "at",
    what: "`at`",
    about: "When a fault happens.",
    keys: &[
        &[optional("rank", RANK, "the global rank")],
        gpu::AT_COLLECTIVE,
        &[optional("after", Shape::Duration, "or after this time, counted from the process's first NCCL call")],
    ],
    rules: &[Rule::With("seq", "collective"), Rule::With("communicator", "collective")],
};

pub(crate) static FAULT_ACTION: Section = Section {
    name: "do",
    what: "`do`",
    about: "A fault that takes a value.",
    keys: &[&[
        optional("delay", Shape::Duration, "the rank arrives this much later"),
        optional("slow_link", Shape::Section(&SLOW_LINK), "every operation that crosses the link takes longer"),
        optional("cut_link", Shape::Section(&CUT_LINK), "every operation that crosses the link fails"),
    ]],
    rules: &[Rule::OneOf(&["delay", "slow_link", "cut_link"])],
};

static BETWEEN: &[Key] = &[required("between", Shape::List(2, &Shape::Text), "the two nodes, by their ids")];

pub(crate) static SLOW_LINK: Section = Section {
    name: "slow_link",
    what: "`slow_link`",
    about: "A slow link.",
    keys: &[
        BETWEEN,
        &[
            optional("delay", Shape::Duration, "added to every operation"),
            optional("gbps", Shape::Positive, "Gbit/s of the busier direction"),
        ],
    ],
    rules: &[Rule::AnyOf(&["delay", "gbps"])],
};

pub(crate) static CUT_LINK: Section =
    Section { name: "cut_link", what: "`cut_link`", about: "A link that is gone.", keys: &[BETWEEN], rules: &[] };
