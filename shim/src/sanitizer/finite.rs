//! The findings about operators and reductions that produce numbers that are not finite of finite ones, and about sums over ranks
//! that lose what a rank gave.

use std::collections::BTreeSet;

use dataplane::call::Call;
use dataplane::kernels::finite;
pub(crate) use dataplane::kernels::finite::{Count, Format};
use dataplane::kernels::lost::{self, Lost};
use dataplane::lock::Mutex;
use protocol::finding::FindingKind;
use protocol::ids::SiteId;

use super::forward;
use crate::call_site;
use crate::process::fork;
use crate::report::finding;
use crate::settings;

/// Maximum number of different operators and lines reported.
const REPORTED: usize = 16;

static MADE: Mutex<BTreeSet<(&'static str, SiteId, SiteId)>> = Mutex::new(BTreeSet::new());

/// The sums that were reported to lose what a rank gave.
static LOST: Mutex<BTreeSet<(&'static str, SiteId)>> = Mutex::new(BTreeSet::new());

/// Whether the sanitizer is enabled.
pub(crate) fn is_wanted() -> bool {
    settings::get().is_ok_and(|settings| settings.sanitize.finite) && !fork::is_lost()
}

/// Reports that the operator `name` produced non-finite numbers from finite ones.
pub(crate) fn made(name: &'static str, count: Count) {
    made_at(call_site::of_python().unwrap_or_default(), name, count);
}

/// The same, for an operator that was called at `site`.
pub(crate) fn made_at(site: SiteId, name: &'static str, count: Count) {
    let forward = forward::now();
    let is_new = {
        let mut made = MADE.lock();
        made.len() < REPORTED && made.insert((name, site, forward))
    };
    if is_new {
        let sentence = format!("{name} returns {} for finite inputs{}", count.words(), forward::words(forward));
        finding::record_at(FindingKind::NotFinite, name, sentence, site);
    }
}

/// The format for c10's number of the type (`c10/core/ScalarType.h`); `None` for integers, and for 8-bit types, which few
/// kernels compute with.
pub(crate) fn format_of(data_type: u16) -> Option<Format> {
    match data_type {
        5 | 8 => Some(Format::Half),
        6 | 9 => Some(Format::Single),
        7 | 10 => Some(Format::Double),
        15 => Some(Format::Bfloat),
        _ => None,
    }
}

/// From now on, reductions are examined, too, if the sanitizer is enabled.
pub(crate) fn watch_reductions() {
    if is_wanted() {
        finite::watch(reduced);
        lost::watch(lose);
    }
}

fn reduced(call: &Call, count: Count) {
    let name = call.operation.name();
    let is_new = {
        let mut made = MADE.lock();
        made.len() < REPORTED && made.insert((name, call.site, SiteId::default()))
    };
    if is_new {
        let sentence = format!("{} returns {} for finite inputs of all ranks", call.describe(), count.words());
        finding::record_at(FindingKind::NotFinite, name, sentence, call.site);
    }
}

fn lose(call: &Call, lost: Lost) {
    let name = call.operation.name();
    let is_new = {
        let mut made = LOST.lock();
        made.len() < REPORTED && made.insert((name, call.site))
    };
    if is_new {
        let Lost { rank, elements } = lost;
        let (which, change) = if elements == 1 {
            ("its element".to_owned(), "does not change")
        } else {
            (format!("none of its {elements} elements"), "changes")
        };
        let sentence =
            format!("{} loses what rank {rank} of the communicator gave: {which} {change} the sum", call.describe());
        finding::record_at(FindingKind::LostContribution, name, sentence, call.site);
    }
}
