//! Objects of libtorch that the bridge holds: reference counts, tensors, storages, lists. Each is a pointer that libtorch
//! made; this code reads and writes the same fields as libtorch's own inline accessors.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::cxx::{DataPtr, Device, IValue, MaybeDevice, Stack};
use super::layout::at;
use super::libtorch::torch;

/// Bit of a reference count that says "has a Python object", torch 2.10 and later.
const HAS_PYTHON: u64 = 1 << 63;
/// `c10::ScalarType`
pub(super) const BYTE: u16 = 0;
const INT: u16 = 3;
const LONG: u16 = 4;
pub(super) const BOOL: u16 = 11;
const UNSIGNED_LONG: u16 = 29;

/// Bytes per element of the type with this c10 number (`c10/core/ScalarType.h`); `None` for types of less than a byte, and
/// for those added after torch 2.15.
pub(super) fn element_bytes(data_type: u16) -> Option<usize> {
    Some(match data_type {
        // uint8, int8, bool, qint8, quint8, five of float8.
        0 | 1 | BOOL | 12 | 13 | 23..=26 | 44 => 1,
        // int16, float16, bfloat16, uint16.
        2 | 5 | 15 | 27 => 2,
        // int32, float32, complex32, qint32, uint32.
        INT | 6 | 8 | 14 | 28 => 4,
        // int64, float64, complex64, uint64.
        LONG | 7 | 9 | UNSIGNED_LONG => 8,
        // complex128
        10 => 16,
        _ => return None,
    })
}

/// Whether the type has fractions: floating-point and complex numbers.
pub(super) fn is_real(data_type: u16) -> bool {
    matches!(data_type, 5..=10 | 15 | 23..=26 | 44)
}

const STRONG: u64 = 0xffff_ffff;
const WEAK_ONE: u64 = 1 << 32;

/// Indices into the virtual function table of `c10::intrusive_ptr_target`.
mod method {
    pub(super) const DELETE: usize = 1;
    pub(super) const RELEASE_RESOURCES: usize = 2;
    pub(super) const INCREF_PYTHON: usize = 3;
    pub(super) const DECREF_PYTHON: usize = 4;
}

/// Calls a virtual function without arguments.
///
/// # Safety
/// `object` is alive and its table has that entry.
unsafe fn call(object: *mut c_void, place: usize) {
    // SAFETY: the first word of the object is its table; the place holds a function of that signature.
    unsafe {
        let table = object.cast::<*const unsafe extern "C-unwind" fn(*mut c_void)>().read();
        (*table.add(place))(object);
    }
}

fn counts<'a>(object: *mut c_void) -> &'a AtomicU64 {
    // SAFETY: strong and weak count are the eight bytes after the table: one atomic, or two of four bytes before torch 2.10,
    // which added together never carry from one into the other.
    unsafe { AtomicU64::from_ptr(object.byte_add(8).cast()) }
}

/// Takes one more reference to an object that has no Python twin. Also works before libtorch's layout is known.
///
/// # Safety
/// `object` is a live `c10::intrusive_ptr_target`.
pub(super) unsafe fn retain_without_python(object: *mut c_void) {
    counts(object).fetch_add(1, Ordering::Relaxed);
}

/// Gives a new object its one reference, as `make_intrusive` does.
///
/// # Safety
/// `object` is a `c10::intrusive_ptr_target` that was just constructed.
pub(super) unsafe fn hold_new(object: *mut c_void) {
    counts(object).store(1 | WEAK_ONE, Ordering::Relaxed);
}

/// True if two objects are of the same C++ class.
///
/// # Safety
/// Both are live objects with virtual functions.
pub(super) unsafe fn is_same_class(one: *const c_void, other: *const c_void) -> bool {
    // SAFETY: by the caller; the first word is the table of the class.
    unsafe { one.cast::<usize>().read() == other.cast::<usize>().read() }
}

/// Changes an object's class to one that differs only in its virtual functions.
///
/// # Safety
/// `object` is alive, and `table` points to the functions of such a class.
pub(super) unsafe fn set_class(object: *mut c_void, table: *const *const c_void) {
    // SAFETY: by the caller; the first word is the table of the class.
    unsafe { object.cast::<*const *const c_void>().write(table) };
}

/// Takes one more reference to an object of libtorch.
///
/// # Safety
/// `object` is a live `c10::intrusive_ptr_target`.
pub(super) unsafe fn retain(object: *mut c_void) {
    let before = counts(object).fetch_add(1, Ordering::Relaxed);
    if torch().layout.has_python_bit && before & HAS_PYTHON != 0 && before & STRONG == 1 {
        // SAFETY: only classes that have these places carry the bit.
        unsafe { call(object, method::INCREF_PYTHON) };
    }
}

