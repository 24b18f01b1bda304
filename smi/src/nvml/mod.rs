//! libnvidia-ml through its C API: the queries of nvidia-smi, with Rust types.
#![expect(unsafe_code, reason = "NVML is a C library")]

mod samples;

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

pub(crate) use samples::Sample;

use crate::Failure;

/// An `nvmlReturn_t` other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_uint);

impl Code {
    pub(crate) const NO_PERMISSION: Self = Self(4);
    pub(crate) const INSUFFICIENT_SIZE: Self = Self(7);
    pub(crate) const LOST: Self = Self(15);
    const FUNCTION_NOT_FOUND: Self = Self(13);
}

/// An `nvmlDevice_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Device(usize);

/// A GPU, and the reason why it cannot be used, if any.
pub(crate) type Listed = (Device, Result<(), Code>);

/// `nvmlMemory_v2_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Memory {
    version: c_uint,
    pub(crate) total: u64,
    pub(crate) reserved: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// `nvmlPciInfo_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Pci {
    legacy: [c_char; 16],
    pub(crate) domain: c_uint,
    pub(crate) bus: c_uint,
    pub(crate) device: c_uint,
    pub(crate) device_id: c_uint,
    pub(crate) subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

impl Pci {
    /// "0000:01:00.0"
    pub(crate) fn short_address(&self) -> String {
        text(&self.legacy)
    }

    /// "00000000:01:00.0"
    pub(crate) fn address(&self) -> String {
        text(&self.bus_id)
    }
}

/// `nvmlProcessInfo_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Process {
    pub(crate) pid: c_uint,
    pub(crate) used_memory: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// `nvmlProcessUtilizationSample_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ProcessSample {
    pub(crate) pid: c_uint,
    timestamp: u64,
    pub(crate) sm: c_uint,
    pub(crate) memory: c_uint,
    pub(crate) encoder: c_uint,
    pub(crate) decoder: c_uint,
}

/// `nvmlFieldValue_t`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    value_type: c_uint,
    status: c_uint,
    value: u64,
}

/// The text in a buffer that C filled.
fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn answer(code: c_uint) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(Code(code)) }
}

/// The library, initialized until this is dropped.
pub(crate) struct Nvml(Library);

/// Room for any text of NVML.
const TEXT: usize = 256;

impl Nvml {
    /// Opens and initializes it.
    ///
    /// # Errors
    /// nvidia-smi's messages and return values for a machine without a driver.
    pub(crate) fn open() -> Result<Self, Failure> {
        // SAFETY: NVML's initializers only set up the library.
        let library = unsafe { Library::open(Some("libnvidia-ml.so.1"), RTLD_LAZY | RTLD_LOCAL) };
        let nvml = Self(library.map_err(|_| Failure {
            message: "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA \
                      Display Driver is properly installed and present in your system.\nPlease also try adding directory \
                      that contains libnvidia-ml.so to your system PATH."
                .to_owned(),
            code: 12,
        })?);
        let failed = |code: Code| {
            let message = if code.0 == 9 {
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest \
                 NVIDIA driver is installed and running.\n"
                    .to_owned()
            } else {
                format!("Failed to initialize NVML: {}", nvml.explain(code))
            };
            Failure { message, code: u8::try_from(code.0).unwrap_or(255) }
        };
        // SAFETY: nvmlInit_v2 takes no arguments.
        unsafe { nvml.function::<unsafe extern "C" fn() -> c_uint>("nvmlInit_v2").map(|init| init()) }
            .and_then(answer)
            .map_err(failed)?;
        Ok(nvml)
    }

