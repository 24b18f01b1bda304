//! Passes records of this process's communicators on to the coordinator.

use std::sync::Weak;

use protocol::fault::FaultRecord;
use protocol::ids::{CommunicatorId, Rank};
use protocol::message::ToCoordinator;
use protocol::record::{ErrorCode, FailureRecord, OperationRecord, PathRecord};

use super::Process;
use super::session::Session;
use crate::journal::Journal;

/// Passes on records of communicators.
pub(super) struct ProcessJournal(pub(super) Weak<Process>);

impl ProcessJournal {
    fn with_session(&self, use_it: impl FnOnce(&Session)) {
        if let Some(process) = self.0.upgrade()
            && let Some(session) = process.rendezvous.session()
        {
            use_it(session);
        }
    }
}

impl Journal for ProcessJournal {
    fn completed(&self, record: OperationRecord) {
        self.with_session(|session| session.record(record));
    }

    fn failed(&self, failure: FailureRecord) {
        self.with_session(|session| {
            // The other ranks know that this one is gone, and shut what is left of its operations.
            if !session.is_leaving() {
                session.place(failure.site);
                session.send(&ToCoordinator::Failed { failure });
            }
        });
    }

    fn measured(&self, communicator: CommunicatorId, rank: Rank, paths: Vec<PathRecord>) {
        self.with_session(|session| session.send(&ToCoordinator::Paths { communicator, rank, paths }));
    }

    fn fault_fires(&self, record: FaultRecord) -> bool {
        self.0.upgrade().is_some_and(|process| process.fault_fires(record))
    }

    fn stopped(&self, communicator: CommunicatorId, rank: Rank, code: ErrorCode, detail: &str) {
        let Some(process) = self.0.upgrade() else { return };
        match process.rendezvous.session() {
            Some(session) if code == ErrorCode::Revoked => {
                session.send(&ToCoordinator::RevokeCommunicator { communicator, rank });
            }
            // The coordinator learns of this from the abort or the shrink.
            Some(_) => {}
            None => process.lose(communicator, rank.0, code, detail.to_owned()),
        }
    }

    fn left(&self, communicator: CommunicatorId, rank: Rank, aborted: Option<(ErrorCode, String)>) {
        self.with_session(|session| {
            session.send(&ToCoordinator::LeaveCommunicator { communicator, rank, aborted });
        });
    }
}
