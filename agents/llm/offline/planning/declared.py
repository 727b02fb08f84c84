"""Arrays declared one a line, as benchmarks do: they say what comes in and goes out, not what is computed."""

import math
import re
from dataclasses import dataclass
from typing import Any

from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.state.ir import KernelIR, Tensor

_LINE = re.compile(
    r"[-*]\s*(?P<name>\w+)\s*:\s*(?P<dtype>\w+)\s*,\s*shape\s*\((?P<shape>[\d,\s]*)\)[ \t]*(?:\n|\Z)"
)
_LINES = re.sub(r"\?P<\w+>", "", _LINE.pattern)
_OUTPUTS = re.compile(rf"(?m)^Outputs?:[ \t]*\n(?:{_LINES})+")
_INPUTS = re.compile(rf"(?m)^Inputs?:[ \t]*\n(?:{_LINES})+")


@dataclass(frozen=True)
class Declared:
    """One array as a request declares it."""

    name: str
    dtype: str
    count: int
    """Elements."""


@dataclass(frozen=True)
class Interface:
    """The arrays that a request declares; empty where it declares none."""

    inputs: tuple[Declared, ...] = ()
    outputs: tuple[Declared, ...] = ()


def split_outputs(request: str) -> tuple[str, Interface]:
    """Return the request without its block of declared outputs, and every declared array.

    The inputs stay in the text: their shapes are the sizes of the problem.
    """
    block = _OUTPUTS.search(request)
    if block is None:
        return request, Interface()
    inputs = _INPUTS.search(request)
    declared = Interface(_read(inputs[0]) if inputs else (), _read(block[0]))
    return (request[: block.start()] + request[block.end() :]).strip(), declared


def _read(block: str) -> tuple[Declared, ...]:
    return tuple(
        Declared(m["name"], m["dtype"], math.prod(int(n) for n in re.findall(r"\d+", m["shape"])))
        for m in _LINE.finditer(block)
    )


def check_interface(data: dict[str, Any], declared: Interface) -> None:
    """Check that an IR takes and gives the declared arrays; raises Refusal with the difference."""
    if not declared.outputs:
        return
    ir = KernelIR.model_validate(data)
    _agree("answers", ir, ir.outputs, declared.outputs)
    if declared.inputs:
        _agree("takes", ir, ir.inputs, declared.inputs)


def _agree(verb: str, ir: KernelIR, tensors: tuple[Tensor, ...], declared: tuple[Declared, ...]) -> None:
    made = [(t.dtype, math.prod(t.dims(ir.target_dims))) for t in tensors]
    if made != [(d.dtype, d.count) for d in declared]:
        shown = ", ".join(f"{count} x {dtype}" for dtype, count in made)
        wanted = ", ".join(f"{d.count} x {d.dtype} ({d.name})" for d in declared)
        msg = f"what was understood {verb} {shown}, and the request declares {wanted}"
        raise Refusal(msg)
