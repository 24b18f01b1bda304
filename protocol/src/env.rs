//! Every environment variable the project reads: name, values, default, meaning. docs/environment.md is generated from this
//! table.

use crate::suggest;

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The values it accepts.
    pub values: &'static str,
    /// Its value when it is unset.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Where a user's value of it counts.
    pub scope: Scope,
}

/// Where a user's value of a variable counts. Elsewhere it is refused or noted, never dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In simulated GPUs: in `env` of a case with a cluster, and around `fgpu` and `ftest exec`.
    Cluster,
    /// The same, and processes of cases inherit it.
    Inherited,
    /// In `env` of a case with a coordinator, and around `fgpu` and `ftest exec`.
    Coordinator,
    /// In `env` of a case with `coordinator: false`, which may have one of its own, and around `fgpu` and `ftest exec`.
    OwnCoordinator,
    /// Around `fgpu` and `ftest exec`. In a case a key says the same: the advice.
    Key(&'static str),
    /// Around `fgpu`, in a mode with real GPUs.
    RealGpus,
    /// In the environment of every command of ftest; what to do in a case.
    Ftest(&'static str),
    /// The same, but `fgpu` and `ftest exec` have no use for it.
    Run(&'static str),
    /// Nowhere: ftest and fgpu set it.
    Ours,
}

impl Scope {
    /// For the documentation: what happens to a value in `env` of a case, around `ftest run`, and around `fgpu` or `ftest exec`.
    pub fn describe(self) -> [String; 3] {
        let (in_case, around_run, around_exec) = match self {
            Self::Cluster => ("honored with a cluster, else refused".to_owned(), "noted", "honored"),
            Self::Inherited => ("honored with a cluster, else refused".to_owned(), "honored", "honored"),
            Self::Coordinator => ("honored with a coordinator, else refused".to_owned(), "noted", "honored"),
            Self::OwnCoordinator => ("honored with `coordinator: false`, else refused".to_owned(), "noted", "honored"),
            Self::Key(advice) => (format!("refused: {advice}"), "noted", "honored"),
            Self::RealGpus => ("refused: GPUs of cases are simulated".to_owned(), "noted", "honored"),
            Self::Ftest(advice) => (format!("refused: {advice}"), "honored", "honored"),
            Self::Run(advice) => (format!("refused: {advice}"), "honored", "not used"),
            Self::Ours => ("refused: ftest sets it".to_owned(), "replaced or removed", "replaced or removed"),
        };
        [in_case, around_run.to_owned(), around_exec.to_owned()]
    }
}

/// An error: a variable, or the option for it, has a value that it does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value}: expected {expected}{}", .hint.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
pub struct BadValue {
    /// Name of the variable, or of the option that was given in its place.
    pub variable: &'static str,
    /// Its value.
    pub value: String,
    /// The values it accepts.
    pub expected: String,
    /// The nearest accepted value.
    pub hint: Option<String>,
}

impl Variable {
    /// The error for `value` as the value of this variable.
    pub fn bad(&self, value: &str) -> BadValue {
        BadValue { variable: self.name, value: value.to_owned(), expected: self.values.to_owned(), hint: None }
    }

    /// The index of `value` in `choices`; case does not matter.
    ///
    /// # Errors
    /// [`BadValue`] naming the variable, the choices and the nearest of them.
    pub fn choose(&self, value: &str, choices: &[&str]) -> Result<usize, BadValue> {
        choices.iter().position(|choice| choice.eq_ignore_ascii_case(value.trim())).ok_or_else(|| BadValue {
            variable: self.name,
            value: value.to_owned(),
            expected: choices.join(", "),
            hint: suggest::nearest(value, choices.iter().copied()).map(str::to_owned),
        })
    }

    /// `value` as a number between `min` and `max`.
    ///
    /// # Errors
    /// [`BadValue`] naming the variable and the range.
    pub fn integer(&self, value: &str, min: u64, max: u64) -> Result<u64, BadValue> {
        value.trim().parse().ok().filter(|number| (min..=max).contains(number)).ok_or_else(|| self.bad(value))
    }

    /// `value` as a switch: 0, false, off, no against 1, true, on, yes.
    ///
    /// # Errors
    /// [`BadValue`] for anything else.
    pub fn switch(&self, value: &str) -> Result<bool, BadValue> {
        match value.trim().to_ascii_lowercase().as_str() {
            "0" | "false" | "off" | "no" | "" => Ok(false),
            "1" | "true" | "on" | "yes" => Ok(true),
            _ => Err(self.bad(value)),
        }
    }
}

macro_rules! variables {
    ($($constant:ident = $name:literal, $values:literal, $default:literal, $meaning:literal, $scope:expr;)*) => {
        $(#[doc = $meaning] pub const $constant: Variable =
            Variable { name: $name, values: $values, default: $default, meaning: $meaning, scope: $scope };)*

        /// All of them, in the order of the documentation.
        pub const ALL: &[Variable] = &[$($constant),*];
    };
}

variables! {
    MODE = "FAKEGPU_MODE", "simulate, hybrid, passthrough", "simulate",
        "What computes. Only `simulate` works without a GPU. `passthrough` leaves CUDA to the real GPUs and preloads nothing except an NCCL that FAKEGPU_DIST_MODE asks for. `hybrid` shows simulated devices, and the real GPUs compute. Both are experimental: not yet run on hardware.", Scope::RealGpus;
    OOM_POLICY = "FAKEGPU_OOM_POLICY", "clamp, managed, mapped_host, spill_cpu", "clamp",
        "In hybrid mode (experimental), what happens to an allocation that fits the simulated device but not the real GPU: an error, managed memory, pinned host memory, or host memory that kernels cannot reach.", Scope::RealGpus;
    UNSUPPORTED_API = "FAKEGPU_UNSUPPORTED_API", "allow, warn, stop, error", "stop; warn with FAKEGPU_COMPUTE=skip and in a case that allows gaps",
        "What a gap does: `allow` records it, `warn` also names each kernel or call once on stderr (the first 16 of a function), `stop` also fails the launch of a kernel that ftest does not execute with cudaErrorNoKernelImageForDevice, `error` returns NotSupported wherever a gap would be recorded.", Scope::Cluster;
    EVENT_CLOCK = "FAKEGPU_EVENT_CLOCK", "work, wall", "work",
        "What cudaEventElapsedTime returns for a stretch of a stream in which kernels ran from their PTX. `work`: a time that depends only on the kernels, 20 ms each plus a little for their size, so autotuning ends soon and always makes the same choice. `wall`: the time that passed, as for every other stretch.", Scope::Cluster;
    CLOCK = "FAKEGPU_CLOCK", "real, modeled, fast", "real",
        "What tells the time. `modeled`: the [time model](clock.md) gives every piece of work on a stream a beginning and an end, and what the program measures, by events or by its own clocks, are the simulated GPUs' times. `real`: this machine's. `fast`: from the first stream of CUDA on, what the program reads by its own clocks passes twice as fast (the [relation](suites.md#holds_under) `clock` does so); nothing waits less.", Scope::Key("write `clock: modeled`");
    STRICT_COMPAT = "FAKEGPU_STRICT_COMPAT", "0 or 1", "1",
        "Refuse cuBLAS datatypes that the profile does not list.", Scope::Cluster;
    PROFILES = "FAKEGPU_PROFILES", "id[:count],id[:count],...", "-",
        "The devices, in order; wins over FAKEGPU_PROFILE and FAKEGPU_DEVICE_COUNT.", Scope::Key("write `cluster: {nodes: 1, gpus_per_node: 2, profile: h100}`");
    PROFILE = "FAKEGPU_PROFILE", "a profile id", "a100",
        "Profile of every device.", Scope::Key("write `profile` in the `cluster`");
    DEVICE_COUNT = "FAKEGPU_DEVICE_COUNT", "an integer from 1 to 1024", "8",
        "Number of devices.", Scope::Key("write `gpus_per_node` in the `cluster`");
    DRIVER = "FAKEGPU_DRIVER", "a CUDA version, 13.0, or a driver's version and its CUDA, 580.95.05:13.0", "the profile's, else the newest known",
        "The driver that the machine claims to have. If it supports only an older CUDA than the program's, calls fail as on hardware: cudaErrorInsufficientDriver.", Scope::Cluster;
    REPORT_PATH = "FAKEGPU_REPORT_PATH", "a path; `{pid}` and `{rank}` are replaced", "fake_gpu_report.{pid}.json under ftest, else none",
        "Where a process that used a device writes its device report.", Scope::Key("`expect: {report: [{of: device, ...}]}` reads the reports, and `--keep` keeps them");
    TERMINAL_REPORT = "FAKEGPU_TERMINAL_REPORT", "0 or 1", "0",
        "Print a summary of the device report on stderr at exit.", Scope::Cluster;
    REAL_CUDA_LIB_DIR = "FAKEGPU_REAL_CUDA_LIB_DIR", "a directory", "where systems keep it",
        "In hybrid mode (experimental), the directory of the real driver's libcuda.so.1.", Scope::RealGpus;
    REAL_NCCL_PATH = "FAKEGPU_REAL_NCCL_PATH", "a file", "proxy: libnccl.so.2 of $CONDA_PREFIX/lib, then of the system; passthrough: what the program finds",
        "Real NCCL for the experimental dist modes proxy and passthrough.", Scope::RealGpus;
    CPU_GEMM_MODE = "FAKEGPU_CPU_GEMM_MODE", "auto, exact, skip, fast", "auto",
        "Whether cuBLAS products are computed.", Scope::Cluster;
    CPU_GEMM_MAX_OPS = "FAKEGPU_CPU_GEMM_MAX_OPS", "an integer, 0 = unlimited", "0",
        "Products above this many multiply-adds are a gap, never zero-filled.", Scope::Cluster;
    DIST_MODE = "FAKEGPU_DIST_MODE", "disabled, simulate, proxy, passthrough", "simulate when a coordinator address is set, else disabled",
        "What implements NCCL. `proxy` and `passthrough` are the real NCCL on real GPUs (FAKEGPU_MODE=passthrough or hybrid); with `proxy` the coordinator still keeps track, writes the report and makes the findings. Both are experimental: not yet run on hardware.", Scope::Cluster;
    COORDINATOR_TRANSPORT = "FAKEGPU_COORDINATOR_TRANSPORT", "unix, tcp", "from the address: an absolute path is unix",
        "How ranks reach the coordinator.", Scope::OwnCoordinator;
    COORDINATOR_ADDR = "FAKEGPU_COORDINATOR_ADDR", "host:port or an absolute path", "-",
        "Where the coordinator listens.", Scope::OwnCoordinator;
    COORDINATOR_TOKEN = "FAKEGPU_COORDINATOR_TOKEN", "text of at most 1024 bytes", "-",
        "The run's token: a connection without it is refused. Required for a tcp address other than loopback, where the TLS key is derived from it: generate it randomly.", Scope::OwnCoordinator;
    CLUSTER_CONFIG = "FAKEGPU_CLUSTER_CONFIG", "a path", "-",
        "The cluster file.", Scope::Key("write `cluster: {file: PATH}`");
    STAGING_CHUNK_BYTES = "FAKEGPU_STAGING_CHUNK_BYTES", "a positive integer", "1048576",
        "Socket payloads are cut into pieces of this size.", Scope::Cluster;
    STAGING_MAX_BYTES = "FAKEGPU_STAGING_MAX_BYTES", "a positive integer", "-",
        "Refuse a piece of a socket payload above this size.", Scope::Cluster;
    STAGING_FORCE_SOCKET = "FAKEGPU_STAGING_FORCE_SOCKET", "0 or 1", "0",
        "Move bytes over sockets even if the ranks share a host.", Scope::Cluster;
    STAGING_TLS = "FAKEGPU_STAGING_TLS", "0 or 1", "1",
        "Encrypt the data that ranks on different hosts exchange, with a key derived from the run's token. 0 turns this off where the network between them is trusted; set it alike on all ranks.", Scope::Cluster;
    COORDINATOR_TIMEOUT_MS = "FAKEGPU_COORDINATOR_TIMEOUT_MS", "a positive integer", "600000",
        "How long a rank waits for the others at a rendezvous or in an operation.", Scope::Cluster;
    COORDINATOR_IDLE_MS = "FAKEGPU_COORDINATOR_IDLE_MS", "an integer, 0 = never", "0",
        "When no operation has ended for this long, the coordinator reports which ranks wait for which.", Scope::Key("write `timeout: {idle: 5s}`");
    CLUSTER_REPORT_PATH = "FAKEGPU_CLUSTER_REPORT_PATH", "a path", "-",
        "Where the coordinator writes the cluster report.", Scope::Key("`expect: {report: [...]}` reads the report, and `--keep` keeps it");
    CLUSTER_REPORT_MARKDOWN_PATH = "FAKEGPU_CLUSTER_REPORT_MARKDOWN_PATH", "a path; 0, off or none disables", "the JSON path with .md",
        "Markdown sibling of the cluster report.", Scope::Coordinator;
    CLUSTER_REPORT_MAX_OPERATIONS = "FAKEGPU_CLUSTER_REPORT_MAX_OPERATIONS", "an integer from 0 to 1000000", "4096",
        "Operations kept in the report's timeline.", Scope::Coordinator;
    NCCL_FAULT_RANK = "FAKEGPU_NCCL_FAULT_RANK", "a global rank", "-",
        "With FAKEGPU_NCCL_FAULT_SEQNO: this rank fails there.", Scope::Cluster;
    NCCL_FAULT_SEQNO = "FAKEGPU_NCCL_FAULT_SEQNO", "a sequence from 1", "-",
        "With FAKEGPU_NCCL_FAULT_RANK: at which collective.", Scope::Cluster;
    NCCL_FAULT_OPERATION = "FAKEGPU_NCCL_FAULT_OPERATION", "all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all", "all_reduce",
        "The operation that fails.", Scope::Cluster;
    COMPUTE = "FAKEGPU_COMPUTE", "cpu, skip", "cpu",
        "Whether PyTorch's operators compute on the CPU, or kernels are only recorded and memory stays untouched.", Scope::Cluster;
    AS_RANK = "FTEST_AS_RANK", "RANK/SIZE, set by ftest exec --as-rank", "-",
        "The process is the only one of its job: communicators form at once, collectives wait for nobody, and their results are meaningless.", Scope::Ours;
    NODE = "FTEST_NODE", "an index, set by ftest where nodes are apart", "-",
        "The node of the cluster that the process is on: it sees only that node's GPUs.", Scope::Ours;
    SANITIZE = "FAKEGPU_SANITIZE", "races, init, finite, replicas, memory, shared-races, sync, none; several with commas", "races,replicas",
        "What to look for while the program runs: `races` are accesses by two streams to the same memory that nothing orders, `init` are reads of memory that nothing has written, `finite` are operators that return NaN or Inf for finite inputs, `replicas` are parameters, buffers and optimizer state that differ between the ranks of a data-parallel group; `memory`, `shared-races` and `sync` look at kernels. Each is a finding.", Scope::Key("write `sanitize: [races, init]`");
    FRESH_MEMORY = "FAKEGPU_FRESH_MEMORY", "0 to 254", "whatever was there, or 255 under `sanitize: [init]`",
        "The byte that fills new memory of the GPU, pinned memory and the heap of the process, up to 256 MiB of an allocation, and with each call of CUDA 16 KiB of the stack below it. 60 is a small number in every floating-point type but float64.", Scope::Cluster;
    SCHEDULE = "FAKEGPU_SCHEDULE", "a seed, or a seed and the longest delay: 7:5ms", "no delays",
        "Random delays at collectives, in streams, in PyTorch's operators, after waits of the host and at the start of ranks, the same for the same seed.", Scope::Key("write `schedule: {seed: 7}`");
    CLUSTER = "FTEST_CLUSTER", "JSON made by ftest or fgpu", "-",
        "The checked cluster: devices and nodes.", Scope::Ours;
    FAULTS = "FTEST_FAULTS", "JSON made by ftest", "-",
        "The faults of the case.", Scope::Ours;
    GPUS = "FTEST_GPUS", "a file", "set by ftest, and by fgpu where it is not set",
        "Makes processes share one machine: each records there which parts of the GPUs it holds and what it does with them, so they share the devices' memory and monitors see all of them.", Scope::Ours;
    JOURNAL = "FTEST_JOURNAL", "a file", "set by ftest",
        "Processes append every gap and finding as soon as it occurs, so none is lost however they end.", Scope::Ours;
    TENSORS = "FTEST_TENSORS", "a directory, set by ftest", "-",
        "Where each rank records parameters, gradients and optimizer state in a few numbers after each optimizer step, for `compared: {tensors: ...}`.", Scope::Ours;
    STEPS = "FTEST_STEPS", "a directory, set by ftest", "-",
        "Where each rank records the steps of its optimizers and the indices of their samples, for `compared: {steps: ...}` and `batch: same`.", Scope::Ours;
    OPERATIONS = "FTEST_OPERATIONS", "a directory", "set by ftest in cases with `clock: modeled`",
        "Where each process that ends normally leaves the operations that it submitted under the modeled clock, for [`ftest what-if`](what-if.md).", Scope::Key("the operations of a case are kept with `clock: modeled`");
    RELATION = "FTEST_RELATION", "`workers` or `bucket-size`, set by ftest", "-",
        "What a [relation](suites.md#holds_under) changes in a program that uses PyTorch: how many processes load data, or how large the buckets of DistributedDataParallel are.", Scope::Ours;
    AFTER_TORCH = "FTEST_AFTER_TORCH", "directories, set by ftest exec", "-",
        "Each has a `sitecustomize.py` that runs in a program which imports PyTorch, even if the program's Python looks for none there.", Scope::Ours;
    ASSUME = "FTEST_ASSUME", "`balanced`, `zeros`, set by ftest exec --assume", "-",
        "What choices among numbers that nobody computed turn out to be, when nothing computes: `balanced` chooses everything equally often.", Scope::Ours;
    SENT = "FTEST_SENT", "a directory, set by ftest exec --preflight", "-",
        "Where the ranks of a job that are run one after the other record what they send, for those that follow.", Scope::Ours;
    COOKIE = "FTEST_CASE_COOKIE", "text made by ftest", "-",
        "Marks every process of a case, so none outlives it.", Scope::Ours;
    AGENT_TOKEN = "FTEST_AGENT_TOKEN", "text of 16 to 1024 bytes", "-",
        "The secret that `ftest run --machines` and the `ftest agent` of each other machine share. Processes of cases do not get it.", Scope::Run("processes of cases do not get it");
    HOME = "FTEST_HOME", "a directory", "relative to the binary",
        "Where shim, profiles and suites are installed.", Scope::Ftest("set it where you start ftest");
    PYTHON = "FTEST_PYTHON", "a Python interpreter: a path, a name on PATH, `system` for the python3 there, or `managed` for managed environments whatever is active", "the active environment, else the managed one",
        "The Python that suites and `ftest exec` use.", Scope::Ftest("write `python: system`, or the packages that the case needs");
    CACHE = "FTEST_CACHE_DIR", "a directory", "$XDG_CACHE_HOME/ftest or ~/.cache/ftest",
        "Where managed environments and soname holders live.", Scope::Ftest("set it where you start ftest");
    KERNELS = "FTEST_KERNELS", "a directory, or empty for none", "`kernels` in the cache directory; set by ftest and fgpu",
        "Where compiled kernels are kept for every later process on this machine; 256 MiB at most.", Scope::Inherited;
    WARM = "FTEST_WARM", "0, 1", "1 where a run starts more than two of them",
        "Whether Python processes of cases are forked from one that has imported PyTorch: `1` in all cases but those with `warm: false`, `0` in none.", Scope::Run("write `warm` in `launch`");
    RUNS = "FTEST_RUNS_DIR", "a directory", ".ftest/runs",
        "Where `ftest run` keeps its runs, and other commands find them.", Scope::Run("set it where you start ftest, or give `--runs-dir`");
    KEEP_SIZE = "FTEST_KEEP_SIZE", "a size of at least 1MiB: 500MiB, 2GiB", "1GiB",
        "How large the kept runs may be together; one of them at most a quarter of it.", Scope::Run("set it where you start ftest");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_value_names_variable_choices_and_hint() {
        let error = UNSUPPORTED_API.choose("wran", &["allow", "warn", "stop", "error"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "FAKEGPU_UNSUPPORTED_API=wran: expected allow, warn, stop, error; did you mean `warn`?"
        );
        assert!(DEVICE_COUNT.integer("0", 1, 1024).is_err());
        assert_eq!(DEVICE_COUNT.integer("4", 1, 1024), Ok(4));
        assert_eq!(STAGING_FORCE_SOCKET.switch("off"), Ok(false));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ALL.iter().map(|variable| variable.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
