//! Lines in the messages of findings: file name and line, without the directory, which differs between machines.

use dataplane::site;
use protocol::ids::SiteId;
use protocol::site::CallSite;

/// `train.py:31`, if known.
pub(super) fn describe(site: SiteId) -> Option<String> {
    let CallSite { file, line, .. } = site::find(site)?;
    let name = file.rsplit('/').next().unwrap_or_default();
    Some(format!("{name}:{line}"))
}

/// ` at train.py:31`; ` in main (a.out)` if there are no lines; or nothing.
pub(super) fn after(site: SiteId) -> String {
    match site::find(site) {
        Some(function) if function.line == 0 => format!(" in {function}"),
        _ => describe(site).map_or_else(String::new, |place| format!(" at {place}")),
    }
}

/// ` (WORDS train.py:31)`, or nothing.
pub(super) fn within(words: &str, site: SiteId) -> String {
    describe(site).map_or_else(String::new, |place| format!(" ({words} {place})"))
}

/// ` (called at train.py:31)`; ` (called in main (a.out))` if there are no lines; or nothing.
pub(crate) fn called(site: SiteId) -> String {
    let place = after(site);
    if place.is_empty() { place } else { format!(" (called{place})") }
}
