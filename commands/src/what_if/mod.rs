//! `ftest what-if`: the times of a run with `clock: modeled` again, for another cluster, without its program.

mod change;
mod figures;
mod page;
mod source;
mod table;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use protocol::operations::OperationLog;
use protocol::plan::ClusterPlan;
use runner::host::whole_file;
use timing::replay::{Replayed, replay, world_size};

use super::exec::{self, Trouble};
use crate::reports::RunsArgs;
use change::{Scale, Setting, Sweep};
use figures::{Comparison, figures};

const PROGRAM: &str = "ftest what-if";

/// Arguments of `ftest what-if`.
#[derive(Args, Clone, Debug)]
pub struct WhatIfArgs {
    /// What ran: a case of the last run, the directory of a run with one case or of a case's files, or a file of operations
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The other cluster: a file, or a machine by its name (dgx-b200) in place of each node [default: that of the run]
    #[arg(long, value_name = "FILE|NAME")]
    pub cluster: Option<String>,
    /// Change the other cluster: machine.nic_gbps=200, gpu=b200; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<Setting>,
    /// Make a data-parallel job larger: dp=512 ranks
    #[arg(long, value_name = "dp=N")]
    pub scale: Option<Scale>,
    /// One row for each value: machine.nics=1,2,4,8
    #[arg(long, value_name = "PATH=V1,V2,...")]
    pub sweep: Option<Sweep>,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub format: Format,
    /// Write the comparison as a page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Where runs are kept
    #[command(flatten)]
    pub runs: RunsArgs,
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Runs the command; returns 0, 2 for wrong usage, 3 if the operations cannot be read or computed.
pub fn run(arguments: &WhatIfArgs) -> i32 {
    exec::exit_code(PROGRAM, answer(arguments))
}

fn answer(arguments: &WhatIfArgs) -> Result<i32, Trouble> {
    let page = arguments.html.as_deref().map(|path| exec::checked_report("--html", path)).transpose()?;
    let logs = source::read(&arguments.run, &arguments.runs.runs())?;
    let was = &logs[0].cluster;
    let mut changes = Vec::new();
    let mut assumed = Vec::new();
    let mut plan = match &arguments.cluster {
        Some(named) => {
            changes.push(format!("cluster {named}"));
            change::cluster(named, was)?
        }
        None => was.clone(),
    };
    for setting in &arguments.set {
        changes.push(format!("{} = {}", setting.path, setting.value));
        assumed.extend(setting.apply(&mut plan).map_err(|why| Trouble::usage(format!("--set {why}")))?);
    }
    let world = world_size(&logs);
    let replicas = match &arguments.scale {
        Some(scale) => {
            changes.push(format!("{} ranks in place of {world}", scale.ranks));
            let replicas = scale.replicas(world).map_err(Trouble::usage)?;
            if plan.world_size() < scale.ranks {
                assumed.push(format!("more nodes like `{}`", plan.nodes.last().map_or("", |node| &node.id)));
                change::grow(&mut plan, scale.ranks);
            }
            assumed.push(
                "all_gather and reduce_scatter move as many bytes in total, all_reduce as many for each rank"
                    .to_owned(),
            );
            replicas
        }
        None => 1,
    };
    let before = figures("before", &compute(&logs, was, 1)?, world);
    let ranks = world * replicas;
    let mut after = Vec::new();
    match &arguments.sweep {
        None => after.push(figures("after", &compute(&logs, &plan, replicas)?, ranks)),
        Some(sweep) => {
            for value in &sweep.values {
                let mut plan = plan.clone();
                let setting = Setting { path: sweep.path.clone(), value: value.clone() };
                let notes = setting.apply(&mut plan).map_err(|why| Trouble::usage(format!("--sweep {why}")))?;
                let notes: Vec<String> = notes.filter(|note| !assumed.contains(note)).collect();
                assumed.extend(notes);
                after.push(figures(&format!("{}={value}", sweep.path), &compute(&logs, &plan, replicas)?, ranks));
            }
        }
    }
    let comparison = Comparison { version: 1, changes, assumed, before, after };
    match arguments.format {
        Format::Table => println!("{}", table::text(&comparison)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&comparison).map_err(Trouble::infra)?),
    }
    if let Some(path) = page {
        let written = whole_file::replace(&path, &[page::html(&comparison).as_bytes()]);
        written.map_err(|error| Trouble::infra(format!("--html {}: {error}", path.display())))?;
    }
    Ok(0)
}

fn compute(logs: &[OperationLog], plan: &ClusterPlan, replicas: u32) -> Result<Replayed, Trouble> {
    // A cluster without a machine would silently have no times of collectives.
    timing::machine::of_node(plan).map_err(Trouble::usage)?;
    replay(logs, plan, replicas).map_err(Trouble::infra)
}
