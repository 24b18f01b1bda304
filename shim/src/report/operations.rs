//! The log of what this process submits under the modeled clock (`FTEST_OPERATIONS`), kept in memory and written when it ends.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::hash::Hash;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{mem, process};

use dataplane::lock::Mutex;
use dataplane::refusal;
use dataplane::report_file;
use dataplane::site;
use protocol::ids::{CommunicatorId, Rank, SiteId};
use protocol::operations::{
    Act, FILE_PREFIX, GroupPart, LoggedCommunicator, LoggedDevice, LoggedGroup, LoggedLine, LoggedOperation,
    LoggedStream, LoggedWork, OPERATIONS_VERSION, OperationLog, StreamOrder,
};
use protocol::plan::ClusterPlan;

use crate::process::rank;
use crate::settings::{self, Clock, Settings};

/// The most operations that a process keeps, 32 MiB.
const MOST: usize = 1 << 20;

/// The host's time since the last operation, ns.
static SPENT_NS: AtomicU64 = AtomicU64::new(0);

/// Work that has not ended: its shape is not known.
const UNKNOWN: u32 = u32::MAX;

/// Where the operations ran, as NCCL knows it.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) cluster: ClusterPlan,
    pub(crate) nccl_variables: BTreeMap<String, String>,
    pub(crate) nccl_minor: u32,
    pub(crate) is_alone: bool,
}

static PLACED: OnceLock<Option<Placed>> = OnceLock::new();

