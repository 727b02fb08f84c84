"""Kernels that check mode must catch, each beside honest look-alikes that it must let pass."""

from tests.integration.cpu.programs import Case, Shape

_TWO_BLOCKS = Shape(n=128, grid=(2, 1, 1))
_LAST_BLOCK = "__device__ unsigned arrived = 0;\n"

OUT_OF_BOUNDS = [
    Case(
        "write one past the end",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i <= n) y[i] = x[i < n ? i : 0];  // HERE",
        "out_of_bounds",
        ("`y`", "one float past the end"),
        shape=Shape(n=60),
    ),
    Case(
        "read one past the end",
        "int i = threadIdx.x;\nif (i < n) y[i] = x[i] + x[i + 1];  // HERE",
        "out_of_bounds",
        ("`x`", "past the end"),
    ),
    Case(
        "read before the start",
        "int i = threadIdx.x;\ny[i] = x[i - 1];  // HERE",
        "out_of_bounds",
        ("`x`", "before the start"),
    ),
    Case(
        "far beyond the end",
        "int i = threadIdx.x;\ny[i] = x[i];\nif (i == 0) y[n + 100000] = 1.0f;  // HERE",
        "out_of_bounds",
    ),
    Case(
        "dynamic shared one element short",
        "extern __shared__ float s[];\nint i = threadIdx.x;\ns[i] = x[i];  // HERE\n__syncthreads();\ny[i] = s[63 - i];",
        "out_of_bounds",
        ("shared",),
        shape=Shape(shared_bytes=63 * 4),
    ),
    Case(
        "static shared overrun through a pointer",
        "__shared__ float s[64];\nfloat* p = s;\nint i = threadIdx.x;\np[i + 1] = x[i];  // HERE\n__syncthreads();\ny[i] = p[i];",
        "out_of_bounds",
        ("shared",),
    ),
    Case(
        "row of a shared tile",
        "__shared__ float tile[4][16];\nint i = threadIdx.x;\ntile[i / 16][i % 16] = x[i];\n__syncthreads();\n"
        "for (int j = 0; j <= 16; ++j) y[i] = tile[i / 16][j];  // HERE",
        "out_of_bounds",
        ("16",),
    ),
    Case(
        "local array",
        "float a[8];\nfor (int j = 0; j < 8; ++j) a[j] = x[j];\nint i = threadIdx.x;\ny[i] = a[i & 15];  // HERE",
        "out_of_bounds",
        ("8",),
    ),
    Case(
        "null pointer",
        "int i = threadIdx.x;\nfloat* p = n > 1000 ? y : nullptr;\ny[i] = x[i];\nif (i == 3) p[0] = 1.0f;  // HERE",
        "out_of_bounds",
        ("null",),
    ),
    Case(
        "wild pointer",
        "int i = threadIdx.x;\ny[i] = x[i];\nif (i == 3) *(float*)0x123456789000ull = 1.0f;  // HERE",
        "out_of_bounds",
    ),
    Case(
        "last element and no further",
        "int i = threadIdx.x;\nif (i < n) y[i] = x[n - 1 - i];",
        shape=Shape(n=60),
    ),
    Case(
        "a pointer past the end that is never followed",
        "const float* end = x + n;\nint i = threadIdx.x;\nfor (const float* p = x + i; p < end; p += blockDim.x) y[p - x] = *p;",
        shape=Shape(n=200),
    ),
    Case(
        "a guarded halo",
        "int i = threadIdx.x;\nfloat l = i > 0 ? x[i - 1] : 0.0f;\nfloat r = i + 1 < n ? x[i + 1] : 0.0f;\nif (i < n) y[i] = l + r;",
    ),
    Case(
        "a padded tile",
        "__shared__ float tile[8][9];\nint i = threadIdx.x, r = i / 8, c = i % 8;\ntile[r][c] = x[i];\n__syncthreads();\ny[i] = tile[c][r];",
    ),
    Case(
        "dynamic shared used to its last byte",
        "extern __shared__ float s[];\nint i = threadIdx.x;\ns[i] = x[i];\n__syncthreads();\ny[i] = s[63 - i];",
        shape=Shape(shared_bytes=256),
    ),
]

