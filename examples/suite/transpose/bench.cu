extern "C" __global__ void transpose(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[16][17];
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = x[row * cols + col];
  __syncthreads();
  int to = blockIdx.y * 16 + threadIdx.x, from = blockIdx.x * 16 + threadIdx.y;
  if (from < cols && to < rows) y[from * rows + to] = tile[threadIdx.x][threadIdx.y];
}

// ---- host ----
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s while %s\n", cudaGetErrorString(status), doing);
  std::exit(1);
}

template <class T> static T* load(const char* path, size_t count) {
  std::vector<T> host(count);
  std::FILE* file = std::fopen(path, "rb");
  if (!file || std::fread(host.data(), sizeof(T), count, file) != count) {
    std::fprintf(stderr, "cannot read %s\n", path);
    std::exit(1);
  }
  std::fclose(file);
  T* device = nullptr;
  check(cudaMalloc(&device, count * sizeof(T)), "allocating");
  check(cudaMemcpy(device, host.data(), count * sizeof(T), cudaMemcpyHostToDevice), "copying in");
  return device;
}

template <class T> static void save(const char* path, const T* device, size_t count) {
  std::vector<T> host(count);
  check(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost), "copying out");
  std::FILE* file = std::fopen(path, "wb");
  if (!file || std::fwrite(host.data(), sizeof(T), count, file) != count || std::fclose(file) != 0) {
    std::fprintf(stderr, "cannot write %s\n", path);
    std::exit(1);
  }
}

int main() {
  float* x = load<float>("data/x.bin", 12480);
  float* y = nullptr;
  check(cudaMalloc(&y, 12480 * sizeof(float)), "allocating");
  transpose<<<dim3(9, 6), dim3(16, 16)>>>(x, y, 96, 130);
  check(cudaGetLastError(), "launching");
  check(cudaDeviceSynchronize(), "running");
  save("data/y.bin", y, 12480);
  check(cudaFree(x), "freeing");
  check(cudaFree(y), "freeing");
  return 0;
}
