//! Numbers the call sites in this process's program: calls carry the number, and the coordinator gets each site once.

use std::collections::HashMap;
use std::sync::OnceLock;

use protocol::ids::SiteId;
use protocol::site::{CallSite, MOST};

use crate::lock::Mutex;

/// All numbered sites; number n is at index n - 1.
#[derive(Default)]
struct Table {
    numbers: HashMap<CallSite, SiteId>,
    sites: Vec<CallSite>,
}

static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();

/// The number of a site; once there are [`MOST`], the number that means no site.
pub fn number(site: CallSite) -> SiteId {
    let mut table = TABLE.get_or_init(Mutex::default).lock();
    if let Some(known) = table.numbers.get(&site) {
        return *known;
    }
    if table.sites.len() >= MOST as usize {
        return SiteId::default();
    }
    table.sites.push(site.clone());
    let id = SiteId(table.sites.len() as u32);
    table.numbers.insert(site, id);
    id
}

/// The site with a given number.
pub fn find(id: SiteId) -> Option<CallSite> {
    let table = TABLE.get()?.lock();
    table.sites.get((id.0 as usize).checked_sub(1)?).cloned()
}

/// Whether no thread holds the table at this moment. In a forked child without other threads, it then stays so.
pub fn is_free() -> bool {
    TABLE.get().is_none_or(|table| table.try_lock().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_keeps_its_number_and_numbers_end() {
        let site = |line| CallSite::new("train.py".to_owned(), line, "step".to_owned());
        let first = number(site(1));
        assert_eq!(number(site(1)), first);
        assert_ne!(number(site(2)), first);
        assert_eq!(find(first), Some(site(1)));
        assert_eq!(find(SiteId::default()), None);
        let numbers: Vec<SiteId> = (0..=MOST).map(|line| number(site(line))).collect();
        assert_eq!(numbers.last(), Some(&SiteId::default()));
        assert_eq!(find(first), Some(site(1)));
        let held = TABLE.get().map(Mutex::lock);
        assert!(!is_free());
        drop(held);
        assert!(is_free());
    }
}
