//! The keys of fixtures.

use super::launch::PYTHON_SHAPE;
use super::{Rule, Section, Shape, optional, or, required};

const NAMES: Shape = Shape::Literal(&Shape::List(0, &Shape::Literal(&Shape::Text)));

pub(crate) static FIXTURE: Section = Section {
    name: "fixture",
    what: "a fixture",
    about: "Set-up that cases share by naming it in `uses`.",
    keys: &[&[
        or(
            "scope",
            Shape::Literal(&Shape::Choice(&["case", "suite"])),
            "`case`",
            "`case`: set up for each attempt of each case. `suite`: set up once, when the first case needs it, and torn down after the last",
        ),
        required(
            "setup",
            Shape::Section(&STEP),
            "sets it up: exits with 0 after writing every output to the file `$FTEST_OUTPUT`",
        ),
        optional(
            "teardown",
            Shape::Section(&STEP),
            "tears it down, however the cases ended. The outputs are in its environment",
        ),
        optional("outputs", NAMES, "names of variables that the setup writes, one line `NAME=VALUE` each"),
        optional("uses", NAMES, "fixtures to set up first"),
        optional(
            "env",
            Shape::Names(&Shape::Either(&[Shape::Word, Shape::Null])),
            "variable → value, for both steps; `~` removes it",
        ),
        or("cwd", Shape::Text, "that of `defaults`", "the directory in which both steps run, from the suite's"),
        optional("python", PYTHON_SHAPE, "a [managed environment](python.md) for both steps, or `system`"),
        or(
            "timeout",
            Shape::Either(&[Shape::Duration, Shape::Section(&STEP_TIMEOUT)]),
            "60s",
            "deadlines of each step, or one duration for `kill`",
        ),
    ]],
    rules: &[],
};

pub(crate) static STEP: Section = Section {
    name: "step",
    what: "a step",
    about: "A program that sets a fixture up or tears it down.",
    keys: &[&[
        optional("argv", Shape::List(0, &Shape::Word), "program and arguments; no shell"),
        optional("shell", Shape::Text, "text for `sh -c`"),
    ]],
    rules: &[Rule::OneOf(&["argv", "shell"])],
};

pub(crate) static STEP_TIMEOUT: Section = Section {
    name: "step_timeout",
    what: "`timeout`",
    about: "Deadlines of a step.",
    keys: &[&[
        or("kill", Shape::Duration, "60s", "after this the step is ended, and counts as failed"),
        or("grace", Shape::Duration, "3s", "between SIGTERM and SIGKILL"),
    ]],
    rules: &[],
};
