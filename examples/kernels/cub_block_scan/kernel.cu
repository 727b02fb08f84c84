#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

// 256 threads x 4 items. The three collectives take turns on one piece of shared memory.
extern "C" __global__ void segment_scan(const int* __restrict__ x, int* __restrict__ y) {
  using Load = cub::BlockLoad<int, 256, 4, cub::BLOCK_LOAD_TRANSPOSE>;
  using Scan = cub::BlockScan<int, 256>;
  using Store = cub::BlockStore<int, 256, 4, cub::BLOCK_STORE_TRANSPOSE>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Scan::TempStorage scan;
    typename Store::TempStorage store;
  } temp;
  const size_t base = (size_t)blockIdx.x * 1024;
  int items[4];
  Load(temp.load).Load(x + base, items);
  __syncthreads();
  Scan(temp.scan).ExclusiveSum(items, items);
  __syncthreads();
  Store(temp.store).Store(y + base, items);
}
