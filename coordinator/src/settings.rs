//! What this coordinator should do: flags, which override the environment, resolved and checked once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use model::{cluster_file, diagnostic};
use protocol::env::{self, BadValue};
use protocol::fault::{self, Fault};
use protocol::frame;
use protocol::plan::ClusterPlan;

use crate::address::Address;

/// Simulate a GPU cluster for the ranks that connect.
///
/// Every option can also be given by its FAKEGPU_* variable; the option wins. Exit codes: 0 clean shutdown, 1 could
/// not continue, 2 bad option, variable or cluster file.
#[derive(Debug, Parser)]
#[command(name = "fakegpu-coordinator", version)]
pub struct Arguments {
    /// How ranks connect [env: FAKEGPU_COORDINATOR_TRANSPORT; inferred from the address when omitted]
    #[arg(long, value_parser = ["unix", "tcp"])]
    pub transport: Option<String>,
    /// Where to listen: an absolute path, or HOST:PORT, where port 0 picks a free one [env: FAKEGPU_COORDINATOR_ADDR]
    #[arg(long, value_name = "PATH|HOST:PORT")]
    pub address: Option<String>,
    /// The cluster file [env: FTEST_CLUSTER (JSON), then FAKEGPU_CLUSTER_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub cluster_config: Option<PathBuf>,
    /// Where to write the cluster report [env: FAKEGPU_CLUSTER_REPORT_PATH]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Where to write it as Markdown; `none` for nowhere [env: FAKEGPU_CLUSTER_REPORT_MARKDOWN_PATH; default: next to the report]
    #[arg(long, value_name = "FILE|none")]
    pub markdown_report: Option<String>,
    /// Report which ranks wait for which when no operation has ended for this long; 0 for never [env: FAKEGPU_COORDINATOR_IDLE_MS; default: 0]
    #[arg(long, value_name = "N")]
    pub idle_ms: Option<String>,
    /// In the report, name files of the program relative to this directory, if they lie in it
    #[arg(long, value_name = "DIRECTORY")]
    pub source_root: Option<PathBuf>,
    /// Write the address as one line to this inherited file descriptor once ranks can connect
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
    /// When this inherited pipe closes, ask ranks to exit, then shut down cleanly
    #[arg(long, value_name = "N")]
    pub lifeline_fd: Option<u32>,
    /// When the lifeline closes, start this program; repeat for each of its arguments
    #[arg(long, value_name = "WORD", requires = "lifeline_fd", allow_hyphen_values = true)]
    pub successor: Vec<OsString>,
}

/// All settings, resolved.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    pub address: Address,
    /// The cluster, if one is given.
    pub plan: Option<ClusterPlan>,
    /// The file that the cluster came from.
    pub config_path: Option<PathBuf>,
    /// JSON report.
    pub report: Option<PathBuf>,
    /// Markdown report.
    pub markdown_report: Option<PathBuf>,
    /// The token that clients must send, if there is one.
    pub token: Option<String>,
    /// How long ranks wait for each other at a rendezvous.
    pub timeout: Duration,
    /// How long nothing may move before the coordinator reports which rank waits for which.
    pub idle: Option<Duration>,
    /// Operations kept in the report's timeline.
    pub max_operations: usize,
    /// The faults of the case.
    pub faults: Vec<Fault>,
    /// The machine's file, in which processes note what happened to GPUs.
    pub machine: Option<PathBuf>,
    /// Files of the program are named from this directory.
    pub source_root: Option<PathBuf>,
    /// Inherited descriptor to announce readiness on.
    pub ready_fd: Option<u32>,
    /// Inherited pipe; when it closes, the coordinator and its ranks end.
    pub lifeline_fd: Option<u32>,
    /// Program and arguments to start when that pipe closes.
    pub successor: Vec<OsString>,
}

/// Bad flags, variables or files. Exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A variable has an invalid value.
    #[error(transparent)]
    Variable(#[from] BadValue),
    /// There is no address to listen on.
    #[error(
        "no address to listen on; give --address or set FAKEGPU_COORDINATOR_ADDR, for example --address 127.0.0.1:0"
    )]
    NoAddress,
    /// The address is malformed.
    #[error("--address {address}: {reason}")]
    Address {
        /// The address, as given.
        address: String,
        /// What to write instead.
        reason: String,
    },
    /// The cluster file cannot be read.
    #[error("cannot read the cluster file {path}: {source}")]
    Unreadable {
        /// The path, as given.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The cluster file has mistakes.
    #[error("{rendered}")]
    ClusterFile {
        /// All of them, rendered with their places.
        rendered: String,
    },
    /// `FTEST_CLUSTER` cannot be decoded.
    #[error("FTEST_CLUSTER does not hold a cluster: {0}; it is made by ftest, unset it to use --cluster-config")]
    Plan(serde_json::Error),
    /// The token does not fit into a hello.
    #[error("FAKEGPU_COORDINATOR_TOKEN has {0} bytes; the limit is {max}; use a shorter one", max = frame::MAX_TOKEN)]
    LongToken(usize),
}

