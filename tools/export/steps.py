"""The steps of a plan as C++: what `tools.ir.program.expand` does with numbers, here with variables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cuda_harness.state.expr import Expr
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
from cuda_harness.tools.export.device import NAMESPACE, blocks_of
from cuda_harness.tools.export.document import fill_pattern
from cuda_harness.tools.export.expression import to_cpp
from cuda_harness.tools.toolchain.source import KernelSignature, Parameter

C_INTEGERS = {
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long", "uint8": "unsigned char",
    "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
}  # fmt: skip
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_MAP_TYPES = {
    "uint8": "UINT8", "int8": "UINT8", "bool": "UINT8", "float8_e4m3": "UINT8", "float8_e5m2": "UINT8",
    "uint16": "UINT16", "int16": "UINT16", "uint32": "UINT32", "int32": "INT32", "uint64": "UINT64", "int64": "INT64",
    "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT32", "float64": "FLOAT64",
}  # fmt: skip


@dataclass
class StepWriter:
    """Writes the body of `main` between the uploads and the downloads."""

    ir: KernelIR
    plan: LaunchPlan
    kernels: dict[str, KernelSignature]
    names: dict[str, str]
    """Dims, tunables, `num_sms` and loop variables in C++."""
    dtypes: Mapping[str, str]
    """Of tensors and scratch buffers."""
    shapes: Mapping[str, tuple[Expr, ...]]
    needs_fill: bool = False
    needs_tensor_map: bool = False
    _lines: list[str] = field(default_factory=list)
    _depth: int = 1

    def value(self, expr: Expr) -> str:
        """Return an expression in C++."""
        return to_cpp(expr, self.names, self._occupancy)

    def write(self) -> str:
        """Return the whole plan as statements."""
        self._steps(self.plan.steps)
        return "".join(self._lines)

    def _line(self, text: str) -> None:
        self._lines.append("  " * self._depth + text + "\n")

    def _occupancy(self, kernel: str) -> str:
        found = blocks_of(self.plan, kernel)
        block, shared = found or ((Expr(1),), Expr(0))
        return (
            f'blocks_per_sm((const void*)&{NAMESPACE}::{kernel}, "{kernel}", {self._axes(block)}, '
            f"{self.value(shared)})"
        )

    def _axes(self, exprs: Iterable[Expr]) -> str:
        values = [self.value(e) for e in exprs]
        return "Shape{" + ", ".join([*values, "1", "1"][:3]) + "}"

    def _steps(self, steps: tuple[PlanStep, ...]) -> None:
        for step in steps:
            if step.when is not None:
                self._line(f"if ({self.value(step.when)} != 0) {{")
                self._depth += 1
            self._step(step)
            if step.when is not None:
                self._depth -= 1
                self._line("}")

    def _step(self, step: PlanStep) -> None:
        match step:
            case Launch():
                self._launch(step)
            case Fill():
                self._fill(step)
            case Copy():
                self._line(f"copy(b_{step.copy_[0]}, b_{step.copy_[1]});")
            case Symbol():
                self._symbol(step)
            case Repeat():
                self._repeat(step)
            case While():
                self._while(step)

    def _repeat(self, step: Repeat) -> None:
        name = step.repeat.var
        count = self.value(step.repeat.count)
        self._line(
            f"for (i64 v_{name} = 0, end_{name} = counted({count}); v_{name} < end_{name}; ++v_{name}) {{"
        )
        self.names[name] = f"v_{name}"
        self._depth += 1
        self._steps(step.steps)
        self._depth -= 1
        del self.names[name]
        self._line("}")

    def _while(self, step: While) -> None:
        flag = step.while_.flag
        item = ITEM_BYTES[self.dtypes[flag]]
        limit = self.value(step.while_.max)
        self._line(
            f"for (i64 pass = 0, most = counted({limit}); pass < most && is_set(b_{flag}, {item}); ++pass) {{"
        )
        self._depth += 1
        self._steps(step.steps)
        self._depth -= 1
        self._line("}")

    def _symbol(self, step: Symbol) -> None:
        name = f"{NAMESPACE}::{step.symbol}"
        buffer = f"b_{step.from_}"
        self._line(
            f"if ({buffer}.bytes) check(cudaMemcpyToSymbolAsync({name}, {buffer}.data, {buffer}.bytes, 0, "
            f'cudaMemcpyDeviceToDevice, 0), "filling the symbol", "{step.symbol}");'
        )

    def _fill(self, step: Fill) -> None:
        pattern = fill_pattern(self.ir, self.plan, step)
        buffer = f"b_{step.fill}"
        if len(set(pattern)) == 1:
            self._line(
                f"if ({buffer}.bytes) check(cudaMemsetAsync({buffer}.data, {pattern[0]}, {buffer}.bytes, 0), "
                f'"filling", "{step.fill}");'
            )
            return
        self.needs_fill = True
        word = _WORDS[len(pattern)]
        value = int.from_bytes(pattern, "little")
        self._line("{")
        self._line(
            f"  {word}* a0 = ({word}*){buffer}.data; {word} a1 = {value}ULL; long long a2 = (long long)({buffer}.bytes / {len(pattern)});"
        )
        self._line("  void* args[] = {&a0, &a1, &a2};")
        self._line(
            f'  launch((const void*)&fill_kernels::fill<{word}>, "fill", Shape{{std::min<i64>((a2 + 255) / 256, 65535), 1, 1}}, '
            "Shape{256, 1, 1}, 0, false, nullptr, args);"
        )
        self._line("}")

    def _launch(self, step: Launch) -> None:
        signature = self.kernels[step.launch]
        self._line("{")
        self._depth += 1
        count = len(step.args)
        for index, (arg, parameter) in enumerate(zip(step.args, signature.parameters, strict=True)):
            self._line(f"{self._argument(arg, parameter, f'a{index}', step.launch)};")
        listed = ", ".join(f"&a{i}" for i in range(count)) or "nullptr"
        self._line(f"void* args[] = {{{listed}}};")
        cluster = "nullptr"
        if step.cluster:
            self._line(f"const Shape cluster = {self._axes(step.cluster)};")
            cluster = "&cluster"
        self._line(
            f'launch((const void*)&{NAMESPACE}::{step.launch}, "{step.launch}", {self._axes(step.grid)}, {self._axes(step.block)}, '
            f"{self.value(step.shared_bytes)}, {'true' if step.cooperative else 'false'}, {cluster}, args);"
        )
        self._depth -= 1
        self._line("}")

    def _argument(self, arg: Argument, parameter: Parameter, name: str, kernel: str) -> str:
        """Return the declaration of one argument in exactly its parameter's width."""
        if isinstance(arg, Pick):
            of = ", ".join(f"&b_{n}" for n in arg.pick)
            return f"void* {name} = pick({{{of}}}, {self.value(arg.index)}).data"
        if isinstance(arg, TensorMapArg):
            return self._tensor_map(arg, name)
        if isinstance(arg, str) and arg in self.dtypes:
            return f"void* {name} = b_{arg}.data"
        if isinstance(arg, str) and any(s.name == arg for s in self.ir.scalars):
            scalar = self.ir.scalar(arg)
            target = parameter.dtype or scalar.dtype
            return self._converted(f"s_{arg}", target, name, f"{kernel}: {arg}", real=scalar.dtype in FLOATS)
        text, _, dtype = str(arg).rpartition(":") if ":" in str(arg) else (str(arg), "", "")
        target = dtype.strip() or parameter.dtype or "int64"
        return self._converted(self.value(Expr(text)), target, name, f"{kernel}: {text}", real=False)

    @staticmethod
    def _converted(value: str, dtype: str, name: str, what: str, *, real: bool) -> str:
        what = what.replace("\\", " ").replace('"', "'")
        match dtype:
            case "float32":
                return f"float {name} = (float)({value})"
            case "float64":
                return f"double {name} = (double)({value})"
            case "float16" | "bfloat16":
                function = "half_bits" if dtype == "float16" else "bfloat16_bits"
                return f"unsigned short {name} = {function}((double)({value}))"
            case "bool":
                return f"bool {name} = ({value}) != 0"
            case _:
                c_type = C_INTEGERS[dtype]
                return f'{c_type} {name} = to<{c_type}>({"(i64)" if real else ""}({value}), "{what}")'

    def _tensor_map(self, arg: TensorMapArg, name: str) -> str:
        self.needs_tensor_map = True
        spec = arg.tensor_map
        dtype = self.dtypes[spec.tensor]
        shape = ", ".join(self.value(e) for e in self.shapes[spec.tensor])
        box = ", ".join(self.value(e) for e in spec.box)
        swizzle = "NONE" if spec.swizzle == "none" else spec.swizzle
        l2 = "NONE" if spec.l2 == "none" else f"L2_{spec.l2}"
        oob = "NAN_REQUEST_ZERO_FMA" if spec.oob == "nan" else "NONE"
        return (
            f"CUtensorMap {name} = tensor_map(b_{spec.tensor}, CU_TENSOR_MAP_DATA_TYPE_{_MAP_TYPES[dtype]}, {ITEM_BYTES[dtype]}, "
            f"{{{shape}}}, {{{box}}}, CU_TENSOR_MAP_SWIZZLE_{swizzle}, CU_TENSOR_MAP_L2_PROMOTION_{l2}, "
            f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{oob})"
        )
