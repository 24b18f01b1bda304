//! The C function that called an operation: its return address, kept at the entry, and its name.

use std::arch::{asm, global_asm};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use dataplane::lock::RwLock;
use dataplane::site;
use object::{Object, ObjectKind, ObjectSymbol, ReadCache, SymbolKind};
use protocol::ids::SiteId;
use protocol::site::CallSite;

use super::cpp_name::demangled;

/// Where a program starts: the only frame left on its stack after `main` has returned.
const ENTRY: &str = "_start";
/// A larger file is not read for the name of a function, bytes.
const LARGEST: u64 = 64 << 20;

// One word per thread: the address to which the operation that a thread called last returns. Rust's own thread-locals cannot be
// reached from a function that must not touch its arguments' registers.
global_asm!(
    ".pushsection .tbss.ftest_caller,\"awT\",@nobits",
    ".p2align 3",
    ".globl ftest_caller",
    ".hidden ftest_caller",
    ".type ftest_caller, @object",
    ".size ftest_caller, 8",
    "ftest_caller:",
    ".zero 8",
    ".popsection",
);

/// The body of a naked function that saves its return address, then continues as `$inside` with all its arguments.
macro_rules! noted {
    ($inside:path) => {{
        #[cfg(target_arch = "x86_64")]
        core::arch::naked_asm!(
            "mov rax, qword ptr [rip + ftest_caller@GOTTPOFF]",
            "mov r11, qword ptr [rsp]",
            "mov qword ptr fs:[rax], r11",
            "jmp {}",
            sym $inside,
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::naked_asm!(
            "adrp x16, :gottprel:ftest_caller",
            "ldr x16, [x16, :gottprel_lo12:ftest_caller]",
            "mrs x17, tpidr_el0",
            "str x30, [x17, x16]",
            "b {}",
            sym $inside,
        );
    }};
}

pub(crate) use noted;

/// The return address of the operation that this thread called last; 0 before the first.
pub(super) fn address() -> usize {
    let address: usize;
    // SAFETY: reads the word above.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + ftest_caller@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) address,
            options(nostack, readonly, preserves_flags),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "adrp {0}, :gottprel:ftest_caller",
            "ldr {0}, [{0}, :gottprel_lo12:ftest_caller]",
            "mrs {1}, tpidr_el0",
            "ldr {0}, [{1}, {0}]",
            out(reg) address,
            out(reg) _,
            options(nostack, readonly, preserves_flags),
        );
    }
    address
}

/// The function that called the operation that this thread is in.
pub(super) fn site() -> SiteId {
    match address() {
        0 => SiteId::default(),
        address => within(address),
    }
}

/// The program's function that this thread is in: the innermost on its stack that is not ours. Requires a stack walk.
pub(super) fn on_stack() -> Option<SiteId> {
    address_on_stack().map(within).filter(|site| *site != SiteId::default())
}

/// Where in that function this thread is.
pub(super) fn address_on_stack() -> Option<usize> {
    let mut found = None;
    // SAFETY: the function calls `step` for each frame, with this argument, before it returns.
    unsafe { _Unwind_Backtrace(step, (&raw mut found).cast()) };
    found
}

/// The function around the call that returns to `address`. Finding it requires the loader's tables, and often a file.
fn within(address: usize) -> SiteId {
    SITES.get(address, || {
        let found = find(address).filter(|found| found.function.as_deref() != Some(ENTRY));
        found.map_or_else(SiteId::default, |found| site::number(found.site()))
    })
}

/// Whether the code at `address` may be the program's: it is neither ours nor the system's. `None` if it is in no file.
fn is_of_the_program(address: usize) -> Option<bool> {
    OWNERS.get(address, || {
        let own = loaded(on_stack as *const () as usize)?.dli_fbase;
        let info = loaded(address)?;
        Some(info.dli_fbase != own && !is_of_the_system(&text(info.dli_fname)))
    })
}

static SITES: ByAddress<SiteId> = ByAddress::new();
static OWNERS: ByAddress<Option<bool>> = ByAddress::new();

/// Whether no thread holds what is known about addresses.
pub(super) fn is_free() -> bool {
    SITES.is_free() && OWNERS.is_free()
}

/// Results about code addresses, each looked up once.
struct ByAddress<T>(OnceLock<RwLock<HashMap<usize, T>>>);

