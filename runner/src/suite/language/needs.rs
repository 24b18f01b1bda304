//! What a case must have for a key to be honored, and the table of that in docs/suites-reference.md. The reader refuses a key without it.

use super::{Key, Rule, Section, all};

/// What a case must have for a key to be honored. Without it the key is refused; below `defaults` it then does not concern the case,
/// but at least one case must honor it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// What its section needs.
    Section,
    /// Nothing: every case honors it, whatever it starts.
    Nothing,
    /// A cluster; why.
    Cluster(&'static str),
    /// A coordinator; why.
    Coordinator(&'static str),
    /// Ranks.
    Ranks,
    /// Several processes.
    Several,
    /// A launcher: torchrun, srun or one plain process.
    Launcher,
    /// Something that the reader of the key checks by itself: where it is honored, and what happens elsewhere.
    Else(&'static str, &'static str),
}

/// What a case has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Has {
    pub(crate) cluster: bool,
    pub(crate) coordinator: bool,
    /// `None` after a mistake in `launch`: then nothing depends on it.
    pub(crate) launch: Option<HasLaunch>,
    pub(crate) modeled_clock: bool,
}

/// What a launch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HasLaunch {
    pub(crate) ranks: bool,
    pub(crate) launcher: bool,
}

impl Needs {
    /// What is missing in a case that has only this, and what to do; `None` if it honors the key.
    pub(crate) fn missing(self, has: Has) -> Option<(&'static str, String)> {
        let launch = has.launch.unwrap_or(HasLaunch { ranks: true, launcher: true });
        match self {
            Self::Cluster(why) if !has.cluster => Some(("a cluster", format!("{why}: add `cluster: ...`"))),
            Self::Coordinator(why) if !has.coordinator => {
                Some(("a coordinator", format!("{why}: the case needs a cluster and its coordinator")))
            }
            Self::Ranks if !launch.ranks => Some(("ranks", "add `ranks: N` to `launch`".to_owned())),
            Self::Several if !launch.ranks => Some(("ranks", "one process has no survivors: leave it out".to_owned())),
            Self::Launcher if !launch.launcher => {
                Some(("a launcher", "with `ranks` every process is a rank: write `all` or `rank`".to_owned()))
            }
            _ => None,
        }
    }

    /// Where it is honored, and what happens elsewhere.
    fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Section => ("where its section is", ""),
            Self::Nothing => ("every case", ""),
            Self::Cluster(_) => ("with a cluster", "refused: `KEY` without a cluster"),
            Self::Coordinator(_) => ("with a coordinator", "refused: `KEY` without a coordinator"),
            Self::Ranks => ("with `ranks`, `torchrun` or `srun`", "refused: `KEY` without ranks"),
            Self::Several => ("with `ranks`, `torchrun` or `srun`", "refused: `KEY` without ranks"),
            Self::Launcher => ("with `torchrun`, `srun` or one plain process", "refused: `KEY` without a launcher"),
            Self::Else(place, otherwise) => (place, otherwise),
        }
    }
}

impl Section {
    /// What a key needs besides what the tables of keys say: another key of its section.
    fn other_key(&self, key: &Key) -> Option<&'static str> {
        self.rules.iter().find_map(|rule| match rule {
            Rule::With(one, other) if *one == key.name => Some(*other),
            _ => None,
        })
    }
}