/// Releases one reference.
///
/// # Safety
/// The caller owned one reference to the live `object`.
pub(super) unsafe fn release(object: *mut c_void) {
    let before = counts(object).fetch_sub(1, Ordering::AcqRel);
    match before & STRONG {
        // SAFETY: it was the last strong reference: what `intrusive_ptr::reset_` does then.
        1 => unsafe {
            if before & !HAS_PYTHON != 1 | WEAK_ONE {
                call(object, method::RELEASE_RESOURCES);
                // The strong references together hold one weak one.
                let before = counts(object).fetch_sub(WEAK_ONE, Ordering::AcqRel);
                if (before & !HAS_PYTHON) >> 32 != 1 {
                    return;
                }
            }
            call(object, method::DELETE);
        },
        // SAFETY: only classes that have these places carry the bit.
        2 if torch().layout.has_python_bit && before & HAS_PYTHON != 0 => unsafe {
            call(object, method::DECREF_PYTHON);
        },
        _ => {}
    }
}

/// Takes one more reference to the object in a value, for the kinds that arguments have.
pub(super) fn retain_value(value: &IValue) {
    if holds_object(value) {
        // SAFETY: values of these tags hold a live object.
        unsafe { retain(value.payload as *mut c_void) };
    }
}

/// Releases a reference to the object in a value.
pub(super) fn release_value(value: &IValue) {
    if holds_object(value) {
        // SAFETY: values of these tags hold a live object; the caller owned the reference.
        unsafe { release(value.payload as *mut c_void) };
    }
}

/// `IValue::isIntrusivePtr`, and tensors.
fn holds_object(value: &IValue) -> bool {
    let is_plain = torch().layout.tags.is_plain(value.tag);
    !is_plain && value.payload != 0 && value.payload != torch().symbols.undefined as u64
}

/// True if this is the only reference to `object`.
pub(super) fn is_sole(object: *mut c_void) -> bool {
    counts(object).load(Ordering::Acquire) & !HAS_PYTHON == 1 | WEAK_ONE
}

/// The tensor classes whose fields the bridge knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `c10::TensorImpl`
    Plain,
    /// `at::SparseTensorImpl`: indices and values after two dimensions.
    Coordinates,
    /// `at::SparseCsrTensorImpl`: two kinds of indices, and values.
    Compressed,
    /// `at::QTensorImpl`: a plain tensor and how to read its integers.
    Quantized,
}

impl Form {
    /// Positions of the tensors in it, after the fields of the base class.
    pub(super) fn members(self) -> &'static [usize] {
        match self {
            Self::Plain | Self::Quantized => &[],
            Self::Coordinates => &[16, 24],
            Self::Compressed => &[0, 8, 16],
        }
    }
}

/// `shallow_copy_and_detach`
type ShallowCopy = unsafe extern "C-unwind" fn(*mut *mut c_void, *const c_void, *const c_void, bool) -> *mut c_void;

/// A `c10::TensorImpl`, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tensor(pub(super) *mut c_void);

impl Tensor {
    /// The tensor in a slot; `None` if there is none or it is undefined.
    pub(super) fn in_slot(slot: &IValue) -> Option<Self> {
        let object = slot.payload as *mut c_void;
        (slot.tag == super::layout::tag::TENSOR && object != torch().symbols.undefined).then_some(Self(object))
    }

    fn field<T>(self, offset: usize) -> *mut T {
        self.0.wrapping_byte_add(offset).cast()
    }

    /// A second tensor with the same storage or parts, owned by the caller, who must set its keys and device.
    pub(super) fn shallow_copy(self) -> Self {
        let mut copy = std::ptr::null_mut();
        // SAFETY: the virtual function of the live tensor's class, found by its place in the base class. The copy shares the
        // version counter, so an in-place change is counted there.
        unsafe {
            let table = self.0.cast::<*const *const c_void>().read();
            let shallow_copy: ShallowCopy = std::mem::transmute(table.add(torch().layout.shallow_copy).read());
            shallow_copy(&raw mut copy, self.0, self.0.wrapping_byte_add(at::VERSION), true);
        }
        Self(copy)
    }

