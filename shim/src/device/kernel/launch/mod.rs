//! Launches: checked as CUDA checks them, then run by `ptx` in stream order. A kernel without code here is recorded, not executed.

mod little;
mod nested;
mod pointers;

use std::ffi::c_void;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;
use protocol::ids::SiteId;
use ptx::{Entry, Footprint, LaunchError, Sample, Trap, TrapKind};

use little::Little;
use nested::Nested;

use super::children::Children;
use super::grid::Grid;
use super::occupancy::{self, Need};
use super::{Kernel, NoCode, Runnable};
use crate::boundary::gap;
use crate::call_site::{self, cpp_name};
use crate::device::memory::{self, Kind, address, misuse};
use crate::device::state::attribute;
use crate::device::work::stream::{self, Stream};
use crate::device::work::timeline::{self, Form, Grid as TimedGrid, Kind as WorkKind, Work};
use crate::device::work::{event, running};
use crate::device::{Device, answer_before_failure};
use crate::sanitizer::init;
use crate::sanitizer::known::{self, Origin};
use crate::sanitizer::owner::Blocks;
use crate::sanitizer::races::{self, Access, Submitted, Touch};
use crate::settings::GapPolicy;

/// The configuration of a launch.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: usize,
    /// Blocks of a cluster; `None` if the launch does not specify it.
    pub(crate) cluster: Option<[u32; 3]>,
    /// Whether all blocks must be resident at once.
    pub(crate) is_cooperative: bool,
    /// Events to record after it.
    pub(crate) events: Vec<usize>,
    /// The program's handle of the kernel.
    pub(crate) function: usize,
    /// Whether it goes to a stream now, and not into a graph.
    pub(crate) runs_now: bool,
}

impl Launch {
    /// One without attributes.
    pub(crate) fn plain(grid: [u32; 3], block: [u32; 3], shared_bytes: usize) -> Self {
        Self {
            grid,
            block,
            shared_bytes,
            cluster: None,
            is_cooperative: false,
            events: Vec::new(),
            function: 0,
            runs_now: false,
        }
    }
}

/// `cudaLaunchAttribute`, `CUlaunchAttribute`
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

const _: () = assert!(size_of::<Attribute>() == 72);

impl Launch {
    /// What a timeline shows of it.
    fn timed(&self) -> TimedGrid {
        let dynamic_shared = u32::try_from(self.shared_bytes).unwrap_or(u32::MAX);
        TimedGrid { grid: self.grid, block: self.block, dynamic_shared, ..TimedGrid::default() }
    }

    /// A kernel that is not executed takes its place on the timeline.
    pub(crate) fn pass_by(&self, kernel: &Kernel, stream: &Arc<Stream>) {
        let describe = || Work {
            kind: WorkKind::Kernel(self.timed()),
            ..Work::library(kernel.name().to_string_lossy().into_owned())
        };
        if let Some(submitted) = timeline::submit(stream, describe) {
            stream.run(move || drop(timeline::begin(Some(submitted))));
        }
    }

    /// Adds the attributes of a configuration. Those that only affect speed have no effect.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a null list with a nonzero count, or attributes that CUDA does not have.
    ///
    /// # Safety
    /// `list` is null or points to `count` attributes.
    pub(crate) unsafe fn with_attributes(mut self, list: *const c_void, count: u32) -> CudaResult<Self> {
        if count > 0 && list.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        for index in 0..count as usize {
            // SAFETY: the caller's promise.
            let attribute = unsafe { list.cast::<Attribute>().add(index).read_unaligned() };
            let value = attribute.value;
            match attribute.id {
                2 => self.is_cooperative |= value[0] != 0,
                4 if value[..3] != [0; 3] => self.cluster = Some([value[0], value[1], value[2]]),
                // A programmatic event, or one at the begin: the end of the kernel is later than both.
                7 | 12 => self.events.push(u64::from(value[0]) as usize | (value[1] as usize) << 32),
                0..=16 => {}
                _ => return Err(CudaError::INVALID_VALUE),
            }
        }
        Ok(self)
    }
}

/// Where the values of a kernel's parameters are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arguments {
    /// A pointer to each.
    Each(*const *const c_void),
    /// All in a buffer of this many bytes, laid out as the kernel expects.
    Packed(*const u8, usize),
}

