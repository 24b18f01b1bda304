//! The parts of the C++ ABI (Itanium, libstdc++) that libtorch's interfaces are made of: strings, vectors, and the few
//! objects of c10 whose layout every PyTorch since 2.7 shares. Differences between versions are detected in `layout`.

use std::ffi::c_void;
use std::mem::MaybeUninit;

/// `std::string` of libstdc++'s C++11 ABI.
#[repr(C)]
pub(super) struct CxxString {
    data: *mut u8,
    length: usize,
    local: [u8; 16],
}

impl CxxString {
    /// An empty string. It points into itself, so it is set up in place.
    fn empty_at(place: &mut MaybeUninit<Self>) -> &mut Self {
        let string = place.write(Self { data: std::ptr::null_mut(), length: 0, local: [0; 16] });
        string.data = string.local.as_mut_ptr();
        string
    }

    /// Makes a C++ string with `text` on the heap for the duration of `body`; the callee may move its value away.
    pub(super) fn with<R>(text: &str, body: impl FnOnce(*mut Self) -> R) -> R {
        let mut place = MaybeUninit::uninit();
        Self::empty_at(&mut place).assign(text);
        let result = body(place.as_mut_ptr());
        // SAFETY: it was set up above, and a C++ move leaves a valid string.
        unsafe { place.assume_init_mut() }.free();
        result
    }

    fn assign(&mut self, text: &str) {
        if text.len() > 15 {
            // SAFETY: malloc; C++'s operator new and delete are malloc and free on this platform.
            self.data = unsafe { libc::malloc(text.len() + 1) }.cast();
            // The capacity shares its place with the local buffer.
            self.local[..8].copy_from_slice(&text.len().to_ne_bytes());
        }
        // SAFETY: `data` has room for the text and a zero: 16 bytes locally, or as allocated.
        unsafe {
            self.data.copy_from_nonoverlapping(text.as_ptr(), text.len());
            self.data.add(text.len()).write(0);
        }
        self.length = text.len();
    }

    /// The text.
    pub(super) fn text(&self) -> String {
        // SAFETY: a C++ string holds `length` bytes at `data`.
        String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(self.data, self.length) }).into_owned()
    }

    /// Frees its memory, as its destructor does.
    pub(super) fn free(&mut self) {
        if self.data.cast_const() != self.local.as_ptr() {
            // SAFETY: long strings live in a block of operator new, which is malloc.
            unsafe { libc::free(self.data.cast()) };
        }
        self.data = self.local.as_mut_ptr();
        self.length = 0;
    }
}

/// `std::vector<T>`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct CxxVector<T> {
    pub(super) begin: *mut T,
    pub(super) end: *mut T,
    capacity: *mut T,
}

impl<T> CxxVector<T> {
    pub(super) const fn new() -> Self {
        Self { begin: std::ptr::null_mut(), end: std::ptr::null_mut(), capacity: std::ptr::null_mut() }
    }

    pub(super) fn len(&self) -> usize {
        (self.end as usize - self.begin as usize) / size_of::<T>()
    }

    pub(super) fn items(&mut self) -> &mut [T] {
        if self.begin.is_null() {
            return &mut [];
        }
        // SAFETY: a C++ vector holds `len` values from `begin` on.
        unsafe { std::slice::from_raw_parts_mut(self.begin, self.len()) }
    }

    /// Appends, growing as needed.
    pub(super) fn push(&mut self, value: T) {
        if self.end == self.capacity {
            let (len, room) = (self.len(), (self.len() * 2).max(8));
            // SAFETY: the block is malloc's, as operator new's is; the values are moved bitwise, which libstdc++ does too
            // for types without self-references.
            unsafe {
                self.begin = libc::realloc(self.begin.cast(), room * size_of::<T>()).cast();
                self.end = self.begin.add(len);
                self.capacity = self.begin.add(room);
            }
        }
        // SAFETY: there is room for one more.
        unsafe {
            self.end.write(value);
            self.end = self.end.add(1);
        }
    }

    /// Frees the block; the values must already be gone.
    pub(super) fn free(&mut self) {
        // SAFETY: malloc's block or null.
        unsafe { libc::free(self.begin.cast()) };
        *self = Self::new();
    }
}

/// `c10::OperatorName`
#[repr(C)]
pub(super) struct OperatorName {
    pub(super) name: CxxString,
    pub(super) overload: CxxString,
}

impl OperatorName {
    /// Makes one for the duration of `body`.
    pub(super) fn with<R>(name: &str, overload: &str, body: impl FnOnce(*mut Self) -> R) -> R {
        let mut place = MaybeUninit::<Self>::uninit();
        // SAFETY: both fields are set up in place before use and freed after.
        unsafe {
            let fields = place.as_mut_ptr();
            for (field, text) in [(&raw mut (*fields).name, name), (&raw mut (*fields).overload, overload)] {
                CxxString::empty_at(&mut *field.cast()).assign(text);
            }
            let result = body(fields);
            (*fields).name.free();
            (*fields).overload.free();
            result
        }
    }

