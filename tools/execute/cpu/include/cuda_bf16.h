// __nv_bfloat16 and __nv_bfloat162 for the CPU executor: same names and results as the device type.
#pragma once
#include "sim_float16.h"

#define SIM_T __nv_bfloat16
#define SIM_T2 __nv_bfloat162
#define SIM_RAW __nv_bfloat16_raw
#define SIM_RAW2 __nv_bfloat162_raw
#define SIM_NAME bfloat16
#define SIM_TO_FLOAT(word) simh::float_from_bfloat(word)
#define SIM_FROM_FLOAT(x) simh::bfloat_from_float(x)
#define SIM_FROM_DOUBLE(x, mode) simh::bfloat_from_double(x, mode)
#include "sim_float16.inc"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#define CUDART_INF_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7F80U))
#define CUDART_NAN_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7FFFU))
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x0001U))
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7F7FU))
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x8000U))
#define CUDART_ZERO_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x0000U))
#define CUDART_ONE_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x3F80U))
