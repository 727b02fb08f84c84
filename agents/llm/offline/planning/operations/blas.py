"""Level 1 of BLAS and its relatives."""

from typing import TYPE_CHECKING

from cuda_harness.agents.llm.offline.planning.operations import reductions
from cuda_harness.agents.llm.offline.planning.recipe import Axis
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.stages import Stage
from cuda_harness.tools.formula.nodes import Binary, Call, Node

if TYPE_CHECKING:
    from cuda_harness.agents.llm.offline.planning.build import Builder


def blas(build: "Builder", stage: Stage) -> None:
    """Level 1 of BLAS and its relatives."""
    recipe = build.recipe
    if build.started:
        msg = f"{stage.text!r} is done first of all operations"
        raise Refusal(msg)
    if recipe.is_integer:
        msg = f"{stage.text!r} is done on floating-point data"
        raise Refusal(msg)
    axes = recipe.axes = build.shaper.common()
    build.op = stage.name
    match stage.name:
        case "axpy" | "axpby":
            alpha = _coefficient(build, "a", "alpha")
            x, y = recipe.input("x", axes), recipe.input("y", axes)
            scaled: Node = y if stage.name == "axpy" else Binary("*", _coefficient(build, "b", "beta"), y)
            recipe.value = Binary("+", Binary("*", alpha, x), scaled)
            build.output = "out"
            recipe.tensors[1]["role"] = "inout"
            recipe.assume("y", "is updated in place", "as BLAS does")
        case "combine":
            alpha, beta = _coefficient(build, "alpha", "alpha"), _coefficient(build, "beta", "beta")
            x, y = recipe.input("x", axes), recipe.input("y", axes)
            recipe.value = Binary("+", Binary("*", alpha, x), Binary("*", beta, y))
            build.output = "out"
        case "scal":
            recipe.value = Binary("*", _coefficient(build, "a", "alpha"), recipe.input("x", axes))
            recipe.tensors[0]["role"] = "inout"
            recipe.assume("x", "is updated in place", "as BLAS does")
        case "iamax":
            recipe.value = recipe.input("x", axes)
            recipe.value = Call("abs", (recipe.value,))
            reductions.reduce(build, Stage("reduce", "argmax", stage.text))
            recipe.assume("index", "counts from 0", "the request does not say otherwise")
        case "fma":
            a, b, c = (recipe.input(n, axes) for n in "abc")
            recipe.value = Binary("+", Binary("*", a, b), c)
        case "lerp":
            a, b = recipe.input("a", axes), recipe.input("b", axes)
            t = recipe.scalar(
                "t", 0.25, 0.0, 1.0, stated=False, why="the weight of the second array is passed by value"
            )
            recipe.value = Binary("+", a, Binary("*", t, Binary("-", b, a)))
        case _:
            _pair(build, stage.name, axes)


def _coefficient(build: "Builder", letter: str, key: str) -> Node:
    build.used.add(key)
    value = build.details.parameters.get(key)
    named = build.details.parameters.get(letter)
    build.used.add(letter)
    value = value if value is not None else named
    if value is not None:
        return build.recipe.scalar(
            letter if letter not in {v for v, _ in build.recipe.axes} else key,
            value,
            min(value, -4.0),
            max(value, 4.0),
            stated=True,
        )
    return build.recipe.scalar(
        letter, 2.5, -4.0, 4.0, stated=False, why="passed by value; the request names no value"
    )


def _pair(build: "Builder", name: str, axes: tuple[Axis, ...]) -> None:
    """Write both results of swap or rot."""
    recipe = build.recipe
    x, y = recipe.input("x", axes), recipe.input("y", axes)
    recipe.assume("results", "x_out and y_out", "inputs are left as they are")
    if name == "swap":
        values: tuple[Node, Node] = (y, x)
        second = "y_out"
    else:
        c = recipe.scalar("c", 0.8, -1.0, 1.0, stated=False, why="cosine of the rotation, passed by value")
        s = recipe.scalar("s", 0.6, -1.0, 1.0, stated=False, why="sine of the rotation, passed by value")
        values = (
            Binary("+", Binary("*", c, x), Binary("*", s, y)),
            Binary("-", Binary("*", c, y), Binary("*", s, x)),
        )
        second = "y_out"
    recipe.value = values[0]
    recipe.finish("x_out", op=name)
    recipe.value = values[1]
    build.output = second
