/* The libraries beside CUDA, declared here by hand from their documentation: handles live and die, what computes is refused
   with the library's own code, and nothing answers success without having done it. */
#include <stdint.h>
#include <stdlib.h>

#include "check.h"

int cublasCreate_v2(void **), cublasDestroy_v2(void *), cublasGetVersion_v2(void *, int *);
int cublasSetStream_v2(void *, void *), cublasGetStream_v2(void *, void **), cublasSetPointerMode_v2(void *, int);
int cublasGetPointerMode_v2(void *, int *), cublasSetMathMode(void *, int), cublasGetMathMode(void *, int *);
int cublasSetWorkspace_v2(void *, void *, size_t);
const char *cublasGetStatusName(int);
int cublasStpttr(void *, int, int, const float *, float *, int);
int cublasLtMatmulDescCreate(void **, int, int), cublasLtMatmulDescDestroy(void *);
int cublasLtMatmulDescSetAttribute(void *, int, const void *, size_t);
int cublasLtMatmulDescGetAttribute(void *, int, void *, size_t, size_t *);
int cudnnCreate(void **), cudnnDestroy(void *), cudnnSetStream(void *, void *), cudnnGetStream(void *, void **);
size_t cudnnGetVersion(void);
int cudnnCreateTensorDescriptor(void **), cudnnDestroyTensorDescriptor(void *);
int cudnnSetTensorNdDescriptor(void *, int, int, const int *, const int *);
int cudnnGetTensorNdDescriptor(void *, int, int *, int *, int *, int *);
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *, int, int, void *, void *, size_t *);
const char *cudnnGetErrorString(int);
int cudnnPoolingForward(void *, void *, const void *, void *, const void *, const void *, void *, void *);
int cusolverDnCreate(void **), cusolverDnDestroy(void *), cusolverDnSgebrd_bufferSize(void *, int, int, int *);
int cusparseCreate(void **), cusparseDestroy(void *), cusparseCreateCsric02Info(void **);
int cufftCreate(int *), cufftDestroy(int), cufftXtExec(int, void *, void *, int), cufftXtMalloc(int, void **, int);
int nvrtcVersion(int *, int *), nvrtcCreateProgram(void **, const char *, const char *, int, const char **, const char **);
int nvrtcCompileProgram(void *, int, const char **), nvrtcGetProgramLogSize(void *, size_t *);
int nvrtcGetProgramLog(void *, char *), nvrtcGetPTXSize(void *, size_t *), nvrtcDestroyProgram(void **);
int cuptiGetVersion(uint32_t *), cuptiActivityEnable(int);
long cuFileRead(void *, void *, size_t, long, long);
void *nvshmem_malloc(size_t);
int nvshmemid_init_status(void), nvtxRangePushA(const char *), nvtxRangePop(void);

