//! What is different about a case whose nodes run on several machines.

use std::net::IpAddr;

use super::CaseExecution;
use crate::execute::launch::holder_cache;
use crate::execute::machines::{self, Holders, StartError};
use crate::execute::process_tree::ProcessPlan;
use crate::execute::python::Python;
use crate::observation::{Hang, Role};

impl CaseExecution<'_> {
    /// Reserves the machines for the nodes of the case, if any run elsewhere.
    ///
    /// # Errors
    /// A machine is lost: one sentence.
    pub(super) fn reserve_machines(&mut self) -> Result<(), String> {
        let nodes = machines::nodes_elsewhere(self.case);
        if let (Some(machines), 1..) = (&self.context.machines, nodes) {
            let of_cluster = |node: usize| self.case.cluster.as_ref()?.nodes.get(node).map(|node| node.id.clone());
            let name = |node: u32| of_cluster(node as usize).unwrap_or_else(|| format!("node {node}"));
            let names: Vec<String> = (1..=nodes).map(name).collect();
            self.elsewhere = Some(machines.open(&names, self.tree.events())?);
        }
        Ok(())
    }

    /// The address of this machine that the others reach, if nodes run there.
    pub(super) fn reached_at(&self) -> Option<IpAddr> {
        let machines = self.context.machines.as_ref().filter(|_| self.elsewhere.is_some())?;
        Some(machines.address())
    }

    /// Prepares the machines for processes with this Python.
    ///
    /// # Errors
    /// A part of ftest is missing: one sentence.
    pub(super) fn prepare_machines(&self, python: Option<&Python>) -> Result<(), String> {
        let Some(elsewhere) = &self.elsewhere else { return Ok(()) };
        let install = &self.context.install;
        let holders = match &self.case.cluster {
            None => None,
            Some(_) => {
                let shim = install.shim().map_err(|error| error.to_string())?;
                let libraries = python.and_then(|python| python.torch_libraries.as_deref());
                let smi = install.smi().ok();
                Some(Holders {
                    directory: holder_cache::directory(&shim, libraries, smi.as_deref())?.into(),
                    shim: shim.into(),
                    libraries: libraries.map(Into::into),
                    smi: smi.map(Into::into),
                })
            }
        };
        elsewhere.prepare(&self.scratch, holders.as_ref());
        Ok(())
    }

    /// Starts a process on the machine of its node, if that is not this one. `None`: it is.
    pub(super) async fn start_elsewhere(&mut self, process: &ProcessPlan) -> Option<Result<(), StartError>> {
        let elsewhere = self.elsewhere.as_mut()?;
        let node = machines::node_of(self.case, process.role);
        if node == 0 {
            return None;
        }
        let to = (self.scratch.as_path(), self.case.watches_output());
        Some(elsewhere.start(node, process, to, &mut self.tree).await)
    }

    /// Adds what the ranks on other machines are doing.
    pub(super) async fn add_state_elsewhere(&mut self, hang: &mut Hang, stacks: bool) {
        if let Some(elsewhere) = &mut self.elsewhere {
            hang.details.extend(elsewhere.state(&hang.missing, stacks).await);
        }
    }

    /// Adds the ranks that run on other machines, and those that are stopped there.
    pub(super) async fn add_running_elsewhere(&mut self, running: &mut Vec<Role>, stopped: &mut Vec<Role>) {
        if let Some(elsewhere) = &mut self.elsewhere {
            for (rank, is_stopped) in elsewhere.running().await {
                running.push(Role::Rank(rank));
                stopped.extend(is_stopped.then_some(Role::Rank(rank)));
            }
        }
    }

    /// Kills what is left on other machines. After an orderly end, what had to be killed was left behind.
    pub(super) async fn end_elsewhere(&mut self, normal: bool) {
        let Some(elsewhere) = &mut self.elsewhere else { return };
        let swept = elsewhere.end(normal).await;
        let left =
            swept.killed.iter().filter(|_| normal).map(|process| format!("process {process} outlived its ranks"));
        self.observation.leaked.extend(left);
        let stuck = swept.unkillable.iter().map(|process| format!("process {process} cannot be ended"));
        self.observation.leaked.extend(stuck);
    }

    /// Fetches the files of other machines.
    pub(super) async fn fetch_files(&mut self) {
        if let Some(elsewhere) = self.elsewhere.take()
            && let Err(why) = elsewhere.close(&self.scratch).await
        {
            self.ran.infra_error.get_or_insert(why);
        }
    }
}
