"""Contractions of two arrays: tiles of both in shared memory, a small tile of the output in each thread's registers."""

from dataclasses import dataclass

from cuda_harness.agents.llm.offline.lowering.emit import Emitter, KernelText, product, unflatten
from cuda_harness.agents.llm.offline.lowering.plan import Building, indent
from cuda_harness.agents.llm.offline.lowering.primitives import Primitive
from cuda_harness.tools.formula.nodes import Access, Binary, Name, Node, Reduce, free_variables


@dataclass(frozen=True)
class Contraction:
    """`sum_k left * right` with the index variables sorted by where they occur."""

    left: Node
    right: Node
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    cols: tuple[str, ...]
    inner: tuple[str, ...]


def contraction_of(primitive: Primitive) -> Contraction | None:
    """Return the matrix product in a primitive, `None` when it is not one."""
    node = primitive.reduction
    if node is None or node.kind != "sum" or node.bound is not None:
        return None
    body = node.body
    if not (isinstance(body, Binary) and body.op == "*"):
        return None
    if not (isinstance(body.left, Access) and isinstance(body.right, Access)):
        return None
    variables = primitive.bound.variables
    sides = [free_variables(side, variables) for side in (body.left, body.right)]
    inner = set(node.variables)
    if not all(inner <= side for side in sides):
        return None
    own = primitive.outer
    rows = tuple(v for v in own if v in sides[0] and v not in sides[1])
    cols = tuple(v for v in own if v in sides[1] and v not in sides[0])
    batch = tuple(v for v in own if v in sides[0] and v in sides[1])
    if not rows or not cols or len(rows) + len(cols) + len(batch) != len(own):
        return None
    left, right = body.left, body.right
    if own.index(rows[-1]) > own.index(
        cols[-1]
    ):  # the output's fastest axis runs along the columns of the tile
        left, right, rows, cols = right, left, cols, rows
    return Contraction(left, right, batch, rows, cols, node.variables)


@dataclass(frozen=True)
class Opened:
    """A product's kernel with its sizes and index variables declared."""

    node: Reduce
    text: KernelText
    emitter: Emitter
    index: dict[str, str]
    extents: tuple[str, str, str]
    """Rows, columns and batch as expressions over dims."""
    sizes: tuple[str, str, str]
    """Rows, columns and inner as the kernel's parameters."""


def open_product(building: Building, primitive: Primitive, found: Contraction, name: str) -> Opened:
    """Begin the kernel of a product, however it is tiled."""
    node = primitive.reduction
    assert node is not None  # noqa: S101 - the caller asked
    building.keep(primitive.target)
    text = building.kernel(f"{name}_{primitive.target}")
    extents = primitive.bound.extents
    m, n, k, b = (
        product([extents[v] for v in names]) for names in (found.rows, found.cols, found.inner, found.batch)
    )
    sizes = text.size(m), text.size(n), text.size(k)
    index = {v: text.reserve(v) for v in extents}
    emitter = Emitter(text, primitive.bound, index, primitive.dtype)
    return Opened(node, text, emitter, index, (m, n, b), sizes)


