// Warp operations: shuffles of every type and width, votes, match of 32 and 64 bits, reductions; partial masks.
template <class T>
__device__ void shuffles(T v, T* y) {
    const unsigned all = 0xffffffffu, lane = threadIdx.x & 31;
    y[threadIdx.x] = __shfl_sync(all, v, (lane * 5 + 3) & 31);
    y[64 + threadIdx.x] = __shfl_up_sync(all, v, 3, 16);
    y[128 + threadIdx.x] = __shfl_down_sync(all, v, 2, 8);
    y[192 + threadIdx.x] = __shfl_xor_sync(all, v, 7);
}
extern "C" __global__ void every_shuffle(const int* x, int* i, unsigned long long* w, float* f, double* d, unsigned* votes,
                                         int* folds, unsigned* halves) {
    const unsigned all = 0xffffffffu;
    int t = threadIdx.x, v = x[t];
    shuffles<int>(v, i);
    shuffles<unsigned long long>((unsigned long long)v << 33, w);
    shuffles<float>(v * 0.5f, f);
    shuffles<double>(v * 0.25, d);
    int same = 0;
    unsigned together = __match_all_sync(all, t / 32, &same);
    votes[t] = __ballot_sync(all, v > 0);
    votes[64 + t] = (unsigned)__any_sync(all, v > 40) | (unsigned)__all_sync(all, v > -1000) << 1 | (unsigned)same << 2;
    votes[128 + t] = __match_any_sync(all, v & 3);
    votes[192 + t] = __match_any_sync(all, (long long)(v & 1) << 40);
    votes[256 + t] = together;
    unsigned u = (unsigned)v;
    folds[t] = __reduce_add_sync(all, v);
    folds[64 + t] = __reduce_min_sync(all, v);
    folds[128 + t] = __reduce_max_sync(all, v);
    folds[192 + t] = (int)__reduce_and_sync(all, u | 0xff00u);
    folds[256 + t] = (int)__reduce_or_sync(all, u);
    folds[320 + t] = (int)__reduce_xor_sync(all, u);
    unsigned half = (t & 16) ? 0xffff0000u : 0x0000ffffu, sum = u;
    if (t & 16) {
        for (int k = 8; k; k >>= 1) sum += __shfl_xor_sync(half, sum, k);
        __syncwarp(half);
    } else {
        for (int k = 8; k; k >>= 1) sum ^= __shfl_xor_sync(half, sum, k);
        __syncwarp(half);
    }
    halves[t] = sum;
}
