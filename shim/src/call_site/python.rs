//! This thread's Python frames, read without the GIL, which PyTorch releases before it calls NCCL. They do not change while
//! their thread is in our call.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dataplane::site;
use protocol::ids::SiteId;
use protocol::site::CallSite;

use super::layout::{INSTRUCTION_BYTES, Innermost, Instruction, Layout, OWNED_BY_C, TAG_BITS, TYPE};
use super::{caller, layout, origin, peek, text};

/// Maximum number of frames examined: the user's is near the innermost.
const DEPTH: usize = 200;

/// The interpreter of this process.
struct Python {
    layout: Layout,
    /// `PyGILState_GetThisThreadState`
    thread: unsafe extern "C" fn() -> *mut c_void,
    /// `_Py_IsFinalizing`
    is_finalizing: unsafe extern "C" fn() -> c_int,
    /// `PyCode_Addr2Line`, which only reads the code object.
    line: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    /// `PyCode_Addr2Location`, likewise; from Python 3.11 on.
    location: Option<Location>,
    code_type: usize,
    text_type: usize,
}

/// Code object, offset of an instruction, and where to put first line, first column, last line, last column.
type Location = unsafe extern "C" fn(*mut c_void, c_int, *mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;

/// The directory of the PyTorch in this process, once one is known.
static FRAMEWORK: OnceLock<String> = OnceLock::new();

/// Code at `address` is PyTorch's, if it is in one of PyTorch's libraries.
pub(super) fn framework_at(address: usize) {
    if FRAMEWORK.get().is_none()
        && let Some(root) = caller::library(address).as_deref().and_then(origin::framework_of)
    {
        let _ = FRAMEWORK.set(root.to_owned());
    }
}

pub(super) fn has_framework() -> bool {
    FRAMEWORK.get().is_some()
}

/// Without the compute bridge, PyTorch is first seen when it calls NCCL.
fn framework() -> Option<&'static str> {
    framework_at(caller::address());
    FRAMEWORK.get().map(String::as_str)
}

/// Whether the structures did not match the version: then no lines are reported.
static IS_OFF: AtomicBool = AtomicBool::new(false);

fn python() -> Option<&'static Python> {
    static PYTHON: OnceLock<Option<Python>> = OnceLock::new();
    PYTHON.get_or_init(Python::find).as_ref().filter(|_| !IS_OFF.load(Ordering::Relaxed))
}

pub(super) fn is_there() -> bool {
    python().is_some()
}

/// The state of the main thread, once it has made a call.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// The file name of the frame in which a thread waits for a backward pass, once one has been seen.
static BACKWARD: AtomicUsize = AtomicUsize::new(0);

/// PyTorch's function that returns the number of the backward pass that a thread is working on, negative for none. No two passes
/// of a process have the same number.
pub(crate) type Pass = unsafe extern "C-unwind" fn() -> c_int;

static PASS: OnceLock<Pass> = OnceLock::new();

/// From now on, passes are identified by `function`.
pub(super) fn passes_by(function: Pass) {
    let _ = PASS.set(function);
}

/// The backward pass that this thread is working on.
pub(super) fn pass() -> Option<c_int> {
    // SAFETY: it reads a variable of the thread.
    PASS.get().map(|function| unsafe { function() }).filter(|pass| *pass >= 0)
}

thread_local! {
    // SAFETY: no preconditions.
    static IS_MAIN: bool = unsafe { libc::gettid() == libc::getpid() };
    /// The backward pass that this thread last worked on, and its line.
    static LAST_PASS: Cell<Option<(c_int, Option<SiteId>)>> = const { Cell::new(None) };
}

/// The site of this thread's innermost frame in user code, or of its innermost frame if there is none. For a Python thread
/// without frames, like those of PyTorch's backward passes, the site where the main thread waits for the pass. `None` for any
/// other thread.
pub(super) fn innermost() -> Option<SiteId> {
    of_this_thread().or_else(|| python()?.backward())
}

