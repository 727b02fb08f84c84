// Everything a kernel finds without an #include; precompiled once per mode.
#pragma once
#include "sim_core.h"
#include "sim_atomics.h"
#include "sim_nv_atomics.h"
#if __has_include("sim_bits.h")
#include "sim_bits.h"
#endif
#include "sim_math.h"
#if __has_include("sim_simd.h")
#include "sim_simd.h"
#endif
#if __has_include("sim_ptx.h")
#include "sim_ptx.h"
#endif
#if __has_include("../../../toolchain/prelude.h")
#include "../../../toolchain/prelude.h"
#endif
