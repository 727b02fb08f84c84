"""The device part of an exported program: prelude and kernel in a namespace of their own.

nvcc reads host headers before any line of ours, NVRTC reads none. Inside the namespace the prelude's integer types
and its `std` hide those of the host, so the kernel means here what it meant when it was verified.
"""

import re
from dataclasses import dataclass

from cuda_harness.state.expr import Expr
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.tools.toolchain.directives import as_read, directives, is_allowed, resolve_includes
from cuda_harness.tools.toolchain.headers import PRELUDE
from cuda_harness.tools.toolchain.source import inspect

NAMESPACE = "kernel_source"

HOST_INCLUDES = (
    "cuda_runtime.h", "algorithm", "cassert", "cerrno", "cfloat", "climits", "cmath", "cstdarg", "cstdint", "cstdio", "cstdlib",
    "cstring", "initializer_list", "limits", "string", "utility", "vector",
)  # fmt: skip
_FILL = """
namespace fill_kernels {
template <class T> __global__ void fill(T* data, T value, long long count) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) data[i] = value;
}
}  // namespace fill_kernels
"""


@dataclass(frozen=True)
class DevicePart:
    """Text before the host part: includes and kernel."""

    includes: str
    kernel: str


def device_part(source: str, plan: LaunchPlan, defines: dict[str, int], *, tensor_maps: bool) -> DevicePart:
    """Return the includes, and prelude, macros and kernel, for nvcc.

    Args:
        source: kernel.cu as verified.
        plan: Its plan: tunables and defines become macros.
        defines: Values of `plan.defines` at the sizes of this program.
        tensor_maps: Whether the driver's header is needed.
    """
    prelude = PRELUDE.read_text(encoding="utf-8").replace("__host__ __device__", "__device__")
    headers = resolve_includes(source).headers
    own = _defined(source)
    macros = {**plan.default_tunables(), **defines}
    taken = dict.fromkeys([*_defined(prelude), *macros, *own])
    includes = "".join(f"#include <{name}>\n" for name in HOST_INCLUDES)
    if tensor_maps:
        includes += "#include <cuda.h>\n#include <cudaTypedefs.h>\n"
    includes += "".join(f"#include <{name}>\n" for name in headers)
    kernel = "".join(f"#undef {name}\n" for name in _defined(prelude))
    kernel += f"namespace {NAMESPACE} {{\n{prelude}\n"
    for name, value in sorted(macros.items()):
        suffix = "" if -(2**31) <= value < 2**31 else "LL"
        kernel += f"#ifndef {name}\n#define {name} {value}{suffix}\n#endif\n"
    kernel += "// ---- kernel.cu ----\n" + _without_includes(source) + "\n// ---- end of kernel.cu ----\n}\n"
    kernel += "namespace compiled {\n"
    kernel += "".join(f"[[maybe_unused]] constexpr long long {name}_ = {name};\n" for name in sorted(macros))
    kernel += "}  // namespace compiled\n"
    kernel += "".join(f"#undef {name}\n" for name in taken if name != "CUDA_HARNESS_PRELUDE")
    return DevicePart(includes, kernel)


def fill_kernel() -> str:
    """Return the kernel that sets elements to one value, for values whose bytes differ."""
    return _FILL


def _defined(text: str) -> list[str]:
    """Return the macros that a text defines, in order."""
    names = []
    for _, directive, rest in directives(text):
        found = re.match(r"\w+", rest) if directive == "define" else None
        if found and found.group() not in names:
            names.append(found.group())
    return names


def _without_includes(source: str) -> str:
    """Return the kernel's text with its includes blanked and its C linkage taken off.

    In a namespace a name with C linkage would still be the global one, and could be a function of the C library.
    """
    lines = resolve_includes(source).source.split("\n")
    for include in inspect(as_read(source)).includes:
        if include.name is not None and is_allowed(include.name):
            lines[include.line - 1] = ""
    text = "\n".join(lines)
    text = re.sub(r'extern\s+"C"\s*\{', "inline namespace entries {", text)
    return re.sub(r'extern\s+"C"\s+(?=[A-Za-z_])', "", text).strip("\n")


def blocks_of(plan: LaunchPlan, kernel: str) -> tuple[tuple[Expr, ...], Expr] | None:
    """Return block and shared bytes of the plan's first launch of `kernel`, `None` when it launches none."""
    stack = list(plan.steps)
    while stack:
        step = stack.pop(0)
        if getattr(step, "launch", None) == kernel:
            return step.block, step.shared_bytes  # type: ignore[union-attr]
        stack[:0] = list(getattr(step, "steps", ()))
    return None
