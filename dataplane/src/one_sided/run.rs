//! One-sided operations of a group, one after the other: puts and signals to the same rank keep their order, and waits that
//! follow each other are one wait.

use std::collections::hash_map::Entry;
use std::time::Instant;

use protocol::datatype::Operation;
use protocol::record::ErrorCode;

use super::{Inbox, Memory, PeerWindow};
use crate::call::{Call, Place};
use crate::failure::Failure;
use crate::operation::context::{OpContext, Timing, timing};
use crate::shared::collectives::reach;
use crate::shared::mapping::Mappings;
use crate::shared::segment::Segment;
use crate::sockets::inbox::within;
use crate::sockets::put_link;
use crate::sockets::put_link::{Caller, Link};
use crate::sockets::request::Request;

/// How the ranks reach each other.
pub(crate) enum Way<'a> {
    /// They map each other's memory.
    Shared(&'a Segment, &'a mut Mappings),
    /// Over connections.
    Sockets(Caller<'a>),
}

/// Runs the first operation of `calls`, or all waits that it begins with; timings of as many calls as were run.
pub(crate) fn run(
    way: &mut Way,
    inbox: &Inbox,
    memory: &mut Memory,
    context: &OpContext,
    calls: &[Call],
) -> Result<Vec<Timing>, Failure> {
    let Some(first) = calls.first() else { return Ok(Vec::new()) };
    let start = Instant::now();
    let mut timings = if first.operation == Operation::WaitSignal {
        wait(way, inbox, memory, context, calls)?
    } else {
        let met = put(way, inbox, memory, context, first)?;
        vec![timing(start, met, 0)]
    };
    for (timing, call) in timings.iter_mut().zip(calls) {
        let counted = memory.counted.entry((call.operation, call.peer.unwrap_or(0))).or_default();
        *counted += 1;
        timing.transfer = *counted;
    }
    Ok(timings)
}

/// Writes and signals; when the window was there.
fn put(
    way: &mut Way,
    inbox: &Inbox,
    memory: &mut Memory,
    context: &OpContext,
    call: &Call,
) -> Result<Instant, Failure> {
    let (rank, peer, what) = (context.rank, call.peer.unwrap_or(0), describe(call));
    let bytes = call.send_bytes(rank, context.size);
    let invalid =
        |detail: String| Failure::new(ErrorCode::InvalidArgument, format!("{what}: {detail}")).blaming(vec![rank]);
    match way {
        Way::Shared(segment, mappings) => {
            if let Some(remote) = call.remote {
                let window = shown_window(segment, context, &what, peer, remote.window, context.deadline)?;
                within(remote.offset, bytes as u64, window.bytes).map_err(invalid)?;
                let met = Instant::now();
                let place = Place { offset: window.place.offset + remote.offset, ..window.place };
                let address = window.address + remote.offset;
                let target = reach(mappings, context, &|| what.clone(), peer, &place, address, bytes)?;
                if bytes > 0 {
                    // SAFETY: `reach` and the check above make sure of the target, the caller of its send buffer. A put to
                    // oneself may overlap.
                    unsafe { std::ptr::copy(call.send.address.cast_const(), target, bytes) };
                }
                segment.board().signal(rank, peer);
                segment.ring_bell(peer);
                return Ok(met);
            }
            if let Some(failure) = lost(segment, context, &what, peer) {
                return Err(failure);
            }
            segment.board().signal(rank, peer);
            segment.ring_bell(peer);
        }
        Way::Sockets(_) if peer == rank => {
            if let Some(remote) = call.remote {
                let target = inbox.place(remote.window, remote.offset, bytes as u64).map_err(invalid)?;
                // SAFETY: as above.
                unsafe { std::ptr::copy(call.send.address.cast_const(), target as *mut u8, bytes) };
            }
            inbox.signal(rank);
        }
        Way::Sockets(caller) => {
            let request = Request {
                window: call.remote.map(|remote| remote.window),
                offset: call.remote.map_or(0, |remote| remote.offset),
                bytes: bytes as u64,
            };
            // SAFETY: the caller's promise for its send buffer while the operation runs.
            let done = unsafe {
                let link = (peer, link_to(caller, memory, context, &what, peer)?);
                put_link::exchange(caller, context, &what, link, request, call.send.address.cast_const())
            };
            if done.is_err() {
                memory.links.remove(&peer);
            }
            done?;
        }
    }
    Ok(Instant::now())
}

/// The connection to `peer`, made when there is none.
fn link_to<'a>(
    caller: &Caller,
    memory: &'a mut Memory,
    context: &OpContext,
    what: &str,
    peer: u32,
) -> Result<&'a mut Link, Failure> {
    match memory.links.entry(peer) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(free) => Ok(free.insert(put_link::connect(caller, context, what, peer)?)),
    }
}

