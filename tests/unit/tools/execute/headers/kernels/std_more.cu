// cuda::std: optional, variant, pair, function objects, type traits, min and max, numeric limits, mdspan, cmath.
#include <cuda/std/cmath>
#include <cuda/std/cstdint>
#include <cuda/std/functional>
#include <cuda/std/limits>
#include <cuda/std/mdspan>
#include <cuda/std/optional>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#include <cuda/std/variant>
template <class T>
__device__ cuda::std::optional<T> half_of(T v) {
    if (v % 2) return cuda::std::nullopt;
    return v / 2;
}
template <class T>
__device__ typename cuda::std::enable_if<cuda::std::is_integral<T>::value, T>::type doubled(T v) { return 2 * v; }
extern "C" __global__ void std_more(const int* x, int* y, float* f) {
    int t = threadIdx.x, v = x[t];
    auto h = half_of(v);
    cuda::std::mdspan<const int, cuda::std::extents<int, 4, 8>> grid(x);
    cuda::std::pair<int, int> p = cuda::std::make_pair(v, t);
    cuda::std::variant<int, float> either = 3;
    if (t & 1) either = 2.5f;
    y[t] = h.value_or(-1) + doubled(v);
    y[32 + t] = cuda::std::plus<int>()(p.first, p.second) + cuda::std::max(v, 3) - cuda::std::min(v, -3);
    y[64 + t] = grid(t / 8, t % 8) + (int)grid.extent(1);
    y[96 + t] = cuda::std::is_same<cuda::std::remove_const_t<const int>, int>::value + (int)either.index() * 10;
    f[t] = cuda::std::sqrt(cuda::std::fabs((float)v)) + (float)(cuda::std::numeric_limits<cuda::std::uint8_t>::max());
}
