// cuda::std: array, tuple, limits, complex, bit, span.
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/complex>
#include <cuda/std/limits>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/utility>
extern "C" __global__ void std_names(float* x, float* y) {
    int i = threadIdx.x;
    cuda::std::array<float, 2> a{x[i], cuda::std::numeric_limits<float>::epsilon()};
    cuda::std::complex<float> z(a[0], 1.0f);
    z *= z;
    auto pair = cuda::std::make_tuple(z.real(), z.imag());
    cuda::std::span<float> all(x, 32);
    float first = cuda::std::get<0>(pair), second = cuda::std::get<1>(pair);
    cuda::std::swap(first, second);
    y[i] = first + second + all[31 - i] + static_cast<float>(cuda::std::popcount(static_cast<unsigned>(i)));
}
