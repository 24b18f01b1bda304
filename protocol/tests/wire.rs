//! One encoded sample per message, as a golden (`cargo insta review`). A changed byte needs a new `message::VERSION`.

use std::collections::BTreeSet;
use std::fmt::{Debug, Write};
use std::path::Path;

use protocol::activity::{Activation, Activity};
use protocol::backlog::Backlog;
use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::fault::FaultRecord;
use protocol::frame::{self, FrameError, MAX_TO_COORDINATOR, MAX_TO_RANK};
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::message::{Clock, Member, ProcessInfo, Role, SharedFile, ToCoordinator, ToRank, VERSION};
use protocol::plan::{ClusterPlan, FabricPlan, NodePlan};
use protocol::record::{BufferTransport, ErrorCode, FailureRecord, HoldingRecord, Issue, OperationRecord, PathRecord};
use protocol::report::FaultKind;
use protocol::site::CallSite;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn member() -> Member {
    Member {
        global_rank: Rank(3),
        device: 1,
        pid: 4711,
        host: "host".to_owned(),
        arena: Some(SharedFile { fd: 7, length: 1 << 36 }),
        control: None,
        data_address: "unix:@data".to_owned(),
        site: SiteId(2),
        gpu: 0x0010_1000,
        is_only: true,
    }
}

fn plan() -> ClusterPlan {
    let fabric = |kind: &str, bandwidth_gbps| FabricPlan {
        kind: kind.to_owned(),
        bandwidth_gbps,
        latency_us: 3.0,
        oversubscription: 1.5,
    };
    ClusterPlan {
        name: "pair".to_owned(),
        default_backend: "nccl".to_owned(),
        nodes: vec![NodePlan {
            id: "node0".to_owned(),
            host: "127.0.0.1".to_owned(),
            ranks: vec![Rank(0), Rank(1)],
            gpus: vec!["a100".to_owned(), "h100".to_owned()],
        }],
        intra_node: fabric("nvlink", 300.0),
        inter_node: fabric("infiniband", 200.0),
        custom_profiles: Default::default(),
        machine: None,
    }
}

