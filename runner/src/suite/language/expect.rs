//! The keys of `expect`: the expected results of a case.

use protocol::finding;

use super::{Key, Needs, Rule, Section, Shape, optional, or, required};

const BECAUSE: Key = optional("because", Shape::Text, "why; shown instead of the advice if the check fails");
const OF: Key = or(
    "of",
    Shape::Choice(&["cluster", "report", "device"]),
    "`cluster`",
    "the cluster report, or the list of all device reports",
)
.needs(Needs::Else(
    "`cluster` with a coordinator, `device` with a cluster",
    "refused: the cluster report without a coordinator",
));
const FATAL: Key = or("fatal", Shape::Bool, "`false`", "if the check fails, no later check is made").everywhere();
const RANKS: Shape = Shape::List(1, &Shape::Integer(0, u32::MAX));
const SCALAR: Shape = Shape::Word;
const SCALARS: Shape = Shape::Either(&[SCALAR, Shape::List(1, &SCALAR)]);

pub(crate) static EXPECT: Section = Section {
    name: "expect",
    what: "`expect`",
    about: "The expected results of a case. All checks are made and reported together, up to one that is `fatal`.",
    keys: &[&[
        or(
            "exit",
            Shape::Either(&[Shape::Integer(0, 255), Shape::Choice(&["nonzero", "any"]), Shape::Section(&EXIT)]),
            "0 for everything",
            "how processes [end](#exit)",
        ).everywhere(),
        optional(
            "stdout",
            Shape::Either(&[SCALAR, Shape::Section(&OUTPUT), OUTPUTS]),
            "what they [write](#stdout-stderr)",
        ).everywhere(),
        optional("stderr", Shape::Either(&[SCALAR, Shape::Section(&OUTPUT), OUTPUTS]), "the same for stderr").everywhere(),
        optional("report", Shape::List(0, &Shape::Section(&REPORT)), "values of [reports](#report)").needs(Needs::Cluster("reports are about simulated GPUs")),
        optional(
            "invariants",
            Shape::List(0, &Shape::Either(&[Shape::Expression, Shape::Section(&INVARIANT)])),
            "[expressions](#invariants) that must be true",
        ).needs(Needs::Else("every case; `report` with a coordinator, `devices` and `cluster` with a cluster", "refused: `report` without a coordinator, ...")),
        optional("perf", Shape::List(0, &Shape::Section(&PERF)), "[numbers](#perf) to compare with a reference").needs(Needs::Else("every case; a path with a coordinator, below `of: device` with a cluster", "refused: a number of the cluster report without a coordinator")),
        optional(
            "snapshot",
            Shape::Either(&[Shape::Section(&SNAPSHOT), Shape::List(0, &Shape::Section(&SNAPSHOT))]),
            "parts of reports that must equal an accepted [snapshot](#snapshot)",
        ).needs(Needs::Cluster("reports are about simulated GPUs")),
        optional(
            "within",
            Shape::Duration,
            "longest time from the first start to the last exit: do the survivors of a fault notice it?",
        ).everywhere(),
        or(
            "leaks",
            Shape::Choice(&["none", "allow"]),
            "no process, no socket",
            "what may be [left behind](#verdicts). `none`: nothing in `/dev/shm` or on the GPUs either (device and pinned memory, streams, events, communicators); `allow`: anything; processes are still ended",
        ).everywhere(),
        optional(
            "hang",
            Shape::Either(&[Shape::Text, Shape::List(0, &Shape::Text)]),
            "parts of the sentence of a [hang](#hang), which is then the expected result",
        ).needs(Needs::Coordinator("it knows who waits for whom")),
        optional(
            "findings",
            Shape::List(0, &Shape::Either(&[Shape::Choice(finding::WORDS), Shape::Section(&FINDING)])),
            "[findings](findings.md) that must occur, and do not fail the case; a kind alone is `{kind: KIND}`",
        ).needs(Needs::Cluster("findings are about simulated GPUs")),
        optional(
            "gaps",
            Shape::List(0, &Shape::Text),
            "patterns of [gaps](gaps.md) that the case must run into, and that do not break it",
        ).everywhere(),
    ]],
    rules: &[],
};

pub(crate) static FINDING: Section = Section {
    name: "finding",
    what: "a finding",
    about: "A finding that must occur, unless it is `optional`.",
    keys: &[&[
        required("kind", Shape::Choice(finding::WORDS), "its [kind](findings.md)"),
        optional("ranks", RANKS, "the global ranks at fault, all of them"),
        optional("contains", SCALARS, "parts of its sentence"),
        optional(
            "lines",
            Shape::Names(&Shape::Text),
            "by global rank, the line of the program that it called from: `train.py:31`, with as much of the path as is needed",
        ),
        or("optional", Shape::Bool, "`false`", "it may or may not occur, depending on timing"),
    ]],
    rules: &[],
};

