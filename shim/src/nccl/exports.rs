//! NCCL's C symbols.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::abi::{Config, SignalWait, SimulationInfo, UniqueId};
use super::device_communicator::{DeviceCommunicator, Requirements};
use super::{
    collective, device_communicator, group, info, init, memory, one_sided, point_to_point, reduction, resize,
    suspension, window,
};
use crate::boundary::args::Out;
use crate::boundary::exports::exports;

exports! {
    library Nccl;
    real {
        fn ncclGetUniqueId(out: Out<UniqueId>) = init::unique_id;
        fn ncclCommInitRank(out: Out<usize>, size: c_int, id: UniqueId, rank: c_int) = init::init_rank;
        fn ncclCommInitRankConfig(out: Out<usize>, size: c_int, id: UniqueId, rank: c_int, config: Out<Config>)
            = init::init_rank_config;
        fn ncclCommInitRankScalable(
            out: Out<usize>, size: c_int, rank: c_int, id_count: c_int, ids: Out<UniqueId>, config: Out<Config>
        ) = init::init_rank_scalable;
        fn ncclCommInitAll(out: Out<usize>, count: c_int, devices: *const c_int) = init::init_all;
        fn ncclCommSplit(parent: usize, color: c_int, key: c_int, out: Out<usize>, config: Out<Config>) = init::split;
        fn ncclCommShrink(
            parent: usize, excluded: *const c_int, count: c_int, out: Out<usize>, config: Out<Config>, flags: c_int
        ) = resize::shrink;
        fn ncclCommGetUniqueId(communicator: usize, out: Out<UniqueId>) = resize::unique_id;
        fn ncclCommGrow(
            parent: usize, size: c_int, id: Out<UniqueId>, rank: c_int, out: Out<usize>, config: Out<Config>
        ) = resize::grow;
        fn ncclCommRevoke(communicator: usize, flags: c_int) = resize::revoke;
        fn ncclCommSuspend(communicator: usize, flags: c_int) = suspension::suspend;
        fn ncclCommResume(communicator: usize) = suspension::resume;
        fn ncclCommMemStats(communicator: usize, statistic: c_int, out: Out<u64>) = suspension::statistic;
        fn ncclCommFinalize(communicator: usize) = init::finalize;
        fn ncclCommDestroy(communicator: usize) = init::destroy;
        fn ncclCommAbort(communicator: usize) = init::abort;
        fn ncclCommGetAsyncError(communicator: usize, out: Out<c_uint>) = info::async_error;
        fn ncclCommCount(communicator: usize, out: Out<c_int>) = info::count;
        fn ncclCommUserRank(communicator: usize, out: Out<c_int>) = info::user_rank;
        fn ncclCommCuDevice(communicator: usize, out: Out<c_int>) = info::device;
        fn ncclGroupStart() = group::start;
        fn ncclGroupEnd() = group::end;
        fn ncclGroupSimulateEnd(out: Out<SimulationInfo>) = group::simulate_end;
        fn ncclRedOpCreatePreMulSum(
            out: Out<c_int>, scalar: *mut c_void, datatype: c_int, residence: c_uint, communicator: usize
        ) = reduction::create_premultiplied;
        fn ncclRedOpDestroy(op: c_int, communicator: usize) = reduction::destroy;
        fn ncclAllReduce(
            send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, op: c_int,
            communicator: usize, stream: usize
        ) = collective::all_reduce;
        fn ncclReduce(
            send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, op: c_int, root: c_int,
            communicator: usize, stream: usize
        ) = collective::reduce;
        fn ncclBcast(
            buffer: *mut c_void, count: usize, datatype: c_int, root: c_int, communicator: usize, stream: usize
        ) = collective::bcast;
        fn ncclBroadcast(
            send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, root: c_int,
            communicator: usize, stream: usize
        ) = collective::broadcast;
        fn ncclAllGather(
            send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int,
            communicator: usize, stream: usize
        ) = collective::all_gather;
        fn ncclReduceScatter(
            send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, op: c_int,
            communicator: usize, stream: usize
        ) = collective::reduce_scatter;
        fn ncclAlltoAll(
            send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int,
            communicator: usize, stream: usize
        ) = collective::all_to_all;
        fn ncclAllToAll(
            send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int,
            communicator: usize, stream: usize
        ) = collective::all_to_all;
        fn ncclGather(
            send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, root: c_int,
            communicator: usize, stream: usize
        ) = collective::gather;
        fn ncclScatter(
            send: *const c_void, receive: *mut c_void, count: usize, datatype: c_int, root: c_int,
            communicator: usize, stream: usize
        ) = collective::scatter;
        fn ncclSend(
            buffer: *const c_void, count: usize, datatype: c_int, peer: c_int, communicator: usize, stream: usize
        ) = point_to_point::send;
        fn ncclRecv(
            buffer: *mut c_void, count: usize, datatype: c_int, peer: c_int, communicator: usize, stream: usize
        ) = point_to_point::receive;
        fn ncclMemAlloc(out: Out<usize>, size: usize) = memory::allocate;
        fn ncclMemFree(address: usize) = memory::free;
        fn ncclCommRegister(communicator: usize, base: *mut c_void, size: usize, out: Out<usize>) = memory::register;
        fn ncclCommDeregister(communicator: usize, handle: usize) = memory::deregister;
        fn ncclCommWindowRegister(
            communicator: usize, base: *mut c_void, size: usize, out: Out<usize>, flags: c_int
        ) = window::register;
        fn ncclCommWindowDeregister(communicator: usize, window: usize) = window::deregister;
        fn ncclWinGetUserPtr(communicator: usize, window: usize, out: Out<usize>) = window::user_pointer;
        fn ncclGetPeerDevicePointer(window: usize, offset: usize, peer: c_int, out: Out<usize>) = window::peer_pointer;
        fn ncclGetLsaMultimemDevicePointer(window: usize, offset: usize, out: Out<usize>) = window::multimem_pointer;
        fn ncclPutSignal(
            local: *const c_void, count: usize, datatype: c_int, peer: c_int, window: usize, offset: usize,
            signal: c_int, context: c_int, flags: c_uint, communicator: usize, stream: usize
        ) = one_sided::put_signal;
        fn ncclSignal(
            peer: c_int, signal: c_int, context: c_int, flags: c_uint, communicator: usize, stream: usize
        ) = one_sided::signal;
        fn ncclWaitSignal(
            count: c_int, waits: *const SignalWait, communicator: usize, stream: usize
        ) = one_sided::wait_signal;
        fn ncclDevCommCreate(
            communicator: usize, requirements: *const Requirements, out: Out<DeviceCommunicator>
        ) = device_communicator::create;
        fn ncclDevCommDestroy(communicator: usize, from: Out<DeviceCommunicator>) = device_communicator::destroy;
    }
    bare {
        fn ncclGetVersion(out: Out<c_int>) = info::version;
    }
    raw {
        fn ncclGetErrorString(result: c_uint) -> *const c_char = info::error_string;
        fn ncclGetLastError(communicator: usize) -> *const c_char = info::last_error;
    }
}
