//! Operators: their schemas, their kernels for the CPU and for CUDA, and how one is called.

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use dataplane::lock::Mutex;

use super::cxx::{BoxedFunction, IValue, MaybeHandle, OperatorHandle, OperatorName, Stack};
use super::layout;
use super::libtorch::torch;
use super::mapping::names;
use super::symbols::Symbols;

/// What the bridge has to know about an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `Tensor`, `Tensor?`
    Tensor,
    /// `Tensor[]`, `Tensor?[]`
    Tensors,
    /// `Generator?`
    Generator,
    /// `Device?`
    Device,
    /// Passed on as it is.
    Other,
}

/// An operator's signature.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) arguments: Vec<Kind>,
    /// Which of them the operator writes (`Tensor(a!)`).
    pub(super) written: Vec<bool>,
    names: Vec<String>,
}

impl Schema {
    /// From `aten::name(Tensor self, *, Generator? generator=None) -> Tensor`.
    pub(super) fn parse(text: &str) -> Self {
        let (mut depth, mut start, mut parts) = (0u32, None, Vec::new());
        for (index, letter) in text.char_indices() {
            match letter {
                '(' | '[' => {
                    depth += 1;
                    if depth == 1 {
                        start = Some(index + 1);
                    }
                }
                ')' | ']' => {
                    depth -= 1;
                    if depth == 0 {
                        parts.extend(start.map(|start| &text[start..index]));
                        break;
                    }
                }
                ',' if depth == 1 => {
                    parts.extend(start.replace(index + 1).map(|start| &text[start..index]));
                }
                _ => {}
            }
        }
        let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty() && *part != "*");
        let parts: Vec<&str> = parts.collect();
        let written = parts.iter().map(|part| part.split('=').next().is_some_and(|part| part.contains('!'))).collect();
        let (arguments, names) = parts.into_iter().map(argument).unzip();
        Self { arguments, written, names }
    }

    /// Place of the argument `name`.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }
}

/// `Tensor(a!)[] name=default`
fn argument(text: &str) -> (Kind, String) {
    let text = text.split('=').next().unwrap_or(text);
    let (kind, name) = text.rsplit_once(' ').unwrap_or((text, ""));
    let kind: String = {
        let mut depth = 0;
        kind.chars()
            .filter(|letter| {
                depth += i32::from(*letter == '(');
                let outside = depth == 0;
                depth -= i32::from(*letter == ')');
                outside
            })
            .collect()
    };
    let is_list = kind.contains('[');
    let kind = match kind.trim_end_matches('?').split(['[', '?']).next().unwrap_or_default() {
        "Tensor" if is_list => Kind::Tensors,
        "Tensor" => Kind::Tensor,
        "Generator" => Kind::Generator,
        "Device" => Kind::Device,
        _ => Kind::Other,
    };
    (kind, name.to_owned())
}

/// A kernel that libtorch registered: kept by libtorch as long as the process lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    functor: *mut c_void,
    function: BoxedFunction,
}

// SAFETY: a function and its object, both made for calls from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Calls it: it takes its arguments off the stack and puts its results there.
    ///
    /// # Safety
    /// The stack ends with arguments that match the operator's schema.
    pub(super) unsafe fn call(self, operator: *const OperatorHandle, keys: u64, stack: *mut Stack) {
        // SAFETY: by the caller.
        unsafe { (self.function)(self.functor, operator, keys, stack) };
    }
}

/// An operator.
#[derive(Debug)]
pub(super) struct Operator {
    /// `aten::add.Tensor`
    pub(super) name: String,
    pub(super) handle: OperatorHandle,
    /// The kernel that computes on the CPU: a CPU kernel, or one composed of other operators.
    pub(super) cpu: Option<Kernel>,
    /// The kernel registered for CUDA, or the one that CUDA used without its own registration.
    pub(super) cuda: Option<Kernel>,
    /// Whether it is composed of others on CUDA too, using their derivatives.
    pub(super) is_implicit: bool,
    /// What every call would otherwise find out from the name: see [`names::waits`].
    pub(super) waits: bool,
    /// See [`names::takes_indices_of_cpu`].
    pub(super) takes_indices_of_cpu: bool,
    /// Whether it is [`names::COPY`].
    pub(super) is_copy: bool,
    /// See [`names::asserts`].
    pub(super) asserts: bool,
    /// Calls that computed.
    pub(super) calls: AtomicU64,
    schema: OnceLock<Schema>,
}

// SAFETY: the handle names an entry of the dispatcher that is never removed.
unsafe impl Send for Operator {}
// SAFETY: as above.
unsafe impl Sync for Operator {}

impl Operator {
    /// The operator of that name with its kernels as they are registered now.
    pub(super) fn find(name: &str) -> Option<Self> {
        let keys = &torch().layout.keys;
        Self::with_keys(name, keys.cpu, keys.cuda)
    }

