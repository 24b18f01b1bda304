//! NCCL's C symbols: all that NCCL 2.30 and 2.32 export.

use std::ffi::{c_char, c_int, c_uint, c_void};

use abi::argument::Out;

use crate::boundary::table::exports;
use crate::call_site::caller::noted;
use crate::nccl::device_communicator::{DeviceCommunicator, Requirements, Resource};
use crate::nccl::header::{Config, SignalWait, SimulationInfo, UniqueId};
use crate::nccl::properties::Properties;
use crate::nccl::requirement::Pair;
use crate::nccl::team::Team;
use crate::nccl::{
    collective, device_communicator, group, info, init, log, memory, one_sided, point_to_point, properties, reduction,
    requirement, resize, suspension, team, window,
};

exports! {
    library Nccl;
    real {
        fn ncclGetUniqueId(out: Out<UniqueId>) = init::unique_id;
        fn ncclCommGetUniqueId(communicator: usize, out: Out<UniqueId>) = resize::unique_id;
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
        fn ncclGetLsaDevicePointer(window: usize, offset: usize, rank: c_int, out: Out<usize>) = window::lsa_pointer;
        fn ncclGetMultimemDevicePointer(window: usize, offset: usize, multicast: usize, out: Out<usize>)
            = window::multicast_pointer;
        fn ncclCommQueryProperties(communicator: usize, properties: *mut Properties) = properties::query;
        fn ncclLsaBarrierCreateRequirement(team: Team, count: c_int, handle: Out<Pair>, out: Out<Resource>)
            = requirement::lsa_barrier;
        fn ncclLLA2ACreateRequirement(blocks: c_int, slots: c_int, handle: Out<Pair>, out: Out<Resource>)
            = requirement::all_to_all;
        fn ncclGinBarrierCreateRequirement(
            communicator: usize, team: Team, count: c_int, handle: Out<Pair>, out: Out<Resource>
        ) = requirement::gin_barrier;
        fn ncclDevCommCreate(
            communicator: usize, requirements: *const Requirements, out: Out<DeviceCommunicator>
        ) = device_communicator::create;
        fn ncclDevCommDestroy(communicator: usize, from: Out<DeviceCommunicator>) = device_communicator::destroy;
    }
    called noted {
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
        fn ncclCommGrow(
            parent: usize, size: c_int, id: Out<UniqueId>, rank: c_int, out: Out<usize>, config: Out<Config>
        ) = resize::grow;
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
    }
    bare {
        fn ncclGetVersion(out: Out<c_int>) = info::version;
    }
    raw {
        fn ncclGetErrorString(result: c_uint) -> *const c_char = info::error_string;
        fn ncclGetLastError(communicator: usize) -> *const c_char = info::last_error;
        fn ncclTeamWorld(communicator: usize) -> Team = team::world;
        fn ncclTeamLsa(communicator: usize) -> Team = team::lsa;
        fn ncclTeamRail(communicator: usize) -> Team = team::rail;
        fn ncclTeamRankToWorld(communicator: usize, team: Team, rank: c_int) -> c_int = team::rank_to_world;
        fn ncclTeamRankToLsa(communicator: usize, team: Team, rank: c_int) -> c_int = team::rank_to_lsa;
        fn ncclLLA2ACalcSlots(elements: c_int, bytes: c_int) -> c_int = requirement::all_to_all_slots;
        fn ncclResetDebugInit() = log::reset;
        fn ncclResetDebugInitInternal() = log::reset;
    }
    stub {
        ncclAllGatherConfig ncclAllReduceConfig ncclAlltoAllConfig ncclBroadcastConfig ncclGatherConfig
        ncclGetCftDeviceLeInfo ncclGetMultimemDeviceLeInfo ncclGetPeerDeviceLeInfo
        ncclGinInboxA2ACreateRequirement ncclGinOutboxCreateRequirement ncclParamBind ncclParamDumpAll
        ncclParamGet ncclParamGetAllParameterKeys ncclParamGetI16 ncclParamGetI32 ncclParamGetI64 ncclParamGetI8
        ncclParamGetParameter ncclParamGetStr ncclParamGetU16 ncclParamGetU32 ncclParamGetU64 ncclParamGetU8
        ncclReduceConfig ncclReduceScatterConfig ncclScatterConfig ncclSetEncryption
    }
    empty {
        ncclTeamCft ncclTeamCftMultimem
    }
    second {
        Real pncclAllGather = ncclAllGather;
        Stub pncclAllGatherConfig = ncclAllGatherConfig;
        Real pncclAllReduce = ncclAllReduce;
        Stub pncclAllReduceConfig = ncclAllReduceConfig;
        Real pncclAlltoAll = ncclAlltoAll;
        Stub pncclAlltoAllConfig = ncclAlltoAllConfig;
        Real pncclBcast = ncclBcast;
        Real pncclBroadcast = ncclBroadcast;
        Stub pncclBroadcastConfig = ncclBroadcastConfig;
        Real pncclCommAbort = ncclCommAbort;
        Real pncclCommCount = ncclCommCount;
        Real pncclCommCuDevice = ncclCommCuDevice;
        Real pncclCommDeregister = ncclCommDeregister;
        Real pncclCommDestroy = ncclCommDestroy;
        Real pncclCommFinalize = ncclCommFinalize;
        Real pncclCommGetAsyncError = ncclCommGetAsyncError;
        Real pncclCommGetUniqueId = ncclCommGetUniqueId;
        Real pncclCommGrow = ncclCommGrow;
        Real pncclCommInitAll = ncclCommInitAll;
        Real pncclCommInitRank = ncclCommInitRank;
        Real pncclCommInitRankConfig = ncclCommInitRankConfig;
        Real pncclCommInitRankScalable = ncclCommInitRankScalable;
        Real pncclCommMemStats = ncclCommMemStats;
        Real pncclCommQueryProperties = ncclCommQueryProperties;
        Real pncclCommRegister = ncclCommRegister;
        Real pncclCommResume = ncclCommResume;
        Real pncclCommRevoke = ncclCommRevoke;
        Real pncclCommShrink = ncclCommShrink;
        Real pncclCommSplit = ncclCommSplit;
        Real pncclCommSuspend = ncclCommSuspend;
        Real pncclCommUserRank = ncclCommUserRank;
        Real pncclCommWindowDeregister = ncclCommWindowDeregister;
        Real pncclCommWindowRegister = ncclCommWindowRegister;
        Real pncclDevCommCreate = ncclDevCommCreate;
        Real pncclDevCommDestroy = ncclDevCommDestroy;
        Real pncclGather = ncclGather;
        Stub pncclGatherConfig = ncclGatherConfig;
        Stub pncclGetCftDeviceLeInfo = ncclGetCftDeviceLeInfo;
        Real pncclGetErrorString = ncclGetErrorString;
        Real pncclGetLastError = ncclGetLastError;
        Real pncclGetLsaDevicePointer = ncclGetLsaDevicePointer;
        Real pncclGetLsaMultimemDevicePointer = ncclGetLsaMultimemDevicePointer;
        Stub pncclGetMultimemDeviceLeInfo = ncclGetMultimemDeviceLeInfo;
        Real pncclGetMultimemDevicePointer = ncclGetMultimemDevicePointer;
        Stub pncclGetPeerDeviceLeInfo = ncclGetPeerDeviceLeInfo;
        Real pncclGetPeerDevicePointer = ncclGetPeerDevicePointer;
        Real pncclGetUniqueId = ncclGetUniqueId;
        Real pncclGetVersion = ncclGetVersion;
        Real pncclGinBarrierCreateRequirement = ncclGinBarrierCreateRequirement;
        Stub pncclGinInboxA2ACreateRequirement = ncclGinInboxA2ACreateRequirement;
        Stub pncclGinOutboxCreateRequirement = ncclGinOutboxCreateRequirement;
        Real pncclGroupEnd = ncclGroupEnd;
        Real pncclGroupSimulateEnd = ncclGroupSimulateEnd;
        Real pncclGroupStart = ncclGroupStart;
        Real pncclLLA2ACalcSlots = ncclLLA2ACalcSlots;
        Real pncclLLA2ACreateRequirement = ncclLLA2ACreateRequirement;
        Real pncclLsaBarrierCreateRequirement = ncclLsaBarrierCreateRequirement;
        Real pncclMemAlloc = ncclMemAlloc;
        Real pncclMemFree = ncclMemFree;
        Stub pncclParamBind = ncclParamBind;
        Stub pncclParamDumpAll = ncclParamDumpAll;
        Stub pncclParamGet = ncclParamGet;
        Stub pncclParamGetAllParameterKeys = ncclParamGetAllParameterKeys;
        Stub pncclParamGetI16 = ncclParamGetI16;
        Stub pncclParamGetI32 = ncclParamGetI32;
        Stub pncclParamGetI64 = ncclParamGetI64;
        Stub pncclParamGetI8 = ncclParamGetI8;
        Stub pncclParamGetParameter = ncclParamGetParameter;
        Stub pncclParamGetStr = ncclParamGetStr;
        Stub pncclParamGetU16 = ncclParamGetU16;
        Stub pncclParamGetU32 = ncclParamGetU32;
        Stub pncclParamGetU64 = ncclParamGetU64;
        Stub pncclParamGetU8 = ncclParamGetU8;
        Real pncclPutSignal = ncclPutSignal;
        Real pncclRecv = ncclRecv;
        Real pncclRedOpCreatePreMulSum = ncclRedOpCreatePreMulSum;
        Real pncclRedOpDestroy = ncclRedOpDestroy;
        Real pncclReduce = ncclReduce;
        Stub pncclReduceConfig = ncclReduceConfig;
        Real pncclReduceScatter = ncclReduceScatter;
        Stub pncclReduceScatterConfig = ncclReduceScatterConfig;
        Real pncclResetDebugInit = ncclResetDebugInit;
        Real pncclScatter = ncclScatter;
        Stub pncclScatterConfig = ncclScatterConfig;
        Real pncclSend = ncclSend;
        Stub pncclSetEncryption = ncclSetEncryption;
        Real pncclSignal = ncclSignal;
        Stub pncclTeamCft = ncclTeamCft;
        Stub pncclTeamCftMultimem = ncclTeamCftMultimem;
        Real pncclTeamLsa = ncclTeamLsa;
        Real pncclTeamRail = ncclTeamRail;
        Real pncclTeamRankToLsa = ncclTeamRankToLsa;
        Real pncclTeamRankToWorld = ncclTeamRankToWorld;
        Real pncclTeamWorld = ncclTeamWorld;
        Real pncclWaitSignal = ncclWaitSignal;
        Real pncclWinGetUserPtr = ncclWinGetUserPtr;
    }
}
