//! Groups: calls between `ncclGroupStart` and the outermost `ncclGroupEnd` take effect together. A call outside a group is a
//! group of one. Communicators form concurrently; operations become one launch per communicator.

use std::cell::RefCell;
use std::ffi::c_float;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;
use dataplane::call::Call;
use dataplane::process::Process;
use dataplane::{alone, refusal, threads};
use protocol::datatype::Operation as Kind;

use super::communicator::{COMMUNICATORS, Communicator};
use super::donor::Exchange;
use super::error::{NcclError, NcclResult};
use super::header::{SimulationInfo, UNDEFINED_TIME, UniqueId};
use super::overlap::{self, Made};
use super::threads::Inside;
use super::{estimate, issue, kernel, replicas};
use crate::boundary::gap;
use crate::call_site;
use crate::device::graph::capture::{self, Capture};
use crate::device::graph::structure::{Operation as Recordable, Work};
use crate::device::work::stream::{self, Stream};
use crate::device::work::timeline::Submitted;
use crate::device::work::{clock, running, timeline};
use crate::process::delay::{self, Moment};
use crate::report::operations;
use crate::sanitizer::init::{self, Needs, Read};
use crate::sanitizer::known::{self, Origin};
use crate::sanitizer::races::{self, Access, Lane};

/// A pending rendezvous: performs it, and notifies the communicator. It gets the number of ranks with its id in the group.
pub(crate) type Forming = Box<dyn FnOnce(usize) + Send>;

/// A task that communicators do together with other ranks and that is not an operation in a stream.
pub(crate) type Task = Box<dyn FnOnce() -> NcclResult + Send>;

#[derive(Default)]
struct Group {
    depth: u32,
    forming: Vec<Pending>,
    tasks: Vec<(Arc<Communicator>, Task)>,
    operations: Vec<Operation>,
    /// The first mistake: the whole group returns it and does nothing.
    mistake: Option<NcclError>,
}

struct Pending {
    communicator: Arc<Communicator>,
    handle: usize,
    out: Out<usize>,
    /// Where other ranks of this process may come to the same rendezvous.
    id: Option<UniqueId>,
    work: Forming,
    /// Whether it does not wait for the others (`blocking = 0`).
    in_background: bool,
}

struct Operation {
    communicator: Arc<Communicator>,
    stream: Arc<Stream>,
    call: Call,
    /// Its thread is inside until the group has ended.
    inside: Inside,
}

/// A group's operations on one communicator.
struct Launch {
    communicator: Arc<Communicator>,
    /// The streams in order of first use.
    streams: Vec<Arc<Stream>>,
    calls: Vec<Call>,
}

thread_local! {
    // Never dropped: exit handlers of the program still call in after a thread's values were destroyed. Boxed, because the loader
    // has little room for what is in each thread.
    static GROUP: RefCell<ManuallyDrop<Box<Group>>> = RefCell::default();
}

/// Body of `ncclGroupStart`.
pub(crate) fn start() -> NcclResult {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    Ok(())
}

/// Body of `ncclGroupEnd`.
pub(crate) fn end() -> NcclResult {
    match close()? {
        Some(group) => execute(group),
        None => Ok(()),
    }
}

/// Body of `ncclGroupSimulateEnd`: the group's operations are dropped, and their modeled time is returned, us (model v2). Without
/// a cluster that the model can describe there is none, which is a gap.
pub(crate) fn simulate_end(out: Out<SimulationInfo>) -> NcclResult {
    let closed = close()?;
    let Some(group) = closed else { return Ok(()) };
    if let Some(mistake) = group.mistake {
        return Err(mistake);
    }
    if out.is_null() {
        return Ok(());
    }
    let mut info = out.get()?;
    let operations = group.operations.iter().map(|operation| (&*operation.communicator, &operation.call));
    info.estimated_time = match estimate::group(operations)? {
        Ok((us, _)) => us as c_float,
        Err(why) => {
            gap::record(Library::Nccl, "ncclGroupSimulateEnd", &why);
            UNDEFINED_TIME
        }
    };
    Ok(out.set(info)?)
}

