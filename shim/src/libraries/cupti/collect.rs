//! From calls and pieces of work to records: which kinds are wanted, and what each record says.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use abi::library::Library;
use dataplane::lock::Mutex;

use super::deliver::{self, is_13, push};
use super::names;
use super::record::{Api, Event, External, Kernel, Memcpy, Memset, PeerCopy, Record, Synchronization, kind};
use crate::boundary::calls::{self, Call, Launch, Observer, Wait};
use crate::device;
use crate::device::state::context;
use crate::device::work::timeline::{self, Done, Kind, Place, Subscriber};

/// `cudaLaunchKernel` and `cudaMemcpyAsync`, by which a library would have launched its work.
const LAUNCH: u32 = 211;
const COPY: u32 = 41;

/// A bit for each kind that is enabled.
static ENABLED: AtomicU64 = AtomicU64::new(0);
/// Exceptions from the kinds DRIVER and RUNTIME, by number.
static FUNCTIONS: [Mutex<BTreeMap<u32, bool>>; 2] = [const { Mutex::new(BTreeMap::new()) }; 2];
/// How many functions are enabled apart from their kind.
static SINGLE: AtomicU32 = AtomicU32::new(0);

/// Whether records of events have the time when they were reached.
static HAS_EVENT_TIMES: AtomicBool = AtomicBool::new(false);

const WORK: [u32; 6] =
    [kind::KERNEL, kind::CONCURRENT_KERNEL, kind::MEMCPY, kind::MEMCPY2, kind::MEMSET, kind::CUDA_EVENT];
const CALLS: [u32; 4] = [kind::DRIVER, kind::RUNTIME, kind::EXTERNAL_CORRELATION, kind::SYNCHRONIZATION];
/// `CUPTI_SYNCHRONIZATION_INVALID_VALUE`
const NONE: u32 = u32::MAX;

/// Whether CUPTI has records of this kind here. There is nothing to say about overhead: nothing is instrumented.
pub(super) fn is_known(kind: u32) -> bool {
    kind == kind::OVERHEAD || WORK.contains(&kind) || CALLS.contains(&kind)
}

fn is_enabled(kind: u32) -> bool {
    ENABLED.load(Ordering::Relaxed) & 1 << kind != 0
}

/// Enables or disables a kind.
pub(super) fn enable(kind: u32, is_enabled: bool) {
    if let Some(functions) = functions(kind) {
        functions.lock().clear();
        count_single();
    }
    if is_enabled {
        ENABLED.fetch_or(1 << kind, Ordering::AcqRel);
    } else {
        ENABLED.fetch_and(!(1 << kind), Ordering::AcqRel);
    }
    attend();
}

/// Enables or disables the calls of one function, of the kind DRIVER or RUNTIME.
pub(super) fn enable_function(kind: u32, number: u32, is_enabled: bool) {
    if let Some(functions) = functions(kind) {
        functions.lock().insert(number, is_enabled);
        count_single();
    }
    attend();
}

/// Whether records of events get the time when they were reached from now on.
pub(super) fn time_events(has_times: bool) {
    HAS_EVENT_TIMES.store(has_times, Ordering::Release);
}

/// Disables everything and forgets what was not delivered.
pub(super) fn disable_all() {
    ENABLED.store(0, Ordering::Release);
    time_events(false);
    FUNCTIONS.iter().for_each(|functions| functions.lock().clear());
    count_single();
    attend();
    deliver::forget();
}

fn functions(kind: u32) -> Option<&'static Mutex<BTreeMap<u32, bool>>> {
    match kind {
        kind::DRIVER => Some(&FUNCTIONS[0]),
        kind::RUNTIME => Some(&FUNCTIONS[1]),
        _ => None,
    }
}

fn count_single() {
    let enabled = FUNCTIONS.iter().map(|functions| functions.lock().values().filter(|enabled| **enabled).count());
    SINGLE.store(enabled.sum::<usize>() as u32, Ordering::Release);
}

