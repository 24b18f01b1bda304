//! Where the fields of libtorch's objects are. The few that moved between versions are located on a tensor made for the
//! purpose; if anything unexpected is found, the bridge stays off rather than guess.

use std::ffi::c_void;

use super::cxx::{CxxString, Device, OperatorHandle};
use super::symbols::Symbols;

/// `IValue::Tag` (ATen/core/ivalue.h), as far as no version changed it.
pub(super) mod tag {
    pub(crate) const NONE: u32 = 0;
    pub(crate) const TENSOR: u32 = 1;
    pub(crate) const DOUBLE: u32 = 3;
    pub(crate) const INT: u32 = 5;
}

/// The other tags. torch 2.9 added one for unsigned integers after `INT`, so the later ones moved by one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tags {
    pub(super) boolean: u32,
    pub(super) list: u32,
    pub(super) device: u32,
    pub(super) generator: u32,
    /// Those that hold a value, not an object, and are not named above.
    plain: [u32; 2],
}

impl Tags {
    /// Finds them by the tag of a boolean that libtorch made.
    pub(super) fn find(boolean: u32) -> Option<Self> {
        let moved = match boolean {
            9 => 0,
            10 => 1,
            _ => return None,
        };
        // Unsigned integers (none before torch 2.9, when the next is an integer too) and what was never set.
        let plain = [tag::INT + moved, 21 + moved];
        Some(Self { boolean, list: 13 + moved, device: 17 + moved, generator: 25 + moved, plain })
    }

    /// True for values that hold no reference.
    pub(super) fn is_plain(&self, tag: u32) -> bool {
        matches!(tag, tag::NONE | tag::DOUBLE | tag::INT)
            || tag == self.boolean
            || tag == self.device
            || self.plain.contains(&tag)
    }
}

/// Offsets, in bytes, that no version changed.
pub(super) mod at {
    /// `TensorImpl::storage_`
    pub(crate) const STORAGE: usize = 16;
    /// `TensorImpl::version_counter_`
    pub(crate) const VERSION: usize = 40;
    /// `StorageImpl::data_ptr_`
    pub(crate) const DATA: usize = 16;
    /// `StorageImpl::data_ptr_.device_`
    pub(crate) const DATA_DEVICE: usize = 40;
    /// `StorageImpl::size_bytes_`
    pub(crate) const SIZE: usize = 48;
    /// `StorageImpl::resizable_`
    pub(crate) const RESIZABLE: usize = 57;
    /// `ListImpl::list`
    pub(crate) const LIST: usize = 16;
    /// `OperatorEntry::schema_`, after the name.
    pub(crate) const SCHEMA: usize = 64;
    /// `SizesAndStrides`: the number of dimensions, then five sizes and five strides, or one pointer if there are more.
    pub(crate) const INLINE_DIMENSIONS: usize = 5;
}

/// The parts that differ between versions, and the numbers that this process's libtorch assigns to its dispatch keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// `TensorImpl::sizes_and_strides_`; `storage_offset_` and `numel_` follow it.
    pub(super) sizes: usize,
    /// `StorageImpl::allocator_`
    pub(super) allocator: usize,
    /// Index of `shallow_copy_and_detach` in the virtual function table.
    pub(super) shallow_copy: usize,
    /// Whether reference counts carry the bit "has a Python object" (torch 2.10 and later).
    pub(super) has_python_bit: bool,
    pub(super) tags: Tags,
    pub(super) keys: Keys,
}

/// Dispatch keys as numbers, and their bits in a `DispatchKeySet`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub(super) cpu: u16,
    pub(super) cuda: u16,
    pub(super) composite: [u16; 3],
    /// `DispatchKeySet(DispatchKey::CPU)`
    pub(super) dense_cpu: u64,
    /// `DispatchKeySet(DispatchKey::CUDA)`
    pub(super) dense_cuda: u64,
    /// Keys that a CPU tensor has but a CUDA tensor does not.
    pub(super) only_cpu: u64,
    /// Keys that a CUDA tensor has but a CPU tensor does not.
    pub(super) only_cuda: u64,
    /// Marks of a tensor that is lazily conjugated, negated or zero.
    pub(super) lazy: u64,
    /// Keys of other kinds of tensors, (CPU, CUDA): coordinates, compressed, quantized.
    pub(super) special: [(u16, u16); 3],
    /// Keys above the backend, which a view for a CPU kernel lacks.
    pub(super) above: u64,
}