impl Arguments {
    /// The parameters passed to the driver's launch functions.
    ///
    /// # Errors
    /// `INVALID_VALUE` for both ways at once, and for a malformed list.
    ///
    /// # Safety
    /// Both are null or as `cuLaunchKernel` expects.
    pub(crate) unsafe fn of_driver(parameters: *const c_void, extra: *const c_void) -> CudaResult<Self> {
        const END: usize = 0;
        const BUFFER: usize = 1;
        const SIZE: usize = 2;
        if extra.is_null() {
            return Ok(Self::Each(parameters.cast()));
        }
        if !parameters.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        let (mut data, mut size) = (0, 0);
        let mut at = extra.cast::<usize>();
        // SAFETY: the list ends with `CU_LAUNCH_PARAM_END`; a size is given by a pointer to it.
        unsafe {
            while *at != END {
                match *at {
                    BUFFER => data = *at.add(1),
                    SIZE if *at.add(1) != 0 => size = *(*at.add(1) as *const usize),
                    _ => return Err(CudaError::INVALID_VALUE),
                }
                at = at.add(2);
            }
        }
        Ok(Self::Packed(data as *const u8, size))
    }

    /// The values, laid out for the kernel.
    ///
    /// # Errors
    /// `INVALID_VALUE` if there are fewer than it expects.
    ///
    /// # Safety
    /// They are where the program claims.
    unsafe fn collect(self, entry: &Entry) -> CudaResult<Vec<u8>> {
        let mut values = vec![0; entry.param_bytes() as usize];
        if values.is_empty() {
            return Ok(values);
        }
        match self {
            Self::Each(list) => {
                for (index, param) in entry.params.iter().enumerate() {
                    if list.is_null() {
                        return Err(CudaError::INVALID_VALUE);
                    }
                    // SAFETY: one pointer for each parameter, to as many bytes as it has.
                    unsafe {
                        let from = list.add(index).read_unaligned();
                        if from.is_null() {
                            return Err(CudaError::INVALID_VALUE);
                        }
                        let to = values.as_mut_ptr().add(param.offset as usize);
                        std::ptr::copy_nonoverlapping(from.cast(), to, param.size as usize);
                    }
                }
            }
            Self::Packed(data, size) => {
                if data.is_null() || size < values.len() {
                    return Err(CudaError::INVALID_VALUE);
                }
                // SAFETY: a buffer of `size` bytes.
                unsafe { std::ptr::copy_nonoverlapping(data, values.as_mut_ptr(), values.len()) };
            }
        }
        Ok(values)
    }
}

/// A launch that was checked, with the values of its parameters.
#[derive(Debug)]
pub(crate) struct KernelCall {
    pub(crate) device: &'static Device,
    kernel: Kernel,
    runnable: Runnable,
    pub(crate) launch: Launch,
    cluster: [u32; 3],
    params: Vec<u8>,
    /// The address of each parameter in `params`, for C.
    places: Vec<usize>,
    globals: Arc<[u64]>,
    library: Library,
    call: &'static str,
    /// Nesting depth of kernels that launched each other down to this one.
    depth: u32,
}

/// Checks a launch, and takes the values of its parameters. `None` if it has no effect, because it is an allowed gap.
///
/// # Errors
/// As CUDA's. The gap itself is an error under FAKEGPU_UNSUPPORTED_API=stop (`NO_KERNEL_IMAGE`, as for a kernel that was not
/// compiled for this GPU) and `error` (NotSupported).
///
/// # Safety
/// The arguments are where the program claims.
pub(crate) unsafe fn prepare(
    device: &'static Device,
    kernel: &Kernel,
    launch: Launch,
    arguments: Arguments,
    library: Library,
    call: &'static str,
) -> CudaResult<Option<KernelCall>> {
    check_sizes(device, &launch)?;
    if gap::is_muted() {
        return Ok(None);
    }
    device.alive()?;
    crate::report::used();
    // SAFETY: the caller's promise.
    let (runnable, known_after) = match unsafe { little::find(device, kernel, &launch, &arguments) } {
        Some(Little { runnable, blocks }) => (Ok(runnable), blocks),
        None => (kernel.code(device), Vec::new()),
    };
    let runnable = match runnable {
        Ok(runnable) => runnable,
        Err(NoCode::NotForDevice) => {
            device.counters.launched(&kernel.name().to_string_lossy());
            return Err(CudaError::NO_KERNEL_IMAGE);
        }
        Err(NoCode::Gap(why)) => {
            device.counters.launched(&kernel.name().to_string_lossy());
            gap::tolerate(library, call, &why)?;
            init::all_written();
            if known::is_wanted() && !known::is_operator_under_way() {
                let name = kernel.name().to_string_lossy();
                let program = kernel.own_program(device).ok();
                // SAFETY: the caller's promise.
                let words = program.and_then(|program| unsafe { little::words(&program, &name, &arguments) });
                let words = words.unwrap_or_else(|| pointers::words(&arguments, &name));
                known::launched(call, words.into_iter());
            }
            races::writes_anywhere();
            // Success would let a program take memory that the kernel never wrote for its result.
            return if gap::policy() == GapPolicy::Stop { Err(CudaError::NO_KERNEL_IMAGE) } else { Ok(None) };
        }
    };
    let cluster = check_kernel(device, &runnable, &launch)?;
    // SAFETY: the caller's promise.
    let params = unsafe { arguments.collect(runnable.compiled.kernel.entry()) }?;
    let place = |param: &ptx::Param| params.as_ptr() as usize + param.offset as usize;
    let places = runnable.compiled.kernel.entry().params.iter().map(place).collect();
    let globals = kernel.variables(&runnable.program, device)?;
    let kernel = kernel.clone();
    known_after.into_iter().for_each(|(address, bytes)| known::put(address, bytes, Origin::Known));
    Ok(Some(KernelCall { device, kernel, runnable, launch, cluster, params, places, globals, library, call, depth: 0 }))
}