/// Where this thread's own frames are.
#[derive(Clone, Copy, Default)]
struct Own {
    /// Its innermost frame in user code.
    users: Option<SiteId>,
    /// Its innermost frame, if none is in user code.
    other: Option<SiteId>,
}

/// [`innermost`] at a cost that every operator can bear: the system calls to find a backward pass are made once per pass.
pub(super) fn of_this_thread() -> Option<SiteId> {
    let own = of_own_frames();
    // A hook of PyTorch's in a backward pass has frames, and none of them is the user's.
    let of_pass = || {
        let pass = pass()?;
        if let Some((_, site)) = LAST_PASS.get().filter(|(last, _)| *last == pass) {
            return site;
        }
        let site = python()?.backward();
        LAST_PASS.set(Some((pass, site)));
        site
    };
    own.users.or_else(of_pass).or(own.other)
}

/// Whether `is` holds for the file and function of any frame of this thread.
pub(super) fn is_within(is: impl Fn(&str, &str) -> bool) -> bool {
    let Some((python, thread)) = python().and_then(|python| Some((python, python.own_thread()?))) else { return false };
    let mut found = false;
    // SAFETY: the state of this thread; the code object is that of one of its frames.
    unsafe {
        python.each(thread, |frame| {
            let (file, name) = python.names(frame)?;
            found = is(&file, &name);
            Some(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
    }
    found
}

fn of_own_frames() -> Own {
    let here = || python().and_then(|python| Some((python, python.own_thread()?)));
    let Some((python, thread)) = here() else { return Own::default() };
    if IS_MAIN.try_with(|is_main| *is_main).unwrap_or(false) {
        MAIN.store(thread, Ordering::Relaxed);
    }
    // SAFETY: the state of this thread.
    let Some(own) = (unsafe { python.walk(thread) }) else {
        IS_OFF.store(true, Ordering::Relaxed);
        return Own::default();
    };
    if own.users.or(own.other).is_some() {
        peek::trust();
    }
    own
}

/// One frame.
#[derive(Clone, Copy)]
struct Frame {
    code: usize,
    /// Offset of its instruction from the first, bytes.
    offset: usize,
}

/// A frame whose site is known, as long as its code object is the same; the recorded fields would differ for a new object at
/// the same address.
#[derive(Clone, Copy, Default)]
struct Remembered {
    code: usize,
    offset: usize,
    filename: usize,
    name: usize,
    line_table: usize,
    site: Origin,
}

#[derive(Clone, Copy, Default)]
enum Origin {
    /// Not the user's.
    #[default]
    Foreign,
    Users(SiteId),
}

const REMEMBERED: usize = 64;

thread_local! {
    static CACHE: RefCell<Box<[Remembered; REMEMBERED]>> = RefCell::new(Box::new([Remembered::default(); REMEMBERED]));
}

impl Python {
    /// The interpreter, if the process has one of a version that we know.
    fn find() -> Option<Self> {
        // SAFETY: a C string.
        let symbol = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        let found = |name: &CStr| Some(symbol(name)).filter(|address| !address.is_null());
        let version = found(c"Py_GetVersion")?;
        // SAFETY: the names give the functions' types (CPython's C API); the version is a string of the interpreter's.
        unsafe {
            let version = transmute::<*mut c_void, extern "C" fn() -> *const c_char>(version)();
            let version = CStr::from_ptr(version).to_str().ok()?;
            let finalizing = found(c"Py_IsFinalizing").or_else(|| found(c"_Py_IsFinalizing"))?;
            Some(Self {
                layout: layout::for_version(version, symbol(c"_PyRuntime") as usize)?,
                thread: transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_void>(found(
                    c"PyGILState_GetThisThreadState",
                )?),
                is_finalizing: transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(finalizing),
                line: transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, c_int) -> c_int>(found(
                    c"PyCode_Addr2Line",
                )?),
                location: found(c"PyCode_Addr2Location").map(|address| transmute::<*mut c_void, Location>(address)),
                code_type: found(c"PyCode_Type")? as usize,
                text_type: found(c"PyUnicode_Type")? as usize,
            })
        }
    }

    /// The state of this thread, if it runs Python.
    fn own_thread(&self) -> Option<usize> {
        // SAFETY: both only read variables of the interpreter and of this thread.
        let thread = unsafe {
            // The states of threads are being freed.
            if (self.is_finalizing)() != 0 {
                return None;
            }
            (self.thread)()
        };
        (!thread.is_null()).then_some(thread as usize)
    }

    /// Looks for the user's frame. `None` if the structures do not match the layout.
    ///
    /// # Safety
    /// `thread` is the state of the calling thread, or of one that waits for it.
    unsafe fn walk(&self, thread: usize) -> Option<Own> {
        let (mut users, mut first) = (None, None);
        // SAFETY: the caller's promise.
        let is_sound = unsafe {
            self.each(thread, |frame| {
                Some(match self.place(frame)? {
                    Origin::Users(site) => {
                        users = Some(site);
                        ControlFlow::Break(())
                    }
                    Origin::Foreign => {
                        first = first.or(Some(frame));
                        ControlFlow::Continue(())
                    }
                })
            })
        };
        let other = || first.and_then(|frame| self.site(frame)).filter(|_| users.is_none());
        is_sound.then(|| Own { users, other: other() })
    }

    /// Visits frames, innermost first, until `look` breaks; false if the structures do not match the layout, or `look` finds that
    /// they do not.
    ///
    /// # Safety
    /// `thread` is the state of the calling thread, or of one that waits for it.
    unsafe fn each(&self, thread: usize, mut look: impl FnMut(Frame) -> Option<ControlFlow<()>>) -> bool {
        // SAFETY: the caller's promise; every frame is reached from the one before it.
        unsafe {
            let Some(mut frame) = self.innermost_frame(thread, |address| peek::word(address)) else {
                return false;
            };
            for _ in 0..DEPTH {
                if frame == 0 {
                    break;
                }
                let (Some(code), Some(previous)) =
                    (peek::word(frame + self.layout.code), peek::word(frame + self.layout.previous))
                else {
                    return false;
                };
                let code = code & !TAG_BITS;
                let owner = self.layout.owner.map(|owner| peek::byte(frame + owner));
                let is_entry = owner.is_some_and(|owner| owner == Some(OWNED_BY_C));
                // An entry of the interpreter has code that is none of a program's, no code, or None.
                if !is_entry && code != 0 && peek::word(code + TYPE) == Some(self.code_type) {
                    match self.frame(frame, code).and_then(&mut look) {
                        Some(ControlFlow::Continue(())) => {}
                        Some(ControlFlow::Break(())) => return true,
                        None => return false,
                    }
                }
                frame = previous;
            }
        }
        true
    }

    fn innermost_frame(&self, thread: usize, word: impl Fn(usize) -> Option<usize>) -> Option<usize> {
        match self.layout.innermost {
            Innermost::State(frame) => word(thread + frame),
            Innermost::CFrame(holder, frame) => word(word(thread + holder)? + frame),
        }
    }

    /// Where the main thread calls the backward pass that it waits for, if it does. Its frames do not change until the pass is
    /// over, which is not before this thread has returned.
    fn backward(&self) -> Option<SiteId> {
        let thread = Some(MAIN.load(Ordering::Relaxed)).filter(|thread| *thread != 0 && peek::is_trusted())?;
        // It may be anywhere: until it is known to wait, what is read may be gone.
        let frame = self.innermost_frame(thread, peek::checked)?;
        let code = peek::checked(frame + self.layout.code)? & !TAG_BITS;
        let is_code = peek::checked(code + TYPE) == Some(self.code_type);
        let file = peek::checked(code + self.layout.filename).filter(|_| is_code)?;
        if BACKWARD.load(Ordering::Relaxed) != file {
            let is_text = peek::checked(file + TYPE) == Some(self.text_type);
            let waits = text::read(&self.layout, file).is_some_and(|file| origin::waits_for_backward(&file));
            if !(is_text && waits) {
                return None;
            }
            BACKWARD.store(file, Ordering::Relaxed);
        }
        // SAFETY: the main thread's state is freed last of all, and its frames stay as they are while it waits for this thread.
        let own = unsafe { self.walk(thread) }?;
        own.users.or(own.other)
    }

    unsafe fn frame(&self, frame: usize, code: usize) -> Option<Frame> {
        // SAFETY: the caller's promise.
        let offset = unsafe {
            match self.layout.instruction {
                Instruction::Number(at) => peek::half(frame + at)? as i32 as usize * INSTRUCTION_BYTES,
                Instruction::Address(at) => peek::word(frame + at)?.wrapping_sub(code + self.layout.start),
            }
        };
        Some(Frame { code, offset })
    }

    /// The owner and site of a frame. `None` if its code object is not one.
    ///
    /// # Safety
    /// The code object is that of a frame of this thread.
    unsafe fn place(&self, frame: Frame) -> Option<Origin> {
        // SAFETY: the caller's promise.
        let (filename, name, line_table) = unsafe {
            (
                peek::word(frame.code + self.layout.filename)?,
                peek::word(frame.code + self.layout.name)?,
                peek::word(frame.code + self.layout.line_table)?,
            )
        };
        let Frame { code, offset } = frame;
        let slot = ((code / 16) ^ offset) % REMEMBERED;
        let known = |entry: &Remembered| {
            (entry.code, entry.offset, entry.filename, entry.name, entry.line_table)
                == (code, offset, filename, name, line_table)
        };
        // After the thread's values were destroyed there is no cache.
        let hit = CACHE.try_with(|cache| Some(cache.borrow()[slot]).filter(known));
        if let Ok(Some(entry)) = hit {
            return Some(entry.site);
        }
        let file = self.text(filename)?;
        let is_users = origin::is_users(&file, framework()) && !origin::is_generated(&file, &self.text(name)?);
        let site = if is_users { Origin::Users(self.site(frame)?) } else { Origin::Foreign };
        let entry = Remembered { code, offset, filename, name, line_table, site };
        let _ = CACHE.try_with(|cache| cache.borrow_mut()[slot] = entry);
        Some(site)
    }

    /// The file and the function of a frame.
    fn names(&self, Frame { code, .. }: Frame) -> Option<(String, String)> {
        // SAFETY: both are in the code object of a frame of this thread, which keeps it alive.
        let (file, name) = unsafe { (peek::word(code + self.layout.filename)?, peek::word(code + self.layout.name)?) };
        Some((self.text(file)?, self.text(name)?))
    }

    /// The number of a frame's site.
    fn site(&self, frame: Frame) -> Option<SiteId> {
        let (file, name) = self.names(frame)?;
        let Frame { code, offset } = frame;
        // Before its first instruction a frame is at a negative offset, for which the answer is the function's first line.
        let offset = c_int::try_from(offset as isize).ok()?;
        // SAFETY: a code object, by its type, that a frame of this thread keeps alive; it is only read.
        let line = unsafe { (self.line)(code as *mut c_void, offset) };
        let site = CallSite::new(file, u32::try_from(line).unwrap_or(0), name);
        Some(site::number(site.with_place(self.columns(code, offset).unwrap_or(0))))
    }

    /// First and last column of an instruction, as one number. Its offset would not do: a `finally` has two copies of its code.
    fn columns(&self, code: usize, offset: c_int) -> Option<u32> {
        let location = self.location?;
        let [mut line, mut first, mut end, mut last] = [-1; 4];
        // SAFETY: as in `site`; the numbers outlive the call.
        unsafe { location(code as *mut c_void, offset, &raw mut line, &raw mut first, &raw mut end, &raw mut last) };
        let of = |column: c_int| u32::try_from(column).ok().map(|column| (column + 1) & 0xffff);
        Some(of(first)? << 16 | of(last)?)
    }

    /// The text of the string at `address`.
    fn text(&self, address: usize) -> Option<String> {
        // SAFETY: what a code object of this thread refers to, which it keeps alive.
        let kind = unsafe { peek::word(address + TYPE)? };
        (kind == self.text_type).then(|| text::read(&self.layout, address))?
    }
}
