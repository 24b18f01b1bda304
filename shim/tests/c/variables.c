/* Variables of device code as nvcc registers them: their initial values come from the fat binary, compressed or not, as cubin or
 * as PTX; what cannot be had is not taken for zero. */
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "check.h"
#include "images.h"

/* What compiled code has instead of a header. */
void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int);
char __cudaInitModule(void **);

struct wrapper {
    int magic, version;
    const void *data;
    void *more;
};

struct point {
    char tag;
    double x;
    short y;
};

static struct twins {
    int number;
    float values[4];
    double zeroes[3];
    uint16_t table[5];
    struct point point;
    double ratio;
    int targets[4];
    uint64_t pointer;
    int nowhere;
} twins[4];

static void program(const char *image, struct twins *twin) {
    static struct wrapper wrappers[4];
    struct wrapper *wrapper = &wrappers[twin - twins];
    *wrapper = (struct wrapper){0x466243b1, 1, image, NULL};
    void **handle = __cudaRegisterFatBinary(wrapper);
    static int *managed;
#define REGISTER(name) __cudaRegisterVar(handle, (char *)&twin->name, #name, #name, 0, sizeof twin->name, 0, 0)
    REGISTER(number);
    REGISTER(values);
    REGISTER(zeroes);
    REGISTER(table);
    REGISTER(point);
    REGISTER(ratio);
    REGISTER(targets);
    REGISTER(pointer);
    REGISTER(nowhere);
    __cudaRegisterManagedVar(handle, (void **)&managed, "targets", "targets", 0, sizeof twin->targets, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);

    /* A managed variable is read without a call of CUDA's. */
    __cudaInitModule(handle);
    for (int i = 0; i < 4; i++) SAME(managed[i], 9 - i);
    managed[0] = 100;
    __cudaInitModule(handle);
    SAME(managed[0], 100); /* filled once */
    int back = 0;
    SAME(cudaMemcpyFromSymbol(&back, managed, sizeof back, 0, cudaMemcpyDefault), cudaSuccess);
    SAME(back, 100);

    for (int device = 0; device < 2; device++) {
        SAME(cudaSetDevice(device), cudaSuccess);
        int number = 0;
        float values[4] = {0};
        double zeroes[3] = {1, 1, 1}, ratio = 0;
        uint16_t table[5] = {0};
        struct point point = {0};
        uint64_t pointer = 0;
#define READ(name) SAME(cudaMemcpyFromSymbol(&name, &twin->name, sizeof name, 0, cudaMemcpyDeviceToHost), cudaSuccess)
        READ(number);
        SAME(number, 42);
        READ(values);
        EXPECT(values[0] == 1.5f && values[1] == -2.0f && values[2] == 0.0f && values[3] == 3.25f);
        READ(zeroes);
        EXPECT(zeroes[0] == 0 && zeroes[1] == 0 && zeroes[2] == 0);
        READ(table);
        for (int i = 0; i < 4; i++) SAME(table[i], i + 1);
        SAME(table[4], 65535);
        READ(point);
        EXPECT(point.tag == 'p' && point.x == 0.1 && point.y == -7);
        READ(ratio);
        EXPECT(ratio == 0.1);
        /* The address of the third target on this device. */
        void *address = NULL;
        READ(pointer);
        SAME(cudaGetSymbolAddress(&address, &twin->targets), cudaSuccess);
        SAME(pointer, (uint64_t)(uintptr_t)address + 8);
        SAME(cudaMemcpy(&number, (void *)(uintptr_t)pointer, sizeof number, cudaMemcpyDeviceToHost), cudaSuccess);
        SAME(number, 7);

        /* Written on one device, untouched on the other. */
        number = 1000 + device;
        SAME(cudaMemcpyToSymbol(&twin->number, &number, sizeof number, 0, cudaMemcpyHostToDevice), cudaSuccess);
    }
    for (int device = 0; device < 2; device++) {
        int number = 0;
        SAME(cudaSetDevice(device), cudaSuccess);
        READ(number);
        SAME(number, 1000 + device);
    }
}

int main(void) {
    program(with_cubin, &twins[0]);
    program(zstd, &twins[1]);
    program(lz4, &twins[2]);
    program(text_only, &twins[3]);

    /* Not in the device code: a gap, which the policy `error` refuses. */
    int value = 0;
    SAME(cudaMemcpyFromSymbol(&value, &twins[0].nowhere, sizeof value, 0, cudaMemcpyDeviceToHost), STRICT ? cudaErrorNotSupported : cudaSuccess);
    return failures();
}
