//! Files that several ranks access, and nothing orders them; and checkpoints whose shards were saved after other steps.

use std::collections::{BTreeMap, BTreeSet};

use protocol::file_access::FileAccess;
use protocol::ids::Rank;

/// Directories that every node has for itself.
const OF_NODES: &[&str] = &["/tmp/", "/var/tmp/", "/dev/shm/", "/run/"];

/// Accesses that do not fit together.
#[derive(Debug, PartialEq, Eq)]
pub struct Conflict {
    /// That of the rank that is named second.
    pub access: FileAccess,
    /// What is wrong, in one sentence.
    pub sentence: String,
}

/// A file and a line of it.
type Line<'a> = Option<(&'a str, u32)>;

/// Where the accesses of ranks do not fit together, once for each pair of lines.
pub fn conflicts(accesses: &[FileAccess]) -> Vec<Conflict> {
    let mut sorted: Vec<&FileAccess> = accesses.iter().collect();
    sorted.sort_by_key(|access| access.rank);
    let mut conflicts = unordered(&sorted);
    conflicts.extend(other_steps(&sorted));
    conflicts
}

fn line(access: &FileAccess) -> Line<'_> {
    access.site.as_ref().map(|site| (site.file.as_str(), site.line))
}

/// " (train.py:7)", if the line is known.
fn in_brackets(access: &FileAccess) -> String {
    let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    line(access).map_or_else(String::new, |(path, line)| format!(" ({}:{line})", file(path)))
}

/// Files that a rank writes while another may write or read them.
fn unordered(accesses: &[&FileAccess]) -> Vec<Conflict> {
    let mut by_file: BTreeMap<(&str, u32, u32), Vec<&FileAccess>> = BTreeMap::new();
    let by_node = written_by_node(accesses);
    for access in accesses {
        let path = access.noted.path.as_str();
        let is_of_node = by_node.contains(path) || OF_NODES.iter().any(|directory| path.starts_with(directory));
        let node = if is_of_node { access.node } else { 0 };
        by_file.entry((path, node, access.noted.attempt)).or_default().push(access);
    }
    let mut known: BTreeSet<(Line<'_>, Line<'_>)> = BTreeSet::new();
    let mut conflicts = Vec::new();
    for ((path, ..), accesses) in by_file {
        for (place, second) in accesses.iter().enumerate() {
            let is_conflict = |first: &&&FileAccess| {
                first.rank != second.rank && (first.noted.writes || second.noted.writes) && are_unordered(first, second)
            };
            let Some(first) = accesses[..place].iter().find(is_conflict) else { continue };
            // The reader, or else the higher rank.
            let (writer, other) = if first.noted.writes { (first, second) } else { (second, first) };
            if !known.insert((line(writer), line(other))) {
                continue;
            }
            let does = if other.noted.writes { "writes" } else { "reads" };
            let sentence = format!(
                "rank {} {does} {path} while rank {} may write it{}: no collective orders the two",
                other.rank.0,
                writer.rank.0,
                in_brackets(writer)
            );
            conflicts.push(Conflict { access: (**other).clone(), sentence });
        }
    }
    conflicts
}

/// Files that one rank writes on each of several nodes, as a program does that keeps a copy on each node's own disk: whether
/// the nodes share them is not known.
fn written_by_node<'a>(accesses: &[&'a FileAccess]) -> BTreeSet<&'a str> {
    let mut writers: BTreeMap<&str, BTreeMap<u32, BTreeSet<Rank>>> = BTreeMap::new();
    for access in accesses.iter().filter(|access| access.noted.writes) {
        writers.entry(&access.noted.path).or_default().entry(access.node).or_default().insert(access.rank);
    }
    let is_once_for_each =
        |nodes: &BTreeMap<u32, BTreeSet<Rank>>| nodes.len() > 1 && nodes.values().all(|ranks| ranks.len() == 1);
    writers.into_iter().filter(|(_, nodes)| is_once_for_each(nodes)).map(|(path, _)| path).collect()
}

/// Whether no collective of a group that both ranks are in lies between the accesses, nor another wait that may order them.
fn are_unordered(first: &FileAccess, second: &FileAccess) -> bool {
    let (one, other) = (&first.noted, &second.noted);
    let ends_before = |ended: &BTreeMap<String, u64>, began: &BTreeMap<String, u64>| {
        ended.iter().any(|(group, count)| began.get(group).is_some_and(|later| count < later))
    };
    let share_a_group = one.began.keys().any(|group| other.began.contains_key(group));
    let may_be_ordered = one.has_waited || other.has_waited || !share_a_group;
    !may_be_ordered && !ends_before(&one.ended, &other.began) && !ends_before(&other.ended, &one.began)
}

/// Shards of one checkpoint that ranks saved after other numbers of steps: files of ranks whose paths differ in numbers only, and
/// that each rank saved as its first, second, ... of that kind.
fn other_steps(accesses: &[&FileAccess]) -> Vec<Conflict> {
    let mut saved: BTreeMap<(String, u32, Rank), Vec<&FileAccess>> = BTreeMap::new();
    for access in accesses.iter().filter(|access| access.noted.writes) {
        let family = without_numbers(&access.noted.path);
        saved.entry((family, access.noted.attempt, access.rank)).or_default().push(access);
    }
    let mut families: BTreeMap<(&str, u32), Vec<&Vec<&FileAccess>>> = BTreeMap::new();
    for ((family, attempt, _), of_rank) in &saved {
        families.entry((family, *attempt)).or_default().push(of_rank);
    }
    let mut conflicts = Vec::new();
    for ranks in families.into_values() {
        let Some((first, others)) = ranks.split_first() else { continue };
        let differing = others.iter().find_map(|other| {
            let mut pairs = first.iter().zip(other.iter());
            pairs.find(|(one, other)| one.noted.path != other.noted.path && one.noted.steps != other.noted.steps)
        });
        let Some((one, other)) = differing else { continue };
        let sentence = format!(
            "rank {} saves {} after optimizer step {}, rank {} saves {} after step {}{}: the shards are not of one checkpoint",
            other.rank.0,
            other.noted.path,
            other.noted.steps,
            one.rank.0,
            one.noted.path,
            one.noted.steps,
            in_brackets(one)
        );
        conflicts.push(Conflict { access: (**other).clone(), sentence });
    }
    conflicts
}

