/* The driver that the machine claims to have: one version for CUDA and NVML, and what a runtime answers that is newer. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvml.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Everything that says which driver there is says `version`. */
static void versions(int version, const char *wanted) {
    int runtime = 0, driver = 0, other = 0, nvml = 0;
    char text[80] = "";
    SAME(cudaDriverGetVersion(&driver), cudaSuccess);
    SAME(cuDriverGetVersion(&other), CUDA_SUCCESS);
    SAME(nvmlInit_v2(), NVML_SUCCESS);
    SAME(nvmlSystemGetCudaDriverVersion_v2(&nvml), NVML_SUCCESS);
    SAME(nvmlSystemGetDriverVersion(text, sizeof text), NVML_SUCCESS);
    SAME(driver, version);
    SAME(other, version);
    SAME(nvml, version);
    EXPECT(strcmp(text, wanted) == 0);
    SAME(cudaRuntimeGetVersion(&runtime), cudaSuccess);
    SAME(runtime / 1000, CUDART_VERSION / 1000);
}

/* In a process of its own, since the variable is read once. */
static void with_driver(const char *value, int version, const char *text) {
    pid_t child = fork();
    if (child == 0) {
        int count = 0;
        void *memory = NULL;
        if (value) setenv("FAKEGPU_DRIVER", value, 1);
        versions(version, text);
        if (version / 1000 >= CUDART_VERSION / 1000) {
            SAME(cudaGetDeviceCount(&count), cudaSuccess);
            SAME(count, 2);
        } else {
            SAME(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
            SAME(cudaMalloc(&memory, 64), cudaErrorInsufficientDriver);
            SAME(cudaGetLastError(), cudaErrorInsufficientDriver);
            SAME(cuInit(0), CUDA_SUCCESS);
            SAME(cuDeviceGetCount(&count), CUDA_SUCCESS);
            SAME(count, 2);
        }
        _exit(failures());
    }
    int status = -1;
    SAME(waitpid(child, &status, 0), child);
    SAME(status, 0);
}

int main(void) {
    /* nvidia-ml-py 13.615.71, the release notes of CUDA 13.0 and 12.8. */
    with_driver(NULL, 13050, "615.71");
    with_driver("13.0", 13000, "580.65.06");
    with_driver("580.95.05:13.0", 13000, "580.95.05");
    with_driver("12.8", 12080, "570.26");
    with_driver("11.8", 11080, "520.61.05");
    return failures();
}
