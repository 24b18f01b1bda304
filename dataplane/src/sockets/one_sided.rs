//! One-sided operations over connections: a thread of the target takes what comes and answers, so a put that is complete has
//! arrived.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Instant;

use super::inbox::Inbox;
use super::put_link::{self, Caller, Link};
use super::request::Request;
use crate::call::Call;
use crate::failure::Failure;
use crate::operation::context::OpContext;
use crate::operation::one_sided::{self, Path};

/// One-sided operations over connections, which this rank makes when it first needs them.
pub(super) struct SocketPath<'a> {
    pub(super) caller: Caller<'a>,
    pub(super) inbox: &'a Inbox,
    pub(super) links: &'a mut HashMap<u32, Link>,
}

impl SocketPath<'_> {
    /// The connection to `peer`, made if there is none.
    fn link_to(&mut self, context: &OpContext, what: &str, peer: u32) -> Result<&mut Link, Failure> {
        match self.links.entry(peer) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(free) => Ok(free.insert(put_link::connect(&self.caller, context, what, peer)?)),
        }
    }
}

impl Path for SocketPath<'_> {
    fn put(&mut self, context: &OpContext, call: &Call, what: &str) -> Result<Instant, Failure> {
        let (rank, peer) = (context.rank, call.peer.unwrap_or(0));
        let bytes = call.send_bytes(rank, context.size);
        if peer == rank {
            if let Some(remote) = call.remote {
                let target = self.inbox.place(remote.window, remote.offset, bytes as u64);
                let target = target.map_err(|detail| one_sided::invalid(context, what, &detail))?;
                // SAFETY: the inbox checked the target, the caller promised its send buffer. They may overlap.
                unsafe { std::ptr::copy(call.send.address.cast_const(), target as *mut u8, bytes) };
            }
            self.inbox.signal(rank);
            return Ok(Instant::now());
        }
        let request = Request {
            window: call.remote.map(|remote| remote.window),
            offset: call.remote.map_or(0, |remote| remote.offset),
            bytes: bytes as u64,
        };
        let caller = self.caller;
        let link = (peer, self.link_to(context, what, peer)?);
        // SAFETY: the caller's promise for its send buffer while the operation runs.
        let done = unsafe { put_link::exchange(&caller, context, what, link, request, call.send.address.cast_const()) };
        if done.is_err() {
            self.links.remove(&peer);
        }
        done?;
        Ok(Instant::now())
    }

    fn received(&self, _: &OpContext, from: u32) -> u64 {
        self.inbox.received(from)
    }

    fn watch(&mut self, context: &OpContext) -> u32 {
        context.losses.wake().clear();
        0
    }

    fn sleep(&mut self, context: &OpContext, _: u32, open: &[(&Call, u64)]) -> Result<(), Failure> {
        let late = Instant::now() >= context.deadline;
        let caller = self.caller;
        for (call, needed) in open {
            let (peer, what) = (call.peer.unwrap_or(0), one_sided::describe(call));
            // A connection shows that a rank left in an orderly way, which nothing else reports.
            let seen = match peer == context.rank {
                true => put_link::gone(context, &what, peer),
                false => self
                    .link_to(context, &what, peer)
                    .and_then(|link| put_link::is_alive(&caller, context, &what, (peer, link)))
                    .and_then(|()| put_link::gone(context, &what, peer)),
            };
            // Its signals arrive before it hangs up.
            if let Err(failure) = seen
                && self.inbox.received(peer) < *needed
            {
                return Err(failure);
            }
        }
        if let (true, Some((call, _))) = (late, open.first()) {
            return Err(one_sided::late(context, &one_sided::describe(call), call.peer.unwrap_or(0)));
        }
        let links: Vec<_> = open
            .iter()
            .filter_map(|(call, _)| self.links.get(&call.peer.unwrap_or(0)))
            .map(|link| (link, libc::POLLIN))
            .collect();
        put_link::sleep(context, &links, context.deadline.saturating_duration_since(Instant::now()));
        Ok(())
    }
}
