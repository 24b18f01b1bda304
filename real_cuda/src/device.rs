//! The devices that the program is shown, and the real one behind each: GPU i of the machine has the real device i modulo their
//! number.

use std::ffi::c_int;
use std::sync::OnceLock;

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;
use protocol::gpu::Gpu;

use crate::real::call;
use crate::settings::{self, Policy, Settings};

/// One device that the program sees.
#[derive(Debug)]
pub(crate) struct Device {
    /// Its number.
    pub(crate) ordinal: c_int,
    /// Its index in the machine, of which `CUDA_VISIBLE_DEVICES` may show a part.
    pub(crate) index: usize,
    /// What it claims to be.
    pub(crate) gpu: &'static Gpu,
    /// The real one behind it.
    pub(crate) real: c_int,
    /// Index of the real one.
    pub(crate) real_index: usize,
    /// Whether an earlier device has the same real one, and so its primary context.
    pub(crate) is_shared: bool,
    /// Bytes of memory that it has.
    pub(crate) total: u64,
}

/// The machine as it is and as the program sees it.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The devices that the program sees.
    pub(crate) devices: Vec<Device>,
    /// Memory of each real device, bytes.
    pub(crate) real: Vec<u64>,
}

const MASK: &str = "CUDA_VISIBLE_DEVICES";

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// The machine, once `cuInit` has succeeded.
pub(crate) fn machine() -> CudaResult<&'static Machine> {
    MACHINE.get().ok_or(CudaError::NOT_INITIALIZED)
}

/// The device with that number.
pub(crate) fn get(ordinal: c_int) -> CudaResult<&'static Device> {
    let index = usize::try_from(ordinal).map_err(|_| CudaError::INVALID_DEVICE)?;
    machine()?.devices.get(index).ok_or(CudaError::INVALID_DEVICE)
}

/// The first device that computes on this real one.
pub(crate) fn first_of(real: c_int) -> CudaResult<&'static Device> {
    machine()?.devices.iter().find(|device| device.real == real).ok_or(CudaError::INVALID_DEVICE)
}

/// `cuInit`: first the real library's, then the devices. The real one must not apply the mask that is meant for our devices.
pub(crate) fn init(flags: u32) -> CudaResult {
    static ONCE: Mutex<()> = Mutex::new(());
    let settings = settings::get().ok_or(CudaError::NO_DEVICE)?;
    if MACHINE.get().is_some() {
        return call!(cuInit(flags => u32));
    }
    let _one = ONCE.lock();
    start(settings, flags)?;
    if settings.shown.is_empty() {
        return Err(CudaError::NO_DEVICE);
    }
    let machine = look(settings)?;
    MACHINE.get_or_init(|| machine);
    Ok(())
}

/// The real library's `cuInit`.
fn start(settings: &Settings, flags: u32) -> CudaResult {
    let mask = settings.is_masked.then(|| std::env::var_os(MASK)).flatten();
    // SAFETY: libcuda reads its environment here and nowhere else, and offers no other way; a thread that reads the environment at
    // this moment by C's functions would be at risk, as with every program that sets variables before it uses CUDA.
    mask.iter().for_each(|_| unsafe { std::env::remove_var(MASK) });
    let answer = call!(cuInit(flags => u32));
    // SAFETY: as above.
    mask.iter().for_each(|mask| unsafe { std::env::set_var(MASK, mask) });
    answer
}

/// The real devices, each with its memory in bytes.
fn real() -> CudaResult<Vec<(c_int, u64)>> {
    let mut count: c_int = 0;
    call!(cuDeviceGetCount(&raw mut count => *mut c_int))?;
    let mut real = Vec::new();
    for index in 0..count {
        let (mut device, mut total): (c_int, usize) = (0, 0);
        call!(cuDeviceGet(&raw mut device => *mut c_int, index => c_int))?;
        call!(cuDeviceTotalMem_v2(&raw mut total => *mut usize, device => c_int))?;
        real.push((device, total as u64));
    }
    if real.is_empty() { Err(CudaError::NO_DEVICE) } else { Ok(real) }
}

/// Memory of the real devices, for a process that ends after it: it starts the real library.
pub(crate) fn ask() -> CudaResult<Vec<u64>> {
    start(settings::get().ok_or(CudaError::NO_DEVICE)?, 0)?;
    Ok(real()?.into_iter().map(|(_, total)| total).collect())
}

fn look(settings: &'static Settings) -> CudaResult<Machine> {
    let real = real()?;
    let device = |(ordinal, index): (usize, &usize)| {
        let (gpu, real_index) = (&settings.gpus[*index], index % real.len());
        let (behind, behind_total) = real[real_index];
        Device {
            ordinal: ordinal as c_int,
            index: *index,
            gpu,
            real: behind,
            real_index,
            is_shared: settings.shown[..ordinal].iter().any(|earlier| earlier % real.len() == real_index),
            total: total(settings, gpu, behind_total),
        }
    };
    let devices = settings.shown.iter().enumerate().map(device).collect();
    Ok(Machine { devices, real: real.into_iter().map(|(_, total)| total).collect() })
}

/// Bytes that a device has in front of a real one.
fn total(settings: &Settings, gpu: &Gpu, real: u64) -> u64 {
    let own = gpu.profile.memory.bytes;
    if settings.policy == Policy::Clamp { own.min(real) } else { own }
}

/// Bytes of the GPU with that index in the machine, also before `cuInit`: `asked` then returns the memory of the real
/// devices, if it matters. `None` if that is unknown.
pub(crate) fn total_memory(index: usize, asked: impl FnOnce() -> Option<&'static [u64]>) -> Option<u64> {
    let settings = settings::get()?;
    let gpu = settings.gpus.get(index)?;
    let real = match machine() {
        Ok(machine) => machine.real.as_slice(),
        Err(_) if settings.policy != Policy::Clamp => return Some(gpu.profile.memory.bytes),
        Err(_) => asked()?,
    };
    Some(total(settings, gpu, real[index % real.len()]))
}
