"""Skill notes: each has a source, a bundle that shows it, and a strategy that uses it."""

from pathlib import Path
from typing import get_args

import pytest

from cuda_harness.prompts.loader import PromptError, Prompts
from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.evolve.skills import first_evidence, pick_skills
from cuda_harness.tools.evolve.strategies import BY_NAME
from cuda_harness.tools.evolve.traits import Evidence, IrTrait, SourceTrait

PROMPTS = Prompts()
LIBRARY = Path(__file__).resolve().parents[3] / "examples" / "kernels"
TRAITS = {*get_args(IrTrait), *get_args(SourceTrait)}


def evidence(bundle: str) -> Evidence:
    ir = KernelIR.read(LIBRARY / bundle / "ir.json")
    return first_evidence(ir)


def test_every_strategy_has_a_note_and_every_note_a_strategy() -> None:
    assert PROMPTS.skills() == sorted(BY_NAME)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_note_names_its_source_its_bundle_and_how_it_goes_wrong(name: str) -> None:
    skill = PROMPTS.skill(name)
    assert (LIBRARY / skill.example / "kernel.cu").is_file()
    assert len(skill.source) > 10
    assert set(skill.applies_to) <= TRAITS
    for section in ("\nDo\n", "\nWhen it pays\n", "\nHow it goes wrong\n"):
        assert section in skill.text
    assert 12 <= skill.text.count("\n") <= 30


@pytest.mark.parametrize(
    ("bundle", "expected"),
    [
        ("relu_vec4", "vector_loads"),
        ("matmul_naive", "shared_tiling"),
        ("softmax_online", "warp_shuffle_reduction"),
        ("prefix_sum", "lookback_scan"),
        ("transpose_padded", "transposing_through_shared"),
        ("histogram_u8", "privatised_atomics"),
        ("total_sum_two_stage", "two_stage_reduction"),
    ],
)
def test_the_notes_that_fit_a_problem_are_two_and_always_the_same(bundle: str, expected: str) -> None:
    notes = [PROMPTS.skill(name) for name in PROMPTS.skills()]
    chosen = pick_skills(evidence(bundle), notes)
    assert expected in chosen
    assert len(chosen) <= 2
    assert chosen == pick_skills(evidence(bundle), reversed(notes))


def test_a_strategy_shows_its_own_note_first_and_three_at_most() -> None:
    notes = [PROMPTS.skill(name) for name in PROMPTS.skills()]
    for name in BY_NAME:
        chosen = pick_skills(evidence("axpy"), notes, strategy=name)
        assert chosen[0] == name
        assert len(chosen) <= 3


def test_a_models_idea_is_not_shown_notes_of_what_was_tried() -> None:
    notes = [PROMPTS.skill(name) for name in PROMPTS.skills()]
    first = pick_skills(evidence("axpy"), notes, strategy="an_idea_of_its_own")
    assert first
    assert not set(first) & set(
        pick_skills(evidence("axpy"), notes, strategy="an_idea_of_its_own", tried=first)
    )


def test_a_note_without_front_matter_is_refused_and_an_unknown_one_named(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "bare.md").write_text("no head\n")
    (tmp_path / "skills" / "part.md").write_text("---\nname: part\n---\ntext\n")
    mine = Prompts(override=tmp_path)
    with pytest.raises(PromptError, match="front matter"):
        mine.skill("bare")
    with pytest.raises(PromptError, match="applies_to, example, source"):
        mine.skill("part")
    with pytest.raises(PromptError, match="no skill"):
        mine.skill("absent")
    assert mine.skill("coalescing").name == "coalescing"
