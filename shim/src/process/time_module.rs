//! Python's module `time` under another clock. The functions themselves are changed, not the module's attributes, so that
//! `from time import perf_counter` at the top of a program has the other clock as well. Who asks decides: what waits by the
//! clock (locks, queues, sockets, data loaders, launchers) keeps real time.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::python;

/// The clock of the program, and what its sleep adds to it; nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    /// The time by one of libc's clocks, `CLOCK_REALTIME` or `CLOCK_MONOTONIC`.
    pub(crate) now: fn(libc::clockid_t) -> u64,
    /// The program has slept.
    pub(crate) slept: fn(u64),
}

/// Modules whose code waits by the clock, with all below them. They also need what other processes and the kernel agree on.
const WAIT: &[&str] = &[
    "_pytest",
    "asyncio",
    "concurrent",
    "filelock",
    "fsspec",
    "grpc",
    "http",
    "importlib",
    "logging",
    "multiprocessing",
    "multiprocess",
    "portalocker",
    "queue",
    "ray",
    "requests",
    "sched",
    "selectors",
    "signal",
    "socket",
    "socketserver",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "torch.distributed",
    "torch.multiprocessing",
    "torch.utils.data",
    "urllib3",
    "uuid",
    "xmlrpc",
    "ftest",
];

type Object = *mut c_void;
type Method = unsafe extern "C" fn(Object, Object) -> Object;

/// `PyMethodDef`
#[repr(C)]
struct Definition {
    name: *const c_char,
    function: Option<Method>,
    flags: c_int,
    doc: *const c_char,
}

macro_rules! api {
    ($($field:ident: $type:ty = $name:literal;)*) => {
        /// Functions of CPython's C API.
        struct Api {
            $($field: $type,)*
        }

        impl Api {
            fn find() -> Option<Self> {
                let symbol = |name: &CStr| {
                    // SAFETY: a C string.
                    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
                    (!symbol.is_null()).then_some(symbol)
                };
                // SAFETY: the types that CPython's C API gives these functions.
                unsafe { Some(Self { $($field: transmute::<*mut c_void, $type>(symbol($name)?),)* }) }
            }
        }
    };
}

api! {
    import: unsafe extern "C" fn(*const c_char) -> Object = c"PyImport_ImportModule";
    attribute: unsafe extern "C" fn(Object, *const c_char) -> Object = c"PyObject_GetAttrString";
    method: unsafe extern "C" fn(Object) -> Option<Method> = c"PyCFunction_GetFunction";
    globals: unsafe extern "C" fn() -> Object = c"PyEval_GetGlobals";
    item: unsafe extern "C" fn(Object, *const c_char) -> Object = c"PyDict_GetItemString";
    text: unsafe extern "C" fn(Object) -> *const c_char = c"PyUnicode_AsUTF8";
    float: unsafe extern "C" fn(f64) -> Object = c"PyFloat_FromDouble";
    integer: unsafe extern "C" fn(u64) -> Object = c"PyLong_FromUnsignedLongLong";
    number: unsafe extern "C" fn(Object) -> f64 = c"PyFloat_AsDouble";
    clear: unsafe extern "C" fn() = c"PyErr_Clear";
    end: unsafe extern "C" fn(Object) = c"Py_DecRef";
}

impl Api {
    /// Whether the code that calls waits by the clock.
    fn waits(&self) -> bool {
        // SAFETY: Python calls with the GIL held; both results are borrowed, and the text lives as long as the module's name.
        unsafe {
            let globals = (self.globals)();
            if globals.is_null() {
                return true;
            }
            let name = (self.item)(globals, c"__name__".as_ptr());
            let text = if name.is_null() { std::ptr::null() } else { (self.text)(name) };
            if text.is_null() {
                (self.clear)();
                return true;
            }
            waits(CStr::from_ptr(text).to_str().unwrap_or_default())
        }
    }
}

fn waits(module: &str) -> bool {
    let is_below =
        |parent: &str| module.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    WAIT.iter().any(|parent| is_below(parent))
}

static API: OnceLock<Api> = OnceLock::new();
static CLOCK: OnceLock<Clock> = OnceLock::new();

/// Changes the module in this process, if it is Python, when its main thread next runs Python code.
pub(crate) fn follow(clock: Clock) {
    if CLOCK.set(clock).is_ok() {
        python::call_soon(install);
    }
}

unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    python::guarded(|| {
        let Some(api) = Api::find() else { return };
        let api = API.get_or_init(|| api);
        for changed in &FUNCTIONS {
            // SAFETY: Python calls this function with the GIL held.
            unsafe { change(api, changed) };
        }
    });
    0
}

/// One function of the module.
struct Changed {
    name: &'static CStr,
    instead: Method,
    /// CPython's own.
    own: AtomicUsize,
}

