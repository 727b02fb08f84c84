// nvcuda::wmma on the CPU executor.
//
// A fragment holds its share of the matrix in row-major order: lane l owns elements [l * num_elements, ...). mma_sync
// publishes the fragments' addresses to the warp, lane 0 does the product, and all lanes leave together. Products
// of half, bfloat16 and tf32 are exact in float and added in float in order of k, to the accumulator's value; int8
// adds in 32 bits with wrap-around (or saturates when asked).
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "sim_warp.h"

namespace nvcuda {
namespace wmma {

enum layout_t { mem_row_major, mem_col_major };
struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
namespace precision {
struct tf32 {};
}  // namespace precision

template <class T> struct sim_element { typedef T storage; typedef float compute; static constexpr int per_16_bytes = 16 / static_cast<int>(sizeof(T)); };
template <> struct sim_element<precision::tf32> { typedef float storage; typedef float compute; static constexpr int per_16_bytes = 4; };
template <> struct sim_element<double> { typedef double storage; typedef double compute; static constexpr int per_16_bytes = 2; };
template <> struct sim_element<signed char> { typedef signed char storage; typedef int compute; static constexpr int per_16_bytes = 16; };
template <> struct sim_element<unsigned char> { typedef unsigned char storage; typedef int compute; static constexpr int per_16_bytes = 16; };
template <> struct sim_element<int> { typedef int storage; typedef int compute; static constexpr int per_16_bytes = 4; };

template <class Use, int m, int n, int k> struct sim_extent;
template <int m, int n, int k> struct sim_extent<matrix_a, m, n, k> { static constexpr int rows = m, cols = k; };
template <int m, int n, int k> struct sim_extent<matrix_b, m, n, k> { static constexpr int rows = k, cols = n; };
template <int m, int n, int k> struct sim_extent<accumulator, m, n, k> { static constexpr int rows = m, cols = n; };

template <class T, int m, int n, int k> struct sim_shape {
    static constexpr bool known = k == 16 && ((m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32));
};
template <int m, int n, int k> struct sim_shape<precision::tf32, m, n, k> { static constexpr bool known = m == 16 && n == 16 && k == 8; };
template <int m, int n, int k> struct sim_shape<double, m, n, k> { static constexpr bool known = m == 8 && n == 8 && k == 4; };
template <int m, int n, int k> struct sim_shape<float, m, n, k> {
    static constexpr bool known = sim_shape<__half, m, n, k>::known || sim_shape<precision::tf32, m, n, k>::known;
};

template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment {
    static_assert(sim_shape<T, m, n, k>::known, "no such wmma shape for this element type");
    typedef sim_extent<Use, m, n, k> Extent;

  public:
    typedef typename sim_element<T>::storage element_type;
    typedef element_type storage_element_type;
    static constexpr int rows = Extent::rows;
    static constexpr int cols = Extent::cols;
    static constexpr int num_elements = rows * cols / 32;
    static constexpr int num_storage_elements = num_elements;
    element_type x[num_elements];
};

inline float __float_to_tf32(float a) {
    // To nearest, ties away from zero, as cvt.rna.tf32.f32.
    const std::uint32_t word = simh::bits<std::uint32_t>(a);
    if ((word & 0x7f800000u) == 0x7f800000u) return a;
    return simh::bits<float>((word + 0x1000u) & ~0x1fffu);
}

template <class F, class V>
inline void fill_fragment(F& f, const V& v) {
    for (int i = 0; i < F::num_elements; ++i) f.x[i] = static_cast<typename F::element_type>(v);
}

namespace sim_mma {
constexpr unsigned whole = 0xffffffffu;

template <class T>
inline void require_aligned(const T* p, unsigned ldm, int line) {
    // The guide says 32 bytes; rows of bytes are 16 long and NVIDIA's own samples step through them by 16.
    constexpr unsigned address = sizeof(T) == 1 ? 16 : 32;
    constexpr unsigned step = 16 / sizeof(T);
    if (reinterpret_cast<std::uintptr_t>(p) % address != 0)
        sim_misaligned(p, address == 16 ? "a wmma matrix needs an address that is a multiple of 16 bytes"
                                        : "a wmma matrix needs an address that is a multiple of 32 bytes", line);
    if (sizeof(T) < 8 && ldm % step != 0) 
        sim_misaligned(p + ldm, "a wmma matrix needs rows that are multiples of 16 bytes long", line);
}
template <class F>
inline void element_at(int i, int& r, int& c) {
    const int e = static_cast<int>(sim_here.lane) * F::num_elements + i;
    r = e / F::cols;
    c = e % F::cols;
}
template <class F, class T>
inline void load(F& f, const T* p, unsigned ldm, bool by_rows, int line) {
    sim_warp_exchange(whole, 0, -1, line);
    require_aligned(p, ldm, line);
    for (int i = 0; i < F::num_elements; ++i) {
        int r, c;
        element_at<F>(i, r, c);
        f.x[i] = by_rows ? p[static_cast<std::size_t>(r) * ldm + static_cast<std::size_t>(c)]
                         : p[static_cast<std::size_t>(c) * ldm + static_cast<std::size_t>(r)];
    }
}
template <class F, class T>
inline void store(T* p, const F& f, unsigned ldm, bool by_rows, int line) {
    sim_warp_exchange(whole, 0, -1, line);
    require_aligned(p, ldm, line);
    for (int i = 0; i < F::num_elements; ++i) {
        int r, c;
        element_at<F>(i, r, c);
        p[by_rows ? static_cast<std::size_t>(r) * ldm + static_cast<std::size_t>(c)
                  : static_cast<std::size_t>(c) * ldm + static_cast<std::size_t>(r)] = f.x[i];
    }
}

/// The operand as the tensor core sees it: tf32 drops the low 13 bits.
template <class T> inline typename sim_element<T>::compute operand(const typename sim_element<T>::storage& v) {
    return static_cast<typename sim_element<T>::compute>(v);
}
template <> inline float operand<precision::tf32>(const float& v) { return simh::bits<float>(simh::bits<std::uint32_t>(v) & ~0x1fffu); }
template <> inline float operand<__half>(const __half& v) { return simh::value(v); }
template <> inline float operand<__nv_bfloat16>(const __nv_bfloat16& v) { return simh::value(v); }

inline float sum_of(float acc, float a, float b, bool) { return acc + a * b; }
inline double sum_of(double acc, double a, double b, bool) { return __builtin_fma(a, b, acc); }
inline long long sum_of(long long acc, int a, int b, bool) { return acc + static_cast<long long>(a) * b; }
inline float finish(float v, bool, float) { return v; }
inline double finish(double v, bool, double) { return v; }
inline __half finish(float v, bool, __half) { return __half(v); }
inline int finish(long long v, bool saturate, int) {
    if (saturate && v > 2147483647ll) return 2147483647;
    if (saturate && v < -2147483647ll - 1) return -2147483647 - 1;
    return static_cast<int>(v);
}
template <class C> struct running { typedef float type; };
template <> struct running<int> { typedef long long type; };
template <> struct running<double> { typedef double type; };

template <class D, class A, class B, class C>
struct operands {
    D* d;
    const A* a;
    const B* b;
    const C* c;
};

template <int m, int n, int k, class T, class D, class A, class B, class C>
SIM_UNWATCHED void multiply(const std::uint64_t* lanes, bool saturate) {
    typedef operands<D, A, B, C> Set;
    typedef typename sim_element<T>::compute Compute;
    typedef typename running<typename D::element_type>::type Sum;
    const auto set = [&](int lane) { return reinterpret_cast<const Set*>(static_cast<std::uintptr_t>(lanes[lane])); };
    Compute b[k * n];
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < B::num_elements; ++i) b[lane * B::num_elements + i] = operand<T>(set(lane)->b->x[i]);
    Sum sum[m * n];
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < C::num_elements; ++i) sum[lane * C::num_elements + i] = static_cast<Sum>(set(lane)->c->x[i]);
    for (int r = 0; r < m; ++r)
        for (int j = 0; j < k; ++j) {
            const int e = r * k + j;
            const Compute a = operand<T>(set(e / A::num_elements)->a->x[e % A::num_elements]);
            for (int c = 0; c < n; ++c) sum[r * n + c] = sum_of(sum[r * n + c], a, b[j * n + c], saturate);
        }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < D::num_elements; ++i)
            set(lane)->d->x[i] = finish(sum[lane * D::num_elements + i], saturate, typename D::element_type());
}
}  // namespace sim_mma