/// Size of `SizesAndStrides`.
const SIZES_LENGTH: usize = 8 + 16 * at::INLINE_DIMENSIONS;

impl Layout {
    pub(super) fn storage_offset(&self) -> usize {
        self.sizes + SIZES_LENGTH
    }

    pub(super) fn data_type(&self) -> usize {
        self.storage_offset() + 16
    }

    /// `device_opt_`: kind, index, whether it is set.
    pub(super) fn device(&self) -> usize {
        self.data_type() + 2
    }

    /// Contiguity flags, in one byte with others.
    pub(super) fn flags(&self) -> usize {
        self.device() + 3
    }

    /// Where the fields of derived classes begin.
    pub(super) fn derived(&self) -> usize {
        self.keys_at() + 8
    }

    pub(super) fn keys_at(&self) -> usize {
        self.data_type() + 8
    }

    /// Detects the layout on a scalar CPU tensor.
    ///
    /// # Errors
    /// What does not match any known version.
    pub(super) fn find(
        symbols: &Symbols,
        keys: Keys,
        tags: Tags,
        has_python_bit: bool,
        scalar: *mut c_void,
    ) -> Result<Self, &'static str> {
        let byte = |object: *mut c_void, offset: usize| {
            // SAFETY: both objects are far longer than the offsets asked for.
            unsafe { object.cast::<u8>().add(offset).read() }
        };
        let word = |object: *mut c_void, offset: usize| {
            // SAFETY: as above; fields of eight bytes are aligned.
            unsafe { object.cast::<u8>().add(offset).cast::<u64>().read() }
        };
        let unknown = Self { sizes: 0, allocator: 0, shallow_copy: 0, has_python_bit, tags, keys };
        // One word for the Python object, or two before torch 2.13.
        let fits = |layout: &Self| {
            let device = [0, 1, 2].map(|index| byte(scalar, layout.device() + index));
            word(scalar, layout.sizes) == 0 && device == [0, 0xff, 1]
        };
        let mut layout = [56, 64]
            .map(|sizes| Self { sizes, ..unknown })
            .into_iter()
            .find(fits)
            .ok_or("c10::TensorImpl has another layout")?;
        let keys = word(scalar, layout.keys_at());
        if keys & layout.keys.dense_cpu != layout.keys.dense_cpu {
            return Err("c10::TensorImpl keeps its dispatch keys elsewhere");
        }
        let storage = word(scalar, at::STORAGE) as *mut c_void;
        // SAFETY: the getter of c10, with a device type.
        let expected = unsafe { (symbols.get_allocator)(&Device::CPU.kind) } as u64;
        layout.allocator = (56..=96)
            .step_by(8)
            .find(|offset| word(storage, *offset) == expected)
            .ok_or("c10::StorageImpl has another layout")?;
        if byte(storage, at::DATA_DEVICE) != 0 || word(scalar, 0) != symbols.tensor_table as u64 + 16 {
            return Err("c10::StorageImpl has another layout");
        }
        layout.shallow_copy = (2..200)
            .find(|place| {
                // SAFETY: the table of c10::TensorImpl is longer; the search ends at the function, which it has.
                let function = unsafe { symbols.tensor_table.cast::<usize>().add(2 + place).read() };
                function == symbols.shallow_copy as *const () as usize
            })
            .ok_or("c10::TensorImpl has other virtual functions")?;
        Ok(layout)
    }
}

impl Keys {
    /// Finds them by c10's own names, because the numbers change with every added key.
    pub(super) fn find(symbols: &Symbols) -> Self {
        let key = |name: &str| {
            // SAFETY: c10's parser of key names, all of which exist since torch 2.0.
            CxxString::with(name, |name| unsafe { (symbols.parse_key)(name) })
        };
        // The keys of one functionality are a start marker and one key per backend, in the order of the backends, so the
        // distance between two functionalities of one backend is the number of backends and one.
        let backends = u32::from(key("QuantizedCPU") - key("CPU")) - 1;
        let functionality = |name: &str| 1u64 << (backends + u32::from(key(name)) - 1);
        let (cpu, cuda) = (1u64, 2u64);
        let autocast = [functionality("AutocastCPU"), functionality("AutocastCUDA")];
        let dense = functionality("Dense");
        Self {
            cpu: key("CPU"),
            cuda: key("CUDA"),
            composite: [
                key("CompositeExplicitAutogradNonFunctional"),
                key("CompositeExplicitAutograd"),
                key("CompositeImplicitAutograd"),
            ],
            dense_cpu: dense | cpu,
            dense_cuda: dense | cuda,
            lazy: functionality("Conjugate") | functionality("Negative") | functionality("ZeroTensor"),
            special: [
                (key("SparseCPU"), key("SparseCUDA")),
                (key("SparseCsrCPU"), key("SparseCsrCUDA")),
                (key("QuantizedCPU"), key("QuantizedCUDA")),
            ],
            only_cpu: cpu | autocast[0],
            only_cuda: cuda | autocast[1],
            above: functionality("AutogradFunctionality")
                | functionality("ADInplaceOrView")
                | autocast[0]
                | autocast[1],
        }
    }
}

