"""The classes of fault that check mode knows, each with kernels that must be caught and look-alikes that must pass."""

from tests.integration.cpu import fault_cases as base
from tests.integration.cpu.programs import Case, Shape

_ONE_WARP = Shape(n=32, block=(32, 1, 1))
_GLOBALS = "__device__ float first[64];\n__device__ int second[64] = {5};\n__device__ float third[64];\n"
_PIPELINE = "#include <cuda_pipeline.h>\n"
_WMMA = "#include <mma.h>\n#include <cuda_fp16.h>\nusing namespace nvcuda;\n"
_TILE = "wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> f;\n"

SHARED = [
    Case(
        "static shared read before its start",
        "__shared__ float s[64];\nint i = threadIdx.x;\ns[i] = x[i];\n__syncthreads();\nfloat* p = s;\ny[i] = p[i - 1];  // HERE",
        "out_of_bounds",
    ),
    Case(
        "two arrays in dynamic shared, the second too long",
        "extern __shared__ float s[];\nfloat* a = s;\nfloat* b = s + 32;\nint i = threadIdx.x;\nif (i < 32) a[i] = x[i];\nb[i] = x[i];  // HERE\n"
        "__syncthreads();\ny[i] = b[i];",
        "out_of_bounds",
        ("shared",),
        shape=Shape(shared_bytes=64 * 4),
    ),
    Case(
        "two arrays in dynamic shared that fit",
        "extern __shared__ float s[];\nfloat* a = s;\nfloat* b = s + 32;\nint i = threadIdx.x;\nif (i < 32) a[i] = x[i];\nb[i] = x[i];\n"
        "__syncthreads();\ny[i] = b[i] + a[i % 32];",
        shape=Shape(shared_bytes=96 * 4),
    ),
    Case(
        "a shared array through a pointer, to its end",
        "__shared__ float s[64];\nfloat* p = s;\nint i = threadIdx.x;\np[63 - i] = x[i];\n__syncthreads();\ny[i] = p[i];",
    ),
]

ROWS = [
    Case(
        "row of a local matrix",
        "float m[4][4];\nfor (int r = 0; r < 4; ++r) for (int c = 0; c < 4; ++c) m[r][c] = x[r * 4 + c];\nint i = threadIdx.x;\n"
        "y[i] = m[i % 4][i % 5];  // HERE",
        "out_of_bounds",
        ("4",),
    ),
    Case(
        "column too many of a halo tile",
        "__shared__ float tile[10][10];\nint i = threadIdx.x, r = i / 8, c = i % 8;\nfor (int j = i; j < 100; j += 64) tile[j / 10][j % 10] = 0;\n__syncthreads();\ntile[r + 1][c + 1] = x[i];\n__syncthreads();\n"
        "y[i] = tile[r + 1][c + 3];  // HERE",
        "out_of_bounds",
        ("10",),
    ),
    Case(
        "every element of a local matrix",
        "float m[4][4];\nfor (int r = 0; r < 4; ++r) for (int c = 0; c < 4; ++c) m[r][c] = x[r * 4 + c];\nint i = threadIdx.x;\n"
        "y[i] = m[i % 4][i / 16];",
    ),
    Case(
        "a tile read as one row on purpose",
        "__shared__ float tile[8][8];\nint i = threadIdx.x;\ntile[i / 8][i % 8] = x[i];\n__syncthreads();\nconst float* all = &tile[0][0];\ny[i] = all[63 - i];",
    ),
]

LOCALS = [
    Case(
        "a histogram of too few bins",
        "int bins[10] = {};\nfor (int j = 0; j < n; ++j) bins[(int)x[j] % 11]++;  // HERE\ny[threadIdx.x] = bins[0];",
        "out_of_bounds",
        ("10",),
    ),
    Case(
        "a stack that grows too far",
        "int top = 0;\nint stack[16];\nfor (int j = 0; j < n; ++j) stack[top++] = j;  // HERE\ny[threadIdx.x] = stack[top - 1] + x[0];",
        "out_of_bounds",
        ("16",),
    ),
    Case(
        "a window that slides",
        "float ring[4] = {};\nfor (int j = 0; j < n; ++j) ring[j & 3] = x[j];\ny[threadIdx.x] = ring[threadIdx.x & 3];",
    ),
    Case(
        "a local array passed on",
        "float a[8];\nfor (int j = 0; j < 8; ++j) a[j] = x[j];\ny[threadIdx.x] = total(a, 8);",
        before="__device__ float total(const float* p, int n) { float s = 0; for (int j = 0; j < n; ++j) s += p[j]; return s; }\n",
    ),
]

