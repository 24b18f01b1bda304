//! Values that the bridge itself makes or keeps, for operators that it composes from others.

use std::ffi::c_void;

use abi::library::Library;

use super::cxx::{CxxVector, IValue};
use super::exception;
use super::layout::tag;
use super::libtorch::torch;
use super::object::{self, Tensor};
use super::operator::{self, Operator};
use crate::boundary::gap;

/// A value that owns a reference to its object.
#[derive(Debug)]
pub(super) struct Value(IValue);

impl Value {
    /// Takes over the reference of `value`.
    pub(super) fn own(value: IValue) -> Self {
        Self(value)
    }

    /// One more reference to the object in `value`.
    pub(super) fn another(value: &IValue) -> Self {
        object::retain_value(value);
        Self(*value)
    }

    /// The same to be kept: a shared list is copied, so that its members may be replaced.
    pub(super) fn to_keep(value: &IValue) -> Self {
        let is_list = value.tag == torch().layout.tags.list;
        if !is_list || object::is_sole(value.payload as *mut c_void) {
            return Self::another(value);
        }
        let shared = value.payload as *mut c_void;
        // SAFETY: a live list, whose members stay while they are counted.
        let items = unsafe { object::list_items(shared) };
        items.iter().for_each(object::retain_value);
        // SAFETY: the type of a live list.
        list(items.iter().copied(), unsafe { object::list_type(shared) })
    }

    /// Replaces a given device with the CPU.
    pub(super) fn on_cpu(self) -> Self {
        if self.0.tag != torch().layout.tags.device {
            return self;
        }
        Self(IValue::new(self.0.tag, u64::from(u16::from_ne_bytes([0, 0xff]))))
    }

    pub(super) fn is_list(&self) -> bool {
        self.0.tag == torch().layout.tags.list
    }

    /// The raw value, without its own reference.
    pub(super) fn raw(&self) -> IValue {
        self.0
    }

    /// Hands the reference over.
    pub(super) fn into_raw(self) -> IValue {
        std::mem::ManuallyDrop::new(self).0
    }

    pub(super) const NONE: Self = Self(IValue::new(tag::NONE, 0));

    /// An undefined tensor, where a tensor is required.
    pub(super) fn undefined() -> Self {
        Self(IValue::new(tag::TENSOR, torch().symbols.undefined as u64))
    }

    pub(super) fn int(value: i64) -> Self {
        Self(IValue::new(tag::INT, value as u64))
    }

    pub(super) fn double(value: f64) -> Self {
        Self(IValue::new(tag::DOUBLE, value.to_bits()))
    }

    pub(super) fn bool(value: bool) -> Self {
        Self(IValue::new(torch().layout.tags.boolean, u64::from(value)))
    }

    /// `bool[]`
    pub(super) fn bools(values: &[bool]) -> Self {
        let values = values.iter().map(|value| IValue::new(torch().layout.tags.boolean, u64::from(*value)));
        // SAFETY: the getter of a type that lives as long as the process.
        list(values, [unsafe { (torch().symbols.bool_type)() }, std::ptr::null_mut()])
    }

    /// `int[]`
    pub(super) fn ints(values: &[i64]) -> Self {
        let values = values.iter().map(|value| IValue::new(tag::INT, *value as u64));
        // SAFETY: the getter of a type that lives as long as the process.
        list(values, [unsafe { (torch().symbols.int_type)() }, std::ptr::null_mut()])
    }

    /// The tensor; `None` if there is none or it is undefined.
    pub(super) fn tensor(&self) -> Option<Tensor> {
        Tensor::in_slot(&self.0)
    }

    /// True for none and for an undefined tensor.
    pub(super) fn is_none(&self) -> bool {
        self.0.tag == tag::NONE || (self.0.tag == tag::TENSOR && self.tensor().is_none())
    }

    pub(super) fn as_int(&self) -> Option<i64> {
        (self.0.tag == tag::INT).then_some(self.0.payload as i64)
    }

    pub(super) fn as_double(&self) -> Option<f64> {
        match self.0.tag {
            tag::DOUBLE => Some(f64::from_bits(self.0.payload)),
            tag::INT => Some(self.0.payload as i64 as f64),
            _ => None,
        }
    }

    pub(super) fn as_bool(&self) -> bool {
        self.0.tag == torch().layout.tags.boolean && self.0.payload & 0xff != 0
    }

    /// The members of a list of integers.
    pub(super) fn as_ints(&self) -> Vec<i64> {
        if self.0.tag != torch().layout.tags.list {
            return Vec::new();
        }
        // SAFETY: a live list that this value holds.
        let items = unsafe { object::list_items(self.0.payload as *mut c_void) };
        items.iter().map(|item| item.payload as i64).collect()
    }

    /// The members of a list of booleans.
    pub(super) fn as_bools(&self) -> Vec<bool> {
        if self.0.tag != torch().layout.tags.list {
            return Vec::new();
        }
        // SAFETY: a live list that this value holds.
        let items = unsafe { object::list_items(self.0.payload as *mut c_void) };
        items.iter().map(|item| item.payload & 0xff != 0).collect()
    }

    /// The members of a list, each with a reference of its own.
    pub(super) fn members(&self) -> Vec<Value> {
        if !self.is_list() {
            return Vec::new();
        }
        // SAFETY: a live list that this value holds.
        unsafe { object::list_items(self.0.payload as *mut c_void) }.iter().map(Self::another).collect()
    }

