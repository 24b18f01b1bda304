//! The devices that the program is shown, and the real one behind each: device i has the real device i modulo their number.

use std::ffi::c_int;
use std::sync::OnceLock;

use dataplane::lock::Mutex;
use protocol::gpu::Gpu;

use crate::real::call;
use crate::settings::{self, Policy};
use crate::trouble::{CudaResult, INVALID_DEVICE, NO_DEVICE, NOT_INITIALIZED};

/// One device that the program sees.
#[derive(Debug)]
pub(crate) struct Device {
    /// Its number.
    pub(crate) ordinal: c_int,
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

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// The machine, once `cuInit` has succeeded.
pub(crate) fn machine() -> CudaResult<&'static Machine> {
    MACHINE.get().ok_or(NOT_INITIALIZED)
}

/// The device with that number.
pub(crate) fn get(ordinal: c_int) -> CudaResult<&'static Device> {
    let index = usize::try_from(ordinal).map_err(|_| INVALID_DEVICE)?;
    machine()?.devices.get(index).ok_or(INVALID_DEVICE)
}

/// The first device that computes on this real one.
pub(crate) fn first_of(real: c_int) -> CudaResult<&'static Device> {
    machine()?.devices.iter().find(|device| device.real == real).ok_or(INVALID_DEVICE)
}

/// `cuInit`: first the real library's, then the devices. The real one must not apply the mask that is meant for our devices.
pub(crate) fn init(flags: u32) -> CudaResult {
    const MASK: &str = "CUDA_VISIBLE_DEVICES";
    static ONCE: Mutex<()> = Mutex::new(());
    let settings = settings::get().ok_or(NO_DEVICE)?;
    if MACHINE.get().is_some() {
        return call!(cuInit(flags => u32));
    }
    let _one = ONCE.lock();
    let mask = settings.is_masked.then(|| std::env::var_os(MASK)).flatten();
    // SAFETY: libcuda reads its environment here and nowhere else, and offers no other way; a thread that reads the environment at
    // this moment by C's functions would be at risk, as with every program that sets variables before it uses CUDA.
    mask.iter().for_each(|_| unsafe { std::env::remove_var(MASK) });
    let answer = call!(cuInit(flags => u32));
    // SAFETY: as above.
    mask.iter().for_each(|mask| unsafe { std::env::set_var(MASK, mask) });
    answer?;
    if settings.shown.is_empty() {
        return Err(NO_DEVICE);
    }
    let machine = look(settings)?;
    MACHINE.get_or_init(|| machine);
    Ok(())
}

fn look(settings: &'static settings::Settings) -> CudaResult<Machine> {
    let mut count: c_int = 0;
    call!(cuDeviceGetCount(&raw mut count => *mut c_int))?;
    let mut real = Vec::new();
    for index in 0..count {
        let (mut device, mut total): (c_int, usize) = (0, 0);
        call!(cuDeviceGet(&raw mut device => *mut c_int, index => c_int))?;
        call!(cuDeviceTotalMem_v2(&raw mut total => *mut usize, device => c_int))?;
        real.push((device, total as u64));
    }
    if real.is_empty() {
        return Err(NO_DEVICE);
    }
    let device = |(index, gpu): (usize, &'static Gpu)| {
        let (behind, behind_total) = real[index % real.len()];
        let own = gpu.profile.memory.bytes;
        Device {
            ordinal: index as c_int,
            gpu,
            real: behind,
            real_index: index % real.len(),
            is_shared: index >= real.len(),
            total: if settings.policy == Policy::Clamp { own.min(behind_total) } else { own },
        }
    };
    let devices = settings.shown.iter().enumerate().map(device).collect();
    Ok(Machine { devices, real: real.into_iter().map(|(_, total)| total).collect() })
}
