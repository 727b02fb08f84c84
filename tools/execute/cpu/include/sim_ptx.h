// What translated inline PTX calls: registers are bits, instructions give them a type.
#pragma once
#include "sim_atomics.h"
#include "sim_bits.h"
#include "sim_copy.h"
#include "sim_simd.h"

namespace sim_ptx {

/// The bits of `v` as a T: kept when the sizes agree, else cut off or extended with zeros.
template <class T, class V>
inline T as(const V& v) {
    T result{};
    __builtin_memcpy(static_cast<void*>(&result), &v, sizeof(T) < sizeof(V) ? sizeof(T) : sizeof(V));
    return result;
}
template <class D, class V>
inline void set(D& destination, const V& v) { destination = as<D>(v); }

// A 32-bit address of shared memory is an offset into the block's static part, or, above the gap, into the dynamic one.
constexpr std::uint64_t dynamic_window = 0x01000000u;
inline std::size_t shared_offset(const void* p) {
    const char* const at = static_cast<const char*>(p);
    if (at >= sim_here.dynamic && at < sim_here.dynamic + dynamic_window) return dynamic_window + static_cast<std::size_t>(at - sim_here.dynamic);
    return static_cast<std::size_t>(at - sim_here.shared);
}
template <class V>
inline void* shared_pointer(const V& v, long long offset = 0) {
    const std::uint64_t at = as<std::uint64_t>(v) + static_cast<std::uint64_t>(offset);
    if (at >> 32) return reinterpret_cast<void*>(at);
    return at >= dynamic_window ? sim_here.dynamic + (at - dynamic_window) : sim_here.shared + at;
}
template <class V>
inline void* generic_pointer(const V& v, long long offset = 0) {
    return reinterpret_cast<void*>(as<std::uint64_t>(v) + static_cast<std::uint64_t>(offset));
}
template <class T> inline T load(const void* p) { return *static_cast<const T*>(p); }
template <class T> inline void store(void* p, T v) { *static_cast<T*>(p) = v; }
template <class T> inline T load_volatile(const void* p) { return *static_cast<const volatile T*>(p); }
template <class T> inline void store_volatile(void* p, T v) { *static_cast<volatile T*>(p) = v; }
/// Vector accesses are one access of the whole width, aligned as such.
template <class T, int n>
inline const T* vector_at(const void* p, int line) {
    if (reinterpret_cast<std::uintptr_t>(p) % (sizeof(T) * n) != 0) 
        sim_misaligned(p, "a vector access needs an address that is a multiple of its size", line);
    return static_cast<const T*>(p);
}

template <class T>
inline unsigned lop3(T a, T b, T c, unsigned table) {
    unsigned r = 0;
    if (table & 0x01u) r |= ~a & ~b & ~c;
    if (table & 0x02u) r |= ~a & ~b & c;
    if (table & 0x04u) r |= ~a & b & ~c;
    if (table & 0x08u) r |= ~a & b & c;
    if (table & 0x10u) r |= a & ~b & ~c;
    if (table & 0x20u) r |= a & ~b & c;
    if (table & 0x40u) r |= a & b & ~c;
    if (table & 0x80u) r |= a & b & c;
    return r;
}
/// Bit field [position, position + length) of v; signed types extend the field's top bit.
template <class T>
inline T bfe(T v, unsigned position, unsigned length) {
    constexpr unsigned width = sizeof(T) * 8;
    position &= 0xffu;
    length &= 0xffu;
    if (length == 0) return 0;
    constexpr bool is_signed = static_cast<T>(-1) < static_cast<T>(0);
    const unsigned top = position + length - 1 < width - 1 ? position + length - 1 : width - 1;
    T result = 0;
    const bool fill = is_signed && ((static_cast<std::uint64_t>(v) >> top) & 1u);
    for (unsigned i = 0; i < width; ++i) {
        const bool bit = i < length && position + i < width ? (static_cast<std::uint64_t>(v) >> (position + i)) & 1u : fill;
        if (bit) result = static_cast<T>(static_cast<std::uint64_t>(result) | (std::uint64_t{1} << i));
    }
    return result;
}
template <class T>
inline T bfi(T field, T into, unsigned position, unsigned length) {
    constexpr unsigned width = sizeof(T) * 8;
    for (unsigned i = 0; i < (length & 0xffu) && i + (position & 0xffu) < width; ++i) {
        const T bit = static_cast<T>(T(1) << (i + (position & 0xffu)));
        into = static_cast<T>(((field >> i) & 1u) ? (into | bit) : (into & static_cast<T>(~bit)));
    }
    return into;
}
template <class T> inline T shift_left(T v, unsigned n) { return n >= sizeof(T) * 8 ? T(0) : static_cast<T>(v << n); }
template <class T> inline T shift_right(T v, unsigned n) {
    constexpr unsigned width = sizeof(T) * 8;
    return static_cast<T>(v >> (n >= width ? width - 1 : n)) * static_cast<T>(n < width || static_cast<T>(-1) < static_cast<T>(0) ? 1 : 0);
}
/// Position of the most significant bit that differs from the sign (signed) or is one (unsigned); all ones if none.
template <class T> inline unsigned bfind(T v) {
    typedef std::make_unsigned_t<T> U;
    const U u = v < 0 ? static_cast<U>(~v) : static_cast<U>(v);
    return u == 0 ? 0xffffffffu : 63u - static_cast<unsigned>(__builtin_clzll(u));
}
template <class T> inline T mul_hi(T a, T b) {
    if constexpr (sizeof(T) == 8) {
        if constexpr (static_cast<T>(-1) < static_cast<T>(0)) return static_cast<T>((static_cast<__int128>(a) * b) >> 64);
        else return static_cast<T>((static_cast<unsigned __int128>(a) * b) >> 64);
    } else if constexpr (static_cast<T>(-1) < static_cast<T>(0)) {
        return static_cast<T>((static_cast<long long>(a) * b) >> (sizeof(T) * 8));
    } else {
        return static_cast<T>((static_cast<unsigned long long>(a) * b) >> (sizeof(T) * 8));
    }
}
template <class T> inline T smaller(T a, T b) { return (a < b || b != b) ? a : b; }
template <class T> inline T larger(T a, T b) { return (a > b || b != b) ? a : b; }
template <class T> inline T quotient(T a, T b) { return b == 0 ? static_cast<T>(-1) : static_cast<T>(a / b); }
template <class T> inline T remainder(T a, T b) { return b == 0 ? a : static_cast<T>(a % b); }

/// Sum or difference with the carry flag, which lives for one asm statement.
inline unsigned add_carry(unsigned a, unsigned b, unsigned in, unsigned& out) {
    const std::uint64_t s = static_cast<std::uint64_t>(a) + b + in;
    out = static_cast<unsigned>(s >> 32);
    return static_cast<unsigned>(s);
}
inline std::uint64_t add_carry(std::uint64_t a, std::uint64_t b, unsigned in, unsigned& out) {
    const unsigned __int128 s = static_cast<unsigned __int128>(a) + b + in;
    out = static_cast<unsigned>(s >> 64);
    return static_cast<std::uint64_t>(s);
}
template <class T> inline T sub_borrow(T a, T b, unsigned in, unsigned& out) {
    const T r = static_cast<T>(a - b - in);
    out = (a < b || (a == b && in)) ? 1u : 0u;
    return r;
}

/// Conversions between integers and floats, saturating as cvt does.
template <class To, class From>
inline To convert_integer(From v, bool saturate) {
    if (!saturate) return static_cast<To>(v);
    const __int128 w = v;
    const __int128 high = std::numeric_limits<To>::max(), low = std::numeric_limits<To>::lowest();
    return static_cast<To>(w > high ? high : (w < low ? low : w));
}

/// Two 16-bit floats in a word.
template <class F>
inline unsigned half_pair(unsigned a, unsigned b, unsigned c, F f) {
    const auto lane = [&](int s) {
        return static_cast<unsigned>(simh::half_from_double(f(simh::float_from_half(static_cast<std::uint16_t>(a >> s)),
                                                              simh::float_from_half(static_cast<std::uint16_t>(b >> s)),
                                                              simh::float_from_half(static_cast<std::uint16_t>(c >> s))), simh::round::nearest));
    };
    return lane(0) | (lane(16) << 16);
}
template <class F>
inline unsigned bfloat_pair(unsigned a, unsigned b, unsigned c, F f) {
    const auto lane = [&](int s) {
        return static_cast<unsigned>(simh::bfloat_from_double(f(simh::float_from_bfloat(static_cast<std::uint16_t>(a >> s)),
                                                                simh::float_from_bfloat(static_cast<std::uint16_t>(b >> s)),
                                                                simh::float_from_bfloat(static_cast<std::uint16_t>(c >> s))), simh::round::nearest));
    };
    return lane(0) | (lane(16) << 16);
}
struct fma_lanes { double operator()(double a, double b, double c) const { return simh::fma_to_odd(a, b, c); } };
struct add_lanes { double operator()(double a, double b, double) const { return simh::fma_to_odd(a, 1.0, b); } };
struct sub_lanes { double operator()(double a, double b, double) const { return simh::fma_to_odd(a, 1.0, -b); } };
struct mul_lanes { double operator()(double a, double b, double) const { return a * b; } };
struct max_lanes { double operator()(double a, double b, double) const { return larger(a, b); } };
struct min_lanes { double operator()(double a, double b, double) const { return smaller(a, b); } };

/// To nearest, ties away from zero, with 10 fraction bits.
inline unsigned tf32(float a) {
    const unsigned w = simh::bits<unsigned>(a);
    return (w & 0x7f800000u) == 0x7f800000u ? w : (w + 0x1000u) & ~0x1fffu;
}

inline void copy(void* destination, const void* source, unsigned size, unsigned read, int line) {
    if ((reinterpret_cast<std::uintptr_t>(destination) | reinterpret_cast<std::uintptr_t>(source)) % size != 0)
        
        sim_misaligned(reinterpret_cast<std::uintptr_t>(source) % size ? source : destination,
                       "cp.async needs addresses that are multiples of the copied size", line);
    simc::issue_copy(destination, source, size, read);
}

/// shfl.sync: c packs the clamp (bits 0-4) and the segment mask (bits 8-12); p says whether the source was in range.
inline unsigned shuffle(int mode, unsigned a, unsigned b, unsigned c, unsigned mask, bool& p, int line) {
    const unsigned lane = sim_here.lane, clamp = c & 31u, segment = (c >> 8) & 31u;
    const unsigned high = (lane & segment) | (clamp & ~segment), low = lane & segment;
    b &= 31u;
    unsigned source = lane;
    switch (mode) {
        case 0: source = lane - b; p = static_cast<int>(source) >= static_cast<int>(high); break;
        case 1: source = lane + b; p = source <= high; break;
        case 2: source = lane ^ b; p = source <= high; break;
        default: source = low | (b & ~segment); p = source <= high; break;
    }
    if (!p) source = lane;
    return static_cast<unsigned>(sim_warp_exchange(mask, a, static_cast<int>(source), line));
}

}  // namespace sim_ptx

