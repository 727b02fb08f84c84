"""One question to a model: budget, call, journal, parse, one repair turn, meter.

Each reply is on disk and synced before it is parsed. A node that runs again after a kill finds it there, so no
finished call is ever made twice.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from cuda_harness.agents.llm.errors import provider_error
from cuda_harness.agents.llm.providers import model_label
from cuda_harness.agents.llm.transcript import conversation_sha256, reply_of, text_of
from cuda_harness.agents.reply import Reply, ReplyFault
from cuda_harness.prompts.loader import Prompt, PromptError
from cuda_harness.state.budget import Usage
from cuda_harness.state.errors import ConfigError, ReplyInvalid
from cuda_harness.state.ir import KernelIR

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from cuda_harness.agents.context import Services
    from cuda_harness.agents.llm.ledger import Reservation
    from cuda_harness.state.serde import Model

SCHEMA = "cuda-harness/reply/1"
ENLARGE = 4
"""Factor on the output limit after a reply that was cut off."""
LEAST_ENLARGED = 16_384

T = TypeVar("T")


@dataclass(frozen=True)
class ReplyKey:
    """Where a reply belongs: the same question in a resumed run has the same key."""

    role: str
    branch: str = "main"
    ordinal: int = 0
    """The attempt for a Coder, else how often the role was asked before."""
    turn: int = 0
    """Call within one question: 0, then a longer try or the repair turn."""

    @property
    def file(self) -> str:
        """Path in the run's folder."""
        return f"replies/{self.role}-{self.branch}-{self.ordinal}-{self.turn}.json"

    def next(self) -> "ReplyKey":
        """The next call of the same question."""
        return replace(self, turn=self.turn + 1)


def render(services: "Services", name: str, **values: Any) -> Prompt:  # noqa: ANN401 - templates take any value
    """Return a rendered prompt.

    Raises:
        ConfigError: If a template of the user's own folder is broken.
    """
    try:
        return services.prompts.render(name, **values)
    except PromptError as exc:
        raise ConfigError(str(exc), remedy="mend the file in the folder that `prompts` names") from exc


_COMPARED = {
    "close": {"rtol", "atol", "reduction_length"},
    "index": {"of", "axis", "ties"},
    "packed_u8": {"max_step"},
}
"""What a rule of comparison says beside its mode."""
_SILENT: dict[str, Any] = {
    "unused": False, "description": "", "why": "", "fixed": False, "multiple_of": 1, "power_of_two": False,
    "constraints": [], "intermediates": [], "edge_rules": [], "assumptions": [], "readings": [], "consequence": "",
}  # fmt: skip
"""Fields that say nothing at these values."""


