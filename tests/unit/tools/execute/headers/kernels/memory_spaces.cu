// Memory: constants, initialised device globals, shared arrays at file scope and of structs in templates, dynamic shared, cached loads and stores.
struct __align__(16) Pair {
    float a;
    int b;
};
__constant__ float weights[4] = {1.0f, 2.0f, 4.0f, 8.0f};
__constant__ Pair pairs[2] = {{0.5f, 3}, {0.25f, 5}};
__device__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ float total = 10.0f;
__shared__ int everywhere[64];
__device__ int opposite(int t) { return everywhere[63 - t]; }
template <class T, int N>
__device__ T turned(T v) {
    __shared__ T room[N];
    __shared__ Pair other[N];
    room[threadIdx.x] = v;
    other[N - 1 - threadIdx.x] = {(float)v, (int)threadIdx.x};
    __syncthreads();
    T r = room[N - 1 - threadIdx.x] + (T)other[threadIdx.x].b;
    __syncthreads();
    return r;
}
extern "C" __global__ void memory_spaces(const float* __restrict__ x, float* __restrict__ y, float* z, int n) {
    extern __shared__ __align__(16) unsigned char raw[];
    float* floats = reinterpret_cast<float*>(raw);
    int* ints = reinterpret_cast<int*>(floats + n);
    int t = threadIdx.x;
    float local[4];
    for (int k = 0; k < 4; ++k) local[k] = weights[k] * (t + k);
    float v = turned<float, 64>(__ldg(x + t)) + turned<double, 64>(t) + pairs[t & 1].a + pairs[t & 1].b;
    floats[t] = __ldcg(x + t) + __ldca(x + t) + __ldcs(x + t) + __ldlu(x + t) + __ldcv(x + t);
    everywhere[t] = table[t & 7];
    __syncthreads();
    ints[63 - t] = opposite(t);
    __syncthreads();
    y[t] = v + local[t & 3] + floats[n - 1 - t] + ints[n - 1 - t];
    const float4 q = __ldg(reinterpret_cast<const float4*>(x) + t / 4);
    const float2 p = __ldcg(reinterpret_cast<const float2*>(x) + t / 2);
    __stwb(z + t, q.w + p.x);
    __stcg(z + 64 + t, q.x);
    __stcs(z + 128 + t, q.y);
    __stwt(z + 192 + t, q.z + total);
}
