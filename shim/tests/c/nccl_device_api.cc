/* The host's part of NCCL's device API: peers' pointers, device communicators and their requirements. The headers are C++. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nccl_device.h>

#include <cstdlib>

#include "check.h"

constexpr int DEVICES = 4;
constexpr size_t BYTES = 1 << 16;

static ncclComm_t comms[DEVICES];
static float *memory[DEVICES];
static ncclWindow_t windows[DEVICES];

/* A peer's pointer is memory of that peer's device, which copies reach. */
static void pointers() {
    void *pointer = nullptr;
    float value = 0;
    for (int rank = 0; rank < DEVICES; rank++) {
        for (int peer = 0; peer < DEVICES; peer++) {
            SAME(ncclGetPeerDevicePointer(windows[rank], 16, peer, &pointer), ncclSuccess);
            EXPECT(pointer == reinterpret_cast<char *>(memory[peer]) + 16);
            SAME(cudaMemcpy(&value, pointer, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
            SAME(value, peer);
        }
        pointer = &value;
        SAME(ncclGetLsaMultimemDevicePointer(windows[rank], 0, &pointer), ncclSuccess);
        EXPECT(pointer == nullptr);
    }
    SAME(ncclGetPeerDevicePointer(nullptr, 0, 0, &pointer), ncclInvalidArgument);
    SAME(ncclGetPeerDevicePointer(windows[0], 0, 0, nullptr), ncclInvalidArgument);
    SAME(ncclGetPeerDevicePointer(windows[0], 0, DEVICES, &pointer), ncclInvalidArgument);
    SAME(ncclGetPeerDevicePointer(windows[0], 0, -1, &pointer), ncclInvalidArgument);
    SAME(ncclGetPeerDevicePointer(windows[0], BYTES, 1, &pointer), ncclInvalidArgument);
    SAME(ncclGetLsaMultimemDevicePointer(nullptr, 0, &pointer), ncclInvalidArgument);
    SAME(ncclGetLsaMultimemDevicePointer(windows[0], 0, nullptr), ncclInvalidArgument);
}

static void communicators() {
    for (int rank = 0; rank < DEVICES; rank++) {
        ncclDevResourceHandle_t small = 77, large = 77;
        ncclDevResourceRequirements_t second = {}, first = {};
        first.next = &second;
        first.bufferSize = 100;
        first.outBufferHandle = &small;
        second.bufferSize = 4096;
        second.bufferAlign = 1024;
        second.outBufferHandle = &large;
        ncclDevCommRequirements_t wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
        wanted.lsaBarrierCount = 16;
        wanted.resourceRequirementsList = &first;
        ncclDevComm_t made;
        size_t before = 0, after = 0, total = 0;
        SAME(cudaSetDevice(rank), cudaSuccess);
        SAME(cudaMemGetInfo(&before, &total), cudaSuccess);
        SAME(ncclDevCommCreate(comms[rank], &wanted, &made), ncclSuccess);
        SAME(cudaMemGetInfo(&after, &total), cudaSuccess);
        EXPECT(after < before);
        SAME(made.rank, rank);
        SAME(made.nRanks, DEVICES);
        SAME(made.lsaRank, rank);
        SAME(made.lsaSize, DEVICES);
        SAME(made.nRanks_rcp32, nccl::utility::idivRcp32(DEVICES));
        SAME(made.magic, NCCL_API_MAGIC);
        SAME(made.version, NCCL_VERSION_CODE);
        ncclTeam lsa = ncclTeamLsa(made), world = ncclTeamWorld(made), rail = ncclTeamRail(made);
        SAME(lsa.nRanks, DEVICES);
        SAME(world.rank, rank);
        SAME(rail.nRanks, 1);
        /* 16 barriers of 3 words and one for each rank, then what was asked for, each on its boundary. */
        SAME(made.lsaBarrier.nBarriers, 16);
        SAME(ncclGetResourceBufferOffset(made.lsaBarrier.bufHandle), 0);
        SAME(ncclGetResourceBufferOffset(small), (16 * (3 + DEVICES) * 4 + 127) / 128 * 128);
        SAME(ncclGetResourceBufferOffset(large), 1024);
        EXPECT(made.resourceWindow != nullptr);
        SAME(made.ginContextCount, 0);
        SAME(made.ginConnectionCount, 0);
        EXPECT(made.lsaMultimem.mcBasePtr == nullptr);
        SAME(ncclDevCommDestroy(comms[rank], &made), ncclSuccess);
        SAME(cudaMemGetInfo(&after, &total), cudaSuccess);
        EXPECT(after == before);
        SAME(ncclDevCommDestroy(comms[rank], &made), ncclInvalidArgument);

        /* Without buffers there is nothing to destroy. */
        ncclDevCommRequirements_t nothing = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
        SAME(ncclDevCommCreate(comms[rank], &nothing, &made), ncclSuccess);
        EXPECT(made.resourceWindow == nullptr);
        SAME(ncclDevCommDestroy(comms[rank], &made), ncclSuccess);
    }
}

/* What NCCL's headers say of teams: their ranks, and the numbers of other teams' ranks in them. */
static void teams() {
    for (int rank = 0; rank < DEVICES; rank++) {
        ncclTeam world = ncclTeamWorld(comms[rank]), lsa = ncclTeamLsa(comms[rank]), rail = ncclTeamRail(comms[rank]);
        for (ncclTeam team : {world, lsa}) {
            SAME(team.nRanks, DEVICES);
            SAME(team.rank, rank);
            SAME(team.stride, 1);
        }
        SAME(rail.nRanks, 1);
        SAME(rail.rank, 0);
        SAME(rail.stride, DEVICES);
        SAME(ncclTeamRankToWorld(comms[rank], lsa, 3), 3);
        SAME(ncclTeamRankToLsa(comms[rank], world, 2), 2);
        SAME(ncclTeamRankToWorld(comms[rank], rail, 0), rank);
        SAME(ncclTeamRankToWorld(comms[rank], rail, 1), rank + DEVICES);

        ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
        SAME(ncclCommQueryProperties(comms[rank], &properties), ncclSuccess);
        SAME(properties.size, sizeof properties);
        SAME(properties.rank, rank);
        SAME(properties.nRanks, DEVICES);
        SAME(properties.cudaDev, rank);
        SAME(properties.nvmlDev, rank);
        EXPECT(properties.deviceApiSupport && properties.hostRmaSupport && !properties.multimemSupport);
        SAME(properties.ginType, NCCL_GIN_TYPE_NONE);
        SAME(properties.railedGinType, NCCL_GIN_TYPE_NONE);
        SAME(properties.nLsaTeams, 1);

        void *by_rank = nullptr, *by_team = nullptr;
        SAME(ncclGetPeerDevicePointer(windows[rank], 32, 3, &by_rank), ncclSuccess);
        SAME(ncclGetLsaDevicePointer(windows[rank], 32, 3, &by_team), ncclSuccess);
        EXPECT(by_rank == by_team && by_team != nullptr);
        SAME(ncclGetLsaDevicePointer(windows[rank], 32, DEVICES, &by_team), ncclInvalidArgument);
        SAME(ncclGetMultimemDevicePointer(windows[rank], 0, {nullptr}, &by_team), ncclInvalidArgument);
        SAME(ncclGetMultimemDevicePointer(windows[rank], 0, {memory[rank]}, &by_team), ncclSuccess);
        EXPECT(by_team == nullptr);
    }
    ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    SAME(ncclCommQueryProperties(nullptr, &properties), ncclInvalidArgument);
    SAME(ncclCommQueryProperties(comms[0], nullptr), ncclInvalidArgument);
    properties.magic = 0;
    SAME(ncclCommQueryProperties(comms[0], &properties), ncclInvalidUsage);
    properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    properties.version = NCCL_VERSION(2, 99, 0);
    SAME(ncclCommQueryProperties(comms[0], &properties), ncclInvalidUsage);
}

/* Requirements made by NCCL's helpers lead to the same places as those made by hand. */
static void requirements() {
    ncclLsaBarrierHandle_t barrier = {};
    ncclLLA2AHandle_t exchange = {};
    ncclGinBarrierHandle_t network = {};
    ncclDevResourceRequirements_t one, other, signals;
    SAME(ncclLsaBarrierCreateRequirement(ncclTeamLsa(comms[0]), 8, &barrier, &one), ncclSuccess);
    SAME(one.bufferSize, 8 * (3 + DEVICES) * sizeof(uint32_t));
    SAME(one.bufferAlign, sizeof(uint32_t));
    SAME(barrier.nBarriers, 8);
    SAME(ncclLLA2ACalcSlots(10, 12), 20);
    SAME(ncclLLA2ACreateRequirement(4, 20, &exchange, &other), ncclSuccess);
    SAME(other.bufferSize, 4 * (1 + 2 * 20) * 16);
    SAME(exchange.nSlots, 20);
    SAME(ncclGinBarrierCreateRequirement(comms[0], ncclTeamWorld(comms[0]), 3, &network, &signals), ncclSuccess);
    SAME(signals.ginSignalCount, 3 * DEVICES);
    EXPECT(signals.bufferSize == 0 && signals.outGinSignalStart == &network.signal0);

    ncclDevCommRequirements_t wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
    wanted.resourceRequirementsList = &one;
    one.next = &other;
    ncclDevComm_t made;
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(ncclDevCommCreate(comms[0], &wanted, &made), ncclSuccess);
    SAME(ncclGetResourceBufferOffset(barrier.bufHandle), 0);
    SAME(ncclGetResourceBufferOffset(exchange.bufHandle), (8 * (3 + DEVICES) * 4 + 127) / 128 * 128);
    SAME(ncclDevCommDestroy(comms[0], &made), ncclSuccess);
}

static void mistakes() {
    ncclDevComm_t made = {};
    ncclDevCommRequirements_t good = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER, wanted = good;
    SAME(ncclDevCommCreate(nullptr, &good, &made), ncclInvalidArgument);
    SAME(ncclDevCommCreate(comms[0], nullptr, &made), ncclInvalidArgument);
    SAME(ncclDevCommCreate(comms[0], &good, nullptr), ncclInvalidArgument);
    wanted.magic = 0;
    SAME(ncclDevCommCreate(comms[0], &wanted, &made), ncclInvalidUsage);
    wanted = good;
    wanted.version = NCCL_VERSION(2, 99, 0);
    SAME(ncclDevCommCreate(comms[0], &wanted, &made), ncclInvalidUsage);
    wanted = good;
    wanted.lsaMultimem = true;
    SAME(ncclDevCommCreate(comms[0], &wanted, &made), ncclInvalidArgument);
    wanted = good;
    wanted.ginSignalCount = 1; /* and no GIN */
    SAME(ncclDevCommCreate(comms[0], &wanted, &made), ncclInvalidArgument);
    wanted.ginConnectionType = NCCL_GIN_CONNECTION_FULL; /* which is not there */
    SAME(ncclDevCommCreate(comms[0], &wanted, &made), ncclInvalidArgument);
    ncclMultimemHandle_t handle;
    ncclTeamRequirements_t team = {nullptr, {DEVICES, 0, 1}, true, &handle};
    wanted = good;
    wanted.teamRequirementsList = &team;
    SAME(ncclDevCommCreate(comms[0], &wanted, &made), ncclInvalidArgument);
    SAME(ncclDevCommDestroy(comms[0], nullptr), ncclInvalidArgument);
    SAME(ncclDevCommDestroy(comms[0], &made), ncclInvalidArgument);
}

int main() {
    setenv("FAKEGPU_PROFILES", "a100:4", 1);
    SAME(ncclCommInitAll(comms, DEVICES, nullptr), ncclSuccess);
    for (int rank = 0; rank < DEVICES; rank++) {
        float value = static_cast<float>(rank);
        SAME(cudaSetDevice(rank), cudaSuccess);
        SAME(ncclMemAlloc(reinterpret_cast<void **>(&memory[rank]), BYTES), ncclSuccess);
        for (size_t i = 0; i < 8; i++)
            SAME(cudaMemcpy(memory[rank] + i, &value, sizeof value, cudaMemcpyHostToDevice), cudaSuccess);
        SAME(ncclCommWindowRegister(comms[rank], memory[rank], BYTES, &windows[rank], NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    }
    pointers();
    communicators();
    teams();
    requirements();
    mistakes();
    for (int rank = 0; rank < DEVICES; rank++) SAME(ncclCommDestroy(comms[rank]), ncclSuccess);
    void *pointer = nullptr;
    SAME(ncclGetPeerDevicePointer(windows[0], 0, 0, &pointer), ncclInvalidArgument);
    return failures();
}
