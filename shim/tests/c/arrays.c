/* CUDA arrays, the copies to and from them, texture and surface objects, by the runtime and by the driver. One A100. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "check.h"

/* cudaMemcpyToArray and cudaMemcpyFromArray. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { WIDTH = 6, HEIGHT = 4, DEPTH = 3 };

static struct cudaChannelFormatDesc channels(int x, int y, int z, int w, enum cudaChannelFormatKind kind) {
    struct cudaChannelFormatDesc format = {x, y, z, w, kind};
    return format;
}

static void allocation(void) {
    struct cudaChannelFormatDesc format = channels(16, 16, 0, 0, cudaChannelFormatKindSigned), found;
    struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH};
    cudaArray_t array = NULL;
    unsigned flags = 9;
    size_t before, after, total;
    SAME(cudaMemGetInfo(&before, &total), cudaSuccess);
    SAME(cudaMallocArray(&array, &format, 1 << 15, 1 << 10, cudaArraySurfaceLoadStore), cudaSuccess);
    SAME(cudaMemGetInfo(&after, &total), cudaSuccess);
    SAME(before - after, 1 << 27);
    SAME(cudaArrayGetInfo(&found, &extent, &flags, array), cudaSuccess);
    SAME(extent.width, 1 << 15);
    SAME(extent.height, 1 << 10);
    SAME(extent.depth, 0);
    SAME(flags, cudaArraySurfaceLoadStore);
    EXPECT(found.x == 16 && found.y == 16 && found.z == 0 && found.w == 0 && found.f == cudaChannelFormatKindSigned);
    SAME(cudaFreeArray(array), cudaSuccess);
    SAME(cudaFreeArray(array), cudaErrorInvalidValue);
    SAME(cudaFreeArray(NULL), cudaSuccess);
    SAME(cudaMemGetInfo(&after, &total), cudaSuccess);
    SAME(after, before);
    format = channels(32, 32, 32, 0, cudaChannelFormatKindFloat);
    SAME(cudaMallocArray(&array, &format, 8, 8, 0), cudaErrorInvalidChannelDescriptor);
    format = channels(32, 0, 0, 0, cudaChannelFormatKindFloat);
    SAME(cudaMallocArray(&array, &format, 0, 8, 0), cudaErrorInvalidValue);
    SAME(cudaMallocArray(&array, &format, 131073, 0, 0), cudaErrorInvalidValue);
    /* Layers, and cubes of six square faces. */
    struct cudaExtent layered = {8, 4, 5}, row = {8, 0, 5}, cube = {8, 8, 6};
    SAME(cudaMalloc3DArray(&array, &format, layered, cudaArrayLayered), cudaSuccess);
    SAME(cudaArrayGetInfo(NULL, &extent, &flags, array), cudaSuccess);
    EXPECT(extent.depth == 5 && flags == cudaArrayLayered);
    SAME(cudaFreeArray(array), cudaSuccess);
    SAME(cudaMalloc3DArray(&array, &format, row, cudaArrayLayered), cudaSuccess);
    SAME(cudaFreeArray(array), cudaSuccess);
    SAME(cudaMalloc3DArray(&array, &format, row, 0), cudaErrorInvalidValue);
    SAME(cudaMalloc3DArray(&array, &format, cube, cudaArrayCubemap), cudaSuccess);
    SAME(cudaFreeArray(array), cudaSuccess);
    cube.depth = 12;
    SAME(cudaMalloc3DArray(&array, &format, cube, cudaArrayCubemap), cudaErrorInvalidValue);
    SAME(cudaMalloc3DArray(&array, &format, cube, cudaArrayCubemap | cudaArrayLayered), cudaSuccess);
    SAME(cudaFreeArray(array), cudaSuccess);
    SAME(cudaMalloc3DArray(&array, &format, layered, cudaArrayCubemap), cudaErrorInvalidValue);
    layered.depth = 2049;
    SAME(cudaMalloc3DArray(&array, &format, layered, cudaArrayLayered), cudaErrorInvalidValue);
    SAME(cudaMallocArray(&array, NULL, 8, 8, 0), cudaErrorInvalidValue);
    SAME(cudaGetChannelDesc(&found, NULL), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

static void copies(void) {
    struct cudaChannelFormatDesc format = channels(32, 0, 0, 0, cudaChannelFormatKindUnsigned), found;
    cudaArray_t array, other;
    unsigned source[HEIGHT][WIDTH + 2], target[HEIGHT][WIDTH], line[WIDTH * 2];
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH + 2; x++) source[y][x] = 100 * y + x;
    }
    SAME(cudaMallocArray(&array, &format, WIDTH, HEIGHT, 0), cudaSuccess);
    SAME(cudaMallocArray(&other, &format, WIDTH, HEIGHT, 0), cudaSuccess);
    SAME(cudaGetChannelDesc(&found, array), cudaSuccess);
    SAME(found.x, 32);
    SAME(cudaMemcpy2DToArray(array, 0, 0, source, sizeof source[0], WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice), cudaSuccess);
    memset(target, 0xff, sizeof target);
    SAME(cudaMemcpy2DFromArray(target, sizeof target[0], array, 4, 1, 16, 2, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int x = 0; x < 4; x++) {
        SAME(target[0][x], 101 + x);
        SAME(target[1][x], 201 + x);
    }
    SAME(target[0][4], 0xffffffffu);
    SAME(target[2][0], 0xffffffffu);
    /* A part of the one into the middle of the other, in stream order. */
    SAME(cudaMemcpy2DToArrayAsync(other, 0, 0, target, sizeof target[0], WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice, 0), cudaSuccess);
    SAME(cudaMemcpy2DArrayToArray(other, 8, 2, array, 0, 0, 12, 2, cudaMemcpyDeviceToDevice), cudaSuccess);
    SAME(cudaMemcpy2DFromArrayAsync(target, sizeof target[0], other, 0, 0, WIDTH * 4, HEIGHT, cudaMemcpyDeviceToHost, 0), cudaSuccess);
    SAME(cudaDeviceSynchronize(), cudaSuccess);
    SAME(target[2][2], 0);
    SAME(target[3][4], 102);
    SAME(target[1][3], 204);
    /* Bytes go on in the next row. */
    SAME(cudaMemcpyFromArray(line, array, 8, 1, sizeof line - 8, cudaMemcpyDeviceToHost), cudaSuccess);
    SAME(line[3], 105);
    SAME(line[4], 200);
    SAME(cudaMemcpyToArray(array, 20, 0, line, 8, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(cudaMemcpyFromArray(line, array, 20, 0, 8, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT(line[0] == 102 && line[1] == 103);
    SAME(cudaMemcpy2DToArray(array, 4, 0, source, sizeof source[0], WIDTH * 4, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    SAME(cudaMemcpy2DToArray(array, 0, 3, source, sizeof source[0], WIDTH * 4, 2, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    SAME(cudaMemcpy2DToArray(array, 0, 0, source, 8, WIDTH * 4, 2, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
    /* Of one row the pitch means nothing. */
    SAME(cudaMemcpy2DToArray(array, 0, 0, source, 0, WIDTH * 4, 1, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(cudaMemcpyToArray(array, 0, 3, line, WIDTH * 4 + 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    SAME(cudaFreeArray(array), cudaSuccess);
    SAME(cudaFreeArray(other), cudaSuccess);
    (void)cudaGetLastError();
}

static void volumes(void) {
    struct cudaChannelFormatDesc format = channels(16, 16, 0, 0, cudaChannelFormatKindUnsigned);
    struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH};
    static unsigned source[DEPTH][HEIGHT][WIDTH], target[2][2][3];
    for (int i = 0; i < DEPTH * HEIGHT * WIDTH; i++) (&source[0][0][0])[i] = i;
    cudaArray_t array;
    SAME(cudaMalloc3DArray(&array, &format, extent, 0), cudaSuccess);
    /* In texels, not bytes, as soon as an array takes part. */
    struct cudaMemcpy3DParms copy = {0};
    copy.srcPtr.ptr = source;
    copy.srcPtr.pitch = sizeof source[0][0];
    copy.srcPtr.xsize = WIDTH;
    copy.srcPtr.ysize = HEIGHT;
    copy.dstArray = array;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    SAME(cudaMemcpy3D(&copy), cudaSuccess);
    copy.extent.depth = DEPTH + 1;
    SAME(cudaMemcpy3D(&copy), cudaErrorInvalidValue);
    struct cudaMemcpy3DParms back = {0};
    back.srcArray = array;
    back.srcPos.x = 2;
    back.srcPos.y = 1;
    back.srcPos.z = 1;
    back.dstPtr.ptr = target;
    back.dstPtr.pitch = sizeof target[0][0];
    back.dstPtr.xsize = 3;
    back.dstPtr.ysize = 2;
    back.extent.width = 3;
    back.extent.height = 2;
    back.extent.depth = 2;
    back.kind = cudaMemcpyDeviceToHost;
    SAME(cudaMemcpy3D(&back), cudaSuccess);
    for (int z = 0; z < 2; z++) {
        for (int y = 0; y < 2; y++) {
            for (int x = 0; x < 3; x++) SAME(target[z][y][x], ((z + 1) * HEIGHT + y + 1) * WIDTH + x + 2);
        }
    }
    SAME(cudaFreeArray(array), cudaSuccess);
    (void)cudaGetLastError();
}

static void objects(void) {
    struct cudaChannelFormatDesc format = channels(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
    struct cudaResourceDesc what, found;
    struct cudaTextureDesc how, said;
    cudaTextureObject_t texture = 0;
    cudaSurfaceObject_t surface = 0;
    cudaArray_t array;
    char *memory;
    SAME(cudaMallocArray(&array, &format, WIDTH, HEIGHT, 0), cudaSuccess);
    SAME(cudaMalloc((void **)&memory, 1 << 16), cudaSuccess);
    memset(&what, 0, sizeof what);
    memset(&how, 0, sizeof how);
    what.resType = cudaResourceTypeArray;
    what.res.array.array = array;
    how.addressMode[0] = cudaAddressModeMirror;
    how.filterMode = cudaFilterModeLinear;
    how.normalizedCoords = 1;
    how.borderColor[3] = 0.5f;
    how.maxAnisotropy = 4;
    /* Integers have no mean: linear filtering is of what is read as a fraction. */
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaErrorInvalidValue);
    how.readMode = cudaReadModeNormalizedFloat;
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaSuccess);
    EXPECT(texture != 0);
    SAME(cudaGetTextureObjectResourceDesc(&found, texture), cudaSuccess);
    EXPECT(found.resType == cudaResourceTypeArray && found.res.array.array == array);
    SAME(cudaGetTextureObjectTextureDesc(&said, texture), cudaSuccess);
    SAME(memcmp(&said, &how, sizeof how), 0);
    SAME(cudaCreateSurfaceObject(&surface, &what), cudaErrorInvalidValue);
    SAME(cudaDestroySurfaceObject(0), cudaSuccess);
    SAME(cudaDestroySurfaceObject(12345), cudaErrorInvalidValue);
    SAME(cudaDestroyTextureObject(texture), cudaSuccess);
    SAME(cudaDestroyTextureObject(texture), cudaErrorInvalidValue);
    SAME(cudaGetTextureObjectResourceDesc(&found, texture), cudaErrorInvalidValue);
    what.resType = cudaResourceTypeLinear;
    what.res.linear.devPtr = memory;
    what.res.linear.desc = format;
    what.res.linear.sizeInBytes = 1 << 16;
    how.filterMode = cudaFilterModePoint;
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaSuccess);
    SAME(cudaGetTextureObjectResourceDesc(&found, texture), cudaSuccess);
    EXPECT(found.res.linear.devPtr == memory && found.res.linear.desc.w == 8 && found.res.linear.sizeInBytes == 1 << 16);
    SAME(cudaDestroyTextureObject(texture), cudaSuccess);
    what.res.linear.devPtr = memory + 4;
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaErrorInvalidValue);
    what.res.linear.devPtr = memory;
    what.res.linear.sizeInBytes = (1 << 16) + 4;
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaErrorInvalidValue);
    memset(&what.res, 0, sizeof what.res);
    what.resType = cudaResourceTypePitch2D;
    what.res.pitch2D.devPtr = memory;
    what.res.pitch2D.desc = format;
    what.res.pitch2D.width = 10;
    what.res.pitch2D.height = 100;
    what.res.pitch2D.pitchInBytes = 512;
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaSuccess);
    SAME(cudaDestroyTextureObject(texture), cudaSuccess);
    what.res.pitch2D.pitchInBytes = 520;
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaErrorInvalidValue);
    SAME(cudaFreeArray(array), cudaSuccess);
    SAME(cudaFree(memory), cudaSuccess);
    (void)cudaGetLastError();
}

/* Levels of halved sizes, each an array of its own. */
static void mipmaps(void) {
    struct cudaChannelFormatDesc format = channels(32, 0, 0, 0, cudaChannelFormatKindFloat), found;
    struct cudaExtent extent = {20, 12, 0}, said, volume = {8, 4, 3}, layers = {8, 4, 3};
    cudaMipmappedArray_t mipmapped = NULL, other = NULL;
    cudaArray_t level = NULL, again = NULL;
    struct cudaResourceDesc what, shown;
    struct cudaTextureDesc how;
    cudaTextureObject_t texture = 0;
    cudaSurfaceObject_t surface = 0;
    float source[6][10], target[6][10];
    unsigned flags = 0;
    size_t before, after, total;
    /* 20 x 12, 10 x 6, 5 x 3, 2 x 1, 1 x 1: not more than 1 + floor(log2(20)). */
    SAME(cudaMallocMipmappedArray(&mipmapped, &format, extent, 100, cudaArraySurfaceLoadStore), cudaSuccess);
    /* Only arrays whose memory is mapped later have requirements. */
    struct cudaArrayMemoryRequirements wants;
    SAME(cudaGetMipmappedArrayLevel(&level, mipmapped, 0), cudaSuccess);
    SAME(cudaArrayGetMemoryRequirements(&wants, level, 0), cudaErrorInvalidValue);
    SAME(cudaMipmappedArrayGetMemoryRequirements(&wants, mipmapped, 0), cudaErrorInvalidValue);
    SAME(cudaArrayGetMemoryRequirements(&wants, level, 99), cudaErrorInvalidDevice);
    struct { size_t width, height; } expected[] = {{20, 12}, {10, 6}, {5, 3}, {2, 1}, {1, 1}};
    for (unsigned i = 0; i < 5; i++) {
        SAME(cudaGetMipmappedArrayLevel(&level, mipmapped, i), cudaSuccess);
        SAME(cudaArrayGetInfo(&found, &said, &flags, level), cudaSuccess);
        EXPECT(said.width == expected[i].width && said.height == expected[i].height && said.depth == 0);
        EXPECT(found.x == 32 && flags == cudaArraySurfaceLoadStore);
    }
    SAME(cudaGetMipmappedArrayLevel(&level, mipmapped, 5), cudaErrorInvalidValue);
    SAME(cudaGetMipmappedArrayLevel(&level, NULL, 0), cudaErrorInvalidResourceHandle);
    SAME(cudaGetMipmappedArrayLevel(&level, mipmapped, 1), cudaSuccess);
    SAME(cudaGetMipmappedArrayLevel(&again, mipmapped, 1), cudaSuccess);
    /* A level is copied to and from as any array, and does not reach into the next. */
    for (int i = 0; i < 60; i++) (&source[0][0])[i] = (float)i;
    SAME(cudaMemcpy2DToArray(level, 0, 0, source, sizeof source[0], sizeof source[0], 6, cudaMemcpyHostToDevice), cudaSuccess);
    SAME(cudaMemcpy2DFromArray(target, sizeof target[0], again, 0, 0, sizeof target[0], 6, cudaMemcpyDeviceToHost), cudaSuccess);
    SAME(memcmp(source, target, sizeof source), 0);
    SAME(cudaMemcpy2DToArray(level, 4, 0, source, sizeof source[0], sizeof source[0], 6, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    SAME(cudaFreeArray(level), cudaErrorInvalidValue);
    memset(&what, 0, sizeof what);
    memset(&how, 0, sizeof how);
    what.resType = cudaResourceTypeArray;
    what.res.array.array = level;
    SAME(cudaCreateSurfaceObject(&surface, &what), cudaSuccess);
    SAME(cudaDestroySurfaceObject(surface), cudaSuccess);
    /* NVIDIA's sample bindlessTexture makes surfaces of such levels. */
    cudaMipmappedArray_t plain = NULL;
    SAME(cudaMallocMipmappedArray(&plain, &format, extent, 1, 0), cudaSuccess);
    SAME(cudaGetMipmappedArrayLevel(&what.res.array.array, plain, 0), cudaSuccess);
    SAME(cudaCreateSurfaceObject(&surface, &what), cudaSuccess);
    SAME(cudaDestroySurfaceObject(surface), cudaSuccess);
    SAME(cudaFreeMipmappedArray(plain), cudaSuccess);
    what.resType = cudaResourceTypeMipmappedArray;
    what.res.mipmap.mipmap = mipmapped;
    how.mipmapFilterMode = cudaFilterModeLinear;
    how.maxMipmapLevelClamp = 4;
    /* Coordinates of mipmapped textures are normalized. */
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaErrorInvalidValue);
    how.normalizedCoords = 1;
    SAME(cudaCreateSurfaceObject(&surface, &what), cudaErrorInvalidValue);
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaSuccess);
    SAME(cudaGetTextureObjectResourceDesc(&shown, texture), cudaSuccess);
    EXPECT(shown.resType == cudaResourceTypeMipmappedArray && shown.res.mipmap.mipmap == mipmapped);
    SAME(cudaDestroyTextureObject(texture), cudaSuccess);
    SAME(cudaFreeMipmappedArray(mipmapped), cudaSuccess);
    SAME(cudaFreeMipmappedArray(mipmapped), cudaErrorInvalidValue);
    SAME(cudaFreeMipmappedArray(NULL), cudaSuccess);
    SAME(cudaGetChannelDesc(&found, level), cudaErrorInvalidValue);
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaErrorInvalidValue);
    /* Volumes lose depth, layers do not; all levels are one allocation. */
    SAME(cudaMemGetInfo(&before, &total), cudaSuccess);
    extent.width = extent.height = 4096;
    SAME(cudaMallocMipmappedArray(&other, &format, extent, 2, 0), cudaSuccess);
    SAME(cudaMemGetInfo(&after, &total), cudaSuccess);
    SAME(before - after, (64 << 20) + (16 << 20));
    SAME(cudaFreeMipmappedArray(other), cudaSuccess);
    SAME(cudaMemGetInfo(&after, &total), cudaSuccess);
    SAME(after, before);
    SAME(cudaMallocMipmappedArray(&other, &format, volume, 2, 0), cudaSuccess);
    SAME(cudaGetMipmappedArrayLevel(&level, other, 1), cudaSuccess);
    SAME(cudaArrayGetInfo(NULL, &said, NULL, level), cudaSuccess);
    EXPECT(said.width == 4 && said.height == 2 && said.depth == 1);
    SAME(cudaFreeMipmappedArray(other), cudaSuccess);
    SAME(cudaMallocMipmappedArray(&other, &format, layers, 2, cudaArrayLayered), cudaSuccess);
    SAME(cudaGetMipmappedArrayLevel(&level, other, 1), cudaSuccess);
    SAME(cudaArrayGetInfo(NULL, &said, NULL, level), cudaSuccess);
    EXPECT(said.width == 4 && said.height == 2 && said.depth == 3);
    SAME(cudaFreeMipmappedArray(other), cudaSuccess);
    /* Of one dimension there may be less texels than in an array without levels. */
    extent.width = 32769;
    extent.height = 0;
    SAME(cudaMallocMipmappedArray(&other, &format, extent, 2, 0), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

/* Texels as another format, and some levels or layers. */
static void views(void) {
    struct cudaChannelFormatDesc format = channels(32, 0, 0, 0, cudaChannelFormatKindUnsigned);
    struct cudaExtent extent = {16, 8, 5};
    struct cudaResourceDesc what;
    struct cudaTextureDesc how;
    struct cudaResourceViewDesc view, said;
    cudaMipmappedArray_t mipmapped;
    cudaArray_t array;
    cudaTextureObject_t texture;
    memset(&what, 0, sizeof what);
    memset(&how, 0, sizeof how);
    memset(&view, 0, sizeof view);
    memset(&said, 0, sizeof said);
    SAME(cudaMalloc3DArray(&array, &format, extent, cudaArrayLayered), cudaSuccess);
    what.resType = cudaResourceTypeArray;
    what.res.array.array = array;
    how.readMode = cudaReadModeNormalizedFloat;
    /* The mean of numbers, which 32 bits as one integer do not have. */
    how.filterMode = cudaFilterModeLinear;
    view.format = cudaResViewFormatUnsignedShort2;
    view.width = 16;
    view.height = 8;
    view.depth = 5;
    view.firstLayer = 1;
    view.lastLayer = 3;
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaErrorInvalidValue);
    SAME(cudaCreateTextureObject(&texture, &what, &how, &view), cudaSuccess);
    SAME(cudaGetTextureObjectResourceViewDesc(&said, texture), cudaSuccess);
    SAME(memcmp(&said, &view, sizeof view), 0);
    SAME(cudaDestroyTextureObject(texture), cudaSuccess);
    view.lastLayer = 5;
    SAME(cudaCreateTextureObject(&texture, &what, &how, &view), cudaErrorInvalidValue);
    view.lastLayer = 4;
    view.lastMipmapLevel = 1;
    SAME(cudaCreateTextureObject(&texture, &what, &how, &view), cudaErrorInvalidValue);
    view.lastMipmapLevel = 0;
    view.width = 32;
    SAME(cudaCreateTextureObject(&texture, &what, &how, &view), cudaErrorInvalidValue);
    view.width = 16;
    view.format = cudaResViewFormatUnsignedShort1;
    SAME(cudaCreateTextureObject(&texture, &what, &how, &view), cudaErrorInvalidValue);
    how.filterMode = cudaFilterModePoint;
    SAME(cudaCreateTextureObject(&texture, &what, &how, NULL), cudaSuccess);
    SAME(cudaGetTextureObjectResourceViewDesc(&said, texture), cudaErrorInvalidValue);
    SAME(cudaDestroyTextureObject(texture), cudaSuccess);
    SAME(cudaFreeArray(array), cudaSuccess);
    extent.depth = 0;
    SAME(cudaMallocMipmappedArray(&mipmapped, &format, extent, 4, 0), cudaSuccess);
    what.resType = cudaResourceTypeMipmappedArray;
    what.res.mipmap.mipmap = mipmapped;
    how.normalizedCoords = 1;
    memset(&view, 0, sizeof view);
    view.width = 16;
    view.height = 8;
    view.firstMipmapLevel = 1;
    view.lastMipmapLevel = 3;
    SAME(cudaCreateTextureObject(&texture, &what, &how, &view), cudaSuccess);
    SAME(cudaDestroyTextureObject(texture), cudaSuccess);
    view.lastMipmapLevel = 4;
    SAME(cudaCreateTextureObject(&texture, &what, &how, &view), cudaErrorInvalidValue);
    SAME(cudaFreeMipmappedArray(mipmapped), cudaSuccess);
    (void)cudaGetLastError();
}

static const char code[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry turn(.param .u64 t, .param .u64 s)\n{\n.reg .b64 %t, %s;\n.reg .b32 %x, %y, %c, %w, %r<4>;\n"
    "ld.param.u64 %t, [t];\nld.param.u64 %s, [s];\nmov.u32 %x, %tid.x;\nmov.u32 %y, %tid.y;\n"
    "tex.2d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {%x, %y}];\nmov.u32 %w, %ntid.x;\nsub.s32 %c, %w, %x;\nsub.s32 %c, %c, 1;\n"
    "mul.lo.s32 %c, %c, 8;\nsust.b.2d.v2.b32.trap [%s, {%c, %y}], {%r0, %r1};\nret;\n}\n";

static void by_the_driver(void) {
    CUDA_ARRAY_DESCRIPTOR flat = {WIDTH, HEIGHT, CU_AD_FORMAT_UNSIGNED_INT32, 2}, found;
    CUDA_ARRAY3D_DESCRIPTOR full = {WIDTH, HEIGHT, 0, CU_AD_FORMAT_UNSIGNED_INT32, 2, CUDA_ARRAY3D_SURFACE_LDST}, said;
    unsigned source[HEIGHT][WIDTH][2], target[HEIGHT][WIDTH][2];
    CUarray from, to, line;
    CUmodule module;
    CUfunction turn;
    for (int i = 0; i < HEIGHT * WIDTH * 2; i++) (&source[0][0][0])[i] = 1000 + i;
    SAME(cuArrayCreate(&from, &flat), CUDA_SUCCESS);
    SAME(cuArray3DCreate(&to, &full), CUDA_SUCCESS);
    SAME(cuArrayGetDescriptor(&found, from), CUDA_SUCCESS);
    EXPECT(found.Width == WIDTH && found.Height == HEIGHT && found.Format == CU_AD_FORMAT_UNSIGNED_INT32 && found.NumChannels == 2);
    SAME(cuArray3DGetDescriptor(&said, to), CUDA_SUCCESS);
    EXPECT(said.Depth == 0 && said.Flags == CUDA_ARRAY3D_SURFACE_LDST);
    flat.NumChannels = 3;
    SAME(cuArrayCreate(&line, &flat), CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY2D copy = {0};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = source;
    copy.srcPitch = sizeof source[0];
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = from;
    copy.WidthInBytes = sizeof source[0];
    copy.Height = HEIGHT;
    SAME(cuMemcpy2D(&copy), CUDA_SUCCESS);
    copy.dstY = 1;
    SAME(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
    CUDA_RESOURCE_DESC what, seen;
    CUDA_TEXTURE_DESC how, again;
    CUtexObject texture;
    CUsurfObject surface;
    memset(&what, 0, sizeof what);
    memset(&how, 0, sizeof how);
    what.resType = CU_RESOURCE_TYPE_ARRAY;
    what.res.array.hArray = from;
    how.flags = CU_TRSF_READ_AS_INTEGER;
    how.addressMode[0] = CU_TR_ADDRESS_MODE_CLAMP;
    how.borderColor[1] = 2;
    SAME(cuTexObjectCreate(&texture, &what, &how, NULL), CUDA_SUCCESS);
    SAME(cuTexObjectGetResourceDesc(&seen, texture), CUDA_SUCCESS);
    EXPECT(seen.resType == CU_RESOURCE_TYPE_ARRAY && seen.res.array.hArray == from && seen.flags == 0);
    SAME(cuTexObjectGetTextureDesc(&again, texture), CUDA_SUCCESS);
    SAME(memcmp(&again, &how, sizeof how), 0);
    SAME(cuSurfObjectCreate(&surface, &what), CUDA_ERROR_INVALID_VALUE);
    what.res.array.hArray = to;
    SAME(cuSurfObjectCreate(&surface, &what), CUDA_SUCCESS);
    SAME(cuSurfObjectGetResourceDesc(&seen, surface), CUDA_SUCCESS);
    EXPECT(seen.res.array.hArray == to);
    SAME(cuModuleLoadData(&module, code), CUDA_SUCCESS);
    SAME(cuModuleGetFunction(&turn, module, "turn"), CUDA_SUCCESS);
    void *arguments[] = {&texture, &surface};
    SAME(cuLaunchKernel(turn, 1, 1, 1, WIDTH, HEIGHT, 1, 0, 0, arguments, NULL), CUDA_SUCCESS);
    CUDA_MEMCPY3D back = {0};
    back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    back.srcArray = to;
    back.dstMemoryType = CU_MEMORYTYPE_HOST;
    back.dstHost = target;
    back.dstPitch = sizeof target[0];
    back.dstHeight = HEIGHT;
    back.WidthInBytes = sizeof target[0];
    back.Height = HEIGHT;
    back.Depth = 1;
    SAME(cuMemcpy3D(&back), CUDA_SUCCESS);
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            SAME(target[y][x][0], source[y][WIDTH - 1 - x][0]);
            SAME(target[y][x][1], source[y][WIDTH - 1 - x][1]);
        }
    }
    SAME(cuTexObjectDestroy(texture), CUDA_SUCCESS);
    SAME(cuSurfObjectDestroy(surface), CUDA_SUCCESS);
    SAME(cuSurfObjectDestroy(surface), CUDA_ERROR_INVALID_VALUE);
    SAME(cuArrayDestroy(from), CUDA_SUCCESS);
    SAME(cuArrayDestroy(from), CUDA_ERROR_INVALID_HANDLE);
    SAME(cuArrayDestroy(to), CUDA_SUCCESS);
    /* One dimension, by bytes. */
    CUDA_ARRAY_DESCRIPTOR row = {16, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4};
    unsigned char bytes[64], got[8];
    CUdeviceptr memory;
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)(3 * i);
    SAME(cuArrayCreate(&line, &row), CUDA_SUCCESS);
    SAME(cuMemAlloc(&memory, 64), CUDA_SUCCESS);
    SAME(cuMemcpyHtoA(line, 0, bytes, 64), CUDA_SUCCESS);
    SAME(cuMemcpyAtoD(memory, line, 10, 8), CUDA_SUCCESS);
    SAME(cuMemcpyDtoH(got, memory, 8), CUDA_SUCCESS);
    SAME(got[7], 51);
    SAME(cuMemcpyDtoA(line, 40, memory, 8), CUDA_SUCCESS);
    SAME(cuMemcpyAtoA(line, 0, line, 40, 4), CUDA_SUCCESS);
    SAME(cuMemcpyAtoH(got, line, 0, 8), CUDA_SUCCESS);
    EXPECT(got[0] == 30 && got[3] == 39 && got[4] == 12);
    SAME(cuMemcpyHtoAAsync(line, 60, bytes, 5, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMemcpyHtoAAsync(line, 60, bytes, 4, 0), CUDA_SUCCESS);
    SAME(cuMemcpyAtoHAsync(got, line, 56, 8, 0), CUDA_SUCCESS);
    SAME(cuStreamSynchronize(0), CUDA_SUCCESS);
    EXPECT(got[3] == 177 && got[4] == 0 && got[7] == 9);
    SAME(cuMemFree(memory), CUDA_SUCCESS);
    SAME(cuArrayDestroy(line), CUDA_SUCCESS);
    CUmipmappedArray mipmapped;
    full.Flags = 0;
    SAME(cuMipmappedArrayCreate(&mipmapped, &full, 0), CUDA_SUCCESS);
    SAME(cuMipmappedArrayGetLevel(&line, mipmapped, 0), CUDA_SUCCESS);
    SAME(cuMipmappedArrayGetLevel(&to, mipmapped, 1), CUDA_ERROR_INVALID_VALUE);
    SAME(cuArray3DGetDescriptor(&said, line), CUDA_SUCCESS);
    EXPECT(said.Width == WIDTH && said.Height == HEIGHT && said.Depth == 0 && said.NumChannels == 2);
    CUDA_ARRAY_MEMORY_REQUIREMENTS wants;
    SAME(cuArrayGetMemoryRequirements(&wants, line, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMipmappedArrayGetMemoryRequirements(&wants, mipmapped, 0), CUDA_ERROR_INVALID_VALUE);
    SAME(cuMipmappedArrayDestroy(mipmapped), CUDA_SUCCESS);
    SAME(cuMipmappedArrayGetMemoryRequirements(&wants, mipmapped, 0), CUDA_ERROR_INVALID_HANDLE);
    SAME(cuMipmappedArrayDestroy(mipmapped), CUDA_ERROR_INVALID_HANDLE);
    SAME(cuArray3DGetDescriptor(&said, line), CUDA_ERROR_INVALID_HANDLE);
}

int main(void) {
    allocation();
    copies();
    volumes();
    objects();
    mipmaps();
    views();
    by_the_driver();
    return failures();
}
