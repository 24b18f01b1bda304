//! The table of libcuda: every function that the headers of CUDA 12.8 to 13.5 name, in each of its versions.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

use abi::argument::{Out, Text};

use crate::boundary::table::exports;
use crate::cuda_driver::array::{self, Side};
use crate::cuda_driver::graph::{self, KernelParamsV2};
use crate::cuda_driver::memory::{AllocationProperties, Copy2D, Copy3D};
use crate::cuda_driver::module::LaunchConfig;
use crate::cuda_driver::{context, device, ipc, memory, module, multicast, stream, tensor_map, texture};
use crate::device::calls::graph::{
    self as shared, HostParams, InstantiateParams, KernelParams, MemsetParams, UpdateInfo,
};
use crate::device::calls::graph_memory::{self, AllocationParams};
use crate::device::calls::graph_node::NodeParams;
use crate::device::calls::header::{AccessDescription, MemLocation, PoolProperties};
use crate::device::calls::occupancy::SharedBytesOf;
use crate::device::calls::stream::{Callback, HostFunction};
use crate::device::calls::{self, capture, pool};
use crate::device::memory::ipc::Handle;
use crate::device::memory::view::View;
use crate::device::state::error_names;
use crate::device::work::stream::attribute::Value;
use crate::device::work::stream::per_thread_default as per_thread;
use crate::exports::entry_point;
use crate::nccl::replicas::capturing;

