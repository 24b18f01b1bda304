//! The environment, read once at the first intercepted call. A bad value is reported once on stderr, by name, and then every
//! call returns "not initialized". The process is not killed for it, because it may never have wanted a GPU.

pub(crate) mod blocking;
pub(crate) mod hybrid;
pub(crate) mod visible;

use std::path::PathBuf;
use std::sync::OnceLock;

use protocol::assume;
use protocol::clock;
use protocol::driver::Driver;
use protocol::env::{BadValue, Variable};
use protocol::fault::{self, Fault};
use protocol::gpu::Gpu;
use protocol::machine;
use protocol::plan::ClusterPlan;
use protocol::sanitizer::Sanitizers;
use protocol::schedule::Schedule;

/// What a gap does (`FAKEGPU_UNSUPPORTED_API`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GapPolicy {
    /// Counted.
    Allow,
    /// Counted, and reported once per name on stderr.
    Warn,
    /// As `Warn`, but launching a kernel that cannot be executed is an error, because a program must not go on without its
    /// numbers.
    Stop,
    /// Counted, and returns NotSupported to the caller.
    Error,
}

impl GapPolicy {
    /// Word of the variable and of the report.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Stop => "stop",
            Self::Error => "error",
        }
    }
}

/// Whether cuBLAS products are computed (`FAKEGPU_CPU_GEMM_MODE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GemmMode {
    /// Computed exactly (there is only one method, so `auto`, `exact` and `fast` are the same).
    #[default]
    Compute,
    /// Left undone: a gap.
    Skip,
}

/// What tells the program the time (`FAKEGPU_CLOCK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// This machine.
    Real,
    /// This machine, twice as fast where the program measures.
    Fast,
    /// The time model.
    Modeled,
}

/// Whether PyTorch's operators compute (`FAKEGPU_COMPUTE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Compute {
    /// The CPU computes, over the GPU's memory.
    #[default]
    Cpu,
    /// Not at all: kernels are recorded, memory stays untouched.
    Skip,
}

impl Compute {
    /// Word of the variable and of the report.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Skip => "skip",
        }
    }
}

/// What a relation between two runs changes in the program (`FTEST_RELATION`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// How many processes load data.
    Workers,
    /// How large the buckets of DistributedDataParallel are.
    BucketSize,
}

/// The time between two events with kernels in between (`FAKEGPU_EVENT_CLOCK`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EventClock {
    /// Derived from the kernels and their sizes.
    #[default]
    Work,
    /// The elapsed time.
    Wall,
}

/// Which cuBLAS products are computed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GemmPolicy {
    /// Whether at all.
    pub(crate) mode: GemmMode,
    /// Larger ones, in multiply-adds, are a gap.
    pub(crate) max_operations: Option<u64>,
    /// Whether datatypes that the profile does not list are refused (`FAKEGPU_STRICT_COMPAT`).
    pub(crate) strict: bool,
}

/// Where this process, one rank of a job, records what it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) directory: PathBuf,
    /// Its rank, and the number of ranks.
    pub(crate) one_of: (u32, u32),
}

/// The environment after it was checked.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The effect of a gap.
    pub(crate) gap_policy: GapPolicy,
    /// The machine's driver.
    pub(crate) driver: Driver,
    /// GPUs of this machine; NVML shows all of them, and CUDA those of `device::all`.
    pub(crate) gpus: Vec<Gpu>,
    /// The cluster, if there is one.
    pub(crate) cluster: Option<ClusterPlan>,
    /// Whether PyTorch's operators compute.
    pub(crate) compute: Compute,
    /// What tells the program the time.
    pub(crate) clock: Clock,
    /// Whether choices among numbers that nobody computed are balanced.
    pub(crate) assumes_balance: bool,
    /// Whether a program that compares a floating-point number that nobody computed is taken to find 0.
    pub(crate) assumes_zeros: bool,
    /// The time between two events with kernels in between.
    pub(crate) event_clock: EventClock,
    /// Which cuBLAS products are computed.
    pub(crate) gemm: GemmPolicy,
    /// The enabled sanitizers.
    pub(crate) sanitize: Sanitizers,
    /// Whether `replicas` was asked for, and is not only on by default.
    pub(crate) asks_for_replicas: bool,
    /// The byte that fills new memory.
    pub(crate) fresh_memory: Option<u8>,
    /// The injected delays.
    pub(crate) schedule: Option<Schedule>,
    /// The GPU health events.
    pub(crate) gpu_events: Vec<Fault>,
    /// Where the device report goes, with its placeholders.
    pub(crate) report_path: Option<String>,
    /// Where gaps are recorded immediately.
    pub(crate) journal: Option<String>,
    /// What a relation between two runs changes in the program.
    pub(crate) relation: Option<Relation>,
    /// The directory for the tensors of optimizer steps.
    pub(crate) tensors: Option<String>,
    /// The directory for optimizer steps and their samples.
    pub(crate) steps: Option<String>,
    /// The directory for the operations under the modeled clock.
    pub(crate) operations: Option<String>,
    /// Where the ranks of a job that are run one after the other record what they send.
    pub(crate) sent: Option<Sent>,
    /// Print a summary at exit.
    pub(crate) terminal_report: bool,
}

