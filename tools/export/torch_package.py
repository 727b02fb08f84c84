"""`torch`: a small installable package with one `torch.library` operator over the `cuda-core` form."""

import json
import keyword
from pathlib import Path

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.tools.export.cuda_core import cuda_core_module
from cuda_harness.tools.export.subject import Subject, evidence, evidence_lines, size_rules
from cuda_harness.tools.toolchain.nvrtc import Compiler

_TORCH_LACKS = frozenset({"uint16", "uint32", "uint64"})
"""Types whose support in torch is partial: an operator over them would fail in odd places."""


def torch_package(subject: Subject, *, arch: str, compiler: Compiler) -> dict[str, str]:
    """Return the package's files by relative path.

    Raises:
        ConfigError: If the kernel has no torch form.
        CompilerUnavailable: If this machine has no NVRTC.
    """
    ir = subject.ir
    _refuse(ir)
    package = package_name(ir)
    return {
        "pyproject.toml": _pyproject(subject, package),
        "README.md": _readme(subject, package),
        f"{package}/__init__.py": _operator(subject, package),
        f"{package}/kernel.py": cuda_core_module(subject, arch=arch, compiler=compiler),
        f"{package}/py.typed": "",
        "evidence.json": json.dumps(evidence(subject), indent=1) + "\n",
    }


def package_name(ir: KernelIR) -> str:
    """Return the package's name: never that of a module that Python or torch imports itself."""
    return f"{ir.name.lower()}_kernel"


def _refuse(ir: KernelIR) -> None:
    if not ir.inputs:
        msg = "a torch operator needs an input to take its device from"
        raise ConfigError(msg, remedy="export it as cuda-core")
    lacking = sorted({t.dtype for t in ir.tensors} & _TORCH_LACKS)
    if lacking:
        msg = f"torch does not fully support {', '.join(lacking)}"
        raise ConfigError(msg, remedy="export it as cuda-core")
    for name in [ir.name.lower(), *(t.name for t in ir.tensors), *(s.name for s in ir.scalars)]:
        if name in keyword.kwlist or name == "torch" or name.startswith("__"):
            msg = f"{name!r} cannot be a name in a torch operator"
            raise ConfigError(msg, remedy="rename it in ir.json, or export the kernel as standalone")


def _pyproject(subject: Subject, package: str) -> str:
    summary = "verified CUDA kernel" if subject.verified else "UNVERIFIED CUDA kernel"
    return (
        '[build-system]\nrequires = ["setuptools>=61"]\nbuild-backend = "setuptools.build_meta"\n\n'
        f'[project]\nname = "{package.replace("_", "-")}"\nversion = "1.0.0"\n'
        f'description = "{package}: a {summary} as a torch operator"\nrequires-python = ">=3.10"\n'
        'dependencies = ["torch>=2.4", "cuda-core>=1.0", "cuda-bindings", "numpy"]\n\n'
        f'[tool.setuptools]\npackages = ["{package}"]\n\n[tool.setuptools.package-data]\n{package} = ["py.typed"]\n'
    )


def _readme(subject: Subject, package: str) -> str:
    ir = subject.ir
    lines = "\n".join(f"    {line}" for line in evidence_lines(subject))
    arguments = ", ".join(t.name for t in ir.inputs)
    return (
        f"# {package}\n\n`pip install .`, then:\n\n```python\nimport {package}\n\n"
        f"y = {package}.{ir.name}({arguments})  # also torch.ops.{package}.{ir.name}\n```\n\n"
        f"What is known of this kernel (also in `evidence.json`):\n\n{lines}\n\n"
        "It has no backward pass, and never changes its inputs.\n"
    )


