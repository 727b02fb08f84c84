#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// The lanes that found something reserve places with one atomic and share the base among themselves.
extern "C" __global__ void append(const int* __restrict__ x, int* __restrict__ found, int* __restrict__ count, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n && (x[i] & 1) == 0) {
    const cg::coalesced_group active = cg::coalesced_threads();
    int base = 0;
    if (active.thread_rank() == 0) base = atomicAdd(count, (int)active.size());
    found[active.shfl(base, 0) + active.thread_rank()] = x[i];
  }
}
