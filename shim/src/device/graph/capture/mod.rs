//! Stream capture: which streams record into which graph, what each stream's next node depends on, and what must not happen
//! in the meantime (CUDA programming guide, "Creating a graph using stream capture", and the runtime manual's stream
//! management).

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;

use super::structure::{self, GRAPHS, Graph, Operation};
use crate::device::Device;
use crate::device::memory::graph_memory;
use crate::device::memory::undo::Undo;
use crate::device::work::captured::Captured;
use crate::device::work::stream::{Kind, Stream};

/// `cudaStreamCaptureMode`: what the program promises not to call during a capture, and in which threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    /// From its number.
    ///
    /// # Errors
    /// `INVALID_VALUE`.
    pub(crate) fn from_number(number: u32) -> CudaResult<Self> {
        match number {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }
}

/// A capture sequence.
#[derive(Debug)]
pub(crate) struct Capture {
    /// Unique in the process.
    id: u64,
    mode: Mode,
    /// The thread that began it.
    thread: i32,
    /// The stream in which it began.
    origin: u64,
    graph: Arc<Graph>,
    /// Whether the graph is the program's own, which outlives a capture that fails.
    is_given: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_invalid: bool,
    is_over: bool,
    members: Vec<Member>,
    undo: Undo,
}

#[derive(Debug)]
struct Member {
    stream: Arc<Stream>,
    /// Handles of the nodes that its next node depends on.
    after: Vec<usize>,
    /// The dependencies last returned to the program, as a C array.
    shown: Vec<usize>,
}

/// What a program may query about a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Info {
    /// `cudaStreamCaptureStatus`: none, active, invalidated.
    pub(crate) status: u32,
    pub(crate) id: u64,
    pub(crate) graph: usize,
    /// Address of an array of handles of nodes, valid until the next call for the stream.
    pub(crate) after: usize,
    pub(crate) count: usize,
}

static CAPTURES: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());
/// Number of captures: in the usual case nobody looks further.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Whether PyTorch operators may be captured, which have to compute during capture.
static REHEARSES: AtomicBool = AtomicBool::new(false);

/// From now on, captured copies and fills are done once, so that operators after them find meaningful numbers.
pub(crate) fn rehearse_all() {
    REHEARSES.store(true, Ordering::Relaxed);
}

