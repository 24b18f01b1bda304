//! `ftest bench --modeled`: nccl-tests' columns from the time model instead of a run, and a real run beside them (`--against`).

use std::path::Path;

use protocol::datatype::{Datatype, Operation};
use runner::execute::launch::settings::DeviceArguments;
use timing::against::{self, NORMAL, Verdict};
use timing::machine::{Machine, Shape};
use timing::nccl::constants::NEWEST;
use timing::physics::Physics;
use timing::{Estimate, Settings};

use super::bench::BenchArgs;
use super::exec::{self, Trouble};

/// Runs the command; returns 0, 1 if the run in `--against` is not what the machine should give, 2 for wrong usage.
pub fn run(arguments: &BenchArgs) -> i32 {
    exec::exit_code("ftest bench", answer(arguments))
}

fn answer(arguments: &BenchArgs) -> Result<i32, Trouble> {
    let devices = DeviceArguments {
        profile: arguments.profile.clone(),
        device_count: Some(arguments.ranks.to_string()),
        devices: None,
    };
    let plan = exec::plan(arguments.cluster.as_deref(), &devices)?;
    let machine = timing::machine::of_cluster(&plan).map_err(Trouble::usage)?;
    let variables: Vec<(String, String)> = std::env::vars().filter(|(name, _)| name.starts_with("NCCL_")).collect();
    let settings = Settings::read(variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let settings = settings.map_err(Trouble::usage)?.with_version(arguments.model.nccl);
    let machine = settings.used(machine);
    let operation = operation(&arguments.operation).map_err(Trouble::usage)?;
    println!("{}", describe(&machine, &settings, operation));
    match &arguments.model.against {
        Some(output) => {
            let run =
                against::read(&text(output)?).map_err(|mistake| Trouble::usage(format!("{output}: {mistake}")))?;
            let verdict = against::compare(&machine, &settings, operation, arguments.model.launch.into(), &run);
            let verdict = verdict.ok_or_else(|| Trouble::usage("NCCL's variables leave it no algorithm"))?;
            Ok(i32::from(!compared(&verdict)))
        }
        None => table(arguments, &machine, &settings, operation),
    }
}

fn text(output: &str) -> Result<String, Trouble> {
    let read = if output == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(Path::new(output))
    };
    read.map_err(|error| Trouble::usage(format!("{output}: {error}")))
}

fn operation(name: &str) -> Result<Operation, String> {
    const KNOWN: [(&str, Operation); 9] = [
        ("all_reduce", Operation::AllReduce),
        ("all_gather", Operation::AllGather),
        ("reduce_scatter", Operation::ReduceScatter),
        ("broadcast", Operation::Broadcast),
        ("reduce", Operation::Reduce),
        ("all_to_all", Operation::AllToAll),
        ("gather", Operation::Gather),
        ("scatter", Operation::Scatter),
        ("sendrecv", Operation::Send),
    ];
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    let names: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
    known
        .map(|(_, operation)| *operation)
        .ok_or_else(|| format!("--operation: `{name}` is none of {}", names.join(", ")))
}

/// The sizes of the sweep.
fn sizes(arguments: &BenchArgs) -> Result<Vec<u64>, String> {
    let least = size(&arguments.minbytes)?;
    let most = size(&arguments.maxbytes)?;
    let step = arguments.stepbytes.as_deref().map(size).transpose()?;
    let factor = u64::from(arguments.stepfactor);
    if step.is_none() && factor < 2 {
        return Err(format!("-f {factor}: needs 2 or more"));
    }
    if least > most {
        return Err(format!("-b {} is above -e {}", arguments.minbytes, arguments.maxbytes));
    }
    let next = |bytes: &u64| step.map_or_else(|| bytes.checked_mul(factor), |step| bytes.checked_add(step));
    Ok(std::iter::successors(Some(least), next).take_while(|bytes| *bytes <= most).collect())
}

/// "4K" is 4096.
fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last().map(u8::to_ascii_uppercase) {
        Some(b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("{text}: not a size; write 8, 64K, 128M or 1G"))
}

/// What is modeled, as comments above the columns.
fn describe(machine: &Machine, settings: &Settings, operation: Operation) -> String {
    let links = match machine.shape {
        Shape::None => format!("PCIe {} GB/s", machine.pcie_gbytes),
        Shape::Direct | Shape::Switch | Shape::MulticastSwitch => {
            format!("{} NVLinks of {} GB/s per GPU", machine.links, machine.link_gbytes)
        }
    };
    let network = if machine.nodes > 1 {
        format!(", {} x {} Gbit/s {}", machine.nics, machine.nic_gbps, machine.transport.name())
    } else {
        String::new()
    };
    let version = settings.minor.map_or_else(|| format!("2.{NEWEST}, the newest known"), |minor| format!("2.{minor}"));
    let mut text = format!(
        "# modeled, not measured (v2, `ftest docs time`): {operation} on {} x {} GPUs of {}; {links}{network}; constants of NCCL {version}",
        machine.nodes, machine.gpus_per_node, machine.name
    );
    if !settings.unread.is_empty() {
        text.push_str(&format!("\n# set, and not modeled: {}", settings.unread.join(", ")));
    }
    if !machine.is_calibrated() {
        text.push_str("\n# this generation of GPU is outside of what the model was calibrated with");
    }
    text
}

