// SIMD in a word: saturating sums, averages, comparisons, dot products.
extern "C" __global__ void simd_words(const unsigned* a, const unsigned* b, unsigned* sum, unsigned* mean, unsigned* larger, int* dot) {
    int i = threadIdx.x;
    sum[i] = __vaddus4(a[i], b[i]);
    mean[i] = __vavgu4(a[i], b[i]);
    larger[i] = __vcmpgtu4(a[i], b[i]);
    dot[i] = __dp4a((int)a[i], (int)b[i], 7);
}
