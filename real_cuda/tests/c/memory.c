/* A virtual a100-1g on a real GPU of 512 MiB, of which a context takes 32. The argument is FAKEGPU_OOM_POLICY. */
#include "cuda.h"

/* Adds 1 to each of the elements. */
static const char KERNEL[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry add_one(.param .u64 at, .param .u32 count) {\n"
    ".reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<4>;\n"
    "ld.param.u64 %d1, [at]; ld.param.u32 %r1, [count];\n"
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "setp.ge.u32 %p, %r5, %r1; @%p bra done;\n"
    "mul.wide.u32 %d2, %r5, 4; add.s64 %d3, %d1, %d2; ld.global.u32 %r1, [%d3]; add.s32 %r1, %r1, 1; st.global.u32 [%d3], %r1;\n"
    "done: ret;\n}\n";

enum { COUNT = 1000 };

static int is_clamped, is_spilled;

static int run_kernel(CUdeviceptr at) {
    CUmodule module;
    CUfunction function;
    unsigned count = COUNT;
    void *arguments[] = {&at, &count};
    OK(cuModuleLoadData(&module, KERNEL));
    OK(cuModuleGetFunction(&function, module, "add_one"));
    int code = cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL);
    return code ? code : cuCtxSynchronize();
}

/* Copies and fills of every kind, on memory that may be anything. */
static void use(CUdeviceptr at, CUdeviceptr other, int in_rows) {
    unsigned in[COUNT], out[COUNT];
    for (int i = 0; i < COUNT; i++)
        in[i] = 7 * i;
    OK(cuMemcpyHtoD_v2(at, in, sizeof in));
    OK(cuMemcpyDtoD_v2(other, at, sizeof in));
    OK(cuMemcpyDtoH_v2(out, other, sizeof in));
    IS(memcmp(in, out, sizeof in), 0);
    OK(cuMemsetD32Async(at, 5, COUNT, NULL));
    OK(cuMemcpyDtoHAsync_v2(out, at, sizeof out, NULL));
    OK(cuStreamSynchronize(NULL));
    IS(out[0] + out[COUNT - 1], 10);
    OK(cuMemsetD8_v2(at + 4, 1, 4));
    if (in_rows) { /* of two elements, 16 bytes apart; the simulated GPU does not have it */
        OK(cuMemsetD2D16_v2(at + 8, 16, 0x0203, 2, 3));
    } else {
        for (int row = 0; row < 3; row++)
            OK(cuMemsetD16_v2(at + 8 + 16 * row, 0x0203, 2));
    }
    OK(cuMemcpyHtoDAsync_v2(other, in, sizeof in, NULL));
    OK(cuMemcpy(other, at, sizeof in));
    CUDA_MEMCPY2D copy = {.srcType = 2, .srcDevice = other, .srcPitch = 16, .dstType = 1, .dstHost = out, .dstPitch = 16, .width = 16, .height = 3};
    memset(out, 0xff, sizeof out);
    OK(cuMemcpy2D_v2(&copy));
    unsigned expected[12] = {5, 0x01010101, 0x02030203, 5, 5, 5, 0x02030203, 5, 5, 5, 0x02030203, 5};
    IS(memcmp(out, expected, sizeof expected), 0);
    IS(out[12], 0xffffffff);
}

static void kin(CUstream stream) {
    size_t before, after, total, pitch;
    CUdeviceptr at, range;
    CUmemoryPool pool;
    CUarray array;
    CUhandle handle;
    CUmemAllocationProp back, properties = {.type = 1, .location = {1, 0}};
    CUmemPoolProps pool_properties = {.type = 1, .location = {1, 0}};
    CUmemAccessDesc access = {{1, 0}, 3};
    CUDA_ARRAY_DESCRIPTOR description = {1024, 1024, 0x20, 1};
    unsigned long long flags;

    OK(cuMemGetInfo_v2(&before, &total));
/* With clamp, the real device's pages count as well. */
#define TAKES(bytes) (cuMemGetInfo_v2(&after, &total), is_clamped || before - after == (bytes))
    OK(cuMemAllocPitch_v2(&at, &pitch, 1000, 10, 4));
    IS(pitch, 1024);
    IS(TAKES(10240), 1);
    OK(cuMemFree_v2(at));
    OK(cuMemAllocAsync(&at, MIB, stream));
    IS(TAKES(MIB), 1);
    OK(cuMemFreeAsync(at, stream));
    OK(cuMemPoolCreate(&pool, &pool_properties));
    OK(cuMemAllocFromPoolAsync(&at, MIB, pool, stream));
    IS(TAKES(MIB), 1);
    OK(cuMemFreeAsync(at, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolDestroy(pool));
    pool_properties.location.id = 1;
    IS(cuMemPoolCreate(&pool, &pool_properties), 101);
    OK(cuArrayCreate_v2(&array, &description));
    IS(TAKES(4 * MIB), 1);
    OK(cuArrayDestroy(array));
    OK(cuMemAllocManaged(&at, 3 * MIB, 1));
    IS(TAKES(3 * MIB), 1);
    *(int *)at = 3;
    OK(cuMemFree_v2(at));
    /* Physical memory lasts until nothing refers to it. */
    OK(cuMemCreate(&handle, 2 * MIB, &properties, 0));
    IS(TAKES(2 * MIB), 1);
    OK(cuMemGetAllocationPropertiesFromHandle(&back, handle));
    IS(back.location.kind * 10 + back.location.id, 10);
    OK(cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0));
    OK(cuMemMap(range, 2 * MIB, 0, handle, 0));
    OK(cuMemSetAccess(range, 2 * MIB, &access, 1));
    OK(cuMemGetAccess(&flags, &access.location, range));
    IS(flags, 3);
    OK(cuMemRelease(handle));
    OK(cuMemsetD8_v2(range, 1, 2 * MIB));
    IS(TAKES(2 * MIB), 1);
    OK(cuMemUnmap(range, 2 * MIB));
    IS(TAKES(0), 1);
    OK(cuMemAddressFree(range, 2 * MIB));
    properties.location.id = 1;
    IS(cuMemCreate(&handle, 2 * MIB, &properties, 0), 101);
    /* Mistakes are the real library's to refuse. */
    IS(cuMemAlloc_v2(&at, 0), 1);
    IS(cuMemAlloc_v2(NULL, 4), 1);
    IS(cuMemFree_v2(12345), 1);
    unsigned old;
    IS(cuMemAlloc(&old, 4), 801);
    IS(TAKES(0), 1);
}

int main(int argc, char **argv) {
    const char *policy = argv[argc - 1];
    int is_mapped = !strcmp(policy, "mapped_host"), ordinal = -1, type = -1;
    size_t free_bytes, total, size;
    CUdeviceptr large, other, more, base;
    CUcontext context;
    CUstream stream;

    is_clamped = !strcmp(policy, "clamp");
    is_spilled = !strcmp(policy, "spill_cpu");
    OK(cuInit(0));
    IS(cuMemAlloc_v2(&large, 4), 201);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemGetInfo_v2(&free_bytes, &total));
    IS(total, is_clamped ? 512 * MIB : 1024 * MIB);
    IS(free_bytes, is_clamped ? 480 * MIB : 1024 * MIB);
    kin(stream);

    OK(cuMemAlloc_v2(&large, 400 * MIB));
    use(large, large + MIB, 0);
    OK(cuMemcpyDtoH_v2(&size, large, 4));
    if (is_clamped) {
        IS(cuMemAlloc_v2(&other, 100 * MIB), 2); /* the virtual device has room, the real one has not */
        IS(cuMemAlloc_v2(&other, 200 * MIB), 2); /* nor has the virtual one */
        IS(cuMemAllocAsync(&other, 100 * MIB, stream), 2);
        OK(cuMemGetInfo_v2(&free_bytes, &total));
        IS(free_bytes, 80 * MIB);
    } else {
        OK(cuMemAlloc_v2(&other, 300 * MIB));
        IS(cuMemAlloc_v2(&more, 325 * MIB), 2);
        OK(cuMemAllocAsync(&more, 324 * MIB, stream));
        OK(cuMemGetInfo_v2(&free_bytes, &total));
        IS(free_bytes, 0);
        use(other, large, is_spilled);
        use(large, other, 0);
        use(more + 323 * MIB, other, is_spilled);
        OK(cuMemGetAddressRange_v2(&base, &size, other + 5));
        IS(base == other && size == 300 * MIB, 1);
        OK(cuPointerGetAttribute(&ordinal, 9, other + 5));
        IS(ordinal, 0);
        int numbers[] = {2, 9, 12};
        void *outs[] = {&type, &ordinal, &size};
        OK(cuPointerGetAttributes(3, numbers, outs, other + 5));
        IS(type, is_mapped ? 1 : 2);
        IS(size, 300 * MIB);
        if (is_spilled) {
            IS(cuMemcpyHtoD_v2(other + 300 * MIB - 4, policy, 8), 1);
            IS(cuMemsetD8_v2(other + 300 * MIB - 4, 0, 8), 1);
        } else {
            unsigned one;
            OK(cuMemsetD32Async(other, 41, COUNT, NULL));
            OK(run_kernel(other));
            OK(cuMemcpyDtoH_v2(&one, other + 4 * (COUNT - 1), 4));
            IS(one, 42);
        }
        OK(cuMemFreeAsync(more, stream));
        OK(cuMemFree_v2(other));
        OK(cuMemGetInfo_v2(&free_bytes, &total));
        IS(free_bytes, 624 * MIB);
        OK(cuMemAlloc_v2(&other, 300 * MIB)); /* which ends with its context */
    }
    OK(run_kernel(large));
    CUhandle lasting;
    CUmemAllocationProp properties = {.type = 1, .location = {1, 0}};
    OK(cuMemCreate(&lasting, 2 * MIB, &properties, 0));
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemGetInfo_v2(&free_bytes, &total));
    IS(free_bytes, is_clamped ? 478 * MIB : 1022 * MIB); /* physical memory belongs to no context */
    OK(cuMemRelease(lasting));
    OK(cuMemGetInfo_v2(&free_bytes, &total));
    IS(free_bytes, is_clamped ? 480 * MIB : 1024 * MIB);
    OK(cuMemAlloc_v2(&large, 10 * MIB)); /* left for the report */
    printf("%s: ok\n", policy);
    return 0;
}
