//! Copies and fills: checked against what CUDA knows about the pointers, then done in stream order.

use std::sync::Arc;

use abi::cuda::{CudaError, CudaResult};

use super::address::{self, Known};
use super::undo::Undo;
use crate::device::memory::{self, HostKind, misuse, multicast};
use crate::device::work::stream::Stream;
use crate::device::work::timeline::{self, Place, Work};
use crate::report::counters::HOST_COPIES;
use crate::report::finding;
use crate::sanitizer::init::{self, Needs, Read};
use crate::sanitizer::known::{self, Origin};
use crate::sanitizer::races::{self, Access};
use crate::settings::{self, Compute};

/// A box with more separate rows is not checked for races, because each row costs time and memory.
const MOST_ROWS: usize = 256;

/// A box of bytes in memory: `depth` slices of `height` rows of `width` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Address of the first byte.
    pub(crate) address: usize,
    /// Bytes from one row to the next.
    pub(crate) pitch: usize,
    /// Bytes from one slice to the next.
    pub(crate) slice: usize,
}

impl Layout {
    /// Contiguous bytes.
    pub(crate) fn line(address: usize) -> Self {
        Self { address, pitch: 0, slice: 0 }
    }

    /// Rows.
    pub(crate) fn rows(address: usize, pitch: usize) -> Self {
        Self { address, pitch, slice: 0 }
    }
}

/// Size of the box.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

impl Extent {
    /// `bytes` contiguous bytes.
    pub(crate) fn line(bytes: usize) -> Self {
        Self { width: bytes, height: 1, depth: 1 }
    }

    pub(crate) fn bytes(self) -> usize {
        self.width * self.height * self.depth
    }

    /// Bytes from the box's first to its last in `layout`.
    fn span(self, layout: Layout) -> usize {
        (self.depth - 1) * layout.slice + (self.height - 1) * layout.pitch + self.width
    }
}

/// Which side waits for which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// The caller waits until it is done.
    Now,
    /// The copy is done in stream order; the caller continues.
    InOrder,
}

/// What the caller said about the two pointers (`cudaMemcpyKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direction {
    from_device: Option<bool>,
    to_device: Option<bool>,
}

impl Direction {
    /// Inferred from the pointers.
    pub(crate) const ANY: Self = Self { from_device: None, to_device: None };

    /// From `cudaMemcpyKind`.
    ///
    /// # Errors
    /// `INVALID_MEMCPY_DIRECTION`.
    pub(crate) fn from_kind(kind: u32) -> CudaResult<Self> {
        let stated = |from, to| Ok(Self { from_device: Some(from), to_device: Some(to) });
        match kind {
            0 => stated(false, false),
            1 => stated(false, true),
            2 => stated(true, false),
            3 => stated(true, true),
            4 => Ok(Self::ANY),
            _ => Err(CudaError::INVALID_MEMCPY_DIRECTION),
        }
    }

    /// As `cudaMemcpyKind`.
    pub(crate) fn kind(self) -> u32 {
        match (self.from_device, self.to_device) {
            (Some(from), Some(to)) => 2 * u32::from(from) + u32::from(to),
            _ => 4,
        }
    }
}

/// A box to be copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoxCopy {
    pub(crate) to: Layout,
    pub(crate) from: Layout,
    pub(crate) extent: Extent,
    pub(crate) direction: Direction,
}

/// A box to be filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoxFill {
    pub(crate) to: Layout,
    pub(crate) pattern: u32,
    /// Bytes of the pattern: 1, 2 or 4.
    pub(crate) element: usize,
    pub(crate) extent: Extent,
}

