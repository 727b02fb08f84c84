"""A launch plan made concrete: names become buffers and numbers, loops are unrolled, limits are checked.

What is wrong with a plan is the candidate's failure, told as arithmetic it can act on.
"""

import difflib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuda_harness.state.expr import RESERVED, Expr, ExprError, Occupancy
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import (
    Argument,
    Copy,
    Fill,
    Launch,
    LaunchPlan,
    Pick,
    PlanStep,
    Repeat,
    Symbol,
    TensorMapArg,
    While,
)
from cuda_harness.state.names import FLOATS, ITEM_BYTES
from cuda_harness.state.results import CandidateFault, StageName
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    Arg,
    Buffer,
    CopyOp,
    DeviceFacts,
    FillOp,
    LaunchOp,
    Op,
    PointerArg,
    Program,
    SymbolOp,
    TensorMapValue,
    ValueArg,
    WhileOp,
)
from cuda_harness.tools.toolchain.source import KernelSignature, Parameter

MAX_LAUNCHES = 100_000
MAX_STEPS = 1_000_000
MAX_ELEMENTS = 1 << 40
MAX_WHILE = 1_000_000

_INT_RANGE = {
    "int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1), "uint8": (0, 2**8 - 1), "uint16": (0, 2**16 - 1), "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1), "bool": (0, 1),
}  # fmt: skip


@dataclass(frozen=True)
class PlanFault:
    """Why a plan cannot run: the candidate's own mistake."""

    stage: StageName
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def class_(self) -> CandidateFault:
        """`parse` for what is wrong at any size, `launch_config` for what these sizes break."""
        return "parse" if self.stage == "parse" else "launch_config"


class _Broken(Exception):  # noqa: N818 - carries a PlanFault out of the recursion
    def __init__(self, stage: StageName, message: str, **evidence: Any) -> None:  # noqa: ANN401
        super().__init__(message)
        self.fault = PlanFault(stage, message, evidence)


