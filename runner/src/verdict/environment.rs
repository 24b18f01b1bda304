//! Effects of the machine, the container or the shell on a case: limits that were reached, memory that ran out. They are
//! not the program's fault, so the case is broken, and the failure explains what to change.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use protocol::limit::Limit;

use crate::case::Case;
use crate::check::{Failure, FailureKind};
use crate::execute::launch::environment::NVCC_FLAGS;
use crate::execute::python::default_requirements;
use crate::host::machine;
use crate::observation::{Exit, Observation, ProcessObservation, Role};

const SIGBUS: i32 = 7;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
/// Less shared memory than this is quickly used up; containers have 64 MiB by default.
const SMALL: u64 = 1 << 30;
/// libc's words for a full disk, and for one that nothing may be written to.
const NO_SPACE: &str = "No space left on device";
const READ_ONLY: &str = "Read-only file system";
/// What nvcc says if it is to write one file for the architecture in its arguments and those that ftest adds.
const NVCC_REFUSES: &str = "is not allowed when compiling for multiple GPU";
/// Python's message if PyTorch is not installed.
const NO_TORCH: &str = "No module named 'torch'";
/// What the PyTorch of a managed environment says where no GPUs are simulated (`_ftest_hint.py`).
const NO_GPUS: &str = "ftest: this environment has PyTorch without NVIDIA's libraries";
/// What glibc's loader writes around the reason, after the library's name.
const NOT_LOADED: [&str; 2] = ["libfakegpu.so' from LD_PRELOAD cannot be preloaded (", ")"];
/// The reason where there is no such file, or none that may be read.
const NO_FILE: &str = "cannot open shared object file";
/// What it writes when there is no room for a required library.
const NO_ROOM: [&str; 2] = ["error while loading shared libraries: ", "failed to map segment from shared object"];
/// A helper program of another architecture does not need the shim.
const FOREIGN: &str = "wrong ELF class";

