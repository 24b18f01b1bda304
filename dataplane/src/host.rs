//! Identifies this host: two processes can map each other's memory through `/proc` if their identities agree.

/// The boot id; empty if the system does not provide it. Processes with the same boot id share one monotonic clock.
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Boot id and pid namespace. Equal for processes that see each other under the same process ids.
pub fn identity() -> String {
    let boot = boot();
    let pids = std::fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default();
    if boot.is_empty() || pids.is_empty() {
        // Unknown hosts differ from every other, which only costs speed.
        return format!("unknown:{}:{}", std::process::id(), boot);
    }
    format!("{}:{pids}", boot)
}