impl<T: Copy> ByAddress<T> {
    const fn new() -> ByAddress<T> {
        ByAddress(OnceLock::new())
    }

    fn is_free(&self) -> bool {
        self.0.get().is_none_or(|known| known.try_write().is_some())
    }

    fn get(&self, address: usize, find: impl FnOnce() -> T) -> T {
        let known = self.0.get_or_init(|| RwLock::new(HashMap::new()));
        // The lock is free again while the answer is looked for.
        let before = known.read().get(&address).copied();
        before.unwrap_or_else(|| {
            let found = find();
            known.write().insert(address, found);
            found
        })
    }
}

// The unwinder of the Itanium C++ ABI, which Rust's standard library is linked with.
unsafe extern "C" {
    fn _Unwind_Backtrace(step: extern "C" fn(*mut c_void, *mut c_void) -> c_int, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// 0 to go on (`_URC_NO_REASON`), anything else to end the walk.
extern "C" fn step(frame: *mut c_void, found: *mut c_void) -> c_int {
    // SAFETY: the frame that the unwinder is at.
    let address = unsafe { _Unwind_GetIP(frame) };
    match is_of_the_program(address) {
        Some(false) => return 0,
        // SAFETY: the argument of `on_stack`.
        Some(true) => unsafe { *found.cast::<Option<usize>>() = Some(address) },
        None => (),
    }
    1
}

/// The C library and the loader, which start threads and call exit handlers.
fn is_of_the_system(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ["libc.so", "libc-", "libpthread", "ld-linux"].iter().any(|start| name.starts_with(start))
}

/// The path of the library or program that contains the code at `address`. Its file is not read.
pub(super) fn library(address: usize) -> Option<String> {
    Some(text(loaded(address)?.dli_fname))
}

/// The location of an address.
struct Found {
    path: String,
    /// From the start of the library or program.
    offset: usize,
    function: Option<String>,
}

impl Found {
    fn site(self) -> CallSite {
        let file = self.path.rsplit('/').next().unwrap_or_default().to_owned();
        let function = self.function.unwrap_or_else(|| format!("+{:#x}", self.offset));
        // Exact within 4 GiB.
        CallSite::new(file, 0, function).with_place(self.offset as u32)
    }
}

/// What the loader knows about the call that returns to `address`.
fn find(address: usize) -> Option<Found> {
    // The call itself: what it returns to may belong to the next function.
    let call = address.checked_sub(1)?;
    let info = loaded(call)?;
    let path = text(info.dli_fname);
    let offset = call.wrapping_sub(info.dli_fbase as usize);
    let function = if info.dli_sname.is_null() {
        in_symbol_table(&path, call, offset)
    } else {
        // SAFETY: a string of the loader's, as in `text`.
        Some(demangled(unsafe { CStr::from_ptr(info.dli_sname) }.to_bytes()))
    };
    Some(Found { path, offset, function })
}

/// The library or program around `address`, if it has a name.
fn loaded(address: usize) -> Option<libc::Dl_info> {
    // SAFETY: plain data, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for.
    let found = unsafe { libc::dladdr(address as *const c_void, &raw mut info) } != 0;
    (found && !info.dli_fname.is_null()).then_some(info)
}

/// A string of the loader's.
fn text(text: *const c_char) -> String {
    // SAFETY: it lives as long as the library that it is about, which is in use.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The loader only knows exported functions; a program's own are in its file, unless it is stripped.
fn in_symbol_table(path: &str, address: usize, offset: usize) -> Option<String> {
    // The loader has the name by which the program was started.
    let path = if path.starts_with('/') { path } else { "/proc/self/exe" };
    let length = std::fs::metadata(path).ok()?.len();
    if length > LARGEST {
        return None;
    }
    // Its headers and its symbols are read, not its code and debug information: every rank does this.
    let parts = ReadCache::new(std::fs::File::open(path).ok()?);
    let file = object::File::parse(&parts).ok()?;
    let at = if file.kind() == ObjectKind::Executable { address } else { offset } as u64;
    let symbol = file.symbols().find(|symbol| {
        symbol.kind() == SymbolKind::Text && (symbol.address()..symbol.address() + symbol.size()).contains(&at)
    })?;
    Some(demangled(symbol.name_bytes().ok()?))
}