_TOTAL = "__device__ float total(const float* p, int n) {\n  float s = 0;\n  for (int j = 0; j < n; ++j) s += p[j];  // HERE\n  return s;\n}\n"
_QUIET_TOTAL = _TOTAL.replace("  // HERE", "")
_FILLED = "float a[8];\nfor (int j = 0; j < 8; ++j) a[j] = x[j];\n"
_MATRIX = "float m[4][4];\nfor (int j = 0; j < 16; ++j) m[j / 4][j % 4] = x[j];\n"
LOCALS_THROUGH_POINTERS = [
    Case(
        "local array one past its end in a function",
        _FILLED + "y[threadIdx.x] = total(a, n / 8 + 1);",
        "out_of_bounds",
        ("`a`", "past the end"),
        before=_TOTAL,
    ),
    Case(
        "local array written one past its end through a pointer",
        "float a[8], b = x[0];\nfloat* p = a;\nfor (int j = 0; j <= n / 8; ++j) *p++ = x[j];  // HERE\ny[threadIdx.x] = a[3] + b;",
        "out_of_bounds",
        ("`a`", "past the end"),
    ),
    Case(
        "local array before its start",
        _FILLED + "const float* p = &a[threadIdx.x % 4];\ny[threadIdx.x] = p[-1];  // HERE",
        "out_of_bounds",
        ("`a`", "before the start"),
    ),
    Case(
        "last row of a local matrix, one too many",
        _MATRIX + "y[threadIdx.x] = total(m[3], 5);",
        "out_of_bounds",
        ("`m`", "past the end"),
        before=_TOTAL,
    ),
    Case(
        "fifth lane of a float4",
        "float4 v = ((const float4*)x)[threadIdx.x / 4];\nconst float* p = reinterpret_cast<const float*>(&v);\ny[threadIdx.x] = p[threadIdx.x % 5];  // HERE",
        "out_of_bounds",
        ("`v`", "past the end"),
    ),
    Case(
        "local array through a pointer, to its end",
        "float a[8], b = x[0];\nfloat* p = a;\nfor (int j = 0; j < 8; ++j) *p++ = x[j];\ny[threadIdx.x] = total(a, 8) + b;",
        before=_QUIET_TOTAL,
    ),
    Case(
        "a local matrix read as one row on purpose",
        _MATRIX + "y[threadIdx.x] = total(m[0], 16);",
        before=_QUIET_TOTAL,
    ),
    Case(
        "the lanes of a float4 through a pointer",
        "float4 v = ((const float4*)x)[threadIdx.x / 4];\nfloat* p = &v.x;\nfor (int j = 0; j < 4; ++j) p[j] *= 2.0f;\ny[threadIdx.x] = p[threadIdx.x % 4];",
    ),
    Case(
        "local arrays of a loop that is left early",
        "float s = 0;\nfor (int r = 0; r < 9; ++r) {\n  float a[4] = {1.0f, x[r], 0, 0};\n  if (r == 3) continue;\n  if (r == 7) break;\n"
        "  float b[8] = {};\n  s += total(a, 4) + total(b, 8);\n}\ny[threadIdx.x] = s;",
        before=_QUIET_TOTAL,
    ),
]

