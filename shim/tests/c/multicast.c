/* Multicast objects of two devices in one process: what may be created, added and bound, and what kernels and copies do there. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

static const char TEXT[] =
    ".version 8.1\n.target sm_90\n.address_size 64\n"
    ".visible .entry add(.param .u64 to)\n{\n.reg .b64 %a;\n.reg .b32 %r;\nld.param.u64 %a, [to];\n"
    "mov.u32 %r, %tid.x;\nmul.wide.u32 %a, %r, 4;\n.reg .b64 %b;\nld.param.u64 %b, [to];\nadd.u64 %a, %a, %b;\n"
    "multimem.red.relaxed.sys.global.add.u32 [%a], %r;\nret;\n}\n"
    ".visible .entry sum(.param .u64 from, .param .u64 to)\n{\n.reg .b64 %a, %b;\n.reg .b32 %r;\nld.param.u64 %a, [from];\nld.param.u64 %b, [to];\n"
    "multimem.ld_reduce.acquire.sys.global.add.u32 %r, [%a];\nst.global.u32 [%b], %r;\nret;\n}\n"
    ".visible .entry plain(.param .u64 to)\n{\n.reg .b64 %a;\nld.param.u64 %a, [to];\nst.global.u32 [%a], 1;\nret;\n}\n";

static size_t size;

static CUmemGenericAllocationHandle memory(int device, int shared) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    wanted.location.id = device;
    wanted.requestedHandleTypes = shared ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
    SAME(cuMemCreate(&handle, size, &wanted, 0), CUDA_SUCCESS);
    return handle;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle) {
    CUdeviceptr base = 0;
    CUmemAccessDesc access[2];
    for (int device = 0; device < 2; device++) {
        access[device].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[device].location.id = device;
        access[device].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    SAME(cuMemAddressReserve(&base, size, 0, 0, 0), CUDA_SUCCESS);
    SAME(cuMemMap(base, size, 0, handle, 0), CUDA_SUCCESS);
    SAME(cuMemSetAccess(base, size, access, 2), CUDA_SUCCESS);
    return base;
}

static unsigned word(CUdeviceptr base, int index) {
    unsigned value = 0;
    SAME(cuMemcpyDtoH(&value, base + 4 * index, 4), CUDA_SUCCESS);
    return value;
}

static void launch(CUmodule module, const char *name, CUdeviceptr one, CUdeviceptr two, int threads, CUresult expected) {
    CUfunction function;
    void *parameters[] = {&one, &two};
    SAME(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    SAME(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL), CUDA_SUCCESS);
    SAME(cuCtxSynchronize(), expected);
}

int main(int argc, char **argv) {
    int supported = -1, fd = -1;
    CUmulticastObjectProp wanted;
    CUmemGenericAllocationHandle object, same, alone, incomplete, parts[2];
    CUdeviceptr there, at[2], source, out;
    CUmodule module;
    memset(&wanted, 0, sizeof wanted);
    (void)argc;
    (void)argv;
    SAME(cudaFree(NULL), cudaSuccess);
    SAME(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0), CUDA_SUCCESS);
    wanted.numDevices = 2;
    wanted.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (!supported) {
        SAME(cuMulticastGetGranularity(&size, &wanted, CU_MULTICAST_GRANULARITY_MINIMUM), CUDA_ERROR_NOT_SUPPORTED);
        SAME(cuMulticastCreate(&object, &wanted), CUDA_ERROR_NOT_SUPPORTED);
        printf("not supported\n");
        return failures();
    }
    SAME(cuMulticastGetGranularity(&size, &wanted, CU_MULTICAST_GRANULARITY_MINIMUM), CUDA_SUCCESS);
    EXPECT(size > 0);

    SAME(cuMulticastCreate(&object, &wanted), CUDA_ERROR_INVALID_VALUE);
    wanted.size = size;
    wanted.numDevices = 0;
    SAME(cuMulticastCreate(&object, &wanted), CUDA_ERROR_INVALID_VALUE);
    wanted.numDevices = 2;
    SAME(cuMulticastCreate(&object, &wanted), CUDA_SUCCESS);
    SAME(cuMulticastAddDevice(object, 0), CUDA_SUCCESS);
    SAME(cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMulticastAddDevice(object, 2), CUDA_ERROR_INVALID_DEVICE);
    /* As another process would get it. */
    SAME(cuMemExportToShareableHandle(&fd, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_SUCCESS);
    SAME(cuMemImportFromShareableHandle(&same, (void *)(size_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), CUDA_SUCCESS);
    SAME(cuMulticastAddDevice(same, 1), CUDA_SUCCESS);

    for (int device = 0; device < 2; device++) {
        parts[device] = memory(device, 1);
        at[device] = map(parts[device]);
        SAME(cuMemsetD32(at[device], 10 * (device + 1), 16), CUDA_SUCCESS);
    }
    alone = memory(0, 0);
    /* An object that can be exported binds only memory that can be. */
    SAME(cuMulticastBindMem(object, 0, alone, 0, size, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMulticastBindMem(parts[0], 0, parts[0], 0, size, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMulticastBindMem(object, 0, parts[0], 0, 2 * size, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMulticastBindMem(object, 0, parts[0], size / 2, size / 2, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMulticastBindMem(object, 0, parts[0], 0, size, 0), CUDA_SUCCESS);
    SAME(cuMulticastBindMem(object, 0, parts[0], 0, size, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMulticastBindAddr(same, 0, at[1], size, 0), CUDA_SUCCESS);

    /* A team that stays incomplete. */
    wanted.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    SAME(cuMulticastCreate(&incomplete, &wanted), CUDA_SUCCESS);
    SAME(cuMulticastAddDevice(incomplete, 0), CUDA_SUCCESS);
    SAME(cuMulticastBindMem(incomplete, 0, alone, 0, size, 0), CUDA_ERROR_ILLEGAL_STATE);

    there = map(object);
    SAME(cuModuleLoadData(&module, TEXT), CUDA_SUCCESS);
    launch(module, "add", there, 0, 8, CUDA_SUCCESS);
    SAME(word(at[0], 7), 17);
    SAME(word(at[1], 7), 27);
    SAME(cuMemAlloc(&out, 64), CUDA_SUCCESS);
    launch(module, "sum", there + 28, out, 1, CUDA_SUCCESS);
    SAME(word(out, 0), 44);

    /* A copy goes to every device; nothing can be read or filled there. */
    SAME(cuMemAlloc(&source, 64), CUDA_SUCCESS);
    SAME(cuMemsetD32(source, 5, 16), CUDA_SUCCESS);
    SAME(cuMemcpyDtoD(there + 8, source, 4), CUDA_SUCCESS);
    for (int device = 0; device < 2; device++) {
        SAME(word(at[device], 2), 5);
        SAME(word(at[device], 3), 10u * (device + 1) + 3);
    }
    SAME(cuMemcpyDtoD(source, there, 4), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMemcpyDtoD(there + size - 32, source, 64), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMemsetD32(there, 5, 16), CUDA_ERROR_INVALID_VALUE);

    SAME(cuMulticastUnbind(object, 1, 0, size), CUDA_SUCCESS);
    SAME(cuMulticastUnbind(same, 1, 0, size), CUDA_ERROR_INVALID_VALUE);
#if CUDART_VERSION >= 13000
    SAME(cuMulticastBindMem_v2(same, 0, 0, parts[1], 0, size, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMulticastBindMem_v2(same, 1, 0, parts[1], 0, size, 0), CUDA_SUCCESS);
    SAME(cuMulticastUnbind(same, 1, 0, size), CUDA_SUCCESS);
    launch(module, "plain", there, 0, 1, CUDA_ERROR_ILLEGAL_ADDRESS);
#else
    launch(module, "add", there, 0, 8, CUDA_ERROR_ILLEGAL_ADDRESS);
#endif
    return failures();
}
