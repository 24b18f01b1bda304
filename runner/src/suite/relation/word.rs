//! The relations that are one word: what each changes, and where it would change nothing.

use std::collections::BTreeMap;

use model::node::Node;
use protocol::env::RELATION;
use protocol::schedule::Schedule;

use super::unchanged::Unchanged;
use crate::case::Launch;
use crate::case::relation::Relation;
use crate::suite::language::relation::WORDS;
use crate::suite::reader::Reader;

pub(super) const DELAYS_NOTHING: &str = "`schedule` of a relation without a cluster";
pub(super) const DELAYS_GPUS: &str = "the delays happen in simulated GPUs: add `cluster: ...`";

/// The locale of cases that set none.
const USUAL_LOCALE: &str = "C.UTF-8";

/// 0x3C: 0.0115 in float32 and bfloat16, 1.06 in float16. Unlike NaN and 0, it passes for a number of the program.
const SMALL: &str = "60";
/// 0xBC, where the case has the other.
const SMALL_NEGATIVE: &str = "188";

/// One of [`WORDS`].
pub(super) fn read(reader: &Reader<'_>, node: &Node, unchanged: Unchanged<'_>) -> Option<Relation> {
    let word = WORDS[reader.choice("holds_under", node, WORDS)?];
    match relation(word, unchanged) {
        Ok(relation) => Some(Relation { place: reader.place(&node.span), ..relation }),
        Err((message, help)) => {
            reader.mistake(&node.span, message, help);
            None
        }
    }
}

/// The relation of a word.
///
/// # Errors
/// It would change nothing: why, and what to do.
pub(super) fn relation(word: &str, unchanged: Unchanged<'_>) -> Result<Relation, (String, &'static str)> {
    let refusal = match word {
        "schedule" if unchanged.cluster.is_none() => Some((DELAYS_NOTHING.to_owned(), DELAYS_GPUS)),
        "fresh-memory" if unchanged.cluster.is_none() => {
            let help = "the memory of simulated GPUs is filled: add `cluster: ...`";
            Some(("`fresh-memory` without a cluster".to_owned(), help))
        }
        "workers" | "bucket-size" if unchanged.cluster.is_none() => {
            let help = "it is changed where PyTorch finds its GPU: add `cluster: ...`";
            Some((format!("`{word}` without a cluster"), help))
        }
        "rank-order" => same_places(unchanged),
        "start-order" => same_starts(unchanged.launch),
        _ => None,
    };
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let jitter = unchanged.schedule.map_or(Schedule::JITTER, |schedule| schedule.jitter);
    Ok(Relation {
        name: word.to_owned(),
        schedule: (word == "schedule").then_some(Schedule { seed: 1, jitter }),
        reverses_ranks: word == "rank-order",
        reverses_starts: word == "start-order",
        changes_clock: word == "clock",
        env: variables(word, unchanged.env, unchanged.env_unset),
        ..Relation::default()
    })
}

/// The variables behind a word, with values that the case does not have.
fn variables(word: &str, env: &BTreeMap<String, String>, unset: &[String]) -> BTreeMap<String, Option<String>> {
    let inherited = |variable: &str| std::env::var(variable).ok();
    let pairs = match word {
        "hash-seed" => {
            let own = env.get("PYTHONHASHSEED").cloned().or_else(|| inherited("PYTHONHASHSEED"));
            vec![("PYTHONHASHSEED", if own.as_deref() == Some("1") { "2" } else { "1" })]
        }
        // Not a whole number of hours from UTC, and its date is another one for most of the day.
        "time-zone" => {
            const FAR: &str = "<+1345>-13:45";
            vec![("TZ", if env.get("TZ").is_some_and(|own| own == FAR) { "UTC" } else { FAR })]
        }
        "fresh-memory" => {
            let own = env.get("FAKEGPU_FRESH_MEMORY").map(String::as_str);
            vec![("FAKEGPU_FRESH_MEMORY", if own == Some(SMALL) { SMALL_NEGATIVE } else { SMALL })]
        }
        "workers" => vec![(RELATION.name, "workers")],
        "bucket-size" => vec![(RELATION.name, "bucket-size")],
        "locale" => {
            let own = match env.get("LC_ALL") {
                Some(own) => own.clone(),
                None if unset.iter().any(|name| name == "LC_ALL") => {
                    env.get("LANG").cloned().or_else(|| inherited("LANG")).unwrap_or_default()
                }
                None => USUAL_LOCALE.to_owned(),
            };
            other_locale(&own, env)
        }
        _ => Vec::new(),
    };
    pairs.into_iter().map(|(name, value)| (name.to_owned(), Some(value.to_owned()))).collect()
}

