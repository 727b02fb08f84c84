// Inline PTX: cp.async into shared memory through a 32-bit address, commit and wait.
extern "C" __global__ void inline_cp_async(const float4* x, float4* y) {
    __shared__ float4 tile[32];
    int t = threadIdx.x;
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&tile[t]));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(x + t));
    asm volatile("cp.async.commit_group;\n" ::);
    asm volatile("cp.async.wait_group %0;\n" ::"n"(0));
    __syncthreads();
    y[t] = tile[31 - t];
}
