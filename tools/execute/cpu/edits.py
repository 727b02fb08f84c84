"""Edits of a kernel's text by places in its syntax tree: bytes replaced or put in, lines kept."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Node = Any
"""A `tree_sitter.Node`; the package publishes no protocol."""


@dataclass(frozen=True, order=True)
class Edit:
    """Put `text` in place of `start:end`, in bytes; of several at one place, the lower `rank` stands first."""

    start: int
    rank: int
    end: int
    text: str


def applied(data: bytes, edits: Iterable[Edit]) -> str:
    """Return the text with the edits made; one that lies within what another replaces is left out."""
    pieces, at = [], 0
    for edit in sorted(edits):
        if edit.start < at:
            continue
        pieces += [data[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*pieces, data[at:]]).decode("utf-8", "replace")


def text_of(node: Node, data: bytes) -> str:
    """Return the text of a node."""
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def nodes(root: Node, kinds: set[str]) -> Iterator[Node]:
    """Yield the nodes of some kinds within `root`, itself included, in the order of the text."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in kinds:
            yield node
        stack.extend(reversed(node.children))
