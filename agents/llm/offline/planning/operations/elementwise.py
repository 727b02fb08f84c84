"""Element by element: functions, constants, arithmetic of arrays, bias."""

from typing import TYPE_CHECKING

from cuda_harness.agents.llm.offline.planning.operations import moves, reductions
from cuda_harness.agents.llm.offline.planning.recipe import number
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.stages import Stage
from cuda_harness.tools.formula.nodes import Binary, Call, Negate, Node

if TYPE_CHECKING:
    from cuda_harness.agents.llm.offline.planning.build import Builder

_LETTERS = ("a", "b", "c", "d")
_ARITHMETIC = ("add", "multipl", "plus", "times", "hadamard")
"""Beginnings of words for arithmetic between arrays, as `sum` and `product` are not."""


def unary(build: "Builder", stage: Stage) -> None:
    """A function of one array."""
    build.start()
    recipe = build.recipe
    name = stage.name
    if name == "negate":
        recipe.value = Negate(recipe.value)
    elif (
        name in {"square", "cube", "reciprocal", "exp", "log", "sqrt"}
        and build.details.noun == "matrix"
        and "matrix_function" in build.details.flags
    ):
        msg = f"{stage.text!r} of a matrix can mean the function of each element or of the matrix; say 'of each element'"
        raise Refusal(msg)
    elif name == "clamp":
        low, high = (float(v or 0.0) for v in stage.values)
        if low > high:
            msg = f"the range {low:g} to {high:g} is empty"
            raise Refusal(msg)
        bounds = [Negate(number(-v)) if v < 0 else number(v) for v in (low, high)]
        recipe.apply("clamp", *bounds)
    elif name == "leaky_relu":
        key = (
            "slope"
            if "slope" in build.details.parameters or "alpha" not in build.details.parameters
            else "alpha"
        )
        recipe.apply(name, build.parameter(key, 0.01, "negative slope"))
    elif name in {"elu", "celu"}:
        recipe.apply(name, build.parameter("alpha", 1.0, "alpha"))
    elif name in {"hardshrink", "softshrink"}:
        key = "threshold" if "threshold" in build.details.parameters else "lambda_"
        recipe.apply(name, build.parameter(key, 0.5, "lambda"))
    elif name == "hardtanh":
        recipe.apply(name, Negate(number(1)), number(1))
    elif name == "gelu":
        if "tanh_form" not in build.details.flags and "exact" not in build.details.flags:
            recipe.assume("form of GELU", "exact (erf)", "the request names no approximation")
        recipe.apply("gelu_tanh" if "tanh_form" in build.details.flags else "gelu")
    else:
        recipe.apply(name)


def scalar(build: "Builder", stage: Stage) -> None:
    """A constant, or a scalar that is passed by value."""
    build.start()
    recipe = build.recipe
    value = stage.values[0]
    if value is None:
        low, high = (0.5, 3.0) if stage.name == "/" else (-3.0, 3.0)
        other: Node = recipe.scalar(
            "alpha", 1.5, low, high, stated=False, why="the request passes a scalar and names no value"
        )
    else:
        if stage.name == "/" and value == 0:
            msg = "it divides by zero"
            raise Refusal(msg)
        if recipe.is_integer and (value != int(value) or stage.name == "/"):
            msg = f"{stage.text!r} of integers has no integer result; name a floating-point type"
            raise Refusal(msg)
        other = Negate(number(-value)) if value < 0 else number(value)
    recipe.value = Binary(stage.name, recipe.value, other)


def binary(build: "Builder", stage: Stage) -> None:
    """Arithmetic of two or more arrays."""
    recipe, op = build.recipe, stage.name
    if build.details.mixed and not build.started and "elementwise" not in build.details.flags:
        if op == "*":
            name = "matvec" if build.details.mixed.startswith("matrix") else "vecmat"
            moves.product(build, Stage("product", name, stage.text))
            return
        msg = f"{stage.text!r} of a matrix and a vector: say 'to each row', or write the formula with explicit indices"
        raise Refusal(msg)
    if build.started:
        if "extra_input" not in build.details.flags:
            msg = f"it is not clear which arrays {stage.text!r} works on"
            raise Refusal(msg)
        other = recipe.input("r", recipe.axes)
        operands = [recipe.value, other]
        if op.startswith(("-", "/")) and "subtract" in stage.text:
            recipe.assume(
                "operands of the difference",
                "the result so far minus the second array",
                "the order of the words",
            )
    else:
        count = build.details.operands or 2
        recipe.axes = build.shaper.common()
        taken = {v for v, _ in recipe.axes}
        names = build.details.names if len(build.details.names) == count else _LETTERS[:count]
        operands = [recipe.input(n if n not in taken else f"{n}_", recipe.axes) for n in names]
    if recipe.is_integer and op == "/":
        msg = "a quotient of integers has no integer result; name a floating-point type"
        raise Refusal(msg)
    if op[0] in "-/" and len(operands) != 2:
        msg = f"{stage.text!r} needs two arrays, and {len(operands)} are named"
        raise Refusal(msg)
    if "swapped" in build.details.flags:
        operands.reverse()
    value = operands[0]
    for other in operands[1:]:
        if op in {"max", "min"}:
            value = Call(op, (value, other))
        else:
            value = Binary({"mean": "+"}.get(op, op[0]), value, other)
    if op == "mean":
        value = Binary("/", value, number(len(operands)))
    elif op == "-abs":
        value = Call("abs", (value,))
    elif op == "-sq":
        value = Call("square", (value,))
    recipe.value = value


def arithmetic_or_reduction(build: "Builder", stage: Stage) -> None:
    """A word that means arithmetic of arrays or a reduction, by what it is applied to."""
    several = (build.details.operands or len(build.details.names)) >= 2
    arithmetic = (
        stage.text.startswith(_ARITHMETIC)
        and not stage.text.startswith("add up")
        and build.details.axis != "all"
    )
    matrices = stage.name == "*" and not stage.text.startswith("hadamard") and not build.started
    chained = build.shaper.sizes.chained()
    if (
        matrices
        and ((several and build.details.noun == "matrix") or chained)
        and "elementwise" not in build.details.flags
    ):
        build.recipe.assume("product of matrices", "the matrix product", "the usual meaning")
        moves.product(build, Stage("product", "matmul", stage.text))
        return
    fresh = not build.started and (several or "elementwise" in build.details.flags)
    if build.details.axis is None and (fresh or arithmetic):
        binary(build, stage)
    elif stage.name == "+" and build.details.axis_text.startswith("to ") and build.details.axis == -1:
        bias(build, stage)
    elif arithmetic and stage.text.startswith(("multipl", "times", "plus", "hadamard")):
        msg = f"it is not clear which arrays {stage.text!r} works on"
        raise Refusal(msg)
    else:
        kind = {"+": "sum", "*": "prod"}.get(stage.name, stage.name)
        reductions.reduce(build, Stage("reduce", kind, stage.text))


def bias(build: "Builder", _stage: Stage) -> None:
    """A vector added along the last axis."""
    build.start(least_rank=2)
    recipe = build.recipe
    if not recipe.axes or build.details.axis == -2:
        msg = "a bias is added along the last axis: the same vector to each row"
        raise Refusal(msg)
    recipe.assume("bias", "along the last axis", "the usual convention")
    recipe.value = Binary("+", recipe.value, recipe.input("bias", recipe.axes[-1:]))
