/* Launches of two kernels on two devices: directly, as a library's, and in graphs. */
#include "cuda.h"

typedef void *CUgraph, *CUgraphExec, *CUlibrary, *CUkernel;
typedef struct { unsigned sizes[7]; CUstream stream; void *attributes; unsigned count; } CUlaunchConfig;

int cuLaunchKernelEx(const CUlaunchConfig *, CUfunction, void **, void **), cuModuleUnload(CUmodule);
int cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **);
int cuLibraryLoadData(CUlibrary *, const void *, void *, void *, unsigned, void *, void *, unsigned);
int cuLibraryGetKernel(CUkernel *, CUlibrary, const char *), cuLibraryUnload(CUlibrary);
int cuStreamBeginCapture_v2(CUstream, int), cuStreamEndCapture(CUstream, CUgraph *);
int cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long), cuGraphLaunch(CUgraphExec, CUstream);
int cuGraphExecDestroy(CUgraphExec), cuGraphDestroy(CUgraph);

static const char KERNELS[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry first() { ret; }\n.visible .entry second() { ret; }\n";

static int launch(CUfunction function, CUstream stream) {
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

int main(void) {
    CUcontext contexts[2];
    CUmodule modules[2];
    CUfunction first, second, other;
    CUstream stream;
    CUgraph graphs[2];
    CUgraphExec executables[2];
    CUlibrary library;
    CUkernel kernel;

    OK(cuInit(0));
    for (int device = 0; device < 2; device++) {
        OK(cuDevicePrimaryCtxRetain(&contexts[device], device));
        OK(cuCtxSetCurrent(contexts[device]));
        OK(cuModuleLoadData(&modules[device], KERNELS));
    }
    OK(cuModuleGetFunction(&other, modules[1], "second"));
    OK(launch(other, NULL)); /* 1: second 1 */
    OK(cuLibraryLoadData(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "second"));
    OK(launch(kernel, NULL)); /* 1: second 2 */
    OK(cuLibraryUnload(library));

    OK(cuCtxSetCurrent(contexts[0]));
    OK(cuModuleGetFunction(&first, modules[0], "first"));
    OK(cuModuleGetFunction(&second, modules[0], "second"));
    OK(cuStreamCreate(&stream, 1));
    OK(cuLaunchCooperativeKernel(first, 1, 1, 1, 32, 1, 1, 0, stream, NULL)); /* 0: first 1 */
    CUlaunchConfig one = {{1, 1, 1, 32, 1, 1, 0}, stream, NULL, 0};
    OK(cuLaunchKernelEx(&one, first, NULL, NULL)); /* 0: first 2 */
    IS(cuLaunchKernel(first, 0, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), 1);
    for (int graph = 0; graph < 2; graph++) {
        OK(cuStreamBeginCapture_v2(stream, 0));
        OK(launch(first, stream));
        if (graph == 0)
            OK(launch(second, stream));
        OK(cuStreamEndCapture(stream, &graphs[graph]));
        OK(cuGraphInstantiateWithFlags(&executables[graph], graphs[graph], 0));
        OK(cuGraphDestroy(graphs[graph]));
    }
    OK(cuGraphLaunch(executables[0], stream)); /* 0: first 3, second 1 */
    OK(cuGraphLaunch(executables[0], stream)); /* 0: first 4, second 2 */
    OK(cuGraphLaunch(executables[1], stream)); /* 0: first 5 */
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(executables[0]));
    OK(cuGraphExecDestroy(executables[1]));
    OK(cuModuleUnload(modules[0]));
    puts("launches: ok");
    return 0;
}