/// One failure for each cause.
pub fn failures(case: &Case, observation: &Observation) -> Vec<Failure> {
    let failure = |got: String, next: String| Failure {
        place: None,
        kind: FailureKind::Environment,
        expected: "the machine lets the case run".to_owned(),
        got,
        next,
    };
    let machine = &observation.machine;
    let mut failures = Vec::new();
    // Ranks with the same error print the same message, apart from their device.
    let mut refused: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for sentence in &observation.refused {
        let (got, next) = sentence.rsplit_once("; ").unwrap_or((sentence, ""));
        refused.entry(next).or_default().insert(got);
    }
    for (next, got) in refused {
        failures.push(failure(got.into_iter().collect::<Vec<_>>().join("\n"), next.to_owned()));
    }
    for process in &observation.processes {
        let wanted = case.expect.exit.accepts(process.role, &process.exit);
        if let Some(got) = not_loaded(process).or_else(|| (!wanted).then(|| no_room(process)).flatten()) {
            let next = match machine.address_space {
                _ if got.ends_with(NO_FILE) => {
                    "LD_PRELOAD names a file that this process cannot reach: leave that variable to ftest, \
                                                and let programs that change their user or root read ftest's files"
                        .to_owned()
                }
                Some(value) => Limit::AddressSpace.advice(value),
                None => "the program's own limits (`ulimit -v`, `ulimit -n`) may be too low".to_owned(),
            };
            failures.push(failure(got, next));
            break;
        }
    }
    let unsimulated = |process: &&ProcessObservation| {
        let said = [&process.stderr.head, &process.stderr.tail];
        let says = said.iter().any(|text| String::from_utf8_lossy(text).contains(NO_GPUS));
        says && !case.expect.exit.accepts(process.role, &process.exit)
    };
    if let Some(process) = observation.processes.iter().find(unsimulated).filter(|_| case.cluster.is_none()) {
        failures.push(failure(
            format!(
                "{} imports PyTorch, whose libraries come with simulated GPUs, and the case has none",
                process.role
            ),
            "give the case a `cluster`, or start the program as `fgpu python ...`".to_owned(),
        ));
    }
    let ended_by = |numbers: &[i32]| ended_by(case, observation, numbers);
    if let (Some(value), Some(role)) = (machine.file_size, ended_by(&[SIGXFSZ])) {
        failures.push(failure(
            format!("SIGXFSZ ended {role}: a file became larger than allowed"),
            Limit::FileSize.advice(value),
        ));
    }
    // At the hard limit the kernel does not warn.
    if let (Some(value), Some(role)) = (machine.cpu_time, ended_by(&[SIGXCPU, SIGKILL])) {
        failures.push(failure(
            format!("a signal ended {role}, which may have exceeded its limit on processor time"),
            Limit::CpuTime.advice(value),
        ));
    }
    let said = |words: &str| complaining(case, observation, words);
    // What filled the disk may be gone already; that ftest could not write says enough.
    let streams = observation.processes.iter().flat_map(|process| [&process.stdout, &process.stderr]);
    let mut errors = streams.filter_map(|stream| stream.write_error.as_ref());
    let unwritten = errors.find(|error| error.kind == ErrorKind::StorageFull).map(|error| error.message.clone());
    let full = if machine.full.is_empty() { unwritten.into_iter().collect() } else { machine.full.clone() };
    if let Some(who) = said(NO_SPACE).filter(|_| !full.is_empty()) {
        let next = "make room there, or set TMPDIR or FTEST_CACHE_DIR to a directory on another disk";
        failures.push(failure(format!("{who} found no space: {}", full.join("; ")), next.to_owned()));
    }
    if let Some(who) = said(NVCC_REFUSES).filter(|_| !case.env.contains_key(NVCC_FLAGS)) {
        failures.push(failure(
            format!(
                "{who} runs nvcc with `-cubin` or `-ptx`, which takes one architecture, and ftest adds that of the GPU"
            ),
            format!("let nvcc add nothing: `env: {{ {NVCC_FLAGS}: \"\" }}`"),
        ));
    }
    if let Some(why) = machine.no_shared_memory.as_ref().filter(|why| why.contains(READ_ONLY))
        && let Some(who) = said(READ_ONLY)
    {
        failures.push(failure(
            format!("{who} could not write, and nothing can be written to /dev/shm: {why}"),
            "mount /dev/shm writable (containers: `--shm-size=2g`, and no read-only mount over it)".to_owned(),
        ));
    }
    if let Some(sentence) = &machine.out_of_memory
        && (observation.execution.is_timeout() || ended_by(&[SIGKILL]).is_some())
    {
        let victim = ended_by(&[SIGKILL]).map(|role| format!(": SIGKILL ended {role}")).unwrap_or_default();
        let next = "give the machine or the container more memory, run fewer cases at once (`--jobs`), or make tensors \
                    smaller: simulated device memory is in this machine's memory";
        failures.push(failure(format!("{sentence}{victim}"), next.to_owned()));
    }
    failures
}

/// Possible explanations of how processes ended, for a case that did not pass.
pub fn hints(case: &Case, observation: &Observation) -> Vec<String> {
    let machine = &observation.machine;
    let small = machine.shared_memory.filter(|bytes| *bytes < SMALL);
    let no_space =
        small.filter(|_| machine.full.is_empty()).zip(complaining(case, observation, NO_SPACE)).map(|(bytes, who)| {
            format!(
                "{who} found no space: /dev/shm has {} in all here (containers: `--shm-size`)",
                machine::describe(bytes)
            )
        });
    let no_shm = machine.no_shared_memory.as_ref().map(|why| format!("nothing can be written to /dev/shm: {why}"));
    let hint = small.zip(ended_by(case, observation, &[SIGBUS])).map(|(bytes, role)| {
        let size = machine::describe(bytes);
        format!("SIGBUS ended {role}: /dev/shm has {size} in all here, and a program that uses more ends this way (containers: `--shm-size`)")
    });
    let no_loopback =
        machine.no_loopback.clone().filter(|_| observation.execution.infra_error() != machine.no_loopback.as_deref());
    let machine = no_space.into_iter().chain(no_shm).chain(no_loopback);
    machine.chain(hint).chain(no_torch(case, observation)).chain(machine::inherited_limits()).collect()
}