#ifndef SIM_HAS_CVTA
#define SIM_HAS_CVTA
inline std::size_t __cvta_generic_to_shared(const void* p) { return sim_ptx::shared_offset(p); }
inline void* __cvta_shared_to_generic(std::size_t p) { return sim_ptx::shared_pointer(static_cast<std::uint64_t>(p)); }
inline std::size_t __cvta_generic_to_global(const void* p) { return reinterpret_cast<std::size_t>(p); }
inline void* __cvta_global_to_generic(std::size_t p) { return reinterpret_cast<void*>(p); }
inline std::size_t __cvta_generic_to_constant(const void* p) { return reinterpret_cast<std::size_t>(p); }
inline unsigned __isShared(const void* p) {
    const char* const at = static_cast<const char*>(p);
    return (at >= sim_here.dynamic && at < sim_here.dynamic + (256u << 10)) || (at >= sim_here.shared && at < sim_here.shared + (1u << 20));
}
inline unsigned __isGlobal(const void* p) { return !__isShared(p); }
/// Locals lie on the running thread's own stack.
inline unsigned __isLocal(const void* p) {
    const char* const here = static_cast<const char*>(__builtin_frame_address(0));
    return static_cast<const char*>(p) - here < (256 << 10) && here - static_cast<const char*>(p) < (256 << 10);
}
inline unsigned __isGridConstant(const void*) { return 0; }
inline void* __cvta_constant_to_generic(std::size_t p) { return reinterpret_cast<void*>(p); }
inline std::size_t __cvta_generic_to_local(const void* p) { return reinterpret_cast<std::size_t>(p); }
inline void* __cvta_local_to_generic(std::size_t p) { return reinterpret_cast<void*>(p); }
inline std::size_t __cvta_generic_to_grid_constant(const void* p) { return reinterpret_cast<std::size_t>(p); }
inline void* __cvta_grid_constant_to_generic(std::size_t p) { return reinterpret_cast<void*>(p); }
inline unsigned short __nv_bswap16(unsigned short v) { return __builtin_bswap16(v); }
inline unsigned __nv_bswap32(unsigned v) { return __builtin_bswap32(v); }
inline unsigned long long __nv_bswap64(unsigned long long v) { return __builtin_bswap64(v); }
#endif
