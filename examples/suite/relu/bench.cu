extern "C" __global__ void relu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i], 0.0f);
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
  float* x = load<float>("data/x.bin", 32768);
  float* y = nullptr;
  check(cudaMalloc(&y, 32768 * sizeof(float)), "allocating");
  relu<<<128, 256>>>(x, y, 32768);
  check(cudaGetLastError(), "launching");
  check(cudaDeviceSynchronize(), "running");
  save("data/y.bin", y, 32768);
  check(cudaFree(x), "freeing");
  check(cudaFree(y), "freeing");
  return 0;
}
