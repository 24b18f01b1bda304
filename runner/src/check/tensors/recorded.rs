//! What the ranks of a run recorded of its tensors, and the shards of a tensor put together.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use protocol::site::CallSite;
use protocol::step_record::{Line, Part, TensorRecord, TensorRole};

use super::difference::{Difference, between_replicas};
use super::whole::{Key, Whole};

/// A tensor or shard as one process recorded it.
pub(super) struct Recorded {
    key: Key,
    /// Its position in the step of its process.
    position: usize,
    rank: Option<u32>,
    site: Option<CallSite>,
    tensor: TensorRecord,
}

/// What the processes recorded in `directory` of tensors with these roles; nothing if there is no such directory.
///
/// # Errors
/// What could not be recorded or read, and why.
pub(super) fn read(directory: &Path, roles: &[TensorRole]) -> Result<Vec<Recorded>, String> {
    let mut files: Vec<_> = match fs::read_dir(directory) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(_) => return Ok(Vec::new()),
    };
    files.sort();
    let mut recorded = Vec::new();
    for file in files {
        let unreadable = |error: &dyn std::fmt::Display| format!("{} cannot be read: {error}", file.display());
        let text = fs::read_to_string(&file).map_err(|error| unreadable(&error))?;
        for line in text.lines() {
            match serde_json::from_str(line).map_err(|error| unreadable(&error))? {
                Line::Refused { role, why } if role.is_none_or(|role| roles.contains(&role)) => return Err(why),
                Line::Refused { .. } => {}
                Line::Step(step) => {
                    let wanted = step.tensors.into_iter().filter(|tensor| roles.contains(&tensor.role));
                    recorded.extend(wanted.enumerate().map(|(position, tensor)| Recorded {
                        key: Key {
                            step: step.step,
                            optimizer: step.optimizer,
                            role: tensor.role,
                            name: tensor.name.clone(),
                        },
                        position,
                        rank: step.rank,
                        site: step.site.clone(),
                        tensor,
                    }));
                }
            }
        }
    }
    recorded.sort_by_key(|recorded| recorded.rank);
    Ok(recorded)
}

/// The whole tensors, in the order of their keys and, below that, of the steps.
///
/// # Errors
/// Where two ranks hold something else under one name, or none of them holds a part.
pub(super) fn join(recorded: Vec<Recorded>) -> Result<Vec<Whole>, String> {
    let mut tensors: BTreeMap<Key, Vec<Recorded>> = BTreeMap::new();
    for one in recorded {
        tensors.entry(one.key.clone()).or_default().push(one);
    }
    let mut wholes = Vec::new();
    let mut conflicts: BTreeMap<(u64, u32, TensorRole, usize), String> = BTreeMap::new();
    for (key, records) in tensors {
        let place = (key.step, key.optimizer, key.role, records.iter().map(|one| one.position).min().unwrap_or(0));
        match whole(&key, records) {
            Ok(whole) => wholes.push((place, whole)),
            Err(conflict) => drop(conflicts.insert(place, conflict)),
        }
    }
    if let Some(conflict) = conflicts.into_values().next() {
        return Err(conflict);
    }
    wholes.sort_by_key(|(place, _)| *place);
    Ok(wholes.into_iter().map(|(_, whole)| whole).collect())
}

fn whole(key: &Key, records: Vec<Recorded>) -> Result<Whole, String> {
    let who = |rank: Option<u32>| rank.map_or_else(|| "one process".to_owned(), |rank| format!("rank {rank}"));
    let after = format!("after optimizer step {}, {}", key.step, key.title());
    let mut shards: Vec<(Option<Part>, Option<u32>, Whole)> = Vec::new();
    for Recorded { key, rank, site, tensor, .. } in records {
        let TensorRecord { dtype, shape, part, summary, .. } = tensor;
        let held = Whole { key, dtype, shape, summary, site };
        if let Some((_, first, known)) = shards.first()
            && (known.shape != held.shape || known.dtype != held.dtype)
        {
            let [one, other] = [known, &held].map(|whole| format!("{} {:?}", whole.dtype, whole.shape));
            return Err(format!("{after}: {one} on {}, but {other} on {}", who(*first), who(rank)));
        }
        let Some((_, first, known)) = shards.iter().find(|(known, ..)| *known == part) else {
            shards.push((part, rank, held));
            continue;
        };
        if let Some(Difference { what, first: one, second: other, .. }) = between_replicas(known, &held) {
            let [one, other] = [one, other].map(Option::unwrap_or_default);
            return Err(format!("{after}: {what} {one} on {}, but {other} on {}", who(*first), who(rank)));
        }
    }
    let mut shards = shards.into_iter().map(|(_, _, shard)| shard);
    let Some(mut whole) = shards.next() else { return Err(format!("{after}: nothing")) };
    shards.for_each(|shard| whole.summary.add_shard(&shard.summary));
    let (count, all) = (whole.summary.count, whole.shape.iter().product::<u64>());
    if count != all {
        return Err(format!("{after}: its shards have {count} of {all} elements"));
    }
    Ok(whole)
}