def _operator(subject: Subject, package: str) -> str:
    """Return `__init__.py`: the operator, its fake implementation and its checks."""
    ir = subject.ir
    tensors = [t.name for t in ir.inputs]
    scalars = [s for s in ir.scalars if not s.fixed]
    hidden = _hidden_dims(ir)
    signature = [f"{n}: torch.Tensor" for n in tensors]
    typed = [
        (s.name, "float" if s.dtype in FLOATS else "bool" if s.dtype == "bool" else "int", s.value)
        for s in scalars
    ]
    typed += [(name, "int", value) for name, value in hidden.items()]
    signature += [f"{n}: {kind} = {_value(kind, value)}" for n, kind, value in typed]
    named = ", ".join(f'"{n}": {n}' for n, _, _ in typed)
    listed = ", ".join(f'"{n}": {n}' for n in tensors)
    single = len(ir.outputs) == 1
    returns = "torch.Tensor" if single else f"tuple[{', '.join(['torch.Tensor'] * len(ir.outputs))}]"
    names = [t.name for t in ir.outputs]
    rules = "\n".join("    " + r for r in [
        *(f"{t.name}: {t.role} {t.dtype}[{', '.join(map(str, t.shape))}]" for t in ir.tensors),
        *(f"size {r}" for r in size_rules(ir))])  # fmt: skip
    shapes = ", ".join(f'_empty(given, "{t.name}", dims)' for t in ir.outputs)
    state = "verified" if subject.verified else f"UNVERIFIED: {subject.why_unverified}"
    return _TEMPLATE.format(
        package=package, name=ir.name, state=_plain(state), signature=", ".join(signature), returns=returns, rules=rules,
        listed=listed, named=named, scalars=sorted(s.name for s in scalars), names=names,
        result=f'made["{names[0]}"]' if single else f"({', '.join(f'made[{n!r}]' for n in names)})",
        made=f'{{"{names[0]}": out}}' if single else "dict(zip(NAMES, out, strict=True))",
        shapes=shapes if single else f"({shapes})",
        arguments=", ".join([*tensors, *(n for n, _, _ in typed)]),
    )  # fmt: skip


def _hidden_dims(ir: KernelIR) -> dict[str, int]:
    """Return the dims that no input's shape tells, with their target value: they become arguments."""
    told = {name for t in ir.inputs for e in t.shape for name in e.names}
    return {d.name: d.value for d in ir.dims if d.name not in told and not d.fixed}


def _value(kind: str, value: float | bool) -> str:
    if kind == "float":
        number = float(value)
        special = number != number or number in {float("inf"), float("-inf")}  # noqa: PLR0124 - NaN
        return f'float("{number}")' if special else repr(number)
    return repr(bool(value) if kind == "bool" else int(value))


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() and c not in '"\\{}' else " " for c in text)[:200]


def write_package(files: dict[str, str], out: Path) -> None:
    """Write the files of a package under `out`; raises ConfigError when the folder holds something else."""
    from cuda_harness.tools.archive.run_folder import write_atomically

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        msg = f"{str(out)!r} exists and is not an empty folder"
        raise ConfigError(msg, remedy="name a new folder with --out")
    for relative, text in files.items():
        write_atomically(out / relative, text.encode())


_TEMPLATE = '''"""The operator `torch.ops.{package}.{name}` ({state})."""

import torch

from .kernel import EVIDENCE, KERNEL, KernelError

__all__ = ["EVIDENCE", "KernelError", "{name}"]

NAMES = {names!r}
_SCALARS = {scalars!r}
_TYPES = {{"float8_e4m3": "float8_e4m3fn"}}


def _type(dtype: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, _TYPES.get(dtype, dtype))
    return found


def _check(given: dict[str, torch.Tensor], named: dict[str, float]) -> dict[str, int]:
    """Check devices, types, shapes and layout and return every size; raises KernelError."""
    first = next(iter(given.values()))
    for tensor in KERNEL.plan.inputs:
        name = tensor["name"]
        value = given[name]
        if value.device != first.device or value.device.type != "cuda":
            raise KernelError(f"{{name!r}} is on {{value.device}}; all inputs must be on one CUDA device")
        if value.dtype != _type(tensor["dtype"]):
            raise KernelError(f"{{name!r}} has dtype {{value.dtype}}, the kernel takes {{_type(tensor['dtype'])}}")
        if not value.is_contiguous():
            raise KernelError(f"{{name!r}} is not contiguous in row-major order: pass {{name}}.contiguous()")
    sizes = {{n: int(v) for n, v in named.items() if n not in _SCALARS}}
    return KERNEL.plan.infer_dims({{n: tuple(v.shape) for n, v in given.items()}}, sizes)


def _empty(given: dict[str, torch.Tensor], name: str, dims: dict[str, int]) -> torch.Tensor:
    first = next(iter(given.values()))
    return first.new_empty(KERNEL.plan.shape(name, dims), dtype=_type(KERNEL.plan.dtypes[name]))


@torch.library.custom_op("{package}::{name}", mutates_args=())
def {name}({signature}) -> {returns}:
    """Run the kernel on torch's current stream and return new tensors.

{rules}
    """
    given = {{{listed}}}
    named = {{{named}}}
    dims = _check(given, named)
    with torch.cuda.device(next(iter(given.values())).device):
        out = {shapes}
        made = {made}
        KERNEL(*(t.detach() for t in given.values()), out=made, **named)
    return {result}


@{name}.register_fake
def _({signature}) -> {returns}:
    given = {{{listed}}}
    named = {{{named}}}
    dims = _check(given, named)
    return {shapes}
'''
