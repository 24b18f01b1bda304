/* Processes of one machine share its GPUs: memory, what is left of it, and what a monitor sees, until they die, exec or reset. */
#include <cuda_runtime_api.h>
#include <nvml.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static const size_t GIB = 1ul << 30;
/* What a context takes (docs/device.md). */
static const size_t CONTEXT = 512ul << 20;

static int to_child[2], to_parent[2];

static void tell(int pipe, char word) { SAME(write(pipe, &word, 1), 1); }

static char hear(int pipe) {
    char word = 0;
    SAME(read(pipe, &word, 1), 1);
    return word;
}

/* A process that holds `gib` GiB of the device. Its input says what to do then: q(uit), e(xec), r(eset), f(ree), k(eep a child). */
static pid_t neighbor(int device, int gib) {
    pid_t child = fork();
    if (child) {
        SAME(hear(to_parent[0]), 'h');
        return child;
    }
    void *memory = NULL;
    pid_t kept;
    alarm(30);
    SAME(cudaSetDevice(device), cudaSuccess);
    if (gib) SAME(cudaMalloc(&memory, (size_t)gib * GIB), cudaSuccess);
    tell(to_parent[1], failed ? 'x' : 'h');
    for (;;) {
        switch (hear(to_child[0])) {
        case 'e':
            execlp("sh", "sh", "-c", "printf e >&$FTEST_TEST_PIPE; exec sleep 20", (char *)NULL);
            _exit(9);
        case 'r': SAME(cudaDeviceReset(), cudaSuccess); break;
        case 'f': SAME(cudaFree(memory), cudaSuccess); break;
        case 'k':
            kept = fork();
            if (kept == 0) {
                alarm(30);
                for (;;) pause();
            }
            SAME(write(to_parent[1], &kept, sizeof kept), sizeof kept);
            continue;
        default: _exit(failures());
        }
        tell(to_parent[1], 'd');
    }
}

static unsigned long long used(unsigned device, unsigned *processes, unsigned *first, unsigned long long *bytes) {
    nvmlDevice_t handle;
    nvmlMemory_t memory;
    nvmlProcessInfo_t list[8];
    unsigned count = 8;
    SAME(nvmlDeviceGetHandleByIndex_v2(device, &handle), NVML_SUCCESS);
    SAME(nvmlDeviceGetMemoryInfo(handle, &memory), NVML_SUCCESS);
    SAME(memory.used + memory.free, memory.total);
    SAME(nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, list), NVML_SUCCESS);
    unsigned long long sum = 0;
    for (unsigned i = 0; i < count; i++) sum += list[i].usedGpuMemory;
    SAME(sum, memory.used);
    if (processes) *processes = count;
    if (first && count) *first = list[0].pid;
    if (bytes && count) *bytes = list[0].usedGpuMemory;
    return memory.used;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* A GPU that runs nothing draws so many watts, whoever looks and however long that takes. Its energy so far, mJ. */
static unsigned long long draws(nvmlDevice_t device, double watts) {
    unsigned long long before = 0, after = 0;
    double start = now();
    SAME(nvmlDeviceGetTotalEnergyConsumption(device, &before), NVML_SUCCESS);
    double first = now();
    usleep(50000);
    double second = now();
    SAME(nvmlDeviceGetTotalEnergyConsumption(device, &after), NVML_SUCCESS);
    double most = (now() - start) * watts * 1000 + 1, least = (second - first) * watts * 1000 - 1;
    if (after - before < least || after - before > most) {
        failed++;
        fprintf(stderr, "%.0f W: %llu mJ, not from %.1f to %.1f\n", watts, after - before, least, most);
    }
    nvmlFieldValue_t field = {.fieldId = NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION};
    SAME(nvmlDeviceGetFieldValues(device, 1, &field), NVML_SUCCESS);
    SAME(field.nvmlReturn, NVML_SUCCESS);
    EXPECT(field.valueType == NVML_VALUE_TYPE_UNSIGNED_LONG_LONG && field.value.ullVal >= after);
    return after;
}

static void end(pid_t child) {
    int status = -1;
    tell(to_child[1], 'q');
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
}

