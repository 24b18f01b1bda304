//! A launch: its arguments, how blocks are distributed over threads, and how a stopped launch is reported.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::host::footprint::{Footprint, Sampler};
use crate::host::memory_ops::AddressSpace;
use crate::host::mistake::{Key, Mistake, Note, Spot};
use crate::host::unwritten::Unwritten;
use crate::host::{Host, Memory};
use crate::kernel::Kernel;
use crate::machine::{Machine, Status, Stop, Unit};
use crate::runtime::state::{self, Context, Images, LANES, Shape, SiteCache, TrapAccess};

/// One kernel launch.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// Blocks by dimension.
    pub grid: [u32; 3],
    /// Threads of a block by dimension.
    pub block: [u32; 3],
    /// Blocks of a cluster by dimension; all ones if there are no clusters.
    pub cluster: [u32; 3],
    /// Bytes of shared memory beyond the kernel's own.
    pub dynamic_shared: u32,
    /// The parameters, laid out as [`crate::Entry::params`] says.
    pub params: &'a [u8],
    /// Addresses of [`crate::Image::globals`].
    pub globals: &'a [u64],
    /// All blocks are resident together.
    pub cooperative: bool,
    /// Address of eight bytes of zeros in global memory, with which cooperative_groups synchronizes a cooperative grid; 0 for none.
    pub workspace: u64,
    /// Bytes of each thread's stack for recursion and `alloca` (`cudaLimitStackSize`).
    pub stack: u32,
    /// Threads of the host that may work on it, at least 1.
    pub threads: usize,
    /// `%nsmid`.
    pub multiprocessors: u32,
    /// `%gridid`.
    pub grid_id: u64,
    /// Valid global memory.
    pub memory: &'a dyn Memory,
    /// printf, assert, malloc.
    pub host: &'a dyn Host,
    /// Global memory that nobody has written, for a kernel made with [`crate::Checks::init`].
    pub unwritten: Option<&'a Unwritten>,
    /// What takes samples of the accesses to global memory, if anybody wants them.
    pub footprint: Option<&'a Footprint>,
    /// If set from outside, it ends a launch whose blocks wait for something that never comes.
    pub cancel: Option<&'a AtomicBool>,
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks that ran to completion.
    pub blocks: u64,
    /// Threads of the host that took part.
    pub workers: usize,
}

/// Why a launch stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapKind {
    /// Memory outside every allocation: `cudaErrorIllegalAddress`.
    IllegalAddress,
    /// `cudaErrorMisalignedAddress`.
    MisalignedAddress,
    /// `trap`: `cudaErrorLaunchFailure` (or `IllegalInstruction` where a compiler meant that).
    Trap,
    /// `assert`: `cudaErrorAssert`.
    Assert,
    /// `brkpt` without a debugger.
    Breakpoint,
    /// Recursion deeper than the stack: `cudaErrorHardwareStackError`.
    StackOverflow,
    /// A call through a pointer that is not a function: `cudaErrorInvalidPc`.
    InvalidPointer,
    /// A barrier number or count that is not allowed, or counts that differ.
    InvalidBarrier,
    /// All threads of a block wait for each other. Hardware hangs.
    Deadlock,
    /// The caller cancelled the launch.
    Cancelled,
}

/// An access that a kernel may not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Whether it writes, perhaps after a read of the same bytes.
    pub writes: bool,
    /// How many bytes.
    pub bytes: u32,
    /// The kind of memory: `shared`, `local` or `parameter`; `None` for global memory. `surface` for an access outside a surface, `texel`
    /// for a number that does not fit a surface's texels, `image` if the handle does not belong to a texture or surface of these
    /// dimensions (and texels, for some instructions).
    pub space: Option<&'static str>,
}

