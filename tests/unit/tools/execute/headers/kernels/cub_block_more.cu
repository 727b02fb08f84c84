// CUB: block reductions and scans of every kind, a prefix that a functor carries, exchange, histogram, discontinuities, tails.
#include <cub/cub.cuh>
struct Running {
    int total;
    __device__ int operator()(int aggregate) { int old = total; total += aggregate; return old; }
};
struct Differ { __device__ bool operator()(int a, int b) const { return a != b; } };
struct Largest { __device__ int operator()(int a, int b) const { return a > b ? a : b; } };
extern "C" __global__ void cub_block_more(const int* x, int* y, int* bins, int* totals, int n) {
    typedef cub::BlockReduce<int, 64> Reduce;
    typedef cub::BlockReduce<int, 64, cub::BLOCK_REDUCE_RAKING> Raking;
    typedef cub::BlockScan<int, 64, cub::BLOCK_SCAN_WARP_SCANS> Scan;
    typedef cub::BlockLoad<int, 64, 2, cub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
    typedef cub::BlockStore<int, 64, 2, cub::BLOCK_STORE_VECTORIZE> Store;
    typedef cub::BlockExchange<int, 64, 2> Exchange;
    typedef cub::BlockHistogram<unsigned char, 64, 2, 16> Histogram;
    typedef cub::BlockDiscontinuity<int, 64> Heads;
    __shared__ union {
        typename Reduce::TempStorage reduce; typename Raking::TempStorage raking; typename Scan::TempStorage scan;
        typename Load::TempStorage load; typename Store::TempStorage store; typename Exchange::TempStorage exchange;
        typename Histogram::TempStorage histogram; typename Heads::TempStorage heads;
    } temp;
    __shared__ int counts[16];
    int t = threadIdx.x, v[2], w[2];
    Load(temp.load).Load(x, v, n, -1);
    __syncthreads();
    int largest = Reduce(temp.reduce).Reduce(v, Largest());
    if (t == 0) totals[0] = largest;
    __syncthreads();
    int some = Raking(temp.raking).Sum(v[0], 10);
    if (t == 0) totals[1] = some;
    __syncthreads();
    int aggregate;
    Scan(temp.scan).InclusiveSum(v, w, aggregate);
    if (t == 63) totals[2] = aggregate;
    __syncthreads();
    Store(temp.store).Store(y, w);
    __syncthreads();
    Scan(temp.scan).ExclusiveScan(v, w, -1000, Largest());
    __syncthreads();
    Store(temp.store).Store(y + 128, w, 128);
    __syncthreads();
    Running carry{100};
    Scan(temp.scan).ExclusiveSum(v, w, carry);
    __syncthreads();
    Exchange(temp.exchange).BlockedToStriped(w);
    y[256 + t] = w[0];
    y[320 + t] = w[1];
    __syncthreads();
    unsigned char small[2] = {(unsigned char)(v[0] & 15), (unsigned char)(v[1] & 15)};
    Histogram(temp.histogram).Histogram(small, counts);
    __syncthreads();
    if (t < 16) bins[t] = counts[t];
    int flags[2];
    Heads(temp.heads).FlagHeads(flags, v, Differ());
    y[384 + 2 * t] = flags[0];
    y[384 + 2 * t + 1] = flags[1];
}