    /// Its class; `None` for those that the bridge has no view for (wrapped, nested, quantized...).
    pub(super) fn form(self) -> Option<Form> {
        let symbols = &torch().symbols;
        // SAFETY: the first word of a live object is the address of its table's functions.
        let table = unsafe { self.0.cast::<usize>().read() } - 16;
        match table {
            table if table == symbols.tensor_table as usize => Some(Form::Plain),
            table if table == symbols.coo_table as usize => Some(Form::Coordinates),
            table if table == symbols.compressed_table as usize => Some(Form::Compressed),
            table if table == symbols.quantized_table as usize => Some(Form::Quantized),
            _ => None,
        }
    }

    /// True for a plain strided tensor, not one of the classes derived from it.
    pub(super) fn is_plain(self) -> bool {
        self.form() == Some(Form::Plain)
    }

    /// A part of a sparse tensor.
    pub(super) fn member(self, place: usize) -> Self {
        // SAFETY: `place` is of a tensor field of this tensor's class, past the fields of the base class.
        Self(unsafe { self.field::<*mut c_void>(torch().layout.derived() + place).read() })
    }

    /// Sets a part; takes over the reference, and does not release the previous one.
    pub(super) fn set_member(self, place: usize, part: Self) {
        // SAFETY: as in `member`.
        unsafe { self.field::<*mut c_void>(torch().layout.derived() + place).write(part.0) };
    }

    /// Copies the flags of a sparse tensor's coordinates.
    pub(super) fn copy_sparse_fields(self, from: Self, form: Form) {
        if form != Form::Coordinates {
            return;
        }
        let start = torch().layout.derived();
        // SAFETY: sparse_dim_, dense_dim_ and coalesced_ of two tensors of that class.
        unsafe {
            self.field::<[i64; 2]>(start).write(from.field::<[i64; 2]>(start).read());
            self.field::<bool>(start + 32).write(from.field::<bool>(start + 32).read());
        }
    }

    /// `device()` from the field.
    pub(super) fn device(self) -> Device {
        // SAFETY: the field of a live tensor.
        unsafe { self.field::<Device>(torch().layout.device()).read() }
    }

    pub(super) fn set_device(self, device: Device) {
        // SAFETY: the field of a live tensor that nothing else sees.
        unsafe { self.field::<Device>(torch().layout.device()).write(device) };
    }

    /// The `DispatchKeySet`.
    pub(super) fn keys(self) -> u64 {
        // SAFETY: the field of a live tensor.
        unsafe { self.field::<u64>(torch().layout.keys_at()).read() }
    }

    pub(super) fn set_keys(self, keys: u64) {
        // SAFETY: the field of a live tensor that nothing else sees.
        unsafe { self.field::<u64>(torch().layout.keys_at()).write(keys) };
    }

    /// The storage; null for the classes without one.
    pub(super) fn storage(self) -> Storage {
        // SAFETY: the field of a live tensor.
        Storage(unsafe { self.field::<*mut c_void>(at::STORAGE).read() })
    }

    /// `scalar_type()` as c10 numbers it.
    pub(super) fn data_type(self) -> u16 {
        // SAFETY: the field of a live tensor.
        unsafe { self.field::<u16>(torch().layout.data_type()).read() }
    }

    /// Number of elements.
    pub(super) fn elements(self) -> i64 {
        // SAFETY: the field of a live tensor.
        unsafe { self.field::<i64>(torch().layout.storage_offset() + 8).read() }
    }

    /// Sizes and strides, in elements.
    pub(super) fn sizes_and_strides(&self) -> (&[i64], &[i64]) {
        let sizes: *mut u64 = self.field(torch().layout.sizes);
        // SAFETY: `SizesAndStrides`: a count, then the numbers, or where they are; sizes first, then strides.
        unsafe {
            let count = sizes.read() as usize;
            let (first, room) = if count <= at::INLINE_DIMENSIONS {
                (sizes.add(1).cast::<i64>().cast_const(), at::INLINE_DIMENSIONS)
            } else {
                (sizes.add(1).cast::<*const i64>().read(), count)
            };
            (std::slice::from_raw_parts(first, count), std::slice::from_raw_parts(first.add(room), count))
        }
    }

    /// Address of the first element.
    fn address(self, element_bytes: usize) -> usize {
        self.storage().data() + self.storage_offset() as usize * element_bytes
    }

    /// The numbers of a one-dimensional tensor of 32- or 64-bit integers; empty for others.
    pub(super) fn integers(self) -> Vec<i64> {
        let (sizes, strides) = self.sizes_and_strides();
        let (&[count], &[stride]) = (sizes, strides) else { return Vec::new() };
        let place = |index: i64| (index * stride) as usize;
        (0..count)
            .filter_map(|index| match self.data_type() {
                // SAFETY: an element of a live tensor; a GPU's memory is this process's.
                INT => Some(i64::from(unsafe { (self.address(4) as *const i32).add(place(index)).read() })),
                // SAFETY: as above.
                LONG => Some(unsafe { (self.address(8) as *const i64).add(place(index)).read() }),
                _ => None,
            })
            .collect()
    }

