//! `fgpu CMD`: becomes CMD, with the shim preloaded and everything from flags and `FAKEGPU_*` variables set. With
//! `--print-environment` it prints what it would set, for the Python package `fakegpu`.

use std::ffi::{OsStr, OsString};
use std::os::fd::IntoRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Parser;
use protocol::env::{self, BadValue, Variable};
use runner::execute::launch::builder::EnvironmentBuilder;
use runner::execute::launch::environment::Environment;
use runner::execute::launch::holder_cache;
use runner::execute::launch::holders;
use runner::execute::launch::program;
use runner::execute::launch::settings;
use runner::execute::launch::settings::DeviceArguments;
use runner::execute::launch::variables;
use runner::execute::python;
use runner::host::install::{Install, Missing};
use runner::host::plain_path;
use serde_json::{Map, Value, json};

use crate::ending;
use crate::real_gpus::{self, Trouble, infra, usage};

/// Run a command on simulated GPUs.
///
/// The process becomes the command: its exit code and signals are the command's own. Every option can also be given by
/// its FAKEGPU_* variable; the option wins. 2 is a bad option or variable, 3 a missing part, 126 and 127 a command that
/// cannot be run or found.
#[derive(Clone, Debug, Parser)]
#[command(name = "fgpu", version)]
pub struct FgpuArgs {
    /// What computes; hybrid and passthrough are experimental [env: FAKEGPU_MODE; default: simulate]
    #[arg(long, value_name = "simulate|hybrid|passthrough")]
    pub mode: Option<String>,
    /// Hybrid mode (experimental): what happens to memory that does not fit on the real GPU [env: FAKEGPU_OOM_POLICY]
    #[arg(long, value_name = "clamp|managed|mapped_host|spill_cpu")]
    pub oom_policy: Option<String>,
    /// What a gap does [env: FAKEGPU_UNSUPPORTED_API; default: stop]
    #[arg(long, value_name = "allow|warn|stop|error")]
    pub unsupported_api: Option<String>,
    /// What implements NCCL; proxy and passthrough are experimental [env: FAKEGPU_DIST_MODE]
    #[arg(long, value_name = "disabled|simulate|proxy|passthrough")]
    pub dist_mode: Option<String>,
    /// The cluster file [env: FAKEGPU_CLUSTER_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub cluster_config: Option<PathBuf>,
    /// Where a running coordinator listens [env: FAKEGPU_COORDINATOR_ADDR]
    #[arg(long, value_name = "HOST:PORT|PATH")]
    pub coordinator_addr: Option<String>,
    /// How it is reached [env: FAKEGPU_COORDINATOR_TRANSPORT; default: from the address]
    #[arg(long, value_name = "unix|tcp")]
    pub coordinator_transport: Option<String>,
    /// The devices
    #[command(flatten)]
    pub devices: DeviceArguments,
    /// Directory of a build that holds the shim
    #[arg(long, value_name = "DIR")]
    pub build_dir: Option<PathBuf>,
    /// Directory that holds the shim; wins over --build-dir
    #[arg(long, value_name = "DIR")]
    pub lib_dir: Option<PathBuf>,
    /// Run nothing; print what a command would get, as JSON: `environment` (variables to set, or to remove: null), `shim`, and
    /// `libraries` (what a running process loads in place of NVIDIA's)
    #[arg(long, conflicts_with = "command")]
    pub print_environment: bool,
    /// The command and its arguments
    #[arg(required_unless_present = "print_environment", trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Becomes the command, or prints its environment. Returns an exit code; failures have been explained on stderr.
pub fn run(arguments: &FgpuArgs) -> i32 {
    let result = if arguments.print_environment {
        print_environment(arguments)
    } else {
        become_command(arguments).map(|never| match never {})
    };
    let Err((code, message)) = result else { return ending::code(0) };
    eprintln!("fgpu: {message}");
    code
}

fn become_command(arguments: &FgpuArgs) -> Result<std::convert::Infallible, Trouble> {
    let Prepared { mut environment, simulated, hybrid } = prepare(arguments, &arguments.command[0])?;
    let has_monitor = simulated.is_some() || !hybrid.is_empty();
    if has_monitor && environment.get(env::GPUS.name).is_none_or(|file| file.is_empty()) {
        environment.machine(&machine().map_err(infra)?);
    }
    let here = std::env::current_dir().map_err(infra)?;
    let file = program::find(&arguments.command[0], environment.get("PATH").as_deref(), &here)
        .map_err(|error| (error.exit_code(), error.to_string()))?;
    let mut command = Command::new(&file);
    command.arg0(&arguments.command[0]).args(&arguments.command[1..]);
    for (name, value) in environment.changes() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Err((126, format!("cannot run {}: {}", file.display(), command.exec())))
}

/// The environment of a command.
struct Prepared {
    environment: Environment,
    /// The shim, and the `torch/lib` of the Python in use; `None` on real GPUs.
    simulated: Option<(PathBuf, Option<PathBuf>)>,
    /// What is loaded before the real libcuda, and what makes it libnvidia-ml, too; empty in other modes.
    hybrid: Vec<PathBuf>,
}

/// Checks everything, and prepares what `command` needs.
fn prepare(arguments: &FgpuArgs, command: &OsStr) -> Result<Prepared, Trouble> {
    variables::check_environment().map_err(usage)?;
    variables::notes(false).iter().for_each(|note| eprintln!("fgpu: {note}"));
    let mut environment = Environment::new();
    apply(arguments, &mut environment)?;
    let mode = real_gpus::mode(&environment);
    match mode.as_str() {
        "hybrid" | "passthrough" => {
            let mut hybrid = Vec::new();
            if mode == "hybrid" {
                real_gpus::cuda(&mut environment)?;
                let library = library(arguments, "libfakegpu_cuda.so", &|install| install.hybrid())?;
                let smi = Install::find().smi().ok();
                let holders = holder_cache::of_nvml(&library, smi.as_deref()).map_err(infra)?;
                let library = plain_path::for_loader(&library).map_err(infra)?;
                hybrid = vec![library, holders.join(holders::NVML)];
                for library in &hybrid {
                    environment.append("LD_PRELOAD", library);
                }
                if smi.is_some() {
                    environment.prepend("PATH", &holders.join(holder_cache::PROGRAMS));
                }
            }
            if let Some(library) = real_gpus::nccl(&environment)? {
                real_gpus::preload_nccl(&mut environment, &library);
            }
            Ok(Prepared { environment, simulated: None, hybrid })
        }
        _ => {
            if let Some(mode) = real_gpus::dist_mode(&environment) {
                return Err(usage(format!(
                    "FAKEGPU_DIST_MODE={mode}: the real NCCL cannot reach the memory of simulated GPUs; set FAKEGPU_MODE=passthrough, for real ones"
                )));
            }
            let steps = python::Steps::new();
            let python = python::for_command(command, &|said| steps.show(said));
            steps.done();
            let python = python.map_err(infra)?;
            let shim = library(arguments, "libfakegpu.so", &|install| install.shim())?;
            let install = Install::find();
            let builder = EnvironmentBuilder::foreground(&install, environment, python.as_ref());
            let environment = builder.gpus(Some(&shim)).map_err(infra)?.finish();
            let simulated = Some((shim, python.and_then(|python| python.torch_libraries)));
            Ok(Prepared { environment, simulated, hybrid: Vec::new() })
        }
    }
}

/// Prints what `fgpu python3` would set. Leaves out the file that makes processes share one machine, because the reader
/// of the output outlives this process.
fn print_environment(arguments: &FgpuArgs) -> Result<(), Trouble> {
    let Prepared { environment, simulated, hybrid } = prepare(arguments, OsStr::new("python3"))?;
    let mut changes = Map::new();
    for (name, value) in environment.changes() {
        let text = |text: &OsStr| {
            let error = || usage(format!("{}: {} is not UTF-8", name.display(), text.display()));
            text.to_str().map(str::to_owned).ok_or_else(error)
        };
        changes.insert(text(name)?, value.map(text).transpose()?.map_or(Value::Null, Value::String));
    }
    let mut libraries = hybrid;
    if let Some((shim, torch)) = &simulated {
        let smi = Install::find().smi().ok();
        let directory = holder_cache::directory(shim, torch.as_deref(), smi.as_deref()).map_err(infra)?;
        let sonames = holders::of_one_process(torch.as_deref()).map_err(infra)?;
        libraries = sonames.iter().map(|soname| directory.join(soname)).collect();
    }
    let shim = simulated.map(|(shim, _)| plain_path::for_loader(&shim)).transpose().map_err(infra)?;
    println!("{:#}", json!({ "environment": changes, "shim": shim, "libraries": libraries }));
    Ok(())
}

/// Flags to variables, checked.
fn apply(arguments: &FgpuArgs, environment: &mut Environment) -> Result<(), Trouble> {
    let devices = &arguments.devices;
    let flags: [(&'static str, &Variable, &Option<String>); 9] = [
        ("--mode", &env::MODE, &arguments.mode),
        ("--oom-policy", &env::OOM_POLICY, &arguments.oom_policy),
        ("--unsupported-api", &env::UNSUPPORTED_API, &arguments.unsupported_api),
        ("--dist-mode", &env::DIST_MODE, &arguments.dist_mode),
        ("--coordinator-addr", &env::COORDINATOR_ADDR, &arguments.coordinator_addr),
        ("--coordinator-transport", &env::COORDINATOR_TRANSPORT, &arguments.coordinator_transport),
        ("--profile", &env::PROFILE, &devices.profile),
        ("--device-count", &env::DEVICE_COUNT, &devices.device_count),
        ("--devices", &env::PROFILES, &devices.devices),
    ];
    for (flag, variable, value) in flags {
        if let Some(value) = value {
            variables::check(variable, value).map_err(|bad| usage(BadValue { variable: flag, ..bad }))?;
            environment.set(variable.name, value);
        }
    }
    if devices.devices.is_none() && (devices.profile.is_some() || devices.device_count.is_some()) {
        // An inherited list would override these flags.
        environment.remove(env::PROFILES.name);
    }
    let devices_given = devices.devices.is_some() || devices.profile.is_some() || devices.device_count.is_some();
    if devices_given || arguments.cluster_config.is_some() {
        // These are not the GPUs of the machine that this runs on.
        environment.remove(env::GPUS.name);
    }
    let from_environment = environment.get(env::CLUSTER_CONFIG.name).filter(|file| !file.is_empty()).map(PathBuf::from);
    match arguments.cluster_config.clone().or(from_environment) {
        Some(_) if devices_given => {
            let both = "a cluster file and --profile, --device-count or --devices: the cluster file names the devices, leave the others out";
            return Err(usage(both));
        }
        Some(file) => {
            let plan = settings::read_cluster(&file).map_err(usage)?;
            environment.cluster(&plan);
            environment.set(env::CLUSTER_CONFIG.name, std::path::absolute(&file).unwrap_or(file));
        }
        // A cluster set by an outer launcher must not hide the devices requested here.
        None if devices_given => {
            environment.remove(env::CLUSTER.name);
        }
        None => {}
    }
    let addressed = environment.get(env::COORDINATOR_ADDR.name).is_some_and(|address| !address.is_empty());
    let simulated = !matches!(real_gpus::mode(environment).as_str(), "passthrough" | "hybrid");
    if addressed && simulated && environment.get(env::DIST_MODE.name).is_none() {
        environment.set(env::DIST_MODE.name, "simulate");
    }
    Ok(())
}

/// An in-memory file shared by the command and its children. It disappears with the last of them; the command holds it
/// open for the others, which reach it through `/proc`.
fn machine() -> std::io::Result<PathBuf> {
    let file = rustix::fs::memfd_create("fakegpu-machine", rustix::fs::MemfdFlags::empty())?;
    Ok(PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.into_raw_fd())))
}

/// The library of that name where the flags say, else the installation's.
fn library(
    arguments: &FgpuArgs,
    name: &str,
    installed: &dyn Fn(&Install) -> Result<PathBuf, Missing>,
) -> Result<PathBuf, Trouble> {
    let Some(directory) = arguments.lib_dir.as_ref().or(arguments.build_dir.as_ref()) else {
        return installed(&Install::find()).map_err(infra);
    };
    let tried: Vec<PathBuf> =
        ["", "lib", "release", "debug"].iter().map(|place| directory.join(place).join(name)).collect();
    match tried.iter().find(|file| file.is_file()) {
        Some(file) => std::path::absolute(file).map_err(infra),
        None => {
            let tried: Vec<String> = tried.iter().map(|file| file.display().to_string()).collect();
            Err(usage(format!("{name} not found; looked for {}", tried.join(", "))))
        }
    }
}
