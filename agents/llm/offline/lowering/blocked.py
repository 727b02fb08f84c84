"""Matrix products for compute: register blocks of 8 x 8 or 4 x 4, wide loads, the next tile fetched while this one is used."""

from dataclasses import dataclass

from cuda_harness.agents.llm.offline.lowering.emit import Emitter, KernelText, unflatten
from cuda_harness.agents.llm.offline.lowering.matmul import Contraction, open_product
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.state.names import C_TYPES
from cuda_harness.tools.formula.nodes import Access, Name, Node

BLOCKED_IDEAS = (
    "register_blocking", "double_buffering", "shared_tiling", "vector_loads", "instruction_parallelism",
    "bank_conflict_padding", "coalescing",
)  # fmt: skip
_ENOUGH_TILES = 132
"""Blocks that give every multiprocessor of a large device one tile."""


@dataclass(frozen=True)
class Side:
    """One operand of the product."""

    name: str
    source: Access
    along: tuple[str, ...]
    inner: tuple[str, ...]
    first: str
    """C text of the tile's first row or column."""
    size: str
    depth: str

    @property
    def inner_fastest(self) -> bool:
        """Whether neighbouring elements in memory are neighbours along the inner axis."""
        last = self.source.indices[-1]
        return isinstance(last, Name) and last.name in self.inner


def lower_blocked(building: Building, primitive: Primitive, found: Contraction) -> None:
    """Add a product with TILE x TILE outputs a block of 256 threads, TILE / 16 squared outputs a thread, 16 inner steps a tile.

    Two tiles of each operand are in shared memory; an operand whose rows are whole packs of 4 is read in packs.
    """
    opened = open_product(building, primitive, found, "blocked")
    text, emitter, index, (m, n, b) = opened.text, opened.emitter, opened.index, opened.extents
    size_m, size_n, size_k = opened.sizes
    extents = primitive.bound.extents
    batch = unflatten(text, found.batch, extents, "batch", index) if found.batch else []
    left = Side("left", operand(found.left), found.rows, found.inner, "first_m", size_m, size_k)
    right = Side("right", operand(found.right), found.cols, found.inner, "first_n", size_n, size_k)
    bring = [*fetch(building, text, emitter, left), *fetch(building, text, emitter, right)]
    put = [*_put(left), *_put(right)]
    kinds = {s.name: C_TYPES[text.types.get(s.source.name) or building.problem.arrays[s.source.name].dtype] for s in (left, right)}  # fmt: skip
    emitter.replaced[opened.node] = "acc[mm][nn]"
    rows = unflatten(text, found.rows, extents, "at_m", index)
    cols = unflatten(text, found.cols, extents, "at_n", index)
    store = emitter.store(emitter.value(primitive.bound.statement.value))
    real = emitter.real
    convert = {s.name: _converted(emitter, s) for s in (left, right)}
    put = [p.replace("@left", convert["left"]).replace("@right", convert["right"]) for p in put]
    text.helpers["Few"] = "template <typename T, int N> struct alignas(sizeof(T) * N) Few { T v[N]; };"
    head = [f"const unsigned tiles_m = ({size_m} + TILE - 1) / TILE, tiles_n = ({size_n} + TILE - 1) / TILE;",
            "const unsigned tile = blockIdx.x % (tiles_m * tiles_n);" if found.batch else "const unsigned tile = blockIdx.x;",
            *(["const int64_t batch = blockIdx.x / (tiles_m * tiles_n);"] if found.batch else []), *batch,
            "const int64_t first_m = (int64_t)(tile / tiles_n) * TILE, first_n = (int64_t)(tile % tiles_n) * TILE;"]  # fmt: skip
    building.add(text, f"""{text.signature(bounds="256")} {{
  constexpr int STEP = 16, PER = TILE / 16, APART = TILE / (PER / 4);  // outputs a thread on a side, in groups of 4
  constexpr int LEFT = LEFT_WIDE ? 4 : 1, RIGHT = RIGHT_WIDE ? 4 : 1;
  __shared__ alignas(32) {real} left[2][STEP][TILE + 4], right[2][STEP][TILE + 4];
{indent(head, 1)}
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  Few<{kinds["left"]}, LEFT> left_next[TILE * STEP / (256 * LEFT)];
  Few<{kinds["right"]}, RIGHT> right_next[TILE * STEP / (256 * RIGHT)];
  {real} acc[PER][PER] = {{}};
  int now = 0;
  for (int64_t first_k = 0; first_k < {size_k} + STEP; first_k += STEP) {{
    if (first_k < {size_k}) {{
{indent(bring, 3)}
    }}
    if (first_k > 0) {{
#pragma unroll
      for (int kk = 0; kk < STEP; ++kk) {{
        {real} side_m[PER], side_n[PER];
#pragma unroll
        for (int g = 0; g < PER / 4; ++g) {{
          const Few<{real}, 4> four_m = *reinterpret_cast<const Few<{real}, 4>*>(&left[now][kk][g * APART + ty * 4]);
          const Few<{real}, 4> four_n = *reinterpret_cast<const Few<{real}, 4>*>(&right[now][kk][g * APART + tx * 4]);
#pragma unroll
          for (int e = 0; e < 4; ++e) {{
            side_m[g * 4 + e] = four_m.v[e];
            side_n[g * 4 + e] = four_n.v[e];
          }}
        }}
#pragma unroll
        for (int mm = 0; mm < PER; ++mm) {{
#pragma unroll
          for (int nn = 0; nn < PER; ++nn) acc[mm][nn] += side_m[mm] * side_n[nn];
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
  for (int mm = 0; mm < PER; ++mm) {{
#pragma unroll
    for (int nn = 0; nn < PER; ++nn) {{
      const int64_t at_m = first_m + mm / 4 * APART + ty * 4 + mm % 4, at_n = first_n + nn / 4 * APART + tx * 4 + nn % 4;
      if (at_m < {size_m} && at_n < {size_n}) {{
{indent([*rows, *cols, store], 4)}
      }}
    }}
  }}
}}""")  # fmt: skip
    many = building.at_target(f"cdiv({m}, 128)*cdiv({n}, 128)*({b})") >= _ENOUGH_TILES
    wide_type = primitive.dtype == "float32"  # two tiles of 128 doubles are more than a block may have
    building.tune("TILE", ([128, 64] if many else [64, 128]) if wide_type else [64])
    grid = f"cdiv({m}, TILE)*cdiv({n}, TILE)" + (f"*({b})" if b != "1" else "")
    building.launch(text, grid=grid, block=[256])
    building.notes.append(
        "register blocks of TILE / 16 squared outputs, two tiles in shared memory, wide loads"
    )


