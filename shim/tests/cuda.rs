//! The CUDA calls as a C program meets them: through the table's addresses, with NVIDIA's codes as expectation
//! (CUDA runtime and driver API manuals). Every test works on a device of its own.
#![expect(unsafe_code, reason = "calls C functions by address")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::mpsc;
use std::time::Duration;

/// `cuda!(cudaMalloc(pointer: *mut usize, size: usize))` calls the export of that name and gives its status.
macro_rules! cuda {
    ($name:ident($($value:expr => $type:ty),* $(,)?)) => {{
        let export = fakegpu::tables().into_iter().flatten().find(|export| export.name == stringify!($name));
        let address = export.expect("the name is in a table").address.0;
        // SAFETY: the address is a C function with these parameters, as NVIDIA's header declares it.
        unsafe {
            let function: unsafe extern "C" fn($($type),*) -> c_uint = std::mem::transmute(address);
            function($($value),*)
        }
    }};
}

const DEADLINE: Duration = Duration::from_secs(10);

fn select(device: c_int) {
    assert_eq!(cuda!(cudaSetDevice(device => c_int)), 0);
}

fn malloc(size: usize) -> usize {
    let mut pointer = 0usize;
    assert_eq!(cuda!(cudaMalloc(&mut pointer => *mut usize, size => usize)), 0);
    pointer
}

fn free_memory() -> usize {
    let (mut free, mut total) = (0usize, 0usize);
    assert_eq!(cuda!(cudaMemGetInfo(&mut free => *mut usize, &mut total => *mut usize)), 0);
    assert_eq!(total, 80 << 30);
    free
}

#[test]
fn memory_is_counted_in_pages_and_a_bad_free_is_an_error() {
    select(0);
    let before = free_memory();
    let pointer = malloc(3 << 20);
    assert_eq!((pointer % 512, before - free_memory()), (0, 4 << 20));
    assert_eq!(cuda!(cudaFree(pointer + 512 => usize)), 1, "inside an allocation");
    assert_eq!(cuda!(cudaFree(pointer => usize)), 0);
    assert_eq!(cuda!(cudaFree(pointer => usize)), 1, "a second time");
    assert_eq!(cuda!(cudaFree(0 => usize)), 0);
    let host = [0u8; 8];
    assert_eq!(cuda!(cudaFree(host.as_ptr() as usize => usize)), 1, "not device memory");
    assert_eq!(free_memory(), before);
    let mut all = 0usize;
    assert_eq!(cuda!(cudaMalloc(&mut all => *mut usize, before + 1 => usize)), 2);
    assert_eq!(cuda!(cudaGetLastError()), 2, "cudaErrorMemoryAllocation");
    assert_eq!(cuda!(cudaGetLastError()), 0, "it is asked once");
    assert_eq!(cuda!(cudaMalloc(&mut all => *mut usize, before => usize)), 0);
    assert_eq!(free_memory(), 0);
    assert_eq!(cuda!(cudaFree(all => usize)), 0);
    assert_eq!(cuda!(cudaMalloc(null_mut() => *mut usize, 1 => usize)), 1);
}

#[test]
fn copies_go_every_way_and_stay_inside_their_allocation() {
    select(1);
    let data: Vec<u8> = (0..=255).collect();
    let mut back = vec![0u8; 256];
    let (one, other) = (malloc(256), malloc(256));
    let copy = |to: usize, from: usize, bytes: usize, kind: c_uint| cuda!(cudaMemcpy(to => usize, from => usize, bytes => usize, kind => c_uint));
    let (source, target) = (data.as_ptr() as usize, back.as_mut_ptr() as usize);
    assert_eq!(copy(one, source, 256, 1), 0);
    assert_eq!(copy(other, one, 256, 3), 0);
    assert_eq!(copy(target, other, 256, 4), 0, "cudaMemcpyDefault");
    assert_eq!(back, data);
    assert_eq!(copy(target, other + 255, 2, 2), 1, "beyond the allocation");
    assert_eq!(copy(one, source, 257, 1), 1);
    assert_eq!(copy(target, source, 256, 2), 1, "said to be device memory");
    assert_eq!(copy(one, source, 256, 5), 21, "cudaErrorInvalidMemcpyDirection");
    assert_eq!(copy(one, 0, 256, 1), 1);
    assert_eq!(copy(one, source, 0, 1), 0);
    // 4 rows of 8 bytes, 16 apart, out of a packed matrix.
    let call = cuda!(cudaMemcpy2D(one => usize, 16 => usize, source => usize, 8 => usize, 8 => usize, 4 => usize, 1 => c_uint));
    assert_eq!(call, 0);
    assert_eq!(copy(target, one, 64, 2), 0);
    assert_eq!(back[16..24], data[8..16]);
    assert_eq!(back[24..32], data[24..32], "what lies between rows is left alone");
    let narrow =
        cuda!(cudaMemcpy2D(one => usize, 4 => usize, source => usize, 8 => usize, 8 => usize, 4 => usize, 1 => c_uint));
    assert_eq!(narrow, 12, "cudaErrorInvalidPitchValue");
    assert_eq!(cuda!(cudaMemset(one + 1 => usize, 0x1ff => c_int, 2 => usize)), 0);
    assert_eq!(copy(target, one, 4, 2), 0);
    assert_eq!(back[..4], [0, 0xff, 0xff, 3]);
}

