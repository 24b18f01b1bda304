/* PTX through the driver's doors: modules and libraries, kernels and variables by name, every way to launch, and what a launch or a
 * load answers that cannot be. */
#include <cuda.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "images.h"

#define HEAD(target) ".version 8.0\n.target " target "\n.address_size 64\n"

/* out[i] = left[i] + factor * right[i], and hits counts its threads. */
static const char ADD[] = HEAD("sm_80")
    ".visible .const .align 4 .f32 factor = 0f40000000;\n" /* 2.0 */
    ".visible .global .align 4 .u32 hits;\n"
    ".visible .global .align 8 .u64 where = generic(hits);\n"
    ".visible .entry add(.param .u64 out, .param .u64 left, .param .u64 right, .param .u32 count) .maxntid 256, 1, 1 {\n"
    "  .reg .pred %p; .reg .u32 %r<5>; .reg .u64 %d<9>; .reg .f32 %f<4>;\n"
    "  .shared .align 4 .b8 scratch[64];\n"
    "  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"
    "  mad.lo.u32 %r0, %r0, %r1, %r2;\n"
    "  ld.param.u32 %r3, [count]; setp.ge.u32 %p, %r0, %r3; @%p ret;\n"
    "  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [left]; ld.param.u64 %d2, [right];\n"
    "  mul.wide.u32 %d3, %r0, 4;\n"
    "  add.u64 %d4, %d0, %d3; add.u64 %d5, %d1, %d3; add.u64 %d6, %d2, %d3;\n"
    "  ld.global.f32 %f0, [%d5]; ld.global.f32 %f1, [%d6]; ld.const.f32 %f2, [factor];\n"
    "  fma.rn.f32 %f3, %f1, %f2, %f0;\n"
    "  st.global.f32 [%d4], %f3;\n"
    "  atom.global.add.u32 %r4, [hits], 1;\n"
    "  ret;\n"
    "}\n"
    /* out[0] = bytes of dynamic shared memory, and the last of them is written */
    ".extern .shared .align 4 .b8 dynamic[];\n"
    ".visible .entry large(.param .u64 out) {\n"
    "  .reg .u32 %r<4>; .reg .u64 %d;\n"
    "  ld.param.u64 %d, [out]; mov.u32 %r0, %dynamic_smem_size; mov.u32 %r1, dynamic; add.u32 %r1, %r1, %r0;\n"
    "  st.shared.u8 [%r1+-1], %r0; st.global.u32 [%d], %r0; ret;\n"
    "}\n";

/* One kernel that runs, one with an instruction that is not executed, which is in line 5. */
static const char UNKNOWN[] = HEAD("sm_90")
    ".visible .entry works(.param .u64 out) { .reg .u64 %d; ld.param.u64 %d, [out]; st.global.u32 [%d], 7; ret; }\n"
    ".visible .entry multicast() { .reg .u64 %d; .reg .f32 %f; multimem.st.relaxed.gpu.global.e5m2x4 [%d], %f; ret; }\n";

static CUdeviceptr device_floats(const float *values, int count) {
    CUdeviceptr memory = 0;
    SAME(cuMemAlloc_v2(&memory, count * sizeof *values), CUDA_SUCCESS);
    if (values) SAME(cuMemcpyHtoD_v2(memory, values, count * sizeof *values), CUDA_SUCCESS);
    return memory;
}

static unsigned word(CUdeviceptr address) {
    unsigned value = 0;
    SAME(cuMemcpyDtoH_v2(&value, address, sizeof value), CUDA_SUCCESS);
    return value;
}

enum { COUNT = 1000 };

static void added(CUdeviceptr out, float factor) {
    float got[COUNT];
    int wrong = 0;
    SAME(cuMemcpyDtoH_v2(got, out, sizeof got), CUDA_SUCCESS);
    for (int i = 0; i < COUNT; i++) wrong += got[i] != i + factor * (3 * i);
    SAME(wrong, 0);
    SAME(cuMemsetD8_v2(out, 0, sizeof got), CUDA_SUCCESS);
}