UNINITIALIZED = [
    Case(
        "the newest batch of a pipeline is not waited for",
        "__shared__ float s[64];\nint i = threadIdx.x;\nauto p = cuda::make_pipeline();\np.producer_acquire();\n"
        "cuda::memcpy_async(&s[i], x + i, sizeof(float), p);\np.producer_commit();\n"
        "cuda::pipeline_consumer_wait_prior<1>(p);\ny[i] = s[i];",
        "uninitialized_read",
        ("shared variable `s`",),
        before="#include <cuda/pipeline>\n",
    ),
    Case(
        "shared memory never written",
        "__shared__ float s[64];\nint i = threadIdx.x;\nif (i < 32) s[i] = x[i];\n__syncthreads();\ny[i] = s[i];  // HERE",
        "uninitialized_read",
        ("shared",),
    ),
    Case(
        "accumulator in shared memory not cleared",
        "__shared__ float s;\nint i = threadIdx.x;\natomicAdd(&s, x[i]);  // HERE\n__syncthreads();\ny[i] = s;",
        "uninitialized_read",
        ("shared",),
    ),
    Case(
        "scratch never written",
        "int i = threadIdx.x;\ny[i] = x[i] + w[i];  // HERE",
        "uninitialized_read",
        ("`w`",),
    ),
    Case(
        "output read before it is written",
        "int i = threadIdx.x;\ny[i] += x[i];  // HERE",
        "uninitialized_read",
        ("`y`",),
    ),
    Case(
        "shared memory does not survive a launch",
        "__shared__ float s[64];\nint i = threadIdx.x;\nif (n < 0) s[i] = 1.0f;\ny[i] = s[i];  // HERE",
        "uninitialized_read",
        shape=Shape(launches=2),
    ),
    Case(
        "shared memory written by another thread",
        "__shared__ float s[64];\nint i = threadIdx.x;\nif (i == 0) for (int j = 0; j < 64; ++j) s[j] = x[j];\n__syncthreads();\ny[i] = s[i];",
    ),
    Case("scratch written first", "int i = threadIdx.x;\nw[i] = x[i];\ny[i] = w[i] * 2.0f;"),
    Case("output read after it is written", "int i = threadIdx.x;\ny[i] = x[i];\ny[i] += 1.0f;"),
    Case(
        "scratch of an earlier launch",
        "int i = threadIdx.x;\nif (started) y[i] = w[i]; else { y[i] = 0.0f; w[i] = x[i]; }\n__syncthreads();\nif (i == 0) started = 1;",
        before="__device__ int started = 0;\n",
        shape=Shape(launches=2),
    ),
    Case(
        "vector stores and loads",
        "__shared__ float4 s[16];\nint i = threadIdx.x;\nif (i < 16) s[i] = reinterpret_cast<const float4*>(x)[i];\n"
        "__syncthreads();\nif (i < 16) { float4 v = s[15 - i]; reinterpret_cast<float4*>(y)[i] = make_float4(v.w, v.z, v.y, v.x); }",
    ),
    Case(
        "a struct returned by a function",
        "__shared__ P s[64];\nint i = threadIdx.x;\ns[i] = both(x[i], 2.0f);\n__syncthreads();\nP p = s[63 - i];\ny[i] = p.a + p.b;",
        before="struct P { float a, b; };\n__device__ __noinline__ P both(float a, float b) { P p; p.a = a; p.b = b; return p; }\n",
    ),
]