/// A locale with another character set. Since Python takes UTF-8 in the locale C, too, it is told not to; what it prints stays
/// UTF-8, so that a progress bar is no difference.
fn other_locale(own: &str, env: &BTreeMap<String, String>) -> Vec<(&'static str, &'static str)> {
    let own = own.to_ascii_lowercase();
    if !own.ends_with("utf-8") && !own.ends_with("utf8") {
        return vec![("LC_ALL", USUAL_LOCALE)];
    }
    let of_python = [("PYTHONUTF8", "0"), ("PYTHONIOENCODING", "utf-8")];
    let of_python = of_python.into_iter().filter(|(name, _)| !env.contains_key(*name));
    [("LC_ALL", "C")].into_iter().chain(of_python).collect()
}

/// Why the ranks have no other places.
fn same_places(unchanged: Unchanged<'_>) -> Option<(String, &'static str)> {
    let refusal = |why: &str, help| Some((format!("`rank-order` {why}"), help));
    match (unchanged.cluster, unchanged.launch) {
        (None, _) => refusal("without a cluster", "it gives ranks other nodes and GPUs: add `cluster: ...`"),
        (Some(cluster), _) if cluster.world_size() == 1 => {
            refusal("changes nothing: the cluster has one GPU", "give the cluster more GPUs, or leave it out")
        }
        (_, Some(Launch::Srun(_))) => {
            refusal("of a relation with `srun`", "its options say where ranks run: use `args` or `env`")
        }
        _ if unchanged.has_network => {
            refusal("with `network`", "its links belong to nodes by number: give it a case of its own")
        }
        _ => None,
    }
}

/// Why the processes have no other order.
fn same_starts(launch: Option<&Launch>) -> Option<(String, &'static str)> {
    let (message, help) = match launch {
        None | Some(Launch::Argv { ranks: Some(2..), .. } | Launch::Torchrun { nnodes: 2.., .. }) => return None,
        Some(Launch::Torchrun { .. }) => (
            "`start-order` changes nothing: there is one torchrun",
            "it starts the ranks of its node itself: start the program with `argv` and `ranks`, or with `nnodes: 2`",
        ),
        Some(Launch::Srun(_)) => ("`start-order` of a relation with `srun`", "Slurm starts the ranks: leave it out"),
        Some(Launch::Argv { .. }) => {
            ("`start-order` changes nothing: one process is started", "add `ranks: N` to `launch`")
        }
    };
    Some((message.to_owned(), help))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(word: &str, env: &[(&str, &str)], unset: &[&str]) -> Vec<String> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let unset: Vec<String> = unset.iter().map(|name| (*name).to_owned()).collect();
        let changed = variables(word, &env, &unset);
        changed.into_iter().map(|(name, value)| format!("{name}={}", value.unwrap())).collect()
    }

    #[test]
    fn each_variable_gets_a_value_that_the_case_does_not_have() {
        assert_eq!(changed("hash-seed", &[("PYTHONHASHSEED", "1")], &[]), ["PYTHONHASHSEED=2"]);
        assert_eq!(changed("hash-seed", &[("PYTHONHASHSEED", "0")], &[]), ["PYTHONHASHSEED=1"]);
        assert_eq!(changed("time-zone", &[], &[]), ["TZ=<+1345>-13:45"]);
        assert_eq!(changed("time-zone", &[("TZ", "<+1345>-13:45")], &[]), ["TZ=UTC"]);
        assert_eq!(changed("fresh-memory", &[], &[]), ["FAKEGPU_FRESH_MEMORY=60"]);
        assert_eq!(changed("fresh-memory", &[("FAKEGPU_FRESH_MEMORY", "60")], &[]), ["FAKEGPU_FRESH_MEMORY=188"]);
        assert_eq!(changed("workers", &[], &[]), ["FTEST_RELATION=workers"]);
        assert!(changed("twice", &[], &[]).is_empty());
    }

    #[test]
    fn another_locale_has_another_character_set() {
        let ascii = ["LC_ALL=C", "PYTHONIOENCODING=utf-8", "PYTHONUTF8=0"];
        assert_eq!(changed("locale", &[], &[]), ascii);
        assert_eq!(changed("locale", &[("LC_ALL", "en_US.utf8")], &[]), ascii);
        assert_eq!(changed("locale", &[("LC_ALL", "C")], &[]), ["LC_ALL=C.UTF-8"]);
        assert_eq!(changed("locale", &[("LANG", "C")], &["LC_ALL"]), ["LC_ALL=C.UTF-8"]);
        assert_eq!(changed("locale", &[("LANG", "de_DE.UTF-8")], &["LC_ALL"]), ascii);
        let own = [("PYTHONUTF8", "1"), ("PYTHONIOENCODING", "latin-1")];
        assert_eq!(changed("locale", &own, &[]), ["LC_ALL=C"], "the program's own choice stays");
    }
}