/// Listens to what is wanted, and to nothing else.
pub(super) fn attend() {
    let has_work = WORK.iter().any(|kind| is_enabled(*kind));
    if has_work {
        timeline::subscribe(Subscriber::Activity, done);
    } else {
        timeline::unsubscribe(Subscriber::Activity);
    }
    let has_calls = CALLS.iter().any(|kind| is_enabled(*kind)) || SINGLE.load(Ordering::Acquire) > 0;
    calls::observe(Observer { begin, end }, has_work || has_calls);
}

/// The kind of a call's record, and its function's number, if it is to be recorded.
fn recorded(library: Library, number: u32) -> Option<u32> {
    let kind = if library == Library::CudaDriver { kind::DRIVER } else { kind::RUNTIME };
    let single = functions(kind).and_then(|functions| functions.lock().get(&number).copied());
    single.unwrap_or_else(|| is_enabled(kind)).then_some(kind)
}

fn begin(call: Call) -> u64 {
    push_external(call.correlation, &calls::external());
    timeline::now()
}

fn end(call: Call, begun: u64, code: u32, wait: Option<Wait>) {
    let end = timeline::now();
    if let Some(Wait { kind, device, context, stream, event }) = wait.filter(|_| is_enabled(kind::SYNCHRONIZATION)) {
        let (event, record) = event.unwrap_or((NONE, u64::from(NONE)));
        push(Record::Synchronization(Synchronization {
            kind: kind::SYNCHRONIZATION,
            wait_kind: kind as u32,
            start: begun,
            end,
            correlation: call.correlation,
            context: context_number(device, context),
            stream: stream.map_or(NONE, |stream| stream as u32),
            event,
            record,
            result: code,
            padding: 0,
        }));
    }
    let number = names::number(call.library, call.name, is_13());
    if let Some(number) = number
        && let Some(kind) = recorded(call.library, number)
    {
        push(Record::Api(Api {
            kind,
            cbid: number,
            start: begun,
            end,
            process: std::process::id(),
            thread: calls::thread(),
            correlation: call.correlation,
            result: code,
        }));
    }
}

/// Connects a call with the identifiers that its thread had pushed.
fn push_external(correlation: u32, external: &calls::External) {
    if !is_enabled(kind::EXTERNAL_CORRELATION) {
        return;
    }
    for (external_kind, id) in external.iter().enumerate() {
        if let Some(id) = *id {
            let kind = kind::EXTERNAL_CORRELATION;
            push(Record::External(External {
                kind,
                external_kind: external_kind as u32,
                id,
                correlation,
                reserved: 0,
            }));
        }
    }
}

/// The call by which a library would have launched the work.
fn push_launch(launch: &Launch, done: &Done, number: u32) {
    push_external(done.origin.correlation, &launch.external);
    if let Some(kind) = recorded(Library::CudaRuntime, number) {
        push(Record::Api(Api {
            kind,
            cbid: number,
            start: done.called_ns,
            end: done.submitted_ns,
            process: std::process::id(),
            thread: launch.thread,
            correlation: done.origin.correlation,
            result: 0,
        }));
    }
}