/// A launch that stopped, with the thread and the instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Why.
    pub kind: TrapKind,
    /// The kernel.
    pub kernel: String,
    /// Block index.
    pub block: [u32; 3],
    /// Thread index in the block.
    pub thread: [u32; 3],
    /// The address, if the trap is about one; an offset in shared and local memory and the parameters.
    pub address: u64,
    /// The access, if the trap is about one.
    pub touched: Option<Touched>,
    /// The instruction.
    pub spot: Spot,
    /// For a deadlock: lines at which threads wait.
    pub waiting: Vec<u32>,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            TrapKind::IllegalAddress => "illegal address",
            TrapKind::MisalignedAddress => "misaligned address",
            TrapKind::Trap => "trap",
            TrapKind::Assert => "assertion failed",
            TrapKind::Breakpoint => "breakpoint",
            TrapKind::StackOverflow => "stack overflow",
            TrapKind::InvalidPointer => "call through an invalid pointer",
            TrapKind::InvalidBarrier => "invalid use of a barrier",
            TrapKind::Deadlock => "all threads wait",
            TrapKind::Cancelled => return write!(f, "{}: cancelled", self.kernel),
        };
        let ([bx, by, bz], [x, y, z]) = (self.block, self.thread);
        write!(f, "{}: {what}", self.kernel)?;
        if matches!(self.kind, TrapKind::IllegalAddress | TrapKind::MisalignedAddress) {
            write!(f, " {:#x}", self.address)?;
        }
        write!(f, " in block ({bx},{by},{bz}), thread ({x},{y},{z}), {}", self.spot)?;
        if !self.waiting.is_empty() {
            write!(f, "; threads wait at PTX lines {:?}", self.waiting)?;
        }
        Ok(())
    }
}

impl std::error::Error for Trap {}

/// Why a launch did not run to completion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// Sizes that no device takes, or that the kernel's directives forbid: `cudaErrorInvalidConfiguration`/`InvalidValue`.
    #[error("invalid launch of {kernel}: {message}")]
    Invalid {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        message: String,
    },
    /// The launch began, and a thread stopped it.
    #[error(transparent)]
    Trap(#[from] Box<Trap>),
}

/// The most units of blocks that a worker runs in turns, because each waits for others.
const RESIDENT: usize = 64;

/// The room for a recursive function's frames, per byte of a GPU's stack. Here, a frame has 16 bytes for each register that a call
/// saves; a GPU's compiler saves 4, and fewer registers.
const FRAMES: u64 = 4;

/// A piece of the memory for parameters, which may ask for an alignment of up to 128 bytes (tensor maps for 64).
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Line(#[expect(dead_code, reason = "read by kernels")] [u8; 128]);

/// What the checks found, by mistake: the number of the first unit with it, the index of its block, and the note.
type Notes = BTreeMap<Key, (u64, [u32; 3], Note)>;

struct Shared<'a> {
    next: AtomicU64,
    units: u64,
    /// The number of the first unit that stopped; the largest number if none did.
    stop: AtomicU64,
    notes: Mutex<Notes>,
    stopped: Mutex<Option<(u64, Stop)>>,
    done: AtomicU64,
    shape: Shape,
    launch: &'a Launch<'a>,
    params: Vec<Line>,
    clusters: [u32; 3],
}

