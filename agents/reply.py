"""What a model's Markdown reply holds: fenced blocks, picked by what they contain rather than by their order.

A reply is untrusted text. Nothing here runs it; a reply that cannot be used raises `ReplyFault` with a reason
that the model can act on.
"""

import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cuda_harness.state.budget import Usage
from cuda_harness.state.errors import ModelRefused
from cuda_harness.state.serde import parse_python

MAX_REPLY_CHARS = 4 << 20

Language = Literal["cuda", "json", "python", "none", "other"]
_LANGUAGES: dict[str, Language] = {
    **dict.fromkeys(("cuda", "cu", "cuh", "cpp", "c++", "c", "cxx", "cc", "cuda-c", "cuda_c", "cuda-cpp", "cudac", "h"), "cuda"),
    **dict.fromkeys(("json", "json5", "jsonc"), "json"),
    **dict.fromkeys(("python", "py", "python3", "numpy"), "python"),
    "": "none",
}  # fmt: skip
_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`\r\n]*?)[ \t]*\r?$")
_THINK = r"think|thinking|thought|reasoning|reflection|scratchpad"
_OPENED = re.compile(rf"(?im)^[ \t]*<(?P<tag>{_THINK})>")
_CLOSED = re.compile(rf"(?i)</(?:{_THINK})>")


class ReplyFault(ValueError):  # noqa: N818 - a fault of the reply, fed back to the model
    """The reply cannot be used as it is; the text says why, to the model."""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: Language
    tag: str
    """The fence's info string as written."""
    text: str
    closed: bool = True


@dataclass(frozen=True)
class Reply:
    """One answer of a model, as it stands in the journal."""

    text: str
    finish_reason: str | None = None
    """`stop`, `length`, `content_filter`, or what else the provider said; `None` when it said nothing."""
    refusal: str | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def cut_off(self) -> bool:
        """Whether the output limit ended it."""
        return self.finish_reason == "length"

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All fenced blocks in order, those inside a model's thinking left out."""
        found = fenced_blocks(without_thinking(self.text))
        # An opened and never closed thought may hold the whole answer: then its blocks are all there is.
        return found or fenced_blocks(_CLOSED.sub("", _OPENED.sub("", self.text)))

    def raise_if_refused(self) -> None:
        """Raise ModelRefused when the provider or the model declined outright."""
        if self.refusal or self.finish_reason == "content_filter":
            said = (self.refusal or self.text).strip()[:500] or "no reason was given"
            msg = f"the model declined to answer: {said}"
            raise ModelRefused(msg, remedy="reword the request, or choose another model with --model")


def without_thinking(text: str) -> str:
    """Return `text` without thought tags and what they enclose; an unclosed one takes the rest with it."""
    kept = []
    while (opened := _OPENED.search(text)) is not None:
        closed = _CLOSED.search(text, opened.end())
        kept.append(text[: opened.start()])
        if closed is None:
            return "".join(kept)
        text = text[closed.end() :]
    text = "".join(kept) + text
    *_, last = _CLOSED.split(text)  # some chat templates swallow the opening tag
    return last


def fenced_blocks(text: str, *, unwrap: int = 3) -> tuple[Block, ...]:
    """Return the fenced blocks of Markdown; longer fences may hold shorter ones.

    A fence that opens with a language inside an open block of no greater length ends that block: the model forgot
    to close it, or wrapped its whole answer in one. At most `unwrap` wrappings are opened.
    """
    found: list[Block] = []
    lines: list[str] = []
    fence = indent = tag = ""
    for line in text[:MAX_REPLY_CHARS].split("\n"):
        match = _FENCE.match(line)
        if not fence:
            if match:
                fence, indent, tag, lines = match["fence"], match["indent"], match["info"], []
            continue
        same = match is not None and match["fence"][0] == fence[0] and len(match["fence"]) >= len(fence)
        if match is not None and same:
            found.append(_block(tag, lines, closed=not match["info"]))
            fence = ""
            if match["info"]:
                fence, indent, tag = match["fence"], match["indent"], match["info"]
            lines = []
        else:
            lines.append(line.removeprefix(indent).removesuffix("\r"))
    if fence:
        found.append(_block(tag, lines, closed=False))
    return tuple(inner for b in found if b.text.strip() for inner in _unwrapped(b, unwrap))


def _unwrapped(block: Block, unwrap: int) -> tuple[Block, ...]:
    """Return the blocks inside a longer fence that wraps a whole Markdown answer, or the block itself."""
    if unwrap > 0 and block.tag.lower() in {"", "markdown", "md", "text", "txt"} and "```" in block.text:
        return fenced_blocks(block.text, unwrap=unwrap - 1) or (block,)
    return (block,)


def _block(tag: str, lines: Sequence[str], *, closed: bool) -> Block:
    word = re.split(r"[\s{,:]", tag.strip().strip("{").lstrip("."), maxsplit=1)[0].lower()
    name = word.rpartition(".")[2] if "." in word else word
    language = _LANGUAGES.get(word, _LANGUAGES.get(name, "other"))
    return Block(language, tag, "\n".join(lines).strip("\n") + "\n", closed)


# ---------------------------------------------------------------------------------------------- code


def pick_kernel(blocks: Iterable[Block], entries: Iterable[str] = ()) -> str:
    """Return the source of the kernel that is meant: by tag, `__global__`, the plan's entries; the last on a tie.

    Raises:
        ReplyFault: If no block holds a kernel, or the chosen one is cut off.
    """
    wanted = sorted(set(entries))

    def score(block: Block) -> int:
        points = {"cuda": 4, "none": 2}.get(block.language, 0) + block.closed
        return points + 4 * sum(_names_kernel(block.text, entry) for entry in wanted)

    candidates = [b for b in blocks if "__global__" in b.text and b.language in {"cuda", "none", "other"}]
    return _best(
        candidates, score, 'there is no fenced block with a `extern "C" __global__` kernel in it'
    ).text


