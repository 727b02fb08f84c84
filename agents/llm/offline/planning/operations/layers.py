"""Softmax and the normalising layers."""

from typing import TYPE_CHECKING, Any

from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.stages import Stage
from cuda_harness.tools.formula.nodes import Access, Binary, Call, Negate, Node

if TYPE_CHECKING:
    from cuda_harness.agents.llm.offline.planning.build import Builder


def soft(build: "Builder", stage: Stage) -> None:
    """Softmax, log-softmax, softmin."""
    outer, inner = build.prepare(default="last")
    recipe = build.recipe
    if recipe.is_integer:
        msg = f"{stage.text!r} of integers has no integer result; name a floating-point type"
        raise Refusal(msg)
    if "temperature" in build.details.parameters:
        scale = build.parameter("temperature", 1.0, "temperature")
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
    build.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
    build.op = "normalize"
    recipe.edge_rules.append("equal values along the axis give equal shares")


def layer(build: "Builder", stage: Stage) -> None:
    """Layer norm, RMS norm, batch norm and the plain normalisations."""
    recipe = build.recipe
    if recipe.is_integer:
        msg = f"{stage.text!r} of integers has no integer result; name a floating-point type"
        raise Refusal(msg)
    if stage.name == "batch_norm":
        _batch_norm(build)
        return
    outer, inner = build.prepare(default="last")
    value = recipe.value
    length = "*".join(d for _, d in inner)
    build.compare = {"mode": "close", "reduction_length": length}
    build.op = "normalize"
    if stage.name in {"layer_norm", "standardize"}:
        mean = recipe.save("mu", "reduce_mean", value=recipe.reduce("mean", inner), axes=outer)
        centred = Binary("-", value, mean)
        variance = recipe.save(
            "v", "reduce_mean", value=recipe.reduce("mean", inner, Call("square", (centred,))), axes=outer
        )
        eps = build.parameter("eps", 1e-5, "eps")
        recipe.value = Binary("/", centred, Call("sqrt", (Binary("+", variance, eps),)))
    elif stage.name == "rms_norm":
        mean = recipe.save(
            "v", "reduce_mean", value=recipe.reduce("mean", inner, Call("square", (value,))), axes=outer
        )
        eps = build.parameter("eps", 1e-6, "eps")
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
        recipe.value = Binary("/", value, Call("max", (size, build.parameter("eps", 1e-12, "least norm"))))
    if stage.name in {"layer_norm", "rms_norm"} and "plain" not in build.details.flags:
        if len(inner) != 1:
            msg = f"{stage.text!r} with gain is done along one axis"
            raise Refusal(msg)
        recipe.value = Binary("*", recipe.value, recipe.input("gamma", inner))
        names = "gamma and beta" if stage.name == "layer_norm" else "gamma"
        if stage.name == "layer_norm" and "no_shift" not in build.details.flags:
            recipe.value = Binary("+", recipe.value, recipe.input("beta", inner))
        recipe.assume("affine parameters", names, "the usual form of the layer")


def _batch_norm(build: "Builder") -> None:
    recipe = build.recipe
    if build.started:
        recipe.settle()
    build.start(least_rank=2)
    axes = recipe.axes
    if len(axes) < 2:
        msg = "batch norm needs a batch axis and a channel axis"
        raise Refusal(msg)
    channel = (axes[1],)
    mean, var = recipe.input("mean", channel), recipe.input("var", channel)
    gamma, beta = recipe.input("gamma", channel), recipe.input("beta", channel)
    eps = build.parameter("eps", 1e-5, "eps")
    recipe.assume(
        "batch norm",
        "inference, with given mean and variance for each channel",
        "the form that is done here",
    )
    recipe.edge_rules.append("var is positive")
    scaled = Binary("/", Binary("-", recipe.value, mean), Call("sqrt", (Binary("+", var, eps),)))
    recipe.value = Binary("+", Binary("*", scaled, gamma), beta)
    build.op = "normalize"


def against_itself(build: "Builder", stage: Stage) -> None:
    """Each row minus its mean or maximum, or divided by its sum or maximum."""
    outer, inner = build.prepare(default="last")
    recipe = build.recipe
    if recipe.is_integer:
        msg = f"{stage.text!r} is done on floating-point data"
        raise Refusal(msg)
    kind: Any = stage.name.strip("/")
    value = recipe.value
    own = recipe.save("s", f"reduce_{kind}", value=recipe.reduce(kind, inner), axes=outer)
    recipe.value = Binary("/" if stage.name[0] == "/" else "-", value, own)
    build.compare = {"mode": "close", "reduction_length": "*".join(d for _, d in inner)}
    build.op = "normalize"
