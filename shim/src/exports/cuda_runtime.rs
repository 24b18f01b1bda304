//! The table of libcudart: every symbol that the runtimes of CUDA 12.8 to 13.5 export.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use abi::argument::{Out, Text};

use crate::boundary::table::exports;
use crate::cuda_driver::device as driver_device;
use crate::cuda_runtime::array::{self, Part};
use crate::cuda_runtime::header::{
    ChannelFormat, Copy3D, Copy3DPeer, FunctionAttributes, LaunchConfig, PitchedPtr, PointerAttributes, Three,
};
use crate::cuda_runtime::texture::{self, ResourceDescription};
use crate::cuda_runtime::{copy, device, error, graph, launch, memory, occupancy, properties, stream};
use crate::device::calls::graph::{HostParams, InstantiateParams, KernelParams, MemsetParams, UpdateInfo};
use crate::device::calls::graph_memory::{self, AllocationParams};
use crate::device::calls::graph_node::{self, NodeParams};
use crate::device::calls::header::{AccessDescription, Dim3, MemLocation, PoolProperties};
use crate::device::calls::stream::{Callback, HostFunction};
use crate::device::calls::{self, ipc, pool, stream_attribute};
use crate::device::memory::ipc::Handle;
use crate::device::memory::texture::Sampling;
use crate::device::memory::view::View;
use crate::device::state::error_names;
use crate::device::work::stream::attribute::Value;
use crate::device::work::stream::per_thread_default as per_thread;
use crate::exports::entry_point;
use crate::nccl::replicas::capturing;

