"""`standalone`: one .cu file with main(), raw .bin files in and out, for the exact plan."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.expr import Expr
from cuda_harness.state.ir import KernelIR, Scalar
from cuda_harness.state.names import FLOATS, ITEM_BYTES
from cuda_harness.tools.export.device import device_part, fill_kernel
from cuda_harness.tools.export.document import checked_program
from cuda_harness.tools.export.steps import StepWriter
from cuda_harness.tools.export.subject import Subject, evidence_lines
from cuda_harness.tools.toolchain.source import inspect

_HERE = Path(__file__).resolve().parent
_BARRED = frozenset({"float8_e4m3", "float8_e5m2"})


@dataclass(frozen=True)
class Standalone:
    """The program in its parts, in the order of the file."""

    head: str
    """Comment: how to build and run it, and the evidence."""
    includes: str
    device: str
    """Prelude, macros and kernel in a namespace; needs nvcc."""
    support: str
    """What main stands on: plain C++ over the runtime API, the same for every program."""
    main: str
    """The plan; it names the kernels only by their address."""
    build: tuple[str, ...]
    """The compiler's arguments without input and output, for example `-std=c++17`."""

    @property
    def text(self) -> str:
        """The whole file."""
        return self.head + self.includes + self.device + self.support + self.main


def standalone(
    subject: Subject, *, fixed: bool = False, files: Mapping[str, str] | None = None, arch: str | None = None
) -> Standalone:
    """Return the program for `subject`.

    Args:
        subject: Kernel, IR and evidence.
        fixed: Sizes are those of the IR's target and no argument changes them.
        files: Path of an array's file by tensor name, relative to where the program runs; else `data/NAME.bin`.
        arch: Architecture that the build line names; `None`: the verdict's, else sm_90a.

    Raises:
        ConfigError: If the plan cannot run at the target sizes, or holds what has no form in this export.
    """
    ir, plan = subject.ir, subject.kernel.plan
    facts = inspect(subject.kernel.source)
    done = checked_program(ir, subject.kernel)
    _refuse(ir)
    names = {d.name: f"d_{d.name}" for d in ir.dims}
    names |= {t: f"compiled::{t}_" for t in plan.tunables}
    names["num_sms"] = "num_sms"
    writer = StepWriter(
        ir, plan, {k.name: k for k in facts.kernels}, names,
        {t.name: t.dtype for t in ir.tensors} | {s.name: s.dtype for s in plan.scratch},
        {t.name: t.shape for t in ir.tensors} | {s.name: s.shape for s in plan.scratch},
    )  # fmt: skip
    steps = writer.write()
    values = dict(done.macros)
    part = device_part(
        subject.kernel.source, plan, {n: values[n] for n in plan.defines}, tensor_maps=writer.needs_tensor_map
    )
    target = arch or (subject.verdict.target if subject.verdict and subject.verdict.target else "sm_90a")
    build = ["-std=c++17", "-O3", f"-arch={target}"]
    if plan.compile.fast_math:
        build.append("-use_fast_math")
    if plan.compile.max_registers is not None:
        build.append(f"-maxrregcount={plan.compile.max_registers}")
    device = part.kernel + (fill_kernel() if writer.needs_fill else "")
    support = "\n" + _data("host.h") + (_data("tensor_map.h") if writer.needs_tensor_map else "")
    main = _main(subject, writer, steps, fixed=fixed, files=files or {})
    return Standalone(_head(subject, build), part.includes, device, support, main, tuple(build))


def _refuse(ir: KernelIR) -> None:
    for scalar in ir.scalars:
        if scalar.dtype in _BARRED:
            msg = f"scalar {scalar.name!r} is {scalar.dtype}: the standalone program passes no such scalar"
            raise ConfigError(msg, remedy="export it as cuda-core")


