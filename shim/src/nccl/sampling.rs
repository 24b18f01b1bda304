//! How ranks share datasets: `sampling.py` looks at the passes of PyTorch's DistributedSampler, the journal tells the runner about
//! each, which compares the ranks, and a pass in the order of the one before is a finding here.

use std::collections::HashMap;
use std::ffi::{c_int, c_longlong, c_uint, c_void};

use dataplane::lock::Mutex;
use dataplane::site;
use protocol::finding::FindingKind;
use protocol::ids::SiteId;
use protocol::launcher::Launcher;
use protocol::sampling::Pass;

use crate::call_site;
use crate::process::python::{Asked, guarded};
use crate::process::rank;
use crate::report::{finding, journal};

const PYTHON: &str = include_str!("sampling.py");

/// The most passes of a process that are compared with those of other ranks.
const MOST: u64 = 1000;

static ASKED: Asked = Asked::new();

/// How many passes began, by line.
static PASSES: Mutex<Option<HashMap<Option<SiteId>, u64>>> = Mutex::new(None);

/// Called when a communicator is about to form: from now on, samplers are watched, if this is Python.
pub(super) fn watch() {
    ASKED.once(install);
}

/// Runs `sampling.py` in the main thread of Python, which holds the GIL.
unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    let functions = [
        ("began", began as *const () as usize),
        ("repeated", repeated as *const () as usize),
        ("installed", installed as *const () as usize),
    ];
    // SAFETY: Python calls this function with the GIL held.
    unsafe { ASKED.start(PYTHON, &functions) };
    0
}

/// Called when samplers are watched.
extern "C" fn installed() {
    ASKED.installed();
}

/// Called when a pass begins; returns the line of the program that begins it.
extern "C" fn began(
    replicas: c_uint,
    replica: c_uint,
    length: c_longlong,
    is_shuffled: bool,
    seed: c_longlong,
    epoch: c_longlong,
    drops_last: bool,
) -> c_uint {
    guarded(|| {
        let site = call_site::of_python();
        let earlier = {
            let mut passes = PASSES.lock();
            let count = passes.get_or_insert_default().entry(site).or_default();
            *count += 1;
            *count - 1
        };
        let launcher = Launcher::read_or_task(|name| std::env::var(name).ok());
        if let (Some(rank), Some(world_size)) = (launcher.rank, launcher.world_size)
            && earlier < MOST
        {
            journal::note_pass(Pass {
                rank,
                world_size,
                site: site.and_then(site::find),
                earlier,
                replicas,
                replica,
                length: length as u64,
                order: is_shuffled.then_some([seed, epoch]),
                drops_last,
            });
        }
        site.map_or(0, |site| site.0)
    })
}

/// Called when a step of an optimizer is made on a pass that has the order of an earlier one.
extern "C" fn repeated(site: c_uint) {
    guarded(|| {
        let who = rank().map_or_else(|| "the process".to_owned(), |rank| format!("rank {rank}"));
        let sentence = format!(
            "{who} trains again on samples in the order of an earlier pass: `set_epoch` was never called on the DistributedSampler, \
             which shuffles by its epoch"
        );
        finding::record_at(FindingKind::SameOrder, "DistributedSampler", sentence, SiteId(site));
    });
}