    /// A function by name.
    ///
    /// # Safety
    /// `F` is its C type.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, Code> {
        // SAFETY: the caller vouches for the type.
        unsafe { self.0.get::<F>(name.as_bytes()) }.map(|symbol| *symbol).map_err(|_| Code::FUNCTION_NOT_FOUND)
    }

    /// The meaning of a code.
    pub(crate) fn explain(&self, code: Code) -> String {
        // SAFETY: `const char *nvmlErrorString(nvmlReturn_t)`, which returns a static text.
        unsafe {
            match self.function::<unsafe extern "C" fn(c_uint) -> *const c_char>("nvmlErrorString") {
                Ok(explain) => CStr::from_ptr(explain(code.0)).to_string_lossy().into_owned(),
                Err(_) => format!("error {}", code.0),
            }
        }
    }

    /// A text about the system: `nvmlReturn_t f(char *, unsigned int)`.
    pub(crate) fn system_text(&self, name: &str) -> Result<String, Code> {
        let mut buffer = [0; TEXT];
        // SAFETY: the buffer has the length that is passed.
        unsafe {
            let function: unsafe extern "C" fn(*mut c_char, c_uint) -> c_uint = self.function(name)?;
            answer(function(buffer.as_mut_ptr(), TEXT as c_uint))?;
        }
        Ok(text(&buffer))
    }

    /// 13000 for CUDA 13.0.
    pub(crate) fn cuda_version(&self) -> Result<c_int, Code> {
        let mut version = 0;
        // SAFETY: `nvmlReturn_t f(int *)`.
        unsafe {
            let function: unsafe extern "C" fn(*mut c_int) -> c_uint =
                self.function("nvmlSystemGetCudaDriverVersion_v2")?;
            answer(function(&raw mut version))?;
        }
        Ok(version)
    }

    /// The name of a process.
    pub(crate) fn process_name(&self, pid: c_uint) -> Result<String, Code> {
        let mut buffer = [0; 1024];
        // SAFETY: the buffer has the length that is passed.
        unsafe {
            let function: unsafe extern "C" fn(c_uint, *mut c_char, c_uint) -> c_uint =
                self.function("nvmlSystemGetProcessName")?;
            answer(function(pid, buffer.as_mut_ptr(), buffer.len() as c_uint))?;
        }
        Ok(text(&buffer))
    }

    /// All GPUs, in order of index, each with the reason why it cannot be used, if any.
    pub(crate) fn devices(&self) -> Result<Vec<Listed>, Code> {
        let mut count = 0;
        // SAFETY: `nvmlReturn_t f(unsigned int *)` and `nvmlReturn_t f(unsigned int, nvmlDevice_t *)`.
        unsafe {
            let function: unsafe extern "C" fn(*mut c_uint) -> c_uint = self.function("nvmlDeviceGetCount_v2")?;
            answer(function(&raw mut count))?;
            let function: unsafe extern "C" fn(c_uint, *mut Device) -> c_uint =
                self.function("nvmlDeviceGetHandleByIndex_v2")?;
            let get = |index| {
                let mut device = Device(0);
                let usable = answer(function(index, &raw mut device));
                (device, usable)
            };
            Ok((0..count).map(get).collect())
        }
    }

    /// A text about a GPU: `nvmlReturn_t f(nvmlDevice_t, char *, unsigned int)`.
    pub(crate) fn text(&self, device: Device, name: &str) -> Result<String, Code> {
        let mut buffer = [0; TEXT];
        // SAFETY: the buffer has the length that is passed; functions without a length write less.
        unsafe {
            let function: unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_uint = self.function(name)?;
            answer(function(device, buffer.as_mut_ptr(), TEXT as c_uint))?;
        }
        Ok(text(&buffer))
    }

    /// Numbers of a GPU, each returned through its own pointer: `nvmlReturn_t f(nvmlDevice_t, unsigned int *...)`, with up to
    /// four.
    pub(crate) fn numbers<const N: usize>(&self, device: Device, name: &str) -> Result<[c_uint; N], Code> {
        let mut numbers = [[0; 2]; 4];
        let [one, two, three, four] = &mut numbers;
        // SAFETY: a function does not touch arguments that it does not take; each place has room for a longer number.
        unsafe {
            let function: unsafe extern "C" fn(Device, *mut c_uint, *mut c_uint, *mut c_uint, *mut c_uint) -> c_uint =
                self.function(name)?;
            answer(function(device, one.as_mut_ptr(), two.as_mut_ptr(), three.as_mut_ptr(), four.as_mut_ptr()))?;
        }
        Ok(std::array::from_fn(|index| numbers[index][0]))
    }

    /// A number of a GPU.
    pub(crate) fn number(&self, device: Device, name: &str) -> Result<c_uint, Code> {
        self.numbers::<1>(device, name).map(|[number]| number)
    }

    /// A long number of a GPU, with `arguments` before it: `nvmlReturn_t f(nvmlDevice_t, enum..., unsigned long long
    /// *)`.
    pub(crate) fn long<const N: usize>(&self, device: Device, name: &str, given: [c_int; N]) -> Result<u64, Code> {
        let mut number = 0u64;
        let out = &raw mut number;
        // SAFETY: the functions' C types; a shorter number leaves the upper half at zero.
        unsafe {
            let code = match given[..] {
                [] => self.function::<unsafe extern "C" fn(Device, *mut u64) -> c_uint>(name)?(device, out),
                [one] => {
                    self.function::<unsafe extern "C" fn(Device, c_int, *mut u64) -> c_uint>(name)?(device, one, out)
                }
                [one, two] => {
                    let function: unsafe extern "C" fn(Device, c_int, c_int, *mut u64) -> c_uint =
                        self.function(name)?;
                    function(device, one, two, out)
                }
                [one, two, three] => {
                    let function: unsafe extern "C" fn(Device, c_int, c_int, c_int, *mut u64) -> c_uint =
                        self.function(name)?;
                    function(device, one, two, three, out)
                }
                _ => unreachable!("NVML has no function with more"),
            };
            answer(code)?;
        }
        Ok(number)
    }

    /// Something between two GPUs: `nvmlReturn_t f(nvmlDevice_t, nvmlDevice_t, enum *)`.
    pub(crate) fn between(&self, one: Device, two: Device, name: &str) -> Result<c_int, Code> {
        let mut number = 0;
        // SAFETY: the functions' C type.
        unsafe {
            let function: unsafe extern "C" fn(Device, Device, *mut c_int) -> c_uint = self.function(name)?;
            answer(function(one, two, &raw mut number))?;
        }
        Ok(number)
    }

    /// `NVML_P2P_STATUS_*` of `NVML_P2P_CAPS_INDEX_*`.
    pub(crate) fn peer_status(&self, one: Device, two: Device, capability: c_int) -> Result<c_int, Code> {
        let mut status = 0;
        // SAFETY: the function's C type.
        unsafe {
            let function: unsafe extern "C" fn(Device, Device, c_int, *mut c_int) -> c_uint =
                self.function("nvmlDeviceGetP2PStatus")?;
            answer(function(one, two, capability, &raw mut status))?;
        }
        Ok(status)
    }

    pub(crate) fn memory(&self, device: Device) -> Result<Memory, Code> {
        let version = size_of::<Memory>() as c_uint | 2 << 24;
        let mut memory = Memory { version, ..Memory::default() };
        // SAFETY: `nvmlReturn_t f(nvmlDevice_t, nvmlMemory_v2_t *)`.
        unsafe {
            let function: unsafe extern "C" fn(Device, *mut Memory) -> c_uint =
                self.function("nvmlDeviceGetMemoryInfo_v2")?;
            answer(function(device, &raw mut memory))?;
        }
        Ok(memory)
    }

    /// (total, free, used) of BAR1.
    pub(crate) fn bar1(&self, device: Device) -> Result<[u64; 3], Code> {
        let mut memory = [0; 3];
        // SAFETY: `nvmlBAR1Memory_t` is three long numbers.
        unsafe {
            let function: unsafe extern "C" fn(Device, *mut [u64; 3]) -> c_uint =
                self.function("nvmlDeviceGetBAR1MemoryInfo")?;
            answer(function(device, &raw mut memory))?;
        }
        Ok(memory)
    }

    /// A structure of a version and a number.
    pub(crate) fn versioned(&self, device: Device, name: &str) -> Result<c_uint, Code> {
        let mut value: [c_uint; 2] = [8 | 1 << 24, 0];
        // SAFETY: the structure consists of these two numbers.
        unsafe {
            let function: unsafe extern "C" fn(Device, *mut [c_uint; 2]) -> c_uint = self.function(name)?;
            answer(function(device, &raw mut value))?;
        }
        Ok(value[1])
    }

    /// The chip's number.
    pub(crate) fn pdi(&self, device: Device) -> Result<u64, Code> {
        let mut value: [u64; 2] = [16 | 1 << 24, 0];
        // SAFETY: `nvmlPdi_v1_t` is a version in eight bytes and a long number.
        unsafe {
            let function: unsafe extern "C" fn(Device, *mut [u64; 2]) -> c_uint = self.function("nvmlDeviceGetPdi")?;
            answer(function(device, &raw mut value))?;
        }
        Ok(value[1])
    }

    /// `nvmlEccSramErrorStatus_v1_t`: eleven counts, and whether they exceed the threshold.
    pub(crate) fn sram_errors(&self, device: Device) -> Result<([u64; 11], bool), Code> {
        let mut status: [u64; 13] = [0; 13];
        status[0] = 104 | 1 << 24;
        // SAFETY: the structure has 104 bytes: its version in the first eight, the counts, and the flag.
        unsafe {
            let function: unsafe extern "C" fn(Device, *mut [u64; 13]) -> c_uint =
                self.function("nvmlDeviceGetSramEccErrorStatus")?;
            answer(function(device, &raw mut status))?;
        }
        Ok((std::array::from_fn(|nth| status[nth + 1]), status[12] as u32 != 0))
    }

    /// The other end of a link.
    pub(crate) fn link_end(&self, device: Device, link: c_int) -> Result<Pci, Code> {
        let mut pci =
            Pci { legacy: [0; 16], domain: 0, bus: 0, device: 0, device_id: 0, subsystem_id: 0, bus_id: [0; 32] };
        // SAFETY: the function's C type.
        unsafe {
            let function: unsafe extern "C" fn(Device, c_int, *mut Pci) -> c_uint =
                self.function("nvmlDeviceGetNvLinkRemotePciInfo_v2")?;
            answer(function(device, link, &raw mut pci))?;
        }
        Ok(pci)
    }

    /// Class and subclass on the PCI bus.
    pub(crate) fn pci_class(&self, device: Device) -> Result<[c_uint; 2], Code> {
        let mut info: [c_uint; 16] = [0; 16];
        info[0] = 64 | 1 << 24;
        // SAFETY: `nvmlPciInfoExt_v1_t` has 64 bytes; its seventh and eighth numbers are the classes.
        unsafe {
            let function: unsafe extern "C" fn(Device, *mut [c_uint; 16]) -> c_uint =
                self.function("nvmlDeviceGetPciInfoExt")?;
            answer(function(device, &raw mut info))?;
        }
        Ok([info[6], info[7]])
    }

    pub(crate) fn pci(&self, device: Device) -> Result<Pci, Code> {
        let mut pci =
            Pci { legacy: [0; 16], domain: 0, bus: 0, device: 0, device_id: 0, subsystem_id: 0, bus_id: [0; 32] };
        // SAFETY: `nvmlReturn_t f(nvmlDevice_t, nvmlPciInfo_t *)`.
        unsafe {
            let function: unsafe extern "C" fn(Device, *mut Pci) -> c_uint =
                self.function("nvmlDeviceGetPciInfo_v3")?;
            answer(function(device, &raw mut pci))?;
        }
        Ok(pci)
    }

    /// The value of a field, `NVML_FI_*`, as its bits.
    pub(crate) fn field(&self, device: Device, field: c_uint, scope: c_uint) -> Result<u64, Code> {
        let mut value = FieldValue { field, scope, ..FieldValue::default() };
        // SAFETY: `nvmlReturn_t f(nvmlDevice_t, int, nvmlFieldValue_t *)`, with room for the one.
        unsafe {
            let function: unsafe extern "C" fn(Device, c_int, *mut FieldValue) -> c_uint =
                self.function("nvmlDeviceGetFieldValues")?;
            answer(function(device, 1, &raw mut value))?;
        }
        answer(value.status).map(|()| value.value)
    }

    /// Queries with room for more and more entries, because processes may start in the meantime.
    fn list<T: Copy + Default>(&self, mut ask: impl FnMut(&mut c_uint, *mut T) -> c_uint) -> Result<Vec<T>, Code> {
        let mut room = 32;
        loop {
            let mut entries = vec![T::default(); room];
            let mut count = room as c_uint;
            match answer(ask(&mut count, entries.as_mut_ptr())) {
                Ok(()) => {
                    entries.truncate(count as usize);
                    return Ok(entries);
                }
                Err(Code::INSUFFICIENT_SIZE) if room < 1 << 20 => room *= 4,
                Err(code) => return Err(code),
            }
        }
    }

    /// Memory clocks that can be set, MHz.
    pub(crate) fn memory_clocks(&self, device: Device) -> Result<Vec<c_uint>, Code> {
        type Ask = unsafe extern "C" fn(Device, *mut c_uint, *mut c_uint) -> c_uint;
        // SAFETY: the function's C type; the list has the room that is passed.
        unsafe {
            let function: Ask = self.function("nvmlDeviceGetSupportedMemoryClocks")?;
            self.list(|count, list| function(device, count, list))
        }
    }

    /// Graphics clocks that can be set at a given memory clock, MHz.
    pub(crate) fn graphics_clocks(&self, device: Device, memory: c_uint) -> Result<Vec<c_uint>, Code> {
        type Ask = unsafe extern "C" fn(Device, c_uint, *mut c_uint, *mut c_uint) -> c_uint;
        // SAFETY: the function's C type; the list has the room that is passed.
        unsafe {
            let function: Ask = self.function("nvmlDeviceGetSupportedGraphicsClocks")?;
            self.list(|count, list| function(device, memory, count, list))
        }
    }

    /// Addresses of the pages that were retired for a cause: corrected errors (0), or an uncorrected one (1).
    pub(crate) fn retired_pages(&self, device: Device, cause: c_int) -> Result<Vec<u64>, Code> {
        type Ask = unsafe extern "C" fn(Device, c_int, *mut c_uint, *mut u64) -> c_uint;
        // SAFETY: the function's C type; the list has the room that is passed.
        unsafe {
            let function: Ask = self.function("nvmlDeviceGetRetiredPages")?;
            self.list(|count, list| function(device, cause, count, list))
        }
    }

    /// Processes with a compute context.
    pub(crate) fn processes(&self, device: Device) -> Result<Vec<Process>, Code> {
        type Ask = unsafe extern "C" fn(Device, *mut c_uint, *mut Process) -> c_uint;
        // SAFETY: the function's C type; the list has the room that is passed.
        unsafe {
            let function: Ask = self.function("nvmlDeviceGetComputeRunningProcesses_v3")?;
            self.list(|count, list| function(device, count, list))
        }
    }

    /// Utilization by processes in the last second.
    pub(crate) fn process_samples(&self, device: Device) -> Result<Vec<ProcessSample>, Code> {
        type Ask = unsafe extern "C" fn(Device, *mut ProcessSample, *mut c_uint, u64) -> c_uint;
        // SAFETY: the function's C type; the list has the room that is passed.
        unsafe {
            let function: Ask = self.function("nvmlDeviceGetProcessUtilization")?;
            self.list(|count, list| function(device, list, count, 0))
        }
    }

    /// A set of CPUs or NUMA nodes near the GPU, as numbers.
    pub(crate) fn affinity(&self, device: Device, name: &str) -> Result<Vec<usize>, Code> {
        const WORDS: usize = 16;
        let mut set: [c_ulong; WORDS] = [0; WORDS];
        // SAFETY: the set has the room that is passed; a function without a scope ignores it.
        unsafe {
            let function: unsafe extern "C" fn(Device, c_uint, *mut c_ulong, c_uint) -> c_uint = self.function(name)?;
            answer(function(device, WORDS as c_uint, set.as_mut_ptr(), 0))?;
        }
        let bits = c_ulong::BITS as usize;
        Ok((0..WORDS * bits).filter(|bit| set[bit / bits] >> (bit % bits) & 1 == 1).collect())
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: nvmlShutdown takes no arguments.
        unsafe {
            if let Ok(shutdown) = self.function::<unsafe extern "C" fn() -> c_uint>("nvmlShutdown") {
                shutdown();
            }
        }
    }
}
