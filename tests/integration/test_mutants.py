"""Mutants of the library are killed, and the list of equivalent ones speaks of mutants that exist."""

import json
from pathlib import Path

import pytest
from tests.adversarial.corpus import LIBRARY, library
from tests.adversarial.mutants import EQUIVALENT, mutants_of, run, sample, score


@pytest.mark.parametrize("bundle", ["axpy", "row_sum", "stencil_1d"])
def test_mutants_are_killed(bundle: str, tmp_path: Path) -> None:
    records = run([LIBRARY / bundle], each=6, seed=2, out=tmp_path / "mutants.jsonl")
    assert [r for r in records if r["end"] in {"survived", "undecided"}] == []
    assert score(records)["killed"] >= 4
    assert run([LIBRARY / bundle], each=6, seed=2, out=tmp_path / "mutants.jsonl") == records


def test_the_same_seed_gives_the_same_mutants_and_one_edit_each() -> None:
    folder = LIBRARY / "axpy"
    original = (folder / "kernel.cu").read_text(), (folder / "plan.json").read_text()
    chosen = sample(folder, 8, 3)
    assert chosen == sample(folder, 8, 3) != sample(folder, 8, 4)
    assert len({m.key for m in chosen}) == 8
    for mutant in mutants_of(folder):
        assert (mutant.source != original[0]) == bool(mutant.line)
        assert (json.loads(mutant.plan) != json.loads(original[1])) == (not mutant.line)


def test_every_operator_finds_its_place_in_the_library() -> None:
    found = {m.operator for folder in library() for m in mutants_of(folder)}
    assert found == {
        "arithmetic", "axis", "barrier", "block", "call", "constant", "deletion", "fill", "grid", "guard", "index",
        "relation", "scratch", "shared", "type",
    }  # fmt: skip


def test_equivalent_mutants_exist_and_are_argued() -> None:
    arguments = json.loads(EQUIVALENT.read_text())
    keys = {m.key for folder in library() for m in mutants_of(folder)}
    assert set(arguments) <= keys
    assert all(len(text) > 30 for text in arguments.values())