int main(void) {
    alarm(50);
    char path[] = "gpus-XXXXXX", number[16];
    unsigned count = 9, pid = 0;
    unsigned long long bytes = 0;
    size_t before = 0, after = 0, total = 0;
    void *memory = NULL;
    SAME(close(mkstemp(path)), 0);
    setenv("FTEST_GPUS", path, 1);
    SAME(pipe(to_child), 0);
    SAME(pipe(to_parent), 0);
    snprintf(number, sizeof number, "%d", to_parent[1]);
    setenv("FTEST_TEST_PIPE", number, 1);

    /* A monitor that uses no GPU itself sees the others. */
    pid_t first = neighbor(0, 1);
    SAME(nvmlInit_v2(), NVML_SUCCESS);
    SAME(used(0, &count, &pid, &bytes), GIB + CONTEXT);
    SAME(count, 1);
    SAME(pid, first);
    SAME(bytes, GIB + CONTEXT);
    SAME(used(1, &count, NULL, NULL), 0);
    SAME(count, 0);
    nvmlDevice_t handle;
    count = 0;
    SAME(nvmlDeviceGetHandleByIndex_v2(0, &handle), NVML_SUCCESS);
    SAME(nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
    SAME(count, 1);

    end(first);
    SAME(used(0, &count, NULL, NULL), 0);

    /* The memory of a program that execs is given back, although the process lives on. */
    pid_t third = neighbor(1, 3);
    SAME(used(1, &count, NULL, NULL), 3 * GIB + CONTEXT);
    tell(to_child[1], 'e');
    SAME(hear(to_parent[0]), 'e');
    SAME(used(1, &count, NULL, NULL), 0);
    SAME(count, 0);
    SAME(kill(third, SIGKILL), 0);
    SAME(waitpid(third, NULL, 0), third);

    /* A forked child does not keep its parent's memory alive. */
    pid_t fourth = neighbor(1, 2);
    tell(to_child[1], 'k');
    pid_t kept = 0;
    SAME(read(to_parent[0], &kept, sizeof kept), sizeof kept);
    SAME(used(1, &count, &pid, NULL), 2 * GIB + CONTEXT);
    SAME(count, 1);
    SAME(pid, fourth);
    end(fourth);
    SAME(used(1, &count, NULL, NULL), 0);
    SAME(count, 0);
    SAME(kill(kept, SIGKILL), 0);

    /* A reset ends the context. */
    pid_t fifth = neighbor(1, 0);
    SAME(used(1, &count, NULL, NULL), CONTEXT);
    SAME(count, 1);
    tell(to_child[1], 'r');
    SAME(hear(to_parent[0]), 'd');
    SAME(used(1, &count, NULL, NULL), 0);
    SAME(count, 0);
    end(fifth);

    /* From here on this process uses the GPU, too, so it forks no more. */
    first = neighbor(0, 1);
    pid_t second = neighbor(0, 70);
    SAME(used(0, &count, NULL, NULL), 71 * GIB + 2 * CONTEXT);
    SAME(count, 2);

    /* A monitor sees what goes over PCIe, and that GPUs with a context are warmer and draw more. */
    unsigned value = 0, other = 0;
    void *host = malloc(64 << 20);
    SAME(cudaMalloc(&memory, 64 << 20), cudaSuccess);
    /* Of the last second, which a busy machine lets pass between copy and question. */
    for (int copies = 1; value == 0 && copies <= 20; copies++) {
        SAME(cudaMemcpy(memory, host, 64 << 20, cudaMemcpyHostToDevice), cudaSuccess);
        SAME(nvmlDeviceGetPcieThroughput(handle, NVML_PCIE_UTIL_RX_BYTES, &value), NVML_SUCCESS);
        EXPECT(value <= (unsigned)copies * (64 << 10));
    }
    EXPECT(value > 0);
    SAME(nvmlDeviceGetPcieThroughput(handle, NVML_PCIE_UTIL_TX_BYTES, &other), NVML_SUCCESS);
    SAME(other, 0);
    SAME(cudaFree(memory), cudaSuccess);
    free(host);
    SAME(nvmlDeviceGetTemperature(handle, NVML_TEMPERATURE_GPU, &value), NVML_SUCCESS);
    SAME(value, 33);
    SAME(nvmlDeviceGetPowerUsage(handle, &value), NVML_SUCCESS);
    SAME(value, 60000);
    nvmlDevice_t unused;
    SAME(nvmlDeviceGetHandleByIndex_v2(1, &unused), NVML_SUCCESS);
    SAME(nvmlDeviceGetPowerUsage(unused, &value), NVML_SUCCESS);
    SAME(value, 40000);
    unsigned long long energy = draws(handle, 60);
    EXPECT(energy > draws(unused, 40));

    /* 80 GiB less what three contexts and two processes hold. */
    SAME(cudaMemGetInfo(&before, &total), cudaSuccess);
    SAME(total, 80 * GIB);
    SAME(before, 9 * GIB - 3 * CONTEXT);
    SAME(cudaMalloc(&memory, 8 * GIB), cudaErrorMemoryAllocation);
    SAME(cudaGetLastError(), cudaErrorMemoryAllocation);
    SAME(cudaMalloc(&memory, 7 * GIB), cudaSuccess);
    SAME(cudaMemGetInfo(&after, &total), cudaSuccess);
    SAME(after, before - 7 * GIB);
    SAME(used(0, &count, NULL, NULL), 78 * GIB + 3 * CONTEXT);
    SAME(count, 3);
    SAME(cudaFree(memory), cudaSuccess);

    /* Freed by its owner, and then all of its memory by SIGKILL. */
    tell(to_child[1], 'f');
    char who = hear(to_parent[0]);
    SAME(who, 'd');
    /* Either of the two heard it. */
    unsigned long long left = used(0, NULL, NULL, NULL) - 3 * CONTEXT;
    EXPECT(left == GIB || left == 70 * GIB);
    SAME(kill(second, SIGKILL), 0);
    SAME(kill(first, SIGKILL), 0);
    SAME(waitpid(first, NULL, 0), first);
    SAME(waitpid(second, NULL, 0), second);
    SAME(used(0, &count, &pid, NULL), CONTEXT);
    SAME(count, 1);
    SAME(pid, getpid());
    SAME(cudaMalloc(&memory, 79 * GIB), cudaSuccess);
    SAME(cudaFree(memory), cudaSuccess);

    /* What was drawn stays so when those who drew it are gone. */
    EXPECT(draws(handle, 60) > energy);
    SAME(cudaDeviceReset(), cudaSuccess);
    EXPECT(draws(handle, 40) > energy);

    unlink(path);
    return failures();
}
