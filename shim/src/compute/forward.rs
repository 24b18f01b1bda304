//! Lines of the forward pass. PyTorch numbers the nodes of its graph of derivatives in the order in which each thread makes them,
//! one just before the operator whose derivative it is. So an operator that finds a new number is recorded with its line, and a
//! backward pass in the node with that number looks there. Views and CPU operators make nodes, too, so the names must match.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use dataplane::lock::Mutex;
use protocol::ids::SiteId;

use super::object;
use super::operator::Operator;
use super::symbols::Libraries;
use crate::call_site;

/// Number of nodes kept: those of the last steps.
const KEPT: usize = 1 << 16;

/// `std::shared_ptr<Node>`; a `c10::intrusive_ptr<Node>`, as in newer versions, is only the first word.
#[repr(C)]
struct SharedPointer {
    node: *mut c_void,
    control: *mut c_void,
}

/// An address at which there is no control block.
const NOT_SHARED: *mut c_void = usize::MAX as *mut c_void;

/// PyTorch's functions for nodes.
#[derive(Clone, Copy)]
struct Functions {
    /// `at::sequence_number::peek()`: the number of the next node that this thread makes.
    next: unsafe extern "C-unwind" fn() -> u64,
    /// `at::RecordFunction::currentThreadId()`
    thread: unsafe extern "C-unwind" fn() -> u64,
    /// `torch::autograd::get_current_node()`
    current: unsafe extern "C-unwind" fn(*mut SharedPointer) -> *mut SharedPointer,
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// Where a `Node` stores its number, after the function table and the reference counts, and further on the thread that
/// made it.
mod at {
    /// Behind `std::enable_shared_from_this`.
    pub(super) const SHARED_NUMBER: usize = 24;
    /// After the counts of `c10::intrusive_ptr_target`.
    pub(super) const NUMBER: usize = 16;
    /// From the number.
    pub(super) const THREAD: usize = 24;
    /// `std::_Sp_counted_base::_M_use_count`
    pub(super) const USES: usize = 8;
}

#[derive(Clone, Copy)]
struct Noted {
    number: u64,
    thread: u64,
    operator: &'static str,
    site: SiteId,
}

/// Indexed by number modulo the length.
static NOTED: Mutex<Vec<Option<Noted>>> = Mutex::new(Vec::new());

/// From now on, operators can be recorded.
pub(super) fn watch(libraries: &Libraries) {
    let find = |name| libraries.torch_cpu.symbol(name);
    let (Some(next), Some(thread), Some(current)) = (
        find(c"_ZN2at15sequence_number4peekEv"),
        find(c"_ZN2at14RecordFunction15currentThreadIdEv"),
        find(c"_ZN5torch8autograd16get_current_nodeEv"),
    ) else {
        return;
    };
    // SAFETY: the mangled names give the functions' types; a shared pointer is returned by a place for it.
    let functions = unsafe {
        Functions {
            next: std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn() -> u64>(next),
            thread: std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn() -> u64>(thread),
            current: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C-unwind" fn(*mut SharedPointer) -> *mut SharedPointer,
            >(current),
        }
    };
    let _ = FUNCTIONS.set(functions);
}

/// Records that an operator is called at `site`. Returns the line of the operator whose derivative it is part of, if
/// known.
pub(super) fn line_of(operator: &'static Operator, site: SiteId) -> SiteId {
    let Some(functions) = FUNCTIONS.get() else { return SiteId::default() };
    if call_site::is_in_backward_pass() {
        return functions.looked_up();
    }
    if site != SiteId::default() {
        functions.note(&operator.name, site);
    }
    SiteId::default()
}

impl Functions {
    fn note(&self, operator: &'static str, site: SiteId) {
        // SAFETY: both read variables of the thread.
        let (next, thread) = unsafe { ((self.next)(), (self.thread)()) };
        let Some(number) = next.checked_sub(1) else { return };
        let mut noted = NOTED.lock();
        if noted.is_empty() {
            noted.resize(KEPT, None);
        }
        let place = &mut noted[number as usize % KEPT];
        // Without a new number it is not the operator that made the node.
        if place.is_none_or(|known| (known.number, known.thread) != (number, thread)) {
            *place = Some(Noted { number, thread, operator, site });
        }
    }