    /// Writes the elements of a contiguous tensor of 32- or 64-bit integers; does nothing for others.
    pub(super) fn write_integers(self, numbers: &[i64]) {
        if !self.is_contiguous() || self.elements() as usize != numbers.len() {
            return;
        }
        for (index, number) in numbers.iter().enumerate() {
            match self.data_type() {
                // SAFETY: an element of a live tensor that only this call has to do with; a GPU's memory is this process's.
                INT => unsafe { (self.address(4) as *mut i32).add(index).write(*number as i32) },
                // SAFETY: as above.
                LONG => unsafe { (self.address(8) as *mut i64).add(index).write(*number) },
                _ => {}
            }
        }
    }

    /// The elements of a contiguous tensor of 64-bit integers.
    pub(super) fn words<'a>(self) -> Option<&'a mut [u64]> {
        let is_word = matches!(self.data_type(), LONG | UNSIGNED_LONG) && self.is_contiguous();
        // SAFETY: the elements of a live tensor that only this call has to do with; a GPU's memory is this process's.
        (is_word && self.storage().data() != 0)
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.address(8) as *mut u64, self.elements() as usize) })
    }

    pub(super) fn storage_offset(self) -> i64 {
        // SAFETY: the field of a live tensor.
        unsafe { self.field::<i64>(torch().layout.storage_offset()).read() }
    }

    /// True if it is one number that represents a Python scalar.
    pub(super) fn is_wrapped_number(self) -> bool {
        // SAFETY: the byte of flags of a live tensor.
        unsafe { self.field::<u8>(torch().layout.flags()).read() & 0x80 != 0 }
    }

    /// True if its elements are contiguous. (Bit 0 of the flags.)
    pub(super) fn is_contiguous(self) -> bool {
        // SAFETY: the byte of flags of a live tensor.
        unsafe { self.field::<u8>(torch().layout.flags()).read() & 1 != 0 }
    }

    /// Replaces its storage; takes a reference to the new one and returns the old one's.
    pub(super) fn exchange_storage(self, storage: Storage) -> Storage {
        // SAFETY: the field of a live tensor that nothing else changes now.
        Storage(unsafe { self.field::<*mut c_void>(at::STORAGE).replace(storage.0) })
    }

    /// Exchanges shapes with `other`, leaving identity, storage, keys, device and autograd state.
    pub(super) fn exchange_shape(self, other: Self) {
        let layout = &torch().layout;
        // The flags between the two that are not about shape stay: storage_access_should_throw and is_wrapped_number.
        const SHAPE: u8 = 0b0111_1101;
        // SAFETY: both are plain tensors, so the fields have equal layout; a move of the bytes is a swap of the C++ values.
        unsafe {
            std::ptr::swap_nonoverlapping(
                self.field::<u8>(layout.sizes),
                other.field::<u8>(layout.sizes),
                layout.data_type() - layout.sizes,
            );
            let (mine, theirs) = (self.field::<u8>(layout.flags()), other.field::<u8>(layout.flags()));
            let changed = (mine.read() ^ theirs.read()) & SHAPE;
            mine.write(mine.read() ^ changed);
            theirs.write(theirs.read() ^ changed);
        }
    }
}

/// A `c10::StorageImpl`, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Storage(pub(super) *mut c_void);

impl Storage {
    /// Address of the first byte.
    pub(super) fn data(self) -> usize {
        // SAFETY: the first word of the `DataPtr` of a live storage.
        unsafe { self.0.wrapping_byte_add(at::DATA).cast::<usize>().read() }
    }

    /// How many bytes.
    pub(super) fn bytes(self) -> usize {
        // SAFETY: the field of a live storage: a `SymInt`, which is a number here.
        unsafe { self.0.wrapping_byte_add(at::SIZE).cast::<usize>().read() }
    }

    pub(super) fn device(self) -> Device {
        // SAFETY: the field of a live storage.
        unsafe { self.0.wrapping_byte_add(at::DATA_DEVICE).cast::<Device>().read() }
    }

    /// Another CPU storage over the same bytes, which it does not own; the caller owns the storage.
    pub(super) fn twin(self) -> Self {
        self.twin_kept_by(&BORROWED)
    }

