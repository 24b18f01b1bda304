/* What belongs to one device and is used with another: what CUDA refuses and what it allows ("Stream and Event Behavior" of the
 * Programming Guide, the manuals of the runtime and the driver), and which memory a kernel reaches. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const char TEXT[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry store(.param .u64 p) { .reg .u64 %d; .reg .u32 %r; ld.param.u64 %d, [p]; mov.u32 %r, 7;\n"
    "  st.global.u32 [%d], %r; ret; }\n";

static cudaStream_t streams[2];
static int *memory[2];
static cudaLibrary_t library;
static cudaKernel_t kernel;

static void make(void) {
    for (int device = 0; device < 2; device++) {
        SAME(cudaSetDevice(device), cudaSuccess);
        SAME(cudaStreamCreate(&streams[device]), cudaSuccess);
        SAME(cudaMalloc((void **)&memory[device], 4096), cudaSuccess);
        SAME(cudaMemset(memory[device], 0, 4096), cudaSuccess);
    }
    SAME(cudaLibraryLoadData(&library, TEXT, NULL, NULL, 0, NULL, NULL, 0), cudaSuccess);
    SAME(cudaLibraryGetKernel(&kernel, library, "store"), cudaSuccess);
}

static int word(const int *address) {
    int host = -1;
    SAME(cudaMemcpy(&host, address, sizeof host, cudaMemcpyDefault), cudaSuccess);
    return host;
}

static cudaError_t launch(int *address, cudaStream_t stream) {
    void *parameters[] = {&address};
    dim3 one = {1, 1, 1};
    return cudaLaunchKernel((const void *)kernel, one, one, parameters, 0, stream);
}

static cudaError_t launch_ex(int *address, cudaStream_t stream, cudaLaunchAttribute *attribute) {
    void *parameters[] = {&address};
    cudaLaunchConfig_t configuration = {.gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}, .stream = stream, .attrs = attribute, .numAttrs = attribute != NULL};
    return cudaLaunchKernelExC(&configuration, (const void *)kernel, parameters);
}

/* "A kernel launch will fail if it is issued to a stream that is not associated to the current device." */
static void launches(void) {
    void *parameters[] = {&memory[1]};
    dim3 one = {1, 1, 1};
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(launch(memory[1], streams[1]), cudaErrorInvalidResourceHandle);
    SAME(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    SAME(launch_ex(memory[1], streams[1], NULL), cudaErrorInvalidResourceHandle);
    SAME(cudaLaunchCooperativeKernel((const void *)kernel, one, one, parameters, 0, streams[1]), cudaErrorInvalidResourceHandle);
    SAME(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    SAME(cudaStreamSynchronize(streams[1]), cudaSuccess);
    SAME(word(memory[1]), 0);
    /* Also where the stream captures; the capture goes on. */
    cudaGraph_t graph;
    size_t nodes = 9;
    SAME(cudaStreamBeginCapture(streams[1], cudaStreamCaptureModeRelaxed), cudaSuccess);
    SAME(launch(memory[1], streams[1]), cudaErrorInvalidResourceHandle);
    SAME(cudaStreamEndCapture(streams[1], &graph), cudaSuccess);
    SAME(cudaGraphGetNodes(graph, NULL, &nodes), cudaSuccess);
    SAME(nodes, 0);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    (void)cudaGetLastError();
    /* The default streams are those of the current device, and so is one's own. */
    for (int device = 0; device < 2; device++) {
        cudaStream_t right[] = {streams[device], NULL, cudaStreamLegacy, cudaStreamPerThread};
        SAME(cudaSetDevice(device), cudaSuccess);
        for (int i = 0; i < 4; i++) {
            SAME(cudaMemset(memory[device], 0, 4), cudaSuccess);
            SAME(launch(memory[device], right[i]), cudaSuccess);
            SAME(cudaStreamSynchronize(right[i]), cudaSuccess);
            SAME(word(memory[device]), 7);
        }
        SAME(launch_ex(memory[device], streams[device], NULL), cudaSuccess);
        SAME(cudaStreamSynchronize(streams[device]), cudaSuccess);
    }
}

/* A function of a module belongs to the context into which the module was loaded; "the context to launch [a kernel of a library] on
 * will be taken from the specified stream". */
static void functions(void) {
    CUmodule module;
    CUfunction function;
    CUlibrary of_driver;
    CUkernel of_library;
    void *parameters[] = {&memory[1]};
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(cuModuleLoadData(&module, TEXT), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&function, module, "store"), CUDA_SUCCESS);
    SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[1], parameters, NULL), CUDA_ERROR_INVALID_HANDLE);
    SAME(cudaSetDevice(1), cudaSuccess);
    SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[1], parameters, NULL), CUDA_ERROR_INVALID_HANDLE);
    SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_ERROR_INVALID_HANDLE);
    SAME(cuModuleUnload(module), CUDA_SUCCESS);
    SAME(cuModuleLoadData(&module, TEXT), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&function, module, "store"), CUDA_SUCCESS);
    SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[1], parameters, NULL), CUDA_SUCCESS);
    SAME(cuModuleUnload(module), CUDA_SUCCESS);
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(cudaMemset(memory[1], 0, 4), cudaSuccess);
    SAME(cuLibraryLoadData(&of_driver, TEXT, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
    SAME(cuLibraryGetKernel(&of_library, of_driver, "store"), CUDA_SUCCESS);
    SAME(cuLaunchKernel((CUfunction)of_library, 1, 1, 1, 1, 1, 1, 0, streams[1], parameters, NULL), CUDA_SUCCESS);
    SAME(cudaStreamSynchronize(streams[1]), cudaSuccess);
    SAME(word(memory[1]), 7);
    SAME(cuLibraryUnload(of_driver), CUDA_SUCCESS);
}

/* cudaEventRecord and cudaEventElapsedTime fail between devices; waits, queries and synchronization succeed. */
static void events(void) {
    cudaEvent_t of[2], second;
    float ms = -1;
    for (int device = 0; device < 2; device++) {
        SAME(cudaSetDevice(device), cudaSuccess);
        SAME(cudaEventCreate(&of[device]), cudaSuccess);
    }
    SAME(cudaEventCreate(&second), cudaSuccess);
    SAME(cudaEventRecord(of[0], streams[1]), cudaErrorInvalidResourceHandle);
    SAME(cudaEventRecord(of[0], NULL), cudaErrorInvalidResourceHandle);
    SAME(cudaEventRecord(of[0], streams[0]), cudaSuccess);
    SAME(cudaEventRecord(of[1], streams[1]), cudaSuccess);
    SAME(cudaEventRecord(second, NULL), cudaSuccess);
    SAME(cudaStreamWaitEvent(streams[1], of[0], 0), cudaSuccess);
    SAME(cudaStreamWaitEvent(streams[0], of[1], 0), cudaSuccess);
    SAME(cudaEventSynchronize(of[0]), cudaSuccess);
    SAME(cudaEventQuery(of[0]), cudaSuccess);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    SAME(cudaEventElapsedTime(&ms, of[0], of[1]), cudaErrorInvalidResourceHandle);
    SAME(cudaEventElapsedTime(&ms, of[1], second), cudaSuccess);
    /* As a node of a graph, and as the event of a launch. */
    cudaGraph_t graph;
    SAME(cudaStreamBeginCapture(streams[1], cudaStreamCaptureModeRelaxed), cudaSuccess);
    SAME(cudaEventRecordWithFlags(of[0], streams[1], cudaEventRecordExternal), cudaErrorInvalidResourceHandle);
    SAME(cudaEventRecordWithFlags(of[1], streams[1], cudaEventRecordExternal), cudaSuccess);
    SAME(cudaStreamEndCapture(streams[1], &graph), cudaSuccess);
    SAME(cudaGraphDestroy(graph), cudaSuccess);
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeProgrammaticEvent, .val.programmaticEvent.event = of[0]};
    SAME(launch_ex(memory[1], streams[1], &attribute), cudaErrorInvalidResourceHandle);
    attribute.val.programmaticEvent.event = second;
    SAME(launch_ex(memory[1], streams[1], &attribute), cudaSuccess);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    (void)cudaGetLastError();
}

