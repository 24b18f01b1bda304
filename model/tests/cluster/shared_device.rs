//! Two ranks on one GPU get no communicator, as in NCCL.

use model::exchange::Output;
use protocol::finding::FindingKind;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::{ToCoordinator, ToRank};
use protocol::record::ErrorCode;

use crate::harness::{World, member};

/// The process of this number, which is its rank, asks for communicator `id` of three ranks on the GPU at `gpu`.
fn init(world: &mut World, id: u8, process: u32, gpu: u64, host: &str) -> Vec<Output> {
    let mut member = member(process, 100 + process);
    (member.gpu, member.host) = (gpu, host.to_owned());
    let (request, unique_id, rank) = (1, vec![id; 128], Rank(process));
    world.say(u64::from(process), ToCoordinator::InitCommunicator { request, unique_id, size: 3, rank, member })
}

fn refusals(outputs: &[Output]) -> Vec<(ErrorCode, String)> {
    let refusal = |output: &Output| match output {
        Output::Send { message: ToRank::RequestFailed { code, detail, .. }, .. } => Some((*code, detail.clone())),
        _ => None,
    };
    outputs.iter().filter_map(refusal).collect()
}

#[test]
fn a_communicator_with_two_ranks_on_one_gpu_does_not_form() {
    let mut world = World::new(None, 100);
    (0..3).for_each(|process| drop(world.join(process)));
    assert_eq!(init(&mut world, 7, 2, 0x1000, "host"), []);
    assert_eq!(init(&mut world, 7, 1, 0x2000, "host"), []);
    let refused = refusals(&init(&mut world, 7, 0, 0x1000, "host"));
    // NCCL's words, in which the address is bus 1 of domain 0.
    let expected = "Duplicate GPU detected : rank 0 and rank 2 both on CUDA device 1000".to_owned();
    assert_eq!(refused, vec![(ErrorCode::SharedDevice, expected.clone()); 3]);
    let findings = world.report().findings;
    assert_eq!((findings.len(), findings[0].kind, &findings[0].sentence), (1, FindingKind::SharedDevice, &expected));
    assert_eq!((&findings[0].ranks[..], findings[0].comm_id), (&[Rank(0), Rank(2)][..], None));
    // Another try with the same id is a new one.
    for (process, gpu) in [(0, 0x1000), (1, 0x2000), (2, 0x3000)] {
        assert_eq!(refusals(&init(&mut world, 7, process, gpu, "host")), []);
    }
    assert_eq!(world.report().cluster.communicators, 1);
}

#[test]
fn equal_addresses_on_two_hosts_are_two_gpus() {
    let mut world = World::new(None, 100);
    (0..3).for_each(|process| drop(world.join(process)));
    for (process, gpu, host) in [(0, 0x1000, "one"), (1, 0x2000, "one"), (2, 0x1000, "two")] {
        assert_eq!(refusals(&init(&mut world, 7, process, gpu, host)), []);
    }
    assert_eq!((world.report().cluster.communicators, world.report().findings.len()), (1, 0));
}

#[test]
fn a_communicator_does_not_grow_by_a_rank_on_a_gpu_that_it_has() {
    let mut world = World::formed(None, 2, 100);
    world.join(2);
    let mut grow = |process: u32, gpu: u64| {
        let mut member = member(process, 100 + process);
        member.gpu = gpu;
        let (parent, sequence, rank) = (CommunicatorId(1), Sequence(1), Rank(process));
        let message = ToCoordinator::GrowCommunicator { request: 1, parent, sequence, size: 3, rank, member };
        world.say(u64::from(process), message)
    };
    assert_eq!((grow(0, 0), grow(2, 1)), (vec![], vec![]));
    let refused = refusals(&grow(1, 1));
    assert_eq!(refused.len(), 3);
    assert!(refused.iter().all(|(code, _)| *code == ErrorCode::SharedDevice), "{refused:?}");
    assert_eq!(world.report().findings[0].kind, FindingKind::SharedDevice);
}
