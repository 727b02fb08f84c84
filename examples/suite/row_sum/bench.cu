extern "C" __global__ void row_sum(const float* x, float* sums, int cols) {
  __shared__ float part[128];
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += 128) sum += x[blockIdx.x * cols + j];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
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
  float* x = load<float>("data/x.bin", 28800);
  float* sums = nullptr;
  check(cudaMalloc(&sums, 96 * sizeof(float)), "allocating");
  row_sum<<<96, 128>>>(x, sums, 300);
  check(cudaGetLastError(), "launching");
  check(cudaDeviceSynchronize(), "running");
  save("data/sums.bin", sums, 96);
  check(cudaFree(x), "freeing");
  check(cudaFree(sums), "freeing");
  return 0;
}
