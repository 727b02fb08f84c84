"""`cuda-core`: one Python module with the compiled kernel, its source, its plan and a function on CUDA arrays."""

import ast
import base64
import json
import keyword
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from cuda_harness.state.errors import CompilerUnavailable, ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import CompileEnvironment, CompileOk
from cuda_harness.tools.export.document import checked_program, plan_document
from cuda_harness.tools.export.subject import Subject, evidence, evidence_lines, size_rules
from cuda_harness.tools.toolchain.directives import resolve_includes
from cuda_harness.tools.toolchain.headers import DEVICE_HEADERS, PRELUDE
from cuda_harness.tools.toolchain.nvrtc import Compiler

if TYPE_CHECKING:
    from cuda_harness.tools.export.exported.kernel import CudaKernel

_HERE = Path(__file__).resolve().parent
_PARTS = ("expressions", "plan", "arrays", "device", "kernel")
"""Modules of `exported`, each after those it stands on."""


def compile_for(ir: KernelIR, kernel: Kernel, *, arch: str, compiler: Compiler) -> tuple[str, bytes]:
    """Return the key and the cubin of the kernel at its target sizes.

    Raises:
        CompilerUnavailable: If this machine has no NVRTC.
        ConfigError: If the kernel does not compile for `arch`.
    """
    from cuda_harness.tools.export.exported.kernel import CudaKernel

    macros = dict(checked_program(ir, kernel).macros)
    done = compiler.compile(
        kernel.source, arch=arch, macros=macros, fast_math=kernel.plan.compile.fast_math,
        max_registers=kernel.plan.compile.max_registers,
    )  # fmt: skip
    if isinstance(done, CompileEnvironment):
        raise CompilerUnavailable(done.message, remedy=done.remedy)
    if not isinstance(done, CompileOk):
        msg = f"the kernel does not compile for {arch}"
        raise ConfigError(msg, remedy="export a kernel that `verify` accepts, or name another --target")
    return CudaKernel.key(arch, macros), Path(done.cubin_path).read_bytes()


def device_text(kernel: Kernel) -> tuple[str, str]:
    """Return prelude and source as NVRTC takes them anywhere: our own stand-ins for umbrella headers are in the prelude."""
    resolved = resolve_includes(kernel.source)
    prelude, source = PRELUDE.read_text(encoding="utf-8"), resolved.source
    for header in resolved.headers:
        own = DEVICE_HEADERS / header
        if own.is_file():
            prelude += own.read_text(encoding="utf-8").replace("#pragma once\n", "")
            source = re.sub(rf'(?m)^[ \t]*#[ \t]*include[ \t]*[<"]{re.escape(header)}[>"].*$', "", source)
    return prelude, source


def load(ir: KernelIR, kernel: Kernel, cubins: dict[str, bytes] | None = None) -> "CudaKernel":
    """Return the kernel as a function on CUDA arrays in this process, the same that the module holds."""
    from cuda_harness.tools.export.exported.kernel import CudaKernel

    prelude, source = device_text(kernel)
    return CudaKernel(plan_document(ir, kernel), prelude, source, cubins)


def cuda_core_module(subject: Subject, *, arch: str, compiler: Compiler) -> str:
    """Return the text of the module; raises ConfigError or CompilerUnavailable."""
    ir, kernel = subject.ir, subject.kernel
    key, cubin = compile_for(ir, kernel, arch=arch, compiler=compiler)
    prelude, source = device_text(kernel)
    data = {
        "EVIDENCE": evidence(subject),
        "DOCUMENT": plan_document(ir, kernel),
        "PRELUDE": prelude,
        "SOURCE": source,
    }
    parts = [_docstring(subject, arch), runtime(), "\n\n# The kernel: data, compiled code and source.\n"]
    parts += [f"{name} = json.loads(\n{_literal(json.dumps(value))}\n)\n" for name, value in data.items()]
    parts.append(
        f'CUBINS = {{"{key}": decoded(\n{_literal(base64.b85encode(cubin).decode())}\n)}}  # {arch}\n'
    )
    parts.append(_function(ir))
    return "".join(parts)


