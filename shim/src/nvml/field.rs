//! `nvmlDeviceGetFieldValues`: values by number, most of which also have their own function.

use std::ffi::{c_int, c_uint};

use protocol::gpu_event::Throttle;

use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use super::header::FieldValue;
use super::{hybrid, link, model, sensors};
use crate::device::state::health::{self, Condition};
use protocol::gpu::Gpu;

/// A value and its `NVML_VALUE_TYPE_*`.
struct Value {
    kind: c_uint,
    bits: u64,
}

fn unsigned(value: u32) -> Value {
    Value { kind: 1, bits: u64::from(value) }
}

fn long(value: u64) -> Value {
    Value { kind: 3, bits: value }
}

fn signed(value: i32) -> Value {
    Value { kind: 5, bits: u64::from(value as u32) }
}

/// The number of active links, if `which` is one of them.
fn on_link(gpu: &Gpu, which: c_uint) -> NvmlResult<u32> {
    let links = link::links(gpu)?;
    if which < links { Ok(links) } else { Err(NvmlError::NOT_SUPPORTED) }
}

/// Memory errors: corrected and uncorrected since the driver was loaded, then over the GPU's lifetime.
fn errors(gpu: &Gpu) -> [u64; 4] {
    let Condition { corrected, uncorrected, .. } = health::condition(gpu);
    [corrected.volatile, uncorrected.volatile, corrected.aggregate, uncorrected.aggregate]
}

/// Whether memory is waiting to be remapped or retired.
fn needs_reset(gpu: &Gpu) -> bool {
    let Condition { rows, pages, .. } = health::condition(gpu);
    (model::remaps_rows(&gpu.profile) && rows.pending) || (model::retires_pages(&gpu.profile) && pages.pending)
}

