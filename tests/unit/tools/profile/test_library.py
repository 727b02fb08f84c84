"""PyTorch as a baseline: which operators are tried, and what their outputs are held against."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.profile import library
from cuda_harness.tools.profile.operators import OPERATORS, by_name, candidates
from cuda_harness.tools.profile.workload import workload
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Answer, Suite
from cuda_harness.tools.verify.bundle import load_bundle

LIBRARY = Path(__file__).resolve().parents[4] / "examples" / "kernels"


@pytest.mark.parametrize(
    ("bundle", "operator"),
    [
        ("copy", "clone"), ("axpy", "add(alpha)"), ("relu_vec4", "relu"), ("row_sum", "sum(-1)"), ("transpose_padded", "transpose"),
        ("softmax_online", "softmax"), ("layer_norm", "layer_norm"), ("rms_norm", "rms_norm"), ("matmul_tiled", "matmul"),
        ("matmul_wmma_bf16", "matmul, b transposed"), ("matvec", "mv"), ("conv2d_direct", "conv2d"), ("topk_rows", "topk"),
        ("prefix_sum", "cumsum"), ("causal_attention", "scaled_dot_product_attention"), ("batch_norm_inference", "batch_norm"),
    ],
)  # fmt: skip
def test_the_right_operator_is_among_those_tried(bundle: str, operator: str) -> None:
    assert operator in candidates(KernelIR.read(LIBRARY / bundle / "ir.json"))


@pytest.mark.parametrize("bundle", ["edit_distance", "game_of_life", "bfs_levels", "splitmix_hash"])
def test_what_pytorch_has_no_operator_for_has_no_candidate(bundle: str) -> None:
    assert candidates(KernelIR.read(LIBRARY / bundle / "ir.json")) == []


def test_names_are_unique_and_unknown_ones_are_passed_over() -> None:
    assert len({o.name for o in OPERATORS}) == len(OPERATORS)
    assert [o.name for o in by_name(["softmax", "no such", "relu"])] == ["softmax", "relu"]


class NoTorch:
    """An executor that must not be asked: the reason comes first."""

    name = "cuda:0"

    def facts(self) -> dict[str, Any]:
        pytest.fail("the device was asked although PyTorch is missing")


def test_without_pytorch_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "has_torch", lambda: False)
    made = load_bundle(LIBRARY / "copy")
    (found,) = library.torch_times(None, None, NoTorch())  # type: ignore[arg-type]
    assert made.kernel is not None
    assert (found.name, found.median_us, found.reason) == ("PyTorch", None, "PyTorch is not installed")


def reply(**fields: Any) -> dict[str, Any]:
    return {
        "status": "ok",
        "torch": "2.11",
        "operator": "relu",
        "outputs": [["float32", [64]]],
        "eager_us": [10.0, 11.0, 10.5],
        **fields,
    }


@pytest.fixture
def relu() -> Any:
    ir = KernelIR.model_validate({
        "schema": "cuda-harness/ir/1", "name": "relu", "dims": [{"name": "n", "value": 64}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]}, {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
        "steps": [{"id": "s", "op": "relu", "reads": ["x"], "writes": ["y"]}],
    })  # fmt: skip
    made = workload(ir, seed=1)
    truth = np.maximum(made.contents[0]["x"].astype(np.float64), 0.0)
    made.answers = {0: Answer({"y": truth}, {}, {"y": np.zeros(64)})}
    return made


def test_a_time_names_operator_mode_and_version(relu: Any) -> None:
    right = np.maximum(relu.contents[0]["x"], 0).tobytes()
    eager, compiled = library._times(reply(compile_us=[5.0, 5.0]), [right], relu)
    assert (eager.name, eager.median_us, eager.version, eager.notes) == (
        "torch.relu, eager",
        10.5,
        "torch 2.11",
        (),
    )
    assert (compiled.name, compiled.median_us) == ("torch.relu, max-autotune", 5.0)


def test_outputs_beyond_the_tolerance_are_told(relu: Any) -> None:
    off = (np.maximum(relu.contents[0]["x"], 0) + 0.01).tobytes()
    (eager,) = library._times(reply(), [off], relu)
    assert eager.notes
    assert "not within this IR's tolerance" in eager.notes[0]


def test_a_compiler_that_fails_leaves_the_eager_time(relu: Any) -> None:
    right = np.maximum(relu.contents[0]["x"], 0).tobytes()
    eager, compiled = library._times(reply(compile_reason="no C compiler"), [right], relu)
    assert eager.median_us == 10.5
    assert (compiled.median_us, compiled.reason) == (None, "no C compiler")


def test_no_operator_that_agrees_is_a_reason(relu: Any) -> None:
    (found,) = library._times({"status": "ok", "torch": "2.11", "operator": None}, [], relu)
    assert "no operator tried" in found.reason


def test_the_job_recognises_by_the_largest_small_case() -> None:
    references = ReferenceRunner()
    bundle = load_bundle(LIBRARY / "row_sum")
    suite = Suite(bundle.ir, bundle.reference, runner=references, seed=4, specs=bundle.specs)
    made = workload(bundle.ir, suite=suite, dims={d.name: 8 for d in bundle.ir.dims})
    job = library._job(made, suite, ["sum(-1)", "sum"], compiled=False, seed=1)
    assert not isinstance(job, str)
    header, blobs = job
    ((_, shape),) = header["small"]
    assert min(shape) > 1, "a row or a column alone would not tell sum(-1) from sum"
    assert header["truths"] == [[shape[0]]]
    assert len(blobs) == 1 + 1 + header["sets"]
    assert not header["allow_tf32"]
    references.close()