#[repr(C)]
#[derive(Default)]
struct PointerAttributes {
    kind: c_uint,
    device: c_int,
    device_pointer: usize,
    host_pointer: usize,
    reserved: [u64; 8],
}

#[test]
fn a_pointer_knows_what_it_points_into() {
    select(2);
    let kind = |pointer: usize| {
        let mut attributes = PointerAttributes::default();
        let status = cuda!(cudaPointerGetAttributes(&mut attributes => *mut PointerAttributes, pointer => usize));
        (status, attributes.kind, attributes.device)
    };
    let device = malloc(1000);
    let mut pinned = 0usize;
    assert_eq!(cuda!(cudaMallocHost(&mut pinned => *mut usize, 4096 => usize)), 0);
    let mut managed = 0usize;
    assert_eq!(cuda!(cudaMallocManaged(&mut managed => *mut usize, 4096 => usize, 1 => c_uint)), 0);
    let own = [0u8; 64];
    assert_eq!(kind(device + 999), (0, 2, 2));
    assert_eq!(kind(device + 1000), (0, 0, -2));
    assert_eq!(kind(pinned + 4095), (0, 1, 2));
    assert_eq!(kind(managed), (0, 3, 2));
    assert_eq!(kind(own.as_ptr() as usize), (0, 0, -2));
    let register = |pointer: usize| cuda!(cudaHostRegister(pointer => usize, 64 => usize, 0 => c_uint));
    assert_eq!(register(own.as_ptr() as usize), 0);
    assert_eq!(kind(own.as_ptr() as usize), (0, 1, 2));
    assert_eq!(register(own.as_ptr() as usize), 712, "cudaErrorHostMemoryAlreadyRegistered");
    assert_eq!(cuda!(cudaHostUnregister(own.as_ptr() as usize => usize)), 0);
    assert_eq!(cuda!(cudaHostUnregister(own.as_ptr() as usize => usize)), 713);
    assert_eq!(cuda!(cudaFreeHost(pinned => usize)), 0);
    assert_eq!(cuda!(cudaFreeHost(pinned => usize)), 1);
    assert_eq!(cuda!(cudaFree(managed => usize)), 0);
}

unsafe extern "C" fn wait(receiver: *mut c_void) {
    // SAFETY: the test passes a boxed receiver, once.
    let receiver = unsafe { Box::from_raw(receiver.cast::<mpsc::Receiver<()>>()) };
    receiver.recv_timeout(DEADLINE).expect("the test opens the gate");
    assert_eq!(cuda!(cudaDeviceSynchronize()), 800, "cudaErrorNotPermitted");
}

