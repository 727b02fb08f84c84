extern "C" __global__ void begin(int* __restrict__ level, int* __restrict__ go, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < n) level[v] = v == 0 ? 0 : -1;
  if (v == 0) go[0] = 1;
}

// Nodes of the current depth give their unvisited neighbours the next one. Several may reach the same neighbour;
// the compare-and-swap lets one of them win, and all would write the same level.
extern "C" __global__ void expand(const int* __restrict__ start, const int* __restrict__ to, int* level, const int* depth,
                                  int* go, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  const int now = *depth;
  if (v >= n || atomicAdd(level + v, 0) != now) return;
  for (int e = start[v]; e < start[v + 1]; ++e) {
    if (atomicCAS(level + to[e], -1, now + 1) == -1) atomicExch(go, 1);
  }
}

extern "C" __global__ void advance(int* depth) { *depth += 1; }
