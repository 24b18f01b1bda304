//! The device report: written at exit by a process that used a device, and not by its forked children.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io, mem, ptr};

use dataplane::report_file::{measured, place, save, unwritten};
use dataplane::{alone, refusal};
use protocol::device_report::{
    DeviceEntry, DeviceReport, GapEntry, HostIo, Io, KernelLaunches, ProfileEntry, REFUSED, REPORT_VERSION, Summary,
    Tally,
};

use protocol::operations::LoggedDevice;
use timing::work::Gpu;

use super::counters::{self, Counters};
use super::{finding, gaps, left, operations, operators, time, unknown_reads};
use crate::process::{at_exit, rank};
use crate::settings::visible::{self, Visible};
use crate::settings::{self, GapPolicy, Settings};

static USED: AtomicBool = AtomicBool::new(false);

/// Marks this process as one that used a device, so that it leaves a report.
pub(crate) fn used() {
    if !USED.swap(true, Ordering::Relaxed) {
        refusal::listen(refused);
        at_exit::at_exit(write);
    }
}

/// Writes the first refusal beside the report's path, immediately, because the process may not reach its end.
fn refused(sentence: &str) {
    let Ok(Settings { report_path: Some(path), .. }) = settings::get() else { return };
    let mut link = place(path, std::process::id(), rank()).into_os_string();
    link.push(REFUSED);
    // One that is there came first. Where there can be none, stderr has it.
    let _ = symlink(sentence, link);
}

fn write(status: i32) {
    left::ends(status);
    let Ok(settings) = settings::get() else { return };
    let report = make(settings);
    if let Some(path) = &settings.report_path {
        let path = place(path, report.measured.pid, report.measured.rank);
        if let Err(error) = within_limits(|| save(&path, &report)) {
            let what = format!("the device report cannot be written to {}", path.display());
            let sentence = refusal::explain(&what, &error);
            let marker = unwritten(&path);
            let beside = marker.with_extension("link");
            let _ = symlink(&sentence, &beside).and_then(|()| fs::rename(&beside, &marker));
            eprintln!("fakegpu: {sentence}");
        }
    }
    operations::write(settings, logged_devices(settings));
    if matches!(settings.gap_policy, GapPolicy::Warn | GapPolicy::Stop) {
        gaps::print_totals();
        let findings = if settings.journal.is_none() { finding::count() } else { 0 };
        if findings > 0 {
            let plural = if findings == 1 { "" } else { "s" };
            eprintln!("fakegpu: {findings} finding{plural}, listed above; `ftest docs findings` says what to do");
        }
        // Where ftest reads the journal it prints this itself, once for all processes.
        if settings.journal.is_none() && !report.gaps.is_empty() {
            let gaps = if report.gaps.len() == 1 { "1 gap" } else { &format!("{} gaps", report.gaps.len()) };
            eprintln!("fakegpu: {gaps}: not everything was computed, so the program's result proves nothing");
        }
    }
    if let Some(unknown) = unknown_times(&report) {
        eprintln!("fakegpu: {unknown}");
    }
    if settings.terminal_report {
        eprint!("{}", summary(&report));
    }
}

/// What the modeled clock does not know: kernels that count as the shortest one.
fn unknown_times(report: &DeviceReport) -> Option<String> {
    const SHOWN: usize = 3;
    let unknown = report.devices.iter().filter_map(|device| device.time.as_ref()).flat_map(|time| &time.unknown);
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for (name, count) in unknown {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, total)) => *total += count,
            None => counts.push((name, *count)),
        }
    }
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let launches: u64 = counts.iter().map(|(_, count)| count).sum();
    let names: Vec<String> = counts.iter().take(SHOWN).map(|(name, count)| format!("{name} ({count})")).collect();
    let more = if counts.len() > SHOWN { ", ..." } else { "" };
    (launches > 0).then(|| {
        format!(
            "the modeled clock does not know the time of {launches} kernels, and counts the least that they take: {}{more}",
            names.join(", ")
        )
    })
}

/// Calls `write` with the descriptors that the process may have at most, for it ends now. A file that becomes too large is an
/// error and no signal: that would change how the program ends.
fn within_limits(write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structures are live for each call, and plain data; the mask is that of this thread alone, in which a write
    // raises the signal.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
        let (mut too_large, mut before): (libc::sigset_t, libc::sigset_t) = (mem::zeroed(), mem::zeroed());
        libc::sigemptyset(&raw mut too_large);
        libc::sigaddset(&raw mut too_large, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const too_large, &raw mut before);
        let written = write();
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        libc::sigtimedwait(&raw const too_large, ptr::null_mut(), &raw const now);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        written
    }
}

