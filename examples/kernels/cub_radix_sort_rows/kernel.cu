#include <cub/block/block_radix_sort.cuh>

extern "C" __global__ void sort_rows(const int* __restrict__ x, int* __restrict__ y, int* __restrict__ order, int cols) {
  using Sort = cub::BlockRadixSort<int, 256, 4, int>;
  __shared__ typename Sort::TempStorage temp;
  const size_t base = (size_t)blockIdx.x * cols;
  int keys[4], where[4];
  for (int q = 0; q < 4; ++q) {
    const int j = threadIdx.x * 4 + q;  // blocked: thread t owns items 4t to 4t+3
    keys[q] = j < cols ? x[base + j] : INT_MAX;  // padding sorts to the end, behind equal real keys as the sort is stable
    where[q] = j;
  }
  Sort(temp).Sort(keys, where);
  for (int q = 0; q < 4; ++q) {
    const int j = threadIdx.x * 4 + q;
    if (j < cols) { y[base + j] = keys[q]; order[base + j] = where[q]; }
  }
}
