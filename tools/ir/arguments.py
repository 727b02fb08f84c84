"""The arguments of a launch: each bound to its parameter by kind, width and range."""

from cuda_harness.state.expr import Expr, ExprError
from cuda_harness.state.kernel import Argument, Pick, TensorMapArg
from cuda_harness.state.names import FLOATS, ITEM_BYTES
from cuda_harness.tools.execute.protocol import Arg, PointerArg, TensorMapValue, ValueArg
from cuda_harness.tools.ir.scope import Broken, Scope, unknown
from cuda_harness.tools.toolchain.source import KernelSignature, Parameter

INT_RANGE = {
    "int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1), "uint8": (0, 2**8 - 1), "uint16": (0, 2**16 - 1), "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1), "bool": (0, 1),
}  # fmt: skip
"""Lowest and highest value of each integer type."""


def arguments(scope: Scope, args: tuple[Argument, ...], signature: KernelSignature, where: str) -> list[Arg]:
    """Return the arguments of a launch in the types of the kernel's parameters; raises Broken where they do not fit."""
    wanted = signature.parameters
    if len(args) != len(wanted):
        shown = ", ".join(f"{p.c_type}{'*' if p.is_pointer else ''} {p.name}" for p in wanted)
        raise Broken(
            "parse",
            f"{where}: {len(args)} arguments for {len(wanted)} parameters ({shown})",
            line=signature.line,
        )
    return [
        _argument(
            scope, arg, parameter, f"{where}, argument {index + 1} ({parameter.name or parameter.c_type})"
        )
        for index, (arg, parameter) in enumerate(zip(args, wanted, strict=True))
    ]


def _argument(scope: Scope, arg: Argument, parameter: Parameter, where: str) -> Arg:
    if isinstance(arg, Pick):
        index = scope.value(arg.index, f"{where}: pick")
        if not 0 <= index < len(arg.pick):
            raise Broken("launch_config", f"{where}: pick index {index} is outside 0..{len(arg.pick) - 1}")
        for name in arg.pick:
            scope.known(name, "buffer in a pick")
        return _pointer(scope, arg.pick[index], parameter, where)
    if isinstance(arg, TensorMapArg):
        return _tensor_map(scope, arg, parameter, where)
    if isinstance(arg, str) and arg in scope.buffers:
        return _pointer(scope, arg, parameter, where)
    if isinstance(arg, str) and arg in scope.scalars:
        return _scalar(scope, arg, parameter, where)
    return _integer(scope, arg, parameter, where)


def _pointer(scope: Scope, name: str, parameter: Parameter, where: str) -> PointerArg:
    buffer = scope.buffers[name]
    if not parameter.is_pointer:
        raise Broken("parse", f"{where}: {name!r} is a buffer, the parameter is {parameter.c_type} by value")
    if parameter.dtype is not None and not _compatible(parameter.dtype, buffer.dtype):
        raise Broken(
            "parse",
            f"{where}: the parameter points to {parameter.c_type}, {name!r} holds {buffer.dtype}",
            buffer=name,
        )
    return PointerArg(name)


def _scalar(scope: Scope, name: str, parameter: Parameter, where: str) -> ValueArg:
    dtype, value = scope.scalars[name]
    if parameter.is_pointer:
        raise Broken("parse", f"{where}: scalar {name!r} is passed by value, the parameter is a pointer")
    target = parameter.dtype or dtype
    if parameter.lanes != 1 or (target in FLOATS) != (dtype in FLOATS):
        raise Broken("parse", f"{where}: scalar {name!r} is {dtype}, the parameter is {parameter.c_type}")
    if target not in FLOATS:
        _in_range(int(value), target, where, name)
        return ValueArg(target, int(value) if target != "bool" else bool(value))
    return ValueArg(target, float(value))


def _integer(scope: Scope, arg: str | int, parameter: Parameter, where: str) -> ValueArg:
    text, _, dtype = str(arg).rpartition(":") if ":" in str(arg) else (str(arg), "", "")
    dtype = dtype.strip()
    if parameter.is_pointer:
        raise unknown(f"buffer in {where}:", str(arg), scope.buffers)
    if dtype and dtype not in ITEM_BYTES:
        raise Broken("parse", f"{where}: {dtype!r} is no dtype")
    try:
        expr = Expr(text)
    except ExprError as exc:
        raise Broken("parse", f"{where}: {exc}") from exc
    value = scope.value(expr, where)
    target = dtype or parameter.dtype
    if target is None or parameter.lanes != 1:
        raise Broken(
            "parse", f"{where}: an integer cannot be a {parameter.c_type}; say the type as 'expr:dtype'"
        )
    if parameter.dtype is not None and ITEM_BYTES[target] != ITEM_BYTES[parameter.dtype]:
        raise Broken(
            "parse",
            f"{where}: {target} is {ITEM_BYTES[target]} bytes wide, the parameter {parameter.c_type} is {ITEM_BYTES[parameter.dtype]}",
        )
    if parameter.dtype is not None and (target in FLOATS) != (parameter.dtype in FLOATS):
        raise Broken("parse", f"{where}: {target} for a parameter of type {parameter.c_type}")
    if target in FLOATS:
        return ValueArg(target, float(value))
    _in_range(value, target, where, text)
    return ValueArg(target, bool(value) if target == "bool" else value)


def _in_range(value: int, dtype: str, where: str, text: str) -> None:
    low, high = INT_RANGE[dtype]
    if not low <= value <= high:
        raise Broken(
            "launch_config",
            f"{where}: {text} = {value} does not fit {dtype} ({low}..{high})",
            value=value,
        )


def _tensor_map(scope: Scope, arg: TensorMapArg, parameter: Parameter, where: str) -> TensorMapValue:
    spec = arg.tensor_map
    buffer = scope.known(spec.tensor, "buffer of a tensor map")
    if not parameter.is_tensor_map:
        raise Broken(
            "parse", f"{where}: the parameter of a tensor map is `const __grid_constant__ CUtensorMap`"
        )
    shape = scope.shapes[buffer.name]
    box = tuple(scope.value(e, f"{where}: box") for e in spec.box)
    if len(box) != len(shape):
        raise Broken("parse", f"{where}: a box of {len(box)} axes for {buffer.name!r} of {len(shape)}")
    if any(not 1 <= b <= 256 for b in box):
        raise Broken("launch_config", f"{where}: box {list(box)}; each side must lie in 1..256")
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
