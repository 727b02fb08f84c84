"""Values stay data, templates say what they lack, and every prompt has the shape that its readers rely on."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.prompts import CASES, FOLDER, shown

from cuda_harness.agents.reply import fenced_blocks
from cuda_harness.prompts.loader import Prompt, PromptError, Prompts, compact_json, fenced, render
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.state.results import CandidateFault

HEADINGS = {
    "planner": ["Request", "Target"],
    "reference": ["Request", "IR"],
    "reference-again": ["Request", "IR", "Failure", "Last reference"],
    "loops": ["Request", "IR"],
    "loops-again": ["Request", "IR", "Failure", "Last reference"],
    "arbiter": ["Request", "IR", "Failure", "Reference", "Loops"],
    "coder-write": ["Target", "IR"],
    "coder-repair": ["Target", "IR", "Last kernel", "Last plan", "Failure", "History"],
    "coder-redesign": ["Target", "IR", "Failure", "History"],
    "evolver": ["Target", "IR", "Kernel", "Plan", "Profile", "History", "Names taken"],
    "coder-branch": ["Target", "IR", "Last kernel", "Last plan", "Measured", "History", "Skills"],
}


@pytest.mark.parametrize("name", CASES)
def test_prompt_is_as_agreed(name: str) -> None:
    template, values = CASES[name]
    now = shown(render(template, **values))
    assert now == (FOLDER / f"{name}.md").read_text(), (
        "read the change, then `python -m tests.golden.prompts`"
    )


@pytest.mark.parametrize("name", CASES)
def test_sections_stand_in_their_order(name: str) -> None:
    template, values = CASES[name]
    prompt = render(template, **values)
    assert prompt.system.splitlines()[0] == f"<!-- role: {prompt.role}; version: {prompt.version} -->"
    parts = re.findall(r"(?m)^# (.*)$", prompt.system) + re.findall(r"(?m)^# (.*)$", prompt.human)
    assert parts == ["Role", "Task", "Facts", "What to do", "Output form"]


@pytest.mark.parametrize("name", CASES)
def test_each_evidence_heading_is_followed_by_one_fence(name: str) -> None:
    template, values = CASES[name]
    found = re.findall(r"(?m)^## (.*)\n(`{3,})(\w+)\n", render(template, **values).human)
    assert [heading for heading, _, _ in found] == HEADINGS[name]


def test_no_template_leaves_ragged_blank_lines() -> None:
    for template, values in CASES.values():
        assert "\n\n\n\n" not in shown(render(template, **values))


def test_the_worked_examples_are_valid() -> None:
    planner = fenced_blocks(rendered("planner").system)
    KernelIR.parse(planner[-1].text, where="the planner's example")
    coder = [b for b in fenced_blocks(rendered("coder-write").system) if b.language in {"cuda", "json"}]
    assert 'extern "C" __global__' in coder[0].text
    LaunchPlan.parse(coder[1].text, where="the coder's example")


def rendered(name: str) -> Prompt:
    template, values = CASES[name]
    return render(template, **values)


def test_values_are_never_templates() -> None:
    human = render("roles/planner", request="{{ 7 * 7 }} {% include 'x' %} {# c #}", target={}).human
    assert "{{ 7 * 7 }} {% include 'x' %} {# c #}" in human


def test_markup_is_not_escaped() -> None:
    assert 'a < b && c > "d"' in render("roles/planner", request='a < b && c > "d"', target={}).human


@given(st.text())
def test_a_fence_is_never_ended_from_inside(text: str) -> None:
    block = fenced(text, "text")
    lines = block.split("\n")
    mark = lines[0].removesuffix("text")
    assert lines[-1] == mark
    assert mark not in "\n".join(lines[1:-1])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda c: st.lists(c) | st.dictionaries(st.text(), c),
    )
)
def test_compact_json_is_json(value: object) -> None:
    assert json.loads(compact_json(value)) == value


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(PromptError, match="'target' is undefined"):
        render("roles/planner", request="x")


def test_a_missing_template_is_an_error() -> None:
    with pytest.raises(PromptError, match="no prompt template"):
        render("roles/nobody")
    with pytest.raises(PromptError, match="no prompt template"):
        Prompts().text("fragments/nothing")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("no header", "must begin with"),
        ("{# role: planner; version: 2 #}{% block system %}s{% endblock %}", "no block 'human'"),
        ("{# role: planner; version: 2 #}{% block system %}{{", "is broken"),
        ("{# role: planner; version: 2 #}{% block system %}{{ 1 / 0 }}{% endblock %}{% block human %}{% endblock %}", "cannot be rendered"),
        ("{# role: planner; version: 2 #}{% block system %}{{ request.__class__.__mro__ }}{% endblock %}{% block human %}{% endblock %}", "cannot be rendered"),
    ],
)  # fmt: skip
def test_a_broken_override_is_an_error(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles/planner.md.j2").write_text(source)
    with pytest.raises(PromptError, match=said):
        Prompts(tmp_path).render("roles/planner", request="r", target={})


def test_an_override_replaces_one_file_and_leaves_the_rest(tmp_path: Path) -> None:
    (tmp_path / "fragments").mkdir()
    (tmp_path / "fragments/numerics.md.j2").write_text("OWN NUMERICS")
    prompts = Prompts(tmp_path)
    template, values = CASES["coder-write"]
    assert "OWN NUMERICS" in prompts.render(template, **values).system
    assert prompts.render("roles/planner", request="r", target={}) == render(
        "roles/planner", request="r", target={}
    )


@pytest.mark.parametrize("fault", [*get_args(CandidateFault), "unsupported", "resources"])
def test_every_fault_class_has_advice(fault: str) -> None:
    prompts = Prompts()
    assert prompts.has(f"fragments/faults/{fault}")
    assert len(prompts.text(f"fragments/faults/{fault}")) > 100