/// The value of `NVML_FI_DEV_*`; `scope` is the link for fields about a link.
fn read(gpu: &Gpu, field: c_uint, scope: c_uint) -> NvmlResult<Value> {
    const NOT_SUPPORTED: NvmlError = NvmlError::NOT_SUPPORTED;
    hybrid::admit_field(field)?;
    let profile = &gpu.profile;
    let load = || sensors::load(gpu);
    let when = |is_supported: bool, value: Value| if is_supported { Ok(value) } else { Err(NOT_SUPPORTED) };
    let power = |milliwatts: u32| when(milliwatts > 0, unsigned(milliwatts));
    let ecc = model::ecc(profile);
    let speed = || model::link_mbps(profile).map(unsigned).ok_or(NOT_SUPPORTED);
    match field {
        // ECC_CURRENT, ECC_PENDING
        1 | 2 => ecc.map(|is_on| unsigned(u32::from(is_on))).ok_or(NOT_SUPPORTED),
        // ECC_SBE_VOL_TOTAL to ECC_DBE_AGG_TOTAL
        3..=6 => when(ecc == Some(true), long(errors(gpu)[field as usize - 3])),
        // ECC_*_L1 and so on, which are no longer told apart; device memory is 11, 12 (volatile), 22, 23 (aggregate).
        7..=28 => {
            let count = match field {
                11 | 12 => errors(gpu)[field as usize - 11],
                22 | 23 => errors(gpu)[field as usize - 20],
                _ => 0,
            };
            when(ecc == Some(true) && model::retires_pages(profile), long(count))
        }
        // RETIRED_SBE, RETIRED_DBE, RETIRED_PENDING, RETIRED_PENDING_SBE, RETIRED_PENDING_DBE
        29..=31 | 92 | 93 => {
            let pages = health::condition(gpu).pages;
            let pending = u32::from(pages.pending);
            let number = match field {
                29 => pages.corrected,
                30 => pages.uncorrected,
                31 => pending,
                92 => pending * u32::from(pages.uncorrected == 0),
                _ => pending * u32::from(pages.uncorrected > 0),
            };
            when(model::retires_pages(profile), unsigned(number))
        }
        // NVLINK_CRC_FLIT_ERROR_COUNT_L0 to NVLINK_RECOVERY_ERROR_COUNT_TOTAL, six links and their sum each
        32..=59 => {
            let which = (field - 32) % 7;
            on_link(gpu, if which == 6 { 0 } else { which }).map(|_| long(0))
        }
        // PERF_POLICY_*: POWER, THERMAL, SYNC_BOOST, BOARD_LIMIT and so on
        74..=81 => Ok(long(sensors::slowed_ns(gpu, sensors::reasons_of_policy(field as c_int - 74)))),
        // MEMORY_TEMP
        82 => model::memory_temperature(profile, load()).map(unsigned).ok_or(NOT_SUPPORTED),
        // TOTAL_ENERGY_CONSUMPTION
        83 => sensors::energy_mj(gpu).map(long),
        // NVLINK_SPEED_MBPS_L0 to _L5, _COMMON; _L6 to _L11
        84..=89 => on_link(gpu, field - 84).and_then(|_| speed()),
        90 => on_link(gpu, 0).and_then(|_| speed()),
        132..=137 => on_link(gpu, field - 126).and_then(|_| speed()),
        // NVLINK_LINK_COUNT
        91 => profile.nvlink.as_ref().map(|nvlink| unsigned(nvlink.links)).ok_or(NOT_SUPPORTED),
        // PCIE_REPLAY_COUNTER, PCIE_REPLAY_ROLLOVER_COUNTER
        94 | 95 => Ok(unsigned(0)),
        // REMAPPED_COR, REMAPPED_UNC, REMAPPED_PENDING, REMAPPED_FAILURE
        142..=145 => {
            let rows = health::condition(gpu).rows;
            let numbers = [rows.corrected, rows.uncorrected, u32::from(rows.pending), u32::from(rows.failed)];
            when(model::remaps_rows(profile), unsigned(numbers[(field - 142) as usize]))
        }
        // NVSWITCH_CONNECTED_LINK_COUNT
        147 => link::links(gpu).map(unsigned),
        // NVLINK_ERROR_DL_REPLAY, _RECOVERY, _CRC
        161..=163 => on_link(gpu, scope).map(|_| long(0)),
        // NVLINK_GET_SPEED, _STATE, _VERSION
        164 => on_link(gpu, scope).and_then(|_| speed()),
        165 => link::links(gpu).map(|links| unsigned(u32::from(scope < links))),
        166 => on_link(gpu, scope).and_then(|_| link::version_of(gpu)).map(unsigned),
        // C2C_LINK_COUNT
        170 => Ok(unsigned(0)),
        // PCIE_COUNT_* of errors
        173..=183 => Ok(unsigned(0)),
        // POWER_AVERAGE, POWER_INSTANT of the GPU (scope 0); modules and memory have no sensor.
        185 | 186 if scope == 0 => model::power_mw(profile, load()).map(unsigned).ok_or(NOT_SUPPORTED),
        187 if scope == 0 => power(model::least_limit_mw(profile)),
        188 if scope == 0 => power(profile.power.max_limit_mw),
        189 | 190 | 192 if scope == 0 => power(profile.power.limit_mw),
        // TEMPERATURE_*_TLIMIT, degrees from the highest operating temperature: shutdown, slowdown, memory, GPU
        193..=196 if model::has_margin(profile) => {
            // The memory has a limit of its own.
            let at = [model::SHUTDOWN, model::SLOWDOWN, model::OPERATING, model::OPERATING];
            if field == 195 && !model::has_hbm(profile) {
                return Err(NOT_SUPPORTED);
            }
            Ok(signed(model::OPERATING as i32 - at[(field - 193) as usize] as i32))
        }
        // RESET_STATUS
        226 => Ok(unsigned(0)),
        // DRAIN_AND_RESET_STATUS, GET_GPU_RECOVERY_ACTION: NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET
        227 | 230 => {
            let is_due = needs_reset(gpu);
            Ok(unsigned(if field == 227 { u32::from(is_due) } else { 4 * u32::from(is_due) }))
        }
        // CLOCKS_EVENT_REASON_*, ns: SW_THERM_SLOWDOWN, HW_THERM_SLOWDOWN, HW_POWER_BRAKE_SLOWDOWN
        251..=253 => {
            let reasons = [Throttle::SwThermal, Throttle::Thermal, Throttle::PowerBrake];
            Ok(long(sensors::slowed_ns(gpu, &reasons[(field - 251) as usize..][..1])))
        }
        _ => Err(NOT_SUPPORTED),
    }
}

/// Returns each field in its own slot.
///
/// # Safety
/// `values` points to `count` entries.
pub(crate) unsafe fn values(device: Handle, count: i32, values: *mut FieldValue) -> NvmlResult {
    let gpu = device.gpu()?;
    let count = usize::try_from(count).map_err(|_| NvmlError::INVALID_ARGUMENT)?;
    if values.is_null() || count == 0 {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let timestamp = since.map_or(0, |since| since.as_micros() as i64);
    for index in 0..count {
        // SAFETY: the caller vouches for `count` entries, and `index` is below it.
        let slot = unsafe { values.add(index) };
        // SAFETY: as above.
        let mut value = unsafe { slot.read_unaligned() };
        value.timestamp = timestamp;
        match read(gpu, value.field, value.scope) {
            Ok(Value { kind, bits }) => (value.value_type, value.value, value.status) = (kind, bits, 0),
            Err(error) => value.status = error.into(),
        }
        // SAFETY: as above.
        unsafe { slot.write_unaligned(value) };
    }
    Ok(())
}
