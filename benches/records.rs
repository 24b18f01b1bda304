//! What the coordinator pays for a rank's record of a collective: `cargo bench -p model --bench records`. Decoding it, and what the
//! cluster makes of it, in ns; ranks report in batches, one after the other, as they do in a run.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock, which the rules do not")]

use std::time::{Duration, Instant};

use model::cluster::{Cluster, Settings};
use model::exchange::{ConnectionId, Input};
use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::frame;
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::message::{Member, ProcessInfo, ToCoordinator};
use protocol::record::{BufferTransport, Issue, OperationRecord};
use protocol::site::CallSite;

/// Collectives that a rank reports at once.
const BATCH: u64 = 256;
const BATCHES: u64 = 400;
/// A longer message would be refused, bytes.
const LIMIT: usize = 1 << 20;

fn main() {
    println!("{:>6} {:>12} {:>12}", "ranks", "decode (ns)", "book (ns)");
    for ranks in [2, 4, 8, 32] {
        let (decoding, booking) = measure(ranks);
        let each = |time: Duration| time.as_nanos() as f64 / (u64::from(ranks) * BATCHES * BATCH) as f64;
        println!("{ranks:>6} {:>12.0} {:>12.0}", each(decoding), each(booking));
    }
}

/// The time of decoding all records, and of booking them.
fn measure(ranks: u32) -> (Duration, Duration) {
    let mut cluster = formed(ranks);
    let (mut decoding, mut booking) = (Duration::ZERO, Duration::ZERO);
    for batch in 0..BATCHES {
        for rank in 0..ranks {
            let records = (1..=BATCH).map(|at| record(rank, batch * BATCH + at)).collect();
            let mut bytes = frame::encode(&ToCoordinator::Completed { records });
            let start = Instant::now();
            let message = frame::decode(&mut bytes, LIMIT).expect("was just encoded").expect("is whole");
            let decoded = Instant::now();
            let out = cluster.step(Input::Message { connection: ConnectionId(rank.into()), message }, 0);
            booking += decoded.elapsed();
            decoding += decoded - start;
            assert_eq!(out, []);
        }
    }
    (decoding, booking)
}

/// Processes in one communicator, each with one line of its program.
fn formed(ranks: u32) -> Cluster {
    let mut cluster = Cluster::new(Settings::default());
    for rank in 0..ranks {
        let connection = ConnectionId(rank.into());
        let pid = 100 + rank;
        let program = "bench".to_owned();
        let info = ProcessInfo { pid, rank: Some(Rank(rank)), world_size: Some(ranks), program, backlog: None };
        cluster.step(Input::Joined { connection, info }, 0);
        let site = CallSite::new("train.py".to_owned(), 31, "step".to_owned());
        cluster.step(Input::Message { connection, message: ToCoordinator::Site { id: SiteId(1), site } }, 0);
        let member = Member {
            global_rank: Rank(rank),
            device: 0,
            pid,
            host: "host".to_owned(),
            arena: None,
            control: None,
            data_address: "unix:@x".to_owned(),
            site: SiteId::default(),
            gpu: u64::from(rank),
            is_only: true,
        };
        let (unique_id, rank) = (vec![1; 128], Rank(rank));
        let message = ToCoordinator::InitCommunicator { request: 1, unique_id, size: ranks, rank, member };
        cluster.step(Input::Message { connection, message }, 0);
    }
    cluster
}

fn record(rank: u32, sequence: u64) -> OperationRecord {
    OperationRecord {
        communicator: CommunicatorId(1),
        sequence: Sequence(sequence),
        rank: Rank(rank),
        operation: Operation::AllReduce,
        count: 2,
        datatype: Datatype::Float32,
        reduction_op: Some(ReductionOp::Sum),
        root: None,
        peer: None,
        transport: BufferTransport::SharedMemory,
        wait_us: 1.0,
        execute_us: 2.0,
        ended_ns: sequence * 1000,
        site: SiteId(1),
        issue: Issue { place: sequence, together: 1, thread: 1 },
    }
}
