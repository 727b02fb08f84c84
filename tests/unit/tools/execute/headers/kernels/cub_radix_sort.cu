// CUB: radix sort of pairs within a block.
#include <cub/block/block_radix_sort.cuh>
extern "C" __global__ void cub_radix_sort(const float* keys, const int* values, float* sorted_keys, int* sorted_values) {
    typedef cub::BlockRadixSort<float, 64, 2, int> Sort;
    __shared__ typename Sort::TempStorage temp;
    float k[2];
    int v[2];
    for (int i = 0; i < 2; ++i) {
        k[i] = keys[threadIdx.x * 2 + i];
        v[i] = values[threadIdx.x * 2 + i];
    }
    Sort(temp).Sort(k, v);
    for (int i = 0; i < 2; ++i) {
        sorted_keys[threadIdx.x * 2 + i] = k[i];
        sorted_values[threadIdx.x * 2 + i] = v[i];
    }
}
