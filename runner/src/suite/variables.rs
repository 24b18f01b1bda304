//! Variables of `env` and `env_inherit` that a case cannot have: those that ftest or a launcher sets, and those of ftest that nothing
//! in the case would read.

use std::collections::BTreeSet;

use model::node::{Node, Value};
use protocol::env::{self, Scope};
use protocol::suggest;

use crate::case::Launch;
use crate::case::variables::{self, Fate, Kind};
use crate::suite::reader::Reader;

/// What a case has that its variables may depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Has<'a> {
    /// What it starts, unless that has a mistake.
    pub(super) launch: Option<&'a Launch>,
    pub(super) cluster: bool,
    pub(super) coordinator: bool,
}

/// Reports the variables of `env` that the case cannot have. What comes from `defaults` may lack a cluster in some cases.
pub(super) fn of_case(reader: &Reader<'_>, node: &Node, has: Has<'_>, defaults: bool) {
    let Value::Map(entries) = &node.value else { return };
    let kind = has.launch.map(Launch::kind);
    let starts_us = has.launch.is_some_and(starts_ftest);
    for entry in entries {
        let wrong = unknown(&entry.key)
            .or_else(|| of_launcher(&entry.key, kind?))
            .or_else(|| of_ftest(&entry.key, has, defaults, starts_us));
        if let Some((message, help)) = wrong {
            reader.mistake(&entry.key_span, message, help);
        }
    }
}

/// Reports the variables of a fixture's `env` that ftest sets.
pub(super) fn of_fixture(reader: &Reader<'_>, node: &Node) {
    let Value::Map(entries) = &node.value else { return };
    for entry in entries {
        let ours = || (set_by_us(&entry.key)).then(|| (format!("`{}` is set by ftest", entry.key), LEAVE.to_owned()));
        if let Some((message, help)) = unknown(&entry.key).or_else(ours) {
            reader.mistake(&entry.key_span, message, help);
        }
    }
}

/// Reports the names of `env_inherit` that no case inherits.
pub(super) fn inherited(reader: &Reader<'_>, node: &Node) {
    let Value::List(items) = &node.value else { return };
    for item in items {
        let Value::Text(name) = &item.value else { continue };
        if variables::is_of_outer_launcher(name.trim_end_matches('*')) {
            let help = "a launcher around ftest may have set it: write its value, or `\"${{ env.NAME }}\"`, in `env`";
            reader.mistake(&item.span, format!("`{name}` is never inherited"), help.replace("NAME", name));
        }
    }
}

const LEAVE: &str = "leave it out";

/// A name that starts like one of ours and is none of them.
fn unknown(name: &str) -> Option<(String, String)> {
    let near = misspelled(name)?;
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "nothing reads it; `ftest docs environment` lists the variables".to_owned(),
    };
    Some((format!("unknown variable `{name}`"), help))
}

/// The nearest variable to a name that starts like those of ftest and is none of them; `None` if there is nothing wrong with it.
/// A program may have names of its own that start with `FTEST_`.
pub fn misspelled(name: &str) -> Option<Option<&'static str>> {
    let known: BTreeSet<&'static str> = env::ALL.iter().map(|variable| variable.name).chain(variables::OURS).collect();
    if known.contains(name) {
        return None;
    }
    if name.starts_with("FAKEGPU_") {
        return Some(suggest::nearest(name, known.iter().copied()));
    }
    let rest = name.strip_prefix("FTEST_")?;
    let ours = known.iter().filter_map(|known| Some((known.strip_prefix("FTEST_")?, *known)));
    let near = suggest::nearest(rest, ours.clone().map(|(rest, _)| rest))?;
    let (_, near) =
        ours.clone().find(|(rest, _)| *rest == near).filter(|(near, _)| near.len().abs_diff(rest.len()) <= 2)?;
    Some(Some(near))
}

fn set_by_us(name: &str) -> bool {
    let ours = env::ALL.iter().any(|variable| variable.name == name && variable.scope == Scope::Ours);
    ours || variables::OURS.contains(&name)
}

fn of_launcher(name: &str, kind: Kind) -> Option<(String, String)> {
    let (who, help) = match variables::fate(name, kind) {
        Fate::Honored => return None,
        Fate::PerRank => {
            ("differs from rank to rank, and ftest sets it", "leave it out, or let the program set it: `sh -c '...'`")
        }
        Fate::ByTorchrun => {
            ("is set by torchrun in its workers", "leave it out, or start the program with `argv` and `ranks`")
        }
        Fate::OfTorchrun => ("is an option that ftest gives to torchrun", "use the keys of `torchrun`"),
        Fate::BySrun => ("is set by srun in each task", LEAVE),
    };
    Some((format!("`{name}` {who}"), help.to_owned()))
}

fn of_ftest(name: &str, has: Has<'_>, defaults: bool, starts_us: bool) -> Option<(String, String)> {
    if set_by_us(name) {
        return Some((format!("`{name}` is set by ftest"), LEAVE.to_owned()));
    }
    let variable = env::ALL.iter().find(|variable| variable.name == name)?;
    let without = |what: &str, help: &str| Some((format!("`{name}` without {what}"), help.to_owned()));
    match variable.scope {
        // `argv: [fgpu, ...]` and `[ftest, ...]` read every variable themselves.
        _ if starts_us => None,
        Scope::Cluster | Scope::Inherited if !has.cluster && !defaults => {
            without("a cluster", "simulated GPUs read it: add `cluster: ...`")
        }
        Scope::Coordinator if !has.coordinator && !defaults => {
            without("a coordinator", "the coordinator reads it: the case needs a cluster, and no `coordinator: false`")
        }
        Scope::OwnCoordinator if has.coordinator => Some((
            format!("`{name}` is set by ftest"),
            "for a coordinator of your own add `coordinator: false`".to_owned(),
        )),
        Scope::Key(help) => Some((format!("`{name}` is not for cases"), help.to_owned())),
        Scope::RealGpus => Some((
            format!("`{name}` is not for cases"),
            "GPUs of cases are simulated; `fgpu` uses real ones".to_owned(),
        )),
        Scope::Ftest(help) | Scope::Run(help) => {
            Some((format!("`{name}` is read by ftest, not by cases"), help.to_owned()))
        }
        _ => None,
    }
}

/// Whether the case starts a program of ftest, which reads the variables itself.
fn starts_ftest(launch: &Launch) -> bool {
    let Launch::Argv { argv, .. } = launch else { return false };
    let file = argv.first().map(|word| word.rsplit('/').next().unwrap_or_default());
    file.is_some_and(|file| matches!(file, "ftest" | "fgpu" | "fakegpu-coordinator"))
}
