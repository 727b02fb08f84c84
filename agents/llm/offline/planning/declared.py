"""Outputs declared one a line, as benchmarks do: they say what the answer must look like, not what is computed."""

import math
import re
from dataclasses import dataclass
from typing import Any

from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.state.ir import KernelIR

_LINE = r"[-*]\s*(?P<name>\w+)\s*:\s*(?P<dtype>\w+)\s*,\s*shape\s*\((?P<shape>[\d,\s]*)\)[ \t]*"
_BLOCK = re.compile(r"(?m)^Outputs?:[ \t]*\n(?:" + _LINE.replace("?P<name>", "").replace("?P<dtype>", "").replace("?P<shape>", "") + r"(?:\n|\Z))+")  # fmt: skip


@dataclass(frozen=True)
class Declared:
    """One output as a request declares it."""

    name: str
    dtype: str
    count: int
    """Elements."""


def split_outputs(request: str) -> tuple[str, tuple[Declared, ...]]:
    """Return the request without its block of declared outputs, and what the block says."""
    block = _BLOCK.search(request)
    if block is None:
        return request, ()
    found = tuple(
        Declared(m["name"], m["dtype"], math.prod(int(n) for n in re.findall(r"\d+", m["shape"])))
        for m in re.finditer(_LINE, block[0])
    )
    return (request[: block.start()] + request[block.end() :]).strip(), found


def check_outputs(data: dict[str, Any], declared: tuple[Declared, ...]) -> None:
    """Check that the answer of an IR is the declared one; raises Refusal with the difference."""
    if not declared:
        return
    ir = KernelIR.model_validate(data)
    made = [(t.dtype, math.prod(t.dims(ir.target_dims))) for t in ir.outputs]
    if made != [(d.dtype, d.count) for d in declared]:
        shown = ", ".join(f"{count} x {dtype}" for dtype, count in made)
        wanted = ", ".join(f"{d.count} x {d.dtype} ({d.name})" for d in declared)
        msg = f"what was understood answers {shown}, and the outputs are declared as {wanted}"
        raise Refusal(msg)
