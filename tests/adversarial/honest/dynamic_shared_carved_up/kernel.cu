extern "C" __global__ void k(const float* x, float* mean, float* var, int cols) {
  extern __shared__ __align__(16) unsigned char raw[];
  double* sums = reinterpret_cast<double*>(raw);
  float* row = reinterpret_cast<float*>(sums + 2);
  for (int j = threadIdx.x; j < cols; j += blockDim.x) row[j] = x[(size_t)blockIdx.x * cols + j];
  if (threadIdx.x < 2) sums[threadIdx.x] = 0.0;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int j = 0; j < cols; ++j) sums[0] += row[j];
    for (int j = 0; j < cols; ++j) sums[1] += (row[j] - sums[0] / cols) * (row[j] - sums[0] / cols);
    mean[blockIdx.x] = (float)(sums[0] / cols);
    var[blockIdx.x] = (float)(sums[1] / cols);
  }
}
