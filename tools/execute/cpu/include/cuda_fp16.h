// __half and __half2 for the CPU executor: same names and results as the device type.
#pragma once
#include "sim_float16.h"

#define SIM_T __half
#define SIM_T2 __half2
#define SIM_RAW __half_raw
#define SIM_RAW2 __half2_raw
#define SIM_NAME half
#define SIM_TO_FLOAT(word) simh::float_from_half(word)
#define SIM_FROM_FLOAT(x) simh::half_from_float(x)
#define SIM_FROM_DOUBLE(x, mode) simh::half_from_double(x, mode)
#include "sim_float16.inc"

typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
typedef __half_raw __nv_half_raw;
typedef __half2_raw __nv_half2_raw;

#define CUDART_INF_FP16 __ushort_as_half(static_cast<unsigned short>(0x7C00U))
#define CUDART_NAN_FP16 __ushort_as_half(static_cast<unsigned short>(0x7FFFU))
#define CUDART_MIN_DENORM_FP16 __ushort_as_half(static_cast<unsigned short>(0x0001U))
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(static_cast<unsigned short>(0x7BFFU))
#define CUDART_NEG_ZERO_FP16 __ushort_as_half(static_cast<unsigned short>(0x8000U))
#define CUDART_ZERO_FP16 __ushort_as_half(static_cast<unsigned short>(0x0000U))
#define CUDART_ONE_FP16 __ushort_as_half(static_cast<unsigned short>(0x3C00U))
