"""Reductions of the current value: sums, extremes, norms, moments, several at once."""

from typing import TYPE_CHECKING, Any

from cuda_harness.agents.llm.offline.planning.recipe import Axis, number
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.stages import Stage
from cuda_harness.state.expr import RESERVED
from cuda_harness.tools.formula.nodes import Access, Binary, Call, Name, Negate, Node, Reducer

if TYPE_CHECKING:
    from cuda_harness.agents.llm.offline.planning.build import Builder


def reduce(build: "Builder", stage: Stage) -> None:
    """sum, mean, prod, max, min, argmax, argmin."""
    outer, inner = build.prepare()
    recipe = build.recipe
    kind: Any = stage.name
    if recipe.is_integer and kind == "mean":
        build.dtype = "float32"
        recipe.assume("dtype of the mean", "float32", "a mean of integers is no integer")
    elif recipe.is_integer and kind in {"sum", "prod"} and recipe.dtype not in {"int64", "uint64"}:
        build.dtype = "int64"
        recipe.assume(
            "dtype of the result", "int64", "a sum of many integers soon passes the range of its terms"
        )
    elif recipe.dtype == "float16" and kind == "sum":
        build.dtype = "float32"
        recipe.assume("dtype of the sum", "float32", "a sum of many float16 numbers soon passes 65504")
    if kind.startswith("arg"):
        _arg(build, kind, inner)
    elif kind in {"sum", "mean", "prod"}:
        build.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
    if kind == "prod" and not recipe.is_integer:
        recipe.edge_rules.append(
            "a product of many numbers is compared where it neither overflows nor vanishes"
        )
    recipe.value = recipe.reduce(kind, inner)
    recipe.axes = outer
    build.op = f"reduce_{kind}"
    build.output = {"argmax": "index", "argmin": "index"}.get(
        kind, kind if kind not in {"max", "min"} else "y"
    )


def _arg(build: "Builder", kind: str, inner: tuple[Axis, ...]) -> None:
    recipe = build.recipe
    if not isinstance(recipe.value, Access):
        name = "" if not isinstance(recipe.value, Name) else recipe.value.name
        if not name and not _keeps_ties(recipe.value):
            msg = f"{kind} is done of an array, of its absolute values or of its negatives, whose order no rounding can change"
            raise Refusal(msg)
        if not name:
            recipe.value = recipe.save("t", "compute")
    value = recipe.value
    tensor = value.name if isinstance(value, Access) else ""
    is_input = any(t["name"] == tensor for t in recipe.tensors)
    axis = recipe.axes.index(inner[0]) if len(inner) == 1 and len(recipe.axes) > 1 else None
    build.dtype = "int32"
    recipe.assume("dtype of the index", build.details.index_dtype, "the request names no index type")
    recipe.assume("ties", "the lowest index", "the usual convention")
    recipe.edge_rules.append(
        f"{kind} gives the lowest index among equal values"
        + ("; it counts in row-major order" if len(inner) > 1 else "")
    )
    recipe.constraints.append("*".join(d for _, d in inner) + " <= 2147483647")
    if is_input:
        build.compare = {
            "mode": "index",
            "of": tensor,
            "ties": "lowest",
            **({"axis": axis} if axis is not None else {}),
        }
    else:
        build.compare = {"mode": "exact"}


def norm(build: "Builder", stage: Stage) -> None:
    """L1, L2, maximum norm and root mean square."""
    outer, inner = build.prepare()
    recipe = build.recipe
    if recipe.is_integer:
        msg = "a norm of integers has no integer result; name a floating-point type"
        raise Refusal(msg)
    if recipe.dtype == "float16":
        build.dtype = "float32"
        recipe.assume("dtype of the norm", "float32", "a norm of many float16 numbers soon passes 65504")
    value = recipe.value
    if stage.name == "max":
        recipe.value = recipe.reduce("max", inner, Call("abs", (value,)))
    elif stage.name == "l1":
        recipe.value = recipe.reduce("sum", inner, Call("abs", (value,)))
    else:
        kind: Reducer = "mean" if stage.name == "rms" else "sum"
        recipe.value = Call("sqrt", (recipe.reduce(kind, inner, Call("square", (value,))),))
    if stage.name != "max":
        build.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
    recipe.axes = outer
    build.output, build.op = "norm", "norm"


def log_sum_exp(build: "Builder", _stage: Stage) -> None:
    """log(sum(exp(x))), shifted by the maximum."""
    outer, inner = build.prepare()
    recipe = build.recipe
    value = recipe.value
    top = recipe.save("m", "reduce_max", value=recipe.reduce("max", inner), axes=outer)
    total = recipe.reduce("sum", inner, Call("exp", (Binary("-", value, top),)))
    recipe.value = Binary("+", top, Call("log", (total,)))
    recipe.axes = outer
    build.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
    build.op = "log_sum_exp"


def moment(build: "Builder", stage: Stage) -> None:
    """Variance and standard deviation, from differences to the mean."""
    outer, inner = build.prepare()
    recipe = build.recipe
    if recipe.is_integer:
        msg = "a variance of integers has no integer result; name a floating-point type"
        raise Refusal(msg)
    value = recipe.value
    mean = recipe.save("mu", "reduce_mean", value=recipe.reduce("mean", inner), axes=outer)
    deviation = Call("square", (Binary("-", value, mean),))
    if stage.name.endswith("sample") or "unbiased" in build.details.flags:
        if len(inner) != 1:
            msg = "the sample variance is done over one axis"
            raise Refusal(msg)
        dim = inner[0][1]
        recipe.minimum[dim] = 2
        recipe.value = Binary("/", recipe.reduce("sum", inner, deviation), Binary("-", Name(dim), number(1)))
    else:
        recipe.assume(
            "variance", "of the population (divided by n)", "the request does not say sample or unbiased"
        )
        recipe.value = recipe.reduce("mean", inner, deviation)
    if stage.name.startswith("std"):
        recipe.value = Call("sqrt", (recipe.value,))
    recipe.axes = outer
    build.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
    build.output, build.op = stage.name.split("_")[0], "reduce_variance"


def several(build: "Builder", stage: Stage) -> None:
    """Several reductions of the same data: one output each."""
    build.prepare()
    recipe = build.recipe
    value, axes = recipe.value, recipe.axes
    for place, part in enumerate(stage.parts):
        recipe.value, recipe.axes, build.compare, build.dtype = value, axes, None, recipe.dtype
        build.run(part)
        name = {"+": "sum", "*": "prod"}.get(part.name, part.name)
        build.output = f"{name}_out" if name in RESERVED else name
        if place < len(stage.parts) - 1:
            build.finish()


def _keeps_ties(value: Node) -> bool:
    """Whether a value is exact in every floating-point type, so that an index of its extreme is the same in all."""
    match value:
        case Access():
            return True
        case Negate(operand):
            return _keeps_ties(operand)
        case Call("abs" | "relu", (operand,)):
            return _keeps_ties(operand)
        case _:
            return False
