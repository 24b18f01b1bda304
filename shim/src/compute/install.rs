//! Replaces PyTorch's kernels with the bridge's once PyTorch is in the process: at the first CUDA call after a library with
//! GPU code was loaded. Nothing happens at load, and nothing in a program without PyTorch.

use std::collections::HashSet;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use abi::library::Library;
use dataplane::lock::Mutex;

use super::cxx::{
    BoxedFunction, CxxString, CxxVector, IValue, KernelFunction, MaybeKey, MaybeSignature, OperatorName, Stack,
};
use super::kernel;
use super::layout::{Keys, Layout, Tags, tag};
use super::libtorch::{TORCH, Torch, torch};
use super::mapping::{self, names};
use super::method::Method;
use super::operator::{self, Operator};
use super::symbols::{Libraries, Symbols};
use super::{after_torch, allocator, forward, host, object, relation, skim, step_marks, steps, training};
use crate::boundary::gap;
use crate::call_site;
use crate::device::graph::capture;
use crate::report::{left, operators};
use crate::sanitizer::{owner, races};
use crate::settings::{self, Compute};

static CHANGED: AtomicBool = AtomicBool::new(false);
/// Keys and names of the operators already examined.
static DONE: Mutex<Option<HashSet<(u16, String)>>> = Mutex::new(None);

/// A library with GPU code registered itself: it may have added operators.
pub(crate) fn library_loaded() {
    CHANGED.store(true, Ordering::Relaxed);
    after_torch::watch();
    // PyTorch keeps its memory, streams and events until the process ends; communicators it destroys when asked to.
    left::exempt_where(|| Libraries::find().is_some());
}

/// PyTorch was still being imported: the next CUDA call looks again.
fn look_again() {
    CHANGED.store(true, Ordering::Relaxed);
}

/// Before a call into CUDA.
pub(crate) fn before_call() {
    if CHANGED.load(Ordering::Relaxed) {
        look();
    }
}

#[cold]
fn look() {
    // A CUDA call from inside of what follows, or from another thread meanwhile, goes on without.
    let Some(mut done) = DONE.try_lock() else { return };
    if Libraries::find().is_some() {
        after_torch::note();
    }
    if settings::get().is_err() {
        owner::is_blind();
        CHANGED.store(false, Ordering::Relaxed);
        return;
    }
    let Some(libraries) = Libraries::find() else {
        CHANGED.store(false, Ordering::Relaxed);
        return;
    };
    step_marks::watch(look_again);
    if TORCH.get().is_none() {
        match find(&libraries) {
            Ok(None) => return,
            Ok(Some((found, scalar))) => {
                call_site::framework_at(found.symbols.dispatcher as usize);
                if let Some(function) = libraries.torch_cpu.symbol(c"_ZN5torch8autograd25get_current_graph_task_idEv") {
                    // SAFETY: the mangled name gives the function's type.
                    call_site::passes_by(unsafe { std::mem::transmute::<*mut c_void, call_site::Pass>(function) });
                }
                let _ = TORCH.set(found);
                if skips() {
                    // Whose parts of the caching allocator's memory are is not seen.
                    owner::is_blind();
                    allocator::install();
                    allocator::watch();
                    CHANGED.store(false, Ordering::Relaxed);
                    return register_skimmed(done.get_or_insert_default());
                }
                if races::are_wanted()
                    && let Err(why) = host::watch(&libraries, &torch().symbols, scalar)
                {
                    gap::record(Library::Torch, "sanitize: races", why);
                }
                capture::rehearse_all();
                forward::watch(&libraries);
                allocator::install();
                allocator::watch();
            }
            Err(why) => {
                owner::is_blind();
                CHANGED.store(false, Ordering::Relaxed);
                gap::record(Library::Torch, "compute bridge", &why);
                return;
            }
        }
    }
    CHANGED.store(false, Ordering::Relaxed);
    if skips() {
        return register_skimmed(done.get_or_insert_default());
    }
    training::watch(look_again);
    relation::watch();
    steps::watch();
    register_all(done.get_or_insert_default());
}

