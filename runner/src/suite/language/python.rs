//! The keys of `python`, which cases and fixtures have.

use super::{Rule, Section, Shape, optional};

const TEXTS: Shape = Shape::List(0, &Shape::Text);

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
