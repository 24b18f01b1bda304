//! Members and the cluster file: which node a member is on, and whether it fits.

use protocol::message::Member;
use protocol::plan::ClusterPlan;
use protocol::record::ErrorCode;

/// "rank 2 (pid 4711, node1)".
pub(crate) fn describe(plan: Option<&ClusterPlan>, member: &Member) -> String {
    format!("rank {} ({})", member.global_rank, whereabouts(plan, member))
}

/// "pid 4711, node1".
pub(crate) fn whereabouts(plan: Option<&ClusterPlan>, member: &Member) -> String {
    match plan.and_then(|plan| plan.node_of(member.global_rank)) {
        Some((_, node)) => format!("pid {}, {}", member.pid, node.id),
        None => format!("pid {}", member.pid),
    }
}

/// Why a communicator of `size` ranks with this member is impossible in the cluster, if it is.
pub(crate) fn misfit(plan: Option<&ClusterPlan>, size: u32, member: &Member) -> Option<(ErrorCode, String)> {
    let world = plan.map(ClusterPlan::world_size)?;
    if size > world {
        let detail = format!("a communicator of {size} ranks does not fit the cluster, which has {world}");
        return Some((ErrorCode::WorldSizeMismatch, detail));
    }
    let global = member.global_rank;
    let last = world.saturating_sub(1);
    let detail = format!("global rank {global} is not in the cluster, which has ranks 0 to {last}");
    (global.0 >= world).then_some((ErrorCode::InvalidArgument, detail))
}