template <int m, int n, int k, class T, class V>
inline void load_matrix_sync(fragment<matrix_a, m, n, k, T, row_major>& f, const V* p, unsigned ldm, SIM_LINE) { sim_mma::load(f, p, ldm, true, sim_line); }
template <int m, int n, int k, class T, class V>
inline void load_matrix_sync(fragment<matrix_a, m, n, k, T, col_major>& f, const V* p, unsigned ldm, SIM_LINE) { sim_mma::load(f, p, ldm, false, sim_line); }
template <int m, int n, int k, class T, class V>
inline void load_matrix_sync(fragment<matrix_b, m, n, k, T, row_major>& f, const V* p, unsigned ldm, SIM_LINE) { sim_mma::load(f, p, ldm, true, sim_line); }
template <int m, int n, int k, class T, class V>
inline void load_matrix_sync(fragment<matrix_b, m, n, k, T, col_major>& f, const V* p, unsigned ldm, SIM_LINE) { sim_mma::load(f, p, ldm, false, sim_line); }
template <int m, int n, int k, class T, class V>
inline void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const V* p, unsigned ldm, layout_t layout, SIM_LINE) {
    sim_mma::load(f, p, ldm, layout == mem_row_major, sim_line);
}
template <int m, int n, int k, class T, class V>
inline void store_matrix_sync(V* p, const fragment<accumulator, m, n, k, T>& f, unsigned ldm, layout_t layout, SIM_LINE) {
    sim_mma::store(p, f, ldm, layout == mem_row_major, sim_line);
}
template <int m, int n, int k, class T, class LA, class LB, class TD, class TC>
inline void mma_sync(fragment<accumulator, m, n, k, TD>& d, const fragment<matrix_a, m, n, k, T, LA>& a,
                     const fragment<matrix_b, m, n, k, T, LB>& b, const fragment<accumulator, m, n, k, TC>& c,
                     bool saturate = false, SIM_LINE) {
    typedef fragment<accumulator, m, n, k, TD> D;
    typedef fragment<accumulator, m, n, k, TC> C;
    typedef fragment<matrix_a, m, n, k, T, LA> A;
    typedef fragment<matrix_b, m, n, k, T, LB> B;
    const sim_mma::operands<D, A, B, C> mine = {&d, &a, &b, &c};
    std::uint64_t lanes[32];
    sim_warp_gather(sim_mma::whole, reinterpret_cast<std::uintptr_t>(&mine), lanes, sim_line);
    if (sim_here.lane == 0) sim_mma::multiply<m, n, k, T, D, A, B, C>(lanes, saturate);
    sim_warp_exchange(sim_mma::whole, 0, -1, sim_line);
    __asm__ volatile("" : : "r"(&d), "r"(&a), "r"(&b), "r"(&c) : "memory");
}

}  // namespace wmma
}  // namespace nvcuda