/// libtorch with a tensor of one number, or `None` while its operators are not registered yet.
fn find(libraries: &Libraries) -> Result<Option<(Torch, *mut c_void)>, String> {
    let missing = |name: &CStr| format!("this PyTorch has no {}", name.to_string_lossy());
    let symbols = Symbols::find(libraries).map_err(missing)?;
    let keys = Keys::find(&symbols);
    let Some(handle) = operator::handle(&symbols, names::ADD) else { return Ok(None) };
    if operator::kernel(&symbols, &handle, keys.cuda).is_none() {
        return Ok(None);
    }
    let scalar = scalar(&symbols, &keys).ok_or("this PyTorch has no aten::scalar_tensor")?;
    let has_python_bit = libraries.torch_cpu.symbol(c"_ZNK3c1010TensorImpl15incref_pyobjectEv").is_some();
    let tags = boolean_tag(&symbols, &keys, scalar).and_then(Tags::find).ok_or("c10::IValue has other tags")?;
    let layout = Layout::find(&symbols, keys, tags, has_python_bit, scalar)?;
    // SAFETY: the getter of c10, with a device type.
    let cpu_allocator = unsafe { (symbols.get_allocator)(&super::cxx::Device::CPU.kind) };
    Ok(Some((Torch { symbols, layout, cpu_allocator }, scalar)))
}

/// A CPU tensor with one number, to examine. It is small, and kept.
fn scalar(symbols: &Symbols, keys: &Keys) -> Option<*mut c_void> {
    let handle = operator::handle(symbols, names::SCALAR_TENSOR)?;
    let kernel = keys.composite.iter().find_map(|key| operator::kernel(symbols, &handle, *key))?;
    let mut stack = Stack::new();
    stack.push(IValue::new(tag::DOUBLE, 0));
    (0..4).for_each(|_| stack.push(IValue::new(tag::NONE, 0)));
    // SAFETY: scalar_tensor(Scalar s, *, dtype, layout, device, pin_memory).
    unsafe { kernel.call(&handle, keys.dense_cpu, &raw mut stack) };
    let result = stack.items().first().map(|value| value.payload as *mut c_void);
    stack.free();
    result
}

/// The tag of the boolean that an operator returns.
fn boolean_tag(symbols: &Symbols, keys: &Keys, scalar: *mut c_void) -> Option<u32> {
    let handle = operator::handle(symbols, names::IS_FLOATING_POINT)?;
    let kernel = keys.composite.iter().find_map(|key| operator::kernel(symbols, &handle, *key))?;
    let mut stack = Stack::new();
    stack.push(IValue::new(tag::TENSOR, scalar as u64));
    // SAFETY: is_floating_point(Tensor self). The kernel gives back a reference, which is taken here.
    unsafe {
        object::retain_without_python(scalar);
        kernel.call(&handle, keys.dense_cpu, &raw mut stack);
    }
    let result = stack.items().first().filter(|value| value.payload & 0xff == 1).map(|value| value.tag);
    stack.free();
    result
}

fn register_all(done: &mut HashSet<(u16, String)>) {
    let keys = &torch().layout.keys;
    let silence = Silence::begin();
    let names = registered(keys.cuda);
    for name in names.into_iter().chain(mapping::names().map(str::to_owned)) {
        register_once(done, name, keys.cpu, keys.cuda, method);
    }
    for (cpu, cuda) in keys.special {
        for name in registered(cuda) {
            register_once(done, name, cpu, cuda, |name| names::has_special_twin(name).then_some(Method::Twin));
        }
    }
    drop(silence);
}

/// Whether nothing computes.
fn skips() -> bool {
    settings::get().is_ok_and(|settings| settings.compute == Compute::Skip)
}

/// Where nothing computes, every kernel of PyTorch's stays, behind one that knows which numbers are known. A convolution takes its
/// time as a whole, as where it computes: not the operator of cuDNN or of PyTorch that it chooses.
fn register_skimmed(done: &mut HashSet<(u16, String)>) {
    let keys = &torch().layout.keys;
    let silence = Silence::begin();
    for name in registered(keys.cuda).into_iter().chain([names::COPY, names::CONVOLUTION].map(str::to_owned)) {
        if done.contains(&(keys.cuda, name.clone())) {
            continue;
        }
        if let Some(method) = method(&name)
            && let Some(operator) = Operator::with_keys(&name, keys.cpu, keys.cuda)
        {
            let method = if operator.cpu.is_none() && matches!(method, Method::Twin) { Method::Gap } else { method };
            let operator = Box::leak(Box::new(operator));
            replace(operator, keys.cuda, kernel::functor(operator, method), skim::skim);
        }
        done.insert((keys.cuda, name));
    }
    drop(silence);
}