thread_local! {
    static MODE: Cell<u32> = const { Cell::new(0) };
    static IS_HIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// `cudaThreadExchangeStreamCaptureMode`
///
/// # Errors
/// `INVALID_VALUE` for a number that is not a mode.
pub(crate) fn exchange_mode(mode: u32) -> CudaResult<u32> {
    Mode::from_number(mode)?;
    Ok(MODE.replace(mode))
}

/// Until dropped, hides from this thread that its streams are capturing: what it runs now is not part of the program's
/// capture.
pub(crate) struct Hidden(bool);

impl Hidden {
    pub(crate) fn begin() -> Self {
        Self(IS_HIDDEN.replace(true))
    }

    /// The reverse: until dropped, this thread sees its captures again.
    pub(crate) fn pause() -> Self {
        Self(IS_HIDDEN.replace(false))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        IS_HIDDEN.set(self.0);
    }
}

/// Whether captures are hidden from this thread.
pub(crate) fn is_hidden() -> bool {
    IS_HIDDEN.get()
}

fn this_thread() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

fn all() -> Vec<Arc<Capture>> {
    if is_any() { CAPTURES.lock().clone() } else { Vec::new() }
}

/// The capture that a stream takes part in, valid or not.
fn containing(stream: &Stream) -> Option<Arc<Capture>> {
    all().into_iter().find(|capture| capture.state.lock().place(stream).is_some())
}

/// Whether `stream` captures into a graph owned by the program.
pub(crate) fn is_into_given(stream: &Stream) -> bool {
    containing(stream).is_some_and(|capture| capture.is_given)
}

/// An operator that only determines the shapes of its results got these bytes (address and length), and will write them. On a
/// GPU, nothing writes them during capture: their previous content, such as a graph's inputs in its own pool, is still there at
/// the first launch.
pub(crate) fn handed_out(stream: &Stream, (address, bytes): (usize, usize), is_new: bool) {
    let Some(capture) = containing(stream) else { return };
    capture.rehearse(|undo| {
        if is_new {
            undo.fresh(address, bytes);
        } else {
            // SAFETY: a block of the program's allocator, in live device memory, which is this process's.
            unsafe { undo.keep(address, bytes) };
        }
    });
}

/// The capture into which work for `stream` goes, if it captures.
///
/// # Errors
/// `CAPTURE_INVALIDATED`; `CAPTURE_IMPLICIT` for work in the legacy stream that would come after a stream that captures.
pub(crate) fn for_stream(stream: &Stream) -> CudaResult<Option<Arc<Capture>>> {
    if !is_any() {
        return Ok(None);
    }
    if let Some(capture) = containing(stream) {
        let is_invalid = capture.state.lock().is_invalid;
        return if is_invalid { Err(CudaError::CAPTURE_INVALIDATED) } else { Ok(Some(capture)) };
    }
    if stream.kind == Kind::Legacy && invalidate(blocking_on(stream)) {
        return Err(CudaError::CAPTURE_IMPLICIT);
    }
    Ok(None)
}

/// Captures of blocking streams of the stream's device.
fn blocking_on(stream: &Stream) -> impl Iterator<Item = Arc<Capture>> {
    all().into_iter().filter(|capture| {
        let blocks = |member: &Member| member.stream.kind == Kind::Blocking && member.stream.device == stream.device;
        capture.state.lock().members.iter().any(blocks)
    })
}

/// The legacy stream cannot be queried while a blocking stream captures (CUDA Runtime API, `cudaStreamIsCapturing`).
///
/// # Errors
/// `CAPTURE_IMPLICIT`.
pub(crate) fn legacy_is_usable(stream: &Stream) -> CudaResult {
    if stream.kind == Kind::Legacy && is_any() && blocking_on(stream).next().is_some() {
        return Err(CudaError::CAPTURE_IMPLICIT);
    }
    Ok(())
}

/// True if there were any.
fn invalidate(captures: impl Iterator<Item = Arc<Capture>>) -> bool {
    captures.fold(false, |_, capture| {
        capture.state.lock().is_invalid = true;
        true
    })
}

/// Called when work that cannot be captured is submitted to a stream.
///
/// # Errors
/// As [`for_stream`]; `CAPTURE_UNSUPPORTED` if the stream captures; the capture is then invalid.
pub(crate) fn refuse(stream: &Stream) -> CudaResult {
    match for_stream(stream)? {
        None => Ok(()),
        Some(capture) => {
            capture.invalidate();
            Err(CudaError::CAPTURE_UNSUPPORTED)
        }
    }
}

/// Called when the host waits for a stream, or queries its progress.
///
/// # Errors
/// As [`refuse`].
pub(crate) fn host_waits(stream: &Stream) -> CudaResult {
    refuse(stream)
}

/// Called when the host waits for a device.
///
/// # Errors
/// `CAPTURE_UNSUPPORTED` if one of its streams captures; the capture is then invalid.
pub(crate) fn host_waits_for(device: &Device) -> CudaResult {
    let is_there = |capture: &Arc<Capture>| {
        capture.state.lock().members.iter().any(|member| member.stream.device == device.ordinal)
    };
    if invalidate(all().into_iter().filter(is_there)) { Err(CudaError::CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

/// A call that may implicitly wait for the device (`cudaMalloc`) is forbidden depending on the modes of the current captures
/// and of this thread (`cudaThreadExchangeStreamCaptureMode`).
///
/// # Errors
/// `CAPTURE_UNSUPPORTED`; the captures that forbid it are invalid then.
pub(crate) fn unsafe_call() -> CudaResult {
    if !is_any() || is_hidden() {
        return Ok(());
    }
    let (thread, mode) = (this_thread(), Mode::from_number(MODE.get())?);
    let forbids = |capture: &Arc<Capture>| {
        let is_own = capture.thread == thread && capture.mode != Mode::Relaxed;
        match mode {
            Mode::Global => is_own || capture.mode == Mode::Global,
            Mode::ThreadLocal => is_own,
            Mode::Relaxed => false,
        }
    };
    if invalidate(all().into_iter().filter(forbids)) { Err(CudaError::CAPTURE_UNSUPPORTED) } else { Ok(()) }
}

/// Makes `stream` begin to capture into a new graph, or after `after` in a graph of the program.
///
/// # Errors
/// `CAPTURE_UNSUPPORTED` for the legacy stream, `ILLEGAL_STATE` for one that captures already, `INVALID_VALUE` for nodes
/// that are not in the graph.
pub(crate) fn begin(stream: &Arc<Stream>, mode: Mode, into: Option<(Arc<Graph>, Vec<usize>)>) -> CudaResult {
    static IDS: AtomicU64 = AtomicU64::new(1);
    if stream.kind == Kind::Legacy {
        return Err(CudaError::CAPTURE_UNSUPPORTED);
    }
    if containing(stream).is_some() {
        return Err(CudaError::ILLEGAL_STATE);
    }
    let is_given = into.is_some();
    let (graph, after) = into.unwrap_or_else(|| (Graph::create().0, Vec::new()));
    if !after.iter().all(|node| graph.has(*node)) {
        return Err(CudaError::INVALID_VALUE);
    }
    let member = Member { stream: Arc::clone(stream), after, shown: Vec::new() };
    let capture = Capture {
        id: IDS.fetch_add(1, Ordering::Relaxed),
        mode,
        thread: this_thread(),
        origin: stream.id,
        graph,
        is_given,
        state: Mutex::new(State { members: vec![member], ..State::default() }),
    };
    let mut captures = CAPTURES.lock();
    captures.push(Arc::new(capture));
    COUNT.store(captures.len(), Ordering::Release);
    Ok(())
}

/// Ends the capture that began in `stream`; returns the graph's handle.
///
/// # Errors
/// `ILLEGAL_STATE` for a stream that does not capture, `CAPTURE_UNMATCHED` for one that joined, `CAPTURE_WRONG_THREAD`;
/// `CAPTURE_INVALIDATED` and `CAPTURE_UNJOINED`, which end it without a graph.
pub(crate) fn end(stream: &Stream) -> CudaResult<usize> {
    let capture = containing(stream).ok_or(CudaError::ILLEGAL_STATE)?;
    if capture.origin != stream.id {
        capture.invalidate();
        return Err(CudaError::CAPTURE_UNMATCHED);
    }
    if capture.mode != Mode::Relaxed && capture.thread != this_thread() {
        return Err(CudaError::CAPTURE_WRONG_THREAD);
    }
    finish(&capture)
}

/// Information about the capture that `stream` takes part in.
pub(crate) fn info(stream: &Stream) -> Option<Info> {
    let capture = containing(stream)?;
    let mut state = capture.state.lock();
    let status = if state.is_invalid { 2 } else { 1 };
    let place = state.place(stream)?;
    let member = &mut state.members[place];
    member.shown.clone_from(&member.after);
    Some(Info {
        status,
        id: capture.id,
        graph: capture.graph.handle(),
        after: member.shown.as_ptr() as usize,
        count: member.shown.len(),
    })
}

/// `cudaStreamUpdateCaptureDependencies`: the next node of `stream` comes after `nodes`, and only those if `only`.
///
/// # Errors
/// `ILLEGAL_STATE` for a stream that does not capture, `INVALID_VALUE` for nodes that are not in its graph.
pub(crate) fn depend(stream: &Stream, nodes: &[usize], only: bool) -> CudaResult {
    let capture = for_stream(stream)?.ok_or(CudaError::ILLEGAL_STATE)?;
    if !nodes.iter().all(|node| capture.graph.has(*node)) {
        return Err(CudaError::INVALID_VALUE);
    }
    let mut state = capture.state.lock();
    let Some(place) = state.place(stream) else { return Err(CudaError::ILLEGAL_STATE) };
    let after = &mut state.members[place].after;
    if only {
        after.clear();
    }
    unite(after, nodes);
    Ok(())
}

/// Called when an event is recorded in a stream; `None` if the stream does not capture.
///
/// # Errors
/// As [`for_stream`].
pub(crate) fn record(stream: &Stream) -> CudaResult<Option<Captured>> {
    let Some(capture) = for_stream(stream)? else { return Ok(None) };
    let state = capture.state.lock();
    let after = state.place(stream).map_or_else(Vec::new, |place| state.members[place].after.clone());
    drop(state);
    Ok(Some(Captured { capture: capture.id, after }))
}

/// Called when a stream waits for an event, given the event's state in a capture and whether it was never recorded. True if this
/// is part of a capture, and handled.
///
/// # Errors
/// As [`for_stream`]; `CAPTURE_MERGE` between two captures, `CAPTURE_ISOLATION` for an event of work that is not captured,
/// `CAPTURED_EVENT` for one whose capture is over, `CAPTURE_UNSUPPORTED` for the legacy stream.
pub(crate) fn wait(stream: &Arc<Stream>, captured: Option<Captured>, is_fresh: bool) -> CudaResult<bool> {
    let own = for_stream(stream)?;
    let Some(Captured { capture, after }) = captured else {
        return match own {
            None => Ok(false),
            Some(_) if is_fresh => Ok(true),
            Some(own) => {
                own.invalidate();
                Err(CudaError::CAPTURE_ISOLATION)
            }
        };
    };
    let capture = all().into_iter().find(|other| other.id == capture).ok_or(CudaError::CAPTURED_EVENT)?;
    let mut state = capture.state.lock();
    if state.is_over {
        return Err(CudaError::CAPTURED_EVENT);
    }
    if state.is_invalid {
        return Err(CudaError::CAPTURE_INVALIDATED);
    }
    match own {
        Some(own) if own.id != capture.id => {
            state.is_invalid = true;
            drop(state);
            own.invalidate();
            Err(CudaError::CAPTURE_MERGE)
        }
        None if stream.kind == Kind::Legacy => {
            state.is_invalid = true;
            Err(CudaError::CAPTURE_UNSUPPORTED)
        }
        _ => {
            match state.place(stream) {
                Some(place) => unite(&mut state.members[place].after, &after),
                None => state.members.push(Member { stream: Arc::clone(stream), after, shown: Vec::new() }),
            }
            Ok(true)
        }
    }
}

/// Called when the host waits for an event, queries it or measures with it.
///
/// # Errors
/// `CAPTURED_EVENT` if it was last recorded in a capture; the capture is then invalid.
pub(crate) fn host_uses(captured: Option<Captured>) -> CudaResult {
    let Some(captured) = captured else { return Ok(()) };
    invalidate(all().into_iter().filter(|capture| capture.id == captured.capture));
    Err(CudaError::CAPTURED_EVENT)
}

/// Called when a stream is about to be destroyed: ends the capture that began in it. A capture that it only joined goes on
/// (graphMemoryNodes of cuda-samples destroys one that was joined).
pub(crate) fn ends(stream: &Stream) {
    let Some(capture) = containing(stream) else { return };
    if capture.origin == stream.id {
        // Nobody can end it any more.
        capture.invalidate();
        let _ = finish(&capture);
    }
}

/// Takes a capture from the list; returns its graph's handle.
fn finish(capture: &Capture) -> CudaResult<usize> {
    let result = capture.close();
    let mut captures = CAPTURES.lock();
    captures.retain(|other| other.id != capture.id);
    COUNT.store(captures.len(), Ordering::Release);
    drop(captures);
    if result.is_err() && !capture.is_given {
        GRAPHS.remove(capture.graph.handle());
    }
    result.map(|()| capture.graph.handle())
}

/// Whether any stream of the process captures.
pub(crate) fn is_any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

fn unite(after: &mut Vec<usize>, more: &[usize]) {
    for node in more {
        if !after.contains(node) {
            after.push(*node);
        }
    }
}

impl State {
    fn place(&self, stream: &Stream) -> Option<usize> {
        self.members.iter().position(|member| member.stream.id == stream.id)
    }
}

impl Capture {
    /// Invalidates it: from now on it fails.
    pub(crate) fn invalidate(&self) {
        self.state.lock().is_invalid = true;
    }

    /// Adds a node after the work of all `streams`, the first of which determines the device. All of them continue
    /// after it.
    ///
    /// # Errors
    /// `CAPTURE_INVALIDATED`, and what [`Graph::add`] refuses.
    pub(crate) fn add(&self, streams: &[&Arc<Stream>], operation: Operation) -> CudaResult {
        let mut state = self.state.lock();
        if state.is_invalid {
            return Err(CudaError::CAPTURE_INVALIDATED);
        }
        let places: Vec<usize> = streams.iter().filter_map(|stream| state.place(stream)).collect();
        if places.len() < streams.len() {
            // One of them is not captured: the operation would order it against the capture.
            state.is_invalid = true;
            return Err(CudaError::CAPTURE_ISOLATION);
        }
        let mut after = Vec::new();
        places.iter().for_each(|place| unite(&mut after, &state.members[*place].after));
        if REHEARSES.load(Ordering::Relaxed) {
            operation.rehearse(&mut state.undo);
        }
        let node = self.graph.add(operation, streams.first().map(|stream| stream.device), after)?;
        places.iter().for_each(|place| state.members[*place].after = vec![node]);
        Ok(())
    }

    /// Adds an allocating node after the work of `stream`; returns the address.
    ///
    /// # Errors
    /// As [`Capture::add`] and [`Graph::memory`].
    pub(crate) fn allocate(&self, stream: &Arc<Stream>, device: &'static Device, size: usize) -> CudaResult<usize> {
        let state = self.state.lock();
        let after = state.place(stream).map_or_else(Vec::new, |place| state.members[place].after.clone());
        drop(state);
        let allocation = self.graph.memory(device, size, &after)?;
        let address = allocation.address;
        self.add(&[stream], Operation::Allocate(allocation))?;
        Ok(address)
    }

    /// Adds a freeing node after the work of `stream`.
    ///
    /// # Errors
    /// As [`Capture::add`]; `INVALID_VALUE` for memory that does not belong to a graph, or is already freed. The capture is then
    /// invalid.
    pub(crate) fn free(&self, stream: &Arc<Stream>, address: usize) -> CudaResult {
        let added = graph_memory::find(address).and_then(|allocation| self.add(&[stream], Operation::Free(allocation)));
        added.inspect_err(|_| self.invalidate())
    }

    /// Lets PyTorch operators record the memory they change while they determine the shapes of their results.
    pub(crate) fn rehearse(&self, note: impl FnOnce(&mut Undo)) {
        note(&mut self.state.lock().undo);
    }

    fn close(&self) -> CudaResult {
        let mut state = self.state.lock();
        state.is_over = true;
        let mut undo = std::mem::take(&mut state.undo);
        undo.restore();
        if state.is_invalid {
            return Err(CudaError::CAPTURE_INVALIDATED);
        }
        let origin = state.members.iter().find(|member| member.stream.id == self.origin);
        let joined = self.graph.until(origin.map_or(&[], |member| &member.after));
        let is_joined = |member: &Member| member.after.iter().all(|node| joined.contains(node));
        if state.members.iter().all(is_joined) { Ok(()) } else { Err(CudaError::CAPTURE_UNJOINED) }
    }
}

/// The graph behind a handle, and nodes of it, to capture into.
///
/// # Errors
/// `INVALID_VALUE`.
pub(crate) fn into(graph: usize, after: Vec<usize>) -> CudaResult<Option<(Arc<Graph>, Vec<usize>)>> {
    Ok(Some((structure::resolve(graph)?, after)))
}

#[cfg(test)]
mod tests;