/// Ends one level; returns the group if it was the outermost.
fn close() -> NcclResult<Option<Group>> {
    GROUP.with_borrow_mut(|group| match group.depth {
        0 => Err(NcclError::INVALID_USAGE.because("ncclGroupEnd without ncclGroupStart")),
        1 => {
            group.operations.iter().for_each(|operation| operation.communicator.group(false));
            Ok(Some(std::mem::take(&mut ***group)))
        }
        _ => {
            group.depth -= 1;
            Ok(None)
        }
    })
}

/// Runs a call's body as part of the thread's group: a mistake spoils the group.
pub(crate) fn within(body: impl FnOnce() -> NcclResult) -> NcclResult {
    let result = body();
    if let Err(mistake) = result {
        GROUP.with_borrow_mut(|group| {
            if group.depth > 0 {
                group.mistake.get_or_insert(mistake);
            }
        });
    }
    result
}

/// Adds a communicator that forms through `work`, from the unique `id` if it has one; `out` gets its handle.
pub(crate) fn form(
    communicator: Arc<Communicator>,
    out: Out<usize>,
    id: Option<UniqueId>,
    in_background: bool,
    work: Forming,
) -> NcclResult {
    let handle = COMMUNICATORS.insert(Arc::clone(&communicator));
    communicator.held_as(handle);
    out.set(handle)?;
    let pending = Pending { communicator, handle, out, id, work, in_background };
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.forming.push(pending);
            return None;
        }
        Some(pending)
    });
    match now {
        Some(pending) => execute(Group { forming: vec![pending], ..Group::default() }),
        None => Ok(()),
    }
}

/// Adds a task of a communicator with its other ranks.
pub(crate) fn manage(communicator: Arc<Communicator>, task: Task) -> NcclResult {
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.tasks.push((communicator, task));
            return None;
        }
        Some((communicator, task))
    });
    match now {
        Some(pending) => execute(Group { tasks: vec![pending], ..Group::default() }),
        None => Ok(()),
    }
}

/// Adds an operation for `stream`.
pub(crate) fn operate(communicator: Arc<Communicator>, stream: Arc<Stream>, call: Call) -> NcclResult {
    operate_together(&communicator, &stream, &[call])
}

/// Adds operations for `stream` that are launched as one.
pub(crate) fn operate_together(communicator: &Arc<Communicator>, stream: &Arc<Stream>, calls: &[Call]) -> NcclResult {
    let operation = |call: &Call| Operation {
        communicator: Arc::clone(communicator),
        stream: Arc::clone(stream),
        call: *call,
        inside: communicator.enter(),
    };
    let mut operations: Vec<Operation> = calls.iter().map(operation).collect();
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            operations.iter().for_each(|operation| operation.communicator.group(true));
            group.operations.append(&mut operations);
            return None;
        }
        Some(operations)
    });
    match now {
        Some(operations) => launch(operations),
        None => Ok(()),
    }
}

fn execute(group: Group) -> NcclResult {
    if let Some(mistake) = group.mistake {
        for pending in group.forming {
            COMMUNICATORS.remove(pending.handle);
            pending.out.set_if_wanted(0);
        }
        return Err(mistake);
    }
    let mut in_progress = false;
    let mut result = form_all(group.forming, &mut in_progress);
    if result.is_ok() {
        result = launch(group.operations);
    }
    if result.is_ok() {
        result = manage_all(group.tasks, &mut in_progress);
    }
    result?;
    if in_progress { Err(NcclError::IN_PROGRESS) } else { Ok(()) }
}