impl BoxCopy {
    /// What CUDA knows about both sides.
    ///
    /// # Errors
    /// `INVALID_VALUE` if a pointer is null or wrongly declared as device memory, or the box leaves its allocation;
    /// `INVALID_PITCH` if rows overlap.
    pub(crate) fn check(&self) -> CudaResult<(Known, Known)> {
        let Self { to, from, extent, direction } = *self;
        if extent.height > 1 && (to.pitch < extent.width || from.pitch < extent.width) {
            return Err(CudaError::INVALID_PITCH);
        }
        let source = known("reads", from, extent, direction.from_device)?;
        if let Known::Device(_) = source
            && at_every_device(to, extent).is_some()
        {
            return Ok((source, source));
        }
        Ok((source, known("writes", to, extent, direction.to_device)?))
    }

    /// Submits it to a stream that is not capturing.
    ///
    /// # Errors
    /// As [`BoxCopy::check`].
    pub(crate) fn issue(&self, stream: &Arc<Stream>) -> CudaResult {
        self.perform(stream, When::InOrder)
    }

    /// Does it once within a capture, so that operators after it find meaningful numbers.
    pub(crate) fn rehearse(&self, undo: &mut Undo) {
        let Self { to, from, extent, .. } = *self;
        if !matches!(self.check(), Ok((_, Known::Device(_)))) {
            return;
        }
        for (row, _) in rows(to, to, extent) {
            // SAFETY: the box was just checked to be in device memory.
            unsafe { undo.keep(row, extent.width) };
        }
        // SAFETY: as above; C answers for a source that CUDA does not know.
        unsafe { move_box(to, from, extent) };
    }

    /// Copies now or in stream order, in a stream that is not capturing.
    ///
    /// # Errors
    /// As [`BoxCopy::check`].
    pub(crate) fn perform(&self, stream: &Arc<Stream>, when: When) -> CudaResult {
        let Self { to, from, extent, .. } = *self;
        let (source, target) = self.check()?;
        count(source, target, extent.bytes() as u64);
        if let Some(targets) = at_every_device(to, extent) {
            self.spread(stream, when, targets);
            return Ok(());
        }
        // Within devices the host does not wait (CUDA runtime manual, "API synchronization behavior").
        let is_within = matches!((source, target), (Known::Device(_), Known::Device(_)));
        let host_waits = !is_within || (races::are_wanted() && address::is_managed(to.address));
        // A pageable target is complete when the call returns, and a pageable source may be reused then (as above).
        let waits = when == When::Now || target == Known::Unknown;
        if races::are_wanted() {
            let mut accesses = Vec::new();
            for (known, layout, writes) in [(source, from, false), (target, to, true)] {
                // What is not CUDA's is only touched while the caller waits.
                if known != Known::Unknown {
                    add_accesses(&mut accesses, layout, extent, writes);
                }
            }
            if target == Known::Host {
                races::writes_to_host(stream.lane(), to.address, extent.span(to));
            }
            races::work(&[stream.lane()], finding::function(), &accesses);
            if !waits && is_hosts(target, to) && !accesses.is_empty() {
                races::brings(stream.lane(), to.address, extent.span(to));
            }
            // Between rows that are apart the host may write.
            if !waits && is_pinned(source, from) && extent.span(from) == extent.bytes() {
                races::reads_pinned(stream.lane(), finding::function(), from.address, extent.bytes());
            }
        }
        if init::is_wanted() {
            follow(to, from, extent, source, target);
        }
        let describe = || Work::copy(source.place(), target.place(), extent.bytes() as u64);
        let is_undone = stays_undone(&[source, target], extent) && !comes_from_known(from, extent, source);
        if known::is_wanted() {
            // SAFETY: the box in device memory was just checked.
            unsafe { pass_on(to, from, extent, [source, target], is_undone) };
        }
        if is_undone {
            let submitted = timeline::submit(stream, describe);
            let task = move || drop(timeline::begin(submitted));
            if waits {
                stream.synchronize();
                task();
            } else {
                stream.run(task);
            }
            return Ok(());
        }
        if waits {
            stream.synchronize();
            if host_waits {
                races::host_waited_for(stream.lane());
            }
        }
        let submitted = timeline::submit(stream, describe);
        if waits || (source == Known::Unknown && stream.is_idle()) {
            let _running = timeline::begin(submitted);
            // SAFETY: both boxes are in live memory: device and known memory were checked, the rest C answers for.
            unsafe { move_box(to, from, extent) };
        } else if source == Known::Unknown {
            // Not asked again whether the stream is idle: another thread may have changed that.
            let mut staged = vec![0u8; extent.bytes()];
            let packed = Layout {
                address: staged.as_mut_ptr() as usize,
                pitch: extent.width,
                slice: extent.width * extent.height,
            };
            // SAFETY: `staged` has room for the packed box.
            unsafe { move_box(packed, from, extent) };
            stream.run(move || {
                let _running = timeline::begin(submitted);
                let packed = Layout { address: staged.as_ptr() as usize, ..packed };
                // SAFETY: `staged` moved in here; the target was checked, and freeing it waits for this stream.
                unsafe { move_box(to, packed, extent) };
            });
        } else {
            stream.run(move || {
                let _running = timeline::begin(submitted);
                // SAFETY: both boxes were checked, and freeing device memory waits for this stream.
                unsafe { move_box(to, from, extent) };
            });
        }
        Ok(())
    }