#[test]
fn a_stream_that_waits_holds_up_what_comes_after() {
    select(3);
    let mut stream = 0usize;
    assert_eq!(cuda!(cudaStreamCreateWithFlags(&mut stream => *mut usize, 1 => c_uint)), 0);
    let mut event = 0usize;
    assert_eq!(cuda!(cudaEventCreateWithFlags(&mut event => *mut usize, 2 => c_uint)), 0);
    assert_eq!(cuda!(cudaEventQuery(event => usize)), 0, "never recorded");
    let (open, gate) = mpsc::channel::<()>();
    let gate = Box::into_raw(Box::new(gate)).cast::<c_void>();
    type Function = unsafe extern "C" fn(*mut c_void);
    assert_eq!(cuda!(cudaLaunchHostFunc(stream => usize, wait => Function, gate => *mut c_void)), 0);
    let (memory, mut word) = (malloc(4), 7u32);
    let source = &raw mut word as usize;
    assert_eq!(cuda!(cudaMemset(memory => usize, 0 => c_int, 4 => usize)), 0);
    let copy = cuda!(cudaMemcpyAsync(memory => usize, source => usize, 4 => usize, 1 => c_uint, stream => usize));
    assert_eq!(copy, 0);
    // Pageable memory may be reused at once: the copy took what stood there.
    word = 9;
    assert_eq!(cuda!(cudaEventRecord(event => usize, stream => usize)), 0);
    assert_eq!(cuda!(cudaStreamQuery(stream => usize)), 600, "cudaErrorNotReady");
    assert_eq!(cuda!(cudaEventQuery(event => usize)), 600);
    assert_eq!(cuda!(cudaStreamQuery(0 => usize)), 0, "a non-blocking stream holds up nobody else");
    open.send(()).unwrap();
    assert_eq!(cuda!(cudaDeviceSynchronize()), 0);
    assert_eq!(cuda!(cudaStreamQuery(stream => usize)), 0);
    assert_eq!(cuda!(cudaEventQuery(event => usize)), 0);
    assert_eq!(cuda!(cudaMemcpy(source => usize, memory => usize, 4 => usize, 2 => c_uint)), 0);
    assert_eq!(word, 7);
    assert_eq!(cuda!(cudaStreamDestroy(stream => usize)), 0);
    assert_eq!(cuda!(cudaStreamDestroy(stream => usize)), 400, "cudaErrorInvalidResourceHandle");
    assert_eq!(cuda!(cudaStreamSynchronize(0xdead_beef => usize)), 400);
    assert_eq!(cuda!(cudaEventDestroy(event => usize)), 0);
    assert_eq!(cuda!(cudaEventRecord(event => usize, 0 => usize)), 400);
}

#[test]
fn each_thread_has_a_device_and_a_last_error_of_its_own() {
    select(4);
    assert_eq!(cuda!(cudaSetDevice(99 => c_int)), 101, "cudaErrorInvalidDevice");
    std::thread::spawn(|| {
        let mut device = -1;
        assert_eq!(cuda!(cudaGetDevice(&mut device => *mut c_int)), 0);
        assert_eq!(device, 0);
        assert_eq!(cuda!(cudaPeekAtLastError()), 0);
    })
    .join()
    .unwrap();
    let mut device = -1;
    assert_eq!(cuda!(cudaGetDevice(&mut device => *mut c_int)), 0);
    assert_eq!((device, cuda!(cudaPeekAtLastError())), (4, 101));
}

#[test]
fn peers_are_enabled_once() {
    select(5);
    let mut can = -1;
    let ask =
        |can: &mut c_int, peer: c_int| cuda!(cudaDeviceCanAccessPeer(can => *mut c_int, 5 => c_int, peer => c_int));
    assert_eq!((ask(&mut can, 6), can), (0, 1));
    assert_eq!((ask(&mut can, 5), can), (0, 0));
    let enable = |peer: c_int| cuda!(cudaDeviceEnablePeerAccess(peer => c_int, 0 => c_uint));
    let disable = |peer: c_int| cuda!(cudaDeviceDisablePeerAccess(peer => c_int));
    assert_eq!(disable(6), 705, "cudaErrorPeerAccessNotEnabled");
    assert_eq!(enable(6), 0);
    assert_eq!(enable(6), 704, "cudaErrorPeerAccessAlreadyEnabled");
    assert_eq!(enable(5), 101);
    assert_eq!(disable(6), 0);
}

#[test]
fn entry_points_have_a_status_and_no_pointer_for_a_stranger() {
    let ask = |name: &CStr, version: c_uint| {
        let (mut pointer, mut status) = (1usize, 9u32);
        let code = cuda!(cudaGetDriverEntryPointByVersion(
            name.as_ptr() => *const c_char, &mut pointer => *mut usize, version => c_uint, 0 => u64, &mut status => *mut u32
        ));
        (code, pointer != 0, status)
    };
    assert_eq!(ask(c"cuMemAlloc", 12000), (0, true, 0));
    assert_eq!(ask(c"cuNoSuchThing", 12000), (0, false, 1));
    assert_eq!(ask(c"cuMemCreate", 9000), (0, false, 2));
    assert_eq!(ask(c"cuMemCreate", 99000).0, 1, "newer than the driver");
}