/* Of a module or library that was loaded in some way. */
static void kernels(CUmodule module, CUdeviceptr hits, CUdeviceptr factor) {
    CUfunction add, large, none;
    SAME(cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&large, module, "large"), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&none, module, "subtract"), CUDA_ERROR_NOT_FOUND);

    float left[COUNT], right[COUNT];
    for (int i = 0; i < COUNT; i++) left[i] = i, right[i] = 3 * i;
    CUdeviceptr out = device_floats(NULL, COUNT), first = device_floats(left, COUNT), second = device_floats(right, COUNT);
    unsigned count = COUNT;
    void *parameters[] = {&out, &first, &second, &count};

    SAME(cuLaunchKernel(add, 8, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL), CUDA_SUCCESS);
    SAME(cuCtxSynchronize(), CUDA_SUCCESS);
    added(out, 2);
    SAME(word(hits), COUNT);

    /* All parameters in one buffer; a variable that the host wrote. */
    float ten = 10;
    SAME(cuMemcpyHtoD_v2(factor, &ten, sizeof ten), CUDA_SUCCESS);
    struct { CUdeviceptr out, left, right; unsigned count; } packed = {out, first, second, COUNT};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CUstream stream;
    SAME(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    SAME(cuLaunchKernel(add, 5, 1, 1, 200, 1, 1, 0, stream, NULL, extra), CUDA_SUCCESS);
    SAME(cuStreamSynchronize(stream), CUDA_SUCCESS);
    added(out, 10);
    SAME(word(hits), 2 * COUNT);
    SAME(cuLaunchKernel(add, 5, 1, 1, 200, 1, 1, 0, stream, parameters, extra), CUDA_ERROR_INVALID_VALUE);
    size = 24;
    SAME(cuLaunchKernel(add, 5, 1, 1, 200, 1, 1, 0, stream, NULL, extra), CUDA_ERROR_INVALID_VALUE);

    /* The configuration of cuLaunchKernelEx. */
    CUlaunchAttribute attributes[2];
    memset(attributes, 0, sizeof attributes);
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[0].value.cooperative = 1;
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[1].value.clusterDim.x = attributes[1].value.clusterDim.y = attributes[1].value.clusterDim.z = 1;
    CUlaunchConfig configuration = {.gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 250, .blockDimY = 1, .blockDimZ = 1,
                                    .hStream = stream, .attrs = attributes, .numAttrs = 2};
    SAME(cuLaunchKernelEx(&configuration, add, parameters, NULL), CUDA_SUCCESS);
    SAME(cuStreamSynchronize(stream), CUDA_SUCCESS);
    added(out, 10);
    attributes[1].value.clusterDim.x = 2; /* an A100 has no clusters */
    SAME(cuLaunchKernelEx(&configuration, add, parameters, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    SAME(cuLaunchCooperativeKernel(add, 4, 1, 1, 250, 1, 1, 0, stream, parameters), CUDA_SUCCESS);
    SAME(cuStreamSynchronize(stream), CUDA_SUCCESS);

    /* Between two events kernels take a time of their own, the same every time, and longer where there are more threads. */
    CUevent before, after;
    float times[3] = {0};
    SAME(cuEventCreate(&before, 0), CUDA_SUCCESS);
    SAME(cuEventCreate(&after, 0), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        SAME(cuEventRecord(before, stream), CUDA_SUCCESS);
        for (int launch = 0; launch < 2; launch++)
            SAME(cuLaunchKernel(add, i == 2 ? 4000 : 5, 1, 1, 200, 1, 1, 0, stream, parameters, NULL), CUDA_SUCCESS);
        SAME(cuEventRecord(after, stream), CUDA_SUCCESS);
        SAME(cuEventSynchronize(after), CUDA_SUCCESS);
        SAME(cuEventElapsedTime(&times[i], before, after), CUDA_SUCCESS);
    }
    EXPECT(times[0] > 40 && times[0] < 40.001f);
    EXPECT(times[1] == times[0]);
    EXPECT(times[2] > times[0] + 0.001f);
    added(out, 10);
    /* 108 SMs hold 8 blocks of 256 threads each. */
    SAME(cuLaunchCooperativeKernel(add, 864, 1, 1, 256, 1, 1, 0, stream, parameters), CUDA_SUCCESS);
    SAME(cuLaunchCooperativeKernel(add, 865, 1, 1, 256, 1, 1, 0, stream, parameters), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    SAME(cuLaunchKernel(add, 4, 1, 1, 257, 1, 1, 0, stream, parameters, NULL), CUDA_ERROR_INVALID_VALUE);
    SAME(cuLaunchKernel(add, 0, 1, 1, 32, 1, 1, 0, stream, parameters, NULL), CUDA_ERROR_INVALID_VALUE);
    SAME(cuLaunchKernel(add, 4, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);

    /* More than 48 KiB of shared memory are asked for first. */
    void *one[] = {&out};
    SAME(cuLaunchKernel(large, 1, 1, 1, 1, 1, 1, 48 << 10, stream, one, NULL), CUDA_SUCCESS);
    SAME(cuLaunchKernel(large, 1, 1, 1, 1, 1, 1, 100 << 10, stream, one, NULL), CUDA_ERROR_INVALID_VALUE);
    SAME(cuFuncSetAttribute(large, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10), CUDA_SUCCESS);
    SAME(cuFuncSetAttribute(large, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 164 << 10), CUDA_ERROR_INVALID_VALUE);
    SAME(cuLaunchKernel(large, 1, 1, 1, 1, 1, 1, 100 << 10, stream, one, NULL), CUDA_SUCCESS);
    SAME(cuStreamSynchronize(stream), CUDA_SUCCESS);
    SAME(word(out), 100 << 10);

    int value = 0, grid = 0;
#define ATTRIBUTE(function, name) (cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_##name, function), value)
    SAME(ATTRIBUTE(add, MAX_THREADS_PER_BLOCK), 256);
    SAME(ATTRIBUTE(large, MAX_THREADS_PER_BLOCK), 1024);
    SAME(ATTRIBUTE(add, SHARED_SIZE_BYTES), 64);
    SAME(ATTRIBUTE(large, SHARED_SIZE_BYTES), 0);
    SAME(ATTRIBUTE(add, CONST_SIZE_BYTES), 4);
    SAME(ATTRIBUTE(add, PTX_VERSION), 80);
    SAME(ATTRIBUTE(add, BINARY_VERSION), 80);
    SAME(ATTRIBUTE(add, MAX_DYNAMIC_SHARED_SIZE_BYTES), (48 << 10) - 64);
    SAME(ATTRIBUTE(large, MAX_DYNAMIC_SHARED_SIZE_BYTES), 100 << 10);
    EXPECT(ATTRIBUTE(add, NUM_REGS) >= 8 && value <= 255);
    EXPECT(ATTRIBUTE(large, NUM_REGS) >= 8 && value <= 64); /* 1024 threads fit */

    /* 164 KiB of an SM over 48 KiB and the one that the system keeps. */
    SAME(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, add, 256, (48 << 10) - 64), CUDA_SUCCESS);
    SAME(value, 3);
    SAME(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, add, 512, 0), CUDA_SUCCESS);
    SAME(value, 0);
    SAME(cuOccupancyMaxPotentialBlockSize(&grid, &value, add, NULL, 0, 0), CUDA_SUCCESS);
    SAME(value, 256);
    SAME(grid, 108 * 8);

    SAME(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    SAME(cuMemFree_v2(out), CUDA_SUCCESS);
    SAME(cuMemFree_v2(first), CUDA_SUCCESS);
    SAME(cuMemFree_v2(second), CUDA_SUCCESS);
}

static void modules(void) {
    CUmodule module;
    CUdeviceptr hits = 0, factor = 0, where = 0, none = 0;
    size_t bytes = 0;
    SAME(cuModuleLoadData(&module, ADD), CUDA_SUCCESS);
    SAME(cuModuleGetGlobal_v2(&hits, &bytes, module, "hits"), CUDA_SUCCESS);
    SAME(bytes, 4);
    SAME(cuModuleGetGlobal_v2(&factor, NULL, module, "factor"), CUDA_SUCCESS);
    SAME(cuModuleGetGlobal_v2(&where, &bytes, module, "where"), CUDA_SUCCESS);
    SAME(bytes, 8);
    SAME(cuModuleGetGlobal_v2(&none, &bytes, module, "nothing"), CUDA_ERROR_NOT_FOUND);
    SAME(cuMemcpyDtoH_v2(&none, where, sizeof none), CUDA_SUCCESS);
    SAME(none, hits);
    kernels(module, hits, factor);
    unsigned count = 0;
    SAME(cuModuleGetFunctionCount(&count, module), CUDA_SUCCESS);
    SAME(count, 2);
    SAME(cuModuleUnload(module), CUDA_SUCCESS);
    SAME(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    SAME(cuMemcpyDtoH_v2(&none, where, sizeof none), CUDA_ERROR_INVALID_VALUE); /* its variables are gone */

    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    SAME(cuLibraryLoadData(&library, ADD, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
    SAME(cuLibraryGetModule(&module, library), CUDA_SUCCESS);
    SAME(cuLibraryGetGlobal(&hits, &bytes, library, "hits"), CUDA_SUCCESS);
    SAME(cuLibraryGetGlobal(&factor, NULL, library, "factor"), CUDA_SUCCESS);
    kernels(module, hits, factor);
    SAME(cuLibraryGetKernel(&kernel, library, "add"), CUDA_SUCCESS);
    SAME(cuKernelGetFunction(&function, kernel), CUDA_SUCCESS);
    size_t offset = 0;
    SAME(cuFuncGetParamInfo(function, 3, &offset, &bytes), CUDA_SUCCESS);
    SAME(offset, 24);
    SAME(bytes, 4);
    SAME(cuFuncGetParamInfo(function, 4, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
    SAME(cuLibraryUnload(library), CUDA_SUCCESS);

    /* A file. */
    char path[] = "modules-XXXXXX";
    int file = mkstemp(path);
    EXPECT(write(file, ADD, strlen(ADD)) == (ssize_t)strlen(ADD));
    SAME(cuModuleLoad(&module, path), CUDA_SUCCESS);
    SAME(cuModuleGetGlobal_v2(&hits, NULL, module, "hits"), CUDA_SUCCESS);
    SAME(cuModuleGetGlobal_v2(&factor, NULL, module, "factor"), CUDA_SUCCESS);
    kernels(module, hits, factor);
    SAME(cuModuleUnload(module), CUDA_SUCCESS);
    close(file);
    unlink(path);
    SAME(cuModuleLoad(&module, path), CUDA_ERROR_FILE_NOT_FOUND);
}

/* The kernel of images/variables.cu adds 42, 1, 2, 0, the low half of 0x0123456789abcdef, 7, 'f', -3, 0 and 0. */
static void fat_binaries(void) {
    const char *images[] = {with_cubin, zstd, lz4, text_only};
    for (int i = 0; i < 4; i++) {
        struct { int magic, version; const void *data; void *more; } wrapper = {0x466243b1, 1, images[i], NULL};
        for (int wrapped = 0; wrapped < 2; wrapped++) {
            CUmodule module;
            CUfunction function;
            CUdeviceptr out = device_floats(NULL, 1);
            void *parameters[] = {&out};
            SAME(cuModuleLoadFatBinary(&module, wrapped ? (const void *)&wrapper : images[i]), CUDA_SUCCESS);
            SAME(cuModuleGetFunction(&function, module, "_Z6kernelPi"), CUDA_SUCCESS);
            SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_SUCCESS);
            SAME((int)word(out), (int)0x89abcdef + 42 + 1 + 2 + 7 + 'f' - 3);
            SAME(cuMemFree_v2(out), CUDA_SUCCESS);
            SAME(cuModuleUnload(module), CUDA_SUCCESS);
        }
    }
}

static void refusals(void) {
    CUmodule module;
    char errors[300] = "", infos[300] = "left";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {errors, (void *)sizeof errors, infos, (void *)sizeof infos};
    const char *syntax = HEAD("sm_80") ".visible .entry k() {\n  .reg .u32 %r<3>;\n  add.u32 %r0, %r1 %r2;\n}\n";
    SAME(cuModuleLoadDataEx(&module, syntax, 4, options, values), CUDA_ERROR_INVALID_PTX);
    EXPECT(strstr(errors, "line 6:") && strstr(errors, "%r2"));
    SAME((size_t)values[1], strlen(errors) + 1);
    SAME(infos[0], 0);
    values[1] = (void *)sizeof errors;
    const char *wrong = HEAD("sm_80") ".visible .entry k() {\n  .reg .u32 %r<3>;\n  add.u32 %r0, %r1;\n}\n";
    SAME(cuModuleLoadDataEx(&module, wrong, 2, options, values), CUDA_ERROR_INVALID_PTX);
    EXPECT(strstr(errors, "line 6:"));
    SAME(cuModuleLoadData(&module, wrong), CUDA_ERROR_INVALID_PTX);
    SAME(cuModuleLoadData(&module, "hello"), CUDA_ERROR_INVALID_IMAGE);
    SAME(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
    /* Newer than an A100. */
    SAME(cuModuleLoadData(&module, HEAD("sm_90") ".visible .entry k() { ret; }"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    SAME(cuModuleLoadData(&module, HEAD("sm_75") ".visible .entry k() { ret; }"), CUDA_SUCCESS);
    SAME(cuModuleUnload(module), CUDA_SUCCESS);
}

/* Two texts, each with what the other needs. */
static void links(void) {
    const char *caller = HEAD("sm_80")
        ".extern .func (.param .b32 r) twice(.param .b32 a);\n.extern .global .align 4 .u32 extra;\n"
        ".visible .entry k(.param .u64 out, .param .u32 n) {\n"
        "  .reg .u64 %d; .reg .u32 %r<3>; ld.param.u64 %d, [out]; ld.param.u32 %r0, [n];\n"
        "  { .param .b32 a; st.param.b32 [a], %r0; .param .b32 r; call.uni (r), twice, (a); ld.param.b32 %r1, [r]; }\n"
        "  ld.global.u32 %r2, [extra]; add.u32 %r1, %r1, %r2; st.global.u32 [%d], %r1; ret; }\n";
    const char *callee = HEAD("sm_75")
        ".visible .global .align 4 .u32 extra = 1000;\n"
        ".visible .func (.param .b32 r) twice(.param .b32 a) {\n"
        "  .reg .u32 %r; ld.param.b32 %r, [a]; add.u32 %r, %r, %r; st.param.b32 [r], %r; ret; }\n";
    CUlinkState link;
    char errors[200] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {errors, (void *)sizeof errors}, *image = NULL;
    size_t size = 0;
    SAME(cuLinkCreate(2, options, values, &link), CUDA_SUCCESS);
    SAME(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)caller, strlen(caller) + 1, "caller", 0, NULL, NULL), CUDA_SUCCESS);
    SAME(cuLinkAddData(link, CU_JIT_INPUT_PTX, "none", 5, "broken", 0, NULL, NULL), CUDA_ERROR_INVALID_PTX);
    EXPECT(strstr(errors, "broken"));
    SAME(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)callee, strlen(callee) + 1, "callee", 0, NULL, NULL), CUDA_SUCCESS);
    SAME(cuLinkComplete(link, &image, &size), CUDA_SUCCESS);
    EXPECT(size > strlen(caller) + strlen(callee));
    CUmodule module;
    CUfunction function;
    SAME(cuModuleLoadData(&module, image), CUDA_SUCCESS);
    SAME(cuLinkDestroy(link), CUDA_SUCCESS);
    SAME(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
    SAME(cuModuleGetFunction(&function, module, "k"), CUDA_SUCCESS);
    CUdeviceptr out = device_floats(NULL, 1);
    unsigned n = 21;
    void *parameters[] = {&out, &n};
    SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_SUCCESS);
    SAME(word(out), 1042);
    SAME(cuMemFree_v2(out), CUDA_SUCCESS);
    SAME(cuModuleUnload(module), CUDA_SUCCESS);
}

/* On an H100, whose instructions are not all executed: the other kernels are. */
static int unknown(void) {
    CUmodule module;
    CUfunction works, multicast;
    CUdeviceptr out = device_floats(NULL, 1);
    void *parameters[] = {&out};
    SAME(cuModuleLoadData(&module, UNKNOWN), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&works, module, "works"), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&multicast, module, "multicast"), CUDA_SUCCESS);
    SAME(cuLaunchKernel(works, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_SUCCESS);
    SAME(word(out), 7);
    SAME(cuLaunchKernel(multicast, 1, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_NO_BINARY_FOR_GPU);
    SAME(cuCtxSynchronize(), CUDA_SUCCESS); /* a refusal is not an error of the device */
    return failures();
}

int main(void) {
    CUcontext context;
    int major = 0;
    SAME(cuInit(0), CUDA_SUCCESS);
    SAME(cuModuleLoadData((CUmodule *)&context, ADD), CUDA_ERROR_INVALID_CONTEXT);
    SAME(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    SAME(cuCtxSetCurrent(context), CUDA_SUCCESS);
    SAME(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), CUDA_SUCCESS);
    if (major == 9) return unknown();
    modules();
    fat_binaries();
    refusals();
    links();
    return failures();
}
