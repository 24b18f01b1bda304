//! NCCL's teams: all ranks (world), those that access each other's memory by load and store (LSA), and one of each such
//! team (rail).

use std::ffi::c_int;

use abi::guard::Nothing;
use dataplane::communicator::Communicator as Ranks;
use protocol::plan::ClusterPlan;
use protocol::record::BufferTransport;

use super::communicator::{Communicator, process, resolve};
use super::error::NcclResult;

/// `ncclTeam_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Team {
    pub(super) ranks: c_int,
    pub(super) rank: c_int,
    pub(super) stride: c_int,
}

impl Nothing for Team {
    fn nothing() -> Self {
        Self::default()
    }
}

/// The LSA team of a communicator's rank.
pub(super) fn from_communicator(communicator: &Communicator) -> NcclResult<Team> {
    let ranks = communicator.ranks()?;
    let size = lsa_size(&ranks, process()?.cluster());
    Ok(Team { ranks: size as c_int, rank: (ranks.rank() % size) as c_int, stride: 1 })
}

/// Body of `ncclTeamWorld`. Team functions have no status; for an invalid communicator the team is empty.
pub(crate) fn world(communicator: usize) -> Team {
    let ranks = resolve(communicator).and_then(|communicator| communicator.ranks());
    let team = |ranks: &Ranks| Team { ranks: ranks.size() as c_int, rank: ranks.rank() as c_int, stride: 1 };
    ranks.map_or_else(|_| Team::default(), |ranks| team(&ranks))
}

/// Body of `ncclTeamLsa`.
pub(crate) fn lsa(communicator: usize) -> Team {
    resolve(communicator).and_then(|communicator| from_communicator(&communicator)).unwrap_or_default()
}

/// Body of `ncclTeamRail`: the ranks with the same position in their LSA teams as this rank.
pub(crate) fn rail(communicator: usize) -> Team {
    let (world, lsa) = (world(communicator), lsa(communicator));
    if lsa.ranks == 0 {
        return Team::default();
    }
    Team { ranks: world.ranks / lsa.ranks, rank: world.rank / lsa.ranks, stride: lsa.ranks }
}

/// Body of `ncclTeamRankToWorld`.
pub(crate) fn rank_to_world(communicator: usize, team: Team, rank: c_int) -> c_int {
    seen_from(world(communicator), team, rank)
}

/// Body of `ncclTeamRankToLsa`.
pub(crate) fn rank_to_lsa(communicator: usize, team: Team, rank: c_int) -> c_int {
    seen_from(lsa(communicator), team, rank)
}

/// The number that `rank` of `team` has among consecutive ranks, in which the caller is `own.rank`; -1 if the
/// communicator is invalid.
fn seen_from(own: Team, team: Team, rank: c_int) -> c_int {
    if own.ranks == 0 {
        return -1;
    }
    own.rank.wrapping_add(rank.wrapping_sub(team.rank).wrapping_mul(team.stride))
}

/// Ranks in a team, the same for all teams: consecutive ranks of one node, with a size that divides every such run of
/// ranks. Without shared memory, a rank is alone.
pub(super) fn lsa_size(ranks: &Ranks, plan: Option<&ClusterPlan>) -> u32 {
    if ranks.transport() != BufferTransport::SharedMemory {
        return 1;
    }
    let node = |rank| plan.and_then(|plan| plan.node_of(rank)).map(|(index, _)| index);
    let nodes: Vec<Option<usize>> = ranks.members().iter().map(|member| node(member.global_rank)).collect();
    nodes.chunk_by(|one, next| one == next).fold(0, |size, row| common_divisor(size, row.len() as u32)).max(1)
}

/// Whether `rank` and `peer` are in the same team of `size`.
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