/// A case that names no Python used the one on `PATH`.
fn no_torch(case: &Case, observation: &Observation) -> Option<String> {
    if case.python.is_some() {
        return None;
    }
    let misses = |process: &&ProcessObservation| {
        let stderr = if process.stderr.truncated { &process.stderr.tail } else { &process.stderr.head };
        String::from_utf8_lossy(stderr).contains(NO_TORCH)
    };
    let process = observation.processes.iter().find(misses)?;
    let usual = default_requirements();
    let pinned = usual.iter().find_map(|one| one.strip_prefix("torch=="))?;
    let ran = match &observation.python {
        Some(python) => format!("{} ({})", python.program.display(), python.selected),
        None => "the one on PATH".to_owned(),
    };
    Some(format!(
        "{} found no PyTorch: the case names no `python`, so it ran with {ran}; `python: {{torch: \"{pinned}\"}}` makes it an environment",
        process.role
    ))
}

/// Who ended unexpectedly with `words` on stderr: a process, or ftest itself.
fn complaining(case: &Case, observation: &Observation, words: &str) -> Option<String> {
    if observation.execution.infra_error().is_some_and(|error| error.contains(words)) {
        return Some("ftest".to_owned());
    }
    let said = |process: &&ProcessObservation| {
        let streams = [&process.stderr.head, &process.stderr.tail];
        !case.expect.exit.accepts(process.role, &process.exit)
            && streams.iter().any(|text| memchr::memmem::find(text, words.as_bytes()).is_some())
    };
    observation.processes.iter().find(said).map(|process| process.role.to_string())
}

/// The first process that was unexpectedly ended by one of these signals.
fn ended_by(case: &Case, observation: &Observation, signals: &[i32]) -> Option<Role> {
    let by = |exit: &Exit| match exit {
        Exit::Signal(number) => signals.contains(number),
        // As a shell reports it.
        Exit::Code(code) => signals.contains(&(code - 128)),
        _ => false,
    };
    let wanted = |process: &ProcessObservation| case.expect.exit.accepts(process.role, &process.exit);
    let found = observation.processes.iter().find(|process| by(&process.exit) && !wanted(process));
    found.map(|process| process.role)
}

/// Why the loader left the shim out.
fn not_loaded(process: &ProcessObservation) -> Option<String> {
    let stderr = String::from_utf8_lossy(&process.stderr.head);
    let mut reasons = stderr.split(NOT_LOADED[0]).skip(1).filter_map(|rest| Some(rest.split_once(NOT_LOADED[1])?.0));
    let reason = reasons.find(|reason| !reason.contains(FOREIGN))?;
    Some(format!("the shim could not be loaded into {}: {reason}", process.role))
}

