//! A way of moving bytes between the ranks of a communicator: shared memory or sockets. All ranks of a communicator use the same
//! one.

use protocol::message::Member;
use protocol::record::{BufferTransport, ErrorCode};

use crate::call::{Buffer, Call};
use crate::failure::Failure;
use crate::operation::context::OpContext;
use crate::operation::one_sided::PeerWindow;
use crate::operation::timing::Timing;

/// One rank's end of a transport. Operations run one at a time; all other calls may come in the meantime, from other
/// threads.
pub(crate) trait Transport: Send + Sync {
    /// Its name in records.
    fn kind(&self) -> BufferTransport;

    /// Runs a collective to its end on this rank.
    fn collective(&self, context: &OpContext, call: &Call) -> Result<Timing, Failure>;

    /// Runs the sends and recvs of a group to their end; timings are in the order of `calls`.
    fn transfers(&self, context: &OpContext, calls: &[Call]) -> Result<Vec<Timing>, Failure>;

    /// Runs the first of `calls`, which are one-sided, or all leading waits; returns the timings of the calls that were
    /// run.
    fn one_sided(&self, context: &OpContext, calls: &[Call]) -> Result<Vec<Timing>, Failure>;

    /// Registers `bytes` at `buffer` as the next window; returns its number, from 1.
    fn register_window(&self, buffer: Buffer, bytes: u64) -> Result<u64, Failure>;

    /// Forgets a window.
    fn deregister_window(&self, number: u64);

    /// Window `number` of rank `peer`, once it is registered; `None` if ranks do not map each other's memory.
    fn peer_window(&self, context: &OpContext, number: u64, peer: u32) -> Result<Option<PeerWindow>, Failure>;

    /// `rank` will not come again: wakes all that wait for it in this transport's memory.
    fn lose(&self, rank: u32, code: ErrorCode, detail: &str);

    /// This rank's operation failed: notifies the other ranks, except for a revoke. No operation is running.
    fn fail(&self, context: &OpContext, code: ErrorCode, detail: &str);

    /// This rank takes part in no more operations: notifies the other ranks, except for a revoke. Unless `idle`, an operation is
    /// running; it was woken and does its part through [`Self::fail`].
    fn stop(&self, context: &OpContext, code: ErrorCode, detail: &str, idle: bool);
}

/// True if all ranks are on one host and offer their memory.
pub(crate) fn may_share(members: &[Member]) -> bool {
    members.iter().all(|member| member.arena.is_some() && member.control.is_some() && member.host == members[0].host)
}
