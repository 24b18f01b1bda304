//! `ftest cluster show`: the machines of a cluster file, and how NVML connects the GPUs of each node.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use protocol::ids::Rank;
use protocol::plan::{ClusterPlan, FabricPlan, NodePlan};
use runner::execute::launch::settings::DeviceArguments;
use timing::machine::{self, Machine, Shape};

use super::exec::{self, ExecPlan, TransportName, Trouble};

/// Arguments of `ftest cluster`.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    /// What to do with it
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// What can be done with a cluster file.
#[derive(Clone, Debug, Subcommand)]
pub enum ClusterCommand {
    /// Print its machines, and `nvidia-smi topo -m` of each node
    Show {
        /// The cluster file
        file: PathBuf,
    },
}

/// Runs the command; returns 0, 2 for a file with mistakes, 3 if something is missing.
pub fn run(arguments: &ClusterArgs) -> i32 {
    let ClusterCommand::Show { file } = &arguments.command;
    exec::exit_code("ftest cluster show", show(file))
}

fn show(file: &Path) -> Result<i32, Trouble> {
    let none = DeviceArguments { profile: None, device_count: None, devices: None };
    let plan = exec::plan(Some(file), &none)?;
    println!("{}", describe(&plan));
    let mut shown: Vec<&NodePlan> = Vec::new();
    for node in &plan.nodes {
        if let Some(alike) = shown.iter().find(|other| other.gpus == node.gpus) {
            println!("\n{}: ranks {}, as {}", node.id, ranks(node), alike.id);
            continue;
        }
        println!("\n{}: ranks {}, {}", node.id, ranks(node), gpus(node));
        let code = topology(&alone(&plan, node))?;
        if code != 0 {
            return Ok(code);
        }
        shown.push(node);
    }
    Ok(0)
}

/// A cluster of this node alone.
fn alone(plan: &ClusterPlan, node: &NodePlan) -> ClusterPlan {
    let ranks = (0..node.ranks.len() as u32).map(Rank).collect();
    ClusterPlan { nodes: vec![NodePlan { ranks, ..node.clone() }], ..plan.clone() }
}

/// What NVML says, by the program that users ask.
fn topology(plan: &ClusterPlan) -> Result<i32, Trouble> {
    let command = ["nvidia-smi", "topo", "-m"].map(OsString::from);
    exec::run_plan(&ExecPlan {
        program: "ftest cluster show",
        plan,
        transport: TransportName::Unix,
        clock: None,
        operations: None,
        report: None,
        command: &command,
        ranks: None,
        allow: &[],
        faults: &[],
        sanitize: None,
        dry: None,
        alone: None,
        alone_report: None,
    })
}

fn describe(plan: &ClusterPlan) -> String {
    let mut lines = vec![format!("{}: {} nodes, {} GPUs", plan.name, plan.nodes.len(), plan.world_size())];
    match machine::of_node(plan) {
        Ok(machine) => lines.extend(machine_lines(plan, &machine)),
        Err(why) => lines.push(format!("  no modeled times: {why}")),
    }
    let fabric = |name: &str, fabric: &FabricPlan| {
        let FabricPlan { kind, bandwidth_gbps, latency_us, oversubscription } = fabric;
        format!(
            "  {name:<11} {kind}, {bandwidth_gbps} Gbit/s, {latency_us} us, oversubscription {oversubscription} (model v1)"
        )
    };
    lines.push(fabric("intra_node", &plan.intra_node));
    lines.push(fabric("inter_node", &plan.inter_node));
    lines.join("\n")
}

fn machine_lines(plan: &ClusterPlan, machine: &Machine) -> Vec<String> {
    let origin = match &plan.machine {
        Some(_) => "by the file",
        None => "by the GPUs' profile",
    };
    let calibrated =
        if machine.is_calibrated() { "" } else { "; its GPUs are outside of what model v2 was calibrated with" };
    let through = match machine.shape {
        Shape::None => None,
        Shape::Direct => Some("from GPU to GPU"),
        Shape::Switch => Some("through switches"),
        Shape::MulticastSwitch => Some("through switches that reduce and multicast"),
    };
    let pcie = machine.pcie_gbytes;
    let inside = match through {
        None => format!("PCIe, {pcie} GB/s per GPU"),
        Some(through) => format!(
            "{} NVLinks per GPU, {:.1} GB/s, {through}; PCIe {pcie} GB/s",
            machine.nvlinks(),
            machine.nvlink_gbytes()
        ),
    };
    let direct = if machine.gpudirect { "GPUDirect RDMA" } else { "through the host's memory" };
    vec![
        format!("  {:<11} {} ({origin}{calibrated})", "machine", machine.name),
        format!("  {:<11} {inside}", "in a node"),
        format!(
            "  {:<11} {} x {} Gbit/s {}, {direct}: {} GB/s per node",
            "network",
            machine.nics,
            machine.nic_gbps,
            machine.transport.name(),
            machine.network_gbytes()
        ),
    ]
}

/// "2 x a100, 1 x h100", in the node's order.
fn gpus(node: &NodePlan) -> String {
    let groups = node.gpus.chunk_by(|one, next| one == next);
    groups.map(|group| format!("{} x {}", group.len(), group[0])).collect::<Vec<_>>().join(", ")
}

fn ranks(node: &NodePlan) -> String {
    match node.ranks.as_slice() {
        [] => "none".to_owned(),
        [only] => only.to_string(),
        [first, .., last] if last.0 - first.0 + 1 == node.ranks.len() as u32 => format!("{first} to {last}"),
        several => several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
