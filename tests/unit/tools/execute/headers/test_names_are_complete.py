"""Every function that the toolkit's headers declare for device code is declared by ours, by name."""

import re
from pathlib import Path

import pytest

from cuda_harness.tools.execute.cpu.cache import INCLUDE
from cuda_harness.tools.execute.cpu.compiler import flags_of, host_compiler
from cuda_harness.tools.process import run
from cuda_harness.tools.toolchain.headers import include_folders

HEADERS = {
    "cuda_fp16.h": "cuda_fp16.h",
    "cuda_bf16.h": "cuda_bf16.h",
    "cuda_fp8.h": "cuda_fp8.h",
    "crt/device_functions.h": None,
    "crt/math_functions.h": None,
    "crt/sm_70_rt.h": None,
    "sm_20_intrinsics.h": None,
    "sm_30_intrinsics.h": None,
    "sm_32_intrinsics.h": None,
    "sm_60_atomic_functions.h": None,
    "sm_61_intrinsics.h": None,
    "device_atomic_functions.h": None,
    "crt/device_double_functions.h": None,
    "vector_functions.h": None,
    "cuda_pipeline_primitives.h": "cuda_pipeline_primitives.h",
}
"""Header of the toolkit and the one of ours that a kernel includes for it; `None`: none is needed."""
NOT_FOR_KERNELS = re.compile(
    r"__nv_aligned_device_malloc\w*|__cuda\w+|__cmath_power|__pow_helper|throw|switch|__half|__isConstant|__nv_cvt_\w*e8m0\w*|\w+_impl"
)
"""Allocation, launches from kernels, helpers of host compilers, words of the language, a question about constant memory, and 8-bit exponents of block scales."""
REMOVED = re.compile(
    r"__shfl(_up|_down|_xor)?|__ballot|__all|__any|all|any|ballot|syncthreads_\w+|pipeline_\w+|fdivide|[a-z0-9]+2(u?int|u?ll|double)|d(add|mul|sub)"
)
"""Of before sm_70 (without `_sync`), and aliases that no device compilation offers."""


def declared(text: str) -> set[str]:
    """Return the names of functions that a header's text declares."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    pattern = r"\b((?:__)?[a-z]\w+)\s*\([^()]*\)\s*(?:noexcept\s*)?(?:__DEF_IF_HOST|;|\{)"
    return set(re.findall(pattern, text))


@pytest.mark.parametrize("header", HEADERS)
def test_no_function_of_the_toolkit_is_missing(header: str, tmp_path: Path) -> None:
    theirs = next((d / header for d in map(Path, include_folders()) if (d / header).is_file()), None)
    if theirs is None:
        pytest.skip(f"the toolkit's headers are not installed: {header}")
    wanted = declared(theirs.read_text(encoding="utf-8", errors="replace"))
    wanted = {n for n in wanted if not NOT_FOR_KERNELS.fullmatch(n) and not REMOVED.fullmatch(n)}
    assert wanted
    own = HEADERS[header]
    lines = ['#include "sim.h"', *([f"#include <{own}>"] if own else []), "namespace probe {"]
    source = tmp_path / "probe.cpp"
    source.write_text("\n".join([*lines, *(f"using ::{n};" for n in sorted(wanted)), "}"]))
    flags = flags_of("plain", fast_math=False)

    done = run(
        [host_compiler().path, *flags, f"-I{INCLUDE}", "-fmax-errors=0", "-fsyntax-only", source],
        timeout_s=60,
    )

    assert done.ok, (
        re.findall(r"‘(\w+)’ has not been declared|'(\w+)' has not been declared", done.text()) or done.text()
    )