def _unknown(what: str, name: str, known: Iterable[str]) -> _Broken:
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return _Broken(
        "parse",
        f"the plan names an unknown {what} {name!r}{hint} (known: {', '.join(known) or 'none'})",
        name=name,
    )


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
    except _Broken as broken:
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
        self.kernels = {k.name: k for k in kernels}
        self.occupancy: Occupancy = occupancy or (lambda _kernel: 2)
        self.scalars = {s.name: (s.dtype, scalars.get(s.name, s.value)) for s in ir.scalars}
        self._check_namespace(tunables)
        chosen = {**plan.default_tunables(), **tunables}
        self.env: dict[str, int] = {**dims, **chosen, "num_sms": device.num_sms}
        self.macros = dict(chosen)
        for name, expr in plan.defines.items():
            self.macros[name] = self.value(expr, f"define {name}")
        self.launches = self.steps = 0
        self.buffers: dict[str, Buffer] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}

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
                raise _Broken(
                    "parse", f"{what} {clash[0]!r} has the name of a dim, tensor or scalar of the IR"
                )
        for name in self.plan.defines:
            if name in {t.name for t in self.ir.tensors} | {s.name for s in self.ir.scalars}:
                raise _Broken("parse", f"define {name!r} has the name of a tensor or scalar of the IR")
        for name in tunables:
            if name not in self.plan.tunables:
                raise _unknown("tunable", name, self.plan.tunables)

    def value(self, expr: Expr, where: str) -> int:
        """Return an expression's value; what goes wrong names the place."""
        unknown = expr.names - self.env.keys()
        if unknown:
            name = min(unknown)
            if name in self.scalars:
                raise _Broken(
                    "parse",
                    f"{where}: {name!r} is a scalar; expressions hold dims, tunables and loop variables",
                )
            raise _unknown(f"name in {where} ({expr.text!r}):", name, self.env)
        for kernel in expr.kernels:
            if kernel not in self.kernels:
                raise _unknown(f"kernel in {where}", kernel, self.kernels)
        try:
            return expr.evaluate(self.env, self.occupancy)
        except ExprError as exc:
            raise _Broken("launch_config", f"{where}: {exc}", expression=expr.text) from exc

    def program(self) -> Program:
        for tensor in self.ir.tensors:
            self._buffer(tensor.name, tensor.dtype, tensor.shape, tensor.role)
        for scratch in self.plan.scratch:
            self._buffer(scratch.name, scratch.dtype, scratch.shape, "scratch")
        ops = self._steps(self.plan.steps)
        return Program(tuple(self.buffers.values()), tuple(ops), tuple(sorted(self.macros.items())))

    def _buffer(self, name: str, dtype: str, shape: tuple[Expr, ...], role: Any) -> None:  # noqa: ANN401 - a Literal
        sizes = tuple(self.value(e, f"shape of {name!r}") for e in shape)
        count = 1
        for size in sizes:
            if size < 0:
                raise _Broken(
                    "launch_config", f"shape of {name!r} is {list(sizes)}: a size is negative", buffer=name
                )
            count *= size
        if count > MAX_ELEMENTS:
            raise _Broken("launch_config", f"{name!r} would have {count} elements", buffer=name)
        self.buffers[name] = Buffer(name, dtype, count, role)
        self.shapes[name] = sizes

    def _steps(self, steps: tuple[PlanStep, ...], *, in_while: bool = False) -> list[Op]:
        ops: list[Op] = []
        for step in steps:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise _Broken("launch_config", f"the plan unrolls to more than {MAX_STEPS} steps")
            if step.when is not None and not self.value(step.when, "when"):
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
                    source = self._known(step.from_, "buffer")
                    ops.append(SymbolOp(step.symbol, source.name))
                case Repeat():
                    ops.extend(self._repeat(step, in_while=in_while))
                case While():
                    ops.append(self._while(step, in_while=in_while))
        return ops

    def _repeat(self, step: Repeat, *, in_while: bool) -> list[Op]:
        name = step.repeat.var
        if name in self.env or name in self.buffers or name in self.scalars or name in RESERVED:
            raise _Broken("parse", f"loop variable {name!r} has the name of something else")
        count = self.value(step.repeat.count, f"repeat {name}")
        if count < 0:
            raise _Broken("launch_config", f"repeat {name}: the count is {count}")
        if count > MAX_STEPS:
            raise _Broken("launch_config", f"repeat {name}: {count} rounds are more than {MAX_STEPS}")
        ops: list[Op] = []
        for index in range(count):
            self.env[name] = index
            ops.extend(self._steps(step.steps, in_while=in_while))
        self.env.pop(name, None)
        return ops

    def _while(self, step: While, *, in_while: bool) -> WhileOp:
        if in_while:
            raise _Broken(
                "parse", "a while inside a while is not supported: put the inner loop into the kernel"
            )
        flag = self._known(step.while_.flag, "scratch buffer")
        if flag.count < 1:
            raise _Broken("launch_config", f"the flag {flag.name!r} has no element")
        limit = self.value(step.while_.max, "while max")
        if not 0 <= limit <= MAX_WHILE:
            raise _Broken("launch_config", f"while max is {limit}; it must lie in 0..{MAX_WHILE}")
        return WhileOp(flag.name, limit, tuple(self._steps(step.steps, in_while=True)))

    def _known(self, name: str, what: str) -> Buffer:
        if name not in self.buffers:
            raise _unknown(what, name, self.buffers)
        return self.buffers[name]

    def _writable(self, name: str, verb: str) -> str:
        buffer = self._known(name, "buffer")
        if buffer.role == "in":
            raise _Broken("parse", f"{verb} {name!r}: inputs are read-only")
        return name

    def _copy(self, step: Copy) -> CopyOp:
        target, source = step.copy_
        self._writable(target, "copy to")
        to, from_ = self._known(target, "buffer"), self._known(source, "buffer")
        sizes = [b.count * ITEM_BYTES[b.dtype] for b in (to, from_)]
        if sizes[0] != sizes[1]:
            raise _Broken(
                "launch_config", f"copy: {target!r} has {sizes[0]} bytes and {source!r} has {sizes[1]}"
            )
        return CopyOp(target, source)

    def _pattern(self, step: Fill) -> bytes:
        buffer = self._known(step.fill, "buffer")
        dtype, value = buffer.dtype, step.value
        number: float | int
        if dtype in FLOATS:
            info = _finfo(dtype)
            words = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan, "min": info[0], "max": info[1]}
            number = words[value] if isinstance(value, str) else value
        else:
            low, high = _INT_RANGE[dtype]
            if isinstance(value, str) and value not in {"min", "max"}:
                raise _Broken("parse", f"fill {step.fill!r}: {value!r} is no value of {dtype}")
            number = {"min": low, "max": high}[value] if isinstance(value, str) else value
            if number != int(number) or not low <= number <= high:
                raise _Broken("parse", f"fill {step.fill!r}: {number} is no value of {dtype} ({low}..{high})")
            number = int(number)
        with np.errstate(all="ignore"):
            return np.asarray(number).astype(np_dtype(dtype)).tobytes()

    def _launch(self, step: Launch) -> LaunchOp | None:
        signature = self.kernels.get(step.launch)
        if signature is None:
            raise _unknown("kernel", step.launch, self.kernels)
        if not signature.is_extern_c or signature.is_template:
            raise _Broken(
                "parse",
                f'kernel {step.launch!r} must be extern "C" __global__ and no template',
                line=signature.line,
            )
        where = f"launch {step.launch}"
        grid = self._axes(step.grid, f"{where}: grid")
        block = self._axes(step.block, f"{where}: block")
        shared = self.value(step.shared_bytes, f"{where}: shared_bytes")
        args = self._arguments(step.args, signature, where)
        if any(g < 0 for g in grid):
            raise _Broken("launch_config", f"{where}: grid {list(grid)} is negative", grid=list(grid))
        if 0 in grid:
            return None
        self.launches += 1
        if self.launches > MAX_LAUNCHES:
            raise _Broken("launch_config", f"the plan makes more than {MAX_LAUNCHES} launches")
        cluster = self._axes(step.cluster, f"{where}: cluster") if step.cluster else None
        self._check_limits(where, signature, grid, block, shared, cluster)
        return LaunchOp(step.launch, grid, block, shared, tuple(args), step.cooperative, cluster)

    def _axes(self, exprs: tuple[Expr, ...], where: str) -> tuple[int, int, int]:
        values = [self.value(e, where) for e in exprs]
        padded = (*values, 1, 1)[:3]
        return (padded[0], padded[1], padded[2])

    def _check_limits(
        self,
        where: str,
        signature: KernelSignature,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        cluster: tuple[int, int, int] | None,
    ) -> None:
        d = self.device
        threads = block[0] * block[1] * block[2]
        for axis, size, most in zip("xyz", block, d.max_block, strict=True):
            if not 1 <= size <= most:
                raise _Broken(
                    "launch_config",
                    f"{where}: block.{axis} is {size}; it must lie in 1..{most}",
                    block=list(block),
                )
        if threads > d.max_threads_per_block:
            arithmetic = " x ".join(map(str, block))
            raise _Broken(
                "launch_config",
                f"{where}: a block of {arithmetic} = {threads} threads is more than {d.max_threads_per_block}",
                block=list(block),
            )
        if signature.launch_bounds is not None and threads > signature.launch_bounds:
            raise _Broken(
                "launch_config",
                f"{where}: {threads} threads, but __launch_bounds__ promises at most {signature.launch_bounds}",
                block=list(block), line=signature.line,
            )  # fmt: skip
        for axis, size, most in zip("xyz", grid, d.max_grid, strict=True):
            if size > most:
                raise _Broken(
                    "launch_config",
                    f"{where}: grid.{axis} is {size}; at most {most} blocks fit that axis",
                    grid=list(grid),
                )
        if not 0 <= shared <= d.shared_bytes_optin:
            raise _Broken(
                "launch_config",
                f"{where}: {shared} bytes of dynamic shared memory; a block may have {d.shared_bytes_optin}",
                shared_bytes=shared,
            )
        if cluster is not None:
            size = cluster[0] * cluster[1] * cluster[2]
            if any(c < 1 or g % c for g, c in zip(grid, cluster, strict=True)) or size > 16:
                raise _Broken(
                    "launch_config",
                    f"{where}: cluster {list(cluster)} does not divide grid {list(grid)} or is larger than 16",
                )

    def _arguments(self, args: tuple[Argument, ...], signature: KernelSignature, where: str) -> list[Arg]:
        wanted = signature.parameters
        if len(args) != len(wanted):
            shown = ", ".join(f"{p.c_type}{'*' if p.is_pointer else ''} {p.name}" for p in wanted)
            raise _Broken(
                "parse",
                f"{where}: {len(args)} arguments for {len(wanted)} parameters ({shown})",
                line=signature.line,
            )
        return [
            self._argument(
                arg, parameter, f"{where}, argument {index + 1} ({parameter.name or parameter.c_type})"
            )
            for index, (arg, parameter) in enumerate(zip(args, wanted, strict=True))
        ]

    def _argument(self, arg: Argument, parameter: Parameter, where: str) -> Arg:
        if isinstance(arg, Pick):
            index = self.value(arg.index, f"{where}: pick")
            if not 0 <= index < len(arg.pick):
                raise _Broken(
                    "launch_config", f"{where}: pick index {index} is outside 0..{len(arg.pick) - 1}"
                )
            for name in arg.pick:
                self._known(name, "buffer in a pick")
            return self._pointer(arg.pick[index], parameter, where)
        if isinstance(arg, TensorMapArg):
            return self._tensor_map(arg, parameter, where)
        if isinstance(arg, str) and arg in self.buffers:
            return self._pointer(arg, parameter, where)
        if isinstance(arg, str) and arg in self.scalars:
            return self._scalar(arg, parameter, where)
        return self._integer(arg, parameter, where)

    def _pointer(self, name: str, parameter: Parameter, where: str) -> PointerArg:
        buffer = self.buffers[name]
        if not parameter.is_pointer:
            raise _Broken(
                "parse", f"{where}: {name!r} is a buffer, the parameter is {parameter.c_type} by value"
            )
        if parameter.dtype is not None and not _compatible(parameter.dtype, buffer.dtype):
            raise _Broken(
                "parse",
                f"{where}: the parameter points to {parameter.c_type}, {name!r} holds {buffer.dtype}",
                buffer=name,
            )
        return PointerArg(name)

    def _scalar(self, name: str, parameter: Parameter, where: str) -> ValueArg:
        dtype, value = self.scalars[name]
        if parameter.is_pointer:
            raise _Broken("parse", f"{where}: scalar {name!r} is passed by value, the parameter is a pointer")
        target = parameter.dtype or dtype
        if parameter.lanes != 1 or (target in FLOATS) != (dtype in FLOATS):
            raise _Broken(
                "parse", f"{where}: scalar {name!r} is {dtype}, the parameter is {parameter.c_type}"
            )
        if target not in FLOATS:
            self._in_range(int(value), target, where, name)
            return ValueArg(target, int(value) if target != "bool" else bool(value))
        return ValueArg(target, float(value))

    def _integer(self, arg: str | int, parameter: Parameter, where: str) -> ValueArg:
        text, _, dtype = str(arg).rpartition(":") if ":" in str(arg) else (str(arg), "", "")
        dtype = dtype.strip()
        if parameter.is_pointer:
            raise _unknown(f"buffer in {where}:", str(arg), self.buffers)
        if dtype and dtype not in ITEM_BYTES:
            raise _Broken("parse", f"{where}: {dtype!r} is no dtype")
        try:
            expr = Expr(text)
        except ExprError as exc:
            raise _Broken("parse", f"{where}: {exc}") from exc
        value = self.value(expr, where)
        target = dtype or parameter.dtype
        if target is None or parameter.lanes != 1:
            raise _Broken(
                "parse", f"{where}: an integer cannot be a {parameter.c_type}; say the type as 'expr:dtype'"
            )
        if parameter.dtype is not None and ITEM_BYTES[target] != ITEM_BYTES[parameter.dtype]:
            raise _Broken(
                "parse",
                f"{where}: {target} is {ITEM_BYTES[target]} bytes wide, the parameter {parameter.c_type} is {ITEM_BYTES[parameter.dtype]}",
            )
        if parameter.dtype is not None and (target in FLOATS) != (parameter.dtype in FLOATS):
            raise _Broken("parse", f"{where}: {target} for a parameter of type {parameter.c_type}")
        if target in FLOATS:
            return ValueArg(target, float(value))
        self._in_range(value, target, where, text)
        return ValueArg(target, bool(value) if target == "bool" else value)

    @staticmethod
    def _in_range(value: int, dtype: str, where: str, text: str) -> None:
        low, high = _INT_RANGE[dtype]
        if not low <= value <= high:
            raise _Broken(
                "launch_config",
                f"{where}: {text} = {value} does not fit {dtype} ({low}..{high})",
                value=value,
            )

    def _tensor_map(self, arg: TensorMapArg, parameter: Parameter, where: str) -> TensorMapValue:
        spec = arg.tensor_map
        buffer = self._known(spec.tensor, "buffer of a tensor map")
        if not parameter.is_tensor_map:
            raise _Broken(
                "parse", f"{where}: the parameter of a tensor map is `const __grid_constant__ CUtensorMap`"
            )
        shape = self.shapes[buffer.name]
        box = tuple(self.value(e, f"{where}: box") for e in spec.box)
        if len(box) != len(shape):
            raise _Broken("parse", f"{where}: a box of {len(box)} axes for {buffer.name!r} of {len(shape)}")
        if any(not 1 <= b <= 256 for b in box):
            raise _Broken("launch_config", f"{where}: box {list(box)}; each side must lie in 1..256")
        return TensorMapValue(buffer.name, buffer.dtype, shape, box, spec.swizzle, spec.l2, spec.oob)


def _compatible(parameter: str, buffer: str) -> bool:
    """Return whether a pointer to `parameter` may view `buffer`: the same type, a packed integer view, or raw bytes."""
    if parameter == buffer:
        return True
    if (
        ITEM_BYTES[parameter] == 1
        and parameter not in FLOATS
        and buffer in {"uint8", "int8", "bool", "float8_e4m3", "float8_e5m2"}
    ):
        return True
    if parameter == "uint8":
        return True  # raw bytes
    wide, narrow = ITEM_BYTES[parameter], ITEM_BYTES[buffer]
    if parameter in FLOATS:
        return False
    if buffer in FLOATS:
        return wide > narrow or (
            narrow == 2 and parameter == "uint16"
        )  # packed loads of half types, or their bits
    return wide >= narrow


def _finfo(dtype: str) -> tuple[float, float]:
    """Return the lowest and highest finite value of a float type."""
    known = {
        "float16": 65504.0, "float8_e4m3": 448.0, "float8_e5m2": 57344.0,
        "bfloat16": struct.unpack("<f", b"\x00\x00\x7f\x7f")[0],
    }  # fmt: skip
    high = known[dtype] if dtype in known else float(np.finfo(np_dtype(dtype)).max)
    return -high, high
