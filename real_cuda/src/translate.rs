//! Functions that name a device or a memory location among arguments that are otherwise forwarded unchanged.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use abi::argument::In;
use abi::cuda::CudaResult;

use crate::device;
use crate::guard::exports;
use crate::real::{call, real};

/// An argument on its way to the real library.
trait Forward: Copy {
    /// What the real library gets.
    type Real: Copy;
    fn forward(self) -> CudaResult<Self::Real>;
}

/// A device as the program numbers it.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Ordinal(c_int);

impl Forward for Ordinal {
    type Real = c_int;
    fn forward(self) -> CudaResult<c_int> {
        Ok(device::get(self.0)?.real)
    }
}

/// The same, or a negative number for the host (`CU_DEVICE_CPU`).
#[repr(transparent)]
#[derive(Clone, Copy)]
struct OrdinalOrHost(c_int);

impl Forward for OrdinalOrHost {
    type Real = c_int;
    fn forward(self) -> CudaResult<c_int> {
        if self.0 < 0 { Ok(self.0) } else { Ordinal(self.0).forward() }
    }
}

/// `CUmemLocation`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    /// 1: a device.
    pub(crate) kind: c_uint,
    /// Its number.
    pub(crate) id: c_int,
}

impl Forward for Location {
    type Real = Location;
    fn forward(self) -> CudaResult<Location> {
        if self.kind == 1 { Ok(Location { id: device::get(self.id)?.real, ..self }) } else { Ok(self) }
    }
}

macro_rules! as_they_are {
    ($($type:ty),*) => {$(
        impl Forward for $type {
            type Real = $type;
            fn forward(self) -> CudaResult<$type> {
                Ok(self)
            }
        }
    )*};
}

as_they_are!(c_int, c_uint, c_ulonglong, usize, *mut c_int, *const c_char);

macro_rules! translated {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        exports! {$(
            fn $name($($argument: $type),*) = |$($argument),*| {
                let real = real!($name($(<$type as Forward>::Real),*))?;
                // SAFETY: the caller's promises are the real library's.
                abi::cuda::check(unsafe { real($($argument.forward()?),*) })
            };
        )*}
    };
}

translated! {
    fn cuDeviceGetLuid(out: usize, mask: usize, device: Ordinal);
    fn cuDeviceGetProperties(out: usize, device: Ordinal);
    fn cuDeviceCanAccessPeer(out: *mut c_int, device: Ordinal, peer: Ordinal);
    fn cuDeviceGetP2PAttribute(out: *mut c_int, attribute: c_uint, from: Ordinal, to: Ordinal);
    fn cuDeviceGetP2PAtomicCapabilities(out: usize, operations: usize, count: c_uint, from: Ordinal, to: Ordinal);
    fn cuDeviceGetHostAtomicCapabilities(out: usize, operations: usize, count: c_uint, device: Ordinal);
    fn cuDeviceGetTexture1DLinearMaxWidth(out: usize, format: c_uint, channels: c_uint, device: Ordinal);
    fn cuDeviceGetNvSciSyncAttributes(out: usize, device: Ordinal, flags: c_int);
    fn cuDeviceGetExecAffinitySupport(out: *mut c_int, kind: c_uint, device: Ordinal);
    fn cuDeviceGetDevResource(device: Ordinal, out: usize, kind: c_uint);
    fn cuDeviceGetDefaultMemPool(out: usize, device: Ordinal);
    fn cuDeviceGetMemPool(out: usize, device: Ordinal);
    fn cuDeviceSetMemPool(device: Ordinal, pool: usize);
    fn cuDeviceGetGraphMemAttribute(device: Ordinal, attribute: c_uint, value: usize);
    fn cuDeviceSetGraphMemAttribute(device: Ordinal, attribute: c_uint, value: usize);
    fn cuDeviceGraphMemTrim(device: Ordinal);
    fn cuDeviceRegisterAsyncNotification(device: Ordinal, function: usize, data: usize, out: usize);
    fn cuDeviceUnregisterAsyncNotification(device: Ordinal, handle: usize);
    fn cuKernelGetAttribute(out: *mut c_int, attribute: c_uint, kernel: usize, device: Ordinal);
    fn cuKernelSetAttribute(attribute: c_uint, value: c_int, kernel: usize, device: Ordinal);
    fn cuKernelSetCacheConfig(kernel: usize, configuration: c_uint, device: Ordinal);
    fn cuMulticastAddDevice(handle: usize, device: Ordinal);
    fn cuMulticastUnbind(handle: usize, device: Ordinal, offset: usize, size: usize);
    fn cuMemPrefetchAsync(address: usize, count: usize, to: OrdinalOrHost, stream: usize);
    fn cuMemPrefetchAsync_ptsz(address: usize, count: usize, to: OrdinalOrHost, stream: usize);
    fn cuMemPrefetchAsync_v2(address: usize, count: usize, to: Location, flags: c_uint, stream: usize);
    fn cuMemPrefetchAsync_v2_ptsz(address: usize, count: usize, to: Location, flags: c_uint, stream: usize);
    fn cuMemAdvise(address: usize, count: usize, advice: c_uint, device: OrdinalOrHost);
    fn cuMemAdvise_v2(address: usize, count: usize, advice: c_uint, location: Location);
}