impl Settings {
    /// Resolves flags and the environment. `variable` returns a variable's value; an empty one counts as unset.
    ///
    /// # Errors
    /// [`SettingsError`] with the flag, variable or place in the file, and what to write.
    pub fn resolve(arguments: Arguments, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let get = |which: &env::Variable| variable(which.name).filter(|value| !value.is_empty());
        let address = arguments.address.or_else(|| get(&env::COORDINATOR_ADDR)).ok_or(SettingsError::NoAddress)?;
        let transport = arguments.transport.or_else(|| get(&env::COORDINATOR_TRANSPORT));
        let transport =
            transport.map(|value| env::COORDINATOR_TRANSPORT.choose(&value, &["unix", "tcp"])).transpose()?;
        let address = Address::parse(&address, transport.map(|choice| choice == 0))
            .map_err(|reason| SettingsError::Address { address, reason })?;
        let (plan, config_path) = match (arguments.cluster_config, get(&env::CLUSTER), get(&env::CLUSTER_CONFIG)) {
            (Some(path), _, _) => (Some(read_plan(&path)?), Some(path)),
            (None, Some(json), _) => (Some(serde_json::from_str(&json).map_err(SettingsError::Plan)?), None),
            (None, None, Some(path)) => (Some(read_plan(Path::new(&path))?), Some(path.into())),
            (None, None, None) => (None, None),
        };
        let report = arguments.report.or_else(|| get(&env::CLUSTER_REPORT_PATH).map(PathBuf::from));
        let markdown = arguments.markdown_report.or_else(|| get(&env::CLUSTER_REPORT_MARKDOWN_PATH));
        let markdown_report = match markdown.as_deref() {
            Some("0" | "off" | "none") => None,
            Some(path) => Some(PathBuf::from(path)),
            // A device or pipe has no sibling.
            None if report.as_ref().is_some_and(|report| report.exists() && !report.is_file()) => None,
            None => report.as_ref().map(|report| report.with_extension("md")),
        };
        let timeout = match get(&env::COORDINATOR_TIMEOUT_MS) {
            Some(value) => env::COORDINATOR_TIMEOUT_MS.integer(&value, 1, u64::from(u32::MAX))?,
            None => 600_000,
        };
        let idle = match arguments.idle_ms.or_else(|| get(&env::COORDINATOR_IDLE_MS)) {
            Some(value) => env::COORDINATOR_IDLE_MS.integer(&value, 0, u64::from(u32::MAX))?,
            None => 0,
        };
        let max_operations = match get(&env::CLUSTER_REPORT_MAX_OPERATIONS) {
            Some(value) => env::CLUSTER_REPORT_MAX_OPERATIONS.integer(&value, 0, 1_000_000)? as usize,
            None => 4096,
        };
        let faults = match get(&env::FAULTS) {
            Some(json) => fault::from_json(&json).map_err(|_| env::FAULTS.bad(&json))?,
            None => Vec::new(),
        };
        let token = get(&env::COORDINATOR_TOKEN);
        if let Some(bytes) = token.as_ref().map(String::len).filter(|bytes| *bytes > frame::MAX_TOKEN) {
            return Err(SettingsError::LongToken(bytes));
        }
        Ok(Self {
            address,
            plan,
            config_path,
            report,
            markdown_report,
            token,
            timeout: Duration::from_millis(timeout),
            idle: (idle > 0).then(|| Duration::from_millis(idle)),
            max_operations,
            faults,
            machine: get(&env::GPUS).map(PathBuf::from),
            source_root: arguments.source_root,
            ready_fd: arguments.ready_fd,
            lifeline_fd: arguments.lifeline_fd,
            successor: arguments.successor,
        })
    }
}

fn read_plan(path: &Path) -> Result<ClusterPlan, SettingsError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let load_profile =
        |profile: &str| std::fs::read_to_string(directory.join(profile)).map_err(|error| error.to_string());
    cluster_file::parse(&path.display().to_string(), &text, &load_profile)
        .map_err(|mistakes| SettingsError::ClusterFile { rendered: diagnostic::render(&mistakes, &text) })
}
