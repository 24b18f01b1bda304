/* A library that contains CUDA's runtime has a last error of its own. LIBRARY is made from copy_library.c. */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "check.h"

int main(void) {
    void *library = dlopen(getenv("LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    EXPECT(library);
    if (!library) return failures();
    int (*choose)(int), (*peek)(void), (*take)(void);
    *(void **)&choose = dlsym(library, "choose");
    *(void **)&peek = dlsym(library, "peek");
    *(void **)&take = dlsym(library, "take");

    SAME(cudaSetDevice(99), cudaErrorInvalidDevice);
    SAME(peek(), cudaSuccess);
    SAME(cudaGetLastError(), cudaErrorInvalidDevice);
    SAME(choose(0), cudaSuccess);
    SAME(choose(99), cudaErrorInvalidDevice);
    SAME(cudaPeekAtLastError(), cudaSuccess);
    SAME(peek(), cudaErrorInvalidDevice);
    SAME(take(), cudaErrorInvalidDevice);
    SAME(take(), cudaSuccess);
    return failures();
}
