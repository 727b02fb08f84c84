"""Branches of the templates: ideas read from prompts, another kernel for each, and a refusal where nothing applies."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from cuda_harness.agents.coder import parse_kernel
from cuda_harness.agents.gate import check_kernel, design_sha256
from cuda_harness.agents.ideas import parse_proposals
from cuda_harness.agents.llm.offline.author import answer
from cuda_harness.agents.llm.offline.lowering.schedule import PLAIN, branch, ideas_for, lower
from cuda_harness.agents.llm.offline.lowering.style import CANONICAL, IDEAS, Style, read_idea, style_of
from cuda_harness.agents.llm.offline.planning.planner import plan
from cuda_harness.agents.reply import Reply, not_applicable
from cuda_harness.prompts.loader import render
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.tools.evolve.strategies import STRATEGIES

TARGET = {"arch": "sm_90a"}


def ir_of(request: str) -> KernelIR:
    return KernelIR.model_validate(plan(request))


def first_of(ir: KernelIR) -> Kernel:
    source, data = lower(ir)
    return Kernel(source=source, plan=LaunchPlan.model_validate(data))


def shown(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def branch_reply(ir: KernelIR, last: Kernel, idea: str) -> Reply:
    prompt = render(
        "roles/coder", target=TARGET, ir=shown(ir), last_kernel=last.source, last_plan=shown(last.plan), failure=None,
        history=[], skills=[], advice="", action="branch", idea=idea,
    )  # fmt: skip
    return Reply(answer(prompt.system, prompt.human))


def test_a_branch_prompt_is_answered_with_another_kernel_that_the_gate_takes() -> None:
    ir = ir_of("softmax of each row, 4096 x 1024")
    first = first_of(ir)
    written = parse_kernel(
        branch_reply(ir, first, "online_one_pass: one pass over the data"), ir, {0: design_sha256(first)}
    )
    assert "x_held" in written.source
    assert "x_held" not in first.source
    assert len(written.plan.tunables["GROUP"]) > 1


def test_a_branch_of_a_branch_keeps_the_ideas_of_its_parent() -> None:
    ir = ir_of("relu of 2^20 floats")
    one = parse_kernel(branch_reply(ir, first_of(ir), "vector_loads: 16 bytes at once"), ir, {})
    two = parse_kernel(branch_reply(ir, one, "let a persistent grid stride over the work"), ir, {})
    assert style_of(two.plan.notes).ideas == {"vector_loads", "persistent_grid"}
    assert "num_sms" in two.plan.model_dump_json()


@pytest.mark.parametrize(
    ("request_text", "idea", "reason"),
    [
        ("relu of 2^20 floats", "use quantum annealing", "not among the templates'"),
        ("index of the largest value of each column, 64 x 32", "lookback_scan: one pass", "changes nothing in this kernel"),
        ("sum of each row, 64 x 128", "kernel_fusion: join launches", "changes nothing in this kernel"),
        ("softmax of each row, 4096 x 1024", "vector_loads: 16 bytes", "the same kernel as online one pass"),
        ("relu of 2^20 floats", "instruction_parallelism: two packs", "the same kernel as vector loads"),
    ],
)  # fmt: skip
def test_an_idea_that_does_not_apply_is_answered_so(request_text: str, idea: str, reason: str) -> None:
    ir = ir_of(request_text)
    said = not_applicable(branch_reply(ir, first_of(ir), idea), ("steps",))
    assert reason in said


@pytest.mark.parametrize(
    "request_text", ["softmax of each row, 4096 x 1024", "matmul of 512 x 512 fp16 matrices", "sum of 2^20 floats", "transpose a 512 x 256 matrix"]
)  # fmt: skip
def test_no_two_ideas_are_answered_with_one_kernel(request_text: str) -> None:
    ir = ir_of(request_text)
    first = first_of(ir)
    written = []
    for strategy in STRATEGIES:
        reply = branch_reply(ir, first, f"{strategy.name}: {strategy.description}")
        if not not_applicable(reply, ("steps",)):
            written.append(design_sha256(parse_kernel(reply, ir, {0: design_sha256(first)})))
    assert len(written) == len(set(written)) > 1


@pytest.mark.parametrize("strategy", [s.name for s in STRATEGIES])
def test_every_strategy_of_the_rules_is_read_or_unknown(strategy: str) -> None:
    name = read_idea(f"{strategy}: whatever it says")
    assert name == strategy or strategy not in IDEAS


@pytest.mark.parametrize(
    ("text", "idea"),
    [
        ("Load four floats at once with float4.", "vector_loads"), ("Use a persistent grid of num_sms blocks.", "persistent_grid"),
        ("unroll so that each thread has several independent elements", "instruction_parallelism"),
        ("keep the row in registers and read it once (single pass)", "online_one_pass"), ("prefetch the next tile", "double_buffering"),
        ("pray", ""),
    ],
)  # fmt: skip
def test_ideas_are_read_from_their_words(text: str, idea: str) -> None:
    assert read_idea(text) == idea


def test_notes_carry_the_style() -> None:
    style = Style(frozenset({"vector_loads", "launch_bounds"}))
    assert style_of(f"design: fused; {style.note}; more words") == style
    assert style_of("ideas: unheard_of") == PLAIN
    assert set(CANONICAL) == set(IDEAS)
    assert len(CANONICAL) == len(IDEAS)


def test_the_evolver_is_told_ideas_that_change_this_kernel() -> None:
    ir = ir_of("transpose a 512 x 256 matrix")
    kernel = first_of(ir)

    def asked(used: list[str]) -> Reply:
        prompt = render(
            "roles/evolver", target=TARGET, ir=shown(ir), kernel=kernel.source, plan=shown(kernel.plan), profile=None, history=[],
            used=used, most=2,
        )  # fmt: skip
        return Reply(answer(prompt.system, prompt.human))

    names = [i["name"] for i in json.loads(asked([]).blocks[0].text)["ideas"]]
    assert names[0] == "transposing_through_shared"
    assert len(parse_proposals(asked([]), set()).ideas) == len(names) <= 2
    assert "stop" in json.loads(asked(list(ideas_for(ir, PLAIN, ()))).blocks[0].text)


LETTERS = "bcdefghklopqrstuvwz"
SHAPES = (
    "out[i] = {a}[i] + {b}[i]", "out[i] = sum_j {a}[i,j]*{b}[i,j]", "out[i,j] = {a}[i,j]/sum_k {a}[i,k] + {b}[j]", "out[j] = sum_i {a}[i,j]*{b}[i,j]",
    "out[i,j] = {a}[j,i] + {b}[i,j]", "out[i,j] = sum_m {a}[i,m]*{b}[m,j]", "out[i] = sum_{{m<=i}} {a}[m]",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_no_local_of_a_kernel_hides_an_array(shape: str) -> None:
    for one, two in pairwise(c for c in LETTERS if c not in "ijkm"):
        text = shape.format(a=one, b=two)
        ir = ir_of(text)
        for name in ("", *ideas_for(ir, PLAIN, ())):
            source, _ = branch(ir, name, PLAIN) if name else lower(ir)
            for head, body in re.findall(
                r"__global__ void[^(]*(?:\(\d+\) \w+)?\(([^)]*)\) \{(.*?)\n\}", source, re.DOTALL
            ):
                parameters = {p.split()[-1].lstrip("*") for p in head.split(",")}
                declared = set(
                    re.findall(
                        r"\b(?:int|int64_t|unsigned|float|bool|Pack<\w+>|T) (\w+)\s*(?:=|\[|;|,)", body
                    )
                )
                assert not parameters & declared, (text, name)


MIXED = (
    "softmin over each column of a 300 x 200 matrix", "y[i,j] = softplus(x[i,j]); s[i] = sum_j y[i,j]; z[i,j] = y[i,j]/s[i] + b[j]",
    "c[i,j] = sum_k a[i,k]*b[k,j]; m[i] = max_j c[i,j]; t[j,i] = c[i,j] - m[i]",
    "s[i] = sum_j x[i,j]; t[j] = sum_i x[i,j]; u = sum_i s[i]; y[i,j] = x[i,j]*s[i]*t[j]/u",
)  # fmt: skip


@pytest.mark.parametrize("request_text", MIXED)
@pytest.mark.parametrize("idea", IDEAS)
def test_skills_in_one_plan_keep_out_of_each_others_way(request_text: str, idea: str) -> None:
    ir = ir_of(request_text)
    source, data = lower(ir, 0, Style(frozenset({idea, "vector_loads"})))
    kernel = Kernel(source=source, plan=LaunchPlan.model_validate(data))
    check_kernel(kernel, ir, {})
    macros = {*kernel.plan.tunables, *kernel.plan.defines}
    assert not macros & set(re.findall(r"\b(?:constexpr int|,) ([A-Z][A-Z_]*) =", source))
    structs = re.findall(r"struct alignas\(.*\) (\w+) \{", source)
    assert len(structs) == len(set(structs))