impl Settings {
    /// Whether NVLink connects the GPU to others of its node, because the cluster file says so, or names no link and the model has
    /// NVLink.
    pub(crate) fn is_linked(&self, gpu: &Gpu) -> bool {
        self.links(gpu) > 0
    }

    /// NVLinks from the GPU to others of its node: those of the cluster file's `machine`, else the model's.
    pub(crate) fn links(&self, gpu: &Gpu) -> u32 {
        let is_nvlink = |cluster: &ClusterPlan| cluster.intra_node.kind.to_ascii_lowercase().starts_with("nv");
        let neighbors = self.gpus.iter().filter(|other| other.node == gpu.node).count();
        let Some(nvlink) = gpu.profile.nvlink.as_ref().filter(|_| neighbors > 1) else { return 0 };
        match &self.cluster {
            Some(cluster) if !is_nvlink(cluster) => 0,
            Some(cluster) if cluster.machine.is_some() => {
                timing::machine::of_node(cluster).map_or(nvlink.links, |machine| machine.nvlinks())
            }
            _ => nvlink.links,
        }
    }

    /// NVLink of a GPU in one direction, GB/s as its data sheet counts.
    pub(crate) fn nvlink_gbytes(&self, gpu: &Gpu) -> f64 {
        let each = gpu.profile.nvlink.as_ref().map_or(0.0, |nvlink| nvlink.gigabytes_per_second_per_link);
        f64::from(self.links(gpu)) * each
    }
}

static SETTINGS: OnceLock<Result<Settings, BadValue>> = OnceLock::new();

/// Whether the settings have been read: from then on a change of the environment has no effect.
pub(crate) fn are_read() -> bool {
    SETTINGS.get().is_some()
}

/// The settings, read at the first call.
///
/// # Errors
/// The first bad value; it has been printed already.
pub(crate) fn get() -> Result<&'static Settings, &'static BadValue> {
    let settings = SETTINGS.get_or_init(|| {
        let settings = read(&hybrid::variable);
        if let Err(error) = &settings {
            eprintln!("fakegpu: {error}; every CUDA, NCCL and NVML call will fail until it is corrected");
        }
        if let Ok(Settings { fresh_memory: Some(byte), .. }) = &settings {
            fill_heap(*byte);
        }
        settings
    });
    settings.as_ref()
}

/// From now on, what `malloc` returns is filled with `byte`.
fn fill_heap(byte: u8) {
    /// malloc.h; glibc fills with the complement of its value.
    const M_PERTURB: libc::c_int = -6;
    // SAFETY: a setting of the allocator, which takes any value.
    unsafe { libc::mallopt(M_PERTURB, libc::c_int::from(!byte)) };
}

/// The words of `FTEST_ASSUME`.
fn assumptions(value: &str) -> Result<Vec<&'static str>, BadValue> {
    let word = |word| protocol::env::ASSUME.choose(word, assume::WORDS).map(|index| assume::WORDS[index]);
    value.split(',').map(word).collect()
}

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

