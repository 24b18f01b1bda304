/* nvJitLink, declared here by hand from its documentation: PTX is linked, and the result loads and runs as a cubin does. */
#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

int nvJitLinkVersion(unsigned *, unsigned *), nvJitLinkCreate(void **, uint32_t, const char **), nvJitLinkDestroy(void **);
int nvJitLinkAddData(void *, int, const void *, size_t, const char *), nvJitLinkAddFile(void *, int, const char *);
int nvJitLinkComplete(void *), nvJitLinkGetLinkedCubinSize(void *, size_t *), nvJitLinkGetLinkedCubin(void *, void *);
int nvJitLinkGetErrorLogSize(void *, size_t *), nvJitLinkGetErrorLog(void *, char *);

enum { INVALID_INPUT = 3, PTX_COMPILE = 4, UNRECOGNIZED_INPUT = 8, NULL_INPUT = 10 };
enum { CUBIN = 1, PTX = 2, ANY = 10 };

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

static const char CALLER[] = HEAD
    ".extern .func (.param .b32 result) twice(.param .b32 value);\n"
    ".visible .entry store(.param .u64 out) {\n"
    "  .reg .u32 %r<3>; .reg .u64 %d;\n"
    "  ld.param.u64 %d, [out]; mov.u32 %r0, 21;\n"
    "  { .param .b32 in; .param .b32 back; st.param.b32 [in], %r0;\n"
    "    call (back), twice, (in); ld.param.b32 %r1, [back]; }\n"
    "  st.global.u32 [%d], %r1; ret;\n"
    "}\n";
static const char CALLEE[] = HEAD
    ".visible .func (.param .b32 result) twice(.param .b32 value) {\n"
    "  .reg .u32 %r<2>; ld.param.b32 %r0, [value]; add.u32 %r1, %r0, %r0; st.param.b32 [result], %r1; ret;\n"
    "}\n";

static void *link_of(const char **options, int count) {
    void *link = NULL;
    SAME(nvJitLinkCreate(&link, count, options), 0);
    return link;
}

int main(void) {
    const char *options[] = {"-arch=sm_80", "-lineinfo"};
    unsigned major = 0, minor = 0;
    SAME(nvJitLinkVersion(&major, &minor), 0);
    EXPECT(major == 12 || major == 13);
    void *link = NULL;
    EXPECT(nvJitLinkCreate(&link, 1, options + 1) != 0); /* no architecture */

    link = link_of(options, 2);
    SAME(nvJitLinkComplete(link), INVALID_INPUT);
    SAME(nvJitLinkAddData(link, PTX, NULL, 4, "none"), NULL_INPUT);
    SAME(nvJitLinkAddData(link, ANY, "hello", 5, "hello"), UNRECOGNIZED_INPUT);
    SAME(nvJitLinkAddData(link, PTX, CALLER, sizeof CALLER, "caller"), 0);
    SAME(nvJitLinkAddData(link, ANY, CALLEE, sizeof CALLEE, "callee"), 0);
    SAME(nvJitLinkComplete(link), 0);
    SAME(nvJitLinkAddData(link, PTX, CALLEE, sizeof CALLEE, "late"), INVALID_INPUT);
    size_t size = 0;
    SAME(nvJitLinkGetLinkedCubinSize(link, &size), 0);
    char *cubin = malloc(size);
    SAME(nvJitLinkGetLinkedCubin(link, cubin), 0);

    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr out;
    SAME(cuInit(0), CUDA_SUCCESS);
    SAME(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    SAME(cuCtxSetCurrent(context), CUDA_SUCCESS);
    SAME(cuModuleLoadData(&module, cubin), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&function, module, "store"), CUDA_SUCCESS);
    SAME(cuMemAlloc_v2(&out, 4), CUDA_SUCCESS);
    void *arguments[] = {&out};
    unsigned value = 0;
    SAME(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), CUDA_SUCCESS);
    SAME(cuMemcpyDtoH_v2(&value, out, sizeof value), CUDA_SUCCESS);
    SAME(value, 42);

    /* What was linked can be linked again. */
    void *second = link_of(options, 1);
    SAME(nvJitLinkAddData(second, CUBIN, cubin, size, "linked"), 0);
    SAME(nvJitLinkComplete(second), 0);
    SAME(nvJitLinkDestroy(&second), 0);
    EXPECT(second == NULL);
    free(cubin);
    SAME(nvJitLinkDestroy(&link), 0);
    SAME(nvJitLinkDestroy(&link), INVALID_INPUT);

    link = link_of(options, 1);
    SAME(nvJitLinkAddData(link, PTX, CALLER, sizeof CALLER, "caller"), 0);
    SAME(nvJitLinkComplete(link), PTX_COMPILE);
    SAME(nvJitLinkGetErrorLogSize(link, &size), 0);
    char *log = malloc(size);
    SAME(nvJitLinkGetErrorLog(link, log), 0);
    SAME(strlen(log) + 1, size);
    EXPECT(strstr(log, "twice") != NULL);
    free(log);
    EXPECT(nvJitLinkAddFile(link, PTX, "/nowhere.ptx") != 0);
    SAME(nvJitLinkDestroy(&link), 0);
    return failures();
}
