/* Memory: allocation and its limit, what a pointer points to, fills, every kind of copy. Two A100. */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "check.h"

enum { COUNT = 100000 };

static unsigned char source[COUNT], target[COUNT];

static void limits(void) {
    size_t before = 0, total = 0, after = 0;
    void *pointer = NULL, *more = NULL;
    SAME(cudaMemGetInfo(&before, &total), cudaSuccess);
    SAME(total, 80LL << 30);
    EXPECT(before > 0 && before <= total);
    SAME(cudaMalloc(&pointer, 1 << 30), cudaSuccess);
    SAME(cudaMemGetInfo(&after, &total), cudaSuccess);
    SAME(before - after, 1 << 30);
    SAME(cudaMalloc(&more, 80LL << 30), cudaErrorMemoryAllocation);
    SAME(cudaGetLastError(), cudaErrorMemoryAllocation);
    SAME(cudaGetLastError(), cudaSuccess);
    SAME(cudaFree(pointer), cudaSuccess);
    SAME(cudaMemGetInfo(&after, &total), cudaSuccess);
    SAME(after, before);
    SAME(cudaFree(NULL), cudaSuccess);
    SAME(cudaFree(pointer), cudaErrorInvalidValue);
    SAME(cudaGetLastError(), cudaErrorInvalidValue);
    SAME(cudaMalloc(NULL, 16), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

static void pointers(void) {
    void *on_device = NULL, *pinned = NULL, *managed = NULL, *other = NULL;
    struct cudaPointerAttributes attributes;
    SAME(cudaMalloc(&on_device, 4096), cudaSuccess);
    SAME((size_t)on_device % 256, 0);
    SAME(cudaPointerGetAttributes(&attributes, (char *)on_device + 17), cudaSuccess);
    SAME(attributes.type, cudaMemoryTypeDevice);
    SAME(attributes.device, 0);
    EXPECT(attributes.devicePointer == (char *)on_device + 17);
    SAME(cudaMallocHost(&pinned, 4096), cudaSuccess);
    SAME(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
    SAME(attributes.type, cudaMemoryTypeHost);
    EXPECT(attributes.hostPointer == pinned);
    SAME(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal), cudaSuccess);
    SAME(cudaPointerGetAttributes(&attributes, managed), cudaSuccess);
    SAME(attributes.type, cudaMemoryTypeManaged);
    memset(managed, 1, 4096);
    SAME(cudaPointerGetAttributes(&attributes, source), cudaSuccess);
    SAME(attributes.type, cudaMemoryTypeUnregistered);
    SAME(cudaHostRegister(source, sizeof source, cudaHostRegisterDefault), cudaSuccess);
    SAME(cudaPointerGetAttributes(&attributes, source + 5), cudaSuccess);
    SAME(attributes.type, cudaMemoryTypeHost);
    SAME(cudaHostUnregister(source), cudaSuccess);
    SAME(cudaSetDevice(1), cudaSuccess);
    SAME(cudaMalloc(&other, 4096), cudaSuccess);
    SAME(cudaPointerGetAttributes(&attributes, other), cudaSuccess);
    SAME(attributes.device, 1);
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(cudaFree(other), cudaSuccess);
    SAME(cudaFree(managed), cudaSuccess);
    SAME(cudaFreeHost(pinned), cudaSuccess);
    SAME(cudaFree(on_device), cudaSuccess);
}

static void copies(void) {
    unsigned char *a = NULL, *b = NULL, *peer = NULL;
    cudaStream_t stream;
    for (int i = 0; i < COUNT; i++) source[i] = (unsigned char)(i * 7 + i / 251);
    SAME(cudaMalloc((void **)&a, COUNT), cudaSuccess);
    SAME(cudaMalloc((void **)&b, COUNT), cudaSuccess);
    SAME(cudaSetDevice(1), cudaSuccess);
    SAME(cudaMalloc((void **)&peer, COUNT), cudaSuccess);
    SAME(cudaSetDevice(0), cudaSuccess);
    SAME(cudaStreamCreate(&stream), cudaSuccess);

    SAME(cudaMemcpy(a, source, COUNT, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(cudaMemcpyAsync(b, a, COUNT, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    SAME(cudaMemcpyPeerAsync(peer, 1, b, 0, COUNT, stream), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    SAME(cudaMemcpy(target, peer, COUNT, cudaMemcpyDefault), cudaSuccess);
    SAME(memcmp(source, target, COUNT), 0);

    SAME(cudaMemset(a, 0x5a, 1000), cudaSuccess);
    SAME(cudaMemcpy(target, a, COUNT, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < 1000; i++) EXPECT(target[i] == 0x5a);
    SAME(memcmp(source + 1000, target + 1000, COUNT - 1000), 0);

    /* 20 rows of 30 bytes out of rows of 100. */
    memset(target, 0, sizeof target);
    SAME(cudaMemcpy(a, source, COUNT, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(cudaMemcpy2DAsync(target, 50, a, 100, 30, 20, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    SAME(cudaStreamSynchronize(stream), cudaSuccess);
    for (int row = 0; row < 20; row++) {
        for (int column = 0; column < 50; column++) {
            unsigned char wanted = column < 30 ? source[row * 100 + column] : 0;
            if (target[row * 50 + column] != wanted) {
                SAME(target[row * 50 + column], wanted);
                row = 20;
                break;
            }
        }
    }

    SAME(cudaMemcpy(a, source, COUNT + 4096 * 1024, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    SAME(cudaMemcpy(a, source, 4, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    (void)cudaGetLastError();
    SAME(cudaStreamDestroy(stream), cudaSuccess);
    SAME(cudaFree(a), cudaSuccess);
    SAME(cudaFree(b), cudaSuccess);
    SAME(cudaFree(peer), cudaSuccess);
}

/* Allocations that happen to lie side by side are two: a copy from one into the other leaves the first. */
static void neighbors(void) {
    char *blocks[64];
    int pairs = 0;
    for (int i = 0; i < 64; i++) SAME(cudaMalloc((void **)&blocks[i], 4096), cudaSuccess);
    for (int i = 0; i < 64; i++) {
        for (int j = 0; j < 64; j++) {
            if (blocks[j] != blocks[i] + 4096) continue;
            pairs++;
            SAME(cudaMemset(blocks[i], 0, 8192), cudaErrorInvalidValue);
            SAME(cudaMemcpy(target, blocks[i] + 4092, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
        }
    }
    EXPECT(pairs > 0);
    (void)cudaGetLastError();
    for (int i = 0; i < 64; i++) SAME(cudaFree(blocks[i]), cudaSuccess);
}

int main(void) {
    limits();
    pointers();
    copies();
    neighbors();
    return failures();
}
