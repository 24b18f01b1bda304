/* A machine with GPUs: the simulated libcuda under the real one's name. Its own environment says which GPUs it has; what the
   program asks for is not for it. */
#include <stdlib.h>

__attribute__((constructor)) static void start(void) {
    const char *gpus = getenv("MACHINE_GPUS");
    setenv("FAKEGPU_PROFILES", gpus ? gpus : "test-512m", 1);
    unsetenv("FAKEGPU_MODE");
    unsetenv("FTEST_GPUS"); /* what other processes hold there is of the devices that the program sees */
    unsetenv("FAKEGPU_REPORT_PATH");
}