fn read(lookup: Lookup<'_>) -> Result<Settings, BadValue> {
    use protocol::env as names;
    let given = |variable: &Variable| lookup(variable.name).filter(|value| !value.is_empty());

    if let Some(value) = given(&names::MODE)
        && names::MODE.choose(&value, &["simulate", "hybrid", "passthrough"])? != 0
        && hybrid::facts().is_none()
    {
        return Err(BadValue {
            expected: "simulate: the preloaded library needs no GPU and uses none".into(),
            ..names::MODE.bad(&value)
        });
    }
    let compute = match given(&names::COMPUTE) {
        None => Compute::default(),
        Some(value) => [Compute::Cpu, Compute::Skip][names::COMPUTE.choose(&value, &["cpu", "skip"])?],
    };
    let event_clock = match given(&names::EVENT_CLOCK) {
        None => EventClock::default(),
        Some(value) => [EventClock::Work, EventClock::Wall][names::EVENT_CLOCK.choose(&value, &["work", "wall"])?],
    };
    let gap_policy = match given(&names::UNSUPPORTED_API) {
        // A program that computes nothing on purpose goes on.
        None if compute == Compute::Skip => GapPolicy::Warn,
        None => GapPolicy::Stop,
        Some(value) => [GapPolicy::Allow, GapPolicy::Warn, GapPolicy::Stop, GapPolicy::Error]
            [names::UNSUPPORTED_API.choose(&value, &["allow", "warn", "stop", "error"])?],
    };
    let cluster = machine::cluster(lookup)?;
    let gpus = machine::gpus(cluster.as_ref(), lookup)?;
    let driver = driver(given(&names::DRIVER), &gpus)?;
    let gemm = GemmPolicy {
        mode: match given(&names::CPU_GEMM_MODE) {
            Some(value) if names::CPU_GEMM_MODE.choose(&value, &["auto", "exact", "skip", "fast"])? == 2 => {
                GemmMode::Skip
            }
            _ => GemmMode::Compute,
        },
        max_operations: match given(&names::CPU_GEMM_MAX_OPS) {
            Some(value) => Some(names::CPU_GEMM_MAX_OPS.integer(&value, 0, u64::MAX)?).filter(|most| *most > 0),
            None => None,
        },
        strict: given(&names::STRICT_COMPAT).map_or(Ok(true), |value| names::STRICT_COMPAT.switch(&value))?,
    };
    let terminal_report =
        given(&names::TERMINAL_REPORT).map_or(Ok(false), |value| names::TERMINAL_REPORT.switch(&value))?;
    let assumed = given(&names::ASSUME).map_or_else(|| Ok(Vec::new()), |value| assumptions(&value))?;
    let asked = given(&names::SANITIZE).map(|value| Sanitizers::parse(&value)).transpose()?;
    Ok(Settings {
        gap_policy,
        driver,
        gpus,
        cluster,
        compute,
        clock: match given(&names::CLOCK) {
            None => Clock::Real,
            Some(value) => match clock::ALL_WORDS[names::CLOCK.choose(&value, clock::ALL_WORDS)?] {
                clock::MODELED => Clock::Modeled,
                clock::FAST => Clock::Fast,
                _ => Clock::Real,
            },
        },
        assumes_balance: assumed.contains(&assume::BALANCED),
        assumes_zeros: assumed.contains(&assume::ZEROS),
        event_clock,
        gemm,
        // Without a coordinator, nobody compares replicas; without numbers or other ranks, there is nothing to compare.
        sanitize: asked.unwrap_or_else(|| {
            let is_comparable = given(&names::COORDINATOR_ADDR).is_some()
                && given(&names::AS_RANK).is_none()
                && compute == Compute::Cpu;
            let default = Sanitizers::default();
            Sanitizers { replicas: default.replicas && is_comparable, ..default }
        }),
        asks_for_replicas: asked.is_some_and(|asked| asked.replicas),
        fresh_memory: match given(&names::FRESH_MEMORY) {
            Some(value) => u8::try_from(names::FRESH_MEMORY.integer(&value, 0, 254)?).ok(),
            None => None,
        },
        schedule: given(&names::SCHEDULE).map(|value| schedule(&value)).transpose()?,
        gpu_events: given(&names::FAULTS).map_or(Ok(Vec::new()), |value| gpu_events(&value))?,
        // In mode hybrid, the library in front of the real libcuda writes the report.
        report_path: given(&names::REPORT_PATH).filter(|_| hybrid::facts().is_none()),
        journal: given(&names::JOURNAL),
        relation: match given(&names::RELATION).as_deref() {
            Some("workers") => Some(Relation::Workers),
            Some("bucket-size") => Some(Relation::BucketSize),
            Some(value) => return Err(names::RELATION.bad(value)),
            None => None,
        },
        tensors: given(&names::TENSORS),
        steps: given(&names::STEPS),
        operations: given(&names::OPERATIONS),
        sent: given(&names::SENT)
            .map(|directory| Ok(Sent { directory: directory.into(), one_of: one_of(given(&names::AS_RANK))? }))
            .transpose()?,
        terminal_report: terminal_report && hybrid::facts().is_none(),
    })
}

