// __pipeline_memcpy_async with a commit for each stage.
#include <cuda_pipeline.h>
extern "C" __global__ void pipeline_primitives(const float4* x, float4* y) {
    __shared__ float4 stage[2][32];
    int t = threadIdx.x;
    for (int s = 0; s < 2; ++s) {
        __pipeline_memcpy_async(&stage[s][t], &x[s * 32 + t], sizeof(float4));
        __pipeline_commit();
    }
    for (int s = 0; s < 2; ++s) {
        if (s == 0) __pipeline_wait_prior(1);
        else __pipeline_wait_prior(0);
        __syncthreads();
        y[s * 32 + t] = stage[s][31 - t];
    }
}
