/* Twenty kernels of a module of machine code, each launched three times. */
#include <cuda.h>
#include <stdio.h>

#include "check.h"

int main(void) {
    CUcontext context;
    CUmodule module;
    SAME(cuInit(0), CUDA_SUCCESS);
    SAME(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    SAME(cuCtxSetCurrent(context), CUDA_SUCCESS);
    SAME(cuModuleLoadData(&module, "\x7f" "ELF"), CUDA_SUCCESS);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20; i++) {
            char name[32];
            CUfunction function;
            snprintf(name, sizeof name, "kernel%d", i);
            SAME(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
            SAME(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, NULL, NULL), CUDA_SUCCESS);
        }
    }
    return failures();
}
