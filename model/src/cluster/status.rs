//! The answer to "what is going on": which ranks are present, what they completed, and which wait for which.

use serde_json::{Value, json};

use super::Cluster;
use crate::communicator::Presence;

impl Cluster {
    /// A JSON document for people and for tools that watch.
    pub fn status(&self) -> Value {
        let plan = self.settings.plan.as_ref();
        let processes: Vec<Value> = self
            .processes
            .iter()
            .map(|(_, process)| {
                let info = &process.info;
                let node = plan.zip(info.rank).and_then(|(plan, rank)| plan.node_of(rank)).map(|(_, node)| &node.id);
                json!({
                    "pid": info.pid, "rank": info.rank, "node": node, "program": info.program, "leaving": process.leaving,
                })
            })
            .collect();
        let numbers = self.numbers();
        let mut communicators: Vec<Value> = self
            .communicators
            .values()
            .map(|communicator| {
                let present: Vec<_> = communicator
                    .participants
                    .iter()
                    .filter(|participant| participant.presence == Presence::Present)
                    .map(|participant| participant.member.global_rank)
                    .collect();
                let (collectives, transfers) = self.ledger.completed(communicator.id);
                json!({
                    "comm_id": numbers[&communicator.id], "ranks": communicator.global_ranks(), "present": present,
                    "collectives": collectives, "transfers": transfers, "bytes": self.ledger.bytes(communicator.id),
                })
            })
            .collect();
        communicators.sort_by_key(|communicator| communicator["comm_id"].as_u64());
        let waiting: Vec<Value> = self
            .waiting()
            .map(|(what, present, missing)| json!({ "for": what, "present": present, "missing": missing }))
            .collect();
        let failures: Vec<&str> = self.failures.events().map(|failure| failure.detail.as_str()).collect();
        json!({
            "cluster": plan.map(|plan| json!({
                "name": plan.name, "nodes": plan.nodes.len(), "world_size": plan.world_size(),
            })),
            "processes": processes, "communicators": communicators, "waiting": waiting, "failures": failures,
        })
    }
}