fn to_coordinator() -> Vec<(&'static str, ToCoordinator)> {
    let info = ProcessInfo {
        pid: 4711,
        rank: Some(Rank(3)),
        world_size: Some(4),
        program: "train.py".to_owned(),
        backlog: Some(Backlog { fd: 9, mark: 1 << 40 }),
    };
    let hello = |role| ToCoordinator::Hello { version: VERSION, token: "secret".to_owned(), role };
    let record = OperationRecord {
        communicator: CommunicatorId(2),
        sequence: Sequence(300),
        rank: Rank(1),
        operation: Operation::AllReduce,
        count: 1 << 20,
        datatype: Datatype::Bfloat16,
        reduction_op: Some(ReductionOp::Avg),
        root: None,
        peer: None,
        transport: BufferTransport::SharedMemory,
        wait_us: 12.5,
        execute_us: 0.25,
        ended_ns: 7_000_000_123,
        site: SiteId(3),
        issue: Issue { place: 41, together: 2, thread: 3 },
    };
    let failure = FailureRecord {
        communicator: Some(CommunicatorId(2)),
        sequence: Sequence(301),
        rank: Rank(1),
        operation: Operation::Broadcast,
        code: ErrorCode::RootMismatch,
        detail: "rank 0 gave root 0, rank 1 gave root 1".to_owned(),
        culprits: vec![Rank(1)],
        attempted_bytes: 4096,
        site: SiteId(4),
    };
    let (request, communicator, rank) = (9, CommunicatorId(2), Rank(1));
    let activation = Activation {
        sequence: Sequence(300),
        operation: Operation::Send,
        count: 1 << 20,
        datatype: Datatype::Bfloat16,
        reduction_op: None,
        root: None,
        peer: Some(Rank(3)),
        age_us: 5_000_000,
        took_us: None,
        site: SiteId(5),
    };
    let site = CallSite::new("train.py".to_owned(), 31, "step".to_owned());
    let fault = FaultRecord {
        number: 2,
        kind: FaultKind::NcclError,
        rank: Some(Rank(3)),
        collective: Some((communicator, Sequence(300), Operation::AllReduce)),
    };
    vec![
        ("hello_process", hello(Role::Process(info.clone()))),
        ("hello_distant", hello(Role::Distant { info, session: [7; 16] })),
        ("hello_returning", hello(Role::Returning { session: [7; 16], received: 300 })),
        ("received", ToCoordinator::Received { count: 300 }),
        (
            "paths",
            ToCoordinator::Paths {
                communicator,
                rank,
                paths: vec![PathRecord {
                    peer: Rank(2),
                    round_trip_us: 40_000,
                    least_us: 300,
                    bytes_per_s: 125_000,
                    resent: 7,
                    is_late: true,
                }],
            },
        ),
        ("hello_control", hello(Role::Control)),
        (
            "init_communicator",
            ToCoordinator::InitCommunicator { request, unique_id: (0..128).collect(), size: 4, rank, member: member() },
        ),
        (
            "split_communicator",
            ToCoordinator::SplitCommunicator {
                request,
                parent: communicator,
                sequence: Sequence(1),
                rank,
                color: Some(5),
                key: -2,
                member: member(),
            },
        ),
        (
            "leave_communicator",
            ToCoordinator::LeaveCommunicator {
                communicator,
                rank,
                aborted: Some((ErrorCode::Aborted, "rank 1 aborted".to_owned())),
            },
        ),
        ("completed", ToCoordinator::Completed { records: vec![record] }),
        ("failed", ToCoordinator::Failed { failure }),
        ("flushed", ToCoordinator::Flushed { request }),
        ("goodbye", ToCoordinator::Goodbye),
        ("shutdown", ToCoordinator::Shutdown),
        ("query_status", ToCoordinator::QueryStatus),
        (
            "active",
            ToCoordinator::Active {
                request,
                activities: vec![Activity {
                    communicator,
                    rank,
                    current: vec![activation.clone()],
                    queued: 2,
                    recent: vec![Activation { took_us: Some(15), ..activation }],
                }],
            },
        ),
        ("diagnose", ToCoordinator::Diagnose { last: true }),
        ("fault_fires", ToCoordinator::FaultFires { request, record: fault }),
        (
            "shrink_communicator",
            ToCoordinator::ShrinkCommunicator {
                request,
                parent: communicator,
                sequence: Sequence(1),
                rank,
                excluded: vec![Rank(0), Rank(2)],
                abort: true,
                member: member(),
            },
        ),
        (
            "grow_communicator",
            ToCoordinator::GrowCommunicator {
                request,
                parent: communicator,
                sequence: Sequence(1),
                size: 6,
                rank: Rank(5),
                member: member(),
            },
        ),
        ("revoke_communicator", ToCoordinator::RevokeCommunicator { communicator, rank }),
        ("join_failed", ToCoordinator::JoinFailed { rank, why: "rank 5 of 4 ranks".to_owned() }),
        ("rank_ended", ToCoordinator::RankEnded { rank, pid: 4711, how: "ended with exit code 7".to_owned() }),
        ("site", ToCoordinator::Site { id: SiteId(3), site }),
        (
            "holds",
            ToCoordinator::Holds(HoldingRecord {
                rank,
                group: vec![Rank(0), rank],
                step: 3,
                site: SiteId(3),
                names: vec!["parameter 0.weight".to_owned()],
                hashes: vec![0x0123_4567_89ab_cdef],
                is_continued: true,
            }),
        ),
    ]
}

fn to_rank() -> Vec<(&'static str, ToRank)> {
    let (request, communicator, rank) = (9, CommunicatorId(2), Rank(1));
    let detail = "rank 2 (pid 4711, node1) ended unexpectedly".to_owned();
    vec![
        (
            "welcome",
            ToRank::Welcome {
                version: VERSION,
                cluster: Some(plan()),
                clock: Box::new(Clock { boot: "boot".to_owned(), now_us: 7_000_000 }),
            },
        ),
        ("refused", ToRank::Refused { reason: "wrong token".to_owned() }),
        ("communicator_formed", ToRank::CommunicatorFormed { request, communicator, rank, members: vec![member(); 2] }),
        ("no_communicator", ToRank::NoCommunicator { request }),
        (
            "request_failed",
            ToRank::RequestFailed {
                request,
                code: ErrorCode::TimeoutWaitingForRanks,
                detail: "missing: 1, 3".to_owned(),
            },
        ),
        ("member_lost", ToRank::MemberLost { communicator, rank, code: ErrorCode::RankLost, detail }),
        ("flush", ToRank::Flush { request }),
        ("shutting_down", ToRank::ShuttingDown),
        ("status", ToRank::Status { json: "{}".to_owned() }),
        ("inquire", ToRank::Inquire { request }),
        ("diagnosis", ToRank::Diagnosis { json: "null".to_owned() }),
        ("fault_noted", ToRank::FaultNoted { request, first: true }),
        ("run_lost", ToRank::RunLost),
        ("received", ToRank::Received { count: 300 }),
        ("resumed", ToRank::Resumed { received: 300 }),
    ]
}