/// Room for a `std::ostringstream`, which has 376 bytes in libstdc++'s ABI.
#[repr(C, align(16))]
struct Stream([u8; 512]);

/// `std::ios_base::out`
const OUT: i32 = 16;

/// The text of an operator's schema as PyTorch prints it, with the marks of the arguments that it writes (`Tensor(a!)`).
pub(super) fn schema(symbols: &Symbols, handle: &OperatorHandle) -> String {
    let mut stream = Stream([0; 512]);
    let stream = (&raw mut stream).cast::<c_void>();
    let mut text = std::mem::MaybeUninit::<CxxString>::uninit();
    // SAFETY: the operator was found by `findSchema`, so its entry has a schema, right after the two strings of its name. The
    // stream is made before it is used and ended after; its first base class is a `std::ostream`. `str` makes the string.
    unsafe {
        (symbols.make_stream)(stream, OUT);
        (symbols.print_schema)(stream, handle.entry.byte_add(at::SCHEMA));
        (symbols.stream_text)(text.as_mut_ptr(), stream);
        (symbols.end_stream)(stream);
        let text = text.assume_init_mut();
        let schema = text.text();
        text.free();
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TORCH_FORALL_TAGS` of ATen/core/ivalue.h, torch 2.8; 2.9 has `UInt` after `Int`.
    const TORCH_2_8: [&str; 27] = [
        "None",
        "Tensor",
        "Storage",
        "Double",
        "ComplexDouble",
        "Int",
        "SymInt",
        "SymFloat",
        "SymBool",
        "Bool",
        "Tuple",
        "String",
        "Blob",
        "GenericList",
        "GenericDict",
        "Future",
        "Await",
        "Device",
        "Stream",
        "Object",
        "PyObject",
        "Uninitialized",
        "Capsule",
        "RRef",
        "Quantizer",
        "Generator",
        "Enum",
    ];

    #[test]
    fn tags_are_those_of_the_header() {
        let mut torch_2_9 = TORCH_2_8.to_vec();
        torch_2_9.insert(6, "UInt");
        for names in [&TORCH_2_8[..], &torch_2_9] {
            let tag = |name: &str| names.iter().position(|known| *known == name).map(|place| place as u32);
            let tags = Tags::find(tag("Bool").unwrap()).unwrap();
            assert_eq!(Some(tags.list), tag("GenericList"));
            assert_eq!(Some(tags.device), tag("Device"));
            assert_eq!(Some(tags.generator), tag("Generator"));
            assert_eq!([Some(tag::NONE), Some(tag::TENSOR)], [tag("None"), tag("Tensor")]);
            assert_eq!([Some(tag::DOUBLE), Some(tag::INT)], [tag("Double"), tag("Int")]);
            // `IValue::isIntrusivePtr` lists those that are counted.
            for counted in
                ["Tensor", "Storage", "ComplexDouble", "Tuple", "String", "GenericList", "GenericDict", "Generator"]
            {
                assert!(!tags.is_plain(tag(counted).unwrap()), "{counted}");
            }
            for plain in ["None", "Double", "Int", "Bool", "Device", "Uninitialized"] {
                assert!(tags.is_plain(tag(plain).unwrap()), "{plain}");
            }
        }
    }

    #[test]
    fn an_unknown_tag_of_a_boolean_is_not_guessed() {
        assert!((0..40).filter(|tag| Tags::find(*tag).is_some()).eq([9, 10]));
    }

    /// c10/core/impl/SizesAndStrides.h: five inline dimensions, 88 bytes in all.
    #[test]
    fn sizes_and_strides_take_eleven_words() {
        assert_eq!(SIZES_LENGTH, 88);
    }
}
