/* The modeled clock: events and the program's own clocks tell the GPU's times, queries wait for them, and waits until a moment end. */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#include "check.h"

#define BYTES (64 << 20)

static double now_us(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* This machine's own clock, which the loader's table of the executable does not name. */
static double real_us(void) {
    FILE *file = fopen("/proc/uptime", "r");
    double seconds = 0;
    EXPECT(file && fscanf(file, "%lf", &seconds) == 1);
    fclose(file);
    return seconds * 1e6;
}

int main(void) {
    void *from, *to;
    cudaStream_t first, second;
    cudaEvent_t start, end, other;
    float ms;
    SAME(cudaMalloc(&from, BYTES), 0);
    SAME(cudaMalloc(&to, BYTES), 0);
    SAME(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), 0);
    SAME(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), 0);
    SAME(cudaEventCreate(&start), 0);
    SAME(cudaEventCreate(&end), 0);
    SAME(cudaEventCreate(&other), 0);
    SAME(cudaDeviceSynchronize(), 0);

    /* A copy reads and writes 64 MiB at 91 % of an A100's 2039 GB/s: 72.3 us, after 1.8 us of start and 3 us of submission. */
    double clock = now_us(CLOCK_MONOTONIC), day = now_us(CLOCK_REALTIME);
    struct timeval before, after;
    gettimeofday(&before, NULL);
    SAME(cudaEventRecord(start, first), 0);
    SAME(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDeviceToDevice, first), 0);
    SAME(cudaEventRecord(end, first), 0);
    SAME(cudaEventSynchronize(end), 0);
    SAME(cudaEventElapsedTime(&ms, start, end), 0);
    EXPECT(ms > 0.072 && ms < 0.085);
    clock = now_us(CLOCK_MONOTONIC) - clock;
    day = now_us(CLOCK_REALTIME) - day;
    gettimeofday(&after, NULL);
    double times = (after.tv_sec - before.tv_sec) * 1e6 + after.tv_usec - before.tv_usec;
    EXPECT(clock > ms * 1e3 && clock < ms * 1e3 + 15);
    EXPECT(day >= clock - 1 && day < clock + 2);
    EXPECT(times >= clock - 2 && times < clock + 3);

    /* Another stream waits for the event and is not done before; who asks gets there by asking. */
    SAME(cudaEventRecord(start, first), 0);
    SAME(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDeviceToDevice, first), 0);
    SAME(cudaEventRecord(end, first), 0);
    SAME(cudaStreamWaitEvent(second, end, 0), 0);
    SAME(cudaMemsetAsync(to, 1, 4, second), 0);
    SAME(cudaEventRecord(other, second), 0);
    int asked = 0;
    while (cudaEventQuery(other) == cudaErrorNotReady && asked < 100000) {
        asked++;
    }
    EXPECT(asked > 50 && asked < 1000);
    SAME(cudaStreamQuery(second), 0);
    SAME(cudaEventElapsedTime(&ms, start, other), 0);
    EXPECT(ms > 0.073 && ms < 0.095);

    /* A wait until a moment of the program's clock lasts as long by this machine's, and its end is one by both. */
    pthread_condattr_t attributes;
    pthread_cond_t condition;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_init(&attributes);
    pthread_cond_init(&condition, &attributes);
    struct timespec deadline;
    double real = real_us();
    clock_gettime(CLOCK_REALTIME, &deadline);
    day = now_us(CLOCK_REALTIME);
    deadline.tv_nsec += 200 * 1000 * 1000;
    if (deadline.tv_nsec >= 1000 * 1000 * 1000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000 * 1000 * 1000;
    }
    pthread_mutex_lock(&mutex);
    SAME(pthread_cond_timedwait(&condition, &mutex, &deadline), ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
    EXPECT(real_us() - real > 150e3);
    day = now_us(CLOCK_REALTIME) - day;
    EXPECT(day > 199e3 && day < 202e3);

    /* A sleep is as long by the program's clock. */
    struct timespec length = {0, 20 * 1000 * 1000};
    clock = now_us(CLOCK_MONOTONIC_RAW);
    SAME(nanosleep(&length, NULL), 0);
    clock = now_us(CLOCK_MONOTONIC_RAW) - clock;
    EXPECT(clock >= 20e3 && clock < 20.1e3);
    return failures();
}
