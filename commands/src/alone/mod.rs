//! `ftest exec --as-rank 17 --of 1024`: runs one rank of a job without the others. The calls it made are reported; its numbers
//! mean nothing.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use protocol::device_report::{AloneCalls, DeviceReport};
use protocol::env;
use protocol::plan::ClusterPlan;
use runner::execute::collect::reports;
use runner::execute::launch::environment::Environment;
use runner::host::{output, whole_file};
use serde::Serialize;

use crate::after_torch;

/// Below a run's scratch directory.
const DIRECTORY: &str = "alone";

const ISOLATE: &str = include_str!("isolate.py");

/// What a reader has to know of the numbers.
const WARNING: &str = "the other ranks did not exist: shapes, memory and calls are those of this rank, and numbers that depend on \
                       communication are meaningless";

/// The options for one rank of a job.
#[derive(Args, Clone, Debug)]
pub struct AloneArgs {
    /// Run as this rank of a job whose other ranks do not exist, and list the collectives that it calls
    #[arg(long, value_name = "RANK", requires = "size", group = "ranks_alone", help_heading = "One rank alone")]
    pub as_rank: Option<u32>,
    /// The number of ranks of that job
    #[arg(id = "size", long = "of", value_name = "N", requires = "ranks_alone", help_heading = "One rank alone")]
    pub of: Option<u32>,
    /// Write what it called to this file as JSON
    #[arg(
        long,
        value_name = "FILE",
        requires = "as_rank",
        conflicts_with = "preflight",
        help_heading = "One rank alone"
    )]
    pub as_rank_report: Option<PathBuf>,
}

/// One rank of a job, run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alone {
    rank: u32,
    size: u32,
    /// Ranks on its node.
    per_node: u32,
}

/// What is written.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: &'static str,
    rank: u32,
    size: u32,
    /// Always false, for readers who look only at this field.
    numbers_are_real: bool,
    warning: &'static str,
    calls: &'a [AloneCalls],
}

/// What is wrong with an option that asks for a rank which a job of `size` ranks does not have.
pub(super) fn out_of_range(option: &str, size: u32) -> String {
    match size {
        0 => format!("{option} --of 0: a job has at least one rank"),
        size => format!("{option} --of {size}: ranks count from 0 to {}", size - 1),
    }
}

impl Alone {
    /// The rank that the options ask for, on nodes like the first one of `plan`.
    ///
    /// # Errors
    /// The job has no such rank.
    pub(super) fn from_arguments(arguments: &AloneArgs, plan: &ClusterPlan) -> Result<Option<Alone>, String> {
        let (Some(rank), Some(size)) = (arguments.as_rank, arguments.of) else { return Ok(None) };
        if rank >= size {
            return Err(out_of_range(&format!("--as-rank {rank}"), size));
        }
        Ok(Some(Alone::new(rank, size, Alone::per_node(plan))))
    }

    /// Rank `rank` of `size`, on nodes of `per_node` ranks.
    pub(super) fn new(rank: u32, size: u32, per_node: u32) -> Alone {
        Alone { rank, size, per_node }
    }

    /// Its rank.
    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks a node has: as many as the first one of `plan`.
    pub(super) fn per_node(plan: &ClusterPlan) -> u32 {
        plan.nodes.first().map_or(1, |node| node.gpus.len() as u32).max(1)
    }

