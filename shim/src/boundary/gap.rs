//! Gaps: uses of unsupported features. Each is counted for the device report and, depending on FAKEGPU_UNSUPPORTED_API,
//! named once on stderr (with its kernel or datatype) or turned into an error.

use std::cell::Cell;

use abi::gap::Refused;
use abi::library::Library;

use crate::process::fork;
use crate::report::{self, gaps, journal};
use crate::settings::{self, GapPolicy};

thread_local! {
    static MUTED: Cell<bool> = const { Cell::new(false) };
}

/// Until dropped, this thread's gaps do not count, because what it runs now is computed elsewhere.
pub(crate) struct Muted(bool);

impl Muted {
    /// Mutes the calling thread.
    pub(crate) fn begin() -> Self {
        Self(MUTED.replace(true))
    }
}

impl Drop for Muted {
    fn drop(&mut self) {
        MUTED.set(self.0);
    }
}

/// True while the calling thread's gaps do not count.
pub(crate) fn is_muted() -> bool {
    MUTED.get()
}

/// Counts a use of an unsupported feature; `detail` (a kernel's name, a datatype) distinguishes uses of one name.
pub(crate) fn record(library: Library, name: &'static str, detail: &str) {
    if fork::is_lost() || is_muted() {
        return;
    }
    let known = gaps::count(library.name(), name, detail);
    report::used();
    if known.is_some() {
        journal::note(library.name(), name, detail);
    }
    let Some(known) = known.filter(|known| *known <= gaps::NAMED) else { return };
    if matches!(policy(), GapPolicy::Warn | GapPolicy::Stop) {
        let colon = if detail.is_empty() { "" } else { ": " };
        let library = library.name();
        match known {
            0 => eprintln!(
                "fakegpu: {name} ({library}){colon}{detail}: not supported on this simulated GPU; counted as a gap \
                 (FAKEGPU_UNSUPPORTED_API=warn continues, =allow silences this)"
            ),
            gaps::NAMED => {
                eprintln!("fakegpu: {name} ({library}): more of them follow, which are counted but not listed")
            }
            _ => eprintln!("fakegpu: {name} ({library}){colon}{detail}: not supported either"),
        }
    }
}

/// [`record`], for a call that can go on without the effect: an error only under the policy `error`.
///
/// # Errors
/// [`Refused`] under FAKEGPU_UNSUPPORTED_API=error.
pub(crate) fn tolerate(library: Library, name: &'static str, detail: &str) -> Result<(), Refused> {
    if is_muted() {
        return Ok(());
    }
    record(library, name, detail);
    if policy() == GapPolicy::Error { Err(Refused(library)) } else { Ok(()) }
}

/// A panic of ours in `name`: always reported on stderr (by the panic hook), and a gap.
pub(crate) fn panicked(library: Library, name: &'static str) {
    let _ = std::panic::catch_unwind(|| record(library, name, "internal error"));
}

/// What a gap does.
pub(crate) fn policy() -> GapPolicy {
    settings::get().map_or(GapPolicy::Stop, |settings| settings.gap_policy)
}
