//! Memory without an address (`cuMemCreate`): booked from its creation until neither a handle nor a mapping refers to it. If the
//! real device has no room and the policy is `mapped_host`, it is memory of the host that the program maps for the device.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{c_int, c_ulonglong};

use abi::argument::{In, Out};
use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;

use crate::book::{self, Kind};
use crate::device::{self, Device};
use crate::guard::exports;
use crate::policy;
use crate::real::call;
use crate::translate::{AllocationProperties, Location};

/// `CU_MEM_LOCATION_TYPE_DEVICE`, `_HOST_NUMA`
const DEVICE: u32 = 1;
const HOST_NUMA: u32 = 3;

/// Allocation numbers, and what refers to each allocation.
#[derive(Debug, Default)]
struct References {
    made: usize,
    handles: HashMap<usize, usize>,
    /// The mappings by address: the length, and which allocation.
    mapped: BTreeMap<usize, (usize, usize)>,
    counts: HashMap<usize, u64>,
}

impl References {
    fn add(&mut self, allocation: usize) {
        *self.counts.entry(allocation).or_default() += 1;
    }

    /// Drops one reference. Returns whether it was the last.
    fn drop_one(&mut self, allocation: usize) -> bool {
        let Some(count) = self.counts.get_mut(&allocation) else { return false };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&allocation);
            self.handles.retain(|_, known| *known != allocation);
            return true;
        }
        false
    }
}

static REFERENCES: Mutex<Option<References>> = Mutex::new(None);

fn with<R>(body: impl FnOnce(&mut References) -> R) -> R {
    body(REFERENCES.lock().get_or_insert_default())
}

exports! {
    fn cuMemCreate(out: *mut usize, size: usize, properties: *const AllocationProperties, flags: c_ulonglong) = |out, size, properties, flags| {
        let given = In(properties).get()?;
        let real = given.real()?;
        let make = |made: *mut usize| call!(cuMemCreate(made => *mut usize, size => usize, &raw const real => *const AllocationProperties, flags => c_ulonglong));
        // Memory that is not on a device takes nothing from one. The real library refuses mistakes.
        if out.is_null() || size == 0 || given.location.kind != DEVICE {
            return make(out);
        }
        let allocation = with(|references| {
            references.made += 1;
            references.made
        });
        let mut handle = 0;
        let device = device::get(given.location.id)?;
        let created = &raw mut handle;
        let host = || {
            let properties = given.with_location(near(device)?);
            call!(cuMemCreate(created => *mut usize, size => usize, &raw const properties => *const AllocationProperties, flags => c_ulonglong))
        };
        let physical = || Ok((allocation, policy::physical(|| make(created), host)?));
        policy::allocate_as((0, device), Kind::Physical, (size as u64, size as u64), physical)?;
        with(|references| {
            references.handles.insert(handle, allocation);
            references.add(allocation);
        });
        Ok(Out(out).set(handle)?)
    };
    fn cuMemGetAllocationPropertiesFromHandle(out: *mut AllocationProperties, handle: usize) = |out, handle| {
        call!(cuMemGetAllocationPropertiesFromHandle(out => *mut AllocationProperties, handle => usize))?;
        let properties = In(out).get()?;
        let allocation = with(|references| references.handles.get(&handle).copied());
        let ordinal = match allocation.and_then(|allocation| book::get(Kind::Physical, allocation)) {
            Some(held) => held.device as c_int,
            None if properties.location.kind == DEVICE => device::first_of(properties.location.id)?.ordinal,
            None => return Ok(()),
        };
        Ok(Out(out).set(properties.with_location(Location { kind: DEVICE, id: ordinal }))?)
    };
    fn cuMemRelease(handle: usize) = |handle| {
        // Before the call: the real library may give the handle to another thread before it returns.
        let ended = with(|references| {
            let allocation = references.handles.get(&handle).copied()?;
            references.drop_one(allocation).then_some(allocation)
        });
        call!(cuMemRelease(handle => usize))?;
        end(ended)
    };
    fn cuMemMap(address: usize, size: usize, offset: usize, handle: usize, flags: c_ulonglong) = |address, size, offset, handle, flags| {
        call!(cuMemMap(address => usize, size => usize, offset => usize, handle => usize, flags => c_ulonglong))?;
        with(|references| {
            if let Some(allocation) = references.handles.get(&handle).copied() {
                references.mapped.insert(address, (size, allocation));
                references.add(allocation);
            }
        });
        Ok(())
    };
    fn cuMemUnmap(address: usize, size: usize) = |address, size| {
        call!(cuMemUnmap(address => usize, size => usize))?;
        let ended: Vec<usize> = with(|references| {
            let inside: Vec<usize> = references.mapped.range(address..address.saturating_add(size)).map(|(at, _)| *at).collect();
            let gone = inside.iter().filter_map(|at| references.mapped.remove(at)).map(|(_, allocation)| allocation).collect::<Vec<_>>();
            gone.into_iter().filter(|allocation| references.drop_one(*allocation)).collect()
        });
        ended.into_iter().try_for_each(|allocation| end(Some(allocation)))
    };
    fn cuMemRetainAllocationHandle(out: *mut usize, address: usize) = |out, address| {
        call!(cuMemRetainAllocationHandle(out => *mut usize, address => usize))?;
        let handle = In(out).get()?;
        with(|references| {
            let found = references.mapped.range(..=address).next_back().filter(|(at, (size, _))| address - **at < *size);
            if let Some(allocation) = found.map(|(_, (_, allocation))| *allocation) {
                references.handles.insert(handle, allocation);
                references.add(allocation);
            }
        });
        Ok(())
    };
}

/// The host's memory nearest to a device, if the driver allocates such memory.
fn near(device: &Device) -> CudaResult<Location> {
    let attribute = |number: c_int| {
        let mut value: c_int = 0;
        call!(cuDeviceGetAttribute(&raw mut value => *mut c_int, number => c_int, device.real => c_int)).map(|()| value)
    };
    // `CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED`, `_HOST_NUMA_ID`, which is negative without NUMA.
    if attribute(141)? == 0 {
        return Err(CudaError::NOT_SUPPORTED);
    }
    Ok(Location { kind: HOST_NUMA, id: attribute(134)?.max(0) })
}

fn end(allocation: Option<usize>) -> CudaResult {
    if let Some(allocation) = allocation {
        book::remove(Kind::Physical, allocation);
    }
    Ok(())
}
