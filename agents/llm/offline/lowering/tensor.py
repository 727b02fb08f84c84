"""Products of half-precision matrices by tensor cores: warp-wide 16 x 16 x 16 products with float accumulators."""

from cuda_harness.agents.llm.offline.lowering.blocked import Side, fetch, operand, split
from cuda_harness.agents.llm.offline.lowering.emit import unflatten
from cuda_harness.agents.llm.offline.lowering.matmul import Contraction, open_product
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.state.names import C_TYPES

TENSOR_IDEAS = ("tensor_cores",)


def suits_tensor(building: Building, primitive: Primitive, found: Contraction) -> bool:
    """Return whether both operands are of one half-precision type: their products are exact in float."""
    arrays = building.problem.arrays
    kinds = {
        building.scratch.get(operand(x).name, (arrays[operand(x).name].dtype, []))[0]
        for x in (found.left, found.right)
    }
    return primitive.dtype == "float32" and kinds in ({"float16"}, {"bfloat16"})


def lower_tensor(building: Building, primitive: Primitive, found: Contraction) -> None:
    """Add a product with TILE x TILE outputs a block of 8 warps, each with TILE / 4 x TILE / 2, 32 inner steps a tile.

    Tiles stay in the order that their operand has in memory, so that whole packs of 8 go in and out of shared memory.
    """
    opened = open_product(building, primitive, found, "tensor")
    text, emitter, index, (m, n, b) = opened.text, opened.emitter, opened.index, opened.extents
    size_m, size_n, size_k = opened.sizes
    extents = primitive.bound.extents
    batch = unflatten(text, found.batch, extents, "batch", index) if found.batch else []
    left = Side("left", operand(found.left), found.rows, found.inner, "first_m", size_m, size_k)
    right = Side("right", operand(found.right), found.cols, found.inner, "first_n", size_n, size_k)
    bring = [*fetch(building, text, emitter, left, width=8), *fetch(building, text, emitter, right, width=8)]
    kind = C_TYPES[building.problem.arrays[left.source.name].dtype]
    put = [*_put(left, kind), *_put(right, kind)]
    emitter.replaced[opened.node] = "patch[warp][row][col]"
    rows = unflatten(text, found.rows, extents, "at_m", index)
    cols = unflatten(text, found.cols, extents, "at_n", index)
    store = emitter.store(emitter.value(primitive.bound.statement.value))
    layout_m = "row_major" if left.inner_fastest else "col_major"
    layout_n = "col_major" if right.inner_fastest else "row_major"
    from_m = (
        "&left[now][(at_m + f * 16) * PITCH_M + kk]"
        if left.inner_fastest
        else "&left[now][kk * PITCH_M + at_m + f * 16]"
    )
    from_n = (
        "&right[now][(at_n + f * 16) * PITCH_N + kk]"
        if right.inner_fastest
        else "&right[now][kk * PITCH_N + at_n + f * 16]"
    )
    pitch = {True: "STEP + 8", False: "TILE + 8"}
    lines = {True: "TILE", False: "STEP"}
    text.helpers["Few"] = "template <typename T, int N> struct alignas(sizeof(T) * N) Few { T v[N]; };"
    head = [f"const unsigned tiles_m = ({size_m} + TILE - 1) / TILE, tiles_n = ({size_n} + TILE - 1) / TILE;",
            "const unsigned tile = blockIdx.x % (tiles_m * tiles_n);" if found.batch else "const unsigned tile = blockIdx.x;",
            *(["const int64_t batch = blockIdx.x / (tiles_m * tiles_n);"] if found.batch else []), *batch,
            "const int64_t first_m = (int64_t)(tile / tiles_n) * TILE, first_n = (int64_t)(tile % tiles_n) * TILE;"]  # fmt: skip
    building.add(text, f"""{text.signature(bounds="256")} {{
  constexpr int STEP = 32, PITCH_M = {pitch[left.inner_fastest]}, PITCH_N = {pitch[right.inner_fastest]};
  constexpr int LEFT = LEFT_WIDE ? 8 : 1, RIGHT = RIGHT_WIDE ? 8 : 1, FM = TILE / 64, FN = TILE / 32;
  __shared__ alignas(32) {kind} left[2][{lines[left.inner_fastest]} * PITCH_M], right[2][{lines[right.inner_fastest]} * PITCH_N];
  __shared__ alignas(32) float patch[8][16][16];
{indent(head, 1)}
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warp_m = warp / 2 * (TILE / 4), warp_n = warp % 2 * (TILE / 2);
  Few<{kind}, LEFT> left_next[TILE * STEP / (256 * LEFT)];
  Few<{kind}, RIGHT> right_next[TILE * STEP / (256 * RIGHT)];
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc[FM][FN];
#pragma unroll
  for (int f = 0; f < FM; ++f) {{
#pragma unroll
    for (int g = 0; g < FN; ++g) nvcuda::wmma::fill_fragment(acc[f][g], 0.0f);
  }}
  int now = 0;
  for (int64_t first_k = 0; first_k < {size_k} + STEP; first_k += STEP) {{
    if (first_k < {size_k}) {{
{indent(bring, 3)}
    }}
    if (first_k > 0) {{
      const int at_m = warp_m, at_n = warp_n;
#pragma unroll
      for (int kk = 0; kk < STEP; kk += 16) {{
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, {kind}, nvcuda::wmma::{layout_m}> side_m[FM];
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, {kind}, nvcuda::wmma::{layout_n}> side_n[FN];
#pragma unroll
        for (int f = 0; f < FM; ++f) nvcuda::wmma::load_matrix_sync(side_m[f], {from_m}, PITCH_M);
#pragma unroll
        for (int f = 0; f < FN; ++f) nvcuda::wmma::load_matrix_sync(side_n[f], {from_n}, PITCH_N);
#pragma unroll
        for (int f = 0; f < FM; ++f) {{
#pragma unroll
          for (int g = 0; g < FN; ++g) nvcuda::wmma::mma_sync(acc[f][g], side_m[f], side_n[g], acc[f][g]);
        }}
      }}
    }}
    if (first_k < {size_k}) {{
      now ^= 1;
{indent(put, 3)}
      __syncthreads();  // one barrier a tile: the other buffer is not read before the next one
    }}
  }}
#pragma unroll
  for (int f = 0; f < FM; ++f) {{
#pragma unroll
    for (int g = 0; g < FN; ++g) {{
      nvcuda::wmma::store_matrix_sync(&patch[warp][0][0], acc[f][g], 16, nvcuda::wmma::mem_row_major);
      __syncwarp();
      for (int place = lane; place < 256; place += 32) {{
        const int row = place / 16, col = place % 16;
        const int64_t at_m = first_m + warp_m + f * 16 + row, at_n = first_n + warp_n + g * 16 + col;
        if (at_m < {size_m} && at_n < {size_n}) {{
{indent([*rows, *cols, store], 5)}
        }}
      }}
      __syncwarp();
    }}
  }}
}}""")  # fmt: skip
    building.tune(
        "TILE", [128, 64] if building.at_target(f"cdiv({m}, 128)*cdiv({n}, 128)*({b})") >= 132 else [64, 128]
    )
    grid = f"cdiv({m}, TILE)*cdiv({n}, TILE)" + (f"*({b})" if b != "1" else "")
    building.launch(text, grid=grid, block=[256])
    building.notes.append("tensor cores: 16 x 16 x 16 products of warps with float accumulators")


def _put(side: Side, kind: str) -> list[str]:
    """Return the loop that puts the fetched tile into shared memory, in packs."""
    upper = side.name.upper()
    pitch = "PITCH_M" if side.name == "left" else "PITCH_N"
    place = f"at * {pitch} + step" if side.inner_fastest else f"step * {pitch} + at"
    return [
        "#pragma unroll", f"for (int l = 0; l < TILE * STEP / (256 * {upper}); ++l) {{",
        "  const int place = threadIdx.x + l * 256;", f"  {split(side)}",
        f"  *reinterpret_cast<Few<{kind}, {upper}>*>(&{side.name}[now][{place}]) = {side.name}_next[l];", "}",
    ]  # fmt: skip
