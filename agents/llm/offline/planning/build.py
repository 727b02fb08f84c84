"""Each operation of a request applied to the recipe's current value."""

from collections.abc import Callable
from typing import Any

from cuda_harness.agents.llm.offline.planning.details import Details
from cuda_harness.agents.llm.offline.planning.operations import (
    blas,
    elementwise,
    layers,
    losses,
    moves,
    reductions,
)
from cuda_harness.agents.llm.offline.planning.recipe import Axis, Recipe, number
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.shapes import Shaper
from cuda_harness.agents.llm.offline.planning.stages import Stage
from cuda_harness.tools.formula.nodes import (
    Name,
    Negate,
    Node,
    accesses,
)

REDUCING = frozenset({"reduce", "norm", "moment", "lse"})


class Builder:
    """Applies stages in order; the first one brings its inputs with it."""

    def __init__(self, recipe: Recipe, shaper: Shaper, details: Details) -> None:
        self.recipe, self.shaper, self.details = recipe, shaper, details
        self.transposed = (False, False)
        """Which operands of a product come transposed."""
        self.started = False
        self.dtype = recipe.dtype
        self.compare: dict[str, Any] | None = None
        self.op = ""
        self.output = "y"
        self.used: set[str] = set()
        """Parameters that found a place."""

    def parameter(self, key: str, default: float, what: str) -> Node:
        """Return a stated parameter, or the usual value as an assumption."""
        value = self.details.parameters.get(key)
        self.used.add(key)
        if value is None:
            self.recipe.assume(what, default, "the usual value")
            value = default
        return Negate(number(-value)) if value < 0 else number(value)

    def start(self, name: str = "x", *, least_rank: int = 1) -> None:
        """Make one input the current value, unless there is one."""
        if self.started:
            return
        self.recipe.axes = self.shaper.common(least_rank=least_rank)
        self.recipe.value = self.recipe.input(name, self.recipe.axes)
        self.started = True

    def run(self, stage: Stage) -> None:
        """Apply one stage."""
        handler = _HANDLERS[stage.kind]
        self.recipe.words.append(
            stage.name
            if stage.name.isidentifier()
            else {"+": "add", "-": "sub", "*": "mul", "/": "div", "^": "power"}.get(stage.name[:1], "op")
        )
        if self.compare is not None and self.compare.get("mode") == "index":
            msg = f"nothing can be applied to an index ({stage.text!r} after {self.recipe.words[-2]})"
            raise Refusal(msg)
        handler(self, stage)
        self.started = True

    def inner(self, *, default: str = "all") -> tuple[Axis, ...]:
        """Return the axes that are reduced."""
        axes, axis = self.recipe.axes, self.details.axis
        if not axes:
            msg = "a single number is left, and nothing can be reduced any further"
            raise Refusal(msg)
        if axis == "all" or (axis is None and (default == "all" or len(axes) == 1)):
            if axis is None and len(axes) > 1:
                self.recipe.assume("axis", "all elements", "the request names no axis")
            return axes
        if axis is None:
            self.recipe.assume("axis", "the last", "the usual convention")
            axis = -1
        if len(axes) == 1 and axis in {-1, -2}:
            msg = f"{self.details.axis_text!r} asks for rows or columns, but the data have one axis"
            if axis == -2 or "row" in self.details.axis_text:
                raise Refusal(msg)
        place = int(axis) if axis != -2 or len(axes) != 1 else 0
        if not -len(axes) <= place < len(axes):
            msg = f"axis {axis} does not exist in an array with {len(axes)} axes"
            raise Refusal(msg)
        return (axes[place],)

    def prepare(self, default: str = "all") -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
        """Start, and return (axes that are kept, axes that are reduced)."""
        silent = default == "last" and self.details.noun != "vector" and self.shaper.sizes.silent
        self.start(least_rank=2 if silent or self.details.axis in {-1, -2, 1} else 1)
        self.recipe.settle()
        inner = self.inner(default=default)
        return tuple(a for a in self.recipe.axes if a not in inner), inner

    def finish(self) -> None:
        """Write the current value to the output."""
        recipe = self.recipe
        if "in_place" in self.details.flags:
            self._update_in_place()
        inout = next((t["name"] for t in recipe.tensors if t["role"] == "inout"), None)
        if inout is not None:
            from cuda_harness.tools.formula.nodes import Statement

            recipe.statements.append(
                (self.op or "compute", Statement(inout, tuple(v for v, _ in recipe.axes), recipe.value))
            )
            return
        output = self.output if self.output not in recipe.names() else "out"
        recipe.finish(output, dtype=self.dtype, compare=self.compare, op=self.op)

    def _update_in_place(self) -> None:
        """Make the first input the output as well; raises Refusal where an element needs more than its own place."""
        recipe = self.recipe
        if any(t["role"] == "inout" for t in recipe.tensors):
            return
        own = tuple(Name(v) for v, _ in recipe.axes)
        shape, dtype = [d for _, d in recipe.axes], self.dtype or recipe.dtype
        fitting = [t for t in recipe.tensors if t["shape"] == shape and t["dtype"] == dtype]
        alone = not recipe.statements and all(a.indices == own for a in accesses(recipe.value))
        if len(fitting) != 1 or not alone or self.compare is not None:
            msg = "the templates do only element-wise work on one array in place; leave 'in place' out to get an array of its own"
            raise Refusal(msg)
        (first,) = fitting
        first["role"] = "inout"


_HANDLERS: dict[str, Callable[[Builder, Stage], None]] = {
    "unary": elementwise.unary,
    "scalar": elementwise.scalar,
    "binary": elementwise.binary,
    "both": elementwise.arithmetic_or_reduction,
    "bias": elementwise.bias,
    "reduce": reductions.reduce,
    "norm": reductions.norm,
    "lse": reductions.log_sum_exp,
    "moment": reductions.moment,
    "multi": reductions.several,
    "loss": losses.loss,
    "rowpair": losses.rowpair,
    "soft": layers.soft,
    "layer": layers.layer,
    "self": layers.against_itself,
    "product": moves.product,
    "transpose": moves.transpose,
    "copy": moves.copy,
    "fill": moves.fill,
    "reverse": moves.reverse,
    "gather": moves.gather,
    "scan": moves.scan,
    "blas": blas.blas,
}
"""What each kind of stage does."""