    /// Copies to a multicast address.
    fn spread(&self, stream: &Arc<Stream>, when: When, targets: Vec<Layout>) {
        let Self { from, extent, .. } = *self;
        if races::are_wanted() {
            let mut accesses = Vec::new();
            add_accesses(&mut accesses, from, extent, false);
            targets.iter().for_each(|to| add_accesses(&mut accesses, *to, extent, true));
            races::work(&[stream.lane()], finding::function(), &accesses);
        }
        let place = Place::Device(stream.device);
        let submitted = timeline::submit(stream, || Work::copy(place, place, extent.bytes() as u64));
        let task = move || {
            let _running = timeline::begin(submitted);
            for to in targets {
                // SAFETY: the source was checked, and freeing it waits for this stream, as does unmapping the multicast object.
                unsafe { move_box(to, from, extent) };
            }
        };
        if when == When::Now {
            stream.synchronize();
            task();
        } else {
            stream.run(task);
        }
    }
}

impl BoxFill {
    /// What CUDA knows about the memory.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the memory is not CUDA's, the box leaves its allocation, or rows overlap: only copies return
    /// `INVALID_PITCH` (CUDA Runtime API, `cudaMemset2D`).
    pub(crate) fn check(&self) -> CudaResult<Known> {
        let Self { to, element, extent, .. } = *self;
        if extent.height > 1 && to.pitch < extent.width {
            return Err(CudaError::INVALID_VALUE);
        }
        if !to.address.is_multiple_of(element) || !to.pitch.is_multiple_of(element) {
            return Err(CudaError::INVALID_VALUE);
        }
        known("writes", to, extent, Some(true))
    }

    /// Submits it to a stream that is not capturing.
    ///
    /// # Errors
    /// As [`BoxFill::check`].
    pub(crate) fn issue(&self, stream: &Arc<Stream>) -> CudaResult {
        self.perform(stream, When::InOrder)
    }

    /// [`BoxCopy::rehearse`]
    pub(crate) fn rehearse(&self, undo: &mut Undo) {
        if !matches!(self.check(), Ok(Known::Device(_))) {
            return;
        }
        for (row, _) in rows(self.to, self.to, self.extent) {
            // SAFETY: the box was just checked to be in device memory.
            unsafe { undo.keep(row, self.extent.width) };
        }
        // SAFETY: as above.
        unsafe { self.write() };
    }

    /// # Safety
    /// The box is in live memory.
    unsafe fn write(self) {
        for (row, _) in rows(self.to, self.to, self.extent) {
            // SAFETY: by the caller.
            let bytes = unsafe { std::slice::from_raw_parts_mut(row as *mut u8, self.extent.width) };
            match self.element {
                1 => bytes.fill(self.pattern as u8),
                size => {
                    let pattern = self.pattern.to_le_bytes();
                    bytes.chunks_exact_mut(size).for_each(|part| part.copy_from_slice(&pattern[..size]));
                }
            }
        }
    }

