//! The answer to "what is going on": who is connected, and who waits for whom.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::communicator::Presence;

impl Cluster {
    /// A JSON document for people and for messages of the runner.
    pub fn status(&self) -> Value {
        let processes: Vec<Value> = self
            .processes
            .values()
            .map(|process| {
                let info = &process.info;
                json!({ "pid": info.pid, "rank": info.rank, "program": info.program, "leaving": process.leaving })
            })
            .collect();
        let communicators: Vec<Value> = self
            .communicators
            .values()
            .map(|communicator| {
                let present: Vec<_> = communicator
                    .seats
                    .iter()
                    .filter(|seat| seat.presence == Presence::Present)
                    .map(|seat| seat.member.global_rank)
                    .collect();
                let (collectives, transfers) = self.ledger.completed(communicator.id);
                json!({
                    "id": communicator.id, "ranks": communicator.global_ranks(), "present": present,
                    "collectives": collectives, "transfers": transfers,
                })
            })
            .collect();
        let waiting: Vec<Value> = self
            .waiting()
            .into_iter()
            .map(|(what, present, missing)| json!({ "for": what, "present": present, "missing": missing }))
            .collect();
        let failures: Vec<&str> = self.failures.events().iter().map(|failure| failure.detail.as_str()).collect();
        json!({ "processes": processes, "communicators": communicators, "waiting": waiting, "failures": failures })
    }
}
