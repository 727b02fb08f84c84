"""Operators of PyTorch that may compute what an IR asks for: candidates by the names of its steps, proved by their outputs.

A candidate is taken only when its outputs agree with the reference, so this table may be generous.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cuda_harness.state.ir import KernelIR

Call = Callable[[Any, list[Any], dict[str, Any]], Any]
"""torch, the inputs in IR order, the scalars by name and the dims as `dim:NAME` -> one tensor, or a tuple in IR order of the outputs."""


@dataclass(frozen=True)
class Operator:
    """One way to say it in PyTorch."""

    name: str
    ops: frozenset[str]
    """Step operations it answers to; any one will do."""
    inputs: int
    call: Call


def _f(torch: Any) -> Any:  # noqa: ANN401 - torch modules are untyped here
    return torch.nn.functional


def _first(s: dict[str, Any], default: float) -> float:
    """Return the first scalar; dims stand behind `dim:` and are none."""
    return float(next((v for n, v in s.items() if not n.startswith("dim:")), default))


def _operator(name: str, ops: str, inputs: int, call: Call) -> Operator:
    return Operator(name, frozenset(ops.split()), inputs, call)


OPERATORS: tuple[Operator, ...] = (
    _operator("clone", "copy", 1, lambda _, t, __: t[0].clone()),
    _operator("relu", "relu", 1, lambda h, t, __: h.relu(t[0])),
    _operator("add(alpha)", "axpy", 2, lambda h, t, s: h.add(t[1], t[0], alpha=_first(s, 1.0))),
    _operator("add(alpha), second scaled", "axpy", 2, lambda h, t, s: h.add(t[0], t[1], alpha=_first(s, 1.0))),
    _operator("add", "add", 2, lambda h, t, __: h.add(t[0], t[1])),
    _operator("mul", "multiply mul", 2, lambda h, t, __: h.mul(t[0], t[1])),
    _operator("where", "select where", 3, lambda h, t, __: h.where(t[0], t[1], t[2])),
    _operator("lerp", "lerp", 2, lambda h, t, s: h.lerp(t[0], t[1], _first(s, 0.5))),
    _operator("gelu(x + b)", "gelu", 2, lambda h, t, __: _f(h).gelu(t[0] + t[1])),
    _operator("gelu", "gelu", 1, lambda h, t, __: _f(h).gelu(t[0])),
    _operator("silu(a) * b", "silu_mul", 1, lambda h, t, __: _f(h).silu(t[0].chunk(2, -1)[0]) * t[0].chunk(2, -1)[1]),
    _operator("softmax", "softmax normalize", 1, lambda h, t, s: h.softmax(t[0] * _first(s, 1.0), dim=-1)),
    _operator("log_softmax", "log_softmax subtract", 1, lambda h, t, __: h.log_softmax(t[0], dim=-1)),
    _operator(
        "layer_norm", "layer_norm normalize", 3, lambda h, t, s: _f(h).layer_norm(t[0], t[0].shape[-1:], t[1], t[2], _first(s, 1e-5))
    ),
    _operator("layer_norm, plain", "layer_norm normalize moments", 1, lambda h, t, s: _f(h).layer_norm(t[0], t[0].shape[-1:], eps=_first(s, 1e-5))),
    _operator("rms_norm", "rms_norm normalize", 2, lambda h, t, s: _f(h).rms_norm(t[0], t[0].shape[-1:], t[1], _first(s, 1e-6))),
    _operator(
        "batch_norm", "batch_norm", 5,
        lambda h, t, s: _f(h).batch_norm(t[0], t[1], t[2], t[3], t[4], training=False, eps=_first(s, 1e-5)),
    ),
    _operator("sum(-1)", "reduce_sum sum", 1, lambda h, t, __: h.sum(t[0], dim=-1)),
    _operator("sum", "reduce_sum sum", 1, lambda h, t, __: h.sum(t[0])),
    _operator("sum of squares", "reduce_sum sum", 1, lambda h, t, __: h.sum(t[0] * t[0])),
    _operator("norm", "reduce_sum sqrt norm", 1, lambda h, t, __: h.linalg.vector_norm(t[0]).reshape(1)),
    _operator("mean(-1)", "reduce_mean mean", 1, lambda h, t, __: h.mean(t[0], dim=-1)),
    _operator("amax(-1)", "reduce_max max", 1, lambda h, t, __: h.amax(t[0], dim=-1)),
    _operator("amax(0)", "reduce_max max", 1, lambda h, t, __: h.amax(t[0], dim=0)),
    _operator("aminmax(-1)", "reduce_min", 1, lambda h, t, __: tuple(h.aminmax(t[0], dim=-1))),
    _operator("mean and std", "reduce_std", 1, lambda h, t, __: h.std_mean(t[0], dim=-1, correction=0)[::-1]),
    _operator("argmax(-1)", "argmax", 1, lambda h, t, __: h.argmax(t[0], dim=-1)),
    _operator("topk", "top_k", 1, lambda h, t, s: tuple(h.topk(t[0], int(s["dim:k"]), dim=-1)) if "dim:k" in s else None),
    _operator("sort(-1)", "sort", 1, lambda h, t, __: h.sort(t[0], dim=-1).values),
    _operator("cumsum", "prefix_sum cumsum scan", 1, lambda h, t, __: h.cumsum(t[0], dim=-1)),
    _operator("transpose", "transpose", 1, lambda _, t, __: t[0].transpose(-1, -2).contiguous()),
    _operator("matmul", "matmul", 2, lambda h, t, __: h.matmul(t[0], t[1])),
    _operator("matmul, b transposed", "matmul", 2, lambda h, t, __: h.matmul(t[0], t[1].transpose(-1, -2))),
    _operator("mv", "matvec", 2, lambda h, t, __: h.mv(t[0], t[1])),
    _operator("dot", "dot", 2, lambda h, t, __: h.dot(t[0], t[1])),
    _operator("mv of weights", "weighted_sum", 2, lambda h, t, __: h.mv(t[0], t[1])),
    _operator(
        "scaled_dot_product_attention", "softmax attention", 3,
        lambda h, t, s: _f(h).scaled_dot_product_attention(t[0][None], t[1][None], t[2][None], is_causal=True, scale=_first(s, 1.0))[0],
    ),
    _operator("conv2d", "conv2d", 3, lambda h, t, __: _f(h).conv2d(t[0], t[1], t[2], padding=t[1].shape[-1] // 2)),
    _operator("conv1d", "correlate", 2, lambda h, t, __: _f(h).conv1d(t[0][None, None], t[1][None, None])[0, 0]),
    _operator("cross_entropy", "log_sum_exp cross_entropy", 2, lambda h, t, __: _f(h).cross_entropy(t[0], t[1].long())),
    _operator("embedding_bag", "gather_sum", 2, lambda h, t, __: _f(h).embedding_bag(t[1], t[0], mode="sum")),
    _operator("embedding", "gather", 2, lambda h, t, __: _f(h).embedding(t[1], t[0])),
    _operator("bincount", "histogram", 1, lambda h, t, __: h.bincount(t[0], minlength=256)),
    _operator("cholesky", "cholesky", 1, lambda h, t, __: h.linalg.cholesky(t[0])),
    _operator("fft", "fft", 1, lambda h, t, __: h.view_as_real(h.fft.fft(h.view_as_complex(t[0])))),
    _operator(
        "complex product", "multiply", 2,
        lambda h, t, __: h.view_as_real(h.view_as_complex(t[0]) * h.view_as_complex(t[1]).conj()),
    ),
    _operator("float conversion", "convert", 1, lambda h, t, s: (t[0] * _first(s, 1.0)).clamp(-448.0, 448.0).to(h.float8_e4m3fn)),
)  # fmt: skip
"""In order of preference."""


def candidates(ir: KernelIR) -> list[str]:
    """Return names of operators that may compute this IR, the likeliest first."""
    ops = {s.op for s in ir.steps}
    return [o.name for o in OPERATORS if o.ops & ops and o.inputs == len(ir.inputs)]


def by_name(names: Sequence[str]) -> list[Operator]:
    """Return the operators of these names, in that order; unknown names are passed over."""
    table = {o.name: o for o in OPERATORS}
    return [table[n] for n in names if n in table]