/// Performs all rendezvous concurrently, each in a thread, because one may wait for another of the same process.
fn form_all(forming: Vec<Pending>, in_progress: &mut bool) -> NcclResult {
    let mut waited_for = Vec::new();
    let alone = forming.len() == 1;
    let ids: Vec<[u8; 128]> = forming.iter().filter_map(|pending| Some(pending.id?.0)).collect();
    for Pending { communicator, handle, out, id, work, in_background } in forming {
        let together = id.map_or(1, |id| ids.iter().filter(|other| **other == id.0).count());
        *in_progress |= in_background;
        if alone && !in_background {
            work(together);
        } else {
            let thread = threads::start("fakegpu-nccl-init", move || work(together));
            thread.map_err(|error| {
                NcclError::SYSTEM.because(refusal::explain_thread("no thread for a rendezvous", &error))
            })?;
        }
        if !in_background {
            waited_for.push((communicator, handle, out));
        }
    }
    let mut result = Ok(());
    for (communicator, handle, out) in waited_for {
        communicator.drain();
        match communicator.failure() {
            Some(failure) => {
                COMMUNICATORS.remove(handle);
                out.set_if_wanted(0);
                result = Err(NcclError::from(failure));
            }
            None if communicator.is_nothing() => {
                COMMUNICATORS.remove(handle);
                out.set_if_wanted(0);
            }
            None => {}
        }
    }
    result
}

/// Does all tasks concurrently, each in a thread, because one may wait for another of the same process.
fn manage_all(tasks: Vec<(Arc<Communicator>, Task)>, in_progress: &mut bool) -> NcclResult {
    let alone = tasks.len() == 1;
    let mut waited_for = Vec::new();
    for (communicator, task) in tasks {
        let in_background = communicator.in_background;
        if alone && !in_background {
            return task();
        }
        *in_progress |= in_background;
        communicator.manage(true);
        let work = move || {
            let result = task();
            communicator.manage(false);
            result
        };
        let thread = threads::start("fakegpu-nccl-manage", work);
        let thread = thread
            .map_err(|error| NcclError::SYSTEM.because(refusal::explain_thread("no thread for a task", &error)))?;
        if !in_background {
            waited_for.push(thread);
        }
    }
    let mut result = Ok(());
    for thread in waited_for {
        result = result.and(thread.join().unwrap_or(Err(NcclError::INTERNAL)));
    }
    result
}

/// One launch for each communicator, in the order in which the group first used them.
fn launch(operations: Vec<Operation>) -> NcclResult {
    judge(&operations);
    let mut launches: Vec<Launch> = Vec::new();
    let mut threads = Vec::new();
    for Operation { communicator, stream, call, inside } in operations {
        threads.push(inside);
        let at =
            launches.iter().position(|launch| Arc::ptr_eq(&launch.communicator, &communicator)).unwrap_or_else(|| {
                launches.push(Launch { communicator, streams: Vec::new(), calls: Vec::new() });
                launches.len() - 1
            });
        if !launches[at].streams.iter().any(|known| Arc::ptr_eq(known, &stream)) {
            launches[at].streams.push(stream);
        }
        launches[at].calls.push(call);
    }
    let mut live = Vec::new();
    for launch in launches {
        let captured = launch.streams.iter().find_map(|stream| capture::for_stream(stream).transpose()).transpose()?;
        match captured {
            Some(capture) => launch.record(&capture)?,
            None => live.push(launch),
        }
    }
    issue_all(live)
}

/// Looks for buffers of a group that overlap.
fn judge(operations: &[Operation]) {
    let made = |operation: &Operation| {
        let ranks = operation.communicator.usable().ok()?;
        Some((ranks.rank(), ranks.size(), ranks.id()))
    };
    let known = operations.iter().filter_map(|operation| Some((&operation.call, made(operation)?)));
    let group = known.map(|(call, (rank, size, communicator))| Made { call, rank, size, communicator });
    overlap::judge(&group.collect::<Vec<_>>());
}

/// Submits launches of one group to their streams, none of which captures.
fn issue_all(mut launches: Vec<Launch>) -> NcclResult {
    issue::number(launches.iter_mut().flat_map(|launch| {
        let device = launch.communicator.device.ordinal;
        launch.calls.iter_mut().map(move |call| (device, call))
    }));
    launches.into_iter().try_for_each(Launch::issue)
}

impl Launch {
    /// Puts it into the graph that its streams capture.
    fn record(self, capture: &Capture) -> NcclResult {
        self.communicator.usable()?;
        let Self { communicator, streams, calls } = self;
        let operation = Recordable::Work(Arc::new(Recorded { communicator, calls }));
        Ok(capture.add(&streams.iter().collect::<Vec<_>>(), operation)?)
    }