/* "A memory copy will succeed even if it is issued to a stream that is not associated to the current device." Allocations are of the
 * stream's device. */
static void memories(void) {
    int host = 5, *pooled = NULL;
    struct cudaPointerAttributes known;
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(cudaMemcpyAsync(memory[1], &host, sizeof host, cudaMemcpyHostToDevice, streams[1]), cudaSuccess);
    SAME(cudaMemcpyAsync(memory[0], memory[1], sizeof host, cudaMemcpyDefault, streams[1]), cudaSuccess);
    SAME(cudaMemcpyPeerAsync(memory[1] + 1, 1, memory[0], 0, sizeof host, streams[1]), cudaSuccess);
    SAME(cudaStreamSynchronize(streams[1]), cudaSuccess);
    SAME(word(memory[1] + 1), 5);
    SAME(cudaMallocAsync((void **)&pooled, 4096, streams[1]), cudaSuccess);
    SAME(cudaPointerGetAttributes(&known, pooled), cudaSuccess);
    SAME(known.device, 1);
    SAME(cudaFreeAsync(pooled, streams[1]), cudaSuccess);
    SAME(cudaStreamSynchronize(streams[1]), cudaSuccess);
}

/* A kernel of device 0 writes memory of device 1: what has to be said before. Each in a process of its own, as a device that was lost
 * does not come back. */
