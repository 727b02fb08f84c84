// Row k and column k do not change in step k (edges are not negative), so the update may be in place.
extern "C" __global__ void relax(int* __restrict__ d, int n, int k) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= n || j >= n || i == k || j == k) return;
  const int through = d[(size_t)i * n + k] + d[(size_t)k * n + j];
  if (through < d[(size_t)i * n + j]) d[(size_t)i * n + j] = through;
}