    /// Sets the variables that torchrun would set, and lets groups form without the other ranks.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn prepare(&self, environment: &mut Environment, scratch: &Path) -> io::Result<()> {
        let Alone { rank, size, per_node } = *self;
        after_torch::install(environment, &scratch.join(DIRECTORY), ISOLATE)?;
        let node = rank / per_node;
        let numbers = [
            ("RANK", rank),
            ("WORLD_SIZE", size),
            ("LOCAL_RANK", rank % per_node),
            ("LOCAL_WORLD_SIZE", per_node.min(size - node * per_node)),
            ("GROUP_RANK", node),
            ("NODE_RANK", node),
            ("GROUP_WORLD_SIZE", size.div_ceil(per_node)),
            // Nothing listens there, and nothing connects.
            ("MASTER_PORT", 29500),
        ];
        for (name, number) in numbers {
            environment.set(name, number.to_string());
        }
        environment.set("MASTER_ADDR", "127.0.0.1");
        environment.set(env::AS_RANK.name, format!("{rank}/{size}"));
        environment.set(env::REPORT_PATH.name, reports::device_report_pattern(scratch));
        Ok(())
    }

    /// Prints what the rank called, and writes it to `file`.
    ///
    /// # Errors
    /// One sentence about what cannot be read or written.
    pub(super) fn report(&self, scratch: &Path, file: Option<&Path>) -> Result<(), String> {
        let mut calls: Vec<AloneCalls> = Vec::new();
        for report in reports::devices(scratch)? {
            let report: DeviceReport =
                serde_json::from_value(report).map_err(|error| format!("device report: {error}"))?;
            calls.extend(report.alone);
        }
        let Alone { rank, size, .. } = *self;
        let _ = output::stdout().write_all(self.text(&calls).as_bytes());
        let Some(path) = file else { return Ok(()) };
        let report =
            Report { schema: "ftest.as_rank.v1", rank, size, numbers_are_real: false, warning: WARNING, calls: &calls };
        let json = serde_json::to_vec_pretty(&report).map_err(|error| error.to_string())?;
        whole_file::replace(path, &[&json, b"\n"]).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn text(&self, calls: &[AloneCalls]) -> String {
        let mut text = format!("ftest exec: rank {} of {}: {WARNING}\n", self.rank, self.size);
        if !calls.is_empty() {
            text += "| communicator | ranks | operation | datatype | calls | bytes |\n|---|---|---|---|---|---|\n";
        }
        for call in calls {
            let AloneCalls { communicator, size, operation, datatype, calls, bytes, .. } = call;
            text += &format!("| {communicator} | {size} | {operation} | {datatype} | {calls} | {bytes} |\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runner::execute::launch::settings::DeviceArguments;

    fn alone(rank: u32, size: u32) -> Result<Option<Alone>, String> {
        let devices = DeviceArguments { device_count: Some("8".into()), profile: Some("h100".into()), devices: None };
        let arguments = AloneArgs { as_rank: Some(rank), of: Some(size), as_rank_report: None };
        Alone::from_arguments(&arguments, &devices.single_node().unwrap())
    }

    #[test]
    fn a_rank_gets_what_torchrun_would_give_it() {
        let scratch = tempfile::tempdir().unwrap();
        let mut environment = Environment::new();
        alone(17, 20).unwrap().unwrap().prepare(&mut environment, scratch.path()).unwrap();
        for (name, value) in [
            ("RANK", "17"),
            ("WORLD_SIZE", "20"),
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "4"),
            ("GROUP_RANK", "2"),
            ("GROUP_WORLD_SIZE", "3"),
            ("FTEST_AS_RANK", "17/20"),
        ] {
            assert_eq!(environment.get(name).unwrap(), value, "{name}");
        }
        assert!(alone(20, 20).unwrap_err().contains("ranks count from 0 to 19"));
    }

    #[test]
    fn the_text_never_passes_numbers_for_real() {
        let call = AloneCalls {
            communicator: 2,
            rank: 3,
            size: 8,
            operation: "all_reduce".into(),
            datatype: "float32".into(),
            calls: 5,
            bytes: 4096,
        };
        let text = alone(17, 1024).unwrap().unwrap().text(&[call]);
        assert!(text.starts_with("ftest exec: rank 17 of 1024: the other ranks did not exist"), "{text}");
        assert!(
            text.contains("are meaningless") && text.contains("| 2 | 8 | all_reduce | float32 | 5 | 4096 |\n"),
            "{text}"
        );
    }
}