/// The loader had no address space for a library, possibly the shim itself.
fn no_room(process: &ProcessObservation) -> Option<String> {
    let stderr = String::from_utf8_lossy(&process.stderr.head);
    let line = stderr.lines().find(|line| line.ends_with(NO_ROOM[1]) && line.contains(NO_ROOM[0]))?;
    Some(format!("{} could not be loaded: {line}", process.role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::machine::Machine;
    use crate::observation::{Captured, Execution};

    fn seen(machine: Machine, exits: &[Exit]) -> Observation {
        let process = |(rank, exit): (usize, &Exit)| ProcessObservation {
            role: Role::Rank(rank as u32),
            exit: exit.clone(),
            stdout: Captured::default(),
            stderr: Captured::default(),
        };
        let processes = exits.iter().enumerate().map(process).collect();
        Observation { machine, processes, ..Observation::default() }
    }

    fn got(machine: Machine, exits: &[Exit]) -> Vec<String> {
        let found = failures(&Case::default(), &seen(machine, exits));
        found.into_iter().map(|failure| format!("{} / {}", failure.got, failure.next)).collect()
    }

    #[test]
    fn a_signal_of_a_limit_that_is_set_is_the_environments() {
        let file = || Machine { file_size: Some(1024), ..Machine::default() };
        let expected = "SIGXFSZ ended rank 1: a file became larger than allowed / \
                        the limit on the size of files (`ulimit -f`) is 1024 bytes: raise it";
        assert_eq!(got(file(), &[Exit::Code(0), Exit::Signal(SIGXFSZ)]), [expected]);
        assert_eq!(got(file(), &[Exit::Code(0), Exit::Code(128 + SIGXFSZ)]), [expected]);
        assert_eq!(got(file(), &[Exit::Code(1)]), [""; 0]);
        // The program set itself one.
        assert_eq!(got(Machine::default(), &[Exit::Signal(SIGXFSZ)]), [""; 0]);
        let cpu = Machine { cpu_time: Some(3), ..Machine::default() };
        assert!(got(cpu, &[Exit::Signal(SIGKILL)])[0].contains("(`ulimit -t`) is 3 s"));
    }

    #[test]
    fn memory_that_ran_out_explains_a_kill_and_nothing_else() {
        let machine = || Machine { out_of_memory: Some("the kernel ended 1".into()), ..Machine::default() };
        assert!(got(machine(), &[Exit::Code(0), Exit::Signal(SIGKILL)])[0].starts_with("the kernel ended 1: SIGKILL"));
        assert_eq!(got(machine(), &[Exit::Code(0), Exit::Code(1)]), [""; 0]);
        assert_eq!(got(Machine::default(), &[Exit::Signal(SIGKILL)]), [""; 0]);
        let small = |bytes| Machine { shared_memory: Some(bytes), ..Machine::default() };
        let hints = |bytes| hints(&Case::default(), &seen(small(bytes), &[Exit::Signal(SIGBUS)]));
        assert!(hints(64 << 20)[0].starts_with("SIGBUS ended rank 0: /dev/shm has 64 MiB in all here"));
        assert!(!hints(8 << 30).iter().any(|hint| hint.contains("SIGBUS")));
        // Processes that the case itself kills do not count.
        let text =
            "ftest: 1\nsuite: s\ncases:\n- {id: c, launch: {argv: [x], ranks: 1}, expect: {exit: {signal: SIGKILL}}}\n";
        let case = crate::suite::parse(std::path::Path::new("s.yaml"), text, std::path::Path::new("/")).unwrap();
        assert_eq!(failures(&case.cases[0], &seen(machine(), &[Exit::Signal(SIGKILL)])), []);
    }

    #[test]
    fn a_full_disk_and_one_that_is_read_only_are_named_where_a_program_met_them() {
        let with = |machine: Machine, exit: Exit, stderr: &str| {
            let mut observation = seen(machine, &[exit]);
            observation.processes[0].stderr.head = stderr.as_bytes().to_vec();
            observation
        };
        let full = || Machine { full: vec!["TMPDIR, /t, is full".into()], ..Machine::default() };
        let kind = |observation: &Observation| {
            failures(&Case::default(), observation).into_iter().map(|failure| failure.got).collect::<Vec<_>>()
        };
        assert_eq!(
            kind(&with(full(), Exit::Code(1), "head: No space left on device")),
            ["rank 0 found no space: TMPDIR, /t, is full"]
        );
        assert_eq!(kind(&with(full(), Exit::Code(0), "head: No space left on device")), [""; 0]);
        assert_eq!(kind(&with(full(), Exit::Code(1), "head: no")), [""; 0]);
        let mut ours = with(full(), Exit::Code(0), "");
        ours.execution = Execution::NotStarted("cannot make /t/0: No space left on device (os error 28)".to_owned());
        assert_eq!(kind(&ours), ["ftest found no space: TMPDIR, /t, is full"]);

        let shm = |why: &str| Machine { no_shared_memory: Some(why.to_owned()), ..Machine::default() };
        let python = "OSError: [Errno 30] Read-only file system";
        assert!(kind(&with(shm("Read-only file system (os error 30)"), Exit::Code(1), python))[0].contains("/dev/shm"));
        assert_eq!(kind(&with(Machine::default(), Exit::Code(1), python)), [""; 0]);
        let small = Machine { shared_memory: Some(1 << 20), ..Machine::default() };
        let hints = hints(&Case::default(), &with(small, Exit::Code(1), "No space left on device"));
        assert!(hints[0].contains("/dev/shm has 1 MiB in all here"), "{hints:?}");
    }

    #[test]
    fn flags_of_ours_that_nvcc_refuses_are_named() {
        let mut observation = seen(Machine::default(), &[Exit::Code(1)]);
        let line = "nvcc fatal   : Option '--cubin' is not allowed when compiling for multiple GPU code instances";
        observation.processes[0].stderr.head = line.as_bytes().to_vec();
        let found = failures(&Case::default(), &observation);
        assert!(found[0].got.starts_with("rank 0 runs nvcc with `-cubin`"), "{found:?}");
        assert_eq!(found[0].next, "let nvcc add nothing: `env: { NVCC_APPEND_FLAGS: \"\" }`");
        let mut own = Case::default();
        own.env.insert(NVCC_FLAGS.to_owned(), Default::default());
        assert_eq!(failures(&own, &observation), []);
    }

    #[test]
    fn a_shim_that_was_not_loaded_is_found_on_stderr() {
        let failures_of = |reason: &str| {
            let mut observation = seen(Machine::default(), &[Exit::Code(0)]);
            observation.processes[0].stderr.head = format!(
                "ERROR: ld.so: object '/x/lib/libfakegpu.so' from LD_PRELOAD cannot be preloaded ({reason}): ignored.\n"
            )
            .into_bytes();
            failures(&Case::default(), &observation)
        };
        let found = failures_of("failed to map segment from shared object");
        let expected = "the shim could not be loaded into rank 0: failed to map segment from shared object";
        assert_eq!(found.iter().map(|failure| failure.got.as_str()).collect::<Vec<_>>(), [expected]);
        assert_eq!(failures_of("wrong ELF class: ELFCLASS64"), []);
        assert!(failures_of("cannot open shared object file")[0].next.starts_with("LD_PRELOAD names a file"));
        let line = "x: error while loading shared libraries: libm.so.6: failed to map segment from shared object";
        let mut observation = seen(Machine { address_space: Some(8192), ..Machine::default() }, &[Exit::Code(127)]);
        observation.processes[0].stderr.head = format!("{line}\n").into_bytes();
        let found = failures(&Case::default(), &observation);
        assert_eq!(found[0].got, format!("rank 0 could not be loaded: {line}"));
        assert_eq!(found[0].next, "the limit on address space (`ulimit -v`) is 8192 bytes: raise it");
    }

    #[test]
    fn pytorch_without_simulated_gpus_is_not_the_programs_fault() {
        let mut observation = seen(Machine::default(), &[Exit::Code(1)]);
        observation.processes[0].stderr.tail =
            format!("ValueError: no libcublas\n{NO_GPUS}; the simulated").into_bytes();
        let found = failures(&Case::default(), &observation);
        assert_eq!(found.len(), 1);
        assert!(found[0].got.starts_with("rank 0 imports PyTorch") && found[0].next.contains("a `cluster`"));
        let hint = include_str!("../execute/python/hints/_ftest_hint.py");
        assert!(hint.contains(NO_GPUS), "the sentence is another one there");
    }

    #[test]
    fn ranks_that_were_refused_the_same_say_it_once() {
        let refused = |device| format!("device {device} has no memory: no; the limit is 5: raise it");
        let observation = Observation { refused: vec![refused(0), refused(1), refused(0)], ..Observation::default() };
        let found = failures(&Case::default(), &observation);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].got, "device 0 has no memory: no\ndevice 1 has no memory: no");
        assert_eq!(found[0].next, "the limit is 5: raise it");
    }
}
