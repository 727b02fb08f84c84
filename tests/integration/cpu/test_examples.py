"""Every kernel of the library gives what NumPy gives, in plain and in check mode, at small uneven sizes."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.state.suite import Case, Inputs
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.dtypes import to_reference
from cuda_harness.tools.execute.protocol import Job, JobNotRun, JobOk, Mode, Program
from cuda_harness.tools.ir.program import expand
from cuda_harness.tools.synthesize.inputs import draw, scalars_of
from cuda_harness.tools.synthesize.shapes import shapes
from cuda_harness.tools.toolchain.source import inspect

LIBRARY = Path(__file__).resolve().parents[3] / "examples" / "kernels"
BUNDLES = sorted(p.parent for p in LIBRARY.glob("*/ir.json"))
TOLERANCE = {"float16": 2e-2, "bfloat16": 5e-2, "float8_e4m3": 0.15, "float8_e5m2": 0.3}
"""Relative and absolute; float32 allows for tf32 products."""

pytestmark = pytest.mark.corpus


def _reference(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"reference_of_{folder.name}", folder / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _inputs(folder: Path) -> Inputs:
    path = folder / "inputs.json"
    return Inputs.from_json(json.loads(path.read_text()), where=str(path)) if path.exists() else Inputs()


def _same(got: Any, want: Any, defined: Any, tolerance: float) -> bool:
    left, right = np.asarray(got, np.float64).ravel(), np.asarray(want, np.float64).ravel()
    kept = np.ones(right.shape, bool) if defined is None else np.asarray(defined, bool).ravel()
    return bool(np.allclose(left[kept], right[kept], rtol=tolerance, atol=tolerance, equal_nan=True))


@pytest.mark.parametrize("mode", ["plain", "check"])
@pytest.mark.parametrize("folder", BUNDLES, ids=lambda p: p.name)
def test_bundle_matches_numpy(folder: Path, mode: Mode, cpu: CpuExecutor) -> None:
    ir, plan = KernelIR.read(folder / "ir.json"), LaunchPlan.read(folder / "plan.json")
    source, reference = (folder / "kernel.cu").read_text(), _reference(folder)
    dtypes = {t.name: t.dtype for t in ir.tensors}
    chosen = shapes(ir, plan.default_tunables().values(), count=4, budget=200_000, seed=1, largest=4096)
    for sizes in chosen[-2:]:
        case = Case(id="example", stage="tiny", dims=sizes, scalars=scalars_of(ir, "example", 0))
        data = draw(ir, _inputs(folder), case)
        program = expand(
            ir,
            plan,
            dims=sizes,
            scalars=case.scalars,
            tunables=None,
            kernels=inspect(source).kernels,
            device=cpu.device(),
        )
        assert isinstance(program, Program), program

        result = cpu.run(
            Job(
                source, program, (data,), mode=mode, poison=3, deadline_s=60, fast_math=plan.compile.fast_math
            )
        )

        if isinstance(result, JobNotRun) and result.reason == "unsupported":
            pytest.skip(f"GPU only: {result.message}")
        assert isinstance(result, JobOk), result
        shown = {name: to_reference(dtypes[name], array).copy() for name, array in data.items()}
        truth = reference.reference(shown, dict(sizes), dict(case.scalars))
        for name, want in truth.items():
            if name.endswith(".defined"):
                continue
            got = result.calls[0].arrays[name].astype(np.float64)
            assert _same(got, want, truth.get(f"{name}.defined"), TOLERANCE.get(dtypes[name], 1e-2)), (
                name,
                sizes,
            )
