extern "C" __global__ void argmax(const float* x, int* index, int cols) {
  __shared__ float value[128];
  __shared__ int place[128];
  float most = -3.4e38f;
  int at = 0;
  for (int j = threadIdx.x; j < cols; j += 128)
    if (x[blockIdx.x * cols + j] > most) most = x[blockIdx.x * cols + j], at = j;
  value[threadIdx.x] = most;
  place[threadIdx.x] = at;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    int other = threadIdx.x + half;
    if (threadIdx.x < half &&
        (value[other] > value[threadIdx.x] || (value[other] == value[threadIdx.x] && place[other] < place[threadIdx.x]))) {
      value[threadIdx.x] = value[other];
      place[threadIdx.x] = place[other];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) index[blockIdx.x] = place[0];
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
  float* x = load<float>("data/x.bin", 12800);
  int* index = nullptr;
  check(cudaMalloc(&index, 64 * sizeof(int)), "allocating");
  argmax<<<64, 128>>>(x, index, 200);
  check(cudaGetLastError(), "launching");
  check(cudaDeviceSynchronize(), "running");
  save("data/index.bin", index, 64);
  check(cudaFree(x), "freeing");
  check(cudaFree(index), "freeing");
  return 0;
}
