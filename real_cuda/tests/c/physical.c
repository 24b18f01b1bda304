/* cuMemCreate on a real GPU without room for it: the host's memory takes its place with the policy mapped_host. */
#include "cuda.h"

int main(int argc, char **argv) {
    int is_mapped = !strcmp(argv[argc - 1], "mapped_host"), in = 6, out = 0;
    size_t before, after, total;
    CUcontext context;
    CUhandle handle;
    CUdeviceptr at;
    CUmemAllocationProp back, properties = {.type = 1, .location = {1, 1}};
    CUmemAccessDesc access = {{1, 1}, 3};

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 1));
    OK(cuCtxSetCurrent(context));
    OK(cuMemGetInfo_v2(&before, &total));
    IS(cuMemCreate(&handle, 2 * MIB, &properties, 0), is_mapped ? 0 : 2);
    if (is_mapped) {
        OK(cuMemGetInfo_v2(&after, &total));
        IS(before - after, 2 * MIB);
        OK(cuMemGetAllocationPropertiesFromHandle(&back, handle));
        IS(back.location.kind * 10 + back.location.id, 11); /* as the program asked for it */
        OK(cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0));
        OK(cuMemMap(at, 2 * MIB, 0, handle, 0));
        OK(cuMemSetAccess(at, 2 * MIB, &access, 1));
        OK(cuMemcpyHtoD_v2(at, &in, sizeof in));
        OK(cuMemcpyDtoH_v2(&out, at, sizeof out));
        IS(out, 6);
        OK(cuMemRelease(handle));
        OK(cuMemUnmap(at, 2 * MIB));
        OK(cuMemAddressFree(at, 2 * MIB));
    }
    OK(cuMemGetInfo_v2(&after, &total));
    IS(before - after, 0);
    IS(cuMemCreate(&handle, 2048 * MIB, &properties, 0), 2); /* the virtual device has not so much either */
    puts("physical: ok");
    return 0;
}
