//! What containers and sandboxes can lack, and programs then wait for or fail at in words of their own: room on a disk, a
//! writable `/dev/shm`, loopback, `/proc`.

use std::io;
use std::net::UdpSocket;
use std::path::Path;

use crate::host::machine::{Machine, describe};

/// Where POSIX shared memory is.
const SHM: &str = "/dev/shm";
/// A disk with less room is full: nothing but the smallest file fits.
const ROOM: u64 = 64 << 10;

/// Adds what is wrong to `machine`, where programs write to the `places`.
pub(crate) fn note(machine: &mut Machine, places: &[(&str, &Path)]) {
    machine.no_shared_memory = no_shm().map(|error| error.to_string());
    machine.no_loopback = no_loopback();
    machine.full = full(places);
}

/// A description of each of the `places`, with its name, on a disk that is full. One disk is named once.
fn full(places: &[(&str, &Path)]) -> Vec<String> {
    let mut seen = Vec::new();
    let mut full = Vec::new();
    for (name, place) in places {
        let Ok(disk) = rustix::fs::statvfs(*place) else { continue };
        let (left, size) = (disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize));
        // Some file systems count no files.
        let no_files = disk.f_files > 0 && disk.f_favail == 0;
        if size == 0 || (left >= ROOM && !no_files) || seen.contains(&disk.f_fsid) {
            continue;
        }
        seen.push(disk.f_fsid);
        let what = if no_files { "allows no more files".to_owned() } else { format!("has {} left", describe(left)) };
        full.push(format!("{name}, {}, is on a disk that {what} of {}", place.display(), describe(size)));
    }
    full
}

/// Why no program can have shared memory, if that is so.
pub fn no_shm() -> Option<io::Error> {
    tempfile::tempfile_in(SHM).err()
}

/// Why 127.0.0.1 cannot be reached, and what to do, if that is so.
pub fn no_loopback() -> Option<String> {
    // Nothing is sent: the kernel looks for a route.
    let error = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.connect("127.0.0.1:9")).err()?;
    Some(format!("127.0.0.1 cannot be reached: {error}; set the interface `lo` up (`ip link set lo up`)"))
}

/// Why ftest can run nothing, and what to do, if `/proc` is not there.
pub(crate) fn no_proc() -> Option<String> {
    let error = std::fs::metadata("/proc/self/stat").err()?;
    Some(format!(
        "/proc/self/stat: {error}; ftest finds its own parts and the processes of a case in /proc: mount it (`mount -t proc proc /proc`)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_what_is_as_it_should_be() {
        let root = tempfile::tempdir().unwrap();
        // A file system without blocks is not full.
        assert_eq!(full(&[("a", root.path()), ("b", Path::new("/proc")), ("c", Path::new("/nowhere"))]), [""; 0]);
        assert!(no_loopback().is_none() && no_proc().is_none() && no_shm().is_none());
    }
}
