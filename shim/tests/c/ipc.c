/* Memory of one process in another: this program starts itself with the handle as its argument. */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { ELEMENTS = 3000 };

static int receive(const char *text) {
    cudaIpcMemHandle_t handle;
    unsigned char *bytes = (unsigned char *)&handle;
    int *first = NULL, *second = NULL, *host = malloc(ELEMENTS * sizeof(int));
    for (size_t i = 0; i < sizeof handle; i++) {
        unsigned value = 0;
        sscanf(text + 2 * i, "%2x", &value);
        bytes[i] = (unsigned char)value;
    }
    SAME(cudaIpcOpenMemHandle((void **)&first, handle, 0), cudaErrorInvalidValue);
    SAME(cudaIpcOpenMemHandle((void **)&first, handle, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
    SAME(cudaIpcOpenMemHandle((void **)&second, handle, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
    EXPECT(first == second);
    SAME(cudaMemcpy(host, first, ELEMENTS * sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < ELEMENTS; i++) {
        if (host[i] != i) {
            SAME(host[i], i);
            break;
        }
        host[i] = -i;
    }
    SAME(cudaMemcpy(first, host, ELEMENTS * sizeof(int), cudaMemcpyHostToDevice), cudaSuccess);
    struct cudaPointerAttributes attributes;
    SAME(cudaPointerGetAttributes(&attributes, first), cudaSuccess);
    SAME(attributes.type, cudaMemoryTypeDevice);
    SAME(cudaFree(first), cudaErrorInvalidValue);
    SAME(cudaIpcCloseMemHandle(first), cudaSuccess);
    SAME(cudaIpcCloseMemHandle(first), cudaSuccess);
    SAME(cudaIpcCloseMemHandle(first), cudaErrorInvalidValue);
    bytes[0] ^= 1;
    SAME(cudaIpcOpenMemHandle((void **)&first, handle, cudaIpcMemLazyEnablePeerAccess), cudaErrorInvalidResourceHandle);
    return failures();
}

int main(int count, char **arguments) {
    if (count == 2) return receive(arguments[1]);
    int *memory = NULL, host[ELEMENTS], status = -1;
    cudaIpcMemHandle_t handle;
    cudaIpcEventHandle_t event_handle;
    cudaEvent_t plain, shared, opened;
    char text[2 * sizeof handle + 1];
    for (int i = 0; i < ELEMENTS; i++) host[i] = i;
    /* An allocation before it, so that it does not start the memory file. */
    SAME(cudaMalloc((void **)&memory, 700), cudaSuccess);
    SAME(cudaMalloc((void **)&memory, sizeof host), cudaSuccess);
    SAME(cudaMemcpy(memory, host, sizeof host, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(cudaIpcGetMemHandle(&handle, host), cudaErrorInvalidValue);
    SAME(cudaIpcGetMemHandle(&handle, memory), cudaSuccess);
    SAME(cudaIpcOpenMemHandle((void **)&host, handle, cudaIpcMemLazyEnablePeerAccess), cudaErrorDeviceUninitialized);
    for (size_t i = 0; i < sizeof handle; i++) sprintf(text + 2 * i, "%02x", ((unsigned char *)&handle)[i]);

    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "ipc", text, (char *)NULL);
        _exit(127);
    }
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
    SAME(cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
    SAME(host[ELEMENTS - 1], -(ELEMENTS - 1));

    SAME(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming), cudaSuccess);
    SAME(cudaIpcGetEventHandle(&event_handle, plain), cudaErrorInvalidValue);
    SAME(cudaEventCreateWithFlags(&shared, cudaEventDisableTiming | cudaEventInterprocess), cudaSuccess);
    SAME(cudaEventRecord(shared, NULL), cudaSuccess);
    SAME(cudaIpcGetEventHandle(&event_handle, shared), cudaSuccess);
    SAME(cudaIpcOpenEventHandle(&opened, event_handle), cudaSuccess);
    SAME(cudaStreamWaitEvent(NULL, opened, 0), cudaSuccess);
    SAME(cudaEventQuery(opened), cudaSuccess);
    return failures();
}
