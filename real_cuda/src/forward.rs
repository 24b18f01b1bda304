//! Calls that go to another library unchanged, whatever their arguments: each name is a few instructions that jump through a
//! slot. The first call fills it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Finds the code for a name; if there is none, code that returns an error.
pub(crate) type Find = fn(&'static str) -> usize;

/// Where calls of one name go. The code below knows that the address comes first.
#[repr(C)]
pub(crate) struct Slot {
    address: AtomicUsize,
    name: &'static str,
    find: Find,
}

impl Slot {
    pub(crate) const fn new(name: &'static str, find: Find) -> Self {
        Self { address: AtomicUsize::new(0), name, find }
    }
}

/// After a panic: `CUDA_ERROR_UNKNOWN`, which is also `NVML_ERROR_UNKNOWN`.
unsafe extern "C" fn broken() -> u32 {
    abi::cuda::CudaError::UNKNOWN.0
}

/// Fills a slot and returns its address.
unsafe extern "C" fn fill(slot: &Slot) -> usize {
    let address = std::panic::catch_unwind(|| (slot.find)(slot.name)).unwrap_or(broken as *const () as usize);
    slot.address.store(address, Ordering::Release);
    address
}

/// Preserves a C function's register arguments while the slot is filled, then jumps to it. The slot is in `r11`, or `x16`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn first() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "sub rsp, 136",
        "movups [rsp], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "mov rdi, r11",
        "call {fill}",
        "mov r11, rax",
        "movups xmm0, [rsp]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "add rsp, 136",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "jmp r11",
        fill = sym fill,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-208]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "stp q0, q1, [sp, #80]",
        "stp q2, q3, [sp, #112]",
        "stp q4, q5, [sp, #144]",
        "stp q6, q7, [sp, #176]",
        "mov x0, x16",
        "bl {fill}",
        "mov x16, x0",
        "ldp q6, q7, [sp, #176]",
        "ldp q4, q5, [sp, #144]",
        "ldp q2, q3, [sp, #112]",
        "ldp q0, q1, [sp, #80]",
        "ldp x6, x7, [sp, #64]",
        "ldp x4, x5, [sp, #48]",
        "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #208",
        "br x16",
        fill = sym fill,
    );
}

/// Names that are forwarded unchanged to the code that `$find` finds.
macro_rules! forwarded {
    (to $find:path; $($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            static SLOT: $crate::forward::Slot = $crate::forward::Slot::new(stringify!($name), $find);
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "lea r11, [rip + {slot}]",
                "mov r10, [r11]",
                "test r10, r10",
                "jz {first}",
                "jmp r10",
                slot = sym SLOT,
                first = sym $crate::forward::first,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "adrp x16, {slot}",
                "add x16, x16, :lo12:{slot}",
                "ldr x17, [x16]",
                "cbz x17, 1f",
                "br x17",
                "1: b {first}",
                slot = sym SLOT,
                first = sym $crate::forward::first,
            );
        }
    )*};
}

pub(crate) use forwarded;