impl KernelCall {
    /// The kernel's name.
    pub(crate) fn name(&self) -> String {
        self.kernel.name().to_string_lossy().into_owned()
    }

    /// Address of C's array of pointers to the parameters, which lives as long as this.
    pub(crate) fn parameters(&self) -> usize {
        self.places.as_ptr() as usize
    }

    /// How long it takes by the clock of events: a function of only the kernel, its launch and the profile. The larger part is
    /// the same for all kernels, so that a measurement over some milliseconds needs few launches; the rest distinguishes them.
    fn work(&self) -> Duration {
        const EACH: Duration = Duration::from_millis(20);
        // Each issues an operation of a warp in every nanosecond.
        EACH + Duration::from_nanos(self.instructions().min(EACH.as_nanos() as u64 * 1000))
    }

    /// The instructions of warps that the busiest scheduler of a multiprocessor issues, with every loop counted once.
    fn instructions(&self) -> u64 {
        const SCHEDULERS: u64 = 4;
        let blocks: u64 = self.launch.grid.iter().map(|size| u64::from(*size)).product();
        let threads: u64 = self.launch.block.iter().map(|size| u64::from(*size)).product();
        let processors = u64::from(self.device.gpu.profile.sm_count).max(1);
        let warps = blocks.div_ceil(processors).saturating_mul(threads.div_ceil(32));
        warps.saturating_mul(self.runnable.compiled.kernel.operations()).div_ceil(SCHEDULERS)
    }

    fn describe(&self) -> Work {
        let attributes = &self.runnable.compiled.attributes;
        let grid = TimedGrid {
            static_shared: attributes.shared_bytes as u32,
            registers: attributes.registers,
            ..self.launch.timed()
        };
        let form = Form::Instructions { per_scheduler: self.instructions() };
        Work { kind: WorkKind::Kernel(grid), form, ..Work::library(self.name()) }
    }

    /// Submits it to a stream that is not capturing.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for an event that is gone or of another device, and the device's failure.
    pub(crate) fn issue(self: &Arc<Self>, stream: &Arc<Stream>) -> CudaResult {
        let device = self.device;
        device.alive()?;
        device.counters.launched(&self.kernel.name().to_string_lossy());
        let events = self.launch.events.iter().map(|handle| event::resolve(*handle)).collect::<CudaResult<Vec<_>>>()?;
        if events.iter().any(|event| event.device() != stream.device) {
            return Err(CudaError::INVALID_HANDLE);
        }
        device.output.flush();
        let kernel = &self.runnable.compiled.kernel;
        // What its children do is not known.
        let may_wait = kernel.may_wait() || kernel.launches();
        let submitted = if may_wait {
            // It may wait for what others write meanwhile, which orders the two in a way that is not seen.
            races::work(&[stream.lane()], self.call, &[]);
            None
        } else {
            races::kernel(stream.lane(), self.runnable.compiled.called)
        };
        races::writes_anywhere();
        stream.count_work(self.work());
        // Who runs at once is in the call that launched it.
        let site = if may_wait || !stream.is_idle() { call_site::of_mistake() } else { None };
        let given = Given { site, blocks: Blocks::now(), unwritten: init::for_kernel(), submitted };
        let is_watched = given.unwritten.is_some();
        let (call, is_done) = (Arc::clone(self), Arc::new(AtomicBool::new(false)));
        let done = Arc::clone(&is_done);
        let submitted = timeline::submit(stream, || self.describe());
        let task = move || {
            let _running = (running::start(device), timeline::begin(submitted));
            call.run(&given);
            done.store(true, Ordering::Release);
        };
        if may_wait {
            // For work that is issued after it, perhaps: the caller must be free to do that.
            stream::enqueue(stream, Box::new(task));
        } else {
            stream.run(task);
        }
        // What it writes is known when it is done; until then it may be anything.
        if is_watched && !is_done.load(Ordering::Acquire) {
            init::all_written();
        }
        for event in events {
            event.record(stream)?;
        }
        answer_before_failure();
        Ok(())
    }

