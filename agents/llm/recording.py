"""`record:` and `replay:`: model replies as JSONL (`cuda-harness/recording/1`), matched by role, branch and ordinal.

A replay never reaches the network: what is not recorded is a ModelUnavailable. The file is untrusted data.
"""

import json
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr, ValidationError

from cuda_harness.agents.llm.providers import chat_model, known, model_label
from cuda_harness.agents.llm.transcript import conversation_sha256, reply_of
from cuda_harness.state.budget import Usage
from cuda_harness.state.errors import ConfigError, ModelUnavailable
from cuda_harness.state.serde import Document, describe
from cuda_harness.state.settings import Settings

MAX_FILE_BYTES = 256 << 20
MAX_LINE_BYTES = 8 << 20
MAX_LINES = 100_000


class Recorded(Document):
    """One line of a recording."""

    KIND = "cuda-harness/recording/1"

    role: str = Field(max_length=64)
    branch: str = Field(default="main", max_length=64)
    ordinal: int = Field(ge=0)
    """The attempt for a Coder, else how often the role was asked before."""
    turn: int | None = Field(default=None, ge=0)
    """Call within one question: 0, then a longer try or the repair turn. `None`: by order in the file."""
    prompt_sha256: str = Field(default="", max_length=64)
    reply: str = Field(max_length=MAX_LINE_BYTES)
    finish_reason: str | None = Field(default=None, max_length=64)
    usage: Usage | None = None


Place = tuple[str, str, int]


def read_recording(path: Path) -> dict[Place, dict[int, Recorded]]:
    """Return the replies by (role, branch, ordinal), then turn; of two for one place the later wins.

    Raises:
        ConfigError: If the file is missing, too large, or a line is no such record; names the line.
    """
    found: dict[Place, dict[int, Recorded]] = defaultdict(dict)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            msg = f"the recording {str(path)!r} is larger than {MAX_FILE_BYTES} bytes"
            raise ConfigError(msg)
        with path.open("rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), start=1):
                if number > MAX_LINES or len(line) > MAX_LINE_BYTES:
                    msg = f"the recording {str(path)!r} is too long at line {number}"
                    raise ConfigError(msg)
                if line.strip():
                    record = _parse_line(line, where=f"line {number} of {str(path)!r}")
                    turns = found[record.role, record.branch, record.ordinal]
                    turns[len(turns) if record.turn is None else record.turn] = record
    except OSError as exc:
        msg = f"cannot read the recording {str(path)!r}: {exc.strerror or exc}"
        raise ConfigError(msg, remedy="check the path after `replay:`") from exc
    return dict(found)


def _parse_line(line: bytes, *, where: str) -> Recorded:
    try:
        return Recorded.model_validate(json.loads(line.decode("utf-8")))
    except ValidationError as exc:
        msg = f"{where} is not a {Recorded.KIND}:\n" + describe(exc)
    except (ValueError, RecursionError) as exc:
        msg = f"{where} is not JSON: {exc}"
    raise ConfigError(msg, remedy="mend the line, or record anew")


class ReplayChat(BaseChatModel):
    """Answers from a recording, in place of a model."""

    path: Path
    role: str
    model_name: str = "replay"
    _replies: dict[Place, dict[int, Recorded]] = PrivateAttr(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "cuda-harness-replay"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's own signature
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ANN401, ARG002 - LangChain's own signature
    ) -> ChatResult:
        place, turn = _place(run_manager, self.role)
        record = self._replies.get(place, {}).get(turn)
        if record is None:
            role, branch, ordinal = place
            msg = f"the recording {str(self.path)!r} has no reply for role {role!r}, branch {branch!r}, ordinal {ordinal}, turn {turn}"
            raise ModelUnavailable(msg, remedy="record this run with --model record:FILE:SPEC")
        asked = conversation_sha256(messages)
        metadata: dict[str, Any] = {
            "model_name": self.model_name,
            "finish_reason": record.finish_reason,
            "prompt_differs": bool(record.prompt_sha256) and record.prompt_sha256 != asked,
        }
        message = AIMessage(
            content=record.reply, response_metadata=metadata, usage_metadata=_metered(record.usage)
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


class RecordingChat(BaseChatModel):
    """Passes calls on to another model and appends each answer to a file before returning it."""

    inner: BaseChatModel
    path: Path
    role: str
    model_name: str

    @property
    def _llm_type(self) -> str:
        return "cuda-harness-record"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ANN401 - LangChain's own signature
    ) -> ChatResult:
        (role, branch, ordinal), turn = _place(run_manager, self.role)
        result = self.inner._generate(messages, stop, run_manager, **kwargs)  # noqa: SLF001 - one run in the trace
        generation = result.generations[0]
        heads = {**(generation.generation_info or {}), **generation.message.response_metadata}
        reply = reply_of(generation.message.model_copy(update={"response_metadata": heads}))
        record = Recorded(
            role=role, branch=branch, ordinal=ordinal, turn=turn, prompt_sha256=conversation_sha256(messages),
            reply=reply.refusal or reply.text, usage=reply.usage,
            finish_reason="content_filter" if reply.refusal else reply.finish_reason,
        )  # fmt: skip
        _append(self.path, record.to_json(indent=None))
        return result


def make_replay(argument: str, *, role: str, settings: Settings) -> ReplayChat:  # noqa: ARG001 - the registry's signature
    """Return the model behind `replay:FILE`; raises ConfigError."""
    if not argument:
        msg = "`replay:` needs a file"
        raise ConfigError(msg, remedy="--model replay:FILE")
    model = ReplayChat(path=Path(argument), role=role)
    model._replies = read_recording(model.path)  # noqa: SLF001 - our own private attribute
    return model


def make_record(argument: str, *, role: str, settings: Settings) -> RecordingChat:
    """Return the model behind `record:FILE:SPEC`; raises ConfigError."""
    names = "|".join(map(re.escape, known()))
    match = re.fullmatch(rf"(?P<file>.+?):(?P<spec>(?:{names})(?::.*)?)", argument, re.DOTALL)
    if match is None:
        msg = f"`record:{argument}` needs a file and a model"
        raise ConfigError(msg, remedy="--model record:FILE:SPEC, for example record:run.jsonl:openai:NAME")
    inner = chat_model(match["spec"], role=role, settings=settings)
    return RecordingChat(
        inner=inner,
        path=Path(match["file"]),
        role=role,
        model_name=model_label(inner),
        rate_limiter=inner.rate_limiter,
    )


def _place(run_manager: CallbackManagerForLLMRun | None, role: str) -> tuple[Place, int]:
    """Return where the call stands, as `ask` put it into the call's metadata."""
    metadata = (run_manager.metadata if run_manager is not None else None) or {}
    place = (
        str(metadata.get("role", role)),
        str(metadata.get("branch", "main")),
        int(metadata.get("ordinal", 0)),
    )
    return place, int(metadata.get("turn", 0))


def _metered(usage: Usage | None) -> Any:  # noqa: ANN401 - LangChain's UsageMetadata
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    total = usage.input_tokens + usage.output_tokens
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "total_tokens": total}


def _append(path: Path, line: str) -> None:
    """Append one line in one synced write; raises ConfigError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode("utf-8", "backslashreplace"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as exc:
        msg = f"cannot write the recording {str(path)!r}: {exc.strerror or exc}"
        raise ConfigError(msg, remedy="choose a writable file after `record:`") from exc
