extern "C" __global__ void forces(const float4* __restrict__ pos, float* __restrict__ acc, int n, float soft) {
  __shared__ float4 tile[BLOCK];
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  const float4 p = i < n ? pos[i] : make_float4(0.f, 0.f, 0.f, 0.f);
  float ax = 0.f, ay = 0.f, az = 0.f;
  for (int first = 0; first < n; first += BLOCK) {
    // A body without mass fills the tile of the end: it pulls nobody.
    tile[threadIdx.x] = first + threadIdx.x < n ? pos[first + threadIdx.x] : make_float4(0.f, 0.f, 0.f, 0.f);
    __syncthreads();
    for (int j = 0; j < BLOCK; ++j) {
      const float4 o = tile[j];
      const float dx = o.x - p.x, dy = o.y - p.y, dz = o.z - p.z;
      const float r2 = fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, soft)));
      const float inv = rsqrtf(r2), w = o.w * inv * inv * inv;
      ax = fmaf(w, dx, ax);
      ay = fmaf(w, dy, ay);
      az = fmaf(w, dz, az);
    }
    __syncthreads();
  }
  if (i < n) {
    acc[3 * i] = ax;
    acc[3 * i + 1] = ay;
    acc[3 * i + 2] = az;
  }
}