/// The table of all keys: where each is honored, and what happens elsewhere. Keys of one section that agree share a row.
pub fn table() -> String {
    let mut out = String::from("| keys of | key | honored | elsewhere |\n|---|---|---|---|\n");
    for section in all().into_iter().filter(|section| section.name != "defaults") {
        let mut rows: Vec<(Vec<&str>, String, String)> = Vec::new();
        for key in section.keys() {
            let (mut place, otherwise) = key.needs.describe();
            let mut otherwise = otherwise.replace("KEY", key.name);
            let with = section.other_key(key).map(|other| format!("with `{other}`"));
            if let Some(with) = &with {
                place = with;
                otherwise = "refused".to_owned();
            }
            match rows.iter_mut().find(|(_, other, then)| *other == place && *then == otherwise) {
                Some((names, ..)) => names.push(key.name),
                None => rows.push((vec![key.name], place.to_owned(), otherwise)),
            }
        }
        for (names, place, otherwise) in rows {
            let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            out.push_str(&format!("| [`{0}`](#keys-of-{0}) | {names} | {place} | {otherwise} |\n", section.name));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::suite::language::{Shape, Unless};
    use crate::suite::{SuiteError, parse};

    /// Sections whose keys meet what a case has: each key says what it needs.
    const MEET: &[(&str, &str)] = &[
        ("case", "KEY"),
        ("launch", "launch: {KEY}"),
        ("timeout", "timeout: {KEY}"),
        ("expect", "expect: {KEY}"),
        ("exit", "expect: {exit: {KEY}}"),
    ];

    /// A value of this shape.
    fn sample(shape: &Shape) -> String {
        match shape {
            Shape::Bool => "true".to_owned(),
            Shape::Integer(least, _) => least.to_string(),
            Shape::Duration => "1s".to_owned(),
            Shape::Choice(words) => words[0].to_owned(),
            Shape::Path => "$.x".to_owned(),
            Shape::List(_, inner) => format!("[{}]", sample(inner)),
            Shape::Names(inner) => format!("{{0: {}}}", sample(inner)),
            Shape::Section(section) => {
                let required = section.keys().filter(|key| key.unless == Unless::Required);
                let entries: Vec<String> =
                    required.map(|key| format!("{}: {}", key.name, sample(&key.shape))).collect();
                format!("{{{}}}", entries.join(", "))
            }
            Shape::Either(choices) => sample(&choices[0]),
            Shape::Literal(inner) => sample(inner),
            _ => "x".to_owned(),
        }
    }

    fn mistakes(case: &str) -> String {
        let launch = if case.contains("launch:") { "" } else { ", launch: {argv: [x]}" };
        let text = format!("ftest: 1\nsuite: s\ncases:\n- {{id: c{launch}, {case}}}\n");
        match parse(Path::new("s.yaml"), &text, Path::new("/")) {
            Err(SuiteError::Mistakes(mistakes)) => mistakes.to_string(),
            _ => String::new(),
        }
    }

    #[test]
    fn keys_that_meet_what_a_case_has_say_what_they_need() {
        for section in all().into_iter().filter(|section| MEET.iter().any(|(name, _)| *name == section.name)) {
            for key in section.keys() {
                assert_ne!(key.needs, Needs::Section, "`{}` of `{}`", key.name, section.name);
            }
        }
    }

    #[test]
    fn a_key_without_what_it_needs_is_refused_at_its_place() {
        let mut refused = 0;
        for section in all() {
            for key in section.keys() {
                let nothing = Has {
                    cluster: false,
                    coordinator: false,
                    launch: Some(HasLaunch { ranks: false, launcher: key.needs != Needs::Launcher }),
                    modeled_clock: false,
                };
                let Some((what, _)) = key.needs.missing(nothing) else { continue };
                if section.name == "defaults" {
                    continue;
                }
                let (_, place) = MEET.iter().find(|(name, _)| *name == section.name).unwrap();
                let case = place.replace("KEY", &format!("{}: {}", key.name, sample(&key.shape)));
                let ranks = if key.needs == Needs::Launcher { ", launch: {argv: [x], ranks: 2}" } else { "" };
                let said = mistakes(&format!("{case}{ranks}"));
                let expected = format!("`{}` without {what}\n", key.name);
                assert!(said.contains(&expected), "{case}: {said}");
                assert!(said.contains("s.yaml:4:"), "{said}");
                // With what it needs, nothing of that is said.
                let whole = ", cluster: {nodes: 1, gpus_per_node: 2, profile: h100}";
                let launch = if key.needs == Needs::Launcher { "" } else { ", launch: {argv: [x], ranks: 2}" };
                let said = mistakes(&format!("{case}{launch}{whole}"));
                assert!(!said.contains(&expected), "{case}: {said}");
                refused += 1;
            }
        }
        assert!(refused > 12, "{refused}");
    }

    #[test]
    fn a_key_without_its_other_key_is_refused() {
        for (case, expected) in [
            ("launch: {argv: [x], args: [y]}", "`args` without `torchrun`"),
            ("launch: {srun: {argv: [x], ntasks: 1}, ranks: 2}", "`ranks` without `argv`"),
            ("python: {extras: [x], requirements: none.txt}", "`extras` without `project`"),
            ("launch: {argv: [x]}, cluster: {gpus_per_node: 2, profile: h100}", "`nodes` is missing"),
        ] {
            assert!(mistakes(case).contains(expected), "{case}: {}", mistakes(case));
        }
    }

    #[test]
    fn every_key_is_in_the_table() {
        let table = table();
        for section in all().into_iter().filter(|section| section.name != "defaults") {
            let rows: Vec<&str> =
                table.lines().filter(|line| line.starts_with(&format!("| [`{}`](", section.name))).collect();
            for key in section.keys() {
                let times = rows.iter().filter(|row| row.contains(&format!("`{}`", key.name))).count();
                assert!(times >= 1, "`{}` of `{}`", key.name, section.name);
            }
        }
    }
}