def _data(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _head(subject: Subject, build: list[str]) -> str:
    lines = [
        *evidence_lines(subject),
        "",
        f"build: nvcc {' '.join(build)} {subject.ir.name}.cu -o {subject.ir.name}",
        "run:   see --help; arrays are raw little-endian .bin files, row-major, default data/NAME.bin",
    ]
    return "".join(f"// {line}".rstrip() + "\n" for line in lines)


def _usage(subject: Subject, *, fixed: bool) -> str:
    ir = subject.ir
    parts = [] if fixed else [f"[--{d.name} {d.value}]" for d in ir.dims if not d.fixed]
    parts += [f"[--{s.name} {s.value}]" for s in ir.scalars if not s.fixed]
    parts += [f"[--{t.name} FILE]" for t in ir.tensors] + ["[--data-folder data]"]
    return f"usage: {ir.name} {' '.join(parts)}\\n"


def _main(subject: Subject, writer: StepWriter, steps: str, *, fixed: bool, files: Mapping[str, str]) -> str:
    ir, plan = subject.ir, subject.kernel.plan
    free = [] if fixed else [d for d in ir.dims if not d.fixed]
    known = [*(d.name for d in free), *(s.name for s in ir.scalars if not s.fixed), *(t.name for t in ir.tensors),
             "data-folder"]  # fmt: skip
    out = ["\nint main(int argc, char** argv) {\n", "  using namespace host;\n"]
    listed = ", ".join(f'"{n}"' for n in known)
    out.append(
        f'  const Arguments given = arguments(argc, argv, {{{listed}}}, "{_usage(subject, fixed=fixed)}");\n'
    )
    for d in ir.dims:
        value = f'given.integer("{d.name}", {d.value}LL)' if d in free else f"{d.value}LL"
        out.append(f"  const i64 d_{d.name} = {value};\n")
    out.append(_guards(ir, writer))
    out.append(_define_guards(subject, writer))
    out.extend(_scalar(s) for s in ir.scalars)
    if "num_sms" in _used_names(subject):
        out.append("  const i64 num_sms = device_number(cudaDevAttrMultiProcessorCount);\n")
    buffers = [(t.name, t.dtype, t.shape) for t in ir.tensors]
    buffers += [(s.name, s.dtype, s.shape) for s in plan.scratch]
    for name, dtype, shape in buffers:
        count = "1LL"
        for e in shape:
            count = f"mul({count}, counted({writer.value(e)}))"
        out.append(f'  const Buffer b_{name} = allocate("{name}", {count}, {ITEM_BYTES[dtype]});\n')
    out.extend(f"  upload(b_{t.name}, {_path(t.name, files)});\n" for t in ir.inputs)
    out.append(steps)
    out.append('  check(cudaDeviceSynchronize(), "running the kernels");\n')
    out.extend(f"  download(b_{t.name}, {_path(t.name, files)});\n" for t in ir.outputs)
    out.extend(
        f'  check(cudaFree(b_{name}.data), "freeing", "{name}");\n' for name, _, _ in reversed(buffers)
    )
    out.append("  return 0;\n}\n")
    return "".join(out)


def _path(name: str, files: Mapping[str, str]) -> str:
    if name not in files:
        return f'given.path("{name}")'
    path = files[name].replace("\\", "\\\\").replace('"', '\\"')
    return f'given.path("{name}", "{path}")'


def _guards(ir: KernelIR, writer: StepWriter) -> str:
    """Return the checks that the sizes are among those the kernel is made for."""
    lines = []
    for d in ir.dims:
        v = f"d_{d.name}"
        tests = [f"{v} == {d.value}LL"] if d.fixed else [f"{v} >= {d.min}LL"]
        if not d.fixed:
            tests += [f"{v} <= {d.max}LL"] if d.max is not None else []
            tests += [f"{v} % {d.multiple_of}LL == 0"] if d.multiple_of > 1 else []
            tests += [f"({v} == 0 || ({v} & ({v} - 1)) == 0)"] if d.power_of_two else []
        shown = " && ".join(tests).replace(v, d.name).replace("LL", "")
        lines.append(
            f'  if (!({" && ".join(tests)})) fail(2, "this kernel is not made for {d.name} = %lld: it needs %s", {v}, "{shown}");\n'
        )
    for c in ir.constraints:
        lines.append(
            f'  if ({writer.value(c)} == 0) fail(2, "this kernel is not made for these sizes: it needs %s", "{_quoted(c)}");\n'
        )
    return "".join(lines)


def _define_guards(subject: Subject, writer: StepWriter) -> str:
    """Return the checks that macros over the sizes were compiled for the sizes of this run."""
    lines = []
    for name, expr in subject.kernel.plan.defines.items():
        lines.append(
            f'  if ({writer.value(expr)} != compiled::{name}_) fail(2, "this program was compiled with {name} = %lld and these sizes '
            f'need %lld: compile it with -D{name}=%lld", compiled::{name}_, {writer.value(expr)}, {writer.value(expr)});\n'
        )
    return "".join(lines)


def _scalar(scalar: Scalar) -> str:
    name = scalar.name
    if scalar.dtype in FLOATS:
        literal = _real(float(scalar.value))
        value = literal if scalar.fixed else f'given.real("{name}", {literal})'
        return f"  const double s_{name} = {value};\n"
    literal = f"{int(scalar.value)}LL"
    value = literal if scalar.fixed else f'given.integer("{name}", {literal})'
    return f"  const i64 s_{name} = {value};\n"


def _real(value: float) -> str:
    if value != value:  # noqa: PLR0124 - the test for NaN
        return "std::numeric_limits<double>::quiet_NaN()"
    if value in {float("inf"), float("-inf")}:
        return ("-" if value < 0 else "") + "std::numeric_limits<double>::infinity()"
    return repr(value)


def _used_names(subject: Subject) -> set[str]:
    """Return the words of the plan, every free name of its expressions among them."""
    return set(re.findall(r"[A-Za-z_]\w*", subject.kernel.plan.to_json()))


def _quoted(expr: Expr) -> str:
    return expr.text.replace("\\", " ").replace('"', "'")
