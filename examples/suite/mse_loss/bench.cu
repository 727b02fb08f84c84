extern "C" __global__ void mse_loss(const float* x, const float* target, float* loss, int n) {
  __shared__ float part[256];
  float sum = 0.0f;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += (x[i] - target[i]) * (x[i] - target[i]);
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(loss, part[0] / n);
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
  float* x = load<float>("data/x.bin", 16384);
  float* target = load<float>("data/target.bin", 16384);
  float* loss = nullptr;
  check(cudaMalloc(&loss, 1 * sizeof(float)), "allocating");
  check(cudaMemset(loss, 0, 1 * sizeof(float)), "clearing");
  mse_loss<<<16, 256>>>(x, target, loss, 16384);
  check(cudaGetLastError(), "launching");
  check(cudaDeviceSynchronize(), "running");
  save("data/loss.bin", loss, 1);
  check(cudaFree(x), "freeing");
  check(cudaFree(target), "freeing");
  check(cudaFree(loss), "freeing");
  return 0;
}
