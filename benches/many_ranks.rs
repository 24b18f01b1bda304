//! What one small operation costs in a job of many ranks, each a process that waits for its stream after every call.
//!
//! `ftest exec --profile a100 --device-count RANKS -- fixture-many-ranks all_reduce|ring|all_to_all RANKS CALLS [POLLING]`: one
//! element for each rank or peer. The first POLLING ranks, none by default, do not wait but ask every 0.1 ms. Rank 0 prints one line: the ranks, seconds until all had formed, operations per second; for each rank and
//! operation, us of wall clock, processor time of the rank and of the whole machine, context switches, page faults; and, in the mean,
//! MiB resident in a rank, with and without its share of what other processes map as well (Rss, Pss). Every result is checked.
#![expect(unsafe_code, reason = "asks the kernel what the process used")]

use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

use fixtures::cuda::{Address, Buffer, SUCCESS, cuda};
use fixtures::elements::datatype;
use fixtures::nccl::{Communicator, NOT_READY, SUM, UniqueId, nccl};
use fixtures::world::World;
use fixtures::{Outcome, ensure, run, say};

const USAGE: &str = "usage: fixture-many-ranks all_reduce|ring|all_to_all RANKS CALLS [POLLING]";
/// When the first rank was started, ns of the monotonic clock.
const STARTED: &str = "FTEST_MANY_STARTED";
/// Calls before those that are measured.
const WARM_UP: usize = 5;
/// How long a rank that polls sleeps between two questions.
const PAUSE: Duration = Duration::from_micros(100);

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| words.get(at).map_or(Some(0), |word| word.parse::<usize>().ok());
    let operation = words.first().map_or("", String::as_str);
    let (Some(ranks @ 1..), Some(calls @ 1..), Some(polling), true) =
        (number(1), number(2), number(3), ["all_reduce", "ring", "all_to_all"].contains(&operation))
    else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match env::var(STARTED) {
        Ok(started) => run(|world| {
            let started_ns = started.parse().map_err(|_| format!("{STARTED}={started}"))?;
            play(world, operation, calls, world.rank < polling, started_ns)
        }),
        Err(_) => lead(&words, ranks),
    }
}

