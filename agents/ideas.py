"""A round's ideas from the model, when the rules have too few: one call, one JSON block, at most K ideas."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from cuda_harness.agents.ask import ReplyKey, ask, render, shown_ir, shown_set
from cuda_harness.agents.reply import Reply, ReplyFault, pick_json
from cuda_harness.state.errors import ModelRefused, ReplyInvalid
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.serde import Model, describe

if TYPE_CHECKING:
    from cuda_harness.agents.context import Services


class Proposal(Model):
    """One idea of the model's."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{2,31}$")
    idea: str = Field(min_length=8, max_length=800)
    expectation: str = Field(default="", max_length=300)


class Proposals(Model):
    """The model's reply: ideas, or why there is none."""

    ideas: tuple[Proposal, ...] = ()
    stop: str = Field(default="", max_length=2_000)


def propose(
    services: "Services",
    *,
    round_number: int,
    most: int,
    ir: KernelIR,
    kernel: Kernel,
    profile: dict[str, Any] | None,
    target: dict[str, Any],
    history: list[str],
    used: Iterable[str],
) -> tuple[Proposal, ...]:
    """Return at most `most` new ideas; none when the model has none, refuses or stays unusable.

    Raises:
        ModelUnavailable, ContextTooLong: As the provider says.
        BudgetExhausted: Before the call that would exceed a limit.
    """
    known = set(used)
    prompt = render(
        services, "roles/evolver", target=target, ir=shown_ir(ir, without=("assumptions",)),
        kernel=kernel.source, plan=shown_set(kernel.plan),
        profile=profile, history=history, used=sorted(known), most=most,
    )  # fmt: skip

    def parse(reply: Reply) -> Proposals:
        return parse_proposals(reply, known)

    try:
        found = ask(services, "evolver", prompt, parse, key=ReplyKey("evolver", "main", round_number))
    except (ModelRefused, ReplyInvalid) as exc:
        services.emit("ideas_missing", round=round_number, reason=exc.message[:300])
        return ()
    if not found.ideas:
        services.emit("ideas_missing", round=round_number, reason=found.stop[:300])
    return found.ideas[:most]


def parse_proposals(reply: Reply, used: set[str]) -> Proposals:
    """Return the ideas in a reply; raises ReplyFault with what does not fit."""
    data = pick_json(reply, ("ideas", "stop"))
    if isinstance(data, dict):
        data = {k: v for k, v in data.items() if k in {"ideas", "stop"}}
    try:
        found = Proposals.model_validate(data)
    except ValidationError as exc:
        msg = (
            'the block must be {"ideas": [{"name", "idea", "expectation"}]} or {"stop": "why"}:\n'
            + describe(exc)
        )
        raise ReplyFault(msg) from exc
    names = [i.name for i in found.ideas]
    again = sorted({n for n in names if n in used or names.count(n) > 1})
    if again:
        msg = f"{', '.join(again)} was tried already; propose something else, or stop"
        raise ReplyFault(msg)
    if not found.ideas and not re.search(r"\w", found.stop):
        msg = "the block holds neither ideas nor a reason to stop"
        raise ReplyFault(msg)
    return found