    fn looked_up(&self) -> SiteId {
        let mut shared = SharedPointer { node: std::ptr::null_mut(), control: NOT_SHARED };
        // SAFETY: a place for a pointer of either kind. Its reference is given back at once: whoever evaluates the node, in this thread,
        // has another. A node has a table of virtual functions, with the class before it.
        let (number, thread, class) = unsafe {
            (self.current)(&raw mut shared);
            let SharedPointer { node, control } = shared;
            if node.is_null() {
                return SiteId::default();
            }
            let number = if control == NOT_SHARED {
                object::release(node);
                at::NUMBER
            } else {
                AtomicI32::from_ptr(control.byte_add(at::USES).cast()).fetch_sub(1, Ordering::AcqRel);
                at::SHARED_NUMBER
            };
            let word = |offset: usize| node.byte_add(offset).cast::<u64>().read();
            let class = node.cast::<*const *const *const c_char>().read().sub(1).read().add(1).read();
            (word(number), word(number + at::THREAD), CStr::from_ptr(class))
        };
        let noted = NOTED.lock().get(number as usize % KEPT).copied().flatten();
        let fits = |noted: &Noted| {
            (noted.number, noted.thread) == (number, thread)
                && class.to_str().is_ok_and(|class| is_derivative(class, noted.operator))
        };
        noted.filter(fits).map_or_else(SiteId::default, |noted| noted.site)
    }
}

/// Whether nodes of a class, given by its mangled name (`N5torch8autograd9generated12MulBackward0E`), belong to an
/// operator (`aten::mul.Tensor`).
fn is_derivative(class: &str, operator: &str) -> bool {
    let mut rest = class.trim_start_matches('N');
    let mut last = "";
    while let Some(end) = rest.find(|letter: char| !letter.is_ascii_digit()).filter(|end| *end > 0) {
        let length = rest[..end].parse().unwrap_or(0);
        let Some(name) = rest.get(end..end + length) else { return false };
        (last, rest) = (name, &rest[end + length..]);
    }
    let Some((derivative, _)) = last.split_once("Backward") else { return false };
    let base = operator.split_once("::").map_or(operator, |(_, base)| base);
    let base = base.split('.').next().unwrap_or_default().trim_end_matches('_').trim_end_matches("_forward");
    derivative.chars().map(|letter| letter.to_ascii_lowercase()).eq(base.chars().filter(|letter| *letter != '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of `torch/csrc/autograd/generated/Functions.h`.
    #[test]
    fn derivatives_by_table() {
        for (class, operator, is) in [
            ("N5torch8autograd9generated12MulBackward0E", "aten::mul.Tensor", true),
            ("N5torch8autograd9generated12MulBackward0E", "aten::mul_.Tensor", true),
            ("N5torch8autograd9generated13MeanBackward1E", "aten::mean.dim", true),
            ("N5torch8autograd9generated19LogSoftmaxBackward0E", "aten::_log_softmax", true),
            ("N5torch8autograd9generated16NllLossBackward0E", "aten::nll_loss_forward", true),
            ("N5torch8autograd9generated24NativeLayerNormBackward0E", "aten::native_layer_norm", true),
            ("N5torch8autograd9generated13ViewBackward0E", "aten::mul.Tensor", false),
            ("N5torch8autograd9generated12MulBackward0E", "aten::multiply", false),
            ("N5torch8autograd14AccumulateGradE", "aten::add.Tensor", false),
            ("N5torch8autograd6PyNodeE", "aten::add.Tensor", false),
            ("N5torch99E", "aten::add.Tensor", false),
        ] {
            assert_eq!(is_derivative(class, operator), is, "{class} {operator}");
        }
    }
}