/// Window `number` of `peer`, when it is there.
pub(crate) fn shown_window(
    segment: &Segment,
    context: &OpContext,
    what: &str,
    peer: u32,
    number: u64,
    deadline: Instant,
) -> Result<PeerWindow, Failure> {
    loop {
        let bell = segment.bell(context.rank);
        if let Some(window) = segment.board().window(peer, number) {
            return Ok(window);
        }
        if let Some(failure) = lost(segment, context, what, peer) {
            return Err(failure);
        }
        if Instant::now() >= deadline {
            return Err(put_link::late(context, &format!("{what}: it has not registered window {number}"), peer));
        }
        segment.wait_bell(context.rank, bell, deadline);
    }
}

/// Waits until every rank of the leading waits of `calls` has signalled often enough.
fn wait(
    way: &mut Way,
    inbox: &Inbox,
    memory: &mut Memory,
    context: &OpContext,
    calls: &[Call],
) -> Result<Vec<Timing>, Failure> {
    let start = Instant::now();
    let waits: Vec<&Call> = calls.iter().take_while(|call| call.operation == Operation::WaitSignal).collect();
    // Signals that each wait needs from its rank, counted from the communicator's first.
    let mut needed = Vec::with_capacity(waits.len());
    for call in &waits {
        let consumed = memory.consumed.entry(call.peer.unwrap_or(0)).or_default();
        *consumed += call.count;
        needed.push(*consumed);
    }
    let mut met: Vec<Option<Instant>> = vec![None; waits.len()];
    loop {
        let bell = match way {
            Way::Shared(segment, _) => segment.bell(context.rank),
            Way::Sockets(caller) => {
                caller.wake.clear();
                0
            }
        };
        for (at, call) in waits.iter().enumerate().filter(|(at, _)| met[*at].is_none()).collect::<Vec<_>>() {
            if received(way, inbox, context, call.peer.unwrap_or(0)) >= needed[at] {
                met[at] = Some(Instant::now());
                context.history.done(at, 0);
            }
        }
        let open: Vec<usize> = (0..waits.len()).filter(|at| met[*at].is_none()).collect();
        let Some(next) = open.first().copied() else { break };
        let (peer, what) = (waits[next].peer.unwrap_or(0), describe(waits[next]));
        let late = Instant::now() >= context.deadline;
        match way {
            Way::Shared(segment, _) => {
                let gone = open
                    .iter()
                    .find_map(|at| lost(segment, context, &describe(waits[*at]), waits[*at].peer.unwrap_or(0)));
                if let Some(failure) = gone {
                    // What it signalled before it was lost may have come since we looked.
                    if segment.bell(context.rank) == bell || segment.status(context.rank).is_some() {
                        return Err(failure);
                    }
                    continue;
                }
                if late {
                    return Err(put_link::late(context, &what, peer));
                }
                segment.wait_bell(context.rank, bell, context.deadline);
            }
            Way::Sockets(caller) => {
                for at in &open {
                    let (peer, what) = (waits[*at].peer.unwrap_or(0), describe(waits[*at]));
                    // A connection tells of a rank that leaves in order, of which nobody else does.
                    let seen = match peer == context.rank {
                        true => put_link::gone(caller, context, &what, peer),
                        false => link_to(caller, memory, context, &what, peer)
                            .and_then(|link| put_link::is_alive(caller, context, &what, (peer, link)))
                            .and_then(|()| put_link::gone(caller, context, &what, peer)),
                    };
                    // Its signals are here before it hangs up.
                    if let Err(failure) = seen
                        && inbox.received(peer) < needed[*at]
                    {
                        return Err(failure);
                    }
                }
                if late {
                    return Err(put_link::late(context, &what, peer));
                }
                let links: Vec<_> = open
                    .iter()
                    .filter_map(|at| memory.links.get(&waits[*at].peer.unwrap_or(0)))
                    .map(|link| (link, libc::POLLIN))
                    .collect();
                put_link::sleep(caller, &links, context.deadline.saturating_duration_since(Instant::now()));
            }
        }
    }
    let end = Instant::now();
    Ok(met.into_iter().map(|met| timing(start, met.unwrap_or(end), 0)).collect())
}

fn received(way: &Way, inbox: &Inbox, context: &OpContext, from: u32) -> u64 {
    match way {
        Way::Shared(segment, _) => segment.board().received(from, context.rank),
        Way::Sockets(_) => inbox.received(from),
    }
}

fn lost(segment: &Segment, context: &OpContext, what: &str, peer: u32) -> Option<Failure> {
    if let Some((code, detail)) = segment.status(context.rank) {
        return Some(Failure::new(code, detail).blaming(vec![context.rank]));
    }
    let reason = segment.absence(peer)?;
    Some(context.lost(what, &[peer], Some(reason)))
}

fn describe(call: &Call) -> String {
    let peer = call.peer.unwrap_or(0);
    match call.operation {
        Operation::WaitSignal if call.count == 1 => format!("a wait for a signal from rank {peer}"),
        Operation::WaitSignal => format!("a wait for {} signals from rank {peer}", call.count),
        Operation::Signal => format!("a signal to rank {peer}"),
        _ => format!("a put of {} {} to rank {peer}", call.count, call.datatype),
    }
}
