//! Lines in the sentences of findings: file name and line, without the directory, which differs between machines.

use dataplane::site;
use protocol::ids::SiteId;
use protocol::site::CallSite;

/// `train.py:31`, if it is known.
pub(super) fn of(site: SiteId) -> Option<String> {
    let CallSite { file, line, .. } = site::of(site)?;
    let name = file.rsplit('/').next().unwrap_or_default();
    Some(format!("{name}:{line}"))
}

/// ` (WORDS train.py:31)`, or nothing.
pub(super) fn within(words: &str, site: SiteId) -> String {
    of(site).map_or_else(String::new, |place| format!(" ({words} {place})"))
}
