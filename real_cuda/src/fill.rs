//! Fills are the real library's; host memory that replaces device memory is filled here, in stream order.

use std::ffi::{c_uint, c_void};

use abi::cuda::{CudaError, CudaResult};

use crate::copy::is_spilled;
use crate::guard::exports;
use crate::real::call;
use crate::traffic::{self, Way};

/// Rows of host memory, and what goes into each element.
struct Rows {
    to: usize,
    pitch: usize,
    /// Its first `element` bytes, in the machine's byte order, are an element.
    value: u32,
    element: usize,
    width: usize,
    height: usize,
}

impl Rows {
    /// From the first byte to the last.
    fn length(&self) -> CudaResult<usize> {
        let row = self.width.checked_mul(self.element).ok_or(CudaError::INVALID_VALUE)?;
        let before = self.height.saturating_sub(1).checked_mul(self.pitch).ok_or(CudaError::INVALID_VALUE)?;
        row.checked_add(before).ok_or(CudaError::INVALID_VALUE)
    }

    fn write(&self) {
        let element = &self.value.to_le_bytes()[..self.element];
        for row in 0..self.height {
            for index in 0..self.width {
                let at = (self.to + row * self.pitch + index * self.element) as *mut u8;
                // SAFETY: the rows are inside one allocation of `backing`, which is not freed before this is done.
                unsafe { at.copy_from_nonoverlapping(element.as_ptr(), element.len()) };
            }
        }
    }
}

/// A host function of a stream.
unsafe extern "C" fn run(rows: *mut c_void) {
    // SAFETY: made in `later`, and a stream runs it once.
    unsafe { Box::from_raw(rows.cast::<Rows>()) }.write();
}

type HostFunction = unsafe extern "C" fn(*mut c_void);

/// Fills in stream order. A captured graph would run the fill again at every launch, so it is not captured.
fn later(
    rows: Rows,
    capturing: impl FnOnce(*mut c_uint) -> CudaResult,
    launch: impl FnOnce(HostFunction, *mut c_void) -> CudaResult,
) -> CudaResult {
    let mut status: c_uint = 0;
    capturing(&raw mut status)?;
    if status != 0 {
        return Err(CudaError::CAPTURE_UNSUPPORTED);
    }
    let rows = Box::into_raw(Box::new(rows)).cast();
    launch(run, rows).inspect_err(|_| {
        // SAFETY: nothing else owns it.
        drop(unsafe { Box::from_raw(rows.cast::<Rows>()) });
    })
}

/// `now` waits for the stream that orders it.
macro_rules! fills {
    ($($element:literal $type:ty: $($now:ident $now_own:ident $async:ident $async_own:ident ($($pitch:ident)?) ($($height:ident)?);)*)*) => {$($(
        fills! { @now $now $type, $element, ($($pitch)?), ($($height)?), cuStreamSynchronize, 1 }
        fills! { @now $now_own $type, $element, ($($pitch)?), ($($height)?), cuStreamSynchronize, 2 }
        fills! { @later $async $type, $element, ($($pitch)?), ($($height)?), cuStreamIsCapturing, cuLaunchHostFunc }
        fills! { @later $async_own $type, $element, ($($pitch)?), ($($height)?), cuStreamIsCapturing_ptsz, cuLaunchHostFunc_ptsz }
    )*)*};
    (@rows $to:ident $value:ident $width:ident $element:literal, ($($pitch:ident)?), ($($height:ident)?)) => {
        Rows {
            to: $to,
            pitch: fills!(@or 0 $($pitch)?),
            value: u32::from($value),
            element: $element,
            width: $width,
            height: fills!(@or 1 $($height)?),
        }
    };
    (@or $default:literal) => { $default };
    (@or $default:literal $given:ident) => { $given };
    (@type $given:ident) => { usize };
    (@now $name:ident $type:ty, $element:literal, ($($pitch:ident)?), ($($height:ident)?), $wait:ident, $stream:literal) => {
        exports! {
            fn $name(to: usize $(, $pitch: usize)?, value: $type, width: usize $(, $height: usize)?) = |to $(, $pitch)?, value, width $(, $height)?| {
                let rows = fills!(@rows to value width $element, ($($pitch)?), ($($height)?));
                let bytes = rows.width.saturating_mul(rows.height).saturating_mul(rows.element);
                if is_spilled(to, rows.length()?)? {
                    call!($wait($stream => usize))?;
                    rows.write();
                } else {
                    call!($name(to => usize $(, $pitch => usize)?, value => $type, width => usize $(, $height => usize)?))?;
                }
                traffic::count(Way::Fill, bytes);
                Ok(())
            };
        }
    };
    (@later $name:ident $type:ty, $element:literal, ($($pitch:ident)?), ($($height:ident)?), $capturing:ident, $launch:ident) => {
        exports! {
            fn $name(to: usize $(, $pitch: usize)?, value: $type, width: usize $(, $height: usize)?, stream: usize) = |to $(, $pitch)?, value, width $(, $height)?, stream| {
                let rows = fills!(@rows to value width $element, ($($pitch)?), ($($height)?));
                let bytes = rows.width.saturating_mul(rows.height).saturating_mul(rows.element);
                if is_spilled(to, rows.length()?)? {
                    let capturing = |status| call!($capturing(stream => usize, status => *mut c_uint));
                    let launch = |function, data| call!($launch(stream => usize, function => HostFunction, data => *mut c_void));
                    later(rows, capturing, launch)?;
                } else {
                    call!($name(to => usize $(, $pitch => usize)?, value => $type, width => usize $(, $height => usize)?, stream => usize))?;
                }
                traffic::count(Way::Fill, bytes);
                Ok(())
            };
        }
    };
}

fills! {
    1 u8:
    cuMemsetD8_v2 cuMemsetD8_v2_ptds cuMemsetD8Async cuMemsetD8Async_ptsz () ();
    cuMemsetD2D8_v2 cuMemsetD2D8_v2_ptds cuMemsetD2D8Async cuMemsetD2D8Async_ptsz (pitch) (height);
    2 u16:
    cuMemsetD16_v2 cuMemsetD16_v2_ptds cuMemsetD16Async cuMemsetD16Async_ptsz () ();
    cuMemsetD2D16_v2 cuMemsetD2D16_v2_ptds cuMemsetD2D16Async cuMemsetD2D16Async_ptsz (pitch) (height);
    4 u32:
    cuMemsetD32_v2 cuMemsetD32_v2_ptds cuMemsetD32Async cuMemsetD32Async_ptsz () ();
    cuMemsetD2D32_v2 cuMemsetD2D32_v2_ptds cuMemsetD2D32Async cuMemsetD2D32Async_ptsz (pitch) (height);
}