_RECORDS = "struct Packed { int n; float v[4]; };\nstruct Spread { float v[4]; int n; };\n"
MEMBERS = [
    Case(
        "array member, one past its end",
        "Spread s;\nfor (int j = 0; j < 4; ++j) s.v[j] = x[j];\ny[threadIdx.x] = s.v[n / 16];  // HERE",
        "out_of_bounds",
        ("index 4",),
        before=_RECORDS,
    ),
    Case(
        "last array member, one past its end",
        "__shared__ Packed s;\nif (threadIdx.x < 4) s.v[threadIdx.x] = x[0];\n__syncthreads();\ny[threadIdx.x] = s.v[n / 16];  // HERE",
        "out_of_bounds",
        ("index 4",),
        before=_RECORDS,
    ),
    Case(
        "array member passed on, read past the record's end",
        "Packed s;\nfor (int j = 0; j < 4; ++j) s.v[j] = x[j];\ny[threadIdx.x] = total(s.v, n / 16 + 1);",
        "out_of_bounds",
        ("`s`", "past the end"),
        before=_RECORDS + _TOTAL,
    ),
    Case(
        "array members to their ends",
        "Packed s;\nSpread t;\nfor (int j = 0; j < 4; ++j) s.v[j] = t.v[j] = x[j];\ny[threadIdx.x] = s.v[3] + t.v[threadIdx.x % 4];",
        before=_RECORDS,
    ),
    Case(
        "array member passed on, to its end",
        "Packed s;\nfor (int j = 0; j < 4; ++j) s.v[j] = x[j];\ny[threadIdx.x] = total(s.v, n / 16);",
        before=_RECORDS + _QUIET_TOTAL,
    ),
    Case(
        "records by value and by reference",
        "Packed s = made(x[0]);\nscale(s);\ny[threadIdx.x] = s.v[threadIdx.x % 4];",
        before=_RECORDS
        + "__device__ Packed made(float v) { return Packed{4, {v, v, v, v}}; }\n__device__ void scale(Packed& p) { for (int j = 0; j < p.n; ++j) p.v[j] *= 2; }\n",
    ),
]

DEVICE_VARIABLES = [
    Case(
        "device variable one past its end",
        "int i = threadIdx.x;\nfloat* p = first;\np[i + 1] = x[i];  // HERE\ny[i] = x[i];",
        "out_of_bounds",
        ("`first`", "past the end"),
        before=_GLOBALS,
    ),
    Case(
        "device variable before its start",
        "int i = threadIdx.x;\nconst int* p = second;\ny[i] = p[i - 2] + x[i];  // HERE",
        "out_of_bounds",
        ("`second`", "before the start"),
        before=_GLOBALS,
    ),
    Case(
        "static device variable one past its end",
        "int i = threadIdx.x;\ny[i] = x[i];\nfloat* p = mine;\nif (i == 0) p[n] = 1.0f;  // HERE",
        "out_of_bounds",
        ("`mine`", "past the end"),
        before="static __device__ float mine[64];\nstatic __device__ float other[64];\n",
    ),
    Case(
        "constant array one past its end",
        "int i = threadIdx.x;\nconst float* p = weights;\ny[i] = x[i] * p[i / 15];  // HERE",
        "out_of_bounds",
        ("`weights`",),
        before="__constant__ float weights[4] = {1, 2, 3, 4};\n",
    ),
    Case(
        "device variables to their ends",
        "int i = threadIdx.x;\nfloat* p = first;\np[63 - i] = x[i];\nthird[i] = second[63 - i];\n__syncthreads();\ny[i] = first[i] + third[i];",
        before=_GLOBALS,
    ),
    Case(
        "a struct among device variables",
        "int i = threadIdx.x;\nif (i == 0) { state.count = 3; state.sum[2] = 1.0f; }\n__syncthreads();\ny[i] = state.count + state.sum[2];",
        before="struct State { int count; float sum[3]; };\n__device__ char pad = 1;\n__device__ State state;\n",
    ),
    Case(
        "a table of constants",
        "int i = threadIdx.x;\nconst float* p = weights;\ny[i] = x[i] * p[i % 4] + offsets[i % 3];",
        before="__constant__ float weights[4] = {1, 2, 3, 4};\n__device__ const float offsets[3] = {1, 2, 3};\n",
    ),
]

POINTERS = [
    Case(
        "pointer of a struct never set",
        "Set s = {};\nint i = threadIdx.x;\ny[i] = x[i];\nif (i == 1) y[1] = s.data[i];  // HERE",
        "out_of_bounds",
        ("null",),
        before="struct Set { const float* data; };\n",
    ),
    Case(
        "pointers that are compared, never followed",
        "int i = threadIdx.x;\nconst float* p = n > 1000 ? x : nullptr;\ny[i] = p == nullptr ? x[i] : p[i];",
    ),
    Case(
        "a linked walk that ends at null",
        "int i = threadIdx.x;\nNode c = {3.0f, nullptr}, b = {2.0f, &c}, a = {x[i], &b};\nfloat s = 0;\nfor (const Node* p = &a; p; p = p->next) s += p->v;\ny[i] = s;",
        before="struct Node { float v; const Node* next; };\n",
    ),
    Case(
        "a table of pointers",
        "int i = threadIdx.x;\nconst float* rows[2] = {x, x + 32};\ny[i] = rows[i / 32][i % 32];",
    ),
]