fn make(settings: &Settings) -> DeviceReport {
    let devices: Vec<DeviceEntry> =
        visible::gpus().iter().zip(counters::all()).enumerate().map(|(ordinal, of)| entry(ordinal, of)).collect();
    let (memcpy_calls, memcpy_bytes) = counters::HOST_COPIES.get();
    let gap = |(library, name, detail, count): (&str, &str, String, u64)| GapEntry {
        library: library.to_owned(),
        name: name.to_owned(),
        detail,
        count,
    };
    DeviceReport {
        report_version: REPORT_VERSION,
        mode: "simulate".to_owned(),
        unsupported_api_policy: settings.gap_policy.word().to_owned(),
        host_time_ns: time::host_ns(),
        compute: settings.compute.word().to_owned(),
        operators: operators::calls(),
        host_io: HostIo { memcpy_calls, memcpy_bytes },
        summary: Summary::from_devices(&devices),
        devices,
        gaps: gaps::all().into_iter().map(gap).collect(),
        alone: alone::calls(),
        unknown_reads: unknown_reads::all(),
        oom_policy: None,
        hybrid_stats: None,
        backing_gpus: Vec::new(),
        measured: measured(),
    }
}

fn logged_devices(settings: &Settings) -> Vec<LoggedDevice> {
    let device = |visible: &Visible| LoggedDevice {
        profile: visible.gpu.profile.id.clone(),
        nvlink_gbytes: settings.nvlink_gbytes(visible.gpu),
    };
    visible::gpus().iter().map(device).collect()
}

fn entry(ordinal: usize, (visible, counters): (&Visible, &Counters)) -> DeviceEntry {
    let profile = &visible.gpu.profile;
    let tally = |tally: &counters::Tally| {
        let (calls, bytes) = tally.get();
        Tally { calls, bytes }
    };
    let (used_memory_current, used_memory_peak) = counters.held.get();
    let by_name = counters.kernels();
    DeviceEntry {
        index: ordinal as u32,
        name: profile.name.clone(),
        uuid: visible.gpu.uuid_text(),
        gpu_profile: ProfileEntry::from_profile(profile),
        total_memory: profile.memory.bytes,
        used_memory_peak,
        used_memory_current,
        alloc: tally(&counters.allocations),
        free: tally(&counters.frees),
        refused: tally(&counters.refused),
        pages_peak: counters.most_pages.load(Ordering::Relaxed),
        io: Io {
            h2d: tally(&counters.host_to_device),
            d2h: tally(&counters.device_to_host),
            d2d: tally(&counters.device_to_device),
            peer_tx: tally(&counters.peer_sent),
            peer_rx: tally(&counters.peer_received),
            memset: tally(&counters.memset),
        },
        compute: Default::default(),
        kernel_launches: KernelLaunches { total: by_name.values().sum(), by_name },
        time: time::host_ns().and_then(|_| time::totals(ordinal as u32, Gpu::from_profile(profile).is_calibrated())),
    }
}

/// `FAKEGPU_TERMINAL_REPORT`: one line per used device, and the gaps.
fn summary(report: &DeviceReport) -> String {
    let mut text = format!("fakegpu: device report of process {}\n", report.measured.pid);
    for device in report.devices.iter().filter(|device| device.alloc.calls + device.kernel_launches.total > 0) {
        text += &format!(
            "  device {} {}: {} bytes at most, {} allocations, {} kernel launches\n",
            device.index, device.name, device.used_memory_peak, device.alloc.calls, device.kernel_launches.total
        );
    }
    let uses: u64 = report.gaps.iter().map(|gap| gap.count).sum();
    text + &format!("  {} gaps, used {uses} times\n", report.gaps.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_saved_whole() {
        let directory = std::env::temp_dir().join(format!("shim-report-{}", std::process::id()));
        let path = directory.join("deep/report.json");
        let report = make(settings::get().unwrap());
        save(&path, &report).unwrap();
        let read: DeviceReport = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, report);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_report_without_room_leaves_word_that_it_is_missing() {
        let directory = std::env::temp_dir().join(format!("shim-unwritten-{}", std::process::id()));
        let path = directory.join("report.json");
        let report = make(settings::get().unwrap());
        // A directory is in the way of the file.
        fs::create_dir_all(directory.join(format!("report.json.{}.part", std::process::id()))).unwrap();
        save(&path, &report).unwrap_err();
        let left: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["report.json.unwritten"]);
        fs::remove_dir_all(&directory).unwrap();
    }
}