RACES = [
    Case(
        "missing barrier in a reduction",
        "__shared__ float s[64];\nint i = threadIdx.x;\ns[i] = x[i];\n__syncthreads();\n"
        "for (int k = 32; k > 0; k >>= 1) { if (i < k) s[i] += s[i + k]; }\nif (i == 0) y[0] = s[0];\n",
        "data_race",
        ("shared",),
        shape=Shape(m=1),
    ),
    Case(
        "missing barrier after the load",
        "__shared__ float s[64];\nint i = threadIdx.x;\ns[i] = x[i];\ny[i] = s[63 - i];",
        "data_race",
        ("shared",),
    ),
    Case(
        "missing barrier before the tile is used again",
        "__shared__ float s[64];\nint i = threadIdx.x;\nfloat a = 0.0f;\nfor (int t = 0; t < 2; ++t) {\n"
        "s[i] = x[i] * t;\n__syncthreads();\na += s[63 - i];\n}\ny[i] = a;",
        "data_race",
    ),
    Case(
        "counter without atomics between blocks",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i == 0) w[0] = 0.0f;\ny[i] = x[i];\nif (threadIdx.x == 0) w[1] = blockIdx.x + x[0];",
        "data_race",
        ("`w`", "block"),
        shape=_TWO_BLOCKS,
    ),
    Case(
        "stencil in place between blocks",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\ny[i] = x[i];\nif (i > 0) y[i] = x[i] + (i % 64 == 0 ? y[i - 1] : 0.0f);",
        "data_race",
        ("`y`",),
        shape=_TWO_BLOCKS,
    ),
    Case(
        "plain read of an atomic counter",
        "__shared__ int c;\nint i = threadIdx.x;\nif (i == 0) c = 0;\n__syncthreads();\natomicAdd(&c, 1);\ny[i] = x[i] + c;",
        "data_race",
    ),
    Case(
        "two threads copy different elements to one place",
        "__shared__ float s[32];\nint i = threadIdx.x;\n__pipeline_memcpy_async(&s[i / 2], x + i, 4);\n__pipeline_commit();\n"
        "__pipeline_wait_prior(0);\n__syncthreads();\ny[i] = s[i / 2];",
        "data_race",
        ("shared variable `s`",),
        before="#include <cuda_pipeline.h>\n",
    ),
    Case(
        "an asynchronous copy into what a neighbour still reads",
        "__shared__ float s[64];\nint i = threadIdx.x;\ns[i] = x[i];\n__syncthreads();\ny[i] = s[i ^ 1];\n"
        "__pipeline_memcpy_async(&s[i], x + i, 4);\n__pipeline_commit();\n__pipeline_wait_prior(0);\n__syncthreads();\ny[i] += s[i ^ 1];",
        "data_race",
        ("shared variable `s`",),
        before="#include <cuda_pipeline.h>\n",
    ),
    Case(
        "last block without a fence",
        "__shared__ bool last;\nint i = threadIdx.x;\nw[blockIdx.x * 64 + i] = x[blockIdx.x * 64 + i];\n"
        "if (i == 0) last = atomicAdd(&arrived, 1u) == gridDim.x - 1;\n__syncthreads();\n"
        "if (last) y[i] = w[i] + w[64 + i];",
        "data_race",
        before=_LAST_BLOCK,
        shape=Shape(n=128, m=64, grid=(2, 1, 1)),
    ),
    Case(
        "warp-synchronous code without a warp barrier",
        "__shared__ float s[32];\nint i = threadIdx.x;\ns[i] = x[i];\ny[i] = s[31 - i];",
        "data_race",
        shape=Shape(n=32, block=(32, 1, 1)),
    ),
    Case(
        "a store over a read, the same value at first",
        "__shared__ float s[128];\nint i = threadIdx.x;\ns[i] = i < 7 ? x[i] : 0.0f;\n__syncthreads();\n"
        "for (int d = 64; d > 0; d >>= 1) if (i < d) s[i] += s[i + d];\nif (i == 0) y[0] = s[0];",
        "data_race",
        shape=Shape(n=7, m=1, block=(128, 1, 1)),
    ),
    Case(
        "reduction with barriers",
        "__shared__ float s[64];\nint i = threadIdx.x;\ns[i] = x[i];\n__syncthreads();\n"
        "for (int k = 32; k > 0; k >>= 1) { if (i < k) s[i] += s[i + k]; __syncthreads(); }\nif (i == 0) y[0] = s[0];",
        shape=Shape(m=1),
    ),
    Case(
        "warp-synchronous code with warp barriers",
        "__shared__ float s[32];\nint i = threadIdx.x;\ns[i] = x[i];\n__syncwarp();\ny[i] = s[31 - i];",
        shape=Shape(n=32, block=(32, 1, 1)),
    ),
    Case(
        "shuffle orders a warp",
        "__shared__ float s[64];\nint i = threadIdx.x;\ns[i] = x[i];\nfloat v = __shfl_down_sync(0xffffffffu, x[i], 1);\ny[i] = s[i ^ 31] + v;",
    ),
    Case(
        "atomics between blocks",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\ny[i] = x[i];\natomicAdd(&total, 1u);",
        before="__device__ unsigned total = 0;\n",
        shape=_TWO_BLOCKS,
    ),
    Case(
        "last block with a fence",
        "__shared__ bool last;\nint i = threadIdx.x;\nw[blockIdx.x * 64 + i] = x[blockIdx.x * 64 + i];\n__threadfence();\n__syncthreads();\n"
        "if (i == 0) last = atomicAdd(&arrived, 1u) == gridDim.x - 1;\n__syncthreads();\n"
        "if (last) { __threadfence(); y[i] = w[i] + w[64 + i]; if (i == 0) arrived = 0; }",
        before=_LAST_BLOCK,
        shape=Shape(n=128, m=64, grid=(2, 1, 1)),
    ),
    Case(
        "the same value from everybody",
        "__shared__ int flag;\nint i = threadIdx.x;\nflag = 7;\n__syncthreads();\ny[i] = x[i] + flag;",
        warns="same value",
    ),
    Case(
        "a spin on another block's flag",
        "int i = threadIdx.x;\nif (blockIdx.x == 0) { w[i] = x[i]; __threadfence(); __syncthreads(); if (i == 0) atomicExch(&ready, 1); }\n"
        "else { if (i == 0) { while (atomicAdd(&ready, 0) == 0) {} } __syncthreads(); __threadfence(); y[i] = w[i]; }\n",
        before="__device__ int ready = 0;\n",
        shape=Shape(n=64, grid=(2, 1, 1)),
    ),
    Case(
        "an asynchronous copy after all have read",
        "__shared__ float s[64];\nint i = threadIdx.x;\ns[i] = x[i];\n__syncthreads();\ny[i] = s[i ^ 1];\n__syncthreads();\n"
        "__pipeline_memcpy_async(&s[i], x + i, 4);\n__pipeline_commit();\n__pipeline_wait_prior(0);\n__syncthreads();\ny[i] += s[i ^ 1];",
        before="#include <cuda_pipeline.h>\n",
    ),
    Case(
        "two threads copy the same element to one place",
        "__shared__ float s[32];\nint i = threadIdx.x;\n__pipeline_memcpy_async(&s[i / 2], x + i / 2, 4);\n__pipeline_commit();\n"
        "__pipeline_wait_prior(0);\n__syncthreads();\ny[i] = s[i / 2];",
        before="#include <cuda_pipeline.h>\n",
        warns="same value",
    ),
    Case(
        "a pipeline of one thread, its batches waited for",
        "__shared__ float s[2][64];\nint i = threadIdx.x;\nauto p = cuda::make_pipeline();\np.producer_acquire();\n"
        "cuda::memcpy_async(&s[0][i], x + i, sizeof(float), p);\np.producer_commit();\np.producer_acquire();\n"
        "cuda::memcpy_async(&s[1][i], x + 64 + i, sizeof(float), p);\np.producer_commit();\np.consumer_wait();\ny[i] = s[0][i];\n"
        "p.consumer_release();\ncuda::pipeline_consumer_wait_prior<0>(p);\ny[i] += s[1][i];",
        before="#include <cuda/pipeline>\n",
        shape=Shape(n=128, m=64),
    ),
    Case(
        "a chain of five hundred blocks that draw tickets",
        "__shared__ int b;\nif (threadIdx.x == 0) {\n  b = atomicAdd(&ticket, 1);\n"
        "  if (b > 0) { while (((volatile int*)ready)[b - 1] == 0) {} __threadfence(); }\n"
        "  w[b] = x[b] + (b > 0 ? w[b - 1] : 0.0f);\n  __threadfence();\n  ((volatile int*)ready)[b] = 1;\n}\n"
        "__syncthreads();\nif (threadIdx.x == 0) y[b] = w[b];",
        before="__device__ int ticket = 0, ready[500];\n",
        shape=Shape(n=500, grid=(500, 1, 1), block=(32, 1, 1)),
    ),
    Case(
        "what six blocks handed on, one to the next",
        "if (threadIdx.x == 0) {\n  int b = blockIdx.x;\n  if (b == 0) w[0] = x[0];\n"
        "  else { while (atomicAdd(&flags[b - 1], 0) == 0) {} __threadfence(); }\n"
        "  if (b == 6) y[0] = w[0];\n  __threadfence();\n  atomicExch(&flags[b], 1);\n}",
        before="__device__ int flags[7];\n",
        shape=Shape(n=7, m=1, grid=(7, 1, 1), block=(32, 1, 1)),
    ),
    Case(
        "a volatile flag within a block",
        "__shared__ volatile int flag;\n__shared__ float v;\nint i = threadIdx.x;\nif (i == 0) flag = 0;\n__syncthreads();\n"
        "if (i == 63) { v = x[0]; __threadfence_block(); flag = 1; }\nif (i == 0) { while (flag == 0) {} __threadfence_block(); y[0] = v; }",
        shape=Shape(m=1),
    ),
]