impl Kernel {
    /// Runs the kernel to completion.
    ///
    /// # Errors
    /// If the sizes are not allowed, or the kernel did something wrong.
    pub fn launch(&self, launch: &Launch<'_>) -> Result<Stats, LaunchError> {
        let invalid = |message: String| LaunchError::Invalid { kernel: self.entry.name.clone(), message };
        let count = |sizes: [u32; 3]| sizes.iter().map(|n| u64::from(*n)).product::<u64>();
        let (threads, cluster) = (count(launch.block), count(launch.cluster));
        if threads == 0 || threads > 1024 || launch.block[2] > 64 {
            return Err(invalid(format!("{threads} threads in a block")));
        }
        if count(launch.grid) == 0 || launch.grid[1] > 65535 || launch.grid[2] > 65535 {
            return Err(invalid(format!("a grid of {:?}", launch.grid)));
        }
        if let Some(required) = self.entry.required_threads
            && required != launch.block
        {
            return Err(invalid(format!("blocks of {:?}, compiled for {required:?}", launch.block)));
        }
        if let Some(max) = self.entry.max_threads
            && threads > count(max)
        {
            return Err(invalid(format!("{threads} threads in a block, compiled for at most {}", count(max))));
        }
        if cluster == 0
            || cluster > 16
            || launch.grid.iter().zip(launch.cluster).any(|(g, c)| c == 0 || !g.is_multiple_of(c))
        {
            return Err(invalid(format!("clusters of {:?} in a grid of {:?}", launch.cluster, launch.grid)));
        }
        if launch.params.len() < self.entry.param_bytes() as usize {
            return Err(invalid(format!("{} bytes of parameters", launch.params.len())));
        }
        let dynamic = self.program.dynamic_shared;
        let shared_bytes = if launch.dynamic_shared > 0 {
            dynamic + u64::from(launch.dynamic_shared)
        } else {
            self.program.static_shared
        };
        let shape = Shape {
            threads: threads as u32,
            shared_bytes,
            local_bytes: (self.program.local + if self.program.stack { FRAMES * u64::from(launch.stack) } else { 0 })
                .next_multiple_of(16),
            home_bytes: self.home_bytes,
            cluster: cluster as u32,
            table: thread_table(launch.block, threads as u32),
            checks: self.checks,
            ordered: self.program.ordered,
            cell_shift: if self.checks.shared_races { self.finest() } else { 0 },
        };
        let mut params = vec![Line([0; 128]); launch.params.len().div_ceil(128).max(1)];
        // SAFETY: the memory has as many bytes; that many were reserved.
        unsafe {
            std::ptr::copy_nonoverlapping(launch.params.as_ptr(), params.as_mut_ptr().cast(), launch.params.len());
        }
        let clusters: [u32; 3] = std::array::from_fn(|axis| launch.grid[axis] / launch.cluster[axis]);
        let shared = Shared {
            next: AtomicU64::new(0),
            units: count(clusters),
            stop: AtomicU64::new(u64::MAX),
            notes: Mutex::default(),
            stopped: Mutex::new(None),
            done: AtomicU64::new(0),
            shape,
            launch,
            params,
            clusters,
        };
        let workers = self.work(&shared);
        // Blocks behind the one that stopped are reached in some runs only; their mistakes are not reported.
        let last = shared.stop.load(Ordering::Relaxed);
        let mut notes: Vec<_> = shared.notes.lock().values().copied().filter(|(number, ..)| *number <= last).collect();
        notes.sort_unstable_by_key(|(number, _, note)| (*number, note.thread, note.key()));
        // An unrolled loop contains the same source line many times.
        let mut told = HashSet::new();
        for (_, ctaid, note) in notes {
            let mistake = self.mistake(launch, ctaid, &note);
            let mut places = [Some(&mistake.spot), mistake.other.as_ref().map(|(_, spot)| spot)].map(|spot| {
                spot.map(|spot| {
                    (spot.source.clone(), spot.caller.clone(), if spot.source.is_some() { 0 } else { spot.line })
                })
            });
            places.sort_unstable();
            if told.insert((note.key().0, places)) {
                launch.host.mistake(&mistake);
            }
        }
        let stopped = shared.stopped.into_inner();
        if let Some((_, stop)) = stopped {
            return Err(LaunchError::Trap(Box::new(self.describe(stop))));
        }
        Ok(Stats { blocks: shared.done.into_inner() * cluster, workers })
    }

    /// Runs all units of blocks: one thread begins, and others join when the first units show that it is worth it.
    fn work(&self, shared: &Shared<'_>) -> usize {
        let most = shared.launch.threads.max(1).min(usize::try_from(shared.units).unwrap_or(usize::MAX));
        if most == 1 {
            self.worker(shared, None);
            return 1;
        }
        // This is more than it costs to start a thread.
        let budget = std::time::Duration::from_micros(60);
        self.worker(shared, Some(budget));
        if shared.next.load(Ordering::Relaxed) >= shared.units && shared.done.load(Ordering::Relaxed) == shared.units {
            return 1;
        }
        std::thread::scope(|scope| {
            with_signals_blocked(|| {
                for _ in 1..most {
                    scope.spawn(|| self.worker(shared, None));
                }
            });
            self.worker(shared, None);
        });
        most
    }

    fn worker(&self, shared: &Shared<'_>, budget: Option<std::time::Duration>) {
        let mut machine = self.machine(shared);
        self.run_units(shared, &mut machine, budget);
        if let (Some(footprint), Some(sampler)) = (shared.launch.footprint, machine.context.sampler.take()) {
            footprint.add(sampler.into_found());
        }
    }