exports! {
    library CudaDriver with crate::cuda_driver::RULES;
    real {
        fn cuInit(flags: c_uint) = device::init;
        fn cuDeviceGet(out: Out<c_int>, ordinal: c_int) = device::get;
        fn cuDeviceGetCount(out: Out<c_int>) = device::count;
        fn cuDeviceGetName(out: *mut c_char, length: c_int, ordinal: c_int) = device::name;
        fn cuDeviceGetUuid(out: Out<[u8; 16]>, ordinal: c_int) = device::uuid;
        fn cuDeviceGetUuid_v2(out: Out<[u8; 16]>, ordinal: c_int) = device::uuid;
        fn cuDeviceTotalMem_v2(out: Out<usize>, ordinal: c_int) = device::total_memory;
        fn cuDeviceGetAttribute(out: Out<c_int>, number: c_int, ordinal: c_int) = calls::device::get_attribute;
        fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, ordinal: c_int) = device::capability;
        fn cuDeviceGetPCIBusId(out: *mut c_char, length: c_int, ordinal: c_int) = calls::device::pci_address;
        fn cuDeviceGetByPCIBusId(out: Out<c_int>, address: Text) = calls::device::by_pci_address;
        fn cuDeviceCanAccessPeer(out: Out<c_int>, ordinal: c_int, peer: c_int) = calls::device::can_access_peer;
        fn cuDeviceGetP2PAttribute(out: Out<c_int>, number: c_uint, from: c_int, to: c_int) = calls::device::peer_attribute;
        fn cuDeviceGetDefaultMemPool(out: Out<usize>, ordinal: c_int) = pool::default_of;
        fn cuDeviceGetMemPool(out: Out<usize>, ordinal: c_int) = pool::current_of;
        fn cuDeviceSetMemPool(ordinal: c_int, pool: usize) = pool::set_current;
        fn cuDevicePrimaryCtxRetain(out: Out<usize>, ordinal: c_int) = context::retain_primary;
        fn cuDevicePrimaryCtxRelease(ordinal: c_int) = context::release_primary;
        fn cuDevicePrimaryCtxRelease_v2(ordinal: c_int) = context::release_primary;
        fn cuDevicePrimaryCtxReset(ordinal: c_int) = context::reset_primary;
        fn cuDevicePrimaryCtxReset_v2(ordinal: c_int) = context::reset_primary;
        fn cuDevicePrimaryCtxGetState(ordinal: c_int, flags: Out<c_uint>, active: Out<c_int>) = device::primary_state;
        fn cuDevicePrimaryCtxSetFlags(ordinal: c_int, flags: c_uint) = device::primary_flags;
        fn cuDevicePrimaryCtxSetFlags_v2(ordinal: c_int, flags: c_uint) = device::primary_flags;
        fn cuCtxCreate_v2(out: Out<usize>, flags: c_uint, ordinal: c_int) = context::create;
        fn cuCtxCreate_v3(out: Out<usize>, affinity: *const c_void, count: c_int, flags: c_uint, ordinal: c_int) = context::create_v3;
        fn cuCtxCreate_v4(out: Out<usize>, parameters: *const c_void, flags: c_uint, ordinal: c_int) = context::create_v4;
        fn cuCtxDestroy_v2(handle: usize) = context::destroy;
        fn cuCtxPushCurrent_v2(handle: usize) = context::push;
        fn cuCtxPopCurrent_v2(out: Out<usize>) = context::pop;
        fn cuCtxSetCurrent(handle: usize) = context::set_current;
        fn cuCtxGetCurrent(out: Out<usize>) = context::get_current;
        fn cuCtxGetDevice(out: Out<c_int>) = context::device;
        fn cuCtxGetDevice_v2(out: Out<c_int>, handle: usize) = context::device_of;
        fn cuCtxGetFlags(out: Out<c_uint>) = context::flags;
        fn cuCtxGetId(handle: usize, out: Out<c_ulonglong>) = context::id;
        fn cuCtxSynchronize() = context::synchronize;
        fn cuCtxSynchronize_v2(handle: usize) = context::synchronize_given;
        fn cuCtxGetApiVersion(handle: usize, out: Out<c_uint>) = context::api_version;
        fn cuCtxGetLimit(out: Out<usize>, limit: c_uint) = context::get_limit;
        fn cuCtxSetLimit(limit: c_uint, value: usize) = context::set_limit;
        fn cuCtxGetCacheConfig(out: Out<c_uint>) = context::get_cache_config;
        fn cuCtxSetCacheConfig(config: c_uint) = context::set_cache_config;
        fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) = context::priority_range;
        fn cuCtxEnablePeerAccess(handle: usize, flags: c_uint) = context::enable_peer;
        fn cuCtxDisablePeerAccess(handle: usize) = context::disable_peer;
        fn cuDeviceGetGraphMemAttribute(ordinal: c_int, attribute: c_uint, value: Out<u64>) = pool::graph_attribute;
        fn cuDeviceSetGraphMemAttribute(ordinal: c_int, attribute: c_uint, value: Out<u64>) = pool::set_graph_attribute;
        fn cuDeviceGraphMemTrim(ordinal: c_int) = pool::trim_graphs;
        fn cuMemAlloc_v2(out: Out<usize>, size: usize) = memory::allocate;
        fn cuMemAllocPitch_v2(out: Out<usize>, pitch: Out<usize>, width: usize, height: usize, element: c_uint) = memory::allocate_pitch;
        fn cuMemFree_v2(address: usize) = memory::free;
        fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) = memory::info;
        fn cuMemGetAddressRange_v2(base: Out<usize>, size: Out<usize>, address: usize) = memory::address_range;
        fn cuMemAllocHost_v2(out: Out<usize>, size: usize) = memory::malloc_host;
        fn cuMemHostAlloc(out: Out<usize>, size: usize, flags: c_uint) = memory::host_alloc;
        fn cuMemFreeHost(address: usize) = memory::free_host;
        fn cuMemHostRegister_v2(address: usize, size: usize, flags: c_uint) = memory::host_register;
        fn cuMemHostUnregister(address: usize) = memory::host_unregister;
        fn cuMemHostGetDevicePointer_v2(out: Out<usize>, address: usize, flags: c_uint) = memory::host_device_pointer;
        fn cuMemHostGetFlags(out: Out<c_uint>, address: usize) = memory::host_flags;
        fn cuMemAllocManaged(out: Out<usize>, size: usize, flags: c_uint) = memory::managed;
        fn cuMemAllocAsync(out: Out<usize>, size: usize, stream: usize) = memory::allocate_async;
        fn cuMemAllocFromPoolAsync(out: Out<usize>, size: usize, pool: usize, stream: usize) = memory::allocate_from_pool;
        fn cuMemFreeAsync(address: usize, stream: usize) = memory::free_async;
        fn cuMemPoolCreate(out: Out<usize>, properties: Out<PoolProperties>) = pool::create;
        fn cuMemPoolDestroy(pool: usize) = pool::destroy;
        fn cuMemPoolTrimTo(pool: usize, keep: usize) = pool::trim;
        fn cuMemPoolSetAttribute(pool: usize, attribute: c_uint, value: Out<u8>) = pool::set_attribute;
        fn cuMemPoolGetAttribute(pool: usize, attribute: c_uint, value: Out<u8>) = pool::get_attribute;
        fn cuMemPoolSetAccess(pool: usize, list: Out<AccessDescription>, count: usize) = pool::set_access;
        fn cuMemPoolGetAccess(out: Out<c_uint>, pool: usize, location: Out<MemLocation>) = pool::get_access;
        fn cuMemcpy(to: usize, from: usize, bytes: usize) = memory::copy_any;
        fn cuMemcpyAsync(to: usize, from: usize, bytes: usize, stream: usize) = memory::copy_any_async;
        fn cuMemcpyHtoD_v2(to: usize, from: usize, bytes: usize) = memory::copy_to_device;
        fn cuMemcpyDtoH_v2(to: usize, from: usize, bytes: usize) = memory::copy_to_host;
        fn cuMemcpyDtoD_v2(to: usize, from: usize, bytes: usize) = memory::copy_on_device;
        fn cuMemcpyHtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) = memory::copy_to_device_async;
        fn cuMemcpyDtoHAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) = memory::copy_to_host_async;
        fn cuMemcpyDtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) = memory::copy_on_device_async;
        fn cuMemcpyPeer(to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize) = memory::copy_peer;
        fn cuMemcpyPeerAsync(to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize, stream: usize) = memory::copy_peer_async;
        fn cuMemcpy2D_v2(parameters: Out<Copy2D>) = memory::copy_2d;
        fn cuMemcpy2DUnaligned_v2(parameters: Out<Copy2D>) = memory::copy_2d;
        fn cuMemcpy2DAsync_v2(parameters: Out<Copy2D>, stream: usize) = memory::copy_2d_async;
        fn cuMemcpy3D_v2(parameters: Out<Copy3D>) = memory::copy_3d;
        fn cuMemcpy3DAsync_v2(parameters: Out<Copy3D>, stream: usize) = memory::copy_3d_async;
        fn cuArrayCreate_v2(out: Out<usize>, from: Out<array::Description>) = array::create;
        fn cuArray3DCreate_v2(out: Out<usize>, from: Out<array::Description3D>) = array::create_3d;
        fn cuArrayDestroy(handle: usize) = array::destroy;
        fn cuMipmappedArrayCreate(out: Out<usize>, from: Out<array::Description3D>, levels: c_uint) = array::create_mipmapped;
        fn cuMipmappedArrayGetLevel(out: Out<usize>, mipmapped: usize, level: c_uint) = array::level;
        fn cuMipmappedArrayDestroy(mipmapped: usize) = array::destroy_mipmapped;
        fn cuArrayGetDescriptor_v2(out: Out<array::Description>, handle: usize) = array::descriptor;
        fn cuArray3DGetDescriptor_v2(out: Out<array::Description3D>, handle: usize) = array::descriptor_3d;
        fn cuArrayGetMemoryRequirements(out: usize, handle: usize, ordinal: c_int) = array::requirements;
        fn cuMipmappedArrayGetMemoryRequirements(out: usize, handle: usize, ordinal: c_int) = array::requirements_mipmapped;
        fn cuMemcpyHtoA_v2(to: usize, offset: usize, from: usize, bytes: usize) = |to, offset, from, bytes| array::copy(Side::Array(to, offset), Side::Memory(from), bytes, None);
        fn cuMemcpyHtoA_v2_ptds(to: usize, offset: usize, from: usize, bytes: usize) = |to, offset, from, bytes| per_thread(|| array::copy(Side::Array(to, offset), Side::Memory(from), bytes, None));
        fn cuMemcpyDtoA_v2(to: usize, offset: usize, from: usize, bytes: usize) = |to, offset, from, bytes| array::copy(Side::Array(to, offset), Side::Memory(from), bytes, None);
        fn cuMemcpyDtoA_v2_ptds(to: usize, offset: usize, from: usize, bytes: usize) = |to, offset, from, bytes| per_thread(|| array::copy(Side::Array(to, offset), Side::Memory(from), bytes, None));
        fn cuMemcpyAtoH_v2(to: usize, from: usize, offset: usize, bytes: usize) = |to, from, offset, bytes| array::copy(Side::Memory(to), Side::Array(from, offset), bytes, None);
        fn cuMemcpyAtoH_v2_ptds(to: usize, from: usize, offset: usize, bytes: usize) = |to, from, offset, bytes| per_thread(|| array::copy(Side::Memory(to), Side::Array(from, offset), bytes, None));
        fn cuMemcpyAtoD_v2(to: usize, from: usize, offset: usize, bytes: usize) = |to, from, offset, bytes| array::copy(Side::Memory(to), Side::Array(from, offset), bytes, None);
        fn cuMemcpyAtoD_v2_ptds(to: usize, from: usize, offset: usize, bytes: usize) = |to, from, offset, bytes| per_thread(|| array::copy(Side::Memory(to), Side::Array(from, offset), bytes, None));
        fn cuMemcpyHtoAAsync_v2(to: usize, offset: usize, from: usize, bytes: usize, stream: usize) = |to, offset, from, bytes, stream| array::copy(Side::Array(to, offset), Side::Memory(from), bytes, Some(stream));
        fn cuMemcpyHtoAAsync_v2_ptsz(to: usize, offset: usize, from: usize, bytes: usize, stream: usize) = |to, offset, from, bytes, stream| per_thread(|| array::copy(Side::Array(to, offset), Side::Memory(from), bytes, Some(stream)));
        fn cuMemcpyAtoHAsync_v2(to: usize, from: usize, offset: usize, bytes: usize, stream: usize) = |to, from, offset, bytes, stream| array::copy(Side::Memory(to), Side::Array(from, offset), bytes, Some(stream));
        fn cuMemcpyAtoHAsync_v2_ptsz(to: usize, from: usize, offset: usize, bytes: usize, stream: usize) = |to, from, offset, bytes, stream| per_thread(|| array::copy(Side::Memory(to), Side::Array(from, offset), bytes, Some(stream)));
        fn cuMemcpyAtoA_v2(to: usize, to_offset: usize, from: usize, from_offset: usize, bytes: usize) = |to, to_offset, from, from_offset, bytes| array::copy(Side::Array(to, to_offset), Side::Array(from, from_offset), bytes, None);
        fn cuMemcpyAtoA_v2_ptds(to: usize, to_offset: usize, from: usize, from_offset: usize, bytes: usize) = |to, to_offset, from, from_offset, bytes| per_thread(|| array::copy(Side::Array(to, to_offset), Side::Array(from, from_offset), bytes, None));
        fn cuTexObjectCreate(out: Out<c_ulonglong>, what: Out<texture::ResourceDescription>, how: Out<texture::TextureDescription>, view: Out<View>) = texture::create;
        fn cuTexObjectDestroy(handle: c_ulonglong) = |handle| texture::destroy(false, handle);
        fn cuTexObjectGetResourceDesc(out: Out<texture::ResourceDescription>, handle: c_ulonglong) = |out, handle| texture::resource_of(false, out, handle);
        fn cuTexObjectGetResourceViewDesc(out: Out<View>, handle: c_ulonglong) = texture::view_of;
        fn cuTexObjectGetTextureDesc(out: Out<texture::TextureDescription>, handle: c_ulonglong) = texture::sampling_of;
        fn cuSurfObjectCreate(out: Out<c_ulonglong>, what: Out<texture::ResourceDescription>) = texture::create_surface;
        fn cuSurfObjectDestroy(handle: c_ulonglong) = |handle| texture::destroy(true, handle);
        fn cuSurfObjectGetResourceDesc(out: Out<texture::ResourceDescription>, handle: c_ulonglong) = |out, handle| texture::resource_of(true, out, handle);
        fn cuMemsetD8_v2(to: usize, value: c_uchar, count: usize) = memory::set8;
        fn cuMemsetD16_v2(to: usize, value: c_ushort, count: usize) = memory::set16;
        fn cuMemsetD32_v2(to: usize, value: c_uint, count: usize) = memory::set32;
        fn cuMemsetD8Async(to: usize, value: c_uchar, count: usize, stream: usize) = memory::set8_async;
        fn cuMemsetD16Async(to: usize, value: c_ushort, count: usize, stream: usize) = memory::set16_async;
        fn cuMemsetD32Async(to: usize, value: c_uint, count: usize, stream: usize) = memory::set32_async;
        fn cuPointerGetAttribute(out: Out<u8>, number: c_uint, address: usize) = memory::pointer_attribute;
        fn cuPointerGetAttributes(count: c_uint, numbers: Out<c_uint>, answers: Out<Out<u8>>, address: usize) = memory::pointer_attributes;
        fn cuMemCreate(out: Out<usize>, size: usize, properties: Out<AllocationProperties>, flags: c_ulonglong) = memory::create;
        fn cuMemRelease(handle: usize) = memory::release;
        fn cuMemRetainAllocationHandle(out: Out<usize>, address: usize) = memory::retain;
        fn cuMemGetAllocationPropertiesFromHandle(out: Out<AllocationProperties>, handle: usize) = memory::properties_of;
        fn cuMemGetAllocationGranularity(out: Out<usize>, properties: Out<AllocationProperties>, option: c_uint) = memory::granularity;
        fn cuMemAddressReserve(out: Out<usize>, size: usize, alignment: usize, wish: usize, flags: c_ulonglong) = memory::reserve;
        fn cuMemAddressFree(base: usize, size: usize) = memory::unreserve;
        fn cuMemMap(address: usize, size: usize, offset: usize, handle: usize, flags: c_ulonglong) = memory::map;
        fn cuMemUnmap(address: usize, size: usize) = memory::unmap;
        fn cuMemSetAccess(address: usize, size: usize, list: Out<AccessDescription>, count: usize) = memory::set_access;
        fn cuMemGetAccess(out: Out<c_ulonglong>, location: Out<MemLocation>, address: usize) = memory::get_access;
        fn cuMemExportToShareableHandle(out: Out<c_int>, handle: usize, kind: c_uint, flags: c_ulonglong) = memory::export;
        fn cuMemImportFromShareableHandle(out: Out<usize>, descriptor: usize, kind: c_uint) = memory::import;
        fn cuMulticastCreate(out: Out<usize>, properties: Out<multicast::Properties>) = multicast::create;
        fn cuMulticastAddDevice(handle: usize, ordinal: c_int) = multicast::add;
        fn cuMulticastBindMem(handle: usize, start: usize, memory: usize, at: usize, size: usize, flags: c_ulonglong) = multicast::bind;
        fn cuMulticastBindMem_v2(handle: usize, ordinal: c_int, start: usize, memory: usize, at: usize, size: usize, flags: c_ulonglong) = multicast::bind_on;
        fn cuMulticastBindAddr(handle: usize, start: usize, address: usize, size: usize, flags: c_ulonglong) = multicast::bind_address;
        fn cuMulticastBindAddr_v2(handle: usize, ordinal: c_int, start: usize, address: usize, size: usize, flags: c_ulonglong) = multicast::bind_address_on;
        fn cuMulticastUnbind(handle: usize, ordinal: c_int, start: usize, size: usize) = multicast::unbind;
        fn cuMulticastGetGranularity(out: Out<usize>, properties: Out<multicast::Properties>, option: c_uint) = multicast::granularity;
        fn cuStreamWriteValue32(stream: usize, address: usize, value: c_uint, flags: c_uint) = memory::write32;
        fn cuStreamWriteValue32_v2(stream: usize, address: usize, value: c_uint, flags: c_uint) = memory::write32;
        fn cuStreamWriteValue64(stream: usize, address: usize, value: c_ulonglong, flags: c_uint) = memory::write64;
        fn cuStreamWriteValue64_v2(stream: usize, address: usize, value: c_ulonglong, flags: c_uint) = memory::write64;
        fn cuStreamCreate(out: Out<usize>, flags: c_uint) = stream::create;
        fn cuStreamCreateWithPriority(out: Out<usize>, flags: c_uint, priority: c_int) = stream::create_with_priority;
        fn cuStreamDestroy_v2(handle: usize) = stream::destroy;
        fn cuStreamSynchronize(handle: usize) = stream::synchronize;
        fn cuStreamQuery(handle: usize) = stream::query;
        fn cuStreamWaitEvent(handle: usize, event: usize, flags: c_uint) = stream::wait_event;
        fn cuStreamGetPriority(handle: usize, out: Out<c_int>) = stream::priority;
        fn cuStreamGetFlags(handle: usize, out: Out<c_uint>) = stream::flags;
        fn cuStreamGetId(handle: usize, out: Out<c_ulonglong>) = stream::id;
        fn cuStreamGetDevice(handle: usize, out: Out<c_int>) = stream::device;
        fn cuStreamGetCtx(handle: usize, out: Out<usize>) = stream::context_of;
        fn cuStreamGetCtx_v2(handle: usize, out: Out<usize>, green: Out<usize>) = stream::context_of_v2;
        fn cuStreamAddCallback(handle: usize, function: Callback, data: *mut c_void, flags: c_uint) = stream::callback;
        fn cuLaunchHostFunc(handle: usize, function: HostFunction, data: *mut c_void) = stream::host_function;
        fn cuStreamIsCapturing(handle: usize, out: Out<c_uint>) = capture::is_capturing;
        fn cuStreamGetCaptureInfo_v2(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>, graph: Out<usize>, nodes: Out<usize>, count: Out<usize>) = capture::info_v2;
        fn cuStreamGetCaptureInfo_v3(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>) = capture::info_v3;
        fn cuOccupancyMaxPotentialBlockSize(grid: Out<c_int>, block: Out<c_int>, function: usize, shared: SharedBytesOf, dynamic: usize, limit: c_int) = module::best_block;
        fn cuOccupancyMaxPotentialBlockSizeWithFlags(grid: Out<c_int>, block: Out<c_int>, function: usize, shared: SharedBytesOf, dynamic: usize, limit: c_int, flags: c_uint) = module::best_block_with_flags;
        fn cuOccupancyAvailableDynamicSMemPerBlock(out: Out<usize>, function: usize, blocks: c_int, threads: c_int) = module::available_shared;
        fn cuStreamGetAttribute(handle: usize, id: c_uint, out: Out<Value>) = stream::get_attribute;
        fn cuStreamSetAttribute(handle: usize, id: c_uint, value: Out<Value>) = stream::set_attribute;
        fn cuStreamCopyAttributes(to: usize, from: usize) = stream::copy_attributes;
        fn cuStreamAttachMemAsync(handle: usize, address: usize, length: usize, flags: c_uint) = stream::attach;
        fn cuStreamGetAttribute_ptsz(handle: usize, id: c_uint, out: Out<Value>) = |handle, id, out| per_thread(|| stream::get_attribute(handle, id, out));
        fn cuStreamSetAttribute_ptsz(handle: usize, id: c_uint, value: Out<Value>) = |handle, id, value| per_thread(|| stream::set_attribute(handle, id, value));
        fn cuStreamCopyAttributes_ptsz(to: usize, from: usize) = |to, from| per_thread(|| stream::copy_attributes(to, from));
        fn cuStreamAttachMemAsync_ptsz(handle: usize, address: usize, length: usize, flags: c_uint) = |handle, address, length, flags| per_thread(|| stream::attach(handle, address, length, flags));
        fn cuProfilerInitialize(configuration: Text, output: Text, mode: c_uint) = device::initialize_profiler;
        fn cuProfilerStart() = calls::device::profiler;
        fn cuProfilerStop() = calls::device::profiler;
        fn cuThreadExchangeStreamCaptureMode(mode: Out<c_uint>) = capture::exchange_mode;
        fn cuStreamBeginCapture(stream: usize) = |stream| capturing(|| capture::begin(stream, 0));
        fn cuStreamBeginCapture_ptsz(stream: usize) = |stream| per_thread(|| capturing(|| capture::begin(stream, 0)));
        fn cuStreamBeginCapture_v2(stream: usize, mode: c_uint) = |stream, mode| capturing(|| capture::begin(stream, mode));
        fn cuStreamBeginCapture_v2_ptsz(stream: usize, mode: c_uint) = |stream, mode| per_thread(|| capturing(|| capture::begin(stream, mode)));
        fn cuStreamBeginCaptureToGraph(stream: usize, graph: usize, nodes: Out<usize>, edges: usize, count: usize, mode: c_uint) = |stream, graph, nodes, edges, count, mode| capturing(|| capture::begin_to_graph(stream, graph, nodes, edges, count, mode));
        fn cuStreamBeginCaptureToGraph_ptsz(stream: usize, graph: usize, nodes: Out<usize>, edges: usize, count: usize, mode: c_uint) = |stream, graph, nodes, edges, count, mode| per_thread(|| capturing(|| capture::begin_to_graph(stream, graph, nodes, edges, count, mode)));
        fn cuStreamEndCapture(stream: usize, out: Out<usize>) = capture::end;
        fn cuStreamEndCapture_ptsz(stream: usize, out: Out<usize>) = |stream, out| per_thread(|| capture::end(stream, out));
        fn cuStreamGetCaptureInfo(stream: usize, status: Out<c_uint>, id: Out<c_ulonglong>) = capture::info_v1;
        fn cuStreamGetCaptureInfo_ptsz(stream: usize, status: Out<c_uint>, id: Out<c_ulonglong>) = |stream, status, id| per_thread(|| capture::info_v1(stream, status, id));
        fn cuStreamUpdateCaptureDependencies(stream: usize, nodes: Out<usize>, count: usize, flags: c_uint) = capture::update;
        fn cuStreamUpdateCaptureDependencies_ptsz(stream: usize, nodes: Out<usize>, count: usize, flags: c_uint) = |stream, nodes, count, flags| per_thread(|| capture::update(stream, nodes, count, flags));
        fn cuStreamUpdateCaptureDependencies_v2(stream: usize, nodes: Out<usize>, edges: usize, count: usize, flags: c_uint) = capture::update_v2;
        fn cuStreamUpdateCaptureDependencies_v2_ptsz(stream: usize, nodes: Out<usize>, edges: usize, count: usize, flags: c_uint) = |stream, nodes, edges, count, flags| per_thread(|| capture::update_v2(stream, nodes, edges, count, flags));
        fn cuCtxResetPersistingL2Cache() = calls::device::reset_persisting;
        fn cuGraphCreate(out: Out<usize>, flags: c_uint) = shared::create;
        fn cuUserObjectCreate(out: Out<usize>, data: usize, destroy: HostFunction, references: c_uint, flags: c_uint) = shared::create_object;
        fn cuUserObjectRetain(object: usize, count: c_uint) = shared::retain_object;
        fn cuUserObjectRelease(object: usize, count: c_uint) = shared::release_object;
        fn cuGraphRetainUserObject(graph: usize, object: usize, count: c_uint, flags: c_uint) = shared::hold_object;
        fn cuGraphReleaseUserObject(graph: usize, object: usize, count: c_uint) = shared::give_object_back;
        fn cuGraphDestroy(graph: usize) = shared::destroy;
        fn cuGraphClone(out: Out<usize>, graph: usize) = shared::clone;
        fn cuGraphAddEmptyNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize) = shared::add_empty;
        fn cuGraphAddHostNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<HostParams>) = shared::add_host;
        fn cuGraphHostNodeGetParams(node: usize, out: Out<HostParams>) = shared::host_params;
        fn cuGraphHostNodeSetParams(node: usize, params: Out<HostParams>) = shared::set_host;
        fn cuGraphExecHostNodeSetParams(exec: usize, node: usize, params: Out<HostParams>) = shared::set_host_in;
        fn cuGraphAddKernelNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<KernelParams>) = graph::add_kernel;
        fn cuGraphKernelNodeGetParams(node: usize, out: Out<KernelParams>) = shared::kernel_params;
        fn cuGraphKernelNodeSetParams(node: usize, params: Out<KernelParams>) = graph::set_kernel;
        fn cuGraphExecKernelNodeSetParams(exec: usize, node: usize, params: Out<KernelParams>) = graph::set_kernel_in;
        fn cuGraphAddMemsetNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<MemsetParams>, context: usize) = graph::add_memset;
        fn cuGraphMemsetNodeGetParams(node: usize, out: Out<MemsetParams>) = shared::memset_params;
        fn cuGraphMemsetNodeSetParams(node: usize, params: Out<MemsetParams>) = shared::set_memset;
        fn cuGraphExecMemsetNodeSetParams(exec: usize, node: usize, params: Out<MemsetParams>, context: usize) = graph::set_memset_in;
        fn cuGraphAddMemcpyNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<Copy3D>, context: usize) = graph::add_memcpy;
        fn cuGraphMemcpyNodeSetParams(node: usize, params: Out<Copy3D>) = graph::set_memcpy;
        fn cuGraphExecMemcpyNodeSetParams(exec: usize, node: usize, params: Out<Copy3D>, context: usize) = graph::set_memcpy_in;
        fn cuGraphAddEventRecordNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, event: usize) = shared::add_event_record;
        fn cuGraphAddEventWaitNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, event: usize) = shared::add_event_wait;
        fn cuGraphEventRecordNodeGetEvent(node: usize, out: Out<usize>) = shared::recorded_event;
        fn cuGraphEventWaitNodeGetEvent(node: usize, out: Out<usize>) = shared::awaited_event;
        fn cuGraphEventRecordNodeSetEvent(node: usize, event: usize) = shared::set_event_record;
        fn cuGraphEventWaitNodeSetEvent(node: usize, event: usize) = shared::set_event_wait;
        fn cuGraphExecEventRecordNodeSetEvent(exec: usize, node: usize, event: usize) = shared::set_event_record_in;
        fn cuGraphExecEventWaitNodeSetEvent(exec: usize, node: usize, event: usize) = shared::set_event_wait_in;
        fn cuGraphAddChildGraphNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, child: usize) = shared::add_child;
        fn cuGraphChildGraphNodeGetGraph(node: usize, out: Out<usize>) = shared::child_graph;
        fn cuGraphExecChildGraphNodeSetParams(exec: usize, node: usize, child: usize) = shared::set_child_in;
        fn cuGraphGetNodes(graph: usize, out: Out<usize>, count: Out<usize>) = shared::nodes;
        fn cuGraphGetRootNodes(graph: usize, out: Out<usize>, count: Out<usize>) = shared::root_nodes;
        fn cuGraphGetEdges(graph: usize, from: Out<usize>, to: Out<usize>, count: Out<usize>) = shared::edges;
        fn cuGraphGetEdges_v2(graph: usize, from: Out<usize>, to: Out<usize>, data: Out<u64>, count: Out<usize>) = shared::edges_v2;
        fn cuGraphNodeGetDependencies(node: usize, out: Out<usize>, count: Out<usize>) = shared::dependencies;
        fn cuGraphNodeGetDependencies_v2(node: usize, out: Out<usize>, data: Out<u64>, count: Out<usize>) = shared::dependencies_v2;
        fn cuGraphNodeGetDependentNodes(node: usize, out: Out<usize>, count: Out<usize>) = shared::dependents;
        fn cuGraphNodeGetDependentNodes_v2(node: usize, out: Out<usize>, data: Out<u64>, count: Out<usize>) = shared::dependents_v2;
        fn cuGraphAddDependencies(graph: usize, from: Out<usize>, to: Out<usize>, count: usize) = shared::add_dependencies;
        fn cuGraphAddDependencies_v2(graph: usize, from: Out<usize>, to: Out<usize>, data: usize, count: usize) = shared::add_dependencies_v2;
        fn cuGraphRemoveDependencies(graph: usize, from: Out<usize>, to: Out<usize>, count: usize) = shared::remove_dependencies;
        fn cuGraphRemoveDependencies_v2(graph: usize, from: Out<usize>, to: Out<usize>, data: usize, count: usize) = shared::remove_dependencies_v2;
        fn cuGraphNodeGetType(node: usize, out: Out<c_uint>) = shared::node_type;
        fn cuGraphDestroyNode(node: usize) = shared::destroy_node;
        fn cuGraphNodeFindInClone(out: Out<usize>, node: usize, graph: usize) = shared::find_in_clone;
        fn cuGraphInstantiateWithParams(out: Out<usize>, graph: usize, params: Out<InstantiateParams>) = shared::instantiate_with;
        fn cuGraphInstantiateWithParams_ptsz(out: Out<usize>, graph: usize, params: Out<InstantiateParams>) = |out, graph, params| per_thread(|| shared::instantiate_with(out, graph, params));
        fn cuGraphExecGetFlags(exec: usize, out: Out<c_ulonglong>) = shared::exec_flags;
        fn cuGraphExecDestroy(exec: usize) = shared::destroy_exec;
        fn cuGraphLaunch(exec: usize, stream: usize) = shared::launch;
        fn cuGraphLaunch_ptsz(exec: usize, stream: usize) = |exec, stream| per_thread(|| shared::launch(exec, stream));
        fn cuGraphUpload(exec: usize, stream: usize) = shared::upload;
        fn cuGraphUpload_ptsz(exec: usize, stream: usize) = |exec, stream| per_thread(|| shared::upload(exec, stream));
        fn cuGraphNodeSetEnabled(exec: usize, node: usize, enabled: c_uint) = shared::set_enabled;
        fn cuGraphNodeGetEnabled(exec: usize, node: usize, out: Out<c_uint>) = shared::get_enabled;
        fn cuGraphDebugDotPrint(graph: usize, path: Text, flags: c_uint) = shared::print;
        fn cuGraphInstantiate(out: Out<usize>, graph: usize, node: Out<usize>, log: usize, bytes: usize) = shared::instantiate_v1;
        fn cuGraphInstantiate_v2(out: Out<usize>, graph: usize, node: Out<usize>, log: usize, bytes: usize) = shared::instantiate_v1;
        fn cuGraphInstantiateWithFlags(out: Out<usize>, graph: usize, flags: c_ulonglong) = shared::instantiate;
        fn cuGraphExecUpdate(exec: usize, graph: usize, node: Out<usize>, result: Out<c_uint>) = shared::update_v1;
        fn cuGraphExecUpdate_v2(exec: usize, graph: usize, info: Out<UpdateInfo>) = shared::update;
        fn cuGraphAddNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<NodeParams>) = graph::add_node;
        fn cuGraphAddNode_v2(out: Out<usize>, graph: usize, after: Out<usize>, edges: usize, count: usize, params: Out<NodeParams>) = graph::add_node_v2;
        fn cuGraphConditionalHandleCreate(out: Out<u64>, graph: usize, context: usize, value: c_uint, flags: c_uint) = graph::create_condition;
        fn cuGraphAddMemAllocNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<AllocationParams>) = graph_memory::add_allocation;
        fn cuGraphMemAllocNodeGetParams(node: usize, out: Out<AllocationParams>) = graph_memory::allocation_params;
        fn cuGraphAddMemFreeNode(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, address: usize) = graph_memory::add_free;
        fn cuGraphMemFreeNodeGetParams(node: usize, out: Out<usize>) = graph_memory::freed_address;
        fn cuGraphAddKernelNode_v2(out: Out<usize>, graph: usize, after: Out<usize>, count: usize, params: Out<KernelParamsV2>) = graph::add_kernel_v2;
        fn cuGraphKernelNodeGetParams_v2(node: usize, out: Out<KernelParamsV2>) = graph::kernel_params_v2;
        fn cuGraphKernelNodeSetParams_v2(node: usize, params: Out<KernelParamsV2>) = graph::set_kernel_v2;
        fn cuGraphExecKernelNodeSetParams_v2(exec: usize, node: usize, params: Out<KernelParamsV2>) = graph::set_kernel_in_v2;
        fn cuEventCreate(out: Out<usize>, flags: c_uint) = stream::event_create;
        fn cuEventDestroy_v2(handle: usize) = stream::event_destroy;
        fn cuIpcGetMemHandle(out: Out<Handle>, address: usize) = ipc::memory_handle;
        fn cuIpcOpenMemHandle(out: Out<usize>, handle: Handle, flags: c_uint) = ipc::open_memory;
        fn cuIpcOpenMemHandle_v2(out: Out<usize>, handle: Handle, flags: c_uint) = ipc::open_memory;
        fn cuIpcCloseMemHandle(address: usize) = ipc::close_memory;
        fn cuIpcGetEventHandle(out: Out<Handle>, event: usize) = ipc::event_handle;
        fn cuIpcOpenEventHandle(out: Out<usize>, handle: Handle) = ipc::open_event;
        fn cuEventRecord(event: usize, stream: usize) = stream::event_record;
        fn cuEventRecordWithFlags(event: usize, stream: usize, flags: c_uint) = stream::event_record_with_flags;
        fn cuEventQuery(handle: usize) = stream::event_query;
        fn cuEventSynchronize(handle: usize) = stream::event_synchronize;
        fn cuTensorMapEncodeTiled(out: Out<tensor_map::Opaque>, data_type: c_uint, rank: c_uint, address: usize, sizes: Out<u64>, strides: Out<u64>, box_sizes: Out<u32>, element_strides: Out<u32>, interleave: c_uint, swizzle: c_uint, promotion: c_uint, fill: c_uint) = tensor_map::encode_tiled;
        fn cuTensorMapReplaceAddress(map: Out<tensor_map::Opaque>, address: usize) = tensor_map::replace_address;
        fn cuEventElapsedTime(out: Out<f32>, start: usize, end: usize) = stream::event_elapsed;
        fn cuEventElapsedTime_v2(out: Out<f32>, start: usize, end: usize) = stream::event_elapsed;
        fn cuModuleLoad(out: Out<usize>, path: Text) = module::load_file;
        fn cuModuleLoadData(out: Out<usize>, image: *const c_void) = module::load_data;
        fn cuModuleLoadDataEx(out: Out<usize>, image: *const c_void, count: c_uint, options: *const c_void, values: *const c_void) = module::load_data_ex;
        fn cuModuleLoadFatBinary(out: Out<usize>, image: *const c_void) = module::load_data;
        fn cuModuleUnload(module: usize) = calls::module::unload;
        fn cuModuleGetFunction(out: Out<usize>, module: usize, name: *const c_char) = calls::module::function;
        fn cuLibraryLoadData(out: Out<usize>, image: *const c_void, jit: *const c_void, jit_values: *const c_void, jit_count: c_uint, options: *const c_void, values: *const c_void, count: c_uint) = module::load_library;
        fn cuLibraryUnload(library: usize) = calls::module::unload;
        fn cuLibraryGetKernel(out: Out<usize>, library: usize, name: *const c_char) = calls::module::function;
        fn cuLibraryGetModule(out: Out<usize>, library: usize) = module::library_module;
        fn cuLibraryLoadFromFile(out: Out<usize>, path: Text, jit: *const c_void, jit_values: *const c_void, jit_count: c_uint, options: *const c_void, values: *const c_void, count: c_uint) = module::load_library_file;
        fn cuLibraryGetKernelCount(out: Out<c_uint>, library: usize) = module::kernel_count;
        fn cuLibraryGetGlobal(out: Out<usize>, bytes: Out<usize>, library: usize, name: Text) = calls::module::global;
        fn cuLibraryGetManaged(out: Out<usize>, bytes: Out<usize>, library: usize, name: Text) = calls::module::managed;
        fn cuModuleGetGlobal_v2(out: Out<usize>, bytes: Out<usize>, module: usize, name: Text) = calls::module::global;
        fn cuLinkCreate_v2(count: c_uint, numbers: *const c_void, values: *const c_void, out: Out<usize>) = calls::link::create;
        fn cuLinkAddData_v2(state: usize, kind: c_uint, data: *const c_void, size: usize, name: *const c_char, count: c_uint, numbers: *const c_void, values: *const c_void) = calls::link::add_data;
        fn cuLinkAddFile_v2(state: usize, kind: c_uint, path: Text, count: c_uint, numbers: *const c_void, values: *const c_void) = calls::link::add_file;
        fn cuLinkComplete(state: usize, out: Out<usize>, size: Out<usize>) = calls::link::complete;
        fn cuLinkDestroy(state: usize) = calls::link::destroy;
        fn cuModuleGetFunctionCount(out: Out<c_uint>, module: usize) = module::function_count;
        fn cuModuleGetLoadingMode(out: Out<c_int>) = calls::module::loading_mode;
        fn cuFuncIsLoaded(out: Out<c_uint>, function: usize) = module::is_function_loaded;
        fn cuFuncLoad(function: usize) = module::load_function;
        fn cuFuncGetParamInfo(function: usize, index: usize, offset: Out<usize>, bytes: Out<usize>) = module::function_parameter;
        fn cuFuncGetParamCount(function: usize, count: Out<usize>) = module::function_parameters;
        fn cuKernelGetParamInfo(kernel: usize, index: usize, offset: Out<usize>, bytes: Out<usize>) = module::function_parameter;
        fn cuKernelGetParamCount(kernel: usize, count: Out<usize>) = module::function_parameters;
        fn cuKernelGetLibrary(out: Out<usize>, kernel: usize) = module::kernel_library;
        fn cuKernelGetFunction(out: Out<usize>, kernel: usize) = module::kernel_function;
        fn cuKernelGetName(out: Out<*const c_char>, kernel: usize) = module::function_name;
        fn cuFuncGetName(out: Out<*const c_char>, function: usize) = module::function_name;
        fn cuFuncGetModule(out: Out<usize>, function: usize) = module::function_module;
        fn cuFuncGetAttribute(out: Out<c_int>, number: c_uint, function: usize) = module::function_attribute;
        fn cuFuncSetAttribute(function: usize, number: c_uint, value: c_int) = module::set_function_attribute;
        fn cuFuncSetCacheConfig(function: usize, config: c_uint) = module::set_cache_config;
        fn cuKernelGetAttribute(out: Out<c_int>, number: c_uint, kernel: usize, ordinal: c_int) = module::kernel_attribute;
        fn cuKernelSetAttribute(number: c_uint, value: c_int, kernel: usize, ordinal: c_int) = module::set_kernel_attribute;
        fn cuLaunchKernel(function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: usize, parameters: *const c_void, extra: *const c_void) = module::launch;
        fn cuLaunchCooperativeKernel(function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: usize, parameters: *const c_void) = module::launch_cooperative;
        fn cuLaunchKernelEx(configuration: Out<LaunchConfig>, function: usize, parameters: *const c_void, extra: *const c_void) = module::launch_configured;
        fn cuOccupancyMaxActiveBlocksPerMultiprocessor(out: Out<c_int>, function: usize, threads: c_int, dynamic: usize) = module::max_active;
        fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out: Out<c_int>, function: usize, threads: c_int, dynamic: usize, flags: c_uint) = module::max_active_with_flags;
        fn cuMemAllocAsync_ptsz(out: Out<usize>, size: usize, stream: usize) = |out, size, stream| per_thread(|| memory::allocate_async(out, size, stream));
        fn cuMemAllocFromPoolAsync_ptsz(out: Out<usize>, size: usize, pool: usize, stream: usize) = |out, size, pool, stream| per_thread(|| memory::allocate_from_pool(out, size, pool, stream));
        fn cuMemFreeAsync_ptsz(address: usize, stream: usize) = |address, stream| per_thread(|| memory::free_async(address, stream));
        fn cuMemcpy_ptds(to: usize, from: usize, bytes: usize) = |to, from, bytes| per_thread(|| memory::copy_any(to, from, bytes));
        fn cuMemcpyAsync_ptsz(to: usize, from: usize, bytes: usize, stream: usize) = |to, from, bytes, stream| per_thread(|| memory::copy_any_async(to, from, bytes, stream));
        fn cuMemcpyHtoD_v2_ptds(to: usize, from: usize, bytes: usize) = |to, from, bytes| per_thread(|| memory::copy_to_device(to, from, bytes));
        fn cuMemcpyDtoH_v2_ptds(to: usize, from: usize, bytes: usize) = |to, from, bytes| per_thread(|| memory::copy_to_host(to, from, bytes));
        fn cuMemcpyDtoD_v2_ptds(to: usize, from: usize, bytes: usize) = |to, from, bytes| per_thread(|| memory::copy_on_device(to, from, bytes));
        fn cuMemcpyHtoDAsync_v2_ptsz(to: usize, from: usize, bytes: usize, stream: usize) = |to, from, bytes, stream| per_thread(|| memory::copy_to_device_async(to, from, bytes, stream));
        fn cuMemcpyDtoHAsync_v2_ptsz(to: usize, from: usize, bytes: usize, stream: usize) = |to, from, bytes, stream| per_thread(|| memory::copy_to_host_async(to, from, bytes, stream));
        fn cuMemcpyDtoDAsync_v2_ptsz(to: usize, from: usize, bytes: usize, stream: usize) = |to, from, bytes, stream| per_thread(|| memory::copy_on_device_async(to, from, bytes, stream));
        fn cuMemcpyPeer_ptds(to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize) = |to, to_context, from, from_context, bytes| per_thread(|| memory::copy_peer(to, to_context, from, from_context, bytes));
        fn cuMemcpyPeerAsync_ptsz(to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize, stream: usize) = |to, to_context, from, from_context, bytes, stream| per_thread(|| memory::copy_peer_async(to, to_context, from, from_context, bytes, stream));
        fn cuMemcpy2D_v2_ptds(parameters: Out<Copy2D>) = |parameters| per_thread(|| memory::copy_2d(parameters));
        fn cuMemcpy2DUnaligned_v2_ptds(parameters: Out<Copy2D>) = |parameters| per_thread(|| memory::copy_2d(parameters));
        fn cuMemcpy2DAsync_v2_ptsz(parameters: Out<Copy2D>, stream: usize) = |parameters, stream| per_thread(|| memory::copy_2d_async(parameters, stream));
        fn cuMemcpy3D_v2_ptds(parameters: Out<Copy3D>) = |parameters| per_thread(|| memory::copy_3d(parameters));
        fn cuMemcpy3DAsync_v2_ptsz(parameters: Out<Copy3D>, stream: usize) = |parameters, stream| per_thread(|| memory::copy_3d_async(parameters, stream));
        fn cuMemsetD8_v2_ptds(to: usize, value: c_uchar, count: usize) = |to, value, count| per_thread(|| memory::set8(to, value, count));
        fn cuMemsetD16_v2_ptds(to: usize, value: c_ushort, count: usize) = |to, value, count| per_thread(|| memory::set16(to, value, count));
        fn cuMemsetD32_v2_ptds(to: usize, value: c_uint, count: usize) = |to, value, count| per_thread(|| memory::set32(to, value, count));
        fn cuMemsetD8Async_ptsz(to: usize, value: c_uchar, count: usize, stream: usize) = |to, value, count, stream| per_thread(|| memory::set8_async(to, value, count, stream));
        fn cuMemsetD16Async_ptsz(to: usize, value: c_ushort, count: usize, stream: usize) = |to, value, count, stream| per_thread(|| memory::set16_async(to, value, count, stream));
        fn cuMemsetD32Async_ptsz(to: usize, value: c_uint, count: usize, stream: usize) = |to, value, count, stream| per_thread(|| memory::set32_async(to, value, count, stream));
        fn cuStreamWriteValue32_ptsz(stream: usize, address: usize, value: c_uint, flags: c_uint) = |stream, address, value, flags| per_thread(|| memory::write32(stream, address, value, flags));
        fn cuStreamWriteValue32_v2_ptsz(stream: usize, address: usize, value: c_uint, flags: c_uint) = |stream, address, value, flags| per_thread(|| memory::write32(stream, address, value, flags));
        fn cuStreamWriteValue64_ptsz(stream: usize, address: usize, value: c_ulonglong, flags: c_uint) = |stream, address, value, flags| per_thread(|| memory::write64(stream, address, value, flags));
        fn cuStreamWriteValue64_v2_ptsz(stream: usize, address: usize, value: c_ulonglong, flags: c_uint) = |stream, address, value, flags| per_thread(|| memory::write64(stream, address, value, flags));
        fn cuStreamSynchronize_ptsz(handle: usize) = |handle| per_thread(|| stream::synchronize(handle));
        fn cuStreamQuery_ptsz(handle: usize) = |handle| per_thread(|| stream::query(handle));
        fn cuStreamWaitEvent_ptsz(handle: usize, event: usize, flags: c_uint) = |handle, event, flags| per_thread(|| stream::wait_event(handle, event, flags));
        fn cuStreamGetPriority_ptsz(handle: usize, out: Out<c_int>) = |handle, out| per_thread(|| stream::priority(handle, out));
        fn cuStreamGetFlags_ptsz(handle: usize, out: Out<c_uint>) = |handle, out| per_thread(|| stream::flags(handle, out));
        fn cuStreamGetId_ptsz(handle: usize, out: Out<c_ulonglong>) = |handle, out| per_thread(|| stream::id(handle, out));
        fn cuStreamGetDevice_ptsz(handle: usize, out: Out<c_int>) = |handle, out| per_thread(|| stream::device(handle, out));
        fn cuStreamGetCtx_ptsz(handle: usize, out: Out<usize>) = |handle, out| per_thread(|| stream::context_of(handle, out));
        fn cuStreamGetCtx_v2_ptsz(handle: usize, out: Out<usize>, green: Out<usize>) = |handle, out, green| per_thread(|| stream::context_of_v2(handle, out, green));
        fn cuStreamAddCallback_ptsz(handle: usize, function: Callback, data: *mut c_void, flags: c_uint) = |handle, function, data, flags| per_thread(|| stream::callback(handle, function, data, flags));
        fn cuLaunchHostFunc_ptsz(handle: usize, function: HostFunction, data: *mut c_void) = |handle, function, data| per_thread(|| stream::host_function(handle, function, data));
        fn cuStreamIsCapturing_ptsz(handle: usize, out: Out<c_uint>) = |handle, out| per_thread(|| capture::is_capturing(handle, out));
        fn cuStreamGetCaptureInfo_v2_ptsz(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>, graph: Out<usize>, nodes: Out<usize>, count: Out<usize>) = |handle, status, id, graph, nodes, count| per_thread(|| capture::info_v2(handle, status, id, graph, nodes, count));
        fn cuStreamGetCaptureInfo_v3_ptsz(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>) = |handle, status, id, graph, nodes, edges, count| per_thread(|| capture::info_v3(handle, status, id, graph, nodes, edges, count));
        fn cuEventRecord_ptsz(event: usize, stream: usize) = |event, stream| per_thread(|| stream::event_record(event, stream));
        fn cuEventRecordWithFlags_ptsz(event: usize, stream: usize, flags: c_uint) = |event, stream, flags| per_thread(|| stream::event_record_with_flags(event, stream, flags));
        fn cuLaunchKernel_ptsz(function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: usize, parameters: *const c_void, extra: *const c_void) = |function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra| per_thread(|| module::launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra));
        fn cuLaunchCooperativeKernel_ptsz(function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: usize, parameters: *const c_void) = |function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters| per_thread(|| module::launch_cooperative(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters));
        fn cuLaunchKernelEx_ptsz(configuration: Out<LaunchConfig>, function: usize, parameters: *const c_void, extra: *const c_void) = |configuration, function, parameters, extra| per_thread(|| module::launch_configured(configuration, function, parameters, extra));
    }
    bare {
        fn cuLogsRegisterCallback(function: usize, data: usize, out: Out<usize>) = device::register_log;
        fn cuLogsUnregisterCallback(handle: usize) = device::unregister_log;
        fn cuDriverGetVersion(out: Out<c_int>) = device::driver_version;
        fn cuGetErrorName(code: c_uint, out: Out<*const c_char>) = error_names::driver_name;
        fn cuGetErrorString(code: c_uint, out: Out<*const c_char>) = error_names::driver_string;
        fn cuGetExportTable(table: Out<usize>, id: Out<[u8; 16]>) = device::export_table;
        fn cuGetProcAddress(symbol: Text, out: Out<usize>, wanted: c_int, flags: c_ulonglong) = entry_point::proc_address_v1;
        fn cuGetProcAddress_v2(symbol: Text, out: Out<usize>, wanted: c_int, flags: c_ulonglong, status: Out<c_uint>) = entry_point::proc_address;
    }
    refused {
        cuCheckpointProcessCheckpoint cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState
        cuCheckpointProcessLock cuCheckpointProcessRestore cuCheckpointProcessUnlock
        cuCoredumpDeregisterCompleteCallback cuCoredumpDeregisterStartCallback cuCoredumpGetAttribute
        cuCoredumpGetAttributeGlobal cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback
        cuCoredumpSetAttribute cuCoredumpSetAttributeGlobal cuDeviceGetNvSciSyncAttributes
        cuEGLStreamConsumerAcquireFrame cuEGLStreamConsumerConnect cuEGLStreamConsumerConnectWithFlags
        cuEGLStreamConsumerDisconnect cuEGLStreamConsumerReleaseFrame cuEGLStreamProducerConnect
        cuEGLStreamProducerDisconnect cuEGLStreamProducerPresentFrame cuEGLStreamProducerReturnFrame
        cuEventCreateFromEGLSync cuGLCtxCreate cuGLGetDevices cuGLInit cuGLMapBufferObject
        cuGLMapBufferObjectAsync cuGLMapBufferObjectAsync_v2 cuGLMapBufferObject_v2 cuGLRegisterBufferObject
        cuGLSetBufferObjectMapFlags cuGLUnmapBufferObject cuGLUnmapBufferObjectAsync cuGLUnregisterBufferObject
        cuGraphicsEGLRegisterImage cuGraphicsGLRegisterBuffer cuGraphicsGLRegisterImage cuGraphicsMapResources
        cuGraphicsMapResources_ptsz cuGraphicsResourceGetMappedEglFrame
        cuGraphicsResourceGetMappedMipmappedArray cuGraphicsResourceGetMappedPointer
        cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags cuGraphicsResourceSetMapFlags_v2
        cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources cuGraphicsUnmapResources_ptsz
        cuGraphicsUnregisterResource cuGraphicsVDPAURegisterOutputSurface cuGraphicsVDPAURegisterVideoSurface
        cuModuleGetSurfRef cuModuleGetTexRef
        cuParamSetTexRef cuSurfRefGetArray cuSurfRefSetArray cuTexRefCreate cuTexRefDestroy cuTexRefGetAddress
        cuTexRefGetAddressMode cuTexRefGetAddress_v2 cuTexRefGetArray cuTexRefGetBorderColor
        cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat cuTexRefGetMaxAnisotropy
        cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp
        cuTexRefGetMipmappedArray cuTexRefSetAddress cuTexRefSetAddress2D cuTexRefSetAddress2D_v2
        cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode cuTexRefSetAddress_v2 cuTexRefSetArray
        cuTexRefSetBorderColor cuTexRefSetFilterMode cuTexRefSetFlags cuTexRefSetFormat cuTexRefSetMaxAnisotropy
        cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp
        cuTexRefSetMipmappedArray cuVDPAUCtxCreate cuVDPAUGetDevice
    }
    stub {
        cuArray3DCreate cuArray3DGetDescriptor cuArrayCreate
        cuArrayGetDescriptor
        cuArrayGetPlane cuArrayGetSparseProperties cuCheckpointOperationComplete
        cuCtxAttach cuCtxCreate cuCtxDestroy cuCtxDetach cuCtxFromGreenCtx cuCtxGetDevResource
        cuCtxGetExecAffinity cuCtxGetSharedMemConfig cuCtxPopCurrent cuCtxPushCurrent cuCtxRecordEvent
        cuCtxSetFlags cuCtxSetSharedMemConfig cuCtxWaitEvent cuDestroyExternalMemory
        cuDestroyExternalSemaphore cuDevResourceGenerateDesc cuDevSmResourceSplit cuDevSmResourceSplitByCount
        cuDeviceGetCliqueCount cuDeviceGetCliqueInfo cuDeviceGetDevResource cuDeviceGetExecAffinitySupport
        cuDeviceGetFabricClusterUuid cuDeviceGetHostAtomicCapabilities cuDeviceGetLuid
        cuDeviceGetP2PAtomicCapabilities cuDeviceGetProperties cuDeviceGetTexture1DLinearMaxWidth
        cuDeviceRegisterAsyncNotification cuDeviceTotalMem cuDeviceUnregisterAsyncNotification cuEventDestroy
        cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray cuFabricCpyBatchAsync
        cuFabricCpyBatchAsync_ptsz cuFlushGPUDirectRDMAWrites
        cuFuncSetBlockShape cuFuncSetSharedMemConfig cuFuncSetSharedSize
        cuGraphAddBatchMemOpNode                 cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode
        cuGraphAddNode_v3
        cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams           cuGraphExecBatchMemOpNodeSetParams                 cuGraphExecExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams
        cuGraphExecGetId                 cuGraphExecNodeSetParams         cuGraphExternalSemaphoresSignalNodeGetParams cuGraphExternalSemaphoresSignalNodeSetParams
        cuGraphExternalSemaphoresWaitNodeGetParams cuGraphExternalSemaphoresWaitNodeSetParams         cuGraphGetId                 cuGraphKernelNodeCopyAttributes
        cuGraphKernelNodeGetAttribute         cuGraphKernelNodeSetAttribute         cuGraphMemcpyNodeGetParams
                cuGraphNodeGetContainingGraph         cuGraphNodeGetLocalId
        cuGraphNodeGetParams cuGraphNodeGetToolsId cuGraphNodeSetParams
        cuGraphNodeSetParams_v2         cuGreenCtxCreate cuGreenCtxDestroy
        cuGreenCtxGetDevResource cuGreenCtxGetId cuGreenCtxRecordEvent cuGreenCtxStreamCreate
        cuGreenCtxWaitEvent cuImportExternalMemory cuImportExternalSemaphore
        cuKernelSetCacheConfig cuLaunch
        cuLaunchCooperativeKernelMultiDevice cuLaunchGrid cuLaunchGridAsync cuLaunchHostFunc_v2
        cuLaunchHostFunc_v2_ptsz cuLibraryEnumerateKernels
        cuLibraryGetUnifiedFunction cuLinkAddData
        cuLinkAddFile cuLinkCreate
        cuLogicalEndpointAddDevice cuLogicalEndpointBindAddr cuLogicalEndpointBindMem cuLogicalEndpointCreate
        cuLogicalEndpointDestroy cuLogicalEndpointExport cuLogicalEndpointGetLimits cuLogicalEndpointIdRelease
        cuLogicalEndpointIdReserve cuLogicalEndpointImport cuLogicalEndpointQuery cuLogicalEndpointUnbind
        cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory cuMemAdvise cuMemAdvise_v2 cuMemAlloc cuMemAllocHost
        cuMemAllocPitch cuMemBatchDecompressAsync cuMemBatchDecompressAsync_ptsz
        cuMemDiscardAndPrefetchBatchAsync cuMemDiscardAndPrefetchBatchAsync_ptsz cuMemDiscardBatchAsync
        cuMemDiscardBatchAsync_ptsz cuMemFree cuMemGetAddressRange cuMemGetDefaultMemPool
        cuMemGetHandleForAddressRange cuMemGetInfo cuMemGetLocationInfo cuMemGetMemPool
        cuMemHostGetDevicePointer cuMemHostRegister cuMemMapArrayAsync
        cuMemMapArrayAsync_ptsz cuMemPoolExportPointer cuMemPoolExportToShareableHandle
        cuMemPoolImportFromShareableHandle cuMemPoolImportPointer cuMemPrefetchAsync cuMemPrefetchAsync_ptsz
        cuMemPrefetchAsync_v2 cuMemPrefetchAsync_v2_ptsz cuMemPrefetchBatchAsync cuMemPrefetchBatchAsync_ptsz
        cuMemRangeGetAttribute cuMemRangeGetAttributes cuMemSetMemPool cuMemcpy2D cuMemcpy2DAsync
        cuMemcpy2DUnaligned cuMemcpy3D cuMemcpy3DAsync cuMemcpy3DBatchAsync cuMemcpy3DBatchAsync_ptsz
        cuMemcpy3DBatchAsync_v2 cuMemcpy3DBatchAsync_v2_ptsz cuMemcpy3DPeer cuMemcpy3DPeerAsync
        cuMemcpy3DPeerAsync_ptsz cuMemcpy3DPeer_ptds cuMemcpy3DWithAttributesAsync
        cuMemcpy3DWithAttributesAsync_ptsz cuMemcpyAtoA cuMemcpyAtoD
        cuMemcpyAtoH cuMemcpyAtoHAsync
        cuMemcpyBatchAsync
        cuMemcpyBatchAsync_ptsz cuMemcpyBatchAsync_v2 cuMemcpyBatchAsync_v2_ptsz cuMemcpyDtoA
        cuMemcpyDtoD cuMemcpyDtoDAsync cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyHtoA
        cuMemcpyHtoAAsync
        cuMemcpyHtoD cuMemcpyHtoDAsync cuMemcpyWithAttributesAsync cuMemcpyWithAttributesAsync_ptsz cuMemsetD16
        cuMemsetD2D16 cuMemsetD2D16Async cuMemsetD2D16Async_ptsz cuMemsetD2D16_v2 cuMemsetD2D16_v2_ptds
        cuMemsetD2D32 cuMemsetD2D32Async cuMemsetD2D32Async_ptsz cuMemsetD2D32_v2 cuMemsetD2D32_v2_ptds
        cuMemsetD2D8 cuMemsetD2D8Async cuMemsetD2D8Async_ptsz cuMemsetD2D8_v2 cuMemsetD2D8_v2_ptds cuMemsetD32
        cuMemsetD8
        cuMipmappedArrayGetSparseProperties cuModuleEnumerateFunctions
        cuModuleGetGlobal
        cuOccupancyMaxActiveClusters
        cuOccupancyMaxPotentialClusterSize cuParamSetSize cuParamSetf
        cuParamSeti cuParamSetv cuPointerSetAttribute cuSignalExternalSemaphoresAsync
        cuSignalExternalSemaphoresAsync_ptsz
        cuStreamBatchMemOp cuStreamBatchMemOp_ptsz cuStreamBatchMemOp_v2 cuStreamBatchMemOp_v2_ptsz
        cuStreamBeginCaptureToCig cuStreamBeginCaptureToCig_ptsz
                cuStreamBeginRecaptureToGraph
        cuStreamBeginRecaptureToGraph_ptsz cuStreamDestroy
        cuStreamEndCaptureToCig cuStreamEndCaptureToCig_ptsz                 cuStreamGetDevResource cuStreamGetDevResource_ptsz cuStreamGetGreenCtx
                cuStreamWaitValue32
        cuStreamWaitValue32_ptsz cuStreamWaitValue32_v2 cuStreamWaitValue32_v2_ptsz cuStreamWaitValue64
        cuStreamWaitValue64_ptsz cuStreamWaitValue64_v2 cuStreamWaitValue64_v2_ptsz
        cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide
        cuTensorMapSetAllocationClass

        cuWaitExternalSemaphoresAsync
        cuWaitExternalSemaphoresAsync_ptsz
    }
}