BARRIERS = [
    Case(
        "barrier in a branch",
        "__shared__ float s[64];\nint i = threadIdx.x;\ns[i] = x[i];\nif (i < 32) __syncthreads();  // HERE\ny[i] = x[i];",
        "barrier_divergence",
        ("32 of 64",),
    ),
    Case(
        "two different barriers",
        "int i = threadIdx.x;\nif (i < 32) {\n  __syncthreads();\n  y[i] = x[i];\n} else {\n  __syncthreads();\n  y[i] = x[i] + 1;\n}",
        "barrier_divergence",
        ("line 4", "line 7"),
    ),
    Case(
        "barrier in an uneven loop",
        "int i = threadIdx.x;\nfor (int j = 0; j < 1 + (i < 8); ++j) __syncthreads();  // HERE\ny[i] = x[i];",
        "barrier_divergence",
    ),
    Case(
        "shuffle in a branch with the full mask",
        "int i = threadIdx.x;\nfloat v = x[i];\nif ((i & 31) < 16) v += __shfl_down_sync(0xffffffffu, v, 8);  // HERE\ny[i] = v;",
        "barrier_divergence",
    ),
    Case(
        "lanes that do not exist",
        "int i = threadIdx.x;\nfloat v = x[i];\nfor (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);  // HERE\ny[i] = v;",
        "uninitialized_read",
        ("exist",),
        shape=Shape(n=48, block=(48, 1, 1)),
    ),
    Case(
        "a caller outside its own mask",
        "int i = threadIdx.x;\ny[i] = __shfl_sync(0x0000ffffu, x[i], 0);  // HERE",
        "barrier_divergence",
        ("mask",),
        shape=Shape(n=32, block=(32, 1, 1)),
    ),
    Case("barrier in a uniform branch", "int i = threadIdx.x;\nif (n > 3) __syncthreads();\ny[i] = x[i];"),
    Case(
        "barrier in a uniform loop",
        "int i = threadIdx.x;\nfor (int j = 0; j < n; j += 16) __syncthreads();\ny[i] = x[i];",
    ),
    Case(
        "early return that nobody waits for",
        "__shared__ float s[64];\nint i = threadIdx.x;\nif (i >= n) return;\ns[i] = x[i];\n__syncthreads();\ny[i] = s[n - 1 - i];",
        warns="return",
        shape=Shape(n=40),
    ),
    Case(
        "shuffle among the lanes of a ballot",
        "int i = threadIdx.x;\nfloat v = x[i];\nunsigned m = __ballot_sync(0xffffffffu, i % 32 < 20);\nif (i % 32 < 20) v = __shfl_sync(m, v, 3);\ny[i] = v;",
    ),
    Case(
        "half a warp and its mask",
        "int i = threadIdx.x;\nfloat v = x[i];\nunsigned m = i < 32 ? 0xffffffffu : 0x0000ffffu;\nv += __shfl_xor_sync(m, v, 8);\ny[i] = v;",
        shape=Shape(n=48, block=(48, 1, 1)),
    ),
    Case(
        "a source outside the mask whose value nobody uses",
        "int i = threadIdx.x;\nfloat v = x[i];\nunsigned m = i < 32 ? 0xffffffffu : 0x0000ffffu;\n"
        "for (int d = 8; d > 0; d >>= 1) v += __shfl_down_sync(m, v, d);\ny[i] = i % 16 == 0 && i != 16 ? v : 0.0f;",
        shape=Shape(n=48, block=(48, 1, 1)),
    ),
    Case(
        "lanes that ask who is in their branch",
        "int i = threadIdx.x;\ny[i] = 0.0f;\nif (i % 3 == 0) {\n  unsigned m = __activemask();\n  y[i] = __popc(m);\n}",
    ),
    Case(
        "two branches, each with its own mask",
        "int i = threadIdx.x;\nfloat v = x[i];\nif ((i & 31) < 16) v = __shfl_xor_sync(0x0000ffffu, v, 1);\nelse v = __shfl_xor_sync(0xffff0000u, v, 2);\ny[i] = v;",
    ),
]