/// A path with `#` for each number.
fn without_numbers(path: &str) -> String {
    let mut name = String::with_capacity(path.len());
    for letter in path.chars() {
        match letter {
            '0'..='9' if name.ends_with('#') => {}
            '0'..='9' => name.push('#'),
            other => name.push(other),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use protocol::file_access::Noted;
    use protocol::site::CallSite;

    use super::*;

    /// An access of a rank that had issued so many collectives in each group, before and after.
    fn access(rank: u32, path: &str, writes: bool, groups: &[(&str, u64)]) -> FileAccess {
        let began: BTreeMap<String, u64> = groups.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let noted = Noted { path: path.to_owned(), writes, ended: began.clone(), began, ..Noted::default() };
        let site = Some(CallSite::new("/x/train.py".to_owned(), 7, "save".to_owned()));
        FileAccess { rank: Rank(rank), node: rank / 2, site, noted }
    }

    fn sentences(accesses: &[FileAccess]) -> Vec<String> {
        conflicts(accesses).into_iter().map(|conflict| conflict.sentence).collect()
    }

    #[test]
    fn two_ranks_write_one_file() {
        let one = |rank, count| access(rank, "last.pt", true, &[("0", count)]);
        assert_eq!(
            sentences(&[one(1, 4), one(0, 4), one(0, 9), one(1, 9)]),
            ["rank 1 writes last.pt while rank 0 may write it (train.py:7): no collective orders the two"]
        );
        assert!(sentences(&[one(0, 4), one(1, 5)]).is_empty(), "a barrier lies between");
        assert!(sentences(&[one(0, 4), one(0, 4)]).is_empty(), "one rank");
        assert!(sentences(&[one(0, 4), access(1, "other.pt", true, &[("0", 4)])]).is_empty());
        let elsewhere = |rank| access(rank, "/tmp/last.pt", true, &[("0", 4)]);
        assert!(sentences(&[elsewhere(0), elsewhere(2)]).is_empty(), "every node has a /tmp");
        assert_eq!(sentences(&[elsewhere(0), elsewhere(1)]).len(), 1);
        assert!(sentences(&[one(0, 4), one(2, 4)]).is_empty(), "one of each node may mean its own disk");
        assert_eq!(sentences(&[one(0, 4), one(1, 4), one(2, 4)]).len(), 1, "two of one node do not");
    }

    #[test]
    fn a_rank_reads_what_another_writes() {
        let write = access(0, "last.pt", true, &[("0", 4), ("1", 0)]);
        let read = |groups: &[(&str, u64)]| access(1, "last.pt", false, groups);
        let [sentence] = &sentences(&[write.clone(), read(&[("0", 4)])])[..] else { panic!("not one conflict") };
        assert!(sentence.starts_with("rank 1 reads last.pt while rank 0 may write it"), "{sentence}");
        let [found] = &conflicts(&[access(0, "a.pt", false, &[("0", 1)]), access(1, "a.pt", true, &[("0", 1)])])[..]
        else {
            panic!("not one conflict")
        };
        assert_eq!(found.access.rank, Rank(0), "the reader");
        assert!(sentences(&[write.clone(), read(&[("0", 4), ("1", 1)])]).is_empty(), "a barrier of another group");
        assert!(sentences(&[write.clone(), read(&[("2", 0)])]).is_empty(), "no group is known");
        let mut slept = read(&[("0", 4)]);
        slept.noted.has_waited = true;
        assert!(sentences(&[write.clone(), slept]).is_empty(), "it may have waited for the file");
        let mut restarted = read(&[("0", 4)]);
        restarted.noted.attempt = 1;
        assert!(sentences(&[write, restarted]).is_empty());
        let reads = [access(0, "a.pt", false, &[("0", 1)]), access(1, "a.pt", false, &[("0", 1)])];
        assert!(sentences(&reads).is_empty());
    }

    #[test]
    fn shards_are_of_one_step() {
        let shard = |rank: u32, name: &str, steps| {
            let mut access = access(rank, name, true, &[("0", steps)]);
            access.noted.steps = steps;
            access
        };
        let right = [
            shard(0, "2/rank0.pt", 2),
            shard(1, "2/rank1.pt", 2),
            shard(0, "4/rank0.pt", 4),
            shard(1, "4/rank1.pt", 4),
        ];
        assert!(sentences(&right).is_empty());
        assert_eq!(
            sentences(&[shard(0, "rank0.pt", 2), shard(1, "rank1.pt", 3)]),
            [
                "rank 1 saves rank1.pt after optimizer step 3, rank 0 saves rank0.pt after step 2 (train.py:7): the shards are not of \
                 one checkpoint"
            ]
        );
        assert!(sentences(&[shard(0, "model.pt", 2), shard(1, "log.pt", 3)]).is_empty(), "other files");
    }
}
