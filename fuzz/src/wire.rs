//! Frames between ranks and coordinator, and what the coordinator makes of them.

use model::cluster::report::RunFacts;
use model::cluster::{Cluster, Settings};
use model::exchange::{ConnectionId, Input};
use protocol::frame::{self, MAX_TO_COORDINATOR, MAX_TO_RANK};
use protocol::message::{Role, ToCoordinator, ToRank};

/// Processes that speak at once.
const CONNECTIONS: u64 = 4;

/// Bytes are frames, or an error, in both directions; what was understood is written as it was read. Any sequence of
/// messages leaves the coordinator able to report.
pub fn wire(data: &[u8]) {
    let mut bytes = data.to_vec();
    while let Ok(Some(message)) = frame::decode::<ToRank>(&mut bytes, MAX_TO_RANK) {
        let again = frame::decode::<ToRank>(&mut frame::encode(&message), MAX_TO_RANK);
        assert_eq!(again, Ok(Some(message)));
    }
    let mut cluster = Cluster::new(Settings { max_operations: 64, ..Settings::default() });
    let mut bytes = data.to_vec();
    let mut turn = 0;
    while let Ok(Some(message)) = frame::decode::<ToCoordinator>(&mut bytes, MAX_TO_COORDINATOR) {
        let again = frame::decode::<ToCoordinator>(&mut frame::encode(&message), MAX_TO_COORDINATOR);
        assert_eq!(again.as_ref(), Ok(&Some(message.clone())));
        turn += 1;
        let connection = ConnectionId(turn % CONNECTIONS);
        let input = match message {
            ToCoordinator::Hello { role: Role::Process(info), .. } => Input::Joined { connection, info },
            // The shell around the model answers these itself.
            ToCoordinator::Hello { .. } => Input::Tick,
            ToCoordinator::Goodbye if turn % 2 == 0 => Input::Disconnected { connection, reason: None },
            message => Input::Message { connection, message },
        };
        cluster.step(input, turn * 1000);
    }
    let facts = RunFacts {
        tool_version: String::new(),
        transport: "unix".into(),
        address: String::new(),
        source_root: None,
        config_path: None,
        markdown_report_path: None,
        monotonic_zero_us: None,
    };
    serde_json::to_string(&cluster.report(&facts)).expect("a report is JSON");
    assert!(cluster.status().is_object());
}
