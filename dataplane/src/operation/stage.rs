//! A communicator's ranks in this process, for tests of one transport.

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::message::Member;

use crate::losses::Losses;
use crate::operation::context::OpContext;
use crate::operation::history::OpHistory;
use crate::wake::Wake;

/// A communicator's ranks in this process, for tests of one transport.
pub(crate) struct Stage {
    members: Vec<Member>,
    history: OpHistory,
    losses: Losses,
}

impl Stage {
    pub(crate) fn new(size: u32) -> Self {
        let member = |rank| Member {
            global_rank: protocol::ids::Rank(rank),
            device: 0,
            pid: std::process::id(),
            host: String::new(),
            arena: None,
            control: None,
            data_address: String::new(),
            site: protocol::ids::SiteId::default(),
            gpu: u64::from(rank),
            is_only: true,
        };
        let losses = Losses::new(Arc::new(Wake::new().unwrap()));
        Self { members: (0..size).map(member).collect(), history: OpHistory::default(), losses }
    }

    /// Ranks with these data addresses.
    pub(crate) fn with_addresses(addresses: &[&str]) -> Self {
        let mut stage = Self::new(addresses.len() as u32);
        for (member, address) in stage.members.iter_mut().zip(addresses) {
            member.data_address = (*address).to_owned();
        }
        stage
    }

    /// Ranks that will not come again.
    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// The context of `rank`, which waits for `timeout` from now on.
    pub(crate) fn context(&self, rank: u32, timeout: Duration) -> OpContext<'_> {
        let (members, losses, history) = (&self.members, &self.losses, &self.history);
        let size = members.len() as u32;
        OpContext {
            rank,
            size,
            members,
            nodes: &[],
            sequence: 1,
            deadline: Instant::now() + timeout,
            timeout,
            losses,
            history,
        }
    }
}