def shown_ir(ir: KernelIR, *, without: Collection[str] = (), readings: bool = False) -> dict[str, Any]:
    """Return an IR as roles are shown it: without what is not set, and without rules that its modes do not use.

    Args:
        ir: The IR.
        without: Parts that this role has no use for.
        readings: Whether assumptions come with the other ways to understand the request.
    """

    def plain(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if isinstance(value, list):
            return [plain(v) for v in value]
        if not isinstance(value, dict):
            return value
        return {k: plain(v) for k, v in value.items() if k not in _SILENT or v != _SILENT[k]}

    found: dict[str, Any] = plain(ir.model_dump(mode="json", by_alias=True, exclude_none=True))
    for name in without:
        found.pop(name, None)
    for assumption in [] if readings else found.get("assumptions", []):
        assumption.pop("readings", None)
    for tensor in found.get("tensors", []):
        rule = tensor.get("compare")
        if rule is not None:
            used = {"mode", *_COMPARED.get(rule["mode"], set())}
            tensor["compare"] = {k: v for k, v in rule.items() if k in used}
    return found


def shown_set(document: "Model") -> dict[str, Any]:
    """Return a plan or a profile as roles are shown it: without what is not set. A figure of zero is one."""
    found = document.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {name: value for name, value in found.items() if value not in ("", [], {})}


def ask(services: "Services", role: str, prompt: Prompt, parse: Callable[[Reply], T], *, key: ReplyKey) -> T:
    """Return what `parse` makes of the model's reply, after one repair turn if the first is unusable.

    A reply that the output limit cut off is asked for once more with a larger limit; that is no repair.

    Args:
        services: The run's tools.
        role: Whose model answers.
        prompt: The question.
        parse: Raises ReplyFault with a reason that the model can act on.
        key: Place of the first call in the journal.

    Raises:
        ReplyInvalid: If the repaired reply is unusable as well.
        ModelRefused, ModelUnavailable, ContextTooLong: As the provider or the model says.
        BudgetExhausted: Before the call that would exceed a limit.
    """
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    messages: list[BaseMessage] = [SystemMessage(prompt.system), HumanMessage(prompt.human)]
    reply, key = _answer(services, role, messages, key)
    try:
        return parse(reply)
    except ReplyFault as fault:
        reason = _reason(reply, fault)
    services.emit("reply_rejected", role=role, branch=key.branch, ordinal=key.ordinal, reason=reason[:300])
    messages += [
        AIMessage(reply.text if reply.text.strip() else "(empty)"),
        HumanMessage(services.prompts.text("fragments/unusable", reason=reason)),
    ]
    reply, key = _answer(services, role, messages, key.next())
    try:
        return parse(reply)
    except ReplyFault as fault:
        reason = _reason(reply, fault)
    services.emit("reply_rejected", role=role, branch=key.branch, ordinal=key.ordinal, reason=reason[:300])
    msg = f"the {role}'s reply stayed unusable after a repair turn: {reason[:2_000]}"
    raise ReplyInvalid(msg, remedy="try again, or choose a stronger model with --model")


def _reason(reply: Reply, fault: ReplyFault) -> str:
    if not reply.text.strip():
        return "The reply was empty."
    if reply.cut_off:
        return f"The reply was cut off at the output limit. Be shorter: only the blocks asked for. ({fault})"
    return str(fault)


def _answer(
    services: "Services", role: str, messages: "Sequence[BaseMessage]", key: ReplyKey
) -> tuple[Reply, ReplyKey]:
    """Return the reply and the key of the call that gave it, the second one if the first was cut off."""
    reply = _call(services, role, messages, key, max_tokens=None)
    if reply.cut_off:
        limit = _enlarged(services, reply)
        services.emit("reply_cut_off", role=role, branch=key.branch, ordinal=key.ordinal, next_limit=limit)
        key = key.next()
        reply = _call(services, role, messages, key, max_tokens=limit)
    reply.raise_if_refused()
    return reply, key


def _enlarged(services: "Services", reply: Reply) -> int:
    limit = services.settings.provider.max_output_tokens or reply.usage.output_tokens or 0
    return max(LEAST_ENLARGED, ENLARGE * limit)


def _call(
    services: "Services",
    role: str,
    messages: "Sequence[BaseMessage]",
    key: ReplyKey,
    *,
    max_tokens: int | None,
) -> Reply:
    """Return the reply at `key`: from the journal when it is there, else from the model, by way of the journal."""
    asked = conversation_sha256(messages)
    if services.folder.exists(key.file):
        record = services.folder.read_json(key.file)
        services.emit(
            "reply_read_back",
            role=role,
            ordinal=key.ordinal,
            prompt_differs=record.get("prompt_sha256") != asked,
        )
        return _from_record(record)
    if services.cancelled.is_set():
        raise KeyboardInterrupt
    model = services.chat(role)
    label = model_label(model)
    chars = sum(len(text_of(m.content)) for m in messages)
    limit = max_tokens or services.settings.provider.max_output_tokens
    reservation = services.ledger.reserve(model=label, prompt_chars=chars, max_output_tokens=limit)
    services.emit(
        "model_called", role=role, branch=key.branch, ordinal=key.ordinal, turn=key.turn, model=label
    )
    start = time.monotonic()
    try:
        reply, differs = _invoke(model, label, messages, key, max_tokens)
    except BaseException:
        services.ledger.release(reservation)
        raise
    seconds = round(time.monotonic() - start, 3)
    _journal(services, key, reply, reservation, asked=asked, seconds=seconds)
    services.emit(
        "model_replied", role=role, branch=key.branch, ordinal=key.ordinal, turn=key.turn, seconds=seconds,
        input_tokens=reply.usage.input_tokens, output_tokens=reply.usage.output_tokens,
        finish_reason=reply.finish_reason, prompt_differs=differs or None,
    )  # fmt: skip
    return reply


def _invoke(
    model: "BaseChatModel",
    label: str,
    messages: "Sequence[BaseMessage]",
    key: ReplyKey,
    max_tokens: int | None,
) -> tuple[Reply, bool]:
    """Return the reply, and whether a replay says that it answered another prompt."""
    metadata = {"role": key.role, "branch": key.branch, "ordinal": key.ordinal, "turn": key.turn}
    larger: dict[str, Any] = {} if max_tokens is None else {"max_tokens": max_tokens}
    try:
        message = model.invoke(
            list(messages), {"metadata": metadata, "run_name": f"ask_{key.role}"}, **larger
        )
    except Exception as exc:
        raise provider_error(exc, model=label) from exc
    return reply_of(message), bool(message.response_metadata.get("prompt_differs"))


def _journal(
    services: "Services",
    key: ReplyKey,
    reply: Reply,
    reservation: "Reservation",
    *,
    asked: str,
    seconds: float,
) -> None:
    record = {
        "schema": SCHEMA,
        "role": key.role,
        "branch": key.branch,
        "ordinal": key.ordinal,
        "turn": key.turn,
        "prompt_sha256": asked,
        "model": reservation.model,
        "reply": reply.text,
        "finish_reason": reply.finish_reason,
        "refusal": reply.refusal,
        "usage": reply.usage.model_dump(mode="json"),
        "prompt_chars": reservation.prompt_chars,
        "seconds": seconds,
        "elapsed_s": round(services.ledger.elapsed_s, 3),
        "gpu_seconds": services.ledger.gpu_seconds,
    }
    services.folder.write_json(key.file, record)
    services.ledger.settle(
        reservation, key=key.file.rpartition("/")[2], usage=reply.usage, reply_chars=len(reply.text)
    )


def _from_record(record: Any) -> Reply:  # noqa: ANN401 - JSON of the run's folder
    if (
        not isinstance(record, dict)
        or record.get("schema") != SCHEMA
        or not isinstance(record.get("reply"), str)
    ):
        msg = "a reply in the run's folder is damaged or of another version"
        raise ConfigError(msg, remedy="start a new run")
    return Reply(
        text=record["reply"],
        finish_reason=record.get("finish_reason"),
        refusal=record.get("refusal"),
        usage=Usage.model_validate(record.get("usage") or {}),
    )
