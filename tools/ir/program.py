"""A launch plan made concrete: names become buffers and numbers, loops are unrolled, limits are checked.

What is wrong with a plan is the candidate's failure, told as arithmetic it can act on.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cuda_harness.state.expr import RESERVED, Expr, Occupancy
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Copy, Fill, Launch, LaunchPlan, PlanStep, Repeat, Symbol, While
from cuda_harness.state.names import FLOATS, ITEM_BYTES
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    Buffer,
    CopyOp,
    DeviceFacts,
    FillOp,
    LaunchOp,
    Op,
    Program,
    SymbolOp,
    WhileOp,
)
from cuda_harness.tools.ir.arguments import INT_RANGE, arguments
from cuda_harness.tools.ir.limits import check_limits
from cuda_harness.tools.ir.scope import Broken, PlanFault, Scope, unknown
from cuda_harness.tools.toolchain.source import KernelSignature

__all__ = ["PlanFault", "expand"]

MAX_LAUNCHES = 100_000
MAX_STEPS = 1_000_000
MAX_ELEMENTS = 1 << 40
MAX_WHILE = 1_000_000


def expand(
    ir: KernelIR,
    plan: LaunchPlan,
    *,
    dims: Mapping[str, int],
    scalars: Mapping[str, float],
    tunables: Mapping[str, int] | None,
    kernels: Iterable[KernelSignature],
    device: DeviceFacts,
    occupancy: Occupancy | None = None,
) -> Program | PlanFault:
    """Return the plan for these sizes as operations, or what is wrong with it.

    Args:
        ir: Tensors, scalars and dims that the plan may name.
        plan: The plan.
        dims: A value for each dim.
        scalars: A value for each scalar; those left out take the IR's.
        tunables: Values over the defaults.
        kernels: Signatures parsed from the kernel's text.
        device: Limits that launches must keep.
        occupancy: Answers `blocks_per_sm`; `None`: two blocks, so that such plans run on the CPU executor.
    """
    try:
        return _Expansion(ir, plan, dims, scalars, tunables or {}, kernels, device, occupancy).program()
    except Broken as broken:
        return broken.fault


class _Expansion:
    def __init__(
        self,
        ir: KernelIR,
        plan: LaunchPlan,
        dims: Mapping[str, int],
        scalars: Mapping[str, float],
        tunables: Mapping[str, int],
        kernels: Iterable[KernelSignature],
        device: DeviceFacts,
        occupancy: Occupancy | None,
    ) -> None:
        self.ir, self.plan, self.device = ir, plan, device
        self._check_namespace(tunables)
        chosen = {**plan.default_tunables(), **tunables}
        self.scope = Scope(
            {**dims, **chosen, "num_sms": device.num_sms},
            {s.name: (s.dtype, scalars.get(s.name, s.value)) for s in ir.scalars},
            {k.name: k for k in kernels},
            occupancy or (lambda _kernel: 2),
        )
        self.macros = dict(chosen)
        for name, expr in plan.defines.items():
            self.macros[name] = self.scope.value(expr, f"define {name}")
        self.launches = self.steps = 0

    def _check_namespace(self, tunables: Mapping[str, int]) -> None:
        taken = (
            {d.name for d in self.ir.dims}
            | {t.name for t in self.ir.tensors}
            | {s.name for s in self.ir.scalars}
        )
        for what, names in (
            ("tunable", self.plan.tunables),
            ("scratch", {s.name: 0 for s in self.plan.scratch}),
        ):
            clash = sorted(set(names) & taken)
            if clash:
                raise Broken(
                    "parse", f"{what} {clash[0]!r} has the name of a dim, tensor or scalar of the IR"
                )
        for name in self.plan.defines:
            if name in {t.name for t in self.ir.tensors} | {s.name for s in self.ir.scalars}:
                raise Broken("parse", f"define {name!r} has the name of a tensor or scalar of the IR")
        for name in tunables:
            if name not in self.plan.tunables:
                raise unknown("tunable", name, self.plan.tunables)

    def program(self) -> Program:
        for tensor in self.ir.tensors:
            self._buffer(tensor.name, tensor.dtype, tensor.shape, tensor.role)
        for scratch in self.plan.scratch:
            self._buffer(scratch.name, scratch.dtype, scratch.shape, "scratch")
        ops = self._steps(self.plan.steps)
        return Program(tuple(self.scope.buffers.values()), tuple(ops), tuple(sorted(self.macros.items())))

    def _buffer(self, name: str, dtype: str, shape: tuple[Expr, ...], role: Any) -> None:  # noqa: ANN401 - a Literal
        sizes = tuple(self.scope.value(e, f"shape of {name!r}") for e in shape)
        count = 1
        for size in sizes:
            if size < 0:
                raise Broken(
                    "launch_config", f"shape of {name!r} is {list(sizes)}: a size is negative", buffer=name
                )
            count *= size
        if count > MAX_ELEMENTS:
            raise Broken("launch_config", f"{name!r} would have {count} elements", buffer=name)
        self.scope.buffers[name] = Buffer(name, dtype, count, role)
        self.scope.shapes[name] = sizes

    def _steps(self, steps: tuple[PlanStep, ...], *, in_while: bool = False) -> list[Op]:
        ops: list[Op] = []
        for step in steps:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise Broken("launch_config", f"the plan unrolls to more than {MAX_STEPS} steps")
            if step.when is not None and not self.scope.value(step.when, "when"):
                continue
            match step:
                case Launch():
                    op = self._launch(step)
                    if op is not None:
                        ops.append(op)
                case Fill():
                    ops.append(FillOp(self._writable(step.fill, "fill"), self._pattern(step)))
                case Copy():
                    ops.append(self._copy(step))
                case Symbol():
                    source = self.scope.known(step.from_, "buffer")
                    ops.append(SymbolOp(step.symbol, source.name))
                case Repeat():
                    ops.extend(self._repeat(step, in_while=in_while))
                case While():
                    ops.append(self._while(step, in_while=in_while))
        return ops

    def _repeat(self, step: Repeat, *, in_while: bool) -> list[Op]:
        name = step.repeat.var
        if (
            name in self.scope.env
            or name in self.scope.buffers
            or name in self.scope.scalars
            or name in RESERVED
        ):
            raise Broken("parse", f"loop variable {name!r} has the name of something else")
        count = self.scope.value(step.repeat.count, f"repeat {name}")
        if count < 0:
            raise Broken("launch_config", f"repeat {name}: the count is {count}")
        if count > MAX_STEPS:
            raise Broken("launch_config", f"repeat {name}: {count} rounds are more than {MAX_STEPS}")
        ops: list[Op] = []
        for index in range(count):
            self.scope.env[name] = index
            ops.extend(self._steps(step.steps, in_while=in_while))
        self.scope.env.pop(name, None)
        return ops

    def _while(self, step: While, *, in_while: bool) -> WhileOp:
        if in_while:
            raise Broken(
                "parse", "a while inside a while is not supported: put the inner loop into the kernel"
            )
        flag = self.scope.known(step.while_.flag, "scratch buffer")
        if flag.count < 1:
            raise Broken("launch_config", f"the flag {flag.name!r} has no element")
        limit = self.scope.value(step.while_.max, "while max")
        if not 0 <= limit <= MAX_WHILE:
            raise Broken("launch_config", f"while max is {limit}; it must lie in 0..{MAX_WHILE}")
        return WhileOp(flag.name, limit, tuple(self._steps(step.steps, in_while=True)))

    def _writable(self, name: str, verb: str) -> str:
        buffer = self.scope.known(name, "buffer")
        if buffer.role == "in":
            raise Broken("parse", f"{verb} {name!r}: inputs are read-only")
        return name

    def _copy(self, step: Copy) -> CopyOp:
        target, source = step.copy_
        self._writable(target, "copy to")
        to, from_ = self.scope.known(target, "buffer"), self.scope.known(source, "buffer")
        sizes = [b.count * ITEM_BYTES[b.dtype] for b in (to, from_)]
        if sizes[0] != sizes[1]:
            raise Broken(
                "launch_config", f"copy: {target!r} has {sizes[0]} bytes and {source!r} has {sizes[1]}"
            )
        return CopyOp(target, source)

    def _pattern(self, step: Fill) -> bytes:
        buffer = self.scope.known(step.fill, "buffer")
        dtype, value = buffer.dtype, step.value
        number: float | int
        if dtype in FLOATS:
            info = _finfo(dtype)
            words = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan, "min": info[0], "max": info[1]}
            number = words[value] if isinstance(value, str) else value
        else:
            low, high = INT_RANGE[dtype]
            if isinstance(value, str) and value not in {"min", "max"}:
                raise Broken("parse", f"fill {step.fill!r}: {value!r} is no value of {dtype}")
            number = {"min": low, "max": high}[value] if isinstance(value, str) else value
            if number != int(number) or not low <= number <= high:
                raise Broken("parse", f"fill {step.fill!r}: {number} is no value of {dtype} ({low}..{high})")
            number = int(number)
        with np.errstate(all="ignore"):
            return np.asarray(number).astype(np_dtype(dtype)).tobytes()

    def _launch(self, step: Launch) -> LaunchOp | None:
        signature = self.scope.kernels.get(step.launch)
        if signature is None:
            raise unknown("kernel", step.launch, self.scope.kernels)
        if not signature.is_extern_c or signature.is_template:
            raise Broken(
                "parse",
                f'kernel {step.launch!r} must be extern "C" __global__ and no template',
                line=signature.line,
            )
        where = f"launch {step.launch}"
        grid = self.scope.axes(step.grid, f"{where}: grid")
        block = self.scope.axes(step.block, f"{where}: block")
        shared = self.scope.value(step.shared_bytes, f"{where}: shared_bytes")
        args = arguments(self.scope, step.args, signature, where)
        if any(g < 0 for g in grid):
            raise Broken("launch_config", f"{where}: grid {list(grid)} is negative", grid=list(grid))
        if 0 in grid:
            return None
        self.launches += 1
        if self.launches > MAX_LAUNCHES:
            raise Broken("launch_config", f"the plan makes more than {MAX_LAUNCHES} launches")
        cluster = self.scope.axes(step.cluster, f"{where}: cluster") if step.cluster else None
        check_limits(self.device, where, signature, grid, block, shared, cluster)
        return LaunchOp(step.launch, grid, block, shared, tuple(args), step.cooperative, cluster)


def _finfo(dtype: str) -> tuple[float, float]:
    """Return the lowest and highest finite value of a float type."""
    known = {
        "float16": 65504.0, "float8_e4m3": 448.0, "float8_e5m2": 57344.0,
        "bfloat16": struct.unpack("<f", b"\x00\x00\x7f\x7f")[0],
    }  # fmt: skip
    high = known[dtype] if dtype in known else float(np.finfo(np_dtype(dtype)).max)
    return -high, high
