//! The environment, read once at the first call: the devices that the program sees, and what happens when the real ones are too
//! small. A bad value is reported once, and then every call fails.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::sync::OnceLock;

use protocol::env::{self as names, BadValue, Variable};
use protocol::gpu::Gpu;
use protocol::machine;

use crate::trouble;

/// What happens to an allocation that the virtual device has room for but the real one does not (`FAKEGPU_OOM_POLICY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// It fails. A virtual device is no larger than the real one, either.
    Clamp,
    /// It becomes managed memory, which the real driver moves.
    Managed,
    /// It becomes pinned host memory, which kernels reach over the bus.
    MappedHost,
    /// It becomes ordinary host memory, for copies and fills.
    SpillCpu,
}

const POLICIES: [(&str, Policy); 4] = [
    ("clamp", Policy::Clamp),
    ("managed", Policy::Managed),
    ("mapped_host", Policy::MappedHost),
    ("spill_cpu", Policy::SpillCpu),
];

impl Policy {
    /// The word used in the variable and in the report.
    pub(crate) fn word(self) -> &'static str {
        POLICIES.iter().find(|(_, policy)| *policy == self).map_or("", |(word, _)| word)
    }
}

/// The checked environment.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The GPUs of the machine.
    pub(crate) gpus: Vec<Gpu>,
    /// Which of them CUDA shows, in order.
    pub(crate) shown: Vec<usize>,
    /// Whether `CUDA_VISIBLE_DEVICES` chose them: it must not choose among the real ones as well.
    pub(crate) is_masked: bool,
    /// What happens when the real memory is used up.
    pub(crate) policy: Policy,
    /// Where the device report goes, with its placeholders.
    pub(crate) report_path: Option<String>,
    /// `FAKEGPU_UNSUPPORTED_API`, for the report.
    pub(crate) gap_policy: String,
}

/// The settings, read at the first call; none if a value is bad, which has been reported by then.
pub(crate) fn get() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    let read = || read(&|name| environment().get(name).cloned());
    SETTINGS
        .get_or_init(|| {
            read()
                .map_err(|error| trouble::say(&format!("{error}; every CUDA call will fail until it is corrected")))
                .ok()
        })
        .as_ref()
}

/// The environment of the first call. The program's changes after that do not count, nor do the real library's.
pub(crate) fn environment() -> &'static BTreeMap<String, String> {
    static ENVIRONMENT: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    ENVIRONMENT.get_or_init(|| env::vars_os().filter_map(text).collect())
}

fn read(lookup: machine::Lookup<'_>) -> Result<Settings, BadValue> {
    let given = |variable: &Variable| lookup(variable.name).filter(|value| !value.is_empty());
    let cluster = machine::cluster(lookup)?;
    let gpus = machine::gpus(cluster.as_ref(), lookup)?;
    let mask = lookup("CUDA_VISIBLE_DEVICES");
    let policy = match given(&names::OOM_POLICY) {
        None => Policy::Clamp,
        Some(value) => POLICIES[names::OOM_POLICY.choose(&value, &POLICIES.map(|(word, _)| word))?].1,
    };
    Ok(Settings {
        shown: machine::choose(&gpus, mask.as_deref()),
        gpus,
        is_masked: mask.is_some(),
        policy,
        report_path: given(&names::REPORT_PATH),
        gap_policy: given(&names::UNSUPPORTED_API).unwrap_or_else(|| "stop".to_owned()).to_ascii_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Settings, BadValue> {
        read(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn devices_and_policy_by_their_variables() {
        let settings = with(&[
            ("FAKEGPU_PROFILES", "a100:2,h100"),
            ("CUDA_VISIBLE_DEVICES", "2,0"),
            ("FAKEGPU_OOM_POLICY", "Mapped_Host"),
        ])
        .unwrap();
        let ids: Vec<&str> = settings.shown.iter().map(|index| settings.gpus[*index].profile.id.as_str()).collect();
        assert_eq!((ids, settings.is_masked, settings.policy), (vec!["h100", "a100"], true, Policy::MappedHost));
        let plain = with(&[]).unwrap();
        assert_eq!((plain.shown.len(), plain.is_masked, plain.policy.word()), (8, false, "clamp"));
        let error = with(&[("FAKEGPU_OOM_POLICY", "manged")]).unwrap_err().to_string();
        assert!(error.contains("did you mean `managed`?"), "{error}");
    }
}
