// Compares an array of the device with the right one, which it writes to want.bin.
#pragma once
#include <cmath>
#include <cstdio>

bool right(const char *name, const float *device, const float *want, int n) {
  float *have = new float[n], most = 0;
  cudaMemcpy(have, device, n * sizeof *have, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) most = fmaxf(most, fabsf(have[i] - want[i]));
  FILE *file = fopen("want.bin", "wb");
  fwrite(want, sizeof *want, n, file);
  fclose(file);
  printf("%s is off by %g\n", name, most);
  return most < 1e-4f;
}
