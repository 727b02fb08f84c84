#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

struct Max {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

// A warp a row, 32 columns at a time; the carry is the maximum so far.
extern "C" __global__ void running_max(const float* __restrict__ x, float* __restrict__ y, float* __restrict__ total,
                                       int rows, int cols) {
  using Scan = cub::WarpScan<float>;
  using Reduce = cub::WarpReduce<float>;
  __shared__ typename Scan::TempStorage scan[4];
  __shared__ typename Reduce::TempStorage reduce[4];
  const int w = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 4 + w;
  if (row >= rows) return;
  float carry = -INFINITY, sum = 0.f;
  for (int first = 0; first < cols; first += 32) {
    const int j = first + lane;
    float v = j < cols ? x[(size_t)row * cols + j] : -INFINITY, most;
    Scan(scan[w]).InclusiveScan(v, v, Max(), most);
    v = Max()(v, carry);
    carry = Max()(carry, most);
    if (j < cols) {
      y[(size_t)row * cols + j] = v;
      sum += v;
    }
    __syncwarp();
  }
  sum = Reduce(reduce[w]).Sum(sum);
  if (lane == 0) total[row] = sum;
}