    fn run_units(&self, shared: &Shared<'_>, machine: &mut Machine<'_>, budget: Option<std::time::Duration>) {
        let launch = shared.launch;
        let started = std::time::Instant::now();
        let mut resident: Vec<(u64, Unit)> = Vec::new();
        let mut spare: Vec<Unit> = Vec::new();
        let mut turn = 0;
        let mut fresh = true;
        loop {
            let stopped = shared.stop.load(Ordering::Relaxed);
            if stopped != u64::MAX {
                // Units before it continue, so the first one that goes wrong is the same in every run. Kernels that may wait
                // stop, because they would wait for units that never run.
                resident.retain(|(number, _)| *number < stopped && !self.may_wait());
                if resident.is_empty() {
                    return;
                }
            }
            if launch.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
                let (ctaid, tid, waiting, access) = ([0; 3], [0; 3], vec![], None);
                self.stop(shared, 0, Stop { kind: u64::MAX, address: 0, site: 0, ctaid, tid, waiting, access });
                return;
            }
            let limit = if launch.cooperative { usize::MAX } else { RESIDENT };
            // If no unit has been begun when a budget ends, the other workers take part.
            if budget.is_some_and(|budget| resident.is_empty() && started.elapsed() > budget) {
                return;
            }
            if (fresh || resident.is_empty()) && resident.len() < limit && stopped == u64::MAX {
                let number = shared.next.fetch_add(1, Ordering::Relaxed);
                if number < shared.units {
                    let mut unit = spare.pop().unwrap_or_else(|| Unit::new(&shared.shape));
                    unit.start(&coordinates(number, shared.clusters, launch.cluster), &shared.shape);
                    resident.push((number, unit));
                    turn = resident.len() - 1;
                }
            }
            if resident.is_empty() {
                return;
            }
            turn %= resident.len();
            let (number, unit) = &mut resident[turn];
            let outcome = machine.run(unit);
            if self.checks.any() {
                note(shared, *number, unit);
            }
            match outcome {
                Ok(Status::Done) => {
                    shared.done.fetch_add(1, Ordering::Relaxed);
                    spare.push(resident.swap_remove(turn).1);
                    fresh = resident.is_empty();
                }
                Ok(Status::Waiting) => {
                    turn += 1;
                    fresh = true;
                    // A worker that only waits lets the others have the processor.
                    std::thread::yield_now();
                }
                Err(stop) => {
                    self.stop(shared, *number, stop);
                    resident.swap_remove(turn);
                    machine.forget();
                }
            }
        }
    }

    /// Of several errors, the first block's is reported, so that a program gives the same report each time.
    fn stop(&self, shared: &Shared<'_>, number: u64, stop: Stop) {
        let mut stopped = shared.stopped.lock();
        if stopped.as_ref().is_none_or(|(other, _)| number < *other) {
            *stopped = Some((number, stop));
        }
        shared.stop.fetch_min(number, Ordering::Relaxed);
    }

    fn machine<'a>(&'a self, shared: &'a Shared<'_>) -> Machine<'a> {
        let launch = shared.launch;
        let pad = |sizes: [u32; 3]| [sizes[0], sizes[1], sizes[2], 0];
        let mut sites = vec![SiteCache { low: 0, count: 0, rows: 0 }; self.program.sites.len()];
        // SAFETY: only the lifetime changes; the launch outlives every machine of it.
        let (memory, host) = unsafe {
            (
                std::mem::transmute::<&dyn Memory, *const (dyn Memory + 'static)>(launch.memory),
                std::mem::transmute::<&dyn Host, *const (dyn Host + 'static)>(launch.host),
            )
        };
        let cluster = shared.shape.cluster;
        let context = Box::new(Context {
            helpers: self.helpers.as_ptr(),
            params: shared.params.as_ptr().cast::<u8>(),
            param_bytes: shared.launch.params.len() as u64,
            shared: std::ptr::null_mut(),
            shared_bytes: 0,
            sites: sites.as_mut_ptr(),
            globals: launch.globals.as_ptr(),
            local_bytes: shared.shape.local_bytes,
            grid: launch.grid_id,
            fuel: state::FUEL,
            together: if launch.block[0].is_multiple_of(LANES) { u32::MAX } else { 0 },
            trap: 0,
            lane: 0,
            site: 0,
            warp: std::ptr::null_mut(),
            args: [0; 16],
            result: 0,
            ntid: pad(launch.block),
            ctaid: [0; 4],
            nctaid: pad(launch.grid),
            clusterid: [0; 4],
            nclusterid: pad(shared.clusters),
            cluster_ctaid: [0; 4],
            cluster_nctaid: pad(launch.cluster),
            cluster_rank: 0,
            cluster_size: cluster,
            explicit_cluster: u32::from(cluster > 1),
            nwarp: shared.shape.threads.div_ceil(32),
            sm: 0,
            nsm: launch.multiprocessors,
            dynamic_shared: launch.dynamic_shared,
            total_shared: shared.shape.shared_bytes as u32,
            workspace: [launch.workspace as u32, (launch.workspace >> 32) as u32],
            trap_address: 0,
            trap_access: None,
            watched: u64::from(self.checks.any()),
            watch: std::ptr::null_mut(),
            unwritten: launch.unwritten.filter(|_| self.checks.init).map_or(std::ptr::null(), |unwritten| unwritten),
            ranges: vec![0..0; self.program.sites.len()],
            sampler: launch.footprint.map(|_| Sampler::new(self.program.sites.len())),
            blocks: std::ptr::null_mut(),
            memory,
            host,
            images: Images::default(),
            multicast: None,
        });
        Machine { kernel: self, context, _sites: sites, shape: &shared.shape }
    }

    fn mistake(&self, launch: &Launch<'_>, block: [u32; 3], note: &Note) -> Mistake {
        let [x, y, _] = launch.block;
        let thread = |number: u32| [number % x, number / x % y, number / x / y];
        Mistake {
            kind: note.kind,
            kernel: self.entry.name.clone(),
            block,
            thread: thread(note.thread),
            spot: self.spot(note.site),
            other: note.other.map(|(other, site)| (thread(other), self.spot(site))),
            address: note.address,
            bytes: note.bytes,
        }
    }

    fn describe(&self, stop: Stop) -> Trap {
        let kind = match stop.kind {
            state::TRAP_ILLEGAL => TrapKind::IllegalAddress,
            state::TRAP_MISALIGNED => TrapKind::MisalignedAddress,
            state::TRAP_TRAP => TrapKind::Trap,
            state::TRAP_ASSERT => TrapKind::Assert,
            state::TRAP_BREAKPOINT => TrapKind::Breakpoint,
            state::TRAP_STACK => TrapKind::StackOverflow,
            state::TRAP_POINTER => TrapKind::InvalidPointer,
            state::TRAP_BARRIER => TrapKind::InvalidBarrier,
            state::TRAP_DEADLOCK => TrapKind::Deadlock,
            _ => TrapKind::Cancelled,
        };
        let line = |site: &u32| self.places.get(*site as usize).map_or(0, |place| place.line);
        Trap {
            kind,
            kernel: self.entry.name.clone(),
            block: stop.ctaid,
            thread: stop.tid,
            address: if stop.access.is_some() && matches!(stop.address >> 56, 1 | 2) {
                stop.address & 0xff_ffff
            } else {
                stop.address
            },
            touched: stop.access.map(|TrapAccess { space, writes, bytes, image }| {
                let space = match space {
                    _ if image.is_some() => image,
                    AddressSpace::Shared => Some("shared"),
                    AddressSpace::Local => Some("local"),
                    AddressSpace::KernelParam => Some("parameter"),
                    AddressSpace::Global => None,
                    AddressSpace::Generic => match stop.address >> 56 {
                        1 => Some("shared"),
                        2 => Some("local"),
                        _ => None,
                    },
                };
                Touched { writes, bytes, space }
            }),
            spot: self.spot(stop.site),
            waiting: stop.waiting.iter().map(line).collect(),
        }
    }
}

