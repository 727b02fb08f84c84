"""The forms of an export by name, and the writing of their files."""

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from cuda_harness.state.errors import ConfigError
from cuda_harness.tools.archive.run_folder import write_atomically
from cuda_harness.tools.export.standalone import standalone
from cuda_harness.tools.export.subject import Subject


class Written(TypedDict):
    """What was written: the path, the form, whether it is verified, and lines that say how to use it."""

    schema: str
    path: str
    form: str
    verified: bool
    notes: list[str]


def write_export(
    subject: Subject, form: str, out: Path, *, arch: str | None = None, fixed: bool = False
) -> Written:
    """Write `subject` in one form to `out` and return what was written.

    Raises:
        ConfigError: On an unknown form, or where the kernel has no such form; the user acts.
        ToolchainError: If a compiler that the form needs is missing.
    """
    forms: dict[str, Callable[[], list[str]]] = {
        "standalone": lambda: _standalone(subject, out, arch=arch, fixed=fixed),
        "torch": lambda: _torch(subject, out, arch=arch),
        "cuda-core": lambda: _cuda_core(subject, out, arch=arch),
    }
    if form not in forms:
        msg = f"unknown form {form!r}"
        raise ConfigError(msg, remedy=f"use one of: {', '.join(forms)}")
    notes = forms[form]()
    return {
        "schema": "cuda-harness/export/1",
        "path": str(out),
        "form": form,
        "verified": subject.verified,
        "notes": notes,
    }


def _target(subject: Subject, arch: str | None) -> str:
    """Return the architecture to compile for: as asked, else the verdict's, else sm_90a."""
    return arch or (subject.verdict.target if subject.verdict else None) or "sm_90a"


def _cuda_core(subject: Subject, out: Path, *, arch: str | None) -> list[str]:
    from cuda_harness.tools.export.cuda_core import cuda_core_module
    from cuda_harness.tools.toolchain.nvrtc import Compiler

    if out.suffix != ".py" or not out.stem.isidentifier():
        msg = f"{str(out)!r}: a cuda-core export is one Python module"
        raise ConfigError(msg, remedy=f"write it to {subject.ir.name}.py")
    compiler = Compiler()
    try:
        text = cuda_core_module(subject, arch=_target(subject, arch), compiler=compiler)
    finally:
        compiler.close()
    write_atomically(out, text.encode())
    return [f"from {out.stem} import {subject.ir.name}", "EVIDENCE in it says what was verified"]


def _torch(subject: Subject, out: Path, *, arch: str | None) -> list[str]:
    from cuda_harness.tools.export.torch_package import package_name, torch_package, write_package
    from cuda_harness.tools.toolchain.nvrtc import Compiler

    compiler = Compiler()
    try:
        files = torch_package(subject, arch=_target(subject, arch), compiler=compiler)
    finally:
        compiler.close()
    write_package(files, out)
    package = package_name(subject.ir)
    return [f"pip install {out}", f"import {package}; {package}.{subject.ir.name}(...)"]


def _standalone(subject: Subject, out: Path, *, arch: str | None, fixed: bool) -> list[str]:
    if out.suffix != ".cu":
        msg = f"{str(out)!r}: a standalone program is one .cu file"
        raise ConfigError(msg, remedy=f"write it to {subject.ir.name}.cu")
    program = standalone(subject, fixed=fixed, arch=arch)
    write_atomically(out, program.text.encode())
    return [f"build: nvcc {' '.join(program.build)} {out.name} -o {out.stem}", f"usage: ./{out.stem} --help"]
