"""Each operation of a request applied to the recipe's current value."""

from typing import Any

from cuda_harness.agents.llm.offline.language.nodes import (
    Access,
    Binary,
    Call,
    Name,
    Negate,
    Node,
    Num,
    Reduce,
    Reducer,
    substitute,
)
from cuda_harness.agents.llm.offline.language.parse import parse_expression
from cuda_harness.agents.llm.offline.planning.details import Details
from cuda_harness.agents.llm.offline.planning.matrices import build_product
from cuda_harness.agents.llm.offline.planning.recipe import Axis, Recipe, number
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.shapes import Shaper
from cuda_harness.agents.llm.offline.planning.stages import Stage
from cuda_harness.state.expr import RESERVED

_LETTERS = ("a", "b", "c", "d")
_ARITHMETIC = ("add", "multipl", "plus", "times", "hadamard")
"""Beginnings of words for arithmetic between arrays, as `sum` and `product` are not."""
REDUCING = frozenset({"reduce", "norm", "moment", "lse"})
_LOSSES: dict[str, tuple[str, Reducer]] = {
    "mse": ("square(p - t)", "mean"), "mae": ("|p - t|", "mean"), "sse": ("square(p - t)", "sum"), "sae": ("|p - t|", "sum"),
    "rmse": ("square(p - t)", "mean"), "hinge": ("max(0, 1 - p*t)", "mean"),
    "huber": ("where(|p - t| <= delta, 0.5*square(p - t), delta*(|p - t| - 0.5*delta))", "mean"),
    "smooth_l1": ("where(|p - t| < delta, 0.5*square(p - t)/delta, |p - t| - 0.5*delta)", "mean"),
    "bce": ("-(t*log(p) + (1 - t)*log(1 - p))", "mean"),
    "bce_logits": ("max(p, 0) - p*t + log1p(exp(-|p|))", "mean"),
    "log_cosh": ("|p - t| + log1p(exp(-2*|p - t|)) - 0.6931471805599453", "mean"),
    "kl": ("p*log(p/t)", "sum"),
}  # fmt: skip


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
        handler = getattr(self, f"do_{stage.kind}")
        self.recipe.words.append(
            stage.name
            if stage.name.isidentifier()
            else {"+": "add", "-": "sub", "*": "mul", "/": "div", "^": "power"}.get(stage.name[:1], "op")
        )
        if self.compare is not None and self.compare.get("mode") == "index":
            msg = f"nothing can be applied to an index ({stage.text!r} after {self.recipe.words[-2]})"
            raise Refusal(msg)
        handler(stage)
        self.started = True

    # -------------------------------------------------------------------- element-wise
    def do_unary(self, stage: Stage) -> None:
        """A function of one array."""
        self.start()
        recipe = self.recipe
        name = stage.name
        if name == "negate":
            recipe.value = Negate(recipe.value)
        elif (
            name in {"square", "cube", "reciprocal", "exp", "log", "sqrt"}
            and self.details.noun == "matrix"
            and "matrix_function" in self.details.flags
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
                if "slope" in self.details.parameters or "alpha" not in self.details.parameters
                else "alpha"
            )
            recipe.apply(name, self.parameter(key, 0.01, "negative slope"))
        elif name in {"elu", "celu"}:
            recipe.apply(name, self.parameter("alpha", 1.0, "alpha"))
        elif name in {"hardshrink", "softshrink"}:
            key = "threshold" if "threshold" in self.details.parameters else "lambda_"
            recipe.apply(name, self.parameter(key, 0.5, "lambda"))
        elif name == "hardtanh":
            recipe.apply(name, Negate(number(1)), number(1))
        elif name == "gelu":
            if "tanh_form" not in self.details.flags and "exact" not in self.details.flags:
                recipe.assume("form of GELU", "exact (erf)", "the request names no approximation")
            recipe.apply("gelu_tanh" if "tanh_form" in self.details.flags else "gelu")
        else:
            recipe.apply(name)

    def do_scalar(self, stage: Stage) -> None:
        """A constant, or a scalar that is passed by value."""
        self.start()
        recipe = self.recipe
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

    def do_binary(self, stage: Stage) -> None:
        """Arithmetic of two or more arrays."""
        recipe, op = self.recipe, stage.name
        if self.details.mixed and not self.started and "elementwise" not in self.details.flags:
            if op == "*":
                name = "matvec" if self.details.mixed.startswith("matrix") else "vecmat"
                self.do_product(Stage("product", name, stage.text))
                return
            msg = f"{stage.text!r} of a matrix and a vector: say 'to each row', or write the formula with explicit indices"
            raise Refusal(msg)
        if self.started:
            if "extra_input" not in self.details.flags:
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
            count = self.details.operands or 2
            recipe.axes = self.shaper.common()
            taken = {v for v, _ in recipe.axes}
            names = self.details.names if len(self.details.names) == count else _LETTERS[:count]
            operands = [recipe.input(n if n not in taken else f"{n}_", recipe.axes) for n in names]
        if recipe.is_integer and op == "/":
            msg = "a quotient of integers has no integer result; name a floating-point type"
            raise Refusal(msg)
        if op[0] in "-/" and len(operands) != 2:
            msg = f"{stage.text!r} needs two arrays, and {len(operands)} are named"
            raise Refusal(msg)
        if "swapped" in self.details.flags:
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

    def do_both(self, stage: Stage) -> None:
        """A word that means arithmetic of arrays or a reduction, by what it is applied to."""
        several = (self.details.operands or len(self.details.names)) >= 2
        arithmetic = (
            stage.text.startswith(_ARITHMETIC)
            and not stage.text.startswith("add up")
            and self.details.axis != "all"
        )
        matrices = stage.name == "*" and not stage.text.startswith("hadamard") and not self.started
        chained = self.shaper.sizes.chained()
        if (
            matrices
            and ((several and self.details.noun == "matrix") or chained)
            and "elementwise" not in self.details.flags
        ):
            self.recipe.assume("product of matrices", "the matrix product", "the usual meaning")
            self.do_product(Stage("product", "matmul", stage.text))
            return
        fresh = not self.started and (several or "elementwise" in self.details.flags)
        if self.details.axis is None and (fresh or arithmetic):
            self.do_binary(stage)
        elif stage.name == "+" and self.details.axis_text.startswith("to ") and self.details.axis == -1:
            self.do_bias(stage)
        elif arithmetic and stage.text.startswith(("multipl", "times", "plus", "hadamard")):
            msg = f"it is not clear which arrays {stage.text!r} works on"
            raise Refusal(msg)
        else:
            kind = {"+": "sum", "*": "prod"}.get(stage.name, stage.name)
            self.do_reduce(Stage("reduce", kind, stage.text))

    def do_bias(self, _stage: Stage) -> None:
        """A vector added along the last axis."""
        self.start(least_rank=2)
        recipe = self.recipe
        if not recipe.axes or self.details.axis == -2:
            msg = "a bias is added along the last axis: the same vector to each row"
            raise Refusal(msg)
        recipe.assume("bias", "along the last axis", "the usual convention")
        recipe.value = Binary("+", recipe.value, recipe.input("bias", recipe.axes[-1:]))

    # -------------------------------------------------------------------- reductions
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

    def do_reduce(self, stage: Stage) -> None:
        """sum, mean, prod, max, min, argmax, argmin."""
        outer, inner = self.prepare()
        recipe = self.recipe
        kind: Any = stage.name
        if recipe.is_integer and kind == "mean":
            self.dtype = "float32"
            recipe.assume("dtype of the mean", "float32", "a mean of integers is no integer")
        elif recipe.is_integer and kind in {"sum", "prod"} and recipe.dtype not in {"int64", "uint64"}:
            self.dtype = "int64"
            recipe.assume(
                "dtype of the result", "int64", "a sum of many integers soon passes the range of its terms"
            )
        elif recipe.dtype == "float16" and kind == "sum":
            self.dtype = "float32"
            recipe.assume("dtype of the sum", "float32", "a sum of many float16 numbers soon passes 65504")
        if kind.startswith("arg"):
            self._arg(kind, inner)
        elif kind in {"sum", "mean", "prod"}:
            self.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
        if kind == "prod" and not recipe.is_integer:
            recipe.edge_rules.append(
                "a product of many numbers is compared where it neither overflows nor vanishes"
            )
        recipe.value = recipe.reduce(kind, inner)
        recipe.axes = outer
        self.op = f"reduce_{kind}"
        self.output = {"argmax": "index", "argmin": "index"}.get(
            kind, kind if kind not in {"max", "min"} else "y"
        )

    def _arg(self, kind: str, inner: tuple[Axis, ...]) -> None:
        recipe = self.recipe
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
        self.dtype = "int32"
        recipe.assume("dtype of the index", self.details.index_dtype, "the request names no index type")
        recipe.assume("ties", "the lowest index", "the usual convention")
        recipe.edge_rules.append(
            f"{kind} gives the lowest index among equal values"
            + ("; it counts in row-major order" if len(inner) > 1 else "")
        )
        recipe.constraints.append("*".join(d for _, d in inner) + " <= 2147483647")
        if is_input:
            self.compare = {
                "mode": "index",
                "of": tensor,
                "ties": "lowest",
                **({"axis": axis} if axis is not None else {}),
            }
        else:
            self.compare = {"mode": "exact"}

    def do_norm(self, stage: Stage) -> None:
        """L1, L2, maximum norm and root mean square."""
        outer, inner = self.prepare()
        recipe = self.recipe
        if recipe.is_integer:
            msg = "a norm of integers has no integer result; name a floating-point type"
            raise Refusal(msg)
        if recipe.dtype == "float16":
            self.dtype = "float32"
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
            self.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
        recipe.axes = outer
        self.output, self.op = "norm", "norm"

    def do_lse(self, _stage: Stage) -> None:
        """log(sum(exp(x))), shifted by the maximum."""
        outer, inner = self.prepare()
        recipe = self.recipe
        value = recipe.value
        top = recipe.save("m", "reduce_max", value=recipe.reduce("max", inner), axes=outer)
        total = recipe.reduce("sum", inner, Call("exp", (Binary("-", value, top),)))
        recipe.value = Binary("+", top, Call("log", (total,)))
        recipe.axes = outer
        self.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
        self.op = "log_sum_exp"

    def do_moment(self, stage: Stage) -> None:
        """Variance and standard deviation, from differences to the mean."""
        outer, inner = self.prepare()
        recipe = self.recipe
        if recipe.is_integer:
            msg = "a variance of integers has no integer result; name a floating-point type"
            raise Refusal(msg)
        value = recipe.value
        mean = recipe.save("mu", "reduce_mean", value=recipe.reduce("mean", inner), axes=outer)
        deviation = Call("square", (Binary("-", value, mean),))
        if stage.name.endswith("sample") or "unbiased" in self.details.flags:
            if len(inner) != 1:
                msg = "the sample variance is done over one axis"
                raise Refusal(msg)
            dim = inner[0][1]
            recipe.minimum[dim] = 2
            recipe.value = Binary(
                "/", recipe.reduce("sum", inner, deviation), Binary("-", Name(dim), number(1))
            )
        else:
            recipe.assume(
                "variance", "of the population (divided by n)", "the request does not say sample or unbiased"
            )
            recipe.value = recipe.reduce("mean", inner, deviation)
        if stage.name.startswith("std"):
            recipe.value = Call("sqrt", (recipe.value,))
        recipe.axes = outer
        self.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
        self.output, self.op = stage.name.split("_")[0], "reduce_variance"

    def do_multi(self, stage: Stage) -> None:
        """Several reductions of the same data: one output each."""
        self.prepare()
        recipe = self.recipe
        value, axes = recipe.value, recipe.axes
        for place, part in enumerate(stage.parts):
            recipe.value, recipe.axes, self.compare, self.dtype = value, axes, None, recipe.dtype
            self.run(part)
            name = {"+": "sum", "*": "prod"}.get(part.name, part.name)
            self.output = f"{name}_out" if name in RESERVED else name
            if place < len(stage.parts) - 1:
                self.finish()

    # -------------------------------------------------------------------- losses and pairs of rows
    def do_loss(self, stage: Stage) -> None:
        """A loss over predictions and targets."""
        recipe = self.recipe
        if self.started or recipe.is_integer:
            msg = f"{stage.text!r} is done on floating-point inputs, first of all operations"
            raise Refusal(msg)
        if stage.name == "cross_entropy":
            self._cross_entropy()
            return
        axes = recipe.axes = self.shaper.common()
        p, t = ("p", "q") if stage.name == "kl" else ("pred", "target")
        one, two = recipe.input(p, axes), recipe.input(t, axes)
        formula, kind = _LOSSES[stage.name]
        names: dict[str, Node] = {"p": one, "t": two}
        if stage.name == "huber":
            names["delta"] = self.parameter("delta", 1.0, "delta")
        if stage.name == "smooth_l1":
            names["delta"] = self.parameter("beta", 1.0, "beta")
        if stage.name == "hinge":
            recipe.edge_rules.append("targets are -1 or 1; the formula holds for any value")
        if stage.name == "kl":
            recipe.assume(
                "direction",
                "sum of p*log(p/q)",
                "the usual definition of KL(p || q), inputs being probabilities",
            )
        axis = self.details.axis
        if "per_element" in self.details.flags:
            recipe.value = substitute(parse_expression(formula), names)
            self.output, self.op = "loss", "loss"
            return
        inner = axes if axis in {None, "all"} else self.inner()
        if "sum_reduction" in self.details.flags:
            kind = "sum"
        elif "mean_reduction" in self.details.flags:
            kind = "mean"
        elif kind == "mean":
            recipe.assume("reduction of the loss", "mean", "the usual convention")
        reduced = recipe.reduce(kind, inner, substitute(parse_expression(formula), names))
        recipe.value = Call("sqrt", (reduced,)) if stage.name == "rmse" else reduced
        recipe.axes = tuple(a for a in axes if a not in inner)
        self.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
        self.output, self.op = "loss", "loss"
        if recipe.dtype == "float16":
            self.dtype = "float32"
            recipe.assume("dtype of the loss", "float32", "sums are kept in float32")

    def _cross_entropy(self) -> None:
        recipe = self.recipe
        if "one_hot" in self.details.flags:
            msg = "cross-entropy is done with integer class labels; write the formula for probability targets"
            raise Refusal(msg)
        axes = recipe.axes = self.shaper.common(least_rank=2)
        if len(axes) != 2:
            msg = "cross-entropy is done on a matrix of logits (samples x classes)"
            raise Refusal(msg)
        i, j = axes
        x = recipe.input("logits", axes)
        label = recipe.input(
            "labels",
            (i,),
            dtype=self.details.index_dtype,
            description="class of each sample, 0 to the number of classes - 1",
        )
        recipe.assume(
            "labels",
            f"{self.details.index_dtype} class indices",
            "the usual convention for cross-entropy on logits",
        )
        top = recipe.save("m", "reduce_max", value=Reduce("max", (j[0],), x), axes=(i,))
        total = Reduce("sum", (j[0],), Call("exp", (Binary("-", x, top),)))
        lse = recipe.save("s", "log_sum_exp", value=Call("log", (total,)), axes=(i,))
        chosen = Access("logits", (Name(i[0]), label))
        each = recipe.save("e", "loss", value=Binary("-", lse, Binary("-", chosen, top)), axes=(i,))
        if "per_element" in self.details.flags or self.details.axis == -1:
            recipe.value, recipe.axes = each, (i,)
        else:
            kind: Reducer = "sum" if "sum_reduction" in self.details.flags else "mean"
            if kind == "mean" and "mean_reduction" not in self.details.flags:
                recipe.assume("reduction of the loss", "mean over the samples", "the usual convention")
            recipe.value, recipe.axes = Reduce(kind, (i[0],), each), ()
        recipe.edge_rules.append("every label is a class: 0 <= label < number of classes")
        self.compare = {"mode": "close", "reduction_length": "*".join((i[1], j[1]))}
        self.output, self.op = "loss", "reduce_mean"

    def do_rowpair(self, stage: Stage) -> None:
        """A number for each pair of corresponding rows."""
        recipe = self.recipe
        if self.started or recipe.is_integer:
            msg = f"{stage.text!r} is done on two floating-point inputs, first of all operations"
            raise Refusal(msg)
        if "all_pairs" in self.details.flags:
            msg = f"{stage.text!r} of all pairs of rows is not among the templates; write it as a formula: d[i,j] = sqrt(sum_k (a[i,k] - b[j,k])^2)"
            raise Refusal(msg)
        axes = recipe.axes = self.shaper.common()
        a, b = recipe.input("a", axes), recipe.input("b", axes)
        if self.details.axis not in {None, -1, 1, "all"}:
            msg = f"{stage.text!r} is done for corresponding rows"
            raise Refusal(msg)
        inner = axes[-1:] if self.details.axis != "all" else axes
        if len(axes) > 1 and self.details.axis is None:
            recipe.assume("pairs", "corresponding rows", "the request names no axis")
        outer = tuple(x for x in axes if x not in inner)
        if stage.name == "cosine":
            parts = [recipe.reduce("sum", inner, Binary("*", p, q)) for p, q in ((a, b), (a, a), (b, b))]
            floor = self.parameter("eps", 1e-8, "eps")
            lengths = Binary("*", Call("sqrt", (parts[1],)), Call("sqrt", (parts[2],)))
            recipe.value = Binary("/", parts[0], Call("max", (lengths, floor)))
        elif stage.name == "euclidean":
            recipe.value = Call("sqrt", (recipe.reduce("sum", inner, Call("square", (Binary("-", a, b),))),))
        else:
            recipe.value = recipe.reduce("sum", inner, Call("abs", (Binary("-", a, b),)))
        recipe.axes = outer
        self.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
        self.output, self.op = "y", stage.name

    # -------------------------------------------------------------------- softmax and layer norms
    def do_soft(self, stage: Stage) -> None:
        """Softmax, log-softmax, softmin."""
        outer, inner = self.prepare(default="last")
        recipe = self.recipe
        if recipe.is_integer:
            msg = f"{stage.text!r} of integers has no integer result; name a floating-point type"
            raise Refusal(msg)
        if "temperature" in self.details.parameters:
            scale = self.parameter("temperature", 1.0, "temperature")
            recipe.value = Binary("/", recipe.value, scale)
        if stage.name == "softmin":
            recipe.value = Negate(recipe.value)
        value = recipe.value
        if isinstance(value, Access):
            shifted_by = recipe.save("m", "reduce_max", value=recipe.reduce("max", inner), axes=outer)
        else:
            value = recipe.save("z", "compute")
            shifted_by = recipe.save("m", "reduce_max", value=recipe.reduce("max", inner, value), axes=outer)
        shifted = Binary("-", value, shifted_by)
        total = recipe.save(
            "s", "reduce_sum", value=recipe.reduce("sum", inner, Call("exp", (shifted,))), axes=outer
        )
        recipe.value = (
            Binary("-", shifted, Call("log", (total,)))
            if stage.name == "log_softmax"
            else Binary("/", Call("exp", (shifted,)), total)
        )
        self.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
        self.op = "normalize"
        recipe.edge_rules.append("equal values along the axis give equal shares")

    def do_layer(self, stage: Stage) -> None:
        """Layer norm, RMS norm, batch norm and the plain normalisations."""
        recipe = self.recipe
        if recipe.is_integer:
            msg = f"{stage.text!r} of integers has no integer result; name a floating-point type"
            raise Refusal(msg)
        if stage.name == "batch_norm":
            self._batch_norm()
            return
        outer, inner = self.prepare(default="last")
        value = recipe.value
        length = "*".join(d for _, d in inner)
        self.compare = {"mode": "close", "reduction_length": length}
        self.op = "normalize"
        if stage.name in {"layer_norm", "standardize"}:
            mean = recipe.save("mu", "reduce_mean", value=recipe.reduce("mean", inner), axes=outer)
            centred = Binary("-", value, mean)
            variance = recipe.save(
                "v", "reduce_mean", value=recipe.reduce("mean", inner, Call("square", (centred,))), axes=outer
            )
            eps = self.parameter("eps", 1e-5, "eps")
            recipe.value = Binary("/", centred, Call("sqrt", (Binary("+", variance, eps),)))
        elif stage.name == "rms_norm":
            mean = recipe.save(
                "v", "reduce_mean", value=recipe.reduce("mean", inner, Call("square", (value,))), axes=outer
            )
            eps = self.parameter("eps", 1e-6, "eps")
            recipe.value = Binary("/", value, Call("sqrt", (Binary("+", mean, eps),)))
        else:
            power: Node = Call("square", (value,)) if stage.name.startswith("l2") else Call("abs", (value,))
            total = recipe.reduce("sum", inner, power)
            size = recipe.save(
                "s",
                "norm",
                value=Call("sqrt", (total,)) if stage.name.startswith("l2") else total,
                axes=outer,
            )
            recipe.value = Binary("/", value, Call("max", (size, self.parameter("eps", 1e-12, "least norm"))))
        if stage.name in {"layer_norm", "rms_norm"} and "plain" not in self.details.flags:
            if len(inner) != 1:
                msg = f"{stage.text!r} with gain is done along one axis"
                raise Refusal(msg)
            recipe.value = Binary("*", recipe.value, recipe.input("gamma", inner))
            names = "gamma and beta" if stage.name == "layer_norm" else "gamma"
            if stage.name == "layer_norm" and "no_shift" not in self.details.flags:
                recipe.value = Binary("+", recipe.value, recipe.input("beta", inner))
            recipe.assume("affine parameters", names, "the usual form of the layer")

    def _batch_norm(self) -> None:
        recipe = self.recipe
        if self.started:
            recipe.settle()
        self.start(least_rank=2)
        axes = recipe.axes
        if len(axes) < 2:
            msg = "batch norm needs a batch axis and a channel axis"
            raise Refusal(msg)
        channel = (axes[1],)
        mean, var = recipe.input("mean", channel), recipe.input("var", channel)
        gamma, beta = recipe.input("gamma", channel), recipe.input("beta", channel)
        eps = self.parameter("eps", 1e-5, "eps")
        recipe.assume(
            "batch norm",
            "inference, with given mean and variance for each channel",
            "the form that is done here",
        )
        recipe.edge_rules.append("var is positive")
        scaled = Binary("/", Binary("-", recipe.value, mean), Call("sqrt", (Binary("+", var, eps),)))
        recipe.value = Binary("+", Binary("*", scaled, gamma), beta)
        self.op = "normalize"

    def do_self(self, stage: Stage) -> None:
        """Each row minus its mean or maximum, or divided by its sum or maximum."""
        outer, inner = self.prepare(default="last")
        recipe = self.recipe
        if recipe.is_integer:
            msg = f"{stage.text!r} is done on floating-point data"
            raise Refusal(msg)
        kind: Any = stage.name.strip("/")
        value = recipe.value
        own = recipe.save("s", f"reduce_{kind}", value=recipe.reduce(kind, inner), axes=outer)
        recipe.value = Binary("/" if stage.name[0] == "/" else "-", value, own)
        self.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
        self.op = "normalize"

    # -------------------------------------------------------------------- products, moves, scans, BLAS
    def do_product(self, stage: Stage) -> None:
        """A product of matrices or vectors."""
        if self.started:
            msg = f"{stage.text!r} is done first of all operations"
            raise Refusal(msg)
        build_product(
            self.recipe,
            self.shaper,
            stage,
            transposed=self.transposed,
            bias="no_bias" not in self.details.flags,
        )
        self.started = True
        value = self.recipe.value
        inner = value.variables if isinstance(value, Reduce) else ()
        shapes = {
            n: d
            for t in self.recipe.tensors
            for n, d in zip(_variables(self.recipe, t["name"]), t["shape"], strict=False)
        }
        if isinstance(value, Binary) and isinstance(value.left, Reduce):
            inner = value.left.variables
        if inner:
            self.compare = {"mode": "close", "reduction_length": "*".join(shapes.get(v, v) for v in inner)}
            if stage.name == "dot":
                self.compare["reduction_length"] = "*".join(d for v, d in self.shaper.common() if v in inner)
                if self.recipe.dtype == "float16":
                    self.dtype = "float32"
                    self.recipe.assume(
                        "dtype of the product", "float32", "a sum of many float16 products soon passes 65504"
                    )
        if self.recipe.is_integer and inner and self.recipe.dtype not in {"int64", "uint64"}:
            self.dtype = "int32" if self.recipe.dtype != "int32" else "int64"
            self.recipe.assume(
                "dtype of the result", self.dtype, "sums of products of integers need a wider type"
            )
        self.output, self.op = (
            ("c" if stage.name in {"matmul", "batched", "outer"} else "y"),
            ("matvec" if len(self.recipe.axes) == 1 else "matmul") if inner else "outer",
        )

    def do_transpose(self, stage: Stage) -> None:
        """The last two axes exchanged."""
        self.start(least_rank=2)
        recipe = self.recipe
        if len(recipe.axes) < 2:
            msg = "one axis cannot be transposed"
            raise Refusal(msg)
        if len(recipe.axes) > 2:
            recipe.assume("axes", "the last two are exchanged", f"{stage.text!r} of {len(recipe.axes)} axes")
        recipe.settle()
        recipe.axes = (*recipe.axes[:-2], recipe.axes[-1], recipe.axes[-2])
        self.op, self.output = "transpose", "y"

    def do_copy(self, _stage: Stage) -> None:
        """The same values in a new array."""
        self.start()
        self.op = "copy"

    def do_fill(self, stage: Stage) -> None:
        """One value everywhere."""
        if self.started:
            msg = "a fill forgets what was computed before it"
            raise Refusal(msg)
        recipe = self.recipe
        recipe.axes = self.shaper.common()
        value = float(stage.values[0] or 0.0)
        if recipe.is_integer and value != int(value):
            msg = f"{value:g} is no integer"
            raise Refusal(msg)
        recipe.value = Negate(number(-value)) if value < 0 else number(value)
        self.op = "fill"

    def do_reverse(self, _stage: Stage) -> None:
        """The order of one axis turned round."""
        self.start()
        recipe = self.recipe
        recipe.settle()
        inner = self.inner(default="last")
        if len(inner) != 1:
            msg = "say along which axis the order is reversed"
            raise Refusal(msg)
        ((variable, dim),) = inner
        back: Node = Binary("-", Binary("-", Name(dim), Num(1.0, "1")), Name(variable))
        recipe.value = substitute(recipe.value, {variable: back})
        self.op = "reverse"

    def do_gather(self, _stage: Stage) -> None:
        """Rows of a table by their index."""
        recipe = self.recipe
        if self.started:
            msg = "a gather is done first of all operations"
            raise Refusal(msg)
        stated = self.shaper.shapes(2)
        table = (
            self.shaper.numbers(stated[0])
            if stated
            else (
                self.shaper.sizes.count("rows", "samples"),
                self.shaper.sizes.count("cols", "features", "channels"),
            )
        )
        ones = self.shaper.shapes(1)
        n = (
            self.shaper.numbers(ones[0])[0]
            if ones
            else self.shaper.sizes.count("length", "elements", "batch")
        )
        rows, cols = self.shaper.dim("rows", table[0], 32768), self.shaper.dim("cols", table[1], 256)
        count = self.shaper.dim("n", n, 8192)
        recipe.axes = (("i", count), ("j", cols))
        recipe.input("table", (("r", rows), ("j", cols)))
        index = recipe.input(
            "idx",
            (("i", count),),
            dtype=self.details.index_dtype,
            description="row of the table, 0 to rows - 1",
        )
        recipe.value = Access("table", (index, Name("j")))
        recipe.edge_rules.append("every index is a row of the table: 0 <= idx < rows")
        recipe.assume("dtype of the index", self.details.index_dtype, "the request names no index type")
        self.compare = {"mode": "exact"}
        self.op = "gather"

    def do_scan(self, stage: Stage) -> None:
        """Running sums and the like."""
        self.start(least_rank=2 if self.details.axis in {-1, -2, 1} else 1)
        recipe = self.recipe
        if not isinstance(recipe.value, Access):
            recipe.value = recipe.save("t", "compute")
        inner = self.inner(default="last")
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
            self.compare = {"mode": "close", "reduction_length": dim}
        if recipe.is_integer and kind == "sum" and recipe.dtype not in {"int64", "uint64"}:
            recipe.edge_rules.append("integer sums wrap around")
            self.compare = {"mode": "exact"}
        if recipe.dtype == "float16" and kind == "sum":
            self.dtype = "float32"
            recipe.assume("dtype of the sums", "float32", "sums of many float16 numbers soon pass 65504")
        self.op = "scan"

    def do_blas(self, stage: Stage) -> None:
        """Level 1 of BLAS and its relatives."""
        recipe = self.recipe
        if self.started:
            msg = f"{stage.text!r} is done first of all operations"
            raise Refusal(msg)
        if recipe.is_integer:
            msg = f"{stage.text!r} is done on floating-point data"
            raise Refusal(msg)
        axes = recipe.axes = self.shaper.common()
        self.op = stage.name
        match stage.name:
            case "axpy" | "axpby":
                alpha = self._coefficient("a", "alpha")
                x, y = recipe.input("x", axes), recipe.input("y", axes)
                scaled: Node = y if stage.name == "axpy" else Binary("*", self._coefficient("b", "beta"), y)
                recipe.value = Binary("+", Binary("*", alpha, x), scaled)
                self.output = "out"
                recipe.tensors[1]["role"] = "inout"
                recipe.assume("y", "is updated in place", "as BLAS does")
            case "combine":
                alpha, beta = self._coefficient("alpha", "alpha"), self._coefficient("beta", "beta")
                x, y = recipe.input("x", axes), recipe.input("y", axes)
                recipe.value = Binary("+", Binary("*", alpha, x), Binary("*", beta, y))
                self.output = "out"
            case "scal":
                recipe.value = Binary("*", self._coefficient("a", "alpha"), recipe.input("x", axes))
                recipe.tensors[0]["role"] = "inout"
                recipe.assume("x", "is updated in place", "as BLAS does")
            case "iamax":
                recipe.value = recipe.input("x", axes)
                recipe.value = Call("abs", (recipe.value,))
                self.do_reduce(Stage("reduce", "argmax", stage.text))
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
                self._pair(stage.name, axes)

    def _coefficient(self, letter: str, key: str) -> Node:
        self.used.add(key)
        value = self.details.parameters.get(key)
        named = self.details.parameters.get(letter)
        self.used.add(letter)
        value = value if value is not None else named
        if value is not None:
            return self.recipe.scalar(
                letter if letter not in {v for v, _ in self.recipe.axes} else key,
                value,
                min(value, -4.0),
                max(value, 4.0),
                stated=True,
            )
        return self.recipe.scalar(
            letter, 2.5, -4.0, 4.0, stated=False, why="passed by value; the request names no value"
        )

    def _pair(self, name: str, axes: tuple[Axis, ...]) -> None:
        """Write both results of swap or rot."""
        recipe = self.recipe
        x, y = recipe.input("x", axes), recipe.input("y", axes)
        recipe.assume("results", "x_out and y_out", "inputs are left as they are")
        if name == "swap":
            values: tuple[Node, Node] = (y, x)
            second = "y_out"
        else:
            c = recipe.scalar(
                "c", 0.8, -1.0, 1.0, stated=False, why="cosine of the rotation, passed by value"
            )
            s = recipe.scalar("s", 0.6, -1.0, 1.0, stated=False, why="sine of the rotation, passed by value")
            values = (
                Binary("+", Binary("*", c, x), Binary("*", s, y)),
                Binary("-", Binary("*", c, y), Binary("*", s, x)),
            )
            second = "y_out"
        recipe.value = values[0]
        recipe.finish("x_out", op=name)
        recipe.value = values[1]
        self.output = second

    def finish(self) -> None:
        """Write the current value to the output."""
        recipe = self.recipe
        inout = next((t["name"] for t in recipe.tensors if t["role"] == "inout"), None)
        if inout is not None:
            from cuda_harness.agents.llm.offline.language.nodes import Statement

            recipe.statements.append(
                (self.op or "compute", Statement(inout, tuple(v for v, _ in recipe.axes), recipe.value))
            )
            return
        output = self.output if self.output not in recipe.names() else "out"
        recipe.finish(output, dtype=self.dtype, compare=self.compare, op=self.op)


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


def _variables(recipe: Recipe, tensor: str) -> tuple[str, ...]:
    from cuda_harness.agents.llm.offline.language.nodes import accesses

    for access in accesses(recipe.value):
        if access.name == tensor:
            return tuple(i.name if isinstance(i, Name) else "" for i in access.indices)
    return ()