exports! {
    library CudaRuntime with crate::cuda_runtime::RULES;
    real {
        fn cudaGetDeviceCount(out: Out<c_int>) = device::count;
        fn cudaGetDevice(out: Out<c_int>) = device::get;
        fn cudaSetDevice(ordinal: c_int) = device::set;
        fn cudaInitDevice(ordinal: c_int, device_flags: c_uint, flags: c_uint) = device::init;
        fn cudaGetDeviceProperties(out: Out<u8>, ordinal: c_int) = properties::get;
        fn cudaGetDeviceProperties_v2(out: Out<u8>, ordinal: c_int) = properties::get_v2;
        fn cudaDeviceGetAttribute(out: Out<c_int>, number: c_int, ordinal: c_int) = calls::device::get_attribute;
        fn cudaDeviceSynchronize() = device::synchronize;
        fn cudaDeviceReset() = device::reset;
        fn cudaSetDeviceFlags(flags: c_uint) = device::set_flags;
        fn cudaGetDeviceFlags(out: Out<c_uint>) = device::get_flags;
        fn cudaDeviceSetCacheConfig(config: c_uint) = calls::device::set_cache_config;
        fn cudaDeviceGetCacheConfig(out: Out<c_uint>) = calls::device::get_cache_config;
        fn cudaDeviceGetLimit(out: Out<usize>, limit: c_uint) = calls::device::get_limit;
        fn cudaDeviceSetLimit(limit: c_uint, value: usize) = calls::device::set_limit;
        fn cudaDeviceGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) = calls::device::priority_range;
        fn cudaDeviceGetPCIBusId(out: *mut c_char, length: c_int, ordinal: c_int) = calls::device::pci_address;
        fn cudaDeviceGetByPCIBusId(out: Out<c_int>, address: Text) = calls::device::by_pci_address;
        fn cudaDeviceCanAccessPeer(out: Out<c_int>, ordinal: c_int, peer: c_int) = calls::device::can_access_peer;
        fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) = device::enable_peer;
        fn cudaDeviceDisablePeerAccess(peer: c_int) = device::disable_peer;
        fn cudaDeviceGetP2PAttribute(out: Out<c_int>, number: c_uint, from: c_int, to: c_int) = calls::device::peer_attribute;
        fn cudaDeviceGetDefaultMemPool(out: Out<usize>, ordinal: c_int) = pool::default_of;
        fn cudaDeviceGetMemPool(out: Out<usize>, ordinal: c_int) = pool::current_of;
        fn cudaDeviceSetMemPool(ordinal: c_int, pool: usize) = pool::set_current;
        fn cudaDeviceGetGraphMemAttribute(ordinal: c_int, attribute: c_uint, value: Out<u64>) = pool::graph_attribute;
        fn cudaDeviceSetGraphMemAttribute(ordinal: c_int, attribute: c_uint, value: Out<u64>) = pool::set_graph_attribute;
        fn cudaDeviceGraphMemTrim(ordinal: c_int) = pool::trim_graphs;
        fn cudaMalloc(out: Out<usize>, size: usize) = calls::memory::malloc;
        fn cudaFree(address: usize) = memory::free;
        fn cudaMallocManaged(out: Out<usize>, size: usize, flags: c_uint) = calls::memory::malloc_managed;
        fn cudaMallocPitch(out: Out<usize>, pitch: Out<usize>, width: usize, height: usize) = calls::memory::malloc_pitch;
        fn cudaMalloc3D(out: Out<PitchedPtr>, extent: Three) = memory::malloc_3d;
        fn cudaMallocHost(out: Out<usize>, size: usize) = calls::memory::malloc_host;
        fn cudaHostAlloc(out: Out<usize>, size: usize, flags: c_uint) = calls::memory::host_alloc;
        fn cudaFreeHost(address: usize) = calls::memory::free_host;
        fn cudaHostRegister(address: usize, size: usize, flags: c_uint) = calls::memory::host_register;
        fn cudaHostUnregister(address: usize) = calls::memory::host_unregister;
        fn cudaHostGetDevicePointer(out: Out<usize>, address: usize, flags: c_uint) = calls::memory::host_device_pointer;
        fn cudaHostGetFlags(out: Out<c_uint>, address: usize) = calls::memory::host_flags;
        fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>) = calls::memory::info;
        fn cudaPointerGetAttributes(out: Out<PointerAttributes>, address: usize) = memory::attributes;
        fn cudaIpcGetMemHandle(out: Out<Handle>, address: usize) = ipc::memory_handle;
        fn cudaIpcOpenMemHandle(out: Out<usize>, handle: Handle, flags: c_uint) = ipc::open_memory;
        fn cudaIpcCloseMemHandle(address: usize) = ipc::close_memory;
        fn cudaIpcGetEventHandle(out: Out<Handle>, event: usize) = ipc::event_handle;
        fn cudaIpcOpenEventHandle(out: Out<usize>, handle: Handle) = ipc::open_event;
        fn cudaMemAdvise(address: usize, size: usize) = memory::hint;
        fn cudaMemAdvise_v2(address: usize, size: usize) = memory::hint;
        fn cudaMemPrefetchAsync(address: usize, size: usize) = memory::hint;
        fn cudaMemPrefetchAsync_v2(address: usize, size: usize) = memory::hint;
        fn cudaMallocAsync(out: Out<usize>, size: usize, stream: usize) = pool::malloc_async;
        fn cudaMallocFromPoolAsync(out: Out<usize>, size: usize, pool: usize, stream: usize) = pool::malloc_from_pool;
        fn cudaFreeAsync(address: usize, stream: usize) = pool::free_async;
        fn cudaMemPoolCreate(out: Out<usize>, properties: Out<PoolProperties>) = pool::create;
        fn cudaMemPoolDestroy(pool: usize) = pool::destroy;
        fn cudaMemPoolTrimTo(pool: usize, keep: usize) = pool::trim;
        fn cudaMemPoolSetAttribute(pool: usize, attribute: c_uint, value: Out<u8>) = pool::set_attribute;
        fn cudaMemPoolGetAttribute(pool: usize, attribute: c_uint, value: Out<u8>) = pool::get_attribute;
        fn cudaMemPoolSetAccess(pool: usize, list: Out<AccessDescription>, count: usize) = pool::set_access;
        fn cudaMemPoolGetAccess(out: Out<c_uint>, pool: usize, location: Out<MemLocation>) = pool::get_access;
        fn cudaMemcpy(to: usize, from: usize, bytes: usize, kind: c_uint) = calls::copy::linear;
        fn cudaMemcpyAsync(to: usize, from: usize, bytes: usize, kind: c_uint, stream: usize) = calls::copy::linear_async;
        fn cudaMemcpyPeer(to: usize, to_device: c_int, from: usize, from_device: c_int, bytes: usize) = copy::peer;
        fn cudaMemcpyPeerAsync(to: usize, to_device: c_int, from: usize, from_device: c_int, bytes: usize, stream: usize) = copy::peer_async;
        fn cudaMemcpy2D(to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, kind: c_uint) = calls::copy::rows;
        fn cudaMemcpy2DAsync(to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, kind: c_uint, stream: usize) = calls::copy::rows_async;
        fn cudaMemcpy3D(parameters: Out<Copy3D>) = copy::box_3d;
        fn cudaMemcpy3DAsync(parameters: Out<Copy3D>, stream: usize) = copy::box_3d_async;
        fn cudaMemcpy3DPeer(parameters: Out<Copy3DPeer>) = copy::box_3d_peer;
        fn cudaMemcpy3DPeerAsync(parameters: Out<Copy3DPeer>, stream: usize) = copy::box_3d_peer_async;
        fn cudaMemcpyToSymbol(symbol: usize, from: usize, bytes: usize, offset: usize, kind: c_uint) = copy::to_symbol;
        fn cudaMemcpyToSymbolAsync(symbol: usize, from: usize, bytes: usize, offset: usize, kind: c_uint, stream: usize) = copy::to_symbol_async;
        fn cudaMemcpyFromSymbol(to: usize, symbol: usize, bytes: usize, offset: usize, kind: c_uint) = copy::from_symbol;
        fn cudaMemcpyFromSymbolAsync(to: usize, symbol: usize, bytes: usize, offset: usize, kind: c_uint, stream: usize) = copy::from_symbol_async;
        fn cudaGetSymbolAddress(out: Out<usize>, symbol: usize) = copy::symbol_address;
        fn cudaGetSymbolSize(out: Out<usize>, symbol: usize) = copy::symbol_size;
        fn cudaMemset(to: usize, value: c_int, bytes: usize) = copy::set;
        fn cudaMemsetAsync(to: usize, value: c_int, bytes: usize, stream: usize) = copy::set_async;
        fn cudaMemset2D(to: usize, pitch: usize, value: c_int, width: usize, height: usize) = copy::set_rows;
        fn cudaMemset2DAsync(to: usize, pitch: usize, value: c_int, width: usize, height: usize, stream: usize) = copy::set_rows_async;
        fn cudaMemset3D(to: PitchedPtr, value: c_int, extent: Three) = copy::set_3d;
        fn cudaMemset3DAsync(to: PitchedPtr, value: c_int, extent: Three, stream: usize) = copy::set_3d_async;
        fn cudaMallocArray(out: Out<usize>, format: Out<ChannelFormat>, width: usize, height: usize, flags: c_uint) = array::malloc;
        fn cudaMalloc3DArray(out: Out<usize>, format: Out<ChannelFormat>, extent: Three, flags: c_uint) = array::malloc_3d;
        fn cudaFreeArray(array: usize) = array::free;
        fn cudaMallocMipmappedArray(out: Out<usize>, format: Out<ChannelFormat>, extent: Three, levels: c_uint, flags: c_uint) = array::malloc_mipmapped;
        fn cudaGetMipmappedArrayLevel(out: Out<usize>, mipmapped: usize, level: c_uint) = array::level;
        fn cudaFreeMipmappedArray(mipmapped: usize) = array::free_mipmapped;
        fn cudaArrayGetInfo(format: Out<ChannelFormat>, extent: Out<Three>, flags: Out<c_uint>, array: usize) = array::info;
        fn cudaArrayGetMemoryRequirements(out: usize, array: usize, ordinal: c_int) = array::requirements;
        fn cudaMipmappedArrayGetMemoryRequirements(out: usize, mipmapped: usize, ordinal: c_int) = array::requirements_mipmapped;
        fn cudaGetChannelDesc(format: Out<ChannelFormat>, array: usize) = array::channels;
        fn cudaMemcpy2DToArray(array: usize, x: usize, y: usize, from: usize, pitch: usize, width: usize, height: usize, kind: c_uint) = |array, x, y, from, pitch, width, height, kind| array::rows_to(Part { array, x, y }, from, pitch, width, height, kind, None);
        fn cudaMemcpy2DToArray_ptds(array: usize, x: usize, y: usize, from: usize, pitch: usize, width: usize, height: usize, kind: c_uint) = |array, x, y, from, pitch, width, height, kind| per_thread(|| array::rows_to(Part { array, x, y }, from, pitch, width, height, kind, None));
        fn cudaMemcpy2DFromArray(to: usize, pitch: usize, array: usize, x: usize, y: usize, width: usize, height: usize, kind: c_uint) = |to, pitch, array, x, y, width, height, kind| array::rows_from(to, pitch, Part { array, x, y }, width, height, kind, None);
        fn cudaMemcpy2DFromArray_ptds(to: usize, pitch: usize, array: usize, x: usize, y: usize, width: usize, height: usize, kind: c_uint) = |to, pitch, array, x, y, width, height, kind| per_thread(|| array::rows_from(to, pitch, Part { array, x, y }, width, height, kind, None));
        fn cudaMemcpyToArray(array: usize, x: usize, y: usize, from: usize, bytes: usize, kind: c_uint) = |array, x, y, from, bytes, kind| array::line_to(Part { array, x, y }, from, bytes, kind, None);
        fn cudaMemcpyToArray_ptds(array: usize, x: usize, y: usize, from: usize, bytes: usize, kind: c_uint) = |array, x, y, from, bytes, kind| per_thread(|| array::line_to(Part { array, x, y }, from, bytes, kind, None));
        fn cudaMemcpyFromArray(to: usize, array: usize, x: usize, y: usize, bytes: usize, kind: c_uint) = |to, array, x, y, bytes, kind| array::line_from(to, Part { array, x, y }, bytes, kind, None);
        fn cudaMemcpyFromArray_ptds(to: usize, array: usize, x: usize, y: usize, bytes: usize, kind: c_uint) = |to, array, x, y, bytes, kind| per_thread(|| array::line_from(to, Part { array, x, y }, bytes, kind, None));
        fn cudaMemcpy2DToArrayAsync(array: usize, x: usize, y: usize, from: usize, pitch: usize, width: usize, height: usize, kind: c_uint, stream: usize) = |array, x, y, from, pitch, width, height, kind, stream| array::rows_to(Part { array, x, y }, from, pitch, width, height, kind, Some(stream));
        fn cudaMemcpy2DToArrayAsync_ptsz(array: usize, x: usize, y: usize, from: usize, pitch: usize, width: usize, height: usize, kind: c_uint, stream: usize) = |array, x, y, from, pitch, width, height, kind, stream| per_thread(|| array::rows_to(Part { array, x, y }, from, pitch, width, height, kind, Some(stream)));
        fn cudaMemcpy2DFromArrayAsync(to: usize, pitch: usize, array: usize, x: usize, y: usize, width: usize, height: usize, kind: c_uint, stream: usize) = |to, pitch, array, x, y, width, height, kind, stream| array::rows_from(to, pitch, Part { array, x, y }, width, height, kind, Some(stream));
        fn cudaMemcpy2DFromArrayAsync_ptsz(to: usize, pitch: usize, array: usize, x: usize, y: usize, width: usize, height: usize, kind: c_uint, stream: usize) = |to, pitch, array, x, y, width, height, kind, stream| per_thread(|| array::rows_from(to, pitch, Part { array, x, y }, width, height, kind, Some(stream)));
        fn cudaMemcpyToArrayAsync(array: usize, x: usize, y: usize, from: usize, bytes: usize, kind: c_uint, stream: usize) = |array, x, y, from, bytes, kind, stream| array::line_to(Part { array, x, y }, from, bytes, kind, Some(stream));
        fn cudaMemcpyToArrayAsync_ptsz(array: usize, x: usize, y: usize, from: usize, bytes: usize, kind: c_uint, stream: usize) = |array, x, y, from, bytes, kind, stream| per_thread(|| array::line_to(Part { array, x, y }, from, bytes, kind, Some(stream)));
        fn cudaMemcpyFromArrayAsync(to: usize, array: usize, x: usize, y: usize, bytes: usize, kind: c_uint, stream: usize) = |to, array, x, y, bytes, kind, stream| array::line_from(to, Part { array, x, y }, bytes, kind, Some(stream));
        fn cudaMemcpyFromArrayAsync_ptsz(to: usize, array: usize, x: usize, y: usize, bytes: usize, kind: c_uint, stream: usize) = |to, array, x, y, bytes, kind, stream| per_thread(|| array::line_from(to, Part { array, x, y }, bytes, kind, Some(stream)));
        fn cudaMemcpy2DArrayToArray(to: usize, to_x: usize, to_y: usize, from: usize, from_x: usize, from_y: usize, width: usize, height: usize, kind: c_uint) = |to, to_x, to_y, from, from_x, from_y, width, height, kind| array::rows_between(Part { array: to, x: to_x, y: to_y }, Part { array: from, x: from_x, y: from_y }, width, height, kind);
        fn cudaMemcpy2DArrayToArray_ptds(to: usize, to_x: usize, to_y: usize, from: usize, from_x: usize, from_y: usize, width: usize, height: usize, kind: c_uint) = |to, to_x, to_y, from, from_x, from_y, width, height, kind| per_thread(|| array::rows_between(Part { array: to, x: to_x, y: to_y }, Part { array: from, x: from_x, y: from_y }, width, height, kind));
        fn cudaMemcpyArrayToArray(to: usize, to_x: usize, to_y: usize, from: usize, from_x: usize, from_y: usize, bytes: usize, kind: c_uint) = |to, to_x, to_y, from, from_x, from_y, bytes, kind| array::line_between(Part { array: to, x: to_x, y: to_y }, Part { array: from, x: from_x, y: from_y }, bytes, kind);
        fn cudaMemcpyArrayToArray_ptds(to: usize, to_x: usize, to_y: usize, from: usize, from_x: usize, from_y: usize, bytes: usize, kind: c_uint) = |to, to_x, to_y, from, from_x, from_y, bytes, kind| per_thread(|| array::line_between(Part { array: to, x: to_x, y: to_y }, Part { array: from, x: from_x, y: from_y }, bytes, kind));
        fn cudaCreateTextureObject(out: Out<c_ulonglong>, what: Out<ResourceDescription>, how: Out<Sampling>, view: Out<View>) = texture::create;
        fn cudaDestroyTextureObject(texture: c_ulonglong) = texture::destroy;
        fn cudaGetTextureObjectResourceDesc(out: Out<ResourceDescription>, texture: c_ulonglong) = texture::resource_of;
        fn cudaGetTextureObjectResourceViewDesc(out: Out<View>, texture: c_ulonglong) = texture::view_of;
        fn cudaGetTextureObjectTextureDesc(out: Out<Sampling>, texture: c_ulonglong) = texture::sampling_of;
        fn cudaCreateSurfaceObject(out: Out<c_ulonglong>, what: Out<ResourceDescription>) = texture::create_surface;
        fn cudaDestroySurfaceObject(surface: c_ulonglong) = texture::destroy_surface;
        fn cudaGetSurfaceObjectResourceDesc(out: Out<ResourceDescription>, surface: c_ulonglong) = texture::resource_of_surface;
        fn cudaStreamCreate(out: Out<usize>) = stream::create;
        fn cudaStreamCreateWithFlags(out: Out<usize>, flags: c_uint) = calls::stream::create_with_flags;
        fn cudaStreamCreateWithPriority(out: Out<usize>, flags: c_uint, priority: c_int) = calls::stream::create_with_priority;
        fn cudaStreamDestroy(handle: usize) = calls::stream::destroy;
        fn cudaStreamSynchronize(handle: usize) = calls::stream::synchronize;
        fn cudaStreamQuery(handle: usize) = calls::stream::query;
        fn cudaStreamWaitEvent(handle: usize, event: usize, flags: c_uint) = calls::stream::wait_event;
        fn cudaStreamAddCallback(handle: usize, function: Callback, data: *mut c_void, flags: c_uint) = calls::stream::callback;
        fn cudaLaunchHostFunc(handle: usize, function: HostFunction, data: *mut c_void) = calls::stream::host_function;
        fn cudaLaunchHostFunc_v2(handle: usize, function: HostFunction, data: *mut c_void, sync: c_uint) = stream::host_function_v2;
        fn cudaStreamGetPriority(handle: usize, out: Out<c_int>) = calls::stream::priority;
        fn cudaStreamGetFlags(handle: usize, out: Out<c_uint>) = calls::stream::flags;
        fn cudaStreamGetId(handle: usize, out: Out<c_ulonglong>) = calls::stream::id;
        fn cudaStreamGetDevice(handle: usize, out: Out<c_int>) = calls::stream::device;
        fn cudaStreamIsCapturing(handle: usize, out: Out<c_uint>) = calls::capture::is_capturing;
        fn cudaStreamGetCaptureInfo(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>) = calls::capture::info_by_version;
        fn cudaStreamGetCaptureInfo_v2(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>, graph: Out<usize>, nodes: Out<usize>, count: Out<usize>) = calls::capture::info_v2;
        fn cudaStreamGetCaptureInfo_v3(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>) = calls::capture::info_v3;
        fn cudaThreadExchangeStreamCaptureMode(mode: Out<c_uint>) = calls::capture::exchange_mode;
        fn cudaEventCreate(out: Out<usize>) = stream::event_create;
        fn cudaEventCreateWithFlags(out: Out<usize>, flags: c_uint) = calls::stream::event_create_with_flags;
        fn cudaEventDestroy(handle: usize) = calls::stream::event_destroy;
        fn cudaEventRecord(event: usize, stream: usize) = calls::stream::event_record;
        fn cudaEventRecordWithFlags(event: usize, stream: usize, flags: c_uint) = calls::stream::event_record_with_flags;
        fn cudaEventQuery(handle: usize) = calls::stream::event_query;
        fn cudaEventSynchronize(handle: usize) = calls::stream::event_synchronize;
        fn cudaEventElapsedTime(out: Out<f32>, start: usize, end: usize) = calls::stream::event_elapsed;
        fn cudaEventElapsedTime_v2(out: Out<f32>, start: usize, end: usize) = calls::stream::event_elapsed;
        fn cudaLaunchKernel(function: usize, grid: Dim3, block: Dim3, arguments: *const c_void, shared_bytes: usize, stream: usize) = launch::launch;
        fn cudaLaunchCooperativeKernel(function: usize, grid: Dim3, block: Dim3, arguments: *const c_void, shared_bytes: usize, stream: usize) = launch::launch_cooperative;
        fn cudaLaunchKernelExC(configuration: Out<LaunchConfig>, function: usize, arguments: *const c_void) = launch::launch_configured;
        fn __cudaLaunchKernel(function: usize, grid: Dim3, block: Dim3, arguments: *const c_void, shared_bytes: usize, stream: usize) = launch::launch;
        fn cudaFuncGetAttributes(out: Out<FunctionAttributes>, function: usize) = launch::attributes;
        fn cudaFuncSetAttribute(function: usize, number: c_uint, value: c_int) = launch::set_attribute;
        fn cudaFuncSetCacheConfig(function: usize, config: c_uint) = launch::set_cache_config;
        fn cudaFuncGetName(out: Out<*const c_char>, function: usize) = launch::name;
        fn cudaKernelSetAttributeForDevice(kernel: usize, number: c_uint, value: c_int, ordinal: c_int) = launch::set_attribute_for;
        fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(out: Out<c_int>, function: usize, threads: c_int, dynamic: usize) = occupancy::max_active;
        fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out: Out<c_int>, function: usize, threads: c_int, dynamic: usize, flags: c_uint) = occupancy::max_active_with_flags;
        fn cudaOccupancyAvailableDynamicSMemPerBlock(out: Out<usize>, function: usize, blocks: c_int, threads: c_int) = occupancy::available;
        fn cudaStreamGetAttribute(handle: usize, id: c_uint, out: Out<Value>) = stream_attribute::get;
        fn cudaStreamSetAttribute(handle: usize, id: c_uint, value: Out<Value>) = stream_attribute::set;
        fn cudaStreamCopyAttributes(to: usize, from: usize) = stream_attribute::copy;
        fn cudaStreamAttachMemAsync(handle: usize, address: usize, length: usize, flags: c_uint) = stream_attribute::attach;
        fn cudaStreamGetAttribute_ptsz(handle: usize, id: c_uint, out: Out<Value>) = |handle, id, out| per_thread(|| stream_attribute::get(handle, id, out));
        fn cudaStreamSetAttribute_ptsz(handle: usize, id: c_uint, value: Out<Value>) = |handle, id, value| per_thread(|| stream_attribute::set(handle, id, value));
        fn cudaStreamCopyAttributes_ptsz(to: usize, from: usize) = |to, from| per_thread(|| stream_attribute::copy(to, from));
        fn cudaStreamAttachMemAsync_ptsz(handle: usize, address: usize, length: usize, flags: c_uint) = |handle, address, length, flags| per_thread(|| stream_attribute::attach(handle, address, length, flags));
        fn cudaGetKernel(out: Out<usize>, function: usize) = launch::get_kernel;
        fn cudaGetFuncBySymbol(out: Out<usize>, function: usize) = launch::get_kernel;
        fn cudaLibraryLoadData(out: Out<usize>, image: *const c_void, jit: *const c_void, jit_values: *const c_void, jit_count: c_uint, options: *const c_void, values: *const c_void, count: c_uint) = launch::library_load;
        fn cudaLibraryLoadFromFile(out: Out<usize>, path: Text, jit: *const c_void, jit_values: *const c_void, jit_count: c_uint, options: *const c_void, values: *const c_void, count: c_uint) = launch::library_load_file;
        fn cudaLibraryGetGlobal(out: Out<usize>, bytes: Out<usize>, library: usize, name: Text) = launch::library_global;
        fn cudaLibraryGetManaged(out: Out<usize>, bytes: Out<usize>, library: usize, name: Text) = calls::module::managed;
        fn cudaLibraryUnload(library: usize) = calls::module::unload;
        fn cudaLibraryGetKernel(out: Out<usize>, library: usize, name: *const c_char) = calls::module::function;
        fn cudaProfilerStart() = calls::device::profiler;
        fn cudaProfilerStop() = calls::device::profiler;
        fn cudaStreamBeginCapture(stream: usize, mode: c_uint) = |stream, mode| capturing(|| calls::capture::begin(stream, mode));
        fn cudaStreamBeginCapture_ptsz(stream: usize, mode: c_uint) = |stream, mode| per_thread(|| capturing(|| calls::capture::begin(stream, mode)));
        fn cudaStreamBeginCaptureToGraph(stream: usize, graph: usize, nodes: Out<usize>, edges: usize, count: usize, mode: c_uint) = |stream, graph, nodes, edges, count, mode| capturing(|| calls::capture::begin_to_graph(stream, graph, nodes, edges, count, mode));
        fn cudaStreamBeginCaptureToGraph_ptsz(stream: usize, graph: usize, nodes: Out<usize>, edges: usize, count: usize, mode: c_uint) = |stream, graph, nodes, edges, count, mode| per_thread(|| capturing(|| calls::capture::begin_to_graph(stream, graph, nodes, edges, count, mode)));
        fn cudaStreamEndCapture(stream: usize, out: Out<usize>) = calls::capture::end;
        fn cudaStreamEndCapture_ptsz(stream: usize, out: Out<usize>) = |stream, out| per_thread(|| calls::capture::end(stream, out));
        fn cudaStreamUpdateCaptureDependencies(stream: usize, nodes: Out<usize>, third: usize, fourth: usize, fifth: c_uint) = calls::capture::update_by_version;
        fn cudaStreamUpdateCaptureDependencies_ptsz(stream: usize, nodes: Out<usize>, third: usize, fourth: usize, fifth: c_uint) = |stream, nodes, third, fourth, fifth| per_thread(|| calls::capture::update_by_version(stream, nodes, third, fourth, fifth));
        fn cudaStreamUpdateCaptureDependencies_v2(stream: usize, nodes: Out<usize>, edges: usize, count: usize, flags: c_uint) = calls::capture::update_v2;
        fn cudaStreamUpdateCaptureDependencies_v2_ptsz(stream: usize, nodes: Out<usize>, edges: usize, count: usize, flags: c_uint) = |stream, nodes, edges, count, flags| per_thread(|| calls::capture::update_v2(stream, nodes, edges, count, flags));
        fn cudaCtxResetPersistingL2Cache() = calls::device::reset_persisting;
        fn cudaGraphCreate(out: Out<usize>, flags: c_uint) = calls::graph::create;
        fn cudaUserObjectCreate(out: Out<usize>, data: usize, destroy: HostFunction, references: c_uint, flags: c_uint) = calls::graph::create_object;
        fn cudaUserObjectRetain(object: usize, count: c_uint) = calls::graph::retain_object;
        fn cudaUserObjectRelease(object: usize, count: c_uint) = calls::graph::release_object;
        fn cudaGraphRetainUserObject(graph: usize, object: usize, count: c_uint, flags: c_uint) = calls::graph::hold_object;
        fn cudaGraphReleaseUserObject(graph: usize, object: usize, count: c_uint) = calls::graph::give_object_back;
        fn cudaGraphDestroy(graph: usize) = calls::graph::destroy;
        fn cudaGraphClone(out: Out<usize>, graph: usize) = calls::graph::clone;
        fn cudaGraphAddEmptyNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize) = calls::graph::add_empty;
        fn cudaGraphAddHostNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<HostParams>) = calls::graph::add_host;
        fn cudaGraphHostNodeGetParams(node: usize, out: Out<HostParams>) = calls::graph::host_params;
        fn cudaGraphHostNodeSetParams(node: usize, params: Out<HostParams>) = calls::graph::set_host;
        fn cudaGraphExecHostNodeSetParams(exec: usize, node: usize, params: Out<HostParams>) = calls::graph::set_host_in;
        fn cudaGraphAddKernelNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<KernelParams>) = graph::add_kernel;
        fn cudaGraphKernelNodeGetParams(node: usize, out: Out<KernelParams>) = calls::graph::kernel_params;
        fn cudaGraphKernelNodeSetParams(node: usize, params: Out<KernelParams>) = graph::set_kernel;
        fn cudaGraphExecKernelNodeSetParams(exec: usize, node: usize, params: Out<KernelParams>) = graph::set_kernel_in;
        fn cudaGraphAddMemsetNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<MemsetParams>) = graph::add_memset;
        fn cudaGraphMemsetNodeGetParams(node: usize, out: Out<MemsetParams>) = calls::graph::memset_params;
        fn cudaGraphMemsetNodeSetParams(node: usize, params: Out<MemsetParams>) = calls::graph::set_memset;
        fn cudaGraphExecMemsetNodeSetParams(exec: usize, node: usize, params: Out<MemsetParams>) = graph::set_memset_in;
        fn cudaGraphAddMemcpyNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<Copy3D>) = graph::add_memcpy;
        fn cudaGraphMemcpyNodeGetParams(node: usize, out: Out<Copy3D>) = graph::memcpy_params;
        fn cudaGraphMemcpyNodeSetParams(node: usize, params: Out<Copy3D>) = graph::set_memcpy;
        fn cudaGraphExecMemcpyNodeSetParams(exec: usize, node: usize, params: Out<Copy3D>) = graph::set_memcpy_in;
        fn cudaGraphAddMemcpyNode1D(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, to: usize, from: usize, bytes: usize, kind: c_uint) = graph::add_line;
        fn cudaGraphMemcpyNodeSetParams1D(node: usize, to: usize, from: usize, bytes: usize, kind: c_uint) = graph::set_line;
        fn cudaGraphExecMemcpyNodeSetParams1D(exec: usize, node: usize, to: usize, from: usize, bytes: usize, kind: c_uint) = graph::set_line_in;
        fn cudaGraphAddMemcpyNodeToSymbol(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, symbol: usize, from: usize, bytes: usize, offset: usize, kind: c_uint) = graph::add_to_symbol;
        fn cudaGraphAddMemcpyNodeFromSymbol(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, to: usize, symbol: usize, bytes: usize, offset: usize, kind: c_uint) = graph::add_from_symbol;
        fn cudaGraphAddEventRecordNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, event: usize) = calls::graph::add_event_record;
        fn cudaGraphAddEventWaitNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, event: usize) = calls::graph::add_event_wait;
        fn cudaGraphEventRecordNodeGetEvent(node: usize, out: Out<usize>) = calls::graph::recorded_event;
        fn cudaGraphEventWaitNodeGetEvent(node: usize, out: Out<usize>) = calls::graph::awaited_event;
        fn cudaGraphEventRecordNodeSetEvent(node: usize, event: usize) = calls::graph::set_event_record;
        fn cudaGraphEventWaitNodeSetEvent(node: usize, event: usize) = calls::graph::set_event_wait;
        fn cudaGraphExecEventRecordNodeSetEvent(exec: usize, node: usize, event: usize) = calls::graph::set_event_record_in;
        fn cudaGraphExecEventWaitNodeSetEvent(exec: usize, node: usize, event: usize) = calls::graph::set_event_wait_in;
        fn cudaGraphAddChildGraphNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, child: usize) = calls::graph::add_child;
        fn cudaGraphChildGraphNodeGetGraph(node: usize, out: Out<usize>) = calls::graph::child_graph;
        fn cudaGraphExecChildGraphNodeSetParams(exec: usize, node: usize, child: usize) = calls::graph::set_child_in;
        fn cudaGraphAddNode(out: Out<usize>, graph: usize, after: Out<usize>, fourth: usize, fifth: usize, sixth: usize) = graph::add_node_by_version;
        fn cudaGraphAddNode_v2(out: Out<usize>, graph: usize, after: Out<usize>, edges: usize, count: usize, params: Out<NodeParams>) = graph::add_node;
        fn cudaGraphAddMemAllocNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<AllocationParams>) = graph_memory::add_allocation;
        fn cudaGraphMemAllocNodeGetParams(node: usize, out: Out<AllocationParams>) = graph_memory::allocation_params;
        fn cudaGraphAddMemFreeNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, address: usize) = graph_memory::add_free;
        fn cudaGraphMemFreeNodeGetParams(node: usize, out: Out<usize>) = graph_memory::freed_address;
        fn cudaGraphConditionalHandleCreate(out: Out<u64>, graph: usize, value: c_uint, flags: c_uint) = graph_node::create_condition;
        fn cudaGraphConditionalHandleCreate_v2(out: Out<u64>, graph: usize, context: usize, value: c_uint, flags: c_uint) = graph_node::create_condition_v2;
        fn cudaGraphGetNodes(graph: usize, out: Out<usize>, count: Out<usize>) = calls::graph::nodes;
        fn cudaGraphGetRootNodes(graph: usize, out: Out<usize>, count: Out<usize>) = calls::graph::root_nodes;
        fn cudaGraphGetEdges(graph: usize, from: Out<usize>, to: Out<usize>, fourth: usize, fifth: usize) = graph::edges;
        fn cudaGraphGetEdges_v2(graph: usize, from: Out<usize>, to: Out<usize>, data: Out<u64>, count: Out<usize>) = calls::graph::edges_v2;
        fn cudaGraphNodeGetDependencies(node: usize, out: Out<usize>, third: usize, fourth: usize) = graph::dependencies;
        fn cudaGraphNodeGetDependencies_v2(node: usize, out: Out<usize>, data: Out<u64>, count: Out<usize>) = calls::graph::dependencies_v2;
        fn cudaGraphNodeGetDependentNodes(node: usize, out: Out<usize>, third: usize, fourth: usize) = graph::dependents;
        fn cudaGraphNodeGetDependentNodes_v2(node: usize, out: Out<usize>, data: Out<u64>, count: Out<usize>) = calls::graph::dependents_v2;
        fn cudaGraphAddDependencies(graph: usize, from: Out<usize>, to: Out<usize>, fourth: usize, fifth: usize) = graph::add_dependencies;
        fn cudaGraphAddDependencies_v2(graph: usize, from: Out<usize>, to: Out<usize>, data: usize, count: usize) = calls::graph::add_dependencies_v2;
        fn cudaGraphRemoveDependencies(graph: usize, from: Out<usize>, to: Out<usize>, fourth: usize, fifth: usize) = graph::remove_dependencies;
        fn cudaGraphRemoveDependencies_v2(graph: usize, from: Out<usize>, to: Out<usize>, data: usize, count: usize) = calls::graph::remove_dependencies_v2;
        fn cudaGraphNodeGetType(node: usize, out: Out<c_uint>) = calls::graph::node_type;
        fn cudaGraphDestroyNode(node: usize) = calls::graph::destroy_node;
        fn cudaGraphNodeFindInClone(out: Out<usize>, node: usize, graph: usize) = calls::graph::find_in_clone;
        fn cudaGraphInstantiate(out: Out<usize>, graph: usize, flags: c_ulonglong) = calls::graph::instantiate;
        fn cudaGraphInstantiateWithFlags(out: Out<usize>, graph: usize, flags: c_ulonglong) = calls::graph::instantiate;
        fn cudaGraphInstantiateWithParams(out: Out<usize>, graph: usize, params: Out<InstantiateParams>) = calls::graph::instantiate_with;
        fn cudaGraphInstantiateWithParams_ptsz(out: Out<usize>, graph: usize, params: Out<InstantiateParams>) = |out, graph, params| per_thread(|| calls::graph::instantiate_with(out, graph, params));
        fn cudaGraphExecGetFlags(exec: usize, out: Out<c_ulonglong>) = calls::graph::exec_flags;
        fn cudaGraphExecUpdate(exec: usize, graph: usize, info: Out<UpdateInfo>) = calls::graph::update;
        fn cudaGraphExecDestroy(exec: usize) = calls::graph::destroy_exec;
        fn cudaGraphLaunch(exec: usize, stream: usize) = calls::graph::launch;
        fn cudaGraphLaunch_ptsz(exec: usize, stream: usize) = |exec, stream| per_thread(|| calls::graph::launch(exec, stream));
        fn cudaGraphUpload(exec: usize, stream: usize) = calls::graph::upload;
        fn cudaGraphUpload_ptsz(exec: usize, stream: usize) = |exec, stream| per_thread(|| calls::graph::upload(exec, stream));
        fn cudaGraphNodeSetEnabled(exec: usize, node: usize, enabled: c_uint) = calls::graph::set_enabled;
        fn cudaGraphNodeGetEnabled(exec: usize, node: usize, out: Out<c_uint>) = calls::graph::get_enabled;
        fn cudaGraphDebugDotPrint(graph: usize, path: Text, flags: c_uint) = calls::graph::print;
        fn cudaMemPrefetchAsync_ptsz(address: usize, size: usize) = |address, size| per_thread(|| memory::hint(address, size));
        fn cudaMemPrefetchAsync_v2_ptsz(address: usize, size: usize) = |address, size| per_thread(|| memory::hint(address, size));
        fn cudaMallocAsync_ptsz(out: Out<usize>, size: usize, stream: usize) = |out, size, stream| per_thread(|| pool::malloc_async(out, size, stream));
        fn cudaMallocFromPoolAsync_ptsz(out: Out<usize>, size: usize, pool: usize, stream: usize) = |out, size, pool, stream| per_thread(|| pool::malloc_from_pool(out, size, pool, stream));
        fn cudaFreeAsync_ptsz(address: usize, stream: usize) = |address, stream| per_thread(|| pool::free_async(address, stream));
        fn cudaMemcpy_ptds(to: usize, from: usize, bytes: usize, kind: c_uint) = |to, from, bytes, kind| per_thread(|| calls::copy::linear(to, from, bytes, kind));
        fn cudaMemcpyAsync_ptsz(to: usize, from: usize, bytes: usize, kind: c_uint, stream: usize) = |to, from, bytes, kind, stream| per_thread(|| calls::copy::linear_async(to, from, bytes, kind, stream));
        fn cudaMemcpy2D_ptds(to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, kind: c_uint) = |to, to_pitch, from, from_pitch, width, height, kind| per_thread(|| calls::copy::rows(to, to_pitch, from, from_pitch, width, height, kind));
        fn cudaMemcpy2DAsync_ptsz(to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, kind: c_uint, stream: usize) = |to, to_pitch, from, from_pitch, width, height, kind, stream| per_thread(|| calls::copy::rows_async(to, to_pitch, from, from_pitch, width, height, kind, stream));
        fn cudaMemcpy3D_ptds(parameters: Out<Copy3D>) = |parameters| per_thread(|| copy::box_3d(parameters));
        fn cudaMemcpy3DAsync_ptsz(parameters: Out<Copy3D>, stream: usize) = |parameters, stream| per_thread(|| copy::box_3d_async(parameters, stream));
        fn cudaMemcpy3DPeer_ptds(parameters: Out<Copy3DPeer>) = |parameters| per_thread(|| copy::box_3d_peer(parameters));
        fn cudaMemcpy3DPeerAsync_ptsz(parameters: Out<Copy3DPeer>, stream: usize) = |parameters, stream| per_thread(|| copy::box_3d_peer_async(parameters, stream));
        fn cudaMemcpyToSymbol_ptds(symbol: usize, from: usize, bytes: usize, offset: usize, kind: c_uint) = |symbol, from, bytes, offset, kind| per_thread(|| copy::to_symbol(symbol, from, bytes, offset, kind));
        fn cudaMemcpyToSymbolAsync_ptsz(symbol: usize, from: usize, bytes: usize, offset: usize, kind: c_uint, stream: usize) = |symbol, from, bytes, offset, kind, stream| per_thread(|| copy::to_symbol_async(symbol, from, bytes, offset, kind, stream));
        fn cudaMemcpyFromSymbol_ptds(to: usize, symbol: usize, bytes: usize, offset: usize, kind: c_uint) = |to, symbol, bytes, offset, kind| per_thread(|| copy::from_symbol(to, symbol, bytes, offset, kind));
        fn cudaMemcpyFromSymbolAsync_ptsz(to: usize, symbol: usize, bytes: usize, offset: usize, kind: c_uint, stream: usize) = |to, symbol, bytes, offset, kind, stream| per_thread(|| copy::from_symbol_async(to, symbol, bytes, offset, kind, stream));
        fn cudaMemset_ptds(to: usize, value: c_int, bytes: usize) = |to, value, bytes| per_thread(|| copy::set(to, value, bytes));
        fn cudaMemsetAsync_ptsz(to: usize, value: c_int, bytes: usize, stream: usize) = |to, value, bytes, stream| per_thread(|| copy::set_async(to, value, bytes, stream));
        fn cudaMemset2D_ptds(to: usize, pitch: usize, value: c_int, width: usize, height: usize) = |to, pitch, value, width, height| per_thread(|| copy::set_rows(to, pitch, value, width, height));
        fn cudaMemset2DAsync_ptsz(to: usize, pitch: usize, value: c_int, width: usize, height: usize, stream: usize) = |to, pitch, value, width, height, stream| per_thread(|| copy::set_rows_async(to, pitch, value, width, height, stream));
        fn cudaMemset3D_ptds(to: PitchedPtr, value: c_int, extent: Three) = |to, value, extent| per_thread(|| copy::set_3d(to, value, extent));
        fn cudaMemset3DAsync_ptsz(to: PitchedPtr, value: c_int, extent: Three, stream: usize) = |to, value, extent, stream| per_thread(|| copy::set_3d_async(to, value, extent, stream));
        fn cudaStreamSynchronize_ptsz(handle: usize) = |handle| per_thread(|| calls::stream::synchronize(handle));
        fn cudaStreamQuery_ptsz(handle: usize) = |handle| per_thread(|| calls::stream::query(handle));
        fn cudaStreamWaitEvent_ptsz(handle: usize, event: usize, flags: c_uint) = |handle, event, flags| per_thread(|| calls::stream::wait_event(handle, event, flags));
        fn cudaStreamAddCallback_ptsz(handle: usize, function: Callback, data: *mut c_void, flags: c_uint) = |handle, function, data, flags| per_thread(|| calls::stream::callback(handle, function, data, flags));
        fn cudaLaunchHostFunc_ptsz(handle: usize, function: HostFunction, data: *mut c_void) = |handle, function, data| per_thread(|| calls::stream::host_function(handle, function, data));
        fn cudaLaunchHostFunc_v2_ptsz(handle: usize, function: HostFunction, data: *mut c_void, sync: c_uint) = |handle, function, data, sync| per_thread(|| stream::host_function_v2(handle, function, data, sync));
        fn cudaStreamGetPriority_ptsz(handle: usize, out: Out<c_int>) = |handle, out| per_thread(|| calls::stream::priority(handle, out));
        fn cudaStreamGetFlags_ptsz(handle: usize, out: Out<c_uint>) = |handle, out| per_thread(|| calls::stream::flags(handle, out));
        fn cudaStreamGetId_ptsz(handle: usize, out: Out<c_ulonglong>) = |handle, out| per_thread(|| calls::stream::id(handle, out));
        fn cudaStreamGetDevice_ptsz(handle: usize, out: Out<c_int>) = |handle, out| per_thread(|| calls::stream::device(handle, out));
        fn cudaStreamIsCapturing_ptsz(handle: usize, out: Out<c_uint>) = |handle, out| per_thread(|| calls::capture::is_capturing(handle, out));
        fn cudaStreamGetCaptureInfo_ptsz(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>) = |handle, status, id, graph, nodes, edges, count| per_thread(|| calls::capture::info_by_version(handle, status, id, graph, nodes, edges, count));
        fn cudaStreamGetCaptureInfo_v2_ptsz(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>, graph: Out<usize>, nodes: Out<usize>, count: Out<usize>) = |handle, status, id, graph, nodes, count| per_thread(|| calls::capture::info_v2(handle, status, id, graph, nodes, count));
        fn cudaStreamGetCaptureInfo_v3_ptsz(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>) = |handle, status, id, graph, nodes, edges, count| per_thread(|| calls::capture::info_v3(handle, status, id, graph, nodes, edges, count));
        fn cudaEventRecord_ptsz(event: usize, stream: usize) = |event, stream| per_thread(|| calls::stream::event_record(event, stream));
        fn cudaEventRecordWithFlags_ptsz(event: usize, stream: usize, flags: c_uint) = |event, stream, flags| per_thread(|| calls::stream::event_record_with_flags(event, stream, flags));
        fn cudaLaunchKernel_ptsz(function: usize, grid: Dim3, block: Dim3, arguments: *const c_void, shared_bytes: usize, stream: usize) = |function, grid, block, arguments, shared_bytes, stream| per_thread(|| launch::launch(function, grid, block, arguments, shared_bytes, stream));
        fn cudaLaunchCooperativeKernel_ptsz(function: usize, grid: Dim3, block: Dim3, arguments: *const c_void, shared_bytes: usize, stream: usize) = |function, grid, block, arguments, shared_bytes, stream| per_thread(|| launch::launch_cooperative(function, grid, block, arguments, shared_bytes, stream));
        fn cudaLaunchKernelExC_ptsz(configuration: Out<LaunchConfig>, function: usize, arguments: *const c_void) = |configuration, function, arguments| per_thread(|| launch::launch_configured(configuration, function, arguments));
        fn __cudaLaunchKernel_ptsz(function: usize, grid: Dim3, block: Dim3, arguments: *const c_void, shared_bytes: usize, stream: usize) = |function, grid, block, arguments, shared_bytes, stream| per_thread(|| launch::launch(function, grid, block, arguments, shared_bytes, stream));
    }
    bare {
        fn cudaLogsRegisterCallback(function: usize, data: usize, out: Out<usize>) = driver_device::register_log;
        fn cudaLogsUnregisterCallback(handle: usize) = driver_device::unregister_log;
        fn cudaRuntimeGetVersion(out: Out<c_int>) = device::runtime_version;
        fn cudaDriverGetVersion(out: Out<c_int>) = device::driver_version;
        fn cudaGetDriverEntryPoint(symbol: Text, out: Out<usize>, flags: c_ulonglong, status: Out<c_uint>) = entry_point::entry_point;
        fn cudaGetDriverEntryPointByVersion(symbol: Text, out: Out<usize>, wanted: c_uint, flags: c_ulonglong, status: Out<c_uint>) = entry_point::entry_point_by_version;
        fn __cudaPopCallConfiguration(grid: Out<Dim3>, block: Out<Dim3>, shared_bytes: Out<usize>, stream: Out<usize>) = launch::pop_configuration;
        fn __cudaGetKernel(out: Out<usize>, function: usize) = launch::get_kernel;
    }
    raw {
        fn cudaCreateChannelDesc(x: c_int, y: c_int, z: c_int, w: c_int, format: c_uint) -> ChannelFormat = |x, y, z, w, format| ChannelFormat { bits: [x, y, z, w], format };
        fn cudaGetLastError() -> u32 = error::get_last;
        fn cudaPeekAtLastError() -> u32 = error::peek;
        fn cudaGetErrorName(code: u32) -> *const c_char = error_names::name;
        fn cudaGetErrorString(code: u32) -> *const c_char = error_names::string;
        fn __cudaRegisterFatBinary(image: *const c_void) -> *mut *mut c_void = launch::register_fat_binary;
        fn __cudaRegisterFatBinaryEnd(handle: *mut *mut c_void) = launch::registered;
        fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) = launch::unregister_fat_binary;
        fn __cudaRegisterFunction(handle: *mut *mut c_void, host: usize, device: *const c_char, name: *const c_char, thread_limit: c_int, thread: *const c_void, block: *const c_void, block_size: *const c_void, grid_size: *const c_void, warp_size: *const c_int) = launch::register_function;
        fn __cudaRegisterVar(handle: *mut *mut c_void, host: usize, address: *const c_char, name: *const c_char, external: c_int, size: usize, constant: c_int, global: c_int) = launch::register_variable;
        fn __cudaRegisterManagedVar(handle: *mut *mut c_void, place: Out<usize>, address: *const c_char, name: *const c_char, external: c_int, size: usize, constant: c_int, global: c_int) = launch::register_managed;
        fn __cudaInitModule(handle: *mut *mut c_void) -> u8 = launch::init_module;
        fn __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared_bytes: usize, stream: usize) -> c_uint = launch::push_configuration;
    }
    refused {
        cudaDeviceGetNvSciSyncAttributes cudaEGLStreamConsumerAcquireFrame cudaEGLStreamConsumerConnect
        cudaEGLStreamConsumerConnectWithFlags cudaEGLStreamConsumerDisconnect cudaEGLStreamConsumerReleaseFrame
        cudaEGLStreamProducerConnect cudaEGLStreamProducerDisconnect cudaEGLStreamProducerPresentFrame
        cudaEGLStreamProducerReturnFrame cudaEventCreateFromEGLSync cudaGLGetDevices cudaGLMapBufferObject
        cudaGLMapBufferObjectAsync cudaGLRegisterBufferObject cudaGLSetBufferObjectMapFlags cudaGLSetGLDevice
        cudaGLUnmapBufferObject cudaGLUnmapBufferObjectAsync cudaGLUnregisterBufferObject
        cudaGraphicsEGLRegisterImage cudaGraphicsGLRegisterBuffer cudaGraphicsGLRegisterImage
        cudaGraphicsMapResources cudaGraphicsResourceGetMappedEglFrame
        cudaGraphicsResourceGetMappedMipmappedArray cudaGraphicsResourceGetMappedPointer
        cudaGraphicsResourceSetMapFlags cudaGraphicsSubResourceGetMappedArray cudaGraphicsUnmapResources
        cudaGraphicsUnregisterResource cudaGraphicsVDPAURegisterOutputSurface
        cudaGraphicsVDPAURegisterVideoSurface cudaVDPAUGetDevice cudaVDPAUSetVDPAUDevice
    }
    stub {
        __cudaGetProcAddress __cudaRegisterHostVar __cudaRegisterUnifiedTable
        cudaArrayGetPlane cudaArrayGetSparseProperties cudaChooseDevice
         cudaDestroyExternalMemory
        cudaDestroyExternalSemaphore
        cudaDevResourceGenerateDesc cudaDevSmResourceSplit cudaDevSmResourceSplitByCount
        cudaDeviceFlushGPUDirectRDMAWrites cudaDeviceGetDevResource cudaDeviceGetExecutionCtx
        cudaDeviceGetHostAtomicCapabilities cudaDeviceGetP2PAtomicCapabilities cudaDeviceGetSharedMemConfig
        cudaDeviceGetTexture1DLinearMaxWidth cudaDeviceRegisterAsyncNotification cudaDeviceSetSharedMemConfig
        cudaDeviceUnregisterAsyncNotification cudaExecutionCtxDestroy cudaExecutionCtxGetDevResource
        cudaExecutionCtxGetDevice cudaExecutionCtxGetId cudaExecutionCtxRecordEvent cudaExecutionCtxStreamCreate
        cudaExecutionCtxSynchronize cudaExecutionCtxWaitEvent cudaExternalMemoryGetMappedBuffer
        cudaExternalMemoryGetMappedMipmappedArray cudaFuncGetParamCount
        cudaFuncGetParamInfo cudaFuncSetSharedMemConfig cudaGetDriverEntryPointByVersion_ptsz
        cudaGetDriverEntryPoint_ptsz cudaGetExportTable

                        cudaGraphAddExternalSemaphoresSignalNode cudaGraphAddExternalSemaphoresWaitNode                                                                    cudaGraphExecExternalSemaphoresSignalNodeSetParams
        cudaGraphExecExternalSemaphoresWaitNodeSetParams cudaGraphExecGetId
                cudaGraphExecMemcpyNodeSetParamsFromSymbol
        cudaGraphExecMemcpyNodeSetParamsToSymbol cudaGraphExecNodeSetParams
        cudaGraphExternalSemaphoresSignalNodeGetParams
        cudaGraphExternalSemaphoresSignalNodeSetParams cudaGraphExternalSemaphoresWaitNodeGetParams
        cudaGraphExternalSemaphoresWaitNodeSetParams cudaGraphGetId
                        cudaGraphKernelNodeCopyAttributes cudaGraphKernelNodeGetAttribute
        cudaGraphKernelNodeSetAttribute
                cudaGraphMemcpyNodeSetParamsFromSymbol cudaGraphMemcpyNodeSetParamsToSymbol         cudaGraphNodeGetContainingGraph
                cudaGraphNodeGetLocalId cudaGraphNodeGetParams
        cudaGraphNodeGetToolsId cudaGraphNodeSetParams
                cudaGreenCtxCreate
        cudaImportExternalMemory cudaImportExternalSemaphore cudaLaunchCooperativeKernelMultiDevice
        cudaLibraryEnumerateKernels cudaLibraryGetKernelCount
        cudaLibraryGetUnifiedFunction cudaLogsCurrent cudaLogsDumpToFile
        cudaLogsDumpToMemory
        cudaMemDiscardAndPrefetchBatchAsync cudaMemDiscardAndPrefetchBatchAsync_ptsz cudaMemDiscardBatchAsync
        cudaMemDiscardBatchAsync_ptsz cudaMemGetDefaultMemPool cudaMemGetLocationInfo cudaMemGetMemPool
        cudaMemPoolExportPointer cudaMemPoolExportToShareableHandle cudaMemPoolImportFromShareableHandle
        cudaMemPoolImportPointer cudaMemPrefetchBatchAsync cudaMemPrefetchBatchAsync_ptsz
        cudaMemRangeGetAttribute cudaMemRangeGetAttributes cudaMemSetMemPool
        cudaMemcpy3DBatchAsync
        cudaMemcpy3DBatchAsync_ptsz cudaMemcpy3DWithAttributesAsync cudaMemcpy3DWithAttributesAsync_ptsz
        cudaMemcpyBatchAsync cudaMemcpyBatchAsync_ptsz
        cudaMemcpyWithAttributesAsync cudaMemcpyWithAttributesAsync_ptsz
        cudaMipmappedArrayGetSparseProperties
        cudaOccupancyMaxActiveClusters cudaOccupancyMaxPotentialClusterSize cudaSetDoubleForDevice
        cudaSetDoubleForHost cudaSetValidDevices cudaSignalExternalSemaphoresAsync
        cudaSignalExternalSemaphoresAsync_ptsz cudaSignalExternalSemaphoresAsync_v2
        cudaSignalExternalSemaphoresAsync_v2_ptsz
                cudaStreamBeginRecaptureToGraph cudaStreamBeginRecaptureToGraph_ptsz
                cudaStreamGetDevResource
        cudaStreamGetDevResource_ptsz
                cudaSubgridCreate
        cudaSubgridWorkerGridCreate cudaSubgridWorksetCreate cudaThreadExit cudaThreadGetCacheConfig
        cudaThreadGetLimit cudaThreadSetCacheConfig cudaThreadSetLimit cudaThreadSynchronize
        cudaWaitExternalSemaphoresAsync
        cudaWaitExternalSemaphoresAsync_ptsz cudaWaitExternalSemaphoresAsync_v2
        cudaWaitExternalSemaphoresAsync_v2_ptsz
    }
}