def operand(node: Node) -> Access:
    """Return an operand of a contraction as the access that it is."""
    assert isinstance(node, Access)  # noqa: S101 - a contraction is made of two
    return node


def _converted(emitter: Emitter, side: Side) -> str:
    """Return the C text of element e of pack l as computed."""
    loaded = {side.source.name: f"{side.name}_next[l].v[e]"}
    return Emitter(emitter.text, emitter.bound, emitter.index, emitter.dtype, loaded=loaded).value(
        side.source
    )


def split(side: Side) -> str:
    """Return the line that says which row and inner step a place of the tile is, its fastest axis first."""
    upper = side.name.upper()
    if side.inner_fastest:
        return f"const int at = place / (STEP / {upper}), step = place % (STEP / {upper}) * {upper};"
    return f"const int at = place % (TILE / {upper}) * {upper}, step = place / (TILE / {upper});"


def fetch(building: Building, text: KernelText, emitter: Emitter, side: Side, *, width: int = 4) -> list[str]:
    """Return the loop that brings a tile from global memory to registers, zeros where the operand ends.

    The macro NAME_WIDE says whether rows are whole packs of `width`.
    """
    upper = side.name.upper()
    last = side.source.indices[-1]
    fastest = (side.inner if side.inner_fastest else side.along)[-1]
    packed = isinstance(last, Name) and last.name == fastest
    extent = emitter.bound.extents[fastest]
    wide = f"1 if ({extent}) % {width} == 0 else 0" if packed else "0"
    text.macros[f"{upper}_WIDE"] = building.define(f"{upper}_WIDE", wide)
    pointer = text.pointer(side.source.name, written=False)
    kind = C_TYPES[text.types.get(side.source.name) or building.problem.arrays[side.source.name].dtype]
    names = emitter.index
    lines = [
        "#pragma unroll", f"for (int l = 0; l < TILE * STEP / (256 * {upper}); ++l) {{",
        "  const int place = threadIdx.x + l * 256;", f"  {split(side)}", f"  {side.name}_next[l] = {{}};",
        f"  if ({side.first} + at < {side.size} && first_k + step < {side.depth}) {{",
        *("    " + x for x in unflatten(text, side.along, emitter.bound.extents, f"({side.first} + at)", names)),
        *("    " + x for x in unflatten(text, side.inner, emitter.bound.extents, "(first_k + step)", names)),
    ]  # fmt: skip
    return [
        *lines,
        f"    {side.name}_next[l] = *reinterpret_cast<const Few<{kind}, {upper}>*>(&{pointer}[{emitter.address(side.source)}]);",
        "  }", "}",
    ]  # fmt: skip


def _put(side: Side) -> list[str]:
    """Return the loop that puts the fetched tile into shared memory."""
    upper = side.name.upper()
    place = "[now][step + e][at]" if side.inner_fastest else "[now][step][at + e]"
    return [
        "#pragma unroll", f"for (int l = 0; l < TILE * STEP / (256 * {upper}); ++l) {{",
        "  const int place = threadIdx.x + l * 256;", f"  {split(side)}", "#pragma unroll",
        f"  for (int e = 0; e < {upper}; ++e) {side.name}{place} = @{side.name};", "}",
    ]  # fmt: skip