static OUTPUT_ITEM: Shape = Shape::Either(&[SCALAR, Shape::Section(&OUTPUT)]);
const OUTPUTS: Shape = Shape::List(0, &OUTPUT_ITEM);
const EXIT_WANT: Shape =
    Shape::Either(&[Shape::Integer(0, 255), Shape::Choice(&["nonzero", "any"]), Shape::Section(&ONE_EXIT)]);

/// The keys of one exit.
static CODE_OR_SIGNAL: &[Key] = &[
    optional("code", Shape::Either(&[Shape::Integer(0, 255), Shape::Choice(&["nonzero"])]), "an exit code")
        .everywhere(),
    optional("signal", Shape::Text, "`SIGKILL`, ... or `any`").everywhere(),
];

pub(crate) static ONE_EXIT: Section = Section {
    name: "one_exit",
    what: "`exit`",
    about: "How one process ends, written out.",
    keys: &[CODE_OR_SIGNAL],
    rules: &[Rule::OneOf(&["code", "signal"])],
};

pub(crate) static EXIT: Section = Section {
    name: "exit",
    what: "`exit`",
    about: "How processes end. A rank follows its own rule, else `others`, else `all`; the default is code 0.",
    keys: &[
        &[
            optional(
                "all",
                EXIT_WANT,
                "every rank and launcher without its own rule: a code, `nonzero`, `any`, `{code: ...}` or `{signal: ...}`",
            ).everywhere(),
            optional("rank", Shape::Names(&EXIT_WANT), "by global rank").needs(Needs::Ranks),
            optional("others", EXIT_WANT, "the ranks not in `rank`").needs(Needs::Ranks),
            optional("launcher", EXIT_WANT, "torchrun, srun, or the one plain process").needs(Needs::Launcher),
            FATAL,
        ],
        CODE_OR_SIGNAL,
    ],
    rules: &[],
};

pub(crate) static OUTPUT: Section = Section {
    name: "output",
    what: "an output check",
    about: "A check of `stdout` or `stderr`. A text alone is `{contains: TEXT}`.",
    keys: &[&[
        or(
            "rank",
            Shape::Either(&[Shape::Integer(0, u32::MAX), RANKS, Shape::Choice(&["any", "all", "launcher"])]),
            "`any`; `all` for `absent`",
            "whose output: a global rank's, each of several ranks', at least one rank's, every rank's, or the launcher's. In a case without ranks, every word means the one process",
        ),
        optional("contains", SCALARS, "texts that must occur"),
        optional(
            "matches",
            SCALARS,
            "Rust regexes over bytes that must match somewhere; `^` and `$` are the start and end of a line",
        ),
        optional("absent", SCALARS, "texts that must not occur"),
        optional(
            "capture",
            Shape::Either(&[Shape::Text, Shape::List(0, &Shape::Text)]),
            "named groups of `matches` whose text becomes `captures.NAME`: see [captures](#captures)",
        ),
        FATAL,
        BECAUSE,
    ]],
    rules: &[Rule::AnyOf(&["contains", "matches", "absent"])],
};

/// Comparisons of one value.
static OPERATORS: &[Key] = &[
    optional("eq", Shape::Any, "equal, of any type; 4 equals 4.0, whole numbers are never rounded"),
    optional("ne", Shape::Any, "not equal"),
    optional("lt", Shape::Size, "less than a number or a size (`4KiB`, `80GB`)"),
    optional("le", Shape::Size, "less or equal"),
    optional("gt", Shape::Size, "greater"),
    optional("ge", Shape::Size, "greater or equal"),
    optional("between", Shape::List(2, &Shape::Size), "from the first to the second number or size, both included"),
    optional(
        "near",
        Shape::Either(&[Shape::AnyNumber, Shape::List(0, &Shape::AnyNumber)]),
        "within the larger of the two tolerances of this number; for a list, item by item. Infinities are near if their signs agree",
    ),
    optional("rel", Shape::NotNegative, "tolerance of `near`, relative to the larger number"),
    optional("abs", Shape::NotNegative, "tolerance of `near`, in units of the value"),
    optional(
        "dtype",
        Shape::Choice(&["float64", "float32", "float16", "bfloat16"]),
        "the tolerances of `torch.testing` for this datatype, unless `rel` or `abs` is given: see [near](#near)",
    ),
    or("nan", Shape::Choice(&["equal", "unequal"]), "`unequal`", "whether NaN is `near` NaN"),
    optional("unordered", Shape::Bool, "`true`: `eq` ignores the order of lists"),
    optional("in", Shape::List(0, &Shape::Any), "one of a list"),
    optional(
        "contains",
        Shape::Any,
        "a text that contains this, a list with this item, or one of several selected values",
    ),
    optional("matches", Shape::Regex, "a text that this Rust regex matches somewhere"),
    optional(
        "type",
        Shape::Choice(&["integer", "number", "text", "boolean", "list", "mapping", "null"]),
        "what the value is",
    ),
    optional("len", Shape::Integer(0, u32::MAX), "length of a list, mapping or text"),
    optional("unique", Shape::Bool, "`true`: a list without duplicates"),
    optional("sorted", Shape::Choice(&["ascending", "descending"]), "a list in this order; equal neighbors are fine"),
];

