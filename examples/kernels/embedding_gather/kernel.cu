extern "C" __global__ void embed(const float* __restrict__ table, const int64_t* __restrict__ token, float* __restrict__ y,
                                 int len, int dim) {
  const int64_t* bag = token + (size_t)blockIdx.x * len;
  for (int c = threadIdx.x; c < dim; c += blockDim.x) {
    float sum = 0.f;
    for (int t = 0; t < len; ++t) sum += __ldg(table + bag[t] * dim + c);  // a broadcast index, a coalesced row
    y[(size_t)blockIdx.x * dim + c] = sum;
  }
}