#[test]
fn memory_is_mapped_where_the_program_wants_it() {
    select(6);
    const PAGE: usize = 2 << 20;
    #[repr(C)]
    struct Properties {
        kind: c_uint,
        handles: c_uint,
        location: [c_int; 2],
        rest: [u64; 2],
    }
    let wanted = Properties { kind: 1, handles: 0, location: [1, 6], rest: [0; 2] };
    let (mut base, mut handles) = (0usize, [0u64; 2]);
    assert_eq!(
        cuda!(cuMemAddressReserve(&mut base => *mut usize, 4 * PAGE => usize, 0 => usize, 0 => usize, 0 => u64)),
        0
    );
    for (index, handle) in handles.iter_mut().enumerate() {
        let create = cuda!(cuMemCreate(handle => *mut u64, PAGE => usize, &wanted => *const Properties, 0 => u64));
        assert_eq!(create, 0);
        let at = base + index * PAGE;
        assert_eq!(cuda!(cuMemMap(at => usize, PAGE => usize, 0 => usize, *handle => u64, 0 => u64)), 0);
        assert_eq!(cuda!(cuMemMap(at => usize, PAGE => usize, 0 => usize, *handle => u64, 0 => u64)), 1, "twice");
    }
    let access: [c_int; 3] = [1, 6, 3];
    let allow =
        |size: usize| cuda!(cuMemSetAccess(base => usize, size => usize, access.as_ptr() => *const c_int, 1 => usize));
    assert_eq!(allow(2 * PAGE), 0);
    assert_eq!(allow(3 * PAGE), 1, "not mapped");
    // A fill across the seam of two mappings.
    assert_eq!(cuda!(cudaMemset(base => usize, 5 => c_int, 2 * PAGE => usize)), 0);
    assert_eq!(cuda!(cudaMemset(base => usize, 5 => c_int, 2 * PAGE + 1 => usize)), 1);
    let mut byte = 0u8;
    let target = &raw mut byte as usize;
    assert_eq!(cuda!(cudaMemcpy(target => usize, base + 2 * PAGE - 1 => usize, 1 => usize, 2 => c_uint)), 0);
    assert_eq!(byte, 5);
    assert_eq!(cuda!(cuMemAddressFree(base => usize, 4 * PAGE => usize)), 1, "still mapped");
    assert_eq!(cuda!(cuMemUnmap(base => usize, 2 * PAGE => usize)), 0);
    for handle in handles {
        assert_eq!(cuda!(cuMemRelease(handle => u64)), 0);
        assert_eq!(cuda!(cuMemRelease(handle => u64)), 1);
    }
    assert_eq!(cuda!(cuMemAddressFree(base => usize, 4 * PAGE => usize)), 0);
}

#[test]
fn a_launch_is_checked_and_an_unknown_kernel_refused() {
    select(7);
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Dim3(c_uint, c_uint, c_uint);
    static HOST: u8 = 0;
    let host = &raw const HOST as usize;
    let name: *const c_char = c"_Z4demov".as_ptr();
    cuda!(__cudaRegisterFunction(
        0 => usize, host => usize, null() => *const c_char, name => *const c_char, -1 => c_int,
        0 => usize, 0 => usize, 0 => usize, 0 => usize, 0 => usize
    ));
    let launch = |function: usize, grid: c_uint, block: c_uint| {
        cuda!(cudaLaunchKernel(
            function => usize, Dim3(grid, 1, 1) => Dim3, Dim3(block, 1, 1) => Dim3, 0 => usize, 0 => usize, 0 => usize
        ))
    };
    assert_eq!(launch(host, 1, 1), 209, "cudaErrorNoKernelImageForDevice");
    assert_eq!(launch(host, 0, 1), 9, "cudaErrorInvalidConfiguration");
    assert_eq!(launch(host, 1, 1025), 9);
    assert_eq!(launch(host + 1, 1, 1), 98, "cudaErrorInvalidDeviceFunction");
}
