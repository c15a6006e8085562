// Products of rows with a vector, and a difference. Tests plant faults in it that make its results wrong.
#include "right.h"

constexpr int ROWS = 8, COLUMNS = 300, THREADS = 128;

__global__ void dot(const float *x, const float *w, float *y, int n) {
  __shared__ float part[THREADS];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i] * w[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int step = THREADS / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}

__global__ void difference(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] - b[i];
}

int main() {
  static float x[ROWS * COLUMNS], w[COLUMNS], sums[ROWS], differences[COLUMNS];
  float *dx, *dw, *dy, *dc;
  for (int i = 0; i < ROWS * COLUMNS; ++i) x[i] = (i * 37 % 101) / 50.f - 1;
  for (int i = 0; i < COLUMNS; ++i) w[i] = (i * 17 % 89) / 44.f - 1, differences[i] = x[i] - w[i];
  for (int i = 0; i < ROWS * COLUMNS; ++i) sums[i / COLUMNS] += x[i] * w[i % COLUMNS];
  cudaMalloc(&dx, sizeof x), cudaMalloc(&dw, sizeof w), cudaMalloc(&dy, sizeof sums), cudaMalloc(&dc, sizeof w);
  cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice), cudaMemcpy(dw, w, sizeof w, cudaMemcpyHostToDevice);
  dot<<<ROWS, THREADS>>>(dx, dw, dy, COLUMNS);
  difference<<<3, THREADS>>>(dx, dw, dc, COLUMNS);
  return !(right("dot", dy, sums, ROWS) && right("difference", dc, differences, COLUMNS));
}