    /// A list like this one, with another member at `place`.
    pub(super) fn with_member(&self, place: usize, member: &Value) -> Value {
        let mut members = self.members();
        if let Some(slot) = members.get_mut(place) {
            *slot = member.clone();
        }
        // SAFETY: the type of a live list that this value holds.
        list(members.into_iter().map(Value::into_raw), unsafe { object::list_type(self.0.payload as *mut c_void) })
    }

    /// The numbers of a one-dimensional integer tensor; empty if there is none.
    pub(super) fn integers(&self) -> Vec<i64> {
        self.tensor().map_or_else(Vec::new, Tensor::integers)
    }

    /// Writes the numbers of such a tensor, whose elements are contiguous.
    pub(super) fn write_integers(&self, numbers: &[i64]) {
        if let Some(tensor) = self.tensor() {
            tensor.write_integers(numbers);
        }
    }

    /// The elements of a contiguous tensor of 64-bit integers; empty if there is none.
    pub(super) fn words(&self) -> Vec<u64> {
        self.tensor().and_then(Tensor::words).as_deref().map_or_else(Vec::new, <[u64]>::to_vec)
    }

    /// Writes the elements of such a tensor.
    pub(super) fn write_words(&self, words: &[u64]) {
        if let Some(own) = self.tensor().and_then(Tensor::words)
            && own.len() == words.len()
        {
            own.copy_from_slice(words);
        }
    }

    /// Sizes of the tensor; empty if there is none.
    pub(super) fn sizes(&self) -> Vec<i64> {
        self.tensor().map_or_else(Vec::new, |tensor| tensor.sizes_and_strides().0.to_vec())
    }

    /// Number of elements of the tensor; 0 if there is none.
    pub(super) fn elements(&self) -> i64 {
        self.tensor().map_or(0, Tensor::elements)
    }

    /// `scalar_type()` of the tensor, as c10 numbers it.
    pub(super) fn data_type(&self) -> i64 {
        self.tensor().map_or(0, |tensor| i64::from(tensor.data_type()))
    }

    /// Calls `name` with this value as first argument; returns its first result.
    pub(super) fn then(&self, name: &'static str, rest: impl IntoIterator<Item = Value>) -> Value {
        one(name, std::iter::once(self.clone()).chain(rest))
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        object::retain_value(&self.0);
        Self(self.0)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        object::release_value(&self.0);
    }
}

/// Bytes of a `ListImpl`: table, counts, a vector, a type.
const LIST_SIZE: usize = 56;

/// `kind` is a `c10::TypePtr` with a reference for the list: a pointer, and a null if the type is a singleton.
fn list(values: impl Iterator<Item = IValue>, mut kind: [*mut c_void; 2]) -> Value {
    let mut vector = CxxVector::new();
    values.for_each(|value| vector.push(value));
    // SAFETY: the constructor of a block of the object's size; C++'s delete frees what malloc made. It moves the vector's
    // values away, and the count of references is ours to set, as `make_intrusive` does.
    unsafe {
        let list = libc::malloc(LIST_SIZE);
        (torch().symbols.make_list)(list, &raw mut vector, &raw mut kind);
        object::hold_new(list);
        vector.free();
        Value(IValue::new(torch().layout.tags.list, list as u64))
    }
}

/// Calls an operator on CPU tensors.
pub(super) fn call(name: &'static str, arguments: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let arguments: Vec<IValue> = arguments.into_iter().map(Value::into_raw).collect();
    // SAFETY: the callers in `mapping` give what the schema wants, with CPU tensors only.
    unsafe { operator::named(name).on_cpu(&arguments) }.into_iter().map(Value::own).collect()
}

/// [`call`], for the first result.
pub(super) fn one(name: &'static str, arguments: impl IntoIterator<Item = Value>) -> Value {
    call(name, arguments).into_iter().next().unwrap_or(Value::NONE)
}

/// The arguments of a mapped operator, by the names of its schema.
pub(super) struct Arguments {
    pub(super) operator: &'static Operator,
    /// The GPU that the operator runs on.
    pub(super) device: i8,
    values: Vec<Value>,
}

impl Arguments {
    pub(super) fn new(operator: &'static Operator, device: i8, values: Vec<IValue>) -> Self {
        Self { operator, device, values: values.into_iter().map(Value::own).collect() }
    }

    /// [`Arguments::get`] of the first of `names` that this version's schema has.
    pub(super) fn first_of(&self, names: &[&str]) -> Value {
        let known = names.iter().find(|name| self.operator.schema().place(name).is_some());
        known.map_or(Value::NONE, |name| self.get(name))
    }

    /// The results of the operator's own CPU kernel for these arguments.
    pub(super) fn on_cpu(&self) -> Vec<Value> {
        let copies: Vec<IValue> = self.values.iter().cloned().map(Value::into_raw).collect();
        // SAFETY: the arguments as libtorch gave them, with CPU tensors for CUDA tensors.
        unsafe { self.operator.on_cpu(&copies) }.into_iter().map(Value::own).collect()
    }

    /// Refuses arguments that are not supported: NotImplementedError, and a gap.
    pub(super) fn refuse(&self, why: &str) -> ! {
        let name = &self.operator.name;
        gap::record(Library::Torch, name, why);
        exception::not_implemented(&format!("{name}: {why} on the simulated GPU (a gap of ftest, not of the program)"))
    }

    /// One more reference to the argument `name`; none if this version's schema has no such argument.
    pub(super) fn get(&self, name: &str) -> Value {
        let place = self.operator.schema().place(name);
        place.and_then(|place| self.values.get(place)).cloned().unwrap_or(Value::NONE)
    }
}
