#include <cuda/std/array>
#include <cuda/std/limits>
#include <cuda/std/utility>

extern "C" __global__ void extremes(const float* __restrict__ x, float* __restrict__ top, float* __restrict__ spread, int rows,
                                    int cols) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  constexpr float lowest = cuda::std::numeric_limits<float>::lowest();
  cuda::std::array<float, 3> best = {lowest, lowest, lowest};
  float least = cuda::std::numeric_limits<float>::max();
  for (int j = 0; j < cols; ++j) {
    float v = x[(size_t)i * cols + j];
    least = fminf(least, v);
    for (float& b : best) {
      if (v > b) cuda::std::swap(v, b);
    }
  }
  for (int s = 0; s < 3; ++s) top[3 * (size_t)i + s] = best[s];
  spread[i] = best[0] - least;
}
