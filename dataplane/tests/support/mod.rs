//! Ranks as threads, each with a memory arena of its own.
#![expect(unsafe_code, reason = "reads and writes test buffers")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dataplane::Failure;
use dataplane::arena::Arena;
use dataplane::call::{Buffer, Call, Place};
use dataplane::communicator::Communicator;
use dataplane::process::{Participant, Process};
use dataplane::settings::Settings;
use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::message::SharedFile;
use protocol::record::BufferTransport;

/// Ways of moving bytes that every test goes through.
pub(crate) fn ways() -> [Settings; 2] {
    let shared = Settings { timeout: Duration::from_secs(20), ..Settings::default() };
    let sockets = Settings { force_sockets: true, chunk_bytes: 1000, ..shared.clone() };
    [shared, sockets]
}

/// One rank of a test.
pub(crate) struct Player {
    pub(crate) process: Arc<Process>,
    pub(crate) communicator: Arc<Communicator>,
    pub(crate) arena: Arena,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    used: AtomicU64,
}

impl Player {
    pub(crate) fn new(process: Arc<Process>, id: &[u8], size: usize, rank: usize) -> Result<Self, Failure> {
        let arena = Arena::create("test arena", 1 << 30).unwrap();
        let file = SharedFile { fd: arena.fd(), length: arena.length() as u64 };
        let participant = Participant {
            global_rank: rank as u32,
            device: 0,
            gpu: rank as u64,
            arena: Some(file),
            site: Default::default(),
            is_only: false,
        };
        let communicator = process.init_communicator(id, size as u32, rank as u32, participant)?;
        let sockets = process.settings().force_sockets;
        assert_eq!(communicator.transport() == BufferTransport::SocketPayload, sockets, "bytes take the way asked for");
        Ok(Self { process, communicator, arena, rank, size, used: AtomicU64::new(64) })
    }

    pub(crate) fn participant(&self) -> Participant {
        let file = SharedFile { fd: self.arena.fd(), length: self.arena.length() as u64 };
        Participant {
            global_rank: self.rank as u32,
            device: 0,
            gpu: self.rank as u64,
            arena: Some(file),
            site: Default::default(),
            is_only: false,
        }
    }

    /// Memory of the arena.
    pub(crate) fn device(&self, bytes: usize) -> Buffer {
        let offset = self.used.fetch_add((bytes as u64 + 64).next_multiple_of(8), Ordering::Relaxed);
        assert!(offset + (bytes as u64) < self.arena.length() as u64);
        self.buffer_at(offset)
    }

    pub(crate) fn buffer_at(&self, offset: u64) -> Buffer {
        let place = Place {
            file_id: self.arena.file_id(),
            length: self.arena.length() as u64,
            offset,
            fd: self.arena.fd(),
            valid: 1,
        };
        // SAFETY: within the arena.
        Buffer { address: unsafe { self.arena.base().add(offset as usize) }, place: Some(place) }
    }

    pub(crate) fn offset(&self, buffer: Buffer, bytes: usize) -> Buffer {
        match buffer.place {
            Some(place) => self.buffer_at(place.offset + bytes as u64),
            None => Buffer::host(buffer.address.wrapping_add(bytes)),
        }
    }

    pub(crate) fn filled(&self, bytes: &[u8]) -> Buffer {
        let buffer = self.device(bytes.len());
        write(buffer, bytes);
        buffer
    }

    pub(crate) fn run(&self, calls: &[Call]) -> Result<(), Failure> {
        self.communicator.run(calls)
    }

    pub(crate) fn barrier(&self) -> Result<(), Failure> {
        self.run(&[Call::new(Operation::Barrier, 0, Datatype::Uint8)])
    }

    pub(crate) fn all_reduce(&self, values: &[i32]) -> Result<Vec<i32>, Failure> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let buffer = self.filled(&bytes);
        let mut call = Call::new(Operation::AllReduce, values.len() as u64, Datatype::Int32);
        call.reduction = Some(ReductionOp::Sum);
        (call.send, call.receive) = (buffer, buffer);
        self.run(&[call])?;
        Ok(read(buffer, bytes.len()).chunks(4).map(|four| i32::from_ne_bytes(four.try_into().unwrap())).collect())
    }

    pub(crate) fn send(&self, peer: usize, bytes: &[u8]) -> Call {
        let mut call = Call::new(Operation::Send, bytes.len() as u64, Datatype::Uint8);
        call.peer = Some(peer as u32);
        call.send = self.filled(bytes);
        call
    }

    pub(crate) fn receive(&self, peer: usize, bytes: usize) -> Call {
        let mut call = Call::new(Operation::Recv, bytes as u64, Datatype::Uint8);
        call.peer = Some(peer as u32);
        call.receive = self.device(bytes);
        call
    }
}

pub(crate) fn write(buffer: Buffer, bytes: &[u8]) {
    // SAFETY: the tests allocate what they write.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.address, bytes.len()) };
}

pub(crate) fn read(buffer: Buffer, bytes: usize) -> Vec<u8> {
    let mut result = vec![0; bytes];
    // SAFETY: the tests allocate what they read.
    unsafe { std::ptr::copy_nonoverlapping(buffer.address, result.as_mut_ptr(), bytes) };
    result
}

/// Plays `size` ranks as threads and returns what each of them returns, in rank order.
pub(crate) fn play<T: Send>(settings: &Settings, size: usize, part: impl Fn(&Player) -> T + Sync) -> Vec<T> {
    let process = Process::join(settings.clone()).unwrap();
    let part = &part;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let process = Arc::clone(&process);
                scope.spawn(move || part(&Player::new(process, b"the same id", size, rank).unwrap()))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