WITHIN = [
    Case(
        "a guess that a swap confirms",
        "__shared__ int best;\nint i = threadIdx.x;\nif (i == 0) best = -1;\n__syncthreads();\nint seen = best, want = (int)x[i];\n"
        "while (seen < want) { int old = atomicCAS(&best, seen, want); if (old == seen) break; seen = old; }\n__syncthreads();\ny[i] = best;",
    ),
]

BETWEEN = [
    Case(
        "sums of floats as in the guide",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\nunsigned* at = (unsigned*)&total;\nunsigned old = *at, assumed;\n"
        "do { assumed = old; old = atomicCAS(at, assumed, __float_as_uint(1.0f + __uint_as_float(assumed))); } while (assumed != old);\ny[i] = x[i];",
        before="__device__ float total = 0;\n",
        shape=Shape(n=128, grid=(2, 1, 1)),
    ),
    Case(
        "blocks at their own ends of one buffer",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\nw[i] = x[i];\n__syncthreads();\ny[i] = w[blockIdx.x * blockDim.x + 63 - threadIdx.x];",
        shape=Shape(n=128, grid=(2, 1, 1)),
    ),
]

WARP = [
    Case(
        "a shuffle from a lane that has left",
        "int i = threadIdx.x;\ny[i] = x[i];\nif (i >= 16) return;\ny[i] = __shfl_sync(0xffffffffu, x[i], 20);  // HERE",
        "barrier_divergence",
        ("ended",),
        shape=_ONE_WARP,
    ),
    Case(
        "a vote among those that stay",
        "int i = threadIdx.x;\ny[i] = x[i];\nif (i >= 16) return;\ny[i] = __ballot_sync(0x0000ffffu, i & 1);",
        shape=_ONE_WARP,
    ),
]

MISALIGNED = [
    Case(
        "a tensor-core tile from an odd row",
        f"{_TILE}__shared__ __half s[600];\nfor (int j = threadIdx.x; j < 600; j += 32) s[j] = __float2half(1.0f);\n__syncwarp();\n"
        "wmma::load_matrix_sync(f, s + 4, 16);  // HERE\ny[threadIdx.x] = x[0] + __half2float(f.x[0]);",
        "misaligned",
        ("32 bytes",),
        before=_WMMA,
        shape=_ONE_WARP,
    ),
    Case(
        "a tensor-core tile of rows of 20",
        f"{_TILE}__shared__ __align__(32) __half s[600];\nfor (int j = threadIdx.x; j < 600; j += 32) s[j] = __float2half(1.0f);\n__syncwarp();\n"
        "wmma::load_matrix_sync(f, s, 20);  // HERE\ny[threadIdx.x] = x[0] + __half2float(f.x[0]);",
        "misaligned",
        ("16 bytes",),
        before=_WMMA,
        shape=_ONE_WARP,
    ),
    Case(
        "an asynchronous copy of 16 bytes from an odd element",
        "__shared__ __align__(16) float s[128];\nint i = threadIdx.x;\n__pipeline_memcpy_async(s + 4 * i, x + 1 + 4 * (i % 4), 16);  // HERE\n"
        "__pipeline_commit();\n__pipeline_wait_prior(0);\n__syncthreads();\ny[i] = s[i];",
        "misaligned",
        ("`x`",),
        before=_PIPELINE,
        shape=_ONE_WARP,
    ),
    Case(
        "cp.async of 16 bytes to an odd element",
        "__shared__ __align__(16) float s[132];\nint i = threadIdx.x;\nunsigned at = (unsigned)__cvta_generic_to_shared(s + 1 + 4 * i);\n"
        'asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(at), "l"(x + 4 * (i % 8)));  // HERE\n'
        'asm volatile("cp.async.wait_all;");\n__syncthreads();\ny[i] = s[i + 1];',
        "misaligned",
        shape=_ONE_WARP,
    ),
    Case(
        "aligned asynchronous copies",
        "__shared__ __align__(16) float s[128];\nint i = threadIdx.x;\n__pipeline_memcpy_async(s + 4 * i, x + 4 * (i % 8), 16);\n"
        "__pipeline_commit();\n__pipeline_wait_prior(0);\n__syncthreads();\ny[i] = s[4 * i % 128];",
        before=_PIPELINE,
        shape=_ONE_WARP,
    ),
    Case(
        "an aligned tensor-core tile of padded rows",
        f"{_TILE}__shared__ __align__(32) __half s[600];\nfor (int j = threadIdx.x; j < 600; j += 32) s[j] = __float2half(1.0f);\n__syncwarp();\n"
        "wmma::load_matrix_sync(f, s, 24);\ny[threadIdx.x] = x[0] + __half2float(f.x[0]);",
        before=_WMMA,
        shape=_ONE_WARP,
    ),
]


