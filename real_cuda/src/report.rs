//! The device report of a process in this mode. It is written when the process exits, and not by its forked children.

use std::sync::atomic::{AtomicU32, Ordering};
use std::{panic, process};

use dataplane::report_file;
use protocol::device_report::{BackingGpu, DeviceEntry, DeviceReport, HostIo, ProfileEntry, REPORT_VERSION, Summary};

use crate::device::{self, Device, Machine};
use crate::settings::{self, Settings};
use crate::{book, launch, policy, traffic, trouble};

/// The process that wants a report.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Notes that this process used a device, so it leaves a report.
pub(crate) fn used() {
    if OWNER.swap(process::id(), Ordering::Relaxed) == 0 {
        // SAFETY: a function of this library, which is never unloaded (`-z nodelete`).
        unsafe { libc::atexit(ends) };
    }
}

extern "C" fn ends() {
    if OWNER.load(Ordering::Relaxed) == process::id() {
        let _ = panic::catch_unwind(write);
    }
}

fn write() {
    let (Some(settings), Ok(machine)) = (settings::get(), device::machine()) else { return };
    let Some(path) = &settings.report_path else { return };
    let report = make(settings, machine);
    let path = report_file::place(path, report.measured.pid, report.measured.rank);
    if let Err(error) = report_file::save(&path, &report) {
        trouble::say(&format!("the device report cannot be written to {}: {error}", path.display()));
    }
}

fn make(settings: &Settings, machine: &Machine) -> DeviceReport {
    let devices: Vec<DeviceEntry> = machine.devices.iter().map(entry).collect();
    let on_host = traffic::on_host();
    let backing = |(index, total): (usize, &u64)| BackingGpu {
        index: index as u32,
        total_memory: *total,
        used_memory: book::on_real_devices(|ordinal| {
            machine.devices.get(ordinal).is_some_and(|of| of.real_index == index)
        }),
    };
    DeviceReport {
        report_version: REPORT_VERSION,
        mode: "hybrid".to_owned(),
        unsupported_api_policy: settings.gap_policy.clone(),
        host_time_ns: None,
        compute: "gpu".to_owned(),
        host_io: HostIo { memcpy_calls: on_host.calls, memcpy_bytes: on_host.bytes },
        summary: Summary::from_devices(&devices),
        devices,
        oom_policy: Some(settings.policy.word().to_owned()),
        hybrid_stats: Some(policy::stats()),
        backing_gpus: machine.real.iter().enumerate().map(backing).collect(),
        measured: report_file::measured(),
        ..DeviceReport::default()
    }
}

fn entry(device: &Device) -> DeviceEntry {
    let profile = &device.gpu.profile;
    let account = book::account(device.ordinal as usize);
    DeviceEntry {
        index: device.ordinal as u32,
        name: profile.name.clone(),
        uuid: device.gpu.uuid_text(),
        gpu_profile: ProfileEntry::from_profile(profile),
        total_memory: device.total,
        used_memory_peak: account.peak,
        used_memory_current: account.used,
        alloc: account.alloc,
        free: account.free,
        refused: account.refused,
        pages_peak: account.peak,
        io: traffic::of_device(device.ordinal as usize),
        compute: Default::default(),
        kernel_launches: launch::of_device(device.ordinal as usize),
        time: None,
    }
}