/// # Safety
/// The thread holds the GIL.
unsafe fn change(api: &Api, changed: &Changed) {
    /// Words of an object among which its definition is: the header of a build without the GIL has four.
    const WORDS: usize = 6;
    // SAFETY: a function object of C has its definition within its first words, and both its name and its function are
    // compared before anything is written. The module and the function live as long as the interpreter.
    unsafe {
        let module = (api.import)(c"time".as_ptr());
        let function = if module.is_null() { null_mut() } else { (api.attribute)(module, changed.name.as_ptr()) };
        let own = if function.is_null() { None } else { (api.method)(function) };
        let Some(own) = own else {
            return (api.clear)();
        };
        for word in 2..WORDS {
            let candidate = *function.cast::<*mut Definition>().add(word);
            if candidate.is_null() || !candidate.is_aligned() || !is_mapped(candidate) {
                continue;
            }
            if (*candidate).function.is_some_and(|known| known as usize == own as usize) {
                changed.own.store(own as usize, Ordering::Release);
                (*candidate).function = Some(changed.instead);
                break;
            }
        }
        (api.end)(function);
    }
}

/// Whether the memory there can be read: not every word of an object is a pointer.
fn is_mapped(definition: *mut Definition) -> bool {
    const PAGE: usize = 4096;
    let first = definition as usize & !(PAGE - 1);
    let mut resident = [0; 2];
    let bytes = (definition as usize + size_of::<Definition>() - first).next_multiple_of(PAGE);
    // SAFETY: asks about pages, of which there are at most two.
    unsafe { libc::mincore(std::ptr::without_provenance_mut(first), bytes, resident.as_mut_ptr()) == 0 }
}

/// CPython's own function, called as Python called ours.
///
/// # Safety
/// Python calls with the GIL held.
unsafe fn own(changed: &Changed, module: Object, argument: Object) -> Object {
    // SAFETY: stored before ours was installed.
    unsafe { transmute::<usize, Method>(changed.own.load(Ordering::Acquire))(module, argument) }
}

/// The program's time, unless the caller waits by the clock.
fn told(id: libc::clockid_t) -> Option<(&'static Api, u64)> {
    python::guarded(|| {
        let (api, clock) = (API.get()?, CLOCK.get()?);
        (!api.waits()).then(|| (api, (clock.now)(id)))
    })
}

macro_rules! functions {
    ($($name:literal $function:ident $slot:literal = $answer:ident($id:expr);)*) => {
        $(unsafe extern "C" fn $function(module: Object, argument: Object) -> Object {
            // SAFETY: Python calls with the GIL held.
            unsafe {
                match told($id) {
                    Some((api, ns)) => $answer(api, ns),
                    None => own(&FUNCTIONS[$slot], module, argument),
                }
            }
        })*
        static FUNCTIONS: [Changed; 1 + [$($slot),*].len()] = [
            $(Changed { name: $name, instead: $function, own: AtomicUsize::new(0) },)*
            Changed { name: c"sleep", instead: sleep, own: AtomicUsize::new(0) },
        ];
        const SLEEP: usize = [$($slot),*].len();
    };
}

functions! {
    c"time" time 0 = seconds(libc::CLOCK_REALTIME);
    c"monotonic" monotonic 1 = seconds(libc::CLOCK_MONOTONIC);
    c"perf_counter" perf_counter 2 = seconds(libc::CLOCK_MONOTONIC);
    c"time_ns" time_ns 3 = nanoseconds(libc::CLOCK_REALTIME);
    c"monotonic_ns" monotonic_ns 4 = nanoseconds(libc::CLOCK_MONOTONIC);
    c"perf_counter_ns" perf_counter_ns 5 = nanoseconds(libc::CLOCK_MONOTONIC);
}

fn seconds(api: &Api, ns: u64) -> Object {
    // SAFETY: makes a number, with the GIL held.
    unsafe { (api.float)(ns as f64 / 1e9) }
}

fn nanoseconds(api: &Api, ns: u64) -> Object {
    // SAFETY: as above.
    unsafe { (api.integer)(ns) }
}

unsafe extern "C" fn sleep(module: Object, argument: Object) -> Object {
    // SAFETY: Python calls with the GIL held, and `argument` is one object.
    unsafe {
        let result = own(&FUNCTIONS[SLEEP], module, argument);
        if !result.is_null()
            && let (Some(api), Some(clock)) = (API.get().filter(|api| !api.waits()), CLOCK.get())
        {
            let seconds = (api.number)(argument);
            (api.clear)();
            (clock.slept)((seconds.max(0.0) * 1e9) as u64);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_keeps_real_time() {
        for (module, expected) in [
            ("threading", true),
            ("torch.distributed.elastic.agent", true),
            ("torch.utils.data", true),
            ("torch.utils.benchmark.utils.timer", false),
            ("timeit", false),
            ("__main__", false),
            ("rayon", false),
        ] {
            assert_eq!(waits(module), expected, "{module}");
        }
    }
}
