// Grids and blocks of three axes; a block of 3 x 5 x 7 threads, no multiple of 32.
extern "C" __global__ void block_axes(const int* x, int* y, int* counts) {
    __shared__ int seen[7][5][3];
    int inside = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int i = block * (int)(blockDim.x * blockDim.y * blockDim.z) + inside;
    seen[threadIdx.z][threadIdx.y][threadIdx.x] = x[i];
    __syncthreads();
    y[i] = seen[6 - threadIdx.z][4 - threadIdx.y][2 - threadIdx.x];
    int positive = __syncthreads_count(x[i] > 0), every = __syncthreads_and(x[i] > -100), some = __syncthreads_or(x[i] > 48);
    if (inside == 0) counts[block] = positive * 4 + every * 2 + (some != 0);
}
