extern "C" __global__ void k(const float* x, float* total, long long n) {
  float s = 0.f;
  for (unsigned long long i = n - 1; i >= 0; --i) {
    s += x[i % n];
    if (s == 123456789.f) *total = s;
  }
  *total = s;
}
