// A 16x16 tiled product voxels x (output channel, tap); each result goes to its place in the upsampled volume.
extern "C" __global__ void product_scatter(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out,
                                           int voxels, int H, int W, int cin, int cout) {
  __shared__ float sa[16][17], sb[16][17];
  const int tx = threadIdx.x, ty = threadIdx.y, cols = 8 * cout;
  const int row = blockIdx.x * 16 + ty, col = blockIdx.y * 16 + tx;
  float acc = 0.f;
  for (int k0 = 0; k0 < cin; k0 += 16) {
    sa[ty][tx] = row < voxels && k0 + tx < cin ? a[(long long)row * cin + k0 + tx] : 0.f;
    sb[ty][tx] = col < cols && k0 + ty < cin ? b[(long long)(k0 + ty) * cols + col] : 0.f;
    __syncthreads();
    for (int k = 0; k < 16; ++k) acc += sa[ty][k] * sb[k][tx];
  }
  if (row >= voxels || col >= cols) return;
  const int x = row % W, y = row / W % H, z = row / W / H;
  const int o = col / 8, i = col / 4 % 2, j = col / 2 % 2, l = col % 2;
  out[(((long long)(2 * z + i) * (2 * H) + 2 * y + j) * (2 * W) + 2 * x + l) * cout + o] = acc;
}
