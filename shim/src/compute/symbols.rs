//! libtorch's functions that the bridge calls, by their mangled names. They are looked up in the libraries that the process
//! has already loaded; nothing is loaded for them.

use std::ffi::{CStr, c_void};

use super::cxx::{
    CxxString, CxxVector, DataPtr, Device, Integers, MaybeDevice, MaybeDouble, MaybeHandle, MaybeKey, MaybeSignature,
    OperatorName,
};

/// A `c10::Allocator` (its first word is its table of virtual functions).
pub(super) type Allocator = *mut *const *const c_void;

/// `at::mt19937_engine`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Engine {
    pub(super) seed: u64,
    pub(super) left: i32,
    pub(super) seeded: bool,
    pub(super) next: u32,
    pub(super) state: [u32; 624],
}

/// `c10::cuda::CUDAStream`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CudaStream {
    device: Device,
    pub(super) id: i64,
}

/// A library of PyTorch that is loaded.
pub(super) struct Loaded(*mut c_void);

impl Loaded {
    /// The library with that soname, if the process has it.
    pub(super) fn find(soname: &CStr) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD only looks; the handle is kept for good, so what it finds stays.
        let handle = unsafe { libc::dlopen(soname.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// Address of a symbol of the library or of one that it needs.
    pub(super) fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a handle that is never closed, and a C string.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}

/// The two libraries that contain the symbols.
pub(super) struct Libraries {
    pub(super) torch_cpu: Loaded,
    pub(super) torch_cuda: Loaded,
}

impl Libraries {
    /// Both, if the process has them.
    pub(super) fn find() -> Option<Self> {
        Some(Self { torch_cpu: Loaded::find(c"libtorch_cpu.so")?, torch_cuda: Loaded::find(c"libtorch_cuda.so")? })
    }
}

macro_rules! symbols {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $library:ident $name:literal;)*) => {
        /// The functions and variables.
        #[derive(Debug)]
        pub(super) struct Symbols { $($(#[$doc])* pub(super) $field: $type,)* }

        impl Symbols {
            /// Finds them all.
            ///
            /// # Errors
            /// The name of the first that is missing.
            pub(super) fn find(libraries: &Libraries) -> Result<Self, &'static CStr> {
                let find = |library: &Loaded, name: &'static CStr| library.symbol(name).ok_or(name);
                Ok(Self {
                    // SAFETY: the mangled name gives the symbol's type, and `$type` is the same in Rust.
                    $($field: unsafe { std::mem::transmute_copy::<*mut c_void, $type>(&find(&libraries.$library, $name)?) },)*
                })
            }
        }
    };
}

type Generator = *mut c_void;
type Dispatcher = *mut c_void;

symbols! {
    /// `c10::Dispatcher::realSingleton()`
    dispatcher: unsafe extern "C-unwind" fn() -> Dispatcher = torch_cpu c"_ZN3c1010Dispatcher13realSingletonEv";
    /// `c10::Dispatcher::findSchema(OperatorName const&)`
    find_schema: unsafe extern "C-unwind" fn(*mut MaybeHandle, Dispatcher, *const OperatorName) -> *mut MaybeHandle
        = torch_cpu c"_ZN3c1010Dispatcher10findSchemaERKNS_12OperatorNameE";
    /// `c10::Dispatcher::getRegistrationsForDispatchKey(std::optional<DispatchKey>) const`
    registrations: unsafe extern "C-unwind" fn(*mut CxxVector<OperatorName>, Dispatcher, MaybeKey) -> *mut c_void
        = torch_cpu c"_ZNK3c1010Dispatcher30getRegistrationsForDispatchKeyESt8optionalINS_11DispatchKeyEE";
    /// `c10::Dispatcher::registerImpl(OperatorName, std::optional<DispatchKey>, KernelFunction, ...)`
    register_kernel: unsafe extern "C-unwind" fn(
        *mut [usize; 8], Dispatcher, *mut OperatorName, MaybeKey, *mut super::cxx::KernelFunction, MaybeSignature,
        *mut *mut c_void, *mut CxxString,
    ) -> *mut c_void
        = torch_cpu c"_ZN3c1010Dispatcher12registerImplENS_12OperatorNameESt8optionalINS_11DispatchKeyEENS_14KernelFunctionES2_INS_4impl12CppSignatureEESt10unique_ptrINS_14FunctionSchemaESt14default_deleteISA_EENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
    /// `c10::impl::OperatorEntry::getKernelForDispatchKey(DispatchKey) const`
    kernel_of: unsafe extern "C-unwind" fn(*const c_void, u16) -> *const super::cxx::KernelFunction
        = torch_cpu c"_ZNK3c104impl13OperatorEntry23getKernelForDispatchKeyENS_11DispatchKeyE";
    /// `c10::operator<<(std::ostream&, FunctionSchema const&)`
    print_schema: unsafe extern "C-unwind" fn(*mut c_void, *const c_void) -> *mut c_void
        = torch_cpu c"_ZN3c10lsERSoRKNS_14FunctionSchemaE";
    /// `std::ostringstream::ostringstream(std::ios_base::openmode)`
    make_stream: unsafe extern "C-unwind" fn(*mut c_void, i32)
        = torch_cpu c"_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1ESt13_Ios_Openmode";
    /// `std::ostringstream::str() const`
    stream_text: unsafe extern "C-unwind" fn(*mut CxxString, *const c_void) -> *mut CxxString
        = torch_cpu c"_ZNKSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEE3strEv";
    /// `std::ostringstream::~ostringstream()`
    end_stream: unsafe extern "C-unwind" fn(*mut c_void)
        = torch_cpu c"_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEED1Ev";
    /// `c10::parseDispatchKey(std::string const&)`
    parse_key: unsafe extern "C-unwind" fn(*const CxxString) -> u16
        = torch_cpu c"_ZN3c1016parseDispatchKeyERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
    /// `c10::WarningUtils::get_warning_handler()`
    warning_handler: unsafe extern "C-unwind" fn() -> *mut c_void
        = torch_cpu c"_ZN3c1012WarningUtils19get_warning_handlerEv";
    /// `c10::WarningUtils::set_warning_handler(WarningHandler*)`
    set_warning_handler: unsafe extern "C-unwind" fn(*mut c_void)
        = torch_cpu c"_ZN3c1012WarningUtils19set_warning_handlerEPNS_14WarningHandlerE";
    /// `c10::TensorImpl::shallow_copy_and_detach(VariableVersion const&, bool) const`
    shallow_copy: unsafe extern "C-unwind" fn(*mut *mut c_void, *const c_void, *const c_void, bool) -> *mut c_void
        = torch_cpu c"_ZNK3c1010TensorImpl23shallow_copy_and_detachERKNS_15VariableVersionEb";
    /// `c10::make_storage_impl(StorageImpl::use_byte_size_t, SymInt, DataPtr, Allocator*, bool, std::optional<Device>)`; the
    /// first is empty, so it is not passed.
    make_storage: unsafe extern "C-unwind" fn(*mut *mut c_void, *mut i64, *mut DataPtr, Allocator, bool, MaybeDevice) -> *mut c_void
        = torch_cpu c"_ZN3c1017make_storage_implENS_11StorageImpl15use_byte_size_tENS_6SymIntENS_7DataPtrEPNS_9AllocatorEbSt8optionalINS_6DeviceEE";
    /// `vtable for c10::TensorImpl`
    tensor_table: *const c_void = torch_cpu c"_ZTVN3c1010TensorImplE";
    /// `vtable for at::SparseTensorImpl`
    coo_table: *const c_void = torch_cpu c"_ZTVN2at16SparseTensorImplE";
    /// `vtable for at::SparseCsrTensorImpl`
    compressed_table: *const c_void = torch_cpu c"_ZTVN2at19SparseCsrTensorImplE";
    /// `vtable for at::QTensorImpl`
    quantized_table: *const c_void = torch_cpu c"_ZTVN2at11QTensorImplE";
    /// `c10::UndefinedTensorImpl::_singleton`
    undefined: *mut c_void = torch_cpu c"_ZN3c1019UndefinedTensorImpl10_singletonE";
    /// `c10::SetAllocator(DeviceType, Allocator*, uint8_t)`
    set_allocator: unsafe extern "C-unwind" fn(i8, Allocator, u8)
        = torch_cpu c"_ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorEh";
    /// `c10::GetAllocator(DeviceType const&)`
    get_allocator: unsafe extern "C-unwind" fn(*const i8) -> Allocator
        = torch_cpu c"_ZN3c1012GetAllocatorERKNS_10DeviceTypeE";
    /// `at::detail::empty_strided_generic(IntArrayRef, IntArrayRef, Allocator*, DispatchKeySet, ScalarType)`
    empty_strided: unsafe extern "C-unwind" fn(*mut *mut c_void, Integers, Integers, Allocator, u64, i8) -> *mut c_void
        = torch_cpu c"_ZN2at6detail21empty_strided_genericEN3c108ArrayRefIlEES3_PNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeE";
    /// `c10::cuda::CUDACachingAllocator::allocator`
    cuda_allocator: *const Allocator = torch_cuda c"_ZN3c104cuda20CUDACachingAllocator9allocatorE";
    /// `c10::cuda::ExchangeDevice(DeviceIndex)`
    exchange_device: unsafe extern "C-unwind" fn(i8) -> i8 = torch_cuda c"_ZN3c104cuda14ExchangeDeviceEa";
    /// `c10::cuda::MaybeExchangeDevice(DeviceIndex)`
    maybe_exchange_device: unsafe extern "C-unwind" fn(i8) -> i8 = torch_cuda c"_ZN3c104cuda19MaybeExchangeDeviceEa";
    /// `c10::cuda::getCurrentCUDAStream(DeviceIndex)`
    current_stream: unsafe extern "C-unwind" fn(i8) -> CudaStream
        = torch_cuda c"_ZN3c104cuda20getCurrentCUDAStreamEa";
    /// `c10::cuda::CUDAStream::stream() const`
    stream_handle: unsafe extern "C-unwind" fn(*const CudaStream) -> *mut c_void
        = torch_cuda c"_ZNK3c104cuda10CUDAStream6streamEv";
    /// `at::detail::createCPUGenerator(uint64_t)`
    create_generator: unsafe extern "C-unwind" fn(*mut Generator, u64) -> *mut c_void
        = torch_cpu c"_ZN2at6detail18createCPUGeneratorEm";
    /// `at::CPUGeneratorImpl::engine()`
    engine: unsafe extern "C-unwind" fn(*mut Engine, Generator) -> *mut Engine
        = torch_cpu c"_ZN2at16CPUGeneratorImpl6engineEv";
    /// `at::CPUGeneratorImpl::set_engine(mt19937_engine)`
    set_engine: unsafe extern "C-unwind" fn(Generator, Engine)
        = torch_cpu c"_ZN2at16CPUGeneratorImpl10set_engineENS_14mt19937_engineE";
    /// `at::CPUGeneratorImpl::next_double_normal_sample()`
    next_normal: unsafe extern "C-unwind" fn(Generator) -> MaybeDouble
        = torch_cpu c"_ZN2at16CPUGeneratorImpl25next_double_normal_sampleEv";
    /// `at::CPUGeneratorImpl::set_next_double_normal_sample(std::optional<double>)`
    set_next_normal: unsafe extern "C-unwind" fn(Generator, MaybeDouble)
        = torch_cpu c"_ZN2at16CPUGeneratorImpl29set_next_double_normal_sampleESt8optionalIdE";
    /// `at::cuda::detail::getDefaultCUDAGenerator(DeviceIndex)`
    cuda_generator: unsafe extern "C-unwind" fn(i8) -> *const Generator
        = torch_cuda c"_ZN2at4cuda6detail23getDefaultCUDAGeneratorEa";
    /// `at::CUDAGeneratorImpl::current_seed() const`
    cuda_seed: unsafe extern "C-unwind" fn(Generator) -> u64
        = torch_cuda c"_ZNK2at17CUDAGeneratorImpl12current_seedEv";
    /// `at::CUDAGeneratorImpl::get_offset() const`
    cuda_offset: unsafe extern "C-unwind" fn(Generator) -> u64
        = torch_cuda c"_ZNK2at17CUDAGeneratorImpl10get_offsetEv";
    /// `at::CUDAGeneratorImpl::set_offset(uint64_t)`
    set_cuda_offset: unsafe extern "C-unwind" fn(Generator, u64)
        = torch_cuda c"_ZN2at17CUDAGeneratorImpl10set_offsetEm";
    /// `c10::detail::ListImpl::ListImpl(std::vector<IValue>, TypePtr)`
    make_list: unsafe extern "C-unwind" fn(*mut c_void, *mut super::cxx::Stack, *mut [*mut c_void; 2])
        = torch_cpu c"_ZN3c106detail8ListImplC1ESt6vectorINS_6IValueESaIS3_EENS_4Type24SingletonOrSharedTypePtrIS6_EE";
    /// `c10::BoolType::get()`
    bool_type: unsafe extern "C-unwind" fn() -> *mut c_void = torch_cpu c"_ZN3c108BoolType3getEv";
    /// `c10::IntType::get()`
    int_type: unsafe extern "C-unwind" fn() -> *mut c_void = torch_cpu c"_ZN3c107IntType3getEv";
    /// `typeinfo for c10::NotImplementedError`
    not_implemented_type: *mut c_void = torch_cpu c"_ZTIN3c1019NotImplementedErrorE";
    /// `vtable for c10::NotImplementedError`
    not_implemented_table: *const c_void = torch_cpu c"_ZTVN3c1019NotImplementedErrorE";
    /// `typeinfo for c10::OperatorKernel`
    kernel_type: *const c_void = torch_cpu c"_ZTIN3c1014OperatorKernelE";
    /// `typeinfo for c10::Allocator`
    allocator_type: *const c_void = torch_cpu c"_ZTIN3c109AllocatorE";
    /// `c10::detail::torchCheckFail(char const*, char const*, uint32_t, char const*)`
    fail: unsafe extern "C-unwind" fn(*const std::ffi::c_char, *const std::ffi::c_char, u32, *const std::ffi::c_char) -> !
        = torch_cpu c"_ZN3c106detail14torchCheckFailEPKcS2_jS2_";
}

// SAFETY: addresses of functions and of variables that live as long as the process.
unsafe impl Send for Symbols {}
// SAFETY: as above.
unsafe impl Sync for Symbols {}
