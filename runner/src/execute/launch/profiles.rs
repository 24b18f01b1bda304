//! Profiles as named in the device variables.

use protocol::env::{self, BadValue, Variable};
use protocol::profile;

/// Maximum devices of one process.
pub(super) const MOST: u64 = 1024;

/// The profile `id`, given as a value of `variable`.
pub(super) fn known(variable: &Variable, value: &str, id: &str) -> Result<String, BadValue> {
    match profile::builtin(id.trim()) {
        Some(profile) => Ok(profile.id.clone()),
        None => Err(BadValue {
            variable: variable.name,
            value: value.to_owned(),
            expected: variable.values.to_owned(),
            hint: protocol::suggest::nearest(id, profile::all().iter().map(|profile| profile.id.as_str()))
                .map(str::to_owned),
        }),
    }
}

/// `a100:2,h100` as one id per device.
pub(super) fn listed(list: &str) -> Result<Vec<String>, BadValue> {
    let mut gpus = Vec::new();
    for entry in list.split(',') {
        let (id, times) = match entry.split_once(':') {
            Some((id, times)) => (id, times.trim().parse::<usize>().ok().filter(|times| *times > 0)),
            None => (entry, Some(1)),
        };
        let times = times.ok_or_else(|| env::PROFILES.bad(list))?;
        let id = known(&env::PROFILES, list, id)?;
        if gpus.len() + times > MOST as usize {
            return Err(env::PROFILES.bad(list));
        }
        gpus.extend(std::iter::repeat_n(id, times));
    }
    Ok(gpus)
}
