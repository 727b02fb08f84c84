extern "C" __global__ void k(const float* x, float* kept, int* count, long long n) {
  int c = 0;
  for (long long i = 0; i < n; ++i) if (x[i] > -0.05f) kept[c++] = x[i];
  *count = c;
}
