"""Losses of predictions and targets, and numbers for pairs of rows."""

from typing import TYPE_CHECKING

from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.stages import Stage
from cuda_harness.tools.formula.nodes import (
    Access,
    Binary,
    Call,
    Name,
    Node,
    Reduce,
    Reducer,
    substitute,
)
from cuda_harness.tools.formula.parse import parse_expression

if TYPE_CHECKING:
    from cuda_harness.agents.llm.offline.planning.build import Builder

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


def loss(build: "Builder", stage: Stage) -> None:
    """A loss over predictions and targets."""
    recipe = build.recipe
    if build.started or recipe.is_integer:
        msg = f"{stage.text!r} is done on floating-point inputs, first of all operations"
        raise Refusal(msg)
    if stage.name == "cross_entropy":
        _cross_entropy(build)
        return
    axes = recipe.axes = build.shaper.common()
    p, t = ("p", "q") if stage.name == "kl" else ("pred", "target")
    one, two = recipe.input(p, axes), recipe.input(t, axes)
    formula, kind = _LOSSES[stage.name]
    names: dict[str, Node] = {"p": one, "t": two}
    if stage.name == "huber":
        names["delta"] = build.parameter("delta", 1.0, "delta")
    if stage.name == "smooth_l1":
        names["delta"] = build.parameter("beta", 1.0, "beta")
    if stage.name == "hinge":
        recipe.edge_rules.append("targets are -1 or 1; the formula holds for any value")
    if stage.name == "kl":
        recipe.assume(
            "direction",
            "sum of p*log(p/q)",
            "the usual definition of KL(p || q), inputs being probabilities",
        )
    axis = build.details.axis
    if "per_element" in build.details.flags:
        recipe.value = substitute(parse_expression(formula), names)
        build.output, build.op = "loss", "loss"
        return
    inner = axes if axis in {None, "all"} else build.inner()
    if "sum_reduction" in build.details.flags:
        kind = "sum"
    elif "mean_reduction" in build.details.flags:
        kind = "mean"
    elif kind == "mean":
        recipe.assume("reduction of the loss", "mean", "the usual convention")
    reduced = recipe.reduce(kind, inner, substitute(parse_expression(formula), names))
    recipe.value = Call("sqrt", (reduced,)) if stage.name == "rmse" else reduced
    recipe.axes = tuple(a for a in axes if a not in inner)
    build.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
    build.output, build.op = "loss", "loss"
    if recipe.dtype == "float16":
        build.dtype = "float32"
        recipe.assume("dtype of the loss", "float32", "sums are kept in float32")


def _cross_entropy(build: "Builder") -> None:
    recipe = build.recipe
    if "one_hot" in build.details.flags:
        msg = "cross-entropy is done with integer class labels; write the formula for probability targets"
        raise Refusal(msg)
    axes = recipe.axes = build.shaper.common(least_rank=2)
    if len(axes) != 2:
        msg = "cross-entropy is done on a matrix of logits (samples x classes)"
        raise Refusal(msg)
    i, j = axes
    x = recipe.input("logits", axes)
    label = recipe.input(
        "labels",
        (i,),
        dtype=build.details.index_dtype,
        description="class of each sample, 0 to the number of classes - 1",
    )
    recipe.assume(
        "labels",
        f"{build.details.index_dtype} class indices",
        "the usual convention for cross-entropy on logits",
    )
    top = recipe.save("m", "reduce_max", value=Reduce("max", (j[0],), x), axes=(i,))
    total = Reduce("sum", (j[0],), Call("exp", (Binary("-", x, top),)))
    lse = recipe.save("s", "log_sum_exp", value=Call("log", (total,)), axes=(i,))
    chosen = Access("logits", (Name(i[0]), label))
    each = recipe.save("e", "loss", value=Binary("-", lse, Binary("-", chosen, top)), axes=(i,))
    if "per_element" in build.details.flags or build.details.axis == -1:
        recipe.value, recipe.axes = each, (i,)
    else:
        kind: Reducer = "sum" if "sum_reduction" in build.details.flags else "mean"
        if kind == "mean" and "mean_reduction" not in build.details.flags:
            recipe.assume("reduction of the loss", "mean over the samples", "the usual convention")
        recipe.value, recipe.axes = Reduce(kind, (i[0],), each), ()
    recipe.edge_rules.append("every label is a class: 0 <= label < number of classes")
    build.compare = {"mode": "close", "reduction_length": "*".join((i[1], j[1]))}
    build.output, build.op = "loss", "reduce_mean"


def rowpair(build: "Builder", stage: Stage) -> None:
    """A number for each pair of corresponding rows."""
    recipe = build.recipe
    if build.started or recipe.is_integer:
        msg = f"{stage.text!r} is done on two floating-point inputs, first of all operations"
        raise Refusal(msg)
    if "all_pairs" in build.details.flags:
        msg = f"{stage.text!r} of all pairs of rows is not among the templates; write it as a formula: d[i,j] = sqrt(sum_k (a[i,k] - b[j,k])^2)"
        raise Refusal(msg)
    axes = recipe.axes = build.shaper.common()
    a, b = recipe.input("a", axes), recipe.input("b", axes)
    if build.details.axis not in {None, -1, 1, "all"}:
        msg = f"{stage.text!r} is done for corresponding rows"
        raise Refusal(msg)
    inner = axes[-1:] if build.details.axis != "all" else axes
    if len(axes) > 1 and build.details.axis is None:
        recipe.assume("pairs", "corresponding rows", "the request names no axis")
    outer = tuple(x for x in axes if x not in inner)
    if stage.name == "cosine":
        parts = [recipe.reduce("sum", inner, Binary("*", p, q)) for p, q in ((a, b), (a, a), (b, b))]
        floor = build.parameter("eps", 1e-8, "eps")
        lengths = Binary("*", Call("sqrt", (parts[1],)), Call("sqrt", (parts[2],)))
        recipe.value = Binary("/", parts[0], Call("max", (lengths, floor)))
    elif stage.name == "euclidean":
        recipe.value = Call("sqrt", (recipe.reduce("sum", inner, Call("square", (Binary("-", a, b),))),))
    else:
        recipe.value = recipe.reduce("sum", inner, Call("abs", (Binary("-", a, b),)))
    recipe.axes = outer
    build.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
    build.output, build.op = "y", stage.name