pub(crate) static OF_EACH: Section = Section {
    name: "operators",
    what: "a quantifier",
    about: "Comparisons inside `all` and `any`, of one selected value each.",
    keys: &[OPERATORS],
    rules: &[],
};

pub(crate) static COUNT: Section = Section {
    name: "count",
    what: "`count`",
    about: "How many of the selected values there are. A number alone is `{eq: NUMBER}`.",
    keys: &[&[
        or("where", Shape::Section(&OF_EACH), "all", "only values for which these comparisons hold count"),
        optional("eq", Shape::Integer(0, u32::MAX), "exactly"),
        optional("min", Shape::Integer(0, u32::MAX), "at least"),
        optional("max", Shape::Integer(0, u32::MAX), "at most"),
    ]],
    rules: &[Rule::AnyOf(&["eq", "min", "max"])],
};

pub(crate) static PERF: Section = Section {
    name: "perf",
    what: "`perf`",
    about: "A number to watch. The measured value is always kept.",
    keys: &[&[
        required("metric", Shape::Path, "the path of one number, or an expression over `captures`"),
        OF,
        or("name", Shape::Text, "the metric", "its name in reports"),
        optional("unit", Shape::Text, "for people"),
        optional("reference", Shape::Number, "the usual value"),
        optional(
            "lower",
            Shape::Either(&[Shape::Bound, Shape::Null]),
            "the case fails below it: a number, or a percentage relative to the reference (`-10%`); `~` for no bound",
        ),
        optional("upper", Shape::Either(&[Shape::Bound, Shape::Null]), "the case fails above it"),
        optional("warn_lower", Shape::Either(&[Shape::Bound, Shape::Null]), "the case gets a note below it"),
        optional("warn_upper", Shape::Either(&[Shape::Bound, Shape::Null]), "the case gets a note above it"),
        BECAUSE,
    ]],
    rules: &[Rule::AnyOf(&["lower", "upper", "warn_lower", "warn_upper"])],
};

pub(crate) static REPORT: Section = Section {
    name: "report",
    what: "a `report` check",
    about: "A check of report values. Without a quantifier exactly one value must be selected; a path that selects nothing fails unless the check asks for nothing.",
    keys: &[
        &[
            required("path", Shape::Path, "the part of the report: RFC 9535 JSONPath"),
            OF,
            optional(
                "rank",
                Shape::Either(&[Shape::Integer(0, u32::MAX), RANKS, Shape::Choice(&["all"])]),
                "the device report of this rank alone, of each of these, or of every rank: `path` starts in it",
            ),
        ],
        OPERATORS,
        &[
            optional("exists", Shape::Bool, "something is selected, or (`false`) nothing is"),
            optional("absent", Shape::Bool, "nothing is selected, or (`false`) something is"),
            optional("all", Shape::Section(&OF_EACH), "these comparisons hold for each selected value"),
            optional("any", Shape::Section(&OF_EACH), "these comparisons hold for at least one selected value"),
            optional("none", Shape::Section(&OF_EACH), "these comparisons hold for no selected value"),
            optional(
                "count",
                Shape::Either(&[Shape::Integer(0, u32::MAX), Shape::Section(&COUNT)]),
                "the number of selected values, or of those for which comparisons hold",
            ),
            FATAL,
            BECAUSE,
        ],
    ],
    rules: &[],
};

pub(crate) static INVARIANT: Section = Section {
    name: "invariant",
    what: "an invariant",
    about: "An expression that must be true. The expression alone is `{that: EXPRESSION}`.",
    keys: &[&[
        optional("id", Shape::Text, "a name for messages"),
        required("that", Shape::Expression, "the expression, without `${{ }}`"),
        FATAL,
        BECAUSE,
    ]],
    rules: &[],
};

pub(crate) static SNAPSHOT: Section = Section {
    name: "snapshot",
    what: "a snapshot",
    about: "An accepted part of a report. The keys apply in this order; `measured` is always left out.",
    keys: &[&[
        or("name", Shape::Name, "`report`", "its name, part of the file's name"),
        OF,
        or("select", Shape::List(0, &Shape::Path), "the whole report", "the parts. One that selects nothing fails"),
        optional("redact", Shape::Names(&Shape::Word), "path → text that replaces the value"),
        optional("round", Shape::Names(&Shape::Integer(0, 15)), "path → number of decimals"),
        optional(
            "sort",
            Shape::Names(&Shape::List(0, &Shape::Text)),
            "path of a list → fields to sort its items by (`[]`: by the items themselves)",
        ),
    ]],
    rules: &[],
};