    /// `aten::add.Tensor`, or without the dot if there is no overload name.
    pub(super) fn text(&self) -> String {
        let overload = self.overload.text();
        if overload.is_empty() { self.name.text() } else { format!("{}.{overload}", self.name.text()) }
    }
}

/// `c10::OperatorHandle`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct OperatorHandle {
    /// The `OperatorDef`, whose first member is the `OperatorEntry`.
    pub(super) entry: *const c_void,
    node: *const c_void,
}

/// `std::optional<c10::OperatorHandle>`
#[repr(C)]
pub(super) struct MaybeHandle {
    pub(super) handle: OperatorHandle,
    pub(super) is_some: bool,
}

/// `std::optional<c10::DispatchKey>`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct MaybeKey {
    pub(super) key: u16,
    pub(super) is_some: bool,
}

/// `std::optional<c10::impl::CppSignature>`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct MaybeSignature {
    pub(super) type_index: usize,
    pub(super) is_some: bool,
}

/// `std::optional<double>`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct MaybeDouble {
    pub(super) value: f64,
    pub(super) is_some: bool,
}

/// `c10::IValue`: a payload and a tag.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct IValue {
    pub(super) payload: u64,
    pub(super) tag: u32,
    pad: u32,
}

impl IValue {
    pub(super) const fn new(tag: u32, payload: u64) -> Self {
        Self { payload, tag, pad: 0 }
    }
}

/// `torch::jit::Stack`
pub(super) type Stack = CxxVector<IValue>;

/// `c10::BoxedKernel::InternalBoxedKernelFunction`. May throw a C++ exception, which travels through our frames.
pub(super) type BoxedFunction = unsafe extern "C-unwind" fn(*mut c_void, *const OperatorHandle, u64, *mut Stack);

/// The start of `c10::KernelFunction` (and so of `AnnotatedKernel`).
#[repr(C)]
pub(super) struct KernelFunction {
    pub(super) functor: *mut c_void,
    pub(super) boxed: Option<BoxedFunction>,
    pub(super) unboxed: *mut c_void,
    pub(super) unboxed_symbolic: *mut c_void,
    /// Tokens of torch 2.9 and later; empty when zero.
    pub(super) rest: [usize; 4],
}

/// `c10::DataPtr`
#[repr(C)]
#[derive(Debug)]
pub(super) struct DataPtr {
    pub(super) data: *mut c_void,
    pub(super) deleter: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    pub(super) context: *mut c_void,
    pub(super) device: Device,
}

/// `allocate` of a `c10::Allocator`: fills the `DataPtr` that it is given.
pub(super) type Allocate = unsafe extern "C-unwind" fn(*mut DataPtr, *mut c_void, usize) -> *mut DataPtr;

/// `c10::Device`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) kind: i8,
    pub(super) index: i8,
}

impl Device {
    pub(super) const CPU: Self = Self { kind: 0, index: -1 };
    /// `c10::DeviceType::CUDA`
    pub(super) const CUDA: i8 = 1;
}

/// `std::optional<c10::Device>`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct MaybeDevice {
    pub(super) device: Device,
    pub(super) is_some: bool,
}

/// `c10::ArrayRef<int64_t>`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Integers {
    pub(super) data: *const i64,
    pub(super) length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that g++ gives to these types on 64-bit Linux.
    #[test]
    fn objects_have_the_sizes_of_libstdcxx() {
        assert_eq!(size_of::<CxxString>(), 32);
        assert_eq!(size_of::<CxxVector<u64>>(), 24);
        assert_eq!(size_of::<OperatorName>(), 64);
        assert_eq!(size_of::<IValue>(), 16);
        assert_eq!(size_of::<DataPtr>(), 32);
        assert_eq!(size_of::<Device>(), 2);
    }

    /// libstdc++ keeps up to 15 characters in the string itself; longer texts are on the heap, with their capacity
    /// stored there instead.
    #[test]
    fn short_strings_are_in_the_object_and_long_ones_on_the_heap() {
        for (text, is_local) in [("", true), ("fifteen letters", true), ("sixteen letters!", false)] {
            CxxString::with(text, |string| {
                // SAFETY: a live string, read only.
                let string = unsafe { &*string };
                assert_eq!(string.text(), text);
                assert_eq!(std::ptr::eq(string.data, string.local.as_ptr()), is_local, "{text}");
                // SAFETY: C++ strings end with a zero.
                assert_eq!(unsafe { string.data.add(text.len()).read() }, 0);
                if !is_local {
                    assert_eq!(string.local[..8], 16u64.to_ne_bytes());
                }
            });
        }
    }

    #[test]
    fn a_vector_keeps_its_values_while_it_grows() {
        let mut vector = CxxVector::new();
        assert!(vector.items().is_empty());
        (0..100u64).for_each(|value| vector.push(value * value));
        assert_eq!(vector.len(), 100);
        assert!(vector.items().iter().zip(0..).all(|(value, index)| *value == index * index));
        vector.free();
        assert_eq!(vector.len(), 0);
    }
}
