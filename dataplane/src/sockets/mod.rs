//! Bytes over direct connections between ranks.

pub(crate) mod channel;
mod collectives;
pub(crate) mod connect;
mod greeter;
mod hello;
mod inbox;
pub(crate) mod listener;
mod mesh;
mod one_sided;
pub(crate) mod path;
mod put_link;
mod request;
mod socket;
mod transfers;
pub(crate) mod trust;
pub(crate) mod wire;

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use protocol::record::{BufferTransport, ErrorCode, PathRecord};

use crate::call::{Buffer, Call};
use crate::failure::{Failure, name_ranks};
use crate::lock::Mutex;
use crate::operation::context::OpContext;
use crate::operation::one_sided::{Counts, PeerWindow, run};
use crate::operation::timing::Timing;
use crate::refusal;
use crate::settings::Settings;
use crate::transport::Transport;
use crate::wake::Wake;
use inbox::Inbox;
use listener::Listener;
use mesh::{Mesh, Stop};
use one_sided::SocketPath;
use put_link::{Caller, Link};

/// Connections on which ranks agree on how to move bytes.
const SETUP_CHANNEL: u8 = 255;

/// Sockets as one rank of a communicator uses them.
pub(crate) struct Sockets {
    communicator: u64,
    rank: u32,
    chunk_bytes: usize,
    max_bytes: Option<usize>,
    listener: Arc<Listener>,
    inbox: Arc<Inbox>,
    running: Mutex<Running>,
}

/// State that only the running operation touches.
struct Running {
    mesh: Mesh,
    transfers: transfers::Memory,
    one_sided: Counts,
    /// Connections for puts and signals that this rank made.
    links: HashMap<u32, Link>,
}

impl Sockets {
    /// The sockets of `rank` in `communicator`, which ring `wake` when something comes.
    pub(crate) fn new(
        communicator: u64,
        rank: u32,
        settings: &Settings,
        listener: &Arc<Listener>,
        wake: &Arc<Wake>,
    ) -> Self {
        listener.watch(communicator, rank, wake);
        let mesh = Mesh::new(communicator, settings.chunk_bytes, Arc::clone(listener));
        Self {
            communicator,
            rank,
            chunk_bytes: settings.chunk_bytes,
            max_bytes: settings.max_bytes,
            listener: Arc::clone(listener),
            inbox: Inbox::new(Arc::clone(wake), settings.timeout),
            running: Mutex::new(Running {
                mesh,
                transfers: transfers::Memory::default(),
                one_sided: Counts::default(),
                links: HashMap::new(),
            }),
        }
    }

    /// Takes the puts and signals of other ranks from now on.
    pub(crate) fn take_puts(&self) {
        self.listener.take_puts(self.communicator, self.rank, &self.inbox);
    }

    /// Whether all ranks answer `yes`: every rank asks rank 0, which also keeps rank 0 alive until all have asked.
    ///
    /// # Errors
    /// A lost rank or the deadline.
    pub(crate) fn all_say(&self, context: &OpContext, yes: bool) -> Result<bool, Failure> {
        let mesh = &mut self.running().mesh;
        let stopped = |stop: Stop| {
            stop.failure(context, "setting up the communicator", |missing| {
                let detail = format!(
                    "rank {} waited {} ms for {} to set up the communicator",
                    context.rank,
                    context.timeout_ms(),
                    name_ranks(&missing)
                );
                Failure::new(ErrorCode::TimeoutWaitingForRanks, detail).blaming(missing)
            })
        };
        let mut all = yes;
        refusal::make_room_for(context.size as usize);
        if self.rank == 0 {
            let answers: Vec<_> = (1..context.size).map(|other| mesh.receive_own(other, SETUP_CHANNEL, 1)).collect();
            mesh.finish(context).map_err(stopped)?;
            for answer in answers {
                all &= mesh.taken(answer) == [1];
            }
            for other in 1..context.size {
                mesh.send_own(other, SETUP_CHANNEL, vec![u8::from(all)]);
            }
            mesh.finish(context).map_err(stopped)?;
        } else {
            mesh.send_own(0, SETUP_CHANNEL, vec![u8::from(yes)]);
            let answer = mesh.receive_own(0, SETUP_CHANNEL, 1);
            mesh.finish(context).map_err(stopped)?;
            all = mesh.taken(answer) == [1];
        }
        mesh.hang_up(SETUP_CHANNEL);
        Ok(all)
    }

    /// The measurements so far of the connections to ranks on other nodes. Empty while an operation runs.
    pub(crate) fn paths(&self, context: &OpContext) -> Vec<PathRecord> {
        self.running.try_lock().map(|running| running.mesh.paths(context)).unwrap_or_default()
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock()
    }

    fn refuse_large_pieces(&self, context: &OpContext, call: &Call) -> Result<(), Failure> {
        let piece = call.send_bytes(self.rank, context.size).min(self.chunk_bytes);
        match self.max_bytes {
            Some(max) if piece > max && context.size > 1 => Err(Failure::new(
                ErrorCode::InvalidArgument,
                format!(
                    "a piece of {piece} bytes exceeds FAKEGPU_STAGING_MAX_BYTES={max}; \
                     lower FAKEGPU_STAGING_CHUNK_BYTES (now {}) to {max} or raise the limit",
                    self.chunk_bytes
                ),
            )),
            _ => Ok(()),
        }
    }
}

impl Transport for Sockets {
    fn kind(&self) -> BufferTransport {
        BufferTransport::SocketPayload
    }

    fn collective(&self, context: &OpContext, call: &Call) -> Result<Timing, Failure> {
        self.refuse_large_pieces(context, call)?;
        collectives::run(&mut self.running().mesh, context, call)
    }

    fn transfers(&self, context: &OpContext, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        calls.iter().try_for_each(|call| self.refuse_large_pieces(context, call))?;
        let Running { mesh, transfers, .. } = &mut *self.running();
        transfers::run(mesh, transfers, context, calls)
    }

    fn one_sided(&self, context: &OpContext, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        let Running { one_sided, links, .. } = &mut *self.running();
        let caller = Caller { communicator: self.communicator, trust: &self.listener.trust };
        run(&mut SocketPath { caller, inbox: &self.inbox, links }, one_sided, context, calls)
    }

    fn register_window(&self, buffer: Buffer, bytes: u64) -> Result<u64, Failure> {
        Ok(self.inbox.register(buffer.address as usize, bytes))
    }

    fn deregister_window(&self, number: u64) {
        self.inbox.deregister(number);
    }

    fn peer_window(&self, _: &OpContext, _: u64, _: u32) -> Result<Option<PeerWindow>, Failure> {
        Ok(None)
    }

    /// Nothing to do: operations look at the communicator's losses.
    fn lose(&self, _: u32, _: ErrorCode, _: &str) {}

    fn fail(&self, context: &OpContext, code: ErrorCode, detail: &str) {
        if code == ErrorCode::Revoked {
            self.running().mesh.clear();
            return;
        }
        self.running().mesh.close(context, code, detail);
        self.inbox.close(code, detail);
    }

    fn stop(&self, context: &OpContext, code: ErrorCode, detail: &str, idle: bool) {
        if code == ErrorCode::Revoked {
            return;
        }
        self.inbox.close(code, detail);
        if idle {
            self.running().mesh.close(context, code, detail);
        }
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.listener.forget(self.communicator, self.rank);
    }
}