/// Work is over.
fn done(done: &Done) {
    let context = context_number(done.device, done.context);
    let (start, end, correlation) = (done.begin_ns, done.end_ns, done.origin.correlation);
    let (device, stream) = (done.device, done.stream as u32);
    let (graph, node) = done.origin.node.map_or((0, 0), |node| (node.graph, node.node));
    let (wanted, number, record) = match &done.work.kind {
        Kind::Copy { from, to, bytes } => match (from.device(), to.device()) {
            (Some(from_device), Some(to_device)) if from_device != to_device => {
                let record = PeerCopy {
                    kind: kind::MEMCPY2,
                    copy_kind: 10,
                    from_kind: memory_kind(*from),
                    to_kind: memory_kind(*to),
                    bytes: *bytes,
                    start,
                    end,
                    device,
                    context,
                    stream,
                    from_device,
                    from_context: context_number(from_device, 0),
                    to_device,
                    to_context: context_number(to_device, 0),
                    correlation,
                    node,
                    graph,
                    ..PeerCopy::default()
                };
                (is_enabled(kind::MEMCPY2), COPY, Record::PeerCopy(record))
            }
            ends => {
                let copy_kind = match ends {
                    (None, Some(_)) => 1,
                    (Some(_), None) => 2,
                    (Some(_), Some(_)) => 8,
                    (None, None) => 9,
                };
                let record = Memcpy {
                    kind: kind::MEMCPY,
                    copy_kind,
                    from_kind: memory_kind(*from),
                    to_kind: memory_kind(*to),
                    bytes: *bytes,
                    start,
                    end,
                    device,
                    context,
                    stream,
                    correlation,
                    node,
                    graph,
                    count: 1,
                    ..Memcpy::default()
                };
                (is_enabled(kind::MEMCPY), COPY, Record::Memcpy(record))
            }
        },
        Kind::Fill { place, value, bytes } => {
            let record = Memset {
                kind: kind::MEMSET,
                value: *value,
                bytes: *bytes,
                start,
                end,
                device,
                context,
                stream,
                correlation,
                memory_kind: u16::from(memory_kind(*place)),
                node,
                graph,
                ..Memset::default()
            };
            (is_enabled(kind::MEMSET), LAUNCH, Record::Memset(record))
        }
        Kind::Kernel(_) | Kind::Library | Kind::Operator { .. } | Kind::Collective { .. } => {
            static GRIDS: AtomicU64 = AtomicU64::new(0);
            let grid = if let Kind::Kernel(grid) = done.work.kind { grid } else { timeline::Grid::default() };
            let is_serialized = is_enabled(kind::KERNEL);
            let record = Kernel {
                kind: if is_serialized { kind::KERNEL } else { kind::CONCURRENT_KERNEL },
                registers: grid.registers as u16,
                start,
                end,
                completed: end,
                device,
                context,
                stream,
                grid: grid.grid,
                block: grid.block,
                static_shared: grid.static_shared,
                dynamic_shared: grid.dynamic_shared,
                correlation,
                grid_id: GRIDS.fetch_add(1, Ordering::Relaxed) + 1,
                name: kept(&done.work.name),
                node,
                graph,
                ..Kernel::default()
            };
            (is_serialized || is_enabled(kind::CONCURRENT_KERNEL), LAUNCH, Record::Kernel(record))
        }
        Kind::Event { event, record } => {
            let has_time = HAS_EVENT_TIMES.load(Ordering::Acquire);
            let record = Event {
                kind: kind::CUDA_EVENT,
                correlation,
                context,
                stream,
                event: *event,
                device,
                reached: if has_time { end } else { 0 },
                record: *record,
                ..Event::default()
            };
            if is_enabled(kind::CUDA_EVENT) {
                push(Record::Event(record));
            }
            return;
        }
        Kind::HostFunction => return,
    };
    if let Some(launch) = &done.origin.launch {
        push_launch(launch, done, number);
    }
    if wanted {
        push(record);
    }
}

/// `CUpti_ActivityMemoryKind`
fn memory_kind(place: Place) -> u8 {
    match place {
        Place::Pageable => 1,
        Place::Pinned => 2,
        Place::Device(_) => 3,
    }
}

/// CUPTI's number of a context: they are counted as they are seen.
pub(super) fn context_number(device: u32, handle: usize) -> u32 {
    static KNOWN: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let primary = || device::all().get(device as usize).map_or(0, context::primary_of);
    let handle = if handle == 0 { primary() } else { handle };
    let mut known = KNOWN.lock();
    let index = known.iter().position(|other| *other == handle).unwrap_or_else(|| {
        known.push(handle);
        known.len() - 1
    });
    index as u32 + 1
}

/// The address of a C string that is never freed: one for each name.
fn kept(name: &str) -> usize {
    static NAMES: LazyLock<Mutex<HashMap<String, usize>>> = LazyLock::new(Mutex::default);
    let mut names = NAMES.lock();
    if let Some(address) = names.get(name) {
        return *address;
    }
    let address = CString::new(name).unwrap_or_default().into_raw() as usize;
    names.insert(name.to_owned(), address);
    address
}
