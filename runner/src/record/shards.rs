//! Whether runs that are merged are all of what they are parts of: each shard says which part of which selection it is.

use std::collections::{BTreeMap, BTreeSet};

use super::Run;
use crate::case::Case;
use crate::filter::shard::{Shard, Shards};
use crate::host::checkout;
use crate::record::event::Whole;

/// What distinguishes shards of one run from those of another.
type Key<'run> = (Result<Shards, &'run str>, Option<&'run Whole>, &'run str);

/// The selection of `cases`, before a shard of it is taken.
pub fn whole<'case>(cases: impl Iterator<Item = &'case Case>) -> Whole {
    let ids: BTreeSet<String> = cases.map(Case::full_id).collect();
    let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
    Whole {
        cases: ids.len(),
        digest: format!("{:016x}", xxhash_rust::xxh64::xxh64(text.as_bytes(), 0)),
        commit: std::env::current_dir().ok().and_then(|here| checkout::commit(&here)),
        build: checkout::build(),
    }
}

/// What `parts` lack, one sentence for each run of which not all shards are there. Runs that are no shards lack nothing.
pub fn missing(parts: &[Run]) -> Vec<String> {
    let mut sets: BTreeMap<Key<'_>, Vec<(&Run, Option<Shard>)>> = BTreeMap::new();
    for part in parts {
        let Some(text) = part.info.shard.as_deref() else { continue };
        let shard = text.parse::<Shard>().ok();
        let kind = shard.map(|shard| shard.siblings()).ok_or(text);
        let key = (kind, part.info.whole.as_ref(), part.info.ftest.as_str());
        sets.entry(key).or_default().push((part, shard));
    }
    let several = sets.len() > 1;
    sets.iter().filter_map(|(key, members)| lacks(key, members, several)).collect()
}

