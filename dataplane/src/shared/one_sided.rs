//! One-sided operations through mapped memory: the writer does everything.

use std::time::Instant;

use super::mapping::Mappings;
use super::reach::reach;
use super::segment::Segment;
use crate::call::{Call, Place};
use crate::failure::Failure;
use crate::operation::context::OpContext;
use crate::operation::one_sided::{self, Path, PeerWindow, within};

/// The path through a segment.
pub(super) struct SharedPath<'a> {
    pub(super) segment: &'a Segment,
    pub(super) mappings: &'a mut Mappings,
}

impl Path for SharedPath<'_> {
    fn put(&mut self, context: &OpContext, call: &Call, what: &str) -> Result<Instant, Failure> {
        let (segment, rank, peer) = (self.segment, context.rank, call.peer.unwrap_or(0));
        let mut met = None;
        if let Some(remote) = call.remote {
            let bytes = call.send_bytes(rank, context.size);
            let window = shown_window(segment, context, what, peer, remote.window)?;
            within(remote.offset, bytes as u64, window.bytes)
                .map_err(|detail| one_sided::invalid(context, what, &detail))?;
            met = Some(Instant::now());
            let place = Place { offset: window.place.offset + remote.offset, ..window.place };
            let address = window.address + remote.offset;
            let target = reach(self.mappings, context, &|| what.to_owned(), peer, &place, address, bytes)?;
            if bytes > 0 {
                // SAFETY: `reach` and the check above make sure of the target, the caller of its send buffer. A put to
                // oneself may overlap.
                unsafe { std::ptr::copy(call.send.address.cast_const(), target, bytes) };
            }
        } else if let Some(failure) = lost(segment, context, what, peer) {
            return Err(failure);
        }
        segment.board().signal(rank, peer);
        segment.ring_bell(peer);
        Ok(met.unwrap_or_else(Instant::now))
    }

    fn received(&self, context: &OpContext, from: u32) -> u64 {
        self.segment.board().received(from, context.rank)
    }

    fn watch(&mut self, context: &OpContext) -> u32 {
        self.segment.bell(context.rank)
    }

    fn sleep(&mut self, context: &OpContext, seen: u32, open: &[(&Call, u64)]) -> Result<(), Failure> {
        let late = Instant::now() >= context.deadline;
        let segment = self.segment;
        let loss = |call: &Call| lost(segment, context, &one_sided::describe(call), call.peer.unwrap_or(0));
        if let Some(failure) = open.iter().find_map(|(call, _)| loss(call)) {
            // What it signaled before it was lost may have come since we looked.
            if segment.bell(context.rank) == seen || segment.status(context.rank).is_some() {
                return Err(failure);
            }
            return Ok(());
        }
        if let (true, Some((call, _))) = (late, open.first()) {
            return Err(one_sided::late(context, &one_sided::describe(call), call.peer.unwrap_or(0)));
        }
        segment.wait_bell(context.rank, seen, context.deadline);
        Ok(())
    }
}

/// Window `number` of `peer`, if it is registered.
pub(super) fn shown_window(
    segment: &Segment,
    context: &OpContext,
    what: &str,
    peer: u32,
    number: u64,
) -> Result<PeerWindow, Failure> {
    loop {
        let bell = segment.bell(context.rank);
        if let Some(window) = segment.board().window(peer, number) {
            return Ok(window);
        }
        if let Some(failure) = lost(segment, context, what, peer) {
            return Err(failure);
        }
        if Instant::now() >= context.deadline {
            return Err(one_sided::late(context, &format!("{what}: it has not registered window {number}"), peer));
        }
        segment.wait_bell(context.rank, bell, context.deadline);
    }
}

fn lost(segment: &Segment, context: &OpContext, what: &str, peer: u32) -> Option<Failure> {
    if let Some((code, detail)) = segment.status(context.rank) {
        return Some(Failure::new(code, detail).blaming(vec![context.rank]));
    }
    let reason = segment.absence(peer)?;
    Some(context.lost(what, &[peer], Some(reason)))
}
