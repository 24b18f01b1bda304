//! `ftest bench`: sweeps NCCL operations over message sizes on a simulated cluster, with the options and columns of
//! nccl-tests. The fixture `fixture-bench` does the work, one process per rank.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use runner::execute::launch::settings::DeviceArguments;
use runner::host::install::Install;
use timing::Launch;
use timing::nccl::constants::{NEWEST, OLDEST};

use super::exec::{self, ExecPlan, TransportName, Trouble};

/// Arguments of `ftest bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Number of ranks, one GPU each, at most 1024
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub ranks: u32,
    /// The cluster to simulate; without one, a single node with a GPU of --profile for each rank
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub cluster: Option<PathBuf>,
    /// Profile of every device [env: FAKEGPU_PROFILE; default: a100]
    #[arg(long, value_name = "ID")]
    pub profile: Option<String>,
    /// Where to write the cluster report
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// How ranks reach the coordinator and each other
    #[arg(long, value_enum, default_value_t = TransportName::Unix)]
    pub transport: TransportName,
    /// all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, gather, scatter, sendrecv or all
    #[arg(long, value_name = "NAME", default_value = "all_reduce")]
    pub operation: String,
    /// Smallest size, bytes (8, 64K, 128M, 1G)
    #[arg(short = 'b', long, value_name = "BYTES", default_value = "8")]
    pub minbytes: String,
    /// Largest size, bytes
    #[arg(short = 'e', long, value_name = "BYTES", default_value = "128M")]
    pub maxbytes: String,
    /// Factor from one size to the next
    #[arg(short = 'f', long, value_name = "N", default_value_t = 2)]
    pub stepfactor: u32,
    /// Bytes from one size to the next, instead of a factor
    #[arg(short = 'i', long, value_name = "BYTES", conflicts_with = "stepfactor")]
    pub stepbytes: Option<String>,
    /// Timed calls of each size
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub iters: u32,
    /// Calls before them that are not timed
    #[arg(short = 'w', long, visible_alias = "warmup_iters", value_name = "N", default_value_t = 5)]
    pub warmup_iters: u32,
    /// sum, prod, max, min, avg or all
    #[arg(short = 'o', long, value_name = "OP", default_value = "sum")]
    pub op: String,
    /// int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2 or all
    #[arg(short = 'd', long, value_name = "TYPE", default_value = "float")]
    pub datatype: String,
    /// Root, for operations that have one
    #[arg(short = 'r', long, value_name = "RANK", default_value_t = 0)]
    pub root: u32,
    /// 0: time only; 1: also compare every element with its expected value
    #[arg(short = 'c', long, value_name = "0|1", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1))]
    pub check: u32,
    /// The time model instead of a run
    #[command(flatten)]
    pub model: ModeledArgs,
}

/// Arguments of the model.
#[derive(Args, Clone, Debug)]
pub struct ModeledArgs {
    /// Print what the time model says of the cluster's machines instead of running: NCCL's choice, its time on them, and
    /// what limits it. NCCL's own variables (NCCL_ALGO, ...) are read
    #[arg(long)]
    pub modeled: bool,
    /// With --modeled: the output of a real nccl-tests run, to compare with the model; of `-`, standard input
    #[arg(long, value_name = "OUTPUT", requires = "modeled")]
    pub against: Option<String>,
    /// With --modeled: minor version of NCCL 2, whose constants choose; the newest that is known by default
    #[arg(long, value_name = "N", requires = "modeled", value_parser = clap::value_parser!(u32).range(i64::from(OLDEST)..=i64::from(NEWEST)))]
    pub nccl: Option<u32>,
    /// With --modeled: who starts the operations
    #[arg(long, value_enum, default_value_t = LaunchName::Process, requires = "modeled")]
    pub launch: LaunchName,
}

/// Who starts operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LaunchName {
    /// A C program for each GPU, as nccl-tests under mpirun
    Process,
    /// One C program for all GPUs of a node, as nccl-tests -g 8
    OneProcess,
    /// PyTorch, a process for each GPU
    Pytorch,
}

impl From<LaunchName> for Launch {
    fn from(name: LaunchName) -> Self {
        match name {
            LaunchName::Process => Self::ProcessPerGpu,
            LaunchName::OneProcess => Self::OneProcess,
            LaunchName::Pytorch => Self::PyTorch,
        }
    }
}

impl BenchArgs {
    /// The rank program and its arguments.
    fn command(&self, program: PathBuf) -> Vec<OsString> {
        let mut command = vec![program.into_os_string()];
        let numbers = [
            ("-n", self.iters),
            ("-w", self.warmup_iters),
            ("-r", self.root),
            ("-c", self.check),
            ("-f", self.stepfactor),
        ]
        .map(|(name, number)| (name, number.to_string()));
        let words = [
            ("--operation", &self.operation),
            ("-b", &self.minbytes),
            ("-e", &self.maxbytes),
            ("-o", &self.op),
            ("-d", &self.datatype),
        ]
        .map(|(name, word)| (name, word.clone()));
        let step = self.stepbytes.clone().map(|bytes| ("-i", bytes));
        for (name, value) in numbers.into_iter().chain(words).chain(step) {
            command.extend([name.into(), value.into()]);
        }
        command
    }
}

/// Runs the command; returns 0, 1 if an element is wrong or a call failed, 2 for wrong usage, 3 if something is
/// missing.
pub fn run(arguments: &BenchArgs) -> i32 {
    exec::exit_code("ftest bench", run_ranks(arguments))
}

fn run_ranks(arguments: &BenchArgs) -> Result<i32, Trouble> {
    let devices = DeviceArguments {
        profile: arguments.profile.clone(),
        device_count: Some(arguments.ranks.to_string()),
        devices: None,
    };
    let plan = exec::plan(arguments.cluster.as_deref(), &devices)?;
    let program = Install::find().bench().map_err(Trouble::infra)?;
    exec::run_plan(&ExecPlan {
        program: "ftest bench",
        plan: &plan,
        transport: arguments.transport,
        clock: None,
        operations: None,
        report: arguments.report.as_deref(),
        command: &arguments.command(program),
        ranks: Some(arguments.ranks),
        allow: &[],
        faults: &[],
        sanitize: None,
        dry: None,
        alone: None,
        alone_report: None,
    })
}