    fn run(&self, given: &Given) {
        static GRIDS: AtomicU64 = AtomicU64::new(1);
        let Self { device, runnable, launch, cluster, params, globals, library, call, .. } = self;
        // Nothing runs behind a kernel that went wrong.
        if device.alive().is_err() {
            return;
        }
        let workspace = if launch.is_cooperative { Workspace::new(device) } else { Ok(Workspace(None)) };
        let workspace = match workspace {
            Ok(workspace) => workspace,
            Err(error) => return device.fail(error),
        };
        let before = given.unwritten.as_deref().unwrap_or_default();
        let accept = Nested { parent: self, given };
        let children = Children::new(device, &accept);
        let grid = Grid { device, site: given.site, blocks: given.blocks.as_ref(), unwritten: before, children };
        let ranges = before.iter().map(|(range, _)| range.start as u64..range.end as u64);
        let unwritten = given.unwritten.as_ref().map(|_| ptx::Unwritten::new(ranges));
        let footprint = given.submitted.as_ref().map(|_| Footprint::default());
        let limit = |number: usize| device.limits[number].load(Ordering::Relaxed);
        let whole = ptx::Launch {
            grid: launch.grid,
            block: launch.block,
            cluster: *cluster,
            dynamic_shared: launch.shared_bytes as u32,
            params,
            globals,
            cooperative: launch.is_cooperative,
            workspace: workspace.0.map_or(0, |address| address as u64),
            stack: u32::try_from(limit(0)).unwrap_or(u32::MAX),
            threads: host_threads(),
            multiprocessors: device.gpu.profile.sm_count,
            grid_id: GRIDS.fetch_add(1, Ordering::Relaxed),
            memory: &grid,
            host: &grid,
            unwritten: unwritten.as_ref(),
            footprint: footprint.as_ref(),
            cancel: None,
        };
        match catch_unwind(AssertUnwindSafe(|| runnable.compiled.kernel.launch(&whole))) {
            Ok(Ok(_)) => {}
            Ok(Err(LaunchError::Trap(trap))) => stopped(device, &trap, given.site),
            // Its sizes were checked before.
            Ok(Err(LaunchError::Invalid { message, .. })) => {
                eprintln!("fakegpu: {call}: {message}");
                device.fail(CudaError::LAUNCH_FAILURE);
            }
            Err(_) => {
                gap::panicked(*library, call);
                device.fail(CudaError::LAUNCH_FAILURE);
            }
        }
        if let (Some(submitted), Some(footprint)) = (&given.submitted, footprint) {
            compare(submitted, &footprint.into_samples(), given.site);
        }
        if let Some(unwritten) = &unwritten {
            init::kernel_wrote(before, &unwritten.left());
        }
        if grid.children.finish() {
            init::all_written();
        }
    }
}

/// The state that a kernel finds at its launch.
struct Given {
    /// Where it was launched, if it does not run in that call.
    site: Option<SiteId>,
    blocks: Option<Blocks>,
    /// Uninitialized memory, and where it was allocated.
    unwritten: Option<Vec<(Range<usize>, SiteId)>>,
    /// Set if races are checked.
    submitted: Option<Submitted>,
}

/// Compares what a kernel touched with other work.
fn compare(submitted: &Submitted, samples: &[Sample], site: Option<SiteId>) {
    let touch = |sample: &Sample| Touch {
        access: Access { address: sample.address as usize, bytes: sample.bytes as usize, writes: sample.writes },
        is_atomic: sample.is_atomic,
    };
    let touches: Vec<Touch> = samples.iter().map(touch).collect();
    submitted.touched(&touches, site);
    for Touch { access: Access { address, bytes, writes }, .. } in touches {
        if writes && (memory::locate_host(address).is_some() || address::is_managed(address)) {
            submitted.brings(address, bytes);
        }
    }
}

