#include <cuda/pipeline>

extern "C" __global__ void variation(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  __shared__ float stage[2][128];
  const int t = threadIdx.x;
  const int j = blockIdx.x * 128 + t;
  cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
  pipe.producer_acquire();
  cuda::memcpy_async(&stage[0][t], x + j, cuda::aligned_size_t<4>(4), pipe);
  pipe.producer_commit();
  float sum = 0.f, previous = 0.f;
  for (int i = 0; i < rows; ++i) {
    if (i + 1 < rows) {
      pipe.producer_acquire();
      cuda::memcpy_async(&stage[(i + 1) % 2][t], x + (size_t)(i + 1) * cols + j, cuda::aligned_size_t<4>(4), pipe);
      pipe.producer_commit();
    }
    cuda::pipeline_consumer_wait_prior<1>(pipe);  // all but the newest batch are here
    const float now = stage[i % 2][t];
    pipe.consumer_release();
    if (i > 0) sum += fabsf(now - previous);
    previous = now;
  }
  y[j] = sum;
}