COPIES = [
    Case(
        "an asynchronous copy read before it is waited for",
        "__shared__ __align__(16) float s[32];\nint i = threadIdx.x;\n__pipeline_memcpy_async(s + i, x + i, 4);\n"
        "__pipeline_commit();\ny[i] = s[i];  // HERE",
        "uninitialized_read",
        before=_PIPELINE,
        shape=_ONE_WARP,
    ),
    Case(
        "an asynchronous copy that no batch holds is waited for",
        "__shared__ __align__(16) float s[32];\nint i = threadIdx.x;\n__pipeline_memcpy_async(s + i, x + i, 4);\n"
        "__pipeline_wait_prior(0);\ny[i] = s[i];  // HERE",
        "uninitialized_read",
        before=_PIPELINE,
        shape=_ONE_WARP,
    ),
    Case(
        "cp.async with a wait that leaves its group open",
        "__shared__ __align__(16) float s[32];\nint i = threadIdx.x;\nunsigned at = (unsigned)__cvta_generic_to_shared(s + i);\n"
        'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(x + i));\n'
        'asm volatile("cp.async.commit_group;");\nasm volatile("cp.async.wait_group 1;");\ny[i] = s[i];  // HERE',
        "uninitialized_read",
        shape=_ONE_WARP,
    ),
    Case(
        "the older of two batches, the newer one in flight",
        "__shared__ __align__(16) float s[64];\nint i = threadIdx.x;\n__pipeline_memcpy_async(s + i, x + i, 4);\n"
        "__pipeline_commit();\n__pipeline_memcpy_async(s + 32 + i, x + i, 4);\n__pipeline_commit();\n"
        "__pipeline_wait_prior(1);\ny[i] = s[i];\n__pipeline_wait_prior(0);\ny[i] += s[32 + i];",
        before=_PIPELINE,
        shape=_ONE_WARP,
    ),
]


def _named(cases: list[Case], *words: str) -> list[Case]:
    return [c for c in cases if any(w in c.name for w in words)]


_INDEX_FAULTS = ("dynamic shared", "static shared", "row of", "local array", "null", "wild", "padded")
_BETWEEN = ("between blocks", "last block", "another block's")
_WARP_WORDS = ("shuffle", "lanes", "mask", "caller")
CLASSES: dict[str, list[Case]] = {
    "out_of_bounds of a buffer": [c for c in base.OUT_OF_BOUNDS if not _named([c], *_INDEX_FAULTS)],
    "out_of_bounds of shared memory": [
        *_named(base.OUT_OF_BOUNDS, "dynamic shared", "static shared"),
        *SHARED,
    ],
    "out_of_bounds of a row": [*_named(base.OUT_OF_BOUNDS, "row of", "padded"), *ROWS],
    "out_of_bounds of a local array": [*_named(base.OUT_OF_BOUNDS, "local array"), *LOCALS, ROWS[2]],
    "out_of_bounds of a local variable through a pointer": LOCALS_THROUGH_POINTERS,
    "out_of_bounds of an array in a record": MEMBERS,
    "out_of_bounds of a device variable": DEVICE_VARIABLES,
    "null and wild pointers": [*_named(base.OUT_OF_BOUNDS, "null", "wild"), *POINTERS],
    "uninitialized_read": base.UNINITIALIZED + COPIES,
    "data_race within a block": [*(c for c in base.RACES if not _named([c], *_BETWEEN)), *WITHIN],
    "data_race between blocks": [*_named(base.RACES, *_BETWEEN), *BETWEEN],
    "barrier_divergence": [c for c in base.BARRIERS if not _named([c], *_WARP_WORDS)],
    "warp operations with lanes missing": [*_named(base.BARRIERS, *_WARP_WORDS), *WARP],
    "deadlock": base.DEADLOCKS,
    "misaligned": [*base.MISALIGNED, *MISALIGNED],
    "writes to inputs": base.WRITES_TO_INPUTS,
    "ends of the process": base.ENDS,
}
"""What the table of classes in the documentation and the counting test go by."""

ALL = list({c.name: c for cases in CLASSES.values() for c in cases}.values())
