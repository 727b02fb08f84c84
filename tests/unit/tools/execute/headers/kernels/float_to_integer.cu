// Casts and implicit conversions of floats to integers saturate as `cvt.rzi` does; NaN and types below 32 bits too.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#define QUANTIZED(v) ((int)((v) * 2.0f))
#define BYTE unsigned char
using Word = unsigned;
struct Pair {
    int whole;
    unsigned char byte;
};
template <class T> __device__ T by_cast(float f) { return (T)f; }
template <class T> __device__ T by_name(float f) {
    T v = f * 2.0f;
    return v;
}
template <class T> __device__ T by_result(float f) { return f; }
template <class T, int kAt = (int)3.7f> __device__ void store(T* p, float f) { p[kAt - 3] = static_cast<T>(f); }
__device__ void take(unsigned char c, long long* to) { *to = c; }
__device__ int from_double(double d) { return d; }
__constant__ int table[2] = {2.0f, int(7.2)};  // narrowing that NVRTC takes with a warning
extern "C" __global__ void float_to_integer(const float* x, long long* y) {
    int t = threadIdx.x, row = 0;
    float f = x[t];
    auto put = [&](long long v) { y[row++ * 32 + t] = v; };
    put((int)f); put(static_cast<unsigned>(f)); put((signed char)f); put((BYTE)f); put(short(f)); put((uint16_t)f);
    put((long long)f); put((long long)(unsigned long long)f);
    put((int)(double)f); put((unsigned)(double)f); put((long long)(double)f);
    put(QUANTIZED(f)); put(Word(f)); put(by_cast<signed char>(f)); put(by_name<unsigned>(f)); put(by_name<short>(f));
    put(by_result<int>(f)); put(from_double((double)f * 3.0));
    int named = f, kept(f);
    put(named); put(kept);
    take(f, &y[row++ * 32 + t]);
    uint16_t stored;
    store<uint16_t>(&stored, f);
    put(stored);
    unsigned scaled = 3;
    scaled *= f;
    put(scaled);
    Pair p;
    p.whole = f;
    p.byte = f;
    put(p.whole); put(p.byte);
    int2 two = make_int2(f, f * 2.0f);
    put(two.x); put(two.y);
    int chosen = f > 0.0f ? f : 0.5f;
    put(chosen);
    auto lambda = [](float v) -> int { return v * 2.0f; };
    put(lambda(f));
    put((int)__float2half(f)); put((signed char)__float2half(f)); put((long long)__float2bfloat16(f));
    constexpr int kFive = (int)5.5f;
    int sized[(int)2.2f] = {kFive, table[0] + table[1]};
    put(sized[0] + sized[1]); put((int)(f > 2.0f) + (f != f ? 0 : (bool)f));
}