/// Starts the ranks and waits for them.
fn lead(words: &[String], ranks: usize) -> ExitCode {
    let started = monotonic_ns().to_string();
    let start = |rank: usize| -> Child {
        let mut command = Command::new(env::current_exe().expect("this program has a path"));
        command.args(words).env(STARTED, &started).env("WORLD_SIZE", ranks.to_string());
        command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
        command.spawn().expect("a rank starts")
    };
    let children: Vec<Child> = (0..ranks).map(start).collect();
    let ends_well = |mut child: Child| child.wait().expect("a rank ends").success();
    // All of them are waited for, whatever the first ended with.
    let failed = children.into_iter().map(ends_well).filter(|ends_well| !ends_well).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What was used up to a moment.
struct Used {
    at: Instant,
    /// Microseconds of processor time of this rank.
    processor_us: u64,
    switches: u64,
    faults: u64,
    /// Microseconds that processors of this machine were busy.
    machine_us: u64,
}

fn play(world: &World, operation: &str, calls: usize, polls: bool, started_ns: u64) -> Outcome<String> {
    let (cuda, nccl) = (cuda()?, nccl()?);
    ensure!(cuda.set_device(world.local_rank as i32) == SUCCESS, "no device {}", world.local_rank);
    let stream = cuda.stream(true)?;
    // A real NCCL would want one of ncclGetUniqueId.
    let communicator = nccl.init(world.size, UniqueId([7; 128]), world.rank)?;
    let sums = Buffer::new(&[0; 6 * 8])?;
    let totals = |mine: [u64; 6]| -> Outcome<[u64; 6]> {
        let bytes: Vec<u8> = mine.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let at = sums.address_at(0);
        ensure!(
            cuda.memcpy(at, bytes.as_ptr().cast(), bytes.len(), fixtures::cuda::Copy::HostToDevice) == SUCCESS,
            "memcpy"
        );
        let code = communicator.all_reduce(at, at, 6, datatype("uint64")?.code, SUM.code, stream);
        ensure!(code == SUCCESS && cuda.stream_synchronize(stream) == SUCCESS, "the sum of what was used");
        let words = sums.read()?;
        let word = |at: usize| u64::from_ne_bytes(words[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
        Ok(std::array::from_fn(word))
    };
    totals([0; 6])?;
    let formed = Duration::from_nanos(monotonic_ns() - started_ns).as_secs_f64();
    let round = Round::new(world, operation)?;
    let once = || -> Outcome {
        let code = round.issue(&communicator, stream)?;
        ensure!(code == SUCCESS, "{operation} answered {code}");
        while polls && cuda.stream_query(stream) == NOT_READY {
            std::thread::sleep(PAUSE);
        }
        let code = cuda.stream_synchronize(stream);
        ensure!(code == SUCCESS, "cudaStreamSynchronize answered {code}");
        Ok(())
    };
    (0..WARM_UP).try_for_each(|_| once())?;
    let before = Used::now()?;
    (0..calls).try_for_each(|_| once())?;
    let after = Used::now()?;
    round.check()?;
    let [resident, own] = ["Rss:", "Pss:"].map(|name| field("/proc/self/smaps_rollup", name));
    let [processor, switches, faults, resident_kib, own_kib, ranks] = totals([
        after.processor_us - before.processor_us,
        after.switches - before.switches,
        after.faults - before.faults,
        resident?,
        own?,
        1,
    ])?;
    ensure!(ranks == world.size as u64, "{ranks} ranks counted");
    let seconds = (after.at - before.at).as_secs_f64();
    let each = |total: u64| total as f64 / (world.size * calls) as f64;
    if world.rank == 0 {
        say(&format!(
            "{operation} ranks {} up {formed:.2} s, {:.1} op/s; each rank and operation: wall {:.1} us, processor {:.1} us, \
             machine {:.1} us, switches {:.2}, faults {:.2}; resident {:.1} MiB, its own {:.1} MiB",
            world.size,
            calls as f64 / seconds,
            seconds * 1e6 / (world.size * calls) as f64,
            each(processor),
            each(after.machine_us - before.machine_us),
            each(switches),
            each(faults),
            resident_kib as f64 / 1024.0 / world.size as f64,
            own_kib as f64 / 1024.0 / world.size as f64,
        ));
    }
    communicator.destroy()?;
    Ok(format!("{calls} calls are right"))
}

/// The buffers of one operation.
struct Round {
    operation: String,
    rank: usize,
    size: usize,
    from: Buffer,
    to: Buffer,
}

impl Round {
    fn new(world: &World, operation: &str) -> Outcome<Self> {
        let elements = if operation == "all_to_all" { world.size } else { 1 };
        let numbers: Vec<u8> = (0..elements).flat_map(|peer| ((world.rank * 7 + peer) as i32).to_ne_bytes()).collect();
        let (from, to) = (Buffer::new(&numbers)?, Buffer::new(&vec![0; elements * 4])?);
        Ok(Self { operation: operation.to_owned(), rank: world.rank, size: world.size, from, to })
    }

    fn issue(&self, on: &Communicator, stream: Address) -> Outcome<i32> {
        let (from, to) = (self.from.address_at(0), self.to.address_at(0));
        let int = datatype("int32")?.code;
        Ok(match &*self.operation {
            "all_reduce" => on.all_reduce(from, to, 1, int, SUM.code, stream),
            "all_to_all" => on.all_to_all(from, to, 1, int, stream)?,
            _ => {
                let next = (self.rank + 1) % self.size;
                let previous = (self.rank + self.size - 1) % self.size;
                let mut codes = [SUCCESS; 2];
                on.group(|| {
                    codes[0] = on.send(from, 1, int, next as i32, stream);
                    codes[1] = on.recv(to, 1, int, previous as i32, stream);
                    Ok(())
                })?;
                codes.into_iter().find(|code| *code != SUCCESS).unwrap_or(SUCCESS)
            }
        })
    }

    fn check(&self) -> Outcome {
        let (rank, size) = (self.rank, self.size);
        let expected: Vec<i32> = match &*self.operation {
            "all_reduce" => vec![(7 * size * (size - 1) / 2) as i32],
            "all_to_all" => (0..size).map(|peer| (peer * 7 + rank) as i32).collect(),
            _ => vec![((rank + size - 1) % size * 7) as i32],
        };
        let bytes = self.to.read()?;
        let found: Vec<i32> =
            bytes.chunks_exact(4).map(|bytes| i32::from_ne_bytes(bytes.try_into().expect("four bytes"))).collect();
        ensure!(found == expected, "{} gave {found:?}, expected {expected:?}", self.operation);
        Ok(())
    }
}

impl Used {
    fn now() -> Outcome<Self> {
        let text = fs::read_to_string("/proc/stat").map_err(|error| format!("/proc/stat: {error}"))?;
        let first = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        // user, nice, system, (idle, iowait,) irq, softirq: proc(5), in hundredths of a second.
        let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|at| ticks.get(*at)).sum();
        let usage = usage();
        let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        Ok(Self {
            at: Instant::now(),
            processor_us: us(usage.ru_utime) + us(usage.ru_stime),
            switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
            faults: (usage.ru_minflt + usage.ru_majflt) as u64,
            machine_us: busy * 10_000,
        })
    }
}

/// A number of a file of `/proc`.
fn field(path: &str, name: &str) -> Outcome<u64> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|word| word.parse().ok()).ok_or_else(|| format!("{path} has no {name}"))
}

/// The clock that all processes of the machine share.
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is live.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What this process used so far, all its threads together.
fn usage() -> libc::rusage {
    // SAFETY: all-zero is a value of this plain C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is live.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage
}
