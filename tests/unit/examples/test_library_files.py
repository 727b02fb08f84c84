"""The library of kernels as files: each bundle reads, expands, compiles, and its reference runs at a small size."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.adversarial.corpus import library, name, small_dims

from cuda_harness.state.results import CompileOk
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.dtypes import np_dtype, to_reference
from cuda_harness.tools.execute.protocol import DeviceFacts, Program
from cuda_harness.tools.ir.check import check_ir
from cuda_harness.tools.ir.program import expand
from cuda_harness.tools.synthesize.inputs import draw
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.toolchain.source import inspect
from cuda_harness.tools.verify.bundle import Bundle, load_bundle

FILES = {"ir.json", "plan.json", "kernel.cu", "reference.py", "NOTE.md"}
SECTIONS = ("**When it pays.**", "**How it goes wrong.**", "**Source of the idea.**")
FEATURES = {
    "warp shuffles": "__shfl_", "votes": "__ballot_sync", "match": "__match_any_sync", "reduce": "__reduce_add_sync",
    "counted barrier": "__syncthreads_count", "cooperative groups": "tiled_partition", "coalesced groups": "coalesced_threads",
    "grid barrier": "grid.sync", "dynamic shared": "extern __shared__", "constant memory": "__constant__",
    "device globals": "__device__ unsigned int", "cached loads": "__ldg", "vectors": "float4", "fences": "__threadfence",
    "compare and swap": "atomicCAS", "half": "cuda_fp16.h", "bfloat16": "cuda_bf16.h", "fp8": "cuda_fp8.h",
    "int SIMD": "__vavgu4", "dp4a": "__dp4a", "cub reduce": "BlockReduce", "cub scan": "BlockScan", "cub sort": "BlockRadixSort",
    "tensor cores": "wmma::mma_sync", "async copy": "__pipeline_memcpy_async", "barrier object": "cuda::barrier",
    "pipeline object": "cuda::pipeline", "inline PTX": "asm(", "cuda::std": "cuda::std::", "templates": "template <",
    "launch bounds": "__launch_bounds__",
}  # fmt: skip


def reference(folder: Path) -> Callable[..., dict[str, Any]]:
    """Return the reference of one of our own bundles."""
    spec = importlib.util.spec_from_file_location(f"reference_{folder.name}", folder / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., dict[str, Any]] = module.reference
    return found


def expanded(bundle: Bundle, dims: dict[str, int]) -> Program:
    kernel = bundle.kernel
    assert kernel is not None, bundle.plan
    program = expand(
        bundle.ir, kernel.plan, dims=dims, scalars={}, tunables=None, kernels=inspect(bundle.source).kernels,
        device=DeviceFacts("a GPU"),
    )  # fmt: skip
    assert isinstance(program, Program), program.message
    return program


@pytest.mark.parametrize("folder", library(), ids=name)
def test_bundle_is_complete(folder: Path) -> None:
    assert {p.name for p in folder.iterdir()} - {"inputs.json", "__pycache__"} == FILES

    bundle = load_bundle(folder)

    assert bundle.kernel is not None, bundle.plan
    assert check_ir(bundle.ir) == []
    assert inspect(bundle.source).violations == ()


@pytest.mark.parametrize("folder", library(), ids=name)
def test_note_says_when_it_pays_and_how_it_goes_wrong(folder: Path) -> None:
    note = (folder / "NOTE.md").read_text(encoding="utf-8")

    assert note.startswith("# ")
    assert all(note.count(section) == 1 for section in SECTIONS)
    assert 10 <= len(note.splitlines()) <= 25


@pytest.mark.parametrize("folder", library(), ids=name)
def test_plan_expands_at_small_and_target_sizes(folder: Path) -> None:
    bundle = load_bundle(folder)

    for dims in (small_dims(bundle.ir), bundle.ir.target_dims):
        assert expanded(bundle, dims).ops


@pytest.mark.parametrize("folder", library(), ids=name)
def test_reference_gives_every_output_and_leaves_inputs_alone(folder: Path) -> None:
    bundle = load_bundle(folder)
    dims = small_dims(bundle.ir)
    scalars = {s.name: s.value for s in bundle.ir.scalars}
    drawn = draw(bundle.ir, bundle.specs, Case(id="small", stage="shapes", dims=dims, seed=7))
    seen = {t.name: to_reference(t.dtype, drawn[t.name]) for t in bundle.ir.inputs}
    kept = {k: v.copy() for k, v in seen.items()}

    out = reference(folder)(seen, dict(dims), scalars)

    assert {k.removesuffix(".defined") for k in out} == {t.name for t in bundle.ir.outputs}
    for tensor in bundle.ir.outputs:
        value = np.asarray(out[tensor.name])
        exact = not tensor.dtype.startswith(("float", "bfloat"))
        assert value.shape == tensor.dims(dims)
        assert value.dtype == (np_dtype(tensor.dtype) if exact else np.float64)
    for tensor in bundle.ir.inputs:
        np.testing.assert_array_equal(seen[tensor.name], kept[tensor.name])


@pytest.mark.corpus(6)
@pytest.mark.parametrize("folder", library(), ids=name)
def test_kernel_compiles_for_hopper(folder: Path, compiler: Compiler) -> None:
    bundle = load_bundle(folder)
    program = expanded(bundle, small_dims(bundle.ir))

    result = compiler.compile(bundle.source, arch="sm_90a", macros=dict(program.macros))

    assert isinstance(result, CompileOk), result
    assert {op.name for op in inspect(bundle.source).kernels} <= {k.name for k in result.kernels}


def test_library_shows_every_feature_the_cpu_executor_claims() -> None:
    text = "\n".join((f / "kernel.cu").read_text(encoding="utf-8") for f in library())

    missing = [feature for feature, spelling in FEATURES.items() if spelling not in text]

    assert missing == []


def test_library_is_general_where_the_ir_is() -> None:
    """A bundle that shows a skill must not be one that works at a single size."""
    fixed = [f.name for f in library() if all(d.fixed for d in load_bundle(f).ir.dims)]

    assert fixed == []