fn check<M>(direction: &str, samples: Vec<(&'static str, M)>, limit: usize) -> BTreeSet<String>
where
    M: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let mut names = BTreeSet::new();
    for (name, message) in samples {
        let mut encoded = frame::encode(&message);
        let name = format!("{direction}.{name}");
        insta::with_settings!({
            prepend_module_to_snapshot => false,
            omit_expression => true,
            description => "a change of this encoding needs a new message::VERSION",
        }, {
            insta::assert_snapshot!(name.clone(), hex(&encoded));
        });
        assert_eq!(frame::decode::<M>(&mut encoded, limit), Ok(Some(message)));
        assert!(encoded.is_empty());
        names.insert(format!("{name}.snap"));
    }
    names
}

/// Sixteen bytes a line.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(16) {
        let line: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{}", line.join(" ")).unwrap();
    }
    text
}

#[test]
fn the_encoding_is_the_committed_one() {
    let mut names = check("to_coordinator", to_coordinator(), MAX_TO_COORDINATOR);
    names.extend(check("to_rank", to_rank(), MAX_TO_RANK));
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let there = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let there: BTreeSet<String> = there.map(|name| name.to_string_lossy().into_owned()).collect();
    assert_eq!(there, names, "a golden of no message");
}

#[test]
fn every_message_has_a_sample() {
    // The first byte after the prefix is the variant's number: the samples must leave no gap.
    let variants = |frames: Vec<Vec<u8>>| frames.into_iter().map(|frame| frame[4]).collect::<BTreeSet<u8>>();
    let samples = variants(to_coordinator().iter().map(|(_, message)| frame::encode(message)).collect());
    assert_eq!(samples, (0..22).collect());
    assert!(postcard_refuses::<ToCoordinator>(22));
    let samples = variants(to_rank().iter().map(|(_, message)| frame::encode(message)).collect());
    assert_eq!(samples, (0..15).collect());
    assert!(postcard_refuses::<ToRank>(15));
}

/// Whether no variant has that number.
fn postcard_refuses<M: DeserializeOwned + Debug>(variant: u8) -> bool {
    let mut frame = [&[64, 0, 0, 0, variant][..], &[0; 63]].concat();
    let error = frame::decode::<M>(&mut frame, 1000).unwrap_err();
    !error.to_string().contains("left over")
}

#[test]
fn frames_come_in_pieces_and_bad_ones_are_refused() {
    let message = ToRank::Flush { request: 1 };
    let whole = [frame::encode(&message), frame::encode(&ToRank::ShuttingDown)].concat();
    let mut buffer = Vec::new();
    let mut decoded: Vec<ToRank> = Vec::new();
    for byte in whole {
        buffer.push(byte);
        decoded.extend(frame::decode(&mut buffer, MAX_TO_RANK).unwrap());
    }
    assert_eq!(decoded, [message, ToRank::ShuttingDown]);
    let mut huge = u32::MAX.to_le_bytes().to_vec();
    let too_large = FrameError::TooLarge { length: u32::MAX as usize, limit: MAX_TO_COORDINATOR };
    assert_eq!(frame::decode::<ToCoordinator>(&mut huge, MAX_TO_COORDINATOR), Err(too_large));
    for body in [&[200, 1][..], &[8, 0], &[]] {
        let mut frame = [&(body.len() as u32).to_le_bytes()[..], body].concat();
        assert!(matches!(frame::decode::<ToCoordinator>(&mut frame, 100), Err(FrameError::Malformed(_))), "{body:?}");
    }
}

#[test]
fn times_of_another_host_are_told_by_the_coordinators_clock() {
    let clock = Clock { boot: "one".to_owned(), now_us: 5_000 };
    // The answer was half way back when this host's clock said 1 ms.
    assert_eq!(clock.offset_ns("two", 900_000, 1_100_000), 4_000_000);
    assert_eq!(clock.offset_ns("two", 9_000_000, 9_000_000), -4_000_000);
    assert_eq!(clock.offset_ns("one", 0, 0), 0, "one host has one clock");
    assert_eq!(Clock::default().offset_ns("two", 0, 0), 0, "it did not say");
}