    /// Fills now or in stream order, in a stream that is not capturing.
    ///
    /// # Errors
    /// As [`BoxFill::check`].
    pub(crate) fn perform(self, stream: &Arc<Stream>, when: When) -> CudaResult {
        let Self { to, extent, .. } = self;
        let target = self.check()?;
        if let Known::Device(device) = target {
            device.counters.memset.add(extent.bytes() as u64);
        }
        if races::are_wanted() {
            if target == Known::Host {
                races::writes_to_host(stream.lane(), to.address, extent.span(to));
            }
            let mut accesses = Vec::new();
            add_accesses(&mut accesses, to, extent, true);
            races::work(&[stream.lane()], finding::function(), &accesses);
            if when == When::InOrder && is_hosts(target, to) {
                races::brings(stream.lane(), to.address, extent.span(to));
            }
        }
        if init::is_wanted() {
            rows(to, to, extent).for_each(|(row, _)| init::written(row, extent.width));
        }
        let is_done = !stays_undone(&[target], extent);
        if known::is_wanted() && matches!(target, Known::Device(_)) {
            let origin = if is_done { Origin::Known } else { known::undone(finding::function()) };
            rows(to, to, extent).for_each(|(row, _)| known::put(row, extent.width, origin));
        }
        let submitted = timeline::submit(stream, || Work::fill(target.place(), self.pattern, extent.bytes() as u64));
        let task = move || {
            let _running = timeline::begin(submitted);
            if is_done {
                // SAFETY: the box was checked to be in live memory, and freeing it waits for this stream.
                unsafe { self.write() };
            }
        };
        if when == When::Now {
            stream.synchronize();
            // The host waits for a fill of its own memory only (CUDA runtime manual, "API synchronization behavior").
            if is_hosts(target, to) {
                races::host_waited_for(stream.lane());
            }
            task();
        } else {
            stream.run(task);
        }
        Ok(())
    }
}

/// Whether it is host memory allocated by CUDA, which exists until CUDA releases it.
fn is_pinned(known: Known, layout: Layout) -> bool {
    known == Known::Host
        && memory::locate_host(layout.address)
            .is_some_and(|range| matches!(range.kind, HostKind::Allocated | HostKind::Mapped))
}

/// If nothing is computed, large pieces of device memory are left as they are: their content means nothing, and untouched pages
/// cost no memory.
fn stays_undone(places: &[Known], extent: Extent) -> bool {
    extent.bytes() > protocol::skip::MOVED
        && places.iter().any(|known| matches!(known, Known::Device(_)))
        && settings::get().is_ok_and(|settings| settings.compute == Compute::Skip)
}

/// Whether a copy moves numbers of the GPU that are known, which costs no memory that was not touched.
fn comes_from_known(from: Layout, extent: Extent, source: Known) -> bool {
    matches!(source, Known::Device(_))
        && known::is_wanted()
        && known::unknown(rows(from, from, extent).map(|(row, _)| (row, extent.width))).is_none()
}

/// Which bytes are known after a copy, if nothing computes. The host gets zeros for those that are not.
///
/// # Safety
/// The box at `from` is in live memory, if that is a device's.
unsafe fn pass_on(to: Layout, from: Layout, extent: Extent, [source, target]: [Known; 2], is_undone: bool) {
    let is_device = |known| matches!(known, Known::Device(_));
    let call = finding::function();
    if is_device(target) {
        for (to, from) in rows(to, from, extent) {
            match (is_undone, is_device(source)) {
                (true, _) => known::put(to, extent.width, known::undone(call)),
                (false, true) => known::copied(to, from, extent.width),
                (false, false) => known::put(to, extent.width, Origin::Known),
            }
        }
    } else if is_device(source) {
        let pieces: Vec<_> = rows(to, from, extent).map(|(_, address)| (address, extent.width)).collect();
        // SAFETY: by the caller.
        unsafe { known::host_reads(call, &pieces, !is_undone) };
    }
}