    fn issue(self) -> NcclResult {
        let Self { communicator, streams, calls } = self;
        let ranks = communicator.usable()?;
        if races::are_wanted() {
            let lanes: Vec<Lane> = streams.iter().map(|stream| stream.lane()).collect();
            races::work(&lanes, name(&calls), &accesses(&calls, ranks.rank(), ranks.size()));
            communicator.issued(&lanes);
        }
        if init::is_wanted() {
            follow(&calls, ranks.rank(), ranks.size());
        }
        let mut exchange = Exchange::default();
        if known::is_wanted() {
            exchange = Exchange::begin(name(&calls), communicator.identity(), &calls, ranks.rank(), ranks.size());
            pass_on(&calls, &exchange, ranks.rank(), ranks.size());
        }
        replicas::launched(&calls, ranks.rank(), ranks.size(), || {
            ranks.members().iter().map(|member| member.global_rank).collect()
        });
        delay::wait(Moment::Collective);
        let late = delay::draw(Moment::Collective);
        let cost = clock::is_modeled()
            .then(|| {
                let (us, uses) = estimate::group(calls.iter().map(|call| (&*communicator, call))).ok()?.ok()?;
                Some(timeline::of_collective(streams.first()?.device, us, &uses))
            })
            .flatten();
        let submitted = kernel::submit(streams.first().map(|stream| &**stream), &communicator, &ranks, &calls);
        if let Some(number) = submitted.as_ref().and_then(Submitted::logged) {
            estimate::place_operations();
            let members = || ranks.members().iter().map(|member| member.global_rank).collect();
            let parts = calls.iter().map(estimate::part).collect();
            operations::in_group(number, (ranks.id(), ranks.rank()), members, parts);
        }
        let ticket = ranks.ticket();
        communicator.begin();
        let task = {
            let communicator = Arc::clone(&communicator);
            let device = streams.first().map(|stream| stream.device());
            let mut calls = calls;
            move || {
                let (_running, mut timed) = (device.map(running::start), timeline::begin(submitted));
                late.into_iter().for_each(std::thread::sleep);
                if let Some(timed) = &timed {
                    calls.iter_mut().for_each(|call| call.ready_ns = timed.ready_ns());
                }
                exchange.record();
                let result = ticket.run(&calls);
                if result.is_ok() {
                    exchange.deliver();
                }
                if let (Some(timed), Ok(latest)) = (&mut timed, &result) {
                    let global = || Some(ranks.members().get(latest.rank as usize)?.global_rank.0);
                    timed.met(latest.ns, global, cost);
                }
                // Before whoever waits for the operation goes on.
                drop(timed);
                communicator.end(&result.map(drop));
            }
        };
        match streams.as_slice() {
            [stream] => stream::enqueue(stream, Box::new(task)),
            [first, others @ ..] => meet(first, others, task),
            [] => {}
        }
        Ok(())
    }
}

/// A launch in a graph: every launch of the graph calls the other ranks again.
struct Recorded {
    communicator: Arc<Communicator>,
    calls: Vec<Call>,
}

impl Work for Recorded {
    fn issue(&self, stream: &Arc<Stream>) -> CudaResult {
        let (communicator, calls) = (Arc::clone(&self.communicator), self.calls.clone());
        let launch = Launch { communicator, streams: vec![Arc::clone(stream)], calls };
        issue_all(vec![launch]).map_err(|_| CudaError::LAUNCH_FAILURE)
    }

    fn name(&self) -> &str {
        name(&self.calls)
    }
}

/// The name of a launch: most have one operation, or many of one kind.
fn name(calls: &[Call]) -> &'static str {
    let first = calls.first().map(|call| call.operation);
    match first.filter(|first| calls.iter().all(|call| call.operation == *first)) {
        Some(operation) => operation.name(),
        None => "a group of operations",
    }
}

/// The memory that a launch reads and writes on this rank.
fn accesses(calls: &[Call], rank: u32, size: u32) -> Vec<Access> {
    let side = |address: *mut u8, bytes: usize, writes: bool| Access { address: address as usize, bytes, writes };
    let sides = |call: &Call| {
        // A root in place has what it sends.
        let keeps =
            call.operation == Kind::Broadcast && call.root == Some(rank) && call.send.address == call.receive.address;
        let received = if keeps { 0 } else { call.receive_bytes(rank, size) };
        [side(call.send.address, call.send_bytes(rank, size), false), side(call.receive.address, received, true)]
    };
    calls.iter().flat_map(sides).collect()
}

