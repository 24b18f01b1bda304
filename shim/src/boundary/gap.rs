//! Gaps: uses of what we do not do. Each is counted for the device report and, as FAKEGPU_UNSUPPORTED_API says, named
//! once on stderr (with its kernel or datatype) or turned into an error.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::library::Library;
use crate::process::fork;
use crate::settings::{self, GapPolicy};

/// Details kept apart per name; further ones are counted together under `_other_`.
const DETAILS: usize = 10_000;

#[derive(Default)]
struct Gaps {
    counts: BTreeMap<(&'static str, &'static str), BTreeMap<String, u64>>,
}

static GAPS: Mutex<Gaps> = Mutex::new(Gaps { counts: BTreeMap::new() });

/// A gap that the policy `error` turned into NotSupported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) Library);

impl From<Refused> for u32 {
    fn from(refused: Refused) -> Self {
        refused.0.not_supported()
    }
}

/// Details said on stderr per name; what comes after is counted.
const SAID: usize = 16;

/// Counts a use of what we do not do; `detail` (a kernel's name, a datatype) tells uses of one name apart.
pub(crate) fn record(library: Library, name: &'static str, detail: &str) {
    if fork::is_lost() || crate::compute::is_checking() {
        return;
    }
    let known = {
        let mut gaps = GAPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let details = gaps.counts.entry((library.name(), name)).or_default();
        let known = details.len();
        if let Some(count) = details.get_mut(detail) {
            *count += 1;
            None
        } else if details.len() < DETAILS {
            details.insert(detail.to_owned(), 1);
            Some(known)
        } else {
            *details.entry("_other_".to_owned()).or_default() += 1;
            None
        }
    };
    crate::report::write::used();
    let Some(known) = known.filter(|known| *known <= SAID) else { return };
    if policy() == GapPolicy::Warn {
        let colon = if detail.is_empty() { "" } else { ": " };
        let library = library.name();
        match known {
            0 => eprintln!(
                "fakegpu: {name} ({library}){colon}{detail}: not done on this pretended GPU; counted as a gap \
                 (FAKEGPU_UNSUPPORTED_API=allow silences this, =error refuses it)"
            ),
            SAID => {
                eprintln!("fakegpu: {name} ({library}): there are more of them, which are counted and not named here")
            }
            _ => eprintln!("fakegpu: {name} ({library}){colon}{detail}: not done either"),
        }
    }
}

/// Says at the end how many there were of what was not named one by one.
pub(crate) fn sum_up() {
    if policy() != GapPolicy::Warn {
        return;
    }
    let gaps = GAPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for ((library, name), details) in gaps.counts.iter().filter(|(_, details)| details.len() > SAID) {
        let uses: u64 = details.values().sum();
        eprintln!("fakegpu: {name} ({library}): {} different ones, {uses} uses in all", details.len());
    }
}

/// [`record`], for a call that can go on without the effect (a kernel launch): an error only under the policy `error`.
///
/// # Errors
/// [`Refused`] under FAKEGPU_UNSUPPORTED_API=error.
pub(crate) fn tolerate(library: Library, name: &'static str, detail: &str) -> Result<(), Refused> {
    // What PyTorch's own kernel launches while it only lays out or checks is computed elsewhere.
    if crate::compute::is_checking() {
        return Ok(());
    }
    record(library, name, detail);
    if policy() == GapPolicy::Error { Err(Refused(library)) } else { Ok(()) }
}

/// A panic of ours in `name`: always said on stderr (by the panic hook) and a gap.
pub(crate) fn panicked(library: Library, name: &'static str) {
    let _ = std::panic::catch_unwind(|| record(library, name, "internal error"));
}

/// (library, name, detail, count) of every gap, sorted.
pub(crate) fn all() -> Vec<(&'static str, &'static str, String, u64)> {
    let gaps = GAPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let rows = gaps.counts.iter().flat_map(|((library, name), details)| {
        details.iter().map(move |(detail, count)| (*library, *name, detail.clone(), *count))
    });
    rows.collect()
}

fn policy() -> GapPolicy {
    settings::get().map_or(GapPolicy::Warn, |settings| settings.gap_policy)
}
