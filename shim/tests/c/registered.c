/* Kernels as nvcc registers them: found by their host function, with variables that the host writes, in order with all that a
 * stream does, and with what they print. */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

/* What compiled code has instead of a header. */
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void *);
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
char __cudaInitModule(void **);

static const char TEXT[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
    ".visible .const .align 4 .u32 step = 5;\n"
    ".visible .global .align 4 .u32 total = 100;\n"
    ".visible .global .attribute(.managed) .align 4 .u32 shared_total = 3;\n"
    ".global .align 8 .u64 kept;\n"
    ".global .align 1 .b8 format[12] = {37, 100, 32, 97, 110, 100, 32, 37, 115, 10, 0, 0};\n" /* "%d and %s\n" */
    ".global .align 1 .b8 word[4] = {111, 110, 101, 0};\n"                                    /* "one" */
    /* out[i] = in[i] + step */
    ".visible .entry _Z3addPjPKj(.param .u64 out, .param .u64 in) {\n"
    "  .reg .u64 %d<5>; .reg .u32 %r<6>;\n"
    "  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in];\n"
    "  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r0, %r0, %r1, %r2;\n"
    "  mul.wide.u32 %d2, %r0, 4; add.u64 %d3, %d1, %d2; add.u64 %d4, %d0, %d2;\n"
    "  ld.global.u32 %r3, [%d3]; ld.const.u32 %r4, [step]; add.u32 %r5, %r3, %r4; st.global.u32 [%d4], %r5; ret;\n"
    "}\n"
    /* total and shared_total count threads */
    ".visible .entry _Z5countv() {\n"
    "  .reg .u32 %r; atom.global.add.u32 %r, [total], 1; atom.global.add.u32 %r, [shared_total], 1; ret;\n"
    "}\n"
    /* waits until *flag is not 0, and puts it into *out */
    ".visible .entry _Z4waitPjPVj(.param .u64 out, .param .u64 flag) {\n"
    "  .reg .u64 %d<2>; .reg .u32 %r; .reg .pred %p;\n"
    "  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [flag];\n"
    "again: ld.volatile.u32 %r, [%d1]; setp.eq.u32 %p, %r, 0; @%p bra again;\n"
    "  st.global.u32 [%d0], %r; ret;\n"
    "}\n"
    /* printf("%d and %s\n", n, "one") */
    ".visible .entry _Z5printi(.param .u32 n) {\n"
    "  .local .align 8 .b8 arguments[16]; .reg .u64 %d<4>; .reg .u32 %r;\n"
    "  ld.param.u32 %r, [n]; mov.u64 %d0, arguments; cvta.local.u64 %d1, %d0; st.local.u32 [%d0], %r;\n"
    "  mov.u64 %d2, word; cvta.global.u64 %d2, %d2; st.local.u64 [%d0+8], %d2;\n"
    "  mov.u64 %d3, format; cvta.global.u64 %d3, %d3;\n"
    "  { .param .b64 f; st.param.b64 [f], %d3; .param .b64 a; st.param.b64 [a], %d1; .param .b32 r;\n"
    "    call.uni (r), vprintf, (f, a); }\n"
    "  ret;\n"
    "}\n"
    /* With n: keeps n bytes of the device's heap, writes 77 there, *out = whether it got them. Without: *out = what is there. */
    ".visible .entry _Z4heapPjm(.param .u64 out, .param .u64 n) {\n"
    "  .reg .u64 %d<4>; .reg .u32 %r; .reg .pred %p;\n"
    "  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [n]; setp.eq.u64 %p, %d1, 0; @%p bra look;\n"
    "  { .param .b64 n1; st.param.b64 [n1], %d1; .param .b64 r; call.uni (r), malloc, (n1); ld.param.b64 %d2, [r]; }\n"
    "  st.global.u64 [kept], %d2; setp.ne.u64 %p, %d2, 0; selp.u32 %r, 1, 0, %p; st.global.u32 [%d0], %r;\n"
    "  @%p st.u32 [%d2], 77; ret;\n"
    "look: ld.global.u64 %d2, [kept]; ld.u32 %r, [%d2]; st.global.u32 [%d0], %r; ret;\n"
    "}\n";

/* A container with the text as its only entry. */
static struct {
    struct { uint32_t magic; uint16_t version, header; uint64_t bytes; } head;
    struct {
        uint16_t kind, version;
        uint32_t header;
        uint64_t padded;
        uint32_t packed, unknown, minor_major, capability;
        uint32_t name, name_bytes;
        uint64_t flags, zero, unpacked;
    } entry;
    char text[(sizeof TEXT + 7) / 8 * 8];
} container;
static struct { int magic, version; const void *data; void *more; } wrapper;

static unsigned step, total, *shared_total;
static char add, count, wait_for, print, heap;
static void **handle;

static void registers(void) {
    _Static_assert(sizeof container.head == 16 && sizeof container.entry == 64, "layout");
    container.head.magic = 0xba55ed50, container.head.version = 1, container.head.header = 16;
    container.head.bytes = sizeof container - 16;
    container.entry.kind = 1, container.entry.header = 64, container.entry.padded = sizeof container.text;
    container.entry.capability = 80;
    memcpy(container.text, TEXT, sizeof TEXT);
    wrapper.magic = 0x466243b1, wrapper.version = 1, wrapper.data = &container;
    handle = __cudaRegisterFatBinary(&wrapper);
#define FUNCTION(host, name) __cudaRegisterFunction(handle, &host, (char *)name, name, -1, NULL, NULL, NULL, NULL, NULL)
    FUNCTION(add, "_Z3addPjPKj");
    FUNCTION(count, "_Z5countv");
    FUNCTION(wait_for, "_Z4waitPjPVj");
    FUNCTION(print, "_Z5printi");
    FUNCTION(heap, "_Z4heapPjm");
    __cudaRegisterVar(handle, (char *)&step, "step", "step", 0, sizeof step, 1, 0);
    __cudaRegisterVar(handle, (char *)&total, "total", "total", 0, sizeof total, 0, 0);
    __cudaRegisterManagedVar(handle, (void **)&shared_total, "shared_total", "shared_total", 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
}

enum { COUNT = 512 };

static void variables(void) {
    unsigned in[COUNT], out[COUNT], *device_in, *device_out, value = 0;
    for (int i = 0; i < COUNT; i++) in[i] = i * i;
    for (int device = 0; device < 2; device++) {
        SAME(cudaSetDevice(device), cudaSuccess);
        SAME(cudaMalloc((void **)&device_in, sizeof in), cudaSuccess);
        SAME(cudaMalloc((void **)&device_out, sizeof in), cudaSuccess);
        SAME(cudaMemcpy(device_in, in, sizeof in, cudaMemcpyHostToDevice), cudaSuccess);
        void *arguments[] = {&device_out, &device_in};
        for (unsigned want = 5; want < 100; want += 90 + device) {
            /* The first round has the value of the device code, on each device. */
            if (want != 5) SAME(cudaMemcpyToSymbol(&step, &want, sizeof want, 0, cudaMemcpyHostToDevice), cudaSuccess);
            SAME(cudaLaunchKernel(&add, (dim3){4, 1, 1}, (dim3){128, 1, 1}, arguments, 0, NULL), cudaSuccess);
            SAME(cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost), cudaSuccess);
            int wrong = 0;
            for (int i = 0; i < COUNT; i++) wrong += out[i] != (unsigned)(i * i) + want;
            SAME(wrong, 0);
        }
        /* As `count<<<3, 64>>>()` is compiled. */
        dim3 grid, block;
        size_t shared;
        cudaStream_t stream;
        SAME(__cudaPushCallConfiguration((dim3){3, 1, 1}, (dim3){64, 1, 1}, 0, NULL), 0);
        SAME(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
        SAME(cudaLaunchKernel(&count, grid, block, NULL, shared, stream), cudaSuccess);
        SAME(cudaMemcpyFromSymbol(&value, &total, sizeof value, 0, cudaMemcpyDeviceToHost), cudaSuccess);
        SAME(value, 100 + 3 * 64); /* its own on each device */
        SAME(cudaDeviceSynchronize(), cudaSuccess);
        SAME(*shared_total, 3 + (device + 1) * 3 * 64); /* one for all */
        cudaLaunchConfig_t configuration = {.gridDim = {1, 1, 1}, .blockDim = {32, 1, 1}};
        SAME(cudaLaunchKernelExC(&configuration, &count, NULL), cudaSuccess);
        SAME(cudaLaunchCooperativeKernel(&count, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, NULL), cudaSuccess);
        SAME(cudaMemcpyFromSymbol(&value, &total, sizeof value, 0, cudaMemcpyDeviceToHost), cudaSuccess);
        SAME(value, 100 + 3 * 64 + 64);
        *shared_total -= 64;
        struct cudaFuncAttributes attributes;
        SAME(cudaFuncGetAttributes(&attributes, &add), cudaSuccess);
        SAME(attributes.maxThreadsPerBlock, 1024);
        SAME(attributes.constSizeBytes, 4);
        SAME(cudaFree(device_in), cudaSuccess);
        SAME(cudaFree(device_out), cudaSuccess);
    }
    SAME(cudaSetDevice(0), cudaSuccess);
}

static void raise_flag(void *flag) { *(volatile unsigned *)flag = 9; }

/* A kernel that waits for the host does not keep the host; what is behind it waits for it. */
static void order(void) {
    unsigned *flag, *memory, value = 0, unit = 1;
    cudaStream_t first, second;
    SAME(cudaMallocHost((void **)&flag, 8), cudaSuccess);
    SAME(cudaMalloc((void **)&memory, 8), cudaSuccess);
    SAME(cudaMemset(memory, 0, 8), cudaSuccess);
    SAME(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
    SAME(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
    SAME(cudaMemcpyToSymbol(&step, &unit, sizeof unit, 0, cudaMemcpyHostToDevice), cudaSuccess);
    void *waits[] = {&memory, &flag};
    unsigned *behind = memory + 1;
    void *adds[] = {&behind, &memory};

    for (int round = 0; round < 3; round++) {
        *flag = 0;
        SAME(cudaLaunchKernel(&wait_for, (dim3){1, 1, 1}, (dim3){1, 1, 1}, waits, 0, first), cudaSuccess);
        SAME(cudaLaunchKernel(&add, (dim3){1, 1, 1}, (dim3){1, 1, 1}, adds, 0, first), cudaSuccess);
        SAME(cudaStreamQuery(first), cudaErrorNotReady);
        switch (round) {
            case 0: *(volatile unsigned *)flag = 9; break;
            case 1: SAME(cudaLaunchHostFunc(second, raise_flag, flag), cudaSuccess); break;
            case 2: SAME(cudaMemcpyAsync(flag, &(unsigned){9}, 4, cudaMemcpyHostToHost, second), cudaSuccess); break;
        }
        SAME(cudaMemcpyAsync(&value, behind, 4, cudaMemcpyDeviceToHost, first), cudaSuccess);
        SAME(cudaStreamSynchronize(first), cudaSuccess);
        SAME(value, 10);
        SAME(cudaStreamSynchronize(second), cudaSuccess);
        SAME(cudaMemset(memory, 0, 8), cudaSuccess);
    }
    SAME(cudaStreamDestroy(first), cudaSuccess);
    SAME(cudaStreamDestroy(second), cudaSuccess);
    SAME(cudaFreeHost(flag), cudaSuccess);
    SAME(cudaFree(memory), cudaSuccess);
}

/* The test compares stdout: a kernel's text comes when the host synchronizes, between the host's own. */
static void prints(void) {
    int number = -3;
    void *arguments[] = {&number};
    printf("before\n");
    SAME(cudaLaunchKernel(&print, (dim3){1, 1, 1}, (dim3){2, 1, 1}, arguments, 0, NULL), cudaSuccess);
    printf("launched\n");
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    printf("after\n");
}

static void heaps(void) {
    unsigned *out, value = 9;
    size_t bytes = 1000;
    SAME(cudaMalloc((void **)&out, 4), cudaSuccess);
    void *arguments[] = {&out, &bytes};
    for (int round = 0; round < 3; round++) {
        SAME(cudaLaunchKernel(&heap, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, NULL), cudaSuccess);
        SAME(cudaMemcpy(&value, out, 4, cudaMemcpyDeviceToHost), cudaSuccess);
        SAME(value, ((unsigned[]){1, 77, 0})[round]);
        bytes = round == 0 ? 0 : (size_t)9 << 20; /* more than cudaLimitMallocHeapSize */
    }
    SAME(cudaFree(out), cudaSuccess);
}

int main(void) {
    registers();
    variables();
    order();
    prints();
    heaps();
    return failures();
}
