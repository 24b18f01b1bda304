//! NCCL's log: `NCCL_DEBUG`, `NCCL_DEBUG_SUBSYS` and `NCCL_DEBUG_FILE`, in the format of NCCL 2.27's lines.
//!
//! <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html>

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use dataplane::lock::{Mutex, RwLock};

/// The log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    None,
    Version,
    Warn,
    Info,
}

/// The subsystem of a line; each is a bit. Names and the default are as in NCCL's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Subsystem {
    Init = 1,
    Collective = 2,
    PointToPoint = 4,
    Graph = 32,
    Tuning = 64,
    Environment = 128,
    Bootstrap = 4096,
}

const NAMES: [(&str, u32); 18] = [
    ("INIT", 1),
    ("COLL", 2),
    ("P2P", 4),
    ("SHM", 8),
    ("NET", 16),
    ("GRAPH", 32),
    ("TUNING", 64),
    ("ENV", 128),
    ("ALLOC", 256),
    ("CALL", 512),
    ("PROXY", 1024),
    ("NVLS", 2048),
    ("BOOTSTRAP", 4096),
    ("REG", 8192),
    ("PROFILE", 16384),
    ("RAS", 32768),
    ("COLLNET", 8),
    ("ALL", u32::MAX),
];
const DEFAULT: u32 = Subsystem::Init as u32 | Subsystem::Environment as u32 | Subsystem::Bootstrap as u32;

struct Settings {
    level: Level,
    subsystems: u32,
    /// `None` is stdout.
    file: Option<Mutex<File>>,
    host: String,
}

static SETTINGS: RwLock<Option<Arc<Settings>>> = RwLock::new(None);

/// `ncclResetDebugInit`: the variables are read again before the next line.
pub(crate) fn reset() {
    *SETTINGS.write() = None;
}

fn settings() -> Arc<Settings> {
    if let Some(known) = &*SETTINGS.read() {
        return Arc::clone(known);
    }
    let mut known = SETTINGS.write();
    Arc::clone(known.get_or_insert_with(|| {
        let get = |name: &str| std::env::var(name).ok();
        let level = get("NCCL_DEBUG").map_or(Level::None, |text| level(&text));
        let subsystems = get("NCCL_DEBUG_SUBSYS").map_or(DEFAULT, |text| subsystems(&text));
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim().split('.').next().unwrap_or_default().to_owned();
        let file = get("NCCL_DEBUG_FILE").filter(|_| level > Level::Version).and_then(|pattern| {
            let path = pattern.replace("%h", &host).replace("%p", &std::process::id().to_string());
            File::create(path).ok().map(Mutex::new)
        });
        Arc::new(Settings { level, subsystems, file, host })
    }))
}

fn level(text: &str) -> Level {
    match text.trim().to_ascii_uppercase().as_str() {
        "VERSION" => Level::Version,
        "WARN" => Level::Warn,
        // ABORT is INFO that ends the process at an error, which NCCL's documentation no longer has.
        "INFO" | "ABORT" | "TRACE" => Level::Info,
        _ => Level::None,
    }
}

/// `COLL,P2P`, or with a leading `^`: all except these.
fn subsystems(text: &str) -> u32 {
    let (inverted, text) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
    let named =
        |name: &str| NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(0, |(_, bit)| *bit);
    let mask = text.split(',').fold(0, |mask, name| mask | named(name.trim()));
    if inverted { !mask } else { mask }
}

/// Logs `text` if `NCCL_DEBUG=INFO` and the subsystem is wanted. `device` is the CUDA ordinal.
pub(crate) fn info(subsystem: Subsystem, device: u32, text: impl FnOnce() -> String) {
    if is_on(subsystem) {
        say(&settings(), device, &format!("NCCL INFO {}", text()));
    }
}

/// Whether [`info`] logs what is said of a subsystem.
pub(crate) fn is_on(subsystem: Subsystem) -> bool {
    let settings = settings();
    settings.level >= Level::Info && settings.subsystems & subsystem as u32 != 0
}

/// Logs `text` from `NCCL_DEBUG=WARN` on.
pub(crate) fn warn(device: u32, text: &str) {
    let settings = settings();
    if settings.level >= Level::Warn {
        say(&settings, device, &format!("NCCL WARN {text}"));
    }
}

/// Prints NCCL's version: once per rank with `NCCL_DEBUG=INFO`, only on rank 0 with lower levels.
pub(crate) fn release(rank: u32, release: &str) {
    let settings = settings();
    if settings.level >= Level::Version && (rank == 0 || settings.level >= Level::Info) {
        write(&settings, &format!("NCCL version {release}\n"));
    }
}

fn say(settings: &Settings, device: u32, text: &str) {
    // SAFETY: no preconditions.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    write(settings, &format!("{}:{}:{thread} [{device}] {text}\n", settings.host, std::process::id()));
}

/// Writes in one piece, because other ranks write to the same stream.
fn write(settings: &Settings, line: &str) {
    let written = match &settings.file {
        Some(file) => file.lock().write_all(line.as_bytes()),
        None => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush())
        }
    };
    // An unread log is not a reason to stop.
    let _ = written;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_subsystems_are_nccls() {
        assert_eq!(level("info"), Level::Info);
        assert_eq!(level("WARN"), Level::Warn);
        assert_eq!(level("nonsense"), Level::None);
        assert_eq!(subsystems("COLL,tuning"), 2 | 64);
        assert_eq!(subsystems("^INIT") & 1, 0);
        assert_ne!(subsystems("^INIT") & 2, 0);
        assert_eq!(subsystems("ALL"), u32::MAX);
    }
}