    /// [`Storage::twin`] of a result that nobody has seen yet: its bytes may be replaced.
    pub(super) fn replaceable_twin(self) -> Self {
        self.twin_kept_by(&REPLACEABLE)
    }

    fn twin_kept_by(self, mark: &'static u8) -> Self {
        let torch = torch();
        let mut data = DataPtr {
            data: self.data() as *mut c_void,
            deleter: Some(keep),
            context: std::ptr::from_ref(mark).cast_mut().cast(),
            device: Device::CPU,
        };
        let mut twin = std::ptr::null_mut();
        // SAFETY: fields of a live storage; `make_storage_impl` takes its arguments by address where C++ does.
        unsafe {
            // A copy, since C++ moves its value away.
            let mut size = self.0.wrapping_byte_add(at::SIZE).cast::<i64>().read();
            let resizable = self.0.wrapping_byte_add(at::RESIZABLE).cast::<bool>().read();
            (torch.symbols.make_storage)(
                &raw mut twin,
                &raw mut size,
                &raw mut data,
                super::allocator::installed(),
                resizable,
                MaybeDevice { device: Device::CPU, is_some: true },
            );
        }
        Self(twin)
    }

    /// True for a twin whose bytes still belong to another storage.
    pub(super) fn is_borrowed(self) -> bool {
        self.is_marked(&BORROWED) || self.is_replaceable()
    }

    /// True for a [`Storage::replaceable_twin`] whose bytes still belong to another storage.
    pub(super) fn is_replaceable(self) -> bool {
        self.is_marked(&REPLACEABLE)
    }

    fn is_marked(self, mark: &'static u8) -> bool {
        // SAFETY: the context of the `DataPtr` of a live storage, its third word.
        let context = unsafe { self.0.wrapping_byte_add(at::DATA + 16).cast::<*const u8>().read() };
        std::ptr::eq(context, mark)
    }

    /// Exchanges the bytes with `other`: address, owner and size; each keeps its device.
    pub(super) fn exchange_bytes(self, other: Self) {
        // SAFETY: fields of live storages that nothing else changes now; moved bytewise, as a C++ swap does.
        unsafe {
            for (offset, length) in [(at::DATA, at::DATA_DEVICE - at::DATA), (at::SIZE, 8)] {
                std::ptr::swap_nonoverlapping(
                    self.0.wrapping_byte_add(offset).cast::<u8>(),
                    other.0.wrapping_byte_add(offset).cast::<u8>(),
                    length,
                );
            }
        }
    }

    /// Marks the bytes as GPU memory, and sets the allocator for more of them.
    pub(super) fn belong_to(self, device: Device) {
        let torch = torch();
        // SAFETY: the fields of a live storage that only the tensors of this call share.
        unsafe {
            self.0.wrapping_byte_add(at::DATA_DEVICE).cast::<Device>().write(device);
            self.0
                .wrapping_byte_add(torch.layout.allocator)
                .cast::<super::symbols::Allocator>()
                .write(torch.cuda_allocator());
        }
    }
}

/// The deleter of bytes that someone else owns.
unsafe extern "C-unwind" fn keep(_context: *mut c_void) {}

/// Contexts of bytes that someone else owns. They are distinguished by address: a static has exactly one, whereas a function may
/// have several, or share one with others.
static BORROWED: u8 = 0;
static REPLACEABLE: u8 = 1;

/// The values of a `c10::detail::ListImpl`.
///
/// # Safety
/// `list` is alive, and nothing else changes it in the meantime.
pub(super) unsafe fn list_items<'a>(list: *mut c_void) -> &'a mut [IValue] {
    // SAFETY: the vector is the list's first member.
    unsafe { (*list.byte_add(at::LIST).cast::<Stack>()).items() }
}

/// The `c10::TypePtr` of the members of a `c10::detail::ListImpl`, with its own reference.
///
/// # Safety
/// `list` is alive.
pub(super) unsafe fn list_type(list: *mut c_void) -> [*mut c_void; 2] {
    // SAFETY: the type is the list's second member.
    let kind = unsafe { list.byte_add(at::LIST + size_of::<Stack>()).cast::<[*mut c_void; 2]>().read() };
    if !kind[1].is_null() {
        // SAFETY: a `std::shared_ptr`'s block, live as the list is: in libstdc++ the count of its owners is behind its table.
        unsafe { (*kind[1].byte_add(size_of::<usize>()).cast::<AtomicU32>()).fetch_add(1, Ordering::Relaxed) };
    }
    kind
}