/// Keeps what a unit's checks found; of identical mistakes, the one in the first unit.
fn note(shared: &Shared<'_>, number: u64, unit: &mut Unit) {
    for (ctaid, note) in unit.notes() {
        let mut notes = shared.notes.lock();
        let first = notes.entry(note.key()).or_insert((number, ctaid, note));
        if number < first.0 {
            *first = (number, ctaid, note);
        }
    }
}

/// Runs something with all signals blocked: threads that it spawns inherit that, so signals go to the caller's own threads.
fn with_signals_blocked(body: impl FnOnce()) {
    // SAFETY: both sets are initialized by the calls before they are read; the mask is put back below.
    let before = unsafe {
        let mut every = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut every);
        libc::pthread_sigmask(libc::SIG_SETMASK, &every, &mut before);
        before
    };
    body();
    // SAFETY: `before` is the mask that the thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
}

/// The `%tid` of each lane of each warp: 32 numbers for x, then 32 for y, then 32 for z.
fn thread_table(block: [u32; 3], threads: u32) -> Vec<u32> {
    let mut table = vec![0; threads.div_ceil(32) as usize * 96];
    for thread in 0..threads {
        let at = (thread / 32 * 96 + thread % 32) as usize;
        table[at] = thread % block[0];
        table[at + 32] = thread / block[0] % block[1];
        table[at + 64] = thread / block[0] / block[1];
    }
    table
}

/// The `%ctaid` of each block of a cluster, by its rank.
fn coordinates(number: u64, clusters: [u32; 3], cluster: [u32; 3]) -> Vec<[u32; 3]> {
    let at = |number: u64, sizes: [u32; 3]| {
        let (x, rest) = (number % u64::from(sizes[0]), number / u64::from(sizes[0]));
        [x as u32, (rest % u64::from(sizes[1])) as u32, (rest / u64::from(sizes[1])) as u32]
    };
    let first = at(number, clusters);
    let count = cluster.iter().map(|n| u64::from(*n)).product();
    (0..count)
        .map(|rank| {
            let inner = at(rank, cluster);
            std::array::from_fn(|axis| first[axis] * cluster[axis] + inner[axis])
        })
        .collect()
}
