"""The written schemas are current, and the contract's own examples are read as they stand."""

import json

import pytest
from tests.schemas import FOLDER, MODELS, schema_text

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.state.results import NOBODYS, REQUIRED, STAGES, Verdict

IR = """{"schema": "cuda-harness/ir/1", "name": "scaled_softmax", "summary": "Softmax over each row of scale * x.",
 "dims": [{"name": "rows", "value": 4096, "min": 1}, {"name": "cols", "value": 1024, "min": 1, "max": null,
   "multiple_of": 1, "power_of_two": false, "fixed": false}],
 "constraints": ["cols <= 65536"],
 "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["rows", "cols"]},
   {"name": "y", "role": "out", "dtype": "float32", "shape": ["rows", "cols"],
    "compare": {"mode": "close", "rtol": null, "atol": null, "reduction_length": "cols"}}],
 "intermediates": [{"name": "m", "dtype": "float32", "shape": ["rows"]}],
 "scalars": [{"name": "scale", "dtype": "float32", "value": 1.0, "fixed": false, "low": 0.1, "high": 4.0,
   "source": "assumed", "why": "not stated"}],
 "steps": [{"id": "max", "op": "reduce_max", "reads": ["x"], "writes": ["m"], "formula": "m[i] = max_j scale*x[i,j]"},
   {"id": "soft", "op": "normalize", "reads": ["x", "m", "scale"], "writes": ["y"],
    "formula": "y[i,j] = exp(scale*x[i,j]-m[i]) / sum_k exp(scale*x[i,k]-m[i])"}],
 "edge_rules": ["a row of equal values gives 1/cols"],
 "numerics": {"precision": "strict", "nonfinite": "forbid", "deterministic": false, "fast_math": false},
 "cost": {"flops": "6*rows*cols", "bytes": "8*rows*cols"},
 "mapping": {"notes": "one block per row", "bound": "memory"},
 "assumptions": [{"what": "scale", "value": "1.0", "why": "not stated"}]}"""
PLAN = """{"schema": "cuda-harness/plan/1", "tunables": {"BLOCK": [256, 128, 512]}, "defines": {"COLS": "cols"},
 "compile": {"max_registers": null, "fast_math": false},
 "scratch": [{"name": "partial", "dtype": "float32", "shape": ["cdiv(rows*cols, BLOCK)"]}],
 "steps": [{"fill": "y", "value": 0},
   {"launch": "softmax_rows", "grid": ["rows", 1, 1], "block": ["BLOCK", 1, 1], "shared_bytes": "BLOCK*4",
    "args": ["x", "y", "partial", "cols", "scale"]},
   {"repeat": {"var": "t", "count": "steps"}, "steps": [{"launch": "step", "grid": ["cdiv(n, BLOCK)"],
    "block": ["BLOCK"], "args": [{"pick": ["a", "b"], "index": "t % 2"}, {"pick": ["b", "a"], "index": "t % 2"},
    "n:int32"]}]}]}"""
VERDICT = """{"schema": "cuda-harness/verdict/1", "outcome": "rejected", "accepted": false, "executor": "cpu",
 "verified_for": null,
 "stages": [{"name": "compile", "status": "passed", "seconds": 0.1, "detail": "..."},
   {"name": "sanitizer", "status": "not_measured", "detail": "compute-sanitizer is not installed"}],
 "failure": {"stage": "tiny", "class": "data_race", "message": "line 12: ...",
   "evidence": {"line": 12, "block": [0,0,0], "thread": [5,0,0]}}}"""


@pytest.mark.parametrize("name", MODELS)
def test_written_schemas_are_current(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text() == schema_text(name), "run `make schemas`"


@pytest.mark.parametrize(("model", "text"), [(KernelIR, IR), (LaunchPlan, PLAN), (Verdict, VERDICT)])
def test_contract_examples_are_read_and_keep_every_name(model: type[KernelIR], text: str) -> None:
    given = json.loads(text)
    written = json.loads(model.parse(text, where="contract").to_json())

    def kept(part: object, whole: object) -> bool:
        if isinstance(part, dict) and isinstance(whole, dict):
            return all(k in whole and kept(v, whole[k]) for k, v in part.items())
        if isinstance(part, list) and isinstance(whole, list):
            return len(part) == len(whole) and all(map(kept, part, whole))
        return part == whole

    assert kept(given, written)


def test_stage_names_and_order_are_the_contracts() -> None:
    words = "parse policy compile launch_config tiny shapes values target repeat sanitizer"
    assert list(STAGES) == words.split()
    assert set(REQUIRED) == set(STAGES) - {"tiny", "sanitizer"}
    assert {"oracle", "weak_suite", "resources", "unsupported", "environment"} == NOBODYS
