//! Which ranks reach each other's memory by load and store: NCCL's LSA team.

use dataplane::communicator::Communicator as Ranks;
use protocol::message::BufferTransport;
use protocol::plan::ClusterPlan;

/// Ranks in a team, the same for all teams: consecutive ranks of one node, as many as divide every such row. Without shared
/// memory a rank is alone.
pub(super) fn lsa_size(ranks: &Ranks, plan: Option<&ClusterPlan>) -> u32 {
    if ranks.transport() != BufferTransport::SharedMemory {
        return 1;
    }
    let node = |rank| plan.and_then(|plan| plan.node_of(rank)).map(|(index, _)| index);
    let nodes: Vec<Option<usize>> = ranks.members().iter().map(|member| node(member.global_rank)).collect();
    nodes.chunk_by(|one, next| one == next).fold(0, |size, row| common_divisor(size, row.len() as u32)).max(1)
}

/// Whether `rank` and `peer` are in one team of `size`.
pub(super) fn together(size: u32, rank: u32, peer: u32) -> bool {
    rank / size == peer / size
}

fn common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn teams_do_not_reach_over_their_end() {
        assert!(together(2, 2, 3) && !together(2, 1, 2));
        assert_eq!([common_divisor(0, 4), common_divisor(4, 6), common_divisor(4, 8)], [4, 2, 4]);
    }
}