fn table(arguments: &BenchArgs, machine: &Machine, settings: &Settings, operation: Operation) -> Result<i32, Trouble> {
    let element = datatype(&arguments.datatype).map_err(Trouble::usage)?.size() as u64;
    println!(
        "#{:>12} {:>13} {:>9} {:>11} {:>8} {:>8}  {:<9} {:<7} {:>8}  limit",
        "size", "count", "type", "time", "algbw", "busbw", "algorithm", "proto", "channels"
    );
    println!("#{:>12} {:>13} {:>9} {:>11} {:>8} {:>8}", "(B)", "(elements)", "", "(us)", "(GB/s)", "(GB/s)");
    for bytes in sizes(arguments).map_err(Trouble::usage)? {
        let physics = Physics::default();
        let answer = timing::estimate(machine, settings, &physics, operation, bytes, arguments.model.launch.into());
        let answer =
            answer.ok_or_else(|| Trouble::usage("NCCL's variables leave it no algorithm for this operation"))?;
        println!("{}", line(&answer, operation, machine, bytes, element, &arguments.datatype));
    }
    Ok(0)
}

fn line(
    answer: &Estimate,
    operation: Operation,
    machine: &Machine,
    bytes: u64,
    element: u64,
    datatype: &str,
) -> String {
    let algorithm_rate = bytes as f64 / (1000.0 * answer.us);
    let bus = algorithm_rate * bus_factor(operation, f64::from(machine.ranks()));
    let transfer = matches!(operation, Operation::Send | Operation::AllToAll | Operation::Gather | Operation::Scatter);
    let (algorithm, protocol, channels) = if transfer {
        ("p2p", "", String::new())
    } else {
        (answer.choice.algorithm.name(), answer.choice.protocol.name(), answer.choice.channels.to_string())
    };
    let text = format!(
        "{bytes:>13} {:>13} {datatype:>9} {:>11.2} {algorithm_rate:>8.2} {bus:>8.2}  {algorithm:<9} {protocol:<7} {channels:>8}  {}",
        bytes / element,
        answer.us,
        answer.limit.name()
    );
    text.trim_end().to_owned()
}

/// Bus bandwidth over algorithm bandwidth, as nccl-tests defines it (PERFORMANCE.md).
fn bus_factor(operation: Operation, ranks: f64) -> f64 {
    match operation {
        Operation::AllReduce => 2.0 * (ranks - 1.0) / ranks,
        Operation::AllGather
        | Operation::ReduceScatter
        | Operation::AllToAll
        | Operation::Gather
        | Operation::Scatter => (ranks - 1.0) / ranks,
        _ => 1.0,
    }
}

fn datatype(name: &str) -> Result<Datatype, String> {
    let ours = match name {
        "float" => "float32",
        "double" => "float64",
        "half" => "float16",
        "f8e4m3" => "float8_e4m3",
        "f8e5m2" => "float8_e5m2",
        other => other,
    };
    let all = Datatype::ALL.iter().find(|datatype| datatype.name() == ours);
    all.copied().ok_or_else(|| format!("--datatype: `{name}` is no datatype; --modeled takes one, not `all`"))
}

/// Prints the comparison; whether the run is normal.
fn compared(verdict: &Verdict) -> bool {
    println!("#{:>12} {:>11} {:>11} {:>19}", "size", "measured", "expected", "measured / expected");
    println!("#{:>12} {:>11} {:>11}", "(B)", "(us)", "(us)");
    for (row, modeled, ratio) in &verdict.rows {
        println!("{:>13} {:>11.2} {modeled:>11.2} {ratio:>19.2}", row.bytes, row.us);
    }
    let normal = verdict.deviation < NORMAL;
    if normal {
        println!(
            "\nnormal for this machine: half of the sizes are within {:.0} % of what is expected",
            100.0 * (verdict.deviation - 1.0)
        );
        return true;
    }
    println!(
        "\nnot what this machine should give: half of the sizes are off by a factor of {:.2} or more",
        verdict.deviation
    );
    match verdict.explanations.as_slice() {
        [] => println!("no single change that the model knows explains it; compare the cluster file with the machine"),
        [only] => println!("best explained by one change: {} (leaves a factor of {:.2})", only.what, only.left),
        several => {
            println!("explained by any one of these changes, which times alone do not tell apart:");
            for change in several {
                println!("  {} (leaves a factor of {:.2})", change.what, change.left);
            }
        }
    }
    false
}
