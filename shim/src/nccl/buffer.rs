//! Buffers: where the memory that the program passes is, and whether the communicator's device can access it.

use dataplane::call::{Buffer, Place};
use protocol::finding::FindingKind;

use super::communicator::Communicator;
use super::error::{NcclError, NcclResult};
use crate::device::memory::address::{self, Known};
use crate::device::memory::misuse;
use crate::device::{self, Device};
use crate::report::finding;

/// Where `bytes` at `address` are. Refuses memory that a kernel on the communicator's device could not access, and memory of
/// its peers, which NCCL does not take.
pub(super) fn place(communicator: &Communicator, what: &str, address: *mut u8, bytes: usize) -> NcclResult<Buffer> {
    if bytes == 0 {
        return Ok(Buffer { address, place: None });
    }
    let refuse =
        |why: String| Err(NcclError::INVALID_ARGUMENT.because(format!("the {what} buffer {address:p}: {why}")));
    match address::known(address as usize, bytes) {
        Ok(Known::Host) => Ok(Buffer::host(address)),
        Ok(Known::Device(device)) if device.ordinal == communicator.device.ordinal => {
            Ok(Buffer { address, place: place_in_arena(address as usize, bytes) })
        }
        // Managed memory is every device's.
        Ok(Known::Device(_)) if address::is_managed(address as usize) => Ok(Buffer::host(address)),
        Ok(Known::Device(device)) => {
            let does = if what == "receive" { "writes memory" } else { "reads memory" };
            is_of_another_device(communicator, does, device.ordinal);
            refuse(format!(
                "it is memory of device {}, the communicator uses device {}",
                device.ordinal, communicator.device.ordinal
            ))
        }
        Ok(Known::Unknown) => refuse("it is neither device memory nor host memory known to CUDA".to_owned()),
        Err(_) => {
            misuse::access(if what == "receive" { "writes" } else { "reads" }, address as usize, bytes);
            refuse(format!("its {bytes} bytes are not all in one live allocation"))
        }
    }
}

/// Reports that the current call `does` something with what belongs to `device`.
pub(super) fn is_of_another_device(communicator: &Communicator, does: &str, device: u32) {
    let (function, id, own) = (finding::function(), communicator.id(), communicator.device.ordinal);
    let sentence = format!("{function} {does} of device {device}, and the communicator uses device {own}");
    finding::record(FindingKind::DeviceMismatch, function, id, sentence);
}

/// Where a range of device memory is in its memory file. A range over several mappings is not contiguous there, so it
/// travels like host memory. So does memory that is in no arena of this process.
pub(super) fn place_in_arena(address: usize, bytes: usize) -> Option<Place> {
    let location = address::locate(address).filter(|location| location.bytes_left >= bytes)?;
    in_arena(location.device, location.offset?)
}

fn in_arena(device: &'static Device, offset: usize) -> Option<Place> {
    let arena = device::memory::arena_of(device).ok()?;
    Some(Place {
        file_id: arena.file_id(),
        length: arena.length() as u64,
        offset: offset as u64,
        fd: arena.fd(),
        valid: 1,
    })
}