int main(void) {
    void *handle = NULL, *stream = NULL, *program = NULL, *descriptor = NULL;
    int value = 0, major = 0, minor = 0, plan = 0, transposed = 1;
    size_t size = 0;
    uint32_t version = 0;
    float one = 1, vector[4] = {1, 2, 3, 4}, matrix[16] = {0};

    SAME(cublasCreate_v2(NULL), 7);
    SAME(cublasCreate_v2(&handle), 0);
    SAME(cublasGetVersion_v2(handle, &value), 0);
    EXPECT(value >= 120000 && value < 140000);
    SAME(cublasSetStream_v2(handle, (void *)0x1230), 0);
    SAME(cublasGetStream_v2(handle, &stream), 0);
    EXPECT(stream == (void *)0x1230);
    SAME(cublasSetStream_v2(handle, NULL), 0);
    SAME(cublasSetPointerMode_v2(handle, 1), 0);
    SAME(cublasGetPointerMode_v2(handle, &value), 0);
    SAME(value, 1);
    SAME(cublasSetPointerMode_v2(handle, 5), 7);
    SAME(cublasSetMathMode(handle, 3 | 16), 0);
    SAME(cublasGetMathMode(handle, &value), 0);
    SAME(value, 19);
    SAME(cublasSetWorkspace_v2(handle, (void *)0x1001, 4096), 7);
    SAME(cublasStpttr(handle, 0, 4, vector, matrix, 4), 15);
    SAME(cublasDestroy_v2(handle), 0);
    SAME(cublasDestroy_v2(handle), 1);
    SAME(cublasSetStream_v2(handle, NULL), 1);
    EXPECT(strcmp(cublasGetStatusName(15), "CUBLAS_STATUS_NOT_SUPPORTED") == 0);

    SAME(cublasLtMatmulDescCreate(&descriptor, 68, 0), 0);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, 3, &transposed, sizeof transposed), 0);
    SAME(cublasLtMatmulDescGetAttribute(descriptor, 3, &value, sizeof value, &size), 0);
    SAME(value, 1);
    SAME(size, sizeof value);
    SAME(cublasLtMatmulDescSetAttribute(descriptor, 3, NULL, 4), 7);
    SAME(cublasLtMatmulDescDestroy(descriptor), 0);

    SAME(cudnnCreate(&handle), 0);
    SAME(cudnnSetStream(handle, (void *)0x1230), 0);
    SAME(cudnnGetStream(handle, &stream), 0);
    EXPECT(stream == (void *)0x1230);
    EXPECT(cudnnGetVersion() >= 90000);
    SAME(cudnnPoolingForward(handle, NULL, &one, NULL, matrix, &one, NULL, matrix), 3000);
    EXPECT(strcmp(cudnnGetErrorString(3000), "CUDNN_STATUS_NOT_SUPPORTED") == 0);
    void *tensor = NULL;
    int sizes[] = {8, 64, 7, 7}, strides[] = {3136, 49, 7, 1}, type = -1, dimensions = 0, seen[4] = {0}, steps[4] = {0};
    size_t bytes = 99;
    SAME(cudnnCreateTensorDescriptor(NULL), 2002);
    SAME(cudnnCreateTensorDescriptor(&tensor), 0);
    SAME(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle, 1, 0, NULL, tensor, &bytes), 2000);
    SAME(cudnnSetTensorNdDescriptor(tensor, 0, 3, sizes, strides), 3000);
    SAME(cudnnSetTensorNdDescriptor(tensor, 0, 4, NULL, strides), 2002);
    SAME(cudnnSetTensorNdDescriptor(tensor, -1, 4, sizes, strides), 2000);
    SAME(cudnnSetTensorNdDescriptor(tensor, 2, 4, sizes, strides), 0);
    SAME(cudnnGetTensorNdDescriptor(tensor, 4, &type, &dimensions, seen, steps), 0);
    SAME(type, 2);
    SAME(dimensions, 4);
    EXPECT(memcmp(seen, sizes, sizeof sizes) == 0 && memcmp(steps, strides, sizeof strides) == 0);
    SAME(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle, 1, 0, NULL, tensor, &bytes), 0);
    SAME(bytes, 0);
    SAME(cudnnDestroyTensorDescriptor(tensor), 0);
    SAME(cudnnDestroyTensorDescriptor(tensor), 2000);
    SAME(cudnnDestroy(handle), 0);
    SAME(cudnnDestroy(handle), 2000);

    SAME(cusolverDnCreate(&handle), 0);
    SAME(cusolverDnSgebrd_bufferSize(handle, 2, 2, &value), 9);
    SAME(cusolverDnDestroy(handle), 0);
    SAME(cusparseCreate(&handle), 0);
    SAME(cusparseCreateCsric02Info(&descriptor), 10);
    SAME(cusparseDestroy(handle), 0);
    SAME(cufftCreate(&plan), 0);
    SAME(cufftXtExec(plan, matrix, matrix, -1), 1);
    SAME(cufftXtMalloc(plan, &handle, 0), 16);
    SAME(cufftDestroy(plan), 0);
    SAME(cufftDestroy(plan), 1);

    SAME(nvrtcVersion(&major, &minor), 0);
    EXPECT(major == 12 || major == 13);
    SAME(nvrtcCreateProgram(&program, "__global__ void f() {}", "f.cu", 0, NULL, NULL), 0);
    /* Where NVRTC is installed it compiles, else nothing does. */
    EXPECT(nvrtcCompileProgram(program, 0, NULL) != 0 || (nvrtcGetPTXSize(program, &size) == 0 && size > 50));
    SAME(nvrtcGetProgramLogSize(program, &size), 0);
    char *log = malloc(size);
    SAME(nvrtcGetProgramLog(program, log), 0);
    SAME(strlen(log) + 1, size);
    free(log);
    SAME(nvrtcDestroyProgram(&program), 0);
    EXPECT(program == NULL);

    SAME(cuptiGetVersion(&version), 0);
    SAME(cuptiActivityEnable(12), 27); /* markers */
    EXPECT(cuFileRead(NULL, matrix, 4, 0, 0) < 0);
    EXPECT(nvshmem_malloc(64) == NULL);
    SAME(nvshmemid_init_status(), 0);
    SAME(nvtxRangePushA("range"), -2);
    SAME(nvtxRangePop(), -2);
    return failures();
}