/// `CUmemAccessDesc`
#[repr(C)]
#[derive(Clone, Copy)]
struct Access {
    location: Location,
    flags: c_uint,
}

/// `CUmemPoolProps` and `CUmemAllocationProp` begin the same way; the first is 88 bytes, the second 32.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Properties<const REST: usize> {
    kinds: [c_uint; 2],
    /// Where the memory is.
    pub(crate) location: Location,
    rest: [u64; REST],
}

/// `CUmemPoolProps`
type PoolProperties = Properties<9>;
/// `CUmemAllocationProp`
pub(crate) type AllocationProperties = Properties<2>;

const _: () =
    assert!(size_of::<PoolProperties>() == 88 && size_of::<AllocationProperties>() == 32 && size_of::<Access>() == 12);

impl<const REST: usize> Properties<REST> {
    /// The same with the location as the real library names it.
    pub(crate) fn real(self) -> CudaResult<Self> {
        Ok(self.with_location(self.location.forward()?))
    }

    /// The same elsewhere.
    pub(crate) fn with_location(self, location: Location) -> Self {
        Self { location, ..self }
    }
}

/// The list `from` with the locations as the real library names them.
unsafe fn accesses(from: *const Access, count: usize) -> CudaResult<Vec<Access>> {
    let real = |index: usize| {
        let access = In(from.wrapping_add(index)).get()?;
        Ok(Access { location: access.location.forward()?, ..access })
    };
    if from.is_null() { Ok(Vec::new()) } else { (0..count).map(real).collect() }
}

exports! {
    fn cuMemPoolCreate(out: *mut usize, properties: *const PoolProperties) = |out, properties| {
        let real = In(properties).get()?.real()?;
        call!(cuMemPoolCreate(out => *mut usize, &raw const real => *const PoolProperties))
    };
    fn cuMemPoolSetAccess(pool: usize, list: *const Access, count: usize) = |pool, list, count| {
        // SAFETY: promised by the caller.
        let real = unsafe { accesses(list, count) }?;
        let list = if list.is_null() { list } else { real.as_ptr() };
        call!(cuMemPoolSetAccess(pool => usize, list => *const Access, count => usize))
    };
    fn cuMemPoolGetAccess(out: *mut c_uint, pool: usize, location: *const Location) = |out, pool, location| {
        let real = In(location).get()?.forward()?;
        call!(cuMemPoolGetAccess(out => *mut c_uint, pool => usize, &raw const real => *const Location))
    };
    fn cuMemSetAccess(address: usize, size: usize, list: *const Access, count: usize) = |address, size, list, count| {
        // SAFETY: promised by the caller.
        let real = unsafe { accesses(list, count) }?;
        let list = if list.is_null() { list } else { real.as_ptr() };
        call!(cuMemSetAccess(address => usize, size => usize, list => *const Access, count => usize))
    };
    fn cuMemGetAccess(out: *mut c_ulonglong, location: *const Location, address: usize) = |out, location, address| {
        let real = In(location).get()?.forward()?;
        call!(cuMemGetAccess(out => *mut c_ulonglong, &raw const real => *const Location, address => usize))
    };
    fn cuMemGetAllocationGranularity(out: *mut usize, properties: *const AllocationProperties, option: c_uint) = |out, properties, option| {
        let real = In(properties).get()?.real()?;
        call!(cuMemGetAllocationGranularity(out => *mut usize, &raw const real => *const AllocationProperties, option => c_uint))
    };
    fn cuMemGetDefaultMemPool(out: *mut usize, location: *const Location, kind: c_uint) = |out, location, kind| {
        let real = In(location).get()?.forward()?;
        call!(cuMemGetDefaultMemPool(out => *mut usize, &raw const real => *const Location, kind => c_uint))
    };
    fn cuMemGetMemPool(out: *mut usize, location: *const Location, kind: c_uint) = |out, location, kind| {
        let real = In(location).get()?.forward()?;
        call!(cuMemGetMemPool(out => *mut usize, &raw const real => *const Location, kind => c_uint))
    };
    fn cuMemSetMemPool(location: *const Location, kind: c_uint, pool: usize) = |location, kind, pool| {
        let real = In(location).get()?.forward()?;
        call!(cuMemSetMemPool(&raw const real => *const Location, kind => c_uint, pool => usize))
    };
}