DEADLOCKS = [
    Case(
        "shuffle in one branch, barrier in the other",
        "int i = threadIdx.x;\nfloat v = x[i];\nif (i < 16) v = __shfl_sync(0xffffffffu, v, 0);\nelse __syncthreads();\ny[i] = v;",
        "deadlock",
        shape=Shape(n=32, block=(32, 1, 1)),
    ),
    Case(
        "grid barrier that one block skips",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\ny[i] = x[i];\nif (threadIdx.x < 32) cooperative_groups::this_grid().sync();\n"
        "else if (blockIdx.x == 0) __syncthreads();",
        "deadlock",
        before="#include <cooperative_groups.h>\n",
        shape=Shape(n=128, grid=(2, 1, 1), cooperative=True),
    ),
    Case(
        "warp barrier against block barrier",
        "int i = threadIdx.x;\nif (i == 5) __syncthreads();\nelse __syncwarp();\ny[i] = x[i];",
        "deadlock",
        shape=Shape(n=32, block=(32, 1, 1)),
    ),
    Case(
        "warps at different warp operations, then together",
        "int i = threadIdx.x;\nfloat v = x[i];\nif (i < 32) v = __shfl_xor_sync(0xffffffffu, v, 1);\nelse __syncwarp();\n__syncthreads();\ny[i] = v;",
    ),
    Case(
        "grid barrier that everybody meets",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\nw[i] = x[i];\ncooperative_groups::this_grid().sync();\ny[i] = w[n - 1 - i];",
        before="#include <cooperative_groups.h>\n",
        shape=Shape(n=128, grid=(2, 1, 1), cooperative=True),
    ),
    Case(
        "a lock that is given back",
        "int i = threadIdx.x;\nif (i % 32 == 0) {\n  while (atomicCAS(&lock, 0, 1) != 0) {}\n  __threadfence();\n  volatile float* p = w;\n"
        "  p[0] = i == 0 ? 1.0f : 2.0f;\n  __threadfence();\n  atomicExch(&lock, 0);\n}\ny[i] = x[i];",
        before="__device__ int lock = 0;\n",
    ),
]

