"""Products of matrices, and what only moves or accumulates data: transposes, copies, fills, gathers, scans."""

from typing import TYPE_CHECKING

from cuda_harness.agents.llm.offline.planning.matrices import build_product
from cuda_harness.agents.llm.offline.planning.recipe import Recipe, number
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.stages import Stage
from cuda_harness.tools.formula.nodes import (
    Access,
    Binary,
    Name,
    Negate,
    Node,
    Num,
    Reduce,
    Reducer,
    substitute,
)

if TYPE_CHECKING:
    from cuda_harness.agents.llm.offline.planning.build import Builder


def product(build: "Builder", stage: Stage) -> None:
    """A product of matrices or vectors."""
    if build.started:
        msg = f"{stage.text!r} is done first of all operations"
        raise Refusal(msg)
    build_product(
        build.recipe,
        build.shaper,
        stage,
        transposed=build.transposed,
        bias="no_bias" not in build.details.flags,
    )
    build.started = True
    value = build.recipe.value
    inner = value.variables if isinstance(value, Reduce) else ()
    shapes = {
        n: d
        for t in build.recipe.tensors
        for n, d in zip(_variables(build.recipe, t["name"]), t["shape"], strict=False)
    }
    if isinstance(value, Binary) and isinstance(value.left, Reduce):
        inner = value.left.variables
    if inner:
        build.compare = {"mode": "close", "reduction_length": "*".join(shapes.get(v, v) for v in inner)}
        if stage.name == "dot":
            build.compare["reduction_length"] = "*".join(d for v, d in build.shaper.common() if v in inner)
            if build.recipe.dtype == "float16":
                build.dtype = "float32"
                build.recipe.assume(
                    "dtype of the product", "float32", "a sum of many float16 products soon passes 65504"
                )
    if build.recipe.is_integer and inner and build.recipe.dtype not in {"int64", "uint64"}:
        build.dtype = "int32" if build.recipe.dtype != "int32" else "int64"
        build.recipe.assume(
            "dtype of the result", build.dtype, "sums of products of integers need a wider type"
        )
    build.output, build.op = (
        ("c" if stage.name in {"matmul", "batched", "outer"} else "y"),
        ("matvec" if len(build.recipe.axes) == 1 else "matmul") if inner else "outer",
    )


def transpose(build: "Builder", stage: Stage) -> None:
    """The last two axes exchanged."""
    build.start(least_rank=2)
    recipe = build.recipe
    if len(recipe.axes) < 2:
        msg = "one axis cannot be transposed"
        raise Refusal(msg)
    if len(recipe.axes) > 2:
        recipe.assume("axes", "the last two are exchanged", f"{stage.text!r} of {len(recipe.axes)} axes")
    recipe.settle()
    recipe.axes = (*recipe.axes[:-2], recipe.axes[-1], recipe.axes[-2])
    build.op, build.output = "transpose", "y"


def copy(build: "Builder", _stage: Stage) -> None:
    """The same values in a new array."""
    build.start()
    build.op = "copy"


def fill(build: "Builder", stage: Stage) -> None:
    """One value everywhere."""
    if build.started:
        msg = "a fill forgets what was computed before it"
        raise Refusal(msg)
    recipe = build.recipe
    recipe.axes = build.shaper.common()
    value = float(stage.values[0] or 0.0)
    if recipe.is_integer and value != int(value):
        msg = f"{value:g} is no integer"
        raise Refusal(msg)
    recipe.value = Negate(number(-value)) if value < 0 else number(value)
    build.op = "fill"


def reverse(build: "Builder", _stage: Stage) -> None:
    """The order of one axis turned round."""
    build.start()
    recipe = build.recipe
    recipe.settle()
    inner = build.inner(default="last")
    if len(inner) != 1:
        msg = "say along which axis the order is reversed"
        raise Refusal(msg)
    ((variable, dim),) = inner
    back: Node = Binary("-", Binary("-", Name(dim), Num(1.0, "1")), Name(variable))
    recipe.value = substitute(recipe.value, {variable: back})
    build.op = "reverse"


def gather(build: "Builder", _stage: Stage) -> None:
    """Rows of a table by their index."""
    recipe = build.recipe
    if build.started:
        msg = "a gather is done first of all operations"
        raise Refusal(msg)
    stated = build.shaper.shapes(2)
    table = (
        build.shaper.numbers(stated[0])
        if stated
        else (
            build.shaper.sizes.count("rows", "samples"),
            build.shaper.sizes.count("cols", "features", "channels"),
        )
    )
    ones = build.shaper.shapes(1)
    n = build.shaper.numbers(ones[0])[0] if ones else build.shaper.sizes.count("length", "elements", "batch")
    rows, cols = build.shaper.dim("rows", table[0], 32768), build.shaper.dim("cols", table[1], 256)
    count = build.shaper.dim("n", n, 8192)
    recipe.axes = (("i", count), ("j", cols))
    recipe.input("table", (("r", rows), ("j", cols)))
    index = recipe.input(
        "idx",
        (("i", count),),
        dtype=build.details.index_dtype,
        description="row of the table, 0 to rows - 1",
    )
    recipe.value = Access("table", (index, Name("j")))
    recipe.edge_rules.append("every index is a row of the table: 0 <= idx < rows")
    recipe.assume("dtype of the index", build.details.index_dtype, "the request names no index type")
    build.compare = {"mode": "exact"}
    build.op = "gather"


def scan(build: "Builder", stage: Stage) -> None:
    """Running sums and the like."""
    build.start(least_rank=2 if build.details.axis in {-1, -2, 1} else 1)
    recipe = build.recipe
    if not isinstance(recipe.value, Access):
        recipe.value = recipe.save("t", "compute")
    inner = build.inner(default="last")
    if len(inner) != 1:
        msg = "say along which axis the running result goes"
        raise Refusal(msg)
    ((variable, dim),) = inner
    kind: Reducer = "sum" if stage.name == "exclusive" else stage.name  # type: ignore[assignment]
    if stage.name == "sum" and "scan" in stage.text and "inclusive" not in stage.text:
        recipe.assume("scan", "inclusive sum", "the usual meaning")
    body = substitute(recipe.value, {variable: Name("k")})
    recipe.value = Reduce(kind, ("k",), body, ("<" if stage.name == "exclusive" else "<=", variable))
    if kind in {"sum", "prod"}:
        build.compare = {"mode": "close", "reduction_length": dim}
    if recipe.is_integer and kind == "sum" and recipe.dtype not in {"int64", "uint64"}:
        recipe.edge_rules.append("integer sums wrap around")
        build.compare = {"mode": "exact"}
    if recipe.dtype == "float16" and kind == "sum":
        build.dtype = "float32"
        recipe.assume("dtype of the sums", "float32", "sums of many float16 numbers soon pass 65504")
    build.op = "scan"


def _variables(recipe: Recipe, tensor: str) -> tuple[str, ...]:
    from cuda_harness.tools.formula.nodes import accesses

    for access in accesses(recipe.value):
        if access.name == tensor:
            return tuple(i.name if isinstance(i, Name) else "" for i in access.indices)
    return ()