/// Handles uninitialized memory in a launch. Reductions compute with numbers; everything else only moves them.
fn follow(calls: &[Call], rank: u32, size: u32) {
    let read = |call: &Call| {
        let computes = matches!(call.operation, Kind::AllReduce | Kind::Reduce | Kind::ReduceScatter);
        let needs = if computes { Needs::All } else { Needs::Any };
        Read::line(call.send.address as usize, call.send_bytes(rank, size), needs)
    };
    init::read(name(calls), &calls.iter().filter(|call| !is_barrier(call, rank, size)).map(read).collect::<Vec<_>>());
    for call in calls {
        init::written(call.receive.address as usize, call.receive_bytes(rank, size));
    }
}

/// Which received bytes are known, if nothing computes. What a rank that exists sends is taken for known: if it is not, that rank says
/// so where it reads its own.
fn pass_on(calls: &[Call], exchange: &Exchange, rank: u32, size: u32) {
    let (name, site) = (name(calls), call_site::of_python().unwrap_or_default());
    let is_alone = Process::joined().is_some_and(|process| process.is_alone());
    let rewritten = is_alone.then(|| alone::grouped(rank, calls));
    for (place, call) in rewritten.as_deref().unwrap_or(calls).iter().enumerate() {
        let (sent, received) = (call.send_bytes(rank, size), call.receive_bytes(rank, size));
        let [from, to] = [call.send.address, call.receive.address].map(|address| address as usize);
        let is_others = call.operation == Kind::Recv || call.root.is_some_and(|root| root != rank);
        let computes = matches!(call.operation, Kind::AllReduce | Kind::Reduce | Kind::ReduceScatter);
        let is_unknown = || known::unknown(std::iter::once((from, sent))).is_some();
        let from_another = exchange.received(place).filter(|_| is_alone);
        let is_delivered = from_another.is_some_and(|received| received.is_ok());
        let origin = if is_delivered {
            Origin::Known
        } else if let Some(Err(absent)) = from_another.filter(|_| is_others) {
            Origin::Absent(absent)
        } else if received > protocol::skip::MOVED || (computes && !is_others && is_unknown()) {
            Origin::Skipped(name, site)
        } else {
            Origin::Known
        };
        let block = call.block_bytes();
        let has_own = match call.operation {
            Kind::AllGather | Kind::Gather => true,
            Kind::Broadcast => is_alone && !is_delivered,
            _ => false,
        };
        let is_gathered = has_own && origin == Origin::Known && received > 0;
        let is_own = |place: usize| is_gathered && (is_alone || place == rank as usize);
        // What this rank sends to itself stays as known as it is; alone, it is in everybody's place.
        for place in 0..received.checked_div(block).unwrap_or(0) {
            match to + place * block {
                there if is_own(place) && there == from => {}
                there if is_own(place) => known::copied(there, from, block),
                there => known::put(there, block, origin),
            }
        }
    }
}

/// PyTorch's barrier sums one number from `at::empty` that nobody reads: it is allocated and passed to NCCL on the same
/// line.
fn is_barrier(call: &Call, rank: u32, size: u32) -> bool {
    let fresh_at = || init::is_unwritten(call.send.address as usize, call.send_bytes(rank, size));
    call.operation == Kind::AllReduce
        && call.count == 1
        && fresh_at().is_some_and(|site| site == call_site::of_python().unwrap_or_default())
}

/// Runs `task` in `first` once all streams have arrived here, and holds the others until it is done.
fn meet(first: &Arc<Stream>, others: &[Arc<Stream>], task: impl FnOnce() + Send + 'static) {
    for other in others {
        stream::log_after(first, other);
        // Not only its own tail: it may be ordered after streams that `first` is not.
        for point in other.pending() {
            stream::hold_up(first, point);
        }
    }
    stream::enqueue(first, Box::new(task));
    for other in others {
        stream::follow(other, first);
    }
}