MISALIGNED = [
    Case(
        "float4 from an odd element",
        "int i = threadIdx.x;\nfloat4 v = *reinterpret_cast<const float4*>(x + 1 + 4 * (i % 4));  // HERE\ny[i] = v.x;",
        "misaligned",
        ("16",),
    ),
    Case(
        "float2 store to an odd element",
        "int i = threadIdx.x;\nif (i < 16) *reinterpret_cast<float2*>(y + 2 * i + 1) = make_float2(x[i], x[i]);  // HERE",
        "misaligned",
        ("8",),
    ),
    Case(
        "double in an array of floats",
        "int i = threadIdx.x;\ny[i] = x[i];\nif (i == 0) *reinterpret_cast<double*>(w + 1) = 1.0;  // HERE",
        "misaligned",
        ("8",),
    ),
    Case(
        "float4 from rows of 63",
        "int i = threadIdx.x;\nif (i < 2) { float4 v = *reinterpret_cast<const float4*>(x + 63 * i); y[i] = v.x; }  // HERE",
        "misaligned",
        shape=Shape(n=128),
    ),
    Case(
        "aligned float4",
        "int i = threadIdx.x;\nif (i < 16) { float4 v = reinterpret_cast<const float4*>(x)[i]; reinterpret_cast<float4*>(y)[i] = v; }",
    ),
    Case(
        "float3 needs four bytes only",
        "int i = threadIdx.x;\nif (i < 21) { float3 v = reinterpret_cast<const float3*>(x + 1)[i]; reinterpret_cast<float3*>(y + 1)[i] = v; }\nif (i == 0) y[0] = x[0];",
    ),
    Case(
        "bytes at any address",
        "int i = threadIdx.x;\nconst unsigned char* p = reinterpret_cast<const unsigned char*>(x) + 1;\ny[i] = p[i];",
    ),
]

