extern "C" __global__ void multiply(const float* a, const float* b, float* c, int m, int n, int k) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || col >= n) return;
  float sum = 0.0f;
  for (int t = 0; t < k; ++t) sum += a[row * k + t] * b[t * n + col];
  c[row * n + col] = sum;
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
  float* a = load<float>("data/a.bin", 6144);
  float* b = load<float>("data/b.bin", 4608);
  float* c = nullptr;
  check(cudaMalloc(&c, 3072 * sizeof(float)), "allocating");
  multiply<<<dim3(3, 4), dim3(16, 16)>>>(a, b, c, 64, 48, 96);
  check(cudaGetLastError(), "launching");
  check(cudaDeviceSynchronize(), "running");
  save("data/c.bin", c, 3072);
  check(cudaFree(a), "freeing");
  check(cudaFree(b), "freeing");
  check(cudaFree(c), "freeing");
  return 0;
}
