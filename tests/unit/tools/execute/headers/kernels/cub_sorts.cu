// CUB: radix sorts descending, striped, of some bits, of doubles and of bytes with values; a merge sort with an own order.
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
struct Farther { __device__ bool operator()(int a, int b) const { return a * a > b * b; } };
extern "C" __global__ void cub_sorts(const int* x, const double* d, const unsigned char* c, int* falling, int* striped, int* partial,
                                     double* doubles, unsigned char* bytes, int* values, int* merged) {
    typedef cub::BlockRadixSort<int, 64, 2> Ints;
    typedef cub::BlockRadixSort<double, 64, 2> Doubles;
    typedef cub::BlockRadixSort<unsigned char, 64, 2, int> Bytes;
    typedef cub::BlockMergeSort<int, 64, 2> Merge;
    __shared__ union {
        typename Ints::TempStorage ints; typename Doubles::TempStorage doubles; typename Bytes::TempStorage bytes;
        typename Merge::TempStorage merge;
    } temp;
    int t = threadIdx.x, a[2] = {x[2 * t], x[2 * t + 1]}, b[2] = {a[0], a[1]}, p[2] = {a[0], a[1]}, m[2] = {a[0], a[1]};
    Ints(temp.ints).SortDescending(a);
    falling[2 * t] = a[0]; falling[2 * t + 1] = a[1];
    __syncthreads();
    Ints(temp.ints).SortBlockedToStriped(b);
    striped[t] = b[0]; striped[64 + t] = b[1];
    __syncthreads();
    Ints(temp.ints).Sort(p, 0, 4);
    partial[2 * t] = p[0]; partial[2 * t + 1] = p[1];
    __syncthreads();
    double e[2] = {d[2 * t], d[2 * t + 1]};
    Doubles(temp.doubles).Sort(e);
    doubles[2 * t] = e[0]; doubles[2 * t + 1] = e[1];
    __syncthreads();
    unsigned char k[2] = {c[2 * t], c[2 * t + 1]};
    int w[2] = {2 * t, 2 * t + 1};
    Bytes(temp.bytes).Sort(k, w);
    bytes[2 * t] = k[0]; bytes[2 * t + 1] = k[1];
    values[2 * t] = w[0]; values[2 * t + 1] = w[1];
    __syncthreads();
    Merge(temp.merge).Sort(m, Farther());
    merged[2 * t] = m[0]; merged[2 * t + 1] = m[1];
}