WRITES_TO_INPUTS = [
    Case(
        "input changed through a cast",
        "int i = threadIdx.x;\ny[i] = x[i];\nconst_cast<float*>(x)[i] = 0.0f;  // HERE",
        "input_modified",
        ("`x`",),
    ),
    Case(
        "input sorted in place",
        "int i = threadIdx.x;\nfloat* p = (float*)x;\nif (i < 32) { float a = p[2 * i]; p[2 * i] = p[2 * i + 1]; p[2 * i + 1] = a; }\n__syncthreads();\ny[i] = p[i];",
        "input_modified",
        ("`x`",),
    ),
    Case(
        "atomic on an input",
        "int i = threadIdx.x;\ny[i] = x[i];\natomicAdd((float*)x, 1.0f);  // HERE",
        "input_modified",
        ("`x`",),
    ),
    Case("a copy of the input", "int i = threadIdx.x;\nfloat v = x[i];\nv *= 2.0f;\ny[i] = v;"),
    Case(
        "the input through a pointer that may write",
        "float* p = (float*)x;\nint i = threadIdx.x;\ny[i] = p[i];",
    ),
    Case("scratch as a working copy", "int i = threadIdx.x;\nw[i] = x[i];\nw[i] *= 2.0f;\ny[i] = w[i];"),
]

ENDS = [
    Case("trap", "int i = threadIdx.x;\ny[i] = x[i];\nif (i == 9) __trap();  // HERE", "crash", ("trap",)),
    Case(
        "failed assertion",
        "int i = threadIdx.x;\ny[i] = x[i];\nassert(n < 3);  // HERE",
        "crash",
        ("assert",),
    ),
    Case(
        "endless recursion",
        "int i = threadIdx.x;\ny[i] = deep(x, i);",
        "crash",
        ("stack",),
        before="__device__ __noinline__ float deep(const float* x, int i) { volatile float a[64]; a[i & 63] = x[0]; return deep(x, i + 1) + a[i & 63]; }\n",
    ),
    Case(
        "endless loop",
        "int i = threadIdx.x;\nvolatile float* p = w;\nif (i == 0) p[0] = 1.0f;\nwhile (p[0] != 2.0f) {}\ny[i] = x[i];",
        "timeout",
        ("k did not end",),
        shape=Shape(n=1, block=(1, 1, 1)),
        deadline_s=1.5,
    ),
    Case(
        "five threads that wait for nobody",
        "int i = threadIdx.x;\nvolatile float* p = w;\np[i] = 1.0f;\nwhile (p[i] != 2.0f) {}\ny[i] = x[i];",
        "timeout",
        ("k did not end",),
        shape=Shape(n=5, block=(5, 1, 1)),
        deadline_s=2.0,
    ),
    Case("an assertion that holds", "int i = threadIdx.x;\nassert(n == 64);\ny[i] = x[i];"),
    Case(
        "recursion that ends",
        "int i = threadIdx.x;\ny[i] = deep(x, i, 20);",
        before="__device__ __noinline__ float deep(const float* x, int i, int n) { return n == 0 ? x[i] : deep(x, i, n - 1) + 1.0f; }\n",
    ),
    Case(
        "a long loop that ends",
        "int i = threadIdx.x;\nfloat a = x[i];\nfor (int j = 0; j < 100000; ++j) a = a * 0.5f + 1.0f;\ny[i] = a;",
    ),
]

ALL = [*OUT_OF_BOUNDS, *UNINITIALIZED, *RACES, *BARRIERS, *DEADLOCKS, *MISALIGNED, *WRITES_TO_INPUTS, *ENDS]