/// The faults of the case that concern GPUs.
fn gpu_events(value: &str) -> Result<Vec<Fault>, BadValue> {
    let faults = fault::from_json(value).map_err(|_| protocol::env::FAULTS.bad(value))?;
    Ok(faults.into_iter().filter(|fault| fault.action.gpu().is_some()).collect())
}

/// The rank and the size of the job of which this process is the only rank.
fn one_of(value: Option<String>) -> Result<(u32, u32), BadValue> {
    let value = value.unwrap_or_default();
    let numbers = value.split_once('/').and_then(|(rank, size)| Some((rank.parse().ok()?, size.parse().ok()?)));
    numbers.ok_or_else(|| protocol::env::AS_RANK.bad(&value))
}

fn schedule(value: &str) -> Result<Schedule, BadValue> {
    value.parse().map_err(|_| protocol::env::SCHEDULE.bad(value))
}

/// A machine has one driver: the variable's, else that of the first profile that names one, else the newest.
fn driver(given: Option<String>, gpus: &[Gpu]) -> Result<Driver, BadValue> {
    let bad = |value: &str| BadValue { expected: Driver::expected(), ..protocol::env::DRIVER.bad(value) };
    let text = given.or_else(|| gpus.iter().find_map(|gpu| gpu.profile.driver.clone()));
    text.map_or_else(|| Ok(Driver::newest()), |text| Driver::parse(&text).ok_or_else(|| bad(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Settings, BadValue> {
        read(&|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn products_by_table() {
        let gemm = |pairs: &[(&str, &str)]| with(pairs).map(|settings| settings.gemm);
        let plain = gemm(&[]).unwrap();
        assert!(plain.strict && plain.mode == GemmMode::Compute && plain.max_operations.is_none());
        assert!(!gemm(&[("FAKEGPU_STRICT_COMPAT", "0")]).unwrap().strict);
        assert_eq!(gemm(&[("FAKEGPU_CPU_GEMM_MODE", "skip")]).unwrap().mode, GemmMode::Skip);
        assert_eq!(gemm(&[("FAKEGPU_CPU_GEMM_MAX_OPS", "7")]).unwrap().max_operations, Some(7));
        assert_eq!(gemm(&[("FAKEGPU_CPU_GEMM_MAX_OPS", "0")]).unwrap().max_operations, None);
        for (name, value) in
            [("FAKEGPU_STRICT_COMPAT", "perhaps"), ("FAKEGPU_CPU_GEMM_MODE", "x"), ("FAKEGPU_COMPUTE", "gpu")]
        {
            assert_eq!(gemm(&[(name, value)]).unwrap_err().variable, name);
        }
    }

    #[test]
    fn eight_a100_unless_set_otherwise() {
        let ids = |pairs: &[(&str, &str)]| -> Vec<String> {
            with(pairs).unwrap().gpus.into_iter().map(|gpu| gpu.profile.id).collect()
        };
        assert_eq!(ids(&[]), vec!["a100"; 8]);
        assert_eq!(ids(&[("FAKEGPU_PROFILE", "H100"), ("FAKEGPU_DEVICE_COUNT", "2")]), ["h100", "h100"]);
        assert_eq!(
            ids(&[("FAKEGPU_PROFILES", "a100:2,h100"), ("FAKEGPU_DEVICE_COUNT", "7")]),
            ["a100", "a100", "h100"]
        );
    }

    #[test]
    fn a_rank_sees_its_node_even_where_the_launch_does_not_fill_it() {
        let fabric = r#"{"type": "nvlink", "bandwidth_gbps": 300.0, "latency_us": 3.0, "oversubscription": 1.0}"#;
        let node = |id: u32, ranks: &str| {
            format!(r#"{{"id": "node{id}", "host": "h", "ranks": [{ranks}], "gpus": ["a100", "a100"]}}"#)
        };
        let cluster = format!(
            r#"{{"name": "c", "default_backend": "nccl", "nodes": [{}, {}], "intra_node": {fabric}, "inter_node": {fabric},
                "custom_profiles": {{}}}}"#,
            node(0, "0, 1"),
            node(1, "2, 3"),
        );
        let seen = |rank: &str, local: &str, size: &str| -> Vec<u32> {
            let launch =
                [("RANK", rank), ("LOCAL_RANK", local), ("LOCAL_WORLD_SIZE", size), ("FTEST_CLUSTER", &cluster)];
            with(&launch).unwrap().gpus.iter().map(|gpu| gpu.rank.0).collect()
        };
        assert_eq!((seen("1", "1", "2"), seen("2", "0", "2")), (vec![0, 1], vec![2, 3]));
        // The third of three ranks, alone on its node.
        assert_eq!((seen("0", "0", "2"), seen("2", "0", "1")), (vec![0, 1], vec![2, 3]));
        // A process that is not a rank, on a host of its own.
        let on = |node: &str| {
            let gpus = with(&[("FTEST_NODE", node), ("FTEST_CLUSTER", &cluster)]).map(|settings| settings.gpus);
            gpus.map(|gpus| gpus.iter().map(|gpu| gpu.rank.0).collect::<Vec<u32>>()).map_err(|error| error.variable)
        };
        assert_eq!([on("0"), on("1"), on("2")], [Ok(vec![0, 1]), Ok(vec![2, 3]), Err("FTEST_NODE")]);
        // One launch over both nodes: no node has as many ranks.
        assert_eq!((seen("0", "0", "4"), seen("2", "2", "4")), (vec![0, 1, 2, 3], vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_machine_has_one_driver() {
        let gpu = |driver: Option<&str>| {
            let mut gpu = with(&[]).unwrap().gpus.remove(0);
            gpu.profile.driver = driver.map(str::to_owned);
            gpu
        };
        let cuda = |given: Option<&str>, gpus: &[Gpu]| driver(given.map(str::to_owned), gpus).map(|driver| driver.cuda);
        assert_eq!(cuda(None, &[gpu(None)]), Ok(13050));
        assert_eq!(cuda(None, &[gpu(None), gpu(Some("12.9")), gpu(Some("13.0"))]), Ok(12090));
        assert_eq!(cuda(Some("13.2"), &[gpu(Some("12.9"))]), Ok(13020));
        assert_eq!(cuda(None, &[gpu(Some("new"))]).unwrap_err().value, "new");
    }

    #[test]
    fn a_bad_value_is_named() {
        for (name, value, says) in [
            ("FAKEGPU_DRIVER", "12.7", "580.95.05:13.0"),
            ("FAKEGPU_PROFILE", "h1000", "did you mean `h100`?"),
            ("FAKEGPU_PROFILES", "a100:0", "id[:count]"),
            ("FAKEGPU_PROFILES", "a100,,h100", "unknown GPU profile"),
            ("FAKEGPU_DEVICE_COUNT", "eight", "1 to 1024"),
            ("FAKEGPU_UNSUPPORTED_API", "wran", "did you mean `warn`?"),
            ("FAKEGPU_MODE", "hybrid", "simulate"),
            ("FAKEGPU_EVENT_CLOCK", "wal", "did you mean `wall`?"),
            ("FAKEGPU_FRESH_MEMORY", "255", "0 to 254"),
            ("FTEST_CLUSTER", "{", "JSON"),
        ] {
            let error = with(&[(name, value)]).unwrap_err().to_string();
            assert!(error.starts_with(name) && error.contains(says), "{error}");
        }
    }

    #[test]
    fn every_gpu_has_a_uuid_and_an_address_of_its_own() {
        let gpus = with(&[("FAKEGPU_DEVICE_COUNT", "1024")]).unwrap().gpus;
        let mut uuids: Vec<String> = gpus.iter().map(Gpu::uuid_text).collect();
        let mut addresses: Vec<String> = gpus.iter().map(Gpu::pci_text).collect();
        for names in [&mut uuids, &mut addresses] {
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), 1024);
        }
        assert_eq!(uuids[0].len(), "GPU-".len() + 36);
    }
}