/// What one set of shards lacks. With `several` sets, the sentence says which it is.
fn lacks((kind, whole, ftest): &Key<'_>, members: &[(&Run, Option<Shard>)], several: bool) -> Option<String> {
    let named = |of: &str| {
        let runs: Vec<&str> = members.iter().map(|(run, _)| run.info.run.as_str()).collect();
        let facts = whole.iter().flat_map(|whole| {
            let commit = whole.commit.as_deref().map(|commit| format!("commit {}", &commit[..commit.len().min(12)]));
            [Some(format!("{} cases {}", whole.cases, whole.digest)), commit, whole.build.clone()]
        });
        let facts: Vec<String> = facts.flatten().chain([format!("ftest {ftest}")]).collect();
        if several {
            format!("{of} of the run of {} ({})", runs.join(" and "), facts.join(", "))
        } else {
            of.to_owned()
        }
    };
    let Ok(kind) = kind else {
        return Some(format!(
            "what belongs to {} cannot be known: this ftest does not know such shards",
            members[0].0.info.run
        ));
    };
    // A shard without cases need not run.
    let ids: BTreeSet<&str> =
        members.iter().flat_map(|(run, _)| &run.cases).map(|case| case.info.case.as_str()).collect();
    if whole.is_some_and(|whole| whole.cases == ids.len()) {
        return None;
    }
    let there: BTreeSet<Shard> = members.iter().filter_map(|(_, shard)| *shard).collect();
    let may_hold = |part: &Shard| part.may_hold(whole.map_or(usize::MAX, |whole| whole.cases));
    let gone: Vec<String> =
        kind.parts().filter(|part| !there.contains(part) && may_hold(part)).map(|part| part.to_string()).collect();
    if let [only] = &gone[..] {
        return Some(format!("{} is missing", named(&format!("shard {only}"))));
    }
    if !gone.is_empty() {
        return Some(format!("{} are missing", named(&format!("shards {}", gone.join(", ")))));
    }
    let expected = (*whole)?.cases;
    Some(named(&format!("{} of {expected} cases", expected.saturating_sub(ids.len()))) + " are missing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::event::{CaseInfo, Event, RunInfo};

    fn part(name: &str, shard: Option<&str>, whole: Option<Whole>, cases: &[&str]) -> Run {
        let cases = cases.iter().map(|case| CaseInfo { case: (*case).into(), ..CaseInfo::default() }).collect();
        let shard = shard.map(str::to_owned);
        Run::from_events([&Event::RunStarted(RunInfo {
            run: name.into(),
            ftest: "1".into(),
            shard,
            whole,
            cases,
            ..RunInfo::default()
        })])
    }

    fn whole(cases: usize, commit: &str) -> Option<Whole> {
        Some(Whole { cases, digest: "d".into(), commit: Some(commit.into()), build: None })
    }

    #[test]
    fn each_shard_that_is_not_there_is_named() {
        let a = || part("a", Some("1/3"), whole(3, "x"), &["s/1"]);
        let b = || part("b", Some("2/3"), whole(3, "x"), &["s/2"]);
        let c = || part("c", Some("3/3"), whole(3, "x"), &["s/3"]);
        assert_eq!(missing(&[a()]), ["shards 2/3, 3/3 are missing"]);
        assert_eq!(missing(&[a(), c()]), ["shard 2/3 is missing"]);
        assert_eq!(missing(&[c(), b(), a()]), [""; 0]);
        // A shard that ran twice is not two shards.
        assert_eq!(missing(&[a(), part("again", Some("1/3"), whole(3, "x"), &["s/1"]), c()]), ["shard 2/3 is missing"]);
        assert_eq!(missing(&[part("h", Some("hash:2/2"), whole(1, "x"), &[])]), ["shard hash:1/2 is missing"]);
        assert_eq!(missing(&[part("no shard", None, None, &["s/1"])]), [""; 0]);
        // Plans leave out shards that have no case: the third of two cases, and of these ids every other by its hash.
        let two = [part("a", Some("1/3"), whole(2, "x"), &["s/1"]), part("b", Some("2/3"), whole(2, "x"), &["s/2"])];
        assert_eq!(missing(&two), [""; 0]);
        assert_eq!(missing(&two[..1]), ["shard 2/3 is missing"]);
        assert_eq!(missing(&[part("h", Some("hash:4/9"), whole(2, "x"), &["s/1", "s/2"])]), [""; 0]);
    }

    #[test]
    fn shards_of_two_runs_do_not_complete_each_other() {
        let one = part("one", Some("1/2"), whole(2, "aaaaaaaaaaaaaaaa"), &["s/1"]);
        let other = part("other", Some("2/2"), whole(2, "bbbb"), &["s/2"]);
        assert_eq!(
            missing(&[one.clone(), other]),
            [
                "shard 2/2 of the run of one (2 cases d, commit aaaaaaaaaaaa, ftest 1) is missing",
                "shard 1/2 of the run of other (2 cases d, commit bbbb, ftest 1) is missing"
            ]
        );
        let mixed = part("hash", Some("hash:2/2"), whole(2, "aaaaaaaaaaaaaaaa"), &["s/2"]);
        assert_eq!(missing(&[one.clone(), mixed]).len(), 2);
        let three = part("three", Some("3/3"), whole(2, "aaaaaaaaaaaaaaaa"), &["s/2"]);
        assert_eq!(missing(&[one.clone(), three]).len(), 2);
        let more_cases = part("more", Some("2/2"), whole(4, "aaaaaaaaaaaaaaaa"), &["s/2"]);
        assert_eq!(missing(&[one, more_cases]).len(), 2);
    }

    #[test]
    fn all_shards_have_all_cases() {
        let parts = [part("a", Some("1/2"), whole(3, "x"), &["s/1"]), part("b", Some("2/2"), whole(3, "x"), &["s/2"])];
        assert_eq!(missing(&parts), ["1 of 3 cases are missing"]);
        assert_eq!(
            missing(&[part("l", Some("later:1/2"), None, &[])]),
            ["what belongs to l cannot be known: this ftest does not know such shards"]
        );
    }
}
