//! The messages from one rank to another: small ones travel in a slot; large ones are offered, then claimed or
//! withdrawn.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use protocol::record::ErrorCode;

use crate::call::{Call, Place};
use crate::failure::{code_of, number_of};
use crate::operation::transfer::EAGER_BYTES;
use crate::shared::segment::Line;

/// Maximum number of messages under way from one rank to another before the sender waits.
pub(crate) const RING_SLOTS: u64 = 8;

/// The messages from one rank to another, in order. One writer, one reader.
#[repr(C, align(128))]
pub(crate) struct Ring {
    /// Messages announced by the sender.
    pub(crate) head: Line<AtomicU64>,
    /// Messages taken by the receiver.
    pub(crate) tail: Line<AtomicU64>,
    slots: [MessageSlot; RING_SLOTS as usize],
}

/// An announced message.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Message {
    pub(crate) count: u64,
    pub(crate) datatype: i32,
    /// 1 if the payload is in the slot.
    pub(crate) eager: u32,
    pub(crate) place: Place,
    pub(crate) address: u64,
    /// See [`Call::ready_ns`].
    pub(crate) ready_ns: u64,
}

#[repr(C, align(128))]
struct MessageSlot {
    message: UnsafeCell<Message>,
    /// The receiver's answer: 0 taken, else the kind of mismatch.
    answer: AtomicU32,
    /// The state of a payload that is not in the slot: [`OFFERED`], [`CLAIMED`] or [`WITHDRAWN`].
    payload_state: AtomicU32,
    /// See [`Call::ready_ns`].
    receiver_ready_ns: AtomicU64,
    /// The receiver's count and datatype, for the sender's message.
    receiver_count: AtomicU64,
    receiver_datatype: AtomicU32,
    payload: Line<UnsafeCell<[u8; EAGER_BYTES]>>,
}

/// The receiver may claim the payload.
const OFFERED: u32 = 0;
/// The receiver is copying it: the sender waits until the receiver has taken the message.
const CLAIMED: u32 = 1;
/// The sender left: the buffer no longer holds its message.
const WITHDRAWN: u32 = 2;

const _: () = assert!(size_of::<MessageSlot>() == 128 + EAGER_BYTES);
const _: () = assert!(size_of::<Ring>() == 256 + RING_SLOTS as usize * size_of::<MessageSlot>());

impl Ring {
    fn slot(&self, index: u64) -> &MessageSlot {
        &self.slots[(index % RING_SLOTS) as usize]
    }

    /// Announces message number `index`. Only the sender calls this, and only when the ring has room.
    ///
    /// # Safety
    /// `payload` is readable for `bytes`, which travel along if there are any.
    pub(crate) unsafe fn announce(&self, index: u64, message: Message, payload: *const u8, bytes: usize) {
        assert!(bytes <= EAGER_BYTES);
        let slot = self.slot(index);
        // SAFETY: the ring has room, so the receiver is done with this slot.
        unsafe {
            slot.message.get().write(message);
            if bytes > 0 {
                std::ptr::copy_nonoverlapping(payload, slot.payload.0.get().cast::<u8>(), bytes);
            }
        }
        slot.answer.store(0, Ordering::Relaxed);
        slot.payload_state.store(OFFERED, Ordering::Relaxed);
        self.head.0.store(index + 1, Ordering::Release);
    }

    /// Message number `index` and where an eager payload is. Only the receiver calls this, once it is announced.
    pub(crate) fn message(&self, index: u64) -> (Message, *const u8) {
        let slot = self.slot(index);
        // SAFETY: announced, hence written, and left alone until it is taken.
        (unsafe { slot.message.get().read() }, slot.payload.0.get().cast::<u8>().cast_const())
    }

    /// Makes the sender of message `index` wait until the message is taken; false if it has left. Only the receiver calls this.
    pub(crate) fn claim(&self, index: u64) -> bool {
        let state = &self.slot(index).payload_state;
        state.compare_exchange(OFFERED, CLAIMED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// True if the sender of message `index` has left.
    pub(crate) fn is_withdrawn(&self, index: u64) -> bool {
        self.slot(index).payload_state.load(Ordering::Acquire) == WITHDRAWN
    }

    /// Withdraws message `index` from the receiver; false if the receiver has already claimed it. Only the sender calls
    /// this.
    pub(crate) fn withdraw(&self, index: u64) -> bool {
        let state = &self.slot(index).payload_state;
        state.compare_exchange(OFFERED, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes message `index`, with an answer for the sender.
    pub(crate) fn take(&self, index: u64, mismatch: Option<ErrorCode>, call: &Call) {
        let slot = self.slot(index);
        slot.receiver_count.store(call.count, Ordering::Relaxed);
        slot.receiver_datatype.store(call.datatype.code() as u32, Ordering::Relaxed);
        slot.receiver_ready_ns.store(call.ready_ns, Ordering::Relaxed);
        slot.answer.store(mismatch.map_or(0, number_of), Ordering::Relaxed);
        self.tail.0.store(index + 1, Ordering::Release);
    }

    /// The receiver's answer to a taken message: when it was ready, and the mismatch with its count and datatype.
    pub(crate) fn answer(&self, index: u64) -> (u64, Option<(ErrorCode, u64, i32)>) {
        let slot = self.slot(index);
        let number = slot.answer.load(Ordering::Relaxed);
        let mismatch = (number != 0).then(|| {
            let count = slot.receiver_count.load(Ordering::Relaxed);
            (code_of(number), count, slot.receiver_datatype.load(Ordering::Relaxed) as i32)
        });
        (slot.receiver_ready_ns.load(Ordering::Relaxed), mismatch)
    }
}
