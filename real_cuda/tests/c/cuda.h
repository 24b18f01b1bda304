/* What the programs here use of cuda.h, and a check. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUdevice;
typedef void *CUcontext, *CUstream, *CUarray, *CUmemoryPool, *CUfunction, *CUmodule;
typedef unsigned long long CUdeviceptr, CUhandle;
typedef struct { unsigned kind; int id; } CUmemLocation;
typedef struct { CUmemLocation location; unsigned flags; } CUmemAccessDesc;
typedef struct { unsigned type, handles; CUmemLocation location; void *win32; unsigned char flags[8]; } CUmemAllocationProp;
typedef struct { unsigned type, handles; CUmemLocation location; void *win32; size_t max; unsigned char reserved[56]; } CUmemPoolProps;
typedef struct { size_t width, height; unsigned format, channels; } CUDA_ARRAY_DESCRIPTOR;
typedef struct {
    size_t srcX, srcY; unsigned srcType; const void *srcHost; CUdeviceptr srcDevice; CUarray srcArray; size_t srcPitch;
    size_t dstX, dstY; unsigned dstType; void *dstHost; CUdeviceptr dstDevice; CUarray dstArray; size_t dstPitch;
    size_t width, height;
} CUDA_MEMCPY2D;

int cuInit(unsigned), cuDriverGetVersion(int *), cuDeviceGetCount(int *), cuDeviceGet(CUdevice *, int);
int cuDeviceGetName(char *, int, CUdevice), cuDeviceGetUuid_v2(unsigned char *, CUdevice), cuDeviceTotalMem_v2(size_t *, CUdevice);
int cuDeviceGetAttribute(int *, int, CUdevice), cuDeviceComputeCapability(int *, int *, CUdevice);
int cuDeviceGetPCIBusId(char *, int, CUdevice), cuDeviceGetByPCIBusId(CUdevice *, const char *);
int cuDeviceCanAccessPeer(int *, CUdevice, CUdevice), cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice);
int cuDevicePrimaryCtxRetain(CUcontext *, CUdevice), cuDevicePrimaryCtxRelease_v2(CUdevice);
int cuDevicePrimaryCtxReset_v2(CUdevice), cuDevicePrimaryCtxGetState(CUdevice, unsigned *, int *);
int cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned);
int cuCtxCreate_v2(CUcontext *, unsigned, CUdevice), cuCtxDestroy_v2(CUcontext), cuCtxSetCurrent(CUcontext);
int cuCtxGetCurrent(CUcontext *), cuCtxGetDevice(CUdevice *), cuCtxSynchronize(void), cuCtxPopCurrent_v2(CUcontext *);
int cuStreamCreate(CUstream *, unsigned), cuStreamDestroy_v2(CUstream), cuStreamSynchronize(CUstream);
int cuStreamGetDevice(CUstream, CUdevice *);
int cuMemAlloc_v2(CUdeviceptr *, size_t), cuMemFree_v2(CUdeviceptr), cuMemGetInfo_v2(size_t *, size_t *);
int cuMemAlloc(unsigned *, unsigned);
int cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned), cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
int cuMemAllocAsync(CUdeviceptr *, size_t, CUstream), cuMemFreeAsync(CUdeviceptr, CUstream);
int cuMemPoolCreate(CUmemoryPool *, const CUmemPoolProps *), cuMemPoolDestroy(CUmemoryPool);
int cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
int cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr);
int cuMemCreate(CUhandle *, size_t, const CUmemAllocationProp *, unsigned long long), cuMemRelease(CUhandle);
int cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *, CUhandle);
int cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long), cuMemAddressFree(CUdeviceptr, size_t);
int cuMemMap(CUdeviceptr, size_t, size_t, CUhandle, unsigned long long), cuMemUnmap(CUdeviceptr, size_t);
int cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t), cuMemGetAccess(unsigned long long *, const CUmemLocation *, CUdeviceptr);
int cuArrayCreate_v2(CUarray *, const CUDA_ARRAY_DESCRIPTOR *), cuArrayDestroy(CUarray);
int cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t), cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
int cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t), cuMemcpy(CUdeviceptr, CUdeviceptr, size_t);
int cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream), cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream);
int cuMemcpy2D_v2(const CUDA_MEMCPY2D *);
int cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t), cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream);
int cuMemsetD16_v2(CUdeviceptr, unsigned short, size_t);
int cuMemsetD2D16_v2(CUdeviceptr, size_t, unsigned short, size_t, size_t);
int cuPointerGetAttribute(void *, int, CUdeviceptr), cuPointerGetAttributes(unsigned, int *, void **, CUdeviceptr);
int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *), cuGetProcAddress(const char *, void **, int, unsigned long long);
int cuGetErrorName(int, const char **);
int cuModuleLoadData(CUmodule *, const void *), cuModuleGetFunction(CUfunction *, CUmodule, const char *);
int cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);

#define MIB ((size_t)1 << 20)

/* Ends the program with the place where something is not as it should be. */
#define IS(got, wanted) do { \
    long long is_ = (long long)(got), should_ = (long long)(wanted); \
    if (is_ != should_) { \
        fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, is_, should_); \
        exit(1); \
    } \
} while (0)
#define OK(call) IS(call, 0)