def lower_matmul(building: Building, primitive: Primitive, found: Contraction) -> None:
    """Add a tiled product: TILE x TILE of the output a block, 4 x 4 a thread, inner steps of 16."""
    opened = open_product(building, primitive, found, "product")
    text, emitter, index, (m, n, b) = opened.text, opened.emitter, opened.index, opened.extents
    size_m, size_n, size_k = opened.sizes
    extents = primitive.bound.extents
    real = emitter.real
    batch = unflatten(text, found.batch, extents, "batch", index) if found.batch else []
    tiles_m, tiles_n = text.size(f"cdiv({m}, TILE)"), text.size(f"cdiv({n}, TILE)")
    load_left = _load(text, emitter, found.left, "left", found.rows, found.inner, size_m, size_k, real)
    load_right = _load(text, emitter, found.right, "right", found.cols, found.inner, size_n, size_k, real)
    emitter.replaced[opened.node] = "acc[mm][nn]"
    rows = unflatten(text, found.rows, extents, "at_m", index)
    cols = unflatten(text, found.cols, extents, "at_n", index)
    store = emitter.store(emitter.value(primitive.bound.statement.value))
    head = [f"const int64_t tile = blockIdx.x % ({tiles_m} * {tiles_n});",
            *([f"const int64_t batch = blockIdx.x / ({tiles_m} * {tiles_n});"] if found.batch else []), *batch,
            f"const int64_t first_m = tile / {tiles_n} * TILE, first_n = tile % {tiles_n} * TILE;"]  # fmt: skip
    building.add(text, f"""{text.signature()} {{
  constexpr int SIDE = TILE / 4, THREADS = SIDE * SIDE;  // threads along one side, each with 4 x 4 outputs SIDE apart
  __shared__ {real} left[16][TILE + 1], right[16][TILE + 1];
{indent(head, 1)}
  const int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  {real} acc[4][4] = {{}};
  for (int64_t first_k = 0; first_k < {size_k}; first_k += 16) {{
{indent([*load_left, *load_right], 2)}
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 16; ++kk) {{
      {real} side_m[4], side_n[4];
#pragma unroll
      for (int mm = 0; mm < 4; ++mm) {{
        side_m[mm] = left[kk][ty + mm * SIDE];
        side_n[mm] = right[kk][tx + mm * SIDE];
      }}
#pragma unroll
      for (int mm = 0; mm < 4; ++mm) {{
#pragma unroll
        for (int nn = 0; nn < 4; ++nn) acc[mm][nn] += side_m[mm] * side_n[nn];
      }}
    }}
    __syncthreads();
  }}
#pragma unroll
  for (int mm = 0; mm < 4; ++mm) {{
#pragma unroll
    for (int nn = 0; nn < 4; ++nn) {{
      const int64_t at_m = first_m + ty + mm * SIDE, at_n = first_n + tx + nn * SIDE;
      if (at_m < {size_m} && at_n < {size_n}) {{
{indent([*rows, *cols, store], 4)}
      }}
    }}
  }}
}}""")  # fmt: skip
    building.tune("TILE", [64, 32])
    grid = f"cdiv({m}, TILE)*cdiv({n}, TILE)" + (f"*({b})" if b != "1" else "")
    building.launch(text, grid=grid, block=["(TILE // 4) * (TILE // 4)"])
    building.notes.append("matrix product by TILE x TILE tiles in shared memory, 4 x 4 outputs a thread")


def _load(
    text: KernelText, emitter: Emitter, source: Node, tile: str, along: tuple[str, ...], inner: tuple[str, ...], size: str, depth: str,
    real: str,
) -> list[str]:  # fmt: skip
    """Return the loop that brings one tile to shared memory, neighbouring threads along its fastest axis."""
    assert isinstance(source, Access)  # noqa: S101 - the caller asked
    last = source.indices[-1]
    inner_fastest = isinstance(last, Name) and last.name in inner
    side, step = text.reserve(f"{tile}_at"), text.reserve(f"{tile}_k")
    split = f"place / 16, {step} = place % 16" if inner_fastest else f"place % TILE, {step} = place / TILE"
    lines = ["for (int place = threadIdx.x; place < 16 * TILE; place += THREADS) {",
             f"  const int {side} = {split};",
             f"  {real} value = 0;",
             f"  if (first_{'m' if tile == 'left' else 'n'} + {side} < {size} && first_k + {step} < {depth}) {{"]  # fmt: skip
    names = emitter.index
    first = f"first_{'m' if tile == 'left' else 'n'} + {side}"
    lines += ["    " + line for line in unflatten(text, along, emitter.bound.extents, f"({first})", names)]
    lines += [
        "    " + line for line in unflatten(text, inner, emitter.bound.extents, f"(first_k + {step})", names)
    ]
    lines += [f"    value = {emitter.value(source)};", "  }", f"  {tile}[{step}][{side}] = value;", "}"]
    return lines