enum what { PLAIN, POOL, MAPPED };

static void reach(enum what what, int is_allowed, cudaError_t wanted) {
    pid_t child = fork();
    if (child != 0) {
        int status = -1;
        SAME(waitpid(child, &status, 0), child);
        if (status != 0) fprintf(stderr, "memory %d, allowed %d: status %#x\n", what, is_allowed, status);
        SAME(status, 0);
        return;
    }
    alarm(30);
    make();
    int *address = memory[1];
    if (what == POOL) {
        cudaMemPool_t pool;
        enum cudaMemAccessFlags may = 9;
        struct cudaMemAccessDesc access = {.flags = cudaMemAccessFlagsProtReadWrite};
        access.location.type = cudaMemLocationTypeDevice, access.location.id = 0;
        SAME(cudaMallocAsync((void **)&address, 4096, streams[1]), cudaSuccess);
        SAME(cudaStreamSynchronize(streams[1]), cudaSuccess);
        SAME(cudaDeviceGetDefaultMemPool(&pool, 1), cudaSuccess);
        SAME(cudaMemPoolGetAccess(&may, pool, &access.location), cudaSuccess);
        SAME(may, cudaMemAccessFlagsProtNone);
        if (is_allowed) SAME(cudaMemPoolSetAccess(pool, &access, 1), cudaSuccess);
        SAME(cudaMemPoolGetAccess(&may, pool, &access.location), cudaSuccess);
        SAME(may, is_allowed ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone);
    } else if (what == MAPPED) {
        CUmemAllocationProp wish = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
        CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        wish.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        wish.location.id = 1, access.location.id = 0;
        CUmemGenericAllocationHandle handle;
        CUdeviceptr base;
        unsigned long long may = 9;
        size_t size = 2 << 20;
        SAME(cuMemCreate(&handle, size, &wish, 0), CUDA_SUCCESS);
        SAME(cuMemAddressReserve(&base, size, 0, 0, 0), CUDA_SUCCESS);
        SAME(cuMemMap(base, size, 0, handle, 0), CUDA_SUCCESS);
        SAME(cuMemGetAccess(&may, &access.location, base), CUDA_SUCCESS);
        SAME(may, 0);
        if (is_allowed) SAME(cuMemSetAccess(base, size, &access, 1), CUDA_SUCCESS);
        SAME(cuMemGetAccess(&may, &access.location, base), CUDA_SUCCESS);
        SAME(may, is_allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0);
        address = (int *)base;
    } else if (is_allowed) {
        SAME(cudaSetDevice(0), cudaSuccess);
        SAME(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
    }
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(launch(address, streams[0]), cudaSuccess);
    SAME(cudaStreamSynchronize(streams[0]), wanted);
    if (wanted == cudaSuccess) SAME(word(address), 7);
    _exit(failures());
}

int main(void) {
    for (enum what what = PLAIN; what <= MAPPED; what++) {
        reach(what, 0, cudaErrorIllegalAddress);
        reach(what, 1, cudaSuccess);
    }
    make();
    launches();
    functions();
    events();
    memories();
    return failures();
}
