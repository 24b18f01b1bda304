// Variables of every kind that begins in a way of its own. Compiled by nvcc 13.5 (`nvcc -fatbin`) to the files beside it:
//   default.fatbin   -gencode arch=compute_80,code=[sm_80,compute_80]
//   ptx-zstd.fatbin  -gencode arch=compute_80,code=compute_80
//   ptx-lz4.fatbin   the same with --compress-mode=speed
//   ptx-text.fatbin  the same with --no-compress
struct Point {
    char tag;
    double x;
    short y;
};
__device__ int number = 42;
__device__ float values[4] = {1.5f, -2.0f, 0.0f, 3.25f};
__device__ double zeroes[3];
__constant__ unsigned short table[5] = {1, 2, 3, 4, 65535};
__device__ Point point = {'p', 0.1, -7};
__device__ unsigned long long large = 0x0123456789abcdefULL;
__device__ double ratio = 0.1;
__device__ int targets[4] = {9, 8, 7, 6};
__device__ int *pointer = &targets[2];
static __device__ char text[8] = "ftest";
namespace inner {
__device__ signed char small = -3;
}
__global__ void kernel(int *out) {
    *out = number + (int)values[0] + table[1] + (int)point.x + (int)large + *pointer + text[0] + inner::small + (int)zeroes[0] + (int)ratio;
}
