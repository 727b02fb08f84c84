"""The files of the adversarial corpus are well formed: a case that cannot be read would judge nobody."""

import re
from pathlib import Path
from typing import get_args

import pytest
from tests.adversarial.corpus import case, honest, library, name, wrong

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.state.results import STAGES, CandidateFault

FILES = {"ir.json", "plan.json", "kernel.cu", "reference.py", "case.json"}
SOURCE = re.compile(r"faults \d+|reward_hacks \d+|own")


@pytest.mark.parametrize("folder", [*wrong(), *honest()], ids=name)
def test_bundle_is_complete_and_readable(folder: Path) -> None:
    assert {p.name for p in folder.iterdir()} - {"inputs.json"} == FILES

    ir = KernelIR.read(folder / "ir.json")
    LaunchPlan.read(folder / "plan.json")

    assert ir.outputs
    assert set(case(folder)) == {"source", "expect", "gpu_only", "why"}
    assert SOURCE.fullmatch(case(folder)["source"])
    assert 10 < len(case(folder)["why"]) < 200


@pytest.mark.parametrize("folder", wrong(), ids=name)
def test_wrong_bundle_says_how_it_must_fail(folder: Path) -> None:
    expect = case(folder)["expect"]

    assert expect["outcome"] == "rejected"
    assert expect["class"]
    assert set(expect["class"]) <= set(get_args(CandidateFault))
    assert expect["stage"]
    assert set(expect["stage"]) <= set(STAGES)


@pytest.mark.parametrize("folder", honest(), ids=name)
def test_honest_bundle_must_be_accepted(folder: Path) -> None:
    assert case(folder)["expect"] == {"outcome": "accepted"}


def test_corpus_is_as_large_as_promised() -> None:
    on_cpu = [f for f in wrong() if not case(f)["gpu_only"]]

    assert len(on_cpu) >= 90
    assert len(honest()) + len(library()) >= 60
    assert len({f.name for f in [*wrong(), *honest()]}) == len(wrong()) + len(honest())


def test_every_fault_class_has_three_wrong_bundles() -> None:
    named = [c for f in wrong() for c in case(f)["expect"]["class"]]

    few = sorted(c for c in get_args(CandidateFault) if named.count(c) < 3)

    assert few == []
