// CUB: load, scan and store with shared temporary storage, and a reduction.
#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
extern "C" __global__ void cub_block_primitives(const int* x, int* scan, int* total) {
    typedef cub::BlockLoad<int, 64, 4, cub::BLOCK_LOAD_TRANSPOSE> Load;
    typedef cub::BlockStore<int, 64, 4, cub::BLOCK_STORE_TRANSPOSE> Store;
    typedef cub::BlockScan<int, 64> Scan;
    typedef cub::BlockReduce<int, 64> Reduce;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
    } temp;
    int items[4];
    Load(temp.load).Load(x, items);
    __syncthreads();
    int sum = Reduce(temp.reduce).Sum(items);
    if (threadIdx.x == 0) *total = sum;
    __syncthreads();
    Scan(temp.scan).ExclusiveSum(items, items);
    __syncthreads();
    Store(temp.store).Store(scan, items);
}