def _docstring(subject: Subject, arch: str) -> str:
    lines = [*evidence_lines(subject), "", f"Holds code for {arch}; elsewhere NVRTC compiles the source.",
             "Needs: cuda-core, cuda-bindings, numpy (and ml-dtypes for bfloat16 and fp8 results on the host)."]  # fmt: skip
    text = "\n".join(lines).replace('"""', "'''").rstrip('"')
    return f'"""{text}\n"""\n\n'


def runtime() -> str:
    """Return the modules of `exported` as one text: their imports once, without those of ours, then their code."""
    imports: dict[str, None] = {}
    bodies = []
    for part in _PARTS:
        text = (_HERE / "exported" / f"{part}.py").read_text(encoding="utf-8")
        lines, last = text.splitlines(), 0
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cuda_harness."):
                last = node.end_lineno or 0
            elif isinstance(node, ast.Import | ast.ImportFrom):
                last = node.end_lineno or 0
                imports |= dict.fromkeys(_one_by_one(node))
        bodies.append("\n".join(lines[last:]).strip("\n"))
    return "\n".join(sorted(imports)) + "\n\n" + "\n\n\n".join(bodies) + "\n"


def _one_by_one(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return an import as statements of one name each, so that the same name of two modules is the same line."""
    head = f"from {node.module} import " if isinstance(node, ast.ImportFrom) else "import "
    return [head + (f"{n.name} as {n.asname}" if n.asname else n.name) for n in node.names]


def _literal(text: str) -> str:
    """Return Python source for a long string: short adjacent literals, no character left to chance."""
    pieces = [text[i : i + 100] for i in range(0, len(text), 100)] or [""]
    return textwrap.indent("\n".join(repr(p) for p in pieces), "    ")


def _function(ir: KernelIR) -> str:
    """Return the named function over the kernel; its parameters are the IR's."""
    barred = {*keyword.kwlist, "out", "stream", "KERNEL", "Any"}
    for name in [ir.name, *(s.name for s in ir.scalars)]:
        if name in barred:
            msg = f"{name!r} cannot be a name in a Python function"
            raise ConfigError(msg, remedy="rename it in ir.json, or export the kernel as standalone")
    arrays = [f"{_safe(t.name, barred)}: Any" for t in ir.inputs]
    named = [f"{s.name}: Any = {_default(s.value)}" for s in ir.scalars if not s.fixed]
    signature = ", ".join([*arrays, "*", *named, "out: Any = None", "stream: Any = None", "**sizes: int"])
    passed = ", ".join(
        [
            *(_safe(t.name, barred) for t in ir.inputs),
            *(f"{s.name}={s.name}" for s in ir.scalars if not s.fixed),
        ]
    )
    shapes = [f"{t.name}: {t.role} {t.dtype}[{', '.join(map(str, t.shape))}]" for t in ir.tensors]
    rules = [f"size {r}" for r in size_rules(ir)]
    body = "\n".join(["    " + line for line in [*shapes, *rules]])
    given = f"{passed}, " if passed else ""
    return (
        "\nKERNEL = CudaKernel(DOCUMENT, PRELUDE, SOURCE, CUBINS)\n\n\n"
        f'def {ir.name}({signature}) -> Any:\n    """Run the kernel on CUDA arrays; see `CudaKernel.__call__`.\n\n{body}\n    """\n'
        f"    return KERNEL({given}out=out, stream=stream, **sizes)\n"
    )


def _safe(name: str, barred: set[str]) -> str:
    return f"{name}_" if name in barred else name


def _default(value: float | bool) -> str:
    if isinstance(value, float) and (value != value or value in {float("inf"), float("-inf")}):  # noqa: PLR0124
        return f'float("{value}")'
    return repr(value)
