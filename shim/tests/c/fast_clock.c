/* FAKEGPU_CLOCK=fast: from the first stream of CUDA on, what the program reads passes twice as fast, and it sleeps as long as before. */
#include <cuda_runtime_api.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static double seconds(struct timespec moment) { return (double)moment.tv_sec + (double)moment.tv_nsec / 1e9; }

static double told(clockid_t id) {
    struct timespec moment;
    EXPECT(clock_gettime(id, &moment) == 0);
    return seconds(moment);
}

static double real(clockid_t id) {
    struct timespec moment;
    EXPECT(syscall(SYS_clock_gettime, id, &moment) == 0);
    return seconds(moment);
}

int main(void) {
    void *memory;
    clockid_t ids[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    SAME(cudaMalloc(&memory, 16), 0);
    SAME(cudaMemset(memory, 0, 16), 0);
    for (int i = 0; i < 2; i++) {
        /* It goes on from where it was. */
        double first = told(ids[i]);
        EXPECT(first <= real(ids[i]) && first + 60 > real(ids[i]));
        double before = told(ids[i]), real_before = real(ids[i]);
        usleep(20000);
        double real_after = real(ids[i]), after = told(ids[i]);
        EXPECT(real_after - real_before >= 0.02);
        /* What was read around is longer than what was read within. A double of this size is exact to a microsecond. */
        EXPECT(after - before >= 2 * (real_after - real_before) - 1e-5);
    }
    return failures();
}