/// Values with positions.
#[derive(Debug)]
struct Table<T> {
    positions: HashMap<T, u32>,
    values: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { positions: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn position(&mut self, value: &T) -> u32 {
        if let Some(position) = self.positions.get(value) {
            return *position;
        }
        let position = self.values.len() as u32;
        self.values.push(value.clone());
        self.positions.insert(value.clone(), position);
        position
    }
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    operations: Vec<LoggedOperation>,
    dropped: u64,
    names: Table<String>,
    sites: Table<SiteId>,
    works: Table<LoggedWork>,
    streams: Table<(u64, u32, StreamOrder)>,
    communicators: Table<(CommunicatorId, u32)>,
    members: Vec<Vec<Rank>>,
    groups: Table<(u32, Vec<GroupPart>)>,
}

static LOG: Mutex<Option<Log>> = Mutex::new(None);

/// A stream of the process: its number, device and order.
pub(crate) type StreamKey = (u64, u32, StreamOrder);

impl Log {
    /// The position of a stream.
    pub(crate) fn stream(&mut self, key: StreamKey) -> u32 {
        self.streams.position(&key)
    }
}

/// Whether operations are kept.
pub(crate) fn are_kept() -> bool {
    static KEPT: OnceLock<bool> = OnceLock::new();
    *KEPT.get_or_init(|| {
        settings::get().is_ok_and(|settings| settings.operations.is_some() && settings.clock == Clock::Modeled)
    })
}

/// The host spends so much time.
#[inline]
pub(crate) fn spent(ns: u64) {
    SPENT_NS.fetch_add(ns, Ordering::AcqRel);
}

/// The host does something. Returns the number of the operation, if it is kept.
pub(crate) fn act(make: impl FnOnce(&mut Log) -> Act) -> Option<usize> {
    if !are_kept() {
        return None;
    }
    let mut log = LOG.lock();
    let log = log.get_or_insert_default();
    if log.operations.len() >= MOST {
        log.dropped += 1;
        return None;
    }
    let made = make(log);
    log.operations.push(LoggedOperation(SPENT_NS.swap(0, Ordering::AcqRel), made));
    Some(log.operations.len() - 1)
}

/// It submits work, which is described when it has ended ([`ended`]).
pub(crate) fn submit(stream: StreamKey, site: Option<SiteId>) -> Option<usize> {
    act(|log| {
        let line = site.map_or(0, |site| log.sites.position(&site) + 1);
        Act::Work(log.stream(stream), UNKNOWN, line)
    })
}

/// An operation from [`submit`] is one of NCCL, in a group.
pub(crate) fn in_group(
    number: usize,
    communicator: (CommunicatorId, u32),
    members: impl FnOnce() -> Vec<Rank>,
    parts: Vec<GroupPart>,
) {
    let mut log = LOG.lock();
    let Some(log) = &mut *log else { return };
    let communicator = log.communicators.position(&communicator);
    if log.members.len() <= communicator as usize {
        log.members.push(members());
    }
    let group = log.groups.position(&(communicator, parts));
    if let Some(LoggedOperation(_, act)) = log.operations.get_mut(number)
        && let Act::Work(stream, work, line) = *act
    {
        *act = Act::Group(stream, work, line, group);
    }
}

/// The work of an operation from [`submit`] has ended, and this is what it was.
pub(crate) fn ended(number: usize, name: &str, mut work: LoggedWork) {
    let mut log = LOG.lock();
    let Some(log) = &mut *log else { return };
    work.name = match log.names.positions.get(name) {
        Some(position) => *position,
        None => log.names.position(&name.to_owned()),
    };
    let position = log.works.position(&work);
    if let Some(LoggedOperation(_, Act::Work(_, shape, _) | Act::Group(_, shape, _, _))) =
        log.operations.get_mut(number)
    {
        *shape = position;
    }
}

/// Where the operations ran; asked once.
pub(crate) fn place(placed: impl FnOnce() -> Option<Placed>) {
    if are_kept() {
        PLACED.get_or_init(placed);
    }
}

/// Writes the log, if the process submitted anything.
pub(super) fn write(settings: &Settings, devices: Vec<LoggedDevice>) {
    let Some(directory) = settings.operations.as_deref().filter(|_| are_kept()) else { return };
    act(|_| Act::End);
    let Some(log) = LOG.lock().take() else { return };
    let Some(text) = finish(settings, log, devices).and_then(|log| serde_json::to_vec(&log).ok()) else { return };
    let path = Path::new(directory).join(format!("{FILE_PREFIX}{}.json", process::id()));
    if let Err(error) = report_file::whole(&path, &text) {
        let what = format!("the operations cannot be written to {}", path.display());
        eprintln!("fakegpu: {}", refusal::explain(&what, &error));
    }
}

/// The log as it is written; `None` without work or a cluster.
fn finish(settings: &Settings, log: Log, devices: Vec<LoggedDevice>) -> Option<OperationLog> {
    let Log { mut operations, dropped, names, sites, works, streams, communicators, members, groups } = log;
    // Work that never ran, or was none, only took the host's time.
    let mut carried = 0;
    operations.retain_mut(|LoggedOperation(spent, act)| {
        if matches!(act, Act::Work(_, UNKNOWN, _) | Act::Group(_, UNKNOWN, ..)) {
            carried += *spent;
            return false;
        }
        *spent += mem::take(&mut carried);
        true
    });
    if works.values.is_empty() {
        return None;
    }
    let placed = PLACED.get().and_then(Option::as_ref);
    let cluster = placed.map(|placed| &placed.cluster).or(settings.cluster.as_ref())?.clone();
    let line = |site: &SiteId| {
        let found = site::find(*site);
        let name = |file: &str| file.rsplit('/').next().unwrap_or_default().to_owned();
        LoggedLine {
            file: found.as_ref().map_or_else(String::new, |site| name(&site.file)),
            line: found.map_or(0, |site| site.line),
        }
    };
    let communicators = communicators.values.into_iter().zip(members);
    Some(OperationLog {
        version: OPERATIONS_VERSION.to_owned(),
        rank: Rank(rank().unwrap_or(0)),
        is_alone: placed.is_some_and(|placed| placed.is_alone),
        cluster,
        nccl_variables: placed.map(|placed| placed.nccl_variables.clone()).unwrap_or_default(),
        nccl_minor: placed.map_or(0, |placed| placed.nccl_minor),
        devices,
        names: names.values,
        lines: sites.values.iter().map(line).collect(),
        streams: streams.values.into_iter().map(|(_, device, order)| LoggedStream { device, order }).collect(),
        works: works.values,
        communicators: communicators.map(|((id, rank), ranks)| LoggedCommunicator { id, ranks, rank }).collect(),
        groups: groups.values.into_iter().map(|(communicator, parts)| LoggedGroup { communicator, parts }).collect(),
        operations,
        dropped,
    })
}