    /// The same for another pair of keys, for sparse tensors.
    pub(super) fn with_keys(name: &str, cpu: u16, cuda: u16) -> Option<Self> {
        let torch = torch();
        let keys = &torch.layout.keys;
        let handle = handle(&torch.symbols, name)?;
        let kernel = |key: u16| kernel(&torch.symbols, &handle, key);
        let composite = || keys.composite.iter().find_map(|key| kernel(*key));
        Some(Self {
            name: name.to_owned(),
            cpu: kernel(cpu).or_else(composite),
            cuda: kernel(cuda).or_else(composite),
            is_implicit: kernel(keys.composite[2]).is_some() && kernel(cuda).is_none(),
            waits: names::waits(name),
            takes_indices_of_cpu: names::takes_indices_of_cpu(name),
            is_copy: name == names::COPY,
            asserts: names::asserts(name),
            handle,
            calls: AtomicU64::new(0),
            schema: OnceLock::new(),
        })
    }

    /// `add_` from `aten::add_.Tensor`.
    pub(super) fn base_name(&self) -> &str {
        let name = self.name.rsplit_once("::").map_or(&*self.name, |(_, name)| name);
        name.split_once('.').map_or(name, |(base, _)| base)
    }

    /// Its signature.
    pub(super) fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| Schema::parse(&layout::schema(&torch().symbols, &self.handle)))
    }

    /// Calls the CPU kernel with `arguments`, which it takes over; returns the results, which the caller owns.
    ///
    /// # Safety
    /// The arguments match the schema, and none is a CUDA tensor.
    pub(super) unsafe fn on_cpu(&self, arguments: &[IValue]) -> Vec<IValue> {
        let mut stack = Stack::new();
        arguments.iter().for_each(|value| stack.push(*value));
        let Some(kernel) = self.cpu else {
            super::exception::not_implemented(&format!("{} has no CPU kernel", self.name))
        };
        // SAFETY: by the caller.
        unsafe { kernel.call(&self.handle, torch().layout.keys.dense_cpu, &raw mut stack) };
        let results = stack.items().to_vec();
        stack.free();
        results
    }
}

/// The operator of that name, if libtorch has it.
pub(super) fn handle(symbols: &Symbols, name: &str) -> Option<OperatorHandle> {
    let (base, overload) = name.split_once('.').unwrap_or((name, ""));
    let mut found = MaybeUninit::<MaybeHandle>::uninit();
    // SAFETY: `findSchema` writes an optional handle.
    let found = OperatorName::with(base, overload, |name| unsafe {
        (symbols.find_schema)(found.as_mut_ptr(), (symbols.dispatcher)(), name);
        found.assume_init()
    });
    found.is_some.then_some(found.handle)
}

/// The kernel registered for exactly that key.
pub(super) fn kernel(symbols: &Symbols, handle: &OperatorHandle, key: u16) -> Option<Kernel> {
    // SAFETY: the entry of an operator; the answer is null or a kernel that libtorch keeps.
    let function = unsafe { (symbols.kernel_of)(handle.entry, key).as_ref()? };
    Some(Kernel { functor: function.functor, function: function.boxed? })
}

/// An operator that the bridge calls by name, looked up once.
pub(super) fn named(name: &'static str) -> &'static Operator {
    static KNOWN: Mutex<Option<HashMap<&'static str, &'static Operator>>> = Mutex::new(None);
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_default();
    if let Some(operator) = known.get(name) {
        return operator;
    }
    let Some(operator) = Operator::find(name) else {
        super::exception::not_implemented(&format!("this PyTorch has no operator {name}"))
    };
    let operator = Box::leak(Box::new(operator));
    known.insert(name, operator);
    operator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_by_table() {
        use Kind::{Device, Generator, Other, Tensor, Tensors};
        for (text, kinds) in [
            ("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", vec![Tensor, Tensor, Other]),
            (
                "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)",
                vec![Tensor, Tensors, Tensor, Other],
            ),
            (
                "aten::cat.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> (Tensor(a!))",
                vec![Tensors, Other, Tensor],
            ),
            (
                "aten::randperm(int n, *, Generator? generator, ScalarType? dtype=4, Device? device=None) -> Tensor",
                vec![Other, Generator, Other, Device],
            ),
            (
                "aten::conv(Tensor x, int[2] stride=[1, 1], Tensor? bias=None, Tensor(a!)[] outs) -> (Tensor, Tensor[])",
                vec![Tensor, Other, Tensor, Tensors],
            ),
            ("aten::nothing() -> ()", vec![]),
        ] {
            assert_eq!(Schema::parse(text).arguments, kinds, "{text}");
        }
        let schema = Schema::parse("a::b(Tensor(a!) self, str mode=\"x\", int[] sizes=[1, 2], bool flag=False) -> ()");
        assert_eq!(schema.place("sizes"), Some(2));
        assert_eq!(schema.place("flag"), Some(3));
        let schema = Schema::parse("a::b(Tensor self, *, Tensor(a!)[] out, str mode=\"!\") -> ()");
        assert_eq!(schema.written, [false, true, false]);
    }
}
