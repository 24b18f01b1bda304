/* FAKEGPU_FRESH_MEMORY: what a function leaves unwritten of its variables holds this byte if it runs after a call of CUDA. */
#include <cuda_runtime_api.h>

#include "check.h"

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

__attribute__((noinline)) static int unwritten(int index) {
    volatile unsigned char bytes[8192];
    if (index < 0) bytes[-index] = 1;
    int filled = 0;
    for (int i = 0; i < (int)sizeof(bytes); i++) filled += bytes[i] == 60;
    return filled;
}

int main(void) {
    int device, before = unwritten(0);
    SAME(cudaGetDevice(&device), 0);
    int after = unwritten(0);
    EXPECT(before < 512);
    /* All but the part that the call itself has used since. */
    EXPECT(after > 4096);
    return failures();
}