def pick_python(blocks: Iterable[Block]) -> str:
    """Return the source of the last block that defines `reference`; its syntax is checked.

    Raises:
        ReplyFault: If there is none, or it does not parse.
        ModelRefused: If there is none, and a `json` block says `{"refused": reason}`.
    """
    blocks = tuple(blocks)
    candidates = [b for b in blocks if re.search(r"(?m)^def reference\(", b.text)]
    if not candidates:
        _raise_if_declined(_objects(b.text for b in blocks if b.language == "json")[0])
    missing = "there is no fenced `python` block that defines `def reference(inputs, dims, scalars)`"
    block = _best(candidates, lambda b: (b.language == "python") + b.closed, missing)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse_python(block.text)
    except SyntaxError as exc:
        msg = f"the python block does not parse: line {exc.lineno}: {exc.msg}"
        raise ReplyFault(msg) from exc
    except (ValueError, RecursionError, MemoryError) as exc:
        msg = "the python block does not parse: it is nested too deeply or holds null bytes"
        raise ReplyFault(msg) from exc
    return block.text


def _best(candidates: Sequence[Block], score: Callable[[Block], int], missing: str) -> Block:
    if not candidates:
        raise ReplyFault(missing)
    return max(enumerate(candidates), key=lambda pair: (score(pair[1]), pair[0]))[1]


def _names_kernel(source: str, entry: str) -> bool:
    return re.search(rf"\b{re.escape(entry)}\s*\(", source) is not None


# ---------------------------------------------------------------------------------------------- JSON


def pick_json(reply: Reply, keys: Iterable[str]) -> dict[str, Any]:
    """Return the JSON object that is meant: the one with most of `keys`, the last on a tie.

    Raises:
        ReplyFault: If there is none, or the best one is not JSON even with comments and trailing commas forgiven.
        ModelRefused: If the reply's object is `{"refused": reason}`.
    """
    wanted = set(keys)
    objects, fault = _objects(_json_texts(reply))
    usable = [o for o in objects if wanted & set(o)]
    if usable:
        return max(enumerate(usable), key=lambda pair: (len(wanted & set(pair[1])), pair[0]))[1]
    _raise_if_declined(objects)
    if fault is not None:
        raise fault
    msg = f"there is no fenced `json` block with an object that has {', '.join(sorted(wanted))}"
    raise ReplyFault(msg)


def not_applicable(reply: Reply, keys: Iterable[str]) -> str:
    """Return why an idea does not apply, by a reply that says so and holds no object with any of `keys`; else empty."""
    objects, _ = _objects(_json_texts(reply))
    if any(set(keys) & set(o) for o in objects):
        return ""
    said = [str(o["not_applicable"]).strip() for o in objects if "not_applicable" in o]
    return (said[-1] or "no reason was given")[:4_000] if said else ""


def _objects(texts: Iterable[str]) -> tuple[list[dict[str, Any]], ReplyFault | None]:
    """Return the JSON objects among `texts`, and the last fault of those that are no JSON."""
    objects: list[dict[str, Any]] = []
    fault: ReplyFault | None = None
    for text in texts:
        try:
            value = read_json(text)
        except ReplyFault as exc:
            fault = exc
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects, fault


def _raise_if_declined(objects: Iterable[Mapping[str, Any]]) -> None:
    for found in objects:
        if "refused" in found:
            msg = f"the model declined: {str(found['refused'])[:4_000]}"
            raise ModelRefused(msg, remedy="make the request clearer, or choose another model with --model")


def _json_texts(reply: Reply) -> list[str]:
    blocks = reply.blocks
    texts = [b.text for b in blocks if b.language == "json"]
    texts += [b.text for b in blocks if b.language in {"none", "other"} and b.text.lstrip().startswith("{")]
    if not texts:
        bare = without_thinking(reply.text).strip()
        if bare.startswith("{") and bare.endswith("}"):
            texts.append(bare)
    return texts


def read_json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of `text`; comments and trailing commas are forgiven.

    Raises:
        ReplyFault: Names line and column.
    """
    try:
        return json.loads(text)
    except RecursionError as exc:
        msg = "the json block is nested too deeply"
        raise ReplyFault(msg) from exc
    except ValueError:
        pass
    try:
        return json.loads(_plain_json(text))
    except RecursionError as exc:
        msg = "the json block is nested too deeply"
        raise ReplyFault(msg) from exc
    except json.JSONDecodeError as exc:
        lines = text.splitlines()
        shown = lines[exc.lineno - 1].strip()[:120] if exc.lineno <= len(lines) else ""
        msg = f"the json block is not JSON: line {exc.lineno}, column {exc.colno}: {exc.msg}: {shown}"
        raise ReplyFault(msg) from exc
    except ValueError as exc:
        msg = f"the json block is not JSON: {exc}"
        raise ReplyFault(msg) from exc


_JSON_PIECE = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


def _plain_json(text: str) -> str:
    """Return JSON text with comments, then trailing commas, outside of strings blanked; lines stay where they are."""

    def blank(match: re.Match[str]) -> str:
        piece = match[0]
        if piece.startswith('"'):
            return piece
        return " " if piece == "," else "\n" * piece.count("\n")

    return _JSON_PIECE.sub(blank, _JSON_PIECE.sub(blank, text))
