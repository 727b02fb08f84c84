extern "C" __global__ void k(const int* x, long long* total, long long n) {
  int s = 0;
  for (long long i = 0; i < n; ++i) s += x[i];
  *total = s;
}
