//! The device report: written at exit by a process that used a device, atomically.

/// Marks this process as one that used a device, so that it leaves a report.
pub(crate) fn used() {}