fn register_once(
    done: &mut HashSet<(u16, String)>,
    name: String,
    cpu: u16,
    cuda: u16,
    method: impl Fn(&str) -> Option<Method>,
) {
    if done.contains(&(cuda, name.clone())) {
        return;
    }
    if let Some(method) = method(&name)
        && let Some(operator) = Operator::with_keys(&name, cpu, cuda)
    {
        // A kernel for CUDA would shadow the derivative that such an operator gets from its parts.
        let is_made_of_parts = operator.is_implicit && matches!(method, Method::Twin);
        if is_made_of_parts {
            return;
        }
        let method = if operator.cpu.is_none() && matches!(method, Method::Twin) { Method::Gap } else { method };
        register(Box::leak(Box::new(operator)), method, cuda);
    }
    done.insert((cuda, name));
}

/// Names of the operators that have a kernel for `key`.
fn registered(key: u16) -> Vec<String> {
    let symbols = &torch().symbols;
    let mut names = CxxVector::<OperatorName>::new();
    // SAFETY: the dispatcher's list for a key, written to the place of a vector.
    unsafe { (symbols.registrations)(&raw mut names, (symbols.dispatcher)(), MaybeKey { key, is_some: true }) };
    let texts = names.items().iter().map(OperatorName::text).collect();
    for name in names.items() {
        name.name.free();
        name.overload.free();
    }
    names.free();
    texts
}

/// How the operator with that name is implemented; `None` if it is left alone.
fn method(name: &str) -> Option<Method> {
    mapping::find(name).or_else(|| names::has_twin(name).then_some(Method::Twin))
}

fn register(operator: &'static Operator, method: Method, key: u16) {
    operators::register(&operator.name, &operator.calls);
    replace(operator, key, kernel::functor(operator, method), kernel::compute);
}

/// Replaces the operator's kernel for `key` with `function` and its object.
fn replace(operator: &'static Operator, key: u16, functor: *mut c_void, function: BoxedFunction) {
    let torch = torch();
    let key = MaybeKey { key, is_some: true };
    let mut kernel = KernelFunction {
        functor,
        boxed: Some(function),
        unboxed: std::ptr::null_mut(),
        unboxed_symbolic: std::ptr::null_mut(),
        rest: [0; 4],
    };
    let (base, overload) = operator.name.split_once('.').unwrap_or((&operator.name, ""));
    // The handle would take the kernel away when dropped; it never is.
    let mut handle = [0; 8];
    let mut no_schema = std::ptr::null_mut();
    let no_signature = MaybeSignature { type_index: 0, is_some: false };
    OperatorName::with(base, overload, |name| {
        CxxString::with("ftest compute bridge", |debug| {
            // SAFETY: `registerImpl` with values of the C++ types that it takes; those that it moves from stay ours to free.
            unsafe {
                (torch.symbols.register_kernel)(
                    &raw mut handle,
                    (torch.symbols.dispatcher)(),
                    name,
                    key,
                    &raw mut kernel,
                    no_signature,
                    &raw mut no_schema,
                    debug,
                );
            }
        });
    });
}

/// Until dropped, this thread's PyTorch warnings are discarded: each registration would warn that it replaces another.
struct Silence(*mut c_void);

impl Silence {
    fn begin() -> Self {
        unsafe extern "C-unwind" fn ignore(_this: *mut c_void, _warning: *const c_void) {}
        /// Offset to top and type (none), destructors, `process`.
        struct Table([*const c_void; 5]);
        // SAFETY: constant addresses.
        unsafe impl Sync for Table {}
        static TABLE: Table = Table([
            std::ptr::null(),
            std::ptr::null(),
            ignore as *const c_void,
            ignore as *const c_void,
            ignore as *const c_void,
        ]);
        let symbols = &torch().symbols;
        let handler = Box::leak(Box::new(&raw const TABLE.0[2]));
        // SAFETY: a `c10::WarningHandler` whose table has the virtual functions of the class; the one before is put back.
        unsafe {
            let before = (symbols.warning_handler)();
            (symbols.set_warning_handler)(std::ptr::from_mut(handler).cast());
            Self(before)
        }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // SAFETY: the handler that was there.
        unsafe { (torch().symbols.set_warning_handler)(self.0) };
    }
}
