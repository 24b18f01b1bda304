/* Kernels that go wrong: the launch succeeds, the next call that waits has hardware's error, and so has every later one. Each in a
 * process of its own, as a device does not come back. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const char TEXT[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);\n"
    ".global .align 1 .b8 message[6] = {120, 32, 62, 32, 48, 0};\n" /* x > 0 */
    ".global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};\n"         /* a.cu */
    ".global .align 1 .b8 name[5] = {116, 101, 115, 116, 0};\n"      /* test */
    ".visible .entry store(.param .u64 p) { .reg .u64 %d<3>; .reg .u32 %r; ld.param.u64 %d0, [p]; mov.u32 %r, %tid.x;\n"
    "  mad.wide.u32 %d1, %r, 4, %d0; st.global.u32 [%d1], %r; ret; }\n"
    ".visible .entry stop(.param .u64 p) { trap; ret; }\n"
    ".visible .entry jump(.param .u64 p) { .reg .u64 %d; ld.param.u64 %d, [p]; { prototype: .callprototype _ (); call %d, (), prototype; } ret; }\n"
    ".visible .entry meet(.param .u64 p) { .reg .pred %p; .reg .u32 %r; mov.u32 %r, %tid.x; setp.eq.u32 %p, %r, 0;\n"
    "  @%p bar.sync 1, 64; bar.sync 0; ret; }\n"
    ".visible .entry test(.param .u64 p) {\n"
    "  .reg .u64 %d<4>;\n"
    "  mov.u64 %d0, message; cvta.global.u64 %d0, %d0; mov.u64 %d1, file; cvta.global.u64 %d1, %d1;\n"
    "  mov.u64 %d2, name; cvta.global.u64 %d2, %d2;\n"
    "  { .param .b64 m; st.param.b64 [m], %d0; .param .b64 f; st.param.b64 [f], %d1; .param .b32 l; st.param.b32 [l], 12;\n"
    "    .param .b64 n; st.param.b64 [n], %d2; .param .b64 s; st.param.b64 [s], 1;\n"
    "    call.uni __assertfail, (m, f, l, n, s); }\n"
    "  ret; }\n";

enum where { INSIDE, SHORT, ODD, FREED, HOST, NOTHING };

static int kernel(const char *name, enum where where, cudaError_t wanted) {
    CUmodule module;
    CUfunction function;
    void *memory = NULL, *fresh = NULL;
    static unsigned on_host[64];
    unsigned threads = 32;
    SAME(cudaMalloc(&memory, 128), cudaSuccess);
    SAME(cuModuleLoadData(&module, TEXT), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    uintptr_t address = (uintptr_t)memory;
    switch (where) {
        case INSIDE: break;
        case SHORT: threads = 33; break;
        case ODD: address += 2, threads = 1; break;
        case FREED: { /* after a launch that may touch it */
            void *parameters[] = {&address};
            SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_SUCCESS);
            SAME(cudaFree(memory), cudaSuccess);
            break;
        }
        case HOST: address = (uintptr_t)on_host; break;
        case NOTHING: address = 0; break;
    }
    void *parameters[] = {&address};
    SAME(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL), CUDA_SUCCESS);
    SAME(cudaGetLastError(), cudaSuccess);
    SAME(cudaDeviceSynchronize(), wanted);
    SAME(cudaGetLastError(), wanted);
    SAME(cudaMalloc(&fresh, 4), wanted);
    SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), (CUresult)wanted);
    SAME(cudaDeviceSynchronize(), wanted);
    SAME(on_host[0], 0);
    /* Which device and whether it has a context is not news of its work. */
    int current = -1, is_active = 0;
    unsigned flags = 0;
    SAME(cudaGetDevice(&current), cudaSuccess);
    SAME(cuDevicePrimaryCtxGetState(0, &flags, &is_active), CUDA_SUCCESS);
    SAME(is_active, 1);
    /* Another device goes on. */
    SAME(cudaSetDevice(1), cudaSuccess);
    SAME(cudaMalloc(&fresh, 4), cudaSuccess);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    return failures();
}

static void in_a_process(const char *name, enum where where, cudaError_t wanted) {
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(kernel(name, where, wanted));
    }
    int status = -1;
    SAME(waitpid(child, &status, 0), child);
    if (status != 0) fprintf(stderr, "kernel %s, case %d: status %#x\n", name, where, status);
    SAME(status, 0);
}

int main(void) {
    in_a_process("store", SHORT, cudaErrorIllegalAddress);
    in_a_process("store", ODD, cudaErrorMisalignedAddress);
    in_a_process("store", FREED, cudaErrorIllegalAddress);
    in_a_process("store", HOST, cudaErrorIllegalAddress);
    in_a_process("store", NOTHING, cudaErrorIllegalAddress);
    in_a_process("stop", INSIDE, cudaErrorLaunchFailure);
    in_a_process("jump", INSIDE, cudaErrorInvalidPc);
    in_a_process("meet", INSIDE, cudaErrorLaunchTimeout);
    in_a_process("test", INSIDE, cudaErrorAssert);
    return failures();
}