/// Checks common to all devices.
fn check_sizes(device: &Device, launch: &Launch) -> CudaResult {
    let attribute = |number| attribute::get(device, number).unwrap_or(0) as u32;
    let fits = |dimensions: [u32; 3], first: i32| {
        dimensions.iter().zip(first..).all(|(size, number)| (1..=attribute(number)).contains(size))
    };
    let threads: u64 = launch.block.iter().map(|size| u64::from(*size)).product();
    if !fits(launch.grid, 5) || !fits(launch.block, 2) || threads > u64::from(attribute(1)) {
        return Err(CudaError::INVALID_CONFIGURATION);
    }
    if launch.shared_bytes > attribute(97) as usize {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(())
}

/// Checks specific to this kernel; returns the size of its clusters.
fn check_kernel(device: &Device, runnable: &Runnable, launch: &Launch) -> CudaResult<[u32; 3]> {
    let Runnable { compiled, .. } = runnable;
    let (entry, attributes) = (compiled.kernel.entry(), &compiled.attributes);
    let limits = &device.gpu.profile.limits;
    let threads: u32 = launch.block.iter().product();
    if threads > attributes.max_threads || entry.required_threads.is_some_and(|required| required != launch.block) {
        return Err(CudaError::INVALID_VALUE);
    }
    if launch.shared_bytes > compiled.max_dynamic(limits.shared_memory_per_block) as usize {
        return Err(CudaError::INVALID_VALUE);
    }
    let cluster = launch.cluster.or(entry.required_cluster).unwrap_or([1; 3]);
    let size: u64 = cluster.iter().map(|size| u64::from(*size)).product();
    let divides = cluster.iter().zip(launch.grid).all(|(size, blocks)| *size > 0 && blocks % size == 0);
    let contradicts = entry.required_cluster.is_some_and(|required| required != cluster);
    if size > 1 && (attribute::capability(device).0 < 9 || size > 16 || !divides || contradicts) {
        return Err(CudaError::INVALID_CLUSTER_SIZE);
    }
    if launch.is_cooperative {
        let need = Need {
            threads,
            registers_per_thread: 0,
            shared_bytes: attributes.shared_bytes as u32 + launch.shared_bytes as u32,
        };
        let resident = occupancy::blocks_per_sm(limits, attribute::capability(device).0, need);
        let blocks: u64 = launch.grid.iter().map(|size| u64::from(*size)).product();
        if blocks > u64::from(resident) * u64::from(device.gpu.profile.sm_count) {
            return Err(CudaError::COOPERATIVE_LAUNCH_TOO_LARGE);
        }
    }
    Ok(cluster)
}

/// Host threads that a kernel may use: as many as PyTorch's own CPU kernels.
fn host_threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    let given = || std::env::var("OMP_NUM_THREADS").ok()?.parse().ok().filter(|count| *count > 0);
    *THREADS.get_or_init(|| given().unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)))
}

/// Memory in which the blocks of a cooperative grid synchronize, for the duration of the launch.
struct Workspace(Option<usize>);

impl Workspace {
    fn new(device: &'static Device) -> CudaResult<Self> {
        const BYTES: usize = 8;
        let address = memory::allocate(device, BYTES, Kind::Internal)?;
        // SAFETY: so many bytes, which were just allocated.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0, BYTES) };
        Ok(Self(Some(address)))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Some(address) = self.0 {
            memory::free_internal(address);
        }
    }
}

/// Handles a failed kernel: the device is unusable from now on, as on hardware, and a message tells where it failed.
fn stopped(device: &'static Device, trap: &Trap, site: Option<SiteId>) {
    let error = match trap.kind {
        TrapKind::IllegalAddress => CudaError::ILLEGAL_ADDRESS,
        TrapKind::StackOverflow => CudaError::HARDWARE_STACK,
        TrapKind::MisalignedAddress => CudaError::MISALIGNED_ADDRESS,
        TrapKind::Assert => CudaError::ASSERT,
        TrapKind::InvalidPointer => CudaError::INVALID_PC,
        // Hardware hangs; a watchdog ends it.
        TrapKind::Deadlock => CudaError::LAUNCH_TIMEOUT,
        TrapKind::Trap | TrapKind::Breakpoint | TrapKind::InvalidBarrier | TrapKind::Cancelled => {
            CudaError::LAUNCH_FAILURE
        }
    };
    let trap = &Trap { kernel: cpp_name::of_kernel(&trap.kernel), ..trap.clone() };
    misuse::stopped(device, trap, site);
    // An assertion has its own line, which comes when the host synchronizes.
    if trap.kind != TrapKind::Assert {
        eprintln!("fakegpu: device {}: kernel {trap}", device.ordinal);
    }
    device.fail(error);
}
