extern "C" __global__ void softmax(const float* x, float* y, int cols) {
  __shared__ float part[128];
  const float* row = x + blockIdx.x * cols;
  float most = -3.4e38f;
  for (int j = threadIdx.x; j < cols; j += 128) most = fmaxf(most, row[j]);
  part[threadIdx.x] = most;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
    __syncthreads();
  }
  most = part[0];
  __syncthreads();
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += 128) sum += expf(row[j] - most);
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  for (int j = threadIdx.x; j < cols; j += 128) y[blockIdx.x * cols + j] = expf(row[j] - most) / part[0];
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
  float* x = load<float>("data/x.bin", 20480);
  float* y = nullptr;
  check(cudaMalloc(&y, 20480 * sizeof(float)), "allocating");
  softmax<<<64, 128>>>(x, y, 320);
  check(cudaGetLastError(), "launching");
  check(cudaDeviceSynchronize(), "running");
  save("data/y.bin", y, 20480);
  check(cudaFree(x), "freeing");
  check(cudaFree(y), "freeing");
  return 0;
}