/// Whether the host may access it.
fn is_hosts(known: Known, layout: Layout) -> bool {
    known == Known::Host || address::is_managed(layout.address)
}

/// Adds the bytes that a box touches: one range if they are contiguous, or else its rows, unless there are too many.
fn add_accesses(accesses: &mut Vec<Access>, layout: Layout, extent: Extent, writes: bool) {
    let Extent { width, height, depth } = extent;
    let has_gaps = (height > 1 && layout.pitch != width) || (depth > 1 && layout.slice != width * height);
    if !has_gaps {
        accesses.push(Access { address: layout.address, bytes: extent.bytes(), writes });
    } else if height * depth <= MOST_ROWS {
        let row = |(address, _)| Access { address, bytes: width, writes };
        accesses.extend(rows(layout, layout, extent).map(row));
    }
}

/// Handles uninitialized memory in a copy: it stays uninitialized within devices, but a copy to the host reads it.
fn follow(to: Layout, from: Layout, extent: Extent, source: Known, target: Known) {
    let is_device = |known| matches!(known, Known::Device(_));
    for (to, from) in rows(to, from, extent) {
        if is_device(source) && is_device(target) {
            init::copied(to, from, extent.width);
        } else if is_device(target) {
            init::written(to, extent.width);
        }
    }
    if is_device(source) && !is_device(target) {
        let pieces = rows(to, from, extent).map(|(_, address)| (address, extent.width)).collect();
        init::read(finding::function(), &[Read { pieces, needs: Needs::Any }]);
    }
}

fn known(verb: &str, layout: Layout, extent: Extent, is_device: Option<bool>) -> CudaResult<Known> {
    if layout.address == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let bytes = extent.span(layout);
    let known = address::known(layout.address, bytes).inspect_err(|_| misuse::access(verb, layout.address, bytes))?;
    if known == Known::Unknown && is_device == Some(true) {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(known)
}

/// The box at every device, if it is at a multicast address.
fn at_every_device(to: Layout, extent: Extent) -> Option<Vec<Layout>> {
    let (range, copies) = multicast::copies(to.address)?;
    let within = to.address - range.start;
    let is_inside = within + extent.span(to) <= range.len();
    is_inside.then(|| copies.into_iter().map(|copy| Layout { address: copy + within, ..to }).collect())
}

fn count(source: Known, target: Known, bytes: u64) {
    match (source, target) {
        (Known::Device(from), Known::Device(to)) if from.ordinal == to.ordinal => {
            from.counters.device_to_device.add(bytes)
        }
        (Known::Device(from), Known::Device(to)) => {
            from.counters.peer_sent.add(bytes);
            to.counters.peer_received.add(bytes);
        }
        (Known::Device(from), _) => {
            from.counters.device_to_host.add(bytes);
            from.share.copied(bytes, false);
        }
        (_, Known::Device(to)) => {
            to.counters.host_to_device.add(bytes);
            to.share.copied(bytes, true);
        }
        _ => HOST_COPIES.add(bytes),
    }
}

/// The rows of the box in both layouts.
fn rows(to: Layout, from: Layout, extent: Extent) -> impl Iterator<Item = (usize, usize)> {
    (0..extent.depth).flat_map(move |slice| {
        (0..extent.height).map(move |row| {
            let at = |layout: Layout| layout.address + slice * layout.slice + row * layout.pitch;
            (at(to), at(from))
        })
    })
}

/// # Safety
/// Both boxes are in live memory.
unsafe fn move_box(to: Layout, from: Layout, extent: Extent) {
    for (to, from) in rows(to, from, extent) {
        // SAFETY: rows of boxes that the caller answers for.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, extent.width) };
    }
}

#[cfg(test)]
mod tests;
